// Package online learns a linear classifier event by event under feature noise
// that is integrated out: each event is scored first (progressive validation),
// then learned from.
//
// A [Learner] is single-threaded and does no I/O. What it scores, measures and
// publishes is an average of its recent iterates. One file holds one update
// rule; the state, and how it is saved, is in state.go.
package online

import (
	"fmt"
	"math"
	"slices"

	"blankout"
)

// Learner is a linear learner with K outputs: one for two classes, else one
// against the rest for each class. It is not safe for concurrent use.
//
// The row of a feature in its Table is
//
//	[Scaler's statistics][level][weight x K, metric x K, lag x K, ...]
//
// so that an event fetches everything about a feature at once and the loops
// over outputs run over contiguous memory. The lag is the published average
// less the iterate, up to a common factor, see average.go.
type Learner struct {
	config Config
	settings
	schema  *blankout.Schema
	kinds   []blankout.Kind // of the schema's fields, as far as met
	classes []float64       // weight of a class, NaN until met

	k      int // outputs
	active int // outputs in use: classes that have appeared
	slots  int // values of a row for one level and output
	levels []level
	chosen int // the level that is published
	eta    float64
	table  *blankout.Table
	scaler blankout.Scaler
	bias   []float64 // the intercepts, laid out as a row
	average
	adaptation
	dense denseFinder

	events  uint64 // met, labelled or not, with a weight above 0
	steps   uint64 // updates made
	period  uint64 // steps of the first pass, 0 while in it
	metrics Metrics

	now event // the one at hand

	snapshot *blankout.Table // the latest, to share its blocks
}

// level is a noise level: a copy of the weights that learns as if its noise
// were the true one.
type level struct {
	noise  blankout.Noise
	basis  basis
	scale  float64 // variance of a feature = scale x basis
	c0     float64 // plus this, on absent features too
	offset int     // of the level in a row
	sumsq  []float64
}

// basis is what of a feature its noise's variance is proportional to.
type basis int

const (
	square basis = iota // x^2: dropout
	value               // x: Poisson
)

// event is the scratch memory of one event.
type event struct {
	rows   [][]float64 // of its features; the intercepts come last
	x      []float64   // standardised values
	basis  []float64   // what their noise's variance is proportional to
	ridge  []float64   // weight of the ridge in the gradient of this feature
	scarce []float64   // events for each event that holds this feature
	spread []float64   // scratch: variance of the features' noise at one level

	scores []float64 // published scores, by output
	// By level and output: the iterate's score, sum x lag, sum basis w^2, and what
	// the published score was more before the Scaler moved.
	f, lag, q, moved []float64
	df, dv, h        []float64 // derivatives by score and variance, curvature
}

// maxRepeats bounds how often an important event is learned.
const maxRepeats = 8

// unseenIntercept is the published intercept of a class that has not appeared.
const unseenIntercept = -30

// New returns a Learner for events of the Schema, which stays the decoder's: it
// may grow, but only before the Learn of an event that needs the growth.
func New(c Config, s *blankout.Schema) (*Learner, error) {
	set, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	l := &Learner{config: c, settings: set, schema: s, k: s.Outputs()}
	l.slots = l.rule.slots
	l.scaler.Mode = set.standardise
	l.levels = []level{newLevel(set.noise)}
	width := blankout.ScalerWidth
	for i := range l.levels {
		l.levels[i].offset = width
		l.levels[i].sumsq = make([]float64, l.k)
		width += l.slots * l.k
	}
	if width*8 > 1<<18 {
		return nil, fmt.Errorf("learner: max_classes = %d: a feature's row would be larger than 256 KB", s.MaxClasses)
	}
	l.table = blankout.NewTable(width)
	l.bias = make([]float64, width)
	l.average = newAverage(c.Average)
	l.adaptation = newAdaptation(c.Adapt && c.Average > 0)
	l.eta = l.settings.eta
	for i := range l.levels {
		l.rule.start(l.part(l.bias, &l.levels[i]), l.k)
	}
	n := len(l.levels) * l.k
	e := &l.now
	e.scores = make([]float64, l.k)
	for _, p := range []*[]float64{&e.f, &e.lag, &e.q, &e.moved, &e.df, &e.dv, &e.h} {
		*p = make([]float64, n)
	}
	l.metrics = newMetrics()
	if l.k == 1 {
		l.active = 1
	} else {
		for k := range l.k {
			l.setIntercept(k, unseenIntercept)
		}
	}
	return l, nil
}

