package papers

// This file has the experiment on failing sensors. A sensor is a whole group of features or a single feature. Its
// failure is either declared to the model or silent.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/simulate"

	"gonum.org/v1/gonum/stat"
)

var sensors = Experiment{
	Name:  "sensors",
	Help:  "sensors that die at test time: noise on features or on groups, filling in, rescaling, means, corrupted copies",
	Paper: "Our own",
	Part:  "not from a paper",
	Needs: []string{"gas_drift", "usps", "elec2", "covtype_10k"},
	Run:   runSensors,
}

type sensorsConfig struct {
	Fractions []float64 `json:"shares"` // fractions of the groups or features that fail
	Masks     int       `json:"masks"`  // number of random masks, each applied to every test event
	Costs     []float64 `json:"costs"`
	Levels    []float64 `json:"levels"` // candidate noise levels
	Copies    int       `json:"copies"` // number of copies of each training event, for methods that learn from copies
	Train     int       `json:"train"`  // largest number of training events; 0 means all
	Test      int       `json:"test"`   // largest number of test events, sampled evenly; 0 means all
	Tol       float64   `json:"tol"`
}

// sensorsSet is a data set whose groups of columns can fail.
type sensorsSet struct {
	Name        string `json:"name"`
	folder      string
	train, test string // file names; without test, the last third of train is the test set
	shuffled    bool
	columns     int
	classes     []string
	groups      *event.ColumnGroups // groups that fail together; nil if only single features fail
}

// patches returns the 4 x 4 patches of images of 16 x 16 pixels as groups.
func patches() *event.ColumnGroups {
	g := &event.ColumnGroups{}
	for patch := range uint32(16) {
		named := event.NamedColumns{Name: fmt.Sprintf("patch %d", patch+1)}
		for row := range uint32(4) {
			from := (patch/4*4+row)*16 + patch%4*4
			named.Spans = append(named.Spans, event.Span{From: from, To: from + 4})
		}
		g.Named = append(g.Named, named)
	}
	return g
}

func sensorsSets() []sensorsSet {
	digits := digits().Classes
	areas := &event.ColumnGroups{Named: []event.NamedColumns{
		{Name: "wilderness", Spans: []event.Span{{From: 10, To: 14}}}, {Name: "soil", Spans: []event.Span{{From: 14, To: 54}}},
	}}
	return []sensorsSet{
		{Name: "gas_drift, in order", folder: "gas_drift", train: "stream.svm.gz", columns: 128, classes: digits[:6], groups: &event.ColumnGroups{Every: 8}},
		{Name: "usps", folder: "usps", train: "train.svm.gz", test: "test.svm.gz", columns: 256, classes: digits, groups: patches()},
		{Name: "elec2, in order", folder: "elec2", train: "stream.svm.gz", columns: 8, classes: []string{"-1", "1"}},
		{Name: "covtype_10k", folder: "covtype_10k", train: "train.svm.gz", test: "test.svm.gz", columns: 54, classes: digits[:7], groups: areas},
	}
}

// The units that fail: whole groups or single features.
const (
	deadGroups   = "groups"
	deadFeatures = "features"
)

// policyCase is a way in which a model predicts events with missing features.
type policyCase struct {
	name  string
	known bool // whether missing features are declared to the model
	// policy is the missing policy for declared features. rescale is for a model that receives only the number of
	// missing features.
	policy  model.MissingPolicy
	rescale bool
}

var (
	undeclared    = policyCase{name: "untold"}
	declaredCount = policyCase{name: "told how many", rescale: true}
	withMeans     = policyCase{name: "means", known: true, policy: model.MissingNone}
	withRescaled  = policyCase{name: "rescaled", known: true, policy: model.MissingRescale}
	imputed       = policyCase{name: "filled in", known: true, policy: model.MissingImpute}
	asServed      = policyCase{name: "as blankout answers", known: true, policy: model.MissingAuto}
)

