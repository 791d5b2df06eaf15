// Package online learns a linear model one event at a time, as if random features were missing. The expectation over
// this dropout noise is computed analytically. Each event is scored before it is learned.
//
// A [Learner] is not safe for concurrent use and does no I/O. Predict returns the [Prediction] for an event and changes
// no state. Learn returns the same Prediction and then learns the event. If the label of an event is delayed, the
// caller stores the Prediction made when the event arrived ([Prediction.Append]). It later passes this Prediction to
// Learn as the prior. The measures and the mixture weights then use the prior. A [Report] holds measures and counts,
// [Alarms] holds the alarms of the monitors, and a [Snapshot] is the state at one instant, with its models.
//
// Learn passes an event through the following packages. None of them imports a later package in this list, and none
// imports package online:
//  1. encode makes an Input of the event: its rows, its standardized values, and its missing fields.
//  2. experts scores the Input. experts/levels has the noise levels (dropout rates). Other experts (second order, splines,
//     discriminant) correct the mixture of their scores. experts/cosine corrects the mixture of all.
//  3. impute estimates the missing numeric values.
//  4. mixture mixes all scores into one prediction, with weights that depend on the fraction of missing fields.
//  5. health receives the event and the prediction. It measures errors, calibrates, forms prediction sets, and detects
//     drift, broken fields and staleness. It changes no weight, but may request that old events be forgotten.
//  6. At some events (sampling.go) masked copies of the event are scored (masked.go), to train mixture and forecasts.
//  7. levels and experts learn the event.
//
// mixture.LastLabel mixes the last label into the prediction that Learn and Predict return. Only the measures see that mixture.
package online

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts/levels"
	"blankout/online/health"
	"blankout/online/impute"
	"blankout/online/mixture"
	"blankout/online/readings"
	"blankout/online/regression"
	"blankout/online/rows"
	"blankout/online/schedule"
)

// Learner learns a linear model event by event. It has one output for two classes or for regression. For more classes
// it has one output per class, which separates the class from all other classes. It is not safe for concurrent use.
type Learner struct {
	config    Config
	set       settings
	encoder   *encode.Encoder
	levels    *levels.Expert
	predictor *predictor // makes predictions with the encoder and all experts
	monitors  *health.Monitors
	outputs   *outputs
	classes   []float64 // class weights
	events    uint64    // number of events so far with a weight above 0
	weights   schedule.Importance
	weight    float64  // importance weight of the current event, without its class weight
	targets   *targets // nil for classification
	clock     schedule.Clock
	fresh     uint64 // up to this event, mixture weights take effect more often
	masked    masked
	ablation  ablation
	doubter   readings.Doubter
	doubted   *model.Doubt      // in effect for predictions; nil before there is one
	doubtedBy *model.Covariance // that doubted belongs to
	snapshot  *model.Table      // the latest snapshot, whose blocks the next one shares
	room      room
}

// room holds reusable memory for one event.
type room struct {
	in         encode.Input
	seen       health.Event
	scored     scored
	earlier    scored    // scores when the event arrived
	target     []float64 // targets by output
	out        []float64 // scores by output
	components []float64 // values of ensemble.appendComponents
	shown      []float64 // scores that were predicted when the event arrived
	standard   []float64 // scores of all components in the unit of regression targets
	imputed    imputed
	byClass    []float64 // scores by class
	by         mixture.Event
	reader     model.Linear  // of method reader
	declared   event.Example // the event without readings that are known to be faulty
	labeled    labeled
	died       died
	cosines    ownCosines
	told       Prediction
}

// New returns a Learner for events of the Schema s. The decoder owns s, and may add fields to it before it passes an
// event that needs them to Learn.
func New(c Config, s *event.Schema) (*Learner, error) {
	c = c.WithPreset()
	set, err := parse(c)
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	return newLearner(c, set, s, s.Outputs())
}

