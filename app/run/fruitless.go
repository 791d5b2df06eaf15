package run

// This file detects runs that have learned almost nothing.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"blankout/internal/event"
	"blankout/online/health"
)

// FruitlessError ends a run that has read everything without success. Either the run has learned nothing, or it has
// refused more than half of the records, or neither this run nor any earlier run has found a record. Such a run writes
// no final checkpoint, because that could replace a useful older checkpoint.
type FruitlessError struct {
	Read      uint64 // number of records, without repeated records and tombstones
	Learned   uint64
	Unlabeled uint64
	RefusedBy map[event.Reason]uint64
	First     *Sample // the first refused record; nil if there is none
	// Times describes, for delayed labels, the problems with the times of events and labels.
	Times []string
}

// NoLabels reports whether the reason is that no record has a label.
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

// fewRecords is the number of records below which FruitlessError does not apply to a continued run. The few records
// after a stop may be refused records, or events without labels.
const fewRecords = 10

// fruitless returns a *FruitlessError if the run has read everything and is fruitless. Events that still wait for
// delayed labels do not count against the run.
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
	records := uint64(0) // includes records that are neither learned nor faulty, such as tombstones
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
			if odd := health.OddTime(c.Time, l.Fingerprint["time"]); odd != "" && l.Fingerprint["time"] != "" {
				e.Times = append(e.Times, c.Topic+": "+odd)
			}
		}
	}
	if len(s.RefusedSamples) > 0 {
		e.First = &s.RefusedSamples[len(s.RefusedSamples)-1]
	}
	return e
}