func newLevel(n blankout.Noise) level {
	c0, c1, c2 := n.Coefficients()
	v := level{noise: n, basis: square, scale: c2, c0: c0}
	if c1 > 0 {
		v.basis, v.scale = value, c1
	}
	return v
}

// part returns the values of a row that belong to a level.
func (l *Learner) part(row []float64, v *level) []float64 {
	n := l.slots * l.k
	return row[v.offset : v.offset+n : v.offset+n]
}

func (l *Learner) setIntercept(k int, b float64) {
	if !l.intercept {
		return
	}
	for i := range l.levels {
		p := l.part(l.bias, &l.levels[i])
		l.rule.set(p, l.k, k, b)
		p[2*l.k+k] = 0
	}
}

// Learn scores an event, learns from it, and returns the scores made before:
// one for each output, borrowed until the next call.
//
// An importance weight of 0 leaves everything as it was. A whole weight up to 8
// is learned that often in a row, so that 2 is the same, to the bit, as meeting
// the event twice (but for the counts of events and of the Scaler); another one
// in equal parts of at most 1, or an eighth of it, each scaling the gradient.
//
// An unlabelled event moves no weight; it updates the Scaler and adds
// Config.Alpha of its expected curvature to the metric. A refused event, and
// one whose values are not finite or beyond 1e30, is counted, not learned, and
// gives nil.
func (l *Learner) Learn(e *blankout.Example) []float64 {
	if !usable(e) {
		l.metrics.Refused++
		return nil
	}
	if e.Weight == 0 {
		return l.Score(e, l.now.scores)
	}
	l.grow(e)
	l.events++
	l.gather(e)
	weight := e.Weight
	if e.Label == blankout.Unlabelled {
		l.metrics.Unlabelled++
		l.unlabelled(weight)
		return l.now.scores
	}
	weight *= l.classes[e.Label]
	l.measure(e.Label, e.Weight)
	repeats := min(math.Ceil(weight), maxRepeats)
	for i := range int(repeats) {
		if i > 0 {
			l.resum()
		}
		l.step(e.Label, weight/repeats)
	}
	return l.now.scores
}

// Score writes the published scores of an event to out, which must have room
// for K values, and learns nothing.
func (l *Learner) Score(e *blankout.Example, out []float64) []float64 {
	m := blankout.Model{Head: l.head(l.schema), Rows: l.table}
	return m.Score(e, out)
}

func usable(e *blankout.Example) bool {
	if e.Refused != nil || !(e.Weight >= 0 && e.Weight <= math.MaxFloat64) {
		return false
	}
	for _, x := range e.Features.Value {
		if !(x >= -1e30 && x <= 1e30) {
			return false
		}
	}
	return true
}

// grow takes up fields and classes that the Schema has learned.
func (l *Learner) grow(e *blankout.Example) {
	for _, id := range e.Field {
		for int(id) >= len(l.kinds) {
			l.kinds = append(l.kinds, l.schema.Fields[len(l.kinds)].Kind)
		}
	}
	if len(l.kinds) == 0 {
		l.kinds = append(l.kinds, l.schema.Fields[0].Kind)
	}
	for e.Label >= len(l.classes) {
		l.classes = append(l.classes, math.NaN())
	}
	if e.Label >= 0 && math.IsNaN(l.classes[e.Label]) {
		l.classes[e.Label] = 1
		if w, ok := l.config.ClassWeight[l.schema.Classes[e.Label]]; ok {
			l.classes[e.Label] = w
		}
	}
	for l.k > 1 && e.Label >= l.active {
		// Everything before was an event of another class: start from there.
		l.setIntercept(l.active, -math.Log(float64(l.steps+1)))
		l.active++
	}
}

