package record

// This file implements the part that all formats share: how names become columns, and when a record is refused.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream/record/notation"
)

// core is the shared part of all formats: the fields, the names for the dictionary, and the event being decoded. Its
// method finish sorts and sums the entries into the Example.
//
// The hash of a field is mix(XXH64(name) + seed). The hash of a value in the field is mix(field's hash + XXH64(value)).
// The hash of a cross is mix(3 a + b) for the hashes a and b of its factors. The column is the low bits of the hash. A
// numeric field has the column of the field's hash, and no other name has it (event.TakenColumns).
type core struct {
	c       Config
	written notation.Notation
	fieldTable
	newNames
	shortColumns
	entryList
	parts
	nulls
	times    times
	readings readings
	zeros    zeros

	labels map[string]int // class by label text
	seen   seenLabels
	roles  map[string]fieldRole // roles of fields that are not features

	anonymous named // the anonymous field, id 0
	crosses   []cross
	lower     []byte // lowercase words of a text, and their start positions
	starts    []int
}

// parts has the parts of a record that are not features.
type parts struct {
	class     []byte // label text
	labeled   bool
	seenClass int // 1 + the class of a known label; 0 means that class must be looked up
	weight    float64
	id        []byte
	time      int64
	notFinite int      // number of values that are NaN or infinite and count as missing
	short     [64]byte // memory for a number as text
}

// cross is a pair of field names, with the entries of each of the two fields in the current event.
type cross struct {
	a, b               string
	name               string
	id                 uint16
	entriesA, entriesB []int32
}

func newCore(c Config, s *event.Schema) core {
	d := core{
		c: c, written: c.Notation(), fieldTable: newFieldTable(c, s),
		labels: map[string]int{}, roles: map[string]fieldRole{},
		readings: readings{byName: map[string]int{}},
	}
	d.anonymous = named{hash: d.fieldHash(""), set: 1 << event.Sparse}
	for _, name := range c.Drop {
		d.roles[name] = isDropped
	}
	for role, name := range c.special() {
		if name != "" {
			d.roles[name] = fieldRole(role)
		}
	}
	d.times = d.newTimes(c)
	for _, x := range s.Crosses {
		d.crosses = append(d.crosses, cross{a: x[0], b: x[1], name: x[0] + "^" + x[1]})
	}
	return d
}

// fieldRole is the role of a field that is not a feature.
type fieldRole uint8

const (
	isFeature fieldRole = iota
	isLabel
	isWeight
	isID
	isTime
	isDropped
)

// reset clears e.
func (d *core) reset(r *Record, e *event.Example) {
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing = e.Field[:0], e.Missing[:0]
	e.Label, e.Target, e.Weight, e.Key, e.Time, e.Offset, e.Refused = event.Unlabeled, 0, 1, r.Key, r.Time, r.Offset, nil
	e.NotFinite, e.Readings = 0, nil
	if e.Value = nil; d.c.KeepValue {
		e.Value = r.Value
	}
	d.fieldTable.begin()
	d.beginReadings()
	d.entryList.reset()
	d.nulls.begin(e.Missing)
	d.times.met = d.times.met[:0]
	d.labeled, d.seenClass, d.weight, d.id, d.time, d.notFinite = false, 0, 1, r.Key, r.Time, 0
}

// begin clears e and reports whether the record can be decoded at all. wire says that the format requires the header of
// the wire format.
func (d *core) begin(r *Record, e *event.Example, wire bool) bool {
	d.reset(r, e)
	v := r.Value
	headed := len(v) >= 5 && v[0] == 0
	switch {
	case v == nil:
		return d.refuse(r, e, event.ReasonTombstone, "it has no value")
	case len(v) == 0:
		return d.refuse(r, e, event.ReasonSyntax, "the record is empty")
	case r.Cut:
		return d.refuse(r, e, event.ReasonOversize, "a line of more than max_bytes, %d; %s", d.c.MaxBytes, RestSkipped)
	case len(v) > d.c.MaxBytes:
		return d.refuse(r, e, event.ReasonOversize, "%d bytes, max_bytes is %d", len(v), d.c.MaxBytes)
	case headed && !wire:
		return d.refuse(r, e, event.ReasonSchemaFormat, "magic byte 0: a record of a schema registry, schema %d: the formats avro, protobuf and json-schema read it", binary.BigEndian.Uint32(v[1:]))
	case wire && !headed:
		return d.refuse(r, e, event.ReasonSchemaFormat, "it does not start with a zero byte and a schema id, as format %s requires", d.c.Format)
	}
	return true
}

