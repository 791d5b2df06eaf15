// Package export writes a model's weights as JSON, as text, or as an ONNX graph.
package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"blankout/app/served"
	"blankout/app/served/onnx"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Formats are the formats of Write.
var Formats = []string{"json", "text", "onnx"}

// RefusedError reports why a model cannot be written in a format.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Write writes a linear model in one of the Formats. Only onnx uses policy, the policy for missing fields. The notes
// are information for readers of the file. If the format cannot represent the model, Write returns a *RefusedError.
func Write(w io.Writer, m *served.Model, format string, policy model.MissingPolicy) (notes []string, err error) {
	linear, ok := m.Model.(*model.Linear)
	switch {
	case !ok:
		return nil, &RefusedError{"a kernel model has no weights to export"}
	case format == "onnx":
		return writeONNX(w, m, linear, policy)
	case format != "json" && format != "text":
		return nil, &RefusedError{fmt.Sprintf("format %q: want one of %s", format, strings.Join(Formats, ", "))}
	}
	x := weights{Head: linear.Head, Clip: linear.Clip(), Features: []feature{}, Cosines: linear.ExportedCosines()}
	name := linear.Namer()
	for c := range linear.Columns() {
		x.Features = append(x.Features, feature{c.Number, name(c.Number), c.Weights, c.Standardization})
	}
	slices.SortFunc(x.Features, func(a, b feature) int { return cmp.Compare(a.Column, b.Column) })
	if format == "json" {
		return nil, json.NewEncoder(w).Encode(x)
	}
	return nil, x.print(w)
}

func writeONNX(w io.Writer, m *served.Model, linear *model.Linear, policy model.MissingPolicy) (notes []string, err error) {
	missing := linear.Missing.Forced(policy)
	if missing != nil && len(linear.Schema.Fields) > 1 && linear.Covariance != nil && missing.Imputes() {
		if policy.Imputes() {
			return nil, &RefusedError{fmt.Sprintf("missing policy %s: a graph cannot impute; want none, rescale or auto", policy)}
		}
		missing = missing.Plain()
		notes = append(notes, "the program imputes missing fields, which a graph cannot: the graph has the missing policies none and rescale alone")
	}
	data, err := onnx.Encode(served.New(linear.WithMissing(missing), m.Record))
	if err != nil {
		if unsupported := (*onnx.UnsupportedError)(nil); errors.As(err, &unsupported) {
			return nil, &RefusedError{err.Error()}
		}
		return nil, err
	}
	nulls := onnx.EmptyStrings(m.Schema)
	for _, field := range slices.Sorted(maps.Keys(nulls)) {
		notes = append(notes, fmt.Sprintf("the empty string is a category of the field %q: the graph's input takes %q for null there", field, nulls[field]))
	}
	_, err = w.Write(data)
	return notes, err
}

// weights is the JSON form of a model: its head and its features.
type weights struct {
	model.Head
	Clip     float64        `json:"clip,omitempty"` // largest standardized value before an outlier; omitted if unlimited
	Features []feature      `json:"features"`
	Cosines  []model.Cosine `json:"cosines,omitempty"`
}

// feature is a model.Column with its name.
type feature struct {
	Column  uint32    `json:"column"`
	Name    string    `json:"name"` // its name or, if unknown, its index or column
	Weights []float64 `json:"weights"`
	model.Standardization
}

