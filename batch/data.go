package batch

// This file has Data, the training set that every solver reads.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Data is a training set in compressed sparse rows. Its columns are compact: the columns 0 … Columns()-1 are the
// Schema's columns that occur in the set, in ascending order. Column returns the Schema's column of a compact column.
// Data is immutable and safe for concurrent use; [Data.Subset] shares its memory.
//
// An entry takes 4 bytes if every value in its chunk is 1, 8 bytes if all values in the chunk are exact as float32, and
// 12 bytes otherwise.
type Data struct {
	// Schema is the Schema under which the events were decoded.
	Schema *event.Schema

	rows    []rowRef
	chunks  []*chunk
	columns []uint32 // column of the Schema by compact column
	entries int

	labels  []int32
	targets []float64 // regression targets; nil while all are 0
	weights []float64 // importance of each event; nil while all are 1
	fields  columnFields
	splines *model.Splines // splines whose columns are in columns; nil for none
	dead    []float64      // value of a dead feature by compact column, see SetDead; nil if all are 0

	// If corruption is set, the rows are noisy copies of the rows of clean. They are drawn when they are read.
	corruption *corruption
	clean      *Data
}

type rowRef struct{ chunk, from, n uint32 }

// chunk has the entries of consecutive rows. If it stores no values, every value is 1.
type chunk struct {
	index []uint32
	f32   []float32
	f64   []float64
}

// Row is one row of Data, in memory that Data owns. Index[i] is a compact column and At(i) its value.
type Row struct {
	Index []uint32
	f32   []float32
	f64   []float64
}

// Rows returns the number of events.
func (d *Data) Rows() int { return len(d.rows) }

// Columns returns the number of compact columns.
func (d *Data) Columns() int { return len(d.columns) }

// Features returns the number of columns that are not of a knot of a spline.
func (d *Data) Features() int {
	n, _ := slices.BinarySearch(d.columns, model.FirstBasisColumn)
	return n
}

// Column returns the Schema's column of a compact column.
func (d *Data) Column(c int) uint32 { return d.columns[c] }

// HasSplines reports whether the columns include spline columns.
func (d *Data) HasSplines() bool { return d.splines != nil }

// Label returns the class of event i or event.Unlabeled.
func (d *Data) Label(i int) int { return int(d.labels[i]) }

// Target returns the regression target of event i, or 0 for an event without a target.
func (d *Data) Target(i int) float64 {
	if d.targets == nil {
		return 0
	}
	return d.targets[i]
}

// Weight returns the importance of event i.
func (d *Data) Weight(i int) float64 {
	if d.weights == nil {
		return 1
	}
	return d.weights[i]
}

// importance returns the weight of event i in a list that replaces the weights of d unless it is nil.
func (d *Data) importance(weights []float64, i int) float64 {
	if weights == nil {
		return d.Weight(i)
	}
	return weights[i]
}

// Row returns row i. The Row is valid as long as d.
func (d *Data) Row(i int) Row {
	if d.corruption != nil {
		return d.corruption.row(d, i)
	}
	r := d.rows[i]
	c := d.chunks[r.chunk]
	from, to := r.from, r.from+r.n
	row := Row{Index: c.index[from:to]}
	switch {
	case c.f32 != nil:
		row.f32 = c.f32[from:to]
	case c.f64 != nil:
		row.f64 = c.f64[from:to]
	}
	return row
}

// Vec returns row i with the Schema's columns. The result uses the memory of x.
func (d *Data) Vec(i int, x event.Vec) event.Vec {
	row := d.Row(i)
	x = event.Vec{Index: x.Index[:0], Value: x.Value[:0]}
	for j, c := range row.Index {
		x.Index, x.Value = append(x.Index, d.columns[c]), append(x.Value, row.At(j))
	}
	return x
}

// Len returns the number of entries.
func (r Row) Len() int { return len(r.Index) }

// At returns the value of entry i.
func (r Row) At(i int) float64 {
	if r.f32 != nil {
		return float64(r.f32[i])
	}
	if r.f64 != nil {
		return r.f64[i]
	}
	return 1
}

// Dot returns the product w.x. The slice w may have more elements than columns.
func (r Row) Dot(w []float64) float64 {
	switch {
	case r.f32 != nil:
		return dotOf(r.Index, r.f32, w)
	case r.f64 != nil:
		return dotOf(r.Index, r.f64, w)
	}
	var s, s1, s2, s3 float64
	index := r.Index
	for len(index) >= 4 {
		s += w[index[0]]
		s1 += w[index[1]]
		s2 += w[index[2]]
		s3 += w[index[3]]
		index = index[4:]
	}
	for _, d := range index {
		s += w[d]
	}
	return s + s1 + (s2 + s3)
}