// newLearner is New with parsed settings and a given number of outputs. New parses the settings once, because parsing
// takes milliseconds for some losses.
func newLearner(c Config, set settings, s *event.Schema, outputs int) (*Learner, error) {
	if want := loss.LabelsOf(c.Loss); s.Target != want {
		return nil, fmt.Errorf("learner: loss %s is for %v labels, the schema has %v", c.Loss, want, s.Target)
	}
	set.levels.Grouping, set.levels.Outputs = model.NewGrouping(s), outputs
	correcting, corrects := set.newExperts(outputs, c.HalfLife)
	mix := mixture.New(mixture.Settings{
		Components: len(set.levels.Noises), Expected: set.expected, Corrects: corrects, Scales: set.scales, Policy: set.policy, Imputes: set.imputed > 0, Regression: s.Target != loss.Sign,
	})
	l := &Learner{config: c, set: set, clock: schedule.NewClock(c.HalfLife, c.HalfLifeTime)}
	l.encoder = encode.New(set.encoded(mix.Policies(), func() int { return l.levels.Outputs }), s)
	l.levels = levels.New(set.levels, &l.encoder.Rows)
	if s.Target != loss.Sign {
		l.targets = &targets{unit: regression.NewUnit(s.Target, c.HalfLife), loss: set.levels.Loss}
	}
	l.predictor = &predictor{
		ensemble: ensemble{levels: l.levels, experts: correcting, mixture: mix, cosines: set.newCosines(l.levels, c)},
		encoder:  l.encoder, imputer: impute.New(set.imputed), targets: l.targets, last: set.newLastLabel(c),
	}
	l.outputs = l.newOutputs()
	l.predictor.outputs = l.outputs
	l.monitors = health.New(health.Settings{
		OnDrift: c.OnDrift, Stuck: c.Doubt, Calibrate: c.Calibrate, Positive: c.Positive, MislabeledBelow: c.MislabeledBelow, Coverage: c.Coverage,
		Threshold: c.Threshold, ClassWeights: len(c.ClassWeight) > 0,
		Loss: set.levels.Loss, Target: s.Target, Schema: s, Repeats: l.encoder.Repeats,
	})
	l.setOutputs()
	return l, nil
}

// setOutputs allocates all memory whose size depends on the number of outputs.
func (l *Learner) setOutputs() {
	k, x := l.levels.Outputs, l.predictor
	x.cosines.setOutputs(k)
	l.monitors.SetOutputs(k, l.outputs.rare.On())
	l.room.scored = x.newScored()
	l.room.target, l.room.out = make([]float64, k), make([]float64, k)
	l.room.imputed, x.mixed = newImputed(&x.ensemble), newMixed(x)
	l.masked = newMasked(x, l.monitors, l.config.ExpectedMissing, l.masked.drawn)
	l.ablation = newAblation(x, l.monitors)
}

// Lost returns the names of the fields that are missing in an event with named fields, as the model of now sees it.
// stuck names those of them that have the value at which they are stuck.
func (l *Learner) Lost(e *event.Example) (missing, stuck []string) {
	if len(e.Field) == 0 {
		return nil, nil
	}
	h := model.Head{Schema: l.encoder.Schema(), Missing: l.encoder.Fields.Missing, Faults: l.encoder.Faults()}
	return h.MissingFields(e), h.StuckFields(e)
}

// Predict returns the prediction for an event and changes no state. The slices of the result are valid until the next
// call.
func (l *Learner) Predict(e *event.Example) Prediction {
	if !e.Usable() {
		return Prediction{Learned: l.events, Refused: true}
	}
	p := l.predictAlone(e)
	l.tell(&p)
	return p
}

// predictAlone is Predict without the last label, for a usable event.
func (l *Learner) predictAlone(e *event.Example) Prediction {
	x := l.doubtedIn(e)
	if x == nil {
		return l.predictAsIs(e)
	}
	type part struct {
		weight float64
		scores []float64
	}
	var parts []part
	x.Each(l.doubted, func(weight float64, e *event.Example) {
		parts = append(parts, part{weight, slices.Clone(l.predictAsIs(e).Scores)})
	})
	p := l.predictAsIs(e) // last, because the interval and the components are those of this event
	if len(parts) == 0 {
		return p
	}
	for _, with := range parts {
		p.Scores = model.MixScores(p.Decision, l.targets != nil, with.weight, p.Scores, with.scores)
	}
	if l.targets != nil {
		p.Scores[0] = l.targets.unit.Own(p.Scores[0])
		l.interval(&p)
	}
	return p
}

