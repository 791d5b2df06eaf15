package event

// This file has the Schema, which defines the columns of events.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// Schema defines the columns of events: how names are mapped to columns, the fields, and the classes. It is part of
// every model, because an event decoded with another Schema would be scored with other weights.
//
// Fields, Classes and Names grow in the order of appearance. A Schema belongs to one goroutine, the decoder's. The
// decoder takes a View for all other goroutines: a Batch has the View after it was decoded.
type Schema struct {
	Bits uint   `json:"bits"` // names hash to 2^Bits columns, 1 to 31
	Seed uint64 `json:"seed"` // of that hash
	// NumericIndices keeps the numeric indices of sparse text formats as columns, instead of hashing them.
	NumericIndices bool `json:"numeric_indices,omitempty"`
	ZeroBased      bool `json:"zero_based,omitempty"` // svmlight indices count from 0, not 1
	// Absent defines the meaning of an absent field or column: AbsentAuto ("" here), AbsentZero or AbsentMissing.
	Absent string `json:"absent,omitempty"`
	// Apart gives every numeric field a column of its own, Field.Column.
	Apart bool `json:"apart,omitempty"`
	// Closed is the number of fields of a model that no longer learns: later fields get no columns of their own. It is
	// 0 for a model that learns.
	Closed  int         `json:"-"`
	Crosses [][2]string `json:"crosses,omitempty"` // pairs of field names
	Fields  []Field     `json:"fields"`            // by field id; 0 is the anonymous field
	// ColumnGroups groups columns of the anonymous field that die together; it may be nil.
	ColumnGroups *ColumnGroups `json:"column_groups,omitempty"`

	// Target is the kind of labels: classes (Sign), or numbers, without Classes.
	Target     loss.Target `json:"target,omitzero"`
	Classes    []string    `json:"classes"`     // by class
	MaxClasses int         `json:"max_classes"` // largest number of Classes, at least 2
	// MoreClasses is the number of additional Classes, for a learner whose classes with few events share an output.
	MoreClasses int `json:"-"`
	// Joined has, for each class with several spellings, its name and the first other spelling. Only -1, 0 and 1 are
	// joined.
	Joined [][2]string `json:"joined,omitempty"`

	// Names has the names that were hashed, by column; nil keeps none. It is a block of its own in a model file.
	Names *Names `json:"-"`

	view *Schema // the latest View; for a View: itself
}

// The values of Schema.Absent. With any of them, a bag of words has no missing words.
const (
	// AbsentAuto: a named field that events usually have is missing; a column of a sparse text format is 0.
	AbsentAuto = "auto"
	// AbsentZero: a named number is 0, once an event has had it; other fields are not missing.
	AbsentZero = "zero"
	// AbsentMissing: as AbsentAuto, and a column of a sparse text format that events usually have is missing.
	AbsentMissing = "missing"
)

// ColumnsGoMissing reports whether absent columns of a sparse text format that events usually have are missing.
func (s *Schema) ColumnsGoMissing() bool { return s.Absent == AbsentMissing }