// sensorsMethod is a way to learn, and the ways in which its models predict.
type sensorsMethod struct {
	name string
	// noise returns the noise for a level. It acts on the units that fail. If noise is nil, there is no noise.
	noise func(level float64) loss.Noise
	// If copies is set, training uses corrupted copies instead of the expectation, at one level. If mixed is set, the
	// copies have mixedRates, and the event itself is added. If keep is set, surviving values are not scaled, as in a
	// silent failure.
	copies, mixed, keep bool
	silent              bool // silent noise at one level, which includes a range of rates, as mixed does
	// online changes the configuration for one pass of the online learner. If copies is set, the pass learns copies.
	online  func(o *online.Config, dead string, level float64)
	answers []policyCase
}

// The names of methods that claims compare.
const (
	dividedCopies      = "corrupted copies, divided"
	keptCopies         = "corrupted copies, as it happens"
	mixedDividedCopies = "copies at mixed rates, divided"
	mixedKeptCopies    = "copies at mixed rates, as it happens"
	passUntouched      = "one pass, untouched default"
	passExpected       = "one pass, expected_missing"
	passSilent         = "one pass, silent_missing"
	passCopies         = "one pass, untouched default on the events and copies, shuffled"
	passClean          = "one pass, clean gradient"
)

// allCopies are the methods that learn from copies. The closed form is compared with them.
var allCopies = []string{dividedCopies, keptCopies, mixedDividedCopies, mixedKeptCopies}

func sensorsMethods(dead string) []sensorsMethod {
	matched, silently := dropout, silent
	if dead == deadGroups {
		matched, silently = groupDropout, silentGroup
	}
	untouched := func(*online.Config, string, float64) {}
	methods := []sensorsMethod{
		{name: "no noise", answers: []policyCase{undeclared, declaredCount, withMeans, withRescaled, imputed}},
		{name: dividedCopies, noise: matched, copies: true, answers: []policyCase{undeclared, withRescaled}},
		{name: keptCopies, noise: matched, copies: true, keep: true, answers: []policyCase{undeclared}},
		{name: mixedDividedCopies, noise: matched, copies: true, mixed: true, answers: []policyCase{undeclared, withRescaled}},
		{name: mixedKeptCopies, noise: matched, copies: true, mixed: true, keep: true, answers: []policyCase{undeclared}},
		{name: "dropout of " + dead, noise: matched, answers: []policyCase{undeclared, declaredCount, withRescaled, imputed, asServed}},
		{name: "silent noise of " + dead, noise: silently, silent: true, answers: []policyCase{undeclared}},
		{name: passUntouched, online: untouched, answers: []policyCase{undeclared, asServed}},
		{name: passExpected, answers: []policyCase{undeclared, asServed}, online: func(o *online.Config, dead string, level float64) {
			if dead == deadGroups {
				o.ExpectedMissingGroups = level
			} else {
				o.ExpectedMissing = level
			}
		}},
		{name: passSilent, answers: []policyCase{undeclared, asServed}, online: func(o *online.Config, dead string, level float64) {
			o.SilentMissing, o.SilentGroups = level, dead == deadGroups
		}},
		{name: passClean, answers: []policyCase{undeclared}, online: func(o *online.Config, dead string, level float64) {
			o.Optimizer, o.NoisyGradient, o.Noise = "dropout-descent", "false", dropout(level).String()
		}},
		{name: passCopies, noise: matched, copies: true, mixed: true, keep: true, online: untouched, answers: []policyCase{undeclared, asServed}},
	}
	if dead == deadGroups {
		methods = append(methods, sensorsMethod{name: "dropout of features", noise: dropout, answers: []policyCase{undeclared, declaredCount, withRescaled}})
	}
	return methods
}

// sensorsSetting identifies one cell: a method with its parameters, a set, and the unit that fails.
type sensorsSetting struct {
	Set    string  `json:"set"`
	Dead   string  `json:"dead"`
	Method string  `json:"method"`
	Cost   float64 `json:"cost"`
	Level  float64 `json:"level"`
}

// sensorsOutcome is the result of a setting, by way of predicting.
type sensorsOutcome struct {
	Errors [][][]float64 `json:"errors"` // errors in % by way of predicting, fraction and mask
	// Wrong has the number of mistakes by way of predicting and test event. The number is summed over all masks and
	// over the fractions from 0.3 to 0.7.
	Wrong [][]byte `json:"wrong,omitempty"`
}

