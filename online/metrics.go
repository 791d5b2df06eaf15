package online

// This file holds the progressive measures, and their summary for people.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"blankout"
	"blankout/internal/coder"
)

// Metrics are the progressive measures: every event is scored before it is
// learned, by the weights that are published. Sums are weighted by importance.
type Metrics struct {
	Events     uint64 // met with a weight above 0, unlabelled ones included
	Unlabelled uint64
	Refused    uint64
	RefusedBy  map[blankout.Reason]Refusals
	Suspects   uint64 // of very small influence, see Config.Suspect
	// RefreshFailures counts refreshes that found no solution and changed nothing.
	RefreshFailures uint64
	Features        int      // columns seen
	Classes         []uint64 // labelled events by class

	Level     string     // the noise level that is published
	Forecasts []Forecast // by level

	Total  ProgressiveLoss // since the beginning
	Window ProgressiveLoss // recently: an event's weight halves every 700 events or so

	Binary  *Binary  // nil with more than two classes, or none
	Numbers *Numbers // where labels are numbers, else nil
	Drift   Drift
	Prior   Prior

	// Of Warnings: see latelyRefused.
	refusedLately float64
	refusedAt     uint64
}

// ProgressiveLoss is a sum of progressive losses.
type ProgressiveLoss struct {
	Weight  float64 // of the labelled events
	Wrong   float64 // of those whose class was predicted wrongly
	LogLoss float64 // nats
}

// Error returns the share of events predicted wrongly, NaN if there are none.
func (p ProgressiveLoss) Error() float64 { return p.Wrong / p.Weight }

// MeanLogLoss returns the mean log-loss in nats, NaN without events.
func (p ProgressiveLoss) MeanLogLoss() float64 { return p.LogLoss / p.Weight }

func (p *ProgressiveLoss) add(weight, wrong, logLoss, keep float64) {
	p.Weight = p.Weight*keep + weight
	p.Wrong = p.Wrong*keep + wrong
	p.LogLoss = p.LogLoss*keep + logLoss
}

// Summary is Metrics in a few numbers, for people and scripts. What is not a
// number yet is null. Errors are in percent.
type Summary struct {
	Error         *float64 `json:"progressive_error"`
	LogLoss       *float64 `json:"progressive_log_loss"` // nats
	RecentError   *float64 `json:"recent_error"`
	RecentLogLoss *float64 `json:"recent_log_loss"`
	// Of two classes, and the positive one of them.
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
	Precision        *float64 `json:"precision"`
	Recall           *float64 `json:"recall"`
	CalibrationError *float64 `json:"calibration_error"`
	// Reliability is the diagram of the probabilities given to the positive class.
	Reliability []SummaryBin `json:"reliability,omitempty"`
	Level       string       `json:"level"`
	Forecasts   []Forecast   `json:"forecasts"`
	Drift       Drift        `json:"drift"`
	Suspects    uint64       `json:"suspects"` // events whose label is probably wrong
	// Where labels are numbers; errors are then in the targets' own unit, and Forecasts
	// hold root mean squared errors.
	*NumbersSummary
}

// NumbersSummary is Numbers in a few numbers.
type NumbersSummary struct {
	MAE        *float64 `json:"progressive_mae"`
	RMSE       *float64 `json:"progressive_rmse"`
	R2         *float64 `json:"r2"`
	Deviance   *float64 `json:"deviance"`
	Coverage   *float64 `json:"coverage"`
	RecentMAE  *float64 `json:"recent_mae"`
	RecentRMSE *float64 `json:"recent_rmse"`
	// BaselineMAE is the progressive error of predicting the mean of the targets so far.
	BaselineMAE *float64 `json:"baseline_mae"`
}

// SummaryBin is a bar of a reliability diagram.
type SummaryBin struct {
	Probability float64 `json:"probability"` // mean of what was given
	Positive    float64 `json:"positive"`    // share of the positive class
	Weight      float64 `json:"weight"`      // of the events
}

