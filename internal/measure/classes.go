package measure

// This file defines measures of classification: error, log-loss, ranking and calibration.

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blankout/internal/loss"
)

// Classes holds sums of errors and log-losses of classified events, weighted by importance. The zero value is ready for
// use.
type Classes struct {
	Weight  float64
	Wrong   float64 // weight of the misclassified events
	LogLoss float64 // sum of the log-losses, in nats
}

// Add multiplies all sums by keep, and then adds an event.
func (c *Classes) Add(right bool, weight, logLoss, keep float64) {
	wrong := weight
	if right {
		wrong = 0
	}
	c.Weight = c.Weight*keep + weight
	c.Wrong = c.Wrong*keep + wrong
	c.LogLoss = c.LogLoss*keep + weight*logLoss
}

// LogLoss returns the log-loss of an event, given the probability of its class. Probabilities below 1e-15 count as
// 1e-15.
func LogLoss(probability float64) float64 { return -math.Log(max(probability, 1e-15)) }

// Sums returns pointers to all sums of c.
func (c *Classes) Sums() []*float64 { return []*float64{&c.Weight, &c.Wrong, &c.LogLoss} }

// Error returns the fraction of wrong predictions, or NaN without events.
func (c Classes) Error() float64 { return c.Wrong / c.Weight }

// MeanLogLoss returns the mean log-loss in nats, or NaN without events.
func (c Classes) MeanLogLoss() float64 { return c.LogLoss / c.Weight }

// Bars has the sums of a reliability diagram. Its bins divide the probability of a class into intervals of equal width.
type Bars []Bar

// Bar has the sums of one bin.
type Bar struct {
	Weight      float64
	Probability float64 // sum of the probabilities
	Right       float64 // weight of the events that have the class
}

// Bin is a bin of a reliability diagram.
type Bin struct {
	Probability float64 `json:"probability"` // mean probability
	Right       float64 `json:"right"`       // fraction of events that have the class
	Weight      float64 `json:"weight"`      // total weight of the events
}

func (b Bars) add(probability, weight float64, right bool) {
	bar := &b[max(0, min(int(probability*float64(len(b))), len(b)-1))] // the first bin includes NaN
	bar.Weight += weight
	bar.Probability += weight * probability
	if right {
		bar.Right += weight
	}
}

// CalibrationError returns the expected calibration error: the mean distance of the probability from the fraction of
// events that have the class. It returns NaN without events.
func (b Bars) CalibrationError() float64 {
	off, weight := 0.0, 0.0
	for _, bar := range b {
		off += math.Abs(bar.Probability - bar.Right)
		weight += bar.Weight
	}
	return off / weight
}

// Diagram returns the bins that have events.
func (b Bars) Diagram() (out []Bin) {
	for _, bar := range b {
		if p := bar.Probability / bar.Weight; Defined(p) != nil {
			out = append(out, Bin{p, bar.Right / bar.Weight, bar.Weight})
		}
	}
	return out
}

// ranking computes measures of how scores rank two classes, from the highest score to the lowest. All events with one
// score are added in one step.
type ranking struct {
	positives, negatives float64 // weights of both classes so far
	area, precision      float64
}

// step adds the weights of both classes at the next score.
func (r *ranking) step(positives, negatives float64) {
	r.area += negatives * (r.positives + positives/2)
	r.positives += positives
	r.negatives += negatives
	if positives > 0 {
		r.precision += positives * r.positives / (r.positives + r.negatives)
	}
}

// auc returns the area under the ROC curve, or NaN without events of both classes.
func (r *ranking) auc() float64 { return r.area / (r.positives * r.negatives) }

// averagePrecision returns sum (recall_i - recall_i-1) precision_i, or NaN without positive events.
func (r *ranking) averagePrecision() float64 { return r.precision / r.positives }

// Evaluation stores scored events and measures the scores, weighted by importance. Create an Evaluation with
// NewEvaluation.
type Evaluation struct {
	Positive  int // index of the positive class of two
	classes   int
	examples  int
	sums      Classes
	confusion [][]float64
	outputs   int
	scores    []float64 // scores by event and output
	labels    []int32
	weights   []float64
	bars      [15]Bar
	sets      struct{ weight, held, size float64 }
}

