package joint_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"blankout"
	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/batch/joint"
	"blankout/model"
	"blankout/online"
)

// here is parts in this process.
type here []*joint.Part

func (h here) Ask(ctx context.Context, q *joint.Question) ([]*joint.Answer, error) {
	out, errs := make([]*joint.Answer, len(h)), make([]error, len(h))
	batch.Parallel(len(h), len(h), func(i int) { out[i], errs[i] = h[i].Answer(ctx, q) })
	return out, errors.Join(errs...)
}

// parts cuts events into parts and has each join the columns of all, which it returns by
// part.
func parts(t *testing.T, live *model.Linear, all []blankout.Example, c batch.ValidateConfig, of func(i int, e *blankout.Example) int, n int) (here, [][]uint32) {
	t.Helper()
	evidence := make([]*batch.Evidence, n)
	for k := range evidence {
		evidence[k] = batch.NewEvidence(live)
	}
	for i := range all {
		if err := evidence[of(i, &all[i])].Learned(&all[i], all[i].Weight); err != nil {
			t.Fatal(err)
		}
	}
	var out here
	var own [][]uint32
	rows := 0
	for _, v := range evidence {
		p, err := joint.NewPart(v, c)
		if err != nil {
			t.Fatal(err)
		}
		out, own, rows = append(out, p), append(own, p.Columns()), rows+p.Rows()
	}
	if rows != len(all) {
		t.Errorf("the parts have %d rows of %d", rows, len(all))
	}
	for _, p := range out {
		if err := p.Join(joint.Union(own)); err != nil {
			t.Fatal(err)
		}
	}
	return out, own
}