// sensorsRow is a method with one of its ways of predicting, and the setting that was chosen for it.
type sensorsRow struct {
	method  *sensorsMethod
	way     int
	setting sensorsSetting
	outcome *sensorsOutcome
}

func (r *sensorsRow) answer() policyCase { return r.method.answers[r.way] }

func (r *sensorsRow) name() string { return r.method.name + ", " + r.answer().name }

// middle reports whether a fraction is between 0.2 and 0.8. Settings are chosen and compared by the mean over these
// fractions.
func middle(fraction float64) bool { return fraction > 0.2 && fraction < 0.8 }

// meanOfMiddle returns the mean of errors in % by fraction and mask, over the middle fractions. It reports whether there
// are any.
func meanOfMiddle(fractions []float64, errors [][]float64) (mean float64, ok bool) {
	var each []float64
	for i, fraction := range fractions {
		if middle(fraction) && i < len(errors) {
			each = append(each, stat.Mean(errors[i], nil))
		}
	}
	return stat.Mean(each, nil), len(each) > 0
}

// mean returns the row's mean error in % over the middle fractions.
func (r *sensorsRow) mean(fractions []float64) float64 {
	mean, _ := meanOfMiddle(fractions, r.outcome.Errors[r.way])
	return mean
}

// less returns the mean error of r minus the mean error of other, in percentage points. The means are over the middle
// fractions and all masks. The difference is paired by test event.
func (r *sensorsRow) less(other *sensorsRow, c *sensorsConfig) Difference {
	count := 0
	for _, fraction := range c.Fractions {
		if middle(fraction) {
			count += c.Masks
		}
	}
	a, b := r.outcome.Wrong[r.way], other.outcome.Wrong[other.way]
	each := make([]float64, len(a))
	for i := range each {
		each[i] = 100 * (float64(a[i]) - float64(b[i])) / float64(count)
	}
	return pairedT(each)
}

func runSensors(ctx context.Context, s *Setting) error {
	c := sensorsConfig{
		Fractions: Pick(s, []float64{0, 0.5}, []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}),
		Masks:     Pick(s, 2, 5, 5), Costs: Pick(s, []float64{0.3}, []float64{0.03, 0.3, 3}, []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10}),
		Levels: Pick(s, []float64{0.5}, []float64{0.1, 0.3, 0.5}, []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}),
		Copies: Pick(s, 2, 3, 10), Test: Pick(s, 50, 1000, 0), Train: Pick(s, 200, 0, 0), Tol: 1e-3,
	}
	s.Configure(c)
	sets := sensorsSets()
	if s.Size == Full {
		sets = append(sets, sensorsSet{Name: "gas_drift, shuffled", folder: "gas_drift", train: "stream.svm.gz", shuffled: true, columns: 128, classes: sets[0].classes, groups: sets[0].groups})
	}
	if !s.Decisive() {
		sets = sets[2:] // the samples of gas_drift and usps do not have all classes
	}
	boosting, err := s.readBoosting()
	if err != nil {
		return err
	}
	summary := &sensorsSummary{ResultTable: ResultTable{Title: "Test error, %, mean over 30, 50 and 70 % dead", Columns: []string{"learned with", "answers"}, Digits: 1}}
	for _, set := range sets {
		train, test, err := s.sensorsData(ctx, &set, c)
		if err != nil {
			return err
		}
		for _, dead := range []string{deadGroups, deadFeatures} {
			if dead == deadGroups && set.groups == nil {
				continue
			}
			rows, err := s.sensorsRows(ctx, &set, c, dead, train, test)
			if err != nil {
				return err
			}
			s.reportSensors(&set, c, dead, rows, boosting, test, summary)
		}
	}
	s.Table(summary.whole())
	s.Note("Fractions of the groups (sensors of 8 features, patches of 4 x 4 pixels, columns of one name) or of single features die in every test event, %d draws each. The first two thirds of a set in order train, or any two thirds of a shuffled set. Errors by fraction are in results.json.", c.Masks)
	s.Note("Untold: dead columns read their mean and are not declared. Told how many: survivors are divided by the fraction left. The others know which columns are missing: means keeps the mean, rescaled divides the survivors, filled in imputes from the other columns, as blankout answers uses the missing policy that the model chose on training events.")
	if boosting != nil {
		s.Note("Gradient boosting is scikit-learn's at its defaults (tools/quality/sensors.py), trained on the events and three copies of each with missing groups or features.")
	}
	s.Note("All methods but one pass solve the logistic loss exactly on standardized columns. Each chose its cost and noise level by its mean error at 30 to 70 %% dead on the last quarter of the training events. Corrupted copies: %d of each event; divided, as it happens and mixed rates as in mnist-copies. Silent noise is the closed form of undeclared death at rates from 0 to 75 %%. One pass is the learner at its defaults and the named key at 0.5; on events and copies it does four times the work.", c.Copies)
	return nil
}

