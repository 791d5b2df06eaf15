package online

// This file stores earlier states of the Learner, for the case that readers use old weights (serving_staleness). The
// mixture weights, the choice of averages and the calibration are then learned from the predictions of such a state.
// This file also stores the models with which staleness is measured.

import (
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/online/monitor"
)

// past is an earlier state, which no longer learns, and the encoded blocks of that state. The state shares the memory
// of the blocks. The zero value is empty.
type past struct {
	*Learner
	blocks []event.Block
}

// pasts holds two earlier states, the older state first. Their ages differ by Config.ServingStaleness events.
type pasts [2]past

// pastPrefix returns the prefix of the block names of an earlier state.
func pastPrefix(i int) string { return fmt.Sprintf("past/%d/", i) }

// of returns the newest state that is at least Config.ServingStaleness/2 events old. It returns nil if there is no such
// state or if the number of outputs has changed since.
func (h *pasts) of(now *Learner) *Learner {
	for _, p := range slices.Backward(h[:]) {
		if p.Learner != nil && p.levels.Outputs == now.levels.Outputs && p.outputs.young.Changed == now.outputs.young.Changed && 2*(now.events-p.events) >= uint64(now.config.ServingStaleness) {
			return p.Learner
		}
	}
	return nil
}

// predict returns the prediction of an earlier state for a new event, and its scores for the monitors. Both are empty
// if there is no such state.
func (h *pasts) predict(now *Learner, e *event.Example) (p Prediction, stale monitor.Older) {
	older := h.of(now)
	if older == nil {
		return p, stale
	}
	older.SetSchema(now.encoder.Schema()) // the current Schema only adds to the earlier one
	p = older.predictAll(e, true)
	return p, monitor.Older{Scores: p.Scores, Active: older.outputs.active(older.levels.Active())}
}

// keep saves the current state if at least Config.ServingStaleness events were learned since the newest saved state.
func (h *pasts) keep(now *Learner) {
	every := uint64(now.config.ServingStaleness)
	if newest := h[1].Learner; every == 0 || newest != nil && now.events-newest.events < every {
		return
	}
	s := now.Snapshot()
	s.older, s.pasts = nil, pasts{}
	each, err := s.EachBlock()
	if err == nil {
		h[0] = h[1]
		h[1], err = recall(now.config, slices.Collect(each))
	}
	if err != nil {
		panic(fmt.Sprintf("online: a state that was just written: %v", err))
	}
}

// recall decodes the state that blocks contains.
func recall(c Config, blocks []event.Block) (past, error) {
	c.ServingStaleness = 0
	p, err := Restore(c, blocks)
	return past{p, blocks}, err
}

// clone returns copies that share no memory with h.
func (h *pasts) clone(c Config) (out pasts, err error) {
	for i, p := range h {
		if p.blocks != nil && err == nil {
			out[i], err = recall(c, p.blocks)
		}
	}
	return out, err
}

// restore decodes the earlier states from the blocks of a Learner. events is the number of events that this Learner has
// learned. If Config.ServingStaleness is 0, restore ignores the states.
func (h *pasts) restore(c Config, blocks []event.Block, events uint64) error {
	for i := range h {
		own := event.BlocksUnder(blocks, pastPrefix(i))
		if own == nil || c.ServingStaleness == 0 {
			continue
		}
		p, err := recall(c, own)
		if err == nil && p.events > events {
			err = fmt.Errorf("it has learned %d events, of %d", p.events, events)
		}
		if err != nil {
			return fmt.Errorf("restoring the learner: a state in the blocks %s: %w", pastPrefix(i), err)
		}
		h[i] = p
	}
	return nil
}

// each yields the blocks of both states.
func (h *pasts) each(yield func(event.Block) bool) bool {
	for i, p := range h {
		for _, b := range p.blocks {
			if b.Name = pastPrefix(i) + b.Name; !yield(b) {
				return false
			}
		}
	}
	return true
}

// keepOld saves the models and states that are due. It discards all of them after the first pass over a finite data
// set.
func (l *Learner) keepOld() {
	if l.levels.Passed() {
		l.monitors.Stop()
		l.pasts = pasts{}
		return
	}
	if t := l.encoder.Table; l.monitors.Learned(l.events, l.room.in.Features()/keepsOf(l.events), t.Len(), 8*t.Width()) {
		l.monitors.Keep(l.events, l.kept())
	}
	l.pasts.keep(l)
}