// Events in parts have the exact solution that they have together.
func TestJoint(t *testing.T) {
	adultSchema, adult := problems.Events(t, "../testdata/adult.svm.gz")
	severalSchema, more := problems.Several(4, 800)
	for _, tt := range []struct {
		name   string
		schema *blankout.Schema
		all    []blankout.Example
		change func(*online.Config)
		cut    func(i int, e *blankout.Example) int
	}{
		{"logistic, dropout", adultSchema, adult, func(*online.Config) {}, func(i int, _ *blankout.Example) int { return i % 4 }},
		{"logistic, no noise", adultSchema, adult, func(c *online.Config) { c.Noise = "none" }, func(i int, _ *blankout.Example) int { return i % 4 }},
		{"parts of one class", adultSchema, adult, func(*online.Config) {}, func(_ int, e *blankout.Example) int { return 2 * e.Label }}, // two are empty
		{"hinge, dropout", adultSchema, adult, func(c *online.Config) { c.Loss = "hinge" }, func(i int, _ *blankout.Example) int { return min(i/10, 3) }},
		{"squared hinge, Poisson", adultSchema, adult, func(c *online.Config) {
			c.Loss, c.Noise, c.Standardise = "squared-hinge", "poisson", string(model.StandardiseNone)
		}, func(i int, _ *blankout.Example) int { return i % 4 }},
		{"groups", severalSchema, more, func(c *online.Config) { c.Noise = "dropout:0.1+group:0.3" }, func(i int, _ *blankout.Example) int { return i % 4 }},
		{"four classes", severalSchema, more, func(*online.Config) {}, func(_ int, e *blankout.Example) int { return e.Label % 4 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := online.DefaultConfig()
			config.Noise = "dropout:0.3"
			tt.change(&config)
			learner, err := online.New(config, tt.schema)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tt.all {
				learner.Learn(&tt.all[i])
			}
			live := learner.Snapshot().Model()
			c := batch.DefaultValidateConfig()
			c.Loss, c.Noise, c.Tol = live.Loss, live.Noise, 1e-10
			whole := batch.NewEvidence(live)
			for i := range tt.all {
				if err := whole.Learned(&tt.all[i], tt.all[i].Weight); err != nil {
					t.Fatal(err)
				}
			}
			want, err := whole.Exact(t.Context(), live, c)
			if err != nil {
				t.Fatal(err)
			}
			cut, own := parts(t, live, tt.all, c, tt.cut, 4)
			got, err := joint.Solve(t.Context(), live, cut, own, c)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d iterations, %d rounds, objective %.14g, gap %.2g", got.Iterations, got.Rounds, got.Objective, got.Gap)
			if !got.Converged || !(got.Gap <= 4e-10*got.Objective) {
				t.Errorf("gap %v of %v", got.Gap, got.Objective)
			}
			if math.Abs(got.Objective-want.Objective) > 1e-9*want.Objective || math.Abs(got.Live-want.Live) > 1e-12*want.Live {
				t.Errorf("objectives %.14g and %.14g, together %.14g and %.14g", got.Live, got.Objective, want.Live, want.Objective)
			}
			if got.Outputs != want.Outputs || got.Noise != live.Noise || got.Loss != want.Loss {
				t.Errorf("%+v", got.Head)
			}
			size, apart := 0.0, 0.0
			for k := range got.Outputs {
				for i := range want.Rows.Len() {
					column, _ := want.Rows.Column(i)
					a, b := got.Weight(column, k), want.Weight(column, k)
					size, apart = size+b*b, apart+(a-b)*(a-b)
				}
			}
			if !(apart <= 1e-8*size) {
				t.Errorf("weights are %v apart, of %v", math.Sqrt(apart), math.Sqrt(size))
			}
			// Again: the same bits, whatever else the parts were asked meanwhile.
			again, err := joint.Solve(t.Context(), live, cut, own, c)
			if err != nil || math.Float64bits(again.Objective) != math.Float64bits(got.Objective) || again.Rounds != got.Rounds {
				t.Errorf("again: %.17g in %d rounds, %.17g in %d; %v", again.Objective, again.Rounds, got.Objective, got.Rounds, err)
			}
			// The certificate holds far from the minimum too, and so do gradient and curvature.
			both, ok, err := joint.New(t.Context(), cut, own, 0, c)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			w := make([]float64, both.Dim())
			for i := range w {
				w[i] = math.Sin(float64(3 * i))
			}
			checkDerivatives(t, both, w)
			gap := both.Gap(w) // may move the intercept, and is that of where it is then
			if again := both.Gap(w); math.Abs(again-gap) > 1e-6*gap {
				t.Errorf("the certificate is %v, and %v where the intercept does not move", gap, again)
			}
			best, err := batch.Solve(t.Context(), both, batch.Options{Tol: 1e-10})
			if err != nil || both.Err() != nil {
				t.Fatal(err, both.Err())
			}
			if above := both.ValueGrad(w, nil) - best.Objective; !(gap >= above*(1-1e-9)) {
				t.Errorf("the certificate is %v, %v above the minimum", gap, above)
			}
		})
	}
}

// checkDerivatives compares gradient, Hessian and the values along a line with differences.
func checkDerivatives(t *testing.T, j *joint.Objective, w []float64) {
	t.Helper()
	n := j.Dim()
	d, grad, up, down, hd := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range d {
		d[i] = math.Cos(float64(5 * i))
	}
	at := func(h float64, grad []float64) float64 {
		u := slices.Clone(w)
		for i := range u {
			u[i] += h * d[i]
		}
		return j.ValueGrad(u, grad)
	}
	const h = 1e-5
	above, below := at(h, up), at(-h, down)
	value := at(0, grad)
	j.HessVec(d, hd)
	slope := batch.Dot(grad, d)
	if numeric := (above - below) / (2 * h); math.Abs(slope-numeric) > 1e-5*(1+math.Abs(slope)) {
		t.Errorf("slope %v, differences say %v", slope, numeric)
	}
	size, apart := 0.0, 0.0
	for i := range hd {
		numeric := (up[i] - down[i]) / (2 * h)
		size, apart = size+hd[i]*hd[i], apart+(hd[i]-numeric)*(hd[i]-numeric)
	}
	if apart > 1e-4*size { // the hinge's curvature jumps at its kink
		t.Errorf("Hessian times d is %v apart from differences, of %v", math.Sqrt(apart), math.Sqrt(size))
	}
	along := j.Line(d)
	if v, s, _ := along(0); math.Abs(v-value) > 1e-12*value || math.Abs(s-slope) > 1e-9*math.Abs(slope) {
		t.Errorf("the line begins with %v and %v, not %v and %v", v, s, value, slope)
	}
	if v, _, _ := along(h); math.Abs(v-above) > 1e-12*above {
		t.Errorf("on the line %v, not %v", v, above)
	}
}

