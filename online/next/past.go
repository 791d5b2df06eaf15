package next

// This file keeps what the Learner was some time ago, for readers whose weights are that old: by what those weights predict mixture
// weights are moved, averages are chosen, and probabilities are calibrated.

import (
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/online"
)

// past is a Learner that learns nothing any more, and its state, whose memory it shares. The zero value is none.
type past struct {
	*Learner
	blocks []event.Block
}

// pastPrefix begins the names of the blocks of one of the pasts.
func pastPrefix(i int) string { return fmt.Sprintf("past/%d/", i) }

// older returns what the Learner was at least half of Config.ServingStaleness events ago, the newest such state, with the outputs that
// there are now; nil for none.
func (l *Learner) older() *Learner {
	for _, p := range slices.Backward(l.pasts[:]) {
		if p.Learner != nil && p.levels.Outputs == l.levels.Outputs && p.outputs.young.Changed == l.outputs.young.Changed && 2*(l.events-p.events) >= uint64(l.config.ServingStaleness) {
			return p.Learner
		}
	}
	return nil
}

// predictOlder returns what an older state predicts for an event of now, of which the Schema only grows.
func (l *Learner) predictOlder(older *Learner, e *event.Example) online.Prediction {
	older.SetSchema(l.encoder.Schema())
	return older.predictAll(e, true)
}

// keepOld keeps what older weights are measured by, when it is time: not where events have been learned before.
func (l *Learner) keepOld() {
	if l.levels.Passed() {
		l.monitors.Stop()
		l.pasts = [2]past{}
		return
	}
	if t := l.encoder.Table; l.monitors.Learned(l.events, l.room.in.Features()/keepsOf(l.events), t.Len(), 8*t.Width()) {
		l.monitors.Keep(l.events, l.kept())
	}
	l.keepPast()
}

// keepPast keeps what the Learner is when it is time: the newest of two states is at most Config.ServingStaleness events old.
func (l *Learner) keepPast() {
	every := uint64(l.config.ServingStaleness)
	if newest := l.pasts[1].Learner; every == 0 || newest != nil && l.events-newest.events < every {
		return
	}
	s := l.Snapshot()
	s.older, s.pasts = nil, [2]past{}
	each, err := s.EachBlock()
	if err == nil {
		l.pasts[0] = l.pasts[1]
		l.pasts[1], err = l.recall(slices.Collect(each))
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
	return past{p, blocks}, err
}

// copyOld gives a copy of the Learner the models and the states of the past.
func (l *Learner) copyOld(to *Learner) (err error) {
	to.monitors.Share(l.monitors)
	for i, p := range l.pasts {
		if p.blocks != nil && err == nil {
			to.pasts[i], err = to.recall(p.blocks)
		}
	}
	return err
}

// restorePasts reads the pasts among the blocks of the state. Without Config.ServingStaleness it passes over them.
func (l *Learner) restorePasts(blocks []event.Block) error {
	for i := range l.pasts {
		own := event.BlocksUnder(blocks, pastPrefix(i))
		if own == nil || l.config.ServingStaleness == 0 {
			continue
		}
		p, err := l.recall(own)
		if err == nil && p.events > l.events {
			err = fmt.Errorf("it has learned %d events, of %d", p.events, l.events)
		}
		if err != nil {
			return fmt.Errorf("restoring the learner: a state in the blocks %s: %w", pastPrefix(i), err)
		}
		l.pasts[i] = p
	}
	return nil
}
