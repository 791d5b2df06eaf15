package conformal

// This file calibrates: it learns a function from predicted scores to log-odds.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Link learns a monotone function from predicted scores to log-odds by isotonic regression (Zadrozny & Elkan 2002). In
// each bin of scores it estimates the fraction of events with the output's class, with decay. It pools neighboring bins
// until the fractions increase with the score. All outputs share one function. Link also measures how much the function
// reduces the log-loss of each event before the event is learned (Helps). Create a Link with NewLink.
type Link struct {
	taken  float64 // number of events
	grown  float64 // weight of the latest event
	bins   [linkBins]linkBin
	latest *model.Link // nil until there are enough events
	helps  bool
	gain   gain
}

// linkBin holds the sums of weights, labels and scores of the outputs whose score is in one bin.
type linkBin struct{ weight, ones, scores float64 }

// gain holds decayed sums over events of the reduction of the log-loss and of its square.
type gain struct{ grown, weight, sum, square, squares float64 }

const (
	// linkBins is the number of bins of f/(2+|f|), from -1 to 1.
	linkBins = 40
	// linkMemory is the number of events over which old events decay. After the first n events it is n/2, if that is
	// less.
	linkMemory = 20_000
	// linkPrior is the weight, in events, with which each bin starts. The starting values treat the scores as log-odds.
	linkPrior = 10
	// linkEvery is the number of events after which the function is updated.
	linkEvery = 64
	// linkEnough is the number of events before Helps can be true.
	linkEnough = 500
	// gainMemory is the number of events over which old gains decay.
	gainMemory = 4000
)

// NewLink returns a Link that starts as the identity.
func NewLink() Link { return Link{grown: 1, gain: gain{grown: 1}} }

// Taken returns the number of learned events.
func (l *Link) Taken() float64 { return l.taken }

// Latest returns the current function, or nil before there are enough events.
func (l *Link) Latest() *model.Link { return l.latest }

// Helps reports whether the function reduces the log-loss of later events by more than the standard error of that
// reduction.
func (l *Link) Helps() bool { return l.helps }

// Take measures and learns an event. Only the first active scores are in use. weight is the importance weight.
func (l *Link) Take(scores []float64, active, label int, weight float64) {
	l.Measure(scores, label, weight)
	l.Learn(scores, active, label, weight, linkEvery)
}

// Learn is Take without Measure. The function is recomputed after every given number of events.
func (l *Link) Learn(scores []float64, active, label int, weight float64, every uint64) {
	weight = min(weight, 1)
	l.taken++
	if l.grown /= 1 - 1/min(linkMemory, 8+l.taken/2); l.grown > largest {
		for i := range l.bins {
			l.bins[i].scale(1 / l.grown)
		}
		l.grown = 1
	}
	for k, f := range scores[:active] {
		one := k == label
		if len(scores) == 1 {
			one = label == 1
		}
		l.bins[linkBinOf(f)].add(f, one, weight*l.grown)
	}
	if uint64(l.taken)%every == 0 {
		l.latest = l.fit()
	}
}

func (b *linkBin) scale(by float64) { b.weight, b.ones, b.scores = by*b.weight, by*b.ones, by*b.scores }

func (b *linkBin) add(f float64, one bool, weight float64) {
	b.weight += weight
	b.scores += weight * max(-1e6, min(f, 1e6))
	if one {
		b.ones += weight
	}
}

// Measure records how much the function reduces the log-loss of an event.
func (l *Link) Measure(scores []float64, label int, weight float64) {
	if l.latest == nil {
		return
	}
	weight = min(weight, 1)
	saved := weight * (model.Decision{}.LogLoss(scores, label) - model.Decision{Link: l.latest}.LogLoss(scores, label))
	g := &l.gain
	if g.grown /= 1 - 1.0/gainMemory; g.grown > largest {
		by := 1 / g.grown
		g.weight, g.sum, g.square, g.squares, g.grown = by*g.weight, by*g.sum, by*g.square, by*by*g.squares, 1
	}
	g.weight += g.grown
	g.squares += g.grown * g.grown
	g.sum += g.grown * saved
	g.square += g.grown * saved * saved
	n := g.weight * g.weight / g.squares // effective number of events of equal weight
	mean := g.sum / g.weight
	err := math.Sqrt(max(0, g.square/g.weight-mean*mean) / n)
	switch {
	case n < linkEnough:
	case mean > 3*err:
		l.helps = true
	case mean <= err:
		l.helps = false
	}
}

// binOf returns the bin of a score.
func linkBinOf(f float64) int {
	x := f / (2 + math.Abs(f)) // NaN for an infinite score
	if !(x < 1-1.0/linkBins) {
		if f < 0 {
			return 0
		}
		return linkBins - 1
	}
	return max(0, min(int((x+1)/2*linkBins), linkBins-1))
}

// center returns the score in the middle of a bin.
func linkCenter(bin int) float64 {
	x := 2*(float64(bin)+0.5)/linkBins - 1
	return 2 * x / (1 - math.Abs(x))
}

// fit computes the function from the bins.
func (l *Link) fit() *model.Link {
	out := &model.Link{Scores: make([]float64, linkBins), LogOdds: make([]float64, linkBins)}
	var blocks [linkBins]struct {
		ones, weight float64
		bins         int
	}
	n := 0
	prior := linkPrior * l.grown
	for i := range l.bins {
		b, at := &l.bins[i], linkCenter(i)
		mean := (b.scores + prior*at) / (b.weight + prior)
		out.Scores[i] = mean
		x := &blocks[n]
		x.ones, x.weight, x.bins = b.ones+prior*sigmoid(mean), b.weight+prior, 1
		for n++; n > 1 && blocks[n-1].ones*blocks[n-2].weight <= blocks[n-2].ones*blocks[n-1].weight; n-- {
			x, y := &blocks[n-2], &blocks[n-1]
			x.ones, x.weight, x.bins = x.ones+y.ones, x.weight+y.weight, x.bins+y.bins
		}
	}
	i := 0
	for _, x := range blocks[:n] {
		u := logit(x.ones, x.weight)
		for range x.bins {
			out.LogOdds[i] = u
			i++
		}
	}
	return out
}

func sigmoid(u float64) float64 { return loss.Exp(-loss.Softplus(-u)) }

// logit returns the log-odds of the fraction part/whole.
func logit(part, whole float64) float64 {
	p := max(1e-12, min(part/whole, 1-1e-12))
	return math.Log(p / (1 - p))
}

// State encodes or decodes the state.
func (l *Link) State(to *coder.Coder) {
	g := &l.gain
	to.Each(&l.taken, &l.grown, &g.grown, &g.weight, &g.sum, &g.square, &g.squares)
	to.Bool(&l.helps)
	for i := range l.bins {
		b := &l.bins[i]
		to.Each(&b.weight, &b.ones, &b.scores)
		to.Failed = to.Failed || !(b.ones >= 0 && b.ones <= b.weight)
	}
	to.Failed = to.Failed || !(l.grown >= 1 && g.grown >= 1 && l.taken >= 0 && l.taken <= 1<<53)
	some := l.latest != nil
	to.Bool(&some)
	if !some {
		l.latest = nil
		return
	}
	if l.latest == nil {
		l.latest = &model.Link{Scores: make([]float64, linkBins), LogOdds: make([]float64, linkBins)}
	}
	for i := range linkBins {
		to.Each(&l.latest.Scores[i], &l.latest.LogOdds[i])
	}
	to.Failed = to.Failed || l.latest.Check() != nil
}
