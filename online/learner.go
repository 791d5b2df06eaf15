// Package online learns a linear model event by event, under feature noise that is integrated out: each event is scored
// first, then learned.
//
// A [Learner] is for one goroutine and does no I/O. Its Predict returns the [Prediction] for an event and changes nothing. Its
// Learn returns the same Prediction and then learns the event. If the label of an event is delayed, the Prediction made when
// the event came is stored ([Prediction.Append]) and given to Learn as the prior: it is measured, and moves the mixture
// weights. A [Report] is what was measured and counted, [Alarms] are what the monitors have raised, and a [Snapshot] is the
// state at one instant, with its models.
//
// Learn takes an event through these packages. None imports one that comes later, and none knows the Learner:
//
//  1. encode makes an Input of the event: its rows, its standardized values, and what it lacks.
//  2. levels scores the Input with the weights of each noise level; correct has experts (second order, splines, discriminant)
//     that correct those levels.
//  3. impute finds what is expected of the numbers that the event lacks.
//  4. mixture weighs all scores to one answer, by how much of the event is missing.
//  5. monitor is shown the event and the answer: measures, calibration, prediction sets, drift, health of fields, staleness.
//     It moves no weight, and may ask that the past be forgotten.
//  6. At some events (beat.go) masked copies of the event are scored (masked.go): mixture and forecasts learn from those.
//  7. levels and correct learn the event.
//
// Several Learners may learn one model (share.go): a [share.Delta] is what one has learned in an interval.
package online

import (
	"fmt"
	"math"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/impute"
	"blankout/online/levels"
	"blankout/online/mixture"
	"blankout/online/monitor"
	"blankout/online/regression"
	"blankout/online/rows"
	"blankout/online/schedule"
	"blankout/online/stuck"
)

// Learner learns a linear model event by event. It has one output for two classes or for regression, else one output for
// each class against the rest. It is not safe for concurrent use.
type Learner struct {
	config    Config
	set       settings
	encoder   *encode.Encoder
	levels    *levels.Expert
	predictor *predictor // makes predictions with the encoder, the levels, and what corrects them
	monitors  *monitor.Monitors
	outputs   *outputs
	classes   []float64 // weight of each class
	events    uint64    // number of events so far with a weight above 0
	weights   schedule.Importance
	weight    float64  // importance weight of the current event, without that of its class
	targets   *targets // nil for classification
	fade      schedule.Fade
	hurried   uint64 // mixture weights are put in force more often up to this event
	masked    masked
	ablation  ablation
	pasts     pasts
	snapshot  *model.Table // the latest, whose blocks the next one shares
	member    *member      // nil unless several Learners learn one model
	room      room
}

// room is scratch memory for one event.
type room struct {
	in       encode.Input
	seen     monitor.Event
	scored   scored
	earlier  []float64 // the scores of lanes when the event arrived
	target   []float64 // by output
	out      []float64 // by output
	lanes    []float64 // see ensemble.appendLanes
	shown    []float64 // the scores that were predicted when the event arrived
	standard []float64 // the scores of lanes in the unit of regression targets
	imputed  imputed
	byClass  []float64 // scores
	by       mixture.Event
	labeled  labeled
}

// New returns a Learner for events of the Schema, which stays the decoder's: it may grow before the Learn of an event
// that needs the growth.
func New(c Config, s *event.Schema) (*Learner, error) {
	set, err := parse(c)
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	return newLearner(c, set, s, s.Outputs())
}

