package online

// This file freezes, saves and restores the state of a Learner.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/aged"
	"blankout/online/fill"
	"blankout/online/probe"
	"blankout/online/rows"
	"blankout/online/watch"
	"blankout/online/young"
)

// Snapshot is a Learner's state at one instant. It is immutable: encoding it,
// and serving its Model, may happen on other goroutines while learning goes on.
type Snapshot struct {
	model   *model.Linear
	levels  []*model.Linear // see Levels
	largest int
	foreign func(column uint32) bool
	learner []byte
	refused []byte // the block of that name
	watched []byte // the block "watch"
	summary []byte
	numbers []byte // likewise, where labels are numbers
	unit    batch.Unit
	fill    []byte // likewise, where numbers may be filled in
	sets    []byte // likewise, where answers have sets
	young   []byte // likewise, where classes share an output
	aged    aged.Aged
	pasts   [][]event.Block // see horizon
	watch   *watch.Watch
	health  *watch.Health
	start   watch.Moment // of the block of events whose health is being found
}

// Snapshot returns the state as it is now. It copies what was written since the
// latest Snapshot, and no more, which is all that learning has to wait for.
func (l *Learner) Snapshot() *Snapshot {
	l.publishSecond()
	l.snapshot = l.table.Snapshot(l.snapshot)
	table, head := l.snapshot, l.head(l.schema.View())
	head.Stale, head.Dead = staleText(l.aged.Report(l.set.numbers), head.Loss), l.dead.Dead()
	report := l.Report()
	summary, err := json.Marshal(report.Summary())
	if err != nil {
		panic(err) // finite numbers and strings only
	}
	refused, watched := &coder.Coder{}, &coder.Coder{}
	l.watch.Refused.State(refused)
	l.watch.Block(watched)
	s := &Snapshot{model: (&model.Linear{Head: head, Rows: table}).WithCovariance(head.Covariance), largest: l.chosen, foreign: l.scaling.OwnHats(), learner: l.encode(), refused: refused.Out, watched: watched.Out, summary: summary, sets: l.sets.Encode(), aged: l.aged, watch: l.watch.Clone(), health: report.Health, start: l.watch.Health.Start()}
	for v := range l.levels {
		s.levels = append(s.levels, &model.Linear{Head: l.headOf(head.Schema, l.one(v)), Rows: table})
	}
	if l.set.numbers {
		numbers := &coder.Coder{}
		l.numbersState(numbers)
		s.numbers, s.unit = numbers.Out, l.unit.Batch()
	}
	if !l.filling.Empty() {
		fill := &coder.Coder{}
		l.filling.State(fill)
		s.fill = fill.Out
	}
	if l.young.On() {
		classes := &coder.Coder{}
		l.young.State(classes)
		s.young = classes.Out
	}
	s.pasts = l.horizon.blocks()
	return s
}

// Unit returns what targets that are numbers are measured in, for the exact solution of the
// same problem; zero where labels are classes.
func (s *Snapshot) Unit() batch.Unit { return s.unit }

// Model returns the published model, for predictions.
func (s *Snapshot) Model() *model.Linear { return s.model }

// ByAge returns what answers have lost by the age of the weights, errors in percent where labels are
// classes.
func (s *Snapshot) ByAge() []measure.Aged {
	if s.numbers != nil {
		return s.aged.Report(true)
	}
	return measure.AgedPercent(s.aged.Report(false))
}

// Levels returns the model of each noise level alone, and which of them has the largest mixture weight. Each has an exact
// solution to be compared with, that of its own noise; the published mixture has none.
func (s *Snapshot) Levels() (models []*model.Linear, largest int) { return s.levels, s.largest }

// Foreign says whether a column is a hat that no level learns, the second-order expert alone. The
// problems of Levels do not have it.
func (s *Snapshot) Foreign(column uint32) bool { return s.foreign(column) }

// Blocks encodes the state: the published model as model.ReadLinear reads it,
// the block "learner", which makes a Learner of it again, and for people who look at
// the file the block "summary". docs/checkpoint-format.md lists the blocks.
func (s *Snapshot) Blocks() ([]event.Block, error) {
	each, err := s.EachBlock()
	if err != nil {
		return nil, err
	}
	return slices.Collect(each), nil
}

