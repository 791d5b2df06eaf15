package papers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/simulate"
)

// glmPenalty compares the quadratic noising penalty R_q with the dropout penalty R that it approximates. It uses the
// three generalized linear models that the paper names, on the same features.
var glmPenalty = Experiment{
	Name:  "glm-penalty",
	Help:  "the quadratic noising penalty of linear, logistic and Poisson regression",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "sections 2 to 4, equation 6",
	Run:   runGLMPenalty,
}

// glmConfig describes the data. Feature j is 1 with a probability that decreases from 1/2 with j, else 0. The weights
// are normal with deviation SD. The response is drawn from the model at the score plus an intercept of 1/2; a normal
// response has unit variance.
type glmConfig struct {
	Examples int       `json:"examples"`
	Features int       `json:"features"`
	SD       float64   `json:"sd"`
	Levels   []float64 `json:"levels"`
	L2       float64   `json:"l2"`
	Sampled  int       `json:"sampled"` // number of copies of every example
}

// glmRow has the penalties at the weights that training with dropout at one level finds.
type glmRow struct {
	R         float64 // exact penalty R over all masks
	Penalties penalties
}

func runGLMPenalty(ctx context.Context, s *Setting) error {
	c := glmConfig{Examples: Pick(s, 200, 1000, 1000), Features: 100, SD: 0.4, Levels: []float64{0.1, 0.3, 0.5, 0.7, 0.9}, L2: 1, Sampled: Pick(s, 100, 1000, 10000)}
	s.Configure(c)
	names := []string{"linear", "logistic", "poisson"}
	rows, err := Cells(ctx, s, len(names)*len(c.Levels), func(ctx context.Context, i int) (any, func() (glmRow, error)) {
		name, level := names[i/len(c.Levels)], c.Levels[i%len(c.Levels)]
		return []any{c, name, level}, func() (glmRow, error) { return c.row(ctx, s.Seed, name, level) }
	})
	if err != nil {
		return err
	}
	t := ResultTable{Title: "Penalties at the weights that dropout training finds", Digits: 4,
		Columns: []string{"model", "level", "R", "R, sampled", "standard error", "R, normal scores", "R_q", "R_q / R"}}
	figure := &simulate.Figure{Title: "The quadratic noising penalty over the exact one", X: "share of the features dropped", Y: "R_q / R"}
	far, off := map[string]float64{}, 0.0 // far: the largest |R_q/R - 1| up to level 1/2; off: the largest distance of R from its sample, in standard errors
	for i, r := range rows {
		name, level, p := names[i/len(c.Levels)], c.Levels[i%len(c.Levels)], r.Penalties
		ratio := p.Quadratic / r.R
		t.Rows = append(t.Rows, []any{name, level, r.R, p.Sampled, p.SampledError, p.Exact, p.Quadratic, ratio})
		if level == c.Levels[0] {
			figure.Series = append(figure.Series, simulate.Series{Name: name, X: c.Levels})
		}
		line := &figure.Series[len(figure.Series)-1]
		line.Y = append(line.Y, ratio)
		if level <= 0.5 || name == "linear" {
			far[name] = max(far[name], math.Abs(ratio-1))
		}
		off = max(off, math.Abs(p.Sampled-r.R)/p.SampledError)
	}
	s.Table(t)
	s.Figure("ratio", figure)
	s.Claim(Claim{Claim: "linear regression: R_q is R", Paper: "section 3: A''(z) = 1", Verdict: Holds(far["linear"] < 1e-12), Ours: fmt.Sprintf("apart by %.1g of R at most, at every level", far["linear"])})
	s.Claim(Claim{Claim: "logistic regression: R_q is accurate, within a tenth of R up to level 0.5", Paper: "section 2.1: \"generally very accurate\"", Verdict: Holds(far["logistic"] < 0.1),
		Ours: fmt.Sprintf("apart by %.1f %% of R at most", 100*far["logistic"]), Why: "scores vary too much"})
	s.Claim(Claim{Own: true, Claim: "Poisson regression: R_q is within a tenth of R up to level 0.5", Verdict: Holds(far["poisson"] < 0.1),
		Ours: fmt.Sprintf("apart by %.1f %% of R at most", 100*far["poisson"]), Why: "the exponential function grows faster than its parabola"})
	s.Claim(Claim{Own: true, Claim: "R of all models is within four standard errors of its estimate from sampled copies", Verdict: Holds(off < 4), Ours: fmt.Sprintf("apart by %.1f at most", off), Why: "one of the two is wrong"})
	s.Note("%d examples with %d features of 0 or 1, drawn once for all models. Training minimizes the expected loss under dropout plus |w|^2.", c.Examples, c.Features)
	s.Note("R is exact over all masks. %d copies of every example measure it again.", c.Sampled)
	return nil
}

// row measures the model with this name at one dropout level.
func (c glmConfig) row(ctx context.Context, seed uint64, name string, level float64) (row glmRow, err error) {
	d := c.draw(seed, loss.LabelsOf(name))
	noise := loss.Dropout{Q: level}
	b := trainConfig()
	b.Loss, b.Noise, b.L2 = name, noise.String(), c.L2
	fit, err := batch.Train(ctx, d, b)
	if err != nil {
		return row, err
	}
	w := fit.Problems[0].W
	p, err := penaltiesOf(d, w, fit.Model.Loss, noise, c.Sampled, seed)
	if err != nil {
		return row, err
	}
	row.Penalties = p
	switch name {
	case "linear":
		row.R = p.Exact
	case "logistic":
		row.R = newExactDropout(d, level, 0, 1).penalty(w)
	default:
		row.R = poissonPenalty(d, w, level)
	}
	return row, nil
}

// poissonPenalty returns the penalty R of Poisson regression, sum E e^f~ - e^f, under dropout that divides the
// survivors by 1 - q. Features are dropped independently, so the expectation is a product over the features.
func poissonPenalty(d *batch.Data, w []float64, q float64) (r float64) {
	for i := range d.Rows() {
		row, mean := d.Row(i), math.Exp(w[d.Columns()])
		for j, c := range row.Index {
			mean *= q + (1-q)*math.Exp(row.At(j)*w[c]/(1-q))
		}
		r += mean - math.Exp(row.Dot(w)+w[d.Columns()])
	}
	return r
}

// draw draws the examples. The features are the same for every kind of response.
func (c glmConfig) draw(seed uint64, target loss.Target) *batch.Data {
	schema := event.NewSchema(8, []string{"0", "1"}, 2)
	if schema.Target = target; target != loss.Sign {
		schema.Classes = nil
	}
	r, response := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	w := make([]float64, c.Features)
	for j := range w {
		w[j] = c.SD * r.NormFloat64()
	}
	var b batch.Builder
	for range c.Examples {
		e, f := event.Example{Weight: 1}, 0.5
		for j := range w {
			if r.Float64() < 1/(2+float64(j)/5) {
				e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(j)), append(e.Features.Value, 1)
				f += w[j]
			}
		}
		switch target {
		case loss.Real:
			e.Target = f + response.NormFloat64()
		case loss.Count:
			for at := response.ExpFloat64(); at < math.Exp(f); at += response.ExpFloat64() {
				e.Target++
			}
		default:
			if response.Float64() < 1/(1+math.Exp(-f)) {
				e.Label = 1
			}
		}
		add(&b, &e)
	}
	return b.Data(schema)
}
