// Package onnx exports models as ONNX graphs for other runtimes. The tests of the Python package run them in
// onnxruntime.
package onnx

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// UnsupportedError names the part of a model that a graph cannot represent.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return "ONNX cannot say " + e.What }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, args...)}
}

// Encode returns an ONNX model that standardizes, scores and classifies as m does.
//
// Inputs: a model with numbered columns has one input, "x", double, shape (n, columns), where an omitted value is 0.
// Other models have one input for each field with its name, shape (n, 1). A number is a double, and NaN is null. A
// boolean is 1, 0 or NaN. A string is a string, and "" is null. In the fields of EmptyStrings the empty string is a
// category, and null is the string that EmptyStrings returns. The model's missing policy handles missing features.
//
// Outputs: "score", double, shape (n, outputs). For classification "label", string, shape (n), and "probabilities",
// double, shape (n, K) in the order of the classes. For regression "value", double, shape (n).
//
// The error is an *UnsupportedError with the part of the model that a graph cannot represent.
func Encode(m *served.Model) ([]byte, error) {
	linear, err := supportedModel(m)
	if err != nil {
		return nil, err
	}
	if len(linear.Schema.Fields) == 1 {
		linear = linear.Alone() // the graph has no input that can be missing
	}
	w := &writer{Linear: linear, weights: map[uint32]model.Column{}, used: map[uint32]string{}}
	var intercepts []float64
	for level := range 1 + len(linear.Levels) {
		m := linear.At(model.MissingHandling{Level: level})
		for c := range m.Columns() {
			c.Weights = append(w.weights[c.Number].Weights, c.Weights...)
			w.weights[c.Number] = c
		}
		intercepts = append(intercepts, m.Intercept...)
	}
	w.width = len(intercepts)
	var total, level string
	if len(w.Schema.Fields) > 1 {
		total, level, err = w.byName(m.Record)
	} else {
		total, err = w.byNumber()
	}
	if err != nil {
		return nil, err
	}
	k := w.Outputs
	if w.cosines != "" {
		total = w.add("Add", []string{total, w.cosines})
	}
	score := w.score(total, level, intercepts)
	w.output(score, doubles, k)
	if target := w.Target(); target != loss.Sign {
		value := "Identity"
		if target == loss.Count {
			value = "Exp"
		}
		column := w.add("Squeeze", []string{score, w.ints(1)})
		w.output(w.named("value", value, []string{column}), doubles, 0)
		return w.encode(), nil
	}
	names := w.classes()
	w.output(w.label(score, names), texts, 0)
	w.output(w.probabilities(score), doubles, len(names))
	return w.encode(), nil
}

// supportedModel returns the linear model of m. It returns an error if a graph cannot represent a part of m.
func supportedModel(m *served.Model) (*model.Linear, error) {
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return nil, unsupported("a kernel machine: it has no weights, and its support vectors are not exported")
	}
	s := m.Schema
	if m.Pairs {
		return nil, unsupported("one-against-one: the coupling of pairs repeats until it converges")
	}
	if k := m.Missing; len(s.Fields) > 1 && k != nil && m.Covariance != nil && k.Imputes() {
		return nil, unsupported("imputed missing values (the policy impute): export with --missing-policy rescale, or train with it")
	}
	if s.ColumnsGoMissing() {
		return nil, unsupported("columns that go missing (--absent missing): zero and missing are one in an array")
	}
	if len(s.Crosses) > 0 {
		return nil, unsupported("crosses %q: their columns are hashes of pairs of values", s.Crosses)
	}
	seen := map[string]bool{}
	for _, f := range s.Fields[1:] {
		switch {
		case f.Kind == event.Words:
			return nil, unsupported("the field %q of words", f.Name)
		case f.Kind == event.Sparse:
			return nil, unsupported("the field %q of a sparse text format", f.Name)
		case seen[f.Name]:
			return nil, unsupported("the field %q of several kinds: an input of ONNX has one type", f.Name)
		}
		seen[f.Name] = true
	}
	return linear, nil
}

