package impute

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/encode"
)

// TestCovariancesShrink checks that covariances between two columns shrink as if uncorrelated events had been added.
// Variances must not shrink.
func TestCovariancesShrink(t *testing.T) {
	f := &Gatherer{Columns: []uint32{3, 7}, fields: []uint16{1, 2}, sums: Sums{10, []float64{0, 0}, []float64{20, 0, 12, 30}}, unit: 4}
	f.renew()
	certain := 10 / (10 + covarianceRidge*2*4)
	want := []float64{2, 1.2 * certain, 1.2 * certain, 3}
	for i, got := range f.Covariance.Matrix {
		if math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("%v, want %v", f.Covariance.Matrix, want)
			break
		}
	}
}

// gatherAll adds complete events with the columns of f, as Follow would do.
func gatherAll(f *Gatherer, rows [][]float64) {
	fields := []event.Field{{}, {Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	for i, x := range rows {
		var read encode.Numbers
		for i, x := range x {
			read.Values = append(read.Values, encode.Number{Column: uint32(i + 1), Field: uint16(i + 1), X: x, Raw: x})
		}
		f.Follow(&read, true, uint64(i), 1, fields, nil)
	}
}

// TestMoments compares the sums with their definition, including the decay of earlier events. If a column is moved,
// added or removed, the sums of other columns must not change.
func TestMoments(t *testing.T) {
	g := NewGatherer(256)
	f := &g
	r := rand.New(rand.NewPCG(5, 6))
	var rows [][]float64
	for range 300 {
		a, b := r.NormFloat64(), r.NormFloat64()
		rows = append(rows, []float64{a, 0.5*a + b, b - a, r.NormFloat64() + 1})
	}
	gatherAll(f, rows)
	keep := 1 - 1.0/covarianceMemory
	weight, mean := math.Pow(keep, 300), make([]float64, 4)
	for i, x := range rows {
		w := math.Pow(keep, float64(len(rows)-1-i))
		weight += w
		for j := range x {
			mean[j] += w * x[j]
		}
	}
	squares := make([]float64, 16)
	for i := range mean {
		mean[i] /= weight
	}
	first := math.Pow(keep, 300)
	for i := range mean {
		for j := range mean {
			if squares[4*i+j] = first * mean[i] * mean[j]; i == j {
				squares[4*i+j] += first
			}
			for n, x := range rows {
				squares[4*i+j] += math.Pow(keep, float64(len(rows)-1-n)) * (x[i] - mean[i]) * (x[j] - mean[j])
			}
			squares[4*i+j] /= weight
		}
	}
	check := func(what string, columns []int, scale, shift []float64) {
		t.Helper()
		for a, i := range columns {
			got, want := f.sums.Mean[a], (mean[i]-shift[a])/scale[a]
			must.True(t, math.Abs(got-want) <= 1e-12, "%s: mean %d is %v, want %v", what, i, got, want)
			for b, j := range columns[:a+1] {
				got, want := f.sums.Squares[a*len(columns)+b]/f.sums.Weight, squares[4*i+j]/scale[a]/scale[b]
				must.True(t, math.Abs(got-want) <= 1e-12, "%s: entry %d, %d is %v, want %v", what, i, j, got, want)
			}
		}
	}
	check("gathered", []int{0, 1, 2, 3}, []float64{1, 1, 1, 1}, make([]float64, 4))
	f.due = false
	f.moved(2, model.Standardization{Center: 5, Scale: 2}, model.Standardization{Center: 6, Scale: 3})
	check("moved", []int{0, 1, 2, 3}, []float64{1, 1.5, 1, 1}, []float64{0, 0.5, 0, 0})
	must.True(t, f.due, "a column has moved far, and nothing is due")
	f.remove(3)
	check("removed", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.Forget(0.1)
	check("forgotten", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.insert(2, 3, 3)
	must.True(t, f.sums.Squares[2*4+2] == f.sums.Weight && f.sums.Mean[2] == 0 && f.sums.Squares[3*4+2] == 0 && f.sums.Squares[2*4+1] == 0,
		"a new column begins with %v, %v", f.sums.Mean, f.sums.Squares)
	f.remove(3)
	check("there and back", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.moved(2, model.Standardization{Center: 5, Scale: 2}, model.Standardization{Center: 5, Scale: 2, Unit: 1})
	must.True(t, f.sums.Squares[1*3+1] == f.sums.Weight && f.sums.Squares[1*3] == 0 && f.sums.Squares[2*3+1] == 0 && f.sums.Mean[1] == 0,
		"a column of other values begins with %v, %v", f.sums.Mean, f.sums.Squares)
}

// TestMissingIsGatheredLessOften checks that a smaller fraction is gathered of events with many missing columns than of
// complete events.
func TestMissingIsGatheredLessOften(t *testing.T) {
	f := NewGatherer(256)
	f.Columns = make([]uint32, 128)
	for _, c := range []struct {
		gathered uint64
		lacks    int
		every    uint64 // number of candidate events, see Every, per added event
	}{{0, 0, 1}, {0, 64, 1}, {0, 120, 5}, {8 * 128, 0, 1}, {8 * 128, 64, 3}, {8 * 128, 120, 11}} {
		f.Gathered = c.gathered
		taken := must.Count(1000*int(c.every), func(i int) bool { return !f.passesOver(uint64(i)*f.Every(), c.lacks) })
		must.True(t, taken == 1000, "after %d gathered events %d of %d that lack %d columns are, want 1000", c.gathered, taken, 1000*c.every, c.lacks)
	}
}

// TestOutliersAreNotGathered checks that an outlier does not change the sums and is not used for imputation.
func TestOutliersAreNotGathered(t *testing.T) {
	a, b := NewGatherer(256), NewGatherer(256)
	r := rand.New(rand.NewPCG(7, 8))
	var rows [][]float64
	for range 400 {
		x := r.NormFloat64()
		rows = append(rows, []float64{x, x + 0.1*r.NormFloat64(), x + 0.1*r.NormFloat64()})
	}
	gatherAll(&a, rows)
	outlier := slices.Clone(rows)
	stats := []float64{100, 1, 100, 1, 1}
	beyond := model.Scaler{Mode: model.StandardizeAuto}
	at := beyond.Clip(stats, 1e9)
	must.Require(t, model.IsOutlier(at), "%v", at)
	for i := 0; i < len(outlier); i += 10 {
		outlier[i] = []float64{outlier[i][0], at, outlier[i][2]}
	}
	gatherAll(&b, outlier)
	for i := range 3 {
		for j := range i + 1 {
			x, y := a.sums.Squares[3*i+j]/a.sums.Weight, b.sums.Squares[3*i+j]/b.sums.Weight
			must.True(t, math.Abs(x-y) <= 0.05, "entry %d, %d: %v, with wild values %v", i, j, x, y)
		}
	}
}

// TestZeros checks columns that are 0 if omitted. Such a column must be gathered as 0, and must not be gathered after
// Choose has removed it.
func TestZeros(t *testing.T) {
	f, r, fields := NewGatherer(3), rand.New(rand.NewPCG(7, 8)), []event.Field{{}}
	zeros := []uint32{2, 5}
	f.Choose(nil, zeros)
	var sum, squares [2]float64
	const events = 4000
	for i := range events {
		var read encode.Numbers
		read.Values = append(read.Values, encode.Number{Column: 1, X: r.NormFloat64()})
		if x := r.Float64(); r.IntN(2) == 0 {
			read.Spread = append(read.Spread, encode.Number{Column: 2, X: x}, encode.Number{Column: 5, X: -x})
			sum[0], squares[0] = sum[0]+x, squares[0]+x*x
			sum[1], squares[1] = sum[1]-x, squares[1]+x*x
		}
		f.Follow(&read, true, uint64(i), 1, fields, zeros)
	}
	f.renew()
	c := f.Covariance
	must.Require(t, slices.Equal(c.Columns, []uint32{1, 2, 5}), "columns %v", c.Columns)
	for i := range 2 {
		mean := sum[i] / events
		if variance := squares[i]/events - mean*mean; math.Abs(c.Mean[i+1]-mean) > 0.02 || math.Abs(c.Matrix[(i+1)*4]-variance) > 0.02 {
			t.Errorf("mean %v, variance %v, want %v, %v", c.Mean[i+1], c.Matrix[(i+1)*4], mean, variance)
		}
	}
	x := c.Matrix[5]
	must.True(t, x <= -0.08, "covariance %v", x)
	f.Choose(zeros, []uint32{5, 6})
	must.True(t, slices.Equal(f.Columns, []uint32{1, 5, 6}), "columns %v", f.Columns)
}

func newEncoder(s *event.Schema) *encode.Encoder {
	return encode.New(encode.Settings{
		Standardize: model.StandardizeAuto,
		Width:       model.ScalerWidth, Policies: model.EveryRange(model.MissingImpute),
	}, s)
}

// TestExpect checks the imputation of one of two correlated numbers. The imputed value must be the regression on the
// other number, and the variance must be the variance of the residual.
func TestExpect(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	ids := []uint16{s.AddField(event.Field{Name: "a", Kind: event.Numeric}), s.AddField(event.Field{Name: "b", Kind: event.Numeric})}
	n := newEncoder(s)
	m, r := New(2), rand.New(rand.NewPCG(1, 1))
	var in encode.Input
	var numbers Numbers
	for i := range uint64(20_000) {
		a := r.NormFloat64()
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{10 + a, 500 + 30*a + 40*r.NormFloat64()}}, Field: ids}
		n.Observe(e, i+1, &in)
		n.Rescale(&in)
		m.Gather(&in, n, true)
		if r := n.Review(); r != nil {
			m.Review(r, n)
		}
	}
	must.Require(t, m.Covariance() != nil && m.Columns() == 2, "no covariance of %d columns", m.Columns())
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{11.5}}, Field: ids[:1], Missing: ids[1:]}
	n.Read(e, 1, &in)
	m.Read(&in, n, &numbers)
	must.Require(t, numbers.SomeMissing && numbers.Parts[0] == model.Observed && numbers.Parts[1] == model.Imputed && math.Abs(numbers.X[0]-1.5) <= 0.1,
		"the numbers are %+v", numbers)
	var x Expected
	m.Expect(&numbers, n, &x)
	// The number b has the standard deviation 50. In standardized units, the regression of b on a has the slope .6.
	got := x.Input.X
	must.True(t, len(got) == 2 && math.Abs(got[0]-0.9) <= 0.05 && got[1] == 0 && &x.Input.Rows[0][0] == &n.Table.Row(2)[0], "expected is %v, want .9", got)
	got = []float64{1}
	x.Variances([]float64{2, 5}, 2, got)
	must.True(t, math.Abs(got[0]-4*0.64) <= 0.15, "the variance is %v, want 4 times .64", got)
	// The first event has no number, and the second has an outlier.
	e = &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{11, 1e9}}, Field: ids}
	n.Read(e, 1, &in)
	m.Read(&in, n, &numbers)
	must.True(t, !numbers.SomeMissing && numbers.Parts[1] == model.Ignored, "the numbers are %+v", numbers)
	var left Numbers
	numbers.Mask([]bool{true, false}, &left)
	must.True(t, left.SomeMissing && left.Parts[0] == model.Imputed && left.Parts[1] == model.Ignored && numbers.Parts[0] == model.Observed,
		"what is left is %+v of %+v", left, numbers)
	m.Expect(&left, n, &x)
	if got := x.Input.X[0]; math.Abs(got-m.Covariance().Mean[0]) > 1e-12 {
		t.Errorf("expected is %v where nothing is known, want the mean %v", got, m.Covariance().Mean[0])
	}
}

