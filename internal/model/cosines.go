package model

// This file defines cosines, the part of a score in which numbers act together.

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// CosineBasis has cosines of standardized numbers (random Fourier features; Rahimi & Recht 2007). Cosine j is
//
//	cos(2 pi (phase_j + sum_i frequency_ij z_i)),
//
// where z has the numbers, 0 for a missing one. A cosine has a few numbers, because relations of few numbers are
// frequent. Cosines of all numbers would represent them worse. The draws depend only on the number of columns, so only the
// columns are saved. A CosineBasis is immutable.
type CosineBasis struct {
	Columns []uint32 // columns of the numbers, ascending
	phase   [Cosines]float64
	// The numbers of a cosine, as indices in z, and their frequencies. Unused places have frequency 0.
	place     [mostCosine][Cosines]uint8
	frequency [mostCosine][Cosines]float64
}

// CosineNumbers has the numbers z of an event, by index in CosineBasis.Columns.
type CosineNumbers = [MaxCosineColumns]float64

const (
	// Cosines is the number of cosines, and MaxCosineColumns the largest number of columns.
	Cosines, MaxCosineColumns = 256, 64
	// A cosine has fewestCosine to mostCosine numbers.
	fewestCosine, mostCosine = 2, 4
	cosineSeed               = 24
)

// cosineWidths are the bandwidths of the cosines, as fractions of the median distance between two events. The median
// distance of n independent numbers with deviation 1 is near the square root of 2n.
var cosineWidths = [2]float64{0.4, 0.2}

// NewCosineBasis returns a CosineBasis that owns columns. It returns nil if there are too many columns, or too few: splines
// represent a single number better.
func NewCosineBasis(columns []uint32) *CosineBasis {
	if len(columns) < fewestCosine || len(columns) > MaxCosineColumns {
		return nil
	}
	b, r := &CosineBasis{Columns: columns}, rand.New(rand.NewPCG(cosineSeed, uint64(len(columns))))
	places := make([]uint8, len(columns))
	for i := range places {
		places[i] = uint8(i)
	}
	for j := range b.phase {
		n := fewestCosine
		for n < mostCosine && j >= firstCosineOf(n+1) {
			n++
		}
		n = min(n, len(columns)) // at least fewestCosine
		width := cosineWidths[j%len(cosineWidths)] * math.Sqrt(2*float64(n))
		for i := range n {
			other := i + r.IntN(len(places)-i)
			places[i], places[other] = places[other], places[i]
			b.place[i][j], b.frequency[i][j] = places[i], r.NormFloat64()/(2*math.Pi*width)
		}
		b.phase[j] = r.Float64()
	}
	return b
}

// Values writes the values of all cosines at the numbers z to out.
func (b *CosineBasis) Values(z *CosineNumbers, out *[Cosines]float64) {
	p, f := &b.place, &b.frequency
	for j, x := range b.phase {
		out[j] = x + f[0][j]*z[p[0][j]%MaxCosineColumns] + f[1][j]*z[p[1][j]%MaxCosineColumns]
	}
	for j := firstCosineOf(3); j < Cosines; j++ {
		out[j] += f[2][j] * z[p[2][j]%MaxCosineColumns]
	}
	for j := firstCosineOf(4); j < Cosines; j++ {
		out[j] += f[3][j] * z[p[3][j]%MaxCosineColumns]
	}
	takeCosines(out)
}

// firstCosineOf returns the first cosine that has the given number of numbers.
func firstCosineOf(numbers int) int {
	return (numbers - fewestCosine) * Cosines / (mostCosine - fewestCosine + 1)
}

// Shape returns the phase of a cosine, and its columns with their frequencies.
func (b *CosineBasis) Shape(cosine int) (phase float64, columns []uint32, frequencies []float64) {
	for i := range mostCosine {
		if f := b.frequency[i][cosine]; f != 0 {
			columns, frequencies = append(columns, b.Columns[b.place[i][cosine]]), append(frequencies, f)
		}
	}
	return b.phase[cosine], columns, frequencies
}

