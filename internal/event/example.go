package event

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// This file defines events and their sources: Example, Batch, Source, Offsets.

// Unlabeled is the Label of an event without a label.
const Unlabeled = -1

// Example is one event as the learner receives it. Its slices are borrowed from the Source that filled it and are valid
// until that Source's next call.
type Example struct {
	Features Vec
	// Field has the field id (an index of Schema.Fields) of each entry of Features. Nil means that every id is 0, the
	// anonymous field of the sparse text formats.
	Field []uint16
	// Missing lists the ids of fields that the event declares missing (null), in ascending order.
	Missing []uint16
	// MissingColumns lists columns of the anonymous field that are declared missing, in ascending order. Features must
	// not contain them. No format can declare columns missing, but callers that remove features can.
	MissingColumns []uint32
	// Declared means that a model must not apply its Faults to the event. Either the Faults have been applied already,
	// or values of the event have been changed.
	Declared bool

	Label  int     // class (an index of Schema.Classes) or Unlabeled
	Target float64 // regression target, see Schema.Target; Label is then 0 or Unlabeled
	Weight float64 // importance, >= 0; 1 if the event has no weight
	Key    []byte  // key of the record, or value of the configured id field
	Time   int64   // event time in milliseconds since the Unix epoch; 0 if unknown
	// Arrival is the arrival time of the record in a joined stream, in milliseconds, by the timestamps in the logs.
	// Arrival never decreases within a partition.
	Arrival int64
	// OddTime means that the record's time does not fit the times of its neighbors in the partition. Arrival is then
	// the arrival time of the previous record.
	OddTime bool

	// NotFinite is the number of values that were NaN or infinite, and that count as missing.
	NotFinite int

	Offset      int64  // offset of the record in its partition, or line number in a file
	Fingerprint uint64 // hash of the record's offset and bytes, see Position.Sum

	// Readings is Schema.Readings after this event if the event has changed them, otherwise nil.
	Readings []Reading

	// Value is the raw record; nil unless the decoder is configured to keep it.
	Value []byte

	// Refused is set for a record that cannot be used. All fields above except Offset, Fingerprint, Key and Time are
	// then empty. Such a record is counted, passed to the dead letters and skipped, but not learned.
	Refused *Refusal
}

// FieldsOf writes the field id of each column to out, and 0 for a column that e does not have. The columns must ascend.
// It returns nil if e has no fields.
func (e *Example) FieldsOf(columns []uint32, out []uint16) []uint16 {
	if e.Field == nil {
		return nil
	}
	out = out[:0]
	j := 0
	for _, column := range columns {
		for j < e.Features.Len() && e.Features.Index[j] < column {
			j++
		}
		id := uint16(0)
		if j < e.Features.Len() && e.Features.Index[j] == column {
			id = e.Field[j]
		}
		out = append(out, id)
	}
	return out
}

// MaxMagnitude is the largest number in an event, so that sums stay finite. Decoders enforce it.
const MaxMagnitude = 1e30

// Usable reports whether an event can be learned: it is not refused, and none of its numbers exceeds MaxMagnitude.
func (e *Example) Usable() bool {
	if e.Refused != nil || !(e.Target >= -MaxMagnitude && e.Target <= MaxMagnitude) || !(e.Weight >= 0 && e.Weight <= MaxMagnitude) {
		return false
	}
	for _, x := range e.Features.Value {
		if !(x >= -MaxMagnitude && x <= MaxMagnitude) {
			return false
		}
	}
	return true
}

// IsSparse reports whether an event is in a sparse text format: it has columns, but no named fields that can be
// missing. fields are the fields of its Schema.
func (e *Example) IsSparse(fields []Field) bool {
	return len(e.Missing) == 0 && !slices.ContainsFunc(e.Field, func(id uint16) bool {
		return int(id) < len(fields) && fields[id].Kind != Sparse && fields[id].Kind != Cross
	})
}

