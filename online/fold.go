package online

// This file adds what one of several learners has learned to a model that they share.

import (
	"encoding/json"
	"fmt"
	"math"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/aged"
	"blankout/online/cover"
	"blankout/online/pace"
	"blankout/online/probe"
	"blankout/online/share"
	"blankout/online/watch"
)

// sums is what a Learner has counted and measured that is merged by addition. Sums that
// fade keep their place: what an interval adds to one is now - base k, k being what the
// interval leaves of its base.
type sums struct {
	events, steps, dense uint64
	active               int
	compared             uint64 // comparisons of averages
	measured             *watch.Watch
	levels               []pace.Pace
	shares               *probe.Table
	sets                 *cover.Cover // nil where answers have none
	bias                 []float64    // weights and preconditioner
}

// sums returns a copy of the Learner's.
func (l *Learner) sums() *sums {
	s := &sums{events: l.events, steps: l.steps, dense: l.scaling.Events, active: l.active, measured: l.watch.Clone(), shares: l.shares.Sums(), sets: l.sets.Sums()}
	if l.share != nil {
		s.compared = l.share.Compared
	}
	for v := range l.levels {
		s.levels = append(s.levels, l.levels[v].Pace)
	}
	return s
}

func (s *sums) state(c *coder.Coder) {
	for _, p := range []*uint64{&s.events, &s.steps, &s.dense, &s.compared} {
		c.Uint(p)
	}
	c.Int(&s.active)
	s.measured.SumsState(c)
	for v := range s.levels {
		s.levels[v].SumsState(c)
	}
	s.shares.SumsState(c)
	c.Floats(&s.bias)
	if s.sets != nil {
		s.sets.SumsState(c)
	}
}

// readSums reads the base and the end of a Shared Delta's interval.
func (l *Learner) readSums(data []byte) (base, now *sums, err error) {
	base, now = l.sums(), l.sums()
	c := coder.Read(data)
	for _, s := range []*sums{base, now} {
		s.measured.Refused.By, s.bias = nil, nil
		s.state(c)
	}
	if !c.Done() || now.events < base.events || now.steps < base.steps || now.dense < base.dense || now.compared < base.compared ||
		now.active < 0 || now.active > l.k || len(now.measured.Measures.Classes) > len(l.schema.Classes) || len(now.bias) != 2*l.n || len(base.measured.Measures.Classes) > len(now.measured.Measures.Classes) {
		return nil, nil, fmt.Errorf("its sums do not fit")
	}
	events := now.events - base.events
	if events > share.MaxInterval || now.steps-base.steps > events*pace.MostParts || now.compared-base.compared > (events+1)*pace.MostParts*pace.CompareEvery {
		return nil, nil, fmt.Errorf("its sums are of too many events")
	}
	if !probe.Fits(base.shares, now.shares, float64(events)) {
		return nil, nil, fmt.Errorf("its shares and forecasts are of too many events")
	}
	if base.sets != nil && (!cover.Fits(base.sets, now.sets, float64(events), probe.Points) || now.sets.Classes() > len(l.schema.Classes)) {
		return nil, nil, fmt.Errorf("its sets are of too many events, or do not fit themselves")
	}
	return base, now, nil
}

// foldState returns the Learner's state without its rows, for withState.
func (l *Learner) foldState() []byte {
	c, refused, watched := &coder.Coder{}, &coder.Coder{}, &coder.Coder{}
	state, sets := l.encode(), l.sets.Encode()
	l.watch.Refused.State(refused)
	l.watch.Block(watched)
	head, err := json.Marshal(stateHead{l.scaling.Scaler, l.fields.Missing})
	if err != nil {
		panic(err) // finite numbers and strings only
	}
	for _, p := range []*[]byte{&state, &refused.Out, &head, &watched.Out, &sets} {
		c.Bytes(p)
	}
	return c.Out
}

type stateHead struct {
	Scaler  model.Scaler
	Missing *model.Missing
}

// withState returns a Learner of what foldState returned, which shares the rows of l.
func (l *Learner) withState(data []byte) (*Learner, error) {
	var state, refused, head, watched, sets []byte
	c := coder.Read(data)
	for _, p := range []*[]byte{&state, &refused, &head, &watched, &sets} {
		c.Bytes(p)
	}
	n, err := newLearner(l.config, l.set, l.schema, l.k)
	if err != nil {
		return nil, err
	}
	h := stateHead{Missing: n.fields.Missing}
	if !c.Done() || json.Unmarshal(head, &h) != nil || h.Missing == nil {
		return nil, fmt.Errorf("its state does not fit its format")
	}
	d, r := coder.Read(state), coder.Read(refused)
	if d.Version = d.Uint32(); d.Version != stateVersion {
		return nil, fmt.Errorf("its state has version %d, this program reads %d", d.Version, stateVersion)
	}
	was, err := readFingerprint(d)
	if err != nil {
		return nil, err
	}
	if diff := FingerprintOf(l.config, l.schema).Diff(was); len(diff) > 0 {
		return nil, &MismatchError{diff}
	}
	n.scaling.Scaler = h.Scaler
	n.state(d)
	n.watch.Refused.State(r)
	if watched != nil {
		w := coder.Read(watched)
		n.watch.Block(w)
		d.Failed = d.Failed || !w.Done()
	}
	if len(sets) > 0 {
		d.Failed = d.Failed || !n.sets.Decode(sets)
	}
	if !d.Done() || !r.Done() || n.misfit(len(l.bias)) || len(n.watch.Measures.Classes) > len(l.schema.Classes) {
		return nil, fmt.Errorf("its state does not fit its format")
	}
	n.fields.Missing = h.Missing.WithLevels(nil)
	if n.scaling.Scaler.Curves != nil {
		n.bindCurves()
	}
	n.takeForce()
	n.restoreFaults()
	for class, count := range n.watch.Measures.Classes {
		if count > 0 {
			n.weighClass(class)
		}
	}
	n.table, n.snapshot, n.share, n.rewritten = l.table, l.snapshot, l.share, l.rewritten
	return n, nil
}

