package event

// This file defines Schema, which maps events to columns.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// Schema defines the columns of events: how names are mapped to columns, the fields, and the classes. It is part of
// every model, because an event decoded with another Schema would be scored with the wrong weights.
//
// Fields, Classes and Names grow in the order of appearance. A Schema belongs to one goroutine, the decoder's. All
// other goroutines use a View: each Batch has the View after it was decoded.
type Schema struct {
	Bits uint   `json:"bits"` // names are hashed to 2^Bits columns, 1 <= Bits <= 31
	Seed uint64 `json:"seed"` // seed of the hash of names
	// NumericIndices keeps the numeric indices of sparse text formats as columns, instead of hashing them.
	NumericIndices bool `json:"numeric_indices,omitempty"`
	ZeroBased      bool `json:"zero_based,omitempty"` // svmlight indices start at 0, not 1
	// Absent defines the meaning of an absent field or column: AbsentAuto (stored as ""), AbsentZero or AbsentMissing.
	Absent string `json:"absent,omitempty"`
	// Apart gives every numeric field its own column, Field.Column.
	Apart bool `json:"apart,omitempty"`
	// Closed is the number of fields of a model that no longer learns. Fields added later get no columns of their own.
	// Closed is 0 for a model that learns.
	Closed  int         `json:"-"`
	Crosses [][2]string `json:"crosses,omitempty"` // pairs of field names
	Fields  []Field     `json:"fields"`            // indexed by field id; 0 is the anonymous field
	// Readings says how values are read, for fields whose values may be text or times.
	Readings []Reading `json:"readings,omitempty"`
	// ColumnGroups defines which columns of the anonymous field fail together; it may be nil.
	ColumnGroups *ColumnGroups `json:"column_groups,omitempty"`

	// Target is the kind of labels: classes (Sign), or regression targets, for which Classes is empty.
	Target     loss.Target `json:"target,omitzero"`
	Classes    []string    `json:"classes"`     // class names
	MaxClasses int         `json:"max_classes"` // largest number of Classes, at least 2
	// MoreClasses is the number of additional Classes, for a learner whose rare classes share one output.
	MoreClasses int `json:"-"`
	// Joined has, for each class with several spellings, the class name and the first other spelling. Only spellings of
	// -1, 0 and 1 are joined.
	Joined [][2]string `json:"joined,omitempty"`

	// Names has the names that were hashed, by column; nil keeps none. A model file stores it as a separate block.
	Names *Names `json:"-"`

	view   *Schema // the latest View; a View refers to itself
	shared bool    // whether others hold Readings, which must then not change
}

// The values of Schema.Absent. A word that is absent from a bag of words is never missing.
const (
	// AbsentAuto: a named field is missing if most events have it; an absent column of a sparse text format is 0.
	AbsentAuto = "auto"
	// AbsentZero: an absent numeric field is 0 once an event has had it; other absent fields are not missing.
	AbsentZero = "zero"
	// AbsentMissing is AbsentAuto, but a column of a sparse text format is also missing if most events have it.
	AbsentMissing = "missing"
)

// ColumnsGoMissing reports whether an absent column of a sparse text format is missing if most events have it.
func (s *Schema) ColumnsGoMissing() bool { return s.Absent == AbsentMissing }

