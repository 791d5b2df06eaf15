package panel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/newton"
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
func (s *stream) teach(p *Panel, events int) {
	for range events {
		s.next()
		s.score(p)
		p.Take(s.lost)
		p.Learn(s.y, len(s.y), 1)
	}
}

func (s *stream) score(p *Panel) {
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

// Where there is no room for the second-order expert it sleeps and the others answer; where there is
// none for curves either, the panel does not fit.
func TestAsleep(t *testing.T) {
	numbers := newton.MostColumns + 1
	p, s := New(settings, 1, true), newStream(2, numbers, 1)
	s.teach(p, 300)
	if e := p.Experts(); e[0].Share != 0 || math.Abs(e[1].Share+e[2].Share-1) > 1e-12 {
		t.Errorf("of %d numbers %v", numbers, e)
	}
	if len(p.newton.Columns()) != 0 || len(p.curves.Columns()) != 3*numbers {
		t.Errorf("followed are %d and %d columns", len(p.newton.Columns()), len(p.curves.Columns()))
	}
	// With 100 numbers the hats are the curves' alone.
	p, s = New(settings, 1, true), newStream(3, 100, 1)
	s.teach(p, 10)
	if len(p.newton.Columns()) != 100 || len(p.curves.Columns()) != 300 {
		t.Errorf("of 100 numbers and 200 hats %d and %d are followed", len(p.newton.Columns()), len(p.curves.Columns()))
	}
	// With many outputs there is no room for curves, and the second-order expert has the whole.
	p, s = New(settings, 150, true), newStream(4, 60, 150)
	s.teach(p, 3)
	if e := p.Experts(); e[0].Share != 1 || len(p.curves.Columns()) != 0 {
		t.Errorf("with 150 outputs %v, curves of %d columns", e, len(p.curves.Columns()))
	}
	if Fits(1000, 100) || !Fits(1000, 20) || !Fits(200, 100) {
		t.Error("Fits is wrong")
	}
}

// An expert that counts for nothing rests, and wakes when it counts again.
func TestRests(t *testing.T) {
	p, s := New(settings, 1, true), newStream(13, 4, 1)
	s.teach(p, 100)
	// How often the weights of the second-order expert move in 16 events, of which it has a share.
	moves := func(share float64) (n int) {
		for range restEvery {
			s.next()
			s.score(p)
			was := slices.Clone(p.newton.Weights(0).Columns)
			p.mix[0] = share
			p.Learn(s.y, 1, 1)
			if !slices.Equal(was, p.newton.Weights(0).Columns) {
				n++
			}
		}
		return n
	}
	for range restAfter/restEvery + 1 {
		moves(0.009)
	}
	if n := moves(0.009); n > 1 || p.idle[0] != restAfter || p.idle[1] != 0 {
		t.Errorf("after %d events that it counted for nothing in, it learns %d of %d; idle for %v", restAfter, n, restEvery, p.idle)
	}
	c, other := &coder.Coder{}, New(settings, 1, true)
	p.State(c)
	if other.State(coder.Read(c.Out)); !slices.Equal(other.idle, p.idle) || other.met != p.met {
		t.Errorf("it rests since %v of %d events, after a restart since %v of %d", p.idle, p.met, other.idle, other.met)
	}
	if moves(0.015); p.idle[0] < restAfter {
		t.Error("it wakes below wakeShare")
	}
	if n := moves(0.03); n < 2 {
		t.Errorf("when it counts again it learns %d of %d", n, restEvery)
	}
}

// A temperature is the factor under which the scores would have had the least log-loss.
func TestTemperature(t *testing.T) {
	for _, want := range []float64{0.5, 2} {
		r := rand.New(rand.NewPCG(3, 4))
		var c Temperature
		for range 20_000 {
			f, y := 2*r.NormFloat64(), -1.0
			if r.Float64() < 1/(1+math.Exp(-want*f)) {
				y = 1
			}
			c.Learn(func(factor float64) float64 { return math.Log1p(math.Exp(-y * factor * f)) })
		}
		if c := NewTemperature(want); math.Abs(c.Factor()-want) > 1e-12 {
			t.Errorf("one of %v begins with %v", want, c.Factor())
		}
		if got := c.Factor(); math.Abs(got/want-1) > 0.1 {
			t.Errorf("the factor is %v, want %v", got, want)
		}
	}
}

// AddWeights adds the values that Weight has, to the bit, whether the weights have been listed or not, with and without columns
// that the second-order expert has no room for.
func TestAddWeights(t *testing.T) {
	for _, numbers := range []int{4, 100} { // with two hats each: 300 are too many for the second-order expert
		for _, outputs := range []int{1, 3} {
			for _, curves := range []bool{true, false} {
				p, s := New(settings, outputs, curves), newStream(3, numbers, outputs)
				s.teach(p, 60)
				if second := len(p.newton.Columns()); (second == len(p.Columns())) != (numbers == 4) {
					t.Fatalf("of %d columns the second-order expert has %d", len(p.Columns()), second)
				}
				for i := range p.Columns() {
					want, got := make([]float64, outputs), make([]float64, outputs)
					for k := range want {
						want[k] = float64(k) + 0.3
						got[k] = want[k]
						want[k] += 0.7 * p.Weight(k, i)
					}
					if p.AddWeights(got, 0.7, i); !slices.Equal(got, want) {
						t.Fatalf("%d numbers, %d outputs: column %d: %v, want %v", numbers, outputs, i, got, want)
					}
					if i == len(p.Columns())/2 {
						p.Weights(0)
					}
				}
			}
		}
	}
}
