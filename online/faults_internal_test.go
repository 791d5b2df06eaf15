package online

import (
	"fmt"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/synthetic"
)

func stuckLearner(t testing.TB, s *synthetic.StuckStream, change func(*Config)) *Learner {
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := New(c, s.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stats returns what the learner has counted of a field's column.
func stats(l *Learner, column uint32) []float64 {
	return slices.Clone(l.table.Row(column)[:model.ScalerWidth])
}

// From the repeat at which a field is found stuck the learner, its snapshot and the model of its checkpoint
// answer to the bit as if the field were null; it learns so; and no statistic of the field moves until the field
// does.
func TestStuckIsNull(t *testing.T) {
	longtest.NotRaced(t)
	for _, crossed := range [][][2]string{nil, {{"a", "word"}}} {
		for name, change := range map[string]func(*Config){
			"default": nil, "adagrad": func(c *Config) { c.Optimizer = "adagrad" }, "none": func(c *Config) { c.Noise = "none"; c.CovarianceMaxFields = 0 },
			"rescale": func(c *Config) { c.MissingPolicy = "rescale" }, "three classes": nil,
		} {
			t.Run(fmt.Sprint(name, len(crossed)), func(t *testing.T) {
				s := synthetic.NewStuckStream(1, crossed...)
				if name == "three classes" {
					s.Schema.Classes, s.Schema.MaxClasses = []string{"no", "yes", "other"}, 3
				}
				found, null := stuckLearner(t, s, change), stuckLearner(t, s, change)
				for range 3000 {
					e := s.Next()
					found.Learn(e, nil)
					null.Learn(e, nil)
				}
				s.Stuck[1] = 21.25
				for range 51 {
					e := s.Next()
					found.Learn(e, nil)
					null.Learn(e, nil)
				}
				m := found.Snapshot().Model()
				if m.Faults == nil || !slices.Equal(m.Faults.Stuck, []model.StuckField{{Field: 1, Value: 21.25}}) || null.Snapshot().Model().Faults == nil {
					t.Fatalf("%+v", m.Faults)
				}
				was := stats(found, 1)
				usual := found.fields.Missing
				for n := range 1500 {
					e := s.Next()
					asNull := *e
					asNull.Missing = []uint16{1}
					asNull.Features = event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}
					asNull.Field = e.Field[1:]
					if crossed != nil {
						last := len(asNull.Field) - 1
						asNull.Features.Index, asNull.Features.Value, asNull.Field = asNull.Features.Index[:last], asNull.Features.Value[:last], asNull.Field[:last]
					}
					if n%500 == 0 {
						checkSameAnswers(t, found, e, &asNull)
					}
					raw := e.Features.Clone()
					a, b := slices.Clone(found.Learn(e, nil).Scores), null.Learn(&asNull, nil).Scores
					// Which fields are usual is counted apart, and so the answers agree only as long as that is so.
					if !slices.Equal(a, b) {
						t.Fatalf("event %d: %v, as null %v", n, a, b)
					}
					if !slices.Equal(e.Features.Value, raw.Value) || !slices.Equal(e.Features.Index, raw.Index) || len(e.Field) != len(raw.Index) || len(e.Missing) > 0 || e.Declared {
						t.Fatalf("the caller's event has changed: %+v", e)
					}
				}
				if now := stats(found, 1); !slices.Equal(now, was) {
					t.Errorf("the statistics were %v, are %v", was, now)
				}
				if found.fields.Missing.UsuallyNull != nil || !slices.Equal(usual.Usual, found.fields.Missing.Usual) {
					t.Errorf("usual: was %+v, is %+v", usual, found.fields.Missing)
				}
				// It moves: it counts at once, and is released.
				delete(s.Stuck, 1)
				e := s.Next()
				if got := found.Snapshot().Model().MissingFields(e); len(got) > 0 {
					t.Errorf("a moving field is missing: %v", got)
				}
				found.Learn(e, nil)
				if now := stats(found, 1); now[model.StatCount] != was[model.StatCount]+1 || found.Snapshot().Model().Faults != nil {
					t.Errorf("the statistics were %v, are %v", was, now)
				}
			})
		}
	}
}

// A field that stays stuck for long is no less usual: it is still missing, and its health says that it has come. What
// older weights would have said is measured with what they knew: they had not found it.
func TestStuckForLong(t *testing.T) {
	longtest.NotRaced(t)
	s := synthetic.NewStuckStream(2)
	s.Schema.AddField(event.Field{Name: "a", Kind: event.Categorical}) // another kind of the field, which comes once
	light := func(c *Config) { c.Optimizer, c.Noise, c.CovarianceMaxFields = "adagrad", "none", 0 }
	l := stuckLearner(t, s, light)
	null := stuckLearner(t, s, light)
	feed := func(n int) {
		for range n {
			e := s.Next()
			l.Learn(e, nil)
			asNull := *e
			if at, ok := s.Stuck[1]; ok && l.faults.found != nil && at == e.Features.Value[0] {
				asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
			}
			null.Learn(&asNull, nil)
		}
	}
	e := s.Next()
	e.Features.Index = []uint32{2, 3, 4, 100, 300}
	e.Features.Value, e.Field = append(slices.Clone(e.Features.Value[1:]), 1), append(slices.Clone(e.Field[1:]), 6)
	l.Learn(e, nil)
	null.Learn(e, nil)
	feed(3000)
	s.Stuck[1] = 60
	feed(400)
	aged, ofNulls := l.aged.Report(false), null.aged.Report(false)
	if len(aged) < 2 || aged[1].Age != 100 || *aged[1].LogLoss <= *ofNulls[1].LogLoss {
		t.Errorf("weights 100 events old lose %+v, with nulls %+v", aged, ofNulls)
	}
	feed(25_000)
	e = s.Next()
	if got, was := l.Snapshot().Model().MissingFields(e), null.fields.Missing.UsuallyNull; !slices.Equal(got, []string{"a"}) || !slices.Equal(was, []uint16{1}) {
		t.Errorf("missing %v, usually null as nulls %v", got, was)
	}
	if h := l.Report().Health; h.Raised != 1 || h.Alarms != 1 || h.Fields[0].Missing.Now > 0 {
		t.Errorf("%q %+v", texts(l), h.Fields[0])
	}
	clone, err := l.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := l.Snapshot().Model().Faults, clone.Snapshot().Model().Faults; b == nil || !slices.Equal(a.Stuck, b.Stuck) {
		t.Errorf("%+v, of a copy %+v", a, b)
	}
}

// checkSameAnswers compares what the readers of a model say of an event with what they say of it with nulls.
func checkSameAnswers(t *testing.T, l *Learner, e, asNull *event.Example) {
	t.Helper()
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	read, err := model.ReadLinear(blocks)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*model.Linear{"compact": l.Snapshot().Model().Compact(), "snapshot": l.Snapshot().Model(), "checkpoint": read} {
		room := func() []float64 { return make([]float64, max(2, m.Outputs)) }
		a, b := m.Score(e, room()), m.Score(asNull, room())
		if !slices.Equal(a, b) || !slices.Equal(a, scoresOf(l, e)) {
			t.Fatalf("%s: %v, as null %v, the learner's %v", name, a, b, scoresOf(l, e))
		}
		if got, want := m.MissingFields(e), m.MissingFields(asNull); !slices.Equal(got, want) || !slices.Contains(got, "a") {
			t.Fatalf("%s: missing %v, as null %v", name, got, want)
		}
		if got := m.StuckFields(e); !slices.Equal(got, []string{"a"}) || m.StuckFields(asNull) != nil {
			t.Fatalf("%s: stuck %v", name, got)
		}
		if a, b := m.Answer(e), m.Answer(asNull); a.Range != b.Range || a.Range == 0 || a.Shares != b.Shares || m.Lack(e) != m.Lack(asNull) {
			t.Fatalf("%s: %+v, as null %+v", name, a, b)
		}
		if a, b := m.Standardized(e, event.Vec{}), m.Standardized(asNull, event.Vec{}); !slices.Equal(a.Index, b.Index) || !slices.Equal(a.Value, b.Value) {
			t.Fatalf("%s: %v, as null %v", name, a, b)
		}
		if a, b := m.Explain(e, 1), m.Explain(asNull, 1); a.Score != b.Score || len(a.Terms) != len(b.Terms) {
			t.Fatalf("%s: %+v, as null %+v", name, a, b)
		}
	}
}

// A learner that expects silent death takes the first 0, and a reading far outside of all others, as missing: to the
// bit as a null, in learning and in what every reader of its model says. The mean and the deviation do not move.
func TestOddReadingsAreNull(t *testing.T) {
	s := synthetic.NewStuckStream(6)
	expects := func(c *Config) { c.SilentMissing = 0.5 }
	odd, null := stuckLearner(t, s, expects), stuckLearner(t, s, expects)
	for range 1000 {
		e := s.Next()
		odd.Learn(e, nil)
		null.Learn(e, nil)
	}
	m := odd.Snapshot().Model()
	if m.Faults == nil || len(m.Faults.Limits) != 4 || m.Faults.Limits[0].Field != 1 || !m.Faults.Limits[0].NoZero || m.Faults.Limits[3].NoZero {
		t.Fatalf("%+v", m.Faults)
	}
	was := stats(odd, 1)
	for i, x := range []float64{0, -1e6, 0, 1e6} {
		s.Stuck[1] = x
		e := s.Next()
		asNull := *e
		asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
		if a, b := m.Score(e, make([]float64, 2)), m.Score(&asNull, make([]float64, 2)); !slices.Equal(a, b) || !slices.Equal(m.MissingFields(e), []string{"a"}) || m.StuckFields(e) != nil {
			t.Fatalf("%v: %v, as null %v, missing %v", x, a, b, m.MissingFields(e))
		}
		if a, b := slices.Clone(odd.Learn(e, nil).Scores), null.Learn(&asNull, nil).Scores; !slices.Equal(a, b) {
			t.Fatalf("reading %d: %v, as null %v", i, a, b)
		}
	}
	if now := stats(odd, 1); !slices.Equal(now, was) {
		t.Errorf("the statistics were %v, are %v", was, now)
	}
	blocks, err := odd.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	other, err := Restore(odd.Config(), blocks)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := odd.Snapshot().Model().Faults, other.Snapshot().Model().Faults; b == nil || !slices.Equal(a.Limits, b.Limits) {
		t.Errorf("%+v, restored %+v", a, b)
	}
	// It is honest: it comes again and again, and counts.
	for range 60 {
		for _, zero := range []bool{true, false} {
			if delete(s.Stuck, 1); zero {
				s.Stuck[1] = 0
			}
			e := s.Next()
			if a, b := slices.Clone(odd.Learn(e, nil).Scores), other.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatalf("%v, restored %v", a, b)
			}
		}
	}
	s.Stuck[1] = 0
	if got := odd.Snapshot().Model().MissingFields(s.Next()); len(got) > 0 {
		t.Errorf("missing %v", got)
	}
	if plain := stuckLearner(t, s, nil); plain.bounded() {
		t.Error("limits without silent_missing")
	}
}