// takeCosines replaces x by cos(2 pi x), with errors below 1e-13. It is several times as fast as math.Cos. The result is
// wrong where x is above 2^50.
func takeCosines(x *[Cosines]float64) {
	if hasAVX2 {
		cosinesAVX2(&x[0], Cosines/8, &cosineConstants)
		return
	}
	takeCosinesGo(x)
}

func takeCosinesGo(x *[Cosines]float64) {
	c := &cosineConstants
	for j, t := range x {
		t -= (t + c[0]) - c[0]
		s := c[1] - math.Abs(t) // cos(2 pi t) = sin(2 pi s), with s from -1/4 to 1/4
		u := s * s
		p := c[9]
		for i := 8; i > 2; i-- {
			p = p*u + c[i]
		}
		x[j] = s * p
	}
}

// cosineConstants has 1.5 2^52, whose addition and subtraction rounds to an integer, 1/4, the mask of an absolute value,
// and the polynomial sin(2 pi s)/s in s^2 that interpolates at Chebyshev points.
var cosineConstants = [10]float64{3 << 51, 0.25, math.Float64frombits(1<<63 - 1), 6.2831853071792701236, -41.341702239903672014, 81.605249149015829376,
	-76.705847543773266658, 42.058134871372057197, -15.081483206892999734, 3.6658551595639611937}

// CosineWeights is the part of a model's scores that is a weighted sum of cosines. It is immutable.
type CosineWeights struct {
	Basis   *CosineBasis
	Outputs int
	Weights []float64 // by cosine and output; outputs are those of a row, see Layout.Outputs
	// Factors has the factor of the sum in the score, by MissingHandling.Range.
	Factors [1 + MissingBins]float64
}

// Sum writes the weighted sums of the cosines at z to out, by output of a row.
func (c *CosineWeights) Sum(z *CosineNumbers, out []float64) {
	var values [Cosines]float64
	c.Basis.Values(z, &values)
	SumCosines(&values, c.Weights, out)
}

// SumCosines writes the sums of values times weights, which are by cosine and output, to out.
func SumCosines(values *[Cosines]float64, weights, out []float64) {
	if len(out) == 1 {
		out[0] = Product(weights, values[:])
		return
	}
	clear(out)
	for j, v := range values {
		for k, w := range weights[j*len(out):][:len(out)] {
			out[k] += v * w
		}
	}
}

// count reports whether the cosines have a part in the scores of a range of the missing fraction.
func (c *CosineWeights) count(r int) bool { return c != nil && c.Factors[r] != 0 }

// AddCosines adds the part of the cosines to the outputs of an event. x has its standardized features.
func (m *Linear) AddCosines(x event.Vec, a MissingHandling, out []float64) {
	c := m.Cosines
	if !c.count(a.Range) {
		return
	}
	var z CosineNumbers
	m.cosineNumbers(x, a.Roles, &z)
	sums, of, scale := make([]float64, c.Outputs), m.Layout.Outputs, c.Factors[a.Range]
	c.Sum(&z, sums)
	for k := range out {
		from := k
		if of != nil {
			from = of[k]
		}
		if from >= 0 {
			out[k] += scale * sums[from]
		}
	}
}

// CosineWeights yields the cosines of m and their weights in each score, multiplied by factor. There must be cosines.
func (m *Linear) CosineWeights(factor float64) iter.Seq2[int, []float64] {
	c := m.Cosines
	if of := m.Layout.Outputs; of != nil {
		c = c.withOutputs(of)
	}
	return func(yield func(int, []float64) bool) {
		for j := range Cosines {
			own := slices.Clone(c.Weights[j*c.Outputs:][:c.Outputs])
			for k := range own {
				own[k] *= factor
			}
			if !yield(j, own) {
				return
			}
		}
	}
}

// Cosine is the form in which a cosine is exported. With z the standardized numbers in Columns, it adds to the scores
//
//	Weights cos(2 pi (Phase + sum Frequencies z)).
type Cosine struct {
	Phase       float64   `json:"phase"`
	Columns     []uint32  `json:"columns"`
	Frequencies []float64 `json:"frequencies"`
	Weights     []float64 `json:"weights"` // by output, for an event without missing fields
}

