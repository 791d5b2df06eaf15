package papers

// This file implements the protocol that all experiments share. Each setting is chosen by its loss on validation items.
// The test items are used once, with the chosen setting. Two methods are compared on the same test items or the same
// splits. The confidence interval of their difference decides the verdict.

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/simulate"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// choose returns the setting with the least validation loss. It tries the settings on the given number of threads. If
// there is only one setting, choose returns it untried.
func choose[S any](ctx context.Context, threads int, settings []S, try func(ctx context.Context, x S) (Held, error)) (S, error) {
	if len(settings) == 1 {
		return settings[0], nil
	}
	tried := make([]Held, len(settings))
	err := batch.Each(ctx, threads, len(settings), func(ctx context.Context, i int) (err error) {
		tried[i], err = try(ctx, settings[i])
		return err
	})
	return settings[least(tried)], err
}

// mistakes holds 1 for each test item that a method predicted wrongly, else 0.
type mistakes []byte

// MarshalText returns the number of items, a colon, and one bit per item in base64. The compact form matters because
// most bytes of cells are mistakes.
func (m mistakes) MarshalText() ([]byte, error) {
	bits := make([]byte, (len(m)+7)/8)
	for i, x := range m {
		bits[i/8] |= x << (i % 8)
	}
	return fmt.Appendf(nil, "%d:%s", len(m), base64.RawStdEncoding.EncodeToString(bits)), nil
}

// UnmarshalText parses the result of MarshalText.
func (m *mistakes) UnmarshalText(text []byte) error {
	length, code, _ := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(length)
	if err != nil {
		return err
	}
	bits, err := base64.RawStdEncoding.DecodeString(code)
	if err != nil {
		return err
	}
	if n < 0 || len(bits) != (n+7)/8 {
		return fmt.Errorf("%d items in %d bytes", n, len(bits))
	}
	*m = make(mistakes, n)
	for i := range *m {
		(*m)[i] = bits[i/8] >> (i % 8) & 1
	}
	return nil
}

// error returns the fraction of mistakes in %.
func (m mistakes) error() float64 {
	return 100 * float64(bytes.Count(m, []byte{1})) / float64(len(m))
}

// show adds the error in % to a curve or bars, with its binomial confidence interval.
func (m mistakes) show(to *simulate.Series) {
	e := m.error()
	half := 1.96 * math.Sqrt(e*(100-e)/float64(len(m)))
	plot(to, Difference{e, e - half, e + half})
}

// plot adds a number with its interval to a curve, points or bars.
func plot(to *simulate.Series, d Difference) {
	to.Y, to.Low, to.High = append(to.Y, d.Mean), append(to.Low, d.Low), append(to.High, d.High)
}

// constantError returns the error in % of always predicting the most frequent of n labels.
func constantError(n int, label func(i int) int) float64 {
	count, most := map[int]int{}, 0
	for i := range n {
		count[label(i)]++
		most = max(most, count[label(i)])
	}
	return 100 * (1 - float64(most)/float64(n))
}

// mistakesOf returns the mistakes on n test items. The function wrong reports whether an item is predicted wrongly.
func mistakesOf(n int, wrong func(i int) bool) mistakes {
	out := make(mistakes, n)
	for i := range out {
		if wrong(i) {
			out[i] = 1
		}
	}
	return out
}

// linearMistakes returns the mistakes of a linear classifier on examples.
func linearMistakes(m *model.Linear, examples []event.Example) mistakes {
	scores := make([]float64, m.Outputs)
	return mistakesOf(len(examples), func(i int) bool { return m.Predict(m.Score(&examples[i], scores)) != examples[i].Label })
}

// heldOutFold divides rows into k parts, in turn, and returns the rows of one part (held) and all others.
func heldOutFold(rows []int, k, part int) (others, held []int) {
	for i, row := range rows {
		if i%k == part {
			held = append(held, row)
		} else {
			others = append(others, row)
		}
	}
	return others, held
}

// Difference is the difference of a measure between two methods on the same test items or splits, with a 95 %
// confidence interval.
type Difference struct{ Mean, Low, High float64 }

// String returns the mean difference, followed by its interval. If the interval is a single point, it is omitted.
func (d Difference) String() string {
	if d.Low == d.High {
		return fmt.Sprintf("%+.2f", d.Mean)
	}
	return fmt.Sprintf("%+.2f [%+.2f, %+.2f]", d.Mean, d.Low, d.High)
}

// Below returns the verdict on the claim that the difference is below a limit.
func (d Difference) Below(limit float64) Verdict {
	switch {
	case d.High < limit:
		return Reproduced
	case d.Low > limit:
		return NotReproduced
	}
	return Undecided // also if the interval is NaN
}

// Above returns the verdict on the claim that the difference is above a limit.
func (d Difference) Above(limit float64) Verdict {
	return Difference{-d.Mean, -d.High, -d.Low}.Below(-limit)
}

