package panel_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/newton"
	"blankout/online/panel"
)

// stream makes events of numbers, two of which are often left out, each with two hats, and a base score
// that says a part of what there is to say.
type stream struct {
	r               *rand.Rand
	numbers         int
	columns         []uint32
	x, base, y, out []float64
}

func newStream(seed uint64, numbers, outputs int) *stream {
	return &stream{r: rand.New(rand.NewPCG(seed, 1)), numbers: numbers, base: make([]float64, outputs), y: make([]float64, outputs), out: make([]float64, outputs)}
}

func (s *stream) next() {
	s.columns, s.x = s.columns[:0], s.x[:0]
	var hats []uint32
	var values []float64
	bend := 0.0
	for i := range s.numbers {
		if i < 2 && s.r.IntN(3) == 0 {
			continue
		}
		x := s.r.NormFloat64()
		s.columns, s.x = append(s.columns, uint32(7*i)), append(s.x, x)
		low := max(0, 1-math.Abs(x)/2)
		hats, values = append(hats, model.FirstHat+uint32(model.MaxKnots*i), model.FirstHat+uint32(model.MaxKnots*i+1)), append(values, low, 1-low)
		if i == s.numbers-1 {
			bend = 3 * math.Abs(x)
		}
	}
	s.columns, s.x = append(s.columns, hats...), append(s.x, values...)
	for k := range s.y {
		f := bend - 2 + float64(k)*s.x[len(s.x)-1]
		s.base[k] = 0.2*f + 0.3*s.r.NormFloat64()
		if s.y[k] = -1; s.r.Float64() < 1/(1+math.Exp(-f)) {
			s.y[k] = 1
		}
	}
}

// teach has a panel follow, score, take and learn so many events.
func (s *stream) teach(p *panel.Panel, events int) {
	for range events {
		s.next()
		s.score(p)
		p.Take(s.lost)
		p.Learn(s.y, len(s.y), 1)
	}
}

func (s *stream) score(p *panel.Panel) {
	if p.Score(s.columns, s.x, s.base, s.out) < len(s.columns) {
		p.Follow(slices.Concat(p.Columns(), s.columns))
		p.Score(s.columns, s.x, s.base, s.out)
	}
}

func (s *stream) lost(scores []float64) (sum float64) {
	for k, f := range scores {
		sum += math.Log1p(math.Exp(-s.y[k] * f))
	}
	return sum
}

var settings = newton.Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000, Strength: 0.1}

// What a panel says is linear: its score is the base's times Base, and Intercept and Weights.
func TestScoreIsOfWeights(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for _, curves := range []bool{true, false} {
			p, s := panel.New(settings, outputs, curves), newStream(1, 4, outputs)
			for event := range 400 {
				s.teach(p, 1)
				if event%97 == 0 {
					p.Move(7, 1.02, 0.01)
					p.Renew(14)
				}
				s.next()
				s.score(p)
				for k, f := range s.out {
					own := p.Intercept(k)
					for i, column := range s.columns {
						at, known := slices.BinarySearch(p.Columns(), column)
						if !known || p.Places()[i] != at {
							t.Fatalf("column %d has place %d, is at %d of %d", column, p.Places()[i], at, len(p.Columns()))
						}
						own += s.x[i] * p.Weights(k)[at]
					}
					if math.Abs(own-p.Added()[k]) > 1e-9 || math.Abs(p.Base()*s.base[k]+own-f) > 1e-9 {
						t.Fatalf("%d outputs, event %d: score %v, of the weights %v; own %v, said %v", outputs, event, f, p.Base()*s.base[k]+own, own, p.Added()[k])
					}
				}
			}
			share := 0.0
			for _, e := range p.Experts() {
				share += e.Share
			}
			if math.Abs(share-1) > 1e-12 || len(p.Experts()) == 1 == curves {
				t.Errorf("experts %v", p.Experts())
			}
		}
	}
}

// Shares go to what answers better: curves where a number bends.
func TestSharesFollowLosses(t *testing.T) {
	p, s := panel.New(settings, 1, true), newStream(5, 100, 1)
	s.teach(p, 3000)
	if e := p.Experts(); e[1].Share+e[2].Share < 0.6 {
		t.Errorf("where a number bends and only the curves have its hats they have %v", e)
	}
}

// Columns that come do not take from the others what is known of them.
func TestFollowKeeps(t *testing.T) {
	p, s := panel.New(settings, 2, true), newStream(6, 4, 2)
	s.teach(p, 500)
	was := [2][]float64{slices.Clone(p.Weights(0)), slices.Clone(p.Weights(1))}
	columns := slices.Clone(p.Columns())
	p.Follow(append(slices.Clone(columns), 1000))
	for k, w := range was {
		for i, column := range columns {
			at, _ := slices.BinarySearch(p.Columns(), column)
			if p.Weights(k)[at] != w[i] || w[i] == 0 {
				t.Errorf("output %d: the weight of column %d was %v, is %v", k, column, w[i], p.Weights(k)[at])
			}
		}
	}
}

