package mixture

// This file lets the last label take part in predictions.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/measure"
)

// LastLabel predicts an event by the label of the event before it, and learns how much weight that prediction deserves
// next to the prediction of the model. It is for streams whose labels arrive before the next event.
//
// A number is predicted to be the last number. For classes, with j the last class, s_j the fraction of the events after
// an event of class j that had this class too, and r_k the fraction of all events with class k, the probabilities are
//
//	p_j = s_j,  p_k = (1 - s_j) r_k/(1 - r_j) for other classes k.
//
// The weight is learned by the log-loss of classes and by a likelihood of numbers, see Number.
type LastLabel struct {
	weights Weights
	known   bool // the event before the next one is labeled, and its label has come in time
	class   int
	number  float64
	repeats []repeats // by class: the events after one of this class
	all     repeats   // the events after one of any class
	// size is the mean deviation of the latest predicted numbers, and taken the number of them.
	size, taken float64
	// Width is the factor of the model's intervals that makes them intervals of predictions with the last label.
	Width float64
}

// repeats counts events, with decay, and those of them that repeated the class of the event before.
type repeats struct{ events, same float64 }

const (
	// lastFirst is the initial weight. If one of the two weights is below lastLeast, it counts as 0.
	lastFirst, lastLeast = 0.1, 0.01
	// repeatsKeep is the decay of counts per counted event.
	repeatsKeep = 0.999
	// numberMemory is the number of events over which the mean deviation decays, and numberFreedom the number of degrees of
	// freedom of the distribution of deviations.
	numberMemory, numberFreedom = 256, 8
	// mostApart bounds the deviations in the mean, so that it is finite.
	mostApart = 1e100
	// widthStep is the step of the logarithm of Width, and mostWidth its bound.
	widthStep, mostWidth = 0.1, 1000
)

// The switching rates of the weight of the last label, see Weights.
var lastRates = []float64{1e-4, 1e-2}

// NewLastLabel returns the LastLabel of a new stream.
func NewLastLabel() LastLabel {
	return LastLabel{weights: NewWeights([]float64{1 - lastFirst, lastFirst}, lastRates...), all: repeats{1, 0.5}, Width: 1}
}

// Forget makes the last label unknown: the label of the latest event has not come in time.
func (l *LastLabel) Forget() { l.known = false }

// Weight returns the weight of the last label in the next prediction, 0 if it is not known.
func (l *LastLabel) Weight() float64 {
	if !l.known {
		return 0
	}
	return l.Share()
}

// Share returns the weight of the last label in predictions for which it is known.
func (l *LastLabel) Share() float64 {
	w := l.weights.Now(1)
	switch w /= w + l.weights.Now(0); {
	case w < lastLeast:
		return 0
	case w > 1-lastLeast:
		return 1
	}
	return w
}

// same returns the probability that the last class repeats.
func (l *LastLabel) same() float64 {
	x := repeats{}
	if l.class < len(l.repeats) {
		x = l.repeats[l.class]
	}
	return (x.same + l.all.same/l.all.events) / (x.events + 1)
}

// chance returns the probability of a class by the last label. events has the numbers of events by class, and all is
// their sum. classes is the number of classes.
func (l *LastLabel) chance(class int, events []uint64, all uint64, classes int) float64 {
	if class == l.class {
		return l.same()
	}
	count := func(k int) float64 {
		if k < len(events) {
			return float64(events[k]) + 0.5
		}
		return 0.5
	}
	return (1 - l.same()) * count(class) / (float64(all) + float64(classes)/2 - count(l.class))
}

// Mix mixes the probabilities of the classes by the model with those by the last label, in place. events has the
// numbers of events by class.
func (l *LastLabel) Mix(chances []float64, events []uint64) {
	w, all := l.Weight(), total(events)
	for k, p := range chances {
		chances[k] = (1-w)*p + w*l.chance(k, events, all, len(chances))
	}
}

func total(events []uint64) (all uint64) {
	for _, n := range events {
		all += n
	}
	return all
}

// Class takes the class of the current event. lost is the log-loss of the model's prediction, events has the numbers of
// earlier events by class, and classes is the number of classes. The weight is updated if it is above 0 or due is true.
func (l *LastLabel) Class(class int, lost float64, events []uint64, classes int, due bool) {
	for max(class, l.class) >= len(l.repeats) {
		l.repeats = append(l.repeats, repeats{})
	}
	if l.known {
		if due || l.Share() > 0 {
			l.weights.Take([]float64{lost, -math.Log(l.chance(class, events, total(events), classes))})
		}
		l.repeats[l.class].take(class == l.class)
		l.all.take(class == l.class)
	}
	l.class, l.known = class, true
}

func (r *repeats) take(same bool) {
	r.events, r.same = repeatsKeep*r.events+1, repeatsKeep*r.same
	if same {
		r.same++
	}
}

// MixNumber returns the mixture of the model's value and the last number.
func (l *LastLabel) MixNumber(value float64) float64 {
	w := l.Weight()
	return (1-w)*value + w*l.number
}

// Number takes the target of the current event, and the value that the model predicted. Values are compared by the
// likelihood of their deviations, which is Student's t. Its scale is the mean deviation of the latest predictions, so
// that it depends neither on the unit nor on outliers. of is the loss of the targets. For due see Class.
func (l *LastLabel) Number(target, value float64, of loss.Loss, due bool) {
	if l.known && value == value && (due || l.Share() > 0) {
		if apart := deviation(of, target, l.MixNumber(value)); apart == apart {
			l.taken = min(l.taken+1, numberMemory)
			l.size += (min(apart, mostApart) - l.size) / l.taken
		}
		l.weights.Take([]float64{l.lost(deviation(of, target, value)), l.lost(deviation(of, target, l.number))})
	}
	l.number, l.known = target, true
}

// deviation returns how far a predicted value is from a target: the loss where it grows with the distance, and its root
// where it grows with the square.
func deviation(of loss.Loss, target, value float64) float64 {
	d := measure.Deviance(of, target, value)
	if of.Facts().Kink == nil {
		return math.Sqrt(d)
	}
	return d
}

// lost returns the negative log-likelihood of a deviation, up to a constant.
func (l *LastLabel) lost(deviation float64) float64 {
	if l.size == 0 {
		return 0
	}
	x := deviation / l.size
	return (numberFreedom + 1) / 2.0 * math.Log1p(x*x/numberFreedom)
}

// Cover adapts Width after an event whose target was inside or outside the interval, so that in the long run a fraction
// coverage of the targets is inside (Gibbs & Candes 2021).
func (l *LastLabel) Cover(inside bool, coverage float64) {
	step := widthStep * coverage
	if inside {
		step = -widthStep * (1 - coverage)
	}
	l.Width = max(1/mostWidth, min(l.Width*loss.Exp(step), mostWidth))
}

// State encodes or decodes the state.
func (l *LastLabel) State(c *coder.Coder) {
	l.weights.State(c)
	c.Bool(&l.known)
	c.Int(&l.class)
	var counts []float64
	for _, r := range l.repeats {
		counts = append(counts, r.events, r.same)
	}
	if c.Floats(&counts); c.Decode {
		l.repeats = nil
		for i := 0; i+1 < len(counts); i += 2 {
			l.repeats = append(l.repeats, repeats{counts[i], counts[i+1]})
		}
	}
	c.Each(&l.number, &l.all.events, &l.all.same, &l.size, &l.taken, &l.Width)
	c.Failed = c.Failed || l.class < 0 || l.class > 0 && l.class >= len(l.repeats) || len(counts)%2 > 0 || !(l.all.events > 0)
}
