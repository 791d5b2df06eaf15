package papers

import (
	"context"
	"fmt"
	"math"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/simulate"
)

// quadraticPenalty compares the quadratic noising penalty R_q with the penalty R that it approximates. It compares
// them for normal noise on the score, and during the training of a text classifier with the exact penalty.
var quadraticPenalty = Experiment{
	Name:  "quadratic-penalty",
	Help:  "how well the quadratic noising penalty approximates the exact one",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "figure 1",
	Needs: []string{"news_athr"},
	Run:   runQuadraticPenalty,
}

type penaltyConfig struct {
	Means      []float64 `json:"means"` // mean probabilities p of figure 1a
	LargestSD  float64   `json:"largest_sd"`
	Levels     []float64 `json:"levels"`
	L2         float64   `json:"l2"`
	Iterations int       `json:"iterations"`
	Sampled    int       `json:"sampled"` // number of copies of every example, for a sampled estimate of R
	Examples   int       `json:"examples"`
}

// penaltyTrace is the state of training after an iteration.
type penaltyTrace struct {
	Iteration int
	R         float64 // exact penalty, see exactDropout
	Penalties penalties
	LogLoss   float64 // negative log-likelihood of the clean training set
	Confident float64 // fraction of the examples with p outside [0.1, 0.9]
	Deviation float64 // square root of the mean variance of the noisy scores
}

func runQuadraticPenalty(ctx context.Context, s *Setting) error {
	c := penaltyConfig{Means: []float64{0.5, 0.73, 0.82, 0.88, 0.95}, LargestSD: 1.5, Levels: []float64{0.5, 0.9}, L2: 1e-6,
		Iterations: Pick(s, 12, 150, 500), Sampled: Pick(s, 20, 100, 1000)}
	s.penaltyOfScores(c)
	unigrams, err := s.unigrams("news_athr", newsAthRUnigrams)
	if err != nil {
		return err
	}
	schema := Binary()
	documents, err := s.examples(ctx, schema, "news_athr", func(e *event.Example) { presence(e, unigrams) }, "train.svm.gz")
	if err != nil {
		return err
	}
	d := dataOf(schema, documents)
	c.Examples = d.Rows()
	s.Configure(c)
	s.Expect(len(c.Levels))
	equal := ResultTable{Title: "R_q / R where the negative log-likelihood has the values of figure 1b's axis", Digits: 2, Columns: []string{"negative log-likelihood"}}
	for _, at := range penaltyAxis {
		equal.Rows = append(equal.Rows, []any{at})
	}
	for _, level := range c.Levels {
		trace, err := s.alongTraining(ctx, d, c, level)
		if err != nil {
			return err
		}
		equal.Columns = append(equal.Columns, loss.Dropout{Q: level}.String())
		for i, at := range penaltyAxis {
			equal.Rows[i] = append(equal.Rows[i], ratioAt(trace, at))
		}
	}
	s.Table(equal)
	s.Note("Unigrams of AthR by presence, the earlier part by date: %d examples, %d features (the paper: 1000 and 22,000). The paper does not print its noise level, so two are shown.", d.Rows(), d.Columns())
	s.Note("Claims about figure 1b compare at equal negative log-likelihood, on the logarithmic scale of its axis, from n log 2 to 10. By then most training examples have p outside 0.1 to 0.9, where R_q is too small, as the paper says.")
	s.Note("R is exact over all masks. %d copies of every example measure it again.", c.Sampled)
	s.Note("R by normal scores fails at dropout:0.9: a document keeps too few words for its score to be normal.")
	return nil
}

