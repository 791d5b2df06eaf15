package model_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestLink checks that a Link is linear between its knots and constant beyond them. If the Link is nil, scores must be
// log-odds.
func TestLink(t *testing.T) {
	d := model.Decision{Link: &model.Link{Scores: []float64{-1, 0, 2}, LogOdds: []float64{-2, -1, 3}}}
	for f, u := range map[float64]float64{-9: -2, math.Inf(-1): -2, -1: -2, -0.5: -1.5, 0: -1, 0.5: 0, 1: 1, 2: 3, 1e300: 3, math.Inf(1): 3} {
		want := 1 / (1 + math.Exp(-u))
		got := d.Probability(f)
		must.True(t, math.Abs(got-want) <= 1e-15, "score %v has the probability %v, want %v", f, got, want)
		got = d.LogLoss([]float64{f}, 1)
		must.True(t, math.Abs(got+math.Log(want)) <= 1e-14, "score %v loses %v", f, got)
		must.Equal(t, d.Predict([]float64{f}) == 1, (u > 0), "score", f, "is positive")
	}
	must.Equal(t, d.Probability(math.NaN()), 1/(1+math.Exp(2)), "a score that is no number has the probability")
	p := d.Probabilities([]float64{-0.5, 0.5, 9}, make([]float64, 3))
	a, b, c := 1/(1+math.Exp(1.5)), 0.5, 1/(1+math.Exp(-3))
	all := a + b + c
	must.True(t, math.Abs(p[0]-a/all) <= 1e-15 && math.Abs(p[1]-b/all) <= 1e-15 && math.Abs(p[2]-c/all) <= 1e-15, "three classes have the probabilities %v", p)
	must.Equal(t, (model.Decision{}).Probability(1), 1/(1+math.Exp(-1)), "without a link the probability")
}

// TestLogLossOfClasses compares the log-loss with the logarithm of a probability, for few and many classes, and for a class
// that is nearly impossible.
func TestLogLossOfClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, classes := range []int{3, 31, 32, 33, 70} {
		scores := must.List(classes, func(int) float64 { return 4 * r.NormFloat64() })
		scores[1] = -900
		p := model.Decision{}.Probabilities(scores, make([]float64, classes))
		sum := 0.0
		for _, f := range scores {
			sum += 1 / (1 + math.Exp(-f))
		}
		for k := range scores {
			want := -math.Log(p[k])
			if k == 1 {
				want = 900 + math.Log(sum)
			}
			got := model.Decision{}.LogLoss(scores, k)
			must.True(t, math.Abs(got-want) <= 1e-12*max(1, want), "class %d of %d: %v, want %v", k, classes, got, want)
		}
	}
}

// TestCut checks that Predict returns the second class exactly for scores above Cut, for any threshold and link.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		d := model.Decision{Threshold: float64(r.IntN(2)) * (0.01 + 0.98*r.Float64())}
		if r.IntN(4) > 0 {
			l := &model.Link{Scores: []float64{r.NormFloat64()}, LogOdds: []float64{r.NormFloat64() - 1}}
			for i := range 1 + r.IntN(4) {
				l.Scores, l.LogOdds = append(l.Scores, l.Scores[i]+r.ExpFloat64()), append(l.LogOdds, l.LogOdds[i]+float64(r.IntN(2))*r.ExpFloat64())
			}
			d.Link = l
		}
		cut := d.Cut()
		for range 20 {
			f := cut + r.NormFloat64()*math.Pow(10, float64(-r.IntN(8)))
			if math.Abs(cut) == 1e9 {
				f = 10 * r.NormFloat64()
			}
			got := d.Predict([]float64{f}) == 1
			must.Require(t, got == (f > cut) || math.Abs(f-cut) <= 1e-9, "%+v: %v is positive: %v, cut at %v", d.Link, f, got, cut)
		}
	}
}

