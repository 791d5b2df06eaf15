package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// randomCovariance returns a covariance of the n columns 2, 5, 8, … with a few common factors.
func randomCovariance(t testing.TB, n int, seed uint64) *Covariance {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	columns, fields, mean, matrix := make([]uint32, n), make([]uint16, n), make([]float64, n), make([]float64, n*n)
	common := make([][3]float64, n)
	for i := range n {
		columns[i], mean[i] = uint32(3*i+2), r.NormFloat64()
		for j := range common[i] {
			common[i][j] = r.NormFloat64()
		}
	}
	for i := range n {
		for j := range i + 1 {
			sum := 0.0
			for k := range common[i] {
				sum += common[i][k] * common[j][k]
			}
			if i == j {
				sum += 0.1 + r.Float64()
			}
			matrix[i*n+j], matrix[j*n+i] = sum, sum
		}
	}
	return must.Get(NewCovariance(columns, fields, mean, matrix))(t)
}

// slowFill is a slow reference for Imputation. It conditions a normal distribution with the shrunk covariance on one
// observed value after another. It returns the mean and the covariance of all columns, given the observed values. For
// an observed column, the mean is the observed value and the covariance is 0.
func slowFill(c *Covariance, p ColumnRoles, x []float64) (mean []float64, matrix [][]float64) {
	n := len(c.Columns)
	mean = slices.Clone(c.Mean)
	for i := range n {
		matrix = append(matrix, slices.Clone(c.Matrix[i*n:(i+1)*n]))
		if matrix[i][i] *= 1 + shrinkCovariance; matrix[i][i] == 0 {
			matrix[i][i] = 1
		}
	}
	for o, part := range p {
		if part != Observed {
			continue
		}
		gain := must.List(n, func(i int) float64 { return matrix[i][o] / matrix[o][o] })
		off, row := x[o]-mean[o], slices.Clone(matrix[o])
		for i := range n {
			mean[i] += gain[i] * off
			for j := range n {
				matrix[i][j] -= gain[i] * row[j]
			}
		}
	}
	return mean, matrix
}

func randomParts(n int, r *rand.Rand) ColumnRoles {
	p := make(ColumnRoles, n)
	for i := range p {
		p[i] = byte(r.IntN(3))
	}
	p[r.IntN(n)] = Imputed
	return p
}

func close12(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// TestImputation compares imputed values, their covariance and the weights for imputed events with the results of
// slowFill.
func TestImputation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 200 {
		n := 1 + trial%12
		c := randomCovariance(t, n, uint64(trial))
		if trial%5 == 0 { // make one column constant
			for j := range n {
				c.Matrix[j], c.Matrix[j*n] = 0, 0
			}
			c.shrink()
		}
		p := randomParts(n, r)
		if trial == 1 {
			p = ColumnRoles{Imputed, Imputed}
		}
		x, w, extra := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			x[i], w[i], extra[i] = r.NormFloat64(), r.NormFloat64(), 1
		}
		mean, matrix := slowFill(c, p, x)
		f := c.Imputation(p)
		filled := slices.Clone(x)
		f.Expect(filled)
		shift, variance := f.Weigh(w, extra)
		lists, alone := make([]float64, 3*n), make([]float64, 3)
		for _, i := range p.Indices(Imputed, nil) {
			lists[i], lists[2*n+i] = w[i], 2*w[i]
		}
		f.Variances(lists, alone, nil)
		must.Require(t, close12(alone[0], variance) && alone[1] == 0 && close12(alone[2], 4*variance), "trial %d: variances %v, with the shift %v", trial, alone, variance)
		residual := make([]float64, n*n)
		f.AddResidual(2, residual)
		direct, repaired, certain := 0.0, shift, 0.0
		for i := range n {
			want := x[i]
			if p[i] == Imputed {
				want = mean[i]
			}
			if !close12(filled[i], want) {
				t.Fatalf("trial %d: column %d of %v is filled with %v, want %v", trial, i, p, filled[i], want)
			}
			if p[i] != Ignored {
				direct += w[i] * want
			}
			if p[i] == Observed {
				repaired += (w[i] + extra[i]) * x[i]
			} else if extra[i] != 0 {
				t.Fatalf("trial %d: column %d is not observed and has the weight %v", trial, i, extra[i])
			}
			for j := range n {
				want := 0.0
				if p[i] == Imputed && p[j] == Imputed {
					want = matrix[i][j]
					certain += w[i] * want * w[j]
				}
				must.Require(t, close12(residual[i*n+j], 2*want), "trial %d: covariance of columns %d and %d is %v, want %v", trial, i, j, residual[i*n+j]/2, want)
			}
		}
		must.Require(t, close12(direct, repaired) && close12(variance, max(0, certain)),
			"trial %d: repaired weights give %v, variance %v, want %v, %v", trial, repaired, variance, direct, certain)
	}
	must.True(t, randomCovariance(t, 3, 1).Imputation(ColumnRoles{Ignored, Observed, Observed}) == nil, "nothing is missing, and something is filled in")
}

