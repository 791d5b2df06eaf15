package readings

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// This file determines which readings of an event are declared missing: the readings of stuck fields, and placeholders.

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

// The part below detects numeric fields that no longer change. A sensor that dies without sending null often repeats its
// last value, its mean or 0. Detector reads a stream and lists such fields. It changes no events.
//
// If repeats were independent, a field that repeats its last value with probability r would repeat it n times in a row
// with probability r^n. But repeats are not independent: solar power is 0 all night, rain stops for days, and a status
// rarely changes. So a run of n repeats of a value is stuck if
//
//	n >= Least,  r^n < falseAlarm / (number of numeric fields),  and  n > longerRun times the longest run of that value,
//
// or of any value of its kind (0 or not 0) if no run of that value is known. r = (repeats + n + 1) / (readings + n + 2)
// includes the current run. If r did not include it, a field that is constant from its first reading would be stuck. r
// counts the readings of the value's kind if there are enough, otherwise all readings.
//
// A field with only two values, such as a flag, is never stuck, because a flag that is turned off is no fault.

const (
	// Least is the smallest number of repeats of a stuck run. A value of 16 raises an alarm for three fields of five
	// real streams, and a value of 50 for no field of nine streams.
	Least = 50
	// falseAlarm is the probability of a false alarm under independent repeats, over all fields.
	falseAlarm = 1e-9
	// longerRun is the factor by which a run must exceed the longest earlier run of its value.
	longerRun = 4
	// leastOfKind is the smallest number of readings of a kind (0 or not 0) for which r counts only readings of that
	// kind. Without this minimum, a value of a kind without readings would count as constant.
	leastOfKind = 50
	// If there are more than stuckMemory readings of a kind, its counts are halved.
	stuckMemory = 1 << 16
	// mostStuck is the largest number of monitored fields. The first fields are monitored.
	mostStuck = 4096
	// runSlots is the number of slots for the longest runs of a field: one slot for the value 0, and other slots by the
	// hash of the value.
	runSlots = 16
)

// Detector detects the stuck numeric fields of a stream. Its zero value is for a new stream.
type Detector struct {
	fields  []field // by field id
	runs    []runs  // runs of each field; not part of field, because few events need them
	numeric int     // number of numeric fields
	stuck   []Run   // stuck runs, sorted by field
}

// Run is a run of repeats of one value.
type Run struct {
	Field   uint16
	Value   float64
	Repeats uint64 // number of repeats when it was detected
	// Usual is the fraction of readings outside this run that equal the previous reading.
	Usual float64
	Since Moment // time of the first reading
}

// Moment is the number and time of an event.
type Moment struct {
	Event uint64 // number of the event
	Time  int64  // event time in milliseconds since the Unix epoch; 0 if not known
}

// State encodes or decodes a Moment.
func (m *Moment) State(c *coder.Coder) {
	c.Uint(&m.Event)
	c.Int64(&m.Time)
}

// When returns the time of a moment, or nil if it is unknown.
func (m Moment) When() *time.Time {
	if m.Time == 0 {
		return nil
	}
	t := time.UnixMilli(m.Time).UTC()
	return &t
}

func (m Moment) String() string {
	if t := m.When(); t != nil {
		return t.Format(time.RFC3339)
	}
	return "event " + strconv.FormatUint(m.Event, 10)
}

// Change reports that a field has become stuck, or that it is no longer stuck.
type Change struct {
	Run
	Moves bool
}

// field is the state of one numeric field.
type field struct {
	numeric, began bool
	last           float64
	repeats        uint64 // number of repeats of last so far
	since          Moment // first reading of the run
	found          uint64 // number of repeats at which the run was detected as stuck, 0 if it is not stuck
	kinds          [2]count
	// pair has the values of the first two runs that were not stuck. pairs is the number of values in pair, or the
	// constant many if there were more than two.
	pair  [2]float64
	pairs int
	many  bool
}

// runs holds the longest completed runs of a field.
type runs struct {
	ofKind  [2]uint64         // longest run of any value, by kind
	byValue [runSlots]longest // longest run of a value, by hash; the first is for 0
}

// longest is the longest run of a value, or 0 if the value has no run.
type longest struct {
	value   float64
	repeats uint64
}

// count has the numbers of readings and repeats of a kind (0 or not 0), in completed runs that were not stuck.
type count struct{ readings, repeats uint64 }

// kindOf returns the index of a value's kind: 0 for the value 0, and 1 for all other values.
func kindOf(x float64) int {
	if x == 0 {
		return 0
	}
	return 1
}

