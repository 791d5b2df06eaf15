package main

// This file writes the predictions of the command predict, and explains them. The extension of the output file determines
// the format.

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// answers writes a prediction for every example. Without a file, standard output gets short CSV rows: ID, class and
// probability or, for regression, ID, value, low and high. A .jsonl file gets the JSON of the HTTP server. A .csv file
// gets rows of ID, class and probabilities. Any other file gets lines of class and scores. With --explain, the output
// has explanations instead.
type answers struct {
	model      *served.Model
	reader     *fillReader
	schema     *event.Schema // schema of the examples
	names      namer
	regression bool
	out        io.Writer
	json       *json.Encoder
	csv        *csv.Writer
	short      bool // whether the rows of csv have only the prediction
	explain    explainFlags
	classes    []string // class names, written as in the text format
	line       []byte
	row        []string
}

func newAnswers(out io.Writer, path string, m *served.Model, reader *fillReader, s *event.Schema, d *dataFlags, explain explainFlags) (*answers, error) {
	a := &answers{model: m, reader: reader, schema: s, names: namer{model: m, data: d}, regression: loss.IsRegression(m.Loss), out: out, explain: explain, classes: printable(m.Schema.Classes)}
	switch extension := filepath.Ext(path); {
	case explain.form != "" || extension == ".jsonl" || extension == ".ndjson":
		a.json = json.NewEncoder(out)
		d.record.KeepValue = true // to report the names of features
		if explain.form != "" {
			return a, m.Explains()
		}
	case extension == ".csv", path == "":
		a.csv, a.short = csv.NewWriter(out), path == ""
		return a, a.csv.Write(a.header())
	}
	return a, nil
}

func (a *answers) header() []string {
	row := []string{"id", "class", "probability"}
	if a.regression {
		row = []string{"id", "value", "low", "high"}
	}
	switch {
	case a.short:
		return row
	case a.regression:
		return append(row, "missing", "missing_policy")
	}
	for _, k := range a.shown() {
		row = append(row, "P("+a.model.Schema.Classes[k]+")")
	}
	return append(row, "missing", "missing_policy", "set")
}

// shown returns the classes whose probabilities are written: all classes or, with two classes, only the positive class.
func (a *answers) shown() []int {
	n := len(a.model.Schema.Classes)
	if n == 2 {
		return []int{a.model.Schema.PositiveClass(a.model.Positive)}
	}
	all := make([]int, n)
	for k := range all {
		all[k] = k
	}
	return all
}

// add writes the prediction for e, given its scores and probabilities. The function place returns the position of e in
// the input, which replaces a missing ID.
func (a *answers) add(e *event.Example, scores, probabilities []float64, place func() string) error {
	switch {
	case a.json != nil:
		own, err := a.names.in()
		if err != nil {
			return err
		}
		answer, err := a.model.PredictionOf(e, a.schema, scores, a.reader.doubted, own, a.explain.most())
		answer.Version = 0 // all predictions are of one model
		if err != nil {
			return err
		}
		if a.explain.form == "" {
			return a.json.Encode(answer)
		}
		x := explanationOf(e, a.schema, place(), answer)
		if a.explain.form == "json" {
			return a.json.Encode(x)
		}
		if err := printText(a.out, x, math.MaxInt); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out)
		return err
	case a.csv != nil:
		return a.csv.Write(a.rowOf(e, scores, probabilities, place))
	}
	a.line = a.line[:0]
	if a.regression {
		_, err := fmt.Fprintln(a.out, strings.Join(a.number(e, scores[0]), " "))
		return err
	}
	if k := a.model.Head.Predict(scores); k < len(a.classes) {
		a.line = append(append(a.line, a.classes[k]...), ' ')
	}
	for k, f := range scores {
		if k > 0 {
			a.line = append(a.line, ' ')
		}
		a.line = strconv.AppendFloat(a.line, f, 'g', -1, 64)
	}
	_, err := a.out.Write(append(a.line, '\n'))
	return err
}