// print writes the model as text: comments that explain the format, and a line for each feature. Numbers are written
// with full precision.
func (x *weights) print(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "# loss %s, noise %s, %d events, classes %q\n", x.Loss, x.Noise, x.Events, x.Schema.Classes)
	fmt.Fprintln(w, "# A score is the sum of weight z over the features of an event, plus the intercept: z = (value - center)/scale, or 0 if scale is 0.")
	if x.Clip > 0 {
		fmt.Fprintln(w, "# If unit is not 0, asinh(value/unit) replaces the value.")
		fmt.Fprintf(w, "# A z beyond +-%v counts as one at +-beyond.\n", x.Clip)
	}
	if c := x.Scaler.Splines; c != nil {
		fmt.Fprintln(w, "# A feature NAME@KNOT is the hat function of NAME at this knot: 1 there, 0 at the neighboring knots and beyond, linear between; the first and the last hat stay 1 outside. NAME@present is 1 where there is a NAME.")
		name := x.Schema.Namer()
		for i, column := range c.Columns {
			if len(c.Knots[i]) > 1 {
				fmt.Fprintf(w, "# knots of %s: %s\n", event.Printable(name(column)), strings.Trim(fmt.Sprint(c.Knots[i]), "[]"))
			}
		}
	}
	if len(x.Cosines) > 0 {
		fmt.Fprintln(w, "# Numbers also act together: each line '# cosine PHASE FREQUENCY*NAME ...' at the end adds its last columns times cos(2 pi (PHASE + sum FREQUENCY z)) to the scores; z is 0 for an absent number.")
	}
	if f := x.Faults; f != nil {
		for _, s := range f.Stuck {
			fmt.Fprintf(w, "# %s is stuck at %v: this value counts as missing, like null.\n", event.Printable(x.Schema.Fields[s.Field].Name), s.Value)
		}
		for _, s := range f.Placeholders {
			fmt.Fprintf(w, "# %s has %v in place of a reading: this value counts as missing, like null.\n", event.Printable(x.Schema.Fields[s.Field].Name), s.Value)
		}
	}
	if l := x.Link; l != nil {
		fmt.Fprintln(w, "# The log-odds of a class are a function of its score, linear between these points and constant beyond; probabilities of several classes are divided by their sum.")
		fmt.Fprintf(w, "# scores: %s\n# log-odds: %s\n", strings.Trim(fmt.Sprint(l.Scores), "[]"), strings.Trim(fmt.Sprint(l.LogOdds), "[]"))
	}
	dense := x.Scaler.Dense
	absent := ""
	if len(dense) > 0 {
		fmt.Fprintln(w, "# An absent feature has the value 0 if its column absent is 0, and otherwise adds nothing.")
		absent = "\tabsent"
	}
	names := OutputNames(&x.Head)
	if len(names) == 0 {
		names = []string{"weight"}
	}
	fmt.Fprintf(w, "# feature\t%s\tcenter\tscale\tunit\tbeyond%s\n", strings.Join(printable(names), "\t"), absent)
	line := func(name string, weights []float64, s model.Standardization, always bool) {
		text := []byte(event.Printable(name))
		for _, v := range append(slices.Clone(weights), s.Center, s.Scale, s.Unit, s.Beyond) {
			text = strconv.AppendFloat(append(text, '\t'), v, 'g', -1, 64)
		}
		if absent != "" {
			text = append(text, '\t')
			if always {
				text = append(text, '0')
			}
		}
		w.Write(append(text, '\n'))
	}
	line("(intercept)", x.Intercept, model.Standardization{Scale: 1}, false)
	for _, f := range x.Features {
		_, always := slices.BinarySearch(dense, f.Column)
		line(f.Name, f.Weights, f.Standardization, always)
	}
	for _, c := range x.Cosines {
		fmt.Fprintf(w, "# cosine %v", c.Phase)
		for i, column := range c.Columns {
			fmt.Fprintf(w, " %v*%s", c.Frequencies[i], event.Printable(x.Head.Namer()(column)))
		}
		fmt.Fprintf(w, "\t%s\n", strings.Trim(fmt.Sprint(c.Weights), "[]"))
	}
	return w.Flush()
}

// OutputNames returns a name for each output of a model. The name is the class, or a:b for the output that separates
// class a from class b. It returns nil for one output.
func OutputNames(h *model.Head) (names []string) {
	if !h.Pairs {
		if h.Outputs > 1 {
			names = h.Schema.Classes
		}
		return names
	}
	for a, class := range h.Schema.Classes {
		for _, other := range h.Schema.Classes[:a] {
			names = append(names, class+":"+other)
		}
	}
	return names
}

func printable(names []string) (out []string) {
	for _, name := range names {
		out = append(out, event.Printable(name))
	}
	return out
}
