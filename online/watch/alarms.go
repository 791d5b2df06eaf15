package watch

// This file keeps the alarms about fields: those that are on, and what became of the latest.

import (
	"cmp"
	"maps"
	"slices"

	"blankout"
	"blankout/internal/coder"
)

// Alarms holds the alarms that are on. Who watches fields shows it every alarm at the end of
// each block; it tells people of an alarm unless that is one of a spell, and how much it matters.
type Alarms struct {
	on            map[alarmKey]*alarm
	raised, noted uint64        // warnings and notes so far
	changes       []fieldChange // the latest, oldest first
	changed       uint64        // number of all of them
	spells        Spells
}

// The kinds of alarms: of the measures of a field, and of what else is watched.
const (
	alarmKindOf   = fieldMeasures + iota // it comes as values of another kind
	alarmVanished                        // it is rare, and comes no more
	alarmKinds
)

const (
	// An alarm is a note where the error rises by less than noteBelow, and by less than noteMost
	// if that is a deviation too low. Both are in percentage points.
	noteBelow, noteMost = 0.5, 1
	// healthChanges is how many changes are remembered.
	healthChanges = 64
)

type alarmKey struct{ field, kind int }

// alarm is one that is on, as it was at the end of the latest block.
type alarm struct {
	fieldChange
	quiet bool    // it is one of a spell: nobody is told
	late  bool    // it was out of the spell at the latest block
	down  bool    // the measure has fallen
	worst float64 // the largest strength
}

// changeKind says what has become of an alarm.
type changeKind uint64

const (
	alarmRaised   changeKind = 1 + iota
	alarmEnded               // the field is as usual again
	alarmAccepted            // it has been as it is for so long that this is the usual now
	alarmGrown               // it was a note, and is a warning now
	alarmOn                  // nothing: it stays
)

// fieldChange is an alarm that was raised or has ended.
type fieldChange struct {
	field, kind  int
	what         changeKind
	event        uint64 // when that was found out
	since, until Moment // of the alarm
	value        alarmValue
	comes        form // as what the field comes now
	note         bool // it costs too little for a warning
}

// form is as what a field comes: comesNull, comesNot, or comesAs plus a blankout.Kind; 0 if
// that is not told.
type form uint64

const (
	comesNull form = 1 + iota
	comesNot       // it is left out
	comesAs
)

func (f form) String() string {
	switch {
	case f == 0:
		return ""
	case f == comesNull:
		return "null"
	case f == comesNot:
		return "left out"
	}
	return blankout.Kind(f - comesAs).String()
}

// take takes up an alarm as it is at the end of a block, at a time of the events. calm says that
// the block looks as usual.
func (a *Alarms) take(x fieldChange, calm bool, time int64) {
	key := alarmKey{x.field, x.kind}
	on := a.on[key]
	switch x.what {
	case alarmRaised, alarmOn:
		if on == nil {
			if a.on == nil {
				a.on = map[alarmKey]*alarm{}
			}
			on = newAlarm(x)
			a.on[key] = on
			if on.quiet = a.spells.expects(on, time); !on.quiet {
				a.tell(on, alarmRaised)
			}
		} else {
			if on.since, on.value = x.since, x.value; !calm {
				on.comes = x.comes
			}
		}
		on.worst = max(on.worst, strength(x.kind, x.value.Condition))
		late := on.quiet && !calm && !a.spells.expects(on, time)
		if late && on.late { // twice, for one odd time is none
			on.quiet, on.event = false, x.event
			a.tell(on, alarmRaised)
		}
		on.late = late
		if on.note && !x.value.cheap {
			if on.note = false; !on.quiet {
				on.event = x.event
				a.tell(on, alarmGrown)
			}
		}
	default:
		if on == nil {
			return
		}
		on.until, on.value, on.event = x.until, x.value, x.event
		if !on.quiet {
			a.tell(on, x.what)
		}
		if x.what == alarmEnded {
			a.spells.learn(on)
		}
		delete(a.on, key)
	}
}

