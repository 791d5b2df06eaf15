package model

// This file determines the initial center, scale and transform of a numeric column from its first readings.

import (
	"math"
	"slices"
)

const (
	// FirstReadings is the largest number of readings that Begin uses.
	FirstReadings = 32
	// OutlierAt is the distance from the mean, in standard deviations, at which a reading beyond the clip is counted.
	// If the fraction of such readings is below 1/OutlierAt^2, the standard deviation stays bounded.
	OutlierAt = 4
	// fence defines outliers among the first readings. A reading is an outlier if its distance from the median exceeds
	// fence times d. Within the distance d of the median are three quarters of the readings. For normal readings, fence
	// times d is ScalerClip standard deviations.
	fence = 9
	// A transform may be selected from chooseFrom readings on. A transform is selected if its gain in log-likelihood is
	// at least chooseAt nats per reading. For 32 normal or uniform readings there is no gain. Exponential readings, and
	// lognormal readings whose logarithm has deviation 1, reach chooseAt in less than 1 % of cases. Lognormal readings
	// of deviation 3 reach chooseAt in 95 % of cases.
	chooseFrom, chooseAt = 16, 0.7
	// A column has no scale until leastDiffering readings differ from the most frequent reading, because the first
	// different reading may be an outlier.
	leastDiffering = 4
)

// Begin sets the statistics of a numeric column from its first n readings. readings has the first min(n, FirstReadings)
// readings; the remaining readings are assumed to equal the median. A minority of outliers does not affect the center,
// the scale and the transform, because outliers count as if they were close to the other readings. If FirstReadings
// readings are almost all equal, the column has no scale yet. If transforms is set and the tails are heavy, the statistics
// are of asinh(x/u), where u is the power of two nearest to the median absolute value. The function is nearly linear close
// to 0, and logarithmic far from it.
func (s *Scaler) Begin(stats []float64, n float64, readings []float64, transforms bool) {
	var room [FirstReadings]float64
	x := append(room[:0], readings...)
	slices.Sort(x)
	from, to, median := withoutOutliers(x)
	if differing := len(x) - equal(x, median); differing == 0 || len(x) == FirstReadings && differing < leastDiffering {
		s.Set(stats, n, median, 0, 0)
		return
	}
	unit := 0.0
	if transforms && len(x) >= chooseFrom {
		// Heavy tails look like outliers, so at most one reading in sixteen is excluded.
		for len(x)-(to-from) > len(x)/16 {
			if to == len(x) || from > 0 && median-x[from-1] < x[to]-median {
				from--
			} else {
				to++
			}
		}
		if u := usualSize(x[from:to]); gain(x[from:to], u) > chooseAt {
			unit = u
			for i, v := range x {
				x[i] = math.Asinh(v / unit)
			}
		}
		from, to, median = withoutOutliers(x)
	}
	further := n - float64(len(x)) // number of readings assumed at the median
	mean, m2 := moments(x[from:to], further, median)
	if from > 0 || to < len(x) {
		far := OutlierAt * math.Sqrt(m2/(further+float64(to-from)))
		for i := range x {
			x[i] = max(mean-far, min(x[i], mean+far))
		}
		mean, m2 = moments(x, further, median)
	}
	s.Set(stats, n, mean, m2, unit)
}

// Set sets the current statistics of a column that is centered and scaled: the number of readings, their mean and the
// sum of squared deviations from the mean. If unit is not 0, they are the statistics of asinh(x/unit) for the readings
// x.
func (s *Scaler) Set(stats []float64, n, mean, squares, unit float64) {
	stats[StatCount], stats[StatMean], stats[StatSquares] = n, mean, squares
	stats[StatCenter], stats[StatInverse] = mean, packUnit(inverseScale(mean, squares/n), unit)
}

// equal returns the number of readings in x that equal a.
func equal(x []float64, a float64) (n int) {
	for _, v := range x {
		if v == a {
			n++
		}
	}
	return n
}

