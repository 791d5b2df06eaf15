package online

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/health"
	"blankout/online/impute"
	"blankout/online/mixture"
	"blankout/online/silent"
)

// This file evaluates predictions of masked events: copies of a labeled event from which features are removed. It does
// so before the event is learned. The predictions update the forecasts, and the mixture weights for events with missing
// fields.

// masked draws masks and evaluates masked events. All its fields except drawn are reusable memory.
type masked struct {
	*predictor
	monitors *health.Monitors
	alone    float64 // rate at which single features of a group are dropped
	drawn    uint64  // number of masks drawn so far
	mask     mixture.Mask
	factors  [][2]int // see event.Schema.Factors
	field    []uint16
	whole    encode.Input // the event, including columns that are 0 when absent
	numbers  impute.Numbers
	dead     []bool       // whether each feature is missing
	left     encode.Input // the event without the missing features
	silently encode.Input // the event in which the features are silently missing
	scored   scored
	nested   nested // scores of the masked copies
	imputed  imputed
	out      []float64 // scores by output
	byClass  []float64 // scores by class
	seen     health.Event
	silent   silent.Mask
}

func newMasked(x *predictor, monitors *health.Monitors, alone float64, drawn uint64) masked {
	return masked{
		predictor: x, monitors: monitors, alone: alone, drawn: drawn,
		scored: x.newScored(), nested: x.newNested(), imputed: newImputed(&x.ensemble), out: make([]float64, x.levels.Outputs),
	}
}

// labeled is a labeled event that has been encoded and scored, but not learned yet.
type labeled struct {
	*event.Example
	number  uint64
	whole   mixture.Losses // of the prediction of the event
	in      *encode.Input
	scored  *scored
	imputed *imputed
	by      *mixture.Event
	learns  bool // experts without weight in predictions also score masked copies
	trains  bool // masked copies train mixture weights
	cosines *ownCosines
}

// evaluate draws the masks of an event, if masks are due at its number, and predicts the masked copies. Mixture weights
// learn from masks of groups if groups are declared. Otherwise they learn from masks of single features.
func (m *masked) evaluate(e *labeled) {
	if !masks(e.number, m.imputer.Columns()) {
		return
	}
	declared := m.levels.Grouping.Declared()
	m.drawn++
	m.evaluateMask(e, false, e.trains && !declared)
	if m.evaluatesGroups() {
		m.evaluateMask(e, true, e.trains && declared)
	}
}

// evaluatesGroups reports whether the error with missing groups is forecast. Each field without a group counts as its
// own group.
func (m *masked) evaluatesGroups() bool { return m.levels.Grouping.Declared() || m.levels.Grouped() }

// evaluateMask draws one mask, of groups or of single features. It predicts the masked copy of the event at each point
// (missing fraction). If trains is true, mixture weights learn from the predictions.
func (m *masked) evaluateMask(e *labeled, groups, trains bool) {
	in := m.draw(e, m.drawn, groups)
	curve, losses := &m.mixture.Features, unknown
	if groups {
		curve = &m.mixture.Groups
	}
	if trains {
		m.mixture.Masked()
	}
	m.scoreNested(in, m.mask.Last, m.corrects(e.learns), &m.nested)
	sparse := e.in.Event.IsSparse(m.encoder.Schema().Fields)
	whole, numbers := m.encoder.Fields.All(e.in.Event, m.encoder.Schema().Fields), m.imputer.Columns()
	for point := 1; point < mixture.Points; point++ {
		if !predicts(e.number, m.drawn, point) {
			continue
		}
		turn := turns(m.drawn, point)
		m.dead = m.dead[:0]
		for _, last := range m.mask.Last {
			m.dead = append(m.dead, int(last) < point)
		}
		if m.numbers.Mask(m.dead, &m.imputed.numbers); m.imputed.numbers.SomeMissing && !imputes(m.drawn, point, numbers) {
			continue
		}
		m.removeDead(whole, point)
		components := m.nested.copies[point].components
		m.expect(&m.left, e.learns, trains && turn, &m.imputed)
		m.readMaskedCosines(in, e, m.left.Range)
		learns := trains && m.left.Range > 0 && m.mixture.LearnsFromMasks(m.left.Range)
		if learns && turn {
			m.observeMissing(&m.left, components, e.learns, &m.imputed, e.by)
		}
		if sparse && !m.encoder.Fields.Missing.ColumnsCanBeMissing {
			// No record of such a stream declares a column missing: the forecast and the monitors read it as 0. The
			// policies above serve deletions that are declared.
			m.left.Missing, m.left.Range, m.left.Scale, learns = model.MissingCount{}, 0, 1, false
			m.readMaskedCosines(in, e, 0)
		}
		scores := m.answer(&m.left, components, &m.imputed, m.out, &m.byClass)
		var j model.Judged
		if losses[point], j = m.losses(e, scores); learns {
			m.monitor(e, scores, j, components)
		}
	}
	curve.Add(e.number, e.whole, &losses)
}

