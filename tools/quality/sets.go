package main

// This file measures, for each missing fraction, how often prediction sets contain the true class and how many classes
// they contain.

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
)

// setStreams are the data whose prediction sets are measured, with groups of consecutive columns null. If there is a
// test file, the model of the train file predicts the events of the test file. Otherwise each event is predicted before
// it is learned.
var setStreams = []struct {
	name, train, test string
	classes, columns  int
	group             int
	learned           bool // whether events are learned with the nulls; otherwise complete
	what              string
}{
	{"usps", "train.svm.gz", "test.svm.gz", 10, 256, 16, false, "patches of 4 x 4, the test file"},
	{"usps", "train.svm.gz", "", 10, 256, 16, false, "patches of 4 x 4, as a stream"},
	{"covtype_10k", "train.svm.gz", "test.svm.gz", 7, 54, 1, false, "the test file"},
	{"covtype_10k", "train.svm.gz", "", 7, 54, 1, false, "as a stream"},
	{"elec2", "stream.svm.gz", "", 2, 8, 1, false, "learned without nulls"},
	{"elec2", "stream.svm.gz", "", 2, 8, 1, true, "learned with the same nulls"},
}

var setFractions = []float64{0, 0.3, 0.5, 0.7}

// setSums has the sums over the predictions at one missing fraction.
type setSums struct {
	predicted, held, size, right float64
	classes                      [10]struct{ predicted, held float64 }
}

// worst returns the smallest coverage of a class, among classes with more than a hundred events.
func (x *setSums) worst() float64 {
	least := 1.0
	for _, c := range x.classes {
		if c.predicted > 100 {
			least = min(least, c.held/c.predicted)
		}
	}
	return least
}

// sets writes the table about prediction sets.
func (c *comparison) sets() error {
	fmt.Fprint(c.w, "## Sets that hold the class\n\n| stream | 0 | 30 % | 50 % | 70 % |\n|---|---|---|---|---|\n")
	for _, d := range setStreams {
		s, err := load(c.path(d.name, d.train), d.classes)
		if err != nil {
			return err
		}
		var asked *set
		if d.test != "" {
			if asked, err = load(c.path(d.name, d.test), d.classes); err != nil {
				return err
			}
		}
		if d.name == "usps" {
			s.patch()
			if asked != nil {
				asked.patch()
			}
		}
		var sums [4]setSums
		if d.learned {
			for i, fraction := range setFractions {
				askSets(s, nil, d.columns, d.group, []float64{fraction}, true, sums[i:i+1])
			}
		} else {
			askSets(s, asked, d.columns, d.group, setFractions, false, sums[:])
		}
		fmt.Fprintf(c.w, "| %s, %s |", d.name, d.what)
		for _, x := range sums {
			fmt.Fprintf(c.w, " %.1f / %.1f / %.1f / %.2f |", 100*x.held/x.predicted, 100*x.worst(), 100*x.right/x.predicted, x.size/x.predicted)
		}
		fmt.Fprintln(c.w)
	}
	fmt.Fprintln(c.w)
	return nil
}

// patch reorders the columns of images of 16 x 16 pixels, so that the columns of each patch of 4 x 4 pixels are
// consecutive.
func (s *set) patch() {
	for i := range s.examples {
		x := s.examples[i].Features
		values := map[uint32]float64{}
		for j, column := range x.Index {
			row, at := column/16, column%16
			x.Index[j] = (row/4*4+at/4)*16 + row%4*4 + at%4
			values[x.Index[j]] = x.Value[j]
		}
		slices.Sort(x.Index)
		for j, column := range x.Index {
			x.Value[j] = values[column]
		}
	}
}

// askSets learns a stream and adds the predictions for events with missing groups to sums, by missing fraction. The
// final model predicts the events of asked. If asked is nil, each event of the stream from the 200th on is predicted
// before it is learned.
func askSets(s, asked *set, columns, group int, fractions []float64, learned bool, sums []setSums) {
	schema := fieldSchema(s, columns, group)
	l := newOnline(online.DefaultConfig(), schema)
	var draws []*rand.Rand
	for range fractions {
		draws = append(draws, rand.New(rand.NewPCG(1, 1)))
	}
	for i := range s.examples {
		var m *model.Linear
		if asked == nil && i >= 200 {
			m = l.Snapshot().Model().Compact()
		}
		whole := without(&s.examples[i], columns, group, make([]bool, columns))
		for k, fraction := range fractions {
			e := nulled(&s.examples[i], columns, group, fraction, draws[k])
			if m != nil {
				sums[k].ask(m, &e)
			}
			if learned {
				whole = e
			}
		}
		l.Learn(&whole, nil)
	}
	if asked == nil {
		return
	}
	m := l.Snapshot().Model().Compact()
	for i := range asked.examples {
		for k, fraction := range fractions {
			e := nulled(&asked.examples[i], columns, group, fraction, draws[k])
			sums[k].ask(m, &e)
		}
	}
}

// ask adds the prediction of a model for an event.
func (x *setSums) ask(m *model.Linear, e *event.Example) {
	scores := m.Score(e, make([]float64, m.Outputs))
	class := m.Predict(scores)
	set, ok := m.Set(m.Handling(e), m.Probabilities(scores, make([]float64, max(2, m.Outputs))), class)
	if !ok {
		return
	}
	x.predicted++
	x.size += float64(len(set))
	x.classes[e.Label].predicted++
	if slices.Contains(set, e.Label) {
		x.held++
		x.classes[e.Label].held++
	}
	if class == e.Label {
		x.right++
	}
}