// boostingRow is the result of gradient boosting on a set: the errors in % by fraction and random mask.
type boostingRow struct {
	Set       string      `json:"set"`
	Dead      string      `json:"dead"`
	Declared  bool        `json:"told"`
	Fractions []float64   `json:"shares"`
	Errors    [][]float64 `json:"errors"`
}

// readBoosting reads the results that tools/quality/sensors.py has written next to the data sets, if they exist.
func (s *Setting) readBoosting() (rows []boostingRow, err error) {
	path := s.Path("gradient_boosting", "sensors.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func (b boostingRow) answers() string {
	if b.Declared {
		return "missing values as they are"
	}
	return undeclared.name
}

// at returns the mean error at a fraction with its standard error, or nil if the fraction was not measured.
func (b boostingRow) at(fraction float64) any {
	i := slices.Index(b.Fractions, fraction)
	if i < 0 || i >= len(b.Errors) {
		return nil
	}
	mean, e := meanError(b.Errors[i])
	return fmt.Sprintf("%.1f (%.1f)", mean, e)
}

// sensorsSummary is the table of the mean errors of every method on every set, with a column for each set and unit that
// fails.
type sensorsSummary struct{ ResultTable }

// add adds an error to the last column. method and answers, the way of predicting, determine the row.
func (t *sensorsSummary) add(method, answers string, mean float64) {
	at := slices.IndexFunc(t.Rows, func(row []any) bool { return row[0] == method && row[1] == answers })
	if at < 0 {
		at = len(t.Rows)
		t.Rows = append(t.Rows, []any{method, answers})
	}
	for len(t.Rows[at]) < len(t.Columns)-1 {
		t.Rows[at] = append(t.Rows[at], nil)
	}
	t.Rows[at] = append(t.Rows[at], mean)
}

// whole returns the table, in which cells without an error are empty.
func (t *sensorsSummary) whole() ResultTable {
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], make([]any, len(t.Columns)-len(t.Rows[i]))...)
	}
	return t.ResultTable
}

// sensorsData reads the training and test events of a set. Every event has all columns.
func (s *Setting) sensorsData(ctx context.Context, set *sensorsSet, c sensorsConfig) (train, test []event.Example, err error) {
	read := func(file string) ([]event.Example, error) {
		return s.examples(ctx, Classes(set.classes...), set.folder, func(e *event.Example) {
			x := event.Vec{Index: allColumns(set.columns), Value: make([]float64, set.columns)}
			for i, d := range e.Features.Index {
				x.Value[d] = e.Features.Value[i]
			}
			e.Features, e.Field = x, nil
		}, file)
	}
	if train, err = read(set.train); err != nil {
		return nil, nil, err
	}
	if set.test != "" {
		if test, err = read(set.test); err != nil {
			return nil, nil, err
		}
	} else {
		if set.shuffled {
			r := rand.New(rand.NewPCG(s.Seed, 1))
			r.Shuffle(len(train), func(i, j int) { train[i], train[j] = train[j], train[i] })
		}
		at := len(train) * 2 / 3
		train, test = train[:at], train[at:]
	}
	return evenly(train, c.Train), evenly(test, c.Test), nil
}

// evenly returns n of the examples, sampled evenly. It returns all examples if n is 0.
func evenly(all []event.Example, n int) []event.Example {
	if n == 0 || n >= len(all) {
		return all
	}
	return mapped(rowsFrom(0, n), func(i int) event.Example { return all[i*len(all)/n] })
}

