package health

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/conformal"
)

// monitor observes events before they are learned.
type monitor interface {
	// Observe processes an event. It returns a request to the learner that the learner must carry out before it learns
	// the event, or nil.
	Observe(e *Event) *Request
	// State encodes or decodes the state. The reader of the state must have the same settings and outputs.
	State(c *coder.Coder)
	// Report adds the monitor's results to r.
	Report(r *Report)
}

// Event is an event and, if it has a label, its prediction. It is valid until the next event.
type Event struct {
	LabeledEvent // with the prediction of the model alone
	// Told has the prediction with the last label. It is nil if the two are equal.
	Told     *LabeledEvent
	Met      Met // the event as it arrived
	Labeled  bool
	Again    bool                  // the event was also learned in an earlier pass over a finite data set
	Scores   []float64             // scores by class, or of a regression
	Decision model.Decision        // turns the scores into a class
	Judged   model.Judged          // the prediction made from the scores
	Active   int                   // number of classes seen so far
	Missing  model.MissingVariance // variance and range due to missing fields
	Residual *model.Residual       // residuals of earlier values, nil if not known
	// Now has the scores by the current weights, and Fresh has the value that the current weights predict. If the label
	// is delayed, they differ from Scores and Value.
	Now   []float64
	Fresh float64
	// Influence is the factor in (0, 1] by which the loss reduces the weight of the event, or 0 if it is not computed.
	Influence float64
	Due       Due
}

// Due determines which expensive monitors observe an event.
type Due struct {
	Gain   bool // measure how much calibration reduces the loss
	Scores bool // add the nonconformity score even if the class already has many
}

// Request describes the actions that a monitor requests from the learner.
type Request struct {
	// Keep is the decay factor for the memory of earlier events, or 0 for no change. The weights do not change, but
	// later steps are larger.
	Keep float64
	// Fresh requests that the second-order expert starts again.
	Fresh bool
}

// Monitors holds all monitors of a stream.
type Monitors struct {
	Counts     Counts
	drift      detector
	link       link // calibrates
	positive   positive
	fields     fieldMonitor
	sets       sets
	Older      olderWeights // losses of older weights
	loss       loss.Loss
	Mislabeled mislabeled // events whose label is probably wrong
	texts      texts
	list       []monitor
}

// Report holds the results of all monitors. Progressive measures use the predictions that were published before an
// event was learned. Sums are weighted by the importance of events.
type Report struct {
	Measures
	Events     uint64 // number of events with a weight above 0, including unlabeled events
	Refused    uint64
	RefusedBy  map[event.Reason]Refusals
	Mislabeled uint64 // number of events with an influence below Settings.MislabeledBelow
	Drift      Drift
	Prior      Prior
	Baselines  Baselines
	// Sets reports the coverage of prediction sets or intervals by range of the missing fraction. CoverageByClass
	// reports the coverage by class.
	Sets            []measure.Coverage
	CoverageByClass []measure.ClassCoverage
	Health          *Health // health of the fields
	// ByAge has the error and the loss by staleness (age of the weights).
	ByAge []measure.StaleLoss
	// Positive is the name of the positive class in Binary, or "" if it is not known yet.
	Positive string

	expected float64 // expected error rate of classifications of complete events; -1 if not known
}

// Alarms holds all alarms so far. It is cheap to compute, so it can be requested after each batch of events.
type Alarms struct {
	Mislabeled uint64 // number of mislabeled events
	Drift      Drift
	Fields     uint64       // number of field alarms that were raised
	Changes    uint64       // number of field alarms that were raised or ended
	Latest     []FieldAlarm // the latest changes of field alarms, oldest first
}

// Settings are the settings of Monitors. The first fields have the names and values of fields of online.Config.
type Settings struct {
	OnDrift, Stuck, Calibrate, Positive  string
	MislabeledBelow, Coverage, Threshold float64
	ClassWeights                         bool // some class has a weight other than 1

	Loss   loss.Loss // loss that is learned
	Target loss.Target
	Schema *event.Schema
	// Repeats returns the fraction of a field's readings that equal the previous reading, and whether the field can
	// never be detected as stuck.
	Repeats func(id int) (fraction float64, never, ok bool)
}

