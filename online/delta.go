package online

// This file holds what one of several learners has learned, and adds it to a model that
// they share.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"blankout/internal/coder"
	"blankout/measure"
	"blankout/model"
	"blankout/online/aged"
	"blankout/online/cover"
	"blankout/online/probe"
	"blankout/online/watch"
)

// Delta is what a Learner has learned since it began an interval, to be added to a model
// that is the fold of such deltas. Learner.Cut makes one, Learner.Add adds one. It is not
// changed once it is made.
type Delta struct {
	Kind      DeltaKind
	Precision int    // bits of a weight's change when it is written: 32 or 64
	Events    uint64 // learned, unlabelled ones included
	// State holds the sums that are measured, and of a FullDelta everything that is not in a row.
	State   []byte
	Width   int // values of a row
	Columns []uint32
	// Values holds Width values for each column: of a FullDelta the Learner's row, of a
	// SharedDelta
	//
	//	[events] [flags] [mean, sum of squares] [centre, 1/scale] [u] [ΔG],
	//
	// the events of the interval that held the column, the moments of its readings, what was
	// in force where the column is centred or new or its scale has grown, and by level and output
	// the change of the weight and of AdaGrad's sum.
	Values []float64
}

// MaxInterval bounds the events of a SharedDelta.
const MaxInterval = 1 << 20

// DeltaKind says what a Delta's rows are.
type DeltaKind uint8

const (
	// FullDelta holds rows as they are, to be set. It replaces the model that its author
	// began with, and so is exact; nobody else may have added to that.
	FullDelta DeltaKind = iota
	// SharedDelta holds changes, to be added.
	SharedDelta
)

// Places in a row of a SharedDelta.
const (
	sharedCount = iota
	sharedFlags
	sharedMean
	sharedSquares
	sharedCentre
	sharedInverse
	sharedParts // where u begins
)

// Flags of a row of a SharedDelta.
const (
	hasMoments = 1 << iota // of a column that is centred
	hasForce               // centre and 1/scale
	isAsIs                 // they are 0 and 1
	flagBits   = iota
)

// MinRowBytes is the least that AppendRow and the step to a column write.
func (d *Delta) MinRowBytes() int {
	if d.Kind == FullDelta {
		return 1 + 8*d.Width
	}
	return 2 + max(0, d.Width-sharedParts)*d.Precision/8
}

// MaxRowBytes is the most that they write.
func (d *Delta) MaxRowBytes() int {
	return 2*binary.MaxVarintLen64 + 8*d.Width
}

