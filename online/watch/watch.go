package watch

import (
	"strconv"
	"time"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Counts holds the counts on which warnings about the whole stream depend.
type Counts struct {
	Measures  Measures
	Baselines Baselines // predictors that use only the labels
	Prior     Prior
	Refused   Refused
}

// Met is an event as it arrived, before anything is learned from it.
type Met struct {
	Event *event.Example
	// Came is the event as it arrived. Event is the same, unless stuck fields have been declared missing in it.
	Came   *event.Example
	Number uint64 // of the event
	// Named means that missing fields can be determined by name. Present has the fields that it arrived with.
	Named   bool
	Present model.FieldSet
	Fields  []event.Field  // of the stream so far, by id
	Rows    *model.Table   // counts by column, without this event
	Of      [][]float64    // or the rows of the Event's features, which count it; nil if there are none
	Usual   *model.Missing // which fields are usual; nil until that is known
	Error   float64        // expected error of complete events, as a fraction; -1 if not known
}

// LabeledEvent is a labeled event and its prediction, before the event is learned.
type LabeledEvent struct {
	Number uint64 // of the event
	After  uint64 // number of events at the time of the prediction
	Time   int64  // event time in milliseconds since the Unix epoch; 0 if not known
	Weight float64
	// Loss is the loss for the drift detector: the log-loss, or the absolute error in deviations of the targets.
	Loss float64
	// Part means that the learner is in a group, whose measures will be merged. Monitors that need the whole stream
	// ignore the event.
	Part bool

	// For classification: the label, the predicted class, the importance with which it is learned, the score of the
	// label's output (with two classes that of the second), and its probability. Likelihood means that the log-loss is
	// comparable with that of the class frequencies.
	Label, Predicted   int
	Learned            float64
	Score, Probability float64
	Likelihood         bool

	// For regression: the label, and the predicted value with its interval (NaN if there is none).
	Regression               bool
	Target, Value, Low, High float64
}

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
