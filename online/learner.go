package online

import (
	"fmt"
	"math"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/measure"
	"blankout/model"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/watch"
)

// Learner is a linear learner with K outputs: one for two classes, else one
// against the rest for each class. With noise = "auto" it is a bank of such
// learners, one for each noise level, of which one at a time is published. Each
// level has its own weights, average, learning rate and choice between average and
// iterate, and learns, to the bit, as it would alone. All share what does not depend
// on weights: the Scaler's statistics, the counts and the half-life. They also share
// the drift detector, which watches the published scores: where OnDrift is forget, an
// alarm is one for all levels. A Learner is not safe for concurrent use.
//
// What it knows about a feature is the feature's row in its Table, see rows.Layout.
type Learner struct {
	*answering
	watch      *watch.Watch
	likelihood bool // scores are meant as log-odds
}

// bank is the levels, and what they share: it scores an event, and learns from it. It knows
// nothing of how its scores become an answer.
type bank struct {
	config  Config
	set     settings
	schema  *blankout.Schema
	classes []float64 // weight of a class, NaN until met

	// The model.
	layout   rows.Layout
	rule     rules.Rule
	k        int // outputs
	n        int // levels times outputs
	active   int // outputs in use: classes that have appeared
	levels   []level
	table    *model.Table
	bias     []float64    // the intercepts, laid out as a row
	snapshot *model.Table // the latest, to share its blocks

	// How far it is.
	events uint64 // met, labelled or not, with a weight above 0
	steps  uint64 // updates made
	period uint64 // steps of the first pass, 0 while in it
	fade   fade

	unit    unit // of targets that are numbers
	scaling scaling
	groups  *rows.Groups // nil without curves and noise of groups, or where gradients are clean
	refresh refresh
	share   *sharing // nil where it learns alone
	// How often all rows have been written at once; no part of the state. A Learner that
	// follows another one has that one's count, see FollowState.
	rewritten uint64

	now event // the one that is being learned
}

// answering makes of the bank's scores what a reader of the model is told: it owns all that
// decides an answer, and no weight.
type answering struct {
	*bank
	chosen      int // the level that is published
	missing     missing
	filling     filling
	deleting    deleting
	masked      masked
	calibration calibration
	residual    residual // of numbers
	// positive names the positive one of two classes, "" where nothing does: see positiveName.
	positive string
	measured *watch.Measures // which classes have come, for the positive one
}

// level is a noise level: a copy of the weights that learns as if its noise
// were the true one.
type level struct {
	noise      loss.Noise
	strength   float64   // the coefficient of its variance that is not 0
	sumsq      []float64 // sum of squared weights by output, if the noise is constant
	average    average
	adaptation adaptation
	forecast   forecast
	groups     forecast // where groups die
}

func (lv *level) state(c *coder.Coder) {
	c.Floats(&lv.sumsq)
	lv.average.state(c)
	lv.adaptation.state(c)
	lv.forecast.state(c)
}

// lagShare returns what a lag is multiplied by in the weight that the level publishes.
func (lv *level) lagShare() float64 { return lv.average.coefficient * lv.adaptation.blend }

// event is what the event at hand has come to.
type event struct {
	step    rows.Step
	scores  []float64 // published scores, by output
	columns []uint32  // of its features, in their order before they were brought together in groups
	target  float64   // the number that the label is, in the Learner's unit
	// By level and output: sum x lag, sum basis w^2, and by how much the published score
	// was larger before the Scaler moved.
	lag, q, moved []float64
	hasMoved      bool      // the Scaler did; otherwise moved says nothing
	value         []float64 // the iterate's loss
	averageQ      []float64 // sum basis a^2 of the averages, see sumAverage
	coefficient   []float64 // of the averages
	read          numbersRead
}

// maxRepeats bounds how often an important event is learned.
const maxRepeats = 8

// unseenIntercept is the published intercept of a class that has not appeared.
const unseenIntercept = -30

// New returns a Learner for events of the Schema, which stays the decoder's: it
// may grow, but only before the Learn of an event that needs the growth (or see
// SetSchema).
func New(c Config, s *blankout.Schema) (*Learner, error) {
	set, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	return newLearner(c, set, s, s.Outputs())
}

