package online

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// stuckStream is a stream of numbers that tell the class, a coarse one and a word among them.
type stuckStream struct {
	r      *rand.Rand
	schema *event.Schema
	n      int64
	// stuck has fields read a value, null has fields be null.
	stuck map[uint16]float64
	null  []uint16
}

func newStuckStream(seed uint64, crosses ...[2]string) *stuckStream {
	s := &stuckStream{r: rand.New(rand.NewPCG(seed, 1)), schema: event.NewSchema(10, []string{"no", "yes"}, 2), stuck: map[uint16]float64{}}
	s.schema.Crosses = crosses
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric}, {Name: "b", Kind: event.Numeric}, {Name: "c", Kind: event.Numeric}, {Name: "coarse", Kind: event.Numeric}, {Name: "word", Kind: event.Categorical}} {
		s.schema.AddField(f)
	}
	if len(crosses) > 0 {
		s.schema.AddField(event.Field{Name: "a^word", Kind: event.Cross})
	}
	return s
}

func (s *stuckStream) next() *event.Example {
	s.n++
	e := &event.Example{Weight: 1, Time: 1_700_000_000_000 + 1000*s.n}
	z := s.r.NormFloat64()
	values := []float64{20 + 3*(z+0.3*s.r.NormFloat64()), 5 + z + s.r.NormFloat64(), s.r.NormFloat64(), math.Round(2 * s.r.NormFloat64())}
	for i, x := range values {
		id := uint16(i + 1)
		if slices.Contains(s.null, id) {
			e.Missing = append(e.Missing, id)
			continue
		}
		if at, ok := s.stuck[id]; ok {
			x = at
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id)), append(e.Features.Value, x), append(e.Field, id)
	}
	e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(100+s.r.IntN(3))), append(e.Features.Value, 1), append(e.Field, 5)
	if len(s.schema.Crosses) > 0 && !slices.Contains(e.Missing, 1) {
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(200+s.r.IntN(3))), append(e.Features.Value, 1), append(e.Field, 6)
	}
	if z+0.5*values[2] > 0 {
		e.Label = 1
	}
	return e
}