// What an event teaches of shares counts from Learn on, not between two readings of it.
func TestTakeWaits(t *testing.T) {
	p, s := panel.New(settings, 3, true), newStream(7, 4, 3)
	s.teach(p, 100)
	s.next()
	s.score(p)
	was := slices.Clone(p.Weights(2))
	lost := p.Take(s.lost)
	if got := s.lost(s.out); math.Abs(got-lost) > 1e-12 {
		t.Errorf("the mixture lost %v, Take says %v", got, lost)
	}
	if !slices.Equal(was, p.Weights(2)) {
		t.Error("Take has moved the weights")
	}
}

// A panel that has been read goes on to the bit, and what is no state is refused.
func TestState(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		p, s := panel.New(settings, outputs, true), newStream(8, 4, outputs)
		s.teach(p, 700)
		written := func(p *panel.Panel) []byte {
			c := &coder.Coder{}
			p.State(c)
			return c.Out
		}
		data := written(p)
		other := panel.New(settings, outputs, true)
		c := coder.Read(data)
		if other.State(c); !c.Done() {
			t.Fatalf("%d outputs: the state is not read", outputs)
		}
		for k := range outputs {
			if !slices.Equal(p.Weights(k), other.Weights(k)) || p.Base() != other.Base() || p.Intercept(k) != other.Intercept(k) {
				t.Fatal("the weights are others")
			}
		}
		again := *s
		again.r = rand.New(rand.NewPCG(9, 9))
		s.r = rand.New(rand.NewPCG(9, 9))
		s.teach(p, 200)
		again.teach(other, 200)
		if !bytes.Equal(written(p), written(other)) {
			t.Errorf("%d outputs: it does not go on to the bit", outputs)
		}
		for cut := 0; cut < len(data); cut += 13 {
			c := coder.Read(data[:cut])
			if panel.New(settings, outputs, true).State(c); c.Done() {
				t.Fatalf("%d of %d bytes are read as a state", cut, len(data))
			}
		}
	}
}

// Two classes that become three keep what is known: the scores of the second are those that were, and
// those of the first their negation.
func TestWiden(t *testing.T) {
	p, s := panel.New(settings, 1, true), newStream(10, 4, 1)
	s.teach(p, 600)
	s.next()
	s.score(p)
	was := s.out[0]
	p.Widen(3)
	base, out := []float64{-s.base[0], s.base[0], 0}, make([]float64, 3)
	p.Score(s.columns, s.x, base, out)
	if math.Abs(out[1]-was) > 1e-9 || math.Abs(out[0]+was) > 1e-9 {
		t.Errorf("the score was %v, of three outputs they are %v", was, out)
	}
}

// Forget has the weights move faster.
func TestForget(t *testing.T) {
	step := func(forget bool) (moved float64) {
		p, s := panel.New(settings, 1, true), newStream(11, 4, 1)
		s.teach(p, 1000)
		if forget {
			p.Forget(0.1)
		}
		was := slices.Clone(p.Weights(0))
		s.teach(p, 1)
		for i, w := range p.Weights(0) {
			moved += math.Abs(w - was[i])
		}
		return moved
	}
	if slow, fast := step(false), step(true); fast < 1.5*slow {
		t.Errorf("the weights move by %v, after forgetting by %v", slow, fast)
	}
}

// A panel that is restarted says what the base does; what Set sets is what it says more.
func TestRestart(t *testing.T) {
	p, s := panel.New(settings, 2, true), newStream(12, 3, 2)
	s.teach(p, 300)
	p.Restart()
	for k := range 2 {
		if p.Base() != 1 || p.Intercept(k) != 0 || slices.ContainsFunc(p.Weights(k), func(w float64) bool { return w != 0 }) {
			t.Errorf("base %v, intercept %v, weights %v", p.Base(), p.Intercept(k), p.Weights(k))
		}
	}
	p.Set(14, 1, 0.5)
	if at, _ := slices.BinarySearch(p.Columns(), 14); math.Abs(p.Weights(1)[at]-0.5) > 1e-12 || p.Weights(0)[at] != 0 {
		t.Errorf("the weight set is %v", p.Weights(1)[at])
	}
}

func BenchmarkLearn(b *testing.B) {
	for _, x := range []struct{ numbers, outputs int }{{8, 1}, {24, 1}, {128, 6}} {
		b.Run(fmt.Sprint(x.numbers, " numbers ", x.outputs, " outputs"), func(b *testing.B) {
			p, s := panel.New(settings, x.outputs, true), newStream(1, x.numbers, x.outputs)
			s.teach(p, 100)
			for b.Loop() {
				s.teach(p, 1)
			}
		})
	}
}
