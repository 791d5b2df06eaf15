package main

// The command predict scores the events of a file and measures the predictions.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
)

type predictFlags struct {
	data      dataFlags
	model     string
	out       string
	remove    float64
	groups    float64 // fraction of the groups to delete
	rescale   bool
	declared  bool
	missing   string
	unknown   string // what to do with events without a seen feature: refuse or answer
	unlabeled bool
	key       string // field with the key of a record
	maxEvents int
	explain   explainFlags
	seed      uint64
}

func (p *program) predict() *cobra.Command {
	var o predictFlags
	c := &cobra.Command{
		Use:   "predict -m MODEL FILE [-o FILE]",
		Short: "Score examples with a model and measure its accuracy",
		Long: `predict scores every example with a model, checkpoint or snapshot, and measures the
labeled ones. For a directory of checkpoints it takes the newest. The directory of a group
predicts with the mean of its shards.

It prints a CSV row for each example: id, class and probability or, for regression, id,
value, low and high. Messages and the measures go to standard error. With --json the
measures go to standard output and predictions only to the file of -o.

-o writes the predictions to a file. A file named .csv gets more columns: all probabilities,
missing fields and the prediction set. A file named .jsonl gets the predictions of the HTTP
server. Any other file gets lines of class and scores.

Measures of classes are error, log-loss, AUC, average precision, calibration and confusion.
Measures of regression are MAE, RMSE, R2, deviance and the coverage of the intervals.

The model contains its record settings (label, id, categorical and dropped fields). -f
replaces them by [record] of a configuration; --set and flags override both.
--refused skip counts unusable records and continues. An example without a feature that the
model knows is unusable, unless you give --unseen answer.

With the shards of a group, predict answers with their mean. --key FIELD names the field that
is the key of a record in the topic: predict then answers as the group does, with the shard of
the key and the mean. This needs the group's snapshots, as in -m kafka:///GROUP-snapshots.

--explain writes the prediction of the HTTP server instead, with the contributions to the
score: standardized value times weight. Features that share a column share a line.
--explain=json writes one object for each example.

--delete D deletes each feature with probability D, --delete-groups D each group. predict
measures three kinds of loss. Declared: the features are missing, and the missing policy
applies. Dead: a number reads its mean or 0, other features are absent. Stale: a number or
category is that of an earlier example. Predictions and other measures are for dead features,
or for declared ones with --declared.
--rescale drops the deleted features and multiplies the survivors by 1/(1-D).`,
		Example: "  blankout predict -m model events.csv\n" +
			"  blankout predict -m checkpoints -d events.jsonl --explain --max-events 3\n" +
			"  blankout predict -m model -d test.svm --delete 0.5 --rescale --seed 7 --json\n" +
			"  blankout predict -m model -d test.svm --groups every:8 --delete-groups 0.5 --declared --missing-policy impute\n" +
			"  blankout predict -m model -d new.svm --unlabeled -o scores.txt\n" +
			"  blankout predict -m model -d mails.jsonl --refused skip -o answers.csv\n" +
			"  blankout predict -m s3://models/fraud.blankout -d events.jsonl --json\n" +
			"  blankout predict -m kafka:///fraud-snapshots -d events.jsonl --key user --json",
		Args: fileArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !(o.groups >= 0 && o.groups < 1) {
				return usageError{fmt.Errorf("--delete-groups %v: want a probability in [0, 1)", o.groups)}
			}
			if !(o.remove >= 0 && o.remove <= 1) || o.groups > 0 && o.remove == 1 || o.rescale && o.remove == 1 {
				return usageError{fmt.Errorf("--delete %v: want a probability in [0, 1), or 1 without --rescale", o.remove)}
			}
			if !slices.Contains([]string{"refuse", "answer"}, o.unknown) {
				return usageError{fmt.Errorf("--unseen %q: want refuse or answer", o.unknown)}
			}
			if o.declared && o.rescale {
				return usageError{errors.New("--declared uses the model's missing policy and --rescale does not: give one, or --missing-policy rescale")}
			}
			if o.maxEvents < 0 {
				return usageError{fmt.Errorf("--max-events %d: want 0 or more", o.maxEvents)}
			}
			if err := o.explain.check(); err != nil {
				return err
			}
			if o.explain.form != "" {
				if o.remove > 0 || o.groups > 0 {
					return usageError{errors.New("--explain excludes --delete and --delete-groups")}
				}
				o.out = cmp.Or(o.out, "-")
				if !c.Flags().Changed("unseen") {
					o.unknown = "answer"
				}
			}
			return p.runPredict(c.Context(), &o)
		},
	}
	o.data.addForModel(c)
	f := c.Flags()
	f.StringVarP(&o.model, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints")
	f.StringVarP(&o.out, "output", "o", "", "write the predictions to `FILE`: .csv or .jsonl with probabilities, else classes and scores\n[id, class, probability on standard output]")
	f.Float64Var(&o.remove, "delete", 0, "delete each feature with probability `D`")
	f.Float64Var(&o.groups, "delete-groups", 0, "delete each group of features with probability `D`")
	f.BoolVar(&o.declared, "declared", false, "declare deleted features missing, see --missing-policy")
	f.BoolVar(&o.rescale, "rescale", false, "drop deleted features and multiply the others by 1/(1-D)")
	addMissingFlag(c, &o.missing)
	f.StringVar(&o.unknown, "unseen", "refuse", "on an example without known features: refuse, or answer as if it had none")
	f.StringVar(&o.key, "key", "", "`FIELD` with the key of a record, for the shards of a group")
	f.BoolVar(&o.unlabeled, "unlabeled", false, "the examples have no labels")
	f.IntVar(&o.maxEvents, "max-events", 0, "stop after `N` examples; 0 is all")
	o.explain.add(c)
	f.Uint64Var(&o.seed, "seed", 0, "seed of all random draws")
	p.addJSON(c)
	return c
}

