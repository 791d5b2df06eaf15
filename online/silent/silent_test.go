package silent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// losses has losses of every kind: smooth and not smooth losses, for classes, real targets and counts.
var losses = []string{"logistic:gaussian", "hinge:gaussian", "quadratic", "squared", "huber:1", "quantile:0.9", "poisson"}

// problem is an event with random rows. The level with silent noise is the second of three noise levels.
type problem struct {
	Event
	rows  rows.Event
	y     []float64
	value []float64
}

// newProblem returns a problem with the given numbers of features and outputs. units is by row. If units is nil,
// features are missing independently.
func newProblem(r *rand.Rand, l loss.Loss, features, outputs int, units []int32) *problem {
	n := 3 * outputs
	p := &problem{Event: Event{Noise: loss.Silent{D: 0.4}, Loss: l, First: outputs, Outputs: outputs, N: n}}
	p.rows.Reset(features)
	row := func() []float64 {
		out := must.List(rows.FirstPart+3*n, func(int) float64 { return 0.5 * r.NormFloat64() })
		for i := rows.FirstPart + n; i < rows.FirstPart+2*n; i++ {
			out[i] = math.Abs(out[i])
		}
		return out
	}
	dead := make([]float64, features)
	for i := range features {
		p.rows.Rows = append(p.rows.Rows, row())
		p.rows.X[i], p.rows.Ridge[i] = r.NormFloat64(), 0.1*r.Float64()
		if r.IntN(2) == 0 {
			dead[i] = r.NormFloat64()
		}
	}
	p.rows.AddIntercepts(row(), 0.05)
	for range outputs {
		switch l.Facts().Target {
		case loss.Count:
			p.y = append(p.y, float64(r.IntN(4)))
		case loss.Real:
			p.y = append(p.y, r.NormFloat64())
		default:
			p.y = append(p.y, float64(2*r.IntN(2)-1))
		}
	}
	p.value = make([]float64, outputs)
	p.Take(p.rows, dead, units)
	return p
}

// objective returns the sum that a step minimizes: the mean losses plus half of the ridges. It is computed directly,
// feature by feature and for each rate.
func (p *problem) objective() (sum float64) {
	for j := range p.Outputs {
		bias := p.rows.Rows[len(p.rows.Rows)-1]
		rates := p.Noise.Rates()
		for _, q := range rates {
			mean, variance := bias[rows.FirstPart+p.First+j], 0.0
			units := map[int32]float64{}
			for i := range p.rows.Features() {
				w := p.rows.Rows[i][rows.FirstPart+p.First+j]
				mean += w * ((1-q)*p.rows.X[i] + q*p.dead[i])
				unit := int32(-1 - i)
				if p.units != nil {
					unit = p.units[i]
				}
				units[unit] += w * (p.rows.X[i] - p.dead[i])
			}
			for _, s := range units {
				variance += q * (1 - q) * s * s
			}
			value, _, _ := p.Loss.At(p.y[j], mean, variance)
			sum += value / float64(len(rates))
		}
		for i, row := range p.rows.Rows {
			w := row[rows.FirstPart+p.First+j]
			sum += p.rows.Ridge[i] * w * w / 2
		}
	}
	return sum
}

// eachProblem runs f for every loss, for one output and several, and for features that are missing independently or in
// units.
func eachProblem(t *testing.T, f func(t *testing.T, p *problem)) {
	for _, name := range losses {
		l := must.Get(loss.Parse(name))(t)
		for _, outputs := range []int{1, 3} {
			for _, units := range [][]int32{nil, {0, 1, 1, 0, 2, 3}} {
				t.Run(fmt.Sprint(name, outputs, units != nil), func(t *testing.T) {
					r := rand.New(rand.NewPCG(1, 50))
					for range 20 {
						f(t, newProblem(r, l, 6, outputs, units))
					}
				})
			}
		}
	}
}

