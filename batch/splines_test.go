package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// curvedData returns events of three numbers with splines; two of the numbers are in one group. The result summed has
// the same events with one column per number. That column holds the number's contribution to the score under the
// weights w.
func curvedData(t *testing.T, n int, w func(column uint32) float64) (curved, summed *Data) {
	t.Helper()
	s := event.NewSchema(10, []string{"a", "b"}, 2)
	for i := range 3 {
		s.AddField(event.Field{Name: fmt.Sprint("f", i), Kind: event.Numeric})
	}
	s.Fields[1].Group, s.Fields[2].Group = "g", "g"
	c := must.Get(model.NewSplines([]uint32{1, 3}, [][]float64{{-1, 0, 1}, {-2, -1, 0, 2}}))(t)
	scaler := model.Scaler{Splines: c}
	r := rand.New(rand.NewPCG(1, 2))
	b, flat := Builder{Splines: c}, Builder{}
	for range n {
		e := &event.Example{Features: event.Vec{Index: []uint32{1, 2, 3}, Value: []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}}, Field: []uint16{1, 2, 3}, Label: r.IntN(2), Weight: 1}
		var x event.Vec
		sums := make([]float64, 4)
		for column, value := range scaler.Each(e.Features) {
			x.Index, x.Value = append(x.Index, column), append(x.Value, value)
			sums[c.Source(column)] += w(column) * value
		}
		b.Fields(e)
		flat.Fields(e)
		must.Do(t, b.Add(&event.Example{Features: x, Label: e.Label, Weight: 1}))
		must.Do(t, flat.Add(&event.Example{Features: event.Vec{Index: e.Features.Index, Value: sums[1:]}, Label: e.Label, Weight: 1}))
	}
	return b.Data(s), flat.Data(s)
}

func curvedWeight(column uint32) float64 { return math.Sin(3 * float64(column%1000)) }

var curvedNoises = []loss.Noise{loss.Dropout{Q: 0.4}, loss.GroupDropout{Groups: 0.3}, loss.GroupDropout{Q: 0.2, Groups: 0.4}, loss.Dropout{}, loss.GroupDropout{}}

// TestSplinesAreOneFeature checks that a number and its spline columns vary as one feature. The objective must equal
// the objective of data in which these columns are summed. Its derivatives must equal finite differences. The products
// of its dense matrix must equal the Hessian-vector products.
func TestSplinesAreOneFeature(t *testing.T) {
	curved, summed := curvedData(t, 40, curvedWeight)
	for _, noise := range curvedNoises {
		objective := func(d *Data) *Expected {
			y := must.List(d.Rows(), func(i int) float64 { return float64(2*d.Label(i) - 1) })
			o, err := NewExpected(Problem{Data: d, Y: y, Loss: loss.LogisticGaussian{}, Noise: noise, Kappa: 1, Intercept: FreeIntercept,
				Penalty: Penalty{R: make([]float64, d.Columns()+1), Center: make([]float64, d.Columns()+1)}, Threads: 2})
			must.Do(t, err)
			return o
		}
		o, plain := objective(curved), objective(summed)
		dim := curved.Columns() + 1
		w := make([]float64, dim)
		for c := range curved.Columns() {
			w[c] = curvedWeight(curved.Column(c))
		}
		w[dim-1] = 0.3
		value := o.ValueGrad(w, nil)
		want := plain.ValueGrad([]float64{1, 1, 1, 0.3}, make([]float64, 4))
		must.True(t, math.Abs(value-want) <= 1e-10*want, "%v: objective %v, of the sums %v", noise, value, want)
		problems.CheckDerivatives(t, noise.String(), exactDiagonal{o}, w, 1e-5)
		// Compare V itself, the sum over the rows of k V from addTo, with a slow computation.
		joint := must.Get(jointNoise(curved, noise))(t)
		n := curved.Columns()
		matrix, want := make([]float64, n*n), 0.0
		sums := joint.sums()
		pair := make([]float64, 2*n)
		for c := range n {
			pair[2*c], pair[2*c+1] = w[c], w[c]
		}
		for i := range curved.Rows() {
			joint.addTo(matrix, n, curved.Row(i), 1, nil, sums)
			_, _, v, _ := joint.gather(curved.Row(i), pair, make([]float64, n), make([]float64, n), nil, sums)
			want += v
		}
		got := 0.0
		for i := range n {
			for j := i; j < n; j++ {
				twice := must.Either(i == j, 1.0, 2)
				got += twice * w[i] * matrix[i*n+j] * w[j]
			}
		}
		must.True(t, math.Abs(got-want) <= 1e-9*want, "%v: w'V w is %v by the matrix, %v by gather", noise, got, want)
	}
}

// TestSplinesAreDeletedTogether checks that random deletion of a number also deletes its spline columns. All other
// features must have the same masks as without splines.
func TestSplinesAreDeletedTogether(t *testing.T) {
	curved, summed := curvedData(t, 30, curvedWeight)
	c := Corrupter{Noise: loss.Dropout{Q: 0.5}, Seed: 3, Splines: curved.splines}
	plain := Corrupter{Noise: loss.Dropout{Q: 0.5}, Seed: 3}
	for i := range curved.Rows() {
		x, clean := curved.Vec(i, event.Vec{}), curved.Vec(i, event.Vec{})
		c.Vec(x, nil, i, 0)
		dead := plain.Dead(summed.Vec(i, event.Vec{}).Index, nil, i, 0, nil)
		for j, column := range x.Index {
			want := 2 * clean.Value[j]
			if dead[curved.splines.Source(column)-1] {
				want = 0
			}
			must.True(t, math.Abs(x.Value[j]-want) <= 1e-12, "event %d, column %d: %v, want %v", i, column, x.Value[j], want)
		}
	}
}

// TestBasisColumnsDieWithTheirGroup checks that a spline column is removed together with the group of its number. A
// spline column must not form a group of its own.
func TestBasisColumnsDieWithTheirGroup(t *testing.T) {
	s := event.NewSchema(0, nil, 2)
	s.ColumnGroups = &event.ColumnGroups{Named: []event.NamedColumns{{Name: "g", Spans: []event.Span{{From: 2, To: 4}}}}}
	splines := must.Get(model.NewSplines([]uint32{1, 3}, [][]float64{{-1, 0, 1}, {-2, -1, 0, 2}}))(t)
	columns := []uint32{1, 2, 3, splines.BasisColumn(0, 0), splines.BasisColumn(0, 1), splines.BasisColumn(1, 3)}
	c := Corrupter{Noise: loss.GroupDropout{Groups: 0.5}, Seed: 3, Grouping: model.NewGrouping(s), Splines: splines}
	plain := Corrupter{Noise: c.Noise, Seed: 3, Grouping: model.NewGrouping(s)}
	for n := range 50 {
		got, want := c.Dead(columns, nil, n, 0, nil), plain.Dead(columns[:3], nil, n, 0, nil)
		want = append(want, want[0], want[0], want[2])
		must.True(t, slices.Equal(got, want), "event %d: %v of %v die, want %v", n, got, columns, want)
	}
	must.Equal(t, c.Grouping.Len(), 2, "groups, want that of column 1 and g")
}
