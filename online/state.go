package online

// This file saves and restores a Learner, and publishes its model.

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/online/rare"
)

// Snapshot is the state of a Learner at one instant. It is immutable. While learning continues, other goroutines may
// therefore encode the Snapshot and serve its Model.
type Snapshot struct {
	model   *model.Linear
	levels  []*model.Linear // models of method Levels
	largest int
	state   []byte // block "learner"
	refused []byte // block "refused"
	report  Report
	counted health.Counted
	foreign func(column uint32) bool
	unit    batch.Unit
	older   iter.Seq[event.Block] // blocks of the older models, see health.Monitors.Older
	err     error                 // error of older
}

// Snapshot returns the current state. It copies only the blocks of rows that were changed after the previous Snapshot.
func (l *Learner) Snapshot() *Snapshot {
	l.predictor.experts.Publish(l.encoder.Table)
	l.snapshot = l.encoder.Table.Snapshot(l.snapshot)
	schema := l.encoder.Schema().View()
	s := &Snapshot{
		model: l.model(schema, l.snapshot), largest: l.predictor.mixture.Largest(0), state: l.encode(), refused: coder.Encode(l.monitors.Counts.Refused.State), report: l.Report(), foreign: l.encoder.Scaling.OwnBasisColumns(), counted: l.counted().Clone(),
	}
	s.older, s.err = l.monitors.Older.EachBlock()
	for v := range l.levels.Noises {
		alone := make([]float64, len(l.levels.Noises))
		alone[v] = 1
		m := &model.Linear{Head: l.head(schema, alone, 0, l.levels.Noises[v]), Rows: l.snapshot}
		s.levels = append(s.levels, m.WithCovariance(l.predictor.imputer.Covariance()))
	}
	if l.targets != nil {
		s.unit = l.targets.unit.Batch()
	}
	return s
}

// Model returns the published model, for a caller that does not use the Learner afterwards: both share the memory of the
// rows.
func (l *Learner) Model() *model.Linear {
	l.predictor.experts.Publish(l.encoder.Table)
	return l.model(l.encoder.Schema().View(), l.encoder.Table)
}

// kept returns a copy of the current model that will predict later events. The copy has no Schema, because those events
// need the later Schema of the stream.
func (l *Learner) kept() *model.Linear {
	l.predictor.experts.Publish(l.encoder.Table)
	m := l.model(&event.Schema{}, l.encoder.Table)
	m.Experts, m.Sets, m.Residual, m.Dead, m.Doubt = nil, nil, nil, nil, nil
	return m.Compact()
}

// model returns the published model. Its rows are those of t.
func (l *Learner) model(s *event.Schema, t *model.Table) *model.Linear {
	levels, own := l.predictor.weightsOf(0, nil)
	h := l.head(s, levels, own, l.predictor.noise(0))
	h.Experts = l.predictor.listed()
	h.LastLabel, h.Doubt, h.Cosines = l.lastLabel(), l.doubted, l.predictor.cosines.Published()
	byRange, ranges := l.predictor.mixture.ByRange()
	if byRange != nil {
		h.Missing = h.Missing.WithLevels(byRange)
	}
	for _, r := range ranges {
		at := model.Level{Noise: l.predictor.noise(r).String()}
		at.Layout, at.Intercept = l.predictor.layout(l.predictor.weightsOf(r, nil))
		h.Levels = append(h.Levels, at)
	}
	return (&model.Linear{Head: h, Rows: t}).WithCovariance(l.predictor.imputer.Covariance())
}

// head returns the head of a model. levels and own are the results of weightsOf. noise is the noise of the level with
// the largest mixture weight.
func (l *Learner) head(s *event.Schema, levels []float64, own float64, noise loss.Noise) model.Head {
	h := model.Head{
		Schema: s, Scaler: l.encoder.Scaling.Scaler, Missing: l.encoder.Fields.Missing,
		Loss: l.loss().String(), Noise: noise.String(), Events: l.events, Trained: "online " + l.config.Optimizer,
	}
	h.Layout, h.Intercept = l.predictor.layout(levels, own)
	h.Outputs = len(h.Intercept)
	l.monitors.Publish(&h)
	h.Faults, h.Dead = l.encoder.Faults(), l.encoder.Dead()
	if t := l.targets; t != nil {
		h.Residual = t.residual.Published()
	}
	return h
}