// TestGradient compares the losses with the explicit sum, and the gradients with finite differences.
func TestGradient(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		p.Begin(p.y, 1, p.value)
		sum := must.Sum(p.value)
		for i, row := range p.rows.Rows {
			for j := range p.Outputs {
				w := row[rows.FirstPart+p.First+j]
				sum += p.rows.Ridge[i] * w * w / 2
			}
		}
		want := p.objective()
		must.Require(t, math.Abs(sum-want) <= 1e-9*(1+math.Abs(want)), "the loss is %v, written out %v", sum, want)
		if p.Loss.Facts().Kink != nil {
			return
		}
		g := make([]float64, p.Outputs)
		for i, row := range p.rows.Rows {
			p.gradient(i, p.part(row, 0), g)
			for j, got := range g {
				w := &p.part(row, 0)[j]
				const h = 1e-6
				was := *w
				*w = was + h
				above := p.objective()
				*w = was - h
				below := p.objective()
				*w = was
				want := (above - below) / (2 * h)
				must.Require(t, math.Abs(got-want) <= 1e-5*(1+math.Abs(want)), "row %d, output %d: the gradient is %v, by differences %v", i, j, got, want)
			}
		}
	})
}

// TestAverages checks that slope is the derivative of the loss along the lags, for constant squares. Gain must return
// the loss of the average minus the loss of the iterate.
func TestAverages(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		for i := range p.rows.Ridge {
			p.rows.Ridge[i] = 0
		}
		slope := p.Begin(p.y, 3, p.value)
		along := func(h float64) float64 {
			for _, row := range p.rows.Rows {
				for j, u := range p.part(row, 2) {
					p.part(row, 0)[j] += h * u
				}
			}
			value := p.objective()
			for _, row := range p.rows.Rows {
				for j, u := range p.part(row, 2) {
					p.part(row, 0)[j] -= h * u
				}
			}
			return value
		}
		fixed := func(h float64) (sum float64) {
			var s sums
			p.sum(&s, h)
			for j, y := range p.y {
				value, _, _, _ := p.Noise.At(p.Loss, y, s.score[j], s.intercept[j], p.iterate.squares[j])
				sum += value
			}
			return sum
		}
		const h = 1e-6
		want := (fixed(h) - fixed(-h)) / (2 * h)
		must.Require(t, p.Loss.Facts().Kink != nil || math.Abs(slope-want) <= 1e-5*(1+math.Abs(want)), "the slope is %v, by differences %v", slope, want)
		got, want := p.Gain(p.y, 0.7, p.value), along(0.7)-along(0)
		must.Require(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(want)), "the average loses %v more, written out %v", got, want)
	})
}

