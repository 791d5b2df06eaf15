package impute

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
)

func newEncoder(s *event.Schema) *encode.Encoder {
	return encode.New(encode.Settings{
		Standardize: model.StandardizeAuto, Transform: func(string) model.Transform { return "" },
		Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingImpute),
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
	if m.Covariance() == nil || m.Columns() != 2 {
		t.Fatalf("no covariance of %d columns", m.Columns())
	}
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{11.5}}, Field: ids[:1], Missing: ids[1:]}
	n.Read(e, 1, &in)
	m.Read(&in, n, &numbers)
	if !numbers.SomeMissing || numbers.Parts[0] != model.Observed || numbers.Parts[1] != model.Imputed || math.Abs(numbers.X[0]-1.5) > 0.1 {
		t.Fatalf("the numbers are %+v", numbers)
	}
	var x Expected
	m.Expect(&numbers, n, &x)
	// The number b has the standard deviation 50. In standardized units, the regression of b on a has the slope .6.
	if got := x.Input.X; len(got) != 2 || math.Abs(got[0]-0.9) > 0.05 || got[1] != 0 || &x.Input.Rows[0][0] != &n.Table.Row(2)[0] {
		t.Errorf("expected is %v, want .9", got)
	}
	if got := x.Variance(func(int) float64 { return 2 }); math.Abs(got-4*0.64) > 0.15 {
		t.Errorf("the variance is %v, want 4 times .64", got)
	}
	// The first event has no number, and the second has an outlier.
	e = &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{11, 1e9}}, Field: ids}
	n.Read(e, 1, &in)
	m.Read(&in, n, &numbers)
	if numbers.SomeMissing || numbers.Parts[1] != model.Ignored {
		t.Errorf("the numbers are %+v", numbers)
	}
	var left Numbers
	numbers.Mask([]bool{true, false}, &left)
	if !left.SomeMissing || left.Parts[0] != model.Imputed || left.Parts[1] != model.Ignored || numbers.Parts[0] != model.Observed {
		t.Errorf("what is left is %+v of %+v", left, numbers)
	}
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
			b := a
			if i >= 2000 {
				b = -a
			}
			m.Decay(keep)
			n.Observe(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{a, b}}, Field: ids}, i+1, &in)
			n.Rescale(&in)
			m.Gather(&in, n, true)
		}
		return m.Covariance().Matrix[1]
	}
	if all, late := together(1), together(0.99); math.Abs(all) > 0.2 || late > -0.8 {
		t.Errorf("the covariance is %v, and %v where events are forgotten", all, late)
	}
}
