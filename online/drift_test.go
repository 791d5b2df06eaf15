package online

import (
	"math"
	"testing"

	"blankout/internal/model"
	"blankout/online/rules"
	"blankout/online/synthetic"
)

// Forgetting keeps the weights and makes the next steps larger, for every rule
// that has a metric. It forgets no more than all: AROW's variance does not exceed
// the one it started from.
func TestForgetting(t *testing.T) {
	for _, rule := range rules.Table {
		t.Run(rule.Name, func(t *testing.T) {
			c := DefaultConfig()
			c.Optimizer, c.Loss, c.Noise, c.Average, c.Adapt = rule.Name, "logistic", "dropout:0.3", 0, false
			if rule.Name == "irls" {
				c.IRLSBatch = 50
			}
			forgets, goesOn := mustNew(t, c, 2), mustNew(t, c, 2)
			s := synthetic.NewStream(17, 2)
			for range 500 {
				e := s.Next()
				forgets.Learn(e, nil)
				goesOn.Learn(e, nil)
			}
			weights := func(l *Learner) []float64 {
				w := []float64{l.weights(l.bias)[0]}
				for i := range l.table.Len() {
					_, row := l.table.Column(i)
					w = append(w, l.weights(row)[0])
				}
				return w
			}
			before := weights(forgets)
			forgets.forget(driftKeep)
			for i, w := range weights(forgets) {
				if w != before[i] {
					t.Fatalf("weight %d was %v and is %v", i, before[i], w)
				}
			}
			for range 50 {
				e := s.Next()
				forgets.Learn(e, nil)
				goesOn.Learn(e, nil)
			}
			moved := func(l *Learner) (sum float64) {
				for i, w := range weights(l)[:len(before)] {
					sum += (w - before[i]) * (w - before[i])
				}
				return math.Sqrt(sum)
			}
			far, near := moved(forgets), moved(goesOn)
			if rule.Name == "sgd" { // it has no metric
				if far != near {
					t.Errorf("the weights moved by %v after forgetting, by %v without", far, near)
				}
			} else if !(far > 1.2*near) {
				t.Errorf("the weights moved by %v after forgetting, by %v without", far, near)
			}
			if rule.Name != "arow" {
				return
			}
			forgets.forget(1e-9)
			for i := range forgets.table.Len() {
				column, row := forgets.table.Column(i)
				if v := row[model.ScalerWidth+forgets.n]; v != 1 {
					t.Errorf("column %d: variance %v after forgetting everything", column, v)
				}
			}
		})
	}
}
