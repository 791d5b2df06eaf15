package event

// This file says what the columns of events mean.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// Schema says what the columns of an event mean: how names become columns,
// which fields there are, and the classes. It belongs to every model: an event
// decoded under another Schema would be scored with other weights.
//
// Fields, Classes and Names grow in the order of appearance. A Schema belongs to one
// goroutine, the decoder's. That one takes a View for everybody else: a Batch has the
// View of what was known when it had been decoded.
type Schema struct {
	Bits uint   `json:"bits"` // names hash to 2^Bits columns, 1 to 31
	Seed uint64 `json:"seed"` // of that hash
	// NumericIndices keeps the numeric indices of the sparse text formats as
	// columns instead of hashing them.
	NumericIndices bool `json:"numeric_indices,omitempty"`
	ZeroBased      bool `json:"zero_based,omitempty"` // svmlight indices count from 0, not 1
	// Absent says what a field or column means that an event leaves out: AbsentAuto ("" here),
	// AbsentZero or AbsentMissing.
	Absent string `json:"absent,omitempty"`
	// Apart gives every numeric field a column, Field.Column, that no other name gets.
	Apart bool `json:"apart,omitempty"`
	// Closed is how many fields a model that learns no more has: those that are added behind
	// them get no columns of their own. 0 is a model that learns.
	Closed  int         `json:"-"`
	Crosses [][2]string `json:"crosses,omitempty"` // pairs of field names
	Fields  []Field     `json:"fields"`            // by field id; 0 is the anonymous field
	// ColumnGroups says which columns of the anonymous field die together; nil says nothing.
	ColumnGroups *ColumnGroups `json:"column_groups,omitempty"`

	// Target says what labels are: classes (Sign), or numbers, and then there are no
	// Classes.
	Target     loss.Target `json:"target,omitzero"`
	Classes    []string    `json:"classes"`     // by class
	MaxClasses int         `json:"max_classes"` // Classes may grow to this many; at least 2
	// MoreClasses is to how many more Classes may grow, for a learner that has classes of few events share an output.
	MoreClasses int `json:"-"`
	// Joined holds, for each class that was spelled in several ways, its name and the first
	// other spelling: -1, 0 and 1 alone are joined.
	Joined [][2]string `json:"joined,omitempty"`

	// Names tells which names were hashed to which column; nil keeps none. A
	// model file holds it in a block of its own.
	Names *Names `json:"-"`

	view *Schema // the latest View; of a View itself
}

// The values of Schema.Absent. Under each of them a bag of words does not say what it lacks.
const (
	// AbsentAuto: a named field that events usually hold is missing, a column of a sparse text
	// format is 0.
	AbsentAuto = "auto"
	// AbsentZero: a named number is 0, once an event has had it; another field is not missing.
	AbsentZero = "zero"
	// AbsentMissing: a column of a sparse text format which events usually hold is missing, too.
	AbsentMissing = "missing"
)

// ColumnsGoMissing reports whether a column of a sparse text format that is left out is missing
// where events usually hold it.
func (s *Schema) ColumnsGoMissing() bool { return s.Absent == AbsentMissing }

