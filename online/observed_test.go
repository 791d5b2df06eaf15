package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/online/watch"
)

// mortalSensors is a stream of two classes and three sensors of three readings each, which die
// whole at rates of their own: read as null, but for one reading that is left out.
type mortalSensors struct {
	r     *rand.Rand
	rates [3]float64
}

func sensorSchema() *event.Schema {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for _, name := range []string{"a", "b", "c"} {
		for i := range 3 {
			s.AddField(event.Field{Name: name + string(rune('1'+i)), Kind: event.Numeric, Group: name})
		}
	}
	return s
}

func (s *mortalSensors) next() *event.Example {
	e := &event.Example{Weight: 1, Label: s.r.IntN(2)}
	for sensor, rate := range s.rates {
		dead := s.r.Float64() < rate
		for i := range 3 {
			id, x := uint16(1+3*sensor+i), 0.6*float64(2*e.Label-1)+s.r.NormFloat64()
			switch {
			case !dead:
				e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(id)), append(e.Features.Value, x)
				e.Field = append(e.Field, id)
			case i > 0:
				e.Missing = append(e.Missing, id)
			}
		}
	}
	return e
}

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
	l, err := New(observedConfig(), sensorSchema())
	if err != nil {
		t.Fatal(err)
	}
	s := &mortalSensors{rand.New(rand.NewPCG(1, 2)), [3]float64{0.6, 0.2, 0}}
	rates := func() map[string]float64 {
		n, err := loss.ParseNoise(l.Published().Noise)
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
			s.rates = [3]float64{0.02, 0.2, 0.97}
		case 21_111: // between reviews
			blocks, err := l.Blocks()
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
		e := s.next()
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
	fixed.Noise = l.Published().Noise
	noise := l.levels[0].noise.(loss.GroupDropout)
	seen := &spy{Rule: l.rule}
	l.rule = seen
	e := s.next()
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
	if got, want := l.variance(&l.levels[0], 0, 0), slowVariance(noise, groups, columns, parts); !(want > 0) || math.Abs(got-want) > 1e-12*(1+want) {
		t.Errorf("variance %v, want %v", got, want)
	}
}

// Rates by group are of one noise: what knows nothing of them refuses them, and names that
// no event has, and streams in which nothing is missing, are warned of.
func TestObservedIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"dropout-descent":      func(c *Config) { c.Optimizer = "dropout-descent" },
		"of groups is for":     func(c *Config) { c.Loss = "squared" },
		"is of groups":         func(c *Config) { c.IRLSBatch = 200 },
		"the exact solvers":    func(c *Config) { c.Noise = "dropout:0.1+group:a=0.3" },
		"\"a\" has no rate":    func(c *Config) { c.Noise = "group:b=0.1,a" },
		"observed\": want one": func(c *Config) { c.Noise = "not observed" },
	} {
		c := observedConfig()
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), name) {
			t.Errorf("%s: %v", name, c.Check())
		}
	}
	if err := observedConfig().CheckShared(); err == nil || !strings.Contains(err.Error(), "rates of their own") {
		t.Errorf("several learners: %v", err)
	}
	for noise, want := range map[string]string{
		"observed": "nothing prepares them", "group:a=0.1,b=0.2": "", "group:a=0.1,wheels=0.3,engine=0.1": `rate to "engine", "wheels"`,
	} {
		c := DefaultConfig()
		c.Noise = noise
		l, err := New(c, sensorSchema())
		if err != nil {
			t.Fatal(err)
		}
		s := &mortalSensors{r: rand.New(rand.NewPCG(1, 2))}
		for range 2000 {
			l.Learn(s.next(), nil)
		}
		got := ""
		for _, w := range l.Warnings(Fingerprint{}, false) {
			if w.Kind == watch.WarnNoRate {
				got = w.Text
			}
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warning %q, want one of %q", noise, got, want)
		}
	}
}
