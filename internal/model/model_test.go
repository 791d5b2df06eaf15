package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

func ExampleLinear_Score() {
	schema := event.NewSchema(18, []string{"ham", "spam"}, 2)
	m := NewLinear(schema, "logistic:gaussian", "dropout:0.5", [][]float64{{0.5, 0, -2}}, []float64{0.25})
	e := &event.Example{Features: event.Vec{Index: []uint32{0, 2}, Value: []float64{3, 1}}}
	scores := m.Score(e, make([]float64, m.Outputs))
	fmt.Println(scores[0], schema.Classes[Predict(scores)])
	// Output: -0.25 ham
}

func TestLinearBlocks(t *testing.T) {
	schema := event.NewSchema(10, []string{"a", "b", "c"}, 0)
	m := NewLinear(schema, "logistic:chen", "poisson",
		[][]float64{{1, 0, math.Pi}, {2, 0, 1e-300}, {0, 0, -3}}, []float64{0.1, 0.2, 0.3})
	each := must.Get(m.EachBlock())(t)
	blocks := slices.Collect(each)
	got := must.Get(ReadLinear(append(blocks, event.Block{Name: "other", Data: nil})))(t)
	for k := range 3 {
		for d := range uint32(4) {
			must.True(t, got.Weight(d, k) == m.Weight(d, k), "weight %d of output %d: %g, want %g", d, k, got.Weight(d, k), m.Weight(d, k))
		}
	}
	want := math.Sqrt(1 + math.Pi*math.Pi + 4 + 9)
	must.True(t, math.Abs(got.Norm()-want) <= 1e-15*want, "norm %g, want %g", got.Norm(), want)
	must.True(t, m.Rows.Len() == 2, "%d rows for two columns with weights", m.Rows.Len())
	for i, bad := range []string{`{`, `{}`, `{"schema":{},"outputs":2,"intercept":[1],"layout":{"width":2}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":1}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":2,"stats":1}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":2,"stats":-1,"weight":9223372036854775807}}`,
		`{"schema":{"classes":["a","b"]},"outputs":1,"intercept":[1],"pairs":true,"layout":{"width":2,"stats":-1}}`} {
		blocks[0].Data = []byte(bad)
		must.Fails(t, must.Err(ReadLinear(blocks)), "bad head", i, "read")
	}
}

func TestProbabilities(t *testing.T) {
	m := &Linear{}
	two := m.Probabilities([]float64{math.Log(3)}, make([]float64, 2))
	must.True(t, math.Abs(two[1]-0.75) <= 1e-15 && math.Abs(two[0]+two[1]-1) <= 1e-15, "two classes: %v", two)
	for _, scores := range [][]float64{{0, 1, -1}, {-1e9, -1e9, -1e9}, {50, 800, 3}} {
		p := m.Probabilities(scores, make([]float64, 3))
		sum := p[0] + p[1] + p[2]
		must.True(t, math.Abs(sum-1) < 1e-12, "%v: %v", scores, p)
	}
}

// TestEach checks that Each yields the event's columns and the dense columns once and in order. The event's columns and
// the dense columns are any two subsets of four columns.
func TestEach(t *testing.T) {
	for set := range 256 {
		var x event.Vec
		var s Scaler
		want := map[uint32]float64{}
		for d := range uint32(4) {
			if set>>d&1 != 0 {
				x.Index, x.Value = append(x.Index, d), append(x.Value, float64(d)+1)
				want[d] = float64(d) + 1
			}
			if set>>(4+d)&1 != 0 {
				s.Dense = append(s.Dense, d)
				want[d] += 0
			}
		}
		last := -1
		for d, v := range s.Each(x) {
			w, there := want[d]
			must.True(t, there && v == w && int(d) > last, "columns %v, dense %v: %d has %g after %d", x.Index, s.Dense, d, v, last)
			delete(want, d)
			last = int(d)
		}
		must.True(t, len(want) <= 0, "columns %v, dense %v: left out %v", x.Index, s.Dense, want)
	}
}