// newLearner is New with so many outputs, and with what parse has made of the settings, which takes milliseconds for some
// losses.
func newLearner(c Config, set settings, s *event.Schema, outputs int) (*Learner, error) {
	if want := loss.LabelsOf(c.Loss); s.Target != want {
		return nil, fmt.Errorf("learner: loss %s is for %v labels, the schema has %v", c.Loss, want, s.Target)
	}
	set.levels.Grouping, set.levels.Outputs = model.NewGrouping(s), outputs
	levels := levels.New(set.levels)
	mix := mixture.New(mixture.Settings{
		Lanes: len(set.levels.Noises), Expected: set.expected, Correctable: set.corrects, Scales: set.scales, Policy: set.policy, Fills: set.imputed > 0, Regression: s.Target != loss.Sign,
	})
	l := &Learner{config: c, set: set, levels: levels, fade: schedule.NewFade(c.HalfLife, c.HalfLifeTime, c.HalfLifeStep)}
	l.encoder = encode.New(set.encoded(levels, mix.Policies()), s)
	if s.Target != loss.Sign {
		l.targets = &targets{unit: regression.NewUnit(s.Target, c.HalfLife), loss: set.levels.Loss}
	}
	l.predictor = &predictor{
		ensemble: ensemble{levels: levels, experts: set.newExperts(levels, c.HalfLife), mixture: mix},
		encoder:  l.encoder, imputer: impute.New(set.imputed), targets: l.targets,
	}
	l.outputs = l.newOutputs()
	l.predictor.outputs = l.outputs
	l.monitors = monitor.New(monitor.Settings{
		OnDrift: c.OnDrift, Stuck: c.Stuck, Calibrate: c.Calibrate, Positive: c.Positive, MislabeledBelow: c.MislabeledBelow, Coverage: c.Coverage,
		Threshold: c.Threshold, ServingStaleness: c.ServingStaleness, ClassWeights: len(c.ClassWeight) > 0,
		Loss: set.levels.Loss, Target: s.Target, Schema: s, Repeats: l.encoder.Repeats,
	})
	l.setOutputs()
	return l, nil
}

// setOutputs allocates all memory whose size depends on the number of outputs.
func (l *Learner) setOutputs() {
	k, x := l.levels.Outputs, l.predictor
	l.monitors.SetOutputs(k, l.outputs.young.On())
	l.room.scored = x.newScored(l.levels.NewOwn())
	l.room.target, l.room.out = make([]float64, k), make([]float64, k)
	l.room.imputed, x.mixed = newImputed(&x.ensemble), newMixed(x)
	l.masked = newMasked(x, l.monitors, l.config.ExpectedMissing, l.masked.drawn)
	l.ablation = newAblation(x, l.monitors)
}

// Predict returns the prediction for an event. It learns nothing and observes nothing. Its slices hold until the next
// call.
func (l *Learner) Predict(e *event.Example) Prediction {
	p := l.predictAll(e, l.mixes() && !l.member.shares())
	if len(p.Lanes) > 0 {
		if of, _ := l.pasts.predict(l, e); of.Lanes != nil {
			p.Learned, p.Lanes = of.Learned, of.Lanes
		}
	}
	return p
}

// predictAll is Predict by the weights of now, with lanes or not.
func (l *Learner) predictAll(e *event.Example, lanes bool) Prediction {
	if !e.Usable() {
		return Prediction{Learned: l.events, Refused: true}
	}
	r, p := &l.room, Prediction{Learned: l.events}
	l.encoder.Read(e, l.events+1, &r.in)
	if l.predict(&p, true); lanes {
		r.lanes = l.predictor.appendLanes(&r.scored, r.lanes[:0])
		p.Lanes = r.lanes
	}
	if t := l.targets; t != nil {
		for i, f := range p.Lanes {
			p.Lanes[i] = t.unit.Score(f)
		}
		lacks := l.predictor.lacks(&r.in, r.scored.lanes, &r.imputed)
		if t.predicted(&p, l.monitors.Measures.Known()); l.monitors.Measures.Known() {
			p.Low, p.High = l.monitors.Interval(t.residual.Published(), p.Value, lacks)
		}
	}
	return p
}

// mixes says whether there are several lanes that predictions are mixed of.
func (l *Learner) mixes() bool { return len(l.set.levels.Noises) > 1 || l.predictor.knows() }

// predict scores the Input at hand.
func (l *Learner) predict(p *Prediction, awake bool) {
	r := &l.room
	l.predictor.score(&r.in, awake, &r.scored)
	l.predictor.impute(&r.in, l.predictor.awake(l.events), &r.imputed)
	p.Scores = l.predictor.answer(&r.in, r.scored.lanes, &r.imputed, r.out, &r.byClass)
	if l.targets == nil {
		p.Decision = l.monitors.Decision()
	}
}