// sensorsRows tries every setting of every method on validation events. It then measures the setting chosen for each
// row on the test events.
func (s *Setting) sensorsRows(ctx context.Context, set *sensorsSet, c sensorsConfig, dead string, train, test []event.Example) ([]*sensorsRow, error) {
	at := len(train) * 3 / 4
	learned, held := train[:at], evenly(train[at:], 600)
	fractions := slices.DeleteFunc(slices.Clone(c.Fractions), func(q float64) bool { return !middle(q) })
	methods := sensorsMethods(dead)
	var settings []sensorsSetting
	for _, m := range methods {
		levels, costs := []float64{0}, c.Costs
		if m.noise != nil && !m.mixed {
			levels = c.Levels
		}
		if m.silent {
			levels = []float64{0.5}
		}
		if m.online != nil {
			levels, costs = []float64{0.5}, []float64{online.DefaultConfig().C}
		}
		settings = append(settings, crossed(costs, levels, func(cost, level float64) sensorsSetting { return sensorsSetting{set.Name, dead, m.name, cost, level} })...)
	}
	method := func(name string) *sensorsMethod {
		return &methods[slices.IndexFunc(methods, func(m sensorsMethod) bool { return m.name == name })]
	}
	// cells computes the outcomes of settings: it trains on the events from and measures on the events on.
	cells := func(part string, settings []sensorsSetting, from, on []event.Example, fractions []float64, masks int) ([]sensorsOutcome, error) {
		return Cells(ctx, s, len(settings), func(ctx context.Context, i int) (any, func() (sensorsOutcome, error)) {
			x := settings[i]
			return []any{part, x, fractions, masks, c.Copies, c.Train, len(on), c.Tol}, func() (o sensorsOutcome, err error) {
				s.Say("%s, %s: %s, cost %g, level %g", set.Name, dead, x.Method, x.Cost, x.Level)
				m := method(x.Method)
				model, err := m.learn(ctx, set, x, c, from, s.Seed)
				if err != nil {
					return o, err
				}
				return m.outcome(ctx, model, x.Dead, on, fractions, masks, s.Seed)
			}
		})
	}
	tried, err := cells("validation", settings, learned, held, fractions, 1)
	if err != nil {
		return nil, err
	}
	var rows []*sensorsRow
	var chosen []sensorsSetting
	for i := range methods {
		m := &methods[i]
		for way := range m.answers {
			best := Least(len(settings), func(i int) bool { return settings[i].Method == m.name }, func(i int) Held {
				r := sensorsRow{method: m, way: way, outcome: &tried[i]}
				return Held{Loss: r.mean(fractions)}
			})
			rows = append(rows, &sensorsRow{method: m, way: way, setting: settings[best]})
			if !slices.Contains(chosen, settings[best]) {
				chosen = append(chosen, settings[best])
			}
		}
	}
	outcomes, err := cells("test", chosen, train, test, c.Fractions, c.Masks)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		r.outcome = &outcomes[slices.Index(chosen, r.setting)]
	}
	return rows, nil
}

// learn returns the model that the method learns from the examples.
func (m *sensorsMethod) learn(ctx context.Context, set *sensorsSet, x sensorsSetting, c sensorsConfig, examples []event.Example, seed uint64) (*model.Linear, error) {
	schema := Classes(set.classes...)
	schema.Absent = event.AbsentMissing
	if x.Dead == deadGroups {
		schema.ColumnGroups = set.groups
	} else {
		schema.ColumnGroups = &event.ColumnGroups{Every: 1}
	}
	copied := corruption{noise: m.noise, rates: []float64{x.Level}, copies: c.Copies, keep: m.keep, grouping: model.NewGrouping(schema), seed: seed}
	if m.mixed {
		copied.rates, copied.whole = mixedRates, true
	}
	if m.online != nil {
		o := online.DefaultConfig()
		m.online(&o, x.Dead, x.Level)
		l := newLearner(o, schema)
		copied.reads = columnMeans(examples, set.columns)
		if !m.copies {
			return learned(l, nil, examples), nil
		}
		return learned(l, &copied, examples), nil
	}
	var b batch.Builder
	presence := batch.Presence{Sparse: true}
	for i := range examples {
		presence.Add(&examples[i])
		add(&b, &examples[i])
	}
	d, scaler := zScores(b.Data(schema))
	config := trainConfig()
	config.Cost, config.Tol, config.Threads = x.Cost, c.Tol, 1
	learned := d
	if m.copies {
		standardized := slices.Clone(examples)
		for i := range standardized {
			standardized[i].Features = scaler.Standardized(&examples[i], event.Vec{})
		}
		learned = copied.data(schema, nil, standardized)
	} else if m.noise != nil {
		config.Noise = m.noise(x.Level).String()
	}
	solved, err := batch.Train(ctx, learned, config)
	if err != nil {
		return nil, err
	}
	trained := solved.Model.WithScaler(scaler)
	trained = trained.WithCovariance(presence.Covariance(trained, d, model.MaxCovariance))
	trained.Missing = presence.Missing(trained, d, model.MissingAuto)
	return trained, nil
}

