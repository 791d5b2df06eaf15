package main

// This file explains the scores of events for predict, feature by feature.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/served"
	"blankout/stream/record"
)

// explainFlags are the flags of predict for explanations.
type explainFlags struct {
	form  string // "text" or "json"; "" for no explanations
	class string
	top   int
}

func (o *explainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.form, "explain", "", "write each feature's contribution to the score, as text or json")
	f.Lookup("explain").NoOptDefVal = "text"
	f.StringVar(&o.class, "class", "", "explain the score of class `NAME` [the positive of two classes, else the predicted class]")
	f.IntVar(&o.top, "top", 20, "list this many features, the largest contributions first; 0 lists all")
	_ = c.RegisterFlagCompletionFunc("explain", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *explainFlags) check() error {
	switch {
	case o.form != "" && o.form != "text" && o.form != "json":
		return usageError{fmt.Errorf("--explain=%q: want text or json", o.form)}
	case o.top < 0:
		return usageError{fmt.Errorf("--top %d: want 0 or more", o.top)}
	case o.class != "" && o.form == "":
		return usageError{errors.New("--class needs --explain")}
	}
	return nil
}

// explanation holds the contributions of the features of one event to its score.
type explanation struct {
	Event     string   `json:"event"` // position of the event: FILE:LINE or TOPIC/PARTITION: offset N
	Key       string   `json:"key,omitempty"`
	Label     *string  `json:"label"`               // null for an unlabeled event
	Predicted string   `json:"predicted,omitempty"` // predicted class, in the form of Class; not for regression
	Class     string   `json:"class,omitempty"`     // class that the score belongs to
	Score     float64  `json:"score"`
	Prob      *float64 `json:"probability"` // probability of Class; null if the loss gives no probabilities
	Intercept float64  `json:"intercept"`
	Noise     string   `json:"noise"`
	Variance  float64  `json:"variance"` // variance of the score under Noise
	Features  int      `json:"features"` // number of features of the event
	// Unseen is the number of the event's features that the model has not seen in training.
	Unseen  int      `json:"unseen"`
	Missing []string `json:"missing,omitempty"` // fields that the model treats as missing
	Stuck   []string `json:"stuck,omitempty"`   // fields of Missing that are stuck at a value, not null
	// MissingPolicy is the policy that the model used because fields of the event are missing. Factor is the factor of
	// the event's features. Why is the missing fraction that selected the policy.
	MissingPolicy model.MissingPolicy `json:"missing_policy,omitempty"`
	Factor        float64             `json:"factor,omitempty"`
	Why           string              `json:"why,omitempty"`
	// Imputed is the contribution of imputed fields. It is in addition to the contributions of the features from which
	// the fields are imputed.
	Imputed float64         `json:"filled,omitempty"`
	Terms   []explainedTerm `json:"terms"`
	Rest    float64         `json:"rest"` // contribution of the features that are not listed
}

type explainedTerm struct {
	Name         string   `json:"name"`
	Names        []string `json:"names,omitempty"` // all names in the event that share this column, if several do
	Field        string   `json:"field,omitempty"`
	Column       uint32   `json:"column"`
	Raw          float64  `json:"raw"`
	Value        float64  `json:"value"`
	Weight       float64  `json:"weight"`
	Contribution float64  `json:"contribution"`
	Fraction     float64  `json:"variance_share"`
	Known        bool     `json:"known"`
}

// explainer writes the explanation of each example as text or as a line of JSON.
type explainer struct {
	flags  *explainFlags
	model  *model.Linear
	schema *event.Schema // schema of the examples
	class  int           // class to explain; -1 to choose it for each example
	names  namer
	out    *bufio.Writer
	json   *json.Encoder // nil if explanations are text
}

func newExplainer(out io.Writer, m *served.Model, s *event.Schema, d *dataFlags, o *explainFlags) (*explainer, error) {
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return nil, m.Explains()
	}
	x := &explainer{flags: o, model: linear, schema: s, class: -1, names: namer{model: m, data: d}, out: bufio.NewWriter(out)}
	if o.class != "" {
		if loss.IsRegression(m.Loss) {
			return nil, usageError{fmt.Errorf("--class %q: this is a regression model without classes", o.class)}
		}
		if x.class = m.Schema.FindClass(o.class); x.class < 0 {
			return nil, usageError{fmt.Errorf("--class %q: the model's classes are %s", o.class, event.ClassList(m.Schema.Classes))}
		}
	}
	if o.form == "json" {
		x.json = json.NewEncoder(x.out)
	}
	d.record.KeepValue = true // to report the names of the event's features
	return x, nil
}

