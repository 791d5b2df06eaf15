package main

// This file measures the benefit of observed noise, whose rates are the observed missing rates of the groups. Some
// groups are missing much more often than other groups.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
)

// observedRates are the rates at which groups become null. Each group gets one of the rates at random. The mean rate is
// close to 0.3, the rate of the noises that are compared with observed noise.
var observedRates = []float64{0, 0.05, 0.3, 0.8}

// observedWay is a way to learn a stream.
type observedWay struct {
	name, noise string
	silent      float64
	copies      int // number of copies of each event, in which more groups read their mean so far, at mixed rates
}

var observedWays = []observedWay{
	{name: "none", noise: "none"}, {name: "dropout:0.3", noise: "dropout:0.3"}, {name: "group:0.3", noise: "group:0.3"},
	{name: "auto", noise: "auto"}, {name: loss.ObservedNoise, noise: loss.ObservedNoise},
	{name: "auto, silent_missing = 0.5", noise: "auto", silent: 0.5}, {name: "auto on the events and 3 copies", noise: "auto", copies: 3},
}

// observed compares noises on streams in which each group of columns becomes null at its own rate. It measures the
// progressive error of all events. For the last third of the events it also measures the error if missing fields are
// not declared and read their mean.
func (c *comparison) observed() error {
	fmt.Fprint(c.w, "## Noise at the rates observed, error in %\n\nGroups are null at 0, 5, 30 or 80 %.\n\n")
	columns := []string{"stream", "dead fields"}
	for _, way := range observedWays {
		columns = append(columns, way.name)
	}
	c.header(append(columns, "observed less group:0.3", "observed less auto")...)
	for _, d := range nullStreams {
		s, err := load(c.path(d.name, d.file), d.classes)
		if err != nil {
			return err
		}
		for _, group := range []int{1, d.group} {
			told, untold := make([][]float64, len(observedWays)), make([][]float64, len(observedWays))
			for seed := range uint64(nullSeeds) {
				for i, way := range observedWays {
					a, b := learnObserved(s, d.columns, group, way, seed)
					told[i], untold[i] = append(told[i], a), append(untold[i], b)
				}
			}
			what := "fields"
			if group > 1 {
				what = fmt.Sprintf("groups of %d", group)
			}
			for i, errors := range [][][]float64{told, untold} {
				fmt.Fprintf(c.w, "| %s, %s | %s |", d.name, what, []string{"are null", "read their mean"}[i])
				for _, e := range errors {
					fmt.Fprintf(c.w, " %.2f |", stat.Mean(e, nil))
				}
				for _, with := range []int{2, 3} {
					less := make([]float64, nullSeeds)
					for k := range less {
						less[k] = errors[4][k] - errors[with][k]
					}
					fmt.Fprintf(c.w, " %+.2f ± %.2f |", stat.Mean(less, nil), stat.StdDev(less, nil)/math.Sqrt(nullSeeds))
				}
				fmt.Fprintln(c.w)
			}
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

// learnObserved learns a set whose columns become fields, with groups null at different rates. It returns two errors in
// percent. The result told is the progressive error. The result untold is the error of the last third of the events, in
// which the same fields read their mean instead of null.
func learnObserved(s *set, columns, group int, way observedWay, seed uint64) (told, untold float64) {
	schema := fieldSchema(s, columns, max(group, 1))
	config := online.DefaultConfig()
	config.Noise, config.SilentMissing, config.SilentGroups = way.noise, way.silent, way.silent > 0 && group > 1
	l := newOnline(config, schema)
	r, copies := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 6))
	rates := make([]float64, (columns+group-1)/group)
	for i := range rates {
		rates[i] = observedRates[i%len(observedRates)]
	}
	r.Shuffle(len(rates), func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	sum, count := make([]float64, columns), make([]float64, columns)
	first := len(s.examples) * 2 / 3
	var m *model.Linear
	scores, wrong, silent := make([]float64, schema.Outputs()), 0, 0
	dead := make([]bool, len(rates))
	var waiting []event.Example // copies that are learned later in random order
	for i := range s.examples {
		for g, rate := range rates {
			dead[g] = r.Float64() < rate
		}
		e := without(&s.examples[i], columns, group, dead)
		if i < first {
			for at, column := range e.Features.Index {
				sum[column] += e.Features.Value[at]
				count[column]++
			}
		} else {
			if m == nil {
				m = l.Snapshot().Model().Compact()
			}
			read := meant(&e, columns, sum, count)
			if model.Predict(m.Score(&read, scores)) != e.Label {
				silent++
			}
		}
		if model.Predict(l.Learn(&e, nil).Scores) != e.Label {
			wrong++
		}
		for range way.copies {
			waiting = append(waiting, silently(&e, columns, group, sum, count, copies))
		}
		for len(waiting) > maxWaiting {
			at := copies.IntN(len(waiting))
			l.Learn(&waiting[at], nil)
			waiting[at], waiting = waiting[len(waiting)-1], waiting[:len(waiting)-1]
		}
	}
	return 100 * float64(wrong) / float64(len(s.examples)), 100 * float64(silent) / float64(len(s.examples)-first)
}

// maxWaiting is the largest number of copies that wait to be learned. Copies must be spread: if four events with the
// same label followed each other, a learner would learn that the next label equals the last.
const maxWaiting = 1000

// silently returns a copy of an event in which some of the present groups read their mean so far. The fraction of these
// groups is one of copyRates.
func silently(e *event.Example, columns, group int, sum, count []float64, r *rand.Rand) event.Example {
	rate := copyRates[r.IntN(len(copyRates))]
	dead := make([]bool, (columns+group-1)/group)
	for g := range dead {
		dead[g] = r.Float64() < rate
	}
	out := *e
	out.Features = e.Features.Clone()
	for i, column := range out.Features.Index {
		if dead[int(column)/group] {
			out.Features.Value[i] = sum[column] / max(count[column], 1)
		}
	}
	return out
}

// meant returns a copy of an event in which each null is replaced by the mean of its column.
func meant(e *event.Example, columns int, sum, count []float64) event.Example {
	return rebuilt(e, columns, func(column int, x float64, present bool) (float64, bool) {
		if !present {
			x = sum[column] / max(count[column], 1)
		}
		return x, true
	})
}
