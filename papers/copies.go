package papers

// This file draws corrupted copies of examples, which are a sampled alternative to the expectation.

import (
	"iter"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
)

// mixedRates are the deleted fractions in copies for an unknown rate. Each copy draws one of these rates.
var mixedRates = []float64{0.2, 0.4, 0.6, 0.8}

func dropout(q float64) loss.Noise { return loss.Dropout{Q: q} }

func groupDropout(q float64) loss.Noise { return loss.GroupDropout{Groups: q} }

func silent(q float64) loss.Noise { return loss.Silent{D: q} }

func silentGroup(q float64) loss.Noise { return loss.Silent{D: q, Groups: true} }

// corruption specifies how examples are corrupted.
type corruption struct {
	noise  func(rate float64) loss.Noise
	rates  []float64 // candidate rates; each copy draws one
	copies int
	whole  bool // whether the example itself is added as one more copy
	// keep leaves the surviving values unchanged, as in silent failures. Without keep, they are divided by 1 - rate, as
	// in unbiased noise.
	keep     bool
	grouping *model.Grouping // groups that are deleted as a whole
	// reads has the values of deleted columns. If reads is nil, deleted columns are 0.
	reads []float64
	seed  uint64
}

// each returns the copies of the n-th example. Copies contain no zeros unless reads is set. A copy is valid until the
// next copy is made.
func (c *corruption) each(n int, e *event.Example) iter.Seq[*event.Example] {
	return func(yield func(*event.Example) bool) {
		corrupter := batch.Corrupter{Seed: c.seed, Keep: c.keep, Grouping: c.grouping}
		copied := *e
		var x event.Vec
		var dead []bool
		if c.whole && !yield(e) {
			return
		}
		for j := range c.copies {
			rate := c.rates[0]
			if len(c.rates) > 1 {
				rate = c.rates[rand.New(rand.NewPCG(c.seed^0x6d69786564, uint64(n)<<16^uint64(j))).IntN(len(c.rates))]
			}
			corrupter.Noise = c.noise(rate)
			x.Index, x.Value = append(x.Index[:0], e.Features.Index...), append(x.Value[:0], e.Features.Value...)
			if c.reads != nil {
				dead = corrupter.Dead(x.Index, nil, n, j, dead)
				for i, column := range x.Index {
					if dead[i] {
						x.Value[i] = c.reads[column]
					}
				}
				copied.Features = x
			} else {
				corrupter.Vec(x, nil, n, j)
				copied.Features = event.Vec{Index: copied.Features.Index[:0:0], Value: copied.Features.Value[:0:0]}
				for i, v := range x.Value {
					if v != 0 {
						copied.Features.Index, copied.Features.Value = append(copied.Features.Index, x.Index[i]), append(copied.Features.Value, v)
					}
				}
			}
			if !yield(&copied) {
				return
			}
		}
	}
}

// data returns the plain examples and copies of the other examples. The copies of an example together have the weight
// of one example (Chen et al., eq. 2). If there is one rate, the copies equal the copies of Data.Corrupted in package
// batch, without the many zeros.
func (c *corruption) data(schema *event.Schema, plain, examples []event.Example) *batch.Data {
	var b batch.Builder
	for i := range plain {
		add(&b, &plain[i])
	}
	for i := range examples {
		e := examples[i]
		if e.Weight /= float64(c.copies); c.whole {
			e.Weight = examples[i].Weight / float64(c.copies+1)
		}
		for copied := range c.each(i, &e) {
			add(&b, copied)
		}
	}
	return b.Data(schema)
}

// learn makes a learner learn the copies of all examples in random order. Otherwise the learner would see all copies of
// an example in a row, and learn that the next label equals the last label.
func (c *corruption) learn(l *online.Learner, examples []event.Example) {
	var all []event.Example
	for i := range examples {
		for e := range c.each(i, &examples[i]) {
			copied := *e
			copied.Features = e.Features.Clone()
			all = append(all, copied)
		}
	}
	r := rand.New(rand.NewPCG(c.seed, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	learnAll(l, all)
}

func learnAll(l *online.Learner, examples []event.Example) {
	for i := range examples {
		l.Learn(&examples[i], nil)
	}
}

// learned returns the model after a learner has learned the examples or, if copied is not nil, their copies.
func learned(l *online.Learner, copied *corruption, examples []event.Example) *model.Linear {
	if copied != nil {
		copied.learn(l, examples)
	} else {
		learnAll(l, examples)
	}
	return l.Snapshot().Model().Compact()
}

// columnMeans returns the mean of each column over the examples. An omitted value counts as 0.
func columnMeans(examples []event.Example, columns int) []float64 {
	means := make([]float64, columns)
	for _, e := range examples {
		for i, column := range e.Features.Index {
			means[column] += e.Features.Value[i]
		}
	}
	floats.Scale(1/float64(len(examples)), means)
	return means
}
