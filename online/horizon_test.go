package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

// spells returns events whose class stays as it is for some fifty of them: whoever has just learned the class knows
// the next, and older weights know what the numbers say.
func spells(n int) (out []*event.Example) {
	_, ids := synthetic.NumberFields(2)
	r := rand.New(rand.NewPCG(3, 0x5be11))
	label := 0
	for range n {
		if r.IntN(50) == 0 {
			label = 1 - label
		}
		sign := float64(2*label - 1)
		out = append(out, synthetic.NumbersEvent(ids, label, []float64{sign + 1.5*r.NormFloat64(), r.NormFloat64()}))
	}
	return out
}

// Shares that are judged by weights of 100 events ago suit those who have such weights, and cost the others.
func TestHorizonSuitsItsAge(t *testing.T) {
	longtest.NotRaced(t)
	events := spells(12000)
	of := func(horizon int) (now, old float64) {
		s, _ := synthetic.NumberFields(2)
		s.Classes = []string{"a", "b"}
		c := online.DefaultConfig()
		c.ServingStaleness = horizon
		l, err := online.New(c, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			l.Learn(e, nil)
		}
		metrics := l.Report()
		for _, r := range metrics.Summary().ByAge {
			if r.Age == 100 {
				return metrics.Total.MeanLogLoss(), *r.LogLoss
			}
		}
		t.Fatal("nothing is known of age 100")
		return
	}
	now, old := of(0)
	nowAhead, oldAhead := of(100)
	if oldAhead > 0.9*old || nowAhead < now {
		t.Errorf("log-loss of fresh weights %.4f, of older ones %.4f; at the horizon %.4f, %.4f", now, old, nowAhead, oldAhead)
	}
}
