package record

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// TestRowsAreJSON checks that rows of numbers give the same events as the same numbers in JSON.
func TestRowsAreJSON(t *testing.T) {
	names := []string{"a", "b.c", "code", "out", "w", "when", "text", "odd name"}
	for name, set := range map[string]func(c *Config){
		"defaults": func(*Config) {},
		"roles": func(c *Config) {
			c.Categorical, c.Drop, c.Weight, c.Time = []string{"code"}, []string{"out"}, "w", "when"
		},
		"crosses": func(c *Config) {
			c.Categorical, c.Crosses = []string{"code"}, [][2]string{{"a", "code"}, {"b.c", "b.c"}}
		},
		"times":   func(c *Config) { c.Time, c.TimeFeatures = "when", []string{"when"} },
		"texts":   func(c *Config) { c.Text, c.Ngrams = []string{"text"}, 2 },
		"refuse":  func(c *Config) { c.NaN = "refuse" },
		"numbers": func(c *Config) { c.Target = loss.Real },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Format = "json"
			set(&c)
			s, other := c.Schema(), c.Schema()
			rows := must.Get(NewRows(c, s, names))(t)
			lines := must.Get(NewDecoder(c, other))(t)
			r := rand.New(rand.NewPCG(1, 2))
			var a, b event.Example
			for range 500 {
				row, fields := make([]float64, len(names)), make([]string, len(names))
				for j := range row {
					row[j] = []float64{math.Trunc(r.NormFloat64() * 9), r.NormFloat64() * 1e5, math.NaN(), 1e31, 0, 1234567}[min(5, r.IntN(40)/7)]
					if fields[j] = fmt.Sprintf("%q:null", names[j]); row[j] == row[j] {
						fields[j] = fmt.Sprintf("%q:%v", names[j], row[j])
					}
					if names[j] == "w" || names[j] == "when" {
						row[j] = float64(r.IntN(1000))
						fields[j] = fmt.Sprintf("%q:%v", names[j], row[j])
					}
				}
				label := []byte([]string{"0", "1"}[r.IntN(2)])
				rows.Decode(Record{Label: label}, row, &a)
				line := Record{Label: label, Value: []byte("{" + strings.Join(fields, ",") + "}")}
				must.Do(t, lines.Decode(context.Background(), line, &b))
				must.Require(t, (a.Refused == nil) == (b.Refused == nil) && (a.Refused == nil || a.Refused.Reason == b.Refused.Reason), "%v: %v, as JSON %v", row, a.Refused, b.Refused)
				if a.Refused != nil {
					continue
				}
				must.Require(t, reflect.DeepEqual(a, b), "%v: %+v, as JSON %+v", row, a, b)
			}
			must.True(t, reflect.DeepEqual(s.Fields, other.Fields) && reflect.DeepEqual(s.Classes, other.Classes) && s.Names.Len() == other.Names.Len(), "schemas differ: %v, as JSON %v", s.Fields, other.Fields)
		})
	}
}

// TestSparseRowsAreSvmlight checks that sparse rows give the same events as lines of svmlight.
func TestSparseRowsAreSvmlight(t *testing.T) {
	for name, set := range map[string]func(c *Config){
		"defaults": func(*Config) {}, "names": func(c *Config) { c.NumericIndices = false }, "zero based": func(c *Config) { c.ZeroBased = true },
		"numbers": func(c *Config) { c.Target = loss.Real },
	} {
		c := DefaultConfig()
		c.Format = "svmlight"
		set(&c)
		first := must.Either(c.ZeroBased, 0, 1)
		rows := must.Get(NewSparseRows(c, c.Schema()))(t)
		lines := must.Get(NewDecoder(c, c.Schema()))(t)
		r := rand.New(rand.NewPCG(1, 2))
		var a, b event.Example
		for range 300 {
			label := []byte([]string{"0", "1"}[r.IntN(2)])
			var columns []int64
			var values []float64
			text := string(label)
			for _, column := range r.Perm(50)[:r.IntN(9)] {
				columns, values = append(columns, int64(column)), append(values, math.Trunc(r.NormFloat64()*100)/8)
				text += fmt.Sprintf(" %d:%v", column+first, values[len(values)-1])
			}
			rows.Decode(Record{Label: label}, columns, values, &a)
			must.Do(t, lines.Decode(context.Background(), Record{Value: []byte(text)}, &b))
			if len(columns) == 0 {
				a.Features, b.Features = event.Vec{}, event.Vec{}
			}
			a.Missing = nil
			b.Missing = nil
			must.Require(t, reflect.DeepEqual(a, b), "%s, %s: %+v, as svmlight %+v", name, text, a, b)
		}
	}
}

// TestRowsRefuse checks that an invalid value in a row is refused with its column, and that a missing column is
// declared missing.
func TestRowsRefuse(t *testing.T) {
	c := DefaultConfig()
	s := c.Schema()
	rows := must.Get(NewRows(c, s, []string{"x", c.Label}))(t)
	var e event.Example
	rows.Decode(Record{Label: []byte("1")}, []float64{1, 0}, &e)
	must.True(t, e.Refused != nil && e.Refused.Reason == event.ReasonLabel, "a second label: %v", e.Refused)
	rows.Decode(Record{}, []float64{1, 5}, &e)
	must.True(t, e.Refused == nil && s.Classes[e.Label] == "5", "the label's column: %v, %q", e.Refused, s.Classes)
	sparse := must.Get(NewSparseRows(c, c.Schema()))(t)
	for _, column := range []int64{-1, 1 << 40} {
		sparse.Decode(Record{}, []int64{column}, []float64{1}, &e)
		must.True(t, e.Refused != nil && e.Refused.Reason == event.ReasonOutOfRange, "column %d: %v", column, e.Refused)
	}
	sparse.Decode(Record{}, []int64{3, 1}, []float64{math.NaN(), 2}, &e)
	must.True(t, e.Refused != nil && e.Refused.Reason == event.ReasonNotFinite, "NaN in a column: %+v", e)
	c.Absent = event.AbsentMissing
	sparse = must.Get(NewSparseRows(c, c.Schema()))(t)
	sparse.Decode(Record{}, []int64{3, 1}, []float64{math.NaN(), 2}, &e)
	must.True(t, e.Refused == nil && e.Features.Len() == 1, "a missing column: %+v", e)
}

// linesOf returns the records of a text that is read in pieces, each with its line number.
func linesOf(t *testing.T, text string, c Config, in func(io.Reader) io.Reader) (out []string) {
	t.Helper()
	s := must.Get(NewScanner("x.csv", in(strings.NewReader(text)), c))(t)
	for {
		var record Record
		for !s.Scan(&record) {
			err := s.Refill()
			if err == io.EOF {
				return out
			}
			must.Do(t, err)
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