// outcome measures a model on events in which the given fractions are missing.
func (m *sensorsMethod) outcome(ctx context.Context, trained *model.Linear, dead string, events []event.Example, fractions []float64, masks int, seed uint64) (o sensorsOutcome, err error) {
	for _, way := range m.answers {
		told := trained
		switch {
		case !way.known:
			told = trained.WithMissing(nil)
			schema := *trained.Schema
			schema.Absent = ""
			told.Schema = &schema
		case way.policy != model.MissingAuto:
			told = trained.WithMissing(trained.Missing.Forced(way.policy))
		}
		var errors [][]float64
		wrong := make([]byte, len(events))
		for _, fraction := range fractions {
			var nightmare simulate.Nightmare = simulate.Random{Fraction: fraction}
			if dead == deadGroups {
				nightmare = simulate.Groups{Fraction: fraction}
			}
			var each []float64
			for mask := range masks {
				bad, err := simulate.Mistakes(ctx, told, events, nightmare, simulate.Treatment{Loss: model.LossDeclared, Rescale: way.rescale}, seed, mask)
				if err != nil {
					return o, err
				}
				if each = append(each, mistakes(bad).error()); middle(fraction) {
					for i, b := range bad {
						wrong[i] += b
					}
				}
			}
			errors = append(errors, each)
		}
		o.Errors, o.Wrong = append(o.Errors, errors), append(o.Wrong, wrong)
	}
	return o, nil
}