// Summary sums m up.
func (m *Metrics) Summary() Summary {
	number := func(x float64) *float64 {
		if x-x != 0 { // NaN or infinite
			return nil
		}
		return &x
	}
	s := Summary{
		Error: number(100 * m.Total.Error()), LogLoss: number(m.Total.MeanLogLoss()),
		RecentError: number(100 * m.Window.Error()), RecentLogLoss: number(m.Window.MeanLogLoss()),
		Level: m.Level, Drift: m.Drift, Suspects: m.Suspects,
	}
	if m.Binary != nil {
		b := m.Binary
		s.AUC, s.AveragePrecision = number(b.AUC()), number(b.AveragePrecision())
		s.Precision, s.Recall, s.CalibrationError = number(b.Precision()), number(b.Recall()), number(b.CalibrationError())
		for _, r := range b.Reliability {
			p, positive := number(r.Probability/r.Weight), number(r.Positive/r.Weight)
			if p != nil && positive != nil {
				s.Reliability = append(s.Reliability, SummaryBin{*p, *positive, r.Weight})
			}
		}
	}
	if n := m.Numbers; n != nil {
		all, recent := n.Total.Report(n.loss), n.Window.Report(n.loss)
		s.NumbersSummary = &NumbersSummary{all.MAE, all.RMSE, all.R2, all.Deviance, all.Coverage, recent.MAE, recent.RMSE, number(n.Baseline.MeanError())}
	}
	for _, f := range m.Forecasts {
		for i := range f.Error {
			if m.Numbers != nil {
				break
			}
			f.Error[i] *= 100
		}
		if slices.ContainsFunc(f.Error[:], func(x float64) bool { return x-x != 0 }) {
			continue // no event sampled yet
		}
		for i := range f.Groups { // which are nobody else's
			f.Groups[i] *= 100
		}
		if slices.ContainsFunc(f.Groups, func(x float64) bool { return x-x != 0 }) {
			f.Groups = nil
		}
		s.Forecasts = append(s.Forecasts, f)
	}
	return s
}

// ReadSummary returns the Summary that a checkpoint holds.
func ReadSummary(blocks []blankout.Block) (*Summary, error) {
	data, err := blankout.FindBlock(blocks, "summary")
	if err != nil {
		return nil, err
	}
	s := &Summary{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("block summary: %w", err)
	}
	return s, nil
}

// Binary are measures of two classes, for positives that are rare.
type Binary struct {
	// Confusion holds the weight of the events by true and predicted class.
	Confusion [2][2]float64
	// Scores holds the weight of the events of each class by score, in bins that
	// are about 1/48 wide at 0 and grow with the score.
	Scores [2][scoreBins]float64
	// Reliability groups the events by the probability of the positive class.
	Reliability [10]ReliabilitySums
}

const scoreBins = 256

// scoreBin returns the bin of a score f, floor(scoreBins/2 + 24 asinh(2f)) kept
// within the bins. Its edges are known as values of exp(asinh(2|f|)), to be found
// by the exponent and the five leading bits of the mantissa: no interval of
// those holds two edges.
func scoreBin(f float64) int {
	z := 2 * math.Abs(f)
	t := z + math.Sqrt(z*z+1)
	key := math.Float64bits(t)>>47 - 1023<<5
	i := scoreBins/2 - 1 // beyond all edges
	if key < uint64(len(scoreBinAt)) {
		i = int(scoreBinAt[key])
		if t >= scoreEdges[i+1] {
			i++
		}
		i = min(i, scoreBins/2-1)
	}
	if f < 0 {
		return scoreBins/2 - 1 - i
	}
	return scoreBins/2 + i
}

// scoreEdges holds exp(i/24), scoreBinAt the last edge, but never edge 128, up to
// the smallest number of each key.
var scoreEdges, scoreBinAt = func() (edges [scoreBins/2 + 1]float64, at [8 << 5]uint8) {
	for i := range edges {
		edges[i] = math.Exp(float64(i) / 24)
	}
	i := 0
	for key := range at {
		for t := math.Float64frombits(uint64(key+1023<<5) << 47); i+2 < len(edges) && edges[i+1] <= t; {
			i++
		}
		at[key] = uint8(i)
	}
	return edges, at
}()

