package online

// This file lets a Learner share learning with others: it weighs its steps, and cuts what
// it has learned.

import (
	"fmt"
	"math"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
	"blankout/online/rows"
)

// sharing is what a Learner knows that is one of several which together learn one model,
// the fold of their deltas. Learning is cut into intervals. An interval begins where the
// Learner equals the fold, and ends with a Delta.
//
// Let n_i be how many of the fold's t events had column i, and G_i AdaGrad's sum of it then.
// e is how many events the Learner is to learn in an interval, R what all learn in that time,
// divided by e. Alone, it would within an interval settle a column by about
//
//	a_i = 2 eta (sqrt(start + G_i (1 + e/t)) - sqrt(start + G_i)).
//
// What column i learns from an event stands for the events that others learn meanwhile:
// it counts
//
//	c_i = 1 + (R-1) min(1, e n_i/t) / (1 + lambda m a_i)
//
// times in a step of the rule (see adagrad), m being the features of an event: a column that
// every learner meets in an interval counts up to R times, one that is rare once. With
// several outputs c_i is at most sharedMost. The weights change by u_i in an interval, of which the share
//
//	alpha_i = k_i/(k_i + (R-1) e n_i/t)
//
// goes into the Delta, k_i being the events of the interval that held the column: the
// mean over all learners where all have met it, the whole where no one else is likely to
// have. A mean of learners none of which steps too far does not step too far; a sum may.
// The change of G goes into it divided by c_i. R = 1 gives c = alpha = 1.
//
// Under a half-life of H events G fades between intervals, with the fold's events. It then
// sums at most H/ln 2 of them, which stands for t in a_i.
//
// The levels of a bank share one c_i, found from the mean of their a_i.
type sharing struct {
	peers float64 // R
	own   float64 // e

	alone      bool // R = 1: rows are handed on as they are
	everything bool // all rows have been written

	// The columns of the interval, in the order in which they were met first, and by
	// place what they then were. A place is one more where 0 is none.
	begun   float64  // t
	events  uint64   // the Learner's own, then
	places  []uint32 // by slot
	slots   []uint32
	columns []uint32
	refs    []float64 // rows
	roots   []float64 // sqrt(c)
	centred []bool    // the statistics are moments
	bias    []float64 // the intercepts
	root    float64   // of them
	base    *sums

	compared uint64 // comparisons of averages

	// About the event at hand.
	at       []uint32  // places of its rows, less one
	stepRoot []float64 // sqrt(c) of its rows, the intercepts' last
}

const (
	shareLambda = 0.3
	sharedMost  = 2
)

// Share makes the Learner one of several that learn one model, and begins its first
// interval: peers is how many learn at the same time, events how many events an interval of
// its own is to have. With one peer its deltas are exact. The Learner must now equal the
// fold that its Delta will be added to.
//
// Between others less is decided by a Learner itself: the level and the average or iterate
// that is published, the centres and scales of columns that the fold knows, the columns
// that are dense, the rules for missing fields and the alarms are the fold's, the last
// three what they were when sharing began.
func (l *Learner) Share(peers int, events uint64) error {
	if peers < 1 || events < 1 || events > MaxInterval {
		return fmt.Errorf("sharing between %d learners, %d events each: want at least one of either, and at most %d events", peers, events, MaxInterval)
	}
	if err := l.config.checkShared(l.set); err != nil && peers > 1 {
		return err
	}
	sh := l.share
	if sh == nil {
		sh = &sharing{}
	}
	for _, slot := range sh.slots {
		sh.places[slot] = 0
	}
	sh.slots, sh.columns, sh.refs, sh.roots, sh.centred = sh.slots[:0], sh.columns[:0], sh.refs[:0], sh.roots[:0], sh.centred[:0]
	sh.peers, sh.own, sh.alone, sh.everything = float64(peers), float64(events), peers == 1, false
	l.share, sh.events = sh, l.events
	if sh.alone {
		sh.base = nil
		return nil
	}
	sh.begun = float64(l.events)
	sh.bias = append(sh.bias[:0], l.bias...)
	sh.root = math.Sqrt(l.importance(l.bias, sh.begun, 1))
	sh.base = l.sums()
	return nil
}

// CheckShared says, naming the key, why a Learner with these settings cannot share
// learning with others; nil if it can.
func (c Config) CheckShared() error {
	s, err := c.parse()
	if err != nil {
		return err
	}
	return c.checkShared(s)
}

