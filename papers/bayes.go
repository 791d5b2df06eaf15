package papers

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"blankout/batch"
	"blankout/internal/event"
)

// bayes returns the test mistakes of multinomial naive Bayes on word presence with add-one smoothing. If free has
// unlabeled rows, word frequencies are computed from all documents, and only the class probabilities given a word are
// learned from the labels (Su, Sayyad-Shirab & Matwin 2011):
//
//	P(w|c) ~ P(w) P(c|w),  P(c|w) = (n_wc + a P(c))/(n_w + a).
//
// With a = 1, a word without a label is neutral.
func (p textParts) bayes(free []int) mistakes {
	d := p.all
	count, documents := p.counts()
	bias := math.Log(documents[1] / documents[0])
	if free == nil {
		weight, _, _ := p.logRatios(nil)
		return p.mistakes(append(weight, bias))
	}
	all := floats.AddTo(make([]float64, d.Columns()), count[0], count[1])
	for _, i := range free {
		row := d.Row(i)
		for j, w := range row.Index {
			all[w] += row.At(j)
		}
	}
	var given [2][]float64
	var total [2]float64
	for c := range given {
		given[c] = make([]float64, d.Columns())
		prior := documents[c] / (documents[0] + documents[1])
		for w, n := range all {
			given[c][w] = n * (count[c][w] + prior) / (count[0][w] + count[1][w] + 1)
			total[c] += given[c][w]
		}
	}
	weight := make([]float64, d.Columns())
	for w := range weight {
		if all[w] > 0 {
			weight[w] = math.Log(given[1][w] / total[1] * total[0] / given[0][w])
		}
	}
	return p.mistakes(append(weight, bias))
}

// counts returns, by class, the sum of each column over the training documents, and the number of these documents.
func (p textParts) counts() (count [2][]float64, documents [2]float64) {
	for c := range count {
		count[c] = make([]float64, p.all.Columns())
	}
	for _, i := range p.train {
		c, row := p.all.Label(i), p.all.Row(i)
		documents[c]++
		for j, w := range row.Index {
			count[c][w] += row.At(j)
		}
	}
	return count, documents
}

// logRatios returns the log-count ratio of each column with add-one smoothing, the total count of each class, and the
// number of features. private is textParts.private. Columns that are in no training document have the ratio 0.
func (p textParts) logRatios(private []int) (ratio []float64, total [2]float64, words float64) {
	count, _ := p.counts()
	ratio = make([]float64, p.all.Columns())
	for w := range ratio {
		if count[0][w]+count[1][w] > 0 {
			total[0] += count[0][w] + 1
			total[1] += count[1][w] + 1
			words++
		}
	}
	if private != nil {
		for _, i := range p.train {
			k := float64(private[i])
			total[0] += k
			total[1] += k
			total[p.all.Label(i)] += k
			words += k
		}
	}
	for w := range ratio {
		if count[0][w]+count[1][w] > 0 {
			ratio[w] = math.Log((count[1][w] + 1) / total[1] * total[0] / (count[0][w] + 1))
		}
	}
	return ratio, total, words
}

// nbsvm returns the weights of a support vector machine with the squared hinge loss, |w|^2/2 + C sum max(0, 1 - y f)^2.
// The features are word presence times the log-count ratio r of naive Bayes. The weights are pulled to their mean
// absolute value (Wang & Manning 2012, with their C = 1 and beta = 1/4):
//
//	w' = (1-beta) mean|w| + beta w.
//
// There is no intercept, because an intercept would have the scale of w and not of w'. The k private pairs of a
// document have equal values, and therefore equal weights. They are represented by a single column with sqrt(k) times
// their value, whose weight is sqrt(k) times theirs.
func (p textParts) nbsvm(ctx context.Context, threads int, tol float64) ([]float64, error) {
	const beta = 0.25
	d := p.all
	ratio, total, words := p.logRatios(p.private)
	private := [2]float64{math.Log(total[0] / total[1] / 2), math.Log(2 * total[0] / total[1])} // ratios of private pairs, by class
	// Columns with ratio 0 stay in the data, so that the column numbers do not change.
	var b batch.Builder
	var x event.Vec
	many := map[uint32]float64{} // square root of the number of private pairs, by column
	for n, i := range p.train {
		row := d.Row(i)
		x.Index, x.Value = append(x.Index[:0], row.Index...), x.Value[:0]
		for _, w := range row.Index {
			x.Value = append(x.Value, ratio[w])
		}
		if p.private != nil && p.private[i] > 0 {
			column, root := uint32(d.Columns()+n), math.Sqrt(float64(p.private[i]))
			many[column] = root
			x.Index, x.Value = append(x.Index, column), append(x.Value, root*private[d.Label(i)])
		}
		add(&b, &event.Example{Features: x, Label: d.Label(i), Weight: 1})
	}
	train := b.Data(d.Schema)
	c := trainConfig()
	c.Loss, c.L2, c.Tol, c.Threads, c.Intercept = "squared-hinge", 0.5, tol, threads, batch.NoIntercept
	f, err := batch.Train(ctx, train, c)
	if err != nil {
		return nil, err
	}
	w := f.Problems[0].W
	mean := 0.0
	for j, v := range w[:train.Columns()] {
		if root := many[train.Column(j)]; root > 0 {
			v *= root
		}
		mean += math.Abs(v) / words
	}
	weight := make([]float64, d.Columns())
	for w := range weight {
		weight[w] = (1 - beta) * mean * ratio[w]
	}
	for j := range train.Columns() {
		if at := int(train.Column(j)); at < len(weight) { // other documents do not contain private pairs
			weight[at] += beta * w[j] * ratio[at]
		}
	}
	return weight, nil
}
