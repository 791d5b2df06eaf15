package model

// This file defines the parts that all models share: the interface, and the head of a file.

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Model is the interface of trained models: a [Linear], or the kernel machine of package kernel. Everything that makes
// predictions uses it. Use a type assertion for methods of linear models only, such as weights and contributions of
// features. A Model is immutable and safe for concurrent use.
type Model interface {
	// About returns the Head, which all kinds of models have. The caller must not change it.
	About() *Head
	// Score writes the K scores of an event to out and returns them. The capacity of out must be at least K and at
	// least the number of classes. Head.Missing determines how missing fields are scored.
	Score(e *event.Example, out []float64) []float64
	// Standardized appends the standardized features of an event to out. Absent dense columns count as 0.
	Standardized(e *event.Example, out event.Vec) event.Vec
	// ScoreVec is Score for standardized features. It ignores missing fields.
	ScoreVec(x event.Vec, out []float64) []float64
	// ScoreMissing is ScoreVec for standardized features of an event, with missing fields. Field, Missing and
	// MissingColumns of e determine which fields are present and missing.
	ScoreMissing(x event.Vec, e *event.Example, out []float64) []float64
	// Center returns the raw value of a column that is standardized to 0. It returns 0 if nothing is standardized.
	Center(column uint32) float64
	// Kind returns the name of the model's kind in its file.
	Kind() string
	// EachBlock yields the blocks of the model's file. Callers must not change their data, which are valid until the
	// model changes.
	EachBlock() (iter.Seq[event.Block], error)
}

// Head has the properties that models of all kinds have. It is stored as the JSON block "model" of a model file.
type Head struct {
	Schema  *event.Schema `json:"schema"`
	Scaler  Scaler        `json:"scaler"`
	Loss    string        `json:"loss"`  // a name for loss.Parse, or the name of another objective
	Noise   string        `json:"noise"` // a name for loss.ParseNoise
	Outputs int           `json:"outputs"`
	// Pairs means one-against-one classification: each output separates two classes, in the order (1,0), (2,0), (2,1),
	// (3,0) …. See ClassScores.
	Pairs     bool      `json:"pairs,omitempty"`
	Intercept []float64 `json:"intercept"` // published intercepts, one per output
	// Experts lists the experts that are mixed, for reports; empty if there is only one expert.
	Experts []Expert `json:"experts,omitempty"`
	Layout  Layout   `json:"layout"`
	// Link maps a score to log-odds, see Decision.Probability; nil is the identity.
	Link *Link `json:"link,omitempty"`
	// Positive is the name of the positive class of two, for reports and measures; "" means the second class. Scores
	// are always scores of the second class.
	Positive string `json:"positive,omitempty"`
	// Threshold is the probability of the second class of two above which it is predicted; 0 means one half. See
	// Predict.
	Threshold float64 `json:"threshold,omitempty"`
	// Missing determines which fields are missing, and how an event is then scored.
	Missing *Missing `json:"missing,omitempty"`
	// Faults determines which readings count as missing; nil if none do.
	Faults *Faults `json:"faults,omitempty"`
	// Doubt finds numbers that contradict the rest of their event; nil for none.
	Doubt *Doubt `json:"doubt,omitempty"`
	// Dead has the values of silently dead numbers; nil if unknown.
	Dead *Dead `json:"dead,omitempty"`
	// Levels are additional weights, learned under other noise than Noise. Missing uses them to score events with
	// missing fields. The additional weights are stored in the model's rows.
	Levels []Level `json:"levels,omitempty"`
	// Covariance imputes missing numbers; nil if the model cannot impute. A model file stores it as a separate block.
	Covariance *Covariance `json:"-"`
	// Cosines is a part of the scores in addition to the weights of Layout; nil for none. A model file stores it as a
	// separate block.
	Cosines *CosineWeights `json:"-"`
	// Residual is the distribution of residuals for regression; nil if unknown.
	Residual *Residual `json:"residual,omitempty"`
	// Sets has the limits of prediction sets and intervals; nil if unknown.
	Sets *Sets `json:"sets,omitempty"`
	// Stale is a warning that lists the ages at which the stream's weights have predicted worse than the class
	// frequencies. Stale is "" if there is no such age.
	Stale string `json:"stale,omitempty"`
	// LastLabel is the weight that the learner gives the last label in its own predictions, which the model leaves out.
	LastLabel float64 `json:"last_label,omitempty"`
	Events    uint64  `json:"events"`            // number of events learned
	Trained   string  `json:"trained,omitempty"` // name of the solver, for reports
}

// Level has the weights of one noise level, in addition to the weights of the Head.
type Level struct {
	Noise     string    `json:"noise"`     // a name for loss.ParseNoise
	Intercept []float64 `json:"intercept"` // one intercept per output
	Layout    Layout    `json:"layout"`    // layout in the Head's rows
}

// NoiseOf returns the noise under which the weights of a MissingHandling were learned.
func (h *Head) NoiseOf(a MissingHandling) string {
	if a.Level == 0 || a.Level > len(h.Levels) {
		return h.Noise
	}
	return h.Levels[a.Level-1].Noise
}

// About returns the Head itself.
func (h *Head) About() *Head { return h }

