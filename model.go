package blankout

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Block is a named piece of a model or checkpoint file. Who writes it decides
// what the bytes mean; the container (package checkpoint) only guards them.
type Block struct {
	Name string
	Data []byte
}

// FindBlock returns the data of the block of that name.
func FindBlock(blocks []Block, name string) ([]byte, error) {
	for _, b := range blocks {
		if b.Name == name {
			return b.Data, nil
		}
	}
	return nil, fmt.Errorf("no block %q", name)
}

// Linear is a linear model with K outputs: f_k = w_k . scale(x) + b_k. It knows
// everything a prediction needs, so a file alone gives the same scores as the
// learner that wrote it. A Linear is immutable and safe for concurrent use.
type Linear struct {
	Head
	// Rows holds the values of every column that has any; the published weight
	// of output k is row[Layout.Weight+k] + Layout.Average row[Layout.Lag+k].
	Rows *Table
}

// Head is everything of a model but its rows; it is the JSON block "model" of a
// model file.
type Head struct {
	Schema  *Schema `json:"schema"`
	Scaler  Scaler  `json:"scaler"`
	Loss    string  `json:"loss"`  // as loss.Parse reads it, or the name of another objective
	Noise   string  `json:"noise"` // as ParseNoise reads it
	Outputs int     `json:"outputs"`
	// Pairs says that the outputs tell two classes apart each, in the order
	// (1,0), (2,0), (2,1), (3,0) …: one-against-one. See ClassScores.
	Pairs     bool      `json:"pairs,omitempty"`
	Intercept []float64 `json:"intercept"` // published, one for each output
	Layout    Layout    `json:"layout"`
	// Calibration maps a score to a probability, see Probabilities.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Threshold is the probability above which an event of two classes counts as
	// positive; 0 is one half. See Predict.
	Threshold float64 `json:"threshold,omitempty"`
	// Missing says what is known to be missing from an event, and what the score
	// then is.
	Missing *Missing `json:"missing,omitempty"`
	Events  uint64   `json:"events"`            // learned from
	Trained string   `json:"trained,omitempty"` // by which solver, for people
}

// Layout says where in a row the weights are. A learner's rows also hold its
// metric and more; a batch model's hold the weights alone (width K, all zero here).
type Layout struct {
	Width  int `json:"width"`
	Weight int `json:"weight"`
	// The average of the iterates is kept as its lag behind the iterate, up to
	// a common factor: average = weight + Average lag. Average 0 means none.
	Lag     int     `json:"lag,omitempty"`
	Average float64 `json:"average,omitempty"`
	// Stats is where the column's running statistics start (see Scaler), -1 if
	// rows hold none.
	Stats int `json:"stats"`
}

