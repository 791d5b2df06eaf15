package online_test

// This file holds the helpers of most tests of the whole learner: learners, their settings, and comparisons.

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/synthetic"
)

// newLearner returns a Learner, and fails the test if there is an error.
func newLearner(t testing.TB, c online.Config, s *event.Schema) *online.Learner {
	t.Helper()
	l := must.Get(online.New(c, s))(t)
	return l
}

// streamLearner returns a Learner for the events of a synthetic.Stream.
func streamLearner(t testing.TB, c online.Config, classes int) *online.Learner {
	t.Helper()
	return newLearner(t, c, synthetic.StreamSchema(classes))
}

// with returns the default settings after a change, which may be nil.
func with(change func(*online.Config)) online.Config {
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	return c
}

// restart returns a Learner restored from the saved state of l.
func restart(t testing.TB, c online.Config, l *online.Learner) *online.Learner {
	t.Helper()
	again := must.Get(online.Restore(c, blocksOf(t, l)))(t)
	return again
}

// blocksOf returns a copy of the learner's state.
func blocksOf(t testing.TB, l *online.Learner) (blocks []event.Block) {
	t.Helper()
	each := must.Get(l.Snapshot().EachBlock())(t)
	for b := range each {
		blocks = append(blocks, event.Block{Name: b.Name, Data: slices.Clone(b.Data)})
	}
	return blocks
}

// twins are two Learners of the same events. The second is sometimes restored from its saved state.
type twins struct {
	*online.Learner
	again  *online.Learner
	t      testing.TB
	c      online.Config
	schema *event.Schema
	events int
}

func newTwins(t testing.TB, c online.Config, s *event.Schema) *twins {
	t.Helper()
	return &twins{newLearner(t, c, s), newLearner(t, c, s), t, c, s, 0}
}

// restart restores the second learner from its saved state.
func (x *twins) restart() {
	x.t.Helper()
	x.again = restart(x.t, x.c, x.again)
	x.again.SetSchema(x.schema)
}

// Learn makes both learners learn an event. It fails the test unless they return the same bits.
func (x *twins) Learn(e *event.Example, prior *online.Prediction) online.Prediction {
	x.t.Helper()
	got := x.again.Learn(e, prior)
	scores := slices.Clone(got.Scores)
	want := x.Learner.Learn(e, prior)
	if !sameScores(scores, want.Scores) || got.Learned != want.Learned {
		x.t.Fatalf("event %d: scores %v after a restart, else %v", x.events, scores, want.Scores)
	}
	x.events++
	return want
}

// same fails the test unless both learners have the same measures and the same state.
func (x *twins) same(t *testing.T, what string) {
	t.Helper()
	a, b := fmt.Sprintf("%+v", x.Report().Total), fmt.Sprintf("%+v", x.again.Report().Total)
	must.True(t, a == b, "%s: measures %s after restarts, else %s", what, b, a)
	sameState(t, what+": after restarts", blocksOf(t, x.Learner), blocksOf(t, x.again))
}

// learnNext makes a learner learn the next n events.
func learnNext(l interface {
	Learn(*event.Example, *online.Prediction) online.Prediction
}, n int, next func() *event.Example) {
	for range n {
		l.Learn(next(), nil)
	}
}

// finite fails the test unless every number of a Learner is finite.
func finite(t *testing.T, l *online.Learner) {
	t.Helper()
	m := l.Snapshot().Model()
	must.Finite(t, m.Intercept, "the intercepts")
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		must.Finite(t, row, "column", column)
	}
}

// agree fails the test unless the Snapshot's model and Predict give the same scores.
func agree(t *testing.T, l *online.Learner, e *event.Example) {
	t.Helper()
	want := slices.Clone(alone(l.Predict(e)).Scores)
	got := score(l.Snapshot().Model(), e)
	must.Require(t, near(got, want, 1e-9), "event %+v: the snapshot says %v, Predict %v", e, got, want)
}

// learner is a Learner with its settings and its Schema. The results of its methods stay valid.
type learner struct {
	*online.Learner
	t      testing.TB
	c      online.Config
	schema *event.Schema
}

// start returns a learner. It skips the test under the race detector.
func start(t testing.TB, c online.Config, s *event.Schema) *learner {
	t.Helper()
	longtest.NotRaced(t)
	l := must.Get(online.New(c, s))(t)
	return &learner{l, t, c, s}
}