// gather looks up the rows of an event's features, updates their statistics
// and sums the scores: the published ones as they were before.
func (l *Learner) gather(e *blankout.Example) {
	now := &l.now
	now.rows, now.x, now.basis = now.rows[:0], now.x[:0], now.basis[:0]
	now.ridge, now.scarce = now.ridge[:0], now.scarce[:0]
	clear(now.f)
	clear(now.lag)
	clear(now.q)
	if l.scaler.Mode == blankout.StandardiseNone {
		for i, column := range e.Features.Index {
			row := l.touch(column)
			row[0]++
			l.add(row, e.Features.Value[i])
		}
		l.sum(now.rows, now.x, now.basis)
	} else {
		clear(now.moved)
		l.addMoved(l.bias, 1, 1)
		l.gatherStandardised(e)
		l.addMoved(l.bias, 1, -1)
	}
	if l.intercept {
		ridge := 0.0
		if l.config.Intercept == "penalised" {
			ridge = l.ridgeOf(float64(l.steps + 1))
		}
		n := len(now.rows)
		now.append(l.bias, 1, 0, ridge, 0)
		l.sum(now.rows[n:], now.x[n:], now.basis[n:])
	}
	c := l.published()
	at := l.chosen * l.k
	for k := range l.active {
		now.scores[k] = now.f[at+k] + c*now.lag[at+k]
	}
	if l.scaler.Mode != blankout.StandardiseNone {
		for k := range l.active {
			now.scores[k] += now.moved[at+k]
		}
	}
	for k := l.active; k < l.k; k++ {
		now.scores[k] = unseenIntercept
	}
}

// gatherStandardised is gather's loop over the features where a Scaler is on.
func (l *Learner) gatherStandardised(e *blankout.Example) {
	dense := l.scaler.Dense
	for i, column := range e.Features.Index {
		isDense := false
		for len(dense) > 0 && dense[0] <= column {
			if dense[0] == column {
				isDense = true
			} else {
				l.addStandardised(dense[0], 0, treatNumeric)
			}
			dense = dense[1:]
		}
		field := uint16(0)
		if e.Field != nil {
			field = e.Field[i]
		}
		l.addStandardised(column, e.Features.Value[i], l.treatment(l.kinds[field], isDense))
	}
	for _, column := range dense {
		l.addStandardised(column, 0, treatNumeric)
	}
	l.sum(l.now.rows, l.now.x, l.now.basis)
	l.dense.event(l, e) // may move more weights
}

func (l *Learner) addStandardised(column uint32, raw float64, t treatment) {
	row := l.touch(column)
	stats := row[:blankout.ScalerWidth:blankout.ScalerWidth]
	if stats[4] > 0 && (t == treatAlone || t == treatScale && math.Abs(raw)*stats[4] <= 1) {
		stats[0]++ // nothing can move
		l.add(row, l.scaler.Apply(stats, raw))
		return
	}
	l.addMoved(row, l.scaler.Apply(stats, raw), 1)
	l.observe(column, row, raw, t)
	x := l.scaler.Apply(stats, raw)
	l.addMoved(row, x, -1)
	l.add(row, x)
}

// touch returns the row of a column, made ready if it is new.
func (l *Learner) touch(column uint32) []float64 {
	row := l.table.Touch(column)
	if row[0] == 0 {
		for i := range l.levels {
			l.rule.start(l.part(row, &l.levels[i]), l.k)
		}
	}
	return row
}

// add takes a feature up into the event at hand; sum adds it to the scores.
func (l *Learner) add(row []float64, x float64) {
	b := x * x
	if l.levels[0].basis == value {
		b = max(x, 0)
	}
	l.now.append(row, x, b, l.ridgeOf(row[0]), float64(l.events)/row[0])
}