// refuse makes e a refused record. It removes what the record has added to the Schema, so that the record has no effect
// on learning. It returns false, the result of the functions that refuse.
func (d *core) refuse(r *Record, e *event.Example, reason event.Reason, detail string, args ...any) bool {
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing = e.Field[:0], e.Missing[:0]
	e.Label, e.Target, e.Weight, e.Key, e.Time, e.Value = event.Unlabeled, 0, 0, r.Key, r.Time, nil
	e.Refused = &event.Refusal{Reason: reason, Detail: cutDetail(fmt.Sprintf(detail, args...)), Value: r.Value}
	d.forgetReadings()
	if d.known > d.before || len(d.names) > 0 {
		d.dropFields()
		for i := range d.crosses {
			if x := &d.crosses[i]; int(x.id) >= d.before {
				x.id = 0
			}
		}
		d.newNames.forget()
		d.age++ // invalidates the ids stored in each named
	}
	return false
}

// cutDetail limits the message about a refused record. The message is part of a dead letter, and must not be many times
// as long as the record.
func cutDetail(detail string) string {
	const most = 400
	if len(detail) <= most {
		return detail
	}
	end := most
	for !utf8.RuneStart(detail[end]) {
		end--
	}
	return detail[:end] + "…"
}

// label sets e.Label. label is called last, so that a record that is refused for another reason adds no class.
func (d *core) label(r *Record, e *event.Example, text []byte) bool {
	if d.c.Unlabeled || r.Unlabeled {
		return true
	}
	if d.s.Target != loss.Sign {
		return d.target(r, e, text)
	}
	if d.seenClass > 0 {
		e.Label = d.seenClass - 1
		return true
	}
	class, ok := d.labels[string(text)]
	if !ok {
		if len(bytes.TrimSpace(text)) == 0 {
			return d.refuse(r, e, event.ReasonLabel, "the label is empty: leave the field out, or write null, if the event has no label")
		}
		if len(text) > maxNameBytes {
			return d.refuse(r, e, event.ReasonLabel, "a label of %d bytes, %.40q…: the most is %d", len(text), text, maxNameBytes)
		}
		if class, ok = d.s.Class(text); !ok {
			bound := fmt.Sprintf("max_classes %d", d.s.MaxClasses)
			if d.s.MoreClasses > 0 {
				bound += fmt.Sprintf(", and %d of few events", d.s.MoreClasses)
			}
			return d.refuse(r, e, event.ReasonLabel, "label %.40q is not one of the classes %s, and no more are possible (%s)", text, event.ClassList(d.s.Classes), bound)
		}
		if len(d.labels) < 1<<12 {
			d.labels[string(text)] = class
		}
	}
	e.Label = class
	d.seen.remember(class)
	return true
}

// target parses a regression label. It sets e.Target to the number, and e.Label to 0.
func (d *core) target(r *Record, e *event.Example, text []byte) bool {
	x, ok := d.parse(text)
	switch {
	case !ok:
		return d.refuse(r, e, event.ReasonLabel, "label %.40q is not a number, which the loss requires", text)
	case !(x >= -maxMagnitude && x <= maxMagnitude):
		return d.refuse(r, e, event.ReasonLabel, "label %.40q is beyond 1e30", text)
	case d.s.Target.Check(x) != nil:
		return d.refuse(r, e, event.ReasonLabel, "label %.40q is negative, but the loss is for counts", text)
	}
	e.Label, e.Target = 0, x
	return true
}

// named is a field name with its hash and the field ids found so far.
type named struct {
	name string // only the beginning, if the name is longer than cutName allows
	hash uint64
	role fieldRole
	// categorical means that numbers in the field are category names. text means that the field is a bag of words.
	categorical, text bool
	times             *timeFeatures // nil if the field has no time features
	strange           int           // 0 to 16: how often recent values were not repeated short values
	set               uint8         // bit k: ids[k] is set
	age               int           // age of the core when the ids were set
	ids               [6]uint16     // field ids by kind
	null              nullTarget
	// reading is 0 or, if readingAge is the core's age, 1 + the index of the field's Reading, or plainReading.
	reading, readingAge int
}

// nullTarget has the fields that a null value of a name marks as missing. It is valid while the core's number of fields
// and age do not change.
type nullTarget struct {
	known, age int
	id         uint16 // field id, 0 for none
	under      *below // fields below the name, nil for none
}

func (d *core) named(name string) named { return d.hashed(cutName(name), d.fieldHash(name)) }