// alongTraining computes figure 1b for one noise level.
func (s *Setting) alongTraining(ctx context.Context, d *batch.Data, c penaltyConfig, level float64) ([]penaltyTrace, error) {
	noise := loss.Dropout{Q: level}
	name := noise.String()
	trace, err := Cell(ctx, s, []any{c, name}, func() ([]penaltyTrace, error) { return s.tracePenalty(ctx, d, c, noise) })
	if err != nil {
		return nil, err
	}
	t := ResultTable{Detail: true, Title: "Penalties along training on AthR with " + name, Digits: 2,
		Columns: []string{"quasi-Newton steps", "R", "R, sampled", "standard error", "R, normal scores", "R_q", "R_q / R", "negative log-likelihood", "confident examples, %", "sd of the scores"}}
	lines := []simulate.Series{{Name: "R"}, {Name: "R, normal scores"}, {Name: "R_q", Dashed: true}, {Name: "negative log-likelihood"}}
	for _, p := range trace {
		k := p.Penalties
		t.Rows = append(t.Rows, []any{p.Iteration, p.R, k.Sampled, k.SampledError, k.Exact, k.Quadratic, k.Quadratic / p.R, p.LogLoss, 100 * p.Confident, p.Deviation})
		for i, y := range []float64{p.R, k.Exact, k.Quadratic, p.LogLoss} {
			lines[i].X, lines[i].Y = append(lines[i].X, float64(p.Iteration)), append(lines[i].Y, y)
		}
	}
	s.Table(t)
	s.Figure(fmt.Sprintf("training-%g", level), &simulate.Figure{Title: "Training on AthR with " + name, X: "quasi-Newton steps", Y: "sum over the training set", LogX: true, LogY: true, Series: lines})
	last := trace[len(trace)-1]
	start, end := float64(d.Rows())*math.Ln2, penaltyAxis[len(penaltyAxis)-1]
	until := nearUntil(trace, start, end)
	way := math.Log(start/until) / math.Log(start/end)
	s.Claim(Claim{Claim: name + ": R_q is within a quarter of R most of the way", Paper: "figure 1b: \"accurate most of the way\"", Verdict: Holds(way > 0.5),
		Ours: fmt.Sprintf("until NLL %.0f, %.0f %% of the way from %.0f to %g", until, 100*way, start, end), Why: "it leaves earlier, as predictions become confident"})
	ratio := math.Round(100*ratioAt(trace, end)) / 100 // rounded as printed
	s.Claim(Claim{Claim: fmt.Sprintf("%s: R_q is still half of R or more at an NLL of %g", name, end), Paper: "figure 1b: \"only deteriorating slightly\"", Verdict: Holds(ratio >= 0.5),
		Ours: fmt.Sprintf("R_q / R = %.2f", ratio), Why: "most training examples are predicted with p outside 0.1 to 0.9 by then, where R_q is too small, as the paper says itself"})
	gap := last.Penalties.Exact / last.R
	s.Claim(Claim{Own: true, Claim: name + ": R by normal scores is within a quarter of R at the end", Ours: fmt.Sprintf("%.2f of it", gap), Verdict: Holds(gap > 0.8 && gap < 1.25), Why: "the scores are sums of too few words that are left"})
	return trace, nil
}

// penaltyAxis has the numbers on the vertical axis of figure 1b.
var penaltyAxis = []float64{500, 200, 100, 50, 20, 10}

// ratioAt returns R_q / R at the first point of training with the negative log-likelihood at. Between two steps it
// interpolates the logarithms.
func ratioAt(trace []penaltyTrace, at float64) float64 {
	ratio := func(p penaltyTrace) float64 { return p.Penalties.Quadratic / p.R }
	for i, p := range trace {
		if p.LogLoss > at {
			continue
		}
		if i == 0 {
			return ratio(p)
		}
		before := trace[i-1]
		fraction := math.Log(before.LogLoss/at) / math.Log(before.LogLoss/p.LogLoss)
		return math.Exp((1-fraction)*math.Log(ratio(before)) + fraction*math.Log(ratio(p)))
	}
	return ratio(trace[len(trace)-1])
}

// nearUntil returns the negative log-likelihood, as it falls from start to end, at which R_q first differs from R by
// more than a quarter. The result is accurate to 1 %.
func nearUntil(trace []penaltyTrace, start, end float64) float64 {
	until := start
	for at := start; at > end && math.Abs(math.Log(ratioAt(trace, at))) < math.Log(1.25); at *= 0.99 {
		until = at
	}
	return until
}

// newsAthRUnigrams is the number of unigrams of AthR in the embedded samples.
const newsAthRUnigrams = 17547

// presence replaces word counts by 1. It keeps only the first columns, which are the unigrams.
func presence(e *event.Example, columns uint32) {
	x := &e.Features
	n := 0
	for n < len(x.Index) && x.Index[n] < columns {
		x.Value[n] = 1
		n++
	}
	x.Index, x.Value, e.Field = x.Index[:n], x.Value[:n], nil
}

