package online

import (
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/aged"
	"blankout/online/answer"
	"blankout/online/cover"
	"blankout/online/fields"
	"blankout/online/fill"
	"blankout/online/numbers"
	"blankout/online/pace"
	"blankout/online/refresh"
	"blankout/online/rows"
	"blankout/online/scaling"
	"blankout/online/silent"
	"blankout/online/watch"
)

// Learner is a linear learner with K outputs: one for two classes, else one
// against the rest for each class. With noise = "auto" it is a bank of such
// learners, one for each noise level, of which one at a time is published. Each
// level has its own weights, average, learning rate and choice between average and
// iterate, and learns, to the bit, as it would alone. All share what does not depend
// on weights: the Scaler's statistics, the counts and the half-life. They also share
// the drift detector, which watches the published scores: unless OnDrift is log, an
// alarm is one for all levels. What it knows about a feature is the feature's row in its Table, see rows.Layout.
// A Learner is not safe for concurrent use.
type Learner struct {
	*answering
	watch      *watch.Watch
	likelihood bool  // scores are meant as log-odds
	began      *sums // where the interval began that is shared
	aged       aged.Aged
	old        older
	horizon    horizon
	predicting predicting
}

// New returns a Learner for events of the Schema, which stays the decoder's: it
// may grow, but only before the Learn of an event that needs the growth (or see
// SetSchema).
func New(c Config, s *event.Schema) (*Learner, error) {
	set, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	return newLearner(c, set, s, s.Outputs())
}

// NewShared returns a Learner with the settings c.Shared, which will be one of several that
// learn one model: it has an output for each class that there may be, for they cannot grow
// at the same event.
func NewShared(c Config, s *event.Schema) (*Learner, error) {
	c = c.Shared()
	set, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	outputs := s.Outputs()
	if s.MaxClasses > 2 && s.Target == loss.Sign {
		outputs = s.MaxClasses
	}
	return newLearner(c, set, s, outputs)
}

// newLearner is New with so many outputs, and with what parse has made of the settings, which
// takes milliseconds for some losses.
func newLearner(c Config, set settings, s *event.Schema, outputs int) (*Learner, error) {
	if want := loss.LabelsOf(c.Loss); s.Target != want {
		return nil, fmt.Errorf("learner: %w", targetMismatch(c.Loss, s.Target))
	}
	w := watch.New()
	b := &bank{youngBytes: youngBytes, config: c, set: set, schema: s, unit: numbers.NewUnit(s.Target, c.HalfLife), progress: progress{fade: pace.NewFade(c.HalfLife, c.HalfLifeTime, c.HalfLifeStep)}}
	l := &Learner{answering: &answering{bank: b, measured: &w.Measures, positive: c.Positive}, watch: w}
	l.scaling = scaling.New(set.scaling(c), set.standardize, s.ColumnsGoMissing())
	l.refresh.Settings = refresh.Settings{
		Size: c.IRLSBatch, Reach: max(c.IRLSBatch, c.IRLSWindow), Loss: set.loss, Ridge: set.ridge,
		Intercept: set.intercept, Penalized: c.Intercept == "penalized", Marginalized: c.Noisy(), Only: c.Optimizer == "irls",
	}
	for _, n := range set.noises {
		c0, c1, c2 := n.Coefficients()
		l.levels = append(l.levels, level{
			noise: n, strength: c0 + c1 + c2, Pace: pace.New(c.Average, c.Adapt),
		})
	}
	classes := outputs
	if s.Target == loss.Sign {
		classes = max(outputs, s.MaxClasses)
	}
	if most := rows.FirstPart + l.parts()*len(l.levels)*classes; most*8 > 1<<18 {
		return nil, fmt.Errorf("learner: max_classes = %d with %d noise levels: a feature's row would be larger than 256 KB; set fewer classes or one noise", s.MaxClasses, len(set.noises))
	}
	l.dead = silent.NewValues(model.SilentValue(c.SilentValue))
	l.setOutputs(outputs)
	l.shares, l.judge.Scales = l.newTable(), l.scales()
	if set.numbers {
		l.judge.Loss = set.loss
	}
	l.beginSecond()
	l.fields = fields.New(l.shares.Rules(), s.Absent)
	l.filling.Gatherer, l.filling.grouping = fill.New(c.CovarianceMaxFields), model.NewGrouping(s)
	l.setAnswerOutputs()
	if set.numbers {
		l.watch.Measures.Numbers = &watch.Numbers{Loss: set.loss}
	}
	l.takeForce()
	if l.k == 1 {
		l.active = 1
		return l, nil
	}
	for k := range l.k {
		l.setIntercept(k, rows.NoClass)
	}
	return l, nil
}

