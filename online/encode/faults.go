package encode

// This file declares missing what fields read that tells nothing: a field that is stuck and, if silent death is expected,
// the first 0 of a field and readings far outside of all others.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/stuck"
)

// Faulty says which readings are looked for.
type Faulty struct {
	Stuck    bool // fields that are stuck
	Declares bool // which are then missing
	Limits   bool // readings beyond limits. Streams have honest ones, so that they count unless silent death is expected
}

// faults finds readings that tell nothing.
type faults struct {
	Faulty
	detector stuck.Detector
	limits   stuck.Limits
	found    *model.Faults // in force: those of the model
	declared event.Example // room for an event as the model takes it
}

// Faults returns what is declared missing, nil for nothing.
func (n *Encoder) Faults() *model.Faults { return n.faults.found }

// Stuck returns the fields that are stuck, whether they are declared missing or not.
func (n *Encoder) Stuck() []stuck.Run { return n.faults.detector.Stuck() }

// declare returns an event as the model takes it. The result holds until the next call.
func (n *Encoder) declare(e *event.Example) *event.Example {
	if n.faults.found == nil {
		return e
	}
	h := model.Head{Schema: n.schema, Faults: n.faults.found}
	return h.Declare(e, &n.faults.declared)
}

// Repeats is that of the detector of fields that are stuck.
func (n *Encoder) Repeats(id int) (fraction float64, never, ok bool) {
	return n.faults.detector.Repeats(id)
}

// Find has an event that has been learned, as it came, say which readings tell nothing from here on. It returns which fields have
// become stuck, and which move again.
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

// enforce has the model take as missing what has been found.
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

// state codes what is known of faults. What the settings ask for no more is forgotten.
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
