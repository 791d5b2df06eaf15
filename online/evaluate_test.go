package online_test

// This file compares Evaluate with a direct computation of the objective.

import (
	"context"
	"io"
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/rows"
	"blankout/online/synthetic"
)

// fileOf is a Source of the first n events of a stream, in batches of 100.
type fileOf struct {
	s      *synthetic.Stream
	n      int
	offset int64
}

func (f *fileOf) Next(_ context.Context, b *event.Batch) error {
	if f.n == 0 {
		return io.EOF
	}
	b.Examples = b.Examples[:0]
	for ; len(b.Examples) < 100 && f.n > 0; f.n-- {
		e := *f.s.Next()
		e.Features, e.Field, e.Missing, e.Offset = e.Features.Clone(), append([]uint16{}, e.Field...), append([]uint16{}, e.Missing...), f.offset
		b.Examples = append(b.Examples, e)
		f.offset++
	}
	b.Topic, b.Next = "t", f.offset
	return nil
}

// TestEvaluate checks that Evaluate agrees with the formula of the objective and with the predictions of the published
// model. One thread and three threads must give the same result bit by bit.
func TestEvaluate(t *testing.T) {
	const n = 650
	for _, classes := range []int{2, 3} {
		for _, noise := range []string{"dropout:0.3", "gaussian:0.2", "dropout:0.1+group:0.3", "group:sensor=0.5,words=0.2"} {
			c := online.DefaultConfig()
			c.Noise, c.C, c.Doubt = noise, 2, "log"
			l := streamed(t, c, classes)
			stream := func() *synthetic.Stream {
				s := synthetic.NewStream(1, classes)
				s.Missing = true
				return s
			}
			s := stream()
			for range n {
				l.learn(s.Next())
			}
			wantJ, wantError := objectiveByHand(l, c, stream(), n)
			var one float64
			for _, threads := range []int{1, 3} {
				objective, wrong, _, err := l.Evaluate(t.Context(), &fileOf{s: stream(), n: n}, threads)
				if err != nil || math.Abs(objective-wantJ) > 1e-9*wantJ || math.Abs(wrong-wantError) > 1e-12 {
					t.Errorf("%d classes, %s, %d threads: J = %v, error %v, %v; by hand %v, %v", classes, noise, threads, objective, wrong, err, wantJ, wantError)
				}
				if threads == 1 {
					one = objective
				} else if objective != one {
					t.Errorf("J = %v on one thread, %v on %d", one, objective, threads)
				}
			}
		}
	}
}

// objectiveByHand returns |w|^2 + c sum loss without noise, for the weights w of the published model. It also returns
// the error of that model's predictions.
func objectiveByHand(l *learner, c online.Config, s *synthetic.Stream, n int) (objective, wrong float64) {
	m := l.model()
	sumsq := make([]float64, m.Outputs)
	for slot := range m.Rows.Len() {
		column, _ := m.Rows.Column(slot)
		for k := range m.Outputs {
			sumsq[k] += m.Weight(column, k) * m.Weight(column, k)
		}
	}
	for _, q := range sumsq {
		objective += q
	}
	noise, lossOf := must2(loss.ParseNoise(m.Noise)), must2(loss.Parse(c.Loss))
	c0, _, c2 := noise.Coefficients()
	groupNoise, grouped := noise.(loss.GroupDropout)
	weight, scores := 0.0, make([]float64, m.Outputs)
	for range n {
		e := s.Next()
		x := m.Standardized(e, event.Vec{})
		for k, f := range m.ScoreRescaled(e, 1, scores) {
			v := c0 * sumsq[k]
			var parts []float64
			for i, d := range x.Index {
				parts = append(parts, x.Value[i]*m.Weight(d, k))
				if !grouped {
					v += c2 * parts[i] * parts[i]
				}
			}
			if grouped {
				v = synthetic.SlowVariance(groupNoise, synthetic.SlowGroups(e, x.Index), x.Index, parts)
			}
			loss, _, _ := lossOf.At(rows.Y(e.Label, k, m.Outputs), f, v)
			objective += c.C * e.Weight * loss
		}
		weight += e.Weight
		if model.Predict(m.Score(e, scores)) != e.Label {
			wrong += e.Weight
		}
	}
	return objective, wrong / weight
}

func must2[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}