// EachBlock yields what Blocks returns, the rows in the memory of the Snapshot.
func (s *Snapshot) EachBlock() (iter.Seq[event.Block], error) {
	model, err := s.model.EachBlock()
	if err != nil {
		return nil, err
	}
	health, err := json.Marshal(s.health)
	if err != nil {
		return nil, err
	}
	old, err := s.aged.EachBlock()
	if err != nil {
		return nil, err
	}
	return func(yield func(event.Block) bool) {
		if s.numbers != nil && !yield(event.Block{Name: "numbers", Data: s.numbers}) {
			return
		}
		if s.fill != nil && !yield(event.Block{Name: blockFill, Data: s.fill}) {
			return
		}
		if s.sets != nil && !yield(event.Block{Name: blockSets, Data: s.sets}) {
			return
		}
		if s.young != nil && !yield(event.Block{Name: blockYoung, Data: s.young}) {
			return
		}
		if yield(event.Block{Name: "learner", Data: s.learner}) && yield(event.Block{Name: "refused", Data: s.refused}) && yield(event.Block{Name: watch.BlockWatch, Data: s.watched}) &&
			yield(event.Block{Name: "summary", Data: s.summary}) && yield(event.Block{Name: watch.BlockHealth, Data: health}) {
			for b := range old {
				if !yield(b) {
					return
				}
			}
			for i, blocks := range s.pasts {
				for _, b := range blocks {
					if b.Name = pastPrefix(i) + b.Name; !yield(b) {
						return
					}
				}
			}
			model(yield)
		}
	}, nil
}

// Warnings is Learner.Warnings of the state, with nothing more to come.
func (s *Snapshot) Warnings(settings Fingerprint) []watch.Warning {
	w := s.watch.Warnings(watch.Stream{Events: s.model.Events, Classes: s.model.Schema.Classes, Outputs: s.model.Layout.Outputs, Spelled: s.model.Schema.LabelSpellings(), Settings: settings, Final: true})
	return slices.Concat(w, new(watch.Texts).Warnings(s.model.Schema), watch.OddTimes(s.start.Time, settings), staleWarnings(s.aged.Report(s.numbers != nil), s.model.Loss))
}

// head returns the head of the published model over the given copy of the
// Schema (or the Schema itself, for use before the next Learn).
func (l *answering) head(s *event.Schema) model.Head {
	h := l.headByRange(s, l.headOf)
	h.Experts = l.experts()
	return h
}

// headByRange returns the head of the mixture for whole events, with a further level for each other one that answers a range.
func (l *answering) headByRange(s *event.Schema, of func(*event.Schema, []float64) model.Head) model.Head {
	h := of(s, l.mixed(0))
	byRange, ranges := l.byRange()
	if byRange != nil {
		h.Missing = h.Missing.WithLevels(byRange)
	}
	for _, r := range ranges {
		x := of(s, l.mixed(r))
		h.Levels = append(h.Levels, model.Level{Noise: x.Noise, Intercept: x.Intercept, Layout: x.Layout})
	}
	return h
}

// published returns the published model as far as scores need it, for use before the next Learn.
func (l *answering) published() *model.Linear {
	return &model.Linear{Head: l.headByRange(l.schema, l.scoringHead), Rows: l.table}
}

// modelOf returns the model of mixed levels alone, as far as scores need it, for use before the next Learn.
func (l *answering) modelOf(mix []float64) *model.Linear {
	return &model.Linear{Head: l.scoringHead(l.schema, mix), Rows: l.table}
}

// headOf returns the head of a model whose weights are mixed of the levels. It names the noise of
// the one with the largest share.
func (l *answering) headOf(s *event.Schema, mix []float64) model.Head {
	most := (&probe.Mix{Levels: mix[:len(l.levels)]}).Largest()
	h := l.scoringHead(s, mix)
	h.Noise, h.Trained, h.Sets = l.levels[most].noise.String(), "online "+l.set.rule.Name, l.sets.Sets()
	if name := l.positiveName(); s.PositiveClass(name) == 0 {
		h.Positive = name
	}
	if l.set.numbers {
		h.Residual = l.residual.Published()
	}
	return h
}