// hashed returns a named for a name that cutName has cut. hash is the hash of the whole name.
func (d *core) hashed(name string, hash uint64) named {
	return named{name: name, hash: hash, role: d.roles[name], categorical: slices.Contains(d.c.Categorical, name), text: slices.Contains(d.c.Text, name), times: d.times.features[name], age: d.age, readingAge: -1}
}

// cutName returns the part of a name that is used. If it cuts the name, the result is a copy. It keeps one byte more
// than is stored, which shows that the name was longer.
func cutName(name string) string {
	if len(name) > maxNameBytes+1 { // otherwise the name is already cut
		return strings.Clone(name[:maxNameBytes+1])
	}
	return name
}

// idOf returns the field ID for n's values of the given kind.
func (d *core) idOf(n *named, kind event.Kind) uint16 {
	if n.set&(1<<kind) != 0 && n.age == d.age {
		return n.ids[kind]
	}
	return d.newID(n, kind)
}

func (d *core) newID(n *named, kind event.Kind) uint16 {
	if n.age != d.age {
		n.set, n.age = 0, d.age
	}
	n.ids[kind] = d.fieldID(n.name, kind)
	n.set |= 1 << kind
	if kind == event.Numeric && d.s.Names.Wants(n.hash) {
		d.remember(n.hash, n.name)
	}
	return n.ids[kind]
}

// pair adds the feature n=value with the value x. It returns the column and whether the dictionary needs the feature's
// name.
func (d *core) pair(n *named, kind event.Kind, value []byte, x float64) (column uint32, wanted bool) {
	hash := event.Mix(n.hash + xxhash.Sum64(value))
	id := d.idOf(n, kind)
	if wanted = d.s.Names.Wants(hash); wanted {
		d.rememberValue(hash, n.name, value)
	}
	column = d.columns.Of(hash, d.mask)
	d.addAt(column, hash, id, x)
	return column, wanted
}

// factorName returns the name of an entry for a cross. The name of a number is the name of its field, which is added to
// the dictionary only once.
func (d *core) factorName(i int32) string {
	if f := d.s.Fields[d.entries[i].field]; f.Kind == event.Numeric {
		return f.Name
	}
	return d.nameIn(d.s.Names, d.hash[i])
}

// miss marks the field with that name, and all fields below it, as missing. A field that has never had a value does not
// exist yet, so it is not marked. So the result depends only on the Schema, and a restart makes no difference.
//
// A record can contain null at thousands of places that refer to the same fields, because a name with dots also means
// nesting. So each name and each field is marked only once per record.
func (d *core) miss(n *named) {
	if l := &n.null; l.known != d.known || l.age != d.age {
		*l = nullTarget{d.known, d.age, d.firstID[n.name], d.under[n.name]}
	}
	if id := n.null.id; id > 0 {
		d.missField(id)
	}
	b := n.null.under
	if b == nil || b.missed == d.records {
		return
	}
	b.missed = d.records
	for _, id := range b.ids {
		d.missField(id)
	}
}

// missNumber treats a NaN or infinite number as null if the configuration requests it. n is nil for a dropped number.
func (d *core) missNumber(n *named) bool {
	if d.c.NaN == nanRefuse {
		return false
	}
	d.notFinite++
	if n != nil && n.role == isFeature {
		d.miss(n)
	}
	return true
}

// addAt adds an entry in the given column.
func (d *core) addAt(column uint32, hash uint64, id uint16, x float64) {
	d.put(column, id, x)
	if len(d.crosses) > 0 {
		d.hash = append(d.hash, hash)
	}
}

// add adds an entry in the column of a hash.
func (d *core) add(hash uint64, id uint16, x float64) {
	d.addAt(d.columns.Of(hash, d.mask), hash, id, x)
}

// addNumber adds a number of a field, which may be a time.
func (d *core) addNumber(n *named, x float64) {
	if x >= leastEpoch || n.reading > 0 || n.readingAge != d.age {
		if ms, is := d.epochTime(n, x); is {
			d.times.met = append(d.times.met, timeMet{d.timesOf(n.name), ms})
			return
		}
	}
	d.putNumber(n, x)
}

// putNumber adds the value of a numeric field.
func (d *core) putNumber(n *named, x float64) {
	id := d.idOf(n, event.Numeric)
	if d.s.Apart && id > 0 {
		d.addAt(d.s.Fields[id].Column, n.hash, id, x)
	} else { // the field has no column of its own, so it is hashed like other names
		d.add(n.hash, id, x)
	}
}

