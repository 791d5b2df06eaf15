package online_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

// correctedConfigs returns settings whose learners have experts that correct the noise levels.
func correctedConfigs(classes int) map[string]online.Config {
	all := map[string]online.Config{}
	for name, set := range map[string]func(*online.Config){
		"alone":    func(c *online.Config) { c.Noise = "dropout:0.2" },
		"default":  func(c *online.Config) { c.Presence = "auto" },
		"silent":   func(c *online.Config) { c.SilentMissing, c.SilentGroups = 0.4, classes > 0 },
		"expected": func(c *online.Config) { c.ExpectedMissing, c.UnlabeledWeight, c.HalfLife = 0.5, 0.1, 400 },
		"rescaled": func(c *online.Config) {
			if c.MissingPolicy = "rescale"; classes == 0 {
				c.MissingPolicy = "none"
			}
		},
	} {
		c := plain()
		if c.Optimizer = "auto"; classes == 0 {
			c.Loss = "squared"
		}
		set(&c)
		all[name] = c
	}
	return all
}

// drawn returns a stream of random events. They have declared and omitted missing readings, wrong readings, missing
// labels and different weights.
func drawn(seed uint64, classes int) (*event.Schema, func() *event.Example) {
	s, draw := readingsOf(seed, classes)
	if classes > 2 {
		s.Classes, s.MaxClasses = s.Classes[:2], classes
	}
	r, n := rand.New(rand.NewPCG(seed, 9)), 0
	return s, func() *event.Example {
		e := draw()
		for n++; classes > 2 && n < 300 && e.Label > 1; {
			e = draw()
		}
		for e.Label >= len(s.Classes) && classes > 0 {
			s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
		}
		fraction := 0.0
		if r.IntN(3) == 0 {
			fraction = r.Float64()
		}
		left := &event.Example{Label: e.Label, Target: e.Target, Weight: 1}
		for i, column := range e.Features.Index {
			switch {
			case r.Float64() >= fraction && (i != 2 || r.IntN(3) > 0):
				eventtest.Put(left, column, e.Features.Value[i], e.Field[i])
			case i != 2:
				left.Missing = append(left.Missing, e.Field[i])
			}
		}
		switch r.IntN(20) {
		case 0:
			left.Label = event.Unlabeled
		case 1:
			left.Weight = 20 * r.Float64()
		}
		return left
	}
}

// TestCorrected checks learners with correcting experts. The model of a Snapshot must predict the same as Predict, and
// a restart at any event must not change any bits. It covers two classes, several late classes and regression, with
// missing fields and delayed labels.
func TestCorrected(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 4, 0} {
		all := correctedConfigs(classes)
		for i, name := range slices.Sorted(maps.Keys(all)) {
			if !longtest.Some(i+classes/2, 2) {
				continue
			}
			c := all[name]
			t.Run(fmt.Sprint(classes, " ", name), func(t *testing.T) {
				schema, draw := drawn(7, classes)
				l, later, r := newTwins(t, c, schema), [][2]any(nil), rand.New(rand.NewPCG(3, 3))
				for n := range 1200 {
					if n%157 == 2 || n == 1001 {
						l.restart()
					}
					e := draw()
					var prior *online.Prediction
					if r.IntN(4) == 0 { // its label is delayed
						p := l.Predict(e)
						p.Scores, p.Components = slices.Clone(p.Scores), slices.Clone(p.Components)
						if later = append(later, [2]any{e, &p}); len(later) < 5 {
							continue
						}
						e, prior, later = later[0][0].(*event.Example), later[0][1].(*online.Prediction), later[1:]
					}
					l.Learn(e, prior)
					if n%60 == 59 {
						agree(t, l.Learner, draw())
					}
				}
				if list := fmt.Sprint(l.Report().Experts); !strings.Contains(list, "second order") {
					t.Errorf("the experts are %s", list)
				}
			})
		}
	}
}

// rings returns a stream whose class depends on the distance of two numbers from their means. A linear model of these
// numbers cannot learn it.
func rings(seed uint64, flat *bool) (*event.Schema, func() *event.Example) {
	s := eventtest.Schema(3, "", "in", "out")
	r := rand.New(rand.NewPCG(seed, 4))
	return s, func() *event.Example {
		x, y := r.NormFloat64(), r.NormFloat64()
		e := eventtest.Event(0, x, 10+3*y, r.NormFloat64())
		if *flat && r.IntN(2) == 0 || !*flat && x*x+y*y+0.3*r.NormFloat64() > 1.4 {
			e.Label = 1
		}
		return e
	}
}

// TestCorrectedRest checks that correcting experts without a gain rest and do not affect predictions. They must be used
// again once they have a gain, and must reduce the loss overall.
func TestCorrectedRest(t *testing.T) {
	flat := true
	s, draw := rings(5, &flat)
	c := plain()
	c.Optimizer = "auto"
	l := newLearner(t, c, s)
	fractions := func() (sum float64) {
		for _, e := range l.Report().Experts {
			if e.Corrects {
				sum += e.Weight
			}
		}
		return sum
	}
	for range 20_000 {
		l.Learn(draw(), nil)
	}
	if got := fractions(); got != 0 {
		t.Errorf("where there is nothing to learn the experts have %v of the mixture", got)
	}
	l = restart(t, c, l)
	for n := range 100 {
		if agree(t, l, draw()); n == 99 && fractions() != 0 {
			t.Error("after a restart they do not rest")
		}
		l.Learn(draw(), nil)
	}
	flat = false
	wrong := 0
	for n := range 30_000 {
		e := draw()
		p := l.Learn(e, nil)
		if n >= 25_000 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
	}
	if got := fractions(); got < 0.5 || wrong > 5000/6 {
		t.Errorf("where they gain the experts have %v of the mixture, and %d of 5000 are wrong", got, wrong)
	}
}