// Calibration is Platt's map of a score: P(positive) = 1/(1 + exp(-(A f + B))).
type Calibration struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// NewLinear returns a Linear of dense weights, weights[k][d] for output k and
// column d, and one intercept for each output. Columns whose weights are all
// zero get no row.
func NewLinear(schema *Schema, loss, noise string, weights [][]float64, intercept []float64) *Linear {
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

func (m *Linear) weight(row []float64, k int) float64 {
	w := row[m.Layout.Weight+k]
	if m.Layout.Average != 0 {
		w += m.Layout.Average * row[m.Layout.Lag+k]
	}
	return w
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

// Score writes the K scores of an event to out, which must have room for them,
// and returns out[:K]. Where fields are known to be missing, Missing decides.
func (m *Linear) Score(e *Example, out []float64) []float64 {
	scale, _ := m.Answer(e)
	return m.ScoreRescaled(e, scale, out)
}

// ScoreRescaled writes the scores of what an event holds, every feature, after
// the Scaler, multiplied by scale.
func (m *Linear) ScoreRescaled(e *Example, scale float64, out []float64) []float64 {
	out = out[:m.Outputs]
	clear(out)
	for column, x := range m.Scaler.Each(e.Features) {
		row := m.Rows.Row(column)
		if row == nil {
			continue
		}
		if stats := m.Stats(row); stats != nil {
			x = m.Scaler.Apply(stats, x)
		}
		for k := range out {
			out[k] += scale * x * m.weight(row, k)
		}
	}
	for k := range out {
		out[k] += m.Intercept[k]
	}
	return m.ClassScores(out)
}

// ScoreVec is Score for features that have passed the Scaler already, as
// Standardised returns them.
func (m *Linear) ScoreVec(x Vec, out []float64) []float64 {
	out = out[:m.Outputs]
	clear(out)
	for i, d := range x.Index {
		if row := m.Rows.Row(d); row != nil {
			for k := range out {
				out[k] += x.Value[i] * m.weight(row, k)
			}
		}
	}
	for k := range out {
		out[k] += m.Intercept[k]
	}
	return m.ClassScores(out)
}

// ClassScores turns outputs into the scores that Predict and Probabilities
// take, in place. They are the same but for Pairs: there the scores are the
// probabilities of the classes, coupled from those of the pairs.
func (h *Head) ClassScores(outputs []float64) []float64 {
	if !h.Pairs {
		return outputs
	}
	k := len(h.Schema.Classes)
	copy(outputs, couple(k, func(a, b int) float64 { return sigmoid(outputs[a*(a-1)/2+b]) }))
	return outputs[:k]
}

// Predict returns the class of an event given its scores: for one output class
// 1 if the score is positive, else 0; for more the first of the largest.
func Predict(scores []float64) (class int) {
	if len(scores) == 1 {
		if scores[0] > 0 {
			return 1
		}
		return 0
	}
	for k, f := range scores {
		if f > scores[class] {
			class = k
		}
	}
	return class
}

// Predict returns the class of an event given its scores, as the function Predict
// does, but of two classes with one output the positive one only if its
// probability exceeds Threshold.
func (h *Head) Predict(scores []float64) (class int) {
	if len(scores) != 1 {
		return Predict(scores)
	}
	if a, b := h.Decision(); a*scores[0]+b > 0 {
		return 1
	}
	return 0
}

// Decision returns a and b: Predict takes the positive one of two classes where
// a f + b is above 0 for the score f of one output.
func (h *Head) Decision() (a, b float64) {
	a = 1
	if c := h.Calibration; c != nil {
		a, b = c.A, c.B
	}
	if h.Threshold > 0 {
		b -= math.Log(h.Threshold / (1 - h.Threshold))
	}
	return a, b
}

// Probabilities writes the probability of every class to out, which must have
// room for max(2, K) values. One output: the calibrated logistic function of
// the score. More: the one-against-all probabilities divided by their sum.
func (h *Head) Probabilities(scores, out []float64) []float64 {
	if h.Pairs {
		return append(out[:0], scores...)
	}
	c := Calibration{A: 1}
	if h.Calibration != nil {
		c = *h.Calibration
	}
	if len(scores) == 1 {
		p := sigmoid(c.A*scores[0] + c.B)
		return append(out[:0], 1-p, p)
	}
	out = out[:len(scores)]
	sum := 0.0
	for k, f := range scores {
		out[k] = sigmoid(c.A*f + c.B)
		sum += out[k]
	}
	for k := range out {
		if sum > 0 {
			out[k] /= sum
		} else {
			out[k] = 1 / float64(len(out))
		}
	}
	return out
}

func sigmoid(u float64) float64 { return 1 / (1 + math.Exp(-u)) }

// Blocks encodes the Linear: the JSON block "model", the block of its names and
// the blocks of its rows.
func (m *Linear) Blocks() ([]Block, error) {
	each, err := m.EachBlock()
	if err != nil {
		return nil, err
	}
	return slices.Collect(each), nil
}

// EachBlock yields what Blocks returns, the rows encoded one block at a time.
func (m *Linear) EachBlock() (iter.Seq[Block], error) {
	head, err := json.Marshal(m.Head)
	if err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	return func(yield func(Block) bool) {
		for _, b := range append([]Block{{"model", head}}, m.Schema.Names.Blocks()...) {
			if !yield(b) {
				return
			}
		}
		m.Rows.EachBlock()(yield)
	}, nil
}

// Fits reports whether a Head that was read is one of a model of either kind: the
// outputs fit the intercepts and the pairs of classes.
func (h *Head) Fits() bool {
	if h.Schema == nil || h.Outputs < 1 || len(h.Intercept) != h.Outputs || !(h.Threshold >= 0 && h.Threshold < 1) {
		return false
	}
	k := len(h.Schema.Classes)
	return !h.Pairs || k > 2 && h.Outputs == k*(k-1)/2
}

// ReadLinear reads a Linear from the blocks of a model file or a learner's
// checkpoint; blocks it does not know are left alone.
func ReadLinear(blocks []Block) (*Linear, error) {
	data, err := FindBlock(blocks, "model")
	if err != nil {
		return nil, err
	}
	m := &Linear{}
	if err := json.Unmarshal(data, &m.Head); err != nil {
		return nil, fmt.Errorf("block model: %w", err)
	}
	h, l := &m.Head, m.Layout
	last := l.Width - h.Outputs // where a column's weights may begin
	bad := !h.Fits() || l.Weight < 0 || l.Weight > last || l.Lag < 0 || l.Lag > last ||
		l.Stats >= 0 && l.Stats > l.Width-ScalerWidth || math.IsNaN(l.Average)
	if bad {
		return nil, fmt.Errorf("block model: %d outputs, %d intercepts and layout %+v do not fit", h.Outputs, len(h.Intercept), l)
	}
	if h.Schema.Names, err = ReadNames(blocks); err != nil {
		return nil, err
	}
	if m.Rows, err = ReadTable(l.Width, blocks); err != nil {
		return nil, err
	}
	return m, nil
}
