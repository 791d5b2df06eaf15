package kernel

// This file holds the models of kernel machines and their form in a file.

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"

	"blankout"
	"blankout/batch"
)

// Model is a model with K outputs f_k = sum_j c_jk k(x_j, scale(x)) + b_k
// over support vectors x_j. It is a blankout.Model. In a file of
// kind "kernel" it is these blocks, little-endian:
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
	blankout.Head
	Kernel batch.Kernel
	// Rows holds the Scaler's statistics as in blankout.Linear; nil without a Scaler.
	Rows *blankout.Table

	support *support
	data    *batch.Data
	coef    []float64
}

// NewModel returns the model of coefficients coef[i*outputs+k] for the
// rows of d, as the kernel sees them, and output k. Rows without a coefficient
// are left out; the others are copied. The kernel must be resolved.
func NewModel(head blankout.Head, k batch.Kernel, d *batch.Data, coef []float64) (*Model, error) {
	n := head.Outputs
	if len(coef) != d.Rows()*n || len(head.Intercept) != n {
		panic(fmt.Sprintf("kernel: %d coefficients and %d intercepts for %d rows and %d outputs", len(coef), len(head.Intercept), d.Rows(), n))
	}
	var b batch.Builder
	var x blankout.Vec
	var kept []float64
	for i := range d.Rows() {
		c := coef[i*n : (i+1)*n]
		zero := true
		for _, v := range c {
			zero = zero && v == 0
		}
		if zero {
			continue
		}
		x = d.Vec(i, x)
		if err := b.Add(&blankout.Example{Features: x, Label: blankout.Unlabelled, Weight: 1}); err != nil {
			return nil, err
		}
		kept = append(kept, c...)
	}
	return newModel(head, k, b.Data(head.Schema), kept), nil
}

func newModel(head blankout.Head, k batch.Kernel, d *batch.Data, coef []float64) *Model {
	return &Model{Head: head, Kernel: k, data: d, coef: coef, support: newSupport(k, d, coef, head.Outputs)}
}

// Support returns the number of support vectors.
func (m *Model) Support() int { return m.data.Rows() }

// String names the kernel and the number of support vectors.
func (m *Model) String() string {
	return fmt.Sprintf("kernel model (%s, %d support vectors)", m.Kernel, m.Support())
}

// Kind is "kernel".
func (m *Model) Kind() string { return "kernel" }

// Score is that of blankout.Model.
func (m *Model) Score(e *blankout.Example, out []float64) []float64 {
	x := e.Features
	if m.Rows != nil {
		x = m.Standardised(e, blankout.Vec{})
	}
	return m.ScoreLacking(x, e, out)
}

// Standardised is that of blankout.Model.
func (m *Model) Standardised(e *blankout.Example, out blankout.Vec) blankout.Vec {
	if m.Rows == nil {
		return blankout.Vec{Index: append(out.Index, e.Features.Index...), Value: append(out.Value, e.Features.Value...)}
	}
	return (&blankout.Linear{Head: m.Head, Rows: m.Rows}).Standardised(e, out)
}

// ScoreVec is that of blankout.Model.
func (m *Model) ScoreVec(x blankout.Vec, out []float64) []float64 { return m.score(x, 1, out) }

// ScoreLacking is that of blankout.Model.
func (m *Model) ScoreLacking(x blankout.Vec, e *blankout.Example, out []float64) []float64 {
	return m.score(x, m.Answer(e).Scale, out)
}

// score is ScoreVec of features that are multiplied by scale.
func (m *Model) score(x blankout.Vec, scale float64, out []float64) []float64 {
	out = out[:m.Outputs]
	copy(out, m.Intercept)
	m.support.add(x, scale, out)
	return m.ClassScores(out)
}

// WithScaler returns m with the Scaler of another model and its statistics: m was
// trained on what that made of the features.
func (m *Model) WithScaler(of *blankout.Linear) *Model {
	if of.Layout.Stats < 0 {
		return m
	}
	out := *m
	out.Scaler, out.Layout = of.Scaler, blankout.Layout{Width: blankout.ScalerWidth}
	out.Rows = blankout.NewTable(blankout.ScalerWidth)
	of.CopyStats(out.Rows, 0)
	return &out
}

// modelHead is the JSON block.
type modelHead struct {
	blankout.Head
	Kernel string `json:"kernel"`
}