// New returns the Monitors of a new stream.
func New(s Settings) *Monitors {
	m := &Monitors{loss: s.Loss, drift: newDetector(s), link: newLink(s), sets: newSets(s), Mislabeled: mislabeled{below: s.MislabeledBelow}}
	m.fields = fieldMonitor{schema: s.Schema, logged: s.Stuck == "log", repeats: s.Repeats}
	m.Older = olderWeights{schema: s.Schema, measures: &m.Counts.Measures}
	m.positive = positive{schema: s.Schema, measures: &m.Counts.Measures, configured: s.Threshold, given: s.Positive != "", name: s.Positive}
	if s.Target != loss.Sign {
		m.Counts.Numbers = &Numbers{Loss: s.Loss}
	}
	m.list = []monitor{&m.Older, &m.Counts, &m.positive, &m.drift, &m.link, &m.sets, &m.Mislabeled, &m.fields}
	return m
}

// SetOutputs sets the number of scores of a classification. shared reports whether classes share an output.
func (m *Monitors) SetOutputs(outputs int, shared bool) {
	if m.Counts.Binary = nil; outputs == 1 && m.Counts.Numbers == nil {
		m.Counts.Binary = &measure.Binary{}
	}
	if !shared {
		m.link.reset()
	}
}

// Follow replaces the Schema by a later version.
func (m *Monitors) Follow(s *event.Schema) {
	m.positive.schema, m.fields.schema, m.sets.schema, m.Older.schema = s, s, s, s
}

// Decision returns the rule by which scores become a class.
func (m *Monitors) Decision() model.Decision {
	return model.Decision{Link: m.link.inForce(), Threshold: m.positive.threshold()}
}

// Publish adds the interpretation of scores to a model's head: calibration, positive class and prediction sets.
func (m *Monitors) Publish(h *model.Head) {
	d := m.Decision()
	h.Link, h.Threshold, h.Positive, h.Sets = d.Link, d.Threshold, m.positive.published(), m.sets.Sets()
	h.Stale = m.Older.warning(m.loss)
}

// Observe passes an event to all monitors. It returns their combined request, or nil if there is none.
func (m *Monitors) Observe(e *Event) (r *Request) {
	for _, x := range m.list {
		if asked := x.Observe(e); asked != nil {
			r = asked
		}
	}
	return r
}

// Report returns the results of all monitors after the given number of events. expected is the expected error rate for
// complete events, or -1 if it is not known or the task is regression.
func (m *Monitors) Report(events uint64, expected float64) Report {
	r := Report{Events: events, expected: expected}
	for _, x := range m.list {
		x.Report(&r)
	}
	return r
}

// State encodes or decodes the state.
func (m *Monitors) State(c *coder.Coder) {
	for _, x := range m.list {
		x.State(c)
	}
}

// The part below determines which of two classes is positive. No weight depends on it.

// positive chooses the positive class: the configured class, if any. If no class is configured and the two labels are
// no known pair, it is the rarer class of the first positiveAfter labeled events. Otherwise it is the second class.
type positive struct {
	schema     *event.Schema
	measures   *Measures
	configured float64 // configured threshold on the probability of the positive class
	given      bool    // the name is configured
	found      bool    // the choice is final
	name       string  // rarer class so far; "" for the second class
}

// positiveAfter is the number of labeled events after which the choice is final.
const positiveAfter = 1000

// Observe updates the positive class. It must be called after Measures has observed the event.
func (p *positive) Observe(e *Event) *Request {
	if p.found || !e.Labeled || e.Regression || len(e.Scores) != 1 {
		return nil
	}
	if n := p.measures.Labeled(); n == positiveAfter && p.name == "" {
		p.name = p.now()
	} else if n > positiveAfter {
		p.found = true
	}
	return nil
}

// now returns the name of the positive class, or "" for the second class.
func (p *positive) now() string {
	classes, events := p.schema.Classes, p.measures.Classes
	if p.name == "" && len(classes) == 2 && len(events) == 2 && events[0] < events[1] && p.measures.Labeled() <= positiveAfter && !event.UsualPair(classes[0], classes[1]) {
		return classes[0]
	}
	return p.name
}

// threshold returns the probability of the second class above which it is predicted, or 0 for one half.
func (p *positive) threshold() float64 {
	switch {
	case p.configured == 0.5:
		return 0
	case p.schema.PositiveClass(p.now()) == 0:
		return 1 - p.configured
	}
	return p.configured
}

// published returns the name of the positive class in a published model, or "" for the second class.
func (p *positive) published() string {
	if name := p.now(); p.schema.PositiveClass(name) == 0 {
		return name
	}
	return ""
}

// State encodes or decodes the name of the positive class. A configured name takes precedence over a decoded name.
func (p *positive) State(c *coder.Coder) {
	name := []byte(p.name)
	if c.Bytes(&name); c.Decode && !p.given && p.measures.Labeled() >= positiveAfter {
		p.name = string(name)
	}
}