// dotOf accumulates four sums, so that an addition does not wait for the previous one.
func dotOf[T float32 | float64](index []uint32, values []T, w []float64) float64 {
	var s, s1, s2, s3 float64
	for len(index) >= 4 && len(values) >= 4 {
		s += w[index[0]] * float64(values[0])
		s1 += w[index[1]] * float64(values[1])
		s2 += w[index[2]] * float64(values[2])
		s3 += w[index[3]] * float64(values[3])
		index, values = index[4:], values[4:]
	}
	for i, d := range index {
		s += w[d] * float64(values[i])
	}
	return s + s1 + (s2 + s3)
}

// AddTo adds a times the row to w.
func (r Row) AddTo(w []float64, a float64) {
	switch {
	case r.f32 != nil:
		for i, d := range r.Index {
			w[d] += a * float64(r.f32[i])
		}
	case r.f64 != nil:
		for i, d := range r.Index {
			w[d] += a * r.f64[i]
		}
	default:
		for _, d := range r.Index {
			w[d] += a
		}
	}
}

// without returns a copy of d without some of the columns.
func (d *Data) without(column func(uint32) bool) *Data {
	out, err := d.changed(nil, func(x event.Vec) event.Vec {
		n := 0
		for j, at := range x.Index {
			if column(at) {
				continue
			}
			x.Index[n], x.Value[n] = at, x.Value[j]
			n++
		}
		return event.Vec{Index: x.Index[:n], Value: x.Value[:n]}
	})
	if err != nil {
		panic(err) // cannot happen: d was built from the same rows
	}
	out.SetDead(d.deadOf())
	if n := len(out.columns); n > 0 && out.columns[n-1] >= model.FirstBasisColumn {
		out.splines = d.splines
	}
	return out
}

// changed returns d with other features, which have these splines. The function change gets the features of each row in
// turn and may modify them. The result has no dead values.
func (d *Data) changed(splines *model.Splines, change func(x event.Vec) event.Vec) (*Data, error) {
	b := Builder{Splines: splines}
	var x event.Vec
	for i := range d.Rows() {
		x = d.Vec(i, x)
		if err := b.Add(&event.Example{Features: change(x), Label: d.Label(i), Target: d.Target(i), Weight: d.Weight(i)}); err != nil {
			return nil, err
		}
	}
	b.d.fields = d.fields
	return b.Data(d.Schema), nil
}

// Subset returns Data with the given rows in the given order. It shares entries and columns with d.
func (d *Data) Subset(rows []int) *Data {
	if d.corruption != nil {
		panic("batch: a subset of corrupted copies; corrupt the subset")
	}
	s := *d
	s.rows, s.labels = pick(d.rows, rows), pick(d.labels, rows)
	s.weights, s.targets = pick(d.weights, rows), pick(d.targets, rows)
	s.entries = 0
	for _, r := range s.rows {
		s.entries += int(r.n)
	}
	return &s
}

// pick returns the elements of a list with the given indices; nil for the nil list.
func pick[T any](list []T, at []int) []T {
	if list == nil {
		return nil
	}
	out := make([]T, len(at))
	for j, i := range at {
		out[j] = list[i]
	}
	return out
}

// farthest is the smallest ratio to the usual size at which FarthestOutlier reports a reading.
const farthest = 1e4

// FarthestOutlier returns the column with the largest ratio of its largest |x| to its usual size. The usual size is the
// geometric mean of the nonzero |x|. The result ok is true if the ratio is above ten thousand. Such readings dominate a
// model if the data are not standardized.
func (d *Data) FarthestOutlier() (column uint32, largest, usual float64, ok bool) {
	most, least := make([]float64, d.Columns()), make([]float64, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if a := math.Abs(row.At(j)); a > 0 {
				if most[c] = max(most[c], a); least[c] == 0 || a < least[c] {
					least[c] = a
				}
			}
		}
	}
	logs, n := make(map[uint32]float64), make(map[uint32]float64)
	for c := range most {
		if most[c] > farthest*least[c] {
			logs[uint32(c)] = 0
		}
	}
	if len(logs) == 0 {
		return 0, 0, 0, false
	}
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if a := math.Abs(row.At(j)); a > 0 && most[c] > farthest*least[c] {
				logs[c] += math.Log(a)
				n[c]++
			}
		}
	}
	ratio := float64(farthest)
	for c := range uint32(len(most)) {
		if n[c] == 0 {
			continue
		}
		if mean := loss.Exp(logs[c] / n[c]); most[c] > ratio*mean {
			column, largest, usual, ok, ratio = d.Column(int(c)), most[c], mean, true, most[c]/mean
		}
	}
	return column, largest, usual, ok
}