// checkShared is CheckShared with what parse has made of the settings.
func (c Config) checkShared(s settings) error {
	switch {
	case c.Rule != "adagrad" && c.Rule != "auto":
		return blankout.KeyErrorf("rule", "rule %s: several learners of one model need rule = \"adagrad\"", c.Rule)
	case c.Refresh > 0:
		return blankout.KeyErrorf("refresh", "refresh = %d: several learners of one model cannot refresh; set refresh = 0", c.Refresh)
	case s.noiseKind == constant:
		return blankout.KeyErrorf("noise", "noise %q: several learners of one model know dropout, group, poisson, auto and none", c.Noise)
	case s.observed:
		return blankout.KeyErrorf("noise", "noise %q: several learners of one model would each observe rates of their own; name the rates, as in group:engine=0.1,wheels=0.3, or use auto", c.Noise)
	case s.standardise == model.StandardiseAll:
		return blankout.KeyErrorf("standardise", "standardise = \"all\": several learners of one model know auto, scale and none")
	case c.HalfLifeTime > 0:
		return blankout.KeyErrorf("half_life_time", "half_life_time = %v: several learners of one model have no clock in common; set half_life, in events, instead", c.HalfLifeTime)
	case loss.IsRegression(c.Loss):
		return blankout.KeyErrorf("loss", "loss %s: several learners of one model learn classes so far, and its labels are numbers; learn it with one learner", c.Loss)
	case c.Calibrate:
		return blankout.KeyErrorf("calibrate", "calibrate = true: several learners of one model cannot calibrate yet; set calibrate = false")
	case s.missingRule == model.MissingFill:
		return blankout.KeyErrorf("missing", "missing = \"fill\": several learners of one model do not gather a covariance yet; use auto, as-is or rescale")
	}
	return nil
}

// CheckSharedAfter is CheckShared of learners one of which learns warm events alone before
// the others begin. The knots of curves come from the first events, and so does which numbers
// are often left out (presence), which is looked for only if warm is large enough.
func (c Config) CheckSharedAfter(warm uint64) error {
	if err := c.CheckShared(); err != nil {
		return err
	}
	if key, curves := c.curved(); curves != "" && warm <= curveEvents {
		return blankout.KeyErrorf(key, "%s: one learner finds the knots in %d events, and learns %d before the others begin; let it learn more alone, or learn no curves", curves, curveEvents+1, warm)
	}
	return nil
}

// Shared returns the settings as several learners of one model have them: without the
// covariance to fill in by, which has no place in their commits.
func (c Config) Shared() Config {
	c.CovarianceFields = 0
	if c.Rule == "auto" { // the second-order expert learns alone
		c.Rule = "adagrad"
	}
	return c
}

// shared says whether what is decided once for all is left to the fold.
func (l *bank) shared() bool { return l.share != nil && !l.share.alone }

// importance is c of a row in an interval's beginning, which n of t events held.
func (l *bank) importance(row []float64, n float64, features int) float64 {
	sh, t := l.share, l.share.begun
	if sh.peers == 1 || t == 0 || n == 0 {
		return 1
	}
	a, reach := 0.0, t // how many events G is of
	if h := l.config.HalfLife; h > 0 {
		reach = min(t, h/math.Ln2)
	}
	for _, g := range l.layout.Preconditioner(row) {
		g /= l.fade.growth
		a += math.Sqrt(l.config.Start+g*(1+sh.own/reach)) - math.Sqrt(l.config.Start+g)
	}
	a *= 2 * l.set.eta / float64(l.n)
	c := 1 + (sh.peers-1)*min(1, sh.own*n/t)/(1+shareLambda*float64(features)*a)
	if l.k > 1 {
		c = min(c, sharedMost)
	}
	return c
}

// note takes down the rows of columns before the event at hand changes them.
func (l *bank) note(columns []uint32, rows [][]float64) {
	sh := l.share
	sh.at = l.table.Slots(columns, sh.at[:0])
	for len(sh.places) < l.table.Len() {
		sh.places = append(sh.places, 0)
	}
	for i, slot := range sh.at {
		place := sh.places[slot]
		if place == 0 {
			sh.slots, sh.columns = append(sh.slots, slot), append(sh.columns, columns[i])
			place = uint32(len(sh.slots))
			sh.places[slot] = place
			if !sh.alone {
				sh.refs = append(sh.refs, rows[i]...)
				sh.roots = append(sh.roots, math.Sqrt(l.importance(rows[i], rows[i][model.StatCount], len(rows))))
				sh.centred = append(sh.centred, false)
			}
		}
		sh.at[i] = place - 1
	}
}