// ClassesReport has the measures of scored events. Its JSON names equal the names in the output of the predict command.
// Undefined measures are nil.
type ClassesReport struct {
	Examples int `json:"examples"` // number of events, labeled or not
	// Error is the percentage of misclassified events.
	Error *float64 `json:"error"`
	// LogLoss is the mean of -log P(label), in nats.
	LogLoss *float64 `json:"log_loss"`
	// AUC and AveragePrecision measure the ranking for the positive class of two.
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
	// MAP is the mean over classes of the average precision of a class against all others (Tran 2016).
	MAP *float64 `json:"map"`
	// CalibrationError is the calibration error of the predicted class's probability, over 15 bins.
	CalibrationError *float64 `json:"calibration_error"`
	// Coverage is the fraction of prediction sets that contain the label. SetSize is the mean number of classes in a
	// set.
	Coverage *float64 `json:"coverage"`
	SetSize  *float64 `json:"set_size"`
	// Reliability is the reliability diagram from which CalibrationError is computed.
	Reliability []Bin `json:"reliability"`
	// Confusion[i][j] is the weight of events of class i that were predicted as j.
	Confusion [][]float64 `json:"confusion"`
}

// NewEvaluation returns an empty Evaluation for the given number of classes.
func NewEvaluation(classes int) *Evaluation {
	e := &Evaluation{Positive: 1, classes: classes, confusion: make([][]float64, classes)}
	for i := range e.confusion {
		e.confusion[i] = make([]float64, classes)
	}
	return e
}

// Add adds an event: its label (negative if unlabeled), its weight, the scores of a model, the predicted class, and the
// probabilities of the classes.
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

// AddSet adds the prediction set of an event.
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

// Report returns the measures of all events so far.
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

// ranking ranks the events by the score of a class: sign times an output.
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

// constantAfter is the number of events required for a comparison with a constant prediction.
const constantAfter = 100

// WorseThanConstant compares the predictions with a constant prediction, the class frequencies of the same events. It
// returns a warning if the constant prediction is better, else "". If nats is set, scores are log-odds and log-losses
// are compared; otherwise errors are compared.
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
		return fmt.Sprintf("the predictions are worse than the class frequencies of these examples: log-loss %.4g nats, that of the frequencies %.4g", *r.LogLoss, entropy)
	case !nats && *r.Error > wrong:
		return fmt.Sprintf("the predictions are worse than the most frequent class of these examples: error %.3g %%, that of the class %.3g %%", *r.Error, wrong)
	}
	return ""
}

// Coverage is the coverage of prediction sets or intervals for one range of the missing fraction.
type Coverage struct {
	Range  string  `json:"missing"` // range of the fraction of missing fields, see model.RangeName
	Events float64 `json:"events"`  // number of sets, including masked copies
	// Coverage is the fraction of sets that contained the label, and Recent is this fraction for the latest sets. Size
	// is the mean size of the sets: the number of classes, or the length of an interval.
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	Size     float64 `json:"size"`
}

// ClassCoverage is the coverage of prediction sets for the events of one class.
type ClassCoverage struct {
	Class string `json:"class"`
	// Events is the number of sets of events that are not masked copies. Coverage is the fraction of these sets that
	// contained the class, and Recent is this fraction for the latest sets.
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	// ByMissing is the coverage by range of the missing fraction, including masked copies. Sizes are not measured.
	ByMissing []RangeCoverage `json:"by_missing"`
}

// RangeCoverage is the coverage of one class for one range of the missing fraction.
type RangeCoverage struct {
	Range    string  `json:"missing"` // see model.RangeName
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
}

// The part below has measures for rare positives, over bins of scores.

// Binary holds measures of two classes, for rare positives. The zero value is ready for use.
type Binary struct {
	// Confusion has the weight of events by true and predicted class.
	Confusion [2][2]float64
	// Scores has the weight of the events of each class by score. The bins are about 1/48 wide at 0, and wider for
	// larger scores.
	Scores [2][scoreBins]float64
	// Reliability is the reliability diagram of the positive class's probability.
	Reliability [10]Bar
}

const scoreBins = 256

