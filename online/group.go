package online

// This file lets several Learners learn one model as a group, and merges what each of them has learned.
//
// For a member of a group, the merged model determines the mixture weights, the choice between average and iterate, and
// the centers and scales of known columns. During an interval, the set of dense columns, the missing policies and the
// alarms do not change.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/deltas"
	"blankout/online/encode"
	"blankout/online/levels"
	"blankout/online/mixture"
	"blankout/online/monitor"
	"blankout/online/schedule"
)

// member is the state of a Learner in a group, during one interval.
type member struct {
	deltas.Interval
	began     *sums  // sums at the start of the interval
	rewritten uint64 // levels.Expert.Rewritten at the start of the interval
}

// inGroup reports whether the Learner leaves decisions to the merged model.
func (m *member) inGroup() bool { return m != nil && !m.Alone }

// NewForGroup returns a Learner for a group, with the settings c.ForGroup(). It has an output for each possible class,
// because members cannot add outputs at the same event.
func NewForGroup(c Config, s *event.Schema) (*Learner, error) {
	c = c.ForGroup()
	set, err := parse(c)
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	outputs := s.Outputs()
	if s.MaxClasses > 2 && s.Target == loss.Sign {
		outputs = s.MaxClasses
	}
	return newLearner(c, set, s, outputs)
}

// beginInterval starts an interval. The Learner must equal the merged model to which the Delta of the interval will be
// added, see Follow.
func (l *Learner) beginInterval(peers int, events uint64) error {
	if peers < 1 || events < 1 || events > deltas.MaxInterval {
		return fmt.Errorf("sharing between %d learners, %d events each: want at least one of either, and at most %d events", peers, events, deltas.MaxInterval)
	}
	if peers > 1 {
		if err := l.set.sharable(); err != nil {
			return err
		}
	}
	if l.member == nil {
		l.member = &member{}
	}
	m, x := l.member, l.levels
	m.Begin(x.IntervalSettings(l.config.HalfLife), peers, events, l.events, l.encoder.Intercepts, x.InverseDecay())
	m.rewritten = x.Rewritten
	l.outputs.several = false // in a group, classes do not share outputs
	l.encoder.Join(&m.Interval, x.InverseDecay())
	if x.Join(nil); m.inGroup() {
		x.Join(&m.Interval)
		m.began = l.sums()
	}
	return nil
}

// Cut ends the interval and returns what the Learner has learned in it, rounded to the given precision in bits. Call
// Follow to start the next interval. The Learner's weights include changes that the Delta omits by averaging or
// rounding, until Follow discards them.
func (l *Learner) Cut(precision int) *deltas.Delta {
	m := l.member
	if m.rewritten != l.levels.Rewritten {
		m.Wrote()
	}
	d := m.Cut(l.encoder.Table, l.events, precision, l.levels.InverseDecay())
	if d.Kind == deltas.Full {
		d.State = l.bare().encode()
		return d
	}
	now := l.sums()
	now.bias, m.began.bias = m.CutBias(l.encoder.Intercepts, d.Events, l.levels.InverseDecay()), make([]float64, 2*m.N)
	c := &coder.Coder{}
	m.began.state(c)
	now.state(c)
	d.State = c.Out
	return d
}

// Follow makes the Learner equal to the merged model fold and starts an interval. The Learner must have been created as
// a Clone of fold. Follow copies the rows of the given columns, and the rows that the Learner has changed in its last
// interval. All other rows must already be equal. What the Learner has learned in its last interval is discarded. peers
// is the number of Learners in the group, and events is the planned length of the interval. If there is one peer,
// Deltas are exact.
func (l *Learner) Follow(fold *Learner, columns []uint32, peers int, events uint64) error {
	l.encoder.Follow(fold.encoder.Schema())
	from, all := fold.encoder.Table, l.levels.Rewritten != fold.levels.Rewritten // true if fold or l has changed all rows since the last interval
	n, err := l.withState(fold.bare(), l.encoder.Table)
	if err != nil {
		return fmt.Errorf("following the model that is shared: %w", err)
	}
	mine := l.member
	*l = *n
	if l.member, l.levels.Rewritten = mine, fold.levels.Rewritten; all {
		columns = slices.Clip(columns) // the caller owns columns
		for slot := range from.Len() {
			column, _ := from.Column(slot)
			columns = append(columns, column)
		}
	}
	copied := make([]bool, from.Len()) // by slot: the lists contain columns more than once
	lists := [][]uint32{columns}
	if mine != nil {
		lists = append(lists, mine.Columns())
	}
	for _, list := range lists {
		l.encoder.Table.Copy(from, list, copied)
	}
	return l.beginInterval(peers, events)
}

