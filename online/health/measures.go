package health

import (
	"cmp"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/rare"
)

// This file has the progressive measures, two simple baselines for comparison, and counts of labels that are probably
// wrong.

// Measures holds the progressive measures: each event is predicted with the published weights before it is learned.
// Sums are weighted by the importance of events.
type Measures struct {
	Unlabeled uint64
	Classes   []uint64 // number of labeled events, by class

	Total  measure.Classes // sums since the start
	Window measure.Classes // recent sums: the weight of an event halves about every 700 events

	// Binary is nil unless there are two classes. The second class is the positive one.
	Binary  *measure.Binary
	Numbers *Numbers // nil for classification
}

// Numbers holds the progressive measures of regression.
type Numbers struct {
	Total, Window measure.Numbers // measures since the start and recent measures, as in Measures
	// Loss is the loss function in the unit of the targets.
	Loss loss.Loss
}

// Report returns the measures since the start of the stream.
func (n *Numbers) Report() measure.NumbersReport { return n.Total.Report(n.Loss) }

// State encodes or decodes the measures.
func (n *Numbers) State(c *coder.Coder) {
	c.Each(n.Total.Sums()...)
	c.Each(n.Window.Sums()...)
}

// windowKeep is the decay factor of Measures.Window per event.
const windowKeep = 0.999

// Labeled returns the number of labeled events.
func (m *Measures) Labeled() (n uint64) {
	for _, events := range m.Classes {
		n += events
	}
	return n
}

// crowded looks for classes that share an output although they have enough events for a separate output. It returns the
// class with the most events among these classes, and the number of other classes on the same output.
func (m *Measures) crowded(outputs []int) (class, others int) {
	count := map[int]int{}
	for _, o := range outputs {
		count[o]++
	}
	most := uint64(rare.SeparateAfter - 1)
	for i, n := range m.Classes[:min(len(m.Classes), len(outputs))] {
		if n > most && outputs[i] >= 0 && count[outputs[i]] > 1 {
			class, most, others = i, n, count[outputs[i]]-1
		}
	}
	return class, others
}

// only returns the class that all labels have. It returns -1 if there is no label or if there are several classes.
func (m *Measures) only() int {
	class := -1
	for i, events := range m.Classes {
		switch {
		case events == 0:
		case class >= 0:
			return -1
		default:
			class = i
		}
	}
	return class
}

// take measures a classified event.
func (m *Measures) take(t *LabeledEvent) {
	for t.Label >= len(m.Classes) {
		m.Classes = append(m.Classes, 0)
	}
	m.Classes[t.Label]++
	if m.Binary != nil {
		m.Binary.Add(t.Label, t.Predicted, t.Weight, t.Score, t.Probability)
	}
	right := t.Predicted == t.Label
	m.Total.Add(right, t.Weight, t.Loss, 1)
	m.Window.Add(right, t.Weight, t.Loss, windowKeep)
}

// takeNumber measures a regression prediction. If told is false, the prediction was made before the first label and is
// not measured.
func (m *Measures) takeNumber(t *LabeledEvent, told bool) {
	if n := m.Numbers; told {
		n.Total.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, 1)
		n.Window.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, windowKeep)
	}
	if len(m.Classes) == 0 {
		m.Classes = []uint64{0}
	}
	m.Classes[0]++
}

// clone returns a copy that shares no memory with m.
func (m *Measures) clone() Measures {
	c := *m
	c.Classes = slices.Clone(m.Classes)
	if m.Binary != nil {
		b := *m.Binary
		c.Binary = &b
	}
	if m.Numbers != nil {
		n := *m.Numbers
		c.Numbers = &n
	}
	return c
}

// MislabeledEvent describes why the label of an event is probably wrong: the t-logistic loss gives the event little
// influence on the weights.
type MislabeledEvent struct {
	Class     int     // index of the label
	Score     float64 // score of the class's output, before the event was learned
	Influence float64 // factor in (0, 1] by which the loss weighs the event
}

// mislabeled counts the events whose influence is so small that their label is probably wrong.
type mislabeled struct {
	Count  uint64
	below  float64 // Settings.MislabeledBelow
	latest MislabeledEvent
	is     bool // whether the latest event is mislabeled
}

