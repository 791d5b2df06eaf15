package main

// This file measures what it is worth that events that lack fields are answered by other noise
// levels than those that lack none.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"blankout/model"
	"blankout/online"
)

// levels compares, on events that have lost a share of their fields or groups of fields, what
// the default learner answers with all levels at hand and with the published one alone: after
// two thirds of a stream in which nothing was missing, and in one pass over a stream in which
// as much is missing from the beginning.
func (c *comparison) levels() error {
	fmt.Fprint(c.w, "## Levels by the share that is missing, error in %\n\n| stream | null | learned | published level | level of the share | difference |\n|---|---|---|---|---|---|\n")
	for _, d := range nullStreams {
		s, err := load(c.path(d.name, d.file), d.classes)
		if err != nil {
			return err
		}
		for _, group := range []int{1, d.group} {
			for _, learned := range []string{"without nulls", "with as many"} {
				complete := learned == "without nulls"
				for _, share := range []float64{0.1, 0.3, 0.5, 0.7} {
					var one, all, more []float64
					for seed := range uint64(nullSeeds) {
						a, err := learnLevels(s, d.columns, group, share, seed, complete, false)
						if err != nil {
							return err
						}
						b, err := learnLevels(s, d.columns, group, share, seed, complete, true)
						if err != nil {
							return err
						}
						one, all, more = append(one, a), append(all, b), append(more, b-a)
					}
					what := "fields"
					if group > 1 {
						what = fmt.Sprintf("groups of %d", group)
					}
					fmt.Fprintf(c.w, "| %s | %.0f %% of the %s | %s | %.2f | %.2f | %+.2f ± %.2f |\n", d.name, 100*share, what, learned,
						stat.Mean(one, nil), stat.Mean(all, nil), stat.Mean(more, nil), stat.StdDev(more, nil)/math.Sqrt(nullSeeds))
				}
			}
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

// learnLevels learns a set, whose columns become fields, and returns the error on events of
// which a share of the fields or groups of them is null, in percent: of those after the first
// two thirds if these are learned complete, else of all, each before it is learned.
func learnLevels(s *set, columns, group int, share float64, seed uint64, complete, all bool) (float64, error) {
	schema := fieldSchema(s, columns, group)
	config := online.DefaultConfig()
	config.PublishLevels = all
	l, err := online.New(config, schema)
	if err != nil {
		return 0, err
	}
	r := rand.New(rand.NewPCG(seed, 2))
	scores, wrong, of := make([]float64, schema.Outputs()), 0, 0
	var m *model.Linear
	for i := range s.examples {
		if complete && i < len(s.examples)*2/3 {
			e := nulled(&s.examples[i], columns, group, 0, r)
			l.Learn(&e)
			continue
		}
		e := nulled(&s.examples[i], columns, group, share, r)
		if m == nil && complete {
			m = l.Published()
		}
		if complete {
			scores = m.Score(&e, scores)
		} else {
			scores = l.Learn(&e)
		}
		if of++; model.Predict(scores) != e.Label {
			wrong++
		}
	}
	return 100 * float64(wrong) / float64(of), nil
}