// placeOf returns the index of a value in byValue.
func placeOf(x float64) int {
	if x == 0 {
		return 0
	}
	return 1 + int(event.Mix(math.Float64bits(x))%(runSlots-1))
}

// Take processes an event in its raw form. The returned changes are valid until the next call of Take.
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

// stride returns the number of repeats after which a run is tested again. It is 1 below 64 repeats, and later at most
// 1/32 of the length of the run.
func stride(repeats uint64) uint64 { return 1 << max(0, bits.Len64(repeats)-6) }

// grow adds the new fields of the Schema.
func (d *Detector) grow(fields []event.Field) {
	for id := len(d.fields); id < min(len(fields), mostStuck); id++ {
		numeric := id > 0 && fields[id].Kind == event.Numeric
		d.fields, d.runs = append(d.fields, field{numeric: numeric}), append(d.runs, runs{})
		if numeric {
			d.numeric++
		}
	}
}

// end counts the run that has just ended. A stuck run does not change r. For later runs of the same value the full
// length of the run is stored, so that the first night raises an alarm and later nights do not. For runs of other
// values the length at detection is stored. If the full length were stored, a sensor that was dead for a week could not
// be detected again for a month.
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
		for k.readings >= stuckMemory {
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

// count adds the value of a run to pair, if it is a new value.
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

// isFlag reports whether the field has had only two values, including the current value.
func (f *field) isFlag() bool {
	return !f.many && (f.pairs > 0 && f.last == f.pair[0] || f.pairs > 1 && f.last == f.pair[1])
}

// isStuck reports whether the current run is stuck. fields is the number of numeric fields.
func (f *field) isStuck(of *runs, fields int) bool {
	most := of.ofKind[kindOf(f.last)]
	if own := of.byValue[placeOf(f.last)]; own.value == f.last {
		most = own.repeats
	}
	if f.repeats <= longerRun*most || f.isFlag() {
		return false
	}
	c := f.kinds[kindOf(f.last)]
	if c.readings < leastOfKind {
		c = f.all()
	}
	n := float64(f.repeats)
	r := (float64(c.repeats) + n + 1) / (float64(c.readings) + n + 2)
	return n*math.Log(r) < math.Log(falseAlarm/float64(max(fields, 1)))
}

// all returns the counts of both kinds together.
func (f *field) all() count {
	return count{f.kinds[0].readings + f.kinds[1].readings, f.kinds[0].repeats + f.kinds[1].repeats}
}

// usual returns the fraction of readings that equal the previous reading.
func (f *field) usual() float64 {
	c := f.all()
	return float64(c.repeats) / float64(max(c.readings, 1))
}

// run returns the current run of a field.
func (d *Detector) run(id uint16) Run {
	f := &d.fields[id]
	return Run{Field: id, Value: f.last, Repeats: f.found, Usual: f.usual(), Since: f.since}
}

// add adds a field to the stuck fields.
func (d *Detector) add(id uint16) Run {
	r, at := d.run(id), 0
	for at < len(d.stuck) && d.stuck[at].Field < id {
		at++
	}
	d.stuck = slices.Insert(d.stuck, at, r)
	return r
}

// release removes a field from the stuck fields. It returns the run of the field.
func (d *Detector) release(id uint16) Run {
	at := slices.IndexFunc(d.stuck, func(r Run) bool { return r.Field == id })
	if at < 0 {
		return d.run(id)
	}
	r := d.stuck[at]
	d.stuck = slices.Delete(d.stuck, at, at+1)
	return r
}

// Stuck returns the stuck runs, in the order of the fields. The result is valid until the next call of Take.
func (d *Detector) Stuck() []Run { return d.stuck }

// A field whose fraction of repeats is above rarely is never detected, because the detection would take thousands of
// readings.
const rarely = 0.99

// Repeats returns the fraction of a field's readings that equal the previous reading, including the current run. never
// reports that the field can never be detected as stuck, because it changes too rarely or is a flag. ok is false if the
// field has fewer than Least readings or is not numeric.
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

// The part below finds placeholders: values such as -999 that a sender writes where it has no reading.

// Placeholders finds, for each numeric field, one value that repeats far away from all other readings. It looks at
// the first readings of a field, and again from time to time. Once found, a placeholder stays one.
//
// The zero value is for a new stream.
type Placeholders struct {
	fields []placed // by field id
}

// placed has the latest readings of a field while they are examined.
type placed struct {
	numeric, found bool
	value          float64 // the placeholder, if found
	readings       uint64
	window         []float64
}

// Placeholder is a value that a numeric field has in place of a reading.
type Placeholder struct {
	Field     uint16
	Column    uint32
	Value     float64
	Fraction  float64   // fraction of the examined readings
	Low, High float64   // range of the other readings
	Others    []float64 // the other examined readings
}

const (
	// windowSize readings are examined, of each field the first ones, and those from every power of windowsGrow on. They
	// are also examined whenever their number has doubled from windowFirst on.
	windowSize, windowFirst, windowsGrow = 128, 32, 4
	// A placeholder has at least placeholderLeast of the examined readings, and the fraction placeholderFraction. The other
	// readings have at least variedLeast values, so that flags have no placeholder.
	placeholderLeast, placeholderFraction, variedLeast = 4, 0.03, 8
	// placeholderFar is how many times the range of all other readings a placeholder is away from them.
	placeholderFar = 2
	// mostPlaced is the largest number of fields that are examined.
	mostPlaced = 1024
)

// Take examines the numbers of an event in its raw form, and returns the placeholders that it has found.
func (p *Placeholders) Take(e *event.Example, fields []event.Field) (found []Placeholder) {
	for id := len(p.fields); id < min(len(fields), mostPlaced); id++ {
		p.fields = append(p.fields, placed{numeric: id > 0 && fields[id].Kind == event.Numeric})
	}
	for i, id := range e.Field {
		if int(id) >= len(p.fields) || !p.fields[id].numeric || p.fields[id].found {
			continue
		}
		f := &p.fields[id]
		if f.readings++; !f.examines() {
			continue
		}
		f.window = append(f.window, e.Features.Value[i])
		if n := len(f.window); n >= windowFirst && n&(n-1) == 0 {
			if x, ok := f.placeholder(); ok {
				x.Field, x.Column = id, e.Features.Index[i]
				f.found, f.value, f.window = true, x.Value, nil
				found = append(found, x)
			} else if n == windowSize {
				f.window = nil
			}
		}
	}
	return found
}

// examines reports whether the current reading is one of those that are examined. The powers of windowsGrow, 4, are the
// even powers of 2.
func (f *placed) examines() bool {
	n := f.readings
	return len(f.window) > 0 || n == 1 || n&(n-1) == 0 && n >= windowSize*windowsGrow && bits.TrailingZeros64(n/windowSize)%2 == 0
}

// placeholder returns the smallest or the largest reading if it is a placeholder.
func (f *placed) placeholder() (x Placeholder, ok bool) {
	sorted := slices.Sorted(slices.Values(f.window))
	n := len(sorted)
	for _, value := range [2]float64{sorted[0], sorted[n-1]} {
		x.Others = slices.DeleteFunc(slices.Clone(sorted), func(y float64) bool { return y == value })
		same := n - len(x.Others)
		if same < placeholderLeast || float64(same) < placeholderFraction*float64(n) || len(slices.Compact(slices.Clone(x.Others))) < variedLeast {
			continue
		}
		x.Value, x.Fraction, x.Low, x.High = value, float64(same)/float64(n), x.Others[0], x.Others[len(x.Others)-1]
		gap := max(x.Low-value, value-x.High)
		if gap > placeholderFar*(x.High-x.Low) || x.Low >= 0 && isNines(value) {
			return x, true
		}
	}
	return x, false
}

// isNines reports whether a value is -1, -9, -99, -999, …, which stand for no reading where all readings are at least 0.
func isNines(value float64) bool {
	digits := 1 - value
	return value == -1 || digits >= 10 && math.Abs(math.Log10(digits)-math.Round(math.Log10(digits))) < 1e-12
}

// Each calls f with each placeholder, in the order of the fields.
func (p *Placeholders) Each(f func(model.StuckField)) {
	for id := range p.fields {
		if p.fields[id].found {
			f(model.StuckField{Field: uint16(id), Value: p.fields[id].value})
		}
	}
}

// State encodes or decodes the Placeholders.
func (p *Placeholders) State(c *coder.Coder) {
	if c.Decode {
		*p = Placeholders{}
	}
	coder.Length(c, &p.fields, mostPlaced)
	for id := range p.fields {
		f := &p.fields[id]
		if c.Bool(&f.numeric); !f.numeric {
			continue
		}
		c.Bool(&f.found)
		c.Float(&f.value)
		c.Uint(&f.readings)
		c.Floats(&f.window)
		c.Failed = c.Failed || len(f.window) > windowSize
	}
}
