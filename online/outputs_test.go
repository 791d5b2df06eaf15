package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// manyClasses draws events of 60 mostly rare classes. The schema has places for 12.
func manyClasses(seed uint64) stream {
	s := event.NewSchema(16, nil, 12)
	r := rand.New(rand.NewPCG(seed, 6))
	return stream{s, func() *event.Example {
		class := min(int(r.ExpFloat64()*9), 59)
		label, ok := s.Class([]byte(fmt.Sprint("c", class)))
		if !ok {
			panic("no room for a class")
		}
		e := &event.Example{Weight: 1, Label: label}
		for _, word := range []int{class, 100 + r.IntN(30), 200 + class%7} {
			e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(word)), append(e.Features.Value, 1)
		}
		return e
	}}
}

// If there are more classes than outputs, rare classes share an output. A restart changes no score, and the model
// predicts the same as Predict.
func TestYoungClasses(t *testing.T) {
	s, other := manyClasses(9), manyClasses(9)
	l, again := newLearner(t, plain(), s.schema), newLearner(t, plain(), other.schema)
	for _, s := range []stream{s, other} {
		online.TakeMoreClasses(s.schema)
	}
	wrong, shared := 0, 0
	for n := range 1600 {
		e, copied := s.next(), other.next()
		if n%97 == 96 {
			again = restart(t, plain(), again)
			again.SetSchema(other.schema) // the stream continues with it
		}
		p := l.Learn(e, nil)
		if q := again.Learn(copied, nil); !slices.Equal(p.Scores, q.Scores) {
			t.Fatalf("event %d: scores %v after a restart, else %v", n, q.Scores, p.Scores)
		}
		if n >= 800 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
		if n%200 == 199 {
			m, x := l.Snapshot().Model(), s.next()
			other.next()
			if m.Layout.Outputs != nil {
				shared++
			}
			got, want := m.Score(x, make([]float64, m.Outputs)), l.Predict(x).Scores
			for k := range want {
				if math.Abs(got[k]-want[k]) > 1e-9*max(1, math.Abs(want[k])) {
					t.Fatalf("event %d, class %d: the snapshot says %v, Predict %v", n, k, got[k], want[k])
				}
			}
		}
	}
	if shared == 0 || wrong > 310 {
		t.Errorf("%d of 8 models share an output, %d of 800 wrong", shared, wrong)
	}
}

// A class or column for which there is no memory is rejected by name, and known ones are learned on.
func TestNoRoom(t *testing.T) {
	c := plain()
	c.MaxMemory = 1 << 20
	s := event.NewSchema(24, []string{"a", "b"}, 2)
	l := newLearner(t, c, s)
	refused := 0
	for n := range 20_000 {
		e := &event.Example{Weight: 1, Label: n % 2, Features: event.Vec{Index: []uint32{uint32(n)}, Value: []float64{1}}}
		if l.Learn(e, nil).Refused {
			refused++
		}
	}
	r := l.Report()
	if rows := 1 << 20 / 128; r.Features != rows || refused != 20_000-rows || int(r.Refused) != refused {
		t.Errorf("%d columns, %d refused, counted %d", r.Features, refused, r.Refused)
	}
	if p := l.Learn(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{5}, Value: []float64{1}}}, nil); p.Refused {
		t.Error("an event without new columns is refused")
	}
	unseen := &event.Example{Weight: 0, Features: event.Vec{Index: []uint32{30_000}, Value: []float64{1}}}
	if l.Refusal(unseen) != nil {
		t.Error("an event of no weight, which is not learned, is refused")
	}
	if unseen.Weight = 1; l.Refusal(unseen) == nil {
		t.Error("an event with a new column is not refused")
	}
	if s := r.RefusedBy[event.ReasonMemory].First; !strings.Contains(s, "raise learner.max_memory = 1048576") {
		t.Errorf("refused because %q", s)
	}
}