// TestSets checks that a set contains the predicted class and each class whose probability reaches the limit for the
// event's missing fraction. The most probable class must be first. A model without limits returns no set.
func TestSets(t *testing.T) {
	h := model.Head{Sets: &model.Sets{Coverage: 0.9, Limits: [model.SetRanges]float64{-math.Log(0.3), 0, -1, model.MostLimit}}}
	p := []float64{0.3, 0.2, 0.5, 0}
	for _, test := range []struct {
		within, class int
		want          []int
	}{{0, 2, []int{2, 0}}, {0, 1, []int{2, 0, 1}}, {1, 2, []int{2}}, {3, 2, []int{2, 0, 1, 3}}} {
		set, ok := h.Set(model.MissingHandling{Range: test.within}, p, test.class)
		must.True(t, ok && slices.Equal(set, test.want), "range %d, class %d: %v, want %v", test.within, test.class, set, test.want)
	}
	h.Sets.Classes = []model.SetLimits{{0, 0, -1, 0}, {0: -math.Log(0.15), 3: 1}}
	for within, want := range map[int][]int{0: {2, 1}, 1: {2}, 3: {2, 3}} { // the last two classes use the common limits
		set, ok := h.Set(model.MissingHandling{Range: within}, p, 2)
		must.True(t, ok && slices.Equal(set, want), "by class, range %d: %v, want %v", within, set, want)
	}
	set, ok := h.Set(model.MissingHandling{Range: 2}, p, 2)
	must.True(t, !ok && set == nil, "a range of which nothing is known has the set %v", set)
	_, ok = (&model.Head{}).Set(model.MissingHandling{}, p, 2)
	must.True(t, !ok, "a model without sets tells one")
	names := must.List(model.SetRanges, model.RangeName)
	must.Equal(t, strings.Join(names, " "), "0 0-0.1 0.1-0.3 0.3-0.5 0.5-0.7 0.7-0.85 0.85-1", "ranges")
}

// TestJudge checks that Judge returns the same bits as Predict, LogLoss and Probability.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		at := r.NormFloat64()
		d := model.Decision{Link: &model.Link{Scores: []float64{at, at + 9*r.Float64()}, LogOdds: []float64{-2 * r.Float64(), 5 * r.Float64()}}, Threshold: float64(r.IntN(2)) * r.Float64()}
		scores := must.List([]int{1, 3}[r.IntN(2)], func(int) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(12)) })
		label := r.IntN(max(2, len(scores)))
		want := model.Judged{Class: d.Predict(scores), LogLoss: d.LogLoss(scores, label)}
		if len(scores) == 1 {
			want.Probability = d.Probability(scores[0])
		}
		got := d.Judge(scores, label)
		must.Require(t, got == want, "%v of %v for class %d: %v, want %v", d, scores, label, got, want)
	}
}

// twoLevels returns a model of three numbers with the weights of two noise levels, and a separate model for each level.
// The second level predicts events with more than 0.3 of their fields missing.
func twoLevels(t *testing.T, policy model.MissingPolicy) (both, first, second *model.Linear) {
	t.Helper()
	s := eventtest.Schema(3, "", "no", "yes")
	policies := model.EveryRange(policy)
	c, err := model.NewCovariance([]uint32{0, 1, 2}, []uint16{1, 2, 3}, []float64{0.1, -0.2, 0.3},
		[]float64{1, 0.8, 0.5, 0.8, 1.5, 0.4, 0.5, 0.4, 0.7})
	must.Do(t, err)
	weights := [2][]float64{{1, -2, 3}, {0.5, 0.25, -1}}
	intercepts := [2]float64{0.3, -0.7}
	noises := [2]string{"none", "dropout:0.5"}
	one := func(level int) *model.Linear {
		m := model.NewLinear(s, "logistic:gaussian", noises[level], [][]float64{weights[level]}, []float64{intercepts[level]})
		m.Missing = model.NewMissing(policies, nil, nil, nil)
		return m.WithCovariance(c)
	}
	rows := model.NewTable(2)
	for i := range weights[0] {
		copy(rows.Touch(uint32(i)), []float64{weights[0][i], weights[1][i]})
	}
	layout := func(at int) model.Layout { return model.Layout{Width: 2, Weight: at, Stats: -1} }
	both = &model.Linear{Head: model.Head{Schema: s, Loss: "logistic:gaussian", Noise: noises[0], Outputs: 1, Intercept: intercepts[:1], Layout: layout(0),
		Missing: model.NewMissing(policies, nil, nil, nil).WithLevels([]int{0, 0, 1, 1, 1, 1}),
		Levels:  []model.Level{{Noise: noises[1], Intercept: intercepts[1:], Layout: layout(1)}}}, Rows: rows}
	return both.WithCovariance(c), one(0), one(1)
}

