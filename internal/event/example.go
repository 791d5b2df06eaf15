package event

// This file holds events and where they come from: Example, Batch, Source, Offsets.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Unlabeled is the Label of an event whose class is not known.
const Unlabeled = -1

// Example is one event as the learner sees it. Its slices are borrowed from
// the Source that filled it and are valid until that Source's next call.
type Example struct {
	Features Vec
	// Field holds for every entry of Features the id of the field it came
	// from (an index of Schema.Fields). Nil means field 0 throughout, the
	// anonymous field of the sparse text formats.
	Field []uint16
	// Missing lists the ids of fields that the event declares as unknown
	// (null), in ascending order. See Missing.
	Missing []uint16
	// MissingColumns lists columns of the anonymous field that are declared as unknown,
	// in ascending order. Features must not hold them. No format says this of an event;
	// a caller may that knows which features it took away.
	MissingColumns []uint32
	// Declared says that what a model counts as missing by its Faults has become null, or that the
	// values are no more those that the event came with: no model looks for faults again.
	Declared bool

	Label  int     // class, an index of Schema.Classes, or Unlabeled
	Target float64 // the label that is a number, by Schema.Target; Label is then 0, or Unlabeled
	Weight float64 // importance, >= 0; the decoder sets 1 where the event says nothing
	Key    []byte  // the record's key, or the id field where one is configured
	Time   int64   // event time, milliseconds since the Unix epoch; 0 if unknown
	// Arrival is, of a joined stream, when the record came by the time of the logs, in
	// milliseconds. From Example to Example of a partition it does not go back.
	Arrival int64
	// OddTime says that the record's own time is out of line with those of the records
	// around it in its partition, so that Arrival is the time of the one before it.
	OddTime bool

	// NotFinite counts the values of the record that were NaN or infinite and are missing.
	NotFinite int

	Offset      int64  // of the record in its partition, or the line number in a file
	Fingerprint uint64 // hash of the record's offset and bytes, see Position.Sum

	// Value is the record as it came, nil unless its decoder was asked to keep it.
	Value []byte

	// Refused is set for a record that cannot be used. Everything above but
	// Offset, Fingerprint, Key and Time is then empty: the record must not be
	// learned, but it is counted, passed on to the dead letters and stepped over.
	Refused *Refusal
}

// FieldsOf writes the field of every one of the columns, which ascend, to out: that of
// e's own entry, 0 for a column that e does not hold. It returns nil where e has no
// fields.
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

// MaxMagnitude bounds the numbers of an event, as decoders do: sums of what is learned stay finite.
const MaxMagnitude = 1e30

// Usable says whether an event can be learned: it is not refused, and none of its numbers is beyond
// MaxMagnitude.
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

// IsSparse says whether an event of a Schema with these fields is one of a sparse text
// format: it has columns, and no fields whose names tell what is missing.
func (e *Example) IsSparse(fields []Field) bool {
	return len(e.Missing) == 0 && !slices.ContainsFunc(e.Field, func(id uint16) bool {
		return int(id) < len(fields) && fields[id].Kind != Sparse && fields[id].Kind != Cross
	})
}

// LacksColumn says whether a column is declared missing.
func (e *Example) LacksColumn(column uint32) bool {
	if len(e.MissingColumns) == 0 {
		return false
	}
	_, lacks := slices.BinarySearch(e.MissingColumns, column)
	return lacks
}

// Reason says why a record was refused. The values are the ones of the metric
// label and of the dead letter's header.
type Reason string

// The reasons for which records are refused.
const (
	ReasonSyntax        Reason = "syntax"          // not in the configured format
	ReasonNotFinite     Reason = "not-finite"      // a NaN or an infinity
	ReasonOutOfRange    Reason = "out-of-range"    // a number, product or sum beyond 1e30, or an index that is no column
	ReasonTooMany       Reason = "too-many"        // more features than allowed
	ReasonOversize      Reason = "oversize"        // more bytes than allowed
	ReasonLabel         Reason = "label"           // a label outside the known classes
	ReasonWeight        Reason = "weight"          // a weight that is no number from 0 to 1e30
	ReasonSchemaFormat  Reason = "confluent-wire"  // a schema-registry record, magic byte 0
	ReasonSchema        Reason = "schema"          // of a schema that cannot be had, or not be used
	ReasonDuplicate     Reason = "duplicate-field" // a key twice in one JSON object
	ReasonDecompression Reason = "decompression"   // a record that does not unpack
	ReasonID            Reason = "id"              // no id, or one too long, where events and labels are joined by it
	ReasonLate          Reason = "late"            // a label that came when its event waited no more
	ReasonTombstone     Reason = "tombstone"       // a record of a topic without a value, which says that its key is gone
	ReasonMemory        Reason = "memory"          // new columns or a new class for which the learner has no room
	ReasonRepeated      Reason = "repeated"        // an event that came before, from a producer that wrote it twice
)