// AppendRow appends row i of the delta to data.
func (d *Delta) AppendRow(data []byte, i int) []byte {
	v := d.Values[i*d.Width:][:d.Width]
	put := func(list []float64) {
		for _, x := range list {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
	}
	if d.Kind == FullDelta {
		put(v)
		return data
	}
	flags := uint64(v[sharedFlags])
	data = binary.AppendUvarint(data, uint64(v[sharedCount])<<flagBits|flags)
	if flags&hasMoments != 0 {
		put(v[sharedMean:sharedCentre])
	}
	if flags&hasForce != 0 {
		put(v[sharedCentre:sharedParts])
	}
	if d.Precision == 64 {
		put(v[sharedParts:])
		return data
	}
	for _, x := range v[sharedParts:] {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
	}
	return data
}

// ReadRow appends the row that data begins with to the delta's Values, and returns what is
// behind it, nil if it does not fit.
func (d *Delta) ReadRow(data []byte) []byte {
	bad := false
	take := func(n, bits int) {
		if bad = bad || len(data) < n*bits/8; bad {
			return
		}
		for range n {
			var x float64
			if bits == 64 {
				x = math.Float64frombits(binary.LittleEndian.Uint64(data))
			} else {
				x = float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
			}
			data = data[bits/8:]
			d.Values = append(d.Values, x)
			bad = bad || x-x != 0 // nothing learned is infinite or no number
		}
	}
	if d.Kind == FullDelta {
		take(d.Width, 64)
	} else {
		head, n := binary.Uvarint(data)
		if n <= 0 || d.Width <= sharedParts || head>>flagBits > 1<<53 {
			return nil
		}
		data = data[n:]
		flags := head & (1<<flagBits - 1)
		d.Values = append(d.Values, float64(head>>flagBits), float64(flags))
		if flags&hasMoments != 0 {
			take(2, 64)
		} else {
			d.Values = append(d.Values, 0, 0)
		}
		switch {
		case flags&hasForce != 0 && flags&isAsIs != 0:
			return nil
		case flags&hasForce != 0:
			take(2, 64)
		case flags&isAsIs != 0:
			d.Values = append(d.Values, 0, 1)
		default:
			d.Values = append(d.Values, 0, 0)
		}
		take(d.Width-sharedParts, d.Precision)
	}
	if bad {
		return nil
	}
	if data == nil {
		return []byte{}
	}
	return data
}

// round makes the changes of a SharedDelta what Precision can hold, so that it is the same
// before it is written and after. Where 32 bits cannot hold one, Precision becomes 64.
func (d *Delta) round() {
	for pass := range 2 {
		for i := range d.Columns {
			v := d.Values[i*d.Width:][sharedParts:d.Width]
			for j, x := range v {
				y := float64(float32(x))
				if y-y != 0 {
					d.Precision = 64
					return
				}
				if pass == 1 {
					v[j] = y
				}
			}
		}
	}
}

// sums is what a Learner has counted and measured that is merged by addition. Sums that
// fade keep their place: what an interval adds to one is now - base k, k being what the
// interval leaves of its base.
type sums struct {
	events, steps, dense uint64
	active               int
	compared             uint64 // comparisons of averages
	measured             *watch.Watch
	levels               []adaptation
	shares               *probe.Table
	sets                 *cover.Cover // nil where answers have none
	bias                 []float64    // weights and preconditioner
}

// sums returns a copy of the Learner's.
func (l *Learner) sums() *sums {
	s := &sums{events: l.events, steps: l.steps, dense: l.scaling.dense.events, active: l.active, measured: l.watch.Clone(), shares: l.shares.Sums(), sets: l.sets.sums()}
	if l.share != nil {
		s.compared = l.share.compared
	}
	for v := range l.levels {
		s.levels = append(s.levels, l.levels[v].adaptation)
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
		s.levels[v].state(c)
	}
	s.shares.SumsState(c)
	c.Floats(&s.bias)
	if s.sets != nil {
		s.sets.SumsState(c)
	}
}

// readSums reads the base and the end of a SharedDelta's interval.
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
	if events > MaxInterval || now.steps-base.steps > events*maxRepeats || now.compared-base.compared > (events+1)*maxRepeats*compareEvery {
		return nil, nil, fmt.Errorf("its sums are of too many events")
	}
	if !probe.Fits(base.shares, now.shares, float64(events)) {
		return nil, nil, fmt.Errorf("its shares and forecasts are of too many events")
	}
	if base.sets != nil && !cover.Fits(base.sets, now.sets, float64(events), probe.Points) {
		return nil, nil, fmt.Errorf("its sets are of too many events, or do not fit themselves")
	}
	return base, now, nil
}

