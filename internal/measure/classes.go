package measure

// This file holds measures of labels that are classes: error, log-loss, ranking and
// calibration.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Classes are sums of errors and log-losses over events whose label is a class, each
// weighted by importance. The zero value is ready for use.
type Classes struct {
	Weight  float64
	Wrong   float64 // of those whose class was predicted wrongly
	LogLoss float64 // nats
}

// Add counts in an event. What was counted before is kept by that share.
func (c *Classes) Add(right bool, weight, logLoss, keep float64) {
	wrong := weight
	if right {
		wrong = 0
	}
	c.Weight = c.Weight*keep + weight
	c.Wrong = c.Wrong*keep + wrong
	c.LogLoss = c.LogLoss*keep + weight*logLoss
}

// LogLoss returns the log-loss of an event to whose class a probability was given. One below
// 1e-15 counts as that.
func LogLoss(probability float64) float64 { return -math.Log(max(probability, 1e-15)) }

// Sums returns where every sum is.
func (c *Classes) Sums() []*float64 { return []*float64{&c.Weight, &c.Wrong, &c.LogLoss} }

// Error returns the share of events predicted wrongly, NaN if there are none.
func (c Classes) Error() float64 { return c.Wrong / c.Weight }

// MeanLogLoss returns the mean log-loss in nats, NaN without events.
func (c Classes) MeanLogLoss() float64 { return c.LogLoss / c.Weight }

// Bars are the sums behind a reliability diagram, over bins of equal width of the
// probability that was given to a class.
type Bars []Bar

// Bar holds the sums of one bin.
type Bar struct {
	Weight      float64
	Probability float64 // sum of the probabilities given
	Right       float64 // weight of the events that are of the class
}

// Bin is a bar of a reliability diagram.
type Bin struct {
	Probability float64 `json:"probability"` // mean of what was given
	Right       float64 `json:"right"`       // share of the events that are of the class
	Weight      float64 `json:"weight"`      // of the events
}

func (b Bars) add(probability, weight float64, right bool) {
	bar := &b[max(0, min(int(probability*float64(len(b))), len(b)-1))] // of no number: the first
	bar.Weight += weight
	bar.Probability += weight * probability
	if right {
		bar.Right += weight
	}
}

// CalibrationError returns the expected calibration error: the mean distance of the
// probability given from the share of events of the class, NaN without events.
func (b Bars) CalibrationError() float64 {
	off, weight := 0.0, 0.0
	for _, bar := range b {
		off += math.Abs(bar.Probability - bar.Right)
		weight += bar.Weight
	}
	return off / weight
}

// Diagram returns the bins that hold events.
func (b Bars) Diagram() (out []Bin) {
	for _, bar := range b {
		if p := bar.Probability / bar.Weight; Defined(p) != nil {
			out = append(out, Bin{p, bar.Right / bar.Weight, bar.Weight})
		}
	}
	return out
}

// ranking adds up what the order of scores says of two classes, from the highest score to
// the lowest. Equal scores are one step.
type ranking struct {
	positives, negatives float64 // weight so far
	area, precision      float64
}

// step goes on to the next score, which so much weight of each class has.
func (r *ranking) step(positives, negatives float64) {
	r.area += negatives * (r.positives + positives/2)
	r.positives += positives
	r.negatives += negatives
	if positives > 0 {
		r.precision += positives * r.positives / (r.positives + r.negatives)
	}
}

// auc is the area under the ROC curve, NaN without events of both classes.
func (r *ranking) auc() float64 { return r.area / (r.positives * r.negatives) }

// averagePrecision is sum (recall_i - recall_i-1) precision_i, NaN without positives.
func (r *ranking) averagePrecision() float64 { return r.precision / r.positives }

// Evaluation keeps scored examples and measures how good the scores are. Every measure
// counts an example with its importance weight. Use NewEvaluation.
type Evaluation struct {
	Positive  int // the positive one of two classes
	classes   int
	examples  int
	sums      Classes
	confusion [][]float64
	outputs   int
	scores    []float64 // by example and output
	labels    []int32
	weights   []float64
	bars      [15]Bar
	sets      struct{ weight, held, size float64 }
}

// ClassesReport holds the measures of scored examples, with the names of the predict
// command's JSON. A measure that is undefined is nil.
type ClassesReport struct {
	Examples int `json:"examples"` // labeled or not
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
	// CalibrationError is that of the probability of the predicted class, over 15 bins.
	CalibrationError *float64 `json:"calibration_error"`
	// Coverage is the share of the sets told that held the label, SetSize their mean size in classes.
	Coverage *float64 `json:"coverage"`
	SetSize  *float64 `json:"set_size"`
	// Reliability is what CalibrationError sums up.
	Reliability []Bin `json:"reliability"`
	// Confusion[i][j] is the weight of examples of class i predicted as j.
	Confusion [][]float64 `json:"confusion"`
}