// TestCovarianceBlock checks that a block round-trips, and that an invalid covariance is rejected.
func TestCovarianceBlock(t *testing.T) {
	for _, n := range []int{1, 2, 17} {
		c := randomCovariance(t, n, uint64(n))
		c.Fields[0] = 7
		read := must.Get(readCovariance([]event.Block{c.Block()}))(t)
		numbers := func(c *Covariance) string { return fmt.Sprint(c.Columns, c.Fields, c.Mean, c.Matrix, c.shrunk) }
		must.True(t, numbers(read) == numbers(c), "read %s, want %s", numbers(read), numbers(c))
		data := c.Block().Data
		for cut := range len(data) {
			_, err := readCovariance([]event.Block{{Name: blockCovariance, Data: data[:cut]}})
			must.Require(t, err != nil, "%d of %d bytes: no error", cut, len(data))
		}
	}
	for name, damage := range map[string]func(c *Covariance){
		"columns":    func(c *Covariance) { c.Columns[1] = c.Columns[0] },
		"fields":     func(c *Covariance) { c.Fields = c.Fields[:1] },
		"mean":       func(c *Covariance) { c.Mean[0] = math.NaN() },
		"value":      func(c *Covariance) { c.Matrix[0] = math.Inf(1) },
		"variance":   func(c *Covariance) { c.Matrix[0] = -1 },
		"positive":   func(c *Covariance) { c.Matrix[1], c.Matrix[3] = 100, 100 },
		"symmetric":  func(c *Covariance) { c.Matrix[1]++ },
		"none":       func(c *Covariance) { c.Columns, c.Fields, c.Mean, c.Matrix = nil, nil, nil, nil },
		"other size": func(c *Covariance) { c.Columns = append(c.Columns, 100) },
	} {
		c := randomCovariance(t, 3, 5)
		damage(c)
		must.Fails(t, must.Err(NewCovariance(c.Columns, c.Fields, c.Mean, c.Matrix)), name)
	}
}

// FuzzCovariance reads blocks: any accepted covariance must be able to impute.
func FuzzCovariance(f *testing.F) {
	for _, n := range []int{1, 3, 8} {
		data := randomCovariance(f, n, uint64(n)).Block().Data
		f.Add(data)
		for i := 0; i < len(data); i += 5 {
			damaged := slices.Clone(data)
			damaged[i] ^= 0xff
			f.Add(damaged)
		}
	}
	tiny := must.Get(NewCovariance([]uint32{1, 2, 3}, make([]uint16, 3), make([]float64, 3), []float64{1e6, 0, 0, 0, 1e-76, 0, 0, 0, 2e-310}))(f)
	f.Add(tiny.Block().Data) // its inverse overflows
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readCovariance([]event.Block{{Name: blockCovariance, Data: data}})
		if err != nil {
			return
		}
		n := len(c.Columns)
		w, extra, p := make([]float64, n), make([]float64, n), make(ColumnRoles, n)
		for i := range n {
			w[i], p[i] = 1, byte(Observed)
		}
		p[0] = Imputed
		shift, variance := c.Imputation(p).Weigh(w, extra)
		must.True(t, !math.IsNaN(shift) && variance >= 0, "shift %v, variance %v", shift, variance)
	})
}

