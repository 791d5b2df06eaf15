package online

// This file holds what the Learner knows of fields that events lack, and decides which
// rule answers those events.

import (
	"cmp"
	"math"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// missing is what the Learner knows about events that lack fields: which fields
// they usually have, and which rule scores them better. What it publishes of that
// is a model.Missing, which scores the Learner's own events too.
type missing struct {
	model *model.Missing
	usual model.FieldUse
	// kinds counts fields as usual does, but each of several of one name for itself.
	kinds model.FieldUse
	// For sparse text formats whose Schema.Known says that features go missing.
	columns model.ColumnUse
	event   lacking
	// For what is null and for what is left out, by the share missing.
	null, absent [model.MissingBins]comparison
	answers      [model.MissingBins]answerChoice // of a bank, by the share of both
}

// lacking is what the event at hand lacks.
type lacking struct {
	named   bool           // the event has fields
	present model.FieldSet // if it has
	kinds   model.FieldSet // its fields, each of several of one name
	lack    model.Lack
	level   int     // that answers it
	scale   float64 // the features' factor for that
	filled  bool    // it is answered by filling.answer
	// By output, of an event that lacks some: the published intercepts, the features'
	// parts of the scores, and room for what the two add up to.
	base, part, out []float64
}

func newMissing(rule model.MissingRule, known bool, levels int) missing {
	rules := model.DefaultMissingRules()
	m := model.NewMissing(rules, rules, nil, nil, nil).Forced(rule)
	m.Known = known
	return missing{
		model:   m,
		usual:   model.FieldUse{Memory: usualMemory},
		kinds:   model.FieldUse{Memory: usualMemory},
		columns: model.ColumnUse{Memory: usualMemory},
		answers: newAnswerChoices(levels),
		event:   lacking{scale: 1},
	}
}

const (
	// Fields are counted in all of the first events, then in every n-th.
	usualFirst, usualEvery = 1024, 16
	usualMemory            = 500 // counted events
)

// comparison compares the log-loss of events when they are rescaled with that
// when they are not.
type comparison struct {
	events float64 // that set the memory
	own    float64 // that lacked fields by themselves
	// Decayed sums of the difference, rescaled less not, and of its square.
	sum, squares float64
}

const (
	comparisonMemory = 10_000 // events
	// A range of shares that has had comparisonOwn events of its own is no longer compared on
	// masks that are drawn.
	comparisonOwn = 100
)

func (c *comparison) add(difference float64) {
	c.events++
	keep := 1 - 1/min(comparisonMemory, 8+c.events/2)
	c.sum = c.sum*keep + difference
	c.squares = c.squares*keep + difference*difference
}

// better returns the rule that has proved better than r.
func (c *comparison) better(r model.MissingRule) model.MissingRule {
	all := model.RuleComparison{Sum: model.RuleLosses{0, c.sum, math.Inf(1)}, Squares: model.RuleLosses{c.squares}}
	return all.Better(r)
}

// lack finds out what the event at hand lacks, and counts its fields if it is its
// turn. It comes before anything of the event is learned.
func (l *answering) lack(e *blankout.Example) {
	l.now.read.gathers, l.now.read.follows = l.fillsIn() && l.events%l.gatherEvery() == 0, len(l.filling.columns) > 0
	now := &l.missing.event
	now.lack, now.level, now.scale, now.named, now.filled = model.Lack{}, l.chosen, 1, false, false
	m, fields := &l.missing, l.schema.Fields
	if len(e.Field) == 0 && len(e.Missing) == 0 && !m.model.Known {
		return // nothing, or a sparse text format without fields
	}
	if 64*len(now.present) < len(fields) {
		now.present = model.NewFieldSet(len(fields))
	}
	sparse := m.model.Known && e.IsSparse(fields)
	now.named = !sparse
	if now.lack = m.model.Lack(fields, e, now.present); now.lack.Some() {
		now.level, now.scale = l.levelFor(now.lack), m.model.Scale(now.lack)
		l.interceptsOf(now.level, now.base)
		l.fillAnswer(e)
	}
	if n := l.events; !l.shared() && (n <= usualFirst || n%usualEvery == 0) {
		review := n%usualFirst == 0 || n >= 16 && n&(n-1) == 0
		if sparse {
			if m.columns.Count(fields, e); review {
				m.model = m.columns.Review(m.model)
			}
		} else if m.usual.Count(now.present, e.Missing); review {
			m.model = m.usual.Review(m.model, fields)
			if l.set.observed {
				l.setRates(m.usual.Rates(fields))
			}
		}
		if !sparse {
			clear(now.kinds)
			now.kinds = now.kinds.Room(len(fields))
			now.kinds.Add(e.Field)
			m.kinds.Count(now.kinds, nil)
		}
	}
}

// interceptsOf writes the intercepts of a level's published scores to out.
func (l *bank) interceptsOf(level int, out []float64) {
	clear(out)
	if !l.set.intercept {
		return
	}
	c, at := l.levels[level].lagShare(), level*l.k
	w, u := l.weights(l.bias), l.lags(l.bias)
	for k := range l.active {
		out[k] = w[at+k] + c*u[at+k]
	}
}

// answer makes of the scores at hand, which are those of the features as they are,
// what the model answers to an event that lacks some.
func (l *answering) answer() {
	now, scores := &l.missing.event, l.now.scores
	for k := range l.active {
		now.part[k] = scores[k] - now.base[k]
		scores[k] = now.base[k] + now.scale*now.part[k]
	}
	if now.filled {
		copy(scores, l.filling.answer[:l.active])
		if l.set.numbers {
			scores[0] = l.unit.own(scores[0])
		}
	}
}

// compareRules takes up which rule would have been better for the event at hand,
// which lacks fields.
func (l *answering) compareRules(label int) {
	m := &l.missing
	now := &m.event
	present := now.lack.Named + now.lack.Silent
	if present == 0 {
		return
	}
	if n := now.lack.Null; n > 0 {
		bin := model.MissingBin(n / (n + present))
		c := &m.null[bin]
		if c.own++; c.own == comparisonOwn {
			c.events = comparisonOwn // what masks had to say fades quickly
		}
		l.compareAt(c, m.model.Null[bin], now.scale, n/present, label)
		l.follow(forNull, bin)
	}
	if n := now.lack.Absent; n > 0 {
		bin := model.MissingBin(n / (n + present))
		l.compareAt(&m.absent[bin], m.model.Absent[bin], now.scale, n/present, label)
		l.follow(forAbsent, bin)
	}
}

// compareAt compares the two rules for fields that make the factor of the features
// larger by raise where they rescale: it is scale under the present rule.
func (l *answering) compareAt(c *comparison, rule model.MissingRule, scale, raise float64, label int) {
	with, without := scale, scale
	if rule == model.MissingRescale {
		without -= raise
	} else {
		with += raise
	}
	c.add(l.lossAt(with, label) - l.lossAt(without, label))
}

// compareDeleted does the same for an event of which a mask has deleted fields; k is
// what it then lacks, part what is left of its scores. It serves until enough
// events have come that lack as much by themselves.
func (l *answering) compareDeleted(k model.Lack, label int) {
	m := &l.missing
	present := k.Named + k.Silent
	if present == 0 || k.Null == 0 || l.shared() || l.choosesLevels() {
		return
	}
	bin := model.MissingBin(k.Null / (k.Null + present))
	if c := &m.null[bin]; c.own < comparisonOwn {
		l.compareAt(c, m.model.Null[bin], m.model.Scale(k), k.Null/present, label)
		l.follow(forNull, bin)
	}
}

// lossAt is the log-loss of the parts and intercepts at hand if the features are
// multiplied by scale.
func (l *answering) lossAt(scale float64, label int) float64 {
	now := &l.missing.event
	out := now.out
	for k := range out {
		if out[k] = unseenIntercept; k < l.active {
			out[k] = now.base[k] + scale*now.part[k]
		}
	}
	return l.decision().LogLoss(out, label)
}

// follow publishes the rule that has proved better for a range of shares, if the
// user leaves the choice: between as is and rescale by the one comparison, between
// filling in and the better one of these by the other.
func (l *answering) follow(kind, bin int) {
	m, choice := &l.missing, &l.filling.rules[kind][bin]
	null, absent := m.model.Null, m.model.Absent
	rule, compared := &null[bin], &m.null[bin]
	if kind == forAbsent {
		rule, compared = &absent[bin], &m.absent[bin]
	}
	was := *rule
	plain := was
	if plain == model.MissingFill {
		plain = cmp.Or(choice.plain, model.MissingRescale)
	}
	plain = compared.better(plain)
	if choice.plain != "" {
		choice.plain = plain
	}
	if was != model.MissingFill {
		was, *rule = *rule, plain
	}
	if *rule = choice.choose(*rule, plain); *rule == was || l.set.missingRule != model.MissingAuto {
		return
	}
	m.model = m.model.WithRules(null, absent)
	if kind != forAbsent {
		l.fadeForecasts(bin)
	}
}

// fadeForecasts lets what was forecast at a range of shares fade sooner: it was forecast under
// another rule.
func (l *answering) fadeForecasts(bin int) {
	for v := range l.levels {
		f := &l.levels[v].forecast
		for i := 1; i < ForecastPoints; i++ {
			if model.MissingBin(ForecastMissing(i)) == bin {
				f.samples[i] = min(f.samples[i], forecastOther)
			}
		}
	}
}

func (m *missing) state(c *coder.Coder) {
	if m.model.Known {
		c.Uint(&m.columns.Events)
		c.Uint32s(&m.columns.Columns)
		c.Uints(&m.columns.Present)
	}
	c.Uint(&m.usual.Events)
	c.Uints(&m.usual.Present)
	c.Uints(&m.usual.Null)
	c.Uint(&m.kinds.Events)
	c.Uints(&m.kinds.Present)
	for _, list := range []*[model.MissingBins]comparison{&m.null, &m.absent} {
		for i := range list {
			c.Each(&list[i].events, &list[i].own, &list[i].sum, &list[i].squares)
		}
	}
}