// silent is parts that stop answering.
type silent struct {
	here
	left int
}

func (s *silent) Ask(ctx context.Context, q *joint.Question) ([]*joint.Answer, error) {
	if s.left--; s.left < 0 {
		return nil, errors.New("the line is dead")
	}
	return s.here.Ask(ctx, q)
}

// What a part cannot answer ends the solution with its error, and what it is asked wrongly
// is an error.
func TestJointErrors(t *testing.T) {
	schema, all := problems.Several(2, 200)
	learner, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		learner.Learn(&all[i])
	}
	live := learner.Snapshot().Model()
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise = live.Loss, live.Noise
	half := func(i int, _ *blankout.Example) int { return i / 100 }
	for left := range 12 {
		cut, own := parts(t, live, all, c, half, 2)
		if _, err := joint.Solve(t.Context(), live, &silent{cut, left}, own, c); err == nil || !strings.Contains(err.Error(), "the line is dead") {
			t.Errorf("after %d answers: %v", left, err)
		}
	}
	cut, own := parts(t, live, all, c, half, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := joint.Solve(ctx, live, cut, own, c); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	for what, q := range map[string]joint.Question{
		"no such question":      {Ask: 99},
		"an output too many":    {Ask: joint.AskLabels, Output: 1},
		"a number too few":      {Ask: joint.AskGradient, W: make([]float64, 21)},
		"no vector":             {Ask: joint.AskHessian},
		"a vector too short":    {Ask: joint.AskHessian, W: make([]float64, 5)},
		"along no line":         {Ask: joint.AskAlong, Scalars: []float64{1}},
		"a negative output":     {Ask: joint.AskLabels, Output: -1},
		"numbers without a use": {Ask: joint.AskLabels, Scalars: []float64{1}},
	} {
		if _, err := cut[0].Answer(t.Context(), &q); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	one := slices.DeleteFunc(slices.Clone(all), func(e blankout.Example) bool { return e.Label == 1 })
	cut, own = parts(t, live, one, c, func(i int, _ *blankout.Example) int { return i % 2 }, 2)
	if _, err := joint.Solve(t.Context(), live, cut, own, c); !errors.Is(err, batch.ErrOneClass) {
		t.Errorf("one class: %v", err)
	}
	for _, test := range []struct{ loss, noise, want string }{
		{"logistic", "gaussian:0.1", "absent"},
		{"squared", "none", "classes only"},
		{"hinge", "none", "kink"},
		{"hinge", "dropout:0", "kink"},
		{"hinge", "group:0", "kink"},
		{"ramp", "none", "want one of"},
		{"t-logistic:1.5", "dropout:0.3", "sums over their rows"},
		{"hinge", "group:0.3", ""},
		{"logistic", "none", ""},
	} {
		c.Loss, c.Noise = test.loss, test.noise
		err := joint.Check(c)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %s: %v", test.loss, test.noise, err)
		}
		if _, no := joint.NewPart(batch.NewEvidence(live), c); (no == nil) != (err == nil) {
			t.Errorf("%s with %s: the part says %v", test.loss, test.noise, no)
		}
	}
}
