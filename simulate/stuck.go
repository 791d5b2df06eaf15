package simulate

// This file measures how much the detection of stuck fields helps.

import (
	"blankout/internal/event"
	"blankout/internal/model"
)

// stuckFields returns the numeric fields that the nightmares of a family hold at a constant value.
func stuckFields(f Family, s *event.Schema) (ids []uint16) {
	for i, l := range f.Levels {
		n, ok := base(l.Nightmare).(Linear)
		if !ok || n.A != 0 {
			return nil
		}
		if i == 0 {
			ids = n.fields(s)
		}
	}
	return ids
}

// fields returns the numeric fields of the group that l changes.
func (l Linear) fields(s *event.Schema) (ids []uint16) {
	for id, f := range s.Fields {
		if f.Kind == event.Numeric && (f.Name == l.Group || f.Group == l.Group) {
			ids = append(ids, uint16(id))
		}
	}
	return ids
}

// modelOf returns the model of a run. The treatment determines whether the model has detected stuck fields.
func (u *run) modelOf() model.Model {
	m, ok := u.subject.Model.(*model.Linear)
	if !ok || u.treatment.Loss != Found && u.treatment.Loss != NotFound {
		return u.subject.Model
	}
	var stuck []model.StuckField
	if n, ok := base(u.nightmare).(Linear); ok && u.treatment.Loss == Found {
		for _, id := range n.fields(m.Schema) {
			stuck = append(stuck, model.StuckField{Field: id, Value: n.B})
		}
	}
	var placeholders []model.StuckField
	if m.Faults != nil {
		placeholders = m.Faults.Placeholders
	}
	return m.WithFaults(model.NewFaults(stuck, placeholders))
}