// Observe counts an event if its label is probably wrong.
func (s *mislabeled) Observe(e *Event) *Request {
	if s.is = e.Labeled && e.Influence > 0 && e.Influence < s.below; s.is {
		s.latest = MislabeledEvent{Class: e.Label, Score: e.Now[min(e.Label, len(e.Now)-1)], Influence: e.Influence}
		s.Count++
	}
	return nil
}

func (s *mislabeled) State(c *coder.Coder) { c.Uint(&s.Count) }

func (s *mislabeled) Report(r *Report) { r.Mislabeled = s.Count }

// Latest returns the latest event if it is mislabeled, else nil. The result is valid until the next event.
func (s *mislabeled) Latest() *MislabeledEvent {
	if !s.is {
		return nil
	}
	return &s.latest
}

// Baselines measures predictors that use only the labels. For regression one predicts the mean of earlier targets. For
// classification one predicts the most frequent class so far, and one predicts the class frequencies so far. For any
// task one predicts the last label.
type Baselines struct {
	First         uint64       // number of the first labeled event, or 0
	total         baselineSums // sums since the second labeled event
	block, before baselineSums // sums of the current block of baselineBlock events, and of the previous block
	labeled       uint64       // number of measured events
	mean, weight  float64
	last          float64   // last target, or index of the last class
	classes       []float64 // total weight by class
	top           int       // the most frequent class, and the first of several
	Helped        bool      // the last label has had a part in predictions, which the measures of the model leave out
}

const (
	// Comparisons use the events of the current block and of the previous block, so that old losses are forgotten.
	baselineBlock = 1000
	// baselineLeast is the number of labeled events after which baselines are compared.
	baselineLeast = 100
)

// baselineSums holds sums weighted by importance: of absolute errors, or of wrong predictions of a class. They are for
// the model (own), the mean or the most frequent class (constant) and the last label (last). prior sums the log-loss of
// the class frequencies.
type baselineSums struct{ weight, own, constant, last, prior float64 }

func (s *baselineSums) sums() []*float64 {
	return []*float64{&s.weight, &s.own, &s.constant, &s.last, &s.prior}
}

func (s *baselineSums) add(weight float64, of baselineSums) {
	s.weight += weight
	s.own += weight * of.own
	s.constant += weight * of.constant
	s.last += weight * of.last
	s.prior += weight * of.prior
}

// Tell measures the model and the baselines at a predicted event. It then records the label of the event. It returns
// the log-loss of the class frequencies before the event. The result is NaN if the frequencies say nothing yet: in
// regression, in the first baselineLeast events, and while all labels are equal.
func (b *Baselines) Tell(t *LabeledEvent) (prior float64) {
	label := t.Target
	if !t.Regression {
		label, prior = float64(t.Label), b.priorLoss(t.Label)
	}
	if b.First > 0 && t.After >= b.First {
		of := baselineSums{own: math.Abs(label - t.Value), constant: math.Abs(label - b.mean), last: math.Abs(label - b.last)}
		if !t.Regression {
			of = baselineSums{own: differ(t.Predicted, t.Label), constant: differ(b.top, t.Label), last: differ(int(b.last), t.Label), prior: prior}
		}
		if b.labeled%baselineBlock == 0 {
			b.before, b.block = b.block, baselineSums{}
		}
		b.labeled++
		b.total.add(t.Weight, of)
		b.block.add(t.Weight, of)
	}
	b.First = cmp.Or(b.First, t.Number)
	b.last = label
	b.weight += t.Weight
	b.mean += (label - b.mean) * (t.Weight / b.weight)
	if t.Regression || b.labeled < baselineLeast || len(b.classes) < 2 {
		prior = math.NaN()
	}
	if !t.Regression {
		b.classes[t.Label] += t.Weight
		if n, most := b.classes[t.Label], b.classes[b.top]; n > most || n == most && t.Label < b.top {
			b.top = t.Label
		}
	}
	return prior
}

// priorLoss returns the log-loss of the class frequencies so far. Each class counts half an event more (Krichevsky and
// Trofimov 1981), so that a new class has a finite loss.
func (b *Baselines) priorLoss(label int) float64 {
	for label >= len(b.classes) {
		b.classes = append(b.classes, 0)
	}
	return math.Log((b.weight + float64(len(b.classes))/2) / (b.classes[label] + 0.5))
}