// Learn scores an event, learns from it, and returns what Predict would have. Prior is what a reader was given where
// the label comes later than the event: that is what is measured and what levels are judged by, and nil where the
// event comes with its label.
//
// An importance weight of 0 leaves everything as it was. A whole weight up to 16 is learned that often in a row. An
// event without label moves no weight. One that is refused is counted and not learned.
func (l *Learner) Learn(e *event.Example, prior *Prediction) (p Prediction) {
	if !e.Usable() {
		l.monitors.Refused.Take(e, l.events)
		return Prediction{Learned: l.events, Refused: true}
	}
	if e.Weight == 0 {
		return l.Predict(e)
	}
	if r := l.Refusal(e); r != nil {
		l.monitors.Refused.Take(&event.Example{Refused: r}, l.events)
		return Prediction{Learned: l.events, Refused: true}
	}
	l.events++
	if !l.member.shares() { // between its intervals the events of all go by
		if halves := l.fade.Halves(e.Time); halves > 0 {
			l.decay(math.Exp2(-halves))
		}
	}
	p.Learned = l.events - 1
	if e.Label == event.Unlabeled {
		l.unlabeled(e, &p)
	} else {
		l.learn(e, prior, &p)
	}
	if l.member.shares() {
		return p
	}
	now := stuck.Moment{Event: l.events, Time: e.Time}
	l.monitors.Stuck(l.encoder.Find(e, now), now)
	if applies(l.events, l.hurried) {
		l.predictor.apply(l.events)
		l.encoder.Fields.Missing = l.encoder.Fields.Missing.WithPolicies(l.predictor.mixture.Policies())
	}
	if l.member == nil {
		l.keepOld()
	}
	return p
}

// learn learns an event with a label, and fills in what is predicted.
func (l *Learner) learn(e *event.Example, prior, p *Prediction) {
	l.addClass(e)
	if l.weight = l.weights.Bound(e.Weight); !l.member.shares() {
		l.weight = l.weights.Observe(e.Weight)
	}
	r := &l.room
	l.encoder.Observe(e, l.events, &r.in)
	l.levels.SetRates(r.in.Rates)
	l.predict(p, l.predictor.awake(l.events))
	f, known := p.Scores[0], true
	if l.targets != nil {
		l.targets.predicted(p, l.monitors.Measures.Known())
	}
	shown, lanes := p, []float64(nil)
	if prior != nil && len(prior.Scores) > 0 {
		earlier := *prior
		shown, lanes = &earlier, l.shown(&earlier, p)
	}
	of, stale := l.pasts.predict(l, e)
	if shown == p && of.Lanes != nil {
		lanes = of.Lanes
	}
	if l.targets == nil {
		l.class(e, p, shown, lanes, stale)
	} else {
		r.target[0], lanes = l.number(e, f, shown, lanes)
		known = l.targets.unit.Known()
	}
	l.rescale()
	if known { // while all numbers are equal there is nothing to learn
		l.update(l.weight*l.classes[e.Label], lanes)
		l.solve(l.weight * l.classes[e.Label])
		l.masked.trainExperts(&r.labeled, r.target, l.weight*l.classes[e.Label])
	}
	if l.outputs.young.Take(e.Label); l.member.shares() {
		return
	}
	l.predictor.imputer.Gather(&r.in, l.encoder, gathers(l.events))
	l.encoder.ReadDead(&r.in)
	if review := l.encoder.Review(); review != nil {
		l.move(review.Moves)
		l.predictor.review(review, l.encoder)
		l.predictor.imputer.Review(review, l.encoder)
		l.encoder.ForgetDead(review)
	}
}