// filledModel returns a model of two outputs with random weights for the columns of a Covariance, and for column 1,
// which the Covariance does not have.
func filledModel(t testing.TB, n int) *Linear {
	c := randomCovariance(t, n, 9)
	r := rand.New(rand.NewPCG(3, 4))
	weights := make([][]float64, 2)
	for k := range weights {
		for range 3*n + 2 {
			weights[k] = append(weights[k], r.NormFloat64())
		}
	}
	s := event.NewSchema(10, []string{"a", "b"}, 2)
	m := NewLinear(s, "logistic:gaussian", "none", weights, []float64{0.5, -0.5})
	m.Missing = (*Missing)(nil).Forced(MissingImpute)
	return m.WithCovariance(c)
}

// partly returns an event with values for column 1 and the columns with the role Observed. It declares the columns with
// the role Imputed missing.
func partly(c *Covariance, p ColumnRoles, r *rand.Rand) *event.Example {
	e := &event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}}
	for i, column := range c.Columns {
		switch p[i] {
		case Observed:
			eventtest.Put(e, column, r.NormFloat64())
		case Imputed:
			e.MissingColumns = append(e.MissingColumns, column)
		}
	}
	return e
}

// TestScoreImputed checks that a score with imputed values equals the score from the reference's values and variances.
func TestScoreImputed(t *testing.T) {
	m := filledModel(t, 8)
	c := m.Covariance
	r := rand.New(rand.NewPCG(5, 6))
	for trial := range 50 {
		p := randomParts(8, r)
		for i := range p {
			p[i] = max(p[i], Observed) // a column of a sparse text format is never Ignored
		}
		e := partly(c, p, r)
		x := make([]float64, 8)
		for place, i := range CommonColumns(c.Columns, e.Features.Index) {
			x[place] = e.Features.Value[i]
		}
		mean, matrix := slowFill(c, p, x)
		scores := m.Score(e, make([]float64, 2))
		for k := range scores {
			f, v := m.Intercept[k]+m.Weight(1, k), 0.0
			for i, column := range c.Columns {
				f += m.Weight(column, k) * mean[i]
				for j, other := range c.Columns {
					v += m.Weight(column, k) * matrix[i][j] * m.Weight(other, k)
				}
			}
			want := expectedLogit(f, v)
			must.Require(t, math.Abs(scores[k]-want) <= 1e-4, "trial %d: output %d of %v is %v, want %v: mean %v, variance %v", trial, k, p, scores[k], want, f, v)
		}
		complete := &event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}}
		for i, column := range c.Columns {
			eventtest.Put(complete, column, mean[i])
		}
		filled, want := m.WithMissing(m.Missing.Forced(MissingFill)).Score(e, make([]float64, 2)), m.Score(complete, make([]float64, 2))
		must.Near(t, filled, want, 1e-10, "trial", trial, "filled, and the complete event")
		a := m.Handling(e)
		must.Require(t, a.Policy() == MissingImpute && a.Scale == 1, "answer %+v", a)
		for class := range 2 {
			why := m.Explain(e, class)
			sum := why.Intercept + why.Imputed
			for _, term := range why.Terms {
				sum += term.Contribution
			}
			must.Require(t, close12(sum, why.Score) && close12(why.Score, scores[class]),
				"trial %d: the parts of score %v add up to %v, explained is %v", trial, scores[class], sum, why.Score)
		}
	}
	// The policy none scores only the present features, and so does a model without a covariance.
	e := partly(c, ColumnRoles{Imputed, Observed, Observed, Observed, Observed, Observed, Observed, Observed}, r)
	as := m.ScoreVec(e.Features, make([]float64, 2))
	must.EqualSlices(t, m.WithMissing(m.Missing.Forced(MissingNone)).Score(e, make([]float64, 2)), as, "as it is")
	without := m.WithMissing(m.Missing)
	without.Covariance = nil
	must.EqualSlices(t, without.Score(e, make([]float64, 2)), as, "without a covariance")
	// An outlier is not used to impute missing values, but its own value still adds to the score.
	e.Features.Value[1] = 1e6
	mean, matrix := slowFill(c, ColumnRoles{Imputed, Ignored, Observed, Observed, Observed, Observed, Observed, Observed}, append([]float64{0}, e.Features.Value[1:]...))
	for k, got := range m.Score(e, make([]float64, 2)) {
		f := m.Intercept[k] + mean[0]*m.Weight(c.Columns[0], k)
		for i, column := range e.Features.Index {
			f += e.Features.Value[i] * m.Weight(column, k)
		}
		want := m.widen(f, matrix[0][0]*m.Weight(2, k)*m.Weight(2, k))
		must.True(t, close12(got, want), "output %d is %v with a wild value, want %v", k, got, want)
	}
}