// numberOf adds a number as a feature of n, or uses it by the role of n. text formats the number if a name is needed. If
// the record must be refused, numberOf returns the reason and a detail, which continues the name; otherwise detail is "".
func (d *core) numberOf(n *named, x float64, text func([]byte) []byte) (reason event.Reason, detail string) {
	switch {
	case n.role == isDropped || x-x != 0 && d.missNumber(n):
	case n.role != isFeature:
		value := text(d.short[:0])
		if n.role == isLabel {
			value = d.typedLabel(value)
		}
		if reason, detail = d.special(n.role, value, false); detail != "" {
			detail = ": " + detail
		}
	case n.times != nil:
		if value := text(d.short[:0]); !d.takeTime(n, value) {
			return event.ReasonSyntax, fmt.Sprintf(", %.40q: %s", value, wantTime)
		}
	case x-x != 0:
		return event.ReasonNotFinite, fmt.Sprintf(" is %v", x)
	case n.categorical:
		d.pair(n, event.Categorical, plainNumber(text(d.short[:0])), 1)
	case x > maxMagnitude || x < -maxMagnitude:
		return event.ReasonOutOfRange, fmt.Sprintf(" is %v, the limit is 1e30", x)
	default:
		d.addNumber(n, x)
	}
	return reason, detail
}

// special sets the value of a field that is not a feature. inPlace means that text is part of the record, not of reused
// memory. If the record must be refused, special returns the reason and a detail; otherwise detail is "".
func (d *core) special(role fieldRole, text []byte, inPlace bool) (reason event.Reason, detail string) {
	switch role {
	case isLabel:
		d.class, d.labeled, d.seenClass = append(d.class[:0], text...), true, 0
	case isID:
		if d.id = text; !inPlace {
			d.id = slices.Clone(text)
		}
	case isWeight:
		x, ok := d.parse(text)
		if !ok || x < 0 || x > maxWeight {
			return event.ReasonWeight, fmt.Sprintf("weight %.40q: want a number from 0 to %v", text, float64(maxWeight))
		}
		d.weight = x
	case isTime:
		var ok bool
		if d.time, ok = d.orderedDate(&d.times.event, text); !ok {
			return event.ReasonSyntax, fmt.Sprintf("time %.40q: %s", text, wantTime)
		}
		if f := d.times.features[d.c.Time]; f != nil {
			d.times.met = append(d.times.met, timeMet{f, d.time})
		}
	}
	return "", ""
}

// parse returns the number in a text, in plain notation or in the configured notation.
func (d *core) parse(text []byte) (x float64, ok bool) {
	if d.written != notation.Plain {
		if x, ok = d.written.Parse(text); ok {
			return x, true
		}
	}
	x, next := number(text, 0, false)
	return x, next == len(text) && next > 0
}

// writtenNumber adds the text of a field as a number, if the configuration has a notation for numbers. It reports
// whether the text is a number.
func (d *core) writtenNumber(n *named, text []byte) bool {
	if d.written == notation.Plain || n.categorical || n.text {
		return false
	}
	x, ok := d.parse(text)
	if !ok || x > maxMagnitude || x < -maxMagnitude {
		return false
	}
	d.addNumber(n, x)
	return true
}

// typedLabel returns the text of a label that is a JSON number, not a string. event.PlainNumber spells the class, so
// that 2 and 2.0 are one class.
func (d *core) typedLabel(text []byte) []byte {
	if d.s.Target == loss.Sign {
		return plainNumber(text)
	}
	return text
}

// plainNumber returns the canonical spelling of a number that names a class or a category: 20095.0 becomes 20095.
func plainNumber(text []byte) []byte {
	if !plainInteger(text) {
		if plain := event.PlainNumber(text); plain != nil {
			return plain
		}
	}
	return text
}

