package online

// This file has a level learn as if features died and nobody said so (package silent), and knows what dead features
// read.

import (
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/silent"
)

// silentLevel is the level of silent noise, which is the last one, and what it needs.
type silentLevel struct {
	level    int
	event    silent.Event
	grouping *model.Grouping // nil where single features die

	// Of the event at hand, by row of a feature.
	dead   []float64
	units  []int32  // nil where single features die
	fields []uint16 // by feature
}

// newSilent returns the level of silent noise, nil if there is none.
func (l *bank) newSilent() *silentLevel {
	last := len(l.levels) - 1
	noise, ok := l.levels[last].noise.(loss.Silent)
	if !ok {
		return nil
	}
	s := &silentLevel{level: last, event: silent.Event{Noise: noise, Loss: l.set.loss, First: last * l.k, Outputs: l.k, N: l.n}}
	if noise.Groups {
		s.grouping = model.NewGrouping(l.schema)
	}
	return s
}

// others returns how many levels have other noise than the silent one.
func (l *bank) others() int {
	if l.silent != nil {
		return l.silent.level
	}
	return len(l.levels)
}

// takeSilent finds what the features of the event at hand, of these columns, read when they are dead, and what they
// die with.
func (l *bank) takeSilent(e *event.Example, columns []uint32) {
	s := l.silent
	if s == nil {
		return
	}
	n := len(columns)
	s.dead = zeros(s.dead, n)
	walk := l.dead.Walk()
	for i, column := range columns {
		at := l.rowOf(i)
		stats := l.now.step.Rows[at][:model.ScalerWidth]
		if column >= model.FirstHat {
			s.dead[at] = l.dead.Standardized(&l.scaling.Scaler, column, stats)
		} else {
			s.dead[at] = walk.Standardized(&l.scaling.Scaler, column, stats)
		}
	}
	if s.grouping != nil {
		s.units = zeros(s.units, n)
		if s.fields = s.fields[:0]; len(e.Field) > 0 {
			s.fields = l.scaling.Scaler.FieldsOf(e, columns, s.fields)
		}
		for i, column := range columns {
			field := uint16(0)
			if i < len(s.fields) {
				field = s.fields[i]
			}
			s.units[l.rowOf(i)] = s.grouping.Of(field, l.scaling.Scaler.Curves.Source(column))
		}
	}
	s.event.Take(&l.now.step.Event, s.dead, s.units)
}

// beginSilent finds the losses and derivatives of the silent level, and returns by how much the loss changes with the
// coefficient of its lags.
func (l *bank) beginSilent(importance float64) (slope float64) {
	return l.silent.event.Begin(l.silentY(), importance, l.now.value[l.silent.level*l.k:])
}

// silentY returns the targets of the silent level, of the outputs in use.
func (l *bank) silentY() []float64 { return l.now.step.Y[l.silent.level*l.k:][:l.active] }

// gainSilent returns by how much the average of the silent level, of this coefficient, loses more than its iterate.
func (l *bank) gainSilent(coefficient float64) float64 {
	return l.silent.event.Gain(l.silentY(), coefficient, l.now.value[l.silent.level*l.k:])
}

// curveSilent finds the expected curvatures of the silent level at an event without label, times a weight.
func (l *bank) curveSilent(weight float64) {
	at := l.silent.level * l.k
	h := l.now.step.H[at:][:l.active]
	for k := range h {
		h[k] = 1 / (1 + loss.Exp(-l.now.step.F[at+k]))
	}
	l.silent.event.Curvatures(h, h)
	for k := range h {
		h[k] *= weight
	}
}

// stepSilent makes the step of the silent level.
func (l *bank) stepSilent() {
	if l.silent == nil {
		return
	}
	s, step := l.silent, &l.now.step
	at := s.level * l.k
	s.event.Step(l.silentY(), silent.Settings{
		Eta: -step.MinusEta[at], Start: l.config.Start, Growth: step.Growth, Inverse: step.Inverse[at],
		Importance: step.Importance, Proximal: l.config.Adapt && l.k == 1 || step.Young,
	})
}

// silentPace is by what the silent level's rate is multiplied where nobody has set one. With several outputs, whose steps
// are not proximal, the rate of noise none is too small for it: its gradients shrink with what dies.
func (l *bank) silentPace() float64 {
	if l.k > 1 && l.config.LearningRate == 0 {
		return 10.0 / 3
	}
	return 1
}

// readDead takes up what the numbers of the event at hand read, from which follows what they read when they are dead.
func (l *answering) readDead(e *event.Example) {
	read := &l.scaling.Read
	if l.shared() || e.Label == event.Unlabeled || !l.readsDead() {
		return
	}
	walk := l.dead.Walk()
	for _, v := range read.Values {
		if !model.IsWild(v.X) {
			walk.Read(v.Column, v.Raw)
		}
	}
	l.dead.Forget(read.Gone)
}