func (e *event) append(row []float64, x, basis, ridge, scarce float64) {
	e.rows = append(e.rows, row)
	e.x = append(e.x, x)
	e.basis = append(e.basis, basis)
	e.ridge = append(e.ridge, ridge)
	e.scarce = append(e.scarce, scarce)
}

// sum adds rows with their values to the sums of every level.
func (l *Learner) sum(rows [][]float64, x, basis []float64) {
	now := &l.now
	for v := range l.levels {
		at, i, j := l.levels[v].offset, v*l.k, v*l.k+l.active
		if l.k == 1 {
			sumRows1(rows, at, x, basis, &now.f[i], &now.lag[i], &now.q[i])
			continue
		}
		sumRows(rows, at, l.k, x, basis, now.f[i:j], now.lag[i:j], now.q[i:j])
	}
}

// spreads returns the noise's variance of every feature at hand, parallel to its
// row: 0 for the intercepts. It is borrowed.
func (l *Learner) spreads(v *level) []float64 {
	now := &l.now
	now.spread = slices.Grow(now.spread[:0], len(now.basis))[:len(now.basis)]
	for i, b := range now.basis {
		now.spread[i] = v.scale * b
	}
	if v.c0 != 0 {
		for i, s := range now.scarce {
			now.spread[i] += v.c0 * s
		}
	}
	return now.spread
}

// addMoved adds sign times a feature's part of the published scores to moved.
func (l *Learner) addMoved(row []float64, x, sign float64) {
	if x == 0 {
		return
	}
	c, n := l.published(), l.k
	for v := range l.levels {
		p := l.part(row, &l.levels[v])
		for k, w := range p[:l.active] {
			l.now.moved[v*n+k] += sign * x * (w + c*p[2*n+k])
		}
	}
}

// published returns what a lag counts for in a published weight.
func (l *Learner) published() float64 { return l.blend * l.coefficient }

// move rewrites a feature's weights for a new centre and scale so that no score
// changes: w *= ratio, and the intercept takes up w shift. A gradient by w
// shrinks as w grows, so the metric, a sum of its squares, goes with 1/ratio^2.
func (l *Learner) move(row []float64, ratio, shift float64) {
	n := l.k
	for v := range l.levels {
		p, b := l.part(row, &l.levels[v]), l.part(l.bias, &l.levels[v])
		for k := range l.active {
			if l.intercept && shift != 0 {
				b[k] += p[k] * shift
				b[2*n+k] += p[2*n+k] * shift
			}
		}
		if l.levels[v].c0 > 0 {
			for k, w := range p[:l.active] {
				l.levels[v].sumsq[k] += w * w * (ratio*ratio - 1)
			}
		}
		l.rule.rescale(p, n, l.active, ratio)
	}
}

// resum sums the iterate's scores again, after a step.
func (l *Learner) resum() {
	now := &l.now
	clear(now.f)
	clear(now.lag)
	clear(now.q)
	l.sum(now.rows, now.x, now.basis)
}

// ridgeOf returns the factor of w in the ridge's gradient at an event of a
// feature that has been in n. The ridge is h0 |w_d|^2/2 for a pass over the
// stream; spreading it over the feature's own events costs nothing for the
// others and is the same on average.
func (l *Learner) ridgeOf(n float64) float64 {
	if l.period > 0 && l.steps > l.period {
		n *= float64(l.period) / float64(l.steps)
	}
	return l.ridge / max(n, 1)
}

// EndPass says that the events so far were one pass over a finite set, which is
// to be presented again. From here on the ridge counts once a pass, and nothing
// is adapted: the rate is the configured one and the average is published.
func (l *Learner) EndPass() {
	if l.period == 0 {
		l.period = l.steps
		l.adaptation = newAdaptation(false)
		l.eta = l.settings.eta
	}
}

