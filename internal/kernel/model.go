package kernel

// This file defines the models of kernel machines and their file format.

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Model is a model with K outputs f_k = sum_j c_jk k(x_j, scale(x)) + b_k over support vectors x_j. It implements
// model.Model. A file of kind "kernel" has these blocks, little-endian:
//
//	model                   JSON: the Head of a model, and the kernel
//	support/columns         uint32 by compact column: the Schema's column
//	support/ends            uint32 by support vector: the end of its entries
//	support/index           uint32 by entry: its compact column
//	support/values          float64 by entry
//	support/coefficients    float64 by support vector and output
//	names …                 the Schema's dictionary, if it has one
//	columns, rows/0000 …    the Scaler's statistics, if it has any
type Model struct {
	model.Head
	Kernel Kernel
	// Vectors is the number of dual support vectors (alpha > 0), summed over the binary problems. The model's expansion
	// may have more examples.
	Vectors int
	// Rows has the Scaler's statistics, as in model.Linear; nil without a Scaler.
	Rows *model.Table

	columns []uint32 // the Schema's column of each compact column, ascending
	ends    []uint32 // end of the entries of each support vector
	index   []uint32 // compact column of each entry
	values  []float64
	coef    []float64 // coef[j*Outputs+k] for support vector j and output k
	rows    *Rows     // the support vectors, indexed by column
}

// NewModel returns the model with these support vectors and coefficients: coef[j*outputs+k] for vector j and output k.
// The model owns both slices.
func NewModel(head model.Head, k Kernel, vectors []event.Vec, coef []float64) (*Model, error) {
	m := &Model{Head: head, Kernel: k, coef: coef}
	for _, x := range vectors {
		m.columns = append(m.columns, x.Index...)
	}
	slices.Sort(m.columns)
	m.columns = slices.Compact(m.columns)
	for _, x := range vectors {
		for _, column := range x.Index {
			at, _ := slices.BinarySearch(m.columns, column)
			m.index = append(m.index, uint32(at))
		}
		m.values = append(m.values, x.Value...)
		m.ends = append(m.ends, uint32(len(m.index)))
	}
	return m, m.complete()
}

// complete checks the support vectors, and builds their index by column.
func (m *Model) complete() error {
	if len(m.values) != len(m.index) || len(m.coef) != len(m.ends)*m.Outputs {
		return fmt.Errorf("block support/values: %d values for %d entries, %d coefficients for %d support vectors and %d outputs",
			len(m.values), len(m.index), len(m.coef), len(m.ends), m.Outputs)
	}
	for name, list := range map[string][]float64{"values": m.values, "coefficients": m.coef} {
		if i := slices.IndexFunc(list, func(x float64) bool { return x-x != 0 }); i >= 0 {
			return fmt.Errorf("block support/%s: entry %d is %v", name, i, list[i])
		}
	}
	for i, c := range m.columns {
		if i > 0 && c <= m.columns[i-1] {
			return fmt.Errorf("block support/columns: column %d after %d", c, m.columns[i-1])
		}
	}
	from := uint32(0)
	for i, end := range m.ends {
		if end < from || int(end) > len(m.index) || i == len(m.ends)-1 && int(end) != len(m.index) {
			return fmt.Errorf("block support/ends: support vector %d ends at entry %d of %d", i, end, len(m.index))
		}
		for at := from; at < end; at++ {
			if c := m.index[at]; int(c) >= len(m.columns) || at > from && c <= m.index[at-1] {
				return fmt.Errorf("block support/index: support vector %d: column %d of %d is out of order", i, c, len(m.columns))
			}
		}
		from = end
	}
	if len(m.ends) == 0 && len(m.index) > 0 {
		return fmt.Errorf("block support/ends: %d entries of no support vector", len(m.index))
	}
	m.rows = NewRows(m.Kernel, len(m.ends), len(m.columns), func(i int) ([]uint32, []float64) {
		from := uint32(0)
		if i > 0 {
			from = m.ends[i-1]
		}
		return m.index[from:m.ends[i]], m.values[from:m.ends[i]]
	})
	return nil
}

// Support returns the number of examples in the model's expansion.
func (m *Model) Support() int { return len(m.ends) }

// String returns the kernel and the number of support vectors.
func (m *Model) String() string {
	return fmt.Sprintf("kernel model (%s, %d support vectors)", m.Kernel, m.Support())
}

// Kind returns "kernel".
func (m *Model) Kind() string { return "kernel" }

// Score implements model.Model.
func (m *Model) Score(e *event.Example, out []float64) []float64 {
	x := e.Features
	if m.Rows != nil {
		x = m.Standardized(e, event.Vec{})
	}
	return m.ScoreMissing(x, e, out)
}

// Standardized implements model.Model.
func (m *Model) Standardized(e *event.Example, out event.Vec) event.Vec {
	if m.Rows == nil {
		return event.Vec{Index: append(out.Index, e.Features.Index...), Value: append(out.Value, e.Features.Value...)}
	}
	return (&model.Linear{Head: m.Head, Rows: m.Rows}).Standardized(e, out)
}

// Center implements model.Model.
func (m *Model) Center(column uint32) float64 {
	if m.Rows == nil {
		return 0
	}
	return (&model.Linear{Head: m.Head, Rows: m.Rows}).Center(column)
}

