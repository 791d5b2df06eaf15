package readings

// This file determines which readings of an event are declared missing: the readings of stuck fields, and placeholders.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Faulty selects which faulty readings are detected.
type Faulty struct {
	Stuck    bool // detect stuck fields
	Declares bool // declare stuck fields missing
}

// Faults detects stuck fields and placeholders.
type Faults struct {
	Faulty
	detector     Detector
	placeholders Placeholders
	found        *model.Faults // the detected faults in effect, as in the model
	declared     event.Example // scratch for the event that Declare returns
}

// InEffect returns the rules by which readings are declared missing, or nil if there are none.
func (f *Faults) InEffect() *model.Faults { return f.found }

// Runs returns the stuck fields, whether they are declared missing or not.
func (f *Faults) Runs() []Run { return f.detector.Stuck() }

// Repeats returns how often a field repeats its value, see Detector.
func (f *Faults) Repeats(id int) (fraction float64, never, ok bool) { return f.detector.Repeats(id) }

// Declare returns an event of a schema with its faulty readings declared missing. The result is valid until the next call.
func (f *Faults) Declare(e *event.Example, schema *event.Schema) *event.Example {
	if f.found == nil {
		return e
	}
	h := model.Head{Schema: schema, Faults: f.found}
	return h.Declare(e, &f.declared)
}

// Find looks for stuck fields and placeholders in a learned event in its raw form. It returns the fields that have become
// stuck or have recovered, and the placeholders that are new.
func (f *Faults) Find(e *event.Example, fields []event.Field, now Moment) (changes []Change, found []Placeholder) {
	found = f.placeholders.Take(e, fields)
	if f.Faulty.Stuck {
		changes = f.detector.Take(e, fields, now)
	}
	if len(found)+len(changes) > 0 {
		f.enforce()
	}
	return changes, found
}

// Placeholders returns the fields that have a placeholder, ascending.
func (f *Faults) Placeholders() (ids []uint16) {
	f.placeholders.Each(func(s model.StuckField) { ids = append(ids, s.Field) })
	return ids
}

// enforce makes the detected faults take effect.
func (f *Faults) enforce() {
	var stuckAt, placeholders []model.StuckField
	if f.Declares {
		for _, r := range f.detector.Stuck() {
			stuckAt = append(stuckAt, model.StuckField{Field: r.Field, Value: r.Value})
		}
	}
	f.placeholders.Each(func(s model.StuckField) { placeholders = append(placeholders, s) })
	f.found = model.NewFaults(stuckAt, placeholders)
}

// State encodes or decodes the detectors. It resets a detector that the settings disable.
func (f *Faults) State(c *coder.Coder) {
	f.detector.State(c)
	f.placeholders.State(c)
	if !c.Decode {
		return
	}
	if !f.Faulty.Stuck {
		f.detector = Detector{}
	}
	f.enforce()
}