// resume takes up an alarm that a file without Alarms has on.
func (a *Alarms) resume(x fieldChange) {
	if a.on == nil {
		a.on = map[alarmKey]*alarm{}
	}
	a.on[alarmKey{x.field, x.kind}] = newAlarm(x)
}

func newAlarm(x fieldChange) *alarm {
	x.note = x.value.cheap
	usual := 0.0
	if x.kind == measureDeviation {
		usual = 1 // a quotient
	}
	return &alarm{fieldChange: x, down: x.value.Change < usual}
}

// tell remembers what has become of an alarm.
func (a *Alarms) tell(on *alarm, what changeKind) {
	switch {
	case what == alarmRaised && on.note:
		a.noted++
	case what == alarmRaised, what == alarmGrown:
		a.raised++
	}
	x := on.fieldChange
	x.what = what
	if len(a.changes) == healthChanges {
		a.changes = a.changes[:copy(a.changes, a.changes[1:])]
	}
	a.changes = append(a.changes, x)
	a.changed++
}

// report tells of the alarms that are on, by field and kind.
func (a *Alarms) report(r *report, out *Health) {
	for _, key := range a.keys() {
		on, field := a.on[key], r.field(key.field)
		switch {
		case field == nil:
			continue
		case on.quiet:
			field.ExpectedUntil = Moment{Time: a.spells.until(on)}.when()
			continue
		case on.note:
			out.Notes++
		default:
			out.Alarms++
		}
		x := on.fieldChange
		x.what = alarmRaised
		field.Alarms = append(field.Alarms, alarmOf(r.fields, &x))
	}
}

func (a *Alarms) keys() []alarmKey {
	return slices.SortedFunc(maps.Keys(a.on), func(x, y alarmKey) int {
		return cmp.Or(cmp.Compare(x.field, y.field), cmp.Compare(x.kind, y.kind))
	})
}

// State codes the alarms, about so many fields at most.
func (a *Alarms) State(c *coder.Coder, fields int) {
	c.Uint(&a.raised)
	c.Uint(&a.noted)
	c.Uint(&a.changed)
	n := uint64(len(a.changes))
	c.Uint(&n)
	if c.Decode {
		if n > healthChanges {
			c.Failed = true
			return
		}
		a.changes = make([]fieldChange, n)
	}
	for i := range a.changes {
		a.changes[i].state(c, fields)
	}
	keys := a.keys()
	n = uint64(len(keys))
	c.Uint(&n)
	if c.Decode {
		a.on, keys = map[alarmKey]*alarm{}, nil
	}
	for i := range n {
		on := &alarm{}
		if !c.Decode {
			on = a.on[keys[i]]
		}
		on.fieldChange.state(c, fields)
		c.Bool(&on.quiet)
		c.Bool(&on.late)
		c.Bool(&on.down)
		c.Float(&on.worst)
		if c.Failed {
			return
		}
		a.on[alarmKey{on.field, on.kind}] = on
	}
	a.spells.state(c, fields)
}

func (x *fieldChange) state(c *coder.Coder, fields int) {
	x.oldState(c)
	c.Uint((*uint64)(&x.comes))
	c.Bool(&x.note)
	if x.field < 0 || x.field >= fields || x.kind < 0 || x.kind >= alarmKinds || x.comes > comesAs+form(blankout.Cross) {
		c.Failed = true
	}
}

// oldState is how files without Alarms hold a change.
func (x *fieldChange) oldState(c *coder.Coder) {
	c.Int(&x.field)
	c.Int(&x.kind)
	c.Uint((*uint64)(&x.what))
	c.Uint(&x.event)
	x.since.state(c)
	x.until.state(c)
	c.Each(&x.value.Now, &x.value.Usual, &x.value.Change, &x.value.before, &x.value.after)
}