// openModel reads the model, and sets the record settings of its training data.
func (o *predictFlags) openModel(p *program) (*served.Model, error) {
	policy, err := model.ParseMissingPolicy(o.missing)
	if err != nil {
		return nil, usageError{fmt.Errorf("--missing-policy %w", err)}
	}
	read, err := readAnswering(o.model)
	if err != nil {
		return nil, err
	}
	if o.key != "" && read.Shards() == nil {
		return nil, usageError{fmt.Errorf("--key %s: the model is not of several shards: leave it out", o.key)}
	}
	p.warnStale(read)
	if err := forceMissing(read, policy); err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	if err := o.data.resolve(read); err != nil {
		return nil, err
	}
	p.printFormat(&o.data.settings, read)
	return read, nil
}

// predictions returns where the predictions go: "-" is standard output, "" is nowhere.
func (p *program) predictions(o *predictFlags) string {
	if o.out == "" && !p.json {
		return "-"
	}
	return o.out
}

// schema returns the Schema under which the examples are read, the number of the model's classes, and the measures of
// regression, which are nil for classification.
func (o *predictFlags) schema(ctx context.Context, head *model.Head) (s *event.Schema, known int, numbers *numberMeasures, err error) {
	o.data.regroup(head.Schema)
	if !o.unlabeled {
		if o.unlabeled, err = o.data.withoutLabel(ctx, head.Schema); err != nil {
			return nil, 0, nil, err
		}
	}
	o.data.record.Unlabeled = o.unlabeled
	// Labels that are not classes of the model are added to the Schema as additional classes.
	known, s = len(head.Schema.Classes), head.Schema.Clone()
	s.MaxClasses = known + 2
	if !loss.IsRegression(head.Loss) {
		return s, known, nil, nil
	}
	// A model file of an earlier version may list regression targets as classes.
	s.Target, s.Classes = head.Target(), nil
	l, err := loss.Parse(head.Loss)
	return s, 1, &numberMeasures{loss: l}, err
}