func differ(a, b int) float64 {
	if a == b {
		return 0
	}
	return 1
}

// State encodes or decodes the sums and labels.
func (b *Baselines) State(c *coder.Coder) {
	c.Uint(&b.First)
	c.Uint(&b.labeled)
	c.Each(b.total.sums()...)
	c.Each(b.block.sums()...)
	c.Each(b.before.sums()...)
	c.Each(&b.mean, &b.weight, &b.last)
	c.Floats(&b.classes)
	c.Int(&b.top)
	c.Bool(&b.Helped)
	c.Failed = c.Failed || b.top < 0 || b.top >= max(1, len(b.classes))
}

// BaselineReport holds the errors of the baselines since the second labeled event: mean absolute errors for regression,
// otherwise errors in percent. Undefined errors are nil.
type BaselineReport struct {
	MeanMAE   *float64 `json:"baseline_mean_mae,omitempty"`   // error of the mean of earlier targets
	LastMAE   *float64 `json:"baseline_last_mae,omitempty"`   // error of the last target
	LastError *float64 `json:"baseline_last_error,omitempty"` // error of the last class
	// MajorityError is the error of the most frequent class so far.
	MajorityError *float64 `json:"baseline_majority_error,omitempty"`
	// PriorLogLoss is the mean log-loss of the class frequencies so far, in nats.
	PriorLogLoss *float64 `json:"baseline_prior_log_loss,omitempty"`
	// ModelError and ModelMAE are errors of the model alone, if the last label has had a part in predictions.
	ModelError *float64 `json:"model_error,omitempty"`
	ModelMAE   *float64 `json:"model_mae,omitempty"`
}

// Report returns the errors.
func (b *Baselines) Report(regression bool) (r BaselineReport) {
	t := &b.total
	if regression {
		r.MeanMAE, r.LastMAE = measure.Defined(t.constant/t.weight), measure.Defined(t.last/t.weight)
		if b.Helped {
			r.ModelMAE = measure.Defined(t.own / t.weight)
		}
		return r
	}
	r.LastError, r.MajorityError, r.PriorLogLoss = measure.Defined(100*t.last/t.weight), measure.Defined(100*t.constant/t.weight), measure.Defined(t.prior/t.weight)
	if b.Helped {
		r.ModelError = measure.Defined(100 * t.own / t.weight)
	}
	return r
}

// comparison holds the error of the model (Own) and the lower error of a baseline (Baseline), over the latest events.
type comparison struct{ Own, Baseline float64 }

// latest returns the sums over the latest events.
func (b *Baselines) latest() baselineSums {
	out := b.before
	for i, x := range out.sums() {
		*x += *b.block.sums()[i]
	}
	return out
}

// better reports whether the error of a baseline is below the error of the model by more than chance. deviation is the
// standard deviation of the error of one event.
func (b *Baselines) better(own, baseline, deviation float64) (comparison, bool) {
	n := float64(b.labeled)
	if b.labeled > baselineBlock {
		n = float64(baselineBlock + (b.labeled-1)%baselineBlock + 1)
	}
	return comparison{own, baseline}, b.labeled >= baselineLeast && own-baseline > .01*own+deviation/math.Sqrt(n)
}

// betterMean reports whether the error of predicting the mean of earlier targets is below the model's error.
func (b *Baselines) betterMean() (comparison, bool) {
	w := b.latest()
	own := w.own / w.weight
	return b.better(own, w.constant/w.weight, .5*own)
}

// betterLast reports whether the error of predicting the last label is below the model's error. For classification, the
// standard deviation is that of a fraction.
func (b *Baselines) betterLast(regression bool) (comparison, bool) {
	w := b.latest()
	own := w.own / w.weight
	deviation := .5 * own
	if !regression {
		deviation = 2 * math.Sqrt(max(own*(1-own), 0))
	}
	return b.better(own, w.last/w.weight, deviation)
}

// priorBlock is the number of labeled events per comparison.
const priorBlock = 2000

