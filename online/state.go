package online

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"blankout"
)

// Snapshot is a Learner's state at one instant. It is immutable: encoding it,
// and serving its Model, may happen on other goroutines while learning goes on.
type Snapshot struct {
	model   *blankout.Model
	learner []byte
	refused []byte // the block of that name
	summary []byte
	metrics Metrics
}

// Snapshot returns the state as it is now. It copies what was written since the
// latest Snapshot, and no more, which is all that learning has to wait for.
func (l *Learner) Snapshot() *Snapshot {
	l.snapshot = l.table.Snapshot(l.snapshot)
	head := l.head(l.schema.Clone(-1, -1))
	metrics := l.Metrics()
	summary, err := json.Marshal(metrics.Summary())
	if err != nil {
		panic(err) // finite numbers and strings only
	}
	refused := &coder{}
	l.metrics.refusedState(refused)
	return &Snapshot{&blankout.Model{Head: head, Rows: l.snapshot}, l.encode(), refused.out, summary, metrics}
}

// Model returns the published model, for predictions.
func (s *Snapshot) Model() *blankout.Model { return s.model }

// Blocks encodes the state: the published model as blankout.ReadModel reads it,
// the block "learner", which makes a Learner of it again, and for whoever looks at
// the file the block "summary". docs/checkpoint-format.md has the table.
func (s *Snapshot) Blocks() ([]blankout.Block, error) {
	each, err := s.EachBlock()
	if err != nil {
		return nil, err
	}
	return slices.Collect(each), nil
}

// EachBlock yields what Blocks returns, the rows encoded one block at a time.
func (s *Snapshot) EachBlock() (iter.Seq[blankout.Block], error) {
	model, err := s.model.EachBlock()
	if err != nil {
		return nil, err
	}
	return func(yield func(blankout.Block) bool) {
		if yield(blankout.Block{Name: "learner", Data: s.learner}) && yield(blankout.Block{Name: "refused", Data: s.refused}) &&
			yield(blankout.Block{Name: "summary", Data: s.summary}) {
			model(yield)
		}
	}, nil
}

// Blocks is Snapshot().Blocks().
func (l *Learner) Blocks() ([]blankout.Block, error) { return l.Snapshot().Blocks() }

// Calibration returns what the published model maps scores to probabilities by,
// nil for the identity.
func (l *Learner) Calibration() *blankout.Calibration { return l.calibration.published() }

// head returns the head of the published model over the given copy of the
// Schema (or the Schema itself, for use before the next Learn).
func (l *Learner) head(s *blankout.Schema) blankout.Head { return l.headOf(s, l.chosen) }

// modelOf returns the model that is published when a level is, for use before
// the next Learn.
func (l *Learner) modelOf(level int) *blankout.Model {
	return &blankout.Model{Head: l.headOf(l.schema, level), Rows: l.table}
}

func (l *Learner) headOf(s *blankout.Schema, level int) blankout.Head {
	lv, at := &l.levels[level], level*l.k
	c := l.coefficient * lv.blend
	h := blankout.Head{
		Schema: s, Scaler: l.scaler,
		Loss: l.loss.String(), Noise: lv.noise.String(),
		Outputs: l.k, Intercept: make([]float64, l.k),
		Layout: blankout.Layout{
			Width: l.table.Width(), Weight: blankout.ScalerWidth + at,
			Lag: blankout.ScalerWidth + 2*l.n + at, Average: c, Stats: 0,
		},
		Calibration: l.Calibration(), Missing: l.missing.model,
		Events: l.events, Trained: "online " + l.rule.name,
	}
	if t := l.config.Threshold; t != 0.5 {
		h.Threshold = t
	}
	for k := range h.Intercept {
		h.Intercept[k] = l.weights(l.bias)[at+k] + c*l.lags(l.bias)[at+k]
		if k >= l.active {
			h.Intercept[k] = unseenIntercept
		}
	}
	return h
}

// stateVersion counts the layouts of the block "learner".
const stateVersion = 4

// encode writes the block "learner".
func (l *Learner) encode() []byte {
	config, err := json.Marshal(l.Fingerprint())
	if err != nil {
		panic(err) // strings only
	}
	c := &coder{version: stateVersion, out: binary.LittleEndian.AppendUint32(nil, stateVersion)}
	c.bytes(&config)
	l.state(c)
	return c.out
}