// draw draws the mask with this number for an event. It returns the event, with the absent columns that are known to be 0
// added, because the mask can also remove these.
func (m *masked) draw(e *labeled, number uint64, groups bool) *encode.Input {
	schema := m.encoder.Schema()
	in := m.encoder.WithZeros(e.in, &m.whole)
	m.imputer.Read(in, m.encoder, &m.numbers)
	columns := in.Columns[:in.Features()]
	if m.field = m.field[:0]; len(in.Event.Field) > 0 {
		m.field = m.encoder.Scaling.Scaler.FieldsOf(in.Event, columns, m.field)
	}
	if len(m.factors) != len(schema.Fields) {
		m.factors = schema.Factors()
	}
	x := mixture.Features{
		Columns: columns, Field: m.field, Schema: schema, Factors: m.factors, Splines: m.encoder.Scaling.Scaler.Splines,
		Sparse: in.Event.IsSparse(schema.Fields),
	}
	if groups {
		m.mask.Draw(x, number, m.levels.Grouping)
		m.mask.Alone(m.alone, e.number)
	} else {
		m.mask.Draw(x, number, nil)
	}
	return in
}

// removeDead sets left to the event without the features that are missing at a point, but without a list of the other
// features. all is the missing count of the event before the mask.
func (m *masked) removeDead(all model.MissingCount, point int) {
	all.Null, all.Named = all.Null+m.mask.Dead[point], all.Named-m.mask.Dead[point]
	m.left.Missing, m.left.Range = all, mixture.Range(all)
	m.left.Scale = m.encoder.Fields.Missing.Scale(all)
}

// monitor passes the prediction of a masked event to the monitors.
func (m *masked) monitor(e *labeled, scores []float64, j model.Judged, components []float64) {
	seen := &m.seen
	seen.Again, seen.Missing = m.levels.Passed(), m.missingVariance(&m.left, components, &m.imputed)
	if t := m.targets; t != nil {
		seen.Regression, seen.Target, seen.Value, seen.Residual = true, e.Target, t.unit.Value(scores[0]), t.residual.PublishedIn(&t.before)
	} else {
		seen.Scores, seen.Label, seen.Decision = scores, e.Label, m.monitors.Decision()
		seen.Judged, seen.Active = j, m.outputs.active(m.levels.Active())
	}
	m.monitors.Masked(seen)
}

// judged returns the scores by which components are compared at an event without missing fields. If a level
// has silent noise, they are the scores of a copy in which some features are silently missing. Otherwise they are the
// scores of the event.
func (m *masked) judged(e *labeled, s *scored) *scored {
	if !m.drawSilent(e.in, e.number, 0) {
		return s
	}
	m.score(&m.silently, s.some, &m.scored)
	return &m.scored
}