// Every returns the verdict on a claim with several parts. It is Reproduced if all parts are, and NotReproduced if any
// part is not reproduced.
func Every(parts ...Verdict) Verdict {
	switch {
	case slices.Contains(parts, NotReproduced):
		return NotReproduced
	case slices.Contains(parts, Undecided):
		return Undecided
	}
	return Reproduced
}

// wilson returns the fraction k/n with Wilson's interval.
func wilson(k, n int) Difference {
	const z = 1.96
	fraction, of := float64(k)/float64(n), float64(n)
	middle, half := (fraction+z*z/(2*of))/(1+z*z/of), z*math.Sqrt(fraction*(1-fraction)/of+z*z/(4*of*of))/(1+z*z/of)
	return Difference{fraction, middle - half, middle + half}
}

// mcNemar returns the error of a minus the error of b, in percentage points. As in McNemar's test, only items that
// exactly one of the methods predicts wrongly affect the interval. The interval of Bonett & Price 2012 adds one to each
// of the two counts, and is also valid for few such items.
func mcNemar(a, b mistakes) Difference {
	if len(a) != len(b) || len(a) == 0 {
		panic(fmt.Sprintf("papers: %d test items against %d", len(a), len(b)))
	}
	onlyA, onlyB := 0.0, 0.0
	for i := range a {
		switch {
		case a[i] > b[i]:
			onlyA++
		case b[i] > a[i]:
			onlyB++
		}
	}
	n := float64(len(a)) + 2
	difference, either := (onlyA-onlyB)/n, (onlyA+onlyB+2)/n
	half := 1.96 * math.Sqrt((either-difference*difference)/n)
	return Difference{100 * (onlyA - onlyB) / float64(len(a)), 100 * (difference - half), 100 * (difference + half)}
}

// meanLess returns the error of a minus the error of b, in percentage points, paired by test item. The errors are the
// means over the mistakes in a and in b, which are all on the same test items.
func meanLess(a, b []mistakes) Difference {
	each := make([]float64, len(a[0]))
	for i := range each {
		for _, m := range a {
			each[i] += 100 * float64(m[i]) / float64(len(a))
		}
		for _, m := range b {
			each[i] -= 100 * float64(m[i]) / float64(len(b))
		}
	}
	return pairedT(each)
}

// pairedT returns the mean of the differences with Student's interval. The differences must be independent, for example
// of test items or of runs on other data.
func pairedT(each []float64) Difference { return correctedT(each, 0) }

// correctedT is pairedT for the splits of repeated cross validation, whose training sets overlap. The variance of the
// mean is (1/n + ratio) times the variance of one difference (Nadeau & Bengio 2003). The ratio is test size / training
// size.
func correctedT(each []float64, ratio float64) Difference {
	mean, deviation := stat.MeanStdDev(each, nil)
	if len(each) < 2 {
		return Difference{mean, math.Inf(-1), math.Inf(1)}
	}
	n := float64(len(each))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation * math.Sqrt(1/n+ratio)
	return Difference{mean, mean - half, mean + half}
}

// standardDeviation returns the standard deviation of independent values with the interval of Bonett 2006. The interval
// needs five values and is also valid if they are far from normal.
func standardDeviation(values []float64) Difference {
	mean, deviation := stat.MeanStdDev(values, nil)
	switch {
	case len(values) < 5:
		return Difference{deviation, 0, math.Inf(1)}
	case deviation == 0:
		return Difference{}
	}
	n, z := float64(len(values)), distuv.UnitNormal.Quantile(0.975)
	sorted := slices.Sorted(slices.Values(values))
	trim := int(n / (2 * math.Sqrt(n-4))) // number of values trimmed at each end
	middle := stat.Mean(sorted[trim:len(sorted)-trim], nil)
	fourth, second := 0.0, 0.0
	for _, x := range values {
		fourth += math.Pow(x-middle, 4)
		second += (x - mean) * (x - mean)
	}
	kurtosis, c := n*fourth/(second*second), n/(n-z)
	half := z * c * math.Sqrt(max(0, kurtosis-(n-3)/n)/(n-1))
	return Difference{deviation, deviation * math.Sqrt(c*math.Exp(-half)), deviation * math.Sqrt(c*math.Exp(half))}
}

// correlation returns Pearson's correlation with the interval of Fisher's transformation.
func correlation(x, y []float64) Difference {
	r := stat.Correlation(x, y, nil)
	if len(x) < 4 || math.IsNaN(r) {
		return Difference{r, -1, 1}
	}
	z, half := math.Atanh(r), distuv.UnitNormal.Quantile(0.975)/math.Sqrt(float64(len(x)-3))
	return Difference{r, math.Tanh(z - half), math.Tanh(z + half)}
}
