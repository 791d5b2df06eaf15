package health

import (
	"fmt"
	"strings"

	"blankout/internal/event"
	"blankout/stream/record/notation"
)

// This file warns about numbers that arrive as text.

// Texts warns about fields whose texts are numbers. It stores how many names of the Schema it has processed. Its
// Warnings depend only on the Schema.
type Texts struct {
	looked int
	found  []Warning
}

// textsNamed is the largest number of fields that one warning names.
const textsNamed = 5

// Warnings returns the Warnings about the names of a Schema.
func (t *Texts) Warnings(s *event.Schema) []Warning {
	if n := notation.Looked(s); n != t.looked {
		t.looked, t.found = n, nil
		if found := notation.Find(s); len(found) > 0 {
			t.found = []Warning{{WarnText, textOf(found)}}
		}
	}
	return t.found
}

func textOf(found []notation.Found) string {
	var texts []string
	for _, f := range found[:min(len(found), textsNamed)] {
		texts = append(texts, f.String())
	}
	if more := len(found) - textsNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more fields", more))
	}
	return strings.Join(texts, "; ")
}