// TestDecay checks that after Decay earlier events have less weight than new events.
func TestDecay(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	ids := []uint16{s.AddField(event.Field{Name: "a", Kind: event.Numeric}), s.AddField(event.Field{Name: "b", Kind: event.Numeric})}
	together := func(keep float64) float64 {
		n := newEncoder(s)
		m, r := New(2), rand.New(rand.NewPCG(2, 1))
		var in encode.Input
		for i := range uint64(4000) {
			a := r.NormFloat64()
			b := must.Either(i >= 2000, -a, a)
			m.Decay(keep)
			n.Observe(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{a, b}}, Field: ids}, i+1, &in)
			n.Rescale(&in)
			m.Gather(&in, n, true)
		}
		return m.Covariance().Matrix[1]
	}
	all, late := together(1), together(0.99)
	must.True(t, math.Abs(all) <= 0.2 && late <= -0.8, "the covariance is %v, and %v where events are forgotten", all, late)
}

// FuzzFillState decodes arbitrary blocks. Encoding must give the same bytes again for accepted blocks.
func FuzzFillState(f *testing.F) {
	l := Gatherer{Columns: []uint32{1, 4}, fields: []uint16{1, 2}, sums: Sums{2, []float64{0, 1}, []float64{1, 0, .5, 2}}, unit: 1, inverseDecay: 1}
	w := coder.Coder{}
	l.State(&w)
	f.Add(w.Out)
	f.Fuzz(func(t *testing.T, data []byte) {
		var f Gatherer
		r := coder.Read(data)
		if f.State(r); !r.Done() {
			return
		}
		var w coder.Coder
		f.State(&w)
		must.True(t, bytes.Equal(w.Out, data) || w.Failed, "read %x, written %x", data, w.Out)
	})
}
