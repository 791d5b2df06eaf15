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

// twoLevels returns a model of three numbers with the weights of two noise levels, and a separate model for each level.
// The second level predicts events with more than 0.3 of their fields missing.
func twoLevels(t *testing.T, policy model.MissingPolicy) (both, first, second *model.Linear) {
	t.Helper()
	s := eventtest.Schema(3, "", "no", "yes")
	policies := model.EveryRange(policy)
	c, err := model.NewCovariance([]uint32{0, 1, 2}, []uint16{1, 2, 3}, []float64{0.1, -0.2, 0.3},
		[]float64{1, 0.8, 0.5, 0.8, 1.5, 0.4, 0.5, 0.4, 0.7})
	if err != nil {
		t.Fatal(err)
	}
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
					if math.Abs(got-want) > 1e-12 {
						t.Fatalf("%s, %s: %v: %s %v, want %v", policy, name, e.Missing, what, got, want)
					}
				}
				score := want.Score(e, make([]float64, 1))[0]
				same("score", m.Score(e, make([]float64, 1))[0], score)
				x := m.Standardized(e, event.Vec{})
				same("score of what is left", m.ScoreMissing(x, e, make([]float64, 1))[0], score)
				same("output", m.AnswerOutputs(x, answer, make([]float64, 1))[0], score)
				same("variance", model.ScoreVariance(m, e).Variance, model.ScoreVariance(want, e).Variance)
				if got, why := m.Explain(e, 1), want.Explain(e, 1); !reflect.DeepEqual(got, why) {
					t.Fatalf("%s, %s: explained as %+v, want %+v", policy, name, got, why)
				}
				same("score of the model alone", m.Alone().Score(e, make([]float64, 1))[0], first.Score(e, make([]float64, 1))[0])
			}
		}
	}
}

// TestLevelsAreChecked checks that a file with inconsistent levels is rejected.
func TestLevelsAreChecked(t *testing.T) {
	for want, spoil := range map[string]func(*model.Linear){
		"levels [0 0 2 1 1 1] for missing fields, of 1": func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 0, 2, 1, 1, 1}) },
		"levels [0 0 1 1 1 -1] for":                     func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 0, 1, 1, 1, -1}) },
		"missing: 2 levels for 6 ranges":                func(m *model.Linear) { m.Missing = m.Missing.WithLevels([]int{0, 1}) },
		"level dropout:0.5: 1 outputs, 0 intercepts":    func(m *model.Linear) { m.Levels[0].Intercept = nil },
		"level dropout:0.5: 1 outputs, 1 intercepts":    func(m *model.Linear) { m.Levels[0].Layout.Weight = 2 },
	} {
		m, _, _ := twoLevels(t, model.MissingImpute)
		spoil(m)
		blocks := must.Get(m.EachBlock())(t)
		if _, err := model.ReadLinear(slices.Collect(blocks)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestOneLevelIsSilent checks that the file of a model with one level contains no data about levels.
func TestOneLevelIsSilent(t *testing.T) {
	_, m, _ := twoLevels(t, model.MissingImpute)
	blocks := must.Get(m.EachBlock())(t)
	head, err := event.FindBlock(slices.Collect(blocks), "model")
	if err != nil || bytes.Contains(head, []byte("levels")) {
		t.Errorf("%s, error %v", head, err)
	}
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
		if !known || !(0 < low && low < high && high < 1) {
			t.Fatalf("%s: %v to %v, %v", name, low, high, known)
		}
		r := rand.New(rand.NewPCG(5, 6))
		in, n := 0.0, 40_000
		for range n {
			full := &event.Example{Weight: 1, Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{0.7, expected + deviation*r.NormFloat64(), -0.5}}}
			if p := m[1].Probabilities(m[1].Score(full, make([]float64, 1)), make([]float64, 2))[1]; low <= p && p <= high {
				in += 1 / float64(n)
			}
		}
		if math.Abs(in-0.9) > 0.01 {
			t.Errorf("%s: %.3f of the probabilities lie within", name, in)
		}
	}
	if low, high, known := first.ChanceInterval(&event.Example{Weight: 1, Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{1, 1, 1}}}); known {
		t.Errorf("with nothing missing: %v to %v", low, high)
	}
	if _, _, known := first.WithMissing(first.Missing.Forced(model.MissingNone)).ChanceInterval(e); known {
		t.Error("an interval where nothing is filled in")
	}
}