// step makes one update of every level with the given importance.
func (l *Learner) step(label int, importance float64) {
	now, n := &l.now, l.k
	for v := range l.levels {
		lv := &l.levels[v]
		for k := range l.active {
			i := v*n + k
			variance := 0.0
			if l.config.Marginalised {
				variance = lv.scale*now.q[i] + lv.c0*lv.sumsq[k]
			}
			_, now.df[i], now.dv[i] = l.loss.At(target(label, k, n), now.f[i], variance)
		}
	}
	l.adapt()
	l.steps++
	for i := range now.df {
		now.df[i] *= importance
		now.dv[i] *= 2 * importance
		now.h[i] = now.dv[i]
		if !l.config.Marginalised {
			now.dv[i] = 0
		}
	}
	for v := range l.levels {
		lv := &l.levels[v]
		l.addSumsq(lv, -1)
		l.rule.step(l, lv, v*n)
		l.addSumsq(lv, 1)
	}
	l.advance(l)
}

// adapt shows the derivatives of the published level to the adaptation.
func (l *Learner) adapt() {
	if !l.adaptation.on {
		return
	}
	now := &l.now
	corr, curv := 0.0, 0.0
	for i := l.chosen * l.k; i < l.chosen*l.k+l.active; i++ {
		d := l.coefficient * now.lag[i]
		corr += now.df[i] * d
		curv += 2 * now.dv[i] * d * d
	}
	l.adaptation.observe(corr, curv)
	l.eta = l.settings.eta * math.Exp(l.raise)
}

func (l *Learner) addSumsq(lv *level, sign float64) {
	if lv.c0 == 0 {
		return
	}
	for _, row := range l.features() {
		for k, w := range l.part(row, lv)[:l.active] {
			lv.sumsq[k] += sign * w * w
		}
	}
	for k, s := range lv.sumsq {
		lv.sumsq[k] = max(s, 0)
	}
}

// features returns the rows of the event at hand without the intercepts.
func (l *Learner) features() [][]float64 {
	rows := l.now.rows
	if l.intercept {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// unlabelled adds an event's expected curvature to the metric: that of the loss
// averaged over both labels by the probability the iterate gives them.
func (l *Learner) unlabelled(weight float64) {
	if l.config.Alpha == 0 {
		return
	}
	now, n := &l.now, l.k
	for v := range l.levels {
		lv := &l.levels[v]
		for k := range l.active {
			i := v*n + k
			variance := 0.0
			if l.config.Marginalised {
				variance = lv.scale*now.q[i] + lv.c0*lv.sumsq[k]
			}
			p := 1 / (1 + math.Exp(-now.f[i]))
			_, _, up := l.loss.At(1, now.f[i], variance)
			_, _, down := l.loss.At(-1, now.f[i], variance)
			now.h[i] = 2 * weight * l.config.Alpha * (p*up + (1-p)*down)
		}
		l.rule.unlabelled(l, lv, v*n)
	}
}

// target returns the y of output k for an event of the given class.
func target(label, k, outputs int) float64 {
	if outputs == 1 && label == 1 || outputs > 1 && label == k {
		return 1
	}
	return -1
}

// SetSchema gives the Learner a later state of its Schema: the same, perhaps
// with more fields, classes and names. Whoever decodes ahead of the Learner on
// another goroutine passes what Schema.At returns before the events of a batch
// that needs it; who does both in turn needs not.
func (l *Learner) SetSchema(s *blankout.Schema) { l.schema = s }

// Schema returns the Schema that the Learner was made with, or was given last.
func (l *Learner) Schema() *blankout.Schema { return l.schema }

// Fingerprint returns what gives the weights their meaning.
func (l *Learner) Fingerprint() Fingerprint { return FingerprintOf(l.config, l.schema) }

// Metrics returns the progressive measures so far.
func (l *Learner) Metrics() Metrics {
	m := l.metrics
	m.Classes = slices.Clone(m.Classes)
	m.Events, m.Features = l.events, l.table.Len()
	return m
}