// Add adds a Delta, or returns an error and changes nothing if the Delta does not fit. The result depends on nothing but
// the state before and the Delta, to the bit.
func (l *Learner) Add(d *share.Delta) error {
	if err := l.fitsRows(d); err != nil {
		return err
	}
	if d.Kind == share.Full {
		n, err := l.withState(d.State)
		if err != nil {
			return err
		}
		for i, row := range l.table.Update(d.Columns) {
			copy(row, d.Values[i*d.Width:][:d.Width])
		}
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
	l.addActive(now.active)
	if l.config.HalfLife > 0 {
		l.halve(float64(now.events-base.events) / l.config.HalfLife)
	}
	for i, row := range l.table.Update(d.Columns) {
		l.addRow(row, d.Values[i*d.Width:][:d.Width])
	}
	l.addChanges(l.bias, now.bias, 1)
	l.addSums(base, now)
	l.aged = aged.Aged{} // no member meets the events that would come next
	return nil
}

// fitsRows returns an error if the rows of a Delta are none of the model's.
func (l *Learner) fitsRows(d *share.Delta) error {
	if err := l.config.checkShared(l.set); err != nil && d.Kind == share.Shared {
		return err
	}
	width := l.table.Width()
	if d.Kind == share.Shared {
		width = share.Parts + 2*l.n
	}
	if d.Width != width || len(d.Values) != width*len(d.Columns) {
		return fmt.Errorf("its rows hold %d values, those of this model %d", d.Width, width)
	}
	for _, column := range d.Columns {
		if uint64(column) >= l.schema.Columns() && !l.schema.NumericIndices && column < model.FirstHat { // where hats of curves begin
			return fmt.Errorf("it has column %d, and there are %d", column, l.schema.Columns())
		}
	}
	return nil
}

// addActive takes up classes that have appeared.
func (l *bank) addActive(active int) {
	for l.k > 1 && l.active < active {
		l.setIntercept(l.active, -math.Log(float64(l.steps+1)))
		l.active++
	}
}

// addChanges adds a row's u and ΔG, u multiplied by ratio. The average stays what it was:
// what changes the weight changes the lag.
func (l *bank) addChanges(row, changes []float64, ratio float64) {
	w, m, lag := l.weights(row), l.layout.Preconditioner(row), l.lags(row)
	for v := range l.levels {
		inverse := l.levels[v].Inverse
		for j := v * l.k; j < (v+1)*l.k; j++ {
			u := changes[j] * ratio
			w[j] += u
			lag[j] = math.FMA(-u, inverse, lag[j])
			m[j] += changes[l.n+j] * l.fade.Growth
		}
	}
}

// addRow adds a row of a Shared Delta; weights move along with their statistics.
func (l *bank) addRow(row, v []float64) {
	m := share.Merge(row[:model.ScalerWidth], v, &l.scaling.Scaler)
	if m.Shift != 0 && l.set.intercept {
		b, lag := l.weights(l.bias), l.lags(l.bias)
		for lv := range l.levels {
			inverse := l.levels[lv].Inverse
			for j := lv * l.k; j < (lv+1)*l.k; j++ {
				u := v[share.Parts+j] * m.Shift
				b[j] += u
				lag[j] = math.FMA(-u, inverse, lag[j])
			}
		}
	}
	if m.Move.Moves() {
		l.move(row, m.Move.Ratio, m.Move.Shift)
	}
	l.addChanges(row, v[share.Parts:], m.Factor)
}

// addSums adds what an interval has counted and measured, and decides what depends on
// that: which of average and iterate is published, which level, and whether the stream
// has drifted.
func (l *Learner) addSums(base, now *sums) {
	steps := now.steps - base.steps
	l.scaling.Events += now.dense - base.dense
	l.events += now.events - base.events
	labeled := l.watch.Merge(base.measured, now.measured)
	for i, n := range l.watch.Measures.Classes {
		if n > 0 {
			l.weighClass(i)
		}
	}
	compared := now.compared - base.compared
	for v := range l.levels {
		l.levels[v].Merge(&base.levels[v], &now.levels[v], steps, compared)
	}
	if labeled > 0 {
		was, is := &base.measured.Measures.Total, &now.measured.Measures.Total
		if l.watch.Drift.Take((is.LogLoss-was.LogLoss)/(is.Weight-was.Weight), labeled, l.events) {
			l.drifted()
		}
	}
	l.steps += steps
	for v := range l.levels {
		lv := &l.levels[v]
		for range steps {
			if lv.Advance() {
				l.rebase(v)
			}
		}
	}
	l.shares.Merge(base.shares, now.shares)
	if l.sets != nil {
		l.sets.Merge(base.sets, now.sets)
	}
	l.takeForce()
}
