package online

// This file holds the bank: the levels of noise, what they share, and how they score an event and
// learn from it.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/numbers"
	"blankout/online/pace"
	"blankout/online/refresh"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/scaling"
	"blankout/online/share"
	"blankout/online/silent"
	"blankout/online/young"
	"math"
)

// bank is the levels, and what they share: it scores an event, and learns from it. It knows
// nothing of how its scores become an answer.
type bank struct {
	config  Config
	set     settings
	schema  *event.Schema
	classes []float64 // weight of a class, NaN until met

	// The model.
	layout     rows.Layout
	rule       rules.Rule
	k          int           // outputs
	young      young.Classes // which output learns which class
	youngBytes int64         // the constant, but for tests
	n          int           // levels times outputs
	active     int           // outputs in use: until classes share one, the classes that have appeared
	levels     []level
	table      *model.Table
	bias       []float64    // the intercepts, laid out as a row
	snapshot   *model.Table // the latest, to share its blocks

	progress

	unit    numbers.Unit // of targets that are numbers
	scaling scaling.Scaling
	groups  *rows.Groups // nil without curves and noise of groups, or where gradients are clean
	refresh refresh.Refresh
	share   *share.Interval // nil where it learns alone

	silent *silentLevel   // nil where no level has silent noise
	dead   *silent.Values // what dead numbers read

	now current // the one that is being learned
}

// progress is how far a bank is.
type progress struct {
	events uint64 // met, labeled or not, with a weight above 0
	steps  uint64 // updates made
	period uint64 // steps of the first pass, 0 while in it
	// How often all rows have been written at once; no part of the state. A Learner that
	// follows another one has that one's count, see Follow.
	rewritten  uint64
	fade       pace.Fade
	importance pace.Importance
}

// level is a noise level: a copy of the weights that learns as if its noise
// were the true one.
type level struct {
	noise    loss.Noise
	strength float64   // the coefficient of its variance that is not 0
	sumsq    []float64 // sum of squared weights by output, if the noise is constant
	pace.Pace
}

func (lv *level) state(c *coder.Coder) {
	c.Floats(&lv.sumsq)
	lv.Pace.State(c)
}

// event is what the event at hand has come to.
type current struct {
	step   rows.Step
	scores []float64 // published scores, by output
	// published is what each level would publish, by level and output, and behind these what the
	// second-order expert adds.
	published []float64
	columns   []uint32 // of its features, in their order before they were brought together in groups
	target    float64  // the number that the label is, in the Learner's unit
	output    int      // which learns the label's class
	weight    float64  // that the event is learned with, see pace.Importance
	// By level and output: sum x lag, sum basis w^2, and by how much the published score
	// was larger before the Scaler moved.
	lag, q, moved []float64
	hasMoved      bool      // the Scaler did; otherwise moved says nothing
	value         []float64 // the iterate's loss
	averageQ      []float64 // sum basis a^2 of the averages, see sumAverage
	coefficient   []float64 // of the averages
	raised        []float64 // by level: the learning rate's factor
	told          []float64 // what iterates and then averages said of it earlier, see useEarlier; nil for none
}

// setOutputs makes what depends on the number of outputs: the layout of rows, the rule, an
// empty table, intercepts that are 0, and room for what an event comes to.
func (l *bank) setOutputs(k int) {
	l.k, l.n = k, len(l.levels)*k
	if k > 1 {
		l.set.firstRidge = l.set.ridge
	}
	l.layout = rows.Layout{Outputs: k, N: l.n, Refresh: l.set.rule.Parts}
	l.refresh.Layout = l.layout
	width := l.width(k)
	settings := rules.Settings{
		Layout: l.layout, Loss: l.set.loss, Eta: l.set.eta, Ridge: l.set.ridge, Penalized: l.config.Intercept == "penalized",
		StartSum: l.config.Start, L1: l.config.L1, Proximal: l.config.Adapt && k == 1, UnscaledNoise: l.set.noiseKind != square,
	}
	if l.silent = l.newSilent(); l.silent != nil {
		settings.Left = k
	}
	l.rule = l.set.rule.Make(settings)
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
		l.groups = l.groups.Widen(noises, k)
	} else {
		l.groups = rows.NewGroups(model.NewGrouping(l.schema), noises, k, false)
	}
	e := &l.now
	e.step = rows.NewStep(strength, k)
	e.scores, e.raised = make([]float64, k), make([]float64, len(l.levels))
	for _, p := range []*[]float64{&e.lag, &e.q, &e.averageQ, &e.coefficient, &e.moved, &e.value} {
		*p = make([]float64, l.n)
	}
	e.published = make([]float64, l.n+l.ownWeights())
}

