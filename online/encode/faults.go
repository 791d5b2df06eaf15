package encode

// This file declares readings missing that carry no information: those of stuck fields and, if silent death is
// expected, the first zeros of a field and readings far outside its limits.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/stuck"
)

// Faulty selects which readings are detected.
type Faulty struct {
	Stuck    bool // stuck fields
	Declares bool // stuck fields are declared missing
	Limits   bool // readings beyond limits; these count unless silent death is expected, because streams have valid ones
}

// faults detects readings that carry no information.
type faults struct {
	Faulty
	detector stuck.Detector
	limits   stuck.Limits
	found    *model.Faults // in force, as in the model
	declared event.Example // scratch for an event with declared readings
}

// Faults returns what is declared missing, or nil.
func (n *Encoder) Faults() *model.Faults { return n.faults.found }

// Stuck returns the stuck fields, whether they are declared missing or not.
func (n *Encoder) Stuck() []stuck.Run { return n.faults.detector.Stuck() }

// declare returns an event with the detected readings declared missing. The result is valid until the next call.
func (n *Encoder) declare(e *event.Example) *event.Example {
	if n.faults.found == nil {
		return e
	}
	h := model.Head{Schema: n.schema, Faults: n.faults.found}
	return h.Declare(e, &n.faults.declared)
}

// Repeats returns what the detector of stuck fields knows of a field, see stuck.Detector.
func (n *Encoder) Repeats(id int) (fraction float64, never, ok bool) {
	return n.faults.detector.Repeats(id)
}

// Find updates the detectors with a learned event, as it arrived. It returns the fields that have become stuck or have
// recovered.
func (n *Encoder) Find(e *event.Example, now stuck.Moment) (changes []stuck.Change) {
	f, changed := &n.faults, false
	if f.Limits {
		changed = f.limits.Take(e, n.schema.Fields)
	}
	if f.Stuck {
		changes = f.detector.Take(e, n.schema.Fields, now)
	}
	if changed || len(changes) > 0 {
		f.enforce()
	}
	return changes
}

// enforce puts what has been detected in force.
func (f *faults) enforce() {
	var fields []model.StuckField
	if f.Declares {
		for _, r := range f.detector.Stuck() {
			fields = append(fields, model.StuckField{Field: r.Field, Value: r.Value})
		}
	}
	var limits []model.FieldLimits
	if f.Limits {
		f.limits.Each(func(b stuck.Bounds) { limits = append(limits, model.FieldLimits(b)) })
	}
	f.found = model.NewFaults(fields, limits)
}

// state codes the detectors. It resets those that the settings exclude.
func (f *faults) state(c *coder.Coder) {
	f.detector.State(c)
	f.limits.State(c)
	if !c.Decode {
		return
	}
	if !f.Stuck {
		f.detector = stuck.Detector{}
	}
	if !f.Limits {
		f.limits = stuck.Limits{}
	}
	f.enforce()
}
