package health

import (
	"strconv"
	"time"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Counts holds the counts from which warnings about the whole stream are computed.
type Counts struct {
	Measures  Measures
	Baselines Baselines // predictors that use only the labels
	Prior     Prior
	Refused   Refused
}

// Met is an event in raw form, before it is learned.
type Met struct {
	Event *event.Example
	// Came is the event as it arrived. Event is the same event, but faulty readings are declared missing.
	Came   *event.Example
	Number uint64 // number of the event
	// Named reports whether missing fields can be determined by their name. Present has the fields that the event had
	// when it arrived.
	Named   bool
	Present model.FieldSet
	Fields  []event.Field  // fields of the stream so far, by id
	Usual   *model.Missing // which fields are usual; nil until known
	Error   float64        // expected error rate of complete events; -1 if unknown
	// Examined reports that the numbers of the event were compared with each other, and Doubted has those that are
	// probably no measurements.
	Examined bool
	Doubted  []model.DoubtedReading
}

// LabeledEvent is a labeled event and its prediction, before the event is learned.
type LabeledEvent struct {
	Number uint64 // number of the event
	After  uint64 // number of learned events at the time of the prediction
	Time   int64  // event time in milliseconds since the Unix epoch; 0 if not known
	Weight float64
	// Loss is the loss for the drift detector: the log-loss, or the absolute error in standard deviations of the
	// targets.
	Loss float64

	// For classification: the label, the predicted class, and the importance with which the event is learned. Score is
	// the score of the label's output (with two classes, of the second class), and the probability is the label's.
	// Likelihood reports whether the log-loss can be compared with the log-loss of the class frequencies.
	Label, Predicted   int
	Learned            float64
	Score, Probability float64
	Likelihood         bool

	// For regression: the target, the predicted value, and the prediction interval (NaN if there is none).
	Regression               bool
	Target, Value, Low, High float64
}

// Moment is the number and time of an event.
type Moment struct {
	Event uint64 // number of the event
	Time  int64  // event time in milliseconds since the Unix epoch; 0 if not known
}

func (m *Moment) state(c *coder.Coder) {
	c.Uint(&m.Event)
	c.Int64(&m.Time)
}

// when returns the time of a moment, or nil if it is unknown.
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

// Sampled reports whether an event is in a sample of one in 2^bits. Multiplication by the golden ratio spreads the
// sample evenly, so that the sample does not follow a period of the stream.
func Sampled(event uint64, bits uint) bool { return event*0x9e3779b97f4a7c15>>(64-bits) == 0 }
