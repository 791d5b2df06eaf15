package main

// The command audit takes the scores of events apart, feature by feature.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout"
	"blankout/client"
	"blankout/loss"
	"blankout/model"
	"blankout/online/watch"
	"blankout/record"
)

type auditFlags struct {
	data      dataFlags
	model     string
	class     string
	missing   string
	top       int
	maxEvents int
	json      bool
}

func (p *program) audit() *cobra.Command {
	var o auditFlags
	c := &cobra.Command{
		Use:   "audit -m MODEL -d EVENTS",
		Short: "Explain scores feature by feature",
		Long: `audit takes the score of every event apart: for each feature its name, its value
after standardising, its weight, what it adds to the score, and its share of the
score's variance under the model's noise (how much hangs on this one feature).
What a feature adds is what the score would lose if the feature were missing.

Of two classes it explains the score of the positive one, of more that of the
class predicted; --class names another; of a model whose labels are numbers the
number it predicts. The events are read as those were
that a checkpoint was learned from; flags override that. Features of the event that share a column share its weight: they
have one line, with all of their names.`,
		Example: "  blankout audit -m checkpoints -d events.jsonl\n" +
			"  blankout audit -m checkpoints -d events.jsonl --missing rescale\n" +
			"  blankout audit -m model -d test.svm --top 5 --max-events 3 --json",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.top < 0 || o.maxEvents < 0 {
				return usageError{errors.New("audit: --top and --max-events want a number that is not negative")}
			}
			if err := p.runAudit(c, &o); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
			return nil
		},
	}
	o.data.addForModel(c)
	f := c.Flags()
	f.StringVarP(&o.model, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints")
	f.StringVar(&o.class, "class", "", "explain the score of the class `NAME`")
	addMissingFlag(c, &o.missing)
	f.IntVar(&o.top, "top", 20, "list so many features, those that count most; 0 is all")
	f.IntVar(&o.maxEvents, "max-events", 0, "explain so many events; 0 is all")
	f.BoolVar(&o.json, "json", false, "a JSON object for each event, a line each")
	return c
}

// audited is the explanation of one event.
type audited struct {
	Event     string   `json:"event"` // where it is: FILE:LINE or TOPIC/PARTITION: offset N
	Key       string   `json:"key,omitempty"`
	Label     *string  `json:"label"`               // null without one
	Predicted string   `json:"predicted,omitempty"` // as Class, not where labels are numbers
	Class     string   `json:"class,omitempty"`     // whose score this is
	Score     float64  `json:"score"`
	Prob      *float64 `json:"probability"` // of Class; null where the loss is of no class
	Intercept float64  `json:"intercept"`
	Noise     string   `json:"noise"`
	Variance  float64  `json:"variance"` // of the score under Noise
	Features  int      `json:"features"` // of the event
	// Unknown counts the features that the model has never met.
	Unknown int      `json:"unknown"`
	Missing []string `json:"missing,omitempty"` // fields known to be missing
	// Rule is the rule that answered the event because of that, Factor what its features
	// were multiplied by, and Why the share of its fields that chose the rule.
	Rule   model.MissingRule `json:"rule,omitempty"`
	Factor float64           `json:"factor,omitempty"`
	Why    string            `json:"why,omitempty"`
	// Filled is what filling in adds, beside the weights of the features it is told from.
	Filled float64       `json:"filled,omitempty"`
	Terms  []auditedTerm `json:"terms"`
	Rest   float64       `json:"rest"` // what the features that are not listed add
}

type auditedTerm struct {
	Name         string   `json:"name"`
	Names        []string `json:"names,omitempty"` // all in the event that share the column, if several do
	Field        string   `json:"field,omitempty"`
	Column       uint32   `json:"column"`
	Raw          float64  `json:"raw"`
	Value        float64  `json:"value"`
	Weight       float64  `json:"weight"`
	Contribution float64  `json:"contribution"`
	Share        float64  `json:"variance_share"`
	Known        bool     `json:"known"`
}

var errEnough = errors.New("enough events")