// setAnswerOutputs makes what depends on the number of outputs.
func (l *Learner) setAnswerOutputs() {
	l.base = make([]float64, l.k)
	l.deleting.out, l.probing = nil, probing{out: make([]float64, l.k)}
	l.link, l.likelihood = answer.NewLink(), l.config.likelihood(l.set)
	if l.sets == nil && l.config.Coverage > 0 {
		l.sets = cover.New(l.config.Coverage)
	}
	l.watch.Measures.Binary = nil
	if l.k == 1 && !l.set.numbers {
		l.watch.Measures.Binary = &measure.Binary{}
	}
	l.widenSecond()
}

// Config returns the Learner's settings, of which its caller must change nothing.
func (l *Learner) Config() Config { return l.config }

// Learn learns an event, and returns the prediction for it before that. If the event was predicted earlier, prior is that
// Prediction: the progressive measures count it, it moves the mixture weights, and it decides between averages and
// iterates. Otherwise prior is nil.
//
// An importance weight of 0 leaves everything as it was. A whole weight up to 16
// is learned that often in a row, so that 2 is the same, to the bit, as meeting
// the event twice (but for the counts of events and of the Scaler); a larger one as pace.Parts
// has it. It counts as at most 32 times the average weight so far (pace.Importance).
//
// An unlabeled event moves no weight; it updates the Scaler and adds
// Config.UnlabeledWeight of its expected curvature to the preconditioner. A refused event,
// one whose values are not finite or beyond 1e30, and one for which there is no room
// (Refusal), is counted and not learned: its Prediction says so.
func (l *Learner) Learn(e *event.Example, prior *Prediction) Prediction {
	if prior != nil && prior.Refused {
		prior = nil
	}
	l.setEarlier(e, prior)
	p := l.learn(e, prior)
	l.earlier.lanes = nil
	l.observe()
	l.settle()
	l.freeze()
	l.keepPast()
	return p
}

// learn takes an event through the stages, see the package's comment.
func (l *Learner) learn(e *event.Example, prior *Prediction) Prediction {
	l.watch.Mislabeled.Clear()
	if !e.Usable() {
		l.watch.Refused.Take(e, l.events)
		return l.refused()
	}
	if e.Weight == 0 {
		return l.Predict(e)
	}
	if r := l.Refusal(e); r != nil {
		l.watch.Refused.Take(&event.Example{Refused: r}, l.events)
		return l.refused()
	}
	l.faults.came = e
	e = l.declare(e)
	l.begin(e)
	l.useEarlier()
	l.lack(e)
	l.meet(e)
	l.gather(e)
	l.publish(e)
	p := l.predicted()
	switch {
	case e.Label == event.Unlabeled:
		l.watch.Measures.Unlabeled++
		l.unlabeled(l.now.weight)
		if l.set.numbers {
			l.now.scores[0] = l.unit.Score(l.now.scores[0])
		}
		p.Scores = l.byClass(l.now.scores)
		return p
	case l.set.numbers:
		l.measureTarget(e, &p, prior)
	default:
		l.measureClass(e, &p, prior)
		l.probeAll(e)
		l.weighLabel(e.Label)
		p.Mislabeled = l.watch.Mislabeled.Latest()
	}
	if l.set.numbers && !l.unit.Known() {
		p.Scores = l.now.scores
		return p
	}
	l.learnFrom(e)
	l.learnSecond(e)
	p.Scores = l.byClass(l.now.scores)
	l.young.Take(e.Label)
	return p
}