// NewEvaluation returns an empty Evaluation of scores over the given number of classes.
func NewEvaluation(classes int) *Evaluation {
	e := &Evaluation{Positive: 1, classes: classes, confusion: make([][]float64, classes)}
	for i := range e.confusion {
		e.confusion[i] = make([]float64, classes)
	}
	return e
}

// Add counts in one example: its label, negative if it has none, its weight, the scores of
// a model, the class that the model decides on, and the probabilities of the classes.
func (e *Evaluation) Add(label int, weight float64, scores []float64, predicted int, probabilities []float64) {
	e.examples++
	if label < 0 {
		return
	}
	probability := func(class int) float64 {
		if class < len(probabilities) {
			return probabilities[class]
		}
		return 0
	}
	e.sums.Add(predicted == label, weight, LogLoss(probability(label)), 1)
	if label < e.classes && predicted < e.classes {
		e.confusion[label][predicted] += weight
	}
	Bars(e.bars[:]).add(probability(predicted), weight, predicted == label)
	e.outputs = len(scores)
	e.scores = append(e.scores, scores...)
	e.labels = append(e.labels, int32(label))
	e.weights = append(e.weights, weight)
}

// AddSet counts in the set of classes that an example was told.
func (e *Evaluation) AddSet(label int, weight float64, set []int) {
	if label < 0 {
		return
	}
	e.sets.weight += weight
	e.sets.size += weight * float64(len(set))
	if slices.Contains(set, label) {
		e.sets.held += weight
	}
}

// Report computes the measures of all examples so far.
func (e *Evaluation) Report() ClassesReport {
	r := ClassesReport{Examples: e.examples}
	if e.sums.Weight == 0 {
		return r
	}
	bars := Bars(e.bars[:])
	r.Confusion, r.Reliability, r.CalibrationError = e.confusion, bars.Diagram(), Defined(bars.CalibrationError())
	r.Error, r.LogLoss = Defined(100*e.sums.Wrong/e.sums.Weight), Defined(e.sums.MeanLogLoss())
	r.Coverage, r.SetSize = Defined(e.sets.held/e.sets.weight), Defined(e.sets.size/e.sets.weight)
	sum, classes := 0.0, 0
	for k := range max(e.classes, 2) {
		output, sign := k, 1.0
		if e.outputs == 1 {
			output = 0
			if k == 0 {
				sign = -1
			}
		}
		if output >= e.outputs {
			break
		}
		ranking := e.ranking(k, output, sign)
		ap := ranking.averagePrecision()
		if e.classes == 2 && k == e.Positive {
			r.AUC, r.AveragePrecision = Defined(ranking.auc()), Defined(ap)
		}
		if Defined(ap) != nil {
			sum += ap
			classes++
		}
	}
	r.MAP = Defined(sum / float64(classes))
	return r
}

// ranking ranks the examples by sign times an output as a score of a class.
func (e *Evaluation) ranking(class, output int, sign float64) (r ranking) {
	order := make([]int32, len(e.labels))
	for i := range order {
		order[i] = int32(i)
	}
	score := func(i int32) float64 { return sign * e.scores[int(i)*e.outputs+output] }
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(score(b), score(a)) })
	for i := 0; i < len(order); {
		s, of := score(order[i]), [2]float64{}
		for ; i < len(order) && cmp.Compare(score(order[i]), s) == 0; i++ {
			if at := order[i]; int(e.labels[at]) == class {
				of[1] += e.weights[at]
			} else {
				of[0] += e.weights[at]
			}
		}
		r.step(of[1], of[0])
	}
	return r
}

// constantAfter is how many examples say whether a constant would have predicted better.
const constantAfter = 100

// WorseThanConstant says in a sentence that the class fractions of the examples themselves would have predicted them
// better, "" where they would not. nats says that scores are log-odds: else errors are compared, and not log-losses.
func (r ClassesReport) WorseThanConstant(nats bool) string {
	if r.Examples < constantAfter || r.LogLoss == nil || r.Error == nil {
		return ""
	}
	all, entropy, most, classes := 0.0, 0.0, 0.0, 0.0
	for _, row := range r.Confusion {
		n := 0.0
		for _, x := range row {
			n += x
		}
		if all, most = all+n, max(most, n); n > 0 {
			entropy -= n * math.Log(n)
			classes++
		}
	}
	if classes < 2 {
		return ""
	}
	entropy = entropy/all + math.Log(all)
	switch wrong := 100 * (1 - most/all); {
	case nats && *r.LogLoss > entropy:
		return fmt.Sprintf("the predictions are worse than the class frequencies of these examples alone: log-loss %.4g nats, that of the frequencies %.4g", *r.LogLoss, entropy)
	case !nats && *r.Error > wrong:
		return fmt.Sprintf("the predictions are worse than the most frequent class of these examples alone: error %.3g %%, that of the class %.3g %%", *r.Error, wrong)
	}
	return ""
}