// TestLevelsAnswer checks that an event is predicted with the weights of the noise level for its missing fraction. This
// must hold for every method of the model, and also after a round trip through a file.
func TestLevelsAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, policy := range []model.MissingPolicy{model.MissingNone, model.MissingRescale, model.MissingImpute} {
		both, first, second := twoLevels(t, policy)
		blocks := must.Get(both.EachBlock())(t)
		read := must.Get(model.ReadLinear(slices.Collect(blocks)))(t)
		for range 200 {
			e := &event.Example{Weight: 1, Field: []uint16{}}
			for i := range uint16(3) {
				if r.IntN(2) == 0 {
					e.Missing = append(e.Missing, i+1)
					continue
				}
				e.Field = append(e.Field, i+1)
				eventtest.Put(e, uint32(i), r.NormFloat64())
			}
			want := first
			if len(e.Missing) > 0 { // the missing fraction is at least one third
				want = second
			}
			for name, m := range map[string]*model.Linear{"made": both, "read": read, "without the cache": {Head: both.Head, Rows: both.Rows}} {
				answer := m.Handling(e)
				if got := m.NoiseOf(answer); got != want.Noise {
					t.Fatalf("%s, %s: %v is answered by %s", policy, name, e.Missing, got)
				}
				same := func(what string, got, want float64) {
					must.Require(t, math.Abs(got-want) <= 1e-12, "%s, %s: %v: %s %v, want %v", policy, name, e.Missing, what, got, want)
				}
				score := want.Score(e, make([]float64, 1))[0]
				same("score", m.Score(e, make([]float64, 1))[0], score)
				x := m.Standardized(e, event.Vec{})
				same("score of what is left", m.ScoreMissing(x, e, make([]float64, 1))[0], score)
				same("output", m.AnswerOutputs(x, answer, make([]float64, 1))[0], score)
				same("variance", model.ScoreVariance(m, e).Variance, model.ScoreVariance(want, e).Variance)
				got, why := m.Explain(e, 1), want.Explain(e, 1)
				must.Require(t, reflect.DeepEqual(got, why), "%s, %s: explained as %+v, want %+v", policy, name, got, why)
				same("score of the model alone", m.Alone().Score(e, make([]float64, 1))[0], first.Score(e, make([]float64, 1))[0])
			}
		}
	}
}

// TestOneLevelIsSilent checks that the file of a model with one level contains no data about levels.
func TestOneLevelIsSilent(t *testing.T) {
	_, m, _ := twoLevels(t, model.MissingImpute)
	blocks := must.Get(m.EachBlock())(t)
	head, err := event.FindBlock(slices.Collect(blocks), "model")
	must.True(t, err == nil && !bytes.Contains(head, []byte("levels")), "%s, error %v", head, err)
}

// TestChanceInterval checks that in 90 % of cases the interval contains the probability of the event with all fields
// present.
func TestChanceInterval(t *testing.T) {
	both, first, second := twoLevels(t, model.MissingImpute)
	e := &event.Example{Weight: 1, Field: []uint16{1, 3}, Missing: []uint16{2}, Features: event.Vec{Index: []uint32{0, 2}, Value: []float64{0.7, -0.5}}}
	// The regression of b on a and c, C_bo C_oo^-1, solved by hand for the covariance of twoLevels.
	mean, of, with := []float64{0.1, -0.2, 0.3}, [2]float64{0.8, 0.4}, [3]float64{1, 0.5, 0.7}
	det := with[0]*with[2] - with[1]*with[1]
	ba, bc := (of[0]*with[2]-of[1]*with[1])/det, (of[1]*with[0]-of[0]*with[1])/det
	expected := mean[1] + ba*(0.7-mean[0]) + bc*(-0.5-mean[2])
	deviation := math.Sqrt(1.5 - ba*of[0] - bc*of[1])
	for name, m := range map[string][2]*model.Linear{"one level": {first, first}, "the level for the share": {both, second}} {
		low, high, known := m[0].ChanceInterval(e)
		must.Require(t, known && 0 < low && low < high && high < 1, "%s: %v to %v, %v", name, low, high, known)
		r := rand.New(rand.NewPCG(5, 6))
		in, n := 0.0, 40_000
		for range n {
			full := &event.Example{Weight: 1, Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{0.7, expected + deviation*r.NormFloat64(), -0.5}}}
			if p := m[1].Probabilities(m[1].Score(full, make([]float64, 1)), make([]float64, 2))[1]; low <= p && p <= high {
				in += 1 / float64(n)
			}
		}
		must.True(t, math.Abs(in-0.9) <= 0.01, "%s: %.3f of the probabilities lie within", name, in)
	}
	low, high, known := first.ChanceInterval(&event.Example{Weight: 1, Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{1, 1, 1}}})
	must.True(t, !known, "with nothing missing: %v to %v", low, high)
	_, _, known = first.WithMissing(first.Missing.Forced(model.MissingNone)).ChanceInterval(e)
	must.True(t, !known, "an interval where nothing is filled in")
}

