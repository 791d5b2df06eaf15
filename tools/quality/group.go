package main

// This file measures how much worse a model becomes if many members of a group learn it. The streams have a few common
// columns and many rare columns.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/event"
	"blankout/online"
	"blankout/tools/groupsim/members"
)

// Settings of a Zipf stream: the numbers of columns, features per event, learned events and test events. The number of
// streams is zipfStreams.
const (
	zipfColumns, zipfFeatures, zipfEvents, zipfTest = 1 << 17, 25, 1_500_000, 100_000
	zipfStreams                                     = 3
)

// group compares one learner with simulated groups of 8 and 32 members on the same streams. Members learn 1,000 events
// between two commits.
func (c *comparison) group() error {
	fmt.Fprint(c.w, "## Many members, one model: Zipf streams\n\n| noise | members | test error, % | more than one learner | log-loss, nats | more than one learner |\n|---|---|---|---|---|---|\n")
	noises, counts := []string{"none", "dropout:0.3"}, []int{1, 8, 32}
	type outcome struct{ errors, losses [zipfStreams]float64 }
	outcomes := make([]outcome, len(noises)*len(counts))
	for seed := range zipfStreams {
		schema, events, test := zipfStream(uint64(seed))
		for i, noise := range noises {
			for j, n := range counts {
				config := online.DefaultConfig()
				config.Noise = noise
				m := members.Members{N: n, Interval: 1000, Fraction: 0.02, Warm: 10_000, Rate: 20_000, Precision: 32, Delay: 0.005, Timeout: 1, Session: 10}
				r, err := m.Run(context.Background(), config, schema, events, test)
				if err != nil {
					return err
				}
				o := &outcomes[i*len(counts)+j]
				o.errors[seed], o.losses[seed] = *r.TestError, *r.TestLogLoss
			}
		}
	}
	for i, noise := range noises {
		one := &outcomes[i*len(counts)]
		for j, n := range counts {
			o := &outcomes[i*len(counts)+j]
			fmt.Fprintf(c.w, "| %s | %d | %.2f | %s | %.4f | %s |\n", noise, n, stat.Mean(o.errors[:], nil), more(o.errors, one.errors, 2), stat.Mean(o.losses[:], nil), more(o.losses, one.losses, 4))
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

// more returns the mean of the differences b - a and its standard error as text.
func more(a, b [zipfStreams]float64, digits int) string {
	var d [zipfStreams]float64
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return fmt.Sprintf("%+.*f ± %.*f", digits, stat.Mean(d[:], nil), digits, stat.StdDev(d[:], nil)/math.Sqrt(zipfStreams))
}

// zipfStream draws events with distinct columns. The frequencies of the columns follow Zipf's law. The label follows a
// logistic model with independent weights of the columns.
func zipfStream(seed uint64) (schema *event.Schema, events, test []event.Example) {
	r := rand.New(rand.NewPCG(1, seed))
	zipf := rand.NewZipf(r, 1.1, 10, zipfColumns-1)
	weights := make([]float64, zipfColumns)
	for i := range weights {
		weights[i] = 0.6 * r.NormFloat64()
	}
	all := make([]event.Example, zipfEvents+zipfTest)
	ones := slices.Repeat([]float64{1}, zipfFeatures)
	for i := range all {
		columns := make([]uint32, 0, zipfFeatures)
		score := 0.0
		for len(columns) < zipfFeatures {
			column := uint32(zipf.Uint64())
			if at, met := slices.BinarySearch(columns, column); !met {
				columns = slices.Insert(columns, at, column)
				score += weights[column]
			}
		}
		all[i] = event.Example{Features: event.Vec{Index: columns, Value: ones}, Weight: 1}
		if r.Float64() < 1/(1+math.Exp(-score)) {
			all[i].Label = 1
		}
	}
	schema = event.NewSchema(17, []string{"-1", "1"}, 2)
	schema.NumericIndices = true
	return schema, all[:zipfEvents], all[zipfEvents:]
}