func (x *explainer) add(e *event.Example, scores, probabilities []float64, place func() string) error {
	why, err := x.explain(e, scores, probabilities)
	if err != nil {
		return err
	}
	why.Event = place()
	if x.json != nil {
		return x.json.Encode(why)
	}
	if err := printText(x.out, why, math.MaxInt); err != nil {
		return err
	}
	_, err = fmt.Fprintln(x.out)
	return err
}

func (x *explainer) flush() error { return x.out.Flush() }

// namer finds the names that the features of an event have in its record.
type namer struct {
	model   *served.Model
	data    *dataFlags // settings for reading the events
	reading record.Config
	names   *served.EventNames // names for records that are read with the settings in reading
}

// in returns the names for events of the current path.
func (n *namer) in() (_ *served.EventNames, err error) {
	if n.names == nil || !reflect.DeepEqual(n.reading, n.data.reading) {
		n.reading = n.data.reading
		n.names, err = n.model.NewEventNames(n.reading)
	}
	return n.names, err
}

func (a *explainer) explain(e *event.Example, scores, probabilities []float64) (*explanation, error) {
	m, classes := a.model, a.model.Schema.Classes
	predicted := m.Predict(scores)
	class := a.class
	if class < 0 {
		if class = predicted; m.Outputs == 1 {
			class = 1
		}
	}
	why := m.Explain(e, class)
	x := &explanation{Key: string(e.Key),
		Score: why.Score, Intercept: why.Intercept, Noise: m.NoiseOf(m.Handling(e)), Variance: why.Variance, Features: len(why.Terms), Terms: []explainedTerm{}}
	if !loss.IsRegression(m.Loss) {
		x.Predicted, x.Class = className(classes, predicted), className(classes, class)
		x.Prob = new(probabilities[class])
	}
	if e.Label >= 0 {
		label := ""
		if a.schema.Target != loss.Sign {
			label = strconv.FormatFloat(e.Target, 'g', -1, 64)
		} else {
			label = a.schema.Classes[e.Label]
		}
		x.Label = &label
	}
	if a := m.Handling(e); a.Policy() != "" {
		x.Stuck = m.StuckFields(e)
		x.Missing, x.MissingPolicy, x.Factor, x.Why, x.Imputed = m.MissingFields(e), a.Policy(), a.Scale, whyPolicy(&m.Head, e), why.Imputed
	}
	var listed []served.Feature
	for i, t := range why.Terms {
		if !t.Known {
			x.Unseen++
		}
		if a.flags.top > 0 && i >= a.flags.top {
			x.Rest += t.Contribution
			continue
		}
		listed = append(listed, served.Feature{Column: t.Column, Field: t.Field, Known: t.Known})
	}
	own, err := a.names.in()
	if err != nil {
		return nil, err
	}
	named, err := own.Of(e.Value, a.schema, listed)
	if err != nil {
		return nil, err
	}
	for i, names := range named {
		t := why.Terms[i]
		out := explainedTerm{Name: strings.Join(names, " | "), Field: a.schema.Fields[t.Field].Name, Column: t.Column, Raw: t.Raw,
			Value: t.Value, Weight: t.Weight, Contribution: t.Contribution, Fraction: t.Fraction, Known: t.Known}
		if len(names) > 1 {
			out.Names = names
		}
		x.Terms = append(x.Terms, out)
	}
	return x, nil
}

// whyPolicy explains why a missing policy predicted an event with missing fields. The explanation has the missing
// fraction and the mixture weights of the policies.
func whyPolicy(h *model.Head, e *event.Example) string {
	k, m, a := h.CountMissing(e), h.Missing, h.Handling(e)
	if m == nil {
		return "the model has no missing policy"
	}
	var why []string
	all := k.Null + k.Absent + k.Named + k.AlwaysPresent
	for _, part := range []struct {
		missing float64
		what    string
	}{{k.Null, "null"}, {k.Absent, "absent although usual"}} {
		if part.missing > 0 {
			why = append(why, fmt.Sprintf("%g of %g fields %s", part.missing, all, part.what))
		}
	}
	var fractions []string
	for i, policy := range []model.MissingPolicy{model.MissingNone, model.MissingRescale, model.MissingImpute} {
		if a.Weights[i] > 0 {
			fractions = append(fractions, fmt.Sprintf("%s %.3g %%", policy, 100*a.Weights[i]))
		}
	}
	if len(fractions) > 1 {
		why = append(why, "policy weights "+strings.Join(fractions, ", "))
	}
	if a.Level > 0 {
		why = append(why, fmt.Sprintf("at this missing fraction the model uses the weights of %s", h.NoiseOf(a)))
	}
	return strings.Join(why, "; ")
}

// className returns the name of a class for display.
func className(classes []string, class int) string {
	if class >= len(classes) || classes[class] == "" {
		return fmt.Sprintf("class %d", class)
	}
	return classes[class]
}
