package health

// This file has the progressive measures, two simple baselines for comparison, and counts of labels that are probably
// wrong.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/measure"
	"blankout/online/young"
)

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
	most := uint64(young.SeparateAfter - 1)
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

// Take measures a classified event.
func (m *Measures) Take(t *LabeledEvent) {
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

// TakeNumber measures a regression prediction. If told is false, the prediction was made before the first label and is
// not measured.
func (m *Measures) TakeNumber(t *LabeledEvent, told bool) {
	if n := m.Numbers; told {
		n.Total.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, 1)
		n.Window.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, windowKeep)
	}
	if len(m.Classes) == 0 {
		m.Classes = []uint64{0}
	}
	m.Classes[0]++
}

// Merge adds the changes of the classification measures from base to now. If a sum decays, its change is now - k base,
// where k is the decay factor of the interval. labeled is the number of labeled events.
func (m *Measures) Merge(base, now *Measures) (labeled uint64) {
	m.Unlabeled += now.Unlabeled - base.Unlabeled
	for i, n := range now.Classes {
		if i < len(base.Classes) {
			n -= base.Classes[i]
		}
		if i == len(m.Classes) {
			m.Classes = append(m.Classes, 0)
		}
		m.Classes[i] += n
		labeled += n
	}
	measure.Merge(m.Total.Sums(), base.Total.Sums(), now.Total.Sums(), 1)
	measure.Merge(m.Window.Sums(), base.Window.Sums(), now.Window.Sums(), measure.Power(windowKeep, labeled))
	if m.Binary != nil {
		measure.Merge(m.Binary.Sums(), base.Binary.Sums(), now.Binary.Sums(), 1)
	}
	return labeled
}