// State returns the Learner's state without its rows, for FollowState.
func (l *Learner) State() []byte {
	c, refused, watched := &coder.Coder{}, &coder.Coder{}, &coder.Coder{}
	state, sets := l.encode(), l.sets.encode()
	l.watch.Refused.State(refused)
	l.watch.Block(watched)
	head, err := json.Marshal(stateHead{l.scaling.scaler, l.missing.model})
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

// withState returns a Learner of what State returned, which shares the rows of l.
func (l *Learner) withState(data []byte) (*Learner, error) {
	var state, refused, head, watched, sets []byte
	c := coder.Read(data)
	for _, p := range []*[]byte{&state, &refused, &head} {
		c.Bytes(p)
	}
	for _, p := range []*[]byte{&watched, &sets} {
		if len(c.In) > 0 { // older ones end here
			c.Bytes(p)
		}
	}
	n, err := newLearner(l.config, l.set, l.schema, l.k)
	if err != nil {
		return nil, err
	}
	h := stateHead{Missing: n.missing.model}
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
	if diff := l.Fingerprint().Diff(was); len(diff) > 0 {
		return nil, &MismatchError{diff}
	}
	n.scaling.scaler = h.Scaler
	n.state(d)
	n.watch.Refused.State(r)
	if watched != nil {
		w := coder.Read(watched)
		n.watch.Block(w)
		d.Failed = d.Failed || !w.Done()
	}
	if len(sets) > 0 && n.sets.Cover != nil {
		d.Failed = d.Failed || n.sets.decode(sets) != nil
	}
	if !d.Done() || !r.Done() || n.misfit(len(l.bias)) || len(n.watch.Measures.Classes) > len(l.schema.Classes) {
		return nil, fmt.Errorf("its state does not fit its format")
	}
	n.missing.model = h.Missing.WithLevels(nil)
	if n.scaling.scaler.Curves != nil {
		n.bindCurves()
	}
	n.takeForce()
	for class, count := range n.watch.Measures.Classes {
		if count > 0 {
			n.weighClass(class)
		}
	}
	n.table, n.snapshot, n.share, n.rewritten = l.table, l.snapshot, l.share, l.rewritten
	return n, nil
}

// Check says why a Delta cannot be added to the Learner, nil if it can.
func (l *Learner) Check(d *Delta) error {
	if err := l.config.checkShared(l.set); err != nil && d.Kind == SharedDelta {
		return err
	}
	width := l.table.Width()
	if d.Kind == SharedDelta {
		width = sharedParts + 2*l.n
	}
	if d.Width != width || len(d.Values) != width*len(d.Columns) {
		return fmt.Errorf("its rows hold %d values, those of this model %d", d.Width, width)
	}
	for _, column := range d.Columns {
		if uint64(column) >= l.schema.Columns() && !l.schema.NumericIndices && column < model.FirstHat { // where hats of curves begin
			return fmt.Errorf("it has column %d, and there are %d", column, l.schema.Columns())
		}
	}
	if d.Kind == FullDelta {
		_, err := l.withState(d.State)
		return err
	}
	base, now, err := l.readSums(d.State)
	if err == nil && now.events-base.events != d.Events {
		err = fmt.Errorf("its sums are of %d events, and it of %d", now.events-base.events, d.Events)
	}
	return err
}

// Add adds a Delta that Check has found to fit. The result depends on nothing but the
// state before and the Delta, to the bit.
func (l *Learner) Add(d *Delta) {
	if d.Kind == FullDelta {
		for i, column := range d.Columns {
			copy(l.table.Touch(column), d.Values[i*d.Width:][:d.Width])
		}
		n, err := l.withState(d.State)
		if err != nil {
			panic(err) // the caller's
		}
		*l = *n
		return
	}
	base, now, err := l.readSums(d.State)
	if err != nil {
		panic(err) // the caller's
	}
	l.addActive(now.active)
	if l.config.HalfLife > 0 {
		l.halve(float64(now.events-base.events) / l.config.HalfLife)
	}
	for i, column := range d.Columns {
		l.addRow(column, d.Values[i*d.Width:][:d.Width])
	}
	l.addChanges(l.bias, now.bias, 1)
	l.addSums(base, now)
	l.aged = aged.Aged{} // no member meets the events that would come next
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
		inverse := l.levels[v].average.inverse
		for j := v * l.k; j < (v+1)*l.k; j++ {
			u := changes[j] * ratio
			w[j] += u
			lag[j] = math.FMA(-u, inverse, lag[j])
			m[j] += changes[l.n+j] * l.fade.growth
		}
	}
}

// addRow adds a row of a SharedDelta. The statistics are merged exactly (Chan, Golub &
// LeVeque 1983); the centre and scale in force are renewed when the count has grown by a
// sixteenth, as by model.Scaler.Observe, and weights move along.
func (l *bank) addRow(column uint32, v []float64) {
	row := l.table.Touch(column)
	stats := row[:model.ScalerWidth]
	flags, before := int(v[sharedFlags]), stats[model.StatCount]
	stats[model.StatCount] = before + v[sharedCount]
	ratio := 1.0
	switch {
	case flags&(hasForce|isAsIs) == 0:
	case before == 0:
		stats[model.StatCentre], stats[model.StatInverse] = v[sharedCentre], v[sharedInverse]
	case flags&hasMoments == 0 && v[sharedInverse] < stats[model.StatInverse] && v[sharedInverse] > 0:
		// Someone has met a larger value.
		l.move(row, stats[model.StatInverse]/v[sharedInverse], 0)
		stats[model.StatInverse] = v[sharedInverse]
	default:
		ratio = l.convert(stats, v)
	}
	if flags&hasMoments != 0 {
		l.mergeMoments(row, before, v)
	} else if before == 0 {
		model.Unwatch(stats)
	}
	l.addChanges(row, v[sharedParts:], ratio)
}

