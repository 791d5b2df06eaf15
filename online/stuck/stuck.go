// Package stuck finds numeric fields that have stopped moving. A sensor that dies without a null
// often repeats its last value, its mean or 0. Detector reads a stream and lists such fields; it
// holds no weight and changes no event.
//
// A field that repeats its last value with probability r does so n times in a row with
// probability r^n if repeats are independent. They are not: power at night, rain, a status. So a
// run of n repeats is stuck if
//
//	n >= Least,  r^n < chance / (number of numeric fields),  and  n > longer times the longest run of that value,
//
// or of any value of its kind, 0 or not 0, if no run of that value is known.
// r = (repeats + n + 1) / (readings + n + 2) counts the current run: without it a field that is
// constant from its first reading is stuck. It is the r of the readings of that kind, if there are
// enough of them, else the r of all readings.
//
// A field that has had two values only, such as a flag, is not stuck at one of them: a flag that is
// turned off is no fault.
package stuck

import (
	"math"
	"math/bits"

	"blankout/internal/event"
)

const (
	// Least is the fewest repeats of a run that is stuck. With 16 three fields of five real
	// streams raise an alarm, with 50 none of nine.
	Least = 50
	// chance is that of a false alarm under independent repeats, over all fields.
	chance = 1e-9
	// longer is by how much a run has to exceed the longest one of its value.
	longer = 4
	// leastOfKind is the fewest readings of a kind that have an r of their own. A value that was
	// never read would otherwise count as constant.
	leastOfKind = 50
	// memory bounds the readings of a kind that are counted: the counts are halved beyond it.
	memory = 1 << 16
	// mostFields bounds the fields, those that appear first.
	mostFields = 4096
	// values is the number of values whose longest runs a field keeps: 0, and by hash others.
	values = 16
)

// Detector finds the numeric fields of a stream that are stuck. Its zero value is a stream that begins.
type Detector struct {
	fields  []field // by id
	runs    []runs  // of the fields: apart, because few events need them
	numeric int     // of the fields
	stuck   []Run   // by field
}

// Run is a run of repeats of one value.
type Run struct {
	Field   uint16
	Value   float64
	Repeats uint64 // when it was found
	// Usual is the fraction of readings that repeated the one before, this run not counted.
	Usual float64
	Since Moment // the first reading
}

// Moment is an event of the stream.
type Moment struct {
	Event uint64 // its number
	Time  int64  // its time, in milliseconds since the Unix epoch; 0 if unknown
}

// Change is a field that has become stuck, or that moves again.
type Change struct {
	Run
	Moves bool
}

// field is what is known of a field.
type field struct {
	numeric, began bool
	last           float64
	repeats        uint64 // of last, so far
	since          Moment // the first reading of the run
	found          uint64 // repeats at which the run was found to be stuck, 0 if it is not
	kinds          [2]count
	// pair are the values of the first runs that were not stuck, pairs says how many are known, and
	// many that there were more than two.
	pair  [2]float64
	pairs uint8
	many  bool
}

// runs are the longest runs of a field that have ended.
type runs struct {
	ofKind  [2]uint64       // of any value
	byValue [values]longest // of the value with the longest one of those with one hash; the first is of 0
}

// longest is the longest run of a value, 0 for none.
type longest struct {
	value   float64
	repeats uint64
}

// count counts the readings of a kind in runs that have ended and were not stuck.
type count struct{ readings, repeats uint64 }

// kindOf returns the index of a value's kind: 0 is 0, and 1 is any other.
func kindOf(x float64) int {
	if x == 0 {
		return 0
	}
	return 1
}

// placeOf returns the index of a value among the longest runs.
func placeOf(x float64) int {
	if x == 0 {
		return 0
	}
	return 1 + int(event.Mix(math.Float64bits(x))%(values-1))
}

// Take reads an event as it came. It returns what has changed, in memory that the next Take uses.
func (d *Detector) Take(e *event.Example, fields []event.Field, now Moment) (changes []Change) {
	if len(d.fields) < len(fields) {
		d.grow(fields)
	}
	for i, id := range e.Field {
		if int(id) >= len(d.fields) {
			continue
		}
		f := &d.fields[id]
		if !f.numeric {
			continue
		}
		x := e.Features.Value[i]
		if x != f.last || !f.began {
			if f.found > 0 {
				changes = append(changes, Change{d.release(id), true})
			}
			if f.began {
				f.end(&d.runs[id])
			}
			f.began, f.last, f.repeats, f.since, f.found = true, x, 0, now, 0
			continue
		}
		if f.repeats++; f.repeats < Least || f.found > 0 || f.repeats&(stride(f.repeats)-1) != 0 {
			continue
		}
		if f.isStuck(&d.runs[id], d.numeric) {
			f.found = f.repeats
			changes = append(changes, Change{d.add(id), false})
		}
	}
	return changes
}

// stride returns how many repeats pass from test to test of a run: 1 below 64, then at most a
// thirty-second part of the run.
func stride(repeats uint64) uint64 { return 1 << max(0, bits.Len64(repeats)-6) }