// sums holds counts and measures that are merged by addition. If a sum decays, its change in an interval is now - k
// base, where k is the decay factor of the interval.
type sums struct {
	events, dense, compared uint64 // compared is the number of comparisons of averages with iterates
	levels                  levels.Sums
	measured                *monitor.Sums
	mixture                 *mixture.Sums
	bias                    []float64 // intercepts and their accumulators
}

// sums returns a copy of the Learner's sums.
func (l *Learner) sums() *sums {
	s := &sums{events: l.events, dense: l.encoder.Scaling.Events, levels: l.levels.Sums(), measured: l.monitors.Sums(), mixture: l.predictor.mixture.Sums()}
	if l.member != nil {
		s.compared = l.member.Compared
	}
	return s
}

func (s *sums) state(c *coder.Coder) {
	c.Uint(&s.events)
	c.Uint(&s.dense)
	c.Uint(&s.compared)
	s.levels.State(c)
	s.measured.State(c)
	s.mixture.State(c)
	c.Floats(&s.bias)
}

// mostEvery is the largest number of events between two comparisons of averages with iterates.
const mostEvery = 16

// readSums decodes the sums in a Shared Delta: at the start (base) and at the end (now) of the Delta's interval.
func (l *Learner) readSums(data []byte) (base, now *sums, err error) {
	base, now = l.sums(), l.sums()
	c := coder.Read(data)
	for _, s := range []*sums{base, now} {
		s.measured.Refused.By, s.bias = nil, nil
		s.state(c)
	}
	classes, was, is := len(l.encoder.Schema().Classes), &base.measured.Measures, &now.measured.Measures
	if !c.Done() || now.events < base.events || now.levels.Steps < base.levels.Steps || now.dense < base.dense || now.compared < base.compared ||
		now.levels.Active < 0 || now.levels.Active > l.levels.Outputs || len(is.Classes) > classes || len(was.Classes) > len(is.Classes) || len(now.bias) != 2*len(l.room.scored.levels.Iterate) {
		return nil, nil, fmt.Errorf("its sums do not fit")
	}
	events := now.events - base.events
	if events > deltas.MaxInterval || now.levels.Steps-base.levels.Steps > events*schedule.MostParts || now.compared-base.compared > (events+1)*schedule.MostParts*mostEvery {
		return nil, nil, fmt.Errorf("its sums are of too many events")
	}
	if !mixture.Fits(base.mixture, now.mixture, float64(events)) {
		return nil, nil, fmt.Errorf("its shares and forecasts are of too many events")
	}
	if sets := now.measured.Sets; sets != nil && (!conformal.Fits(base.measured.Sets, sets, float64(events), mixture.Points) || sets.Classes() > classes) {
		return nil, nil, fmt.Errorf("its sets are of too many events, or do not fit themselves")
	}
	return base, now, nil
}