// Faulty reports whether something is wrong with a record of that reason, which is then a
// matter for a person. One that came before, or a tombstone, is counted and passed over.
func (r Reason) Faulty() bool { return r != ReasonRepeated && r != ReasonTombstone }

// Refusal is the data of a refused record: the cause and the bytes as they
// came, borrowed like the Example that carries it.
type Refusal struct {
	Reason Reason
	Detail string // what is wrong and where in the record, for a person
	Value  []byte
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// Batch is a run of examples of one partition, in offset order. It is filled
// and owned by a Source: everything in it is borrowed until the next call.
type Batch struct {
	Topic     string // topic, or file name
	TopicID   string // of the topic, see Position
	Partition int32
	Examples  []Example
	// Next is the offset that follows the last record looked at. It may lie
	// past the last example's (compaction, transaction markers), and a Batch
	// without examples still moves it forward.
	Next int64
	// HighWater is the partition's end as of this batch, -1 if unknown.
	HighWater int64
	// Reset says that the Source, by a policy its user has chosen, goes on at
	// another offset than the one it was asked for. Such a Batch has no examples,
	// and only here Next may lie before the partition's Position.
	Reset bool
	// Labels says that the examples are labels of events: of each only Key, Label and
	// Weight count.
	Labels bool
	// Schema is the View of what was known when this batch had been decoded: a Source
	// that reads ahead may know more by the time it is learned. nil means that the
	// Schema has not changed.
	Schema *Schema
}

// Source is where events come from: a topic, a file, or memory.
type Source interface {
	// Next fills b with the next records of one partition, in offset order, and
	// waits for the first one. It returns io.EOF after the last record of a
	// Source that ends, and the context's error if that ends first; any other
	// error is final. What it fills stays valid until the same b comes again, so
	// that the caller can read ahead with several Batches.
	Next(ctx context.Context, b *Batch) error
}

// Position is how far a partition has been learned.
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`    // offset of the first record not yet counted in
	Records   uint64 `json:"records"` // records counted in, refused ones included
	// Sum is the sum modulo 2^64 of the Fingerprints of those records. Equal
	// sums over equal ranges show that every record was counted exactly once.
	Sum uint64 `json:"sum"`
	// First is where the counting began: a caller that wants the same records again
	// reads from here to Next.
	First int64 `json:"first"`
	// TopicID is the brokers' id of the topic, which a topic of the same name that
	// is made anew does not have; "" if unknown.
	TopicID string `json:"topic_id,omitempty"`
}

// Offsets is how far a stream has been learned: one Position for each
// partition, ordered by topic and partition.
type Offsets []Position

func comparePosition(a, b Position) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// At returns the Position of a partition, creating one that starts at offset
// next if there is none. The pointer is valid until the next call of At.
func (o *Offsets) At(topic string, partition int32, next int64) *Position {
	p := Position{Topic: topic, Partition: partition, Next: next, First: next}
	i, ok := slices.BinarySearchFunc(*o, p, comparePosition)
	if !ok {
		*o = slices.Insert(*o, i, p)
	}
	return &(*o)[i]
}

// Lookup returns the Position of a partition and whether there is one.
func (o Offsets) Lookup(topic string, partition int32) (Position, bool) {
	i, ok := slices.BinarySearchFunc(o, Position{Topic: topic, Partition: partition}, comparePosition)
	if !ok {
		return Position{}, false
	}
	return o[i], true
}

// Clone returns a copy that shares no memory with o.
func (o Offsets) Clone() Offsets { return slices.Clone(o) }

// Advance counts one record in. It returns an error, and changes nothing, if
// the record lies before the position: a source must never go back.
func (p *Position) Advance(offset int64, fingerprint uint64) error {
	if offset < p.Next {
		return fmt.Errorf("%s/%d: offset %d after position %d: a record would be counted twice", p.Topic, p.Partition, offset, p.Next)
	}
	p.Next = offset + 1
	p.Records++
	p.Sum += fingerprint
	return nil
}
