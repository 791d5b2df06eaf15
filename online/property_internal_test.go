package online

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/online/synthetic"
)

func mustNew(t testing.TB, c Config, classes int) *Learner {
	t.Helper()
	l, err := New(c, synthetic.StreamSchema(classes))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stateOf returns everything of a Learner as bytes.
func stateOf(t testing.TB, l *Learner) []byte {
	t.Helper()
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, block := range blocks {
		fmt.Fprintf(&b, "%s %d\n", block.Name, len(block.Data))
		b.Write(block.Data)
	}
	return b.Bytes()
}

// A level of a bank learns what it would learn alone, to the bit: its weights, its
// average and which of the two it publishes. That holds beyond the events at which
// averages are left behind, and at which the stream stands still for one level and not
// for the others: for a while the features mean something else.
func TestBankLevelsLearnAsIfAlone(t *testing.T) {
	longtest.NotRaced(t)
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Levels, c.OnDrift, c.SilentMissing = []float64{0, 0.3, 0.7}, "log", 0.5 // each alone hears other alarms
		bank, s := mustNew(t, c, classes), synthetic.NewStream(11, classes)
		var alone []*Learner
		for _, q := range c.Levels {
			one := c
			one.Noise, one.SilentMissing = loss.Dropout{Q: q}.String(), 0
			alone = append(alone, mustNew(t, one, classes))
		}
		one := c
		one.Noise, one.SilentMissing = loss.Silent{D: c.SilentMissing}.String(), 0
		alone = append(alone, mustNew(t, one, classes))
		var restarted, steady [4]bool
		for n := range 20_000 - 6000*(classes-2) {
			e := s.Next()
			if n >= 9000 && n < 12_000 {
				e.Label = (e.Label + 1) % classes
			}
			bank.Learn(e, nil)
			for v, l := range alone {
				was := l.levels[0].Taken
				l.Learn(e, nil)
				restarted[v] = restarted[v] || l.levels[0].Taken < was
				steady[v] = steady[v] || l.levels[0].Steady()
			}
			if n%1000 == 999 {
				sameAsAlone(t, n+1, bank, alone)
			}
		}
		if slices.Contains(restarted[:], false) || classes == 2 && !slices.Contains(steady[:], true) {
			t.Errorf("%d classes: averages began anew: %v, the stream stood still: %v; want all of the first, one of the second", classes, restarted, steady)
		}
	}
}

// sameAsAlone compares the levels of a bank with Learners of one level each.
func sameAsAlone(t *testing.T, events int, bank *Learner, alone []*Learner) {
	t.Helper()
	for v, l := range alone {
		a, b := &bank.levels[v], &l.levels[0]
		if a.Pace != b.Pace {
			t.Fatalf("after %d events, level %s: average and adaptation are %+v in the bank, %+v alone", events, a.noise, a, b)
		}
		for i := -1; i < bank.table.Len(); i++ {
			column, row, own := uint32(0), bank.bias, l.bias
			if i >= 0 {
				column, row = bank.table.Column(i)
				own = l.table.Row(column)
			}
			for part := range 3 {
				got, want := bank.layout.Part(row, part)[v*l.k:(v+1)*l.k], l.layout.Part(own, part)
				if !slices.Equal(got, want) {
					t.Fatalf("after %d events, level %s, row %d (column %d), part %d: %v in the bank, %v alone", events, a.noise, i, column, part, got, want)
				}
			}
		}
	}
}

// finite checks that every number of a Learner is one.
func finite(t *testing.T, l *Learner) {
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

func BenchmarkLearn(b *testing.B) {
	for _, classes := range []int{2, 10} {
		for _, noise := range []string{"dropout:0.5", "auto"} {
			b.Run(fmt.Sprintf("%d/%s", classes, noise), func(b *testing.B) {
				c := DefaultConfig()
				c.Noise = noise
				l, s := mustNew(b, c, classes), synthetic.NewStream(1, classes)
				var events []event.Example
				features := 0
				for range 4000 {
					e := *s.Next()
					e.Features, e.Field = e.Features.Clone(), slices.Clone(e.Field)
					events = append(events, e)
					l.Learn(&e, nil)
					features += e.Features.Len()
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					l.Learn(&events[i%len(events)], nil)
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(features)*float64(len(events))/float64(l.k), "ns/feature/class")
			})
		}
	}
}
