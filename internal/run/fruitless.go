package run

// This file tells a run that learned from what it read from one that hardly did.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"blankout/internal/event"
	"blankout/online/watch"
)

// FruitlessError ends a run that has read all there is and learned nothing of it, has
// refused more than half of it, or has found no record, as none before it has: what it holds is not what the stream is about, and no
// checkpoint at the end takes the place of an older one.
type FruitlessError struct {
	Read      uint64 // records, without those that came before and tombstones
	Learned   uint64
	Unlabeled uint64
	RefusedBy map[event.Reason]uint64
	First     *Sample // one that was refused; nil if none was
	// Times says of the logs of events and labels, where these come later, what is strange about
	// their times.
	Times []string
}

// NoLabels reports whether the cause is that no record had a label.
func (e *FruitlessError) NoLabels() bool {
	return e.Unlabeled > 0 && e.Learned == 0 && 2*(e.Read-e.Unlabeled) <= e.Read
}

func (e *FruitlessError) Error() string {
	if e.Read == 0 {
		return "no event was read; no checkpoint was saved at the end"
	}
	refused := uint64(0)
	var reasons []string
	for _, reason := range slices.SortedFunc(maps.Keys(e.RefusedBy), func(a, b event.Reason) int {
		return cmp.Or(-cmp.Compare(e.RefusedBy[a], e.RefusedBy[b]), cmp.Compare(a, b))
	}) {
		refused += e.RefusedBy[reason]
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, e.RefusedBy[reason]))
	}
	text := fmt.Sprintf("of %d records %d were learned", e.Read, e.Learned)
	if e.Unlabeled > 0 {
		text += fmt.Sprintf(", %d had no label", e.Unlabeled)
	}
	if refused > 0 {
		text += fmt.Sprintf(", %d were refused (%s)", refused, strings.Join(reasons, ", "))
	}
	text += "; no checkpoint was saved at the end"
	for _, times := range e.Times {
		text += "\n" + times
	}
	if s := e.First; s != nil {
		text += fmt.Sprintf("\none that was refused: %s/%d offset %d: %s", s.Topic, s.Partition, s.Offset, s.Why)
	}
	return text
}

// fewRecords are too few for a run that goes on from a checkpoint to be judged by: what was
// left after a stop may be a refused record, or events whose label never came.
const fewRecords = 10

// fruitless returns a *FruitlessError if the run, which has read all there is, is one.
// Events that wait for a label may still be learned, and where labels come later some of
// them never do.
func (l *loop) fruitless() error {
	s := &l.intake.counts
	e := &FruitlessError{Learned: s.Learned + s.HeldOut, RefusedBy: map[event.Reason]uint64{}}
	refused := uint64(0)
	for reason, n := range s.RefusedBy {
		if reason.Faulty() {
			e.RefusedBy[reason] = n
			refused += n
		}
	}
	waiting, joined := uint64(0), false
	if l.Labels != nil {
		c := l.Labels.Counts()
		waiting, joined = c.Pending, c.Matched > 0
	}
	if l.Config.Unlabeled || joined {
		e.Learned += s.Unlabeled
	} else {
		e.Unlabeled = s.Unlabeled
	}
	e.Read = s.Learned + s.HeldOut + s.Unlabeled + refused
	records := uint64(0) // those that are neither learned nor at fault, as tombstones, too
	for _, p := range l.Offsets {
		records += p.Records
	}
	if e.Read == 0 && records == 0 && waiting == 0 {
		return e
	}
	if e.Read == 0 || l.before > 0 && e.Read < fewRecords || 2*refused <= e.Read+waiting && (e.Learned > 0 || waiting > 0) {
		return nil
	}
	if l.Labels != nil {
		for _, c := range l.Labels.State().Clocks {
			if odd := watch.OddTime(c.Time, l.Fingerprint["time"]); odd != "" && l.Fingerprint["time"] != "" {
				e.Times = append(e.Times, c.Topic+": "+odd)
			}
		}
	}
	if len(s.RefusedSamples) > 0 {
		e.First = &s.RefusedSamples[len(s.RefusedSamples)-1]
	}
	return e
}
