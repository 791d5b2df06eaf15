package model_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestSets checks that a set contains the predicted class and each class whose probability reaches the limit for the
// event's missing fraction. The most probable class must be first. A model without limits returns no set.
func TestSets(t *testing.T) {
	h := model.Head{Sets: &model.Sets{Coverage: 0.9, Limits: [model.SetRanges]float64{-math.Log(0.3), 0, -1, model.MostLimit}}}
	p := []float64{0.3, 0.2, 0.5, 0}
	for _, test := range []struct {
		within, class int
		want          []int
	}{{0, 2, []int{2, 0}}, {0, 1, []int{2, 0, 1}}, {1, 2, []int{2}}, {3, 2, []int{2, 0, 1, 3}}} {
		if set, ok := h.Set(model.MissingHandling{Range: test.within}, p, test.class); !ok || !slices.Equal(set, test.want) {
			t.Errorf("range %d, class %d: %v, want %v", test.within, test.class, set, test.want)
		}
	}
	h.Sets.Classes = []model.SetLimits{{0, 0, -1, 0}, {0: -math.Log(0.15), 3: 1}}
	for within, want := range map[int][]int{0: {2, 1}, 1: {2}, 3: {2, 3}} { // the last two classes use the common limits
		if set, ok := h.Set(model.MissingHandling{Range: within}, p, 2); !ok || !slices.Equal(set, want) {
			t.Errorf("by class, range %d: %v, want %v", within, set, want)
		}
	}
	if set, ok := h.Set(model.MissingHandling{Range: 2}, p, 2); ok || set != nil {
		t.Errorf("a range of which nothing is known has the set %v", set)
	}
	if _, ok := (&model.Head{}).Set(model.MissingHandling{}, p, 2); ok {
		t.Error("a model without sets tells one")
	}
	var names []string
	for r := range model.SetRanges {
		names = append(names, model.RangeName(r))
	}
	if got := strings.Join(names, " "); got != "0 0-0.1 0.1-0.3 0.3-0.5 0.5-0.7 0.7-0.85 0.85-1" {
		t.Errorf("ranges %s", got)
	}
}

// TestSetsAreChecked checks that invalid limits are rejected, and that valid limits are read unchanged.
func TestSetsAreChecked(t *testing.T) {
	m := model.NewLinear(event.NewSchema(4, []string{"a", "b"}, 2), "logistic", "none", [][]float64{{0, 1}}, []float64{0})
	m.Sets = &model.Sets{Coverage: 0.8, Limits: [model.SetRanges]float64{0, 1.5, -1, model.MostLimit}}
	read := func(sets string) (*model.Linear, error) {
		each := must.Get(m.EachBlock())(t)
		blocks := slices.Collect(each)
		for i, b := range blocks {
			if b.Name == "model" {
				was, err := json.Marshal(m.Sets)
				if err != nil || !strings.Contains(string(b.Data), string(was)) {
					t.Fatalf("%s has no %s (%v)", b.Data, was, err)
				}
				blocks[i].Data = []byte(strings.Replace(string(b.Data), string(was), sets, 1))
			}
		}
		return model.ReadLinear(blocks)
	}
	if got, err := read(`{"coverage":0.8,"limits":[0,1.5,-1,1000,0,0,0]}`); err != nil || !reflect.DeepEqual(got.Sets, m.Sets) {
		t.Errorf("read %+v (%v)", got, err)
	}
	m.Sets.Classes = []model.SetLimits{{1, 2, -1, 3}, m.Sets.Limits}
	if got, err := read(`{"coverage":0.8,"limits":[0,1.5,-1,1000,0,0,0],"classes":[[1,2,-1,3,0,0,0],[0,1.5,-1,1000,0,0,0]]}`); err != nil || !reflect.DeepEqual(got.Sets, m.Sets) {
		t.Errorf("by class: read %+v (%v)", got, err)
	}
	for _, sets := range []string{`{"coverage":0.9,"limits":[1],"classes":[[1001]]}`, `{"coverage":0.9,"limits":[1],"classes":[[-1]]}`, `{"coverage":1,"limits":[0]}`, `{"coverage":0,"limits":[0]}`, `{"coverage":0.9,"limits":[0,-0.5]}`, `{"coverage":0.9,"limits":[1001]}`} {
		if _, err := read(sets); err == nil {
			t.Errorf("%s is taken", sets)
		}
	}
}

// TestJudge checks that Judge returns the same bits as Predict, LogLoss and Probability.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		at := r.NormFloat64()
		d := model.Decision{Link: &model.Link{Scores: []float64{at, at + 9*r.Float64()}, LogOdds: []float64{-2 * r.Float64(), 5 * r.Float64()}}, Threshold: float64(r.IntN(2)) * r.Float64()}
		scores := make([]float64, []int{1, 3}[r.IntN(2)])
		for k := range scores {
			scores[k] = math.Ldexp(r.NormFloat64(), r.IntN(12))
		}
		label := r.IntN(max(2, len(scores)))
		want := model.Judged{Class: d.Predict(scores), LogLoss: d.LogLoss(scores, label)}
		if len(scores) == 1 {
			want.Probability = d.Probability(scores[0])
		}
		if got := d.Judge(scores, label); got != want {
			t.Fatalf("%v of %v for class %d: %v, want %v", d, scores, label, got, want)
		}
	}
}