// Prior compares the progressive log-loss with the log-loss of predicting the class frequencies so far, in consecutive
// blocks of priorBlock labeled events. Both losses are weighted by importance.
type Prior struct {
	// Exceeded becomes true after a block whose log-loss is above the log-loss of the class frequencies by more than
	// priorErrors paired standard errors. It becomes false after a block whose log-loss is not above.
	Exceeded    bool
	Event       uint64  // number of the last event of the last complete block
	LogLoss     float64 // log-loss of that block, in nats
	Frequencies float64 // log-loss of the class frequencies in that block
	Size        float64 // mean absolute score in that block

	// Sums over the current block: all and size over its labeled events, the others over those whose losses are
	// compared.
	events                                        uint64
	all, size, weight, loss, frequencies, squares float64
}

// priorErrors is the number of standard errors by which a block's log-loss must exceed that of the class frequencies.
const priorErrors = 3

// diverged reports whether scores are so large that the weights must have diverged. Log-odds of 100 on average are not
// plausible for any data set.
func (p *Prior) diverged() bool { return p.Size > 100 }

// take adds an event with its importance, its log-loss, the log-loss of the class frequencies, and its score. If the
// log-loss of the frequencies is NaN, losses are not compared.
func (p *Prior) take(weight, loss, frequencies, score float64, event uint64) {
	p.events++
	p.all += weight
	p.size += weight * math.Abs(score)
	if frequencies == frequencies {
		p.weight += weight
		p.loss += weight * loss
		p.frequencies += weight * frequencies
		p.squares += weight * weight * (loss - frequencies) * (loss - frequencies)
	}
	if p.events == priorBlock {
		p.complete(event)
	}
}

// complete compares the losses of a block and starts the next block.
func (p *Prior) complete(event uint64) {
	if p.all > 0 {
		p.Event, p.Size = event, p.size/p.all
	}
	if p.weight > 0 {
		p.LogLoss, p.Frequencies = p.loss/p.weight, p.frequencies/p.weight
		worse := p.loss - p.frequencies
		variance := p.squares - worse*worse/float64(p.events)
		p.Exceeded = worse > priorErrors*math.Sqrt(max(variance, 0)) || p.Exceeded && worse > 0
	}
	p.events, p.all, p.weight, p.loss, p.frequencies, p.squares, p.size = 0, 0, 0, 0, 0, 0, 0
}

// State encodes or decodes the comparison.
func (p *Prior) State(c *coder.Coder) {
	c.Bool(&p.Exceeded)
	c.Uint(&p.Event)
	c.Uint(&p.events)
	c.Each(&p.LogLoss, &p.Frequencies, &p.Size, &p.all, &p.weight, &p.loss, &p.frequencies, &p.squares, &p.size)
}

// Counts holds the progressive measures, the losses of the baselines, and the counts of rejected records. Warnings about
// the whole stream are computed from them.
type Counts struct {
	Measures
	Baselines Baselines // predictors that use only the labels
	Prior     Prior
	Refused   Refused // records that are not valid events
}

// Known reports whether a labeled event has arrived.
func (m *Counts) Known() bool { return m.Baselines.First > 0 }

// Observe measures the prediction of an event and the baselines.
func (m *Counts) Observe(e *Event) *Request {
	told := &e.LabeledEvent
	if e.Told != nil {
		told, m.Baselines.Helped = e.Told, true
	}
	switch {
	case !e.Labeled:
		m.Unlabeled++
		return nil
	case e.Regression:
		m.takeNumber(told, m.Known() && e.After >= m.Baselines.First)
	default:
		m.take(told)
	}
	if prior := m.Baselines.Tell(&e.LabeledEvent); e.Likelihood {
		m.Prior.take(e.Learned, e.Loss, prior, e.Score, e.Number)
	}
	return nil
}

// State encodes or decodes the state. It omits Refused, because no prediction depends on it.
func (m *Counts) State(c *coder.Coder) {
	c.Uint(&m.Unlabeled)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
	if m.Numbers != nil {
		m.Numbers.State(c)
	}
	m.Baselines.State(c)
	m.Prior.State(c)
}