// Add adds a Delta to the model. If the Delta does not fit, Add returns an error and changes nothing. The result
// depends only on the state and the Delta, bit by bit.
func (l *Learner) Add(d *deltas.Delta) error {
	if err := l.fits(d); err != nil {
		return err
	}
	t := l.encoder.Table
	if d.Kind == deltas.Full {
		b, err := decodeBare(d.State)
		if err != nil {
			return err
		}
		n, err := l.withState(b, t)
		if err != nil {
			return err
		}
		for i, row := range t.Update(d.Columns) {
			copy(row, d.Values[i*d.Width:][:d.Width])
		}
		n.snapshot, n.member, n.levels.Rewritten = l.snapshot, l.member, l.levels.Rewritten
		*l = *n
		return nil
	}
	base, now, err := l.readSums(d.State)
	if err == nil && now.events-base.events != d.Events {
		err = fmt.Errorf("its sums are of %d events, and it of %d", now.events-base.events, d.Events)
	}
	if err != nil {
		return err
	}
	l.levels.Activate(now.levels.Active, l.encoder.Intercepts)
	if h := l.config.HalfLife; h > 0 {
		l.decay(math.Exp2(-float64(now.events-base.events) / h))
	}
	for i, row := range t.Update(d.Columns) {
		l.addRow(row, d.Values[i*d.Width:][:d.Width])
	}
	l.levels.AddChanges(l.encoder.Intercepts, now.bias, 1)
	l.addSums(base, now)
	return nil
}

// fits returns an error if the rows of a Delta do not fit the model.
func (l *Learner) fits(d *deltas.Delta) error {
	width := l.encoder.Table.Width()
	if d.Kind == deltas.Shared {
		if err := l.set.sharable(); err != nil {
			return err
		}
		width = deltas.Parts + 2*len(l.room.scored.levels.Iterate)
	}
	if d.Width != width || len(d.Values) != width*len(d.Columns) {
		return fmt.Errorf("its rows hold %d values, those of this model %d", d.Width, width)
	}
	s := l.encoder.Schema()
	for _, column := range d.Columns {
		if uint64(column) >= s.Columns() && !s.NumericIndices && column < model.FirstBasisColumn { // spline columns start at FirstBasisColumn
			return fmt.Errorf("it has column %d, and there are %d", column, s.Columns())
		}
	}
	return nil
}

// addRow adds a row of a Shared Delta to the model's row. If the scale of a column changes, its weights are converted.
func (l *Learner) addRow(row, v []float64) {
	m := deltas.Merge(row[:model.ScalerWidth], v, &l.encoder.Scaling.Scaler)
	l.levels.AddShift(l.encoder.Intercepts, v[deltas.Parts:], m.Shift)
	if m.Move.Moves() {
		l.levels.Move(encode.Move{Row: row, Ratio: m.Move.Ratio, Shift: m.Move.Shift, Keep: 1}, l.encoder.Intercepts)
	}
	l.levels.AddChanges(row, v[deltas.Parts:], m.Factor)
}

// addSums adds the sums of an interval, and makes the decisions that depend on them. These are the choice between
// average and iterate, the mixture weights, and the reaction to drift.
func (l *Learner) addSums(base, now *sums) {
	l.encoder.Scaling.Events += now.dense - base.dense
	l.events += now.events - base.events
	asked := l.monitors.Merge(base.measured, now.measured, l.events)
	l.levels.Merge(&base.levels, &now.levels, now.compared-base.compared, l.encoder.Table, l.encoder.Intercepts)
	l.act(asked)
	l.predictor.mixture.Merge(base.mixture, now.mixture)
	l.encoder.Fields.Missing = l.encoder.Fields.Missing.WithPolicies(l.predictor.mixture.Policies())
}

// encode encodes a bare state.
func (b *bare) encode() []byte {
	head, err := json.Marshal(b.bareHead)
	if err != nil {
		panic(err) // impossible for finite numbers and strings
	}
	c := &coder.Coder{}
	c.Bytes(&b.learner)
	c.Bytes(&b.refused)
	c.Bytes(&head)
	return c.Out
}

// decodeBare decodes the result of encode.
func decodeBare(data []byte) (*bare, error) {
	var b bare
	var head []byte
	c := coder.Read(data)
	c.Bytes(&b.learner)
	c.Bytes(&b.refused)
	c.Bytes(&head)
	if !c.Done() || json.Unmarshal(head, &b.bareHead) != nil || b.Missing == nil {
		return nil, fmt.Errorf("its state does not fit its format")
	}
	return &b, nil
}
