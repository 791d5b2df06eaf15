package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"blankout"
	"blankout/loss"
)

// The vectors of testdata/golden were made by an independent implementation of
// docs/mathematics.md in Python. A case of another package is not run here.
type goldenProblem struct {
	Problem    string
	X          [][]float64
	Y          []float64
	Unlabelled [][]float64
	Cases      []goldenCase
}

type goldenCase struct {
	Algo   string
	Params struct {
		Noise       string
		Level       float64
		C, Ell, Lam float64
		Alpha       float64
		Unlabelled  bool
		T           float64
		Q, Keep     float64
		Sigma       float64
		Kernel      string
		Loss        string
		FromRow     int `json:"from_row"`
	}
	Weights      []float64
	Intercept    float64
	Objective    float64
	Tolerance    float64
	StartWeights []float64 `json:"start_weights"`
	Metric       []float64
	Raw          json.RawMessage
}

func (c *goldenCase) UnmarshalJSON(b []byte) error {
	type plain goldenCase
	c.Raw = append(json.RawMessage(nil), b...)
	return json.Unmarshal(b, (*plain)(c))
}

func (c *goldenCase) noise(t testing.TB) loss.Noise {
	name := c.Params.Noise
	if name == "" {
		name = "none"
	}
	if name != "none" && name != "poisson" {
		name = fmt.Sprintf("%s:%v", name, c.Params.Level)
	}
	n, err := loss.ParseNoise(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// golden reads all problems.
func golden(t testing.TB) []goldenProblem {
	files, _ := filepath.Glob("testdata/golden/*.json")
	if len(files) != 3 {
		t.Fatalf("%d files of golden vectors", len(files))
	}
	var out []goldenProblem
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var p goldenProblem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// denseData makes Data of a matrix, every column present. Labels are class 1
// for y > 0, else 0; rows beyond len(y) are unlabelled.
func denseData(t testing.TB, x [][]float64, y []float64) *Data {
	var b Builder
	for i, row := range x {
		e := blankout.Example{Weight: 1, Label: blankout.Unlabelled, Offset: int64(i)}
		if i < len(y) {
			e.Label = 0
			if y[i] > 0 {
				e.Label = 1
			}
		}
		for d, v := range row {
			if v != 0 || i == 0 { // the first row names every column
				e.Features.Index = append(e.Features.Index, uint32(d))
				e.Features.Value = append(e.Features.Value, v)
				e.Field = append(e.Field, uint16(1+d%len(denseFields)))
			}
		}
		if err := b.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	schema := blankout.NewSchema(20, []string{"-1", "1"}, 2)
	schema.Crosses = [][2]string{{"a", "b"}}
	for _, f := range denseFields {
		schema.AddField(f)
	}
	return b.Data(schema)
}

// denseFields are the fields of denseData, column after column and again from the first
// on: of the groups g, h, c, of both g and h, and of g.
var denseFields = []blankout.Field{
	{Name: "a", Kind: blankout.Numeric, Group: "g"},
	{Name: "b", Kind: blankout.Numeric, Group: "h"},
	{Name: "c", Kind: blankout.Numeric},
	{Name: "a^b", Kind: blankout.Cross},
	{Name: "d", Kind: blankout.Numeric, Group: "g"},
}

func targets(y []float64, rows int) []float64 {
	out := append([]float64(nil), y...)
	for len(out) < rows {
		out = append(out, math.NaN())
	}
	return out
}

// expectedOf returns the objective of a golden case, nil if it has none here.
func expectedOf(t testing.TB, g *goldenProblem, c *goldenCase) *Expected {
	p := Problem{Kappa: 1, Intercept: FreeIntercept, Noise: c.noise(t)}
	l2 := 1.0
	x := g.X
	switch c.Algo {
	case "dropout-logistic":
		p.Loss = loss.LogisticChen{}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "gaussian-logistic":
		p.Loss = loss.LogisticGaussian{}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "dropout-svm", "svm":
		p.Loss = loss.HingeChen{Ell: c.Params.Ell}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "gaussian-hinge":
		p.Loss = loss.HingeGaussian{Ell: c.Params.Ell}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "mcf-quadratic":
		p.Loss = loss.Quadratic{}
		l2 = c.Params.Lam
	case "quadratic-noising-logistic":
		p.Loss = loss.LogisticQuadratic{}
		l2 = c.Params.Lam / 2
		if c.Params.Unlabelled {
			x = append(append([][]float64(nil), g.X...), g.Unlabelled...)
			p.Alpha = c.Params.Alpha
		}
	default:
		return nil
	}
	p.Data = denseData(t, x, g.Y)
	p.Y = targets(g.Y, p.Data.Rows())
	p.Penalty = Ridge(p.Data.Columns(), l2, p.Intercept)
	o, err := NewExpected(p)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestGoldenExpected(t *testing.T) {
	total := 0
	for _, g := range golden(t) {
		for i := range g.Cases {
			c := &g.Cases[i]
			o := expectedOf(t, &g, c)
			if o == nil {
				continue
			}
			total++
			name := fmt.Sprintf("%s %s %s %v c=%v ell=%v", g.Problem, c.Algo, c.Params.Noise, c.Params.Level, c.Params.C, c.Params.Ell)
			r, err := Solve(context.Background(), o, Options{Tol: 1e-13})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			tol := c.Tolerance
			weightTol, objectiveTol := 1e-6, 1e-9
			if tol > 0 {
				weightTol, objectiveTol = tol, tol
			}
			if c.Algo == "quadratic-noising-logistic" {
				weightTol, objectiveTol = math.Inf(1), 1e-8
			}
			if math.Abs(r.Objective-c.Objective) > objectiveTol*c.Objective {
				t.Errorf("%s: objective %.12g, want %.12g (%+v)", name, r.Objective, c.Objective, *r)
			}
			want := append(append([]float64(nil), c.Weights...), c.Intercept)
			if far := relative(r.W, want); far > weightTol {
				t.Errorf("%s: weights %.2g away; gap %g, %d iterations, J %.15g want %.15g", name, far, r.Gap, r.Iterations, r.Objective, c.Objective)
			}
			if testing.Verbose() {
				t.Logf("%s: %d iterations %d passes gap %.2g J-J* %.2g", name, r.Iterations, r.Passes, r.Gap, r.Objective-c.Objective)
			}
		}
	}
	if total != 187 {
		t.Errorf("%d cases, want 187", total)
	}
}

// relative returns |a-b| / |b| in the largest norm.
func relative(a, b []float64) float64 {
	diff, size := 0.0, 0.0
	for i := range b {
		diff = max(diff, math.Abs(a[i]-b[i]))
		size = max(size, math.Abs(b[i]))
	}
	return diff / size
}

// The refresh of the online learner: the last rows solved exactly against the
// metric of everything before, (1/2)(w - w_t)'D(w - w_t).
func TestGoldenRefresh(t *testing.T) {
	total := 0
	for _, g := range golden(t) {
		for i := range g.Cases {
			c := &g.Cases[i]
			if c.Algo != "irls-refresh" {
				continue
			}
			total++
			var l loss.Loss = loss.LogisticChen{}
			if c.Params.Loss == "hinge" {
				l = loss.HingeChen{Ell: c.Params.Ell}
			}
			// All rows, those before the refresh without weight: the columns are
			// then all there.
			d := denseData(t, g.X, g.Y)
			weight := make([]float64, d.Rows())
			for i := c.Params.FromRow; i < d.Rows(); i++ {
				weight[i] = 1
			}
			o, err := NewExpected(Problem{Data: d, Y: g.Y, Weight: weight, Loss: l, Noise: loss.Dropout{Q: c.Params.Level},
				Kappa: loss.Cost(l, c.Params.C), Intercept: PenalisedIntercept, Penalty: Penalty{R: c.Metric, Centre: c.StartWeights}})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []Solver{IRLS, Newton} {
				r, err := Solve(context.Background(), o, Options{Solver: s, Tol: 1e-13, Start: c.StartWeights})
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s %s %s", g.Problem, c.Params.Loss, s)
				if math.Abs(r.Objective-c.Objective) > 1e-9*c.Objective {
					t.Errorf("%s: objective %.12g, want %.12g", name, r.Objective, c.Objective)
				}
				if far := relative(r.W, append(append([]float64(nil), c.Weights...), c.Intercept)); far > 1e-6 {
					t.Errorf("%s: weights %.2g away", name, far)
				}
			}
		}
	}
	if total != 6 {
		t.Errorf("%d cases, want 6", total)
	}
}

// goldenCases calls f for every golden case of an algorithm and fails unless there are want of them.
func goldenCases(t *testing.T, algo string, want int, f func(t *testing.T, g *goldenProblem, c *goldenCase)) {
	t.Helper()
	have := 0
	for _, g := range golden(t) {
		for i := range g.Cases {
			if c := &g.Cases[i]; c.Algo == algo {
				have++
				t.Run(fmt.Sprintf("%s %s %+v", g.Problem, algo, c.Params), func(t *testing.T) { f(t, &g, c) })
			}
		}
	}
	if have != want {
		t.Errorf("%d golden cases of %s, want %d", have, algo, want)
	}
}

func constant(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
