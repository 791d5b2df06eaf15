package online

// This file finds fields that are stuck, and makes missing what they read.

import (
	"slices"

	"blankout/internal/coder"
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

// faults finds fields that are stuck and, if silent death is expected, readings that are none.
type faults struct {
	detector stuck.Detector
	limits   stuck.Limits
	found    *model.Faults // in force: those of the model

	came     *event.Example // the current event as it came, nil if it is not learned
	declared event.Example  // room for it as the model takes it
}

// bounded reports whether the first 0 of a field, and a reading far outside of all others, are missing. Streams have
// honest ones, so that they count unless silent death is expected.
func (l *answering) bounded() bool { return l.config.SilentMissing > 0 }

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
	if l.faults.came = nil; e == nil || l.shared() {
		return
	}
	changed := l.bounded() && l.faults.limits.Take(e, l.schema.Fields)
	now := stuck.Moment{Event: l.events, Time: e.Time}
	var changes []stuck.Change
	if l.config.Stuck != stuckOff {
		changes = l.faults.detector.Take(e, l.schema.Fields, now)
	}
	if len(changes) == 0 && !changed {
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
	var limits []model.FieldLimits
	if l.bounded() {
		l.faults.limits.Each(func(b stuck.Bounds) { limits = append(limits, model.FieldLimits(b)) })
	}
	l.faults.found = model.NewFaults(fields, limits)
}

// faultsState codes what is known of faults.
func (l *Learner) faultsState(c *coder.Coder) {
	l.faults.detector.State(c)
	l.faults.limits.State(c)
}

// restoreFaults puts the state that was read in force, or drops it if the settings now ask for none.
func (l *Learner) restoreFaults() {
	if l.config.Stuck == stuckOff {
		l.faults.detector = stuck.Detector{}
	}
	if !l.bounded() {
		l.faults.limits = stuck.Limits{}
	}
	on := l.faults.detector.Stuck()
	l.watch.Health.Unstick(l.config.Stuck == stuckLog, func(field int) bool {
		return !slices.ContainsFunc(on, func(r stuck.Run) bool { return int(r.Field) == field })
	})
	l.enforce()
}