// streamed returns a learner for the events of a synthetic.Stream.
func streamed(t testing.TB, c online.Config, classes int) *learner {
	t.Helper()
	return start(t, c, synthetic.StreamSchema(classes))
}

// learn learns an event and returns its scores before the update, or nil if the event is rejected.
func (l *learner) learn(e *event.Example) []float64 {
	p := l.Learn(e, nil)
	if p.Refused {
		return nil
	}
	return slices.Clone(alone(p).Scores)
}

// alone returns a prediction without the last label, as the published model makes it.
func alone(p online.Prediction) online.Prediction { return p.Alone() }

func (l *learner) scores(e *event.Example) []float64 { return slices.Clone(alone(l.Predict(e)).Scores) }

// arrive returns the stored prediction of an event whose label arrives later.
func (l *learner) arrive(e *event.Example) *online.Prediction {
	p := alone(l.Predict(e))
	p.Scores = slices.Clone(p.Scores)
	return &p
}

// decision returns the rule that turns scores into classes.
func (l *learner) decision() model.Decision {
	return alone(l.Predict(&event.Example{Label: event.Unlabeled, Weight: 1})).Decision
}

// wrong reports whether scores predict another class than the label of e.
func (l *learner) wrong(scores []float64, e *event.Example) bool {
	return l.decision().Predict(scores) != e.Label
}

// model returns the published model.
func (l *learner) model() *model.Linear { return l.Snapshot().Model() }

// savedWarnings returns the warnings that a program would read from the saved state.
func (l *learner) savedWarnings(settings online.Fingerprint) []health.Warning {
	return l.Snapshot().Warnings(settings)
}

// blocks returns the state.
func (l *learner) blocks() []event.Block {
	l.t.Helper()
	return blocksOf(l.t, l.Learner)
}

// restored returns a learner restored from the state with the same settings.
func (l *learner) restored() *learner { return l.restoredWith(l.c) }

// restoredWith returns a learner restored from the state with other settings.
func (l *learner) restoredWith(c online.Config) *learner {
	l.t.Helper()
	return restore(l.t, c, l.blocks())
}

func restore(t testing.TB, c online.Config, blocks []event.Block) *learner {
	t.Helper()
	again := must.Get(online.Restore(c, blocks))(t)
	s := again.Snapshot().Model().Schema
	again.SetSchema(s)
	return &learner{again, t, c, s}
}

// setting is a combination of settings for TestTable and other tests.
type setting struct {
	c       online.Config
	classes int // 0 means regression
}

func (s setting) String() string {
	return fmt.Sprint(s.c.Optimizer, "/", s.c.Loss, "/", s.c.Noise, "/", s.classes)
}

// settings returns combinations of optimizers, losses, noises and numbers of classes. Together they contain every
// compatible pair of values. If all is false, settings returns one sixth of them, selected by the number test.
func settings(t *testing.T, test int, all bool) (out []setting) {
	candidates := paired()
	must.Require(t, len(candidates) >= 60, "%d settings go together, want more", len(candidates))
	for i, s := range candidates {
		if all || i%9 == test%9 {
			out = append(out, s)
		}
	}
	return out
}