// class takes up the class of the event at hand, for which p is predicted: it has what was shown observed, and moves mixture weights.
func (l *Learner) class(e *event.Example, p, shown *Prediction, lanes []float64, stale monitor.Older) {
	r, j := &l.room, shown.Decision.Judge(shown.Scores, e.Label)
	seen := &r.seen // field by field, for a whole one takes its time to copy
	seen.Labeled, seen.Lacks, seen.Older, seen.Influence = true, model.Lacked{Range: r.in.Range}, stale, l.influence(e.Label, p.Scores)
	seen.Scores, seen.Now, seen.Decision, seen.Judged = shown.Scores, p.Scores, shown.Decision, j
	seen.After, seen.Label, seen.Learned, seen.Likelihood = shown.Learned, e.Label, e.Weight*l.classes[e.Label], l.set.likelihood
	seen.Loss, seen.Predicted, seen.Probability, seen.Score = j.LogLoss, j.Class, j.Probability, shown.Scores[min(e.Label, len(shown.Scores)-1)]
	l.observe(e, seen)
	p.Mislabeled = l.monitors.Mislabeled()
	output := l.outputs.young.Output(e.Label)
	by := &r.by
	by.Outputs, by.Active, by.Label, by.Lose = l.levels.Outputs, l.levels.Active(), output, nil
	if forecasts(l.events) {
		if shown != p {
			j = p.Decision.Judge(p.Scores, e.Label)
		}
		recordClass(&l.predictor.mixture.Table.Features, 0, e, j)
	}
	l.judge(e, by, lanes)
	if !l.member.shares() {
		l.ablation.measure(&r.labeled)
	}
	for k := range r.target {
		r.target[k] = rows.Y(output, k, len(r.target))
	}
}

// influence returns how much the event at hand counts by the loss, for the output of its own class; 0 if nobody asks.
func (l *Learner) influence(label int, scores []float64) float64 {
	if l.config.MislabeledBelow == 0 {
		return 0
	}
	r, output, k := &l.room, l.outputs.young.Output(label), 0
	if len(r.target) > 1 {
		k = output
	}
	return l.levels.Influence(&r.scored.levels, l.predictor.mixture.Largest(r.in.Range), k, rows.Y(output, k, len(r.target)), scores[min(label, len(scores)-1)])
}

// judge moves mixture weights by what the levels have lost at the event at hand, and by what they lose if more of it
// goes missing.
func (l *Learner) judge(e *event.Example, by *mixture.Event, lanes []float64) {
	r, x := &l.room, l.predictor
	r.labeled = labeled{
		Example: e, number: l.events, in: &r.in, scored: &r.scored, imputed: &r.imputed, by: by, awake: x.awake(l.events),
		trains: !l.member.shares() && !l.levels.Passed(),
	}
	if decides(l.events, l.hurried) {
		scores := x.laneScores(&r.scored, lanes, &r.earlier)
		switch k := &r.in.Lack; {
		case l.member.shares():
			if r.in.Range == 0 {
				x.mixture.ObservePart(scores.lanes, by)
			}
		case l.levels.Passed(): // all lanes have learned the event in an earlier pass
		case r.in.Range == 0:
			x.judgeWhole(l.masked.judged(&r.labeled, scores), by)
		case k.Named+k.Silent > 0:
			x.expect(&r.in, r.labeled.awake, &r.imputed)
			x.mixture.Table.Own(r.in.Range)
			x.observeMissing(&r.in, scores.lanes, scores.experts != nil, &r.imputed, by)
		}
	}
	l.masked.evaluate(&r.labeled)
}

// shown makes an earlier prediction one that counts now: one of an event from before there were as many classes gets the
// scores of classes that have not come. It returns the lanes that levels are judged by, nil for those of now.
func (l *Learner) shown(earlier, now *Prediction) (lanes []float64) {
	earlier.Decision, earlier.Loss = now.Decision, now.Loss
	if n := len(earlier.Lanes); (n == l.levels.Lanes() || n == l.predictor.laneCount()) && earlier.Learned != now.Learned && earlier.Learned >= l.outputs.young.Changed {
		lanes = earlier.Lanes
	}
	earlier.Scores = monitor.Widened(earlier.Scores, len(now.Scores), &l.room.shown)
	return lanes
}

// unlabeled answers an event without label, and lets it count as its expected curvature.
func (l *Learner) unlabeled(e *event.Example, p *Prediction) {
	l.encoder.Read(e, l.events, &l.room.in)
	if l.encoder.Note(&l.room.in); !l.member.shares() {
		l.encoder.Count(e, &l.room.in)
	}
	l.levels.SetRates(l.room.in.Rates)
	l.room.seen.Labeled = false
	l.observe(e, &l.room.seen)
	l.predict(p, false)
	if w := l.config.UnlabeledWeight; w > 0 {
		l.levels.Accumulate(&l.room.in, &l.room.scored.levels, w*l.weights.Bound(e.Weight), l.encoder.Table)
	}
	if l.targets != nil {
		l.targets.predicted(p, l.monitors.Measures.Known())
	}
}

