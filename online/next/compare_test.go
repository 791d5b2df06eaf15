package next_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
	"blankout/online/next"
)

// Long after the first events, and after a change of what labels depend on, averages are left for iterates, and come back, at
// the events at which the learner that it will replace does so: scores are the same.
func TestAveragesOfTheOther(t *testing.T) {
	const events, change, columns = 14_000, 6000, 12
	c := plain()
	c.Noise, c.Standardize = "dropout:0.3", "none"
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	was, err := online.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	l, err := next.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(8, 3))
	for n := range events {
		e, f := &event.Example{Weight: 1}, 0.0
		for column := range uint32(columns) {
			if r.IntN(2) == 0 {
				continue
			}
			e.Features.Index, e.Features.Value = append(e.Features.Index, column), append(e.Features.Value, 1)
			weight := float64(column%3) - 1
			if n >= change && column%2 == 0 {
				weight = -weight
			}
			f += weight
		}
		if r.Float64() < 1/(1+math.Exp(-f)) {
			e.Label = 1
		}
		want, got := was.Learn(e, nil).Scores[0], l.Learn(e, nil).Scores[0]
		if d := math.Abs(got - want); !(d <= 1e-6*max(1, math.Abs(want))) {
			t.Fatalf("event %d: %v, not %v", n, got, want)
		}
	}
}
