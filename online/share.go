package online

// This file lets a Learner share learning with others.

import (
	"fmt"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/share"
)

// beginInterval begins an interval of a Learner that equals the fold to which its Delta will be added, see Follow.
//
// Between others less is decided by a Learner itself: the level and the average or iterate
// that is published, the centers and scales of columns that the fold knows, the columns
// that are dense, the rules for missing fields and the alarms are the fold's, the last
// three what they were when sharing began.
func (l *Learner) beginInterval(peers int, events uint64) error {
	if peers < 1 || events < 1 || events > share.MaxInterval {
		return fmt.Errorf("sharing between %d learners, %d events each: want at least one of either, and at most %d events", peers, events, share.MaxInterval)
	}
	if err := l.config.checkShared(l.set); err != nil && peers > 1 {
		return err
	}
	if l.share == nil {
		l.share = &share.Interval{}
	}
	s := share.Settings{Layout: l.layout, Eta: l.set.eta, Start: l.config.Start, HalfLife: l.config.HalfLife}
	if l.share.Begin(s, peers, events, l.events, l.bias, l.fade.Growth); !l.share.Alone {
		l.began = l.sums()
	}
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
	case c.Optimizer != "adagrad" && c.Optimizer != "auto":
		return event.KeyErrorf("optimizer", "optimizer %s: several learners of one model need optimizer = \"adagrad\"", c.Optimizer)
	case c.ServingStaleness > 0:
		return event.KeyErrorf("serving_staleness", "serving_staleness = %d: several learners of one model judge shares as events come; set serving_staleness = 0", c.ServingStaleness)
	case c.IRLSBatch > 0:
		return event.KeyErrorf("irls_batch", "irls_batch = %d: several learners of one model cannot refresh; set irls_batch = 0", c.IRLSBatch)
	case s.noiseKind == constant:
		return event.KeyErrorf("noise", "noise %q: several learners of one model know dropout, group, poisson, auto and none", c.Noise)
	case s.observed:
		return event.KeyErrorf("noise", "noise %q: several learners of one model would each observe rates of their own; name the rates, as in group:engine=0.1,wheels=0.3, or use auto", c.Noise)
	case s.standardize == model.StandardizeAll:
		return event.KeyErrorf("standardize", "standardize = \"all\": several learners of one model know auto, scale and none")
	case c.HalfLifeTime > 0:
		return event.KeyErrorf("half_life_time", "half_life_time = %v: several learners of one model have no clock in common; set half_life, in events, instead", c.HalfLifeTime)
	case loss.IsRegression(c.Loss):
		return event.KeyErrorf("loss", "loss %s: several learners of one model learn classes so far, and it is for regression; learn it with one learner", c.Loss)
	case c.silentKey() != "":
		return event.KeyErrorf(c.silentKey(), "several learners of one model do not learn for silent death yet; learn the stream with one learner")
	case s.missingRule == model.MissingImpute:
		return event.KeyErrorf("missing_policy", "missing_policy = \"fill\": several learners of one model do not gather a covariance yet; use auto, none or rescale")
	}
	return nil
}

// Shared returns the settings as several learners of one model have them: without the
// covariance to fill in by and the link over scores, which have no place in their commits,
// without a bound of their own, which none of them heeds, and with alarms alone about fields that
// are stuck: each sees other events.
func (c Config) Shared() Config {
	c.CovarianceMaxFields, c.Calibrate, c.MaxMemory = 0, "off", DefaultConfig().MaxMemory
	if c.Stuck != stuckOff {
		c.Stuck = stuckLog
	}
	if c.Optimizer == "auto" { // the second-order expert learns alone
		c.Optimizer = "adagrad"
	}
	return c
}

// shared says whether what is decided once for all is left to the fold.
func (l *bank) shared() bool { return l.share != nil && !l.share.Alone }

// noteOne takes down a row that is no part of the event at hand.
func (l *bank) noteOne(column uint32) []float64 {
	row := l.table.Touch(column)
	if l.share != nil {
		l.share.NoteOne(l.table, column, row, l.fade.Growth)
	}
	return row
}

// wrote says that all rows are being written.
func (l *bank) wrote() {
	if l.rewritten++; l.share != nil {
		l.share.Wrote()
	}
}

// Cut ends the interval and returns what it has learned; precision is the Delta's. The
// Learner begins no new interval: Follow does. What the Delta leaves out
// of the changes, because it is averaged away or rounded, stays in the weights until then.
func (l *Learner) Cut(precision int) *share.Delta {
	l.publishSecond()
	now := l.sums()
	d := l.share.Cut(l.table, l.events, precision, l.fade.Growth)
	if d.Kind == share.Full {
		d.State = l.foldState()
		return d
	}
	now.bias, l.began.bias = l.share.CutBias(l.bias, d.Events, l.fade.Growth), make([]float64, 2*l.n)
	c := &coder.Coder{}
	l.began.state(c)
	now.state(c)
	d.State = c.Out
	return d
}

// Follow makes the Learner, a Clone of the fold at first, one of several that learn one model: it makes it equal to the
// fold and begins an interval. The rows of the given columns, and those that the Learner has touched in the interval
// before, are copied; no others may differ. What the Learner has learned in that interval is forgotten, cut or not. peers
// is how many learn at the same time, events is how many events the interval is to have. The Deltas of a single peer are
// exact.
func (l *Learner) Follow(fold *Learner, columns []uint32, peers int, events uint64) error {
	l.schema = fold.schema
	all := l.rewritten != fold.rewritten // either has written all rows since
	n, err := l.withState(fold.foldState())
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
	for _, list := range [][]uint32{columns, l.share.Columns()} {
		l.table.Copy(fold.table, list, copied)
	}
	return l.beginInterval(peers, events)
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
	n, err := from.withState(l.foldState())
	if err != nil {
		return nil, fmt.Errorf("copying a learner: %w", err)
	}
	n.aged = l.aged
	for i, p := range l.horizon.pasts {
		if p.blocks == nil {
			continue
		}
		if n.horizon.pasts[i], err = n.recall(p.blocks); err != nil {
			return nil, fmt.Errorf("copying a learner: %w", err)
		}
	}
	return n, nil
}