// readsWhenDead returns what a column reads when it is dead, standardized.
func (l *bank) readsWhenDead(column uint32) float64 {
	row := l.table.Row(column)
	if row == nil {
		return 0
	}
	return l.dead.Standardized(&l.scaling.Scaler, column, row[:model.ScalerWidth])
}

// readsDead says whether the numbers of the event at hand are read for that: all where a level learns from it, else all
// of the first and then every sixteenth.
func (l *bank) readsDead() bool {
	return l.silent != nil || l.events <= firstDead || l.events%deadEvery == 0
}

const firstDead, deadEvery = 1024, 16

// masked is a copy of the event at hand some features of which have died silently.
type masked struct {
	mask      silent.Mask
	published []float64 // what each level would publish
	columns   []uint32  // of the second-order expert
	x         []float64
	numbers   event.Vec // that have hats, as they come
	hats      event.Vec
	places    []int // see panel.Panel.Places, of the event as it came
	base      []float64
}

// copiesFirst is how many masked copies of each of the first earlyGroups events the second-order expert learns where groups
// die; of others it learns one.
const copiesFirst, earlyGroups = 3, 2000

// judgeSilent has the levels and the second-order expert be judged by what they lose where features of the event at hand
// have died silently. What they have said of the event earlier is of the event as it came, and does not count.
func (l *answering) judgeSilent(moves bool) {
	m := &l.masked
	l.drawSilent(0)
	knows := l.second.knows() && !l.second.away
	if m.base = append(m.base[:0], l.second.base...); knows && m.mask.Some {
		l.scoreSilent()
	}
	if !moves {
		return
	}
	p := &l.probing
	p.losses = l.judge.AddLosses(p.losses[:0], m.published[:l.n], l.k)
	l.shares.TakeLevels(0, p.losses)
	if !knows {
		return
	}
	s := &l.second
	lost := s.expert.Take(l.judge.Lost)
	copy(s.last, m.base)
	alone := l.judge.Lost(s.last)
	l.shares.TakeSecond(0, alone, lost)
	s.gain.Take(alone, l.judge.Lost(s.blend(s.expert.Scores(), l.shares.InForce[0].Second)))
}

// drawSilent draws a masked copy of the event at hand, and what each level would publish of it.
func (l *answering) drawSilent(copy uint64) {
	m, s, features := &l.masked, l.silent, l.features()
	m.mask.Draw(s.event.Noise, len(features), s.event.Units(), l.events, copy)
	m.published = append(m.published[:0], l.now.published[:l.n]...)
	if !m.mask.Some {
		return
	}
	for at, row := range features {
		if !m.mask.Dead[at] {
			continue
		}
		w, lag, by := l.weights(row), l.lags(row), l.now.step.X[at]-s.dead[at]
		for v := range l.levels {
			share := l.levels[v].LagShare()
			for j := v * l.k; j < (v+1)*l.k; j++ {
				m.published[j] -= by * (w[j] + share*lag[j])
			}
		}
	}
}

// scoreSilent has the second-order expert score the masked copy.
func (l *answering) scoreSilent() {
	s, m := &l.second, &l.masked
	if !s.placed {
		s.placed, m.places = true, append(m.places[:0], s.expert.Places()...)
	}
	m.columns, m.x = m.columns[:0], m.x[:0]
	m.numbers.Index, m.numbers.Value = m.numbers.Index[:0], m.numbers.Value[:0]
	columns, at, walk := l.now.columns[:len(l.features())], 0, l.dead.Walk()
	for i, column := range s.columns {
		if column >= model.FirstHat {
			break
		}
		for at < len(columns) && columns[at] < column {
			at++
		}
		x, raw := s.x[i], s.raw[i]
		if at < len(columns) && columns[at] == column {
			if row := l.rowOf(at); m.mask.Dead[row] {
				x, raw = l.silent.dead[row], walk.Raw(column, raw)
			}
		}
		m.columns, m.x = append(m.columns, column), append(m.x, x)
		m.numbers.Index, m.numbers.Value = append(m.numbers.Index, column), append(m.numbers.Value, raw)
	}
	if c := l.scaling.Scaler.Curves; c != nil {
		m.hats = c.Append(event.Vec{Index: m.hats.Index[:0], Value: m.hats.Value[:0]}, m.numbers, nil)
		m.columns, m.x = append(m.columns, m.hats.Index...), append(m.x, m.hats.Value...)
	}
	m.base = zeros(m.base, l.k)
	l.mixOf(l.shares.InForce[0].Levels, m.published, m.base)
	s.expert.Score(m.columns, m.x, m.base, s.scores)
}
