package online_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

func stuckLearner(t testing.TB, s *synthetic.StuckStream, change func(*online.Config)) *online.Learner {
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	return must.Get(online.New(c, s.Schema))
}

// In a group a stuck field raises an alarm but is not missing.
func TestStuckShared(t *testing.T) {
	off := online.DefaultConfig()
	off.Stuck = "off"
	if c := online.DefaultConfig().Shared(); c.Stuck != "log" || off.Shared().Stuck != "off" {
		t.Errorf("in a group stuck is %q", c.Stuck)
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

// Everything that measures a model on original events gives the same result as with nulls in place of stuck values: the
// objective, the evidence of a validation, the error without a field, and Predict.
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
			g := must.Get(batch.WithoutPart(m, events, "field", "b", []float64{0, 0.5}))
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
