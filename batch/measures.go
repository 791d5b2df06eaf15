package batch

// This file holds measures of scores against labels: error, log-loss, AUC, average
// precision, calibration.

import (
	"cmp"
	"math"
	"slices"

	"blankout"
)

// Measures gathers scored examples and measures how good the scores are. Every
// measure counts an example with its importance weight. The zero value is not
// ready: use NewMeasures.
type Measures struct {
	// Decide turns scores into a class; nil is blankout.Predict.
	Decide func(scores []float64) int

	classes    int
	examples   int
	weight     float64
	wrong      float64
	logLoss    float64
	confusion  [][]float64
	outputs    int
	scores     []float64 // by example and output
	labels     []int32
	weights    []float64
	bins       [calibrationBins]struct{ weight, probability, right float64 }
	unlabelled int
}

const calibrationBins = 15

// Report holds the measures of scored examples, with the names of the
// predict command's JSON. A measure that is undefined is nil.
type Report struct {
	Examples int `json:"examples"` // labelled or not
	// Error is the share of wrong classes in percent.
	Error *float64 `json:"error"`
	// LogLoss is the mean of -log P(label), in nats.
	LogLoss *float64 `json:"log_loss"`
	// AUC and AveragePrecision are of the positive one of two classes.
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
	// MAP is the mean over the classes of the average precision of a class
	// against all others (Tran 2016).
	MAP *float64 `json:"map"`
	// CalibrationError is the mean distance between the probability of the
	// predicted class and how often it is right, over 15 bins of equal width,
	// weighted by their examples.
	CalibrationError *float64 `json:"calibration_error"`
	// Reliability is what CalibrationError sums up: the bins that hold examples,
	// a reliability diagram.
	Reliability []ReliabilityBin `json:"reliability"`
	// Confusion[i][j] is the weight of examples of class i predicted as j.
	Confusion [][]float64 `json:"confusion"`
}

// ReliabilityBin is one bar of a reliability diagram: of examples whose predicted
// class was given about the same probability.
type ReliabilityBin struct {
	Probability float64 `json:"probability"` // mean of what was given
	Right       float64 `json:"right"`       // share for which the class is right
	Weight      float64 `json:"weight"`      // of the examples
}

// NewMeasures returns empty measures of scores over the given number of classes.
func NewMeasures(classes int) *Measures {
	m := &Measures{classes: classes, confusion: make([][]float64, classes)}
	for i := range m.confusion {
		m.confusion[i] = make([]float64, classes)
	}
	return m
}

// Add counts in one example: its label (or blankout.Unlabelled), its weight,
// the scores of a model and the probabilities of the classes.
func (m *Measures) Add(label int, weight float64, scores, probabilities []float64) {
	m.examples++
	if label < 0 {
		m.unlabelled++
		return
	}
	m.weight += weight
	decide := blankout.Predict
	if m.Decide != nil {
		decide = m.Decide
	}
	predicted := decide(scores)
	if predicted != label {
		m.wrong += weight
	}
	if label < m.classes && predicted < m.classes {
		m.confusion[label][predicted] += weight
	}
	p := 0.0
	if label < len(probabilities) {
		p = probabilities[label]
	}
	m.logLoss -= weight * math.Log(max(p, 1e-15))
	q := 0.0
	if predicted < len(probabilities) {
		q = probabilities[predicted]
	}
	bin := &m.bins[min(int(q*calibrationBins), calibrationBins-1)]
	bin.weight += weight
	bin.probability += weight * q
	if predicted == label {
		bin.right += weight
	}
	m.outputs = len(scores)
	m.scores = append(m.scores, scores...)
	m.labels = append(m.labels, int32(label))
	m.weights = append(m.weights, weight)
}

// Report computes the measures of all examples so far.
func (m *Measures) Report() Report {
	r := Report{Examples: m.examples, Confusion: m.confusion}
	if m.weight == 0 {
		r.Confusion = nil
		return r
	}
	value := func(x float64) *float64 {
		if !finite(x) {
			return nil
		}
		return &x
	}
	r.Error = value(100 * m.wrong / m.weight)
	r.LogLoss = value(m.logLoss / m.weight)
	calibration := 0.0
	for _, b := range m.bins {
		calibration += math.Abs(b.probability - b.right)
		if b.weight > 0 {
			r.Reliability = append(r.Reliability, ReliabilityBin{b.probability / b.weight, b.right / b.weight, b.weight})
		}
	}
	r.CalibrationError = value(calibration / m.weight)
	sum, classes := 0.0, 0
	for k := range max(m.classes, 2) {
		output, sign := k, 1.0
		if m.outputs == 1 {
			output = 0
			if k == 0 {
				sign = -1
			}
		}
		if output >= m.outputs {
			break
		}
		auc, ap := m.ranking(k, output, sign)
		if m.classes == 2 && k == 1 {
			r.AUC, r.AveragePrecision = value(auc), value(ap)
		}
		if finite(ap) {
			sum += ap
			classes++
		}
	}
	r.MAP = value(sum / float64(classes))
	return r
}

// ranking returns the area under the ROC curve and the average precision
// sum (recall_i - recall_i-1) precision_i of sign times an output as a score
// of a class, NaN without positives (or, for the former, negatives). Equal
// scores are one step.
func (m *Measures) ranking(class, output int, sign float64) (auc, ap float64) {
	order := make([]int32, len(m.labels))
	for i := range order {
		order[i] = int32(i)
	}
	score := func(i int32) float64 { return sign * m.scores[int(i)*m.outputs+output] }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(score(b), score(a)) })
	positive, negative := 0.0, 0.0
	for i, l := range m.labels {
		if int(l) == class {
			positive += m.weights[i]
		} else {
			negative += m.weights[i]
		}
	}
	hits, misses, area := 0.0, 0.0, 0.0
	for i := 0; i < len(order); {
		s := score(order[i])
		p, n := 0.0, 0.0
		for ; i < len(order) && score(order[i]) == s; i++ {
			if at := order[i]; int(m.labels[at]) == class {
				p += m.weights[at]
			} else {
				n += m.weights[at]
			}
		}
		area += n * (hits + 0.5*p)
		hits, misses = hits+p, misses+n
		if p > 0 {
			ap += p * hits / (hits + misses)
		}
	}
	return area / (positive * negative), ap / positive
}