// update makes the steps of the event at hand, as often as its weight says.
func (l *Learner) update(weight float64, lanes []float64) {
	r, first := &l.room, true
	if lanes != nil {
		lanes = lanes[:l.levels.Lanes()]
	}
	if weight > 0 && weight <= 1 { // as nearly all
		l.levels.Update(&r.in, &r.scored.levels, lanes, r.target, weight, l.encoder.Table)
		return
	}
	schedule.Parts(weight, l.set.levels.Rule.Proximal, func(part float64) {
		if !first {
			l.levels.Score(&r.in, &r.scored.levels)
		}
		first = false
		l.levels.Update(&r.in, &r.scored.levels, lanes, r.target, part, l.encoder.Table)
	})
}

// solve takes the event at hand into the window of events that are solved exactly, if there is one.
func (l *Learner) solve(weight float64) {
	if n := l.encoder; l.levels.Windows() {
		m := &model.Linear{Head: model.Head{Schema: n.Schema(), Scaler: n.Scaling.Scaler, Layout: model.Layout{Width: n.Table.Width()}}, Rows: n.Table}
		l.levels.Learned(l.room.in.Event, weight, m, n.Intercepts, l.outputs.young.Output, n.ReadsWhenDead)
	}
}

// rescale puts the scales in force that the event at hand has moved, which has been scored and judged as a reader of the model
// would have scored it, and has experts score it again as they learn it, if that is another score.
func (l *Learner) rescale() {
	r := &l.room
	if r.in.Rescales {
		l.encoder.Rescale(&r.in)
	}
	l.move(r.in.Moves)
	if l.predictor.followNumbers(&r.in, l.encoder) || r.in.Rescales {
		l.predictor.score(&r.in, l.predictor.awake(l.events), &r.scored)
	}
}

// move makes weights fit scales that have moved.
func (l *Learner) move(moves []encode.Move) {
	for _, m := range moves {
		l.levels.Move(m, l.encoder.Intercepts)
	}
}

// observe shows the event at hand to the monitors, with what of it was predicted, and does what they ask for. Of seen the rest is filled in.
func (l *Learner) observe(e *event.Example, seen *monitor.Event) {
	seen.Number, seen.Time, seen.Weight, seen.Active = l.events, e.Time, e.Weight, l.outputs.active(l.levels.Active())
	if seen.Due, seen.Again = due(l.events), l.levels.Passed(); l.member.shares() {
		l.monitors.ObservePart(seen)
		return
	}
	l.encoder.Met(e, &l.room.in, &seen.Met)
	seen.Part, seen.Met.Error = false, forecastError(l.predictor.mixture.Table, l.targets != nil)
	l.act(l.monitors.Observe(seen))
}

// act does what monitors ask for, but not after a first pass: every later one is the same.
func (l *Learner) act(asked *monitor.Request) {
	if asked == nil || l.levels.Passed() {
		return
	}
	if asked.Keep > 0 {
		l.decay(asked.Keep)
		l.predictor.forget(asked.Keep)
	}
	if asked.Fresh {
		l.predictor.startFresh()
		l.hurried = l.events + hurried
	}
}

// decay leaves a part of what is known of the past. Weights stay, and move faster.
func (l *Learner) decay(keep float64) {
	l.levels.Decay(keep, l.encoder.Table, l.encoder.Intercepts)
	l.predictor.imputer.Decay(keep)
}

// Config returns the Learner's settings, of which its caller must change nothing.
func (l *Learner) Config() Config { return l.config }

// EndPass says that the events so far were one pass over a finite set, which is about to be presented again.
func (l *Learner) EndPass() { l.levels.EndPass() }

// Schema returns the Schema that the Learner was made with, or was given last.
func (l *Learner) Schema() *event.Schema { return l.encoder.Schema() }

// SetSchema gives the Learner a later state of its Schema, for a caller that decodes on another goroutine.
func (l *Learner) SetSchema(s *event.Schema) {
	l.outputs.most = s.MaxClasses
	l.encoder.Follow(s)
	l.monitors.Follow(s)
}

// Prefetch says that an event is about to be learned. It changes nothing.
func (l *Learner) Prefetch(e *event.Example) { l.encoder.Table.Prefetch(e.Features) }