// drawSilent sets silently to a copy of an event in which some features are silently missing. These features are drawn
// from the distribution of the silent level's noise, with a seed made of the event's number and the index copy. The
// result is false if no level has silent noise or no feature is missing in the copy.
func (m *masked) drawSilent(in *encode.Input, number, copy uint64) bool {
	noise, some := m.levels.Silent()
	if !some {
		return false
	}
	var units []int32
	if noise.Groups {
		units = in.Units
	}
	if m.silent.Draw(noise, in.Features(), units, number, copy); m.silent.Some {
		in.Silently(m.silent.Dead, &m.silently)
	}
	return m.silent.Some
}

// If whole groups can be missing, the experts learn firstCopies silently masked copies of each of the first earlyGroups
// events. They learn one copy of every other event.
const firstCopies, earlyGroups = 3, 2000

// trainExperts trains the correcting experts with an event. If a level has silent noise, it trains them with silently
// masked copies of the event instead.
func (m *masked) trainExperts(e *labeled, target []float64, weight float64) {
	if !e.scored.some {
		return
	}
	noise, some := m.levels.Silent()
	copies := uint64(1)
	if some && noise.Groups && e.number <= earlyGroups {
		copies = firstCopies
	}
	for i := range copies {
		s := e.scored
		if m.drawSilent(e.in, e.number, i) {
			s = &m.scored
			m.score(&m.silently, true, s)
		}
		m.train(s, target, weight)
	}
}

// losses returns the losses of a prediction. For classification, j describes whether the prediction was right.
func (m *masked) losses(e *labeled, scores []float64) (losses mixture.Losses, j model.Judged) {
	if t := m.targets; t != nil {
		return squareOf(e.Example, t.unit.Value(scores[0])), j
	}
	j = m.monitors.Decision().Judge(scores, e.Label)
	return lossesOf(e.Example, j), j
}

// The part below forecasts errors with missing fields, and chooses the default noise levels.

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = mixture.Points

// died is a copy of a labeled event in which features have died silently.
type died struct {
	event.Example
	curve  *mixture.Curve // nil if the event has no such copy
	point  int            // fraction of the features that have died, see mixture.Missing
	losses mixture.Losses // of the prediction of the copy
	dead   *model.Dead
}

// die makes such a copy of an event, in which up to 70 % of the features have died: copies with more would teach the
// Doubter to believe them. It must be called before the event is encoded.
func (l *Learner) die(e *event.Example) {
	m, d, in := &l.masked, &l.room.died, &l.room.in
	f := &l.predictor.mixture.Forecasts
	d.curve = &f.SilentFeatures
	groups := m.evaluatesGroups() && f.SilentGroups.Masks() < f.SilentFeatures.Masks()
	if groups {
		d.curve = &f.SilentGroups
	}
	number := d.curve.Masks()
	d.point = 1 + 2*int(number%4)
	l.encoder.Read(e, l.events, in)
	in = m.draw(&labeled{Example: e, number: l.events, in: in}, number, groups)
	m.dead = m.dead[:0]
	for _, last := range m.mask.Last {
		m.dead = append(m.dead, int(last) < d.point)
	}
	d.dead = l.encoder.Dead()
	losses := model.Losses{Fields: l.encoder.Schema().Fields, Dead: d.dead, Center: func(uint32) float64 { return 0 }}
	losses.Lose(model.LossDead, e, 0, in.Columns[:in.Features()], m.dead, &d.Example)
}

// forecast takes the losses of the prediction of a labeled event.
func (l *Learner) forecast(whole mixture.Losses) {
	f, d := &l.predictor.mixture.Forecasts, &l.room.died
	f.Whole.Add(l.events, whole)
	l.room.labeled.whole = whole
	if d.curve != nil {
		copies := unknown
		copies[d.point] = d.losses
		d.curve.Add(l.events, whole, &copies)
	}
}

