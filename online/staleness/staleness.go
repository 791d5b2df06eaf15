// Package staleness measures how the loss of predictions depends on the age of the weights.
//
// Progressive measures use current weights, but readers of exports and snapshots have older ones. So a learner freezes
// its model from time to time. The frozen model predicts labeled events that arrive about 100, 1,000 and 10,000 events
// later. The losses of the current weights at the same events are summed too, so that both can be compared event by
// event. Sums are over the whole stream, without decay.
//
// All decisions depend only on the numbers of events and of their features, and are part of the state. So threads,
// clocks and restarts change nothing. The package stores frozen models but does not create them.
package staleness

import (
	"math/rand/v2"

	"blankout/internal/model"
)

// Ages are the ages of the weights, in events. An actual age may differ by a tenth.
var Ages = [...]uint64{100, 1000, 10000}

// every is, by age, the number of suitable events per predicted event. everyWide is the same for models with rows of at
// least wide values. Such models are frozen so rarely that more predictions cost little.
var every, everyWide = [len(Ages)]uint64{2, 5, 15}, [len(Ages)]uint64{1, 3, 12}

const (
	wide = 1 << 13
	// A model is frozen at a multiple of pace events if the budget is at least head plus the number of the model's
	// rows. The budget is start plus sampledFraction times the number of learned features.
	pace            = 1000
	sampledFraction = 0.01
	start           = 1 << 13
	head            = 150
	// mostBytes is the size in bytes of the largest model that is frozen.
	mostBytes = 64 << 20
)

// Lost has the losses of a prediction. For classification these are the error (0 or 1) and the log-loss, and for
// regression the absolute error and the deviance.
type Lost struct{ Error, Loss float64 }

// Stale holds the frozen models and the sums. The zero value is ready for use. A copy is a valid snapshot, because
// models are immutable.
type Stale struct {
	seen   uint64  // number of the last learned event
	credit float64 // number of features in the budget
	now    sums    // sums for the current weights, at events that are predicted for any age
	ages   [len(Ages)]stale
}

// stale holds the frozen model for one of the Ages, and sums of losses at the events that this model predicted.
type stale struct {
	model      *model.Linear // nil if there is none
	born       uint64        // number of the last event that the model has learned
	old, fresh sums          // for the frozen model, and for the current weights at the same events
	constant   sums          // sums for predicting the class frequencies, for classification
}

// mostLoss bounds each loss that is added, so that sums are finite.
const mostLoss = 1e100

type sums struct{ events, weight, wrong, loss float64 }

func (s *sums) add(weight float64, x Lost) {
	s.events++
	s.weight += weight
	s.wrong += weight * bounded(x.Error)
	s.loss += weight * bounded(x.Loss)
}

// bounded returns a loss, or mostLoss in place of a larger one and of NaN.
func bounded(loss float64) float64 {
	if loss < mostLoss {
		return loss
	}
	return mostLoss
}

// InReach reports whether the model for Ages[i] has an age close to Ages[i] at the event with number n.
func (a *Stale) InReach(i int, n uint64) bool {
	x := &a.ages[i]
	return x.model != nil && n-1-x.born >= reaches[i][0] && n-1-x.born <= reaches[i][1]
}

// reaches has, for each of Ages, the smallest and the largest actual age.
var reaches = func() (out [len(Ages)][2]uint64) {
	for i, age := range Ages {
		out[i] = [2]uint64{age - age/10, age + age/10}
	}
	return out
}()

// Due returns the model that must predict the event with number n for the age Ages[i], or nil.
func (a *Stale) Due(i int, n uint64) *model.Linear {
	if !a.InReach(i, n) {
		return nil
	}
	x, one := &a.ages[i], every[i]
	if x.model.Rows.Len() >= wide {
		one = everyWide[i]
	}
	if !drawn(n, one) {
		return nil
	}
	return x.model
}

// drawn reports whether an event is in a random sample of one in n. A random sample does not follow a period of the
// stream.
func drawn(number, n uint64) bool {
	var r rand.PCG
	r.Seed(number, 0x61676564)
	return r.Uint64()%n == 0
}

// Fresh adds the loss of the current weights at an event. It must be called if Due returns a model for some age.
func (a *Stale) Fresh(weight float64, fresh Lost) { a.now.add(weight, fresh) }

// Take adds the losses at an event for the age Ages[i]: the loss of the old model, of the current weights (fresh), and
// of predicting the class frequencies (constant).
func (a *Stale) Take(i int, weight float64, old, fresh, constant Lost) {
	a.ages[i].old.add(weight, old)
	a.ages[i].fresh.add(weight, fresh)
	a.ages[i].constant.add(weight, constant)
}

// Learned records that event n, with the given number of features, has been learned. At multiples of pace events it
// discards models that are too old. The result is true if the caller must freeze the current model. It depends on the
// number of the model's rows and their size in bytes.
func (a *Stale) Learned(n uint64, features, rows, bytes int) bool {
	if n == a.seen {
		return false // no new event has been learned
	}
	if a.seen == 0 {
		a.credit = start
	}
	a.seen = n
	a.credit += sampledFraction * float64(features)
	if n%pace != 0 {
		return false
	}
	for i := range a.ages {
		if x := &a.ages[i]; x.model != nil && n-x.born > reaches[i][1] {
			x.model = nil
		}
	}
	cost := float64(head + rows)
	if rows*bytes > mostBytes || a.credit < cost {
		return false
	}
	a.credit = min(a.credit, max(start, cost)) - cost
	return true
}

// Freeze stores a model that has learned n events. The model is used for each age that has no model.
func (a *Stale) Freeze(n uint64, m *model.Linear) {
	for i := range a.ages {
		if x := &a.ages[i]; x.model == nil {
			x.model, x.born = m, n
		}
	}
}

// Stop discards all models and ends the measurements.
func (a *Stale) Stop() {
	for i := range a.ages {
		a.ages[i].model = nil
	}
}
