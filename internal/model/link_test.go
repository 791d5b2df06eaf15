package model_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestLink checks that a Link is linear between its knots and constant beyond them. If the Link is nil, scores must be
// log-odds.
func TestLink(t *testing.T) {
	d := model.Decision{Link: &model.Link{Scores: []float64{-1, 0, 2}, LogOdds: []float64{-2, -1, 3}}}
	for f, u := range map[float64]float64{-9: -2, math.Inf(-1): -2, -1: -2, -0.5: -1.5, 0: -1, 0.5: 0, 1: 1, 2: 3, 1e300: 3, math.Inf(1): 3} {
		want := 1 / (1 + math.Exp(-u))
		if got := d.Probability(f); math.Abs(got-want) > 1e-15 {
			t.Errorf("score %v has the probability %v, want %v", f, got, want)
		}
		if got := d.LogLoss([]float64{f}, 1); math.Abs(got+math.Log(want)) > 1e-14 {
			t.Errorf("score %v loses %v", f, got)
		}
		if got := d.Predict([]float64{f}) == 1; got != (u > 0) {
			t.Errorf("score %v is positive: %v", f, got)
		}
	}
	if got := d.Probability(math.NaN()); got != 1/(1+math.Exp(2)) {
		t.Errorf("a score that is no number has the probability %v", got)
	}
	p := d.Probabilities([]float64{-0.5, 0.5, 9}, make([]float64, 3))
	a, b, c := 1/(1+math.Exp(1.5)), 0.5, 1/(1+math.Exp(-3))
	if all := a + b + c; math.Abs(p[0]-a/all) > 1e-15 || math.Abs(p[1]-b/all) > 1e-15 || math.Abs(p[2]-c/all) > 1e-15 {
		t.Errorf("three classes have the probabilities %v", p)
	}
	if got := (model.Decision{}).Probability(1); got != 1/(1+math.Exp(-1)) {
		t.Errorf("without a link the probability is %v", got)
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
			if got := d.Predict([]float64{f}) == 1; got != (f > cut) && math.Abs(f-cut) > 1e-9 {
				t.Fatalf("%+v: %v is positive: %v, cut at %v", d.Link, f, got, cut)
			}
		}
	}
}

// TestLinksAreChecked checks that reading a model with an invalid link fails.
func TestLinksAreChecked(t *testing.T) {
	for _, l := range []model.Link{
		{}, {Scores: []float64{1}, LogOdds: []float64{1}}, {Scores: []float64{1, 2}, LogOdds: []float64{1}}, {Scores: []float64{2, 1}, LogOdds: []float64{1, 2}},
		{Scores: []float64{1, 1}, LogOdds: []float64{1, 2}}, {Scores: []float64{1, 2}, LogOdds: []float64{2, 1}}, {Scores: []float64{1, 1e10}, LogOdds: []float64{1, 2}},
	} {
		m := linked(t)
		m.Link = &l
		if l.Check() == nil || m.Fits() {
			t.Errorf("%+v is taken", l)
		}
		each := must.Get(m.EachBlock())(t)
		if _, err := model.ReadLinear(slices.Collect(each)); err == nil {
			t.Errorf("%+v is read", l)
		}
	}
	m := linked(t)
	m.Link = &model.Link{Scores: []float64{-1, 2}, LogOdds: []float64{-1, 1}}
	each := must.Get(m.EachBlock())(t)
	if got, err := model.ReadLinear(slices.Collect(each)); err != nil || !slices.Equal(got.Link.LogOdds, m.Link.LogOdds) {
		t.Errorf("a link is not read: %v", err)
	}
}

func linked(t *testing.T) *model.Linear {
	t.Helper()
	return model.NewLinear(event.NewSchema(4, []string{"a", "b"}, 2), "logistic", "none", [][]float64{{0, 1}}, []float64{0})
}
