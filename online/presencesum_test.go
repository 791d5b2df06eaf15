package online_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/rules"
	"blankout/online/scaling"
	"blankout/online/synthetic"
)

// Every rule with presence: the snapshot scores as Learn does, a learner restored before or after presence is found
// continues with the same bits, and all numbers are finite.
func TestPresenceInEveryRule(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for i, rule := range rules.Table {
		for j, noise := range []string{"auto", "none", "dropout:0.4", "dropout:0.2+group:0.4"} {
			for k, classes := range []int{2, 3} {
				c := online.DefaultConfig()
				c.Optimizer, c.Noise = rule.Name, noise
				if c.Check() != nil || (i+j+k)%2 > 0 { // every two of them are combined
					continue
				}
				t.Run(fmt.Sprint(rule.Name, "/", noise, "/", classes), func(t *testing.T) { restoredWithPresence(t, c, classes) })
			}
		}
	}
}

func restoredWithPresence(t *testing.T, c online.Config, classes int) {
	l, s := mustNew(t, c, classes), synthetic.NewStream(7, classes)
	other, s2 := mustNew(t, c, classes), synthetic.NewStream(7, classes)
	s.Lacks, s2.Lacks, s.Omits, s2.Omits = true, true, true, true
	cuts := []int{400, scaling.CurveEvents, scaling.CurveEvents + 60}
	for i := range scaling.CurveEvents + 120 {
		e := s.Next()
		if slices.Contains(cuts, i) {
			want := slices.Clone(l.Snapshot().Model().Score(e, make([]float64, 4)))
			got := l.Learn(e, nil).Scores
			if i == scaling.CurveEvents { // hats are new and have no weight
				want = want[:0]
			}
			for k := range want {
				if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
					t.Errorf("event %d, output %d: Learn scored %v, the snapshot scores %v", i, k, got[k], want[k])
				}
			}
			blocks := must.Get(other.Snapshot().Blocks())
			other = must.Get(online.Restore(c, blocks))
		} else {
			l.Learn(e, nil)
		}
		other.Learn(s2.Next(), nil)
	}
	if l.Snapshot().Model().Scaler.Curves == nil {
		t.Fatal("no presence was found")
	}
	if !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
		t.Error("saved and restored on the way, the state is another")
	}
	finite(t, l)
}
