package online

// This file has shares judged by what older weights say, for those who read the model late.

import (
	"fmt"
	"slices"
	"strings"

	"blankout"
	"blankout/online/aged"
)

// horizon holds what the Learner was at two earlier events, Config.Horizon events apart. The levels and the
// experts of one of them, half to three halves of the horizon old, answer each event (see teller).
type horizon struct {
	pasts [2]past // the older first; blocks are nil for none
}

// past is a Learner that learns nothing any more, and the blocks of its state, which it shares.
type past struct {
	*Learner
	blocks []blankout.Block
}

// Config.Horizon lies between these, or is 0.
const leastHorizon, mostHorizon = 100, 10_000_000

// blockPast begins the names of the blocks of what the Learner was.
const blockPast = "past/"

func pastPrefix(i int) string { return fmt.Sprintf("%s%d/", blockPast, i) }

// teller returns the Learner whose answers the shares are judged by: the newest past that is half a horizon old
// and had as many outputs as there are, else the Learner itself.
func (l *Learner) teller() *Learner {
	for i := len(l.horizon.pasts) - 1; i >= 0; i-- {
		p := l.horizon.pasts[i]
		if p.Learner == nil || p.k != l.k || 2*(l.events-p.events) < uint64(l.config.Horizon) {
			continue
		}
		return p.Learner
	}
	return l
}

// keepPast keeps what the Learner is when it is time.
func (l *Learner) keepPast() {
	h := &l.horizon
	if l.config.Horizon == 0 || !l.ages() {
		*h = horizon{}
		return
	}
	if newest := h.pasts[1].Learner; l.events == 0 || newest != nil && l.events-newest.events < uint64(l.config.Horizon) {
		return
	}
	state, err := l.Snapshot().Blocks()
	if err == nil {
		state = slices.DeleteFunc(state, func(b blankout.Block) bool { // it needs neither its own ages nor its own past
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
func (l *Learner) recall(blocks []blankout.Block) (past, error) {
	c := l.config
	c.Horizon = 0
	p, err := Restore(c, blocks)
	return past{p, blocks}, err
}

// blocks returns those of each past.
func (h *horizon) blocks() (out [][]blankout.Block) {
	for _, p := range h.pasts {
		out = append(out, p.blocks)
	}
	return out
}

// restorePasts reads the pasts from the blocks of the Learner's state. Without a horizon it passes over them.
func (l *Learner) restorePasts(blocks []blankout.Block) error {
	if l.config.Horizon == 0 {
		return nil
	}
	for i := range l.horizon.pasts {
		own := blankout.BlocksUnder(blocks, pastPrefix(i))
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