func paired() (out []setting) {
	type candidate struct {
		setting
		pairs [][2]string
	}
	var all []candidate
	add := func(optimizer, lossName, noise string, classes int) {
		c := online.DefaultConfig()
		c.Optimizer, c.Loss, c.Noise = optimizer, lossName, noise
		switch noise {
		case "auto and silent":
			c.Noise, c.SilentMissing = "auto", 0.4
		case "poisson":
			c.Standardize = "scale"
		case "gaussian:0.3":
			c.Standardize = "all"
		}
		if lossName == "logistic:chen" && noise != "poisson" {
			c.Standardize = "all"
		}
		if optimizer == "irls" {
			c.IRLSBatch, c.IRLSWindow = 40, 120
		}
		if c.Check() == nil {
			k := fmt.Sprint(classes)
			all = append(all, candidate{setting{c, classes}, [][2]string{{optimizer, lossName}, {optimizer, noise}, {optimizer, k}, {lossName, noise}, {lossName, k}, {noise, k}}})
		}
	}
	for _, optimizer := range []string{"auto", "adagrad", "dropout-descent", "ftrl", "irls"} {
		for _, noise := range []string{"auto", "none", "dropout:0.3", "gaussian:0.3", "laplace:0.1", "poisson", "dropout:0.2+group:0.4", "observed", "silent:0.5", "silent-group:0.3", "auto and silent"} {
			for _, lossName := range []string{"logistic", "logistic:chen", "logistic:quadratic-noising", "hinge", "hinge:chen:0.5", "quadratic", "t-logistic:1.5"} {
				for _, classes := range []int{2, 3} {
					add(optimizer, lossName, noise, classes)
				}
			}
			for _, lossName := range []string{"squared", "absolute", "huber:1", "quantile:0.8"} {
				add(optimizer, lossName, noise, 0)
			}
		}
	}
	paired := map[[2]string]bool{}
	fresh := func(c candidate) int {
		return must.Count(len(c.pairs), func(i int) bool { return !paired[c.pairs[i]] })
	}
	for len(all) > 0 {
		best := 0
		for i, c := range all {
			if fresh(c) > fresh(all[best]) {
				best = i
			}
		}
		c := all[best]
		if all = slices.Delete(all, best, best+1); fresh(c) == 0 {
			break
		}
		for _, p := range c.pairs {
			paired[p] = true
		}
		out = append(out, c.setting)
	}
	return out
}

// usual returns three settings: the defaults for two classes, for three classes and for regression.
func usual() []setting {
	numbers := online.DefaultConfig()
	numbers.Loss = "squared"
	return []setting{{online.DefaultConfig(), 2}, {online.DefaultConfig(), 3}, {numbers, 0}}
}

// run is a learner with its own decoder and events.
type run struct {
	*learner
	t    *testing.T
	in   *reader
	feed *feed
}

// newRun returns a run with these settings. Its events are drawn with the given seed.
func newRun(t *testing.T, s setting, seed uint64) *run {
	t.Helper()
	r := &run{t: t, in: newReader(t, s), feed: newFeed(seed, s.classes)}
	r.learner = start(t, s.c, r.in.schema)
	return r
}

// next returns the next event, decoded.
func (r *run) next() *event.Example { return r.in.event(r.feed.next()) }

// step learns the next event and returns its scores before the update.
func (r *run) step() []float64 { return r.learn(r.next()) }

// restart replaces the learner by a learner restored from its saved state. The decoder continues with the saved Schema.
func (r *run) restart() {
	r.t.Helper()
	r.learner = r.restored()
	r.in.follow(r.schema)
}

// alike fails the test unless two runs return the same scores for their next n events, up to a relative difference.
func alike(t *testing.T, what string, n int, a, b *run, tolerance float64) {
	t.Helper()
	for i := range n {
		p, q := a.step(), b.step()
		must.Require(t, near(p, q, tolerance), "%s, event %d: scores %v and %v", what, i, p, q)
	}
}

// sameState fails the test unless two states are equal bit by bit.
func sameState(t *testing.T, what string, a, b []event.Block) {
	t.Helper()
	names := func(blocks []event.Block) (out []string) {
		for _, x := range blocks {
			out = append(out, x.Name)
		}
		return out
	}
	x, y := names(a), names(b)
	must.Require(t, slices.Equal(x, y), "%s: blocks %v and %v", what, x, y)
	for i := range a {
		if x, y := a[i].Data, b[i].Data; !bytes.Equal(x, y) {
			at := 0
			for at < min(len(x), len(y)) && x[at] == y[at] {
				at++
			}
			t.Fatalf("%s: block %q differs from byte %d of %d on", what, a[i].Name, at, len(x))
		}
	}
}

// near reports whether scores are equal up to a relative difference.
func near(a, b []float64, tolerance float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= tolerance*(1+math.Abs(y)) })
}

// sameScores reports whether scores are equal bit by bit.
func sameScores(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func score(m *model.Linear, e *event.Example) []float64 {
	return slices.Clone(m.Score(e, make([]float64, m.Outputs)))
}

// scoresOf returns the predicted scores of an event.
func scoresOf(l *online.Learner, e *event.Example) []float64 {
	return slices.Clone(alone(l.Predict(e)).Scores)
}