// loss returns the loss of predictions, in the unit of the stream.
func (l *Learner) loss() loss.Loss {
	if l.targets != nil {
		return l.targets.unit.Loss(l.set.levels.Loss)
	}
	return l.set.levels.Loss
}

// Model returns the published model, for predictions.
func (s *Snapshot) Model() *model.Linear { return s.model }

// Levels returns the model of each noise level alone, and the index of the level with the largest mixture weight. Each
// level has an exact solution for its own noise. The published mixture of the levels has no exact solution.
func (s *Snapshot) Levels() (models []*model.Linear, largest int) { return s.levels, s.largest }

// Foreign reports whether a column is a spline column that only the correcting experts learn. The exact solutions of
// Levels exclude such columns.
func (s *Snapshot) Foreign(column uint32) bool { return s.foreign(column) }

// Unit returns the unit of regression targets, with which the same problem can be solved exactly. It is zero for
// classification.
func (s *Snapshot) Unit() batch.Unit { return s.unit }

// Blocks returns all blocks that EachBlock yields.
func (s *Snapshot) Blocks() ([]event.Block, error) {
	each, err := s.EachBlock()
	if err != nil {
		return nil, err
	}
	return slices.Collect(each), nil
}

// EachBlock yields the blocks of a checkpoint: the model in the format of model.ReadLinear, the state ("learner",
// "refused"), and blocks for users who inspect the file ("summary", "health").
func (s *Snapshot) EachBlock() (iter.Seq[event.Block], error) {
	each, err := s.model.EachBlock()
	if err = cmp.Or(err, s.err); err != nil {
		return nil, err
	}
	summary, err := json.Marshal(s.report.Summary())
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(s.report.Health)
	if err != nil {
		return nil, err
	}
	blocks := []event.Block{{Name: "learner", Data: s.state}, {Name: "refused", Data: s.refused}, {Name: "summary", Data: summary}, {Name: health.BlockHealth, Data: fields}}
	if s.older == nil {
		return event.JoinBlocks(slices.Values(blocks), each), nil
	}
	return event.JoinBlocks(slices.Values(blocks), s.older, each), nil
}

// stateVersion is the version of the layout of the block "learner". If the layout changes, stateVersion must change.
const stateVersion = 31

// encode returns the block "learner".
func (l *Learner) encode() []byte {
	fingerprint, err := json.Marshal(FingerprintOf(l.config, l.encoder.Schema()))
	if err != nil {
		panic(err) // strings only
	}
	c := &coder.Coder{Version: stateVersion, Out: binary.LittleEndian.AppendUint32(nil, stateVersion)}
	c.Bytes(&fingerprint)
	k := l.levels.Outputs
	outputsState(c, &k, &l.outputs.rare)
	l.state(c, nil)
	return c.Out
}

// outputsState encodes or decodes the number of outputs, and the assignment of classes to outputs.
func outputsState(c *coder.Coder, outputs *int, y *rare.Classes) {
	c.Int(outputs)
	on := y.On()
	if c.Bool(&on); on {
		y.State(c)
	}
}

// state encodes or decodes the state that is neither in rows nor in the model. To decode, it needs the Covariance of
// the model.
func (l *Learner) state(c *coder.Coder, covariance *model.Covariance) {
	c.Uint(&l.events)
	l.weights.State(c)
	l.clock.Clock(c)
	l.encoder.State(c)
	l.predictor.imputer.State(c, covariance, l.encoder.Fields.Missing.Zeros)
	l.levels.State(c)
	l.predictor.mixture.State(c)
	l.predictor.experts.State(c, l.encoder.Scaling.Scaler.Splines)
	l.predictor.cosines.State(c)
	l.predictor.last.State(c)
	l.doubter.State(c)
	c.Uint(&l.masked.drawn)
	if l.targets != nil {
		l.targets.state(c)
	}
	c.Uint(&l.fresh)
	l.monitors.State(c)
}

