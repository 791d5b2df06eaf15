package mixture

// This file estimates the loss of predictions at each fraction of missing features.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Points is the number of deletion rates of a forecast.
const Points = 10

// Missing returns the deletion rate of a point.
func Missing(point int) float64 { return float64(point) / Points }

// Losses are the losses of a prediction: the error and, for classification, the log-loss. For regression the error is the
// squared error.
type Losses [2]float64

// Forecasts estimates losses. Features and Groups are for features and groups that are declared missing. SilentFeatures
// and SilentGroups are for features and groups that are silently missing. Whole is for complete events.
type Forecasts struct {
	Whole                                          Mean
	Features, Groups, SilentFeatures, SilentGroups Curve
}

func (f *Forecasts) all() [4]*Curve {
	return [4]*Curve{&f.Features, &f.Groups, &f.SilentFeatures, &f.SilentGroups}
}

const (
	// A sample's influence is proportional to this power of its event's number: after twice the events it is a quarter.
	forecastPower = 2
	// Where masks have become rare, it is the number of masks that counts: forecasts then extend
	// over the latest masks, and at least over the fraction 1/forecastLeast of them.
	forecastLeast = 2
	// Forecasts extend over at most so many masks, and so many whole events.
	masksMemory, wholeMemory = 10_000, 40_000
)

// Mean is the mean of the losses of complete events, with recent events weighted more.
type Mean struct {
	number, weight, squared float64 // of the latest event; the sum of weights, and of their squares
	sum, squares            Losses  // of losses, and of their squares
}

// wholeKeep is the smallest part of the older losses that an event takes.
var wholeKeep = loss.Exp(-1.0 / wholeMemory)

// Add adds the losses of an event. It ignores NaN.
func (m *Mean) Add(number uint64, x Losses) {
	if x[0] != x[0] || x[1] != x[1] {
		return
	}
	k := wholeKeep
	if age := forecastPower * (float64(number) - m.number) / float64(number); age > 1.0/wholeMemory {
		k = loss.Exp(-age)
	}
	m.number, m.weight, m.squared = float64(number), k*m.weight+1, k*k*m.squared+1
	for i, loss := range x {
		loss = min(loss, mostSquared)
		m.sum[i], m.squares[i] = k*m.sum[i]+loss, k*m.squares[i]+loss*loss
	}
}

// mostSquared bounds the losses that are added, so that sums of squares are finite.
const mostSquared = 1e100

// At returns the mean of a loss, which is 0 for the error and 1 for the log-loss, and the variance of the estimate. Both
// are NaN before the first event.
func (m *Mean) At(loss int) (mean, variance float64) {
	mean = m.sum[loss] / m.weight
	return mean, max(0, m.squares[loss]/m.weight-mean*mean) * m.squared / (m.weight * m.weight)
}

// Curve estimates by how much losses grow if a fraction of the features is missing. The loss of a whole event is subtracted
// from those of its masked copies: so it matters less which events are sampled, and the many other whole events make the
// forecast more precise. The curve begins at 0, and is smooth where samples are few.
type Curve struct {
	number, masks, recent float64            // of the latest event; number of masks, and their weight
	points                [Points]curvePoint // point 0 is not used
}

// curvePoint has the samples of a point.
type curvePoint struct {
	weight, squared float64 // sum of weights, and of their squares
	sum, squares    Losses  // of the losses beyond those of the whole event, and of their squares
}

// Add adds the losses of masked copies of an event, by point, and the losses of the whole event. It omits points with NaN.
func (f *Curve) Add(number uint64, whole Losses, masked *[Points]Losses) {
	age := min(forecastPower*(float64(number)-f.number)/float64(number), forecastLeast/max(f.masks, 1))
	k := loss.Exp(-max(age, 1.0/masksMemory))
	f.number, f.masks, f.recent = float64(number), f.masks+1, k*f.recent+1
	for point := 1; point < Points; point++ {
		p, one := &f.points[point], 1.0
		grows := Losses{masked[point][0] - whole[0], masked[point][1] - whole[1]}
		if grows[0] != grows[0] || grows[1] != grows[1] {
			grows, one = Losses{}, 0
		}
		p.weight, p.squared = k*p.weight+one, k*k*p.squared+one
		for i, x := range grows {
			x = max(-mostSquared, min(x, mostSquared))
			p.sum[i], p.squares[i] = k*p.sum[i]+x, k*p.squares[i]+x*x
		}
	}
}

