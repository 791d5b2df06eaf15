package batch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
)

// correlated returns events of five numbers. The last three numbers are nearly functions of the first two. A fraction
// null of the values is null, and a fraction outlier of the values is an outlier. The last number determines the class.
func correlated(n int, null, outlier float64, seed uint64) (*event.Schema, []event.Example) {
	s := eventtest.Schema(5, "", "no", "yes")
	r := rand.New(rand.NewPCG(seed, 2))
	var out []event.Example
	for range n {
		a, b := 3+2*r.NormFloat64(), r.NormFloat64()
		x := []float64{a, b, a + b + 0.3*r.NormFloat64(), a - b + 0.3*r.NormFloat64(), 2*b - a + 0.3*r.NormFloat64()}
		e := event.Example{Weight: 1}
		if x[4]+3+0.5*r.NormFloat64() > 0 {
			e.Label = 1
		}
		for i, v := range x {
			switch u := r.Float64(); {
			case u < null:
				e.Missing = append(e.Missing, uint16(i+1))
				continue
			case u < null+outlier:
				v = 1e9
			}
			eventtest.Put(&e, uint32(10*i), v, uint16(i+1))
		}
		out = append(out, e)
	}
	return s, out
}

// TestCovarianceOfRowsWithMissingFields removes values so that no pair of columns is complete, and adds outliers. It
// checks that the covariance equals the covariance of the original rows, within statistical error.
func TestCovarianceOfRowsWithMissingFields(t *testing.T) {
	s, events := correlated(4000, 0, 0, 1)
	m, d, p := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, "none")
	whole := m.Covariance
	n := len(whole.Columns)
	if n != 5 || !slices.Equal(whole.Fields, []uint16{1, 2, 3, 4, 5}) {
		t.Fatalf("columns %v of fields %v", whole.Columns, whole.Fields)
	}
	// want is a slow reference: sums over pairs of values.
	for i := range n {
		for j := range n {
			sum, a, b := 0.0, 0.0, 0.0
			for row := range d.Rows() {
				x, y := d.Row(row).At(i), d.Row(row).At(j)
				sum, a, b = sum+x*y, a+x, b+y
			}
			rows := float64(d.Rows())
			if want := sum/rows - a/rows*b/rows; math.Abs(whole.Matrix[i*n+j]-want) > 1e-9 {
				t.Errorf("covariance of columns %d and %d: %v, want %v", i, j, whole.Matrix[i*n+j], want)
			}
		}
	}
	for _, c := range []struct{ null, wild float64 }{{0.3, 0}, {0, 0.003}, {0.3, 0.003}} {
		s, events := correlated(4000, c.null, c.wild, 1)
		m, d, p := trainLacking(t, s, events, model.StandardizeNone, model.MissingNone, "none")
		got := m.Covariance
		if c.wild > 0 {
			got = p.Covariance(m, d, 5)
		}
		for i := range n {
			for j := range n {
				// The matrix of got is for raw values, the matrix of whole for standardized values.
				scale := math.Sqrt(got.Matrix[i*n+i] * got.Matrix[j*n+j])
				if a, b := got.Matrix[i*n+j]/scale, whole.Matrix[i*n+j]; math.Abs(a-b) > 0.04 {
					t.Errorf("%+v: correlation of columns %d and %d is %v, want about %v", c, i, j, a, b)
				}
			}
		}
	}
	// A second call gives the same result. A smaller limit gives the covariance of the first columns.
	if again := p.Covariance(m, d, 256); !slices.Equal(again.Matrix, whole.Matrix) {
		t.Error("a second time it is another")
	}
	if few := p.Covariance(m, d, 3); !slices.Equal(few.Columns, whole.Columns[:3]) {
		t.Errorf("of three columns: %v", few.Columns)
	}
	for _, none := range []int{0, 1} {
		if c := p.Covariance(m, d, none); c != nil {
			t.Errorf("of %d columns: %v", none, c.Columns)
		}
	}
}

// TestImputationIsChosen checks that the missing policy becomes "impute" if numbers depend on each other, for named
// fields and for declared columns. On new events, predictions with that policy must have the lowest error.
func TestImputationIsChosen(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		s, events := correlated(2000, 0, 0, 3)
		_, fresh := correlated(2000, 0, 0, 4)
		if sparse {
			s = event.NewSchema(8, []string{"no", "yes"}, 2)
			for _, list := range [][]event.Example{events, fresh} {
				for i := range list {
					list[i].Field = nil
				}
			}
		}
		m, _, _ := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, "none")
		for b, fractions := range m.Missing.Policies {
			policy := fractions.Largest()
			if policy != model.MissingImpute && b >= 1 && b < 4 { // of five columns one missing is already 20 %: no missing fraction is below 10 %
				t.Errorf("sparse %v: rules %v", sparse, m.Missing.Policies)
			}
		}
		wrong := map[model.MissingPolicy]int{}
		for i := range fresh {
			x := m.Standardized(&fresh[i], event.Vec{})
			var field []uint16
			if !sparse {
				field = fresh[i].Field
			}
			dead := []bool{i%2 == 0, i%3 == 0, false, false, true}
			var left event.Example
			m.Delete(&fresh[i], x, field, dead, true, &left)
			for _, policy := range []model.MissingPolicy{model.MissingAuto, model.MissingNone, model.MissingRescale} {
				as := m.WithMissing(m.Missing.Forced(policy))
				if as.Predict(as.ScoreMissing(left.Features, &left, make([]float64, 1))) != fresh[i].Label {
					wrong[policy]++
				}
			}
		}
		if most := wrong[model.MissingAuto] * 3 / 2; wrong[model.MissingNone] < most || wrong[model.MissingRescale] < most {
			t.Errorf("sparse %v: wrong by rule %v of %d", sparse, wrong, len(fresh))
		}
	}
}