// MissesColumn reports whether a column is declared missing.
func (e *Example) MissesColumn(column uint32) bool {
	if len(e.MissingColumns) == 0 {
		return false
	}
	_, missing := slices.BinarySearch(e.MissingColumns, column)
	return missing
}

// Reason is why a record was refused. A Reason is also the value of the label reason in metrics, and of the header
// reason in dead letters.
type Reason string

// The reasons for which records are refused.
const (
	ReasonSyntax        Reason = "syntax"          // invalid syntax; an empty record; invalid UTF-8 in JSON
	ReasonNotFinite     Reason = "not-finite"      // NaN or infinity in svmlight and VW text, or with record.nan = "refuse"
	ReasonOutOfRange    Reason = "out-of-range"    // a number, product or sum beyond 1e30; an index that is not a column
	ReasonTooMany       Reason = "too-many"        // more than 100,000 features, including crosses; in JSON also more than 400,000 values
	ReasonOversize      Reason = "oversize"        // a record longer than record.max_bytes; a joined field name over 4,096 bytes
	ReasonLabel         Reason = "label"           // a label that is not a class, exceeds 256 bytes, or has several values
	ReasonWeight        Reason = "weight"          // a weight that is not a number from 0 to 1e6
	ReasonSchemaFormat  Reason = "confluent-wire"  // magic byte 0 and schema id are unexpected in the format, or expected and absent
	ReasonSchema        Reason = "schema"          // an unknown or unusable schema
	ReasonDuplicate     Reason = "duplicate-field" // a key that occurs twice in one JSON object
	ReasonDecompression Reason = "decompression"   // a compressed batch that cannot be decompressed; the whole batch is refused
	ReasonID            Reason = "id"              // no id or an id over 1,024 bytes, in a stream with delayed labels
	ReasonLate          Reason = "late"            // a label whose event no longer waits, with labels.late_policy = "dead-letter"; counted separately
	ReasonTombstone     Reason = "tombstone"       // a record with a null value; counted, without a dead letter
	ReasonMemory        Reason = "memory"          // new features or a new class that would exceed learner.max_memory
	ReasonRepeated      Reason = "repeated"        // an event that a producer wrote twice, with kafka.dedup_window; counted, without a dead letter
)

// Faulty reports whether records refused for this reason need a person's attention. Repeated events and tombstones do
// not: they are only counted and skipped.
func (r Reason) Faulty() bool { return r != ReasonRepeated && r != ReasonTombstone }