// Clone returns a copy that shares no memory with m.
func (m *Measures) Clone() Measures {
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

// Mislabeled counts the events whose influence is so small that their label is probably wrong.
type Mislabeled struct {
	Count  uint64
	latest MislabeledEvent
	is     bool // whether the latest event is mislabeled
}

// Clear must be called when the next event arrives.
func (s *Mislabeled) Clear() { s.is = false }

// Weigh records the influence of an event. If the influence is below bound, the event counts as mislabeled.
func (s *Mislabeled) Weigh(x MislabeledEvent, bound float64) {
	if s.is = x.Influence < bound; s.is {
		s.latest = x
		s.Count++
	}
}

// Latest returns the latest event if it is mislabeled, else nil. The result is valid until the next event.
func (s *Mislabeled) Latest() *MislabeledEvent {
	if !s.is {
		return nil
	}
	return &s.latest
}

// Baselines measures two predictors that use only the labels. For regression one predicts the mean of earlier targets.
// For any task the other predicts the last label. Learners in a group do not measure baselines, because each learner
// receives other labels.
type Baselines struct {
	First         uint64       // number of the first labeled event, or 0
	total         baselineSums // sums since the second labeled event
	block, before baselineSums // sums of the current block of baselineBlock events, and of the previous block
	labeled       uint64       // number of measured events
	mean, weight  float64
	last          float64 // last target, or index of the last class
}

const (
	// Comparisons use the events of the current block and of the previous block, so that old losses are forgotten.
	baselineBlock = 1000
	// baselineLeast is the number of labeled events after which baselines are compared.
	baselineLeast = 100
)

// baselineSums holds sums weighted by importance: of absolute errors, or of wrong predictions of a class. They are for
// the model (own), the mean baseline (mean) and the last-label baseline (last).
type baselineSums struct{ weight, own, mean, last float64 }

func (s *baselineSums) sums() []*float64 { return []*float64{&s.weight, &s.own, &s.mean, &s.last} }

func (s *baselineSums) add(weight, own, mean, last float64) {
	s.weight += weight
	s.own += weight * own
	s.mean += weight * mean
	s.last += weight * last
}

// Tell measures the model and the baselines at a predicted event. It then records the label of the event.
func (b *Baselines) Tell(t *LabeledEvent) {
	if t.Part {
		return
	}
	label := t.Target
	if !t.Regression {
		label = float64(t.Label)
	}
	if b.First > 0 && t.After >= b.First {
		var own, mean, last float64
		if t.Regression {
			own, mean, last = math.Abs(label-t.Value), math.Abs(label-b.mean), math.Abs(label-b.last)
		} else {
			own, last = differ(t.Predicted, t.Label), differ(int(b.last), t.Label)
		}
		if b.labeled%baselineBlock == 0 {
			b.before, b.block = b.block, baselineSums{}
		}
		b.labeled++
		b.total.add(t.Weight, own, mean, last)
		b.block.add(t.Weight, own, mean, last)
	}
	if b.First == 0 {
		b.First = t.Number
	}
	b.last = label
	b.weight += t.Weight
	b.mean += (label - b.mean) * (t.Weight / b.weight)
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
}

// BaselineReport holds the errors of the baselines since the second labeled event: mean absolute errors for regression,
// otherwise errors in percent. Undefined errors are nil.
type BaselineReport struct {
	MeanMAE   *float64 `json:"baseline_mean_mae,omitempty"`   // error of the mean of earlier targets
	LastMAE   *float64 `json:"baseline_last_mae,omitempty"`   // error of the last target
	LastError *float64 `json:"baseline_last_error,omitempty"` // error of the last class
}

// Report returns the errors.
func (b *Baselines) Report(regression bool) BaselineReport {
	if !regression {
		return BaselineReport{LastError: measure.Defined(100 * b.total.last / b.total.weight)}
	}
	return BaselineReport{MeanMAE: measure.Defined(b.total.mean / b.total.weight), LastMAE: measure.Defined(b.total.last / b.total.weight)}
}

// Better holds the error of the model (Own) and the lower error of a baseline (Baseline), over the latest events.
type Better struct{ Own, Baseline float64 }

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
func (b *Baselines) better(own, baseline, deviation float64) (Better, bool) {
	n := float64(b.labeled)
	if b.labeled > baselineBlock {
		n = float64(baselineBlock + (b.labeled-1)%baselineBlock + 1)
	}
	return Better{own, baseline}, b.labeled >= baselineLeast && own-baseline > .01*own+deviation/math.Sqrt(n)
}

// BetterMean reports whether the error of predicting the mean of earlier targets is below the model's error.
func (b *Baselines) BetterMean() (Better, bool) {
	w := b.latest()
	own := w.own / w.weight
	return b.better(own, w.mean/w.weight, .5*own)
}

// BetterLast reports whether the error of predicting the last label is below the model's error. For classification, the
// standard deviation is that of a fraction.
func (b *Baselines) BetterLast(regression bool) (Better, bool) {
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

// Prior compares the progressive log-loss with the log-loss of predicting the class frequencies, in consecutive blocks
// of priorBlock labeled events. Both losses are weighted by importance.
type Prior struct {
	// Exceeded becomes true after a block whose log-loss was above the log-loss of the class frequencies. It becomes
	// false after a block whose log-loss is at least one percent below that.
	Exceeded    bool
	Event       uint64  // number of the last event of the last complete block
	LogLoss     float64 // log-loss of that block, in nats
	Frequencies float64 // log-loss of predicting that block's class frequencies
	Size        float64 // mean absolute score in that block

	events uint64 // number of labeled events in the current block
	loss   float64
	size   float64
	weight []float64 // total weight by class
}

// Diverged reports whether scores are so large that the weights must have diverged. Log-odds of 100 on average are not
// plausible for any data set.
func (p *Prior) Diverged() bool { return p.Size > 100 }

// Take adds an event with its importance, log-loss and score.
func (p *Prior) Take(label int, weight, loss, score float64, event uint64) {
	for label >= len(p.weight) {
		p.weight = append(p.weight, 0)
	}
	p.events++
	p.loss += weight * loss
	p.size += weight * math.Abs(score)
	p.weight[label] += weight
	if p.events == priorBlock {
		p.complete(event)
	}
}

// complete compares the losses of a block and starts the next block. The class frequencies are fitted to the n events
// of the same block. To make up for this, (classes - 1)/2 log n nats are added to their loss.
func (p *Prior) complete(event uint64) {
	total, entropy, classes := 0.0, 0.0, 0
	for _, w := range p.weight {
		total += w
	}
	for _, w := range p.weight {
		if w > 0 {
			entropy -= w / total * math.Log(w/total)
			classes++
		}
	}
	if total > 0 {
		n := float64(p.events)
		p.Event, p.LogLoss, p.Size = event, p.loss/total, p.size/total
		p.Frequencies = entropy + float64(classes-1)/2*math.Log(n)/n
		p.Exceeded = p.LogLoss > p.Frequencies || p.Exceeded && p.LogLoss > 0.99*p.Frequencies
	}
	p.events, p.loss, p.size = 0, 0, 0
	clear(p.weight)
}

// State encodes or decodes the comparison.
func (p *Prior) State(c *coder.Coder) {
	exceeded := uint64(0)
	if p.Exceeded {
		exceeded = 1
	}
	c.Uint(&exceeded)
	p.Exceeded = exceeded != 0
	c.Uint(&p.Event)
	c.Float(&p.LogLoss)
	c.Float(&p.Frequencies)
	c.Float(&p.Size)
	c.Uint(&p.events)
	c.Float(&p.loss)
	c.Float(&p.size)
	c.Floats(&p.weight)
}
