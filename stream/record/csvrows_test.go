package record_test

import (
	"bytes"
	"strings"
	"testing"

	"blankout/internal/must"
	"blankout/stream/record"
)

// TestRows checks which first line of a request of CSV is a header, how lines under it are arranged, and what is refused
// by name.
func TestRows(t *testing.T) {
	c := record.DefaultConfig()
	c.Format, c.Label, c.Columns, c.Missing = "csv", "label", []string{"label", "x", "y"}, []string{"NA"}
	for _, test := range []struct{ in, out, refused string }{
		{in: "a,1,2\nb,3,4", out: "a,1,2\nb,3,4"},
		{in: "label,x,y\na,1,2", out: "a,1,2"},
		{in: "\ufefflabel,x,y\na,1,2", out: "a,1,2"},
		{in: "\ufeffa,1,2", out: "a,1,2"},
		{in: "y,x\n2,1", out: "NA,1,2"},
		{in: "x\n1", out: "NA,1,NA"},
		{in: "label,y\n\"a,b\",2", out: "\"a,b\",NA,2"},
		{in: "label,x,y", out: ""},
		{in: "id,y,x\n7,2,1", refused: `the header names column "id"`},
		{in: "Label,x,y\na,1,2", refused: `the header names column "Label"`},
		{in: "label,xx\na,1", refused: `the header names column "xx"`},
		{in: "label,x,x\na,1,2", refused: `the header names column "x" twice`},
		{in: "y,x\n2,1\n7,2,1", refused: "line 3 has 3 values for 2 columns"},
	} {
		out, err := c.Rows(bytes.Split([]byte(test.in), []byte("\n")))
		switch {
		case test.refused != "":
			must.True(t, err != nil && strings.HasPrefix(err.Error(), test.refused), "%q: %v, want %s", test.in, err, test.refused)
		case err != nil || string(bytes.Join(out, []byte("\n"))) != test.out:
			t.Errorf("%q: %q, %v; want %q", test.in, out, err, test.out)
		}
	}
}