func (s *stuckStream) learner(t testing.TB, change func(*Config)) *Learner {
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := New(c, s.schema)
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
				s := newStuckStream(1, crossed...)
				if name == "three classes" {
					s.schema.Classes, s.schema.MaxClasses = []string{"no", "yes", "other"}, 3
				}
				found, null := s.learner(t, change), s.learner(t, change)
				for range 3000 {
					e := s.next()
					found.Learn(e, nil)
					null.Learn(e, nil)
				}
				s.stuck[1] = 21.25
				for range 51 {
					e := s.next()
					found.Learn(e, nil)
					null.Learn(e, nil)
				}
				m := found.Published()
				if m.Faults == nil || !slices.Equal(m.Faults.Stuck, []model.StuckField{{Field: 1, Value: 21.25}}) || null.Published().Faults == nil {
					t.Fatalf("%+v", m.Faults)
				}
				was := stats(found, 1)
				usual := found.fields.Missing
				for n := range 1500 {
					e := s.next()
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
				delete(s.stuck, 1)
				e := s.next()
				if got := found.Published().MissingFields(e); len(got) > 0 {
					t.Errorf("a moving field is missing: %v", got)
				}
				found.Learn(e, nil)
				if now := stats(found, 1); now[model.StatCount] != was[model.StatCount]+1 || found.Published().Faults != nil {
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
	s := newStuckStream(2)
	s.schema.AddField(event.Field{Name: "a", Kind: event.Categorical}) // another kind of the field, which comes once
	light := func(c *Config) { c.Optimizer, c.Noise, c.CovarianceMaxFields = "adagrad", "none", 0 }
	l := s.learner(t, light)
	null := s.learner(t, light)
	feed := func(n int) {
		for range n {
			e := s.next()
			l.Learn(e, nil)
			asNull := *e
			if at, ok := s.stuck[1]; ok && l.faults.found != nil && at == e.Features.Value[0] {
				asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
			}
			null.Learn(&asNull, nil)
		}
	}
	e := s.next()
	e.Features.Index = []uint32{2, 3, 4, 100, 300}
	e.Features.Value, e.Field = append(slices.Clone(e.Features.Value[1:]), 1), append(slices.Clone(e.Field[1:]), 6)
	l.Learn(e, nil)
	null.Learn(e, nil)
	feed(3000)
	s.stuck[1] = 60
	feed(400)
	aged, ofNulls := l.aged.Report(false), null.aged.Report(false)
	if len(aged) < 2 || aged[1].Age != 100 || *aged[1].LogLoss <= *ofNulls[1].LogLoss {
		t.Errorf("weights 100 events old lose %+v, with nulls %+v", aged, ofNulls)
	}
	feed(25_000)
	e = s.next()
	if got, was := l.Published().MissingFields(e), null.fields.Missing.UsuallyNull; !slices.Equal(got, []string{"a"}) || !slices.Equal(was, []uint16{1}) {
		t.Errorf("missing %v, usually null as nulls %v", got, was)
	}
	if h := l.Report().Health; h.Raised != 1 || h.Alarms != 1 || h.Fields[0].Missing.Now > 0 {
		t.Errorf("%q %+v", texts(l), h.Fields[0])
	}
	clone, err := l.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := l.Published().Faults, clone.Published().Faults; b == nil || !slices.Equal(a.Stuck, b.Stuck) {
		t.Errorf("%+v, of a copy %+v", a, b)
	}
}

// checkSameAnswers compares what the readers of a model say of an event with what they say of it with nulls.
func checkSameAnswers(t *testing.T, l *Learner, e, asNull *event.Example) {
	t.Helper()
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	read, err := model.ReadLinear(blocks)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*model.Linear{"published": l.Published(), "snapshot": l.Snapshot().Model(), "view": l.View().Model(), "checkpoint": read} {
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

// A learner that is restored while a field is stuck, or on its way to be found, goes on to the bit.
func TestStuckRestored(t *testing.T) {
	s := newStuckStream(3)
	l := s.learner(t, nil)
	other := l
	for n, step := range []struct {
		events int
		stuck  bool
	}{{1500, false}, {30, true}, {10, true}, {15, true}, {1500, true}, {1, false}, {700, false}} {
		if delete(s.stuck, 2); step.stuck {
			s.stuck[2] = 0
		}
		for range step.events {
			e := s.next()
			if a, b := slices.Clone(l.Learn(e, nil).Scores), slices.Clone(other.Learn(e, nil).Scores); l != other && !slices.Equal(a, b) {
				t.Fatalf("step %d: %v and %v", n, a, b)
			}
		}
		blocks, err := l.Blocks()
		if err != nil {
			t.Fatal(err)
		}
		if other != l && !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
			t.Fatalf("step %d: the states differ", n)
		}
		if other, err = Restore(DefaultConfig(), blocks); err != nil {
			t.Fatal(err)
		}
		if a, b := l.Published().Faults, other.Published().Faults; (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Stuck, b.Stuck) {
			t.Fatalf("step %d: %+v and %+v", n, a, b)
		}
	}
	if got := texts(l); len(got) != 2 || !strings.HasPrefix(got[0], "raised: b reads 0 since ") || !strings.HasPrefix(got[1], "ended: as usual again: b moves since ") {
		t.Errorf("%q", got)
	}
}

// The setting may change from run to run: log raises the alarm alone, off forgets what was found and learns to the
// bit what a learner does that has never looked.
func TestStuckSetting(t *testing.T) {
	with := func(how string) Config {
		c := DefaultConfig()
		c.Stuck = how
		return c
	}
	s := newStuckStream(4)
	l, logs, off := s.learner(t, nil), s.learner(t, func(c *Config) { c.Stuck = "log" }), s.learner(t, func(c *Config) { c.Stuck = "off" })
	feed := func(n int) {
		for range n {
			e := s.next()
			l.Learn(e, nil)
			if a, b := slices.Clone(logs.Learn(e, nil).Scores), off.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatal("an alarm alone changes what is learned")
			}
		}
	}
	feed(2000)
	s.stuck[3] = 0.125
	feed(200)
	if h := logs.Report().Health; h.Alarms != 1 || h.Fields[0].Field != "c" || h.Fields[0].Alarms[0].Kind != "stuck" || strings.Contains(h.Fields[0].Alarms[0].Text, "missing") || logs.Published().Faults != nil {
		t.Errorf("log: %+v", h.Fields[0])
	}
	if h := off.Report().Health; h.Raised != 0 || off.Published().Faults != nil {
		t.Errorf("off: %+v", h)
	}
	if h := l.Report().Health; h.Alarms != 1 || !strings.Contains(h.Fields[0].Alarms[0].Text, "missing where it reads that") || *h.Fields[0].Alarms[0].Value != 0.125 || l.Published().Faults == nil {
		t.Errorf("missing: %+v", h.Fields[0])
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for how, faults := range map[string]bool{"missing": true, "log": false, "off": false} {
		again, err := Restore(with(how), blocks)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if alarms := again.Report().Health.Alarms; (again.Published().Faults != nil) != faults || alarms != map[string]int{"missing": 1, "log": 1, "off": 0}[how] {
			t.Errorf("%s: faults %+v, %d alarms", how, again.Published().Faults, alarms)
		} else if alarms > 0 && strings.Contains(again.Report().Health.Fields[0].Alarms[0].Text, "missing where") != faults {
			t.Errorf("%s: %q", how, again.Report().Health.Fields[0].Alarms[0].Text)
		}
	}
	if _, err := New(with("perhaps"), s.schema); err == nil || !strings.Contains(err.Error(), `stuck "perhaps"`) {
		t.Error(err)
	}
	if c := DefaultConfig().Shared(); c.Stuck != "log" || with("off").Shared().Stuck != "off" {
		t.Errorf("in a group stuck is %q", c.Stuck)
	}
}

// Whatever number a field is stuck at, and however many fields are, learning loses no more than with nulls, and the
// error is below that of a learner that has not found them.
func TestStuckCosts(t *testing.T) {
	longtest.NotRaced(t)
	r := rand.New(rand.NewPCG(5, 6))
	for range 4 {
		s := newStuckStream(r.Uint64())
		l, off := s.learner(t, nil), s.learner(t, func(c *Config) { c.Stuck = "off" })
		wrong := [2]int{}
		for n := range 8000 {
			if n == 4000 {
				s.stuck[1] = 20 + 15*r.NormFloat64()
			}
			e := s.next()
			for i, x := range []*Learner{l, off} {
				scores := x.Learn(e, nil).Scores
				if yes := scores[0] > 0; n >= 4100 && n < 6000 && yes != (e.Label == 1) {
					wrong[i]++
				}
			}
		}
		if wrong[0] > wrong[1]+20 {
			t.Errorf("stuck at %v: %d errors, not found %d", s.stuck[1], wrong[0], wrong[1])
		}
	}
}

// A learner that expects silent death takes the first 0, and a reading far outside of all others, as missing: to the
// bit as a null, in learning and in what every reader of its model says. The mean and the deviation do not move.
func TestOddReadingsAreNull(t *testing.T) {
	s := newStuckStream(6)
	expects := func(c *Config) { c.SilentMissing = 0.5 }
	odd, null := s.learner(t, expects), s.learner(t, expects)
	for range 1000 {
		e := s.next()
		odd.Learn(e, nil)
		null.Learn(e, nil)
	}
	m := odd.Published()
	if m.Faults == nil || len(m.Faults.Limits) != 4 || m.Faults.Limits[0].Field != 1 || !m.Faults.Limits[0].NoZero || m.Faults.Limits[3].NoZero {
		t.Fatalf("%+v", m.Faults)
	}
	was := stats(odd, 1)
	for i, x := range []float64{0, -1e6, 0, 1e6} {
		s.stuck[1] = x
		e := s.next()
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
	blocks, err := odd.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	other, err := Restore(odd.Config(), blocks)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := odd.Published().Faults, other.Published().Faults; b == nil || !slices.Equal(a.Limits, b.Limits) {
		t.Errorf("%+v, restored %+v", a, b)
	}
	// It is honest: it comes again and again, and counts.
	for range 60 {
		for _, zero := range []bool{true, false} {
			if delete(s.stuck, 1); zero {
				s.stuck[1] = 0
			}
			e := s.next()
			if a, b := slices.Clone(odd.Learn(e, nil).Scores), other.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatalf("%v, restored %v", a, b)
			}
		}
	}
	s.stuck[1] = 0
	if got := odd.Published().MissingFields(s.next()); len(got) > 0 {
		t.Errorf("missing %v", got)
	}
	if plain := s.learner(t, nil); plain.bounded() {
		t.Error("limits without silent_missing")
	}
}

// fixedEvents is a Source of one batch.
type fixedEvents struct {
	examples []event.Example
	done     bool
}

func (f *fixedEvents) Next(_ context.Context, b *event.Batch) error {
	if f.done {
		return io.EOF
	}
	f.done = true
	b.Topic, b.Examples, b.Next = "t", f.examples, int64(len(f.examples))
	return nil
}

// What measures a model on events as they came says the same of those with nulls in the place of what is stuck: the
// objective, the evidence of a validation, the error without a field, and a learner's Predict.
func TestStuckIsNullToMeasures(t *testing.T) {
	s := newStuckStream(8)
	l := s.learner(t, nil)
	for n := range 2100 {
		if n == 2000 {
			s.stuck[1] = 25
		}
		l.Learn(s.next(), nil)
	}
	var came, nulls []event.Example
	for range 400 {
		e := s.next()
		came = append(came, *e)
		asNull := *e
		asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
		nulls = append(nulls, asNull)
	}
	m := l.Published()
	for name, say := range map[string]func(events []event.Example) any{
		"evaluate": func(events []event.Example) any {
			objective, wrong, _, err := l.Evaluate(t.Context(), &fixedEvents{examples: events}, 1)
			return []any{objective, wrong, err}
		},
		"without": func(events []event.Example) any {
			g, err := batch.WithoutPart(m, events, "field", "b", []float64{0, 0.5})
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(g)
			return []any{string(data), err}
		},
		"predict": func(events []event.Example) any {
			var sums measure.Classes
			var out []float64
			for i := range events {
				p := l.Predict(&events[i])
				p.Measure(&events[i], &sums)
				out = p.Append(out)
			}
			return fmt.Sprint(sums, out)
		},
		"delete": func(events []event.Example) any {
			var out []float64
			for i := range events {
				e, left := &events[i], event.Example{}
				x := m.Standardized(e, event.Vec{})
				dead := make([]bool, len(x.Index))
				dead[0] = true
				m.Delete(e, x, m.Scaler.FieldsOf(e, x.Index, nil), dead, true, &left)
				out = append(out, m.ScoreLacking(left.Features, &left, make([]float64, 2))...)
			}
			return fmt.Sprint(out)
		},
	} {
		if a, b := fmt.Sprint(say(came)), fmt.Sprint(say(nulls)); a != b {
			t.Errorf("%s: %.300s\nas null %.300s", name, a, b)
		}
	}
}

// Labels that come later are learned as if what is stuck were null, too, also where it has been found, or has moved,
// between an event and its label.
func TestStuckLabelsLater(t *testing.T) {
	s := newStuckStream(9)
	l, null := s.learner(t, nil), s.learner(t, nil)
	type pending struct {
		came, asNull event.Example
		told, ofNull *Prediction
	}
	var waiting []pending
	nulls := 0
	for n := range 4000 {
		if delete(s.stuck, 1); n > 2000 && n < 3000 {
			s.stuck[1] = 26.5
		}
		e := s.next()
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