// predictAsIs is predictAlone for an event whose numbers are taken as they are.
func (l *Learner) predictAsIs(e *event.Example) Prediction {
	r, p := &l.room, Prediction{Learned: l.events}
	l.encoder.Read(e, l.events+1, &r.in)
	if l.predict(&p, true, true); l.mixes() {
		r.components = l.predictor.appendComponents(&r.scored, r.components[:0])
		r.components = l.predictor.cosines.append(r.components)
		p.Components = r.components
	}
	if t := l.targets; t != nil {
		for i, f := range p.Components {
			p.Components[i] = t.unit.Score(f)
		}
		l.interval(&p)
	}
	return p
}

// interval completes the prediction of a number by its value and interval.
func (l *Learner) interval(p *Prediction) {
	r, t := &l.room, l.targets
	missing := l.predictor.missingVariance(&r.in, r.scored.components, &r.imputed)
	if t.predicted(p, l.monitors.Counts.Known()); l.monitors.Counts.Known() {
		p.Low, p.High = l.monitors.Interval(t.residual.Published(), p.Value, missing)
	}
}

// mixes reports whether predictions mix several components.
func (l *Learner) mixes() bool {
	return len(l.set.levels.Noises) > 1 || l.predictor.experts.HasColumns()
}

// predict scores the current Input and writes the scores to p. If learns is true, experts without weight in predictions
// also score. labeled is true if the cosines will learn the event.
func (l *Learner) predict(p *Prediction, learns, labeled bool) {
	r := &l.room
	l.predictor.score(&r.in, learns, &r.scored)
	l.predictor.impute(&r.in, l.predictor.learns(l.events), &r.imputed)
	l.predictor.readCosines(&r.in, labeled && l.predictor.cosines.Takes(l.events), &r.imputed)
	p.Scores = l.predictor.answer(&r.in, r.scored.components, &r.imputed, r.out, &r.byClass)
	if l.targets == nil {
		p.Decision = l.monitors.Decision()
	}
}

// Learn scores an event, learns from it, and returns what Predict would have returned if it took all numbers as they
// are (see Config.Doubt): to doubt the numbers of every event would cost more than learning it. If the label is
// delayed, prior must be the prediction made when the event arrived, else nil. The monitors measure the prior, and
// mixture weights are updated with it.
//
// An event with importance weight 0 changes nothing. An integer weight up to 16 has the effect of that many equal
// events, in expectation where confident events are sampled (schedule.StandsFor). An event without a label changes no model weight. An invalid event is rejected: it is counted but not
// learned.
func (l *Learner) Learn(e *event.Example, prior *Prediction) (p Prediction) {
	if !e.Usable() {
		l.monitors.Counts.Refused.Take(e, l.events)
		return Prediction{Learned: l.events, Refused: true}
	}
	if e.Weight == 0 {
		return l.Predict(e)
	}
	if r := l.Refusal(e); r != nil {
		l.monitors.Counts.Refused.Take(&event.Example{Refused: r}, l.events)
		return Prediction{Learned: l.events, Refused: true}
	}
	l.events++
	if halves := l.clock.HalfLives(e.Time); halves > 0 {
		l.decay(math.Exp2(-halves))
	}
	p.Learned = l.events - 1
	if e.Label == event.Unlabeled {
		l.unlabeled(e, &p)
	} else {
		l.learn(e, prior, &p)
	}
	now := readings.Moment{Event: l.events, Time: e.Time}
	changes, found := l.encoder.Find(e, now)
	if l.monitors.Stuck(changes, now); found != nil {
		l.move(found.Moves)
		l.predictor.imputer.Review(found, l.encoder)
	}
	if applies(l.events, l.fresh) {
		l.predictor.mixture.Apply()
		l.predictor.experts.Rested(l.events, l.predictor.mixture.Counts())
		l.applyCosines()
		l.encoder.Fields.Missing = l.encoder.Fields.Missing.WithPolicies(l.predictor.mixture.Policies())
		l.renewDoubt()
	}
	l.keepOld()
	return p
}