// noteOne takes down a row that is no part of the event at hand.
func (l *bank) noteOne(column uint32) []float64 {
	row := l.table.Touch(column)
	if l.share != nil {
		at := l.share.at
		l.share.at = nil
		l.note([]uint32{column}, [][]float64{row})
		l.share.at = at
	}
	return row
}

// ref returns the row of feature i of the event at hand as it was when the interval began.
func (sh *sharing) ref(i, width int) []float64 {
	return sh.refs[int(sh.at[i])*width:][:width]
}

// wrote says that all rows are being written.
func (l *bank) wrote() {
	if l.rewritten++; l.share != nil {
		l.share.everything = true
	}
}

// sharedTreatment is how feature i of the event at hand is treated among others. The
// scale of a column that is only divided grows with its values, and is not looked at again.
func (l *bank) sharedTreatment(i int, t treatment, row []float64) treatment {
	switch t {
	case treatNumeric:
		l.share.centred[l.share.at[i]] = true
		if l.share.ref(i, l.table.Width())[model.StatCount] > 0 {
			return treatGathered
		}
	case treatScale:
		model.Unwatch(row[:model.ScalerWidth])
	}
	return t
}

// weigh gives the step at hand the roots of c.
func (sh *sharing) weigh(s *rows.Step) {
	sh.stepRoot = sh.stepRoot[:0]
	for _, place := range sh.at {
		sh.stepRoot = append(sh.stepRoot, sh.roots[place])
	}
	if s.Intercepts {
		sh.stepRoot = append(sh.stepRoot, sh.root)
	}
	s.Roots = sh.stepRoot
}

// Cut ends the interval and returns what it has learned; precision is the Delta's. The
// Learner begins no new interval: Follow and Share do that. What the Delta leaves out
// of the changes, because it is averaged away or rounded, stays in the weights until then.
func (l *Learner) Cut(precision int) *Delta {
	l.publishSecond()
	sh := l.share
	if sh.alone {
		return l.cutFull()
	}
	now := l.sums()
	d := &Delta{Kind: SharedDelta, Precision: precision, Events: l.events - sh.events, Width: sharedParts + 2*l.n}
	order := make([]int, len(sh.columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(sh.columns[a]) - int64(sh.columns[b])) })
	width := l.table.Width()
	d.Columns, d.Values = make([]uint32, 0, len(order)), make([]float64, 0, len(order)*d.Width)
	for _, place := range order {
		column := sh.columns[place]
		ref := sh.refs[place*width:][:width]
		_, row := l.table.Column(int(sh.slots[place]))
		at := len(d.Values)
		d.Columns, d.Values = append(d.Columns, column), slices.Grow(d.Values, d.Width)[:at+d.Width]
		v := d.Values[at:]
		clear(v)
		l.cutStatistics(v, ref, row, sh.centred[place])
		alpha := 1.0
		if sh.begun > 0 {
			others := (sh.peers - 1) * sh.own * ref[model.StatCount] / sh.begun
			alpha = v[sharedCount] / (v[sharedCount] + others)
		}
		l.cutChanges(v[sharedParts:], ref, row, alpha, sh.roots[place])
	}
	if precision == 32 {
		d.round()
	}
	now.bias = make([]float64, 2*l.n)
	alpha := 1.0
	if n := float64(d.Events); n > 0 {
		alpha = n / (n + (sh.peers-1)*sh.own)
	}
	l.cutChanges(now.bias, sh.bias, l.bias, alpha, sh.root)
	d.State = l.encodeSums(now)
	return d
}

func (l *bank) cutStatistics(v, ref, row []float64, centred bool) {
	n0, n := ref[model.StatCount], row[model.StatCount]
	added := n - n0
	v[sharedCount] = added
	flags := 0
	if centred && added > 0 {
		flags |= hasMoments
		if v[sharedMean], v[sharedSquares] = row[model.StatMean], row[model.StatSquares]; n0 > 0 {
			// The other way round of merging.
			d := (row[model.StatMean] - ref[model.StatMean]) * n / added
			v[sharedMean] = ref[model.StatMean] + d
			v[sharedSquares] = max(0, row[model.StatSquares]-ref[model.StatSquares]-d*d*n0*added/n)
		}
	}
	if centre, inverse := row[model.StatCentre], row[model.StatInverse]; centred || centre != ref[model.StatCentre] || inverse != ref[model.StatInverse] {
		if v[sharedCentre], v[sharedInverse] = centre, inverse; centre == 0 && inverse == 1 {
			flags |= isAsIs
		} else {
			flags |= hasForce
		}
	}
	v[sharedFlags] = float64(flags)
}

