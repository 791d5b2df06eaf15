package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout"
	"blankout/internal/longtest"
	"blankout/model"
)

// sensors makes events of two classes with the fields a, b, c (numbers), word and flag,
// one a second from a fixed time on.
type sensors struct {
	r *rand.Rand
	n int64
	e blankout.Example
	// What is wrong now.
	lost         float64 // share of the events without b
	absent       bool    // left out instead of null
	shift, scale float64 // of c
	words        int     // the first word
	usual        float64 // share of the events without a
}

const sensorStart = 1_700_000_000_000

func newSensors(seed uint64) *sensors { return &sensors{r: rand.New(rand.NewPCG(seed, 7)), scale: 1} }

func sensorLearner(t testing.TB, c Config) *Learner {
	t.Helper()
	s := blankout.NewSchema(12, []string{"no", "yes"}, 2)
	for _, f := range []blankout.Field{{Name: "a", Kind: blankout.Numeric}, {Name: "b", Kind: blankout.Numeric}, {Name: "c", Kind: blankout.Numeric}, {Name: "word", Kind: blankout.Categorical}, {Name: "flag", Kind: blankout.Boolean}} {
		s.AddField(f)
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *sensors) next() *blankout.Example {
	e := &s.e
	e.Features.Index, e.Features.Value, e.Field, e.Missing = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0], e.Missing[:0]
	e.Weight, e.Label, e.Time = 1, s.r.IntN(2), sensorStart+1000*s.n
	s.n++
	add := func(field uint16, column uint32, x float64) {
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, x), append(e.Field, field)
	}
	y := float64(2*e.Label - 1)
	if x := 10 + s.r.NormFloat64() + 0.4*y; s.r.Float64() < s.usual {
		e.Missing = append(e.Missing, 1)
	} else {
		add(1, 1, x)
	}
	if x := 100 + 5*s.r.NormFloat64() + 6*y; s.r.Float64() >= s.lost {
		add(2, 2, x)
	} else if !s.absent {
		e.Missing = append(e.Missing, 2)
	}
	add(3, 3, 50+2*(s.shift+s.scale*s.r.NormFloat64()))
	add(5, 10+uint32(s.r.IntN(2)), 1)
	add(4, uint32(20+s.words+s.r.IntN(5)), 1)
	return e
}

func (s *sensors) feed(l *Learner, n int) {
	for range n {
		l.Learn(s.next())
	}
}

// texts returns what has been said of alarms.
func texts(l *Learner) (out []string) {
	changes, _ := l.HealthChanges(0)
	for _, c := range changes {
		out = append(out, c.State+": "+c.Text)
	}
	return out
}

// servedError is the share of the next events that the model answers wrongly.
func servedError(l *Learner, s *sensors) float64 {
	m, wrong := l.Published(), 0.0
	for range 5000 {
		e := s.next()
		if model.Predict(m.Score(e, make([]float64, 1))) != e.Label {
			wrong++
		}
	}
	return wrong / 5000
}

// A field that dies raises an alarm within three blocks, whether it is null or left out:
// since the very event, with the usual share and with a cost that comes true. It stays
// until the field is back, however long that takes.
func TestHealthDeadField(t *testing.T) {
	for _, absent := range []bool{false, true} {
		t.Run(fmt.Sprint("absent ", absent), func(t *testing.T) {
			l, s := sensorLearner(t, DefaultConfig()), newSensors(1)
			s.lost = 0.002
			s.feed(l, 20_000)
			if h := l.Health(); h.Alarms != 0 || len(h.Fields) != 5 {
				t.Fatalf("%+v", h)
			}
			s.lost, s.absent = 1, absent
			died := s.n
			e := 100 * servedError(l, s)
			s.n = died
			for l.health.raised == 0 && s.n < died+3*healthBlock+1 {
				s.feed(l, 1)
			}
			h := l.Health()
			if h.Alarms != 1 || len(h.Fields[0].Alarms) != 1 {
				t.Fatalf("%+v", h)
			}
			a := h.Fields[0].Alarms[0]
			if a.Field != "b" || a.Kind != "missing" || a.SinceEvent != uint64(died)+1 || a.Since.UnixMilli() != sensorStart+1000*died || a.Now != 1 || math.Abs(a.Usual-0.002) > 0.001 {
				t.Errorf("%+v", a)
			}
			t.Log(a.Text)
			s.feed(l, 60_000) // long after its absence has become the usual for predictions
			h = l.Health()
			if h.Alarms != 1 || l.health.changed != 1 || h.Fields[0].Alarms[0].Since.UnixMilli() != sensorStart+1000*died {
				t.Fatalf("after 60,000 events: %+v", h)
			}
			before, after := *a.ErrorBefore, *a.ErrorAfter
			if math.Abs(before-12) > 1 || math.Abs(after-e) > 2.5 {
				t.Errorf("the forecast was %.1f -> %.1f %%, and %.1f %% were wrong", before, after, e)
			}
			s.lost = 0.002
			back := s.n
			s.feed(l, 6*healthBlock)
			changes, _ := l.HealthChanges(0)
			if l.Health().Alarms != 0 || len(changes) != 2 {
				t.Fatalf("%q", texts(l))
			}
			if c := changes[1]; c.State != "ended" || c.Since.UnixMilli() != sensorStart+1000*died || c.UntilEvent < uint64(back)-healthBlock || c.UntilEvent > uint64(back)+healthBlock {
				t.Errorf("%+v", c)
			}
			t.Log(changes[1].Text)
		})
	}
}