// penaltyOfScores computes figure 1a. It uses scores with mean probability p under normal noise of increasing
// deviation.
func (s *Setting) penaltyOfScores(c penaltyConfig) {
	t := ResultTable{Detail: true, Title: "Penalties of a score with normal noise", Columns: []string{"p", "sd", "R", "R_q", "R_q / R"}, Digits: 4}
	figure := &simulate.Figure{Title: "Penalty of a score with normal noise (dashed: R_q)", X: "standard deviation of the score", Y: "penalty"}
	var ratio []float64 // ratios at sd 1
	for i, p := range c.Means {
		f := math.Log(p / (1 - p))
		exact := simulate.Series{Name: fmt.Sprintf("p = %.2f", p), Form: simulate.BareLine, Color: i + 1}
		quadratic := simulate.Series{Form: simulate.BareLine, Color: i + 1, Dashed: true}
		for k := range 31 {
			sd := c.LargestSD * float64(k) / 30
			r, q := noisingPenalty(f, sd)
			exact.X, exact.Y = append(exact.X, sd), append(exact.Y, r)
			quadratic.X, quadratic.Y = append(quadratic.X, sd), append(quadratic.Y, q)
			if k > 0 && k%10 == 0 {
				t.Rows = append(t.Rows, []any{p, sd, r, q, q / r})
			}
		}
		figure.Series = append(figure.Series, exact, quadratic)
		r, q := noisingPenalty(f, 1)
		ratio = append(ratio, q/r)
	}
	s.Table(t)
	s.Figure("scores", figure)
	last := len(c.Means) - 1
	s.Claim(Claim{Claim: fmt.Sprintf("R_q overestimates R at p = %.2f", c.Means[0]), Paper: "by a little", Ours: fmt.Sprintf("R_q / R = %.3f at sd 1", ratio[0]), Verdict: Holds(ratio[0] > 1)})
	s.Claim(Claim{Claim: fmt.Sprintf("R_q underestimates R of a confident prediction, p = %.2f", c.Means[last]), Paper: "by a little", Ours: fmt.Sprintf("R_q / R = %.3f at sd 1", ratio[last]), Verdict: Holds(ratio[last] < 1)})
}

// noisingPenalty returns R = E A(f~) - A(f) and its quadratic approximation R_q = A2(f) sd^2/2 for the logistic model
// and f~ ~ N(f, sd^2). A2 is the second derivative of A.
func noisingPenalty(f, sd float64) (r, q float64) {
	v := sd * sd
	a, _, _ := loss.LogisticGaussian{}.At(1, f, v)
	a0, _, _ := loss.LogisticGaussian{}.At(1, f, 0)
	b, _, _ := loss.LogisticQuadratic{}.At(1, f, v)
	b0, _, _ := loss.LogisticQuadratic{}.At(1, f, 0)
	return a - a0, b - b0
}

// traced passes only the value and the gradient of an objective to Solve. It stores the point of the last evaluation.
type traced struct {
	batch.Objective
	w []float64
}

func (t *traced) ValueGrad(w, grad []float64) float64 {
	t.w = append(t.w[:0], w...)
	return t.Objective.ValueGrad(w, grad)
}

func (s *Setting) tracePenalty(ctx context.Context, d *batch.Data, c penaltyConfig, noise loss.Dropout) ([]penaltyTrace, error) {
	o := newExactDropout(d, noise.Q, c.L2, s.Threads)
	steps := map[int]bool{}
	for n := 1; n <= c.Iterations; n += max(1, n/4) {
		steps[n] = true
	}
	steps[c.Iterations] = true
	t := &traced{Objective: o}
	var trace []penaltyTrace
	var failed error
	_, err := batch.Solve(ctx, t, batch.Options{Solver: batch.LBFGS, Tol: 1e-12, MaxIterations: c.Iterations, Progress: func(p batch.Progress) {
		if !steps[p.Iteration] || failed != nil {
			return
		}
		s.Say("step %d of %d", p.Iteration, c.Iterations)
		var at penaltyTrace
		if at, failed = penaltiesAt(d, t.w, noise, c.Sampled, s.Seed); failed == nil {
			at.Iteration, at.R = p.Iteration, o.penalty(t.w)
			trace = append(trace, at)
		}
	}})
	if err == nil {
		err = failed
	}
	return trace, err
}

func penaltiesAt(d *batch.Data, w []float64, noise loss.Noise, copies int, seed uint64) (penaltyTrace, error) {
	p, err := penaltiesOf(d, w, "logistic", noise, copies, seed)
	if err != nil {
		return penaltyTrace{}, err
	}
	t := penaltyTrace{Penalties: p}
	variance := 0.0
	for i := range d.Rows() {
		row := d.Row(i)
		f := row.Dot(w) + w[d.Columns()]
		m, _, _ := loss.LogisticGaussian{}.At(float64(2*d.Label(i)-1), f, 0)
		t.LogLoss += m
		if math.Abs(f) > math.Log(9) {
			t.Confident += 1 / float64(d.Rows())
		}
		for j, c := range row.Index {
			variance += w[c] * w[c] * varianceOf(noise, row.At(j))
		}
	}
	t.Deviation = math.Sqrt(variance / float64(d.Rows()))
	return t, nil
}
