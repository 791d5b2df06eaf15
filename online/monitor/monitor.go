// Package monitor observes a stream: its events, what was predicted for them, and what became of that. It moves no weight.
// Each monitor is a file with a type of its own and a line of the table in New.
package monitor

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/watch"
)

// Monitor observes events one by one, before they are learned.
type Monitor interface {
	// Observe takes up an event, and returns what the learner shall do before it learns the event, nil for nothing.
	Observe(e *Event) *Request
	// State codes everything. It is read by a monitor of the same settings and outputs.
	State(c *coder.Coder)
	// Report adds what there is to tell.
	Report(r *Report)
}

// Event is an event and, if it has a label, what was predicted for it. It is borrowed until the next one.
type Event struct {
	watch.Told
	Met      watch.Met // as it came, labeled or not
	Labeled  bool
	Again    bool            // it has been learned in an earlier pass over a finite set
	Scores   []float64       // by class, or of a number
	Decision model.Decision  // of the scores of classes
	Judged   model.Judged    // what these come to
	Active   int             // the first so many classes have come
	Lacks    model.Lacked    // what the event lacks
	Residual *model.Residual // of values before, nil where it is not known
	// Now are the scores that are predicted by the weights of now, and Fresh the value. They are others than Scores and Value where the label
	// comes later than its event.
	Now   []float64
	Fresh float64
	// Older is what weights of learner.serving_staleness events ago predict.
	Older Older
	// Influence is how much the event counts by the loss, in (0, 1]; 0 where nobody asks.
	Influence float64
	Due       Due
}

// Older are scores of older weights, of which the first so many are in use; nil for none.
type Older struct {
	Scores []float64
	Active int
}

// Due says which of the parts of monitors that cost much look at an event.
type Due struct {
	Gain   bool // how much less is lost by calibrated probabilities
	Scores bool // how far off the label is, if there are enough events of its class
}

// Request is what a monitor asks for.
type Request struct {
	// Keep is what is to be left of what the learner knows of the past, 0 for all. Its weights then stay and move faster.
	Keep float64
	// Fresh asks for an expert that begins anew beside those that there are.
	Fresh bool
}

// Monitors are all monitors of a stream.
type Monitors struct {
	Measures   Measures
	Refused    watch.Refused // records, which are no events
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

// Report is what monitors have measured and counted. The progressive measures are of predictions made before their event was
// learned, by the published weights. Sums are weighted by importance.
type Report struct {
	watch.Measures
	Events     uint64 // met with a weight above 0, unlabeled ones included
	Refused    uint64
	RefusedBy  map[event.Reason]watch.Refusals
	Mislabeled uint64 // of very small influence, see Settings.MislabeledBelow
	Drift      watch.Drift
	Prior      watch.Prior
	Baselines  watch.Baselines
	// Sets says how sets, or intervals, have done by range of what is missing, CoverageByClass how the sets of each
	// class's events have.
	Sets            []conformal.Report
	CoverageByClass []conformal.ClassReport
	Health          *watch.Health // of the fields
	// ByAge has the error and loss by the age of the weights that answer.
	ByAge []measure.Aged
	// Positive names the class that Binary calls positive, "" before it is known.
	Positive string

	expected float64 // error of predictions of classes with nothing more missing, a share; -1 where nobody knows
}

// Alarms is what has been raised so far. It is cheap to ask for after each batch of events.
type Alarms struct {
	Mislabeled uint64 // events
	Drift      watch.Drift
	Fields     uint64             // alarms about fields that were raised
	Changes    uint64             // that were raised or ended
	Latest     []watch.FieldAlarm // of these, the latest, oldest first
}

// Settings are what Monitors are made from. The first are those of the same names of online.Config.
type Settings struct {
	OnDrift, Stuck, Calibrate, Positive  string
	MislabeledBelow, Coverage, Threshold float64
	ServingStaleness                     int
	ClassWeights                         bool // some class has one of its own

	Loss   loss.Loss // of labels and predictions as they are learned
	Target loss.Target
	Schema *event.Schema
	// Repeats returns of a field which fraction of its readings repeats the one before, and whether it is never found stuck.
	Repeats func(id int) (fraction float64, never, ok bool)
}

// New returns the Monitors of a stream that begins.
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

// SetOutputs says that predictions of classes have so many scores from here on, of which several may be of one output.
func (m *Monitors) SetOutputs(outputs int, shared bool) {
	if m.Measures.Binary = nil; outputs == 1 && m.Measures.Numbers == nil {
		m.Measures.Binary = &measure.Binary{}
	}
	if m.link.outputs = outputs; !shared {
		m.link.reset()
	}
}

// Follow gives the Monitors a later state of the Schema.
func (m *Monitors) Follow(s *event.Schema) {
	m.positive.schema, m.health.schema, m.sets.schema, m.stale.schema = s, s, s, s
}

// Decision says what scores of classes mean from here on.
func (m *Monitors) Decision() model.Decision {
	return model.Decision{Link: m.link.inForce(), Threshold: m.positive.threshold()}
}

// Publish gives a model what its predictions mean.
func (m *Monitors) Publish(h *model.Head) {
	d := m.Decision()
	h.Link, h.Threshold, h.Positive, h.Sets = d.Link, d.Threshold, m.positive.published(), m.sets.Sets()
	h.Stale = m.stale.warning(m.loss)
}

// Observe shows an event to the monitors, and returns what they ask for, nil for nothing.
func (m *Monitors) Observe(e *Event) (r *Request) {
	for _, x := range m.list {
		if asked := x.Observe(e); asked != nil {
			r = asked
		}
	}
	return r
}

// Report returns what the monitors have to tell after so many events. Expected is the error that is expected of predictions of
// classes with nothing more missing, a share; -1 where nobody knows.
func (m *Monitors) Report(events uint64, expected float64) Report {
	refused := m.Refused.Clone()
	r := Report{Events: events, Refused: refused.Count, RefusedBy: refused.By, expected: expected}
	for _, x := range m.list {
		x.Report(&r)
	}
	return r
}

// State codes everything but Refused, which no prediction depends on.
func (m *Monitors) State(c *coder.Coder) {
	for _, x := range m.list {
		x.State(c)
	}
}