// writer builds the graph of a model.
type writer struct {
	graph
	*model.Linear
	weights map[uint32]model.Column // weights by column; each has the weights of all noise levels, in order
	width   int                     // number of weights of a column
	cosines string                  // the part of the cosines in each score; "" for none
	used    map[uint32]string       // columns that the graph contains so far, and their use
}

// dense reports whether an omitted column has the value 0.
func (w *writer) dense(column uint32) bool {
	_, ok := slices.BinarySearch(w.Scaler.Dense, column)
	return ok
}

// standardize returns the standardized x of a column. It uses the same operations as the graph of standardized.
func (w *writer) standardize(c model.Column, x float64) float64 {
	if c.Unit != 0 {
		x = math.Asinh(x / c.Unit)
	}
	if c.Scale == 0 {
		return 0
	}
	z := (x - c.Center) / c.Scale
	if clip := w.Clip(); clip > 0 && math.Abs(z) > clip {
		z = math.Copysign(c.Beyond, z)
	}
	return z
}

// standardized adds nodes that standardize the values of x, shape (n, len(columns)). It returns the name of the result.
// x must not contain NaN.
func (w *writer) standardized(x string, columns []model.Column) string {
	clip := w.Clip()
	if clip == 0 {
		return x
	}
	n := len(columns)
	unit, curved, center, inverse, beyond := make([]float64, n), make([]bool, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, c := range columns {
		unit[i], curved[i], center[i], beyond[i] = 1, c.Unit != 0, c.Center, c.Beyond
		if curved[i] {
			unit[i] = c.Unit
		}
		if c.Scale != 0 {
			inverse[i] = 1 / c.Scale
		}
	}
	if slices.Contains(curved, true) {
		// Compute asinh(t) = sign(t) log(|t| + sqrt(t^2 + 1)), because runtimes lack asinh for doubles.
		t := w.add("Div", []string{x, w.doubles(n, unit...)})
		size := w.add("Abs", []string{t})
		root := w.add("Sqrt", []string{w.add("Add", []string{w.add("Mul", []string{t, t}), w.doubles(0, 1)})})
		asinh := w.add("Mul", []string{w.add("Sign", []string{t}), w.add("Log", []string{w.add("Add", []string{size, root})})})
		x = w.add("Where", []string{w.bools(curved), asinh, x})
	}
	z := w.add("Mul", []string{w.add("Sub", []string{x, w.doubles(n, center...)}), w.doubles(n, inverse...)})
	outlier := w.add("Greater", []string{w.add("Abs", []string{z}), w.doubles(0, clip)})
	most := w.add("Mul", []string{w.add("Sign", []string{z}), w.doubles(n, beyond...)})
	return w.add("Where", []string{outlier, most, z})
}

// withFaultsNull adds nodes that replace values of a numeric field by NaN if they count as missing by the model's
// Faults. It returns the name of the result.
func (w *writer) withFaultsNull(x string, field uint16) string {
	f := w.Faults
	if f == nil {
		return x
	}
	var faults []string
	for _, s := range slices.Concat(f.Stuck, f.Placeholders) {
		if s.Field == field {
			faults = append(faults, w.add("Equal", []string{x, w.doubles(0, s.Value)}))
		}
	}
	if len(faults) == 0 {
		return x
	}
	any := faults[0]
	for _, next := range faults[1:] {
		any = w.add("Or", []string{any, next})
	}
	return w.add("Where", []string{any, w.doubles(0, math.NaN()), x})
}

// matrix adds a constant with the weights of columns, shape (len(columns), outputs).
func (w *writer) matrix(columns []model.Column) string {
	var all []float64
	for _, c := range columns {
		all = append(all, c.Weights...)
	}
	return w.doubles(w.width, all...)
}

// splineInputs adds the contributions of splines to the scores, and returns the names of the results. x has the raw
// values of the columns, and there says which columns are present, both with shape (n, len(columns)). If its column is
// present, a spline contributes its value at the first knot, plus a linear change in each segment between knots.
func (w *writer) splineInputs(columns []model.Column, x, there string) []string {
	splines := w.Scaler.Splines
	if splines == nil {
		return nil
	}
	at := func(spline, knot int) []float64 {
		hat := w.weights[splines.BasisColumn(spline, knot)]
		z, out := w.standardize(hat, 1), make([]float64, w.width)
		for k, weight := range hat.Weights {
			out[k] = z * weight
		}
		return out
	}
	var first, low, high, slopes []float64
	var of []int64 // column index of each segment between knots
	for place, c := range columns {
		spline, ok := slices.BinarySearch(splines.Columns, c.Number)
		if !ok {
			first = append(first, make([]float64, w.width)...)
			continue
		}
		before := at(spline, 0)
		first = append(first, before...)
		for knot, to := range splines.Knots[spline][1:] {
			from, value := splines.Knots[spline][knot], at(spline, knot+1)
			of, low, high = append(of, int64(place)), append(low, from), append(high, to)
			for k, y := range value {
				slopes = append(slopes, (y-before[k])/(to-from))
			}
			before = value
		}
	}
	out := []string{w.add("MatMul", []string{w.double(there), w.doubles(w.width, first...)})}
	if len(of) == 0 {
		return out
	}
	places, n := w.ints(of...), len(of)
	lows := w.doubles(n, low...)
	way := w.add("Min", []string{w.add("Max", []string{w.add("Gather", []string{x, places}, attribute{"axis", 1}), lows}), w.doubles(n, high...)})
	held := w.add("Gather", []string{there, places}, attribute{"axis", 1})
	way = w.add("Where", []string{held, w.add("Sub", []string{way, lows}), w.doubles(0, 0)})
	return append(out, w.add("MatMul", []string{way, w.doubles(w.width, slopes...)}))
}

// addCosines adds the weighted sums of the model's cosines, see model.CosineWeights. z has the standardized values of the
// columns, shape (n, len(columns)). A cosine is a sine with another phase, because runtimes lack Cos for doubles.
func (w *writer) addCosines(columns []model.Column, z string) {
	c := w.Cosines
	if c == nil {
		return
	}
	place := map[uint32]int{}
	for i, column := range columns {
		place[column.Number] = i
	}
	phases, frequencies := make([]float64, model.Cosines), make([]float64, len(columns)*model.Cosines)
	for j := range model.Cosines {
		phase, used, by := c.Basis.Shape(j)
		phases[j] = 2 * math.Pi * (phase + 0.25)
		for i, f := range by {
			if at, ok := place[used[i]]; ok {
				frequencies[at*model.Cosines+j] = 2 * math.Pi * f
			}
		}
	}
	angles := w.add("Add", []string{w.add("MatMul", []string{z, w.doubles(model.Cosines, frequencies...)}), w.doubles(model.Cosines, phases...)})
	var weights []float64
	for _, own := range w.CosineWeights(1) {
		for range w.width / w.Outputs { // the cosines are equal at all noise levels
			weights = append(weights, own...)
		}
	}
	w.cosines = w.add("MatMul", []string{w.add("Sin", []string{angles}), w.doubles(w.width, weights...)})
}

// double converts booleans to doubles.
func (w *writer) double(x string) string {
	return w.add("Cast", []string{x}, attribute{"to", int(doubles)})
}

// byNumber builds the graph of a model with numbered columns, and returns its total score.
func (w *writer) byNumber() (string, error) {
	if !w.Schema.NumericIndices {
		return "", unsupported("columns that are hashed: train with numeric_indices")
	}
	var columns []model.Column
	for number, c := range w.weights {
		if number < model.FirstBasisColumn {
			columns = append(columns, c)
		}
	}
	slices.SortFunc(columns, func(a, b model.Column) int { return cmp.Compare(a.Number, b.Number) })
	width, numbers, dense := 1, make([]int64, len(columns)), make([]bool, len(columns))
	for i, c := range columns {
		width, numbers[i], dense[i] = int(c.Number)+1, int64(c.Number), w.dense(c.Number)
	}
	if width > 1<<20 {
		return "", unsupported("%d columns in one array", width)
	}
	w.input("x", doubles, width)
	x := w.add("Gather", []string{"x", w.ints(numbers...)}, attribute{"axis", 1})
	// An omitted column adds nothing, unless it is a dense column, which is then 0.
	holds := w.add("Not", []string{w.add("Equal", []string{x, w.doubles(0, 0)})})
	there := w.add("Or", []string{holds, w.bools(dense)})
	z := w.add("Where", []string{there, w.standardized(x, columns), w.doubles(0, 0)})
	if w.addCosines(columns, z); w.cosines != "" {
		w.cosines = w.add("Mul", []string{w.cosines, w.doubles(0, w.Cosines.Factors[0])})
	}
	total := w.add("MatMul", []string{z, w.matrix(columns)})
	for _, part := range w.splineInputs(columns, x, there) {
		total = w.add("Add", []string{total, part})
	}
	return total, nil
}

// score adds the score output: total plus intercept. level has shape (n, levels), with a 1 for the noise level whose
// score is used.
func (w *writer) score(total, level string, intercepts []float64) string {
	if w.width == w.Outputs {
		return w.named("score", "Add", []string{total, w.doubles(w.width, intercepts...)})
	}
	all := w.add("Add", []string{total, w.doubles(w.width, intercepts...)})
	all = w.add("Reshape", []string{all, w.ints(-1, int64(w.width/w.Outputs), int64(w.Outputs))})
	// Use Where, so that an infinite score of another level has no effect.
	chosen := w.add("Greater", []string{w.add("Unsqueeze", []string{level, w.ints(2)}), w.doubles(0, 0)})
	all = w.add("Where", []string{chosen, all, w.doubles(0, 0)})
	return w.named("score", "ReduceSum", []string{all, w.ints(1)}, attribute{"keepdims", 0})
}

// byName builds the graph of a model with named fields. It returns the total score, and the noise level that predicts
// (see missingScale).
func (w *writer) byName(how record.Config) (total, level string, err error) {
	t, err := newTable(w, how)
	if err != nil {
		return "", "", err
	}
	var numeric, nulls, parts []string
	var columns []model.Column
	var take []int64 // numeric fields whose columns have weights
	for i, f := range w.Schema.Fields[1:] {
		var at, null string
		var adds []float64
		switch f.Kind {
		case event.Categorical:
			w.input(f.Name, texts, 1)
			values := valuesOf(w.Schema, f.Name)
			keys, numbers := []string{nullAmong(values)}, []int64{0}
			adds = make([]float64, w.width)
			for _, v := range values {
				more, err := t.adds(f.Name, v)
				if err != nil {
					return "", "", err
				}
				numbers, keys, adds = append(numbers, int64(len(keys))), append(keys, v), append(adds, more...)
			}
			adds = append(adds, make([]float64, w.width)...) // zeros for unseen values
			at = w.add("LabelEncoder", []string{f.Name}, attribute{"keys_strings", keys}, attribute{"values_int64s", numbers},
				attribute{"default_int64", len(keys)})
			null = w.add("Equal", []string{at, w.ints(0)})
		case event.Boolean:
			w.input(f.Name, doubles, 1)
			null = w.add("IsNaN", []string{f.Name})
			for _, v := range []bool{false, true} {
				more, err := t.adds(f.Name, v)
				if err != nil {
					return "", "", err
				}
				adds = append(adds, more...)
			}
			adds = append(adds, make([]float64, w.width)...)
			truth := w.add("Where", []string{w.add("Equal", []string{f.Name, w.doubles(0, 0)}), w.ints(0), w.ints(1)})
			at = w.add("Where", []string{null, w.ints(2), truth})
		default:
			w.input(f.Name, doubles, 1)
			value := w.withFaultsNull(f.Name, uint16(i+1))
			null = w.add("IsNaN", []string{value})
			column, err := t.column(f.Name, 1)
			if err != nil {
				return "", "", err
			}
			if c, ok := w.weights[column]; ok {
				take, columns = append(take, int64(len(numeric))), append(columns, c)
			}
			numeric = append(numeric, value)
		}
		nulls = append(nulls, w.double(null))
		if at != "" {
			rows := w.doubles(w.width, adds...)
			parts = append(parts, w.add("Gather", []string{rows, w.add("Squeeze", []string{at, w.ints(1)})}, attribute{"axis", 0}))
		}
	}
	if len(columns) > 0 {
		x := w.add("Concat", numeric, attribute{"axis", 1})
		x = w.add("Gather", []string{x, w.ints(take...)}, attribute{"axis", 1})
		gone := w.add("IsNaN", []string{x})
		x = w.add("Where", []string{gone, w.doubles(0, 0), x})
		z := w.standardized(x, columns)
		// An omitted dense column has the value 0. Other omitted columns add nothing.
		sparse := make([]bool, len(columns))
		for i, c := range columns {
			sparse[i] = !w.dense(c.Number)
		}
		nothing := w.add("And", []string{gone, w.bools(sparse)})
		z = w.add("Where", []string{nothing, w.doubles(0, 0), z})
		w.addCosines(columns, z)
		parts = append(parts, w.add("MatMul", []string{z, w.matrix(columns)}))
		parts = append(parts, w.splineInputs(columns, x, w.add("Not", []string{nothing}))...)
	}
	if err := t.allUsed(); err != nil {
		return "", "", err
	}
	parts = append(parts, w.doubles(w.width, t.base...))
	factor, level := w.missingScale(nulls)
	return w.add("Mul", []string{w.add("Sum", parts), factor}), level, nil
}

// missingScale returns the factor of an event's features, shape (n, 1): Missing.Scale for the fields that are null. nulls
// has, for each field, a 1 where it is null. For a model with several noise levels, level has shape (n, levels), with a
// 1 for the level that predicts.
func (w *writer) missingScale(nulls []string) (factor, level string) {
	policies, counts := model.MissingPolicies{}, make([]float64, len(nulls))
	levels := make([]int, len(policies))
	for i := range counts {
		counts[i] = 1
	}
	if m := w.Missing; m != nil {
		policies = m.Policies
		copy(levels, m.Levels)
		for _, id := range m.NullIsValue {
			counts[id-1] = 0
		}
	}
	gone := w.add("Concat", nulls, attribute{"axis", 1})
	lost := w.add("MatMul", []string{gone, w.doubles(1, counts...)})
	all := w.add("ReduceSum", []string{gone, w.ints(1)}, attribute{"keepdims", 1})
	present := w.add("Sub", []string{w.doubles(0, float64(len(nulls))), all})
	one := w.doubles(0, 1)
	fraction := w.add("Div", []string{lost, w.add("Max", []string{w.add("Add", []string{lost, present}), one})})
	// The weight of rescaling and the noise level change at some of the edges.
	above := make([]string, len(model.MissingEdges))
	for i, edge := range model.MissingEdges {
		above[i] = w.double(w.add("Greater", []string{fraction, w.doubles(0, edge)}))
	}
	byRange := func(value func(bin int) float64) string {
		sum := w.doubles(1, value(0))
		for i := range above {
			if step := value(i+1) - value(i); step != 0 {
				sum = w.add("Add", []string{sum, w.add("Mul", []string{above[i], w.doubles(0, step)})})
			}
		}
		return sum
	}
	applies := byRange(func(bin int) float64 { return policies[bin].Plain()[1] })
	more := w.add("Div", []string{w.add("Mul", []string{lost, applies}), w.add("Max", []string{present, one})})
	some := w.add("Greater", []string{present, w.doubles(0, 0)})
	factor = w.add("Where", []string{some, w.add("Add", []string{one, more}), one})
	missing := w.add("Greater", []string{lost, w.doubles(0, 0)})
	if w.cosines != "" {
		in := byRange(func(bin int) float64 { return w.Cosines.Factors[1+bin] })
		w.cosines = w.add("Mul", []string{w.cosines, w.add("Where", []string{missing, in, w.doubles(1, w.Cosines.Factors[0])})})
	}
	if w.width == w.Outputs {
		return factor, ""
	}
	var answers []string
	for i := range w.width / w.Outputs {
		whole := 0.0
		if i == 0 {
			whole = 1
		}
		in := byRange(func(bin int) float64 {
			if levels[bin] == i {
				return 1
			}
			return 0
		})
		answers = append(answers, w.add("Where", []string{missing, in, w.doubles(1, whole)}))
	}
	return factor, w.add("Concat", answers, attribute{"axis", 1})
}

// classes returns the class names, or the class number if a class has no name.
func (w *writer) classes() []string {
	names := make([]string, max(2, w.Outputs))
	for i := range names {
		if names[i] = strconv.Itoa(i); i < len(w.Schema.Classes) && w.Schema.Classes[i] != "" {
			names[i] = w.Schema.Classes[i]
		}
	}
	return names
}

// label adds the output with the name of the predicted class. names are the class names.
func (w *writer) label(score string, names []string) string {
	at := ""
	if w.Outputs == 1 {
		least := w.doubles(0, w.Decision().Least())
		above := w.add("Cast", []string{w.add("Greater", []string{w.logOdds(score), least})}, attribute{"to", int(int64s)})
		at = w.add("Squeeze", []string{above, w.ints(1)})
	} else {
		at = w.add("ArgMax", []string{score}, attribute{"axis", 1}, attribute{"keepdims", 0})
	}
	return w.named("label", "Gather", []string{w.texts(names), at}, attribute{"axis", 0})
}

// logOdds applies the model's Link to scores: its value at the first knot, plus a linear change in each segment between
// knots.
func (w *writer) logOdds(score string) string {
	l := w.Link
	if l == nil {
		return score
	}
	n := len(l.Scores) - 1
	slopes := make([]float64, n)
	for i := range slopes {
		slopes[i] = (l.LogOdds[i+1] - l.LogOdds[i]) / (l.Scores[i+1] - l.Scores[i])
	}
	lows := w.doubles(n, l.Scores[:n]...)
	way := w.add("Min", []string{w.add("Max", []string{w.add("Unsqueeze", []string{score, w.ints(2)}), lows}), w.doubles(n, l.Scores[1:]...)})
	risen := w.add("MatMul", []string{w.add("Sub", []string{way, lows}), w.doubles(1, slopes...)})
	return w.add("Add", []string{w.add("Squeeze", []string{risen, w.ints(2)}), w.doubles(0, l.LogOdds[0])})
}

// probabilities adds the output with the probability of each class, as Head.Probabilities computes them.
func (w *writer) probabilities(score string) string {
	p := w.add("Sigmoid", []string{w.logOdds(score)})
	if w.Outputs == 1 {
		return w.named("probabilities", "Concat", []string{w.add("Sub", []string{w.doubles(0, 1), p}), p}, attribute{"axis", 1})
	}
	total := w.add("ReduceSum", []string{p, w.ints(1)}, attribute{"keepdims", 1})
	some := w.add("Greater", []string{total, w.doubles(0, 0)})
	shared := w.add("Div", []string{p, w.add("Where", []string{some, total, w.doubles(0, 1)})})
	return w.named("probabilities", "Where", []string{some, shared, w.doubles(0, 1/float64(w.Outputs))})
}

// table computes the contributions of strings and booleans to the scores. It decodes an event with only one field, and
// scores it as for a prediction.
type table struct {
	*writer
	decoder record.Decoder
	example event.Example
	base    []float64 // contribution of omitted dense columns, by output
}

func newTable(w *writer, how record.Config) (*table, error) {
	if w.Schema.Names == nil || w.Schema.Names.Full() {
		return nil, unsupported("strings whose names the model does not keep: train with a larger record.max_names")
	}
	how.Format, how.Unlabeled = "json", true
	decoder, err := record.NewDecoder(how, w.Schema.Clone())
	if err != nil {
		return nil, fmt.Errorf("decoding fields: %w", err)
	}
	return &table{writer: w, decoder: decoder, base: make([]float64, w.width)}, nil
}

// column returns the column of a value of a field. It returns an error if another value has the same column.
func (t *table) column(field string, value any) (uint32, error) {
	event, err := json.Marshal(map[string]any{field: value})
	if err != nil {
		return 0, err
	}
	e := &t.example
	if err := t.decoder.Decode(context.Background(), record.Record{Value: event}, e); err != nil {
		return 0, err
	}
	if e.Refused != nil || e.Features.Len() != 1 {
		return 0, unsupported("the field %q: the event %s holds no such feature", field, event)
	}
	column, name := e.Features.Index[0], field
	if _, numeric := value.(int); !numeric {
		name = fmt.Sprintf("%s=%v", field, value)
	}
	if other, shared := t.used[column]; shared && other != name {
		return 0, unsupported("%q and %q, which share a column: train with more record.bits", name, other)
	}
	t.used[column] = name
	return column, nil
}

// EmptyStrings returns the fields of a model in which the empty string is a category. The result has, for each of these
// fields, the string that means null.
func EmptyStrings(s *event.Schema) map[string]string {
	found := map[string]string{}
	for _, f := range s.Fields[1:] {
		if f.Kind == event.Categorical {
			if null := nullAmong(valuesOf(s, f.Name)); null != "" {
				found[f.Name] = null
			}
		}
	}
	return found
}

// nullAmong returns the string that means null in a field with these categories. The result is "" unless "" is one of
// the categories.
func nullAmong(values []string) string {
	if !slices.Contains(values, "") {
		return ""
	}
	null := "<null>"
	for slices.Contains(values, null) {
		null = "<" + null + ">"
	}
	return null
}

// valuesOf returns the strings that a model has seen in a field.
func valuesOf(s *event.Schema, field string) (values []string) {
	for i := range s.Names.Len() {
		_, name := s.Names.At(i)
		if v, ok := strings.CutPrefix(name, field+"="); ok {
			values = append(values, v)
		}
	}
	return values
}

// adds returns the contribution of a value to each score, without the base.
func (t *table) adds(field string, value any) ([]float64, error) {
	column, err := t.column(field, value)
	if err != nil {
		return nil, err
	}
	out := make([]float64, t.width)
	c, ok := t.weights[column]
	if !ok {
		return out, nil
	}
	without := 0.0
	if t.dense(column) {
		without = t.standardize(c, 0)
	}
	z := t.standardize(c, 1)
	for k, weight := range c.Weights {
		t.base[k] += without * weight
		out[k] = (z - without) * weight
	}
	return out, nil
}

// allUsed returns an error if a feature has weights, but no part of the graph uses the feature. The error names the
// feature.
func (t *table) allUsed() error {
	name := t.Namer()
	for _, number := range slices.Sorted(maps.Keys(t.weights)) {
		c := t.weights[number]
		weighs := slices.ContainsFunc(c.Weights, func(w float64) bool { return w != 0 })
		if _, used := t.used[t.Scaler.Splines.Source(number)]; weighs && !used {
			return unsupported("the feature %q, whose field the model does not keep", name(number))
		}
	}
	return nil
}