// scoringHead returns the part of headOf that scores need.
func (l *answering) scoringHead(s *event.Schema, mix []float64) model.Head {
	l.publishSecond()
	h := model.Head{
		Schema: s, Scaler: l.scaling.Scaler, Loss: l.targetLoss().String(),
		Outputs: l.k, Intercept: make([]float64, l.k),
		Layout: l.mixedLayout(mix),
		Link:   l.linked(), Threshold: l.threshold(), Missing: l.fields.Missing, Faults: l.faults.found, Covariance: l.filling.Covariance,
		Events: l.events,
	}
	l.interceptsOf(mix, h.Intercept)
	for k := l.active; k < l.k; k++ {
		h.Intercept[k] = rows.NoClass
	}
	if l.young.On() {
		h.Outputs, h.Intercept = l.young.Scores(l.k), l.young.Expand(h.Intercept, rows.NoClass, nil)
	}
	if l.set.numbers {
		h.Intercept[0] = l.unit.Score(h.Intercept[0])
		if h.Layout.Scale = l.unit.Scale; l.unit.Target == loss.Count {
			h.Layout.Scale = 0
		}
	}
	return h
}

// mixedLayout returns where in a row the weights of mixed levels are.
func (l *bank) mixedLayout(mix []float64) model.Layout {
	out := model.Layout{Width: l.table.Width(), Stats: 0, Outputs: l.young.Outputs(), Mix: make([]model.Part, 0, len(mix))}
	for v, share := range mix {
		if share == 0 {
			continue
		}
		at := v * l.k
		part := model.Part{Share: share, Weight: model.ScalerWidth + at}
		if v < len(l.levels) {
			part.Lag, part.Average = model.ScalerWidth+2*l.n+at, l.levels[v].LagShare()
		} else {
			part.Weight = out.Width - l.ownWeights()
		}
		out.Mix = append(out.Mix, part)
	}
	if len(out.Mix) == 1 && out.Mix[0].Share == 1 {
		out.Weight, out.Lag, out.Average = out.Mix[0].Weight, out.Mix[0].Lag, out.Mix[0].Average
		out.Mix = nil
	}
	return out
}

// stateVersion counts the layouts of the block "learner". No number is ever used again.
const stateVersion = 10

// encode writes the block "learner".
func (l *Learner) encode() []byte {
	config, err := json.Marshal(FingerprintOf(l.config, l.schema))
	if err != nil {
		panic(err) // strings only
	}
	c := &coder.Coder{Version: stateVersion, Out: binary.LittleEndian.AppendUint32(nil, stateVersion)}
	c.Bytes(&config)
	l.state(c)
	return c.Out
}

// state walks everything of the state that is neither in the Table nor in the
// model's head, in the order of the format. It serves both directions.
func (l *Learner) state(c *coder.Coder) {
	c.Uint(&l.events)
	c.Uint(&l.steps)
	c.Uint(&l.period)
	c.Int(&l.active)
	c.Floats(&l.bias)
	c.Int(&l.chosen)
	for v := range l.levels {
		l.levels[v].state(c)
	}
	l.shares.State(c)
	l.scaling.DenseState(c)
	c.Float(&l.fade.Growth)
	l.link.State(c)
	l.watch.Drift.State(c)
	l.fade.Clock(c)
	l.importance.State(c)
	c.Uint(&l.hurriedUntil)
	if l.set.second {
		l.second.state(c)
	}
	l.scaling.ReadingsState(c)
	l.refresh.State(c)
	l.watch.State(c)
	l.fields.State(c)
	l.watch.Prior.State(c)
	l.watch.Health.MeasuresState(c)
	l.scaling.CurvesState(c, l.shared())
	l.dead.State(c)
	l.faultsState(c)
}