func (p *program) runPredict(ctx context.Context, o *predictFlags) error {
	read, err := o.openModel(p)
	if err != nil {
		return err
	}
	if read.Shards() != nil {
		return p.predictWithShards(ctx, o, read)
	}
	head := read.Head
	schema, known, numbers, err := o.schema(ctx, head)
	if err != nil {
		return err
	}
	path, screen := p.predictions(o), p.newScreen(10*time.Second)
	measures := measure.NewEvaluation(len(head.Schema.Classes))
	measures.Positive = schema.PositiveClass(head.Positive)
	reader := newFillReader(read.Model)
	score, policies := reader.score, map[model.MissingPolicy]int{} // policies counts examples with missing fields by policy
	var deleted *deletion
	if o.remove > 0 || o.groups > 0 {
		if deleted, err = newDeletion(read.Model, reader, o, schema); err != nil {
			return err
		}
		score = deleted.score
	}
	scores, probabilities := make([]float64, head.Outputs), make([]float64, max(head.Outputs, 2))
	seen := examined{model: read, known: known, zero: -1, refuse: o.unknown == "refuse"}
	unmet, oddTime := unseen{model: read, byField: map[uint16]*fieldUnseen{}}, false
	err = p.eachAnswer(ctx, o, read, reader, schema, &seen.n, func(in *packedBatch, e *event.Example, write *answers, place func() string) error {
		if field := o.data.record.Time; field != "" && !oddTime {
			if text := health.OddTime(e.Time, field); text != "" {
				oddTime = true
				p.warn(place() + ": " + text)
			}
		}
		if err := seen.count(e, in.Schema); err != nil {
			return err
		}
		unmet.add(e)
		if seen.n%4096 == 0 && screen.due() {
			screen.progress(humanize.Comma(int64(seen.n)) + " examples scored")
		}
		s := score(e, scores)
		received := deleted.received(e)
		handling := head.Handling(received)
		if policy := handling.Policy(); policy != "" && (deleted == nil || !o.rescale) {
			policies[policy]++
		}
		if numbers != nil {
			if value := head.Value(s[0]); e.Label >= 0 {
				low, high := head.Interval(value, model.ScoreVariance(read.Model, received))
				numbers.sums.Add(numbers.loss, e.Target, e.Weight, value, low, high, 1)
			}
		} else {
			probabilities = head.Probabilities(s, probabilities)
			measureClasses(measures, head, e, handling, s, probabilities)
		}
		if path == "" {
			return nil
		}
		return write.add(e, s, probabilities, place)
	})
	if err != nil {
		return err
	}
	if o.explain.form != "" {
		p.printNames(read.Schema)
	}
	if !p.quiet && deleted == nil {
		p.warn(reader.found(read))
	}
	if seen.onlyUnseen > 0 && seen.familiar == 0 {
		p.warn(fmt.Sprintf("none of %s has a feature of the model: check that model and data belong together", plural(seen.onlyUnseen, "example")))
	}
	unmetReport := unmet.report(schema)
	p.warnOfUnseen(unmetReport, unmet.examples)
	about := predicted{deletionReport: deleted.report(), Policies: policies, Unseen: unmetReport, Refused: o.data.tally.refused}
	if numbers != nil {
		return p.result(struct {
			Examples int `json:"examples"`
			measure.NumbersReport
			predicted
		}{seen.n, numbers.sums.Report(numbers.loss), about}, "reliability")
	}
	p.printUnlabeled(&seen, o)
	return p.classesResult(o, head, measures.Report(), about)
}

// eachAnswer calls f for each example and where its prediction goes, until n is --max-events.
func (p *program) eachAnswer(ctx context.Context, o *predictFlags, m *served.Model, reader *fillReader, s *event.Schema, n *int, f func(in *packedBatch, e *event.Example, write *answers, place func() string) error) error {
	out, err := p.create(p.predictions(o))
	if err != nil {
		return err
	}
	write, err := newAnswers(out, o.out, m, reader, s, &o.data, o.explain)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", o.model, err), out.Close())
	}
	err = o.data.eachPlaced(ctx, o.data.paths, s, func(in *packedBatch, i int, place func() string) error {
		if o.maxEvents > 0 && *n == o.maxEvents {
			return errEnough
		}
		return f(in, &in.Examples[i], write, place)
	})
	return errors.Join(err, flushed(write.csv), out.Close())
}

// classesResult prints the measures of a classification.
func (p *program) classesResult(o *predictFlags, head *model.Head, r measure.ClassesReport, about predicted) error {
	p.warn(r.WorseThanConstant(strings.HasPrefix(head.Loss, "logistic")))
	return p.result(struct {
		measure.ClassesReport
		Classes []string `json:"classes"` // names of the rows and columns of the confusion
		predicted
	}{r, head.Schema.Classes, about}, "reliability")
}

// predicted is the part of the JSON output of predict that classification and regression share.
type predicted struct {
	deletionReport
	Policies map[model.MissingPolicy]int `json:"missing_policies,omitempty"` // number of examples with missing fields, by policy
	Unseen   unseenReport                `json:"unseen"`
	Refused  int                         `json:"refused"` // number of rejected and skipped records
}