// ownWeights returns how many values of a row are weights of the second-order expert: the last
// ones, one for each output.
func (l *bank) ownWeights() int {
	if l.set.second {
		return l.k
	}
	return 0
}

// width returns how many values a row has of so many outputs.
func (l *bank) width(outputs int) int {
	n := rows.FirstPart + l.parts()*len(l.levels)*outputs
	if l.set.second {
		n += outputs
	}
	return n
}

// own returns the weights of the second-order expert in a row.
func (l *bank) own(row []float64) []float64 { return row[len(row)-l.ownWeights():] }

// parts returns how many parts a row has that hold a value for each level and output.
func (l *bank) parts() int {
	return l.set.rule.Parts + l.refresh.Parts()
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
		l.setIntercept(k, rows.NoClass)
	}
	l.wrote()
}

// widenRow fills a row from one with the outputs that there were.
func (l *bank) widenRow(to, from []float64, was *bank) {
	l.rule.Start(to)
	copy(to[:rows.FirstPart], from[:rows.FirstPart])
	for part := range l.parts() {
		// The parts that do not change their sign with the weights: sums of squares.
		even := part == 1 || l.refresh.Size > 0 && part == l.layout.Refresh
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

func (l *bank) weights(row []float64) []float64 { return l.layout.Weights(row) }

func (l *bank) lags(row []float64) []float64 { return l.layout.Lags(row) }

func (l *bank) setIntercept(k int, b float64) {
	if !l.set.intercept {
		return
	}
	for i := k; i < l.n; i += l.k {
		l.rule.Set(l.bias, i, b)
		l.refresh.CenterOf(l.bias)[i] = b
		l.lags(l.bias)[i] = 0
	}
}

// Prefetch says that an event is about to be learned: its features are fetched from
// memory while the one before it is being learned. It changes nothing.
func (l *bank) Prefetch(e *event.Example) { l.table.Prefetch(e.Features) }

// grow takes up fields and classes that the Schema has learned.
func (l *bank) grow(e *event.Example) {
	if len(l.scaling.Kinds) < len(l.schema.Fields) {
		for _, id := range e.Field {
			for int(id) >= len(l.scaling.Kinds) {
				l.growFields()
			}
		}
	}
	if len(l.scaling.Kinds) == 0 {
		l.growFields()
	}
	l.weighClass(e.Label)
	if l.now.output = l.young.Output(e.Label); l.young.On() {
		return
	}
	if e.Label >= max(l.k, 2) {
		l.widen(e.Label + 1)
	}
	l.activate(e.Label + 1)
}

// activate puts the first n outputs in use, where there are several.
func (l *bank) activate(n int) {
	for l.k > 1 && l.active < n {
		// Everything before was an event of another class: start from there.
		l.setIntercept(l.active, -math.Log(float64(l.steps+1)))
		if l.shared() { // as the fold will
			for j := l.active; j < l.n; j += l.k {
				l.weights(l.share.Bias)[j] = l.weights(l.bias)[j]
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
		l.classes[class] = l.config.WeightOf(l.schema.Classes[class])
	}
}

// growFields takes up the Schema's next field.
func (l *bank) growFields() {
	field := l.schema.Fields[len(l.scaling.Kinds)]
	t, ok := l.config.FieldTransform[field.Name]
	if !ok {
		t = l.config.Transform
	}
	l.scaling.AddField(field.Kind, model.Transform(t))
}

// gather looks up the rows of an event's features, updates their statistics
// and sums the scores as they were before.
func (l *bank) gather(e *event.Example) {
	now := &l.now
	clear(now.step.F)
	clear(now.lag)
	clear(now.q)
	now.hasMoved = false
	l.scaling.Read.Clear()
	switch {
	case l.scaling.Scaler.Mode == model.StandardizeNone:
		l.touch(e.Features.Index)
		for i, row := range now.step.Rows {
			row[model.StatCount]++
			l.put(i, row, e.Features.Value[i])
		}
		now.columns = e.Features.Index
		l.arrange(e, e.Features.Index)
		l.sum(0)
	case e.Label == event.Unlabeled:
		l.gatherUnlabeled(e)
	default:
		l.gatherStandardized(e)
	}
	if l.set.intercept {
		ridge := 0.0
		if l.config.Intercept == "penalized" {
			ridge = l.ridgeOf(float64(l.steps + 1))
		}
		now.step.AddIntercepts(l.bias, ridge)
		l.sum(len(now.step.Rows) - 1)
	}
	l.takeSilent(e, now.columns)
}

// touch makes the rows of columns those at hand, new ones made ready.
func (l *bank) touch(columns []uint32) {
	now := &l.now
	now.step.Reset(len(columns))
	now.step.Rows = l.table.TouchAll(columns, now.step.Rows)
	if l.share != nil {
		l.share.Note(l.table, columns, now.step.Rows, l.fade.Growth)
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
	basis, count := x*x, max(row[model.StatCount], 1)
	switch l.set.noiseKind {
	case linear:
		basis = max(x, 0)
	case constant:
		basis = float64(l.events) / count
	}
	now := &l.now
	now.step.X[i], now.step.Basis[i], now.step.Ridge[i] = x, basis, l.ridgeOf(count)
}

// arrange groups the rows of an event's features, which are those of the columns, if the
// noise needs that.
func (l *bank) arrange(e *event.Example, columns []uint32) {
	if l.groups != nil {
		l.groups.Arrange(&l.now.step.Event, e, columns, &l.scaling.Scaler)
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
		l.levels[v].EndPass()
	}
}

// step makes one update with the given importance, for the class of an output.
func (l *bank) step(output int, importance float64) {
	now := &l.now
	s := &now.step
	for v := range l.levels {
		lv := &l.levels[v]
		corr := 0.0
		for k := range l.active {
			j := v*l.k + k
			if s.Y[j] = l.targetOf(output, k); v == l.others() {
				continue
			}
			s.Variance[j] = l.variance(lv, j, k)
			value, df, dv := l.set.loss.At(s.Y[j], s.F[j], s.Variance[j])
			now.value[j] = value
			corr += df * lv.Coefficient * now.lag[j]
			s.DF[j], s.H[j] = importance*df, 2*importance*dv
		}
		if v == l.others() {
			corr = lv.Coefficient * l.beginSilent(importance)
		}
		lv.Adapt(corr)
		now.raised[v] = lv.Raise()
	}
	loss.Exps(now.raised)
	for v := range l.levels {
		lv := &l.levels[v]
		eta := lv.Rate(l.set.eta) * now.raised[v]
		if v == l.others() {
			eta *= l.silentPace()
		}
		for j := v * l.k; j < (v+1)*l.k; j++ {
			s.MinusEta[j] = -eta
			if l.set.noisy {
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
		if l.levels[v].Advance() {
			l.rebase(v)
		}
	}
}

// rebase makes the coefficient of a level's average 1, multiplying it into every lag.
func (l *bank) rebase(v int) {
	g := l.levels[v].Rebase()
	scale := func(row []float64) {
		u := l.lags(row)[v*l.k : (v+1)*l.k]
		for k := range u {
			u[k] *= g
		}
	}
	scale(l.bias)
	l.wrote()
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		scale(l.table.Touch(column))
	}
}

// update has the rule update the rows of the event at hand.
func (l *bank) update(importance float64) {
	s := &l.now.step
	s.Importance, s.Count, s.Growth = importance, l.steps, l.fade.Growth
	s.Young = importance > 1 || l.steps <= model.FirstReadings && l.config.Adapt && l.set.grouped()
	for v := range l.levels {
		inverse := l.levels[v].Inverse
		for j := v * l.k; j < (v+1)*l.k; j++ {
			s.Inverse[j] = inverse
		}
	}
	l.segment()
	if s.Roots = nil; l.shared() {
		l.share.Weigh(s)
	}
	l.rule.Step(s)
	l.stepSilent()
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
	every := pace.Every(l.steps)
	if !l.levels[0].Compares() || l.steps%every != 0 {
		return
	}
	now := &l.now
	if now.told == nil {
		l.sumAverage()
	}
	for v := range l.levels {
		lv := &l.levels[v]
		gain := 0.0
		switch {
		case now.told != nil:
			gain = l.gainTold(v)
		case v == l.others():
			gain = l.gainSilent(lv.Coefficient)
		default:
			gain = l.gainOf(v)
		}
		if lv.Compare(gain, every); !l.shared() {
			lv.Choose()
		}
	}
	if l.shared() {
		l.share.Compared += every
	}
}

// gainTold returns by how much the average of a level has lost more than its iterate by what they said earlier: without
// noise, as who reads the model meets whole events.
func (l *bank) gainTold(v int) (gain float64) {
	now := &l.now
	for k := range l.active {
		j := v*l.k + k
		iterate, _, _ := l.set.loss.At(now.step.Y[j], now.told[j], 0)
		average, _, _ := l.set.loss.At(now.step.Y[j], now.told[l.n+j], 0)
		gain += average - iterate
	}
	return gain
}

// gainOf returns by how much the average of a level loses more than its iterate at the event at hand, under its noise.
func (l *bank) gainOf(v int) (gain float64) {
	now, lv := &l.now, &l.levels[v]
	for k := range l.active {
		j := v*l.k + k
		variance := now.step.Variance[j]
		if l.groups != nil {
			variance = now.averageQ[j]
		} else if l.set.noisy && l.set.noiseKind != constant {
			variance = lv.strength * now.averageQ[j]
		}
		average, _, _ := l.set.loss.At(now.step.Y[j], now.step.F[j]+lv.Coefficient*now.lag[j], variance)
		gain += average - now.value[j]
	}
	return gain
}

// sumAverage sums basis a^2 of the averages, or finds the variances if features die in
// groups.
func (l *bank) sumAverage() {
	now := &l.now
	clear(now.averageQ)
	for v := range l.levels {
		coefficient := l.levels[v].Coefficient
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

// rowOf returns the row of a feature of the event at hand.
func (l *bank) rowOf(feature int) int {
	if l.groups != nil {
		return l.groups.Row(feature)
	}
	return feature
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
	if !l.set.noisy {
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

// unlabeled adds an event's expected curvature to the preconditioner: that of the loss
// averaged over both labels by the probability the iterate gives them.
func (l *bank) unlabeled(weight float64) {
	if l.config.UnlabeledWeight == 0 {
		return
	}
	now := &l.now
	for v := range l.others() {
		lv := &l.levels[v]
		for k := range l.active {
			j := v*l.k + k
			p := 1 / (1 + loss.Exp(-now.step.F[j]))
			variance := l.variance(lv, j, k)
			_, _, up := l.set.loss.At(1, now.step.F[j], variance)
			_, _, down := l.set.loss.At(-1, now.step.F[j], variance)
			now.step.H[j] = 2 * weight * l.config.UnlabeledWeight * (p*up + (1-p)*down)
		}
	}
	if l.silent != nil {
		l.curveSilent(weight * l.config.UnlabeledWeight)
	}
	now.step.Growth = l.fade.Growth
	l.segment()
	l.rule.Unlabeled(&now.step)
}

// targetOf returns the y of output k for the event at hand, whose class the given output learns.
func (l *bank) targetOf(output, k int) float64 {
	if l.set.numbers {
		return l.now.target
	}
	return rows.Y(output, k, l.k)
}

// learnFrom makes the steps of an event that has been scored, as often as its weight says, and
// refreshes when it is time.
func (l *bank) learnFrom(e *event.Example) {
	weight := l.now.weight * l.classes[e.Label]
	first := true
	pace.Parts(weight, l.set.rule.Proximal, func(part float64) {
		if !first {
			l.resum()
		}
		first = false
		l.step(l.now.output, part)
	})
	if l.refresh.Add(e, weight) {
		l.solve()
	}
}

// solve refreshes.
func (l *bank) solve() {
	w := refresh.Weights{
		Table: l.table, Bias: l.bias, Active: l.active, Growth: l.fade.Growth, Output: l.young.Output, Dead: l.readsWhenDead,
		Model: &model.Linear{Head: model.Head{Schema: l.schema, Scaler: l.scaling.Scaler, Layout: model.Layout{Width: l.table.Width()}}, Rows: l.table},
	}
	for v := range l.levels {
		w.Levels = append(w.Levels, refresh.Level{Noise: l.levels[v].noise, Inverse: l.levels[v].Inverse})
	}
	l.refresh.Solve(w)
}
