package online

// This file adopts exact solutions, and clones a Learner.

import (
	"encoding/json"
	"fmt"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/rows"
)

// Adopt sets the iterate and the average of each noise level to an exact solution, exact[level]. It then recomputes the
// accumulators as if the same events had been learned with these weights. All other adaptation to the old weights is
// discarded. Mixing restarts: the noise level with the largest mixture weight, whose exact solution was validated, gets
// mixture weight 1.
//
// each must call its argument with every learned event, standardized and with class weights. Adopt calls rest from time
// to time between events.
func (l *Learner) Adopt(exact []*model.Linear, each func(func(e *event.Example)), rest func()) {
	slope, active := 1.0, l.outputs.active(l.levels.Active()) // converts scores of targets to the learner's unit
	if l.targets != nil && l.targets.unit.Target != loss.Count {
		slope = l.targets.unit.Scale
	}
	own := l.encoder.Scaling.OwnBasisColumns()
	l.levels.Adopt(l.encoder.Table, l.encoder.Intercepts, func(column uint32, intercept bool, level, output int) (w float64, known bool) {
		class := l.outputs.young.Class(output)
		switch m := exact[level]; {
		case !intercept && own(column):
			return 0, true // only the correcting experts have weights of spline columns
		case class < 0: // new classes share an output that has no exact solution
			return 0, false
		case !intercept:
			return m.Weight(column, class) / slope, true
		case class >= active:
			return 0, false
		case l.targets != nil:
			return l.targets.unit.Own(m.Intercept[class]), true
		default:
			return m.Intercept[class], true
		}
	})
	l.predictor.mixture.Restart()
	l.pasts = pasts{}
	count := 0
	each(func(e *event.Example) {
		if count++; count%256 == 0 {
			rest()
		}
		l.remeasure(e)
	})
	l.levels.Fit(l.encoder.Table, l.encoder.Intercepts)
	l.predictor.adopt(func(column uint32, level, output int) float64 {
		class := l.outputs.young.Class(output)
		if class < 0 || !own(column) {
			return 0
		}
		return exact[level].Weight(column, class) / slope
	})
}

// remeasure adds a standardized event to the accumulators of the noise levels.
func (l *Learner) remeasure(e *event.Example) {
	r, weight := &l.room, l.weights.Bound(e.Weight)
	l.encoder.ReadStandardized(e, l.events, &r.in)
	if e.Label == event.Unlabeled {
		if w := l.config.UnlabeledWeight; w > 0 {
			l.levels.Score(&r.in, &r.scored.levels)
			l.levels.Accumulate(&r.in, &r.scored.levels, w*weight, l.encoder.Table)
		}
		return
	}
	output := l.outputs.young.Output(e.Label)
	for k := range r.target {
		if r.target[k] = rows.Y(output, k, len(r.target)); l.targets != nil {
			r.target[k] = l.targets.standard(e.Target)
		}
	}
	l.levels.Remeasure(&r.in, &r.scored.levels, r.target, weight)
}

// Clone returns a Learner with the same state. It shares only the Schema with l.
func (l *Learner) Clone() (*Learner, error) {
	t := model.NewTable(l.encoder.Table.Width())
	for slot := range l.encoder.Table.Len() {
		column, row := l.encoder.Table.Column(slot)
		copy(t.Touch(column), row)
	}
	n, err := l.withState(l.bare(), t)
	if err == nil {
		n.monitors.ReuseStale(l.monitors)
		n.pasts, err = l.pasts.clone(l.config)
	}
	if err != nil {
		return nil, fmt.Errorf("copying a learner: %w", err)
	}
	return n, nil
}

// bare is a saved state without rows: the blocks "learner" and "refused", and the parts of the model that Restore
// needs.
type bare struct {
	bareHead
	learner    []byte
	refused    []byte
	covariance *model.Covariance
}

type bareHead struct {
	Scaler  model.Scaler
	Missing *model.Missing
}

func (l *Learner) bare() *bare {
	return &bare{bareHead{l.encoder.Scaling.Scaler, l.encoder.Fields.Missing}, l.encode(), l.encodeRefused(), l.predictor.imputer.Covariance()}
}

// withState returns a Learner with the given state and rows, and with the settings and Schema of l.
func (l *Learner) withState(b *bare, t *model.Table) (*Learner, error) {
	text, err := json.Marshal(b.bareHead)
	if err != nil {
		return nil, err
	}
	apart := bare{learner: b.learner, refused: b.refused, covariance: b.covariance} // a copy, because both learners write to it
	if err := json.Unmarshal(text, &apart.bareHead); err != nil {
		return nil, err
	}
	return restored(l.config, l.set, l.encoder.Schema(), &apart, t)
}