func (p *positive) Report(r *Report) {
	if r.Binary == nil {
		return
	}
	at := p.schema.PositiveClass(p.now())
	if at == 0 {
		r.Binary = r.Binary.Flipped()
	}
	if at < len(p.schema.Classes) {
		r.Positive = p.schema.Classes[at]
	}
}

// The part below forms prediction sets and intervals with the coverage learner.coverage.

// sets holds the nonconformity scores of prediction sets and intervals.
type sets struct {
	*conformal.Predictor // nil if disabled
	schema               *event.Schema
	target               loss.Target
}

func newSets(s Settings) sets {
	out := sets{schema: s.Schema, target: s.Target}
	if s.Coverage > 0 {
		out.Predictor = conformal.New(s.Coverage)
	}
	return out
}

// The first scoresFew scores of a range, and of each class in a range, are all added. Later scores are sampled, see
// Due.
const scoresFew = 1000

// Observe adds the nonconformity score of an event's label.
func (s *sets) Observe(e *Event) *Request {
	if s.Predictor == nil || !e.Labeled || e.Again {
		return nil
	}
	class := 1 + e.Label
	if e.Regression {
		class = 0
	}
	if !e.Due.Scores && s.Taken(e.Missing.Range, class) >= scoresFew {
		return nil
	}
	s.observe(e, true)
	return nil
}

// observe adds the nonconformity score of an event. arrived is false for a masked copy.
func (s *sets) observe(e *Event, arrived bool) {
	if e.Regression {
		if e.Residual != nil && !math.IsNaN(e.Value) {
			s.TakeNumber(s.target, e.Residual, e.Target, e.Value, e.Missing)
		}
		return
	}
	s.TakeClasses(conformal.Answer{
		Range: e.Missing.Range, Scores: e.Scores, Label: e.Label, Decision: e.Decision, Judged: e.Judged, Active: e.Active,
		Sized: len(e.Scores) == 1 || !arrived || sampled(e.Number, sizedBits), Came: arrived,
	})
}

// If there are more than two classes, the size of prediction sets is measured at one in 2^sizedBits events.
const sizedBits = 4

// Masked adds the nonconformity score of the prediction of a masked event.
func (m *Monitors) Masked(e *Event) {
	if m.sets.Predictor != nil && !e.Again {
		m.sets.observe(e, false)
	}
}

// Interval returns the prediction interval of a value, or NaN before the first residual. missing describes the missing
// fields of the event.
func (m *Monitors) Interval(residual *model.Residual, value float64, missing model.MissingVariance) (low, high float64) {
	return m.sets.Interval(m.sets.target, residual, value, missing)
}

// State encodes or decodes the nonconformity scores. Scores from other settings are skipped.
func (s *sets) State(c *coder.Coder) {
	data := s.Encode()
	if c.Bytes(&data); c.Decode && len(data) > 0 && !s.Decode(data) {
		c.Failed = true
	}
}

func (s *sets) Report(r *Report) {
	r.Sets, r.CoverageByClass = s.Predictor.Report(), s.ByClass(s.schema.Classes)
}

// The part below calibrates: it learns the function from scores to log-odds.

// link learns a Link from the predicted scores.
type link struct {
	conformal.Link
	learns bool
	always bool // the Link takes effect even if it does not reduce the loss
}

// newLink returns a link. It learns nothing under "auto" if there are class weights, because these shift scores on
// purpose.
func newLink(s Settings) link {
	l := link{always: s.Calibrate == "on"}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && !s.ClassWeights)
	l.reset()
	return l
}

// Recalibrate replaces the Link by one of other scores, because predictions change to these.
func (m *Monitors) Recalibrate(l conformal.Link) {
	if m.link.learns {
		m.link.Link = l
	}
}

// reset discards the Link, because the outputs have changed.
func (l *link) reset() { l.Link = conformal.NewLink() }

// inForce returns the Link in effect, or nil if scores are used as log-odds.
func (l *link) inForce() *model.Link {
	if !l.learns || !l.always && !l.Helps() {
		return nil
	}
	return l.Latest()
}

func (l *link) Observe(e *Event) *Request {
	if !e.Labeled || e.Again || !l.learns {
		return nil
	}
	if e.Due.Gain {
		l.Measure(e.Scores, e.Label, e.Weight)
	}
	every := uint64(followFirst)
	if l.Taken() > followAfter {
		every = followEvery
	}
	l.Learn(e.Scores, e.Active, e.Label, e.Weight, every)
	return nil
}

// The Link in effect is updated every followFirst events. After followAfter events it is updated every followEvery
// events.
const followFirst, followEvery, followAfter = 64, 512, 65_536

func (l *link) Report(*Report) {}
