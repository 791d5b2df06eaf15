package online_test

import (
	"bytes"
	"fmt"
	"testing"

	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

func mustNew(t testing.TB, c online.Config, classes int) *online.Learner {
	t.Helper()
	return must.Get(online.New(c, synthetic.StreamSchema(classes)))
}

// stateOf returns the whole state of a Learner as bytes.
func stateOf(t testing.TB, l *online.Learner) []byte {
	t.Helper()
	blocks := must.Get(l.Snapshot().Blocks())
	var b bytes.Buffer
	for _, block := range blocks {
		fmt.Fprintf(&b, "%s %d\n", block.Name, len(block.Data))
		b.Write(block.Data)
	}
	return b.Bytes()
}

// finite checks that every number of a Learner is finite.
func finite(t *testing.T, l *online.Learner) {
	t.Helper()
	check := func(what string, row []float64) {
		for i, x := range row {
			if x-x != 0 {
				t.Fatalf("%s, value %d: %v", what, i, x)
			}
		}
	}
	m := l.Snapshot().Model()
	check("the intercepts", m.Intercept)
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		check(fmt.Sprint("column ", column), row)
	}
}