// reportSensors reports the table, the figure and the claims of a set.
func (s *Setting) reportSensors(set *sensorsSet, c sensorsConfig, dead string, rows []*sensorsRow, boosting []boostingRow, test []event.Example, summary *sensorsSummary) {
	summary.Columns = append(summary.Columns, set.Name+", "+dead)
	table := ResultTable{Detail: true, Title: fmt.Sprintf("%s, %s dead: test error, %%", set.Name, dead), Columns: []string{"learned with", "answers", "cost", "level"}}
	table.Columns = append(table.Columns, mapped(c.Fractions, func(fraction float64) string { return fmt.Sprintf("%g %%", 100*fraction) })...)
	figure := &simulate.Figure{Title: fmt.Sprintf("%s, %s dead", set.Name, dead), X: dead + " dead (%)", Y: "test error (%)"}
	silently := &simulate.Figure{Title: figure.Title + ", nobody says so", X: figure.X, Y: figure.Y}
	for _, r := range rows {
		level := any(nil)
		if r.setting.Level > 0 {
			level = fmt.Sprintf("%g", r.setting.Level)
		}
		line := []any{r.method.name, r.answer().name, fmt.Sprintf("%g", r.setting.Cost), level}
		series := simulate.Series{Name: r.name()}
		for i, fraction := range c.Fractions {
			mean, e := meanError(r.outcome.Errors[r.way][i])
			line = append(line, fmt.Sprintf("%.1f (%.1f)", mean, e))
			series.X = append(series.X, 100*fraction)
			plot(&series, Difference{mean, mean - 1.96*e, mean + 1.96*e})
		}
		table.Rows = append(table.Rows, line)
		summary.add(strings.Replace(r.method.name, " of "+dead, " of what dies", 1), r.answer().name, r.mean(c.Fractions))
		if slices.Contains([]string{
			"no noise, means", "no noise, rescaled", "no noise, filled in", dividedCopies + ", rescaled", "dropout of features, rescaled",
			"dropout of " + dead + ", as blankout answers",
		}, r.name()) {
			figure.Series = append(figure.Series, series)
		}
		if r.answer() == undeclared && slices.Contains([]string{"no noise", "dropout of " + dead, "silent noise of " + dead, mixedKeptCopies, passUntouched, passSilent, passCopies}, r.method.name) {
			series.Name = r.method.name
			silently.Series = append(silently.Series, series)
		}
	}
	for _, b := range boosting {
		if b.Set != set.Name || b.Dead != dead {
			continue
		}
		line := []any{"gradient boosting", b.answers(), "", nil}
		line = append(line, mapped(c.Fractions, b.at)...)
		if mean, ok := meanOfMiddle(b.Fractions, b.Errors); ok {
			summary.add("gradient boosting", b.answers(), mean)
		}
		table.Rows = append(table.Rows, line)
	}
	constant := constantError(len(test), func(i int) int { return test[i].Label })
	line := slices.Repeat([]any{fmt.Sprintf("%.1f", constant)}, len(c.Fractions))
	table.Rows = append(table.Rows, append([]any{"the most frequent class", "", "", nil}, line...))
	s.Table(table)
	summary.add("the most frequent class", "", constant)
	name := strings.NewReplacer(", ", "-", " ", "-").Replace(set.Name) + "-" + dead
	s.Figure(name, figure)
	s.Figure(name+"-silent", silently)

	row := func(name string) *sensorsRow {
		return rows[slices.IndexFunc(rows, func(r *sensorsRow) bool { return r.name() == name })]
	}
	// claim reports the claim that row a has a smaller error than each of the rows in others.
	claim := func(what, a string, others ...string) {
		x := row(a)
		claim := Claim{Claim: what, Where: set.Name + ", " + dead, Own: true, Unit: "points", Why: "it does worse on this set"}
		against := make([]string, len(others))
		for i, b := range others {
			y, name := row(b), ""
			against[i] = fmt.Sprintf("%.1f", y.mean(c.Fractions))
			if len(others) > 1 {
				name = "less " + b
				claim.Why = "at least one of these does better on this set"
			}
			claim.Parts = append(claim.Parts, below(name, x.less(y, &c), 0))
		}
		claim.Ours = fmt.Sprintf("%.1f against %s %%", x.mean(c.Fractions), strings.Join(against, ", "))
		s.Claim(claim)
	}
	named := func(methods []string, answer policyCase) []string {
		return mapped(methods, func(m string) string { return m + ", " + answer.name })
	}
	if dead == deadGroups {
		claim("untold: noise on groups beats noise on features", "dropout of groups, untold", "dropout of features, untold")
	}
	claim("untold: the closed form of dropout beats corrupted copies of every kind", "dropout of "+dead+", untold", named(allCopies, undeclared)...)
	claim("untold: the closed form of silent noise beats corrupted copies of every kind", "silent noise of "+dead+", untold", named(allCopies, undeclared)...)
	claim("untold: the closed form of silent noise beats the default on events and copies", "silent noise of "+dead+", untold", passCopies+", untold")
	claim("untold: one pass with `expected_missing` beats the default, also on events and copies", passExpected+", untold", named([]string{passUntouched, passCopies}, undeclared)...)
	claim("untold: one pass with `silent_missing` beats the default", passSilent+", untold", passUntouched+", untold")
	claim("untold: one pass with `silent_missing` beats the default on events and copies", passSilent+", untold", passCopies+", untold")
	claim("imputing (filled in) beats means", "no noise, filled in", "no noise, means")
	claim("noise improves imputing", "dropout of "+dead+", filled in", "no noise, filled in")
	claim("the missing policy that blankout chose beats no noise with means", "dropout of "+dead+", as blankout answers", "no noise, means")
	claim("the missing policy that blankout chose beats corrupted copies, rescaled", "dropout of "+dead+", as blankout answers", named([]string{dividedCopies, mixedDividedCopies}, withRescaled)...)
	claim("the default in one pass beats itself on events and copies", passUntouched+", as blankout answers", passCopies+", as blankout answers")
}
