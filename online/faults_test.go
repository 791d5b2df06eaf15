package online_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/synthetic"
)

func stuckLearner(t testing.TB, s *synthetic.StuckStream, change func(*online.Config)) *online.Learner {
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := online.New(c, s.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A learner that is restored while a field is stuck, or on its way to be found, goes on to the bit.
func TestStuckRestored(t *testing.T) {
	s := synthetic.NewStuckStream(3)
	l := stuckLearner(t, s, nil)
	other := l
	for n, step := range []struct {
		events int
		stuck  bool
	}{{1500, false}, {30, true}, {10, true}, {15, true}, {1500, true}, {1, false}, {700, false}} {
		if delete(s.Stuck, 2); step.stuck {
			s.Stuck[2] = 0
		}
		for range step.events {
			e := s.Next()
			if a, b := slices.Clone(l.Learn(e, nil).Scores), slices.Clone(other.Learn(e, nil).Scores); l != other && !slices.Equal(a, b) {
				t.Fatalf("step %d: %v and %v", n, a, b)
			}
		}
		blocks, err := l.Snapshot().Blocks()
		if err != nil {
			t.Fatal(err)
		}
		if other != l && !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
			t.Fatalf("step %d: the states differ", n)
		}
		if other, err = online.Restore(online.DefaultConfig(), blocks); err != nil {
			t.Fatal(err)
		}
		if a, b := l.Snapshot().Model().Faults, other.Snapshot().Model().Faults; (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Stuck, b.Stuck) {
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
	with := func(how string) online.Config {
		c := online.DefaultConfig()
		c.Stuck = how
		return c
	}
	s := synthetic.NewStuckStream(4)
	l, logs, off := stuckLearner(t, s, nil), stuckLearner(t, s, func(c *online.Config) { c.Stuck = "log" }), stuckLearner(t, s, func(c *online.Config) { c.Stuck = "off" })
	feed := func(n int) {
		for range n {
			e := s.Next()
			l.Learn(e, nil)
			if a, b := slices.Clone(logs.Learn(e, nil).Scores), off.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatal("an alarm alone changes what is learned")
			}
		}
	}
	feed(2000)
	s.Stuck[3] = 0.125
	feed(200)
	if h := logs.Report().Health; h.Alarms != 1 || h.Fields[0].Field != "c" || h.Fields[0].Alarms[0].Kind != "stuck" || strings.Contains(h.Fields[0].Alarms[0].Text, "missing") || logs.Snapshot().Model().Faults != nil {
		t.Errorf("log: %+v", h.Fields[0])
	}
	if h := off.Report().Health; h.Raised != 0 || off.Snapshot().Model().Faults != nil {
		t.Errorf("off: %+v", h)
	}
	if h := l.Report().Health; h.Alarms != 1 || !strings.Contains(h.Fields[0].Alarms[0].Text, "missing where it reads that") || *h.Fields[0].Alarms[0].Value != 0.125 || l.Snapshot().Model().Faults == nil {
		t.Errorf("missing: %+v", h.Fields[0])
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for how, faults := range map[string]bool{"missing": true, "log": false, "off": false} {
		again, err := online.Restore(with(how), blocks)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if alarms := again.Report().Health.Alarms; (again.Snapshot().Model().Faults != nil) != faults || alarms != map[string]int{"missing": 1, "log": 1, "off": 0}[how] {
			t.Errorf("%s: faults %+v, %d alarms", how, again.Snapshot().Model().Faults, alarms)
		} else if alarms > 0 && strings.Contains(again.Report().Health.Fields[0].Alarms[0].Text, "missing where") != faults {
			t.Errorf("%s: %q", how, again.Report().Health.Fields[0].Alarms[0].Text)
		}
	}
	if _, err := online.New(with("perhaps"), s.Schema); err == nil || !strings.Contains(err.Error(), `stuck "perhaps"`) {
		t.Error(err)
	}
	if c := online.DefaultConfig().Shared(); c.Stuck != "log" || with("off").Shared().Stuck != "off" {
		t.Errorf("in a group stuck is %q", c.Stuck)
	}
}

// Whatever number a field is stuck at, and however many fields are, learning loses no more than with nulls, and the
// error is below that of a learner that has not found them.
func TestStuckCosts(t *testing.T) {
	longtest.NotRaced(t)
	r := rand.New(rand.NewPCG(5, 6))
	for range 4 {
		s := synthetic.NewStuckStream(r.Uint64())
		l, off := stuckLearner(t, s, nil), stuckLearner(t, s, func(c *online.Config) { c.Stuck = "off" })
		wrong := [2]int{}
		for n := range 8000 {
			if n == 4000 {
				s.Stuck[1] = 20 + 15*r.NormFloat64()
			}
			e := s.Next()
			for i, x := range []*online.Learner{l, off} {
				scores := x.Learn(e, nil).Scores
				if yes := scores[0] > 0; n >= 4100 && n < 6000 && yes != (e.Label == 1) {
					wrong[i]++
				}
			}
		}
		if wrong[0] > wrong[1]+20 {
			t.Errorf("stuck at %v: %d errors, not found %d", s.Stuck[1], wrong[0], wrong[1])
		}
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
	s := synthetic.NewStuckStream(8)
	l := stuckLearner(t, s, nil)
	for n := range 2100 {
		if n == 2000 {
			s.Stuck[1] = 25
		}
		l.Learn(s.Next(), nil)
	}
	var came, nulls []event.Example
	for range 400 {
		e := s.Next()
		came = append(came, *e)
		asNull := *e
		asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
		nulls = append(nulls, asNull)
	}
	m := l.Snapshot().Model()
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