// learn learns a labeled event, and completes p, which is its prediction.
func (l *Learner) learn(e *event.Example, prior, p *Prediction) {
	l.addClass(e)
	l.weight = l.weights.Observe(e.Weight)
	r := &l.room
	l.doubt(e, &r.seen.Met)
	l.readLack(e)
	l.encoder.Observe(e, l.events, &r.in)
	l.levels.SetRates(r.in.Rates)
	l.predict(p, l.predictor.learns(l.events), true)
	r.cosines.keep(&l.predictor.cosines)
	f, known := p.Scores[0], true
	if l.targets != nil {
		l.targets.predicted(p, l.monitors.Counts.Known())
	}
	shown, components := p, []float64(nil)
	if prior != nil && len(prior.Scores) > 0 {
		earlier := prior.Alone()
		shown, components = &earlier, l.shown(&earlier, p)
	}
	var told *Prediction // p with the last label
	if shown == p {
		told = &r.told
		*told = *p
	}
	if l.targets == nil {
		l.class(e, p, shown, components, told)
	} else {
		r.target[0], components = l.number(e, f, shown, components, told)
		known = l.targets.unit.Known()
	}
	l.rescale()
	if known { // while all targets are equal, there is nothing to learn
		l.predictor.cosines.learn(&r.cosines, r.target, l.levels.Active(), l.weight*l.classes[e.Label])
		if r.scored.seen.Earlier = components; components != nil {
			r.scored.seen.Earlier = components[:l.levels.Components()]
		}
		l.levels.Learn(&r.scored.seen, nil, r.scored.levels, r.target, l.levels.Active(), l.weight*l.classes[e.Label])
		l.solve(l.weight * l.classes[e.Label])
		l.masked.trainExperts(&r.labeled, r.target, l.weight*l.classes[e.Label])
	}
	l.predictor.cosines.follow(l.predictor.experts)
	l.outputs.rare.Take(e.Label)
	l.predictor.imputer.Gather(&r.in, l.encoder, gathers(l.events))
	l.encoder.ReadDead(&r.in)
	if review := l.encoder.Review(); review != nil {
		l.move(review.Moves)
		l.predictor.experts.Review(review, l.encoder.Table)
		l.predictor.imputer.Review(review, l.encoder)
		l.encoder.ForgetDead(review)
	}
	if told != nil {
		told.Mislabeled = p.Mislabeled
		*p = *told
	}
}

// class processes the label of a classified event. p is its current prediction, and shown is the prediction that
// readers received. class passes shown to the monitors, and updates the mixture weights. told is a copy of p, into
// which class mixes the last label. It is nil if the label is delayed.
func (l *Learner) class(e *event.Example, p, shown *Prediction, components []float64, told *Prediction) {
	r, j := &l.room, shown.Decision.Judge(shown.Scores, e.Label)
	seen := &r.seen // field by field, because copying the whole struct is slow
	seen.Labeled, seen.Missing, seen.Influence = true, model.MissingVariance{Range: r.in.Range}, l.influence(e.Label, p.Scores)
	seen.Scores, seen.Now, seen.Decision, seen.Judged = shown.Scores, p.Scores, shown.Decision, j
	seen.After, seen.Label, seen.Learned, seen.Likelihood = shown.Learned, e.Label, e.Weight*l.classes[e.Label], l.set.likelihood
	seen.Loss, seen.Predicted, seen.Probability, seen.Score = j.LogLoss, j.Class, j.Probability, shown.Scores[min(e.Label, len(shown.Scores)-1)]
	l.observe(e, seen, told)
	p.Mislabeled = l.monitors.Mislabeled.Latest()
	output := l.outputs.rare.Output(e.Label)
	by := &r.by
	by.Outputs, by.Active, by.Label, by.Lose, by.Decision = l.levels.Outputs, l.levels.Active(), output, nil, p.Decision
	if shown != p {
		j = p.Decision.Judge(p.Scores, e.Label)
	}
	l.forecast(lossesOf(e, j))
	l.judge(e, by, components)
	l.ablation.measure(&r.labeled)
	for k := range r.target {
		r.target[k] = rows.Y(output, k, len(r.target))
	}
}

