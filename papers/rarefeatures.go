package papers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/simulate"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// rareFeatures has rare but useful features and many useless features. It compares dropout with an L2 penalty. The data
// follow the paper's appendix, which can be read in two ways.
var rareFeatures = Experiment{
	Name:  "rare-features",
	Help:  "dropout and L2 where 50 rare features are useful and 1000 are not",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "table 3",
	Run:   runRareFeatures,
}

// rareConfig describes the simulation. Every feature has the same second moment. There are 25 kinds of examples. Each
// of five kinds has a signal in its own 10 features, whose values are plus or minus an exponential variable. The labels
// follow a logistic model. Its weights are Beta on the useful features and 0 on all other features.
type rareConfig struct {
	Kinds    int       `json:"kinds"`
	Groups   int       `json:"groups"` // number of groups of useful features
	Group    int       `json:"group"`  // number of features in a group
	Nuisance int       `json:"nuisance"`
	Beta     float64   `json:"beta"`
	Train    int       `json:"train"`
	Test     int       `json:"test"`
	Runs     int       `json:"runs"`
	Lambdas  []float64 `json:"lambdas"` // candidates for lambda in lambda/2 |w|^2
	Levels   []float64 `json:"levels"`  // candidate dropout levels
}

// The parameters in the paper's appendix.
const rareLambda, rareLevel = 32, 0.9

// rareScore is the accuracy of a fit on the examples with a signal and on all examples, and the final objective.
type rareScore struct{ Active, All, J float64 }

// rareMethods are the rows of the tables, with their solver and their penalty l2 |w|^2. If l2 is 0, every solver
// diverges with the quadratic penalty, because there are fewer examples than features, and the penalty is not convex:
// it vanishes if every prediction is confident. J approaches 0 and the weights grow until the tolerance is reached, at
// a point that depends on the path. If l2 is 0.01, a minimum exists, and all solvers find it.
var rareMethods = []struct {
	name, bound string
	solver      batch.Solver
	l2          float64
	paper       [2]any
}{
	{"L2", "gaussian", "", 0, [2]any{0.66, 0.53}},
	{rareQuadratic + ", L-BFGS", "quadratic-noising", batch.LBFGS, rareL2, [2]any{0.73, 0.55}},
	{rareQuadratic + ", IRLS from zero", "quadratic-noising", batch.IRLS, rareL2, [2]any{0.73, 0.55}},
	{rareQuadratic + ", L-BFGS, with an L2 penalty", "quadratic-noising", batch.LBFGS, 0.01, [2]any{}},
	{"dropout, normal expectation", "gaussian", "", rareL2, [2]any{}},
}

const (
	rareQuadratic = "dropout, quadratic penalty"
	rareL2        = 1e-6 // keeps the weights finite
	rarePaper     = 2    // methods 1 to rarePaper are in the paper
)

// rareDraws are the two readings of the appendix. Either the features of a group share one draw of the exponential
// variable, or each feature has its own draw.
var rareDraws = []string{"one draw for the ten features of a group", "a draw for each feature"}

func runRareFeatures(ctx context.Context, s *Setting) error {
	c := rareConfig{Kinds: 25, Groups: 5, Group: 10, Nuisance: Pick(s, 100, 1000, 1000), Beta: 0.057, Train: 75, Test: Pick(s, 200, 1000, 10000), Runs: Pick(s, 4, 100, 1000),
		Lambdas: Pick(s, []float64{32, 512}, []float64{0.01, 1, 32, 512, 8192, 131072, 2097152}, []float64{0.01, 0.1, 1, 8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288, 2097152}),
		Levels:  Pick(s, []float64{0.5, 0.9}, []float64{0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.99, 0.995}, []float64{0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998})}
	s.Configure(c)
	// all has the scores by run, method and parameter.
	all, err := Cells(ctx, s, len(rareDraws)*c.Runs, func(_ context.Context, i int) (any, func() ([][]rareScore, error)) {
		key := struct {
			rareConfig
			Run  int    `json:"run"`
			Draw string `json:"draw"`
		}{c, i % c.Runs, rareDraws[i/c.Runs]}
		key.Runs = 0 // a run does not depend on the number of runs
		return key, func() ([][]rareScore, error) { return c.run(ctx, s.Seed, i%c.Runs, i/c.Runs == 0) }
	})
	if err != nil {
		return err
	}
	for i, how := range rareDraws {
		c.report(s, how, i, all[i*c.Runs:(i+1)*c.Runs])
	}
	s.Note("%d runs, each with %d training examples drawn as in the paper's appendix (%d kinds of examples, of which %d have a signal; weights %g) and %d test examples. No intercept. A constant answer has an accuracy of 0.5.",
		c.Runs, c.Train, c.Kinds, c.Groups, c.Beta, c.Test)
	s.Note("The appendix has two readings. With one exponential draw for the ten features of a group, L2 and IRLS are within 0.02 of the paper at its parameters. With ten draws, examples with a signal are five to nine points higher.")
	s.Note("Verdicts are Student's test of the differences by run, at the paper's parameters (lambda %d, level %g) and at those that are best on half of the runs, measured on the others.", rareLambda, rareLevel)
	return nil
}