// Labels that come later are learned as if what is stuck were null, too, also where it has been found, or has moved,
// between an event and its label.
func TestStuckLabelsLater(t *testing.T) {
	s := synthetic.NewStuckStream(9)
	l, null := stuckLearner(t, s, nil), stuckLearner(t, s, nil)
	type pending struct {
		came, asNull event.Example
		told, ofNull *Prediction
	}
	var waiting []pending
	nulls := 0
	for n := range 4000 {
		if delete(s.Stuck, 1); n > 2000 && n < 3000 {
			s.Stuck[1] = 26.5
		}
		e := s.Next()
		p := pending{came: *e, told: kept(l.Predict(e))}
		if len(waiting) == 30 {
			first := waiting[0]
			waiting = waiting[1:]
			// The label's learner knows more than the event's: what it has found by now is null.
			x := first.came
			isNull := l.faults.found != nil && x.Features.Value[0] == 26.5
			if isNull {
				x = first.asNull
				nulls++
			}
			got, want := l.Learn(&first.came, first.told), null.Learn(&x, first.ofNull)
			if !slices.Equal(got.Scores, want.Scores) || got.Decision.Probability(0) != want.Decision.Probability(0) {
				t.Fatalf("event %d: %+v, as null %+v", n, got, want)
			}
		}
		p.asNull = p.came
		p.asNull.Missing, p.asNull.Features, p.asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
		p.ofNull = p.told
		waiting = append(waiting, p)
	}
	if nulls < 800 || l.faults.found != nil {
		t.Errorf("%d events were null, %+v", nulls, l.faults.found)
	}
}
