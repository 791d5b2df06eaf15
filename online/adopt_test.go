package online_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/checkpoint"
	"blankout/loss"
	"blankout/online"
)

func (s *testStream) Seek(to blankout.Offsets) error {
	p, _ := to.Lookup("t", 3)
	s.next = int(p.Next)
	return nil
}

// adopting has a service adopt the exact solution after so many records, found
// after a delay.
func (s *service) adopting(events uint64, delay func() time.Duration) *[]*batch.Validation {
	reports := s.validating(events)
	s.Validator.Learner.Noise = "dropout:0.3"
	c := &s.Validator.Config
	c.Policy, c.Window, c.AdoptMargin = "adopt", 0, math.Inf(-1)
	open := s.Validator.Open
	s.Validator.Open = func(ctx context.Context, schema *blankout.Schema, from blankout.Offsets) (online.Source, error) {
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return open(ctx, schema, from)
	}
	return reports
}

// startOne starts a service of one noise level: cheaper to solve than a bank.
func startOne(t *testing.T, dir string, n int, seed uint64) *service {
	t.Helper()
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	return startAs(t, dir, n, seed, c)
}

func at0() time.Duration { return 0 }

// resume reads Runner.Decided of the newest checkpoint, as a program does.
func (s *service) resume(t *testing.T) *service {
	t.Helper()
	file, _, err := s.store.Load()
	if errors.Is(err, checkpoint.ErrNone) {
		return s
	}
	if err == nil {
		s.Decided, err = online.ReadDecided(file.Blocks)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// standing solves the exact problem of a checkpoint.
func (s *service) standing(t *testing.T, data []byte) *batch.Validation {
	t.Helper()
	file, err := checkpoint.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	live, err := blankout.ReadLinear(file.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	at, err := online.ReadOffsets(file.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := s.Validator.Validate(t.Context(), online.Subject{Live: live, At: at})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Where the exact solution was adopted the live objective is the exact one, also
// in the middle of a batch; and the outcome depends neither on how long the
// solver took, nor on batches, nor on stops and lost work, wherever they fall.
func TestAdopt(t *testing.T) {
	const n, every = 1500, 400
	whole := t.TempDir()
	s := startOne(t, whole, n, 0)
	reports := s.adopting(every, at0)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, p := newest(t, whole)
	status := s.Status()
	held := 0
	for offset := range int64(n) {
		if online.HeldOut(3, offset, 7) {
			held++
		}
	}
	if v := status.Validation; p.Records != n || v.Adopted != 3 || v.NotAdopted+v.Failed > 0 || v.Adopting != 0 || len(*reports) != 3 {
		t.Fatalf("at %+v: %+v", p, v)
	}
	if int(status.HeldOut) != held || status.Learned+status.Unlabelled != uint64(n-held) || status.Metrics.Events != uint64(n-held) {
		t.Errorf("held out %d of %d, learned %d, in the state %d: something was counted twice",
			status.HeldOut, held, status.Learned+status.Unlabelled, status.Metrics.Events)
	}
	for i, r := range *reports {
		if !r.Adopted || !r.Verified || r.Records != uint64(every*(i+1)) {
			t.Errorf("report %d: %+v", i, r)
		}
	}

	// Ended at N, the state is the exact solution.
	dir := t.TempDir()
	s = startOne(t, dir, n, 5)
	reports = s.adopting(every, at0)
	s.Config.MaxEvents = every
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, _ := newest(t, dir)
	r, first := s.standing(t, data), (*reports)[0]
	if math.Abs(r.Live.Objective/first.Exact.Objective-1) > 1e-12 || math.Abs(r.Gap) > 1e-6*r.Exact.Objective || !(first.Gap > 0) {
		t.Errorf("adopted at %.17g, live it is %.17g, exactly %.17g", first.Exact.Objective, r.Live.Objective, r.Exact.Objective)
	}

	for life := range uint64(4) {
		dir := t.TempDir()
		random := rand.New(rand.NewPCG(life, 7))
		versions := uint64(0)
		for round := 0; ; round++ {
			s := startOne(t, dir, n, life*10+uint64(round)).resume(t)
			slow := time.Duration(random.IntN(20)) * time.Millisecond
			s.adopting(every, func() time.Duration { return slow })
			s.FirstVersion = versions
			s.Config.PublishEvents = 50
			s.Observe = func(*online.Status) {
				if v := s.Published().Version; v < versions {
					t.Errorf("version %d after %d", v, versions)
				} else {
					versions = v
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			stop := n + 1
			if round < 3 {
				stop = random.IntN(n)
			}
			var killed atomic.Bool
			save := s.Save
			s.Save = func(blocks iter.Seq[blankout.Block]) (string, int64, error) {
				if killed.Load() {
					return "", 0, errors.New("killed")
				}
				return save(blocks)
			}
			s.source.passing = func(offset int) {
				if offset == stop {
					killed.Store(life%2 == 0)
					cancel()
				}
			}
			err := s.Run(ctx)
			cancel()
			s.store.Close()
			if err != nil && !killed.Load() {
				t.Fatal(err)
			}
			if round == 3 {
				break
			}
			versions++
		}
		if got, p := newest(t, dir); !bytes.Equal(got, want) {
			t.Errorf("life %d ends in another state, at %+v", life, p)
		}
	}
}

// While an adoption is under way the checkpoint holds the base alone, whatever
// is learned meanwhile; the run waits where the next is due.
func TestAdoptIsNeverSkipped(t *testing.T) {
	const n, every = 1000, 300
	dir := t.TempDir()
	s := startOne(t, dir, n, 3)
	solver := make(chan struct{})
	s.adopting(every, func() time.Duration {
		<-solver
		return 0
	})
	s.Config.SaveEvents = 20
	furthest := uint64(0)
	s.Observe = func(status *online.Status) {
		if status.Validation.Adopting != every || len(status.Partitions) == 0 {
			return
		}
		furthest = max(furthest, status.Partitions[0].Records)
		if status.Save.Saved > 0 && furthest == 2*every && strings.Contains(status.NotReady, "waiting") {
			if _, p := newest(t, dir); p.Records == every {
				select {
				case <-solver:
				default:
					close(solver)
				}
			}
		}
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if furthest != 2*every {
		t.Errorf("it went on to %d records", furthest)
	}
	if v := s.Status().Validation; v.Adopted != 3 {
		t.Errorf("%+v", v)
	}
	// What was stored and counted before the return is not stored or counted again.
	letters := &letters{}
	s = startOne(t, t.TempDir(), n, 3)
	s.adopting(every, func() time.Duration { return 20 * time.Millisecond })
	s.source.refuse = func(offset int) bool { return offset%50 == 7 }
	s.Validator.Open = func(open func(context.Context, *blankout.Schema, blankout.Offsets) (online.Source, error)) func(context.Context, *blankout.Schema, blankout.Offsets) (online.Source, error) {
		return func(ctx context.Context, schema *blankout.Schema, from blankout.Offsets) (online.Source, error) {
			source, err := open(ctx, schema, from)
			if err == nil {
				source.(*testStream).refuse = s.source.refuse
			}
			return source, err
		}
	}(s.Validator.Open)
	s.Config.Refused, s.DeadLetters = online.PolicyDeadLetter, letters
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := s.Status()
	if status.Validation.Adopted != 3 || len(letters.offsets) != n/50 || status.Refused != n/50 || status.DeadLetters[blankout.ReasonSyntax] != n/50 {
		t.Errorf("%d dead letters of %d, counted %d and %+v, %+v", len(letters.offsets), n/50, status.Refused, status.DeadLetters, status.Validation)
	}
}

type letters struct{ offsets []int64 }

func (l *letters) Add(_ context.Context, _ string, _ int32, e *blankout.Example) error {
	l.offsets = append(l.offsets, e.Offset)
	return nil
}

func (*letters) Flush(context.Context) error { return nil }

// What cannot be adopted leaves the learned state and says why; what cannot be
// read is tried again.
func TestAdoptRefused(t *testing.T) {
	const n = 900
	plain := t.TempDir()
	s := startOne(t, plain, n, 0)
	s.validating(0)
	s.Validator.Learner.Noise = "dropout:0.3"
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	learned := s.Learner.Snapshot().Model()

	s = startOne(t, t.TempDir(), n, 0)
	reports := s.adopting(400, at0)
	open := s.Validator.Open
	s.Validator.Open = func(ctx context.Context, schema *blankout.Schema, from blankout.Offsets) (online.Source, error) {
		from[0].Next = 10 // the log has lost its beginning
		return open(ctx, schema, from)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := s.Status().Validation; v.NotAdopted != 2 || v.Adopted > 0 || (*reports)[0].Adopted || !strings.Contains((*reports)[0].NotAdopted, "390 of the 400 records") {
		t.Errorf("%+v, %+v", v, (*reports)[0])
	}
	if got := s.Learner.Snapshot().Model(); got.Intercept[0] != learned.Intercept[0] || got.Norm() != learned.Norm() {
		t.Error("it learned something else")
	}

	s = startOne(t, t.TempDir(), n, 0)
	s.adopting(800, at0)
	open, tries := s.Validator.Open, 0
	s.Validator.Open = func(ctx context.Context, schema *blankout.Schema, from blankout.Offsets) (online.Source, error) {
		if tries++; tries == 1 {
			return nil, errors.New("no broker")
		}
		return open(ctx, schema, from)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := s.Status().Validation; v.Failed != 1 || v.Adopted != 1 {
		t.Errorf("%+v", v)
	}

	s = startOne(t, t.TempDir(), 90, 0) // one class only, so far
	s.adopting(50, at0)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := s.Status().Validation; v.NotAdopted != 1 {
		t.Errorf("%+v", v)
	}
	for name, edit := range map[string]func(*online.Config){
		"arow": func(c *online.Config) { c.Rule = "arow" }, "L1": func(c *online.Config) { c.Rule, c.L1 = "ftrl", 0.1 },
		"half_life": func(c *online.Config) { c.HalfLife = 100 }, "convex": func(c *online.Config) { c.Loss = "t-logistic:1.5" },
	} {
		c := online.DefaultConfig()
		edit(&c)
		if err := online.CheckAdopt(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// examples is a Source of one batch.
type examples []blankout.Example

func (x *examples) Next(_ context.Context, b *blankout.Batch) error {
	if len(*x) == 0 {
		return io.EOF
	}
	*b = blankout.Batch{Topic: "x", Examples: *x, Next: int64(len(*x))}
	*x = nil
	return nil
}

// learnSome learns events of k classes and adopts.
func learnSome(t *testing.T, c online.Config, k int, events int) (*online.Learner, *online.Adoption, []blankout.Example) {
	l, a, all, _ := learnAndGap(t, c, k, events)
	return l, a, all
}

// learnAndGap returns also what tells the relative gap of a model on the events.
func learnAndGap(t *testing.T, c online.Config, k int, events int) (*online.Learner, *online.Adoption, []blankout.Example, func(*blankout.Linear) float64) {
	t.Helper()
	schema := blankout.NewSchema(12, nil, k)
	for i := range k {
		if _, ok := schema.Class(fmt.Append(nil, i)); !ok {
			t.Fatal("class")
		}
	}
	l, err := online.New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var all []blankout.Example
	var at blankout.Offsets
	p := at.At("x", 0, 0)
	for i := range events {
		e := blankout.Example{Offset: int64(i), Label: r.IntN(k), Weight: []float64{1, 1, 2.5}[i%3], Fingerprint: r.Uint64()}
		for j := range uint32(8) {
			if r.IntN(3) > 0 {
				e.Features.Index = append(e.Features.Index, j)
				e.Features.Value = append(e.Features.Value, r.NormFloat64()+float64((int(j)+e.Label)%k))
			}
		}
		if i%11 == 5 {
			e.Label = blankout.Unlabelled
		}
		l.Learn(&e)
		if err := p.Advance(e.Offset, e.Fingerprint); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	v := online.Validator{Config: online.DefaultValidateConfig(), Learner: c,
		Open: func(context.Context, *blankout.Schema, blankout.Offsets) (online.Source, error) {
			x := examples(slices.Clone(all))
			return &x, nil
		}}
	v.Config.CPU, v.Config.AdoptMargin = 1, math.Inf(-1)
	a, err := v.Adopt(t.Context(), l.Snapshot(), at)
	if err != nil || a.Learner == nil {
		t.Fatal(a, err)
	}
	return l, a, all, func(m *blankout.Linear) float64 {
		r, _, err := v.Validate(t.Context(), online.Subject{Live: m, At: at})
		if err != nil {
			t.Fatal(err)
		}
		return *r.RelativeGap
	}
}

// Every rule goes on from the adopted solution: some more events leave it at most
// twice as far from the minimum as the weights that it replaced were, or half again
// as far as they would have gone.
func TestAdoptRules(t *testing.T) {
	for name, edit := range map[string]func(*online.Config){
		"adagrad":               func(*online.Config) {},
		"margin":                func(c *online.Config) { c.Loss = "hinge:gaussian:0.5" },
		"squared hinge, margin": func(c *online.Config) { c.Loss = "squared-hinge:gaussian:0.5" },
		"dropout-descent":       func(c *online.Config) { c.Rule = "dropout-descent" },
		"sgd":                   func(c *online.Config) { c.Rule = "sgd" }, "ftrl": func(c *online.Config) { c.Rule = "ftrl" },
		"irls": func(c *online.Config) { c.Rule, c.Refresh = "irls", 50 }, "refresh": func(c *online.Config) { c.Refresh = 50 },
		"gaussian noise": func(c *online.Config) { c.Noise = "gaussian:0.5" }, "unlabelled": func(c *online.Config) { c.Alpha = 0.5 },
		"hinge": func(c *online.Config) { c.Loss = "hinge" }, "penalised": func(c *online.Config) { c.Intercept = "penalised" },
		"no intercept": func(c *online.Config) { c.Intercept = "none" }, "clean": func(c *online.Config) { c.Marginalised, c.Noise = false, "none" },
		"no average": func(c *online.Config) { c.Average = 0 },
	} {
		for _, k := range []int{2, 3} {
			if k > 2 && name != "adagrad" && name != "ftrl" && name != "refresh" {
				continue
			}
			t.Run(fmt.Sprint(name, k), func(t *testing.T) {
				c := online.DefaultConfig()
				c.Noise = "dropout:0.3"
				edit(&c)
				before, a, all, gap := learnAndGap(t, c, k, 407)
				exact := a.Exact
				model := a.Learner.Snapshot().Model()
				distance := func(m *blankout.Linear) (d float64) {
					for j := range uint32(8) {
						for o := range exact.Outputs {
							d += math.Abs(m.Weight(j, o) - exact.Weight(j, o))
						}
					}
					for o := range exact.Outputs {
						d += math.Abs(m.Intercept[o] - exact.Intercept[o])
					}
					return d
				}
				was := distance(before.Snapshot().Model())
				if d := distance(model); d != 0 || !(was > 1e-4) {
					t.Fatalf("adopted weights are off by %g, learned ones by %g", d, was)
				}
				if got, want := a.Learner.Metrics(), before.Metrics(); got.Events != want.Events || got.Total != want.Total {
					t.Errorf("measures %+v, want %+v", got.Total, want.Total)
				}
				learned, adopted := gap(before.Snapshot().Model()), gap(model)
				for i := range 60 {
					a.Learner.Learn(&all[i])
					before.Learn(&all[i])
				}
				later, instead := gap(a.Learner.Snapshot().Model()), gap(before.Snapshot().Model())
				if !(adopted < 1e-6 && later > adopted && later < max(2*learned, 1.5*instead)) {
					t.Errorf("the relative gap was %.3g, adopted it is %.3g; 60 events later %.3g, and %.3g if not adopted", learned, adopted, later, instead)
				}
			})
		}
	}
}

// A bank adopts the exact solution of every level: the one that a learner of that
// level alone adopts, to the bit, metric included.
func TestAdoptBank(t *testing.T) {
	c := online.DefaultConfig()
	c.Adapt = true
	for _, k := range []int{2, 3} {
		_, bank, _ := learnSome(t, c, k, 407)
		outputs, levels := 1, len(c.Levels)
		if k > 2 {
			outputs = k
		}
		rows := bank.Learner.Snapshot().Model().Rows
		for v, q := range c.Levels {
			alone := c
			alone.Noise = fmt.Sprint("dropout:", q)
			if q == 0 {
				alone.Noise = "none"
			}
			_, one, _ := learnSome(t, alone, k, 407)
			own := one.Learner.Snapshot().Model().Rows
			for j := range uint32(8) {
				got, want := rows.Row(j)[blankout.ScalerWidth:], own.Row(j)[blankout.ScalerWidth:]
				for part := range 3 {
					for o := range outputs {
						a, b := got[part*levels*outputs+v*outputs+o], want[part*outputs+o]
						if math.Abs(a-b) > 1e-9*(1+math.Abs(b)) {
							t.Fatalf("%d classes, level %v, column %d, part %d: %v, alone %v", k, q, j, part, a, b)
						}
					}
				}
			}
		}
	}
}

// The metric of AdaGrad is the sum of squared gradients at the exact solution.
func TestAdoptMetric(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	_, a, all := learnSome(t, c, 2, 300)
	m := a.Learner.Snapshot().Model()
	loss, err := loss.Parse(c.Loss)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, 8)
	for i := range all {
		e := &all[i]
		if e.Label == blankout.Unlabelled {
			continue
		}
		x := m.Standardised(e, blankout.Vec{})
		f, v := m.Intercept[0], 0.0
		for j, d := range x.Index {
			w := m.Weight(d, 0)
			f, v = f+w*x.Value[j], v+0.3/0.7*w*w*x.Value[j]*x.Value[j]
		}
		repeats := math.Ceil(e.Weight)
		_, df, dv := loss.At(float64(2*e.Label-1), f, v)
		for j, d := range x.Index {
			z, w := x.Value[j], m.Weight(d, 0)
			g := e.Weight / repeats * (df*z + 2*dv*0.3/0.7*z*z*w) // the ridge is in the start
			want[d] += repeats * g * g
		}
	}
	for d, want := range want {
		if got := m.Rows.Row(uint32(d))[blankout.ScalerWidth+1]; math.Abs(got-want) > 1e-9*want {
			t.Errorf("column %d: metric %v, want %v", d, got, want)
		}
	}
}

// Where the stream has drifted the exact solution over all of it is the worse
// model for what comes: it is not adopted. Where the stream stands still it is, if
// it is better by more than chance explains.
func TestAdoptUnderDrift(t *testing.T) {
	const n, flip, after, holdout = 3000, 2000, 1000, 5
	for _, drifts := range []bool{true, false} {
		c := online.DefaultConfig()
		c.Noise, c.Eta = "none", 0.02 // slow, so that one pass leaves something to gain
		if drifts {
			c.Eta = 0
		}
		schema := blankout.NewSchema(12, []string{"no", "yes"}, 2)
		learner, err := online.New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(8, 9))
		var all []blankout.Example
		var at blankout.Offsets
		p := at.At("x", 0, 0)
		for i := range n + after {
			e := blankout.Example{Offset: int64(i), Weight: 1, Fingerprint: r.Uint64(), Time: int64(i)}
			score := 0.0
			for j := range uint32(10) {
				x := r.NormFloat64()
				e.Features.Index, e.Features.Value = append(e.Features.Index, j), append(e.Features.Value, x)
				if score += x; drifts && i >= flip && j >= 2 {
					score -= 2 * x // most of what it says has turned round
				}
			}
			if score+0.5*r.NormFloat64() > 0 {
				e.Label = 1
			}
			if all = append(all, e); i >= n {
				continue
			}
			if !online.HeldOut(0, e.Offset, holdout) {
				learner.Learn(&e)
			}
			if err := p.Advance(e.Offset, e.Fingerprint); err != nil {
				t.Fatal(err)
			}
		}
		v := online.Validator{Config: online.DefaultValidateConfig(), Learner: c,
			Open: func(context.Context, *blankout.Schema, blankout.Offsets) (online.Source, error) {
				x := examples(slices.Clone(all[:n]))
				return &x, nil
			}}
		v.Config.CPU, v.Config.Holdout, v.Config.Policy, v.Config.Window = 1, holdout, "adopt", 0
		live := learner.Snapshot()
		a, err := v.Adopt(t.Context(), live, at)
		if err != nil {
			t.Fatal(err)
		}
		newest := a.Report.Newest
		if newest == nil || newest.MeasuredOn != "holdout" || newest.Events < 100 || newest.Events > n/holdout/4 {
			t.Fatalf("compared on %+v", newest)
		}
		if !drifts {
			if a.Learner == nil || newest.Better != "exact" {
				t.Errorf("the stream stands still: %q, %+v", a.Reason, newest)
			}
			continue
		}
		if a.Learner != nil || !a.Kept || newest.Better != "live" || !strings.Contains(a.Reason, "the live weights are better") || a.Report.NotAdopted != a.Reason {
			t.Errorf("the stream drifts: %q, %+v", a.Reason, newest)
		}
		// What would have been adopted is worse for what comes.
		v.Config.AdoptMargin = math.Inf(-1)
		if a, err = v.Adopt(t.Context(), live, at); err != nil || a.Learner == nil {
			t.Fatal(a, err)
		}
		wrong := func(m *blankout.Linear) (count int) {
			for i := range all[n:] {
				e := &all[n+i]
				if m.Predict(m.Score(e, make([]float64, 1))) != e.Label {
					count++
				}
			}
			return count
		}
		if kept, adopted := wrong(live.Model()), wrong(a.Learner.Snapshot().Model()); kept+after/20 > adopted {
			t.Errorf("of the next %d events the live model gets %d wrong, the exact solution %d", after, kept, adopted)
		} else {
			t.Logf("of the next %d events the live model gets %d wrong, the exact solution %d", after, kept, adopted)
		}
	}
}
