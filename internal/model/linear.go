package model

// This file defines the linear model.

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Linear is a linear model with K outputs: f_k = w_k . scale(x) + b_k. It contains everything that a prediction needs,
// so its file gives the same scores as the learner that wrote it. A Linear is immutable and safe for concurrent use.
type Linear struct {
	Head
	// Rows has the values of all columns with weights. The published weight of output k is row[Layout.Weight+k] +
	// Layout.Average row[Layout.Lag+k].
	Rows *Table

	imputations *recent[*imputedWeights] // cache, see WithCovariance; nil while the weights are being learned
	levels      []*Linear                // one model for each of Head.Levels; nil while the weights are being learned
}

// Alone returns m without Head.Levels: every event is predicted with the weights for complete events.
func (m *Linear) Alone() *Linear {
	out := *m
	out.Levels, out.levels = nil, nil
	if out.Missing != nil && out.Missing.Levels != nil {
		out.Missing = out.Missing.WithLevels(nil)
	}
	return &out
}

// At returns the model with the weights that a MissingHandling selects.
func (m *Linear) At(a MissingHandling) *Linear {
	switch i := a.Level; {
	case i == 0 || i > len(m.Levels):
		return m
	case m.levels != nil:
		return m.levels[i-1]
	default:
		return m.level(m.Levels[i-1])
	}
}

// level returns a model that has only the weights of a Level.
func (m *Linear) level(l Level) *Linear {
	out := *m
	out.Noise, out.Intercept, out.Layout = l.Noise, l.Intercept, l.Layout
	out.Levels, out.levels = nil, nil
	if m.imputations != nil {
		out.imputations = &recent[*imputedWeights]{}
	}
	return &out
}

// NewLinear returns a Linear with dense weights, weights[k][d] for output k and column d, and one intercept per output.
// Columns whose weights are all zero get no row.
func NewLinear(schema *event.Schema, loss, noise string, weights [][]float64, intercept []float64) *Linear {
	k := len(weights)
	m := &Linear{Head: Head{Schema: schema, Loss: loss, Noise: noise, Outputs: k, Intercept: intercept,
		Layout: Layout{Width: k, Stats: -1}}, Rows: NewTable(k)}
	for d := range weights[0] {
		zero := true
		for _, w := range weights {
			zero = zero && w[d] == 0
		}
		if zero {
			continue
		}
		row := m.Rows.Touch(uint32(d))
		for j, w := range weights {
			row[j] = w[d]
		}
	}
	return m
}

// Weight returns the published weight of a column for output k.
func (m *Linear) Weight(column uint32, k int) float64 {
	row := m.Rows.Row(column)
	if row == nil {
		return 0
	}
	return m.weight(row, k)
}

func (m *Linear) weight(row []float64, k int) float64 { return m.Layout.published(row, k) }

// Compact returns the model with rows that contain only mixed weights and scale statistics. The rows of a model that is
// being learned contain much more.
func (m *Linear) Compact() *Linear {
	return m.packed(m.Layout.rowOutputs(m.Outputs), (*Layout).weight, func(was, packed *Layout) {
		packed.Scale, packed.Outputs = was.Scale, was.Outputs
	})
}

// packed returns the model with rows that contain only scale statistics and, for the Head and for each Level, k weights.
// complete sets the rest of their Layouts.
func (m *Linear) packed(k int, weight func(l *Layout, row []float64, k int) float64, complete func(was, packed *Layout)) *Linear {
	out := *m
	out.Levels, out.levels = slices.Clone(m.Levels), nil
	was, packed := []*Layout{&m.Layout}, []*Layout{&out.Layout}
	for i := range m.Levels {
		was, packed = append(was, &m.Levels[i].Layout), append(packed, &out.Levels[i].Layout)
	}
	stats := 0
	if m.Layout.Stats >= 0 {
		stats = ScalerWidth
	}
	width := stats + len(was)*k
	out.Rows = m.Rows.Derive(width, func(to, row []float64) {
		if stats > 0 {
			copy(to, row[m.Layout.Stats:][:stats])
		}
		for i, l := range was {
			for j := range k {
				to[stats+i*k+j] = weight(l, row, j)
			}
		}
	})
	for i, l := range was {
		*packed[i] = Layout{Width: width, Weight: stats + i*k, Stats: min(m.Layout.Stats, 0)}
		complete(l, packed[i])
	}
	return out.WithCovariance(m.Covariance)
}

