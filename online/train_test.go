package online

import (
	"context"
	"io"
	"math"
	"testing"

	"blankout"
)

// fileOf is a Source of n events of a stream, 100 in a batch.
type fileOf struct {
	s      *stream
	n      int
	offset int64
}

func (f *fileOf) Next(_ context.Context, b *blankout.Batch) error {
	if f.n == 0 {
		return io.EOF
	}
	b.Examples = b.Examples[:0]
	for ; len(b.Examples) < 100 && f.n > 0; f.n-- {
		e := *f.s.next()
		e.Features, e.Field, e.Missing, e.Offset = e.Features.Clone(), append([]uint16{}, e.Field...), append([]uint16{}, e.Missing...), f.offset
		b.Examples = append(b.Examples, e)
		f.offset++
	}
	b.Topic, b.Next, b.Fields, b.Classes = "t", f.offset, 5, f.s.classes
	return nil
}

// TestTraining holds Run against the same passes made by hand and the objective
// against its formula, from memory and from the source, on one thread and three.
func TestTraining(t *testing.T) {
	const n = 650
	for _, classes := range []int{2, 3} {
		for _, noise := range []string{"dropout:0.3", "gaussian:0.2"} {
			c := DefaultConfig()
			c.Noise, c.C = noise, 2
			slow, err := New(c, streamSchema(classes))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s := newStream(1, classes)
				s.lacks = true
				for range n {
					slow.Learn(s.next())
				}
				slow.EndPass()
			}
			again := newStream(1, classes)
			again.lacks = true
			wantJ, wantError := objectiveByHand(slow, again, n)

			for _, memory := range []int64{0, 50_000, 1 << 30} {
				for _, threads := range []int{1, 3} {
					s := streamSchema(classes)
					l, err := New(c, s)
					if err != nil {
						t.Fatal(err)
					}
					opened := 0
					training := Training{Learner: l, Schema: s, Passes: 2, Memory: memory, Refused: PolicyFail, Threads: threads, Evaluate: true,
						Open: func() (Source, error) {
							opened++
							f := &fileOf{s: newStream(1, classes), n: n}
							f.s.lacks = true
							return f, nil
						}}
					got, err := training.Run(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if want := map[bool]int{true: 1, false: 3}[memory == 1<<30]; opened != want {
						t.Errorf("memory %d: opened %d times, want %d", memory, opened, want)
					}
					if got.Passes != 2 || got.Learned != n || got.Progressive.Weight >= slow.Metrics().Total.Weight {
						t.Errorf("%d passes, %d learned, progressive %+v", got.Passes, got.Learned, got.Progressive)
					}
					if math.Abs(got.Objective-wantJ) > 1e-9*wantJ || math.Abs(got.Error-wantError) > 1e-12 {
						t.Errorf("%d classes, %s, memory %d, %d threads: J = %v, error %v; by hand %v, %v", classes, noise, memory, threads, got.Objective, got.Error, wantJ, wantError)
					}
				}
			}
		}
	}
}

// objectiveByHand is |w|^2 + c sum loss over the published model, of the features
// as they are, and the error of what it answers.
func objectiveByHand(l *Learner, s *stream, n int) (objective, wrong float64) {
	m := l.Snapshot().Model()
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
	c0, _, c2 := l.levels[0].noise.Coefficients()
	weight, scores := 0.0, make([]float64, m.Outputs)
	for range n {
		e := s.next()
		x := m.Standardised(e, blankout.Vec{})
		for k, f := range m.ScoreRescaled(e, 1, scores) {
			v := c0 * sumsq[k]
			for i, d := range x.Index {
				v += c2 * math.Pow(x.Value[i]*m.Weight(d, k), 2)
			}
			loss, _, _ := l.loss.At(target(e.Label, k, m.Outputs), f, v)
			objective += l.config.C * e.Weight * loss
		}
		weight += e.Weight
		if blankout.Predict(m.Score(e, scores)) != e.Label {
			wrong += e.Weight
		}
	}
	return objective, wrong / weight
}
