package watch

// This file measures what two simple predictors would have made of the events.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/measure"
)

// Baselines measures two predictors that know the labels alone, beside the model: of targets the
// mean of those before, and of targets and classes the last label. Several learners of one model
// measure none, since each has seen other labels.
type Baselines struct {
	First         uint64       // the number of the first labeled event, 0 before it
	total         baselineSums // since the second labeled event
	block, before baselineSums // of the block of baselineBlock events at hand, and of the one before it
	labeled       uint64       // events that were measured
	mean, weight  float64
	last          float64 // the target, or the number of the class
}

const (
	// The latest events are those of a block and of the one before, so that nothing that an
	// event has lost stays for long.
	baselineBlock = 1000
	// baselineLeast is the number of labeled events from which on baselines are compared.
	baselineLeast = 100
)

// baselineSums are sums weighted by importance: of absolute errors, or of wrong classes.
type baselineSums struct{ weight, own, mean, last float64 }

func (s *baselineSums) sums() []*float64 { return []*float64{&s.weight, &s.own, &s.mean, &s.last} }

func (s *baselineSums) add(weight, own, mean, last float64) {
	s.weight += weight
	s.own += weight * own
	s.mean += weight * mean
	s.last += weight * last
}

// Tell measures an event that was answered when a label was known, and takes up its label.
func (b *Baselines) Tell(t *Told) {
	if t.Part {
		return
	}
	label := t.Target
	if !t.Regression {
		label = float64(t.Label)
	}
	if b.First > 0 && t.After >= b.First {
		var own, mean, last float64
		if t.Regression {
			own, mean, last = math.Abs(label-t.Value), math.Abs(label-b.mean), math.Abs(label-b.last)
		} else {
			own, last = differ(t.Predicted, t.Label), differ(int(b.last), t.Label)
		}
		if b.labeled%baselineBlock == 0 {
			b.before, b.block = b.block, baselineSums{}
		}
		b.labeled++
		b.total.add(t.Weight, own, mean, last)
		b.block.add(t.Weight, own, mean, last)
	}
	if b.First == 0 {
		b.First = t.Number
	}
	b.last = label
	b.weight += t.Weight
	b.mean += (label - b.mean) * (t.Weight / b.weight)
}

func differ(a, b int) float64 {
	if a == b {
		return 0
	}
	return 1
}

// State codes the measures.
func (b *Baselines) State(c *coder.Coder) {
	c.Uint(&b.First)
	c.Uint(&b.labeled)
	c.Each(b.total.sums()...)
	c.Each(b.block.sums()...)
	c.Each(b.before.sums()...)
	c.Each(&b.mean, &b.weight, &b.last)
}

// BaselineReport holds what the baselines have lost since the second labeled event: where labels
// are numbers mean absolute errors, else an error in percent. What is undefined is nil.
type BaselineReport struct {
	MeanMAE   *float64 `json:"baseline_mean_mae,omitempty"`   // the mean of the targets before
	LastMAE   *float64 `json:"baseline_last_mae,omitempty"`   // the last label
	LastError *float64 `json:"baseline_last_error,omitempty"` // the last label, of classes
}

// Report returns the measures, where labels are numbers if regression is true.
func (b *Baselines) Report(regression bool) BaselineReport {
	if !regression {
		return BaselineReport{LastError: measure.Defined(100 * b.total.last / b.total.weight)}
	}
	return BaselineReport{MeanMAE: measure.Defined(b.total.mean / b.total.weight), LastMAE: measure.Defined(b.total.last / b.total.weight)}
}

// Better holds the errors of the latest events: of the model, and of a baseline.
type Better struct{ Own, Baseline float64 }

// latest returns the sums of the latest events.
func (b *Baselines) latest() baselineSums {
	out := b.before
	for i, x := range out.sums() {
		*x += *b.block.sums()[i]
	}
	return out
}

// better reports whether an error of the latest events is below the model's by more than chance,
// of which deviation is that of one event.
func (b *Baselines) better(own, baseline, deviation float64) (Better, bool) {
	n := float64(b.labeled)
	if b.labeled > baselineBlock {
		n = float64(baselineBlock + (b.labeled-1)%baselineBlock + 1)
	}
	return Better{own, baseline}, b.labeled >= baselineLeast && own-baseline > .01*own+deviation/math.Sqrt(n)
}

// BetterMean compares the mean of the targets with the model.
func (b *Baselines) BetterMean() (Better, bool) {
	w := b.latest()
	own := w.own / w.weight
	return b.better(own, w.mean/w.weight, .5*own)
}

// BetterLast compares the last label with the model. Errors of classes have the deviation of a
// share.
func (b *Baselines) BetterLast(regression bool) (Better, bool) {
	w := b.latest()
	own := w.own / w.weight
	deviation := .5 * own
	if !regression {
		deviation = 2 * math.Sqrt(max(own*(1-own), 0))
	}
	return b.better(own, w.last/w.weight, deviation)
}
