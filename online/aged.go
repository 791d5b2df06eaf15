package online

// This file has older weights answer some events, for package aged.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/aged"
)

// ages says whether answers are measured by the age of the weights: not where several learn one model,
// nor after the first pass, where events have been learned before.
func (l *Learner) ages() bool { return l.share == nil && l.period == 0 }

// takeAged measures what older weights answer to the event at hand, before it changes anything. fresh
// is what the weights of the moment lose; where the label has come later these are not those
// of the event's arrival.
func (l *Learner) takeAged(e *event.Example) {
	if !l.ages() {
		return
	}
	some, fresh := false, aged.Lost{}
	for i := range aged.Ages {
		due := l.aged.Due(i, l.events)
		if due == nil {
			continue
		}
		if !some {
			some, fresh = true, l.lost(e, l.byClass(l.now.scores), l.decision(), l.unit.Value)
			l.aged.Fresh(e.Weight, fresh)
		}
		l.old.Linear = *due
		m := &l.old.Linear
		m.Schema = l.schema // the stream's own, which only grows
		l.old.scores = slices.Grow(l.old.scores[:0], m.Outputs)
		scores, d := l.widened(m.Score(l.faults.asCame(e), l.old.scores[:m.Outputs])), m.Decision()
		if m.Outputs == 1 && l.k > 1 {
			d = model.Decision{Threshold: l.threshold()} // its own link is of the score of one output
		}
		l.aged.Take(i, e.Weight, l.lost(e, scores, d, m.Value), fresh, l.constantLost(e))
		*m = model.Linear{} // the model may be let go
	}
}

// older is room for an answer of an older model.
type older struct {
	model.Linear
	scores []float64
}

// lost returns what scores lose at an event, which mean what d, or value, says.
func (l *Learner) lost(e *event.Example, scores []float64, d model.Decision, value func(score float64) float64) (x aged.Lost) {
	if l.set.numbers {
		at := value(scores[0])
		return aged.Lost{Error: math.Abs(e.Target - at), Loss: measure.Deviance(l.targetLoss(), e.Target, at)}
	}
	j := d.Judge(scores, e.Label)
	if x.Loss = j.LogLoss; j.Class != e.Label {
		x.Error = 1
	}
	return x
}

// constantLost returns what the class shares up to an event lose at it; of numbers nothing.
func (l *Learner) constantLost(e *event.Example) (x aged.Lost) {
	if l.set.numbers {
		return x
	}
	all, own, most := 0.0, 0.0, 0.0
	for class, n := range l.measured.Classes {
		all += float64(n)
		if most = max(most, float64(n)); class == e.Label {
			own = float64(n)
		}
	}
	if own < most {
		x.Error = 1
	}
	x.Loss = -math.Log((own + 1) / (all + float64(max(2, l.activeScores()))))
	return x
}

// freeze keeps the model as it is when it is time.
func (l *Learner) freeze() {
	if !l.ages() {
		l.aged.Stop()
		return
	}
	if l.aged.Learned(l.events, len(l.now.columns), l.table.Len(), 8*l.frozenWidth()) {
		l.aged.Freeze(l.events, l.frozen())
	}
}

// frozenWidth returns how many values a row of a frozen model has: statistics, and the weights that are
// mixed.
func (l *Learner) frozenWidth() int { return model.ScalerWidth + l.n + l.ownWeights() }

// frozen returns the published model with rows of its own: of each level what it publishes, for the
// layouts to mix. It has no Schema: that of the stream is its own.
func (l *Learner) frozen() *model.Linear {
	h := l.head(&event.Schema{})
	h.Experts, h.Sets, h.Residual = nil, nil, nil
	place := func(weight int) int { // of weights that begin there in a row of the Learner
		if own := weight - (l.table.Width() - l.ownWeights()); own >= 0 {
			return model.ScalerWidth + l.n + own
		}
		return weight
	}
	fold := func(of *model.Layout) {
		of.Width, of.Weight, of.Lag, of.Average = l.frozenWidth(), place(of.Weight), 0, 0
		for i := range of.Mix {
			p := &of.Mix[i]
			p.Weight, p.Lag, p.Average = place(p.Weight), 0, 0
		}
	}
	fold(&h.Layout)
	for i := range h.Levels {
		fold(&h.Levels[i].Layout)
	}
	coefficient := make([]float64, l.n)
	for j := range coefficient {
		coefficient[j] = l.levels[j/l.k].LagShare()
	}
	rows := l.table.Derive(l.frozenWidth(), func(to, row []float64) {
		copy(to, row[:model.ScalerWidth])
		w, lag, to := l.weights(row), l.lags(row), to[model.ScalerWidth:]
		for j, c := range coefficient {
			to[j] = w[j] + c*lag[j]
		}
		copy(to[l.n:], l.own(row))
	})
	return (&model.Linear{Head: h, Rows: rows}).WithCovariance(h.Covariance)
}
