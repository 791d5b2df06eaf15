package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online"
)

// flipped learns 10,500 events of ten normal features whose labels are exchanged at event 10,000, and returns the error
// from the 200th to the 500th event after that, in percent.
func flipped(t *testing.T, seed uint64, onDrift string, restarts bool) (wrong float64, l *online.Learner) {
	t.Helper()
	const features = 10
	c := online.DefaultConfig()
	if onDrift != "" {
		c.OnDrift = onDrift
	}
	s := event.NewSchema(8, []string{"a", "b"}, 2)
	index, field := make([]uint32, features), make([]uint16, features)
	for i := range features {
		s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
		index[i], field[i] = uint32(i+1), uint16(i+1)
	}
	l, err := online.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	w := make([]float64, features)
	for i := range w {
		w[i] = r.NormFloat64()
	}
	for i := range 10_500 {
		e, f := &event.Example{Weight: 1, Features: event.Vec{Index: index}, Field: field}, 0.0
		for j := range w {
			x := r.NormFloat64()
			e.Features.Value, f = append(e.Features.Value, x), f+2*w[j]*x
		}
		if i >= 10_000 {
			f = -f
		}
		if r.Float64() < 1/(1+math.Exp(-f)) {
			e.Label = 1
		}
		if restarts && i >= 10_000 && i%41 == 0 {
			blocks, err := l.Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			if l, err = online.Restore(c, blocks); err != nil {
				t.Fatal(err)
			}
		}
		if score := l.Learn(e, nil).Scores[0]; i >= 10_200 && (score > 0) != (e.Label == 1) {
			wrong += 100. / 300
		}
	}
	return wrong, l
}

// After an abrupt change the default predicts well again within some hundred events, restarts or not.
func TestAbruptDrift(t *testing.T) {
	longtest.NotRaced(t)
	wrong := map[string]float64{}
	seeds := 1
	if longtest.Asked() {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		for _, onDrift := range []string{"", "forget", "log"} {
			of, _ := flipped(t, seed, onDrift, false)
			wrong[onDrift] += of / float64(seeds)
		}
		once, a := flipped(t, seed, "", false)
		again, b := flipped(t, seed, "", true)
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{1, -1}}, Field: []uint16{1, 2}}
		if once != again || a.Predict(e).Scores[0] != b.Predict(e).Scores[0] {
			t.Errorf("seed %d: %v %% wrong, over restarts %v", seed, once, again)
		}
	}
	if !(wrong[""] < 13.5 && wrong[""] < wrong["forget"]-2 && wrong["forget"] < wrong["log"]-2) {
		t.Errorf("%% wrong 200 to 500 events after the change: %v", wrong)
	}
}

// After the first pass over a finite set an alarm changes nothing.
func TestDriftAfterThePass(t *testing.T) {
	var scores [2]float64
	for i, onDrift := range []string{"forget", "log"} {
		c := online.DefaultConfig()
		c.OnDrift = onDrift
		s := event.NewSchema(8, []string{"a", "b"}, 2)
		for _, name := range []string{"x", "z"} {
			s.AddField(event.Field{Name: name, Kind: event.Numeric})
		}
		l, err := online.New(c, s)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 4000 {
			if n == 2000 {
				l.EndPass()
			}
			e := labeled(r, 2)
			if n >= 3000 {
				e.Label = 1 - e.Label
			}
			l.Learn(e, nil)
		}
		if l.Report().Drift.Alarms == 0 {
			t.Error("no alarm")
		}
		scores[i] = l.Predict(labeled(r, 2)).Scores[0]
	}
	if scores[0] != scores[1] {
		t.Errorf("scores %v, without what alarms do %v", scores[0], scores[1])
	}
}