// influence returns the factor by which the loss reduces the weight of the current event for the output of its class.
// It returns 0 if the detection of mislabeled events is disabled.
func (l *Learner) influence(label int, scores []float64) float64 {
	if l.config.MislabeledBelow == 0 {
		return 0
	}
	r, output, k := &l.room, l.outputs.rare.Output(label), 0
	if len(r.target) > 1 {
		k = output
	}
	return l.levels.Influence(&r.scored.seen, r.scored.levels, l.predictor.mixture.Largest(r.in.Range), k, rows.Y(output, k, len(r.target)), scores[min(label, len(scores)-1)])
}

// judge updates the mixture weights by the losses of the components, at the current event and at masked
// copies of it.
func (l *Learner) judge(e *event.Example, by *mixture.Event, components []float64) {
	r, x := &l.room, l.predictor
	components, corrected := x.splitComponents(components)
	r.labeled = labeled{
		Example: e, number: l.events, in: &r.in, scored: &r.scored, imputed: &r.imputed, by: by, cosines: &r.cosines, learns: x.learns(l.events),
		trains: !l.levels.Passed(), whole: r.labeled.whole,
	}
	if decides(l.events, l.fresh) {
		scores := x.whenArrived(&r.scored, components, &r.earlier)
		switch k := &r.in.Missing; {
		case l.levels.Passed(): // all components have learned the event in an earlier pass
		case r.in.Range == 0:
			x.judgeWhole(l.masked.judged(&r.labeled, scores), &r.cosines, corrected, by)
		case k.Named+k.AlwaysPresent > 0:
			x.expect(&r.in, r.labeled.learns, r.labeled.trains, &r.imputed)
			x.mixture.Own(r.in.Range)
			x.observeMissing(&r.in, scores.components, scores.some, &r.imputed, by)
		}
	}
	l.masked.evaluate(&r.labeled)
}

// shown completes earlier, a prediction made when the event arrived, by scores for classes that have been added since.
// components has the scores of the components by which the noise levels are compared, or is nil if the current
// scores are used.
func (l *Learner) shown(earlier, now *Prediction) (components []float64) {
	earlier.Decision, earlier.Loss = now.Decision, now.Loss
	plain, _ := l.predictor.splitComponents(earlier.Components)
	if n := len(plain); (n == l.levels.Components() || n == l.predictor.componentCount()) && earlier.Learned != now.Learned && earlier.Learned >= l.outputs.rare.Changed {
		components = earlier.Components
	}
	earlier.Scores = health.Widened(earlier.Scores, len(now.Scores), &l.room.shown)
	return components
}

// unlabeled predicts an event without a label, and adds the expected curvature of the loss to the accumulators.
func (l *Learner) unlabeled(e *event.Example, p *Prediction) {
	if l.doubts() {
		l.doubter.Note(e, l.predictor.imputer.Covariance())
	}
	l.encoder.Read(e, l.events, &l.room.in)
	l.encoder.Count(e, &l.room.in)
	l.levels.SetRates(l.room.in.Rates)
	l.room.seen.Labeled, l.room.seen.Met.Examined = false, false
	l.observe(e, &l.room.seen, nil)
	l.predict(p, false, false)
	if w := l.config.UnlabeledWeight; w > 0 {
		l.levels.Accumulate(&l.room.scored.seen, l.room.scored.levels, w*l.weights.Bound(e.Weight))
	}
	if l.targets != nil {
		l.targets.predicted(p, l.monitors.Counts.Known())
	}
	l.tell(p)
	l.predictor.last.Forget()
	l.encoder.Fields.Review(l.encoder.Schema().Fields)
}

// solve adds the current event to the window of the IRLS solver, if the solver is used.
func (l *Learner) solve(weight float64) {
	if n := l.encoder; l.levels.Windows() {
		m := &model.Linear{Head: model.Head{Schema: n.Schema(), Scaler: n.Scaling.Scaler, Layout: model.Layout{Width: n.Table.Width()}}, Rows: n.Table}
		l.levels.Learned(l.room.in.Event, weight, m, l.outputs.rare.Output, n.ReadsWhenDead)
	}
}

