package simulate

// This file simulates a learner in a nightmare.

import (
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
	losses    model.Losses
	left      event.Example
}

func newLearning(s *Subject, stage *Stage) (*learning, error) {
	schema := s.Schema.Clone()
	stage.Schema = schema
	l, err := online.New(*s.Learn, schema)
	if err != nil {
		return nil, err
	}
	return &learning{learner: l, every: 500, losses: model.Losses{Dead: s.dead, Seed: stage.losses()}}, nil
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
	damaged.Features, damaged.Field = ev.X, ev.Field
	l.losses.Fields = ev.Schema.Fields
	l.losses.Lose(u.treatment.Loss, &damaged, uint64(ev.Number), ev.X.Index, ev.Dead, &l.left)
	l.losses.Note(&damaged)
	p := l.learner.Learn(&l.left, nil)
	return p.Decision, p.Scores
}