// Field is a named part of an event: a JSON key, a CSV column, a VW namespace.
type Field struct {
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`
	Group string `json:"group,omitempty"` // for example a sensor, whose fields fail together
	// Column is the column of a numeric field, if the Schema is Apart.
	Column uint32 `json:"column,omitempty"`
}

// Kind is the kind of a field's values.
type Kind uint8

// The kinds of fields.
const (
	Sparse      Kind = iota // columns of a sparse text format, which may be numeric
	Numeric                 // one number, one column
	Categorical             // one of many strings, one-hot as name=value
	Words                   // a bag of strings
	Boolean                 // true or false, one-hot
	Cross                   // a pair of other fields
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

// Named reports whether a field of this kind can be missing: a named number, string or truth value.
func (k Kind) Named() bool { return k == Numeric || k == Categorical || k == Boolean }

// GroupName returns the name of the group of a field.
func (f *Field) GroupName() string {
	if f.Group != "" {
		return f.Group
	}
	return f.Name
}

// NewSchema returns a Schema with 2^bits columns, the anonymous field and the given classes. Without classes it learns
// up to maxClasses.
func NewSchema(bits uint, classes []string, maxClasses int) *Schema {
	if len(classes) > 0 {
		maxClasses = len(classes)
	}
	return &Schema{Bits: bits, Fields: []Field{{Kind: Sparse}}, Classes: slices.Clone(classes), MaxClasses: max(maxClasses, 2)}
}

// Columns returns the number of columns, 2^Bits.
func (s *Schema) Columns() uint64 { return 1 << s.Bits }

// UsualPair reports whether two classes are a pair of which the larger is usually positive: -1 and 1, 0 and 1, or false
// and true.
func UsualPair(smaller, larger string) bool {
	return unit(larger) == "1" && (unit(smaller) == "0" || unit(smaller) == "-1") || smaller == "false" && larger == "true"
}

// PositiveClass returns the positive class of two: the first if name is its name, else the second.
func (s *Schema) PositiveClass(name string) int {
	if len(s.Classes) == 2 && name != "" && s.FindClass(name) == 0 {
		return 0
	}
	return 1
}

// ClassList formats classes for a message: the first ones of many, with long names cut.
func ClassList(classes []string) string {
	const most = 5
	if more := len(classes) - most; more > 1 {
		return fmt.Sprintf("%.40q and %d more", classes[:most], more)
	}
	return fmt.Sprintf("%.40q", classes)
}

// Outputs returns the number of outputs of a linear model for the current classes: 1 for regression and for at most two
// classes, else one per class.
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

// DropFields removes the fields after the first n, which belong to a record that was refused. No View may have them.
func (s *Schema) DropFields(n int) { s.Fields = s.Fields[:n] }

// Factors returns, for each field, the two fields with which it is missing: itself twice, or the factors of a product
// of fields, which cannot be missing alone.
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

// IsProduct reports whether a name is that of a product of fields, one of which is in of.
func (s *Schema) IsProduct(name string, of []string) bool {
	return slices.ContainsFunc(s.Crosses, func(pair [2]string) bool {
		return pair[0]+"^"+pair[1] == name && (slices.Contains(of, pair[0]) || slices.Contains(of, pair[1]))
	})
}

// MaxFields is the largest number of fields of a Schema.
const MaxFields = 1 << 16

// View returns the current Schema, for readers on any goroutine. It is immutable and takes no time. It shares memory
// with s, which may grow. Calls return the same View as long as s does not grow.
func (s *Schema) View() *Schema {
	if v := s.view; v == s || v != nil && same(v.Fields, s.Fields) && same(v.Classes, s.Classes) && same(v.Joined, s.Joined) && v.Names.Len() == s.Names.Len() && v.ColumnGroups == s.ColumnGroups {
		return v
	}
	v := *s
	v.Fields, v.Classes, v.Joined, v.Names = slices.Clip(s.Fields), slices.Clip(s.Classes), slices.Clip(s.Joined), s.Names.View()
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
	c.view = nil
	return &c
}

// Namer returns a function that returns names of columns for people: from Names, else the possible numeric index, else
// the number as in #17. If several names share a column it returns all of them.
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

// Owns reports whether a field has a column of its own.
func (s *Schema) Owns(id int) bool {
	return s.Apart && s.Fields[id].Kind == Numeric && (s.Closed == 0 || id < s.Closed)
}

// EachName calls f with the names of the dictionary in order, and their columns.
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

// TakenColumns has the columns of numeric fields. Its zero value is empty.
type TakenColumns struct {
	near   [16]uint64     // bit column%1024 is set for each of them
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

// Of returns the column of the low bits of a hash or, if it is taken, of the hash hashed again.
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

// ErrNoRates reports that the rates at which groups are missing cannot be learned.
var ErrNoRates = errors.New("the examples have no named fields, so missing groups are unknown: give the rates of groups, as in group:1-8=0.3,9-16=0.1")

// CheckRates returns ErrNoRates if no field of a Schema can be missing.
func (s *Schema) CheckRates() error {
	if !slices.ContainsFunc(s.Fields, func(f Field) bool { return f.Kind.Named() || f.Kind == Words }) {
		return ErrNoRates
	}
	return nil
}
