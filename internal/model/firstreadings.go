package model

// This file decides how a numeric column is centered, scaled and transformed at first,
// by its first readings.

import (
	"fmt"
	"math"
	"slices"
)

// Transform is what a Scaler does to the readings of a numeric column before it
// centers and scales them.
type Transform string

// The transforms of a Scaler.
const (
	// TransformAuto lets the first readings of a column choose one of the others.
	TransformAuto Transform = "auto"
	// TransformNone leaves readings as they are.
	TransformNone Transform = "none"
	// TransformAsinh takes asinh(x/u), u being the power of two nearest to the usual
	// size of a reading: far from 0 the logarithm, near it the reading itself.
	TransformAsinh Transform = "asinh"
)

// ParseTransform reads auto, none or asinh.
func ParseTransform(s string) (Transform, error) {
	switch t := Transform(s); t {
	case TransformAuto, TransformNone, TransformAsinh:
		return t, nil
	}
	return "", fmt.Errorf("transform %q: want one of auto, none, asinh", s)
}

const (
	// FirstReadings is how many readings of a column Begin takes at most.
	FirstReadings = 32
	// WildAt is where a reading beyond the clip is counted, in deviations. A share of
	// such readings below 1/WildAt^2 leaves the deviation bounded.
	WildAt = 4
	// A reading is wild among the first ones if it is farther from their median than
	// fence times what three quarters of them are. For normal ones that is
	// ScalerClip deviations.
	fence = 9
	// Readings from which on a transform may be chosen, and the gain of logarithmic
	// likelihood, in nats a reading, that chooses it. Of 32 readings normal and
	// uniform ones gain nothing; exponential ones and lognormal ones whose logarithm
	// has the deviation 1 gain so much in fewer than one case of a hundred, lognormal
	// ones of deviation 3 in 95.
	chooseFrom, chooseAt = 16, 0.7
	// A column has no scale until leastDiffering readings differ from the usual one: the
	// first that does may be wild.
	leastDiffering = 4
)

// Begin sets the statistics of a numeric column from its first readings, at most
// FirstReadings of n; the others of the n lie at the median of those. A minority
// of wild readings has no say in the center, the scale and the choice of a
// transform: they are counted as if they lay near the others. Where FirstReadings
// are all but the same the column has no scale: more must come.
func (s *Scaler) Begin(stats []float64, n float64, readings []float64, t Transform) {
	var room [FirstReadings]float64
	x := append(room[:0], readings...)
	slices.Sort(x)
	from, to, median := notWild(x)
	if differing := len(x) - equal(x, median); differing == 0 || len(x) == FirstReadings && differing < leastDiffering {
		s.Set(stats, n, median, 0, 0)
		return
	}
	unit := 0.0
	if t == TransformAsinh || t == TransformAuto && len(x) >= chooseFrom {
		// Heavy tails look wild. One reading in sixteen is left out at most.
		for len(x)-(to-from) > len(x)/16 {
			if to == len(x) || from > 0 && median-x[from-1] < x[to]-median {
				from--
			} else {
				to++
			}
		}
		if u := usualSize(x[from:to]); t == TransformAsinh || gain(x[from:to], u) > chooseAt {
			unit = u
			for i, v := range x {
				x[i] = math.Asinh(v / unit)
			}
		}
		from, to, median = notWild(x)
	}
	further := n - float64(len(x)) // readings at the median
	mean, m2 := moments(x[from:to], further, median)
	if from > 0 || to < len(x) {
		far := WildAt * math.Sqrt(m2/(further+float64(to-from)))
		for i := range x {
			x[i] = max(mean-far, min(x[i], mean+far))
		}
		mean, m2 = moments(x, further, median)
	}
	s.Set(stats, n, mean, m2, unit)
}

// Set puts the statistics of a column in force that is centered and scaled: the count of
// readings, their mean and the sum of squared deviations from it, of readings x
// themselves, or where unit is not 0 of asinh(x/unit).
func (s *Scaler) Set(stats []float64, n, mean, squares, unit float64) {
	stats[StatCount], stats[StatMean], stats[StatSquares] = n, mean, squares
	stats[StatCenter], stats[StatInverse] = mean, packUnit(inverseScale(mean, squares/n), unit)
}

// Unit returns what a transform divides the readings of a column by, and 0 where it is
// to leave them as they are. Readings ascend. Where there are more than
// FirstReadings, that many are taken, evenly, so that a few wild ones do not matter.
func (s *Scaler) Unit(readings []float64, t Transform) float64 {
	var room [FirstReadings]float64
	sample := room[:0]
	for i := range min(len(readings), FirstReadings) {
		sample = append(sample, readings[(2*i+1)*len(readings)/(2*min(len(readings), FirstReadings))])
	}
	var stats [ScalerWidth]float64
	s.Begin(stats[:], float64(len(sample)), sample, t)
	return unitOf(stats[StatInverse])
}

// equal returns how many readings are a.
func equal(x []float64, a float64) (n int) {
	for _, v := range x {
		if v == a {
			n++
		}
	}
	return n
}

// notWild returns the part of ascending readings, from one to before another, that is
// not wild, and the median.
func notWild(x []float64) (from, to int, median float64) {
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

// Fence returns the median of ascending readings, of which there must be one at least, and
// how far from it a reading is wild among them; 0 where all are the same.
func Fence(x []float64) (median, far float64) {
	var room [FirstReadings]float64
	median = x[(len(x)-1)/2]
	d := room[:0]
	for _, v := range x {
		d = append(d, math.Abs(v-median))
	}
	slices.Sort(d)
	usual := d[(3*len(d)+3)/4-1]
	if usual == 0 { // most are the same: look at the others alone
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

// moments returns the mean of x and of so many further readings at one place, and
// the sum of their squared deviations.
func moments(x []float64, further, at float64) (mean, m2 float64) {
	n := further
	mean = at
	for _, v := range x {
		n++
		d := v - mean
		mean += d / n
		m2 += d * (v - mean)
	}
	return mean, m2
}

// Moments returns the mean of x and the sum of squared deviations from it.
func Moments(x []float64) (mean, m2 float64) { return moments(x, 0, 0) }

// usualSize returns the power of two nearest to the median of the |x| that are not 0.
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

// gain returns by how much, a reading, asinh(x/u) makes readings more likely as
// draws of a normal distribution than x does.
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

// inverseScale returns what readings of a mean and variance are multiplied by, 0 if
// they do not differ.
func inverseScale(mean, variance float64) float64 {
	if sd := math.Sqrt(variance); sd > 1e-10*math.Abs(mean) && sd > 1e-200 {
		return 1 / sd
	}
	return 0
}

// The inverse of the scale of a column that is transformed is stored with a minus
// sign, and the exponent of its unit in the last bits, which makes it another number
// by 1e-13 of it.
const unitBits, unitBias = 1<<11 - 1, 1 << 10

func packUnit(inverse, unit float64) float64 {
	if unit == 0 || inverse == 0 {
		return inverse
	}
	_, exponent := math.Frexp(unit)
	return -math.Float64frombits(math.Float64bits(inverse)&^unitBits | uint64(exponent+unitBias))
}

// unitOf returns the unit that packUnit was given.
func unitOf(packed float64) float64 {
	if packed >= 0 {
		return 0
	}
	return math.Ldexp(0.5, int(math.Float64bits(packed)&unitBits)-unitBias)
}
