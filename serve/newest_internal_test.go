package serve

import (
	"testing"

	"blankout/internal/must"
	"blankout/stream/record"
)

// TestObjectOf checks that a line of CSV becomes a JSON object: numbers stay as they are written, and values that mean
// missing are null. Records that are no such line are left alone.
func TestObjectOf(t *testing.T) {
	c := &record.Config{Format: "csv", Columns: []string{"a", "b\"", "c", "d", "e"}, Separator: ";", Missing: []string{"NA"}}
	for line, want := range map[string]string{
		`1.50;"x;y";NA;;007`: `{"a":1.50,"b\"":"x;y","c":null,"d":null,"e":"007"}`,
		"1;2":                "",
		"":                   "",
	} {
		must.Equal(t, string(objectOf(c, []byte(line))), want, line)
	}
	got := objectOf(&record.Config{Format: "json", Columns: c.Columns, Separator: ";"}, []byte("1;2;3;4;5"))
	must.True(t, got == nil, "%s", got)
}
