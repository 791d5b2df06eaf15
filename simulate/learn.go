package simulate

// This file simulates a learner in a nightmare.

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
)

// learning is a learner on a stream in a nightmare. Every event is damaged, scored, and then learned in its damaged
// form.
type learning struct {
	learner   *online.Learner
	published *model.Linear // weights that Worst attacks
	every     int           // number of events between updates of published
	dead      *model.Dead   // values of numbers when silently missing, from the recorded events
	left      event.Example
	missing   []uint16
	alive     []bool // by field id: whether the current event still has the field
}

func newLearning(s *Subject, stage *Stage) (*learning, error) {
	schema := s.Schema.Clone()
	stage.Schema = schema
	l, err := online.New(*s.Learn, schema)
	if err != nil {
		return nil, err
	}
	return &learning{learner: l, every: 500, dead: s.dead}, nil
}

// predictAndLearn predicts an event like fixed.predict and then learns the event. The nightmare Worst uses the weights
// after the last multiple of 500 events. If the learner rejects an event because of its distortion, the event has no
// scores.
func (l *learning) predictAndLearn(u *run, ev *Event, e *event.Example) (model.Decision, []float64) {
	if _, worst := base(u.nightmare).(Worst); worst && ev.Number%l.every == 0 {
		l.published = l.learner.Snapshot().Model().Compact()
	}
	x, field := clone(e, event.Vec{}, nil)
	ev.Model, ev.X, ev.Field = l.published, x, field
	u.nightmare.Distort(ev)
	u.markDead(ev)
	damaged := *e
	if u.treatment.Dead == Silent {
		damaged.Features, damaged.Field = ev.X, ev.Field
		l.dead.Delete(&damaged, ev.Schema.Fields, ev.X.Index, ev.Dead, nil, &l.left)
		damaged = l.left
	} else {
		l.remove(ev, &damaged)
	}
	p := l.learner.Learn(&damaged, nil)
	return p.Decision, p.Scores
}

// remove deletes the dead features of ev from e. A field without a remaining feature is declared missing.
func (l *learning) remove(ev *Event, e *event.Example) {
	x, field := ev.X, ev.Field
	l.alive = slices.Grow(l.alive[:0], len(ev.Schema.Fields))[:len(ev.Schema.Fields)]
	clear(l.alive)
	l.missing = append(l.missing[:0], e.Missing...)
	kept := 0
	for i, dead := range ev.Dead {
		if dead {
			if field != nil && field[i] != 0 {
				l.missing = append(l.missing, field[i])
			}
			continue
		}
		x.Index[kept], x.Value[kept] = x.Index[i], x.Value[i]
		if field != nil {
			field[kept] = field[i]
			l.alive[field[i]] = true
		}
		kept++
	}
	e.Features = event.Vec{Index: x.Index[:kept], Value: x.Value[:kept]}
	if field != nil {
		e.Field = field[:kept]
		l.missing = slices.DeleteFunc(l.missing, func(id uint16) bool { return l.alive[id] })
		slices.Sort(l.missing)
		l.missing = slices.Compact(l.missing)
	}
	e.Missing = l.missing
}