// TestCorrectedPrior checks that, with delayed labels, the correcting experts are compared by their predictions at the
// event's arrival. Events with missing fields and complete events are compared separately.
func TestCorrectedPrior(t *testing.T) {
	flat := false
	for _, good := range [2][2]bool{{true, false}, {false, true}} {
		s, draw := rings(6, &flat)
		c := plain()
		c.Optimizer, c.Noise = "auto", "none"
		l := newLearner(t, c, s)
		for n := range 3000 {
			e, kind := draw(), n%2
			if kind == 1 {
				e.Features.Index, e.Features.Value, e.Field, e.Missing = e.Features.Index[1:], e.Features.Value[1:], e.Field[1:], e.Field[:1]
			}
			p := l.Predict(e)
			prior := online.Prediction{Scores: slices.Clone(p.Scores), Components: slices.Clone(p.Components)}
			for i := range prior.Components {
				if i >= 2 { // indices 0 and 1 are the iterate and the average
					if prior.Components[i] = -4; (e.Label == 1) == good[kind] {
						prior.Components[i] = 4
					}
				}
			}
			l.Learn(draw(), nil) // another event between arrival and label
			l.Learn(e, &prior)
		}
		if whole, missing := l.Corrected(false), l.Corrected(true); good[0] != (whole > 0.5) || good[1] != (missing > 0.5) {
			t.Errorf("experts were right %v, and have %v of whole events, %v of others", good, whole, missing)
		}
	}
}

// TestCorrectedYoungClasses checks that classes with few events share an output, with and without correcting experts.
func TestCorrectedYoungClasses(t *testing.T) {
	s, r := manyClasses(4), rand.New(rand.NewPCG(2, 2))
	online.TakeMoreClasses(s.schema)
	c := plain()
	c.Optimizer = "auto"
	l, shared, alike := newTwins(t, c, s.schema), 0, 0
	for n := range 1600 {
		e := s.next()
		e.Features.Index = append([]uint32{1, 2}, e.Features.Index...)
		e.Features.Value = append([]float64{5 + float64(e.Label%3) + 0.3*r.NormFloat64(), r.NormFloat64()}, e.Features.Value...)
		if n%97 == 96 {
			l.restart()
		}
		l.Learn(e, nil)
		if n%100 == 99 {
			agree(t, l.Learner, e)
			if l.Snapshot().Model().Layout.Outputs != nil {
				shared++
			}
			if strings.Contains(fmt.Sprint(l.Report().Experts), "second order") {
				alike++
			}
		}
	}
	if shared == 0 || alike == 0 {
		t.Errorf("of 16 models %d share an output, %d have experts", shared, alike)
	}
}

// TestCorrectedManyClasses checks that many classes with few events each are classified by their means. A restarted
// learner and the Snapshot must give the same result.
func TestCorrectedManyClasses(t *testing.T) {
	t.Parallel()
	const classes, numbers = 40, 12
	var names []string
	for k := range classes {
		names = append(names, fmt.Sprint(k))
	}
	s, r := eventtest.Schema(numbers, "", names...), rand.New(rand.NewPCG(1, 1))
	means := make([]float64, classes*numbers)
	for i := range means {
		means[i] = r.NormFloat64()
	}
	c := plain()
	c.Optimizer = "auto"
	l, wrong := newTwins(t, c, s), 0
	for n := range 2400 {
		if n%211 == 40 {
			l.restart()
		}
		x, label, common := make([]float64, numbers), r.IntN(classes), 2*r.NormFloat64()
		for i := range x {
			x[i] = 5 + 3*(means[label*numbers+i]+0.6*r.NormFloat64()+common)
		}
		e := eventtest.Event(label, x...)
		if p := l.Learn(e, nil); n >= 1200 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
		if n%150 == 149 {
			agree(t, l.Learner, e)
		}
	}
	if list := fmt.Sprint(l.Report().Experts); wrong > 120 || strings.Contains(list, "discriminant 0 ") {
		t.Errorf("%d of 1200 are wrong, experts %s", wrong, list)
	}
}

// TestExpertsOfCorrections checks the reported mixture weights. The reported noise level must have the largest weight,
// and the weight of the correcting experts must be reported separately.
func TestExpertsOfCorrections(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	l := streamLearner(t, online.DefaultConfig(), 2)
	corrected := 0.0
	for range 3000 {
		e := synthetic.Drawn(r)
		x := e.Features.Value[0]
		if e.Label = 0; math.Abs(x) > 1 {
			e.Label = 1 // only a spline can express it
		}
		l.Learn(e, nil)
	}
	m := l.Report()
	levels, named := 0.0, -1.0
	for _, x := range m.Experts {
		if x.Corrects {
			if x.Name != "cosines" { // which are added to the corrected prediction
				corrected += x.Weight
			}
			continue
		}
		levels += x.Weight
		if x.Name == m.Level {
			named = x.Weight
		}
	}
	if math.Abs(levels-1) > 1e-9 || corrected < .5 || corrected > 1+1e-9 {
		t.Errorf("levels have %v, corrections %v: %+v", levels, corrected, m.Experts)
	}
	for _, x := range m.Experts {
		if !x.Corrects && x.Weight > named || named <= 0 {
			t.Errorf("%s answers with a share of %v: %+v", m.Level, named, m.Experts)
		}
	}
}
