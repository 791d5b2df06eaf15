package online

// This file has shares judged by what older weights say, for those who read the model late.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/aged"
	"blankout/online/answer"
)

// horizon holds what the Learner was at two earlier events, Config.ServingStaleness events apart. The levels and the
// experts of one of them, half to three halves of the horizon old, answer each event (see older).
type horizon struct {
	pasts [2]past // the older first; blocks are nil for none
}

// past is a Learner that learns nothing any more, the blocks of its state, which it shares, and the model that it
// published.
type past struct {
	*Learner
	blocks []event.Block
	model  *model.Linear
}

// Config.ServingStaleness lies between these, or is 0.
const leastHorizon, mostHorizon = 100, 10_000_000

// blockPast begins the names of the blocks of what the Learner was.
const blockPast = "past/"

func pastPrefix(i int) string { return fmt.Sprintf("%s%d/", blockPast, i) }

// cautious bounds a Link around the log-odds of the class shares, as long as few models of the horizon's age have been
// seen: what the latest ones have lost says little of what the next will. At first an answer that is right half the
// time loses .05 nats more than the shares; from the fourth such model on the bound grows with their number.
func (l *answering) cautious(link *model.Link) *model.Link {
	seen := 0.0
	if l.link.Age == uint64(l.config.ServingStaleness) {
		seen = l.link.Taken() / float64(l.config.ServingStaleness)
	}
	center, bound := -math.Log(float64(max(1, l.activeScores()-1))), cautionFirst*max(1, seen/cautionModels)
	if n := l.measured.Classes; l.k == 1 && len(n) > 1 {
		center = math.Log(float64(n[1]+1) / float64(n[0]+1))
	}
	return link.Bounded(center-bound, center+bound)
}

// See cautious.
const cautionFirst, cautionModels = 0.6, 4

// older returns the Learner whose predictions decide the mixture weights: an older state, see oldEnough, else the Learner
// itself.
func (l *Learner) older() *Learner {
	if p := l.oldEnough(); p != nil {
		return p.Learner
	}
	return l
}

// oldEnough returns the newest past that is half a horizon old and had as many outputs as there are, nil without one.
func (l *Learner) oldEnough() *past {
	for i := len(l.horizon.pasts) - 1; i >= 0; i-- {
		p := &l.horizon.pasts[i]
		if p.Learner == nil || p.k != l.k || p.young.Changed != l.young.Changed || 2*(l.events-p.events) < uint64(l.config.ServingStaleness) {
			continue
		}
		return p
	}
	return nil
}

// keepPast keeps what the Learner is when it is time.
func (l *Learner) keepPast() {
	h := &l.horizon
	if l.config.ServingStaleness == 0 || !l.ages() {
		*h = horizon{}
		return
	}
	if newest := h.pasts[1].Learner; l.events == 0 || newest != nil && l.events-newest.events < uint64(l.config.ServingStaleness) {
		return
	}
	state, err := l.Snapshot().Blocks()
	if err == nil {
		state = slices.DeleteFunc(state, func(b event.Block) bool { // it needs neither its own ages nor its own past
			return strings.HasPrefix(b.Name, aged.Block) || strings.HasPrefix(b.Name, blockPast)
		})
		h.pasts[0] = h.pasts[1]
		h.pasts[1], err = l.recall(state)
	}
	if err != nil {
		panic(fmt.Sprintf("online: a state that was just written: %v", err))
	}
}

// recall makes a past of its blocks.
func (l *Learner) recall(blocks []event.Block) (past, error) {
	c := l.config
	c.ServingStaleness = 0
	p, err := Restore(c, blocks)
	if err != nil {
		return past{}, err
	}
	return past{p, blocks, p.published().WithCovariance(p.filling.Covariance).Compact()}, nil
}

// learnLink has the Link learn from what an event was answered with: with a horizon from what readers of a model that
// old have, whose scores may be far too sure, and before there is such a model from nothing.
func (l *Learner) learnLink(scores []float64, e *event.Example) {
	if !l.calibrates() || l.period > 0 {
		return
	}
	active := l.activeScores()
	if l.config.ServingStaleness > 0 {
		p := l.oldEnough()
		if p == nil {
			return
		}
		if l.link.Age != uint64(l.config.ServingStaleness) {
			l.link = answer.NewLink()
			l.link.Age = uint64(l.config.ServingStaleness)
		}
		m := *p.model
		m.Schema = l.schema // the stream's own, which only grows
		l.old.scores = slices.Grow(l.old.scores[:0], m.Outputs)
		scores, active = m.Score(l.faults.asCame(e), l.old.scores[:m.Outputs]), p.activeScores()
	}
	l.link.Take(scores, active, e.Label, e.Weight)
}

// blocks returns those of each past.
func (h *horizon) blocks() (out [][]event.Block) {
	for _, p := range h.pasts {
		out = append(out, p.blocks)
	}
	return out
}

// restorePasts reads the pasts from the blocks of the Learner's state. Without a horizon it passes over them.
func (l *Learner) restorePasts(blocks []event.Block) error {
	if l.config.ServingStaleness == 0 {
		return nil
	}
	for i := range l.horizon.pasts {
		own := event.BlocksUnder(blocks, pastPrefix(i))
		if own == nil {
			continue
		}
		p, err := l.recall(own)
		if err == nil && p.events > l.events {
			err = fmt.Errorf("it has learned %d events, of %d", p.events, l.events)
		}
		if err != nil {
			return fmt.Errorf("restoring the learner: a state in the blocks %s: %w", pastPrefix(i), err)
		}
		l.horizon.pasts[i] = p
	}
	return nil
}
