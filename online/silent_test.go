package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online"
	"blankout/online/silent"
	"blankout/online/synthetic"
)

// silentLoss learns so many events and returns what a reader of the model loses on events of which half of the fields, or of
// the groups, have died silently to their mean: the error, of numbers the root of the mean squared one.
func silentLoss(t *testing.T, c online.Config, classes, events int, groups bool) float64 {
	t.Helper()
	const fields = 16
	schema, s := synthetic.NewReadings(3, fields, classes)
	if classes == 0 {
		c.Loss, schema.Target, schema.Classes = "squared", loss.Real, nil
	}
	l, err := online.New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]float64, fields)
	for range events {
		e := s.Next(schema, classes)
		for i, x := range e.Features.Value {
			sums[i] += x / float64(events)
		}
		l.Learn(e, nil)
	}
	m := l.Snapshot().Model()
	r, lost := rand.New(rand.NewPCG(9, 9)), 0.0
	out := make([]float64, max(classes, 1))
	const tests = 2000
	for range tests {
		e := s.Next(schema, classes)
		died := false
		for i := range e.Features.Value {
			if !groups || i%4 == 0 {
				died = r.IntN(2) == 0
			}
			if died {
				e.Features.Value[i] = sums[i]
			}
		}
		scores := m.Score(e, out[:m.Outputs])
		switch {
		case classes == 0:
			d := m.Value(scores[0]) - e.Target
			lost += d * d / tests
		case m.Decision().Predict(scores) != e.Label:
			lost += 1.0 / tests
		}
	}
	if classes == 0 {
		return math.Sqrt(lost)
	}
	return lost
}

// What is learned for silent death loses less where half of the fields, or of the groups, have died and nobody says so: of two
// classes, of several, and of numbers, with the second-order expert and without.
func TestSilentMissingKeepsItsPromise(t *testing.T) {
	for _, classes := range []int{2, 4, 0} {
		for _, optimizer := range []string{"auto", "adagrad"} {
			for _, groups := range []bool{false, true} {
				if groups && classes == 0 {
					continue
				}
				t.Run(fmt.Sprint(classes, optimizer, groups), func(t *testing.T) {
					c := online.DefaultConfig()
					c.Optimizer = optimizer
					plain := silentLoss(t, c, classes, 4000, groups)
					c.SilentMissing, c.SilentGroups = 0.5, groups
					with := silentLoss(t, c, classes, 4000, groups)
					t.Logf("%.4f without, %.4f with", plain, with)
					if !(with < plain) {
						t.Errorf("it loses %.4f with silent_missing = 0.5, %.4f without", with, plain)
					}
				})
			}
		}
	}
}

// A wild reading and one of an unlabeled event do not move what a dead number reads.
func TestDeadValuesAreOfSoundReadings(t *testing.T) {
	c := online.DefaultConfig()
	c.SilentMissing = 0.3
	schema, s := synthetic.NewReadings(1, 4, 2)
	l, err := online.New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		e := s.Next(schema, 2)
		switch {
		case i > 100 && i%50 == 0:
			e.Features.Value[1] = 1e20
		case i%50 == 1:
			e.Label, e.Features.Value[1] = event.Unlabeled, -3
		}
		l.Learn(e, nil)
	}
	dead := l.Snapshot().Model().Dead
	if x, known := dead.Of(2); !known || x < 40 || x > 80 {
		t.Errorf("a dead number reads %v, known %v", x, known)
	}
	if _, known := dead.Of(99); known {
		t.Error("a column without readings is known")
	}
	var none *silent.Values = silent.NewValues("auto")
	if none.Dead() != nil {
		t.Error("without columns there are dead values")
	}
}

// A class that comes late makes outputs of one, and what was learned until then can be restored.
func TestSilentLateClass(t *testing.T) {
	for _, noise := range []string{"silent:0.5", "silent-group:0.5", "auto"} {
		c := online.DefaultConfig()
		if c.Noise = noise; noise == "auto" {
			c.SilentMissing = 0.5
		}
		schema := synthetic.StreamSchema(3)
		schema.Classes, schema.MaxClasses = nil, 5
		l, err := online.New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		s := synthetic.NewStream(1, 3)
		for i := range 400 {
			e := s.Next()
			if i < 200 {
				e.Label %= 2
			}
			for len(schema.Classes) <= e.Label {
				schema.Classes = append(schema.Classes, fmt.Sprint(len(schema.Classes)))
			}
			l.Learn(e, nil)
		}
		blocks, err := l.Snapshot().Blocks()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := online.Restore(c, blocks); err != nil {
			t.Errorf("%s: %v", noise, err)
		}
	}
}

// Targets of 0 are learned like others: of counts most may be 0.
func TestSilentCountsOfZero(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.Optimizer = "poisson", "silent:0.3", "adagrad" // the level alone
	schema, s := synthetic.NewReadings(3, 4, 0)
	schema.Target, schema.Classes = loss.Count, nil
	l, err := online.New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	counts, predicted := 0.0, 0.0
	for i := range 4000 {
		e := s.Next(schema, 0)
		e.Target = float64(max(0, int(s.Hidden[0])))
		if i >= 3000 {
			m := l.Snapshot().Model()
			counts, predicted = counts+e.Target, predicted+m.Value(m.Score(e, make([]float64, 1))[0])
		}
		l.Learn(e, nil)
	}
	if !(math.Abs(predicted-counts) < 0.25*counts) {
		t.Errorf("the last thousand counts, most of them 0, sum to %v, the predictions to %v", counts, predicted)
	}
}