// Field is a named part of an event: a JSON key, a CSV column, a VW namespace.
type Field struct {
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`
	Group string `json:"group,omitempty"` // group of fields that fail together, for example a sensor
	// Column is the column of a numeric field, if Schema.Apart is set.
	Column uint32 `json:"column,omitempty"`
}

// Kind is the kind of a field's values.
type Kind uint8

// The kinds of fields.
const (
	Sparse      Kind = iota // columns of a sparse text format, which may be numeric indices
	Numeric                 // a number in one column
	Categorical             // one string, one-hot as name=value
	Words                   // a bag of words
	Boolean                 // true or false, one-hot
	Cross                   // a product of two other fields
)

var kindNames = []string{"sparse", "numeric", "categorical", "words", "boolean", "cross"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the name of a Kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kindNames, string(b))
	if i < 0 {
		return fmt.Errorf("unknown kind of field %q", b)
	}
	*k = Kind(i)
	return nil
}

// Named reports whether a field of this kind can be missing: a numeric, categorical or boolean field.
func (k Kind) Named() bool { return k == Numeric || k == Categorical || k == Boolean }

// GroupName returns the name of the group of a field.
func (f *Field) GroupName() string { return cmp.Or(f.Group, f.Name) }

// NewSchema returns a Schema with 2^bits columns, the anonymous field and the given classes. If no classes are given,
// it learns up to maxClasses from labels.
func NewSchema(bits uint, classes []string, maxClasses int) *Schema {
	if len(classes) > 0 {
		maxClasses = len(classes)
	}
	return &Schema{Bits: bits, Fields: []Field{{Kind: Sparse}}, Classes: slices.Clone(classes), MaxClasses: max(maxClasses, 2)}
}

// Columns returns the number of columns, 2^Bits.
func (s *Schema) Columns() uint64 { return 1 << s.Bits }

// UsualPair reports whether two classes are a pair in which the larger is usually positive: -1 and 1, 0 and 1, or false
// and true.
func UsualPair(smaller, larger string) bool {
	return unit(larger) == "1" && (unit(smaller) == "0" || unit(smaller) == "-1") || smaller == "false" && larger == "true"
}

// PositiveClass returns the index of the positive class of two: 0 if name is the first class, else 1.
func (s *Schema) PositiveClass(name string) int {
	if len(s.Classes) == 2 && name != "" && s.FindClass(name) == 0 {
		return 0
	}
	return 1
}

// ClassList formats classes for a message. It shows only the first of many classes, and shortens long names.
func ClassList(classes []string) string {
	const most = 5
	if more := len(classes) - most; more > 1 {
		return fmt.Sprintf("%.40q and %d more", classes[:most], more)
	}
	return fmt.Sprintf("%.40q", classes)
}

// Outputs returns the number of outputs of a linear model for the current classes. It is 1 for regression and for at
// most two classes, else one per class.
func (s *Schema) Outputs() int {
	if len(s.Classes) <= 2 || s.Target != loss.Sign {
		return 1
	}
	return len(s.Classes)
}

// AddField adds a field and returns its id. It returns 0, the anonymous field, if the Schema has MaxFields fields.
func (s *Schema) AddField(f Field) uint16 {
	if len(s.Fields) >= MaxFields {
		return 0
	}
	s.Fields = append(s.Fields, f)
	return uint16(len(s.Fields) - 1)
}

// DropFields removes all fields after the first n, because their record was refused. No View may contain them.
func (s *Schema) DropFields(n int) { s.Fields = s.Fields[:n] }

// Factors returns two field ids for each field: its own id twice, or the factors if the field is a product of fields. A
// product is missing exactly if one of its factors is.
func (s *Schema) Factors() [][2]int {
	factors := make([][2]int, len(s.Fields))
	for id, f := range s.Fields {
		factors[id] = [2]int{id, id}
		if f.Kind != Cross {
			continue
		}
		for _, pair := range s.Crosses {
			if pair[0]+"^"+pair[1] == f.Name {
				for side, name := range pair {
					factors[id][side] = max(0, slices.IndexFunc(s.Fields, func(g Field) bool { return g.Name == name }))
				}
			}
		}
	}
	return factors
}

// IsProduct reports whether name is the name of a product of fields, and the slice of contains one of its factors.
func (s *Schema) IsProduct(name string, of []string) bool {
	return slices.ContainsFunc(s.Crosses, func(pair [2]string) bool {
		return pair[0]+"^"+pair[1] == name && (slices.Contains(of, pair[0]) || slices.Contains(of, pair[1]))
	})
}

// MaxFields is the largest number of fields of a Schema.
const MaxFields = 1 << 16

// View returns an immutable View of the current Schema, for readers on any goroutine. It does not copy: the View shares
// memory with s, which may grow. Calls return the same View as long as s does not grow.
func (s *Schema) View() *Schema {
	if v := s.view; v == s || v != nil && same(v.Fields, s.Fields) && same(v.Classes, s.Classes) && same(v.Joined, s.Joined) && same(v.Readings, s.Readings) && v.Names.Len() == s.Names.Len() && v.ColumnGroups == s.ColumnGroups {
		return v
	}
	v := *s
	v.Fields, v.Classes, v.Joined, v.Names = slices.Clip(s.Fields), slices.Clip(s.Classes), slices.Clip(s.Joined), s.Names.View()
	v.Readings = s.ShareReadings()
	v.view = &v
	s.view = &v
	return &v
}

// same reports whether two slices are the same slice.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Clone returns a copy that can grow independently.
func (s *Schema) Clone() *Schema {
	c := *s
	c.Crosses, c.Fields, c.Classes, c.Joined, c.Names = slices.Clone(s.Crosses), slices.Clone(s.Fields), slices.Clone(s.Classes), slices.Clone(s.Joined), s.Names.View()
	c.Readings = slices.Clone(s.Readings)
	c.view, c.shared = nil, false
	return &c
}

// Namer returns a function that returns names of columns for people. The name of a column is found in Names. If Names
// does not have it, the name is the numeric index or, without numeric indices, the column number, as in #17. It returns
// all names that share a column.
func (s *Schema) Namer() func(column uint32) string {
	byColumn := map[uint32]string{}
	s.EachName(func(column uint32, name string) {
		if before := byColumn[column]; before != "" {
			name = before + " | " + name
		}
		byColumn[column] = name
	})
	return func(column uint32) string {
		name := byColumn[column]
		switch {
		case name != "":
			return name
		case s.NumericIndices && s.ZeroBased:
			return strconv.FormatUint(uint64(column), 10)
		case s.NumericIndices:
			return strconv.FormatUint(uint64(column)+1, 10)
		}
		return "#" + strconv.FormatUint(uint64(column), 10)
	}
}

// Collisions returns the number of names that share their column with an earlier name.
func (s *Schema) Collisions() (count int) {
	met := make(map[uint32]bool, s.Names.Len())
	s.EachName(func(column uint32, _ string) {
		if met[column] {
			count++
		}
		met[column] = true
	})
	return count
}

// Owns reports whether a field has its own column.
func (s *Schema) Owns(id int) bool {
	return s.Apart && s.Fields[id].Kind == Numeric && (s.Closed == 0 || id < s.Closed)
}

// EachName calls f with the column and name of each entry of the dictionary, in order.
func (s *Schema) EachName(f func(column uint32, name string)) {
	var taken TakenColumns
	numbers := map[string]uint32{}
	for id, field := range s.Fields {
		if s.Owns(id) {
			taken.Take(field.Column)
			numbers[field.Name] = field.Column
		}
	}
	for i := range s.Names.Len() {
		hash, name := s.Names.At(i)
		column, isNumber := numbers[name]
		if !isNumber {
			column = taken.Of(hash, s.Columns()-1)
		}
		f(column, name)
	}
}

// TakenColumns records which columns numeric fields use. Its zero value is empty.
type TakenColumns struct {
	near   [16]uint64     // bit column%1024 is set for each used column
	fields map[uint32]int // number of fields by column
}

// Take assigns a column to a field.
func (t *TakenColumns) Take(column uint32) {
	if t.fields == nil {
		t.fields = map[uint32]int{}
	}
	t.fields[column]++
	t.near[column%1024/64] |= 1 << (column % 64)
}

// Release removes a field from its column.
func (t *TakenColumns) Release(column uint32) {
	if t.fields[column]--; t.fields[column] == 0 {
		delete(t.fields, column)
	}
}

// rehashes is the largest number of times that a hash is hashed again to find a free column.
const rehashes = 16

// Of returns a column for a hash: the low bits of the hash. If that column is taken, Of hashes the hash again.
func (t *TakenColumns) Of(hash, mask uint64) uint32 {
	column := uint32(hash & mask)
	for n := 0; t.near[column%1024/64]>>(column%64)&1 != 0 && t.fields[column] > 0 && n < rehashes; n++ {
		hash = Mix(hash + 1)
		column = uint32(hash & mask)
	}
	return column
}

// Mix is the finalizer of MurmurHash3 (fmix64): every bit of x affects every bit of the result.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// ErrNoRates reports that the missing rates of groups cannot be learned.
var ErrNoRates = errors.New("the examples have no named fields, so missing groups are unknown: give the rates of groups, as in group:1-8=0.3,9-16=0.1")

// CheckRates returns ErrNoRates if no field of the Schema can be missing.
func (s *Schema) CheckRates() error {
	if !slices.ContainsFunc(s.Fields, func(f Field) bool { return f.Kind.Named() || f.Kind == Words }) {
		return ErrNoRates
	}
	return nil
}