// state walks everything of the state that is neither in the Table nor in the
// model's head, in the order of the format. It serves both directions.
func (l *Learner) state(c *coder) {
	c.uint(&l.events)
	c.uint(&l.steps)
	c.uint(&l.period)
	c.int(&l.active)
	c.float(&l.coefficient)
	c.uint(&l.taken)
	c.floats(&l.bias)
	c.int(&l.chosen)
	for v := range l.levels {
		lv := &l.levels[v]
		c.floats(&lv.sumsq)
		c.float(&lv.blend)
		c.float(&lv.gain)
		if c.version > 1 {
			c.float(&lv.squares)
			c.float(&lv.judged)
		} else {
			lv.gain = 0 // a curvature was here
		}
		c.float(&lv.raise)
		c.float(&lv.square)
		f := &lv.forecast
		if c.version > 1 {
			for _, p := range []*[ForecastPoints]float64{&f.samples, &f.weight, &f.wrong} {
				for i := range p {
					c.float(&p[i])
				}
			}
		} else {
			f.version1(c)
		}
		if c.version > 2 {
			c.float(&f.squares)
		}
	}
	c.uint(&l.dense.events)
	c.uint32s(&l.dense.candidates)
	c.uints(&l.dense.seen)
	for _, p := range []*float64{
		&l.growth, &l.calibration.a, &l.calibration.b, &l.calibration.aa, &l.calibration.ab, &l.calibration.bb,
		&l.hinkley.n, &l.hinkley.mean, &l.hinkley.sum, &l.hinkley.lowest, &l.hinkley.since, &l.hinkley.recent,
	} {
		c.float(p)
	}
	c.int64(&l.lastTime)
	if c.version > 3 {
		c.int64(&l.odd)
		l.recent.state(c)
	}
	w := &l.refresh.window
	c.uint32s(&w.ends)
	c.uint32s(&w.column)
	c.floats(&w.value)
	c.uint32s(&w.labels)
	c.floats(&w.weights)
	m := &l.metrics
	c.uint(&m.RefreshFailures)
	c.uint(&m.Unlabelled)
	if c.version < 4 {
		c.uint(&m.Refused)
	}
	c.uint(&m.Suspects)
	c.uints(&m.Classes)
	for _, p := range []*Progress{&m.Total, &m.Window} {
		c.float(&p.Weight)
		c.float(&p.Wrong)
		c.float(&p.LogLoss)
	}
	c.uint(&m.Drift.Alarms)
	c.uint(&m.Drift.Event)
	c.float(&m.Drift.Before)
	c.float(&m.Drift.After)
	if b := m.Binary; b != nil {
		for label := range 2 {
			for i := range b.Confusion[label] {
				c.float(&b.Confusion[label][i])
			}
			for i := range b.Scores[label] {
				c.float(&b.Scores[label][i])
			}
		}
		for i := range b.Reliability {
			c.float(&b.Reliability[i].Weight)
			c.float(&b.Reliability[i].Probability)
			c.float(&b.Reliability[i].Positive)
		}
	}
	if c.version > 3 {
		l.missing.state(c)
		m.Prior.state(c)
	}
}

// state walks the readings of every column, in ascending order.
func (g *recentReadings) state(c *coder) {
	columns := slices.Sorted(maps.Keys(g.columns))
	c.uint32s(&columns)
	for _, column := range columns {
		r := g.of(column)
		c.floats(&r.values)
		c.float(&r.at)
		c.float(&r.wild)
		if c.decode && len(r.values) > blankout.FirstReadings {
			c.failed = true
		}
		r.values = slices.Grow(r.values, blankout.FirstReadings-len(r.values))
	}
}

// version1 reads a forecast of which all points had the same samples.
func (f *forecast) version1(c *coder) {
	var samples uint64
	var weight float64
	c.uint(&samples)
	c.float(&weight)
	for i := range f.wrong {
		f.samples[i], f.weight[i] = float64(samples), weight
		c.float(&f.wrong[i])
	}
}