func TestHeadFits(t *testing.T) {
	two, three := event.NewSchema(4, []string{"a", "b"}, 2), event.NewSchema(4, []string{"a", "b", "c"}, 3)
	for _, tt := range []struct {
		name string
		head Head
		want bool
	}{
		{"two classes", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1)}, true},
		{"three classes", Head{Schema: three, Outputs: 3, Intercept: make([]float64, 3), Threshold: 0.9}, true},
		{"pairs", Head{Schema: three, Outputs: 3, Intercept: make([]float64, 3), Pairs: true}, true},
		{"pairs of two", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Pairs: true}, false},
		{"too few pairs", Head{Schema: three, Outputs: 2, Intercept: make([]float64, 2), Pairs: true}, false},
		{"too many pairs", Head{Schema: three, Outputs: 4, Intercept: make([]float64, 4), Pairs: true}, false},
		{"no schema", Head{Outputs: 1, Intercept: make([]float64, 1)}, false},
		{"no outputs", Head{Schema: two}, false},
		{"no intercept", Head{Schema: two, Outputs: 1}, false},
		{"a threshold of 1", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Threshold: 1}, false},
		{"a threshold below 0", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Threshold: -0.1}, false},
	} {
		must.Equal(t, tt.head.Fits(), tt.want, tt.name, "fits")
	}
}

// TestCouple checks that couple recovers a distribution from its own pairwise probabilities. For any other pairwise
// probabilities, the result p must be the minimum: p sums to one, no p_i is negative, and every (Qp)_i equals p'Qp. The
// last condition holds because the objective's gradient is equal for all classes.
func TestCouple(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		k := 3 + n%10
		want := make([]float64, k)
		sum := 0.0
		for i := range want {
			want[i] = math.Exp(3 * rng.NormFloat64())
			sum += want[i]
		}
		r := make([][]float64, k)
		for i := range r {
			want[i] /= sum
			r[i] = make([]float64, k)
		}
		consistent := n%2 == 0
		for i := range k {
			for j := range i {
				switch {
				case consistent:
					r[i][j] = want[i] / (want[i] + want[j])
				case n%3 == 0:
					r[i][j] = float64(rng.IntN(3)) / 2 // 0, 1/2 or 1: certain, and possibly contradictory
				default:
					r[i][j] = sigmoid(4 * rng.NormFloat64())
				}
				r[j][i] = 1 - r[i][j]
			}
		}
		p := couple(k, func(i, j int) float64 { return r[i][j] })
		half := make([]float64, k) // half of the objective's gradient, by its definition
		sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
		for i := range k {
			for j := range k {
				if i != j {
					half[i] += r[j][i] * (r[j][i]*p[i] - r[i][j]*p[j])
				}
			}
			sum += p[i]
			least, most = min(least, half[i]), max(most, half[i])
			must.True(t, p[i] >= 0 && (!consistent || math.Abs(p[i]-want[i]) <= 1e-5), "case %d: class %d of %d: %g, want %g", n, i, k, p[i], want[i])
		}
		must.True(t, math.Abs(sum-1) <= 1e-12 && most-least <= 1e-6, "case %d: the sum is %v, the gradient from %g to %g", n, sum, least, most)
	}
}

// sharing returns a model of four scores: the second and third share an output, and the last has none.
func sharing() *Linear {
	m := NewLinear(event.NewSchema(4, []string{"a", "b", "c", "d"}, 4), "logistic", "none", [][]float64{{1, 2}, {3, -4}}, []float64{0, 0})
	m.Outputs, m.Intercept, m.Layout.Outputs = 4, []float64{0.5, -1, -2, -30}, []int{0, 1, 1, -1}
	return m
}