// Restore returns the Learner that wrote the blocks. The Learner continues bit by bit. The decoder must use the saved
// Schema, which the method Schema returns. Until rows are changed, they are in the memory of the blocks, so the caller
// must not change the blocks.
func Restore(c Config, blocks []event.Block) (*Learner, error) {
	m, err := model.ReadLinear(blocks)
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w", err)
	}
	data, err := event.FindBlock(blocks, "learner")
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w: this is a model, not a checkpoint", err)
	}
	refused, err := event.FindBlock(blocks, "refused")
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w", err)
	}
	m.Schema.Closed = 0
	c = c.WithPreset()
	set, err := parse(c)
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	l, err := restored(c, set, m, data, refused)
	if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
		return nil, mismatch
	} else if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w", err)
	}
	if l.outputs.rare.Scores(l.levels.Outputs) != m.Outputs {
		return nil, fmt.Errorf("restoring the learner: block learner: its outputs do not fit the model's")
	}
	if err := l.monitors.Older.Restore(blocks, m.Outputs); err != nil {
		return nil, err
	}
	l.levels.Grouping.Restore(m.Rows)
	return l, nil
}

// restored returns the Learner with the model m and the state in the blocks "learner" and "refused".
func restored(c Config, set settings, m *model.Linear, learner, refused []byte) (*Learner, error) {
	d := coder.Read(learner)
	if d.Version = d.Uint32(); d.Version != stateVersion {
		return nil, fmt.Errorf("block learner has version %d, and this program reads version %d: restart with --reset, which keeps the old checkpoints in another directory, "+
			"or use the program that wrote it", d.Version, stateVersion)
	}
	was := Fingerprint{}
	var text []byte
	if d.Bytes(&text); json.Unmarshal(text, &was) != nil {
		return nil, fmt.Errorf("block learner: its settings cannot be read")
	}
	now := FingerprintOf(c, m.Schema)
	was["missing_policy"] = now["missing_policy"] // no weight depends on it
	if diff := now.Diff(was); len(diff) > 0 {
		return nil, &MismatchError{Differences: diff}
	}
	outputs, classes := 0, rare.Classes{}
	if outputsState(d, &outputs, &classes); d.Failed || outputs < 1 {
		return nil, fmt.Errorf("block learner: its outputs do not fit")
	}
	set.levels.Outputs = outputs
	if m.Rows.Width() != set.levels.Width(outputs) {
		return nil, fmt.Errorf("rows of %d numbers, and not %d", m.Rows.Width(), set.levels.Width(outputs))
	}
	l, err := newLearner(c, set, m.Schema, outputs)
	if err != nil {
		return nil, err
	}
	l.outputs.rare = classes
	l.encoder.Scaling.Scaler, l.encoder.Table = m.Scaler, m.Rows
	if l.doubts() {
		l.doubted = m.Doubt
	}
	if m.Missing != nil {
		l.encoder.Fields.Missing = m.Missing.WithLevels(nil)
	}
	if l.state(d, m.Covariance); !d.Done() {
		return nil, fmt.Errorf("block learner: %d bytes do not fit its format", len(learner))
	}
	r := coder.Read(refused)
	if l.monitors.Counts.Refused.State(r); !r.Done() {
		return nil, fmt.Errorf("block refused: %d bytes do not fit its format", len(refused))
	}
	l.encoder.Fields.Missing = l.encoder.Fields.Missing.WithPolicies(l.predictor.mixture.Policies())
	l.monitors.Restored(l.encoder.Stuck())
	return l, nil
}

func readFingerprint(d *coder.Coder) (f Fingerprint, err error) {
	var data []byte
	d.Bytes(&data)
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("block learner: fingerprint: %w", err)
	}
	for _, key := range mayChange { // older programs had these keys in the fingerprint
		delete(f, key)
	}
	return f, nil
}

// ReadConfig returns the Config of the Learner that wrote a checkpoint. Settings that may change between runs have
// their default values.
func ReadConfig(blocks []event.Block) (Config, error) {
	data, err := event.FindBlock(blocks, "learner")
	if err != nil {
		return Config{}, fmt.Errorf("%w: this is a model, not a checkpoint", err)
	}
	d := coder.Read(data)
	d.Uint32() // skips the version
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

// MismatchError reports that the meaning of the saved weights would change under the current settings.
type MismatchError struct {
	Differences []string
	Empty       bool // no labeled event was learned with the saved settings
}

func (e *MismatchError) Error() string {
	differences := strings.Join(e.Differences, "; ")
	if e.Empty {
		return "the checkpoint was saved with other settings (" + differences + "), and nothing was learned with them: restart with --reset, which moves the checkpoints aside"
	}
	return "the saved weights were learned with other settings (" + differences + "): restore the settings, or restart with --reset, which moves the checkpoints aside"
}
