package watch

// This file measures two simple baselines.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/measure"
)

// Baselines measures two predictors that use only the labels: the mean of earlier targets, for regression, and the last
// label. Learners in a group do not measure them, because each receives other labels.
type Baselines struct {
	First         uint64       // number of the first labeled event, 0 before it
	total         baselineSums // since the second labeled event
	block, before baselineSums // of the current block of baselineBlock events, and of the block before it
	labeled       uint64       // number of measured events
	mean, weight  float64
	last          float64 // the last target, or the index of the last class
}

const (
	// The latest events are those of the current block and of the block before it, so that old losses are forgotten.
	baselineBlock = 1000
	// baselineLeast is the number of labeled events after which baselines are compared.
	baselineLeast = 100
)

// baselineSums holds sums weighted by importance: of absolute errors, or of wrong classes.
type baselineSums struct{ weight, own, mean, last float64 }

func (s *baselineSums) sums() []*float64 { return []*float64{&s.weight, &s.own, &s.mean, &s.last} }

func (s *baselineSums) add(weight, own, mean, last float64) {
	s.weight += weight
	s.own += weight * own
	s.mean += weight * mean
	s.last += weight * last
}

// Tell measures a predicted event and records its label.
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

// BaselineReport holds the errors of the baselines since the second labeled event: mean absolute errors for regression,
// else errors in percent. Undefined errors are nil.
type BaselineReport struct {
	MeanMAE   *float64 `json:"baseline_mean_mae,omitempty"`   // of the mean of earlier targets
	LastMAE   *float64 `json:"baseline_last_mae,omitempty"`   // of the last target
	LastError *float64 `json:"baseline_last_error,omitempty"` // of the last class
}

// Report returns the errors.
func (b *Baselines) Report(regression bool) BaselineReport {
	if !regression {
		return BaselineReport{LastError: measure.Defined(100 * b.total.last / b.total.weight)}
	}
	return BaselineReport{MeanMAE: measure.Defined(b.total.mean / b.total.weight), LastMAE: measure.Defined(b.total.last / b.total.weight)}
}

// Better holds the errors at the latest events of the model and of a better baseline.
type Better struct{ Own, Baseline float64 }

// latest returns the sums of the latest events.
func (b *Baselines) latest() baselineSums {
	out := b.before
	for i, x := range out.sums() {
		*x += *b.block.sums()[i]
	}
	return out
}

// better reports whether a baseline's error is below the model's by more than chance. deviation is the standard
// deviation of one event's error.
func (b *Baselines) better(own, baseline, deviation float64) (Better, bool) {
	n := float64(b.labeled)
	if b.labeled > baselineBlock {
		n = float64(baselineBlock + (b.labeled-1)%baselineBlock + 1)
	}
	return Better{own, baseline}, b.labeled >= baselineLeast && own-baseline > .01*own+deviation/math.Sqrt(n)
}

// BetterMean compares the mean of earlier targets with the model.
func (b *Baselines) BetterMean() (Better, bool) {
	w := b.latest()
	own := w.own / w.weight
	return b.better(own, w.mean/w.weight, .5*own)
}

// BetterLast compares the last label with the model. The error of a class has the deviation of a fraction.
func (b *Baselines) BetterLast(regression bool) (Better, bool) {
	w := b.latest()
	own := w.own / w.weight
	deviation := .5 * own
	if !regression {
		deviation = 2 * math.Sqrt(max(own*(1-own), 0))
	}
	return b.better(own, w.last/w.weight, deviation)
}