// cutChanges writes the u and ΔG of a row to out, the latter in units that do not fade. A
// reference is in the units of now.
func (l *bank) cutChanges(out, ref, row []float64, alpha, root float64) {
	w, g := l.weights(row), l.layout.Preconditioner(row)
	was, wasG := l.weights(ref), l.layout.Preconditioner(ref)
	ratio := 1.0
	if here, there := row[model.StatInverse], ref[model.StatInverse]; here > 0 && there > 0 {
		ratio = there / here // the column's scale has grown within the interval
	}
	for j := range w {
		out[j] = alpha * (w[j] - was[j]*ratio)
		out[l.n+j] = max(0, (g[j]-wasG[j]/(ratio*ratio))/(root*root)/l.fade.growth)
	}
}

func (l *Learner) encodeSums(now *sums) []byte {
	l.share.base.bias = make([]float64, 2*l.n)
	c := &coder.Coder{}
	l.share.base.state(c)
	now.state(c)
	return c.Out
}

func (l *Learner) cutFull() *Delta {
	sh, width := l.share, l.table.Width()
	d := &Delta{Kind: FullDelta, Precision: 64, Width: width, Events: l.events - sh.events, State: l.State()}
	columns := sh.columns
	if sh.everything {
		columns = nil
		for slot := range l.table.Len() {
			column, _ := l.table.Column(slot)
			columns = append(columns, column)
		}
	}
	d.Columns, d.Values = slices.Clone(columns), make([]float64, 0, len(columns)*width)
	for _, column := range columns {
		d.Values = append(d.Values, l.table.Row(column)...)
	}
	return d
}

// Follow makes the Learner equal to the fold that it shares, of which the rows of the given
// columns, and those that the Learner has touched since it began its interval, may differ.
// What it has learned since it began the interval is forgotten, whether it has been cut or
// not, and it begins a new one.
func (l *Learner) Follow(fold *Learner, columns []uint32, peers int, events uint64) error {
	return l.FollowState(fold, fold.State(), columns, peers, events)
}

// FollowState is Follow of a fold whose State has been taken. Several Learners may follow
// one fold at the same time, which meanwhile must not be used else.
func (l *Learner) FollowState(fold *Learner, state []byte, columns []uint32, peers int, events uint64) error {
	l.schema = fold.schema
	all := l.rewritten != fold.rewritten // either has written all rows since
	n, err := l.withState(state)
	if err != nil {
		return fmt.Errorf("following the model that is shared: %w", err)
	}
	*l = *n
	if l.rewritten = fold.rewritten; all {
		columns = slices.Clip(columns) // the caller's
		for slot := range fold.table.Len() {
			column, _ := fold.table.Column(slot)
			columns = append(columns, column)
		}
	}
	copied := make([]bool, fold.table.Len()) // by slot: most columns are in several deltas
	for _, list := range [][]uint32{columns, l.share.columnsOf()} {
		for _, column := range list {
			slot, met := fold.table.Slot(column)
			switch {
			case met && !copied[slot]:
				_, row := fold.table.Column(slot)
				copy(l.table.Touch(column), row)
				copied[slot] = true
			case !met && l.table.Row(column) != nil:
				clear(l.table.Touch(column)) // met by a delta that was not accepted
			}
		}
	}
	return l.Share(peers, events)
}

func (sh *sharing) columnsOf() []uint32 {
	if sh == nil {
		return nil
	}
	return sh.columns
}

// Clone returns a Learner with the same state, which learns alone. The two share the
// Schema and nothing else.
func (l *Learner) Clone() (*Learner, error) {
	l.publishSecond()
	b := *l.bank
	b.table, b.snapshot, b.share = model.NewTable(l.table.Width()), nil, nil
	from := Learner{answering: &answering{bank: &b}}
	for slot := range l.table.Len() {
		column, row := l.table.Column(slot)
		copy(from.table.Touch(column), row)
	}
	n, err := from.withState(l.State())
	if err != nil {
		return nil, fmt.Errorf("copying a learner: %w", err)
	}
	n.aged = l.aged
	return n, nil
}