// smooth is the weight of the squared third differences of a curve: of that many samples of a point. nearby is that of the
// difference between two curves.
const smooth, nearby = 100, 1000

// estimates returns the estimate at each point, and its variance. Both are NaN before the first mask. base is nil, or a
// curve of more samples above which this one is not far: it is the estimate before the first mask.
//
// The estimates x minimize sum w (x - mean)^2 + smooth sum (third difference of x)^2, where x is 0 at point 0 and beyond
// base. The copies of one mask partly depend on each other, so the variance of independent copies is multiplied by the root
// of their number.
func (f *Curve) estimates(loss int, base *Curve) (grows, variances [Points]float64) {
	penalty := float64(smooth)
	if base != nil {
		penalty = nearby
		grows, variances = base.estimates(loss, nil)
	} else if f.masks == 0 {
		for i := range grows {
			grows[i], variances[i] = math.NaN(), math.NaN()
		}
		return grows, variances
	}
	var a [Points][Points]float64
	copies := 0.0
	for i := 1; i < Points; i++ {
		a[i][i] = f.points[i].weight + 1e-6
		copies += f.points[i].weight
	}
	third := [4]float64{-1, 3, -3, 1}
	for from := range Points - 3 {
		for i, x := range third {
			for j, y := range third {
				a[from+i][from+j] += penalty * x * y
			}
		}
	}
	inverse, others := inverseOf(&a), grows
	for point := 1; point < Points; point++ {
		more := 0.0
		for i := 1; i < Points; i++ {
			p := &f.points[i]
			if p.weight == 0 {
				continue
			}
			mean, row := p.sum[loss]/p.weight, inverse[i][point]
			more += row * (p.sum[loss] - p.weight*others[i])
			variances[point] += row * row * p.squared * max(0, p.squares[loss]/p.weight-mean*mean) * math.Sqrt(max(1, copies/f.recent))
		}
		if base != nil {
			more = max(0, more)
		}
		grows[point] += more
	}
	return grows, variances
}

// inverseOf returns the inverse of a positive definite matrix, without its row and column 0. It changes a.
func inverseOf(a *[Points][Points]float64) (x [Points][Points]float64) {
	for i := 1; i < Points; i++ {
		x[i][i] = 1
	}
	for i := 1; i < Points; i++ {
		for j := i + 1; j < Points; j++ {
			factor := a[j][i] / a[i][i]
			for k := i; k < Points; k++ {
				a[j][k] -= factor * a[i][k]
			}
			for k := 1; k <= i; k++ {
				x[j][k] -= factor * x[i][k]
			}
		}
	}
	for i := Points - 1; i > 0; i-- {
		for k := range x[i] {
			for j := i + 1; j < Points; j++ {
				x[i][k] -= a[i][j] * x[j][k]
			}
			x[i][k] /= a[i][i]
		}
	}
	return x
}

// Of returns the forecast losses at the points of a Curve, and their standard errors. They are NaN before the first sample.
func (f *Forecasts) Of(of *Curve, loss int) (forecast, deviation [Points]float64) {
	var base *Curve
	switch of {
	case &f.SilentFeatures:
		base = &f.Features
	case &f.SilentGroups:
		base = &f.Groups
	}
	forecast[0], deviation[0] = f.Whole.At(loss)
	grows, more := of.estimates(loss, base)
	for i := range forecast {
		variance := deviation[0]
		if i > 0 {
			forecast[i], variance = max(0, forecast[0]+grows[i]), variance+more[i]
		}
		if !(variance <= math.MaxFloat64) && forecast[i] == forecast[i] { // squares of huge losses overflow
			variance = math.MaxFloat64
		}
		deviation[i] = variance
	}
	for i, variance := range deviation {
		deviation[i] = math.Sqrt(variance)
	}
	return forecast, deviation
}

// Masks returns the number of masks of a Curve so far.
func (f *Curve) Masks() uint64 { return uint64(f.masks) }

// state encodes or decodes all estimates.
func (f *Forecasts) state(c *coder.Coder) {
	w := &f.Whole
	c.Each(&w.number, &w.weight, &w.squared, &w.sum[0], &w.sum[1], &w.squares[0], &w.squares[1])
	for _, of := range f.all() {
		c.Each(&of.number, &of.masks, &of.recent)
		for i := range of.points {
			p := &of.points[i]
			c.Each(&p.weight, &p.squared, &p.sum[0], &p.sum[1], &p.squares[0], &p.squares[1])
		}
	}
}