func (p *program) runAudit(c *cobra.Command, o *auditFlags) error {
	rule, err := model.ParseMissingRule(o.missing)
	if err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	m, err := readModel(o.model)
	if err != nil {
		return err
	}
	if err := forceMissing(m, rule); err != nil {
		return err
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return fmt.Errorf("%s: %w", o.model, m.Explains())
	}
	if err := o.data.resolve(m); err != nil {
		return err
	}
	if o.data.settings.file == "" {
		p.sayReadAs(m)
	}
	o.data.record.KeepValue = true // for its names
	schema := m.Schema.Clone()
	schema.Names = nil
	// A label that the model does not know is shown, not refused.
	schema.MaxClasses = max(schema.MaxClasses, 1<<16)
	a := &auditor{flags: o, model: linear, schema: schema, names: namer{model: m, data: &o.data}}
	if o.class != "" {
		if loss.IsRegression(m.Loss) {
			return usageError{fmt.Errorf("--class %q: the model's labels are numbers, no classes", o.class)}
		}
		if a.class = m.Schema.FindClass(o.class); a.class < 0 {
			return usageError{fmt.Errorf("--class %q: the model's classes are %s", o.class, blankout.ClassList(m.Schema.Classes))}
		}
	}
	out := bufio.NewWriter(p.stdout)
	a.warn = p.warn
	err = a.run(c.Context(), out)
	if err = errors.Join(err, out.Flush()); err != nil {
		return err
	}
	if names := m.Schema.Names; !p.quiet && names.Len() > 0 {
		full := ""
		if names.Full() {
			full = ", and has room for no more"
		}
		fmt.Fprintf(p.stderr, "the model's dictionary holds %s names, of which %s share a column%s\n",
			humanize.Comma(int64(names.Len())), humanize.Comma(int64(m.Schema.Collisions())), full)
	}
	return nil
}

type auditor struct {
	flags  *auditFlags
	model  *model.Linear
	schema *blankout.Schema // the events'
	class  int
	names  namer
	events int
	warn   func(string)
	odd    bool // an odd time was told
}

// namer names the features of events as those have them.
type namer struct {
	model   *client.Model
	data    *dataFlags // that the events are read by
	reading record.Config
	names   *client.EventNames // of records written as reading says
}

// in returns the names in the events of the path that is being read.
func (n *namer) in() (_ *client.EventNames, err error) {
	if n.names == nil || !reflect.DeepEqual(n.reading, n.data.reading) {
		n.reading = n.data.reading
		n.names, err = n.model.NewEventNames(n.reading)
	}
	return n.names, err
}