// scoreBin returns the bin of a score f: floor(scoreBins/2 + 24 asinh(2f)), clipped to the bins. It finds the bin by
// comparing exp(asinh(2|f|)) with the edges of the bins. The key of the table scoreBinAt is the exponent and the five
// leading bits of the mantissa. The numbers with one key form an interval that contains at most one edge.
func scoreBin(f float64) int {
	z := 2 * math.Abs(f)
	t := z + math.Sqrt(z*z+1)
	key := math.Float64bits(t)>>47 - 1023<<5
	i := scoreBins/2 - 1 // index of the bin beyond all edges
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

// scoreEdges has exp(i/24). scoreBinAt has, for each key, the index of the last edge up to the smallest number with
// that key, but never edge 128.
var scoreEdges, scoreBinAt = func() (edges [scoreBins/2 + 1]float64, at [8 << 5]uint8) {
	for i := range edges {
		edges[i] = loss.Exp(float64(i) / 24)
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

// Add adds an event: its label and predicted class, its weight and score, and the probability of the positive class.
func (b *Binary) Add(label, predicted int, weight, score, probability float64) {
	b.Confusion[label][predicted] += weight
	b.Scores[label][scoreBin(score)] += weight
	Bars(b.Reliability[:]).add(probability, weight, label == 1)
}

// Sums returns pointers to all sums of b.
func (b *Binary) Sums() (all []*float64) {
	for label := range 2 {
		for i := range b.Confusion[label] {
			all = append(all, &b.Confusion[label][i])
		}
		for i := range b.Scores[label] {
			all = append(all, &b.Scores[label][i])
		}
	}
	for i := range b.Reliability {
		bar := &b.Reliability[i]
		all = append(all, &bar.Weight, &bar.Probability, &bar.Right)
	}
	return all
}

// Flipped returns the measures with the classes swapped, so that the other class is positive.
func (b *Binary) Flipped() *Binary {
	out := &Binary{}
	for k := range 2 {
		for j := range 2 {
			out.Confusion[1-k][1-j] = b.Confusion[k][j]
		}
		for i, x := range b.Scores[k] {
			out.Scores[1-k][scoreBins-1-i] = x
		}
	}
	last := len(b.Reliability) - 1
	for i, bar := range b.Reliability {
		out.Reliability[last-i] = Bar{Weight: bar.Weight, Probability: bar.Weight - bar.Probability, Right: bar.Weight - bar.Right}
	}
	return out
}

// Precision returns the fraction of events predicted positive that are positive. It returns NaN if no event is
// predicted positive.
func (b *Binary) Precision() float64 {
	return b.Confusion[1][1] / (b.Confusion[0][1] + b.Confusion[1][1])
}

// Recall returns the fraction of positive events that are predicted positive. It returns NaN if no event is positive.
func (b *Binary) Recall() float64 {
	return b.Confusion[1][1] / (b.Confusion[1][0] + b.Confusion[1][1])
}

// ranking returns the ranking of the bins. It calls each, unless nil, after each bin with events.
func (b *Binary) ranking(each func(bin int, r *ranking)) (r ranking) {
	for i := scoreBins - 1; i >= 0; i-- {
		if n, p := b.Scores[0][i], b.Scores[1][i]; n+p > 0 {
			r.step(p, n)
			if each != nil {
				each(i, &r)
			}
		}
	}
	return r
}

// AUC returns the area under the ROC curve. Events in one bin count as ties. AUC returns NaN without events of both
// classes.
func (b *Binary) AUC() float64 { r := b.ranking(nil); return r.auc() }

// AveragePrecision returns the area under the precision-recall curve. Events in one bin count as ties. It returns NaN
// without positive events.
func (b *Binary) AveragePrecision() float64 { r := b.ranking(nil); return r.averagePrecision() }

// CalibrationError returns the calibration error of the positive class's probabilities.
func (b *Binary) CalibrationError() float64 { return Bars(b.Reliability[:]).CalibrationError() }

// Diagram returns the reliability diagram of the positive class's probabilities.
func (b *Binary) Diagram() []Bin { return Bars(b.Reliability[:]).Diagram() }

// Threshold is the result of predicting the positive class for all scores above a threshold.
type Threshold struct {
	Score     float64 `json:"score"`
	Positives float64 `json:"positives"` // weight of the positive events with a score above the threshold
	Negatives float64 `json:"negatives"` // weight of the negative events with a score above the threshold
}

// Thresholds returns a Threshold for the lower edge of each bin with events, the highest score first. The last
// Threshold includes all events.
func (b *Binary) Thresholds() (all []Threshold) {
	b.ranking(func(bin int, r *ranking) {
		all = append(all, Threshold{loss.Sinh(float64(bin-scoreBins/2)/24) / 2, r.positives, r.negatives})
	})
	return all
}