// What the death of a field would cost is not told by the first few events.
func TestHealthCostNeedsEvents(t *testing.T) {
	l, s := sensorLearner(t, DefaultConfig()), newSensors(1)
	s.feed(l, 1664)
	h := l.Health()
	if len(h.Fields) == 0 {
		t.Fatal("no field is known")
	}
	for _, f := range h.Fields {
		if f.ErrorWithout != nil {
			t.Errorf("after 1,664 events, of which some 52 were looked at: %s without %v %%", f.Field, *f.ErrorWithout)
		}
	}
	s.feed(l, 2432)
	for _, f := range l.Health().Fields {
		if f.Missing != nil && f.ErrorWithout == nil {
			t.Errorf("after 4,096 events nothing is said of %s", f.Field)
		}
	}
}

// What has always been so raises no alarm, nor does a short burst; a rise does.
func TestHealthUsuallyMissing(t *testing.T) {
	l, s := sensorLearner(t, DefaultConfig()), newSensors(2)
	s.usual = 0.3
	s.feed(l, 20_000)
	for range 20 {
		s.lost = 1
		s.feed(l, 40) // a burst of b
		s.lost = 0
		s.feed(l, 2000)
	}
	if l.health.raised > 0 {
		t.Fatalf("%q", texts(l))
	}
	s.usual = 0.5
	s.feed(l, 6*healthBlock)
	h := l.Health()
	if h.Alarms != 1 || h.Fields[0].Field != "a" {
		t.Fatalf("%q", texts(l))
	}
	if a := h.Fields[0].Alarms[0]; math.Abs(a.Now-0.5) > 0.07 || math.Abs(a.Usual-0.3) > 0.02 || a.SinceEvent < 60_800-2*healthBlock || a.SinceEvent > 60_800+2*healthBlock {
		t.Errorf("%+v", a)
	}
}

// A number whose mean moves, one whose deviation grows, one that sticks, and new values.
func TestHealthDrift(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*sensors)
		within   int
		kind     string
		now      float64
		off      float64
		contains string
	}{
		{"mean", func(s *sensors) { s.shift = 2 }, 1500, "mean", 54, 1, "mean of c is 5"},
		{"mean jumps", func(s *sensors) { s.shift = 4 }, 768, "mean", 55.5, 1.5, "mean of c is 5"},
		{"mean falls", func(s *sensors) { s.shift = -1.5 }, 2500, "mean", 47, 1, " of its deviations"},
		{"deviation", func(s *sensors) { s.scale = 2 }, 2500, "deviation", 3.6, 0.6, " since 2023-11-15T2"},
		{"stuck", func(s *sensors) { s.scale = 0 }, 4000, "deviation", 0, 0.5, "deviation of c is "},
		{"new values", func(s *sensors) { s.words = 100 }, 1000, "new-values", 0.85, 0.15, "word has values never or hardly seen before in "},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := sensorLearner(t, DefaultConfig()), newSensors(3)
			s.feed(l, 80_000)
			if l.health.raised > 0 {
				t.Fatalf("%q", texts(l))
			}
			c.change(s)
			since := s.n
			for l.health.raised == 0 && s.n < since+int64(c.within) {
				s.feed(l, 1)
			}
			h := l.Health()
			if h.Alarms != 1 {
				t.Fatalf("%d alarms %q", h.Alarms, texts(l))
			}
			a := h.Fields[0].Alarms[0]
			if a.Kind != c.kind || math.Abs(a.Now-c.now) > c.off || int64(a.SinceEvent) < since-2*healthBlock || int64(a.SinceEvent) > since+2*healthBlock || !strings.Contains(a.Text, c.contains) || a.ErrorAfter != nil {
				t.Errorf("%+v", a)
			}
			t.Log(s.n-since, a.Text)
			*s = sensors{r: s.r, n: s.n, scale: 1, words: s.words}
			s.feed(l, 8000)
			if got := texts(l); l.Health().Alarms != 0 || len(got) != 2 || !strings.HasPrefix(got[1], "ended: ") {
				t.Errorf("%q", got)
			} else {
				t.Log(got[1])
			}
		})
	}
}

