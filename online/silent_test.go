package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// readingsOf returns a Schema of correlated numbers, and a function that returns the next event.
func readingsOf(seed uint64, classes int) (s *event.Schema, next func() *event.Example) {
	s, r := synthetic.NewReadings(seed, 16, classes)
	if classes == 0 {
		s.Target, s.Classes = loss.Real, nil
	}
	return s, func() *event.Example { return r.Next(s, classes) }
}

// killed returns a copy of an event in which half of the numbers, or of the groups, are silently missing.
func killed(r *rand.Rand, e *event.Example, dead *model.Dead, groups bool) *event.Example {
	died := false
	for i, column := range e.Features.Index {
		if !groups || i%4 == 0 {
			died = r.IntN(2) == 0
		}
		if died {
			e.Features.Value[i], _ = dead.Of(column)
		}
	}
	return e
}

// silentLoss learns events. It returns the model's loss on events in which half of the numbers, or of the groups, are
// silently missing. The loss is the log-loss or, for regression, the squared error.
func silentLoss(t *testing.T, c online.Config, classes int, groups bool) float64 {
	t.Helper()
	schema, draw := readingsOf(3, classes)
	if classes == 0 {
		c.Loss = "squared"
	}
	l := newLearner(t, c, schema)
	for range 4000 {
		l.Learn(draw(), nil)
	}
	m, r, lost := l.Snapshot().Model(), rand.New(rand.NewPCG(9, 9)), 0.0
	const tests = 2000
	for range tests {
		e := killed(r, draw(), m.Dead, groups)
		scores := m.Score(e, make([]float64, m.Outputs))
		if classes > 0 {
			lost += m.Decision().LogLoss(scores, e.Label) / tests
			continue
		}
		d := m.Value(scores[0]) - e.Target
		lost += d * d / tests
	}
	return lost
}

// TestSilentMissingKeepsItsPromise checks events in which half of the fields, or of the groups, are silently missing.
// The loss on these events must be lower if the learner uses silent_missing.
func TestSilentMissingKeepsItsPromise(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 0} {
		for _, groups := range []bool{false, true} {
			if groups && classes == 0 {
				continue
			}
			c := plain()
			without := silentLoss(t, c, classes, groups)
			c.SilentMissing, c.SilentGroups = 0.5, groups
			with := silentLoss(t, c, classes, groups)
			must.True(t, with < 0.97*without, "%d classes, groups %v: it loses %.4f with silent_missing = 0.5, %.4f without", classes, groups, with, without)
			c.Optimizer = "auto" // correcting experts also learn from silently masked copies
			most := 0.995 * with
			if classes == 0 {
				most = 1.01 * with
			}
			corrected := silentLoss(t, c, classes, groups)
			must.True(t, corrected < most, "%d classes, groups %v: corrected it loses %.4f, else %.4f", classes, groups, corrected, with)
		}
	}
}

// TestDeadValues checks that outliers and unlabeled events do not change the values for silently missing columns.
func TestDeadValues(t *testing.T) {
	c := plain()
	c.SilentMissing = 0.3
	schema, draw := readingsOf(1, 2)
	l := newLearner(t, c, schema)
	for i := range 1000 {
		e := draw()
		switch {
		case i > 100 && i%50 == 0:
			e.Features.Value[1] = 1e20
		case i%50 == 1:
			e.Label, e.Features.Value[1] = event.Unlabeled, -3e5
		}
		l.Learn(e, nil)
	}
	dead := l.Snapshot().Model().Dead
	x, known := dead.Of(2)
	must.True(t, known && x >= 40 && x <= 80, "a dead number reads %v, known %v", x, known)
}