// unknown has the losses of masked copies that have not been predicted.
var unknown = func() (none [mixture.Points]mixture.Losses) {
	for point := range none {
		none[point] = mixture.Losses{math.NaN(), math.NaN()}
	}
	return none
}()

// losses returns the losses of scores, in the unit of the stream, for a labeled event.
func (l *Learner) losses(e *event.Example, scores []float64) mixture.Losses {
	switch t := l.targets; {
	case t == nil:
		return lossesOf(e, l.monitors.Decision().Judge(scores, e.Label))
	case !l.monitors.Counts.Known():
		return mixture.Losses{math.NaN(), math.NaN()}
	default:
		return squareOf(e, t.unit.ValueOf(scores[0]))
	}
}

// lossesOf returns the losses of a classification.
func lossesOf(e *event.Example, j model.Judged) mixture.Losses {
	if j.Class != e.Label {
		return mixture.Losses{1, j.LogLoss}
	}
	return mixture.Losses{0, j.LogLoss}
}

// squareOf returns the losses of a predicted value.
func squareOf(e *event.Example, value float64) mixture.Losses {
	d := e.Target - value
	return mixture.Losses{d * d, 0}
}

// Forecast is the expected error of predictions at each deletion rate, see ForecastMissing.
type Forecast struct {
	Level string `json:"noise_level"`
	// Declared is for features that are declared missing, so that the missing policies apply. Silent is for features
	// that are missing silently: a number has its neutral value, and other features are absent.
	Declared []ForecastPoint `json:"declared"`
	Silent   []ForecastPoint `json:"silent"`
	// The errors by fraction of missing groups, if there are named groups or if a noise level drops groups.
	DeclaredGroups []ForecastPoint `json:"declared_groups,omitempty"`
	SilentGroups   []ForecastPoint `json:"silent_groups,omitempty"`
}

// ForecastPoint is the expected error at one deletion rate.
type ForecastPoint struct {
	Missing float64  `json:"missing"`
	Error   float64  `json:"error"`              // root mean squared error for regression; NaN before the first sample
	LogLoss *float64 `json:"log_loss,omitempty"` // in nats; nil for regression, and before the first sample
	// Deviation is the standard error of Error: two of three forecasts are less than that away from the error.
	Deviation float64 `json:"deviation"`
}

// noiseLevels returns the noise levels (dropout rates) of features and of groups for the noise "auto". If levels are
// configured, it returns these. The default is three levels: none, light and heavy. ExpectedMissing replaces the heavy
// level if it is 0.5 or more, else the light level. If groups are expected to be missing, there are two levels of
// features and two levels of groups.
func (c Config) noiseLevels() (features, groups []float64) {
	light, heavy := 0.3, 0.7
	switch d := c.ExpectedMissing; {
	case c.Levels != nil:
		return c.Levels, c.GroupLevels
	case len(c.GroupLevels) == 0 && c.ExpectedMissingGroups > 0:
		return []float64{0, 0.3}, []float64{0.3, 0.5}
	case d >= 0.5:
		heavy = d
	case d >= leastExpected:
		light = d
	}
	return []float64{0, light, heavy}, c.GroupLevels
}

// leastExpected is the smallest expected missing fraction for which there is a separate noise level.
const leastExpected = 0.05

// The part below measures the ablation cost of each field: how much the error grows when the field is missing.

// ablation measures ablation costs. The fields after monitors are scratch memory.
type ablation struct {
	*predictor
	monitors *health.Monitors
	field    []uint16 // field of each feature
	list     []uint16 // fields of the event, as candidates for removal
	factors  [][2]int // see event.Schema.Factors
	base     []float64
	out      []float64
	byClass  []float64
	dead     []bool
	left     encode.Input
	scored   scored
}

func newAblation(x *predictor, monitors *health.Monitors) ablation {
	k := x.levels.Outputs
	return ablation{predictor: x, monitors: monitors, base: make([]float64, k), out: make([]float64, k), scored: x.newScored()}
}