// ReliabilitySums are the sums of one bar of a reliability diagram.
type ReliabilitySums struct {
	Weight      float64
	Probability float64 // sum of the probabilities given
	Positive    float64 // weight of the positive events among them
}

func (b *Binary) add(score, probability float64, label, predicted int, weight float64) {
	b.Confusion[label][predicted] += weight
	b.Scores[label][scoreBin(score)] += weight
	r := &b.Reliability[min(int(10*probability), 9)]
	r.Weight += weight
	r.Probability += weight * probability
	r.Positive += weight * float64(label)
}

// Precision returns the share of the events predicted positive that are, NaN if
// there are none.
func (b *Binary) Precision() float64 {
	return b.Confusion[1][1] / (b.Confusion[0][1] + b.Confusion[1][1])
}

// Recall returns the share of the positive events predicted so, NaN if there
// are none.
func (b *Binary) Recall() float64 {
	return b.Confusion[1][1] / (b.Confusion[1][0] + b.Confusion[1][1])
}

// AUC returns the area under the ROC curve, events of one bin counting as equal;
// NaN without events of both classes.
func (b *Binary) AUC() float64 {
	area, negatives := 0.0, 0.0
	positives := 0.0
	for i := range scoreBins {
		n, p := b.Scores[0][i], b.Scores[1][i]
		area += p * (negatives + n/2)
		negatives += n
		positives += p
	}
	return area / (positives * negatives)
}

// Threshold is what predicting the positive class from a score on would have meant.
type Threshold struct {
	Score     float64 `json:"score"`
	Positives float64 `json:"positives"` // events of the positive class at or above it
	Negatives float64 `json:"negatives"` // events of the other class at or above it
}

// Thresholds returns one Threshold for the lower edge of each bin that holds events, the
// highest score first. The last holds all events.
func (b *Binary) Thresholds() []Threshold {
	var all []Threshold
	var t Threshold
	for i := scoreBins - 1; i >= 0; i-- {
		if b.Scores[0][i]+b.Scores[1][i] == 0 {
			continue
		}
		t.Negatives += b.Scores[0][i]
		t.Positives += b.Scores[1][i]
		t.Score = math.Sinh(float64(i-scoreBins/2)/24) / 2
		all = append(all, t)
	}
	return all
}

// AveragePrecision returns the area under the precision-recall curve, events of
// one bin counting as equal; NaN without positive events.
func (b *Binary) AveragePrecision() float64 {
	found, seen, sum := 0.0, 0.0, 0.0
	for i := scoreBins - 1; i >= 0; i-- {
		p := b.Scores[1][i]
		seen += b.Scores[0][i] + p
		if found += p; p > 0 {
			sum += p * found / seen
		}
	}
	return sum / found
}

// CalibrationError returns the expected calibration error: the mean distance of
// the probability given from the share of positives, NaN without events.
func (b *Binary) CalibrationError() float64 {
	off, weight := 0.0, 0.0
	for _, r := range b.Reliability {
		off += math.Abs(r.Probability - r.Positive)
		weight += r.Weight
	}
	return off / weight
}

// measures is what a Learner measures of itself by its published scores.
type measures struct {
	sums        Metrics // without what Learner.Metrics looks up
	calibration calibration
	hinkley     pageHinkley
	// likelihood says that scores are meant as log-odds. Those of other losses give
	// no probabilities that the class shares could be compared with.
	likelihood bool
	suspicion  Suspicion // of the latest event
	suspect    bool      // suspicion says why
}

func newMeasures(c Config, set settings, outputs int) measures {
	m := measures{calibration: newCalibration()}
	switch {
	case set.numbers:
		m.sums.Numbers = &Numbers{loss: set.loss}
	case outputs == 1:
		m.sums.Binary = &Binary{}
	}
	m.likelihood = strings.HasPrefix(set.loss.String(), "logistic") && c.Rule != "arow" || c.Calibrate && outputs == 1
	return m
}

// windowKeep is what an event leaves of Metrics.Window.
const windowKeep = 0.999

