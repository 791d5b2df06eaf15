package main

// This file measures how often the sets of answers hold the class, and how many classes they hold, at
// each share of what is missing.

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
)

// setStreams are asked about events of which groups of columns are null, of so many consecutive ones each: a
// test file by the model of a train file or, without one, each event of a stream before it is learned.
var setStreams = []struct {
	name, train, test string
	classes, columns  int
	group             int
	learned           bool // with the nulls; else whole
	what              string
}{
	{"usps", "train.svm.gz", "test.svm.gz", 10, 256, 16, false, "patches of 4 x 4, the test file"},
	{"usps", "train.svm.gz", "", 10, 256, 16, false, "patches of 4 x 4, as a stream"},
	{"covtype_10k", "train.svm.gz", "test.svm.gz", 7, 54, 1, false, "the test file"},
	{"covtype_10k", "train.svm.gz", "", 7, 54, 1, false, "as a stream"},
	{"elec2", "stream.svm.gz", "", 2, 8, 1, false, "learned without nulls"},
	{"elec2", "stream.svm.gz", "", 2, 8, 1, true, "learned with the same nulls"},
}

var setShares = []float64{0, 0.3, 0.5, 0.7}

// setSums are what answers came to at a share.
type setSums struct {
	told, held, size, right float64
	classes                 [10]struct{ told, held float64 }
}

// worst returns the least coverage of a class of over a hundred events.
func (x *setSums) worst() float64 {
	least := 1.0
	for _, c := range x.classes {
		if c.told > 100 {
			least = min(least, c.held/c.told)
		}
	}
	return least
}

// sets makes the table.
func (c *comparison) sets() error {
	fmt.Fprint(c.w, "## Sets that hold the class\n\n| stream | | 0 | 30 % | 50 % | 70 % |\n|---|---|---|---|---|---|\n")
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
			for i, share := range setShares {
				if err := askSets(s, nil, d.columns, d.group, []float64{share}, true, sums[i:i+1]); err != nil {
					return err
				}
			}
		} else if err := askSets(s, asked, d.columns, d.group, setShares, false, sums[:]); err != nil {
			return err
		}
		fmt.Fprintf(c.w, "| %s | %s |", d.name, d.what)
		for _, x := range sums {
			fmt.Fprintf(c.w, " %.1f / %.1f / %.1f / %.2f |", 100*x.held/x.told, 100*x.worst(), 100*x.right/x.told, x.size/x.told)
		}
		fmt.Fprintln(c.w)
	}
	fmt.Fprintln(c.w)
	return nil
}

// patch orders the columns of pictures of 16 x 16 by patches of 4 x 4.
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

// askSets learns a stream and adds up by share what is answered to events with such a share of their groups null:
// those of asked by the last model or, where it is nil, those of the stream before each is learned, from
// the 200th on.
func askSets(s, asked *set, columns, group int, shares []float64, learned bool, sums []setSums) error {
	schema := fieldSchema(s, columns, group)
	l, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		return err
	}
	var draws []*rand.Rand
	for range shares {
		draws = append(draws, rand.New(rand.NewPCG(1, 1)))
	}
	for i := range s.examples {
		var m *model.Linear
		if asked == nil && i >= 200 {
			m = l.Snapshot().Model().Compact()
		}
		whole := without(&s.examples[i], columns, group, make([]bool, columns))
		for k, share := range shares {
			e := nulled(&s.examples[i], columns, group, share, draws[k])
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
		return nil
	}
	m := l.Snapshot().Model().Compact()
	for i := range asked.examples {
		for k, share := range shares {
			e := nulled(&asked.examples[i], columns, group, share, draws[k])
			sums[k].ask(m, &e)
		}
	}
	return nil
}

// ask adds what a model answers to an event.
func (x *setSums) ask(m *model.Linear, e *event.Example) {
	scores := m.Score(e, make([]float64, m.Outputs))
	class := m.Predict(scores)
	set, ok := m.Set(m.Answer(e), m.Probabilities(scores, make([]float64, max(2, m.Outputs))), class)
	if !ok {
		return
	}
	x.told++
	x.size += float64(len(set))
	x.classes[e.Label].told++
	if slices.Contains(set, e.Label) {
		x.held++
		x.classes[e.Label].held++
	}
	if class == e.Label {
		x.right++
	}
}
