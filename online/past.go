package online

// This file keeps what the Learner was some time ago, for readers whose weights are that old: by what those weights predict mixture
// weights are moved, averages are chosen, and probabilities are calibrated. It also keeps the models that older weights are measured by.

import (
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/online/monitor"
)

// past is a Learner that learns nothing any more, and its state, whose memory it shares. The zero value is none.
type past struct {
	*Learner
	blocks []event.Block
}

// pasts are two states, the older one first, Config.ServingStaleness events apart.
type pasts [2]past

// pastPrefix begins the names of the blocks of one of the pasts.
func pastPrefix(i int) string { return fmt.Sprintf("past/%d/", i) }

// of returns the newest state that is at least half of Config.ServingStaleness events older than the Learner is now, and has its
// outputs; nil for none.
func (h *pasts) of(now *Learner) *Learner {
	for _, p := range slices.Backward(h[:]) {
		if p.Learner != nil && p.levels.Outputs == now.levels.Outputs && p.outputs.young.Changed == now.outputs.young.Changed && 2*(now.events-p.events) >= uint64(now.config.ServingStaleness) {
			return p.Learner
		}
	}
	return nil
}

// predict returns what such a state predicts for an event of now, and how many classes it knows; nothing for none.
func (h *pasts) predict(now *Learner, e *event.Example) (p Prediction, stale monitor.Older) {
	older := h.of(now)
	if older == nil {
		return p, stale
	}
	older.SetSchema(now.encoder.Schema()) // which only grows
	p = older.predictAll(e, true)
	return p, monitor.Older{Scores: p.Scores, Active: older.outputs.active(older.levels.Active())}
}

// keep keeps what the Learner is when it is time: the newest of the states is at most Config.ServingStaleness events old.
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

// recall makes a past of its blocks.
func recall(c Config, blocks []event.Block) (past, error) {
	c.ServingStaleness = 0
	p, err := Restore(c, blocks)
	return past{p, blocks}, err
}

// clone returns states of their own.
func (h *pasts) clone(c Config) (out pasts, err error) {
	for i, p := range h {
		if p.blocks != nil && err == nil {
			out[i], err = recall(c, p.blocks)
		}
	}
	return out, err
}

// restore reads the states among the blocks of one that has learned so many events. Without Config.ServingStaleness it passes over
// them.
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

// each yields the blocks.
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

// keepOld keeps what older weights are measured by and choose by, when it is time: not where events have been learned before.
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