// addMean writes the answer of a set of shards for e, as add does for one model.
func (a *answers) addMean(e *event.Example, p *served.Prediction, place func() string) (err error) {
	switch {
	case a.json != nil:
		return a.json.Encode(p)
	case a.csv != nil:
		row := []string{cmp.Or(p.ID, string(e.Key), place()), p.Class, digits(p.Probability)}
		if p.Value != nil {
			row = append(row[:1], digits(*p.Value), "", "")
		}
		if p.Value != nil && p.Low != nil {
			row[2], row[3] = digits(*p.Low), digits(*p.High)
		}
		return a.csv.Write(row)
	case p.Value != nil:
		_, err = fmt.Fprintln(a.out, *p.Value)
	default:
		_, err = fmt.Fprintln(a.out, event.Printable(p.Class), p.Score)
	}
	return err
}

// digits returns all digits of a number.
func digits(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// number returns the predicted value of a regression score. If the model has a distribution of residuals, number also
// returns the bounds of the prediction interval.
func (a *answers) number(e *event.Example, score float64) []string {
	value := a.model.Value(score)
	row := []string{digits(value), "", ""}
	if low, high := a.model.Interval(value, model.ScoreVariance(a.model.Model, e)); low <= high {
		row[1], row[2] = digits(low), digits(high)
	} else if a.csv == nil {
		row = row[:1]
	}
	return row
}

func (a *answers) rowOf(e *event.Example, scores, probabilities []float64, place func() string) []string {
	id := string(e.Key)
	if id == "" {
		id = place()
	}
	a.row = append(a.row[:0], id)
	if a.regression {
		a.row = append(a.row, a.number(e, scores[0])...)
	} else {
		k := a.model.Head.Predict(scores)
		a.row = append(a.row, a.model.Schema.Classes[k], digits(probabilities[k]))
		if !a.short {
			for _, k := range a.shown() {
				a.row = append(a.row, digits(probabilities[k]))
			}
		}
	}
	if a.short {
		return a.row
	}
	missing, answer := "", a.model.Handling(e)
	if answer.Policy() != "" {
		missing = strings.Join(a.model.MissingFields(e), " ")
	}
	if a.row = append(a.row, missing, string(answer.Policy())); a.regression {
		return a.row
	}
	var names []string
	set, _ := a.model.Set(answer, probabilities[:min(len(probabilities), len(a.model.Schema.Classes))], a.model.Head.Predict(scores))
	for _, k := range set {
		names = append(names, a.model.Schema.Classes[k])
	}
	return append(a.row, strings.Join(names, " "))
}

// flushed writes the buffered rows of w, which may be nil.
func flushed(w *csv.Writer) error {
	if w == nil {
		return nil
	}
	w.Flush()
	return w.Error()
}

// printable returns names in a form that is safe to print.
func printable(names []string) (out []string) {
	for _, name := range names {
		out = append(out, event.Printable(name))
	}
	return out
}

// explainFlags are the flags of predict for explanations.
type explainFlags struct {
	form string // "text" or "json"; "" for no explanations
	top  int
}

func (o *explainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.form, "explain", "", "explain each prediction, as text or json")
	f.Lookup("explain").NoOptDefVal = "text"
	f.IntVar(&o.top, "top", 20, "list this many contributions, the largest first; 0 lists all")
	_ = c.RegisterFlagCompletionFunc("explain", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *explainFlags) check() error {
	switch {
	case o.form != "" && o.form != "text" && o.form != "json":
		return usageError{fmt.Errorf("--explain=%q: want text or json", o.form)}
	case o.top < 0:
		return usageError{fmt.Errorf("--top %d: want 0 or more", o.top)}
	}
	return nil
}

// most returns the largest number of contributions to list, 0 without --explain.
func (o *explainFlags) most() int {
	switch {
	case o.form == "":
		return 0
	case o.top == 0:
		return math.MaxInt
	}
	return o.top
}

// explanation is the JSON output of predict --explain: the prediction of the HTTP server for an event.
type explanation struct {
	Event string  `json:"event"` // position of the event: FILE:LINE or TOPIC/PARTITION: offset N
	Label *string `json:"label"` // null for an unlabeled event
	served.Prediction
}

// explanationOf returns the explanation of an event of the Schema s.
func explanationOf(e *event.Example, s *event.Schema, place string, p served.Prediction) explanation {
	x := explanation{Event: place, Prediction: p}
	switch {
	case e.Label < 0:
	case s.Target != loss.Sign:
		x.Label = new(strconv.FormatFloat(e.Target, 'g', -1, 64))
	default:
		x.Label = &s.Classes[e.Label]
	}
	return x
}

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
