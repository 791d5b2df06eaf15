package record

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"blankout/internal/event"
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
		first := 1
		if c.ZeroBased {
			first = 0
		}
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