// rescale makes the new scales of the current event's columns take effect. It must be called after the event was scored
// with the old scales, which readers of the model use. If a scale has changed, rescale scores the event again with the
// new scales.
func (l *Learner) rescale() {
	r, others := &l.room, false
	l.levels.SumAgain(&r.scored.seen, r.scored.levels, func() {
		if r.in.Rescales {
			l.encoder.Rescale(&r.in)
		}
		l.move(r.in.Moves)
		others = l.predictor.experts.UpdateColumns(&r.in, l.encoder)
	})
	if others || r.in.Rescales {
		l.predictor.correct(&r.in, l.predictor.learns(l.events), &r.scored)
	}
}

// move converts the weights to changed scales.
func (l *Learner) move(moves []encode.Move) {
	for i := range moves {
		l.levels.Move(&moves[i])
	}
}

// observe completes seen, passes it to the monitors, and executes their requests. For told see tellLabeled.
func (l *Learner) observe(e *event.Example, seen *health.Event, told *Prediction) {
	seen.Number, seen.Time, seen.Weight, seen.Active = l.events, e.Time, e.Weight, l.outputs.active(l.levels.Active())
	seen.Due, seen.Again = due(l.events), l.levels.Passed()
	n, in, fields := l.encoder, &l.room.in, l.encoder.Schema().Fields
	met := &seen.Met
	met.Event, met.Came, met.Number, met.Named, met.Present = in.Event, e, in.Number, n.Fields.Named, n.Fields.PresentIn(e, in.Event, fields)
	met.Fields, met.Usual = fields[:min(len(fields), len(n.Scaling.Kinds))], n.Fields.Usual(in.Number)
	met.Error = forecastError(l.predictor.mixture, l.targets != nil)
	if seen.Told = nil; seen.Labeled {
		seen.Told = l.tellLabeled(told, &seen.LabeledEvent)
	}
	l.act(l.monitors.Observe(seen))
}

// act executes requests of the monitors. After the first pass over a finite data set it does nothing, because later
// passes repeat the same events.
func (l *Learner) act(asked *health.Request) {
	if asked == nil || l.levels.Passed() {
		return
	}
	if asked.Keep > 0 {
		l.decay(asked.Keep)
		l.predictor.experts.Forget(asked.Keep)
	}
	if asked.Fresh {
		l.predictor.experts.StartFresh()
		l.predictor.mixture.CorrectAgain()
		l.fresh = l.events + fresh
	}
}

// decay multiplies the memory of earlier events by keep. The weights do not change, but later steps are larger.
func (l *Learner) decay(keep float64) {
	l.levels.Forget(keep)
	l.predictor.imputer.Decay(keep)
}

// Config returns the Learner's settings. The caller must not change the maps and slices in them.
func (l *Learner) Config() Config { return l.config }

// EndPass marks the end of one pass over a finite set of events, before the next pass.
func (l *Learner) EndPass() { l.levels.EndPass() }

// Schema returns the Learner's current Schema.
func (l *Learner) Schema() *event.Schema { return l.encoder.Schema() }

// SetSchema replaces the Schema by a later version. It is for callers that decode on another goroutine.
func (l *Learner) SetSchema(s *event.Schema) {
	l.outputs.most = s.MaxClasses
	l.encoder.Follow(s)
	l.monitors.Follow(s)
}

// Prefetch loads the rows of an event into the CPU cache before Learn. It changes no state.
func (l *Learner) Prefetch(e *event.Example) { l.encoder.Table.Prefetch(e.Features) }

// keepOld saves the models that are due. It discards all of them after the first pass over a finite data set.
func (l *Learner) keepOld() {
	if l.levels.Passed() {
		l.monitors.Older.Stop()
		return
	}
	if t := l.encoder.Table; l.monitors.Older.Learned(l.events, l.room.in.Features()/keepsOf(l.events), t.Len(), 8*t.Width()) {
		l.monitors.Older.Freeze(l.events, l.kept())
	}
}