// at returns the candidate parameters of a method.
func (c rareConfig) at(method int) []float64 {
	if method == 0 {
		return c.Lambdas
	}
	return c.Levels
}

// run draws the training and test sets of one run and returns the score of every fit.
func (c rareConfig) run(ctx context.Context, seed uint64, run int, shared bool) ([][]rareScore, error) {
	r := rand.New(rand.NewPCG(seed, uint64(run)))
	train, _ := c.draw(r, c.Train, shared)
	test, active := c.draw(r, c.Test, shared)
	out := make([][]rareScore, len(rareMethods))
	for m, method := range rareMethods {
		for _, x := range c.at(m) {
			b := trainConfig()
			b.Bound, b.Solver, b.L2, b.Intercept, b.Tol = method.bound, method.solver, method.l2, batch.NoIntercept, 1e-4
			if m == 0 {
				b.L2 = x / 2
			} else {
				b.Noise = loss.Dropout{Q: x}.String()
			}
			f, err := batch.Train(ctx, train, b)
			if err != nil {
				return nil, err
			}
			var right, of [2]float64
			for i := range test.Rows() {
				// Every kind of example occurs in both sets, so their columns are the same.
				score := test.Row(i).Dot(f.Problems[0].W)
				a := 0
				if active[i] {
					a = 1
				}
				if of[a]++; (score > 0) == (test.Label(i) == 1) {
					right[a]++
				}
			}
			out[m] = append(out[m], rareScore{right[1] / of[1], (right[0] + right[1]) / (of[0] + of[1]), f.Objective})
		}
	}
	return out, nil
}

// draw returns n examples, with the kinds in turn. It also reports which examples have a signal.
func (c rareConfig) draw(r *rand.Rand, n int, shared bool) (*batch.Data, []bool) {
	var b batch.Builder
	active := make([]bool, n)
	// E x^2 = 2 scale^2 / kinds = 1
	scale := math.Sqrt(float64(c.Kinds) / 2)
	useful := c.Groups * c.Group
	for i := range n {
		var x event.Vec
		kind, sign := i%c.Kinds, float64(2*r.IntN(2)-1)
		f := 0.0
		if active[i] = kind < c.Groups; active[i] {
			v := sign * scale * r.ExpFloat64()
			for j := range c.Group {
				if j > 0 && !shared {
					v = sign * scale * r.ExpFloat64()
				}
				x.Index, x.Value = append(x.Index, uint32(kind*c.Group+j)), append(x.Value, v)
				f += c.Beta * v
			}
		}
		for j := range c.Nuisance {
			x.Index, x.Value = append(x.Index, uint32(useful+j)), append(x.Value, r.NormFloat64())
		}
		e := event.Example{Features: x, Weight: 1, Offset: int64(i)}
		if r.Float64() < 1/(1+math.Exp(-f)) {
			e.Label = 1
		}
		add(&b, &e)
	}
	return b.Data(Binary()), active
}

// rareParts are the rows of the paper's table.
var rareParts = []struct {
	name string
	of   func(rareScore) float64
}{
	{"on examples with a signal", func(r rareScore) float64 { return r.Active }},
	{"on all examples", func(r rareScore) float64 { return r.All }},
}