// Field is a named part of an event: a JSON key, a CSV column, a VW namespace.
type Field struct {
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`
	Group string `json:"group,omitempty"` // a sensor, say: fields that fail together
	// Column is that of a numeric field, where the Schema is Apart.
	Column uint32 `json:"column,omitempty"`
}

// Kind says what a field's values are.
type Kind uint8

// The kinds of fields.
const (
	Sparse      Kind = iota // columns of a sparse text format: numeric or not is found out
	Numeric                 // one number, one column
	Categorical             // one of many strings, one-hot as name=value
	Words                   // a bag of strings
	Boolean                 // true or false, one-hot
	Cross                   // a pair of other fields
)

var kindNames = []string{"sparse", "numeric", "categorical", "words", "boolean", "cross"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText and UnmarshalText write and read a Kind by name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kindNames, string(b))
	if i < 0 {
		return fmt.Errorf("unknown kind of field %q", b)
	}
	*k = Kind(i)
	return nil
}

// Named says whether the absence of a field of this kind can be known: of one
// number, string or truth value under a name.
func (k Kind) Named() bool { return k == Numeric || k == Categorical || k == Boolean }

// GroupName returns the name of the group of a field.
func (f *Field) GroupName() string {
	if f.Group != "" {
		return f.Group
	}
	return f.Name
}

// NewSchema returns a Schema of 2^bits columns that knows the anonymous field
// and the given classes. With no classes given it learns up to maxClasses.
func NewSchema(bits uint, classes []string, maxClasses int) *Schema {
	if len(classes) > 0 {
		maxClasses = len(classes)
	}
	return &Schema{Bits: bits, Fields: []Field{{Kind: Sparse}}, Classes: slices.Clone(classes), MaxClasses: max(maxClasses, 2)}
}

// Columns returns the number of columns, 2^Bits.
func (s *Schema) Columns() uint64 { return 1 << s.Bits }

// UsualPair reports whether two classes are a pair whose larger one is usually the positive
// one: -1 and 1, 0 and 1, or false and true.
func UsualPair(smaller, larger string) bool {
	return unit(larger) == "1" && (unit(smaller) == "0" || unit(smaller) == "-1") || smaller == "false" && larger == "true"
}

// PositiveClass returns the positive one of two classes: the first if name is its name, else
// the second.
func (s *Schema) PositiveClass(name string) int {
	if len(s.Classes) == 2 && name != "" && s.FindClass(name) == 0 {
		return 0
	}
	return 1
}

// ClassList words classes for a message: the first of many, long names cut.
func ClassList(classes []string) string {
	const most = 5
	if more := len(classes) - most; more > 1 {
		return fmt.Sprintf("%.40q and %d more", classes[:most], more)
	}
	return fmt.Sprintf("%.40q", classes)
}

// Outputs returns the number of outputs of a linear model over the classes of this Schema so
// far: 1 for numbers and for at most two classes (its sign decides), else one for each.
func (s *Schema) Outputs() int {
	if len(s.Classes) <= 2 || s.Target != loss.Sign {
		return 1
	}
	return len(s.Classes)
}

// AddField adds a field and returns its id, or 0, the anonymous field, if the
// Schema has the most fields that an Example's ids can tell apart.
func (s *Schema) AddField(f Field) uint16 {
	if len(s.Fields) >= MaxFields {
		return 0
	}
	s.Fields = append(s.Fields, f)
	return uint16(len(s.Fields) - 1)
}

// DropFields takes back the fields added after the first n, of a record that
// turned out to be unusable. There must be no View with them.
func (s *Schema) DropFields(n int) { s.Fields = s.Fields[:n] }

// Factors returns for each field the two that it is lost with: itself twice, but of a
// product of fields its factors. A product cannot die by itself.
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

// IsProduct reports whether a name is that of a product of fields, one of them of the given names.
func (s *Schema) IsProduct(name string, of []string) bool {
	return slices.ContainsFunc(s.Crosses, func(pair [2]string) bool {
		return pair[0]+"^"+pair[1] == name && (slices.Contains(of, pair[0]) || slices.Contains(of, pair[1]))
	})
}

// MaxFields is the largest number of fields of a Schema.
const MaxFields = 1 << 16

// View returns the Schema as it is now, for readers on any goroutine. It never changes,
// takes no time and shares memory with s, which may grow on. As long as s does not
// grow the View is the same one.
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

// same reports whether two slices are one.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Clone returns a copy that may grow by itself.
func (s *Schema) Clone() *Schema {
	c := *s
	c.Crosses, c.Fields, c.Classes, c.Joined, c.Names = slices.Clone(s.Crosses), slices.Clone(s.Fields), slices.Clone(s.Classes), slices.Clone(s.Joined), s.Names.View()
	c.view = nil
	return &c
}

// Namer returns a function that names columns for people: by Names, else by the
// numeric index it may come from, else by its number, as in #17. A column in
// which several names met has all of them.
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

// Collisions counts the names of the dictionary that share their column with an earlier one.
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

// Owns says whether a field has a column of its own.
func (s *Schema) Owns(id int) bool {
	return s.Apart && s.Fields[id].Kind == Numeric && (s.Closed == 0 || id < s.Closed)
}

// EachName calls f with the names of the dictionary, in its order, and their columns.
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

// TakenColumns are the columns that belong to numeric fields. Its zero value has none.
type TakenColumns struct {
	near   [16]uint64     // bit column%1024 is set for each of them
	fields map[uint32]int // how many have a column
}

// Take gives a column to a field, Release takes it back.
func (t *TakenColumns) Take(column uint32) {
	if t.fields == nil {
		t.fields = map[uint32]int{}
	}
	t.fields[column]++
	t.near[column%1024/64] |= 1 << (column % 64)
}

// Release takes a column back from a field.
func (t *TakenColumns) Release(column uint32) {
	if t.fields[column]--; t.fields[column] == 0 {
		delete(t.fields, column)
	}
}

// rehashes bounds how often a hash is hashed again to find a column that is not taken.
const rehashes = 16

// Of returns the column that the low bits of a hash give, or, where that one is taken, those of
// the hash hashed again.
func (t *TakenColumns) Of(hash, mask uint64) uint32 {
	column := uint32(hash & mask)
	for n := 0; t.near[column%1024/64]>>(column%64)&1 != 0 && t.fields[column] > 0 && n < rehashes; n++ {
		hash = Mix(hash + 1)
		column = uint32(hash & mask)
	}
	return column
}

// Mix is the finalizer of MurmurHash3 (fmix64): every bit of x moves every bit.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// ErrNoRates says that nothing tells how often groups are missing.
var ErrNoRates = errors.New("nothing says what is missing, for the examples have no named fields: name the rates of groups, as in group:1-8=0.3,9-16=0.1")

// CheckRates returns ErrNoRates if no field of a Schema can be known to be missing.
func (s *Schema) CheckRates() error {
	if !slices.ContainsFunc(s.Fields, func(f Field) bool { return f.Kind.Named() || f.Kind == Words }) {
		return ErrNoRates
	}
	return nil
}
