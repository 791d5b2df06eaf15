package main

import (
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestPrintText checks the text of values, lists, tables with tables in their rows, and pairs of objects. Control
// characters must be escaped, and long tables must say how much is left out.
func TestPrintText(t *testing.T) {
	type inner struct {
		Class  string  `json:"class"`
		Weight float64 `json:"weight"`
	}
	type row struct {
		Name   string  `json:"name"`
		Size   *int    `json:"size"`
		Inners []inner `json:"inners"`
	}
	type side struct {
		Error *float64  `json:"error"`
		Curve []float64 `json:"curve"`
	}
	var out strings.Builder
	err := printText(&out, struct {
		Events  int        `json:"events"`
		None    *int       `json:"none"`
		Names   []string   `json:"names"`
		Counts  [][]int    `json:"counts"`
		Rows    []row      `json:"rows"`
		Hidden  []row      `json:"hidden"`
		Largest [][]inner  `json:"largest"`
		Live    side       `json:"live"`
		Exact   side       `json:"exact"`
		Many    []struct{} `json:"many"`
	}{
		Events: 1234567, Names: []string{"a\x1b[2J", "b"}, Counts: [][]int{{1, 20}, {3, 4}},
		Rows:    []row{{"x", new(3), []inner{{"c", 0.12345678}}}, {"y", nil, []inner{{"d", 2}}}, {"z", nil, nil}},
		Hidden:  []row{{"x", nil, nil}},
		Largest: [][]inner{{{"c", 1}}, {}, {{"d", 2}}},
		Live:    side{new(2.5), []float64{1, 2}}, Exact: side{nil, []float64{3, 4}},
	}, 2, "hidden")
	want := `events  1,234,567
names   a\x1b[2J, b

counts
  1  20
  3  4

rows
  name  size
  x     3
  y     -
  … and 1 more, see --json

rows.inners
  name  class  weight
  x     c      0.123457
  y     d      2

largest
  class  weight
  c      1
  d      2

            live  exact
  error     2.5   -
  curve[0]  1     3
  curve[1]  2     4
`
	must.True(t, err == nil && out.String() == want, "%v\n%s", err, out.String())
}

// TestPrintUnits checks that errors of classes and losses have units, that a confusion matrix names its rows and columns,
// and that numbers too large for counts are not grouped.
func TestPrintUnits(t *testing.T) {
	var out strings.Builder
	err := printText(&out, struct {
		Error     float64        `json:"error"`
		LogLoss   float64        `json:"log_loss"`
		Forecast  map[string]int `json:"forecast"`
		Sum       uint64         `json:"sum"`
		Events    int            `json:"events"`
		Classes   []string       `json:"classes"`
		Confusion [][]int        `json:"confusion"`
	}{4.5, 0.25, map[string]int{"error": 3}, 1 << 60, 1 << 20, []string{"no", "yes"}, [][]int{{3, 1}, {0, 2}}}, textRows)
	want := `error           4.5 %
log_loss        0.25 nats
forecast.error  3
sum             1152921504606846976
events          1,048,576
classes         no, yes

confusion
  label  as no  as yes
  no     3      1
  yes    0      2
`
	must.True(t, err == nil && out.String() == want, "%v\n%s", err, out.String())
}
