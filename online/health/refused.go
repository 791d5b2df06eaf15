package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
)

// This file counts rejected records.

// Refused counts the records that could not be used.
type Refused struct {
	Count uint64
	By    map[event.Reason]Refusals

	// lately is the decayed number of recent rejected records, see latest. at is the number of records when lately was
	// last updated.
	lately float64
	at     uint64
}

// Refusals counts the records that were rejected for one reason.
type Refusals struct {
	Count uint64 `json:"count"`
	First string `json:"first"` // detail of the first such record
}

// MaxFirst is the largest length of Refusals.First in bytes.
const MaxFirst = 160

// Take counts a rejected record, after the given number of events.
func (m *Refused) Take(e *event.Example, events uint64) {
	reason, detail := event.ReasonOutOfRange, "a value or weight is not finite or exceeds 1e30"
	if e.Refused != nil {
		reason, detail = e.Refused.Reason, e.Refused.Detail
	}
	if m.By == nil {
		m.By = map[event.Reason]Refusals{}
	}
	r := m.By[reason]
	if r.Count++; r.Count == 1 {
		r.First = FirstBytes(strings.ToValidUTF8(detail, "\uFFFD"), MaxFirst)
	}
	m.By[reason] = r
	if m.Count++; !reason.Faulty() {
		return // the record itself is valid
	}
	m.lately, m.at = m.latest(events)+1, events+m.Count
}

// latest returns the number of recent rejected records, which decays by a factor of e every refusedMemory records.
func (m *Refused) latest(events uint64) float64 {
	if m.lately == 0 {
		return 0
	}
	return m.lately * loss.Exp(-float64(events+m.Count-m.at)/refusedMemory)
}

// FirstBytes returns at most the given number of first bytes of s. It never cuts a character.
func FirstBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// reasons lists the reasons with their counts, sorted by count.
func (m *Refused) reasons() string {
	all := slices.SortedFunc(maps.Keys(m.By), func(a, b event.Reason) int {
		return cmp.Or(-cmp.Compare(m.By[a].Count, m.By[b].Count), cmp.Compare(a, b))
	})
	var parts []string
	for _, reason := range all {
		if r := m.By[reason]; reason.Faulty() {
			parts = append(parts, fmt.Sprintf("%s %d (the first: %s)", reason, r.Count, event.Printable(r.First)))
		}
	}
	return strings.Join(parts, ", ")
}

// State encodes or decodes the counts. They have their own checkpoint block, because rejected records change no other
// state.
func (m *Refused) State(c *coder.Coder) {
	c.Uint(&m.Count)
	reasons := slices.Sorted(maps.Keys(m.By))
	n := uint64(len(reasons))
	c.Uint(&n)
	for i := range n {
		var reason, first []byte
		var count uint64
		if !c.Decode {
			r := m.By[reasons[i]]
			reason, first, count = []byte(reasons[i]), []byte(r.First), r.Count
		}
		c.Bytes(&reason)
		c.Uint(&count)
		c.Bytes(&first)
		if c.Failed {
			return
		}
		if c.Decode {
			if m.By == nil {
				m.By = map[event.Reason]Refusals{}
			}
			m.By[event.Reason(reason)] = Refusals{count, string(first)}
		}
	}
	c.Float(&m.lately)
	c.Uint(&m.at)
}

// clone returns a copy that shares no memory with m.
func (m *Refused) clone() Refused {
	c := *m
	c.By = maps.Clone(m.By)
	return c
}