// TestScoreImputedAndScaled checks a mixture of missing policies. Present features are multiplied by the scale, and
// imputed values by the mixture weight of imputation. The test checks the scores, their variances and the bounds of the
// probability.
func TestScoreImputedAndScaled(t *testing.T) {
	two := filledModel(t, 8)
	c := two.Covariance
	one := NewLinear(event.NewSchema(10, []string{"a", "b"}, 2), "logistic:gaussian", "none", [][]float64{weightsOf(two, 0)}, []float64{0.5})
	one.Missing = two.Missing
	one = one.WithCovariance(c)
	r := rand.New(rand.NewPCG(7, 8))
	inside := 0
	for trial := range 200 {
		p := randomParts(8, r)
		for i := range p {
			p[i] = max(p[i], Observed)
		}
		e := partly(c, p, r)
		scale := []float64{1, 1.7, 30}[trial%3]
		x, plain := make([]float64, 8), two.Weight(1, 0)
		for place, i := range CommonColumns(c.Columns, e.Features.Index) {
			x[place] = e.Features.Value[i]
			plain += e.Features.Value[i] * two.Weight(c.Columns[place], 0)
		}
		mean, matrix := slowFill(c, p, x)
		f, v := two.Weight(1, 0), 0.0
		for i, column := range c.Columns {
			f += two.Weight(column, 0) * mean[i]
			for j, other := range c.Columns {
				v += two.Weight(column, 0) * matrix[i][j] * two.Weight(other, 0)
			}
		}
		fraction := []float64{1, 0.6, 0.1}[trial%3] // mixture weight of imputing
		f, v = 0.5+scale*plain+fraction*(f-plain), fraction*fraction*v
		a := MissingHandling{Weights: PolicyWeights{1 - fraction, 0, fraction}, Scale: scale, Roles: p}
		got, want := two.AnswerOutputs(e.Features, a, make([]float64, 2))[0], two.widen(f, v)
		must.Require(t, math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)), "trial %d: scaled by %v the score is %v, want %v", trial, scale, got, want)
		if v == 0 {
			continue
		}
		low, high := one.chanceInterval(e.Features, a)
		chance := func(f float64) float64 { return one.Probabilities([]float64{f}, make([]float64, 2))[1] }
		width := 1.6448536269514722 * math.Sqrt(v)
		bottom, top, told := chance(f-width), chance(f+width), chance(one.widen(f, v))
		must.Require(t, math.Abs(low-min(bottom, told)) <= 1e-9 && math.Abs(high-max(top, told)) <= 1e-9, "trial %d: %v to %v, want %v to %v and %v", trial, low, high, bottom, top, told)
		if told >= bottom && told <= top {
			inside++
		}
		answered := chance(one.AnswerOutputs(e.Features, a, make([]float64, 1))[0])
		must.Require(t, answered >= low && answered <= high, "trial %d: %v is answered, between %v and %v", trial, answered, low, high)
	}
	must.True(t, inside != 0 && inside <= 198, "in %d of 200 trials the answer lay within nine of ten cases: both should occur", inside)
}