// TestSharedOutputs checks that classes that share an output share its weights, but have separate intercepts.
func TestSharedOutputs(t *testing.T) {
	m := sharing()
	level := Level{Noise: "none", Intercept: []float64{1, 1, 2, -30}, Layout: Layout{Width: 2, Stats: -1, Outputs: []int{1, 0, 0, -1}}}
	m.Levels = []Level{level}
	m.Missing = NewMissing(EveryRange(MissingNone), nil, nil, nil).WithLevels([]int{0, 0, 1, 1, 1, 1})
	data := must.Get(m.EachBlock())(t)
	blocks := slices.Collect(data)
	read := must.Get(ReadLinear(blocks))(t)
	e := &event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{1, 2}}}
	for name, m := range map[string]*Linear{"made": m, "read": read, "apart": m.WithSeparateOutputs(), "compact": m.Compact()} {
		for level, want := range [][]float64{{5.5, -6, -7, -30}, {-4, 6, 7, -30}} {
			got := m.At(MissingHandling{Level: level}).ScoreVec(e.Features, make([]float64, 4))
			must.Near(t, got, want, 1e-13, name, "level", level)
		}
		must.True(t, m.Weight(1, 2) == -4 && m.Weight(1, 3) == 0, "%s: weights %v and %v", name, m.Weight(1, 2), m.Weight(1, 3))
	}
	out := m.WithSeparateOutputs()
	must.True(t, out.Layout.Outputs == nil && out.Layout.Width == 8 && out.WithSeparateOutputs() == out, "apart: %+v", out.Layout)
}

// TestCompact checks that a compact model returns the same bits as the model with a learner's rows. The rows of the
// compact model must contain only weights and statistics.
func TestCompact(t *testing.T) {
	const k, width = 2, ScalerWidth + 10
	part := func(fraction float64, weight, lag int, average float64) Part {
		return Part{Factor: fraction, Weight: ScalerWidth + weight, Lag: ScalerWidth + lag, Average: average}
	}
	mixed := Layout{Width: width, Scale: 3, Mix: []Part{part(0.3, 0, 4, 0.7), part(0.6, 2, 6, 0), {Factor: 0.1, Weight: ScalerWidth + 8}}}
	alone := Layout{Width: width, Scale: 3, Weight: ScalerWidth + 2, Lag: ScalerWidth + 6, Average: 0.25}
	for _, stats := range []int{0, -1} {
		mixed.Stats, alone.Stats = stats, stats
		m := &Linear{Head: Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Outputs: k, Intercept: []float64{1, -2}, Layout: mixed}, Rows: NewTable(width)}
		m.Levels = []Level{{Noise: "none", Intercept: []float64{3, 4}, Layout: alone}}
		r := rand.New(rand.NewPCG(1, 2))
		var x event.Vec
		for column := range uint32(7) {
			row := m.Rows.Touch(column)
			for i := range row {
				row[i] = r.NormFloat64()
			}
			x.Index, x.Value = append(x.Index, column), append(x.Value, r.NormFloat64())
		}
		c := m.Compact()
		want := 2*k + (1+stats)*ScalerWidth
		must.True(t, c.Layout.Width == want && c.Rows.Width() == want && c.Layout.Mix == nil, "layout %+v, want a width of %d", c.Layout, want)
		for level := range 2 {
			got := c.At(MissingHandling{Level: level}).ScoreVec(x, make([]float64, k))
			must.EqualSlices(t, got, m.At(MissingHandling{Level: level}).ScoreVec(x, make([]float64, k)), "level", level, "scores")
		}
		must.True(t, stats != 0 || slices.Equal(c.Rows.Row(3)[:ScalerWidth], m.Rows.Row(3)[:ScalerWidth]), "other statistics")
		must.True(t, m.Levels[0].Layout.Width == width, "the model itself has changed")
	}
}

func TestSharedOutputsFit(t *testing.T) {
	for name, outputs := range map[string][]int{"beyond the row": {0, 1, 2, -1}, "too few": {0, 1, 1}, "negative": {0, 1, 1, -2}} {
		m := sharing()
		m.Layout.Outputs = outputs
		must.True(t, !m.Layout.fits(4), "%s: %v fits", name, outputs)
	}
	must.True(t, sharing().Layout.fits(4), "it does not fit")
}
