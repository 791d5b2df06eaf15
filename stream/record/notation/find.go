package notation

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"blankout/internal/event"
)

// This file finds fields whose strings are numbers.

// Found is a field whose strings are numbers.
type Found struct {
	Field, Example string
	// Notation is the notation that parses the field's strings. Notation is Plain if the strings are plain numbers.
	Notation Notation
}

func (f Found) String() string {
	text := fmt.Sprintf("field %s contains numbers written as text, such as %s", strconv.Quote(f.Field), strconv.Quote(f.Example))
	if f.Notation == Plain {
		return text + ", and each is a separate category: write them without quotes, or drop the field"
	}
	return text + ", and each is a separate category: " + f.Notation.String() + " reads them"
}

const (
	// maxNames is the largest number of names of a Schema that are examined. maxValues is the largest number of values
	// per field.
	maxNames, maxValues = 2000, 50
	// leastValues is the number of different strings that a numeric field must have. At least 90 % of these strings must
	// be numbers.
	leastValues = 5
)

// ordered lists the notations in the order in which they are tried; the first of several equally good notations is
// used. The last notation only removes currency and percent signs.
var ordered = []Notation{{".", ","}, {",", ""}, {",", "."}, {".", " "}, {",", " "}, {".", "'"}, {",", "'"}}

// Looked returns the number of names of a Schema that Find examines.
func Looked(s *event.Schema) int { return min(s.Names.Len(), maxNames) }

// Find returns the fields of a Schema whose strings are numbers, judged by the names in its dictionary.
func Find(s *event.Schema) (found []Found) {
	values, fields := map[string][]string{}, []string{}
	for _, f := range s.Fields {
		if _, there := values[f.Name]; f.Kind == event.Categorical && !there {
			values[f.Name], fields = nil, append(fields, f.Name)
		}
	}
	for i := range Looked(s) {
		_, name := s.Names.At(i)
		field, value, _ := strings.Cut(name, "=")
		if list, there := values[field]; there && len(list) < maxValues {
			values[field] = append(list, value)
		}
	}
	comma := false // set if some field certainly has decimal commas
	for _, name := range fields {
		if n, example, ok := of(values[name], false); ok {
			found = append(found, Found{name, example, n})
			comma = comma || n.Decimal == ","
		}
	}
	for i := range found {
		if comma {
			found[i].Notation, found[i].Example, _ = of(values[found[i].Field], true)
		}
	}
	return found
}

// of returns the notation that parses the most strings of a field, and an example string. If comma is set, it prefers
// notations with a decimal comma.
func of(texts []string, comma bool) (best Notation, example string, ok bool) {
	most := 0
	for _, n := range ordered {
		if comma && n.Decimal != "," {
			continue
		}
		if count, first := n.reads(texts); count > most {
			best, example, most = n, first, count
		}
	}
	if comma && most < len(texts)-len(texts)/10 {
		return of(texts, false)
	}
	if plain, first := plainNumbers(texts); plain >= most && plain > 0 {
		best, example, most = Plain, first, plain
	}
	return best, example, len(texts) >= leastValues && most >= len(texts)-len(texts)/10
}

// reads returns the number of texts that n parses, and an example that is not a plain number. It returns 0 if fewer
// than one in five texts are such examples.
func (n Notation) reads(texts []string) (count int, example string) {
	needed := 0
	for _, text := range texts {
		if _, ok := n.Parse([]byte(text)); !ok {
			continue
		}
		count++
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			example, needed = cmp.Or(example, text), needed+1
		}
	}
	if 5*needed < len(texts) || needed == 0 {
		return 0, ""
	}
	return count, example
}

// plainNumbers counts the texts that are plain numbers with a fraction. Integers do not count, because they may be
// codes.
func plainNumbers(texts []string) (count int, example string) {
	for _, text := range texts {
		if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(text, ".") {
			count, example = count+1, text
		}
	}
	return count, example
}