// report reports the results under one reading of the appendix. Reading 0 is the paper's.
func (c rareConfig) report(s *Setting, how string, reading int, runs [][][]rareScore) {
	accuracies := func(runs [][][]rareScore, method, parameter, part int) []float64 {
		return mapped(runs, func(r [][]rareScore) float64 { return rareParts[part].of(r[method][parameter]) })
	}
	best := func(runs [][][]rareScore, method int) int {
		return Least(len(c.at(method)), nil, func(i int) Held { return Held{Loss: -stat.Mean(accuracies(runs, method, i, 0), nil)} })
	}
	short := ResultTable{Detail: reading != 0, Title: "Accuracy at the paper's parameters and at the best: " + how, Digits: 3, Columns: []string{"method", "parameter", "examples with a signal", "half width", "paper", "all examples", "half width", "paper", "log10 of J at the end"}}
	long := ResultTable{Detail: true, Title: "Accuracy at every parameter: " + how, Digits: 3, Columns: []string{"method", "parameter", "examples with a signal", "all examples", "log10 of J at the end"}}
	dropouts := &simulate.Figure{Title: "Dropout: accuracy on examples with a signal", X: "dropout level", Y: "accuracy"}
	l2s := &simulate.Figure{Title: "L2: accuracy on examples with a signal", X: "lambda", Y: "accuracy", LogX: true}
	for m, method := range rareMethods {
		name, papers, figure := "level", rareLevel, dropouts
		if m == 0 {
			name, papers, figure = "lambda", rareLambda, l2s
		}
		line := simulate.Series{Name: method.name, X: c.at(m), Color: m + 1}
		for i, x := range c.at(m) {
			d := pairedT(accuracies(runs, m, i, 0))
			plot(&line, d)
			a := pairedT(accuracies(runs, m, i, 1))
			j := 0.0
			for _, r := range runs {
				j += math.Log10(r[m][i].J) / float64(len(runs))
			}
			long.Rows = append(long.Rows, []any{method.name, fmt.Sprintf("%s %g", name, x), d.Mean, a.Mean, j})
			if i == best(runs, m) || x == papers {
				short.Rows = append(short.Rows, []any{method.name, fmt.Sprintf("%s %g", name, x), d.Mean, d.High - d.Mean, method.paper[0], a.Mean, a.High - a.Mean, method.paper[1], j})
			}
		}
		figure.Series = append(figure.Series, line)
	}
	s.Table(short)
	s.Table(long)
	l2 := stat.Mean(accuracies(runs, 0, best(runs, 0), 0), nil)
	dropouts.Series = append(dropouts.Series, simulate.Series{Name: "best L2", Form: simulate.BareLine, Dashed: true, Color: 1, X: []float64{c.Levels[0], c.Levels[len(c.Levels)-1]}, Y: []float64{l2, l2}})
	s.Figure([]string{"dropout", "dropout-each"}[reading], dropouts)
	s.Figure([]string{"l2", "l2-each"}[reading], l2s)

	// against compares a method with the L2 penalty on one part of the examples. By default both use the paper's
	// parameters. If chosen is set, both use the parameters that are best on the first half of the runs, and the
	// comparison is on the second half.
	half := len(runs) / 2
	against := func(m, part int, chosen bool) (Difference, string) {
		i, j, over := slices.Index(c.Lambdas, rareLambda), slices.Index(c.Levels, rareLevel), runs
		if chosen {
			i, j, over = best(runs[:half], 0), best(runs[:half], m), runs[half:]
		}
		a, b := accuracies(over, m, j, part), accuracies(over, 0, i, part)
		return pairedT(scaled(floats.SubTo(make([]float64, len(a)), a, b), 100)), fmt.Sprintf("%.3f (level %g) against %.3f (lambda %g)", stat.Mean(a, nil), c.Levels[j], stat.Mean(b, nil), c.Lambdas[i])
	}
	for part, p := range rareParts {
		if reading != 0 {
			break
		}
		for k, where := range []string{"at the paper's parameters", "at the best parameters"} {
			claim := Claim{Claim: fmt.Sprintf("dropout by R_q beats L2 %s, %s, by either solver", p.name, where), Unit: "points", Why: "it depends on the solver: every one runs off, and the path decides",
				Paper: []string{"table 3: 0.73 against 0.66", "table 3: 0.55 against 0.53"}[part]}
			for m := 1; m <= rarePaper; m++ {
				d, text := against(m, part, k == 1)
				claim.Parts = append(claim.Parts, above(strings.TrimPrefix(rareMethods[m].name, rareQuadratic+", ")+" "+text, d, 0).against([]float64{7, 2}[part], 1))
			}
			s.Claim(claim)
		}
	}
	for m := 1; m < len(rareMethods); m++ {
		if m > rarePaper || reading != 0 {
			d, text := against(m, 0, true)
			s.Claim(Claim{Claim: fmt.Sprintf("%s is more accurate than L2 %s, at the best parameters", rareMethods[m].name, rareParts[0].name), Where: how, Own: true, Parts: []Part{above("", d, 0)}, Unit: "points", Ours: text, Why: "it is less accurate"})
		}
	}
	if reading == 0 {
		level := slices.Index(c.Levels, rareLevel)
		solved := func(m int) float64 { return stat.Mean(accuracies(runs, m, level, 0), nil) }
		s.Note("The quadratic penalty vanishes if every prediction is confident, so no solver finds a minimum: J falls from %d log 2 to the value in column J. The accuracy depends on where a solver stops: at level %g IRLS from zero has %.3f, L-BFGS (the paper's) %.3f, and both with an L2 penalty of 0.01 |w|^2 %.3f.", c.Train, rareLevel, solved(2), solved(1), solved(3))
	}
}

// meanError returns the mean of x and its standard error.
func meanError(x []float64) (mean, e float64) {
	mean, deviation := stat.MeanStdDev(x, nil)
	if len(x) < 2 {
		return mean, 0
	}
	return mean, stat.StdErr(deviation, float64(len(x)))
}