// errEnough stops dataFlags.eachPlaced without an error.
var errEnough = errors.New("enough examples")

// printNames prints the number of names in the model's dictionary.
func (p *program) printNames(s *event.Schema) {
	if p.quiet || s.Names.Len() == 0 {
		return
	}
	full := ""
	if s.Names.Full() {
		full = ", and is full"
	}
	fmt.Fprintf(p.stderr, "the model's dictionary holds %s names, of which %s share a column%s\n", humanize.Comma(int64(s.Names.Len())), humanize.Comma(int64(s.Collisions())), full)
}

// measureClasses measures the prediction for an example, with its scores and probabilities. The argument a describes
// how the model treated missing fields of the example.
func measureClasses(to *measure.Evaluation, h *model.Head, e *event.Example, a model.MissingHandling, scores, probabilities []float64) {
	class := h.Predict(scores)
	to.Add(e.Label, e.Weight, scores, class, probabilities)
	if set, ok := h.Set(a, probabilities[:max(2, min(len(probabilities), len(h.Schema.Classes)))], class); ok {
		to.AddSet(e.Label, e.Weight, set)
	}
}

// printUnlabeled prints the number of examples without a label.
func (p *program) printUnlabeled(seen *examined, o *predictFlags) {
	if seen.zeros > 0 {
		p.note("every label is 0, which is not a class of the model: the examples count as unlabeled")
	}
	if seen.n > 0 && seen.zeros+seen.labeled == 0 && !o.data.record.Unlabeled {
		p.warn(fmt.Sprintf("none of %s has a label (--label is %q), so nothing is measured; give --unlabeled if that is intended", plural(seen.n, "example"), o.data.record.Label))
	}
}

// examined checks the examples against the model and counts them.
type examined struct {
	model  *served.Model
	known  int  // number of the model's classes
	refuse bool // whether to reject examples without a feature that the model has seen

	n, zeros, labeled    int
	onlyUnseen, familiar int
	// zero is the index of a class "0" that the model does not have, -1 before the class appears. If every label in a
	// file is 0, then 0 means unlabeled.
	zero int
}

func (x *examined) count(e *event.Example, schema *event.Schema) error {
	classes := x.model.Schema.Classes
	switch {
	case e.Label >= x.known && e.Label != x.zero:
		name := schema.Classes[e.Label]
		if !event.IsZero(name) {
			return unusable{fmt.Errorf("label %.40q is not one of the model's classes %s (--unlabeled ignores labels)", name, event.ClassList(classes))}
		}
		x.zero = e.Label
		fallthrough
	case e.Label == x.zero && x.zero >= 0:
		e.Label = event.Unlabeled
		x.zeros++
	case e.Label >= 0:
		x.labeled++
	}
	if x.zeros > 0 && x.labeled > 0 {
		return fmt.Errorf("label 0 is not one of the model's classes %s, although other examples have labels (--unlabeled ignores labels)", event.ClassList(classes))
	}
	if err := x.model.OnlyUnseen(e, schema); err == nil {
		x.familiar++
	} else {
		if x.onlyUnseen++; x.familiar == 0 {
			err = fmt.Errorf("%w; no example so far has a feature of the model: check that model and data belong together", err)
		}
		if x.refuse {
			return unusable{fmt.Errorf("%w (--unseen answer scores it as an event without features)", err)}
		}
	}
	x.n++
	return nil
}

// fillReader scores the examples of a file with a model, and finds fill values among them.
type fillReader struct {
	model.Model
	reader  *model.Reader  // nil for a model that is not linear
	doubted *model.Doubted // in the last example; nil for nothing
}

func newFillReader(m model.Model) *fillReader {
	linear, ok := m.(*model.Linear)
	if !ok {
		return &fillReader{Model: m}
	}
	return &fillReader{Model: m, reader: model.NewReader(linear)}
}

func (r *fillReader) score(e *event.Example, out []float64) []float64 {
	if r.reader == nil {
		return r.Score(e, out)
	}
	out, r.doubted = r.reader.For(e).ScoreDoubted(e, out)
	return out
}