// Refusal describes a refused record: the reason and the raw bytes, which are borrowed like the slices of the Example
// that contains it.
type Refusal struct {
	Reason Reason
	Detail string // human-readable error and its position in the record
	Value  []byte
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// Batch is a run of events of one partition, in offset order. A Source fills and owns it: its contents are borrowed
// until the next call.
type Batch struct {
	Topic     string // topic or file name
	TopicID   string // id of the topic, see Position
	Partition int32
	Examples  []Example
	// Next is the offset after the last record read. Next can exceed the offset after the last event, because of
	// compaction or transaction markers. A Batch without events can advance Next.
	Next int64
	// HighWater is the partition's end offset when the batch was read, or -1 if unknown.
	HighWater int64
	// Reset means that the Source continues at another offset than requested, by a policy that the user has configured.
	// Such a Batch has no events, and its Next may be before the partition's Position.
	Reset bool
	// Labels means that the records are delayed labels: only Key, Label and Weight are used.
	Labels bool
	// Schema is the View of the Schema after this batch was decoded. Each Batch has a View, because a Source that reads
	// ahead may extend the Schema later. nil means that the Schema has not changed.
	Schema *Schema
}

// Extend adds an Example, which may have the memory of an earlier one, and returns it.
func (b *Batch) Extend() *Example {
	n := len(b.Examples)
	b.Examples = slices.Grow(b.Examples, 1)[:n+1]
	return &b.Examples[n]
}

// Source produces events from a topic, a file, or memory.
type Source interface {
	// Next fills b with the next records of one partition, in offset order, and waits for the first record. It returns
	// io.EOF after the last record of a finite Source, or the context's error if the context ends first. Any other
	// error is final. The content of b stays valid until b is filled again, so a caller can read ahead with several
	// Batches.
	Next(ctx context.Context, b *Batch) error
}

// Position describes the part of a partition that has been learned.
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`    // offset of the first record that is not learned yet
	Records   uint64 `json:"records"` // number of learned records, including refused ones
	// Sum is the sum modulo 2^64 of the learned records' Fingerprints. Equal sums over equal ranges show that every
	// record was counted exactly once.
	Sum uint64 `json:"sum"`
	// First is the offset where counting started: Records counts from First to Next.
	First int64 `json:"first"`
	// TopicID is the brokers' id of the topic, which changes if the topic is deleted and created again. It is "" if
	// unknown.
	TopicID string `json:"topic_id,omitempty"`
}

// Offsets has one Position for each partition of a stream, ordered by topic and partition.
type Offsets []Position

func comparePosition(a, b Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// At returns the Position of a partition. If the partition has no Position, At creates a Position that starts at offset
// next. The pointer is valid until the next call of At.
func (o *Offsets) At(topic string, partition int32, next int64) *Position {
	p := Position{Topic: topic, Partition: partition, Next: next, First: next}
	i, ok := slices.BinarySearchFunc(*o, p, comparePosition)
	if !ok {
		*o = slices.Insert(*o, i, p)
	}
	return &(*o)[i]
}

// Lookup returns the Position of a partition, and whether it exists.
func (o Offsets) Lookup(topic string, partition int32) (Position, bool) {
	i, ok := slices.BinarySearchFunc(o, Position{Topic: topic, Partition: partition}, comparePosition)
	if !ok {
		return Position{}, false
	}
	return o[i], true
}

// Clone returns a copy that shares no memory with o.
func (o Offsets) Clone() Offsets { return slices.Clone(o) }

// Advance counts one record. If the record is before the position, Advance changes nothing and returns an error,
// because a source must never go back.
func (p *Position) Advance(offset int64, fingerprint uint64) error {
	if offset < p.Next {
		return fmt.Errorf("%s/%d: offset %d after position %d: a record would be counted twice", p.Topic, p.Partition, offset, p.Next)
	}
	p.Next = offset + 1
	p.Records++
	p.Sum += fingerprint
	return nil
}

// Vec is a sparse feature vector: Value[i] is in column Index[i]. Columns ascend strictly, and absent columns are zero.
// A Vec borrows its slices from the caller that filled it; Clone it to keep it.
type Vec struct {
	Index []uint32
	Value []float64
}

// Len returns the number of entries.
func (x Vec) Len() int { return len(x.Index) }

// Clone returns a copy that shares no memory with x.
func (x Vec) Clone() Vec {
	return Vec{slices.Clone(x.Index), slices.Clone(x.Value)}
}

// Check returns an error for the first violation of Vec's contract. Violations are slices of different length, columns
// that do not ascend, and values that are not finite.
func (x Vec) Check() error {
	if len(x.Index) != len(x.Value) {
		return fmt.Errorf("%d columns but %d values", len(x.Index), len(x.Value))
	}
	for i, d := range x.Index {
		if i > 0 && x.Index[i-1] >= d {
			return fmt.Errorf("column %d follows column %d", d, x.Index[i-1])
		}
		if v := x.Value[i]; v-v != 0 {
			return fmt.Errorf("column %d holds %v", d, v)
		}
	}
	return nil
}

// The part below defines how the values of a field are read if the configuration does not say it.

// Reading says how the strings or the numbers of a field are read. The first values of the field decide it: after each
// of them As may change, and after ReadingValues of them it is final. Only fields with a value that may be text or a
// time have a Reading.
type Reading struct {
	Name   string `json:"name"`
	As     ReadAs `json:"as"`
	Values int    `json:"values"` // number of strings, or of numbers that differ from the one before
	Words  int    `json:"words,omitempty"`
	Times  int    `json:"times,omitempty"` // number of Values that are dates, or epochs that grow
	// Different has a bit for each hash of a string modulo 64.
	Different uint64  `json:"different,omitempty"`
	Last      float64 `json:"last,omitempty"` // latest number
	// Order says whether the day is before the month in dates such as 1/2/2026.
	Order DayOrder `json:"order,omitempty"`
}

// ReadAs is a way to read values.
type ReadAs uint8

// The ways to read values.
const (
	ReadPlain ReadAs = iota // a string is a category, a number is a number
	ReadText                // a string is a bag of words
	ReadTime                // the value is a time
)

// DayOrder is the order of day and month in a date.
type DayOrder int8

// The orders of day and month.
const (
	OrderUnknown DayOrder = iota
	DayFirst
	MonthFirst
)

const (
	// ReadingValues is the number of values that decide a Reading.
	ReadingValues = 50
	// textWords is the least mean number of words of a text.
	textWords = 3
	// maxReadings is the largest number of Readings of a Schema. Further fields are read plainly.
	maxReadings = 256
)

// Final reports whether As can no longer change.
func (r *Reading) Final() bool { return r.Values >= ReadingValues }

// Decide sets As from the counts. The strings of a text are mostly different, unlike those of a category of several
// words: of the 50 strings that decide, at least some 32 must be.
func (r *Reading) Decide() {
	switch {
	case 10*r.Times >= 9*r.Values:
		r.As = ReadTime
	case r.Words >= textWords*r.Values && 2*bits.OnesCount64(r.Different) >= min(r.Values, ReadingValues):
		r.As = ReadText
	default:
		r.As = ReadPlain
	}
}

// Advice says how the values of the field are read and how to change it. It returns "" for plain values.
func (r *Reading) Advice() string {
	switch {
	case r.Values == 0: // a constant number, or a field that record.time_features or record.time names
		return ""
	case r.As == ReadText:
		return fmt.Sprintf("field %s is read as text: its words are features (record.text; record.categorical makes it a category)", strconv.Quote(Printable(r.Name)))
	case r.As == ReadTime:
		return fmt.Sprintf("field %s is read as a time: its hour and weekday are features (record.time_features adds the age; record.infer = false reads it plainly)", strconv.Quote(Printable(r.Name)))
	}
	return ""
}

// SetReading stores a Reading at an index, or adds it at the end. It reports whether there is room. A view of
// s that was taken earlier keeps the Reading that it had.
func (s *Schema) SetReading(i int, r Reading) bool {
	if i == len(s.Readings) {
		if i == maxReadings {
			return false
		}
		s.Readings = append(s.Readings, r)
		return true
	}
	if s.shared {
		s.Readings, s.shared = slices.Clone(s.Readings), false
	}
	s.Readings[i] = r
	return true
}

// ShareReadings returns the current Readings. The result never changes.
func (s *Schema) ShareReadings() []Reading {
	s.shared = true
	return slices.Clip(s.Readings)
}

// AsOf returns a View with the Readings after the given examples, which are the first of its Batch. before is the Schema
// before them.
func (s *Schema) AsOf(examples []Example, before *Schema) *Schema {
	readings := before.Readings
	for i := len(examples) - 1; i >= 0; i-- {
		if e := &examples[i]; e.Readings != nil {
			readings = e.Readings
			break
		}
	}
	if same(readings, s.Readings) {
		return s
	}
	v := *s
	v.Readings, v.view = readings, &v
	return &v
}

// DropReadings removes all Readings after the first n, because their record was refused. No View may contain them.
func (s *Schema) DropReadings(n int) { s.Readings = s.Readings[:n] }

// ReadAs returns the names of the fields whose values are read in the given way. It omits a number that never changes.
func (s *Schema) ReadAs(as ReadAs) (names []string) {
	for i := range s.Readings {
		if s.Readings[i].As == as && s.Readings[i].Values > 0 {
			names = append(names, s.Readings[i].Name)
		}
	}
	return names
}