// WithSeparateOutputs returns a model in which every score has separate weights. It returns m if no scores share weights.
func (m *Linear) WithSeparateOutputs() *Linear {
	if m.Layout.Outputs == nil {
		return m
	}
	out := m.packed(m.Outputs, (*Layout).published, func(_, _ *Layout) {})
	out.Cosines = m.Cosines.withOutputs(m.Layout.Outputs)
	return out.WithCovariance(m.Covariance)
}

// Norm returns the Euclidean norm of the published weights of all outputs.
func (m *Linear) Norm() float64 {
	sum := 0.0
	for i := range m.Rows.Len() {
		_, row := m.Rows.Column(i)
		for k := range m.Outputs {
			w := m.weight(row, k)
			sum += w * w
		}
	}
	return math.Sqrt(sum)
}

// Score writes the scores of an event to out and returns them. It implements Model.
func (m *Linear) Score(e *event.Example, out []float64) []float64 {
	if m.Doubt.Corrects() {
		out, _ = m.ScoreDoubted(e, out)
		return out
	}
	return m.score(m.declared(e), out)
}

// ScoreDoubted is Score, and also returns the doubted readings of the event; nil if there are none.
func (m *Linear) ScoreDoubted(e *event.Example, out []float64) ([]float64, *Doubted) {
	e = m.declared(e)
	scores, x := m.score(e, out), m.Doubted(e)
	if x == nil {
		return scores, nil
	}
	x.Each(m.Doubt, func(weight float64, e *event.Example) {
		scores = MixScores(m.Decision(), m.Target() != loss.Sign, weight, scores, m.score(e, make([]float64, cap(out))))
	})
	return scores, x
}

// score is Score for an event whose numbers are taken as they are.
func (m *Linear) score(e *event.Example, out []float64) []float64 {
	a := m.Handling(e)
	if a.Roles != nil || m.Cosines.count(a.Range) {
		return m.ClassScores(m.AnswerOutputs(m.Standardized(e, event.Vec{}), a, out))
	}
	return m.At(a).ScoreRescaled(e, a.Scale, out)
}

// ScoreRescaled writes the scores of an event whose standardized features are multiplied by scale.
func (m *Linear) ScoreRescaled(e *event.Example, scale float64, out []float64) []float64 {
	e = m.declared(e)
	out = out[:m.Outputs]
	clear(out)
	for column, x := range m.Scaler.Each(e.Features) {
		row := m.Rows.Row(column)
		if row == nil || e.MissesColumn(m.Scaler.Splines.Source(column)) {
			continue
		}
		x = m.standardize(row, x)
		for k := range out {
			out[k] += scale * x * m.weight(row, k)
		}
	}
	for k := range out {
		out[k] += m.Intercept[k]
	}
	return m.ClassScores(out)
}

// ScoreVec scores standardized features.
func (m *Linear) ScoreVec(x event.Vec, out []float64) []float64 {
	return m.ClassScores(m.AnswerOutputs(x, MissingHandling{Scale: 1}, out))
}

// Kind returns "linear".
func (m *Linear) Kind() string { return "linear" }

// EachBlock yields the blocks of the model file: the JSON block "model", the names and the rows. Row blocks share the
// memory of Rows.
func (m *Linear) EachBlock() (iter.Seq[event.Block], error) {
	head, err := event.JSONBlock("model", m.Head)
	if err != nil {
		return nil, err
	}
	blocks := append([]event.Block{head}, m.Schema.Names.Blocks()...)
	if m.Covariance != nil {
		blocks = append(blocks, m.Covariance.Block())
	}
	if m.Cosines != nil {
		blocks = append(blocks, m.Cosines.block())
	}
	return event.JoinBlocks(slices.Values(blocks), m.Rows.EachBlock()), nil
}

