package online

// This file holds what the Learner knows of fields that events lack, and how it answers those
// events.

import (
	"blankout"
	"blankout/internal/coder"
	"blankout/model"
	"blankout/online/probe"
)

// missing is what the Learner knows about events that lack fields: which fields
// they usually have, and which rule scores them better. What it publishes of that
// is a model.Missing, which scores the Learner's own events too.
type missing struct {
	model *model.Missing
	usual model.FieldUse
	// kinds counts fields as usual does, but each of several of one name for itself.
	kinds model.FieldUse
	// For sparse text formats whose Schema.Known says that features go missing.
	columns model.ColumnUse
	event   lacking
}

// lacking is what the event at hand lacks.
type lacking struct {
	named   bool           // the event has fields
	present model.FieldSet // if it has
	kinds   model.FieldSet // its fields, each of several of one name
	lack    model.Lack
	within  int     // the range of the shares that answer it
	scale   float64 // the features' factor for that
	filled  bool    // it is answered by filling.answer
	// By output, of an event that lacks some: the published intercepts, the features'
	// parts of the scores, and room for what the two add up to.
	base, part, out []float64
}

func newMissing(rules model.MissingRules, known bool) missing {
	m := model.NewMissing(rules, nil, nil, nil)
	m.Known = known
	return missing{
		model:   m,
		usual:   model.FieldUse{Memory: usualMemory},
		kinds:   model.FieldUse{Memory: usualMemory},
		columns: model.ColumnUse{Memory: usualMemory},
		event:   lacking{scale: 1},
	}
}

const (
	// Fields are counted in all of the first events, then in every n-th.
	usualFirst, usualEvery = 1024, 16
	usualMemory            = 500 // counted events
)

// lack finds out what the event at hand lacks, and counts its fields if it is its
// turn. It comes before anything of the event is learned.
func (l *answering) lack(e *blankout.Example) {
	second := l.second.on()
	l.filling.gathers = l.fillsIn() && l.events%l.filling.Every() == 0
	l.scaling.Read.Notes, l.scaling.Read.Follows = l.filling.gathers || second, len(l.filling.Columns) > 0 || second
	now := &l.missing.event
	now.lack, now.within, now.scale, now.named, now.filled = model.Lack{}, 0, 1, false, false
	m, fields := &l.missing, l.schema.Fields
	if len(e.Field) == 0 && len(e.Missing) == 0 && !m.model.Known {
		return // nothing, or a sparse text format without fields
	}
	if 64*len(now.present) < len(fields) {
		now.present = model.NewFieldSet(len(fields))
	}
	sparse := m.model.Known && e.IsSparse(fields)
	now.named = !sparse
	if now.lack = m.model.Lack(fields, e, now.present); now.lack.Some() {
		now.within, now.scale = probe.Range(now.lack), m.model.Scale(now.lack)
		l.interceptsOf(l.mixed(now.within), now.base)
		l.fillAnswer(e)
	}
	if n := l.events; !l.shared() && (n <= usualFirst || n%usualEvery == 0) {
		review := n%usualFirst == 0 || n >= 16 && n&(n-1) == 0
		if sparse {
			if m.columns.Count(fields, e); review {
				m.model = m.columns.Review(m.model)
			}
		} else if m.usual.Count(now.present, e.Missing); review {
			m.model = m.usual.Review(m.model, fields)
			if l.set.observed {
				l.setRates(m.usual.Rates(fields))
			}
		}
		if !sparse {
			clear(now.kinds)
			now.kinds = now.kinds.Room(len(fields))
			now.kinds.Add(e.Field)
			m.kinds.Count(now.kinds, nil)
		}
	}
}

// answer makes of the scores at hand, which are those of the features as they are,
// what the model answers to an event that lacks some.
func (l *answering) answer() {
	now, scores := &l.missing.event, l.now.scores
	for k := range l.active {
		now.part[k] = scores[k] - now.base[k]
		scores[k] = now.base[k] + now.scale*now.part[k]
	}
	if now.filled {
		copy(scores, l.filling.answer[:l.active])
		if l.set.numbers {
			scores[0] = l.unit.Own(scores[0])
		}
	}
}

func (m *missing) state(c *coder.Coder) {
	if m.model.Known {
		c.Uint(&m.columns.Events)
		c.Uint32s(&m.columns.Columns)
		c.Uints(&m.columns.Present)
	}
	c.Uint(&m.usual.Events)
	c.Uints(&m.usual.Present)
	c.Uints(&m.usual.Null)
	c.Uint(&m.kinds.Events)
	c.Uints(&m.kinds.Present)
	if c.Version < sharesVersion {
		oldComparisons(c)
	}
}
