package online_test

import (
	"slices"
	"testing"

	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// pairedLearner returns a learner of tides with two numbers that die together, under noise of groups.
func pairedLearner(t *testing.T, s *synthetic.Tides, rule, noise string) *online.Learner {
	t.Helper()
	c := online.DefaultConfig()
	if c.Optimizer, c.Noise = rule, noise; noise == "auto" {
		c.ExpectedMissingGroups = 0.3
	}
	schema := s.Schema()
	schema.Fields[1].Group, schema.Fields[2].Group = "coast", "coast"
	return must.Get(online.New(c, schema))
}

// Under noise of groups the expert loses less than the levels alone, on complete events and on events with a silently
// dead group.
func TestSecondHelpsUnderGroups(t *testing.T) {
	for _, classes := range []int{2, 3} {
		lost := map[string]float64{}
		for _, rule := range []string{"auto", "adagrad"} {
			s := synthetic.NewTides(5, classes, 0)
			l := pairedLearner(t, s, rule, "group:0.3")
			for range 4000 {
				l.Learn(s.Next(), nil)
			}
			m := l.Snapshot().Model().WithMissing(nil)
			out := make([]float64, m.Outputs)
			for range 2000 {
				e := s.Next()
				lost[rule] += m.Decision().LogLoss(slices.Clone(m.Score(e, out)), e.Label)
				i := slices.Index(e.Field, 3) // the group of the third number
				e.Features.Index, e.Features.Value, e.Field = slices.Delete(e.Features.Index, i, i+1), slices.Delete(e.Features.Value, i, i+1), slices.Delete(e.Field, i, i+1)
				lost[rule] += m.Decision().LogLoss(slices.Clone(m.Score(e, out)), e.Label)
			}
		}
		if !(lost["auto"] < 0.9*lost["adagrad"]) {
			t.Errorf("%d classes: %v", classes, lost)
		}
	}
}