// ReadLinear reads a Linear from the blocks of a model file or a learner's checkpoint. It ignores unknown blocks.
func ReadLinear(blocks []event.Block) (*Linear, error) {
	m := &Linear{}
	h := &m.Head
	err := event.ReadJSON(blocks, "model", h)
	if err != nil {
		return nil, err
	}
	if l := h.Layout; !h.Fits() || !l.fits(h.Outputs) {
		return nil, fmt.Errorf("block model: %d outputs, %d intercepts and layout %+v do not fit", h.Outputs, len(h.Intercept), l)
	}
	for _, l := range h.Levels {
		if l.Layout.Width != h.Layout.Width || l.Layout.Stats != h.Layout.Stats || !l.Layout.fits(h.Outputs) || len(l.Intercept) != h.Outputs {
			return nil, fmt.Errorf("block model: level %s: %d outputs, %d intercepts and layout %+v do not fit", l.Noise, h.Outputs, len(l.Intercept), l.Layout)
		}
	}
	if h.Missing != nil && len(h.Missing.Levels) > 0 && (slices.Min(h.Missing.Levels) < 0 || slices.Max(h.Missing.Levels) > len(h.Levels)) {
		return nil, fmt.Errorf("block model: levels %v for missing fields, of %d", h.Missing.Levels, len(h.Levels))
	}
	if f, fields := h.Faults, len(h.Schema.Fields); f != nil && len(f.byField) > fields && fields > 0 { // a model kept to measure staleness has no fields
		return nil, fmt.Errorf("block model: faults of %d fields, of %d", len(f.byField), len(h.Schema.Fields))
	}
	if h.Sets != nil {
		if err := h.Sets.check(); err != nil {
			return nil, fmt.Errorf("block model: %w", err)
		}
	}
	if h.Doubt != nil {
		if err := h.Doubt.check(); err != nil {
			return nil, fmt.Errorf("block model: %w", err)
		}
	}
	if h.Residual != nil {
		if err := h.Residual.ByValue.check(); err != nil {
			return nil, fmt.Errorf("block model: %w", err)
		}
	}
	if c := h.Scaler.Splines; c != nil {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("block model: %w", err)
		}
	}
	h.Schema.Closed = len(h.Schema.Fields)
	if h.Schema.Names, err = event.ReadNames(blocks); err != nil {
		return nil, err
	}
	if m.Rows, err = ReadTable(h.Layout.Width, blocks); err != nil {
		return nil, err
	}
	covariance, err := readCovariance(blocks)
	if err != nil {
		return nil, err
	}
	if m.Cosines, err = readCosines(blocks, h.Layout.rowOutputs(h.Outputs)); err != nil {
		return nil, err
	}
	return m.WithCovariance(covariance), nil
}

// Column is the contribution of one column to the scores of a Linear. A value x adds to output k
//
//	Weights[k] z,  z = (t - Center)/Scale,  t = x, or asinh(x/Unit) if Unit is not 0.
//
// If z is beyond +-Clip, z is replaced by +-Beyond. If Scale is 0, because all values of the column were equal, the
// column adds nothing. All exports use this form.
type Column struct {
	Number          uint32
	Weights         []float64 // weights by output
	Standardization           // Scale is 1 and all other fields are 0 if nothing is standardized
}

// Clip returns the bound of a standardized value, see Column. It returns 0 if nothing is standardized.
func (h *Head) Clip() float64 {
	if h.standardizes() {
		return ScalerClip
	}
	return 0
}

// Columns yields all columns that have a row, in the order of the rows.
func (m *Linear) Columns() iter.Seq[Column] {
	return func(yield func(Column) bool) {
		for i := range m.Rows.Len() {
			number, row := m.Rows.Column(i)
			c := Column{Number: number, Weights: make([]float64, m.Outputs), Standardization: Standardization{Scale: 1}}
			for k := range c.Weights {
				c.Weights[k] = m.weight(row, k)
			}
			if stats := m.Stats(row); stats != nil {
				c.Standardization = m.Scaler.Standardization(stats)
			}
			if !yield(c) {
				return
			}
		}
	}
}