// measure counts in the scores that an event was given before it is learned.
func (l *Learner) measure(scores []float64, label int, weight float64) {
	m := &l.measures.sums
	for label >= len(m.Classes) {
		m.Classes = append(m.Classes, 0)
	}
	m.Classes[label]++
	predicted := l.predict(scores)
	wrong := 0.0
	if predicted != label {
		wrong = weight
	}
	var loss float64
	if l.k == 1 {
		f := l.measures.calibration.apply(scores[0])
		e := math.Exp(-math.Abs(f)) // one exponential for both
		p := 1 / (1 + e)
		if f < 0 {
			p *= e
		}
		loss = max(-target(label, 0, 1)*f, 0) + math.Log1p(e)
		m.Binary.add(scores[0], p, label, predicted, weight)
		if l.config.Calibrate {
			l.measures.calibration.learn(scores[0], label, weight)
		}
	} else {
		loss = logLoss(scores, label)
	}
	m.Total.add(weight, wrong, weight*loss, 1)
	m.Window.add(weight, wrong, weight*loss, windowKeep)
	if l.shared() {
		return // the rest is the fold's
	}
	if l.measures.likelihood {
		m.Prior.add(label, weight*l.classes[label], loss, l.events)
	}
	l.watch(loss)
}

// Assess adds to p what the published weights answer to a labelled event that is not
// learned.
func (l *Learner) Assess(e *blankout.Example, p *ProgressiveLoss) {
	l.assess(l.Score(e, make([]float64, l.k)), e, p)
}

func (l *Learner) assess(scores []float64, e *blankout.Example, p *ProgressiveLoss) {
	wrong := 0.0
	if l.predict(scores) != e.Label {
		wrong = e.Weight
	}
	p.add(e.Weight, wrong, e.Weight*l.logLoss(scores, e.Label), 1)
}

// logLoss is minus the logarithm of the probability that scores give a class.
func (l *Learner) logLoss(scores []float64, label int) float64 {
	if l.k == 1 {
		return softplus(-target(label, 0, 1) * l.measures.calibration.apply(scores[0]))
	}
	return logLoss(scores, label)
}

func (l *Learner) predict(scores []float64) int {
	if len(scores) == 1 {
		if l.measures.calibration.apply(scores[0]) > l.set.logit {
			return 1
		}
		return 0
	}
	return blankout.Predict(scores)
}

// logLoss is minus the logarithm of the probability of one of several classes,
// as blankout.Linear.Probabilities has it.
func logLoss(scores []float64, label int) float64 {
	sum := 0.0
	for _, f := range scores {
		sum += 1 / (1 + math.Exp(-f))
	}
	// log sigmoid(f) = -softplus(-f)
	return math.Log(max(sum, 1e-300)) + softplus(-scores[label])
}

func softplus(u float64) float64 { return max(u, 0) + math.Log1p(math.Exp(-math.Abs(u))) }

func (m *Metrics) state(c *coder.Coder) {
	c.Uint(&m.RefreshFailures)
	c.Uint(&m.Unlabelled)
	if c.Version < 4 {
		c.Uint(&m.Refused)
	}
	c.Uint(&m.Suspects)
	c.Uints(&m.Classes)
	m.Total.state(c)
	m.Window.state(c)
	m.Drift.state(c)
	if m.Binary != nil {
		m.Binary.state(c)
	}
}

func (p *ProgressiveLoss) state(c *coder.Coder) {
	c.Float(&p.Weight)
	c.Float(&p.Wrong)
	c.Float(&p.LogLoss)
}

func (b *Binary) state(c *coder.Coder) {
	for label := range 2 {
		for i := range b.Confusion[label] {
			c.Float(&b.Confusion[label][i])
		}
		for i := range b.Scores[label] {
			c.Float(&b.Scores[label][i])
		}
	}
	for i := range b.Reliability {
		c.Float(&b.Reliability[i].Weight)
		c.Float(&b.Reliability[i].Probability)
		c.Float(&b.Reliability[i].Positive)
	}
}
