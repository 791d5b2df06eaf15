package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// ClassStream draws events of several classes with twelve correlated numbers. Each number is null with a probability.
type ClassStream struct {
	R       *rand.Rand
	Classes int
	Null    float64
}

func (s *ClassStream) Next() *event.Example {
	e := &event.Example{Weight: 1, Label: s.R.IntN(s.Classes), Field: []uint16{}}
	shared := s.R.NormFloat64()
	for id := uint16(1); id <= 12; id++ {
		x := math.Sin(float64(int(id)*(e.Label+1))) + 0.7*shared + s.R.NormFloat64()
		if s.R.Float64() < s.Null {
			e.Missing = append(e.Missing, id)
			continue
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id)), append(e.Features.Value, x), append(e.Field, id)
	}
	return e
}

// Covered returns three measures of a model on n events: the fraction of events whose prediction set contains the true
// class, the mean size of the sets, and the fraction of events whose class is predicted correctly.
func Covered(t *testing.T, m *model.Linear, s *ClassStream, n int) (held, size, right float64) {
	t.Helper()
	for range n {
		e := s.Next()
		scores := m.Score(e, make([]float64, m.Outputs))
		class := m.Predict(scores)
		set, ok := m.Set(m.Handling(e), m.Probabilities(scores, make([]float64, max(2, m.Outputs))), class)
		if !ok || !slices.Contains(set, class) {
			t.Fatalf("the set %v (%v) of class %d", set, ok, class)
		}
		size += float64(len(set))
		if slices.Contains(set, e.Label) {
			held++
		}
		if class == e.Label {
			right++
		}
	}
	return held / float64(n), size / float64(n), right / float64(n)
}
