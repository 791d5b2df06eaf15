package watch

// This file says when something was, and which events are sampled.

import (
	"strconv"
	"time"

	"blankout/internal/coder"
)

// Moment is an event of the stream.
type Moment struct {
	Event uint64 // its number
	Time  int64  // event time, milliseconds since the Unix epoch; 0 if unknown
}

func (m *Moment) state(c *coder.Coder) {
	c.Uint(&m.Event)
	c.Int64(&m.Time)
}

// when returns the time of a moment, nil if it is unknown.
func (m Moment) when() *time.Time {
	if m.Time == 0 {
		return nil
	}
	t := time.UnixMilli(m.Time).UTC()
	return &t
}

func (m Moment) String() string {
	if t := m.when(); t != nil {
		return t.Format(time.RFC3339)
	}
	return "event " + strconv.FormatUint(m.Event, 10)
}

// Sampled says whether the event of this number is one of a sample of one in 2^bits:
// numbers that the golden section spreads evenly, so that no period of a stream is met by
// one of theirs.
func Sampled(event uint64, bits uint) bool { return event*0x9e3779b97f4a7c15>>(64-bits) == 0 }