// ScoreVec implements model.Model.
func (m *Model) ScoreVec(x event.Vec, out []float64) []float64 { return m.score(x, 1, out) }

// ScoreMissing implements model.Model.
func (m *Model) ScoreMissing(x event.Vec, e *event.Example, out []float64) []float64 {
	return m.score(x, m.Handling(e).Scale, out)
}

// score computes ScoreVec for the features multiplied by scale.
func (m *Model) score(x event.Vec, scale float64, out []float64) []float64 {
	out = out[:m.Outputs]
	copy(out, m.Intercept)
	m.add(x, scale, out)
	return m.ClassScores(out)
}

// WithScaler returns m with the Scaler and statistics of another model, whose standardized features m was trained on.
func (m *Model) WithScaler(of *model.Linear) *Model {
	if of.Layout.Stats < 0 {
		return m
	}
	out := *m
	out.Scaler, out.Layout = of.Scaler, model.Layout{Width: model.ScalerWidth}
	out.Rows = model.NewTable(model.ScalerWidth)
	of.CopyStats(out.Rows, 0)
	return &out
}

// modelHead is the JSON block of a model file.
type modelHead struct {
	model.Head
	Kernel  string `json:"kernel"`
	Vectors int    `json:"support_vectors"`
}

// EachBlock encodes the model as blocks.
func (m *Model) EachBlock() (iter.Seq[event.Block], error) {
	head, err := json.Marshal(modelHead{m.Head, m.Kernel.String(), m.Vectors})
	if err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	out := []event.Block{{Name: "model", Data: head}, {Name: "support/columns", Data: listOf(m.columns)}, {Name: "support/ends", Data: listOf(m.ends)},
		{Name: "support/index", Data: listOf(m.index)}, {Name: "support/values", Data: listOf(m.values)}, {Name: "support/coefficients", Data: listOf(m.coef)}}
	out = append(out, m.Schema.Names.Blocks()...)
	if m.Rows != nil {
		out = append(out, m.Rows.Blocks()...)
	}
	return slices.Values(out), nil
}

// listOf encodes numbers as a block.
func listOf[T uint32 | float64](list []T) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		panic(err) // unreachable: the numbers have a fixed size
	}
	return out
}

// readList decodes a block of numbers.
func readList[T uint32 | float64](blocks []event.Block, name string) ([]T, error) {
	raw, err := event.FindBlock(blocks, name)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(raw)/binary.Size(T(0)))
	if n, err := binary.Decode(raw, binary.LittleEndian, list); err != nil || n != len(raw) {
		return nil, fmt.Errorf("block %s: %d bytes are not a whole number of entries", name, len(raw))
	}
	return list, nil
}

// ReadModel decodes the result of EachBlock.
func ReadModel(blocks []event.Block) (*Model, error) {
	var head modelHead
	if err := event.ReadJSON(blocks, "model", &head); err != nil {
		return nil, err
	}
	k, err := Parse(head.Kernel)
	if err != nil {
		return nil, fmt.Errorf("block model: %w", err)
	}
	if r, ok := k.(RBF); ok && r.Sigma == 0 || k == (Chi2{}) {
		return nil, fmt.Errorf("block model: the kernel %q lacks its width", head.Kernel)
	}
	if !head.Fits() {
		return nil, fmt.Errorf("block model: %d outputs and %d intercepts do not fit", head.Outputs, len(head.Intercept))
	}
	if head.Schema.Names, err = event.ReadNames(blocks); err != nil {
		return nil, err
	}
	m := &Model{Head: head.Head, Kernel: k, Vectors: head.Vectors}
	m.columns, err = readList[uint32](blocks, "support/columns")
	var err2, err3, err4, err5 error
	m.ends, err2 = readList[uint32](blocks, "support/ends")
	m.index, err3 = readList[uint32](blocks, "support/index")
	m.values, err4 = readList[float64](blocks, "support/values")
	m.coef, err5 = readList[float64](blocks, "support/coefficients")
	if err := cmp.Or(err, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	if err := m.complete(); err != nil {
		return nil, err
	}
	if l := m.Layout; l.Width > 0 {
		if l.Stats < 0 || l.Stats > l.Width-model.ScalerWidth {
			return nil, fmt.Errorf("block model: statistics at %d of rows of %d", l.Stats, l.Width)
		}
		if m.Rows, err = model.ReadTable(l.Width, blocks); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// add adds the sum over the support vectors, f(scale x), to out.
func (m *Model) add(x event.Vec, scale float64, out []float64) {
	columns, values := make([]uint32, 0, x.Len()), make([]float64, 0, x.Len())
	xx, from := 0.0, 0
	for i, d := range x.Index {
		v := scale * x.Value[i]
		xx += m.Kernel.Pair(v, v)
		c, ok := slices.BinarySearch(m.columns[from:], d)
		from += c
		if ok {
			columns, values = append(columns, uint32(from)), append(values, v)
		}
	}
	k := make([]float64, len(m.ends))
	for s := range m.rows.Shards() {
		m.rows.Into(s, columns, values, xx, k)
	}
	for j, kj := range k {
		for o := range m.Outputs {
			out[o] += m.coef[j*m.Outputs+o] * kj
		}
	}
}