// Restore makes the Learner that wrote the blocks. It goes on to the bit as the
// other would have. An error names the settings in which c differs, if weights
// learned under the old ones would mean something else.
//
// The Schema is the saved one; the decoder must take it up: Learner.Schema.
func Restore(c Config, blocks []blankout.Block) (*Learner, error) {
	m, err := blankout.ReadModel(blocks)
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w", err)
	}
	data, err := blankout.FindBlock(blocks, "learner")
	if err != nil {
		return nil, fmt.Errorf("restoring the learner: %w: this is a model, not a checkpoint", err)
	}
	l, err := New(c, m.Schema)
	if err != nil {
		return nil, err
	}
	d := &coder{in: data, decode: true}
	if d.version = d.uint32(); d.version < 1 || d.version > stateVersion {
		return nil, fmt.Errorf("restoring the learner: block learner has version %d; this program reads up to %d", d.version, stateVersion)
	}
	var config []byte
	d.bytes(&config)
	var was Fingerprint
	if err := json.Unmarshal(config, &was); err != nil {
		return nil, fmt.Errorf("restoring the learner: block learner: fingerprint: %w", err)
	}
	now, width := l.Fingerprint(), len(l.bias)
	if _, ok := was["refresh"]; !ok {
		was["refresh"] = now["refresh"] // an older file does not say; its rows have room for one, or none
	}
	if diff := now.Diff(was); len(diff) > 0 {
		return nil, &MismatchError{diff}
	}
	l.state(d)
	if d.version > 3 {
		refused, err := blankout.FindBlock(blocks, "refused")
		if err != nil {
			return nil, fmt.Errorf("restoring the learner: %w", err)
		}
		r := &coder{in: refused, decode: true}
		if l.metrics.refusedState(r); r.failed || len(r.in) != 0 {
			return nil, fmt.Errorf("restoring the learner: block refused: %d bytes do not fit its format", len(refused))
		}
	}
	switch {
	case d.failed || len(d.in) != 0:
		return nil, fmt.Errorf("restoring the learner: block learner: %d bytes do not fit its format", len(data))
	case len(l.refresh.window.ends) != len(l.refresh.window.labels) || len(l.refresh.window.ends) != len(l.refresh.window.weights) ||
		len(l.refresh.window.column) != len(l.refresh.window.value) || !slices.IsSorted(l.refresh.window.ends) ||
		len(l.refresh.window.ends) > 0 && int(l.refresh.window.ends[len(l.refresh.window.ends)-1]) != len(l.refresh.window.column):
		return nil, fmt.Errorf("restoring the learner: block learner: its window does not fit itself")
	case m.Rows.Width() != width:
		return nil, &MismatchError{[]string{fmt.Sprintf("refresh: the saved rows hold %d numbers each, those of refresh = %d, refresh_window = %d hold %d", m.Rows.Width(), c.Refresh, c.RefreshWindow, width)}}
	case len(l.bias) != width || l.active < 0 || l.active > l.k || l.chosen < 0 || l.chosen >= len(l.levels) ||
		len(l.dense.seen) != len(m.Scaler.Dense):
		return nil, fmt.Errorf("restoring the learner: block learner and the rows do not fit each other")
	}
	for v := range l.levels {
		if len(l.levels[v].sumsq) != l.k {
			return nil, fmt.Errorf("restoring the learner: block learner: level %d has %d outputs, want %d", v, len(l.levels[v].sumsq), l.k)
		}
	}
	if l.coefficient != 0 {
		l.inverse = 1 / l.coefficient
	}
	for v := range l.levels {
		lv := &l.levels[v]
		lv.on = lv.on && l.period == 0
	}
	l.table, l.scaler = m.Rows, m.Scaler
	if m.Missing != nil {
		l.missing.model = m.Missing.Forced(l.missingRule)
	}
	return l, nil
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
	return s + "): restore the settings, or start afresh with --reset"
}

// coder writes or reads little-endian values; slices carry their length as
// uint32. After a read beyond the end, failed is set and values are zero.
type coder struct {
	in, out []byte
	version uint32 // of the block learner
	decode  bool
	failed  bool
}

func (c *coder) take(n int) []byte {
	if n < 0 || n > len(c.in) {
		c.failed, c.in = true, nil
		return nil
	}
	b := c.in[:n]
	c.in = c.in[n:]
	return b
}

func (c *coder) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *coder) uint(p *uint64) {
	if !c.decode {
		c.out = binary.LittleEndian.AppendUint64(c.out, *p)
	} else if b := c.take(8); b != nil {
		*p = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) int(p *int) {
	v := uint64(*p)
	c.uint(&v)
	*p = int(v)
}

func (c *coder) int64(p *int64) {
	v := uint64(*p)
	c.uint(&v)
	*p = int64(v)
}

func (c *coder) float(p *float64) {
	v := math.Float64bits(*p)
	c.uint(&v)
	*p = math.Float64frombits(v)
	c.failed = c.failed || *p-*p != 0 // nothing learned is infinite or no number
}

// length codes the length of a slice of elements of the given size.
func (c *coder) length(n, size int) int {
	if !c.decode {
		c.out = binary.LittleEndian.AppendUint32(c.out, uint32(n))
		return n
	}
	n = int(c.uint32())
	if n*size > len(c.in) {
		c.failed, c.in = true, nil
		return 0
	}
	return n
}

func (c *coder) bytes(p *[]byte) {
	n := c.length(len(*p), 1)
	if !c.decode {
		c.out = append(c.out, *p...)
		return
	}
	*p = append([]byte(nil), c.take(n)...)
}

func (c *coder) floats(p *[]float64) { slice(c, p, 8, c.float) }
func (c *coder) uints(p *[]uint64)   { slice(c, p, 8, c.uint) }
func (c *coder) uint32s(p *[]uint32) {
	slice(c, p, 4, func(v *uint32) {
		if !c.decode {
			c.out = binary.LittleEndian.AppendUint32(c.out, *v)
		} else {
			*v = c.uint32()
		}
	})
}

func slice[T any](c *coder, p *[]T, size int, one func(*T)) {
	n := c.length(len(*p), size)
	if c.decode {
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		one(&(*p)[i])
	}
}
