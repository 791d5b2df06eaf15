package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/online/synthetic"
)

func observedConfig() Config {
	c := DefaultConfig()
	c.Noise = loss.ObservedNoise
	return c
}

// The noise's rates follow those at which groups are missing, up and down; a Learner that
// was saved, at any event, goes on to the same bytes; and between two reviews it learns as
// one does whose noise is fixed at these rates.
func TestObserved(t *testing.T) {
	longtest.NotRaced(t)
	l, err := New(observedConfig(), synthetic.SensorSchema())
	if err != nil {
		t.Fatal(err)
	}
	s := &synthetic.MortalSensors{R: rand.New(rand.NewPCG(1, 2)), Rates: [3]float64{0.6, 0.2, 0}}
	rates := func() map[string]float64 {
		n, err := loss.ParseNoise(l.Snapshot().Model().Noise)
		if err != nil {
			t.Fatal(err)
		}
		return n.(loss.GroupDropout).Rates
	}
	var restored *Learner
	for i := range 64_000 {
		switch i {
		case 20_000:
			if got := rates(); math.Abs(got["a"]-0.6) > 0.06 || math.Abs(got["b"]-0.2) > 0.05 || len(got) != 2 {
				t.Errorf("rates %v, want .6 of a and .2 of b", got)
			}
			s.Rates = [3]float64{0.02, 0.2, 0.97}
		case 21_111: // between reviews
			blocks, err := l.Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			if restored, err = Restore(observedConfig(), blocks); err != nil {
				t.Fatal(err)
			}
			if restored.Report().Level != "group:…" || loss.LevelOf(restored.Report().Noise) != loss.LevelOf(l.Report().Noise) || loss.LevelOf(l.Report().Noise) < 0.3 {
				t.Errorf("level %q, noise %v, of the first learner %v", restored.Report().Level, restored.Report().Noise, l.Report().Noise)
			}
		}
		e := s.Next()
		l.Learn(e, nil)
		if restored != nil {
			restored.Learn(e, nil)
		}
	}
	if got := rates(); math.Abs(got["a"]-0.02) > 0.04 || got["c"] != 0.9 {
		t.Errorf("rates %v after the change, want .02 of a and .9 of c", got)
	}
	if !bytes.Equal(stateOf(t, l), stateOf(t, restored)) {
		t.Error("a learner that was restored has gone another way")
	}
	// The variance in force is that of a noise that is set to these rates.
	fixed := DefaultConfig()
	fixed.Noise = l.Snapshot().Model().Noise
	noise := l.levels[0].noise.(loss.GroupDropout)
	seen := &spy{Rule: l.rule}
	l.rule = seen
	e := s.Next()
	l.grow(e)
	l.events++
	l.lack(e)
	l.gather(e)
	var groups [][]string
	var columns []uint32
	var parts []float64
	for i, row := range l.features() {
		for slot := range l.table.Len() {
			if column, of := l.table.Column(slot); &of[0] == &row[0] {
				source := l.scaling.Scaler.Curves.Source(column)
				columns, groups = append(columns, source), append(groups, []string{l.schema.Fields[source].Group})
			}
		}
		parts = append(parts, l.now.step.X[i]*l.weights(row)[0])
	}
	if got, want := l.variance(&l.levels[0], 0, 0), synthetic.SlowVariance(noise, groups, columns, parts); !(want > 0) || math.Abs(got-want) > 1e-12*(1+want) {
		t.Errorf("variance %v, want %v", got, want)
	}
}
