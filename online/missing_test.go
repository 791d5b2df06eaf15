package online_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// lackingStream makes events of two classes with ten numbers, some of them null or omitted.
type lackingStream struct {
	r          *rand.Rand
	null, gone float64
	e          event.Example
}

func lackingLearner(t *testing.T, c online.Config) *online.Learner {
	t.Helper()
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 10 {
		s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
	}
	return must.Get(online.New(c, s))
}

func (s *lackingStream) next() *event.Example {
	e := &s.e
	*e = event.Example{Weight: 1, Label: s.r.IntN(2)}
	for id := uint16(1); id <= 10; id++ {
		x := s.r.NormFloat64() + 0.6*float64(2*e.Label-1)
		switch u := s.r.Float64(); {
		case u < s.null:
			e.Missing = append(e.Missing, id)
		case u < s.null+s.gone:
		default:
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id)), append(e.Features.Value, 5+x), append(e.Field, id)
		}
	}
	return e
}

// The learner chooses the rule with the lower loss, and a restart changes nothing.
func TestMissingRuleIsMeasured(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	c := online.DefaultConfig()
	c.Noise = "none"
	reference, other := lackingLearner(t, c), lackingLearner(t, c)
	s := &lackingStream{r: rand.New(rand.NewPCG(1, 2)), null: 0.6}
	var asIs, rescaled, served float64
	for i := range 6000 {
		e := s.next()
		if i == 3000 {
			blocks := must.Get(other.Snapshot().Blocks())
			other = must.Get(online.Restore(c, blocks))
		}
		if i >= 2000 && i%4 == 0 && len(e.Field) > 0 {
			m := reference.Snapshot().Model()
			n := float64(len(e.Field))
			served += m.Decision().LogLoss(m.Score(e, make([]float64, 1)), e.Label)
			asIs += m.Decision().LogLoss(m.ScoreRescaled(e, 1, make([]float64, 1)), e.Label)
			rescaled += m.Decision().LogLoss(m.ScoreRescaled(e, 10/n, make([]float64, 1)), e.Label)
		}
		if a, b := slices.Clone(reference.Learn(e, nil).Scores), other.Learn(e, nil).Scores; !slices.Equal(a, b) {
			t.Fatalf("event %d: %v, %v", i, a, b)
		}
	}
	if !bytes.Equal(stateOf(t, reference), stateOf(t, other)) {
		t.Error("a restart has changed the state")
	}
	// For weights learned this way the rule none is better.
	if !(asIs < rescaled) || !(served < asIs+0.02*(rescaled-asIs)) {
		t.Errorf("log-loss as is %v, rescaled %v, served %v", asIs, rescaled, served)
	}
	c.MissingPolicy = "rescale"
	forced := lackingLearner(t, c)
	for range 2000 {
		forced.Learn(s.next(), nil)
	}
	if forced.Snapshot().Model().Missing.Policies != model.DefaultMissingPolicies() {
		t.Errorf("forced: %v", forced.Snapshot().Model().Missing.Policies)
	}
}
