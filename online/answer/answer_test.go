package answer_test

import (
	"slices"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/answer"
	"blankout/online/numbers"
	"blankout/online/rows"
	"blankout/online/young"
)

// Classes are judged by the outputs in use, at each scale; numbers by the loss in their unit, and their
// error in the targets' own.
func TestJudge(t *testing.T) {
	j := answer.Judge{Scales: []float64{1, 2}, Label: 1, Active: 2, Decision: model.Decision{}}
	scores := []float64{0.5, 1, 7}
	if got := j.AddLosses([]float64{9}, scores, 3); len(got) != 3 || got[0] != 9 || !slices.Equal(scores, []float64{0.5, 1, 7}) ||
		got[1] != j.Decision.LogLoss([]float64{0.5, 1, rows.NoClass}, 1) || got[2] != j.Decision.LogLoss([]float64{1, 2, rows.NoClass}, 1) {
		t.Errorf("losses %v of %v", got, scores)
	}
	if j.Wrong(scores) != 0 || scores[2] != rows.NoClass || j.Wrong([]float64{3, 1, 7}) != 1 {
		t.Error("what is right is wrong")
	}
	for label := range 2 { // levels of one output
		j := answer.Judge{Scales: []float64{0.7, 1, 1.4}, Label: label, Active: 1, Decision: model.Decision{Link: &model.Link{Scores: []float64{0, 1}, LogOdds: []float64{0, 1}}}}
		levels := []float64{0.5, -3, 800, -2000}
		for i, got := range j.AddLosses([]float64{9}, levels, 1)[1:] {
			if want := j.Lost([]float64{j.Scales[i%3] * levels[i/3]}); got != want {
				t.Errorf("label %d: level %d loses %v at scale %v, want %v", label, i/3, got, j.Scales[i%3], want)
			}
		}
	}
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		n := answer.Judge{Loss: loss.Linear{}, Scales: []float64{1}, Active: 1, Raw: 12, Target: 0.5, Unit: numbers.NewUnit(of, 0)}
		n.Unit.Scale = 4
		want, _, _ := n.Loss.At(0.5, 0.2, 0)
		if off := 12 - n.Unit.Value(0.2); n.Lost([]float64{0.2}) != want || n.Wrong([]float64{0.2}) != off*off {
			t.Errorf("%v: %v, %v", of, n.Lost([]float64{0.2}), n.Wrong([]float64{0.2}))
		}
		if wide := n.Widen(0.2, 0.3); (wide != 0.2) != (of == loss.Count) {
			t.Errorf("%v: widened to %v", of, wide)
		}
	}
}

// Of classes that share an output the one that is most likely is predicted, if it is more likely than any with its own.
func TestJudgeOfSharedOutput(t *testing.T) {
	var classes young.Classes
	from := classes.Merge(12, 12, func(class int) bool { return class >= 10 }, func(class int) uint64 { return uint64(class % 10) }) // 10 and 11 share, 1 to 2
	j := answer.Judge{Scales: oneScale, Active: len(from), Classes: &classes}
	scores := make([]float64, len(from))
	for shared, class := range map[float64]int{2: 11, 0.1: 0} {
		scores[classes.Shared()] = shared
		for label := range 12 {
			j.Label, j.Class = classes.Output(label), label
			if got := j.Wrong(scores); (got == 0) != (label == class) {
				t.Errorf("the shared output scores %v: class %d is wrong: %v", shared, label, got)
			}
		}
	}
}

var oneScale = []float64{1}
