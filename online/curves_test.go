package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
	"blankout/internal/longtest"
	"blankout/loss"
	"blankout/model"
	"blankout/online/rules"
	"blankout/online/scaling"
)

// The variance of a score with curves, the gradient of its expected loss and with the
// quadratic loss the gradient of the exact solvers, as in TestGroupsAgainstTheSlowSum: a
// number and its hats are one feature, of a group or not.
func TestCurvesAgainstTheSlowSum(t *testing.T) {
	longtest.NotRaced(t)
	for _, classes := range []int{2, 3} {
		for _, noise := range []string{"dropout:0.3", "group:0.4", "dropout:0.3+group:0.2"} {
			for _, name := range []string{"quadratic", "logistic", "hinge:chen:0.5"} {
				c := DefaultConfig()
				c.Loss, c.Noise, c.Eta, c.Curves, c.Presence = name, noise, 0.05, 6, "none"
				l, s := mustNew(t, c, classes), newStream(3, classes)
				s.lacks = true
				seen := &spy{Rule: l.rule}
				l.rule = seen
				for i := range 140 {
					e := s.next()
					e.Weight = 1
					if i == 60 { // in place of scaling.CurveEvents
						l.scaling.FindKnots()
						if n := len(l.scaling.Scaler.Curves.Columns); n != 4 { // 1 and 2 of no field, 3 and 4
							t.Fatalf("%d columns have curves, want 4", n)
						}
					}
					if i < 120 {
						l.Learn(e)
						continue
					}
					checkGroupStep(t, l, e, seen, loss.AsGroups(l.levels[0].noise), i == 120 && classes == 2 && name == "logistic")
				}
			}
		}
	}
}

// Every rule with curves: the snapshot scores as Learn does, what is restored before or
// after the knots are found goes on to the bit, and all numbers are finite.
func TestCurvesInEveryRule(t *testing.T) {
	longtest.NotRaced(t)
	for i, rule := range rules.Table {
		for j, noise := range []string{"auto", "none", "dropout:0.4", "dropout:0.2+group:0.4"} {
			for k, classes := range []int{2, 3} {
				c := DefaultConfig()
				c.Rule, c.Noise, c.Curves = rule.Name, noise, 5
				if c.Check() != nil || (i+j+k)%2 > 0 { // every two of them meet
					continue
				}
				t.Run(fmt.Sprint(rule.Name, "/", noise, "/", classes), func(t *testing.T) { restoredWithCurves(t, c, classes) })
			}
		}
	}
}

func restoredWithCurves(t *testing.T, c Config, classes int) {
	l, s := mustNew(t, c, classes), newStream(7, classes)
	other, s2 := mustNew(t, c, classes), newStream(7, classes)
	s.lacks, s2.lacks = true, true
	cuts := []int{400, scaling.CurveEvents, scaling.CurveEvents + 60}
	for i := range scaling.CurveEvents + 120 {
		e := s.next()
		if slices.Contains(cuts, i) {
			want := slices.Clone(l.Snapshot().Model().Score(e, make([]float64, l.k)))
			got := l.Learn(e)
			if i == scaling.CurveEvents { // hats are new, and weigh nothing
				want = want[:0]
			}
			for k := range want {
				if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
					t.Errorf("event %d, output %d: Learn scored %v, the snapshot scores %v", i, k, got[k], want[k])
				}
			}
			blocks, err := other.Blocks()
			if err != nil {
				t.Fatal(err)
			}
			if other, err = Restore(c, blocks); err != nil {
				t.Fatal(err)
			}
		} else {
			l.Learn(e)
		}
		other.Learn(s2.next())
	}
	if l.scaling.Scaler.Curves == nil {
		t.Fatal("no knots were found")
	}
	if !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
		t.Error("saved and restored on the way, the state is another")
	}
	finite(t, l)
}

// A level of a bank with curves learns what it would learn alone.
func TestCurvesInABankAsIfAlone(t *testing.T) {
	c := DefaultConfig()
	c.Levels, c.Curves = []float64{0, 0.3, 0.7}, 8
	bank, s := mustNew(t, c, 2), newStream(11, 2)
	var alone []*Learner
	for _, q := range c.Levels {
		one := c
		one.Noise = loss.Dropout{Q: q}.String()
		alone = append(alone, mustNew(t, one, 2))
	}
	for range 3000 {
		e := s.next()
		bank.Learn(e)
		for _, l := range alone {
			l.Learn(e)
		}
	}
	sameAsAlone(t, 3000, bank, alone)
}

// bent is a stream whose class is whether a number is far from 0, beside a number that
// says nothing.
func bent(r *rand.Rand, e *blankout.Example) {
	x, y := r.NormFloat64(), 50+10*r.NormFloat64()
	e.Features = blankout.Vec{Index: []uint32{3, 4}, Value: []float64{x, y}}
	e.Field, e.Label, e.Weight = []uint16{1, 1}, 0, 1
	if math.Abs(x) > 0.7 {
		e.Label = 1
	}
}

// What no line can tell a curve does; and what is forecast by masks, of more than two
// classes, is what comes of it where features die, a number with its curve.
func TestCurvesLearnWhatLinesCannot(t *testing.T) {
	wrong := map[int]float64{}
	for _, curves := range []int{0, 8} {
		c := DefaultConfig()
		c.Curves, c.Missing, c.Rule = curves, "as-is", "adagrad" // the second-order expert has curves of its own
		l := mustNew(t, c, 3)
		r := rand.New(rand.NewPCG(5, 6))
		var e blankout.Example
		for n := range 8000 {
			bent(r, &e)
			if f := l.Learn(&e); n >= 4000 && model.Predict(f) != e.Label {
				wrong[curves]++
			}
		}
		if curves == 0 {
			continue
		}
		forecast := l.Metrics().Served.Error
		m := l.Published()
		scores := make([]float64, 3)
		died, events := 0.0, 0.0
		for range 4000 {
			bent(r, &e)
			x := m.Standardized(&e, blankout.Vec{})
			field := m.Scaler.FieldsOf(&e, x.Index, nil)
			dead := make([]bool, x.Len())
			dead[0], dead[1] = r.IntN(2) == 0, r.IntN(2) == 0
			m.Scaler.Curves.Follow(x.Index, dead)
			var left blankout.Example
			m.Delete(&e, x, field, dead, true, &left)
			events++
			if m.Predict(m.ScoreLacking(left.Features, &left, scores)) != e.Label {
				died++
			}
		}
		if got, want := forecast[5], died/events; math.Abs(got-want) > 0.03 {
			t.Errorf("half of the features dead: forecast %.3f, measured %.3f", got, want)
		}
	}
	if wrong[0]/4000 < 0.35 || wrong[8]/4000 > 0.06 {
		t.Errorf("%v of 4000 events wrong with a line, %v with a curve; want over 35 %% and below 6 %%", wrong[0], wrong[8])
	}
}