// TestStep checks that a step moves each weight against its gradient at the rate of AdaGrad, and adds the squared
// gradients. It must not change other levels. A proximal step must not increase the loss. Decay changes only the unit
// of the squares.
func TestStep(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		was := make([][]float64, len(p.rows.Rows))
		for i, row := range p.rows.Rows {
			was[i] = append([]float64(nil), row...)
		}
		reset := func() {
			for i, row := range p.rows.Rows {
				copy(row, was[i])
			}
		}
		c := Settings{Eta: 0.3, Start: 1, InverseDecay: 1, Inverse: 2, Importance: 1}
		p.Begin(p.y, 1, p.value)
		gradients := make([]float64, p.Outputs)
		p.Step(p.y, c)
		for i, row := range p.rows.Rows {
			for at := range row {
				if part := at - rows.FirstPart; part >= 0 && part%p.N >= p.First && part%p.N < p.First+p.Outputs {
					continue
				}
				must.Require(t, row[at] == was[i][at], "row %d: value %d is of another level, and has become %v", i, at, row[at])
			}
		}
		once := make([][]float64, len(was))
		for i, row := range p.rows.Rows {
			once[i] = append([]float64(nil), row...)
		}
		reset()
		p.Begin(p.y, 1, p.value)
		p.stepSlowly(p.y, c)
		for i, row := range p.rows.Rows {
			must.Near(t, row, once[i], 1e-12, "row", i, "and by the slow step")
		}
		reset()
		for i, row := range p.rows.Rows {
			p.gradient(i, p.part(row, 0), gradients)
			for j, g := range gradients {
				at := rows.FirstPart + p.First + j
				m := was[i][at+p.N] + g*g
				delta := -0.3 * g / (math.Sqrt(1+m) + optimizers.AdagradEps)
				for _, c := range [][3]float64{{once[i][at], was[i][at] + delta}, {once[i][at+p.N], m}, {once[i][at+2*p.N], was[i][at+2*p.N] - 2*delta}} {
					must.Require(t, math.Abs(c[0]-c[1]) <= 1e-8*(1+math.Abs(c[1])), "row %d, output %d: %v, want %v", i, j, c[0], c[1])
				}
			}
		}
		c.InverseDecay = 4
		for _, row := range p.rows.Rows {
			for j := range p.part(row, 1) {
				p.part(row, 1)[j] *= 4
			}
		}
		p.Begin(p.y, 1, p.value)
		p.Step(p.y, c)
		for i, row := range p.rows.Rows {
			for j, w := range p.part(row, 0) {
				want := once[i][rows.FirstPart+p.First+j]
				must.Require(t, math.Abs(w-want) <= 1e-8*(1+math.Abs(want)), "row %d, output %d: under a growth of 4 the weight is %v, else %v", i, j, w, want)
			}
		}
		reset()
		if !p.Loss.Facts().Convex {
			return
		}
		c = Settings{Eta: 30, Start: 1, InverseDecay: 1, Importance: 1, Proximal: true}
		for i := range p.rows.Ridge {
			p.rows.Ridge[i] = 0
		}
		p.Begin(p.y, 1, p.value)
		p.Step(p.y, c)
		for j := range p.y {
			// At the end of the step, the loss must not decrease faster along the step than the distance increases.
			// Squares are constant, and only the gradient of the loss changes the weights.
			score, intercept := 0.0, 0.0
			for i, x := range p.x {
				d := p.roots[i*p.Outputs+j] * (p.ds[j]*x + p.di[j]*p.dead[i])
				score, intercept = score+d*x, intercept+d*p.dead[i]
			}
			intercept += p.roots[len(p.x)*p.Outputs+j] * p.di[j]
			whole := c.Eta * (p.ds[j]*score + p.di[j]*intercept)
			if whole < 2*leastMove {
				continue
			}
			a, s := p.stepFraction(j, p.y[j], c.Eta, 1), &p.iterate
			at := func(a float64) float64 {
				value, _, _, _ := p.Noise.At(p.Loss, p.y[j], s.score[j]-a*c.Eta*score, s.intercept[j]-a*c.Eta*intercept, s.squares[j])
				return value + a*a*whole/2
			}
			must.True(t, p.Loss.Facts().Kink != nil || at(a) <= at(a*0.9)+1e-9 && (a >= 1 || at(a) <= at(a*1.1)+1e-9),
				"output %d: at the share %v of the step loss and distance are %v, at .9 and 1.1 times it %v and %v", j, a, at(a), at(a*0.9), at(a*1.1))
		}
	})
}

// TestStepWithoutStart checks small accumulators: decay must not change a step by more than rounding, even where eps is
// not negligible.
func TestStepWithoutStart(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		was := make([][]float64, len(p.rows.Rows))
		for i, row := range p.rows.Rows {
			for j := range p.part(row, 1) {
				p.part(row, 1)[j] = 0
			}
			was[i] = append([]float64(nil), row...)
		}
		var steps [2][]float64
		for k, decay := range []float64{1, 1 << 20} {
			for i, row := range p.rows.Rows {
				copy(row, was[i])
			}
			p.Begin(p.y, 1, p.value)
			p.Step(p.y, Settings{Eta: 0.3, InverseDecay: decay, Importance: 1})
			for i, row := range p.rows.Rows {
				for j, w := range p.part(row, 0) {
					steps[k] = append(steps[k], w-was[i][rows.FirstPart+p.First+j])
				}
			}
		}
		for i, want := range steps[0] {
			got := steps[1][i]
			must.Require(t, math.Abs(got-want) <= 3e-11*math.Abs(want), "weight %d moves by %v, without decay by %v", i, got, want)
		}
	})
}