// ExportedCosines returns the cosines of m, nil for none.
func (m *Linear) ExportedCosines() (out []Cosine) {
	if m.Cosines == nil {
		return nil
	}
	for j, weights := range m.CosineWeights(m.Cosines.Factors[0]) {
		c := Cosine{Weights: weights}
		c.Phase, c.Columns, c.Frequencies = m.Cosines.Basis.Shape(j)
		out = append(out, c)
	}
	return out
}

// cosineNumbers sets z, which has only 0, to the numbers of an event for its cosines: the values in x, estimates for
// missing numbers that are imputed, and 0 for others.
func (m *Linear) cosineNumbers(x event.Vec, roles ColumnRoles, z *CosineNumbers) {
	columns := m.Cosines.Basis.Columns
	for to, from := range CommonColumns(columns, x.Index) {
		z[to] = x.Value[from]
	}
	if roles == nil {
		return
	}
	m.eachImputed(x, roles, func(column uint32, value float64) {
		if at, ok := slices.BinarySearch(columns, column); ok {
			z[at] = value
		}
	})
}

// CommonColumns yields the indices of each column that is on both lists, which must ascend.
func CommonColumns(columns, others []uint32) iter.Seq2[int, int] {
	return func(yield func(at, other int) bool) {
		at := 0
		for i, column := range others {
			for at < len(columns) && columns[at] < column {
				at++
			}
			if at == len(columns) || columns[at] == column && !yield(at, i) {
				return
			}
		}
	}
}

// withOutputs returns c with separate outputs, one for each entry of the list, which has indices of outputs of c or -1.
func (c *CosineWeights) withOutputs(of []int) *CosineWeights {
	if c == nil {
		return nil
	}
	out := *c
	out.Outputs, out.Weights = len(of), make([]float64, 0, Cosines*len(of))
	for j := range Cosines {
		for _, k := range of {
			w := 0.0
			if k >= 0 {
				w = c.Weights[j*c.Outputs+k]
			}
			out.Weights = append(out.Weights, w)
		}
	}
	return &out
}

const blockCosines = "cosines"

// block returns the block of the model's file.
func (c *CosineWeights) block() event.Block {
	w := coder.Coder{}
	columns := c.Basis.Columns
	own := *c
	own.state(&w, &columns)
	return event.Block{Name: blockCosines, Data: w.Out}
}

// state encodes or decodes the columns of the basis, the weights and the factors.
func (c *CosineWeights) state(w *coder.Coder, columns *[]uint32) {
	w.Uint32s(columns)
	w.Int(&c.Outputs)
	w.Floats(&c.Weights)
	for i := range c.Factors {
		w.Float(&c.Factors[i])
	}
}

// readCosines reads the weights of a model with this number of outputs in a row. It returns nil if the model has no
// cosines.
func readCosines(blocks []event.Block, outputs int) (*CosineWeights, error) {
	data, err := event.FindBlock(blocks, blockCosines)
	if err != nil {
		return nil, nil // the block is optional
	}
	c, r, columns := &CosineWeights{}, coder.Read(data), []uint32(nil)
	if c.state(r, &columns); !r.Done() {
		return nil, fmt.Errorf("block cosines: %d bytes do not fit its format", len(data))
	}
	finite := func(list []float64) bool {
		return !slices.ContainsFunc(list, func(x float64) bool { return x-x != 0 })
	}
	if c.Basis = NewCosineBasis(columns); c.Basis == nil || !slices.IsSorted(columns) || c.Outputs != outputs || len(c.Weights) != Cosines*outputs || !finite(c.Weights) || !finite(c.Factors[:]) {
		return nil, fmt.Errorf("block cosines: %d columns, %d outputs and %d weights do not fit a model of %d outputs", len(columns), c.Outputs, len(c.Weights), outputs)
	}
	return c, nil
}