// convert makes the changes of a column fit what is in force here, where at their author
// it was another centre and scale: it returns the factor of the weights, and lets the
// intercepts take up the difference of the centres, so that scores change as they did there.
func (l *bank) convert(stats, v []float64) (ratio float64) {
	if stats[model.StatCentre] == v[sharedCentre] && stats[model.StatInverse] == v[sharedInverse] {
		return 1
	}
	var theirs [model.ScalerWidth]float64
	theirs[model.StatCentre], theirs[model.StatInverse] = v[sharedCentre], v[sharedInverse]
	here, there := l.scaling.scaler.Standardisation(stats), l.scaling.scaler.Standardisation(theirs[:])
	if here.Scale == 0 || there.Scale == 0 || here.Unit != there.Unit {
		return 0 // the slope means nothing here
	}
	shift := (here.Centre - there.Centre) / there.Scale
	if shift != 0 && l.set.intercept {
		b, lag := l.weights(l.bias), l.lags(l.bias)
		for lv := range l.levels {
			inverse := l.levels[lv].average.inverse
			for j := lv * l.k; j < (lv+1)*l.k; j++ {
				u := v[sharedParts+j] * shift
				b[j] += u
				lag[j] = math.FMA(-u, inverse, lag[j])
			}
		}
	}
	return here.Scale / there.Scale
}

// mergeMoments merges the moments of readings into those of a row of so many before.
func (l *bank) mergeMoments(row []float64, before float64, v []float64) {
	stats := row[:model.ScalerWidth]
	n, added := stats[model.StatCount], v[sharedCount]
	if before == 0 {
		stats[model.StatMean], stats[model.StatSquares] = v[sharedMean], v[sharedSquares]
		return
	}
	d := v[sharedMean] - stats[model.StatMean]
	stats[model.StatMean] = math.FMA(d, added/n, stats[model.StatMean])
	stats[model.StatSquares] += math.FMA(d*d, before*added/n, v[sharedSquares])
	if model.RenewsBetween(before, n) {
		ratio, shift := model.Renew(stats)
		if ratio != 1 || shift != 0 {
			l.move(row, ratio, shift)
		}
	}
}

// addSums adds what an interval has counted and measured, and decides what depends on
// that: which of average and iterate is published, which level, and whether the stream
// has drifted.
func (l *Learner) addSums(base, now *sums) {
	steps := now.steps - base.steps
	l.scaling.dense.events += now.dense - base.dense
	l.events += now.events - base.events
	labelled := l.watch.Merge(base.measured, now.measured)
	for i, n := range l.watch.Measures.Classes {
		if n > 0 {
			l.weighClass(i)
		}
	}
	compared := now.compared - base.compared
	for v := range l.levels {
		l.levels[v].addSums(&base.levels[v], &now.levels[v], steps, compared)
	}
	if labelled > 0 {
		was, is := &base.measured.Measures.Total, &now.measured.Measures.Total
		if l.watch.Drift.Take((is.LogLoss-was.LogLoss)/(is.Weight-was.Weight), labelled, l.events) {
			l.drifted()
		}
	}
	l.steps += steps
	for v := range l.levels {
		lv := &l.levels[v]
		if lv.adaptation.on && compared > 0 && lv.adaptation.choose() && lv.average.taken > restartAfter {
			lv.average.restart()
			lv.adaptation.reset()
		}
		for range steps {
			if lv.average.advance(lv.adaptation.steady()) {
				l.rebase(v)
			}
		}
	}
	l.shares.Merge(base.shares, now.shares)
	if l.sets.Cover != nil {
		l.sets.Merge(base.sets, now.sets)
	}
	l.takeForce()
}

// fadeBy returns what so many terms leave of a sum of the given memory.
func fadeBy(memory float64, terms uint64) float64 { return measure.Power(1-1/memory, terms) }

func (lv *level) addSums(base, now *adaptation, steps, compared uint64) {
	a, was, is := &lv.adaptation, base, now
	keep := fadeBy(compareMemory, compared)
	if compared > 0 {
		measure.Fade(&a.gain, was.gain, is.gain, keep)
		measure.Fade(&a.squares, was.squares, is.squares, keep)
		measure.Fade(&a.compared, was.compared, is.compared, keep)
	}
	a.raise = max(0, min(a.raise+(is.raise-was.raise), maxRaise))
	measure.Fade(&a.square, was.square, is.square, fadeBy(raiseMemory, steps))
	a.square = max(0, a.square)
}