// TestHeadsAreChecked checks that a file with an invalid link, set of limits or level is rejected, and that valid ones
// are read unchanged.
func TestHeadsAreChecked(t *testing.T) {
	read := func(m *model.Linear) (*model.Linear, error) {
		return model.ReadLinear(slices.Collect(must.Get(m.EachBlock())(t)))
	}
	both := func() *model.Linear { m, _, _ := twoLevels(t, model.MissingImpute); return m }
	for _, l := range []model.Link{
		{}, {Scores: []float64{1}, LogOdds: []float64{1}}, {Scores: []float64{1, 2}, LogOdds: []float64{1}}, {Scores: []float64{2, 1}, LogOdds: []float64{1, 2}},
		{Scores: []float64{1, 1}, LogOdds: []float64{1, 2}}, {Scores: []float64{1, 2}, LogOdds: []float64{2, 1}}, {Scores: []float64{1, 1e10}, LogOdds: []float64{1, 2}},
	} {
		m := both()
		m.Link = &l
		_, err := read(m)
		must.True(t, err != nil && l.Check() != nil && !m.Fits(), "%+v is taken", l)
	}
	for _, s := range []model.Sets{
		{Coverage: 0.9, Classes: []model.SetLimits{{1001}}}, {Coverage: 0.9, Classes: []model.SetLimits{{-1}}}, {Coverage: 1}, {}, {Coverage: 0.9, Limits: model.SetLimits{0, -0.5}}, {Coverage: 0.9, Limits: model.SetLimits{1001}},
	} {
		m := both()
		m.Sets = &s
		must.Fails(t, must.Err(read(m)), s, "is taken")
	}
	for want, spoil := range map[string]func(*model.Linear){
		"levels [0 0 2 1 1 1] for missing fields, of 1": func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 0, 2, 1, 1, 1}) },
		"levels [0 0 1 1 1 -1] for":                     func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 0, 1, 1, 1, -1}) },
		"missing: 2 levels for 6 ranges":                func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 1}) },
		"level dropout:0.5: 1 outputs, 0 intercepts":    func(m *model.Linear) { m.Levels[0].Intercept = nil },
		"level dropout:0.5: 1 outputs, 1 intercepts":    func(m *model.Linear) { m.Levels[0].Layout.Weight = 2 },
	} {
		m := both()
		spoil(m)
		must.ErrorContains(t, must.Err(read(m)), want, "error")
	}
	must.Fails(t, must.Err(model.ReadLinear(nil)), "no blocks are read")
	m := both()
	m.Link = &model.Link{Scores: []float64{-1, 2}, LogOdds: []float64{-1, 1}}
	m.Sets = &model.Sets{Coverage: 0.8, Limits: model.SetLimits{0, 1.5, -1, model.MostLimit}, Classes: []model.SetLimits{{1, 2, -1, 3}, {0, 1.5, -1, model.MostLimit}}}
	got, err := read(m)
	must.True(t, err == nil && reflect.DeepEqual(got.Link, m.Link) && reflect.DeepEqual(got.Sets, m.Sets), "read %+v (%v)", got, err)
}