// NewShared returns a Learner with the settings c.Shared, which will be one of several that
// learn one model: it has an output for each class that there may be, for they cannot grow
// at the same event.
func NewShared(c Config, s *blankout.Schema) (*Learner, error) {
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
func newLearner(c Config, set settings, s *blankout.Schema, outputs int) (*Learner, error) {
	if want := loss.LabelsOf(c.Loss); s.Target != want {
		return nil, fmt.Errorf("learner: %w", targetMismatch(c.Loss, s.Target))
	}
	w := &watch.Watch{}
	b := &bank{config: c, set: set, schema: s, unit: newUnit(s.Target), fade: fade{growth: 1}}
	l := &Learner{answering: &answering{bank: b, measured: &w.Measures}, watch: w}
	l.scaling.scaler.Mode, l.scaling.scaler.Unfilled = set.standardise, s.Known
	l.refresh.size, l.refresh.reach = c.Refresh, max(c.Refresh, c.RefreshWindow)
	for _, n := range set.noises {
		c0, c1, c2 := n.Coefficients()
		l.levels = append(l.levels, level{
			noise: n, strength: c0 + c1 + c2,
			average:    newAverage(c.Average),
			adaptation: newAdaptation(c.Adapt && c.Average > 0),
		})
	}
	if s.Target == loss.Sign {
		if most := rows.FirstPart + l.parts()*len(l.levels)*max(outputs, s.MaxClasses); most*8 > 1<<18 {
			return nil, fmt.Errorf("learner: max_classes = %d with %d noise levels: a feature's row would be larger than 256 KB; set fewer classes or one noise", s.MaxClasses, len(set.noises))
		}
	}
	l.setOutputs(outputs)
	first := set.missingRule
	if set.numbers && first == model.MissingAuto {
		first = model.MissingAsIs // until there is evidence
	}
	l.missing = newMissing(first, s.Known, len(l.levels))
	l.filling.grouping = model.NewGrouping(s)
	l.setAnswerOutputs()
	if set.numbers {
		l.watch.Measures.Numbers = &watch.Numbers{Loss: set.loss}
	}
	l.chosen = l.natural()
	if l.k == 1 {
		l.active = 1
		return l, nil
	}
	for k := range l.k {
		l.setIntercept(k, unseenIntercept)
	}
	return l, nil
}

// setOutputs makes what depends on the number of outputs: the layout of rows, the rule, an
// empty table, intercepts that are 0, and room for what an event comes to.
func (l *bank) setOutputs(k int) {
	l.k, l.n = k, len(l.levels)*k
	if k > 1 {
		l.set.firstRidge = l.set.ridge
	}
	l.layout = rows.Layout{Outputs: k, N: l.n, Refresh: l.set.rule.Parts}
	width := rows.FirstPart + l.parts()*l.n
	l.rule = l.set.rule.Make(rules.Settings{
		Layout: l.layout, Loss: l.set.loss, Eta: l.set.eta, Ridge: l.set.ridge, Penalised: l.config.Intercept == "penalised",
		StartSum: l.config.Start, L1: l.config.L1, Proximal: l.config.Adapt && k == 1, UnscaledNoise: l.set.noiseKind != square,
	})
	l.table, l.snapshot = model.NewTable(width), nil
	l.bias = make([]float64, width)
	l.rule.Start(l.bias)
	l.bias[model.StatCount] = 1
	noises, strength := make([]loss.Noise, len(l.levels)), make([]float64, len(l.levels))
	for v := range l.levels {
		lv := &l.levels[v]
		lv.sumsq = make([]float64, k)
		noises[v], strength[v] = lv.noise, lv.strength
	}
	if noises = l.config.learned(noises); l.groups != nil {
		l.groups = l.groups.Widen(l.schema, noises, k)
	} else {
		l.groups = rows.NewGroups(l.schema, noises, k, l.set.curves)
	}
	e := &l.now
	e.step = rows.NewStep(strength, k)
	e.scores = make([]float64, k)
	for _, p := range []*[]float64{&e.lag, &e.q, &e.averageQ, &e.coefficient, &e.moved, &e.value} {
		*p = make([]float64, l.n)
	}
}

// parts returns how many parts a row has that hold a value for each level and output.
func (l *bank) parts() int {
	parts := l.set.rule.Parts
	if l.refresh.size > 0 {
		parts++
		if l.refresh.sliding() {
			parts++
		}
	}
	return parts
}

// setAnswerOutputs makes what depends on the number of outputs.
func (l *Learner) setAnswerOutputs() {
	m := &l.missing.event
	m.base, m.part, m.out = make([]float64, l.k), make([]float64, l.k), make([]float64, l.k)
	l.masked, l.deleting.out = newMasked(l.n), nil
	l.calibration, l.likelihood = newCalibration(), l.config.likelihood(l.set, l.k)
	l.watch.Measures.Binary = nil
	if l.k == 1 && !l.set.numbers {
		l.watch.Measures.Binary = &measure.Binary{}
	}
}

// widen gives the bank so many outputs, for classes that nobody has named. Nothing begins
// anew: the outputs that there are keep all that they have learned. Where one has decided
// between two classes, it becomes that of the second, and its negation that of the first.
func (l *bank) widen(outputs int) {
	was := *l
	sumsq := make([][]float64, len(l.levels))
	for v := range l.levels {
		sumsq[v] = l.levels[v].sumsq
	}
	l.setOutputs(outputs)
	for slot := range was.table.Len() {
		column, row := was.table.Column(slot)
		l.widenRow(l.table.Touch(column), row, &was)
	}
	l.widenRow(l.bias, was.bias, &was)
	for v := range l.levels {
		to, from := l.levels[v].sumsq, sumsq[v]
		if copy(to, from); was.k == 1 {
			to[1] = from[0]
		}
	}
	l.active = max(l.active, 2)
	for k := l.active; k < l.k; k++ {
		l.setIntercept(k, unseenIntercept)
	}
	l.wrote()
}

// widenRow fills a row from one with the outputs that there were.
func (l *bank) widenRow(to, from []float64, was *bank) {
	l.rule.Start(to)
	copy(to[:rows.FirstPart], from[:rows.FirstPart])
	for part := range l.parts() {
		// The parts that do not change their sign with the weights: sums of squares.
		even := part == 1 || l.refresh.size > 0 && part == l.layout.Refresh
		x, y := l.layout.Part(to, part), was.layout.Part(from, part)
		for v := range l.levels {
			x, y := x[v*l.k:], y[v*was.k:(v+1)*was.k]
			if copy(x, y); was.k > 1 {
				continue
			}
			if x[1] = y[0]; !even {
				x[0] = -y[0]
			}
		}
	}
}

// Config returns the Learner's settings, of which its caller must change nothing.
func (l *Learner) Config() Config { return l.config }

func (l *bank) weights(row []float64) []float64 { return l.layout.Weights(row) }

func (l *bank) lags(row []float64) []float64 { return l.layout.Lags(row) }

func (l *bank) setIntercept(k int, b float64) {
	if !l.set.intercept {
		return
	}
	for i := k; i < l.n; i += l.k {
		l.rule.Set(l.bias, i, b)
		l.centreOf(l.bias)[i] = b
		l.lags(l.bias)[i] = 0
	}
}

// Learn scores an event, learns from it, and returns the scores made before:
// one for each output, borrowed until the next call.
//
// An importance weight of 0 leaves everything as it was. A whole weight up to 8
// is learned that often in a row, so that 2 is the same, to the bit, as meeting
// the event twice (but for the counts of events and of the Scaler); another one
// in equal parts of at most 1, or of an eighth of it, each scaling the gradient.
//
// An unlabelled event moves no weight; it updates the Scaler and adds
// Config.Alpha of its expected curvature to the preconditioner. A refused event, and
// one whose values are not finite or beyond 1e30, is counted, not learned, and
// gives nil.
func (l *Learner) Learn(e *blankout.Example) []float64 { return l.learn(e, nil, nil) }

// LearnLater learns an event whose label has come later than the event. The scores are
// those that it was given when it came, by Score: they are what the progressive measures
// count. What the weights say now is added to fresh; where labels are numbers its Wrong
// takes the absolute error.
func (l *Learner) LearnLater(e *blankout.Example, scores []float64, fresh *measure.Classes) []float64 {
	return l.learn(e, scores, fresh)
}

func (l *Learner) learn(e *blankout.Example, earlier []float64, fresh *measure.Classes) []float64 {
	l.watch.Suspects.Clear()
	if !Usable(e) {
		l.watch.Refused.Take(e, l.events)
		return nil
	}
	if e.Weight == 0 {
		return l.Score(e, l.now.scores)
	}
	k := l.k
	if l.grow(e); l.k > k {
		l.setAnswerOutputs()
	}
	l.events++
	l.age(e.Time)
	l.lack(e)
	if !l.shared() {
		l.meet(e)
	}
	l.now.read.gathers, l.now.read.follows = l.fillsIn() && l.events%l.gatherEvery() == 0, len(l.filling.columns) > 0
	l.gather(e)
	l.publish()
	if e.Label == blankout.Unlabelled {
		l.watch.Measures.Unlabelled++
		l.unlabelled(e.Weight)
		if l.set.numbers {
			l.now.scores[0] = l.unit.score(l.now.scores[0])
		}
		return l.now.scores
	}
	if l.set.numbers {
		l.measureTarget(e, earlier, fresh)
	} else {
		told := l.now.scores
		if earlier != nil {
			l.assess(told, e, fresh)
			told = l.widened(earlier)
		}
		l.measure(told, e.Label, e.Weight)
		if l.missing.event.lack.Some() && !l.shared() {
			if l.choosesLevels() {
				l.compareAnswersOwn(e, e.Label)
			} else {
				l.compareRules(e.Label)
				l.compareOwn(e, e.Label)
			}
		}
		l.forecast(e.Label)
		l.compareDrawn(e, e.Label)
		if !l.shared() {
			for _, c := range l.costs(e, e.Label) {
				l.watch.Health.Cost(c.field, c.with, c.without)
			}
		}
		l.suspect(e.Label)
	}
	weight := e.Weight * l.classes[e.Label]
	repeats := min(math.Ceil(weight), maxRepeats)
	for i := range int(repeats) {
		if i > 0 {
			l.resum()
		}
		l.step(e.Label, weight/repeats)
	}
	l.collect(e, weight)
	return l.now.scores
}

// widened returns the scores of an event from before there were as many classes as now.
func (l *answering) widened(scores []float64) []float64 {
	if len(scores) == l.k {
		return scores
	}
	out := slices.Clone(scores)
	if len(out) == 1 {
		out = []float64{-scores[0], scores[0]}
	}
	for len(out) < l.k {
		out = append(out, unseenIntercept)
	}
	return out
}

// Outputs returns how many scores an event has now: one of two classes or of a number, else one
// for each class that has come or that the Schema names.
func (l *Learner) Outputs() int { return l.k }

// Prefetch says that an event is about to be learned: its features are fetched from
// memory while the one before it is being learned. It changes nothing.
func (l *bank) Prefetch(e *blankout.Example) { l.table.Prefetch(e.Features) }

// Suspicion says whether the event last learned is a suspect: whether its
// influence was below Config.Suspect.
func (l *Learner) Suspicion() (s watch.Suspicion, suspect bool) { return l.watch.Suspects.Latest() }

// suspect finds out whether the event at hand is a suspect.
func (l *Learner) suspect(label int) {
	loss, ok := l.set.loss.(interface {
		Influence(y, f, v float64) float64
	})
	if !ok || l.config.Suspect == 0 {
		return
	}
	// The output of the event's own class: the others only say "not this one".
	k := 0
	if l.k > 1 {
		k = label
	}
	level := l.missing.event.level
	influence := loss.Influence(target(label, k, l.k), l.now.scores[k], l.variance(&l.levels[level], level*l.k+k, k))
	l.watch.Suspects.Take(watch.Suspicion{Class: label, Score: l.now.scores[k], Influence: influence}, l.config.Suspect)
}

// Score writes the published scores of an event to out, which must have room
// for K values, and learns nothing.
func (l *Learner) Score(e *blankout.Example, out []float64) []float64 {
	m := model.Linear{Head: l.head(l.schema), Rows: l.table}
	return m.Score(e, out)
}

// maxMagnitude bounds what is learned, as decoders do: sums of it stay finite.
const maxMagnitude = 1e30

func Usable(e *blankout.Example) bool {
	if e.Refused != nil || !(e.Target >= -maxMagnitude && e.Target <= maxMagnitude) || !(e.Weight >= 0 && e.Weight <= maxMagnitude) {
		return false
	}
	for _, x := range e.Features.Value {
		if !(x >= -maxMagnitude && x <= maxMagnitude) {
			return false
		}
	}
	return true
}

// grow takes up fields and classes that the Schema has learned.
func (l *bank) grow(e *blankout.Example) {
	for _, id := range e.Field {
		for int(id) >= len(l.scaling.kinds) {
			l.growFields()
		}
	}
	if len(l.scaling.kinds) == 0 {
		l.growFields()
	}
	l.weighClass(e.Label)
	if e.Label >= max(l.k, 2) {
		l.widen(e.Label + 1)
	}
	for l.k > 1 && e.Label >= l.active {
		// Everything before was an event of another class: start from there.
		l.setIntercept(l.active, -math.Log(float64(l.steps+1)))
		if l.shared() { // as the fold will
			for j := l.active; j < l.n; j += l.k {
				l.weights(l.share.bias)[j] = l.weights(l.bias)[j]
			}
		}
		l.active++
	}
}

// weighClass finds the weight of a class.
func (l *bank) weighClass(class int) {
	for class >= len(l.classes) {
		l.classes = append(l.classes, math.NaN())
	}
	if class >= 0 && math.IsNaN(l.classes[class]) {
		l.classes[class] = 1
		if l.set.numbers {
			return
		}
		if w, ok := l.config.ClassWeight[l.schema.Classes[class]]; ok {
			l.classes[class] = w
		}
	}
}

// growFields takes up the Schema's next field.
func (l *bank) growFields() {
	field := l.schema.Fields[len(l.scaling.kinds)]
	l.scaling.kinds = append(l.scaling.kinds, field.Kind)
	t, ok := l.config.FieldTransform[field.Name]
	if !ok {
		t = l.config.Transform
	}
	l.scaling.transforms = append(l.scaling.transforms, model.Transform(t))
	knots, ok := l.config.FieldCurves[field.Name]
	if !ok {
		knots = l.config.Curves
	}
	l.scaling.knots = append(l.scaling.knots, knots)
}

// gather looks up the rows of an event's features, updates their statistics
// and sums the scores as they were before.
func (l *bank) gather(e *blankout.Example) {
	now := &l.now
	clear(now.step.F)
	clear(now.lag)
	clear(now.q)
	now.hasMoved = false
	now.read.clear()
	if l.scaling.scaler.Mode != model.StandardiseNone {
		l.gatherStandardised(e)
	} else {
		l.touch(e.Features.Index)
		for i, row := range now.step.Rows {
			row[model.StatCount]++
			l.put(i, row, e.Features.Value[i])
		}
		l.arrange(e, e.Features.Index)
		l.sum(0)
	}
	if l.set.intercept {
		ridge := 0.0
		if l.config.Intercept == "penalised" {
			ridge = l.ridgeOf(float64(l.steps + 1))
		}
		now.step.AddIntercepts(l.bias, ridge)
		l.sum(len(now.step.Rows) - 1)
	}
}

// publish makes of the sums what the model answers to the event, and takes up how its numbers
// go together.
func (l *answering) publish() {
	now := &l.now
	l.gatherRead()
	level := l.missing.event.level
	c, at := l.levels[level].lagShare(), level*l.k
	for k := range l.active {
		now.scores[k] = now.step.F[at+k] + c*now.lag[at+k]
		if now.hasMoved {
			now.scores[k] += now.moved[at+k]
		}
	}
	if l.missing.event.lack.Some() {
		l.answer()
	}
	for k := l.active; k < l.k; k++ {
		now.scores[k] = unseenIntercept
	}
}

// touch makes the rows of columns those at hand, new ones made ready.
func (l *bank) touch(columns []uint32) {
	now := &l.now
	now.step.Reset(len(columns))
	now.step.Rows = l.table.TouchAll(columns, now.step.Rows)
	if l.share != nil {
		l.note(columns, now.step.Rows)
	}
	if !l.set.rule.Starts {
		return
	}
	for _, row := range now.step.Rows {
		if row[model.StatCount] == 0 {
			l.rule.Start(row)
		}
	}
}

// put takes up the value of row i at hand; sum adds it to the scores.
func (l *bank) put(i int, row []float64, x float64) {
	basis := x * x
	switch l.set.noiseKind {
	case linear:
		basis = max(x, 0)
	case constant:
		basis = float64(l.events) / row[model.StatCount]
	}
	now := &l.now
	now.step.X[i], now.step.Basis[i], now.step.Ridge[i] = x, basis, l.ridgeOf(row[model.StatCount])
}

// arrange groups the rows of an event's features, which are those of the columns, if the
// noise needs that.
func (l *bank) arrange(e *blankout.Example, columns []uint32) {
	if l.groups != nil {
		l.groups.Arrange(&l.now.step.Event, e, columns, &l.scaling.scaler)
	}
}

// sum adds the rows from the first on to the sums f, lag and q; where features die in
// groups, their sums take the place of q.
func (l *bank) sum(first int) {
	now := &l.now
	if l.groups != nil && first == 0 {
		l.groups.Sum(&now.step.Event, model.ScalerWidth, l.n, now.step.F, now.lag)
		first = now.step.Features()
	}
	s := &now.step
	rows.Sum(s.Rows[first:], model.ScalerWidth, l.n, s.X[first:], s.Basis[first:], s.F, now.lag, now.q)
}

// resum sums the iterates' scores again, after a step.
func (l *bank) resum() {
	now := &l.now
	clear(now.step.F)
	clear(now.lag)
	clear(now.q)
	l.sum(0)
}

// ridgeOf returns the factor of w in the ridge's gradient at an event of a
// feature that has been in n. The ridge is h0 |w_d|^2/2 for a pass over the
// stream; spreading it over the feature's own events costs nothing for the
// others and is the same on average.
//
// In the first pass of AdaGrad there may be none of it (see Config.Start): the
// ridge is then the preconditioner's start and nothing else, as in dropout descent.
func (l *bank) ridgeOf(n float64) float64 {
	if l.period == 0 {
		return l.set.firstRidge / n
	}
	n *= float64(l.period) / float64(max(l.steps, l.period))
	return l.set.ridge / max(n, 1)
}

// EndPass says that the events so far were one pass over a finite set, which
// is about to be presented again. From here on the ridge counts once a pass, and
// nothing is adapted: the rate is the configured one and the average is published.
func (l *bank) EndPass() {
	if l.period > 0 {
		return
	}
	l.period = l.steps
	for v := range l.levels {
		l.levels[v].adaptation = newAdaptation(false)
	}
}

// step makes one update with the given importance.
func (l *bank) step(label int, importance float64) {
	now := &l.now
	s := &now.step
	for v := range l.levels {
		lv := &l.levels[v]
		corr := 0.0
		for k := range l.active {
			j := v*l.k + k
			s.Y[j], s.Variance[j] = l.targetOf(label, k), l.variance(lv, j, k)
			value, df, dv := l.set.loss.At(s.Y[j], s.F[j], s.Variance[j])
			now.value[j] = value
			corr += df * lv.average.coefficient * now.lag[j]
			s.DF[j], s.H[j] = importance*df, 2*importance*dv
		}
		lv.adaptation.adapt(corr)
		eta := lv.adaptation.rate(l.set.eta)
		for j := v * l.k; j < (v+1)*l.k; j++ {
			s.MinusEta[j] = -eta
			if l.config.Marginalised {
				s.Shrink[j] = s.H[j] * lv.strength
			}
		}
	}
	l.compareAverages()
	l.steps++
	l.addSumsq(-1)
	l.update(importance)
	l.addSumsq(1)
	for v := range l.levels {
		if lv := &l.levels[v]; lv.average.advance(lv.adaptation.steady()) {
			l.rebase(v)
		}
	}
}

// update has the rule update the rows of the event at hand.
func (l *bank) update(importance float64) {
	s := &l.now.step
	s.Importance, s.Count, s.Growth = importance, l.steps, l.fade.growth
	for v := range l.levels {
		inverse := l.levels[v].average.inverse
		for j := v * l.k; j < (v+1)*l.k; j++ {
			s.Inverse[j] = inverse
		}
	}
	l.segment()
	if s.Roots = nil; l.shared() {
		l.share.weigh(s)
	}
	l.rule.Step(s)
}

// segment cuts the rows at hand into segments.
func (l *bank) segment() {
	if l.groups != nil {
		l.groups.Segment(&l.now.step)
	} else {
		l.now.step.Ungroup()
	}
}

// compareAverages has each level compare whether its average or its iterate scores the event
// at hand better. Most events of a long stream are passed over.
func (l *bank) compareAverages() {
	every := 1
	if l.steps > compareFirst {
		every = compareEvery
	}
	if !l.levels[0].adaptation.on || l.steps%uint64(every) != 0 {
		return
	}
	now := &l.now
	memory := float64(compareMemory / every)
	l.sumAverage()
	for v := range l.levels {
		lv := &l.levels[v]
		gain := 0.0
		for k := range l.active {
			j := v*l.k + k
			variance := now.step.Variance[j]
			if l.groups != nil {
				variance = now.averageQ[j]
			} else if l.config.Marginalised && l.set.noiseKind != constant {
				variance = lv.strength * now.averageQ[j]
			}
			average, _, _ := l.set.loss.At(now.step.Y[j], now.step.F[j]+lv.average.coefficient*now.lag[j], variance)
			gain += average - now.value[j]
		}
		lv.adaptation.compare(gain, memory)
		if !l.shared() && lv.adaptation.choose() && lv.average.taken > restartAfter {
			lv.average.restart()
			lv.adaptation.reset()
		}
	}
	if l.shared() {
		l.share.compared += uint64(every)
	}
}

// sumAverage sums basis a^2 of the averages, or finds the variances if features die in
// groups.
func (l *bank) sumAverage() {
	now := &l.now
	clear(now.averageQ)
	for v := range l.levels {
		coefficient := l.levels[v].average.coefficient
		for j := v * l.k; j < (v+1)*l.k; j++ {
			now.coefficient[j] = coefficient
		}
	}
	if l.groups != nil {
		l.groups.Averages(&now.step.Event, model.ScalerWidth, l.n, now.coefficient, now.averageQ)
		return
	}
	features := l.features()
	rows.SumAverages(features, model.ScalerWidth, l.n, now.step.Basis[:len(features)], now.coefficient, now.averageQ)
}

// learned returns the noises that levels of these noises are learned under.
func (c Config) learned(noises []loss.Noise) []loss.Noise {
	if c.Marginalised {
		return noises
	}
	return slices.Repeat([]loss.Noise{loss.NoNoise{}}, len(noises))
}

// setRates gives the noise of the only level other rates of groups, which nobody changes
// from here on. It comes between two events.
func (l *bank) setRates(rates map[string]float64) {
	noise := loss.GroupDropout{Rates: rates}
	lv := &l.levels[0]
	_, _, lv.strength = noise.Coefficients()
	lv.noise, l.now.step.Strength[0] = noise, lv.strength
	if l.groups != nil {
		l.groups.SetRates(noise)
	}
}

// variance returns that of the iterate's noisy score, 0 for clean gradients.
func (l *bank) variance(v *level, j, k int) float64 {
	if !l.config.Marginalised {
		return 0
	}
	switch {
	case l.groups != nil:
		return l.groups.Variance[j]
	case l.set.noiseKind == constant:
		return v.strength * v.sumsq[k]
	}
	return v.strength * l.now.q[j]
}

// addSumsq keeps the sums of squared weights if the noise needs them.
func (l *bank) addSumsq(sign float64) {
	if l.set.noiseKind != constant {
		return
	}
	for v := range l.levels {
		lv := &l.levels[v]
		for _, row := range l.features() {
			for k, w := range l.weights(row)[v*l.k : (v+1)*l.k] {
				lv.sumsq[k] = max(0, lv.sumsq[k]+sign*w*w)
			}
		}
	}
}

// features returns the rows of the event at hand without the intercepts.
func (l *bank) features() [][]float64 {
	return l.now.step.Rows[:l.now.step.Features()]
}

// unlabelled adds an event's expected curvature to the preconditioner: that of the loss
// averaged over both labels by the probability the iterate gives them.
func (l *bank) unlabelled(weight float64) {
	if l.config.Alpha == 0 {
		return
	}
	now := &l.now
	for v := range l.levels {
		lv := &l.levels[v]
		for k := range l.active {
			j := v*l.k + k
			p := 1 / (1 + math.Exp(-now.step.F[j]))
			variance := l.variance(lv, j, k)
			_, _, up := l.set.loss.At(1, now.step.F[j], variance)
			_, _, down := l.set.loss.At(-1, now.step.F[j], variance)
			now.step.H[j] = 2 * weight * l.config.Alpha * (p*up + (1-p)*down)
		}
	}
	now.step.Growth = l.fade.growth
	l.segment()
	l.rule.Unlabelled(&now.step)
}

// targetOf returns the y of output k for the event at hand, of the given label.
func (l *bank) targetOf(label, k int) float64 {
	if l.set.numbers {
		return l.now.target
	}
	return target(label, k, l.k)
}

// target returns the y of output k for an event of the given class.
func target(label, k, outputs int) float64 {
	if outputs == 1 && label == 1 || outputs > 1 && label == k {
		return 1
	}
	return -1
}

// SetSchema gives the Learner a later state of its Schema: the same, perhaps
// with more fields, classes and names. A caller that decodes on another goroutine must
// pass the Schema of each Batch before its events. A caller that decodes and learns in
// turn need not call it: the Learner reads the Schema that the decoder adds to.
func (l *Learner) SetSchema(s *blankout.Schema) {
	l.schema = s
	l.filling.grouping.Follow(s)
	if l.groups != nil {
		l.groups.Follow(s)
	}
}

// Schema returns the Schema that the Learner was made with, or was given last.
func (l *Learner) Schema() *blankout.Schema { return l.schema }

// Fingerprint returns what gives the weights their meaning.
func (l *Learner) Fingerprint() Fingerprint { return FingerprintOf(l.config, l.schema) }

// Noise returns the noise of the published level, as loss.ParseNoise reads it.
func (l *Learner) Noise() string { return l.levels[l.chosen].noise.String() }

// Events returns how many events have been met, as Metrics does.
func (l *Learner) Events() uint64 { return l.events }

// Drift returns what the drift detector has seen.
func (l *Learner) Drift() watch.Drift { return l.watch.Drift.Report() }

// Metrics returns the progressive measures so far.
func (l *Learner) Metrics() Metrics {
	w := l.watch.Clone()
	m := Metrics{
		Measures: w.Measures, Refused: w.Refused.Count, RefusedBy: w.Refused.By, Suspects: w.Suspects.Count,
		Drift: w.Drift.Report(), Prior: w.Prior, RefreshFailures: l.refresh.failures,
	}
	if m.Binary != nil {
		at := l.schema.PositiveClass(l.positiveName())
		if at == 0 {
			m.Binary = m.Binary.Flipped()
		}
		if at < len(l.schema.Classes) {
			m.Positive = l.schema.Classes[at]
		}
	}
	if m.Numbers != nil {
		m.Numbers.Loss = l.targetLoss()
	}
	m.Events, m.Features = l.events, l.table.Len()
	m.Level = loss.ShortNoise(l.Noise())
	m.Forecasts = l.forecasts()
	m.Served = l.servedForecast(m.Forecasts)
	if byRange, levels := l.levelsByRange(); byRange != nil {
		for _, i := range byRange {
			name := m.Level
			if i > 0 {
				name = l.levels[levels[i-1]].noise.String()
			}
			m.LevelsByShare = append(m.LevelsByShare, name)
		}
	}
	return m
}