// Restore makes the Learner that wrote the blocks. It goes on to the bit as the
// other would have. An error names the settings in which c differs, if weights
// learned under the old ones would mean something else.
//
// The Schema is the saved one; the decoder must take it up: Learner.Schema. Rows stay in the
// memory of their blocks until they are written: nobody may change those.
func Restore(c Config, blocks []event.Block) (*Learner, error) {
	m, err := model.ReadLinear(blocks)
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w", err)
	}
	data, err := event.FindBlock(blocks, "learner")
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w: this is a model, not a checkpoint", err)
	}
	m.Schema.Closed = 0
	wanted := c.Optimizer
	c = c.asBegun(data)
	set, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	outputs, shared := m.Outputs, young.Classes{}
	if data, err := event.FindBlock(blocks, blockYoung); err == nil { // it is optional
		classes := coder.Read(data)
		if shared.State(classes); !classes.Done() || !slices.Equal(shared.Outputs(), m.Layout.Outputs) {
			return nil, fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", blockYoung, len(data))
		}
		outputs = shared.Count()
	}
	l, err := newLearner(c, set, m.Schema, outputs)
	if err != nil {
		return nil, err
	}
	l.young = shared
	if err := l.restoreLearner(m, data, blocks); err != nil {
		return nil, err
	}
	if err := l.restoreOthers(m, blocks); err != nil {
		return nil, err
	}
	if wanted == "adagrad" && c.Optimizer == "auto" {
		l.withoutSecond()
	}
	return l, nil
}

// asBegun returns the settings that a learner with the block "learner" goes on under where these are wanted. One
// that has begun without a second-order expert goes on without, and one that chooses among levels itself with those
// that it has, which another program may have given it.
func (c Config) asBegun(data []byte) Config {
	d := coder.Read(data)
	d.Uint32()
	was, err := readFingerprint(d)
	if err != nil {
		return c // see restoreLearner
	}
	if (c.Optimizer == "auto" || c.Optimizer == "adagrad") && (was["optimizer"] == "auto" || was["optimizer"] == "adagrad") {
		c.Optimizer = was["optimizer"]
	}
	if features, groups, ok := was.levels(); ok && c.Noise == "auto" {
		if _, wanted := c.bank(); slices.Equal(wanted, groups) && c.Levels == nil {
			c.Levels, c.GroupLevels = features, groups
		}
	}
	return c
}

// restoreLearner takes up the block "learner", what was refused, and the rows.
func (l *Learner) restoreLearner(m *model.Linear, data []byte, blocks []event.Block) error {
	d := coder.Read(data)
	if d.Version = d.Uint32(); d.Version != stateVersion {
		return fmt.Errorf("restoring the learner: block learner has version %d, and this program reads version %d: start again with --reset, which keeps the old checkpoints in a folder of their own, "+
			"or use the program that wrote it", d.Version, stateVersion)
	}
	was, err := readFingerprint(d)
	if err != nil {
		return fmt.Errorf("restoring the learner: %w", err)
	}
	now, width := FingerprintOf(l.config, l.schema), len(l.bias)
	was["missing_policy"] = now["missing_policy"] // no weight depends on it
	l.config.Presence = valueOf(was, "presence")  // as it was when the learner began
	now["presence"], was["presence"] = l.config.Presence, l.config.Presence
	l.scaling.Settings = l.set.scaling(l.config)
	if diff := now.Diff(was); len(diff) > 0 {
		return &MismatchError{diff}
	}
	l.scaling.Scaler = m.Scaler
	l.state(d)
	if l.positive == "" && l.labeled() >= positiveAfter {
		l.positive = m.Positive
	}
	refused, err := event.FindBlock(blocks, "refused")
	if err != nil {
		return fmt.Errorf("restoring the learner: %w", err)
	}
	r := coder.Read(refused)
	if l.watch.Refused.State(r); !r.Done() {
		return fmt.Errorf("restoring the learner: block refused: %d bytes do not fit its format", len(refused))
	}
	if data, err := event.FindBlock(blocks, watch.BlockWatch); err == nil { // it is optional
		w := coder.Read(data)
		if l.watch.Block(w); !w.Done() {
			return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", watch.BlockWatch, len(data))
		}
	}
	switch {
	case m.Rows.Width() != width:
		return &MismatchError{[]string{fmt.Sprintf("irls_batch: the saved rows hold %d numbers each, those of irls_batch = %d, irls_window = %d hold %d", m.Rows.Width(), l.config.IRLSBatch, l.config.IRLSWindow, width)}}
	case !d.Done():
		return fmt.Errorf("restoring the learner: block learner: %d bytes do not fit its format", len(data))
	case !l.refresh.Consistent():
		return fmt.Errorf("restoring the learner: block learner: its window does not fit itself")
	}
	if l.set.observed {
		n, err := loss.ParseNoise(m.Noise)
		if err != nil {
			return fmt.Errorf("restoring the learner: %w", err)
		}
		if g, ok := n.(loss.GroupDropout); ok && g.Rates != nil {
			l.setRates(g.Rates)
		}
	}
	l.table = m.Rows
	if l.misfit(width) {
		return fmt.Errorf("restoring the learner: block learner and the rows do not fit each other")
	}
	for v := range l.levels {
		if l.period > 0 {
			l.levels[v].EndPass()
		}
	}
	return nil
}