// Report adds the measures to r.
func (m *Counts) Report(r *Report) {
	r.Measures, r.Baselines, r.Prior = m.clone(), m.Baselines, m.Prior
	refused := m.Refused.clone()
	r.Refused, r.RefusedBy = refused.Count, refused.By
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

// sampled reports whether an event is in a sample of one in 2^bits. Multiplication by the golden ratio spreads the
// sample evenly, so that the sample does not follow a period of the stream.
func sampled(event uint64, bits uint) bool { return event*0x9e3779b97f4a7c15>>(64-bits) == 0 }

// The part below has the drift detector. At an alarm it requests a reaction from the learner.

// Drift is the state of the drift detector on the progressive log-loss. It is the Page-Hinkley test. It sums the excess
// of the loss over its mean, and raises an alarm when the sum is far above its minimum.
type Drift struct {
	Alarms uint64 `json:"alarms"`
	// Event is the number of the event that raised the latest alarm. Before is the mean log-loss from the previous
	// alarm to the rise of the sum, and After is the mean log-loss during the rise.
	Event  uint64  `json:"event,omitempty"`
	Before float64 `json:"before,omitempty"`
	After  float64 `json:"after,omitempty"`
	// Excess is the current sum minus its minimum, in nats. The next alarm is raised at DriftAlarm.
	Excess float64 `json:"excess"`
}

// DriftAlarm is the Drift.Excess that raises an alarm.
const DriftAlarm = 50

// detector detects increases of the mean progressive log-loss.
type detector struct {
	asks   *Request // the reaction to an alarm, nil for none
	alarms Drift    // all fields except Excess
	// These fields describe the events since the latest alarm:
	n, mean float64
	sum     float64 // sum of the excess of losses over the mean
	lowest  float64 // minimum of sum
	since   float64 // number of events since the minimum
	recent  float64 // sum of losses since the minimum
}

const (
	driftSlack  = 0.05 // excess over the mean that is ignored, in nats
	driftWarmup = 500  // number of events until the mean is reliable
	driftLimit  = 5    // bound on the loss of one event, in nats
	// After an alarm the weight of old events is multiplied by forgetKeep if on_drift is "forget", and by expertKeep if
	// it is "expert".
	forgetKeep, expertKeep = 0.1, 0.3
)

func newDetector(s Settings) (p detector) {
	switch s.OnDrift {
	case "forget":
		p.asks = &Request{Keep: forgetKeep}
	case "expert":
		p.asks = &Request{Keep: expertKeep, Fresh: true}
	}
	return p
}

// Observe adds the loss of an event.
func (p *detector) Observe(e *Event) *Request {
	if e.Labeled && p.take(e.Loss, 1, e.Number) {
		return p.asks
	}
	return nil
}

// drift returns the state of the detector.
func (p *detector) drift() Drift {
	d := p.alarms
	d.Excess = p.sum - p.lowest
	return d
}

// take adds the mean log-loss of some events. events is how many, and number is the number of the last event. alarm
// reports whether they raise an alarm.
func (p *detector) take(loss float64, events, number uint64) (alarm bool) {
	p.add(min(loss, driftLimit), float64(events))
	if p.sum-p.lowest < DriftAlarm {
		return false
	}
	d := p.alarms
	d.Alarms++
	d.Event, d.After = number, p.recent/p.since
	d.Before = (p.mean*p.n - p.recent) / max(p.n-p.since, 1)
	*p = detector{asks: p.asks, alarms: d}
	return true
}

// add adds the mean loss of n events.
func (p *detector) add(loss, n float64) {
	p.n += n
	p.mean += (loss - p.mean) * n / p.n
	if p.n < driftWarmup {
		return
	}
	p.sum += (loss - p.mean - driftSlack) * n
	p.since += n
	p.recent += loss * n
	if p.sum < p.lowest {
		p.lowest, p.since, p.recent = p.sum, 0, 0
	}
}

// State encodes or decodes the latest alarm and the state since.
func (p *detector) State(c *coder.Coder) {
	d := &p.alarms
	c.Uint(&d.Alarms)
	c.Uint(&d.Event)
	c.Each(&d.Before, &d.After, &p.n, &p.mean, &p.sum, &p.lowest, &p.since, &p.recent)
}

// Report adds the state of the detector to r.
func (p *detector) Report(r *Report) { r.Drift = p.drift() }