// found describes the fill values that the model did not know, or returns "".
func (r *fillReader) found(m *served.Model) string {
	if r.reader == nil {
		return ""
	}
	var found []string
	for _, c := range r.reader.Found() {
		for _, x := range c.Fills {
			found = append(found, fmt.Sprintf("%s %v", m.ColumnName(c.Column), x))
		}
	}
	if len(found) == 0 {
		return ""
	}
	more := ""
	if n := len(found) - maxFound; n > 0 {
		found, more = found[:maxFound], fmt.Sprintf(" and %d more", n)
	}
	return "these values repeat far more often than in training, and count as lost readings: " + event.Printable(strings.Join(found, ", ")) + more
}

const maxFound = 5 // largest number of fill values in a message

// addMissingFlag adds --missing-policy with the same usage text in every command.
func addMissingFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "missing-policy", cmp.Or(*to, string(model.MissingAuto)), "missing policy: none, rescale, impute, fill or auto\nauto mixes the others")
	_ = c.RegisterFlagCompletionFunc("missing-policy", cobra.FixedCompletions(model.MissingPolicyNames(), cobra.ShellCompDirectiveNoFileComp))
}

// forceMissing makes a model use the given missing policy for all events with missing fields. The policy "auto" leaves
// the model unchanged.
func forceMissing(m *served.Model, policy model.MissingPolicy) error {
	if policy.Imputes() && m.Head.Covariance == nil {
		return usageError{fmt.Errorf("--missing-policy %s: the model has no covariance of numeric columns, which imputation needs", policy)}
	}
	m.ForceMissing(policy)
	return nil
}

// numberMeasures measures regression predictions.
type numberMeasures struct {
	loss loss.Loss
	sums measure.Numbers
}

// unseen counts the examples with features that a model has not seen, by field.
type unseen struct {
	model    *served.Model
	examples int // number of all examples
	with     int // number of examples with an unseen feature
	byField  map[uint16]*fieldUnseen
}

// unseenReport is the JSON form of unseen in the output of predict.
type unseenReport struct {
	Examples int           `json:"examples"` // number of examples with an unseen feature
	Fields   []fieldUnseen `json:"fields"`   // fields with unseen features, most frequent first
}

type fieldUnseen struct {
	Field    string `json:"field"` // "" for the columns of a sparse text format
	Examples int    `json:"examples"`
	Example  string `json:"example"` // first unseen feature
	kind     event.Kind
	column   uint32 // column of the first unseen feature
	last     int    // number of the last example with an unseen feature
}

// unseenShown is the largest number of fields in a report.
const unseenShown = 20

func (u *unseen) add(e *event.Example) {
	u.examples++
	some := false
	u.model.EachUnseen(e, func(f served.Feature) {
		some = true
		r := u.byField[f.Field]
		if r == nil {
			r = &fieldUnseen{column: f.Column}
			u.byField[f.Field] = r
		}
		if r.last != u.examples {
			r.last = u.examples
			r.Examples++
		}
	})
	if some {
		u.with++
	}
}

// report returns the counts. The argument s is the Schema of the examples.
func (u *unseen) report(s *event.Schema) unseenReport {
	r := unseenReport{Examples: u.with, Fields: []fieldUnseen{}}
	if u.with == 0 {
		return r
	}
	name := s.Namer()
	for id, f := range u.byField {
		f.Field, f.Example, f.kind = s.Fields[id].Name, name(f.column), s.Fields[id].Kind
		r.Fields = append(r.Fields, *f)
	}
	slices.SortFunc(r.Fields, func(a, b fieldUnseen) int {
		return cmp.Or(cmp.Compare(b.Examples, a.Examples), cmp.Compare(a.Field, b.Field), cmp.Compare(a.kind, b.kind))
	})
	r.Fields = r.Fields[:min(len(r.Fields), unseenShown)]
	return r
}

// warnOfUnseen prints a warning about each field with unseen values in more than a tenth of the examples, and in at
// least five examples. It ignores words and columns of sparse text, where new values are frequent.
func (p *program) warnOfUnseen(r unseenReport, examples int) {
	for _, f := range r.Fields {
		if f.Field != "" && f.kind != event.Words && f.kind != event.Cross && f.Examples >= 5 && 10*f.Examples > examples {
			p.warn(fmt.Sprintf("field %q has a value unknown to the model in %s of %s, such as %s", f.Field, humanize.Comma(int64(f.Examples)), plural(examples, "example"), config.Quote(event.Printable(f.Example))))
		}
	}
}