// begin takes up fields and classes that come with an event, and lets its time go by.
func (l *Learner) begin(e *event.Example) {
	k := l.k
	l.shareOutputs(e)
	if l.grow(e); l.k > k && !l.young.On() {
		l.setAnswerOutputs()
	}
	l.events++
	l.age(e.Time)
	if l.now.weight = l.importance.Bound(e.Weight); e.Label != event.Unlabeled && !l.shared() {
		l.now.weight = l.importance.Observe(e.Weight)
	}
}

// measureClass measures the prediction for the current event, p or an earlier one.
func (l *Learner) measureClass(e *event.Example, p, prior *Prediction) {
	l.takeAged(e)
	scores := l.byClass(l.now.scores)
	if prior != nil {
		scores = l.widened(prior.Scores)
	}
	l.measure(scores, p.Decision, e)
}

// probeAll takes up how the answers to the event do, and finds out what the death of each field
// would cost.
func (l *Learner) probeAll(e *event.Example) {
	l.probe(e)
	if !l.shared() {
		for _, c := range l.costs(e, e.Label) {
			l.watch.Health.Cost(c.field, c.with, c.without)
		}
	}
}

// outputs returns how many scores an event has now: one of two classes or of a number, else one
// for each class that has come or that the Schema names.
func (l *Learner) outputs() int { return l.young.Scores(l.k) }

// weighLabel finds out whether the current event is a mislabeled event.
func (l *Learner) weighLabel(label int) {
	loss, ok := l.set.loss.(interface {
		Influence(y, f, v float64) float64
	})
	if !ok || l.config.MislabeledBelow == 0 {
		return
	}
	// The output of the event's own class: the others only say "not this one".
	k, output := 0, l.now.output
	if l.k > 1 {
		k = output
	}
	level := l.shares.InForce[l.fields.Range].Largest()
	influence := loss.Influence(rows.Y(output, k, l.k), l.now.scores[k], l.variance(&l.levels[level], level*l.k+k, k))
	l.watch.Mislabeled.Weigh(watch.MislabeledEvent{Class: label, Score: l.now.scores[k], Influence: influence}, l.config.MislabeledBelow)
}

// learned returns the noises that levels of these noises are learned under.
func (c Config) learned(noises []loss.Noise) []loss.Noise {
	if c.Noisy() {
		return noises
	}
	return slices.Repeat([]loss.Noise{loss.NoNoise{}}, len(noises))
}

// SetSchema gives the Learner a later state of its Schema: the same, perhaps
// with more fields, classes and names. A caller that decodes on another goroutine must
// pass the Schema of each Batch before its events. A caller that decodes and learns in
// turn need not call it: the Learner reads the Schema that the decoder adds to.
func (l *Learner) SetSchema(s *event.Schema) {
	l.schema = s
	l.filling.grouping.Follow(s)
	if l.groups != nil {
		l.groups.Follow(s)
	}
	if l.silent != nil && l.silent.grouping != nil {
		l.silent.grouping.Follow(s)
	}
}

// Schema returns the Schema that the Learner was made with, or was given last.
func (l *Learner) Schema() *event.Schema { return l.schema }

// meet hands on an event that has come.
func (l *Learner) meet(e *event.Example) {
	if l.shared() {
		return // the fold's
	}
	fields := l.schema.Fields
	came := l.faults.asCame(e)
	m := watch.Met{
		Event: e, Came: came, Number: l.events, Named: l.fields.Named, Present: l.fields.PresentIn(came, e, fields),
		Fields: fields[:min(len(fields), len(l.scaling.Kinds))], Rows: l.table, Error: l.errorForecast(), Usual: l.fields.Usual(l.events),
	}
	l.watch.Met(m)
}