// restoreOthers takes up what has a block of its own: numbers, what is filled in, and the levels
// that answer.
func (l *Learner) restoreOthers(m *model.Linear, blocks []event.Block) error {
	if l.set.numbers {
		numbers, err := event.FindBlock(blocks, "numbers")
		if err != nil {
			return fmt.Errorf("restoring the learner: %w", err)
		}
		n := coder.Read(numbers)
		if ok := l.numbersState(n); !n.Done() || !ok {
			return fmt.Errorf("restoring the learner: block numbers: %d bytes do not fit its format", len(numbers))
		}
	}
	if m.Scaler.Curves != nil {
		l.bindCurves()
	}
	if err := l.restoreFilling(m, blocks); err != nil {
		return err
	}
	if sets, err := event.FindBlock(blocks, blockSets); err == nil && !l.sets.Decode(sets) { // it is optional
		return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", blockSets, len(sets))
	}
	if err := l.aged.Restore(blocks, l.outputs()); err != nil {
		return err
	}
	if err := l.restorePasts(blocks); err != nil {
		return err
	}
	if m.Missing != nil {
		l.fields.Missing = m.Missing.WithLevels(nil)
	}
	l.takeForce()
	l.restoreFaults()
	return nil
}

// restoreFilling takes up what has been gathered to fill in by. Files written before this
// block existed have none. One of more columns than are now wanted is not taken up:
// gathering begins anew.
func (l *answering) restoreFilling(m *model.Linear, blocks []event.Block) error {
	data, err := event.FindBlock(blocks, blockFill)
	if err != nil {
		return nil // it is optional
	}
	f := fill.New(l.config.CovarianceMaxFields)
	c := coder.Read(data)
	if f.State(c); !c.Done() {
		return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", blockFill, len(data))
	}
	f.Covariance = m.Covariance
	if l.set.fills && len(f.Columns) <= l.config.CovarianceMaxFields {
		l.filling.Gatherer = f
	} else if l.fillsIn() && m.Missing != nil {
		l.filling.Choose(nil, m.Missing.Zeros)
	}
	return nil
}

// misfit says whether parts of the state that was read do not fit each other; rows are to
// have the given width.
func (l *Learner) misfit(width int) bool {
	if len(l.bias) != width || l.active < 0 || l.active > l.k || l.chosen < 0 || l.chosen >= len(l.levels) ||
		l.scaling.Misfit() || l.fields.Misfit() {
		return true
	}
	return slices.ContainsFunc(l.levels, func(lv level) bool { return len(lv.sumsq) != l.k })
}

func readFingerprint(d *coder.Coder) (f Fingerprint, err error) {
	var data []byte
	d.Bytes(&data)
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("block learner: fingerprint: %w", err)
	}
	for _, key := range mayChange { // of programs in which it was part
		delete(f, key)
	}
	return f, nil
}

// ReadConfig returns the Config that a checkpoint was learned under; for what may
// change from run to run it has the defaults.
func ReadConfig(blocks []event.Block) (Config, error) {
	data, err := event.FindBlock(blocks, "learner")
	if err != nil {
		return Config{}, fmt.Errorf("%w: this is a model, not a checkpoint", err)
	}
	d := coder.Read(data)
	d.Uint32() // the version
	f, err := readFingerprint(d)
	if err != nil {
		return Config{}, err
	}
	c, err := f.Config()
	if err != nil {
		return c, fmt.Errorf("block learner: %w", err)
	}
	return c, nil
}

// MismatchError says that saved weights mean something else under the present
// configuration.
type MismatchError struct{ Differences []string }

func (e *MismatchError) Error() string {
	s := "the saved weights were learned under other settings ("
	for i, d := range e.Differences {
		if i > 0 {
			s += "; "
		}
		s += d
	}
	return s + "): restore the settings, or start afresh with --reset, which sets the checkpoints aside"
}
