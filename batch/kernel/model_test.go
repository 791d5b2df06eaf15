package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
	"blankout/batch"
	"blankout/batch/internal/problems"
)

func testModel(t *testing.T, k batch.Kernel) (*Model, *batch.Data, []float64) {
	t.Helper()
	x, y := problems.Gaussian(61, 30, 6, true)
	d := denseData(t, x, y, nil)
	r := rand.New(rand.NewPCG(1, 1))
	coef := make([]float64, 2*len(x))
	for i := range coef {
		if i%6 > 1 { // every third row has no coefficient
			coef[i] = r.NormFloat64()
		}
	}
	m, err := NewModel(blankout.Head{Schema: d.Schema, Loss: "dropsvm", Noise: "none", Outputs: 2, Intercept: []float64{0.5, -1}}, k, d, coef)
	if err != nil {
		t.Fatal(err)
	}
	return m, d, coef
}

func TestModelScores(t *testing.T) {
	for _, k := range []batch.Kernel{batch.LinearKernel{}, RBF{1.5}, Polynomial{3}, Chi2{1.2}} {
		m, d, coef := testModel(t, k)
		if m.Support() != 20 {
			t.Fatalf("%d support vectors, want 20", m.Support())
		}
		gram, err := NewGram(k, d, 1)
		if err != nil {
			t.Fatal(err)
		}
		each, err := m.EachBlock()
		if err != nil {
			t.Fatal(err)
		}
		blocks := slices.Collect(each)
		again, err := ReadModel(blocks)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Rows() {
			e := blankout.Example{Features: d.Vec(i, blankout.Vec{})}
			want := []float64{0.5, -1}
			for j, v := range gram.Row(i) {
				want[0] += coef[2*j] * v
				want[1] += coef[2*j+1] * v
			}
			got := m.Score(&e, make([]float64, 2))
			for o := range want {
				if math.Abs(got[o]-want[o]) > 1e-12*(1+math.Abs(want[o])) {
					t.Fatalf("%s: score %d of example %d is %v, want %v", k, o, i, got[o], want[o])
				}
			}
			if read := again.Score(&e, make([]float64, 2)); !slices.Equal(read, got) {
				t.Fatalf("%s: scores %v after reading, %v before", k, read, got)
			}
			// A column that no support vector has counts in |x|, and nowhere else.
			other := e
			other.Features = e.Features.Clone()
			other.Features.Index = append(other.Features.Index, 9999)
			other.Features.Value = append(other.Features.Value, 2)
			far := m.Score(&other, make([]float64, 2))
			switch k.(type) {
			case batch.LinearKernel, Polynomial:
				if !slices.Equal(far, got) {
					t.Fatalf("%s: an unknown column moves the score from %v to %v", k, got, far)
				}
			default:
				shrink := k.Of(0, 0, map[bool]float64{true: 2, false: 4}[k.String()[0] == 'c'])
				if math.Abs(far[0]-0.5-shrink*(got[0]-0.5)) > 1e-12 {
					t.Fatalf("%s: an unknown column moves the score from %v to %v", k, got, far)
				}
			}
			// Half the features missing: the survivors count double.
			half := e
			half.Features = e.Features.Clone()
			for j := range half.Features.Value {
				half.Features.Value[j] /= 2
			}
			double := m.score(half.Features, 2, make([]float64, 2))
			for o := range double {
				if math.Abs(double[o]-got[o]) > 1e-11 {
					t.Fatalf("%s: rescaled %v, want %v", k, double, got)
				}
			}
		}
	}
}

func TestReadModelRefuses(t *testing.T) {
	m, _, _ := testModel(t, RBF{1.5})
	each, err := m.EachBlock()
	if err != nil {
		t.Fatal(err)
	}
	blocks := slices.Collect(each)
	for i := range blocks {
		if _, err := ReadModel(slices.Delete(slices.Clone(blocks), i, i+1)); err == nil {
			t.Errorf("read without the block %s", blocks[i].Name)
		}
		for _, n := range []int{1, 4, 8} {
			cut := slices.Clone(blocks)
			cut[i].Data = cut[i].Data[:len(cut[i].Data)-n]
			if _, err := ReadModel(cut); err == nil {
				t.Errorf("read with the last %d bytes of %s cut off", n, blocks[i].Name)
			}
		}
	}
	nan := slices.Clone(blocks)
	last := &nan[len(nan)-1]
	last.Data = slices.Repeat([]byte{0xff}, len(last.Data))
	if _, err := ReadModel(nan); err == nil {
		t.Error("read coefficients that are not numbers")
	}
	nan = slices.Clone(blocks)
	nan[3].Data = slices.Repeat([]byte{0xff}, len(nan[3].Data))
	if _, err := ReadModel(nan); err == nil {
		t.Error("read columns out of range")
	}
}

// The statistics of a Scaler travel with the model.
func TestModelStandardises(t *testing.T) {
	m, d, _ := testModel(t, RBF{1.5})
	m.Scaler.Mode = blankout.StandardiseAll
	m.Layout = blankout.Layout{Width: blankout.ScalerWidth}
	m.Rows = blankout.NewTable(blankout.ScalerWidth)
	for c := range d.Columns() {
		copy(m.Rows.Touch(d.Column(c)), []float64{10, 0, 1, 3, 0.25}) // centre 3, scale 4
	}
	each, err := m.EachBlock()
	if err != nil {
		t.Fatal(err)
	}
	blocks := slices.Collect(each)
	again, err := ReadModel(blocks)
	if err != nil {
		t.Fatal(err)
	}
	e := blankout.Example{Features: blankout.Vec{Index: []uint32{0, 2}, Value: []float64{7, 1}}}
	want := m.ScoreVec(blankout.Vec{Index: []uint32{0, 2}, Value: []float64{1, -0.5}}, make([]float64, 2))
	for _, k := range []*Model{m, again} {
		if got := k.Score(&e, make([]float64, 2)); !slices.Equal(got, want) {
			t.Errorf("scores %v, of the standardised features %v", got, want)
		}
	}
}