// maxAblations is the largest number of fields of one event that measure tests. measure removes one field at a time.
const maxAblations = 8

// measure predicts a labeled event once without each of its fields, as if that field were null, and reports the errors
// to the monitors. It skips most events (see ablates) and events without named fields.
func (a *ablation) measure(e *labeled) {
	if !a.encoder.Fields.Named || !ablates(e.number) {
		return
	}
	schema := a.encoder.Schema()
	a.findFields(e.in, min(len(schema.Fields), health.MostFields))
	if len(a.field) != e.in.Features() {
		return
	}
	a.intercepts(a.out, a.scored.components)
	a.mixture.Score(a.scored.components, e.in.Range, a.levels.Active(), a.base)
	a.cosines.take(e.cosines)
	with, all := a.wrong(e, e.scored.components, e.in.Scale), a.encoder.Fields.All(e.in.Event, schema.Fields)
	for _, id := range a.list {
		a.dead = a.dead[:0]
		for _, field := range a.field {
			a.dead = append(a.dead, a.dies(field, id))
		}
		e.in.Mask(a.dead, &a.left)
		lack := all
		if lack.Null++; schema.Fields[id].Kind.Named() {
			lack.Named--
		} else {
			lack.AlwaysPresent--
		}
		scale := a.encoder.Fields.Missing.Scale(lack)
		if a.imputer.Covariance() != nil { // an imputed value counts like the column's mean
			scale = 1 + (scale-1)*(1-a.encoder.Fields.Missing.ImputeWeight(lack))
		}
		a.score(&a.left, false, &a.scored)
		a.readCosines(&a.left, false, &imputed{})
		a.monitors.Cost(id, with, a.wrong(e, a.scored.components, scale))
	}
}

// wrong returns 1 if the predicted class of e is not its label, else 0. components holds the scores of the mixed
// models. wrong multiplies the contribution of the features to the scores by scale, which makes up for missing
// features.
func (a *ablation) wrong(e *labeled, components []float64, scale float64) float64 {
	active := a.levels.Active()
	a.mixture.Score(components, e.in.Range, active, a.out)
	for k, b := range a.base[:active] {
		a.out[k] = b + scale*(a.out[k]-b)
	}
	a.cosines.addTo(a.out)
	if a.monitors.Decision().Predict(a.outputs.byClass(a.out, &a.byClass)) != e.Label {
		return 1
	}
	return 0
}

// findFields sets list to at most maxAblations fields of an event. If the event has more fields, the choice rotates
// with the event's number. The factors of a product of two fields are listed in place of the product.
func (a *ablation) findFields(in *encode.Input, fields int) {
	schema := a.encoder.Schema()
	if len(a.factors) != len(schema.Fields) {
		a.factors = schema.Factors()
	}
	a.field, a.list = a.encoder.Scaling.Scaler.FieldsOf(in.Event, in.Columns[:in.Features()], a.field[:0]), a.list[:0]
	for _, id := range a.field {
		for _, factor := range a.factors[id] {
			if factor > 0 && factor < fields && !slices.Contains(a.list, uint16(factor)) {
				a.list = append(a.list, uint16(factor))
			}
		}
	}
	if n := len(a.list); n > maxAblations {
		from := int(in.Number) % n
		a.list = append(a.list, a.list[:from]...)[from:][:maxAblations]
	}
}

// dies reports whether the features of field are missing if the field with index missing is missing. A product of two
// fields is missing if either factor is.
func (a *ablation) dies(field, missing uint16) bool {
	f := a.factors[field]
	return f[0] == int(missing) || f[1] == int(missing)
}

// forecastError returns the expected error rate for complete events. It returns -1 for regression, or if the error rate
// is not known yet.
func forecastError(t *mixture.Mixture, regression bool) float64 {
	if e, _ := t.Whole.At(0); e == e && !regression {
		return e
	}
	return -1
}