// Expert is one of the mixed learners, with its mixture weight for complete events. The weights of the noise levels sum
// to 1. If an expert corrects the noise levels, its weight is its fraction of the corrected prediction; the noise
// levels have the remaining fraction. The weight of "cosines" is their factor, because they are added to that prediction. A
// report also has "last label", with its weight in mixtures with the prediction of the model.
type Expert struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Corrects bool    `json:"corrects,omitempty"` // whether the expert corrects the noise levels
}

// Layout has the positions of the weights in a row. A learner's rows also contain accumulators and other state. A batch
// model's rows contain only the weights (width K, all positions 0).
type Layout struct {
	Width  int `json:"width"`
	Weight int `json:"weight"`
	// Lag is the index in the row of the lag of the average of the iterates. The average is row[Weight+k] + Average
	// row[Lag+k]. Average 0 means that there is no average.
	Lag     int     `json:"lag,omitempty"`
	Average float64 `json:"average,omitempty"`
	// Stats is the position of the column's statistics (see Scaler), or -1 if rows have none.
	Stats int `json:"stats"`
	// Outputs has, for each score, the index of its weight after Weight and Lag, for models in which several classes
	// share a weight. The index is -1 for a class without a weight. If Outputs is nil, every score has its own weight.
	Outputs []int `json:"outputs,omitempty"`
	// Mix lists the parts of a mixed weight, and replaces Weight, Lag and Average. The weight is w = sum Factor
	// (row[Weight+k] + Average row[Lag+k]).
	Mix []Part `json:"mix,omitempty"`
	// Scale is the factor of weights that were learned in another unit of the targets, see Target; 0 means 1. Intercept
	// and scores are in the stream's unit.
	Scale float64 `json:"scale,omitempty"`
}

// Part is one term of the weights that a Layout mixes.
type Part struct {
	Factor  float64 `json:"factor"` // factor in the mixed weight
	Weight  int     `json:"weight"`
	Lag     int     `json:"lag"`
	Average float64 `json:"average"`
}

// weight returns the weight of output k of a row, in the unit of the row.
func (l *Layout) weight(row []float64, k int) (w float64) {
	if l.Mix != nil {
		return l.mixed(row, k)
	}
	if w = row[l.Weight+k]; l.Average != 0 {
		w += l.Average * row[l.Lag+k]
	}
	return w
}

// published returns the weight of a row for score k, see Outputs and Scale.
func (l *Layout) published(row []float64, k int) float64 {
	if l.Outputs != nil {
		if k = l.Outputs[k]; k < 0 {
			return 0
		}
	}
	w := l.weight(row, k)
	if l.Scale != 0 {
		w *= l.Scale
	}
	return w
}

// mixed returns the mixed weight of a row for output k.
func (l *Layout) mixed(row []float64, k int) (w float64) {
	for i := range l.Mix {
		p := &l.Mix[i]
		w += p.Factor * (row[p.Weight+k] + p.Average*row[p.Lag+k])
	}
	return w
}

// rowOutputs returns the number of outputs in a row of a model with the given number of scores.
func (l *Layout) rowOutputs(scores int) int {
	if l.Outputs == nil {
		return scores
	}
	return max(1, slices.Max(l.Outputs)+1)
}

// fits reports whether the positions of a Layout are within the rows.
func (l Layout) fits(outputs int) bool {
	if l.Outputs != nil && (len(l.Outputs) != outputs || slices.Min(l.Outputs) < -1) {
		return false
	}
	outputs = l.rowOutputs(outputs)
	last := l.Width - outputs // largest start index of a column's weights
	fits := func(weight, lag int, average float64) bool {
		return weight >= 0 && weight <= last && lag >= 0 && lag <= last && !math.IsNaN(average)
	}
	for _, p := range l.Mix {
		if !fits(p.Weight, p.Lag, p.Average) || p.Factor-p.Factor != 0 {
			return false
		}
	}
	return fits(l.Weight, l.Lag, l.Average) && (l.Stats < 0 || l.Stats <= l.Width-ScalerWidth) && l.Scale >= 0 && !math.IsInf(l.Scale, 1)
}

// Fits reports whether a decoded Head is consistent: the outputs fit the intercepts and the pairs of classes.
func (h *Head) Fits() bool {
	if h.Schema == nil || h.Outputs < 1 || len(h.Intercept) != h.Outputs || !(h.Threshold >= 0 && h.Threshold < 1) || h.Link != nil && h.Link.Check() != nil || !h.Dead.fits() {
		return false
	}
	k := len(h.Schema.Classes)
	return !h.Pairs || k > 2 && h.Outputs == k*(k-1)/2
}

// The part below defines the linear model.

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
	out := m.CompactFile()
	out.Rows.Fill()
	return out
}

// CompactFile is Compact for a caller that only writes the result to a file. The rows are computed while they are written,
// so that they take no memory; until then m must not change.
func (m *Linear) CompactFile() *Linear {
	return m.packed(m.Layout.rowOutputs(m.Outputs), (*Layout).weight, func(was, packed *Layout) {
		packed.Scale, packed.Outputs = was.Scale, was.Outputs
	})
}

// packed returns the model with rows that contain only scale statistics and, for the Head and for each Level, k weights.
// complete sets the rest of their Layouts. The rows must be filled, see Table.Derive.
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
	out.Rows.Fill()
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
