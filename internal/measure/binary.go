package measure

// This file defines measures for rare positives, over bins of scores.

import (
	"math"

	"blankout/internal/loss"
)

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