// plainInteger reports whether the text of a number is certainly canonical (event.PlainNumber).
func plainInteger(text []byte) bool {
	if len(text) == 0 || len(text) > 18 || text[0] == '0' && len(text) > 1 {
		return false
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return true
}

// complete completes e after the whole record has been read.
func (d *core) complete(r *Record, e *event.Example) {
	d.addTimes()
	d.addZeros()
	e.Missing = d.missing
	if !d.finish(r, e) || !d.takeLabel(r, e) {
		return
	}
	d.accept(d.s.Names)
	if len(d.readings.undo) > 0 || d.readings.known > d.readings.before {
		e.Readings = d.s.ShareReadings()
	}
	e.Weight, e.Key, e.Time, e.NotFinite = d.weight, d.id, d.time, d.notFinite
	slices.Sort(e.Missing)
}

// takeLabel sets the label of e from the record, or from a label that was passed separately.
func (d *core) takeLabel(r *Record, e *event.Example) bool {
	if r.Label == nil {
		return !d.labeled || d.label(r, e, d.class)
	}
	if d.labeled {
		return d.refuse(r, e, event.ReasonLabel, "the given label differs from the field %.80q (record.label)", d.c.Label)
	}
	return d.label(r, e, r.Label)
}

// finish writes the entries to e with ascending columns. It sums the entries of one column in the order of the record.
func (d *core) finish(r *Record, e *event.Example) bool {
	if len(d.crosses) > 0 && !d.cross(r, e) {
		return false
	}
	if d.tooMany() {
		return d.refuse(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
	}
	d.sort(d.mask)
	n := len(d.sorted)
	if n == 0 {
		return true
	}
	index, value, field := slices.Grow(e.Features.Index[:0], n)[:n], slices.Grow(e.Features.Value[:0], n)[:n], slices.Grow(e.Field[:0], n)[:n]
	to, fits := gather(d.sorted, d.entries, index, value, field)
	if !fits {
		return d.refuse(r, e, event.ReasonOutOfRange, "the features that meet in column %d sum to %g", index[to-1], value[to-1])
	}
	e.Features.Index, e.Features.Value, e.Field = index[:to], value[:to], field[:to]
	return d.counts(r, e)
}

// gather writes the features of sorted entries to index, value and field, and adds up those of one column. to is the number
// of features. fits is false if the last one is a sum that is too large.
func gather(sorted []uint64, entries []entry, index []uint32, value []float64, field []uint16) (to int, fits bool) {
	last := ^uint32(0) // an invalid column, because columns have at most 31 bits
	for _, o := range sorted {
		column, from := uint32(o>>32), &entries[uint32(o)]
		if column != last {
			index[to], value[to], field[to], last = column, from.value, from.field, column
			to++
			continue
		}
		v := value[to-1] + from.value
		if value[to-1] = v; v > maxMagnitude || v < -maxMagnitude {
			return to, false
		}
	}
	return to, true
}

// counts refuses e if Config.Counts requires non-negative features and e has a negative feature.
func (d *core) counts(r *Record, e *event.Example) bool {
	if !d.c.Counts {
		return true
	}
	for i, v := range e.Features.Value {
		if v < 0 {
			column := uint64(e.Features.Index[i])
			if d.s.NumericIndices && !d.s.ZeroBased {
				column++ // the column's number in the record
			}
			where := fmt.Sprintf("column %d", column)
			if len(e.Field) > 0 && d.s.Fields[e.Field[i]].Name != "" {
				where = fmt.Sprintf("field %.80q", d.s.Fields[e.Field[i]].Name)
			}
			return d.refuse(r, e, event.ReasonOutOfRange, "a feature of %s is %g, but noise poisson needs features of at least 0", where, v)
		}
	}
	return true
}

// tooMany reports whether the record has more features than allowed. Decoders call it while they read, because entries
// take more memory than the record.
func (d *core) tooMany() bool { return len(d.order) > d.c.MaxFeatures }

const moreFeatures = "more features than max_features, %d"

// cross adds the products of all entries of one field of the pair with all entries of the other field. If a field is
// crossed with itself, it adds the products of every entry with itself and with later entries. cross stops when the
// event has more than max_features features.
func (d *core) cross(r *Record, e *event.Example) bool {
	n := len(d.order)
	for i := range d.crosses {
		x := &d.crosses[i]
		x.entriesA, x.entriesB = x.entriesA[:0], x.entriesB[:0]
		for j, entry := range d.entries[:n] {
			name := d.s.Fields[entry.field].Name
			if name == x.a {
				x.entriesA = append(x.entriesA, int32(j))
			}
			if name == x.b {
				x.entriesB = append(x.entriesB, int32(j))
			}
		}
		for _, a := range x.entriesA {
			for _, b := range x.entriesB {
				if x.a == x.b && b < a {
					continue
				}
				if d.tooMany() {
					return true // finish will refuse the record
				}
				v := d.entries[a].value * d.entries[b].value
				if v > maxMagnitude || v < -maxMagnitude {
					return d.refuse(r, e, event.ReasonOutOfRange, "%s is %g, the limit is 1e30", x.name, v)
				}
				if x.id == 0 {
					x.id = d.fieldID(x.name, event.Cross)
				}
				hash := event.Mix(3*d.hash[a] + d.hash[b])
				if d.s.Names.Wants(hash) {
					nameA, nameB := d.factorName(a), d.factorName(b)
					if nameA != "" && nameB != "" {
						d.remember(hash, nameA+" ^ "+nameB)
					}
				}
				d.add(hash, x.id, v)
			}
		}
	}
	return true
}
