package online

// This file finds fields that are stuck, and makes missing what they read.

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/stuck"
	"blankout/online/watch"
)

// The values of Config.Stuck.
const (
	stuckMissing = "missing" // a field that is stuck is missing
	stuckLog     = "log"     // it raises an alarm and is not missing
	stuckOff     = "off"     // none is looked for
)

// faults finds fields that are stuck.
type faults struct {
	detector stuck.Detector
	found    *model.Faults // in force: those of the model

	came     *event.Example // the current event as it came, nil if it is not learned
	declared event.Example  // room for it as the model takes it
}

// declare returns an event as the model takes it. The result holds until the next call.
func (l *answering) declare(e *event.Example) *event.Example {
	if l.faults.found == nil {
		return e
	}
	h := model.Head{Schema: l.schema, Faults: l.faults.found}
	return h.Declare(e, &l.faults.declared)
}

// asCame returns the current event as it came, which models of earlier declare themselves.
func (f *faults) asCame(e *event.Example) *event.Example {
	if f.came != nil {
		return f.came
	}
	return e
}

// observe has the event that has been learned tell which fields are stuck from here on. In a group of
// several learners nobody looks: each has other events, and an interval forgets what it has seen.
func (l *Learner) observe() {
	e := l.faults.came
	if l.faults.came = nil; e == nil || l.config.Stuck == stuckOff || l.shared() {
		return
	}
	now := stuck.Moment{Event: l.events, Time: e.Time}
	changes := l.faults.detector.Take(e, l.schema.Fields, now)
	if len(changes) == 0 {
		return
	}
	for _, c := range changes {
		s := watch.Stuck{Value: c.Value, Repeats: c.Repeats, Usual: c.Usual, Since: watch.Moment(c.Since), Logged: l.config.Stuck == stuckLog}
		if c.Moves {
			l.watch.Health.Moves(int(c.Field), watch.Moment(now))
		} else {
			l.watch.Health.Sticks(int(c.Field), s, watch.Moment(now))
		}
	}
	l.enforce()
}

// enforce has the model take as missing what the settings say.
func (l *Learner) enforce() {
	var fields []model.StuckField
	if l.config.Stuck == stuckMissing {
		for _, r := range l.faults.detector.Stuck() {
			fields = append(fields, model.StuckField{Field: r.Field, Value: r.Value})
		}
	}
	l.faults.found = model.NewFaults(fields, nil)
}

// restoreFaults takes up the state of the detector, or drops it if the settings now ask for none.
func (l *Learner) restoreFaults() {
	if l.config.Stuck == stuckOff {
		l.faults.detector = stuck.Detector{}
	}
	on := l.faults.detector.Stuck()
	l.watch.Health.Unstick(func(field int) bool {
		return !slices.ContainsFunc(on, func(r stuck.Run) bool { return int(r.Field) == field })
	})
	l.enforce()
}