// TestStepOfNoNumber checks that a step without a finite length is not shortened, because no search for its length ends.
func TestStepOfNoNumber(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		p.Begin(p.y, 1, p.value)
		p.stepSlowly(p.y, Settings{Eta: 0.3, Start: 1, InverseDecay: 1, Importance: 1})
		for j := range p.y {
			p.ds[j] = math.NaN()
			must.Require(t, p.stepFraction(j, p.y[j], 0.3, 1) == 1, "output %d: the fraction is %v", j, p.stepFraction(j, p.y[j], 0.3, 1))
		}
	})
}

// TestCurvatures compares the curvatures with finite differences of the loss in the squares.
func TestCurvatures(t *testing.T) {
	eachProblem(t, func(t *testing.T, p *problem) {
		if p.Loss.Facts().Kink != nil || p.Loss.Facts().Target == loss.Count {
			return
		}
		positive, got := make([]float64, p.Outputs), make([]float64, p.Outputs)
		for j := range positive {
			positive[j] = float64(j+1) / 5
		}
		p.Curvatures(positive, got)
		for j, q := range positive {
			s, want := &p.iterate, 0.0
			const h = 1e-5
			for _, label := range []float64{1, -1} {
				above, _, _, _ := p.Noise.At(p.Loss, label, s.score[j], s.intercept[j], s.squares[j]+h)
				below, _, _, _ := p.Noise.At(p.Loss, label, s.score[j], s.intercept[j], s.squares[j]-h)
				want += q * 2 * (above - below) / (2 * h)
				q = 1 - q
			}
			must.Require(t, math.Abs(got[j]-want) <= 1e-5*(1+math.Abs(want)), "output %d: the curvature is %v, by differences %v", j, got[j], want)
		}
	})
}

// TestValues checks that the dead value of a number is 0 if 0 is frequent. Otherwise it must be the mean.
func TestValues(t *testing.T) {
	for _, tt := range []struct {
		zeros int // number of zeros in a hundred readings; the other readings are 4
		want  float64
	}{
		{0, 4}, {1, 4}, {2, 0}, {50, 0},
	} {
		v := &Values{}
		for i := range 6400 {
			walk := v.Walk()
			walk.Read(3, 1)
			if x := 4.0; i%100 < tt.zeros {
				walk.Read(7, 0)
			} else {
				walk.Read(7, x)
			}
		}
		walk := v.Walk()
		got := walk.Raw(7, math.NaN())
		must.True(t, math.Abs(got-tt.want) <= 0.05, "%d zeros: a dead number reads %v, want %v", tt.zeros, got, tt.want)
		walk = v.Walk()
		must.Equal(t, walk.Raw(5, -1), -1, "a column without readings reads")
		out := &coder.Coder{}
		v.State(out)
		again := &Values{}
		if in := coder.Read(out.Out); true {
			again.State(in)
			must.Require(t, in.Done(), "the state cannot be read")
		}
		twice := &coder.Coder{}
		again.State(twice)
		must.True(t, string(twice.Out) == string(out.Out), "read and written again the state is another")
		v.Forget([]uint32{7, 9})
		must.True(t, v.Len() == 1, "%d columns are left", v.Len())
	}
}

// TestMask checks that a mask removes one of the rates' fractions of the features, in whole units. The mask must be the
// same for the same event.
func TestMask(t *testing.T) {
	n, counts := loss.Silent{D: 0.4}, map[float64]int{}
	units := must.List(5000, func(i int) int32 { return int32(i / 5) })
	for event := range uint64(400) {
		for _, units := range [][]int32{nil, units} {
			var m, again Mask
			m.Draw(n, 5000, units, event, 0)
			again.Draw(n, 5000, units, event, 0)
			dead := 0
			for i, d := range m.Dead {
				if d {
					dead++
				}
				must.Require(t, d == again.Dead[i] && (units == nil || d == m.Dead[i/5*5]), "event %d, feature %d: drawn again or beside its unit it is another", event, i)
			}
			must.Require(t, m.Some == (dead > 0), "event %d: some are dead: %v, %d are", event, m.Some, dead)
			for _, rate := range n.Rates() {
				if math.Abs(float64(dead)/5000-rate) < 0.07 {
					counts[rate]++
				}
			}
		}
	}
	for _, rate := range n.Rates() {
		c := counts[rate]
		must.True(t, c >= 140 && c <= 260, "rate %v was drawn %d times of 800", rate, c)
	}
}