// EachBlock encodes the model.
func (m *Model) EachBlock() (iter.Seq[blankout.Block], error) {
	head, err := json.Marshal(modelHead{m.Head, m.Kernel.String()})
	if err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	var columns, ends, index, values, coef []byte
	for _, c := range m.support.columns {
		columns = binary.LittleEndian.AppendUint32(columns, c)
	}
	end := uint32(0)
	for i := range m.data.Rows() {
		row := m.data.Row(i)
		end += uint32(row.Len())
		ends = binary.LittleEndian.AppendUint32(ends, end)
		for j, c := range row.Index {
			index = binary.LittleEndian.AppendUint32(index, c)
			values = binary.LittleEndian.AppendUint64(values, math.Float64bits(row.At(j)))
		}
	}
	for _, c := range m.coef {
		coef = binary.LittleEndian.AppendUint64(coef, math.Float64bits(c))
	}
	out := []blankout.Block{{Name: "model", Data: head}, {Name: "support/columns", Data: columns}, {Name: "support/ends", Data: ends},
		{Name: "support/index", Data: index}, {Name: "support/values", Data: values}, {Name: "support/coefficients", Data: coef}}
	out = append(out, m.Schema.Names.Blocks()...)
	if m.Rows != nil {
		out = append(out, m.Rows.Blocks()...)
	}
	return slices.Values(out), nil
}

// readList reads a block of numbers of so many bytes each.
func readList[T any](blocks []blankout.Block, name string, bytes int, number func([]byte) T) ([]T, error) {
	raw, err := blankout.FindBlock(blocks, name)
	if err != nil {
		return nil, err
	}
	if len(raw)%bytes != 0 {
		return nil, fmt.Errorf("block %s: %d bytes are not a whole number of entries", name, len(raw))
	}
	list := make([]T, len(raw)/bytes)
	for i := range list {
		list[i] = number(raw[i*bytes:])
	}
	return list, nil
}

// ReadModel reads what EachBlock wrote.
func ReadModel(blocks []blankout.Block) (*Model, error) {
	data, err := blankout.FindBlock(blocks, "model")
	if err != nil {
		return nil, err
	}
	var head modelHead
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("block model: %w", err)
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
	if head.Schema.Names, err = blankout.ReadNames(blocks); err != nil {
		return nil, err
	}
	columns, err1 := readList(blocks, "support/columns", 4, binary.LittleEndian.Uint32)
	ends, err2 := readList(blocks, "support/ends", 4, binary.LittleEndian.Uint32)
	index, err3 := readList(blocks, "support/index", 4, binary.LittleEndian.Uint32)
	float := func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
	values, err4 := readList(blocks, "support/values", 8, float)
	coef, err5 := readList(blocks, "support/coefficients", 8, float)
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	for name, list := range map[string][]float64{"values": values, "coefficients": coef} {
		if i := slices.IndexFunc(list, func(x float64) bool { return x-x != 0 }); i >= 0 {
			return nil, fmt.Errorf("block support/%s: entry %d is %v", name, i, list[i])
		}
	}
	if len(values) != len(index) || len(coef) != len(ends)*head.Outputs {
		return nil, fmt.Errorf("block support/values: %d values for %d entries, %d coefficients for %d support vectors and %d outputs",
			len(values), len(index), len(coef), len(ends), head.Outputs)
	}
	var b batch.Builder
	from := uint32(0)
	for i, end := range ends {
		if end < from || int(end) > len(index) || i == len(ends)-1 && int(end) != len(index) {
			return nil, fmt.Errorf("block support/ends: support vector %d ends at entry %d of %d", i, end, len(index))
		}
		e := blankout.Example{Label: blankout.Unlabelled, Weight: 1, Features: blankout.Vec{Value: values[from:end]}}
		for _, c := range index[from:end] {
			if int(c) >= len(columns) {
				return nil, fmt.Errorf("block support/index: column %d of %d", c, len(columns))
			}
			e.Features.Index = append(e.Features.Index, columns[c])
		}
		if err := b.Add(&e); err != nil {
			return nil, fmt.Errorf("block support/index: support vector %d: %w", i, err)
		}
		from = end
	}
	if len(ends) == 0 && len(index) > 0 {
		return nil, fmt.Errorf("block support/ends: %d entries of no support vector", len(index))
	}
	m := newModel(head.Head, k, b.Data(head.Schema), coef)
	if l := m.Layout; l.Width > 0 {
		if l.Stats < 0 || l.Stats > l.Width-blankout.ScalerWidth {
			return nil, fmt.Errorf("block model: statistics at %d of rows of %d", l.Stats, l.Width)
		}
		if m.Rows, err = blankout.ReadTable(l.Width, blocks); err != nil {
			return nil, err
		}
	}
	return m, nil
}
