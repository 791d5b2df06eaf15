package online

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/synthetic"
)

// grownClasses are settings under which classes may come as they like.
func grownClasses() map[string]Config {
	all := map[string]Config{}
	for _, r := range rules.Table {
		c := DefaultConfig()
		c.Optimizer, c.Noise = r.Name, "dropout:0.3"
		switch r.Name {
		case "arow":
			c.Loss, c.Noise = "hinge", "none"
		case "irls":
			c.IRLSBatch = 20
		case "adagrad":
			c.IRLSBatch, c.IRLSWindow = 20, 60
		}
		all[r.Name] = c
	}
	bank, groups, scaled := DefaultConfig(), DefaultConfig(), DefaultConfig()
	groups.Noise = "dropout:0.1+group:0.3"
	scaled.Noise, scaled.HalfLife, scaled.OnDrift = "gaussian:0.1", 300, "forget"
	all["bank"], all["groups"], all["gaussian"] = bank, groups, scaled
	return all
}

// Where a third class comes, what two classes have taught stays: the output of the second
// scores as the only one did, and that of the first as its negation.
func TestWiden(t *testing.T) {
	for name, c := range grownClasses() {
		l, s := sensorLearner(t, c), synthetic.NewSensors(5)
		l.Schema().MaxClasses, l.Schema().Classes = 100, []string{"no", "yes", "c", "d", "e", "f", "g"}
		s.Lost, s.Absent = 0.3, true // so that its presence counts
		feed(l, s, 1500)
		e := s.Next()
		f := scoresOf(l, e)[0]
		sumsq := make([]float64, len(l.levels))
		for v := range sumsq {
			sumsq[v] = l.levels[v].sumsq[0]
		}
		l.grow(&event.Example{Label: 3})
		l.setAnswerOutputs()
		got := scoresOf(l, e)
		if len(got) != 4 || math.Abs(got[0]+f) > 1e-12 || math.Abs(got[1]-f) > 1e-12 {
			t.Errorf("%s: %v after growing, %v before", name, got, f)
		}
		for v, was := range sumsq {
			if got := l.levels[v].sumsq; got[0] != was || got[1] != was || got[2] != 0 || name == "gaussian" && was == 0 {
				t.Errorf("%s: sums of squares %v after growing, %v before", name, got, was)
			}
		}
		if l.active != 4 {
			t.Errorf("%s: %d outputs in use", name, l.active)
		}
		for range 40 {
			e := s.Next()
			e.Label = int(s.N % 4)
			l.Learn(e, nil)
		}
		again := scoresOf(l, e)
		l.grow(&event.Example{Label: 6})
		l.setAnswerOutputs()
		if got := scoresOf(l, e); !slices.Equal(got[:4], again) {
			t.Errorf("%s: %v after growing from four classes, %v before", name, got, again)
		}
	}
}

// An event that was scored when there were two classes is measured by what it was told, a
// third class included.
func TestWidenLater(t *testing.T) {
	l, s := sensorLearner(t, DefaultConfig()), synthetic.NewSensors(7)
	l.Schema().MaxClasses, l.Schema().Classes = 100, []string{"no", "yes", "c", "d", "e", "f", "g"}
	feed(l, s, 500)
	e := s.Next()
	told := scoresOf(l, e)
	before := l.Report().Total
	e.Label = 2
	l.Learn(e, &Prediction{Learned: l.Report().Events, Scores: told})
	after := l.Report()
	if after.Total.Wrong != before.Wrong+1 || len(after.Classes) != 3 || after.Binary != nil {
		t.Errorf("%+v", after)
	}
	if wide := l.widened(told); len(wide) != 3 || wide[0] != -told[0] || wide[1] != told[0] || wide[2] != rows.NoClass {
		t.Errorf("%v of %v", wide, told)
	}
}
