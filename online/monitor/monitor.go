// Package monitor observes the events of a stream, their predictions and their labels. It changes no weights. Each
// monitor is a type in a file of its own, and an entry of the table in New.
package monitor

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/watch"
)

// Monitor observes events before they are learned.
type Monitor interface {
	// Observe processes an event. It returns what the learner must do before it learns the event, or nil.
	Observe(e *Event) *Request
	// State codes the state. The reader must have the same settings and outputs.
	State(c *coder.Coder)
	// Report adds the monitor's results to r.
	Report(r *Report)
}

// Event is an event and, if it has a label, its prediction. Monitors borrow it until the next event.
type Event struct {
	watch.LabeledEvent
	Met      watch.Met // the event as it arrived
	Labeled  bool
	Again    bool                  // it was learned in an earlier pass over a finite set
	Scores   []float64             // by class, or of the regression
	Decision model.Decision        // of the scores of classes
	Judged   model.Judged          // the prediction of the scores
	Active   int                   // number of classes that have arrived
	Missing  model.MissingVariance // the missing fields
	Residual *model.Residual       // of earlier values, nil if not known
	// Now has the scores of the current weights, and Fresh the value. They differ from Scores and Value if the label is
	// delayed.
	Now   []float64
	Fresh float64
	// Older has the scores of weights that are learner.serving_staleness events old.
	Older Older
	// Influence is the influence of the event on the loss, in (0, 1]. It is 0 if it is not computed.
	Influence float64
	Due       Due
}

// Older has the scores of older weights, for the first Active classes. Scores is nil if there are no such weights.
type Older struct {
	Scores []float64
	Active int
}

// Due selects which expensive monitors observe an event.
type Due struct {
	Gain   bool // the reduction of the loss by calibration
	Scores bool // the nonconformity of the label, if its class has enough events
}

// Request is what a monitor requests of the learner.
type Request struct {
	// Keep is the factor of the memory of past events, 0 for no change. Weights stay, and then change faster.
	Keep float64
	// Fresh requests a new expert in addition to the others.
	Fresh bool
}

// Monitors holds all monitors of a stream.
type Monitors struct {
	Measures   Measures
	Refused    watch.Refused // records that are not events
	drift      drift
	link       link
	positive   positive
	health     health
	sets       sets
	stale      olderWeights
	loss       loss.Loss
	mislabeled mislabeled
	texts      watch.Texts
	list       []Monitor
}

// Report holds the results of all monitors. Progressive measures are of the published predictions, made before the
// event was learned. Sums are weighted by importance.
type Report struct {
	watch.Measures
	Events     uint64 // with a weight above 0, including unlabeled ones
	Refused    uint64
	RefusedBy  map[event.Reason]watch.Refusals
	Mislabeled uint64 // with an influence below Settings.MislabeledBelow
	Drift      watch.Drift
	Prior      watch.Prior
	Baselines  watch.Baselines
	// Sets reports the coverage of prediction sets or intervals by range of missing fields, and CoverageByClass that by
	// class.
	Sets            []measure.Coverage
	CoverageByClass []measure.ClassCoverage
	Health          *watch.Health // of the fields
	// ByAge has the error and the loss by staleness of the weights.
	ByAge []measure.StaleLoss
	// Positive is the name of the positive class of Binary, "" if it is not known yet.
	Positive string

	expected float64 // expected error of classifications of complete events, as a fraction; -1 if not known
}

// Alarms holds all alarms so far. It is cheap enough to request after each batch of events.
type Alarms struct {
	Mislabeled uint64 // number of events
	Drift      watch.Drift
	Fields     uint64             // number of field alarms raised
	Changes    uint64             // number of field alarms raised or ended
	Latest     []watch.FieldAlarm // the latest changes, oldest first
}

// Settings are the settings of Monitors. The first fields are those of online.Config with the same names.
type Settings struct {
	OnDrift, Stuck, Calibrate, Positive  string
	MislabeledBelow, Coverage, Threshold float64
	ServingStaleness                     int
	ClassWeights                         bool // a class has a weight of its own

	Loss   loss.Loss // as it is learned
	Target loss.Target
	Schema *event.Schema
	// Repeats returns the fraction of a field's readings that repeat the one before, and whether the field can never be
	// detected as stuck.
	Repeats func(id int) (fraction float64, never, ok bool)
}

// New returns the Monitors of a new stream.
func New(s Settings) *Monitors {
	m := &Monitors{loss: s.Loss, drift: newDrift(s), health: newHealth(s), sets: newSets(s), mislabeled: mislabeled{below: s.MislabeledBelow}}
	m.link = newLink(s, &m.Measures.Measures)
	m.stale = olderWeights{schema: s.Schema, measures: &m.Measures.Measures}
	m.positive = newPositive(s, &m.Measures.Measures)
	if s.Target != loss.Sign {
		m.Measures.Numbers = &watch.Numbers{Loss: s.Loss}
	}
	m.list = []Monitor{&m.stale, &m.Measures, &m.positive, &m.drift, &m.link, &m.sets, &m.mislabeled, &m.health}
	return m
}

// SetOutputs sets the number of scores of a classification. shared means that classes share an output.
func (m *Monitors) SetOutputs(outputs int, shared bool) {
	if m.Measures.Binary = nil; outputs == 1 && m.Measures.Numbers == nil {
		m.Measures.Binary = &measure.Binary{}
	}
	if m.link.outputs = outputs; !shared {
		m.link.reset()
	}
}

// Follow replaces the Schema by a later state of it.
func (m *Monitors) Follow(s *event.Schema) {
	m.positive.schema, m.health.schema, m.sets.schema, m.stale.schema = s, s, s, s
}

// Decision returns how scores determine the class.
func (m *Monitors) Decision() model.Decision {
	return model.Decision{Link: m.link.inForce(), Threshold: m.positive.threshold()}
}

// Publish adds to a model how to interpret its scores.
func (m *Monitors) Publish(h *model.Head) {
	d := m.Decision()
	h.Link, h.Threshold, h.Positive, h.Sets = d.Link, d.Threshold, m.positive.published(), m.sets.Sets()
	h.Stale = m.stale.warning(m.loss)
}

// Observe passes an event to all monitors, and returns what they request, or nil.
func (m *Monitors) Observe(e *Event) (r *Request) {
	for _, x := range m.list {
		if asked := x.Observe(e); asked != nil {
			r = asked
		}
	}
	return r
}

// Report returns the results of all monitors after so many events. expected is the expected error of classifications of
// complete events, as a fraction, or -1 if it is not known.
func (m *Monitors) Report(events uint64, expected float64) Report {
	refused := m.Refused.Clone()
	r := Report{Events: events, Refused: refused.Count, RefusedBy: refused.By, expected: expected}
	for _, x := range m.list {
		x.Report(&r)
	}
	return r
}

// State codes everything but Refused, on which no prediction depends.
func (m *Monitors) State(c *coder.Coder) {
	for _, x := range m.list {
		x.State(c)
	}
}