// grow adds the fields of the Schema that are new.
func (d *Detector) grow(fields []event.Field) {
	for id := len(d.fields); id < min(len(fields), mostFields); id++ {
		numeric := id > 0 && fields[id].Kind == event.Numeric
		d.fields, d.runs = append(d.fields, field{numeric: numeric}), append(d.runs, runs{})
		if numeric {
			d.numeric++
		}
	}
}

// end counts the current run. A run that was stuck moves no r. It is a run of its value in full,
// so that a night raises one alarm and no other; but for other values it is one of the repeats at
// which it was found, or a sensor that was dead for a week could not be found for a month.
func (f *field) end(of *runs) {
	k := &f.kinds[kindOf(f.last)]
	if f.found == 0 {
		if !f.many {
			f.count()
		}
		if k.readings++; f.repeats == 0 {
			return
		}
		k.readings, k.repeats = k.readings+f.repeats, k.repeats+f.repeats
		for k.readings >= memory {
			k.readings, k.repeats = k.readings/2, k.repeats/2
		}
	}
	if most := &of.byValue[placeOf(f.last)]; f.repeats > most.repeats {
		*most = longest{f.last, f.repeats}
	}
	most := &of.ofKind[kindOf(f.last)]
	if f.found > 0 {
		*most = max(*most, f.found)
	} else {
		*most = max(*most, f.repeats)
	}
}

// count counts the value of a run among the first two.
func (f *field) count() {
	switch {
	case f.isFlag():
	case f.pairs == 2:
		f.many = true
	default:
		f.pair[f.pairs] = f.last
		f.pairs++
	}
}

// isFlag reports whether the field has had two values only, and the current one is among them.
func (f *field) isFlag() bool {
	return !f.many && (f.pairs > 0 && f.last == f.pair[0] || f.pairs > 1 && f.last == f.pair[1])
}

// isStuck tests the current run of one of so many fields.
func (f *field) isStuck(of *runs, fields int) bool {
	most := of.ofKind[kindOf(f.last)]
	if own := of.byValue[placeOf(f.last)]; own.value == f.last {
		most = own.repeats
	}
	if f.repeats <= longer*most || f.isFlag() {
		return false
	}
	c := f.kinds[kindOf(f.last)]
	if c.readings < leastOfKind {
		c = f.all()
	}
	n := float64(f.repeats)
	r := (float64(c.repeats) + n + 1) / (float64(c.readings) + n + 2)
	return n*math.Log(r) < math.Log(chance/float64(max(fields, 1)))
}

// all returns the counts of both kinds.
func (f *field) all() count {
	return count{f.kinds[0].readings + f.kinds[1].readings, f.kinds[0].repeats + f.kinds[1].repeats}
}

// usual returns the fraction of readings that repeated the one before.
func (f *field) usual() float64 {
	c := f.all()
	return float64(c.repeats) / float64(max(c.readings, 1))
}

// run returns the current run of a field.
func (d *Detector) run(id uint16) Run {
	f := &d.fields[id]
	return Run{Field: id, Value: f.last, Repeats: f.found, Usual: f.usual(), Since: f.since}
}

// add adds a field to those that are stuck.
func (d *Detector) add(id uint16) Run {
	r, at := d.run(id), 0
	for at < len(d.stuck) && d.stuck[at].Field < id {
		at++
	}
	d.stuck = append(d.stuck, Run{})
	copy(d.stuck[at+1:], d.stuck[at:])
	d.stuck[at] = r
	return r
}

// release takes a field from those that are stuck.
func (d *Detector) release(id uint16) (r Run) {
	for at := range d.stuck {
		if d.stuck[at].Field == id {
			r = d.stuck[at]
			d.stuck = append(d.stuck[:at], d.stuck[at+1:]...)
			return r
		}
	}
	return d.run(id)
}

// Stuck returns the runs that are stuck, in the order of the fields, borrowed until the next Take.
func (d *Detector) Stuck() []Run { return d.stuck }

// rarely is the fraction of repeats above which a field is never found: it would take thousands.
const rarely = 0.99

// Repeats returns the fraction of the readings of a field that repeat the one before, the current
// run counted, and whether the field moves too rarely, or is a flag, so that it is not found when it
// is stuck. ok is false before Least readings, and for a field that is not numeric.
func (d *Detector) Repeats(id int) (fraction float64, never, ok bool) {
	if id >= len(d.fields) || !d.fields[id].numeric || !d.fields[id].began {
		return 0, false, false
	}
	f := &d.fields[id]
	c := f.all()
	if f.found == 0 {
		c.readings, c.repeats = c.readings+f.repeats+1, c.repeats+f.repeats
	}
	if c.readings < Least {
		return 0, false, false
	}
	fraction = float64(c.repeats) / float64(c.readings)
	return fraction, fraction > rarely || c.readings == c.repeats+1 || f.isFlag(), true
}