func (a *auditor) run(ctx context.Context, out *bufio.Writer) error {
	print := func(x *audited) error { x.print(out); return nil }
	if a.flags.json {
		encode := json.NewEncoder(out)
		print = func(x *audited) error { return encode.Encode(x) }
	}
	if len(a.flags.data.paths) == 0 {
		return usageError{errors.New("name a file of examples with -d (- is standard input)")}
	}
	for _, path := range a.flags.data.paths {
		err := a.flags.data.eachOf(ctx, path, a.schema, func(b *packedBatch, i int, place func() string) error {
			if a.events++; a.flags.maxEvents > 0 && a.events > a.flags.maxEvents {
				return errEnough
			}
			if field := a.flags.data.record.Time; field != "" && !a.odd {
				if text := watch.OddTime(b.Examples[i].Time, field); text != "" {
					a.odd = true
					a.warn(place() + ": " + text)
				}
			}
			x, err := a.explain(&b.Examples[i])
			if err != nil {
				return err
			}
			x.Event = place()
			return print(x)
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	a.flags.data.tell()
	return nil
}

func (a *auditor) explain(e *blankout.Example) (*audited, error) {
	m, classes := a.model, a.model.Schema.Classes
	scores := m.Score(e, make([]float64, m.Outputs))
	predicted := m.Predict(scores)
	class := a.class
	if a.flags.class == "" {
		if class = predicted; m.Outputs == 1 {
			class = 1
		}
	}
	why := m.Explain(e, class)
	x := &audited{Key: string(e.Key),
		Score: why.Score, Intercept: why.Intercept, Noise: m.NoiseOf(m.Answer(e)), Variance: why.Variance, Features: len(why.Terms), Terms: []auditedTerm{}}
	if !loss.IsRegression(m.Loss) {
		x.Predicted, x.Class = className(classes, predicted), className(classes, class)
		x.Prob = &m.Probabilities(scores, make([]float64, max(m.Outputs, 2)))[class]
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
	if a := m.Answer(e); a.Rule() != "" {
		x.Missing, x.Rule, x.Factor, x.Why, x.Filled = m.MissingFields(e), a.Rule(), a.Scale, whyRule(&m.Head, e), why.Filled
	}
	var listed []client.Feature
	for i, t := range why.Terms {
		if !t.Known {
			x.Unknown++
		}
		if a.flags.top > 0 && i >= a.flags.top {
			x.Rest += t.Contribution
			continue
		}
		listed = append(listed, client.Feature{Column: t.Column, Field: t.Field, Known: t.Known})
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
		out := auditedTerm{Name: strings.Join(names, " | "), Field: a.schema.Fields[t.Field].Name, Column: t.Column, Raw: t.Raw,
			Value: t.Value, Weight: t.Weight, Contribution: t.Contribution, Share: t.Share, Known: t.Known}
		if len(names) > 1 {
			out.Names = names
		}
		x.Terms = append(x.Terms, out)
	}
	return x, nil
}

// whyRule says which of a model's rules an event that lacks fields was answered by,
// and which shares of its fields chose them.
func whyRule(h *model.Head, e *blankout.Example) string {
	k, m, a := h.Lack(e), h.Missing, h.Answer(e)
	if m == nil {
		return "the model's file has no rule for missing fields"
	}
	var why []string
	all := k.Null + k.Absent + k.Named + k.Silent
	for _, part := range []struct {
		missing float64
		what    string
	}{{k.Null, "null"}, {k.Absent, "left out although usual"}} {
		if part.missing > 0 {
			why = append(why, fmt.Sprintf("%g of %g fields %s", part.missing, all, part.what))
		}
	}
	var shares []string
	for i, rule := range []model.MissingRule{model.MissingAsIs, model.MissingRescale, model.MissingFill} {
		if a.Shares[i] > 0 {
			shares = append(shares, fmt.Sprintf("%s %.3g %%", rule, 100*a.Shares[i]))
		}
	}
	if len(shares) > 1 {
		why = append(why, "shares of the rules "+strings.Join(shares, ", "))
	}
	if a.Level > 0 {
		why = append(why, fmt.Sprintf("the model answers events that lack so much by the weights of %s", h.NoiseOf(a)))
	}
	return strings.Join(why, "; ")
}

// className is the name of a class for people.
func className(classes []string, class int) string {
	if class >= len(classes) || classes[class] == "" {
		return fmt.Sprintf("class %d", class)
	}
	return classes[class]
}

func (x *audited) print(w io.Writer) {
	fmt.Fprint(w, blankout.Printable(x.Event))
	if x.Key != "" {
		fmt.Fprintf(w, " key %q", x.Key)
	}
	separator := ": "
	if x.Predicted != "" {
		fmt.Fprintf(w, ": %s predicted", blankout.Printable(x.Predicted))
		separator = ", "
	}
	if x.Label != nil {
		fmt.Fprintf(w, "%slabelled %s", separator, blankout.Printable(*x.Label))
	}
	fmt.Fprint(w, "\n  score ")
	if x.Class != "" {
		fmt.Fprintf(w, "of %s ", blankout.Printable(x.Class))
	}
	fmt.Fprintf(w, "%.4g", x.Score)
	if x.Prob != nil {
		fmt.Fprintf(w, ", probability %.4g", *x.Prob)
	}
	if x.Variance > 0 {
		fmt.Fprintf(w, ", variance %.4g under %s", x.Variance, x.Noise)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "  adds\tweight\tvalue\tas given\tvariance\t  feature")
	for _, f := range x.Terms {
		name := blankout.Printable(f.Name)
		if !f.Known {
			name += " (never met)"
		}
		fmt.Fprintf(t, "  %+.4f\t%.4g\t%.4g\t%.4g\t%.1f %%\t  %s\n", f.Contribution, f.Weight, f.Value, f.Raw, 100*f.Share, name)
	}
	if n := x.Features - len(x.Terms); n > 0 {
		fmt.Fprintf(t, "  %+.4f\t\t\t\t\t  %s other features\n", x.Rest, humanize.Comma(int64(n)))
	}
	fmt.Fprintf(t, "  %+.4f\t\t\t\t\t  (intercept)\n", x.Intercept)
	if x.Filled != 0 {
		fmt.Fprintf(t, "  %+.4f\t\t\t\t\t  (filled in)\n", x.Filled)
	}
	t.Flush()
	if len(x.Missing) > 0 {
		how := fmt.Sprintf("what is left counts %.4g times", x.Factor)
		if x.Filled != 0 {
			how += ", and for the numbers that follow from it"
		}
		fmt.Fprintf(w, "  missing: %s\n", blankout.Printable(strings.Join(x.Missing, ", ")))
		if x.Features == 0 && x.Filled == 0 {
			fmt.Fprintln(w, "  nothing of the event is left that the model knows: the intercept alone answers")
		} else {
			fmt.Fprintf(w, "  answered by %s, %s: %s\n", x.Rule, how, x.Why)
		}
	}
	fmt.Fprintln(w)
}