// weightsOf returns the weights of an output, by column.
func weightsOf(m *Linear, output int) []float64 {
	return must.List(30, func(column int) float64 { return m.Weight(uint32(column), output) })
}

// TestOutlier checks two kinds of outliers. The first is a value beyond the Scaler's limit, even if the column has a
// large deviation. The second is a value far from its column's mean.
func TestOutlier(t *testing.T) {
	c := must.Get(NewCovariance([]uint32{1}, []uint16{1}, []float64{2}, []float64{OutlierAt * OutlierAt}))(t)
	far := 2 + 1.01*ScalerClip*c.deviation(0)
	for _, w := range []struct {
		value        float64
		standardized bool
		want         bool
	}{{OutlierAt, true, true}, {-OutlierAt, true, true}, {OutlierAt, false, false}, {2, true, false}, {far, false, true}, {far, true, true}, {4 - far, true, true}} {
		got := c.outlier(0, w.value, w.standardized)
		must.True(t, got == w.want, "%v, standardized %t: %t", w.value, w.standardized, got)
	}
}

// TestWidenRegression checks the score for a target whose score has the variance v. For counts, the expected value must
// be exp(f + v/2), up to a limit. For linear regression, the score must not change.
func TestWidenRegression(t *testing.T) {
	counts, numbers := &Head{Loss: "poisson"}, &Head{Loss: "squared"}
	for _, v := range []float64{0, 0.5, 4, maxVariance, 1e9} {
		must.Equal(t, counts.widen(0.7, v), 0.7+min(v, maxVariance)/2, "variance", v, "a count's score")
		must.Equal(t, numbers.widen(0.7, v), 0.7, "variance", v, "a number's score")
	}
}

// expectedLogit returns the logit of the expected probability of a normal score, by numerical summation.
func expectedLogit(f, v float64) float64 {
	p, all := 0.0, 0.0
	for z := -9.0; z <= 9; z += 0.001 {
		w := math.Exp(-z * z / 2)
		p += w / (1 + math.Exp(-(f + z*math.Sqrt(v))))
		all += w
	}
	return math.Log(p / (all - p))
}

// TestWiden checks that scores far from 0 keep their order and stay finite.
func TestWiden(t *testing.T) {
	h := &Head{}
	for _, v := range []float64{0, 1e-300, 0.1, 1, 100, 1e8} {
		last := math.Inf(-1)
		for f := -60.0; f <= 60; f += 0.25 {
			got := h.widen(f, v)
			must.Require(t, got >= last-1e-3 && math.Abs(got) <= math.Abs(f)*(1+1e-6)+1e-3, "variance %v: %v becomes %v after %v", v, f, got, last)
			last = got
		}
	}
}

// TestImputedWeightsAreBoundedAndShared checks that the number of cached missing patterns is limited, and that
// concurrent readers get equal results.
func TestImputedWeightsAreBoundedAndShared(t *testing.T) {
	m := filledModel(t, 14)
	kept := m.imputations
	alone := m.WithMissing(m.Missing)
	alone.imputations = nil
	var wait sync.WaitGroup
	for reader := range 4 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(reader/2), 8)) // two readers use the same seed
			for range 4000 {
				p := randomParts(14, r)
				for i := range p {
					p[i] = max(p[i], Observed)
				}
				e := partly(m.Covariance, p, r)
				must.EqualSlices(t, m.Score(e, make([]float64, 2)), alone.Score(e, make([]float64, 2)), p, "is kept as")
			}
		})
	}
	wait.Wait()
	n := len(kept.byKey)
	must.True(t, n <= mostRecent && n == len(kept.order) && n >= mostRecent/2, "%d patterns are kept in %d places", n, len(kept.order))
}
