// Package staleness measures what answers lose with the age of the weights that give them.
//
// Progressive measures are those of weights that have learned every event but the one at hand.
// Readers of exports and of snapshots have older weights. A learner therefore freezes its model now
// and then, and has labeled events that come about 100, 1,000 and 10,000 events later answered by it.
// What the weights of the moment lose at the same events is summed beside, so that both can be compared
// event by event. The sums are of the whole stream, none fades.
//
// Everything depends on the numbers of events and of their features, and is part of the state: threads,
// clocks and restarts change nothing. The package knows frozen models, not how one is made.
package staleness

import (
	"math/rand/v2"

	"blankout/internal/model"
)

// Ages are how many events old the weights are that answer, to a tenth.
var Ages = [...]uint64{100, 1000, 10000}

// every is by age of how many events in its reach one is answered; everyWide that for models of
// wide rows or more, which are frozen so seldom that more answers cost little beside.
var every, everyWide = [len(Ages)]uint64{2, 5, 15}, [len(Ages)]uint64{1, 3, 12}

const (
	wide = 1 << 13
	// A model is frozen at multiples of pace events when the budget has its rows, and head more for
	// the rest of it: a share of the features learned, and start at once.
	pace  = 1000
	share = 0.01
	start = 1 << 16
	head  = 150
	// mostBytes is the largest model, in bytes of its rows, that is frozen.
	mostBytes = 64 << 20
)

// Lost is what an answer loses: of a class its error, 0 or 1, and its log-loss; of a number the
// absolute error and the deviance.
type Lost struct{ Error, Loss float64 }

// Aged holds the frozen models and the sums. Its zero value is ready for use. A copy of it is a
// snapshot: models are immutable.
type Aged struct {
	seen   uint64  // the number of the event last taken
	credit float64 // features that may be frozen
	now    sums    // of weights no event old, at the events answered at any age
	ages   [len(Ages)]aged
}

// aged is about one age.
type aged struct {
	model      *model.Linear // nil for none
	born       uint64        // the number of the last event that it has learned
	old, fresh sums
	constant   sums // of classes: what their fractions so far lose
}

// mostLoss keeps sums finite.
const mostLoss = 1e100

type sums struct{ events, weight, wrong, loss float64 }

func (s *sums) add(weight float64, x Lost) {
	s.events++
	s.weight += weight
	s.wrong += weight * x.Error
	s.loss += weight * min(x.Loss, mostLoss)
}

// InReach says whether a model is of the i-th of the Ages at the event of the given number.
func (a *Aged) InReach(i int, n uint64) bool {
	x := &a.ages[i]
	return x.model != nil && n-1-x.born >= reaches[i][0] && n-1-x.born <= reaches[i][1]
}

// reaches are the least and the largest age that count as each of the Ages.
var reaches = func() (out [len(Ages)][2]uint64) {
	for i, age := range Ages {
		out[i] = [2]uint64{age - age/10, age + age/10}
	}
	return out
}()

// Due returns the model that is to answer the event of the given number at the i-th of the Ages, nil for
// none.
func (a *Aged) Due(i int, n uint64) *model.Linear {
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

// drawn says whether an event is one of every n: at random, so that no cycle of the stream is met at
// one place alone.
func drawn(number, n uint64) bool {
	var r rand.PCG
	r.Seed(number, 0x61676564)
	return r.Uint64()%n == 0
}

// Fresh takes up what the weights of the moment lose at an event that is Due at some age.
func (a *Aged) Fresh(weight float64, fresh Lost) { a.now.add(weight, fresh) }

// Take takes up what the model of an age loses at an event, what the weights of the moment do and, of classes, what a
// constant does.
func (a *Aged) Take(i int, weight float64, old, fresh, constant Lost) {
	a.ages[i].old.add(weight, old)
	a.ages[i].fresh.add(weight, fresh)
	a.ages[i].constant.add(weight, constant)
}

// Learned takes up that the event of the given number, which holds so many features, has been learned.
// At multiples of pace events it lets models go that have served, and says whether the model is to be frozen now, of so many
// rows of that many bytes.
func (a *Aged) Learned(n uint64, features, rows, bytes int) bool {
	if n == a.seen {
		return false // nothing has been learned
	}
	if a.seen == 0 {
		a.credit = start
	}
	a.seen = n
	a.credit += share * float64(features)
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

// Freeze takes up a model that has learned n events. It serves every age that has none.
func (a *Aged) Freeze(n uint64, m *model.Linear) {
	for i := range a.ages {
		if x := &a.ages[i]; x.model == nil {
			x.model, x.born = m, n
		}
	}
}

// Stop lets the models go: nothing more is measured.
func (a *Aged) Stop() {
	for i := range a.ages {
		a.ages[i].model = nil
	}
}