// A Learner restored in the middle of a block, before, in and after an alarm, goes on to
// the bit and says nothing twice.
func TestHealthRestored(t *testing.T) {
	l, s := sensorLearner(t, DefaultConfig()), newSensors(4)
	for _, step := range []struct {
		n    int
		lost float64
	}{{5100, 0}, {300, 1}, {1000, 1}, {500, 0}, {3000, 0}} {
		blocks, err := l.Blocks()
		if err != nil {
			t.Fatal(err)
		}
		other, err := Restore(DefaultConfig(), blocks)
		if err != nil {
			t.Fatal(err)
		}
		was := l.health.changed
		if _, n := other.HealthChanges(was); n != was {
			t.Fatalf("%d changes, was %d", n, was)
		}
		s.lost = step.lost
		for range step.n {
			e := s.next()
			l.Learn(e)
			other.Learn(e)
		}
		if a, b := l.encode(), other.encode(); !bytes.Equal(a, b) {
			t.Fatalf("after %d events the states differ", s.n)
		}
		if a, b := texts(l), texts(other); !slices.Equal(a, b) {
			t.Errorf("%q\n%q", a, b)
		}
	}
	if got := texts(l); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// Nothing that fields may do takes more memory than there is to be: there are at most
// healthFields of them, and healthChanges remembered.
func TestHealthIsBounded(t *testing.T) {
	s := blankout.NewSchema(14, []string{"no", "yes"}, 2)
	for i := range 5000 {
		s.AddField(blankout.Field{Name: fmt.Sprint("f", i), Kind: blankout.Boolean})
	}
	c := DefaultConfig()
	c.Noise, c.Standardise = "none", "none"
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	full, empty := &blankout.Example{Weight: 1}, &blankout.Example{Weight: 1, Label: 1}
	for id := uint16(1); id <= 5000; id++ {
		full.Features.Index, full.Features.Value, full.Field = append(full.Features.Index, uint32(id)), append(full.Features.Value, float64(id)), append(full.Field, id)
	}
	for range 1025 + 4*healthBlock {
		l.Learn(full)
	}
	for range 4 * healthBlock {
		l.Learn(empty)
	}
	h := l.Health()
	if len(l.health.fields) != healthFields || h.Alarms != healthFields-1 || h.Raised != healthFields-1 || len(h.Changes) != healthChanges {
		t.Errorf("%d fields, %d alarms, %d raised, %d changes", len(l.health.fields), h.Alarms, h.Raised, len(h.Changes))
	}
	if changes, n := l.HealthChanges(100); n != healthFields-1 || len(changes) != healthChanges {
		t.Errorf("%d of %d", len(changes), n)
	}
}

// On a stationary stream false alarms are rarer than one in a day of 10^8 events, with
// as many fields as there may be. The sums rise to g in no more than e^-g of the
// blocks for every g that can be watched, whatever the values are like; what that is at
// healthLimit follows. BLANKOUT_LONG=1 simulates a day of 10^8 events for each field.
func TestHealthFalseAlarms(t *testing.T) {
	blocks := 20_000
	if longtest.Asked() {
		blocks = 100_000_000 / healthBlock
	}
	source := rand.NewPCG(5, 17)
	r := rand.New(source)
	share := func(p float64) func(*fieldHealth) {
		return func(f *fieldHealth) {
			// A block's count by the intervals between those missing.
			for at := 0.0; p > 0; f.missing++ {
				if at += 1 + math.Floor(math.Log(1-r.Float64())/math.Log(1-p)); at > healthBlock {
					break
				}
			}
			f.fresh, f.seen = min(f.missing, 32), 32
		}
	}
	number := func(draw func() float64) func(*fieldHealth) {
		return func(f *fieldHealth) {
			for range healthBlock >> sampledBits {
				f.number(draw())
			}
		}
	}
	flip := func(p, a, b float64) func() float64 {
		return func() float64 {
			if r.Float64() < p {
				return a
			}
			return b
		}
	}
	for _, c := range []struct {
		name  string
		kinds []int
		block func(*fieldHealth)
	}{
		{"never missing", []int{measureMissing}, share(0)},
		{"missing in 0.01 %", []int{measureMissing}, share(0.0001)},
		{"missing in 0.2 %", []int{measureMissing}, share(0.002)},
		{"missing in 5 %", []int{measureMissing}, share(0.05)},
		{"missing in 30 %", []int{measureMissing}, share(0.3)},
		{"missing in 50 %", []int{measureMissing}, share(0.5)},
		{"new in 1 %", []int{measureNew}, share(0.01 / 8)},
		{"normal", []int{measureMean, measureDeviation}, number(r.NormFloat64)},
		{"exponential", []int{measureMean, measureDeviation}, number(r.ExpFloat64)},
		{"log-normal, deviation 2", []int{measureMean, measureDeviation}, number(func() float64 { return math.Exp(2 * r.NormFloat64()) })},
		{"Cauchy", []int{measureMean, measureDeviation}, number(func() float64 { return r.NormFloat64() / r.NormFloat64() })},
		{"two values", []int{measureMean, measureDeviation}, number(flip(0.5, 0, 1))},
		{"two values, one rare", []int{measureMean, measureDeviation}, number(flip(0.01, 0, 1))},
		{"one value and seldom 1e30", []int{measureMean, measureDeviation}, number(flip(0.0001, 1e30, 1))},
	} {
		f := &fieldHealth{kind: blankout.Numeric}
		alarms, highest := 0, 0.0
		var reached [12]int // excursions of a sum that have come to 2, 4, ...
		top := [fieldMeasures][2]float64{}
		for b := range blocks {
			c.block(f)
			for _, kind := range c.kinds {
				mean, deviation := f.numbers()
				o := [fieldMeasures]observed{{n: healthBlock, sum: f.missing, square: f.missing}, {n: f.seen, sum: f.fresh, square: f.fresh}, mean, deviation}[kind]
				m := &f.measures[kind]
				if m.compare(kind, o, Moment{Event: uint64(b)}, false) == alarmRaised {
					alarms++
				}
				for side, sum := range []float64{m.above, m.below} {
					if highest = max(highest, sum); sum > 0 {
						top[kind][side] = max(top[kind][side], sum)
						continue
					}
					for g := range reached {
						if top[kind][side] >= float64(2*g+2) {
							reached[g]++
						}
					}
					top[kind][side] = 0
				}
			}
			if f.kind == blankout.Numeric && c.kinds[0] == measureMean {
				f.checkReference()
			}
			f.missing, f.seen, f.fresh, f.sum, f.square, f.fourth = 0, 0, 0, 0, 0, 0
		}
		t.Logf("%-26s %d blocks, %d alarms, highest sum %.1f; excursions to 2, 4, ...: %v", c.name, blocks, alarms, highest, reached)
		if alarms > 0 {
			t.Errorf("%s: %d alarms", c.name, alarms)
		}
		for g, n := range reached {
			tests := float64(2 * len(c.kinds))
			if most := tests * float64(blocks) * math.Exp(-float64(2*g+2)); float64(n) > most+5*math.Sqrt(most)+3 {
				t.Errorf("%s: %d excursions of a sum to %d, the bound is %.1f", c.name, n, 2*g+2, most)
			}
		}
	}
	// At most five sums for each field, and two bounds of what is usual for each.
	perDay := 100_000_000 / healthBlock * float64(healthFields) * (5 + 2*5) * math.Exp(-healthLimit)
	t.Logf("at most %.2g false alarms in a day of 10^8 events and %d fields, all numbers", perDay, healthFields)
	if perDay > 0.5 {
		t.Errorf("%v false alarms a day", perDay)
	}
}
