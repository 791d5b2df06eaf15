package watch

// This file has moments of the stream, and sampling.

import (
	"strconv"
	"time"

	"blankout/internal/coder"
)

// Moment is an event of the stream.
type Moment struct {
	Event uint64 // number of the event
	Time  int64  // event time in milliseconds since the Unix epoch; 0 if not known
}

func (m *Moment) state(c *coder.Coder) {
	c.Uint(&m.Event)
	c.Int64(&m.Time)
}

// when returns the time of a moment, or nil if it is not known.
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

// Sampled reports whether an event is in a sample of one in 2^bits. The golden section spreads the sample evenly, so
// that no period of the stream coincides with a period of the sample.
func Sampled(event uint64, bits uint) bool { return event*0x9e3779b97f4a7c15>>(64-bits) == 0 }