// withoutOutliers returns the range of ascending readings without outliers, and their median.
func withoutOutliers(x []float64) (from, to int, median float64) {
	median, far := Fence(x)
	if far == 0 {
		return 0, len(x), median
	}
	to = len(x)
	for median-x[from] > far {
		from++
	}
	for x[to-1]-median > far {
		to--
	}
	return from, to, median
}

// Fence returns the median of ascending readings, and the distance from the median beyond which a reading is an
// outlier. The distance is 0 if all readings are equal. There must be at least one reading.
func Fence(x []float64) (median, far float64) {
	var room [FirstReadings]float64
	high := (len(x) - 1) / 2
	low := high - 1
	median = x[high]
	d := room[:0]
	for range x { // distances ascend on both sides of the median
		if low < 0 || high < len(x) && x[high]-median <= median-x[low] {
			d = append(d, x[high]-median)
			high++
		} else {
			d = append(d, median-x[low])
			low--
		}
	}
	usual := d[(3*len(d)+3)/4-1]
	if usual == 0 { // most readings equal the median: use only the other readings
		for len(d) > 0 && d[0] == 0 {
			d = d[1:]
		}
		if len(d) == 0 {
			return median, 0
		}
		usual = d[(len(d)-1)/2]
	}
	return median, fence * usual
}

// moments returns the mean and the sum of squared deviations of x and of further readings that all equal at.
func moments(x []float64, further, at float64) (mean, m2 float64) {
	m := [3]float64{further, at}
	for _, v := range x {
		AddMoments(&m, v)
	}
	return m[1], m[2]
}

// AddMoments adds x to the number of readings, their mean, and the sum of their squared deviations from the mean.
func AddMoments(m *[3]float64, x float64) {
	m[0]++
	d := x - m[1]
	m[1] += d / m[0]
	m[2] += d * (x - m[1])
}

// Moments returns the mean of x and the sum of squared deviations from it.
func Moments(x []float64) (mean, m2 float64) { return moments(x, 0, 0) }

// usualSize returns the power of two nearest to the median of |x| over the values other than 0.
func usualSize(x []float64) float64 {
	var room [FirstReadings]float64
	sizes := room[:0]
	for _, v := range x {
		if v != 0 {
			sizes = append(sizes, math.Abs(v))
		}
	}
	if len(sizes) == 0 {
		return 1
	}
	slices.Sort(sizes)
	return math.Ldexp(1, int(math.Round(math.Log2(sizes[(len(sizes)-1)/2]))))
}

// gain returns the increase of the normal log-likelihood per reading by the transform asinh(x/u).
func gain(x []float64, u float64) float64 {
	var room [FirstReadings]float64
	t, jacobian := room[:0], 0.0
	for _, v := range x {
		t = append(t, math.Asinh(v/u))
		jacobian -= math.Log(math.Hypot(v, u))
	}
	_, squares := moments(x, 0, 0)
	_, transformed := moments(t, 0, 0)
	if squares == 0 || transformed == 0 {
		return 0
	}
	return (math.Log(squares)-math.Log(transformed))/2 + jacobian/float64(len(x))
}

// inverseScale returns the factor that standardizes readings with a mean and variance. It returns 0 if all readings are
// equal.
func inverseScale(mean, variance float64) float64 {
	if sd := math.Sqrt(variance); sd > 1e-10*math.Abs(mean) && sd > 1e-200 {
		return 1 / sd
	}
	return 0
}

// The inverse scale of a transformed column is stored with a negative sign. The last bits of the inverse scale store
// the exponent of the unit, which changes the inverse scale by at most a relative 1e-13.
const unitBits, unitBias = 1<<11 - 1, 1 << 10

func packUnit(inverse, unit float64) float64 {
	if unit == 0 || inverse == 0 {
		return inverse
	}
	_, exponent := math.Frexp(unit)
	return -math.Float64frombits(math.Float64bits(inverse)&^unitBits | uint64(exponent+unitBias))
}

// unitOf returns the unit that packUnit has stored in packed.
func unitOf(packed float64) float64 {
	if packed >= 0 {
		return 0
	}
	return math.Ldexp(0.5, int(math.Float64bits(packed)&unitBits)-unitBias)
}
