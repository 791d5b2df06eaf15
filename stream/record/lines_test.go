package record

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// linesOf returns the records of a text that is read in pieces, each with its line number.
func linesOf(t *testing.T, text string, c Config, in func(io.Reader) io.Reader) (out []string) {
	t.Helper()
	s := must.Get(NewScanner("x.csv", in(strings.NewReader(text)), c))(t)
	for {
		var record Record
		for !s.Scan(&record) {
			if err := s.Refill(); err == io.EOF {
				return out
			} else if err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, fmt.Sprintf("%d:%s", record.Offset, record.Value))
	}
}

// TestStrayQuotes checks that a stray quote affects only its own line. The records of a text, joined, must be the text,
// and a record of several lines must be valid by RFC 4180.
func TestStrayQuotes(t *testing.T) {
	longtest.NotRaced(t)
	c := DefaultConfig()
	c.Format, c.Columns = "csv", []string{"label", "x"}
	whole := func(r io.Reader) io.Reader { return r }
	for text, want := range map[string]string{
		"a,\"b\nc\"\nd,e\n":           "0:a,\"b\nc\"|2:d,e",
		"a,\"b\"\r\nc,\"d\"\r\n":      `0:a,"b"|1:c,"d"`,
		"a,\"b\"\"\nc\"\"\"\nd,e":     "0:a,\"b\"\"\nc\"\"\"|2:d,e",
		"a,b\"\nc,d\n":                "0:a,b\"|1:c,d",
		"a,\"b\nc,d\ne,f\n":           "0:a,\"b|1:c,d|2:e,f",
		"a,\"b\nc,\"d\"\ne,f\n":       "0:a,\"b|1:c,\"d\"|2:e,f",
		"a,\"b\n\n\nc,\"d\ne\"\n":     "0:a,\"b|3:c,\"d\ne\"",
		"a,\"b\"c\nd,\"e\nf\"\n":      "0:a,\"b\"c|1:d,\"e\nf\"",
		"a,b\"c,\"d\ne\n":             "0:a,b\"c,\"d|1:e",
		"a,\"b\n\"":                   "0:a,\"b\n\"",
		"a,\"b\n\"\r":                 "0:a,\"b\n\"",
		"\"\n":                        `0:"`,
		"a,\"b\n" + long200 + "\nc,d": "0:a,\"b|1:" + long200[:101] + "|2:c,d",
	} {
		c := c
		c.MaxBytes = 100
		for name, in := range map[string]func(io.Reader) io.Reader{"whole": whole, "bytes": iotest.OneByteReader} {
			must.Equal(t, strings.Join(linesOf(t, text, c, in), "|"), want, name, text)
		}
	}

	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var text strings.Builder
		for range random.IntN(60) {
			text.WriteString([]string{"a", "\"", "\"", ",", ",", "\n", "\n", "\"\"", ",\"", "\r\n", " "}[random.IntN(11)])
		}
		c := c
		c.MaxBytes = 1 + random.IntN(60)
		got := linesOf(t, text.String(), c, whole)
		bytes := linesOf(t, text.String(), c, iotest.OneByteReader)
		must.Require(t, slices.Equal(got, bytes), "%q: whole %q, in bytes %q", text.String(), got, bytes)
		for _, line := range got {
			if _, value, _ := strings.Cut(line, ":"); strings.Contains(value, "\n") {
				_, err := csvFields([]byte(value), ',')
				must.Require(t, err == nil && len(value) <= c.MaxBytes, "%q: %q is several lines: %v", text.String(), value, err)
			}
		}
	}
	for range 300 { // valid text is read as encoding/csv reads it
		var text strings.Builder
		w := csv.NewWriter(&text)
		for range random.IntN(8) {
			row := []string{"x"}
			for range random.IntN(4) {
				row = append(row, []string{"a", "", "b\nc", "d\"e", "\"", "\n", ",", "f,\n\"g\""}[random.IntN(8)])
			}
			w.Write(row)
		}
		w.Flush()
		r := csv.NewReader(strings.NewReader(text.String()))
		r.FieldsPerRecord = -1
		rows := must.Get(r.ReadAll())(t)
		got := linesOf(t, text.String(), c, whole)
		for i, line := range got {
			_, value, _ := strings.Cut(line, ":")
			values, err := csvFields([]byte(value), ',')
			must.Require(t, err == nil && len(got) == len(rows) && slices.Equal(values, rows[i]), "%q: %q, want %q", text.String(), got, rows)
		}
	}
}

var long200 = strings.Repeat("0123456789", 20)
