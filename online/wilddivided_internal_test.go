package online

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online/synthetic"
)

// Saved and restored at any place, the bits are those of a learner that went on.
func TestDividedAreState(t *testing.T) {
	for _, mode := range []string{"auto", "scale", "all"} {
		c := DefaultConfig()
		c.Standardize, c.Noise = mode, "dropout:0.3"
		var learners [2]*Learner
		var streams [2]*synthetic.FewColumns
		for k := range learners {
			l, err := New(c, event.NewSchema(10, []string{"0", "1"}, 2))
			if err != nil {
				t.Fatal(err)
			}
			learners[k], streams[k] = l, &synthetic.FewColumns{R: rand.New(rand.NewPCG(1, 15)), Kind: event.Sparse}
		}
		for i := range 1200 {
			for k := range learners {
				e := streams[k].Next()
				streams[k].Add(e, synthetic.FewWidth+1, 5+float64(i%7)) // becomes dense
				if i%50 < 10 {
					synthetic.Change(e, func(x float64) float64 { return 1e6 * x })
				}
				learners[k].Learn(e, nil)
			}
			if i%31 == 5 {
				blocks, err := learners[0].Snapshot().Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if learners[0], err = Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
			}
			if i%100 == 0 && !bytes.Equal(stateOf(t, learners[0]), stateOf(t, learners[1])) {
				t.Fatalf("%s, event %d: the states differ", mode, i)
			}
		}
		if mode != "scale" && len(learners[0].scaling.Scaler.Dense) != 1 {
			t.Errorf("%s: dense columns %v, want the ninth", mode, learners[0].scaling.Scaler.Dense)
		}
	}
}
