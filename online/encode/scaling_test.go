package encode

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestMoveKeepsScores checks that applying each Move keeps every score while readings arrive. Only the restart of a
// column may change scores.
func TestMoveKeepsScores(t *testing.T) {
	for _, treatment := range []treatment{treatNumeric, treatDivided, treatSpread} {
		mode := must.Either(treatment == treatSpread, model.StandardizeAll, model.StandardizeAuto)
		s, r := newScaling(Settings{Standardize: mode}, false), rand.New(rand.NewPCG(1, 2))
		s.addField(event.Numeric)
		stats, w, b, moves, anew := make([]float64, model.ScalerWidth), 0.3, -0.1, 0, 0
		score := func(x float64) float64 { return w*s.Scaler.Apply(stats, x) + b }
		for i := range 5000 {
			x := 7 + 2*r.NormFloat64()
			if i > 2500 {
				x += 3
			}
			before, count := score(8), stats[model.StatCount]
			m := s.observe(5, stats, x, s.Scaler.Deviations(stats, x), treatment, 0)
			s.events++
			if count < model.FirstReadings || m.Keep != 1 {
				anew++
				continue
			}
			if m != still {
				moves++
			}
			w, b = w*m.Ratio, b+w*m.Shift
			after := score(8)
			must.Require(t, math.Abs(after-before) <= 1e-9, "%v, reading %d: a score of %v has become %v by %+v", treatment, i, before, after, m)
		}
		must.True(t, moves >= 3 && anew <= 200, "%v: %d moves, %d readings of columns that began anew", treatment, moves, anew)
	}
}

// TestKnots checks that knots are the quantiles of the first readings, and that a number that is often omitted gets a
// presence column. The gathered readings must be part of the state.
func TestKnots(t *testing.T) {
	set := Settings{Standardize: model.StandardizeAuto, Presence: true, Knots: func(numbers int) int { return 7 - 2*numbers }}
	s, r := newScaling(set, false), rand.New(rand.NewPCG(1, 2))
	for range 3 {
		s.addField(event.Numeric)
	}
	for n := uint64(1); ; n++ {
		if s.countForKnots(&event.Example{}, 9, func() []uint16 { return nil }) {
			must.True(t, n == KnotEvents+1, "knots after %d events", n)
			break
		}
		s.events++
		for column := range uint32(2) {
			if column == 0 || n%2 == 0 {
				s.reading(column, uint16(column)+1, r.Float64(), 0)
			}
		}
		if n == 500 { // saves and restores the state
			var a, b coder.Coder
			s.knotsState(&a)
			s = newScaling(set, false)
			s.events = n
			for range 3 {
				s.addField(event.Numeric)
			}
			s.knotsState(coder.Read(a.Out))
			s.knotsState(&b)
			must.Require(t, bytes.Equal(a.Out, b.Out), "the state does not come back")
		}
	}
	knots := s.Scaler.Splines.Knots
	must.True(t, len(knots) == 2 && len(knots[0]) == 3 && math.Abs(knots[0][1]-0.5) <= 0.05 && model.IsPresence(knots[1]), "knots %v", knots)
	must.True(t, s.OwnBasisColumns()(s.Scaler.Splines.BasisColumn(0, 0)) && !s.OwnBasisColumns()(s.Scaler.Splines.BasisColumn(1, 0)), "whose hats are whose is confused")
	columns, _, numbers := s.columns(event.Vec{Index: []uint32{0, 1}, Value: []float64{0.3, 0.4}})
	must.True(t, numbers == 2 && len(columns) == 3 && columns[2] == s.Scaler.Splines.BasisColumn(1, 0), "columns %v, of which %d are numbers", columns, numbers)
}

// TestSteady checks that readings for which Steady is true change only the count and the moments, and that Steady is
// true for most readings.
func TestSteady(t *testing.T) {
	s, r := newScaling(Settings{Standardize: model.StandardizeAuto}, false), rand.New(rand.NewPCG(3, 4))
	s.addField(event.Numeric)
	stats, want, steady := [model.ScalerWidth]float64{}, [model.ScalerWidth]float64{}, 0
	for i := range 10000 {
		x := 7 + 2*r.NormFloat64()
		if i%1000 == 999 {
			x = 1e6
		}
		z := s.Scaler.Deviations(stats[:], x)
		want = stats
		m := s.observe(5, want[:], x, z, treatNumeric, 0)
		n := stats[model.StatCount] + 1
		if math.Abs(z) > model.ScalerClip || !(stats[model.StatInverse] > 0 && keepsScale(n)) {
			stats = want
			continue
		}
		if steady++; m != still {
			t.Fatalf("reading %d moves by %v", i, m)
		}
		model.AddReading(&stats, n, x)
		must.Require(t, stats == want, "reading %d makes %v, want %v", i, stats, want)
	}
	must.True(t, steady >= 6800, "%d are steady", steady)
}

// TestCounts checks which numeric fields count, that a field's score of a reading stays the same when its treatment
// changes, and that the state comes back.
func TestCounts(t *testing.T) {
	const column = 10
	every := func(k int, values ...float64) func(i int) []float64 {
		return func(i int) []float64 {
			if i%k > 0 {
				return nil
			}
			return values[i/k%len(values) : i/k%len(values)+1]
		}
	}
	for _, c := range []struct {
		name   string
		draw   func(i int) []float64 // the reading of event i, if it has one
		counts bool
		turns  int
	}{
		{"flag", every(3, 1), true, 1}, {"count", every(3, 1, 1, 2, 1, 3), true, 1}, {"in half of the events", every(2, 1), true, 1},
		{"rating", every(3, 3, 4, 2, 5, 1), false, 0}, {"fraction", every(3, 0.5, 1), false, 0}, {"negative", every(3, -1, 1), false, 0},
		{"always", every(1, 1, 0, 1, 2), false, 0},
		{"two of four", func(i int) []float64 { return []float64{1, 2}[:(i/2+1)%2] }, true, 1},
		{"count, then a fraction", func(i int) []float64 {
			if i < 40 {
				return every(3, 1, 2)(i)
			}
			return every(3, 0.5)(i)
		}, false, 2},
	} {
		s, stats := newScaling(Settings{Standardize: model.StandardizeAuto}, false), make([]float64, model.ScalerWidth)
		s.addField(event.Sparse)
		s.addField(event.Numeric)
		turns, weight, intercept := 0, 0.7, 0.2
		score := func(x float64) float64 { return intercept + weight*s.Scaler.Deviations(stats, x) }
		for i := range 400 {
			e := &event.Example{Field: []uint16{}}
			for _, x := range c.draw(i) {
				eventtest.Put(e, column, x, 1)
			}
			due := s.watchCounts(e)
			for _, x := range e.Features.Value {
				s.observe(column, stats, x, s.Scaler.Deviations(stats, x), s.treat(s.Kinds[1], false, false, true), 1)
			}
			if s.events++; due {
				varied, before := stats[model.StatInverse] > 0, score(2)
				gone := s.turnCounts(func(uint32) []float64 { return stats }, func(_ []float64, ratio, shift float64) {
					intercept += shift * weight
					weight *= ratio
				})
				if turns++; varied && math.Abs(score(2)-before) > 1e-12 || (len(gone) == 1) != (s.Kinds[1] == countKind) {
					t.Errorf("%s, event %d: the score of 2 was %v, is %v; gone %v", c.name, i, before, score(2), gone)
				}
			}
			if i == 30 || i == 300 { // a restart
				var a, b coder.Coder
				s.countsState(&a)
				again := newScaling(Settings{Standardize: model.StandardizeAuto}, false)
				d := coder.Read(a.Out)
				again.countsState(d)
				again.addField(event.Sparse)
				again.addField(event.Numeric)
				again.countsState(&b)
				must.True(t, d.Done() && bytes.Equal(a.Out, b.Out) && again.Kinds[1] == s.Kinds[1], "%s: the state does not come back: kind %v for %v", c.name, again.Kinds[1], s.Kinds[1])
				again.events = s.events
				s = again
			}
		}
		counts := s.Kinds[1] == countKind
		must.True(t, counts == c.counts && turns == c.turns && s.counts.open == 0, "%s: counts %v, after %d turns, %d fields are open", c.name, counts, turns, s.counts.open)
	}
}

// TestDense checks that a column in nearly all events is dense unless its value is always 1. A column in half of the
// events must not be dense. A dense column that becomes rare must no longer be dense, and scores and state must not
// change.
func TestDense(t *testing.T) {
	s, r := newScaling(Settings{Standardize: model.StandardizeAuto}, false), rand.New(rand.NewPCG(1, 2))
	rows, weights, intercept := map[uint32][]float64{}, map[uint32]float64{}, 0.0
	row := func(column uint32) []float64 {
		if rows[column] == nil {
			rows[column] = make([]float64, model.ScalerWidth+1)
			rows[column][model.ScalerWidth] = float64(column)
			weights[column] = 0.1 * float64(column)
		}
		return rows[column]
	}
	move := func(row []float64, ratio, shift float64) {
		column := uint32(row[model.ScalerWidth])
		intercept += weights[column] * shift
		weights[column] *= ratio
	}
	score := func() float64 { return intercept + weights[1]*s.Scaler.Apply(row(1), 5) }
	var gone []uint32
	learn := func(x event.Vec) {
		columns, raw, _ := s.columns(x)
		for i, column := range columns {
			stats := row(column)[:model.ScalerWidth]
			_, dense := find(s.Scaler.Dense, column)
			m := s.observe(column, stats, raw[i], s.Scaler.Deviations(stats, raw[i]), s.treat(event.Sparse, dense, false, s.settled()), 0)
			move(row(column), m.Ratio, m.Shift)
		}
		if before := score(); s.count(x) {
			gone = append(gone, s.review(nil, row, move)...)
			after := score()
			must.Require(t, math.Abs(after-before) <= 1e-9, "event %d: a score of %v has become %v", s.events, before, after)
		}
	}
	s.addField(event.Sparse)
	for i := range 1500 {
		x := event.Vec{Index: []uint32{1, 2}, Value: []float64{5 + r.NormFloat64(), 1}}
		if i%2 == 0 {
			x.Index, x.Value = append(x.Index, 3), append(x.Value, r.Float64())
		}
		learn(x)
	}
	must.Require(t, len(s.Scaler.Dense) == 1 && s.Scaler.Dense[0] == 1 && len(gone) == 0, "dense columns %v, gone %v, want 1 alone", s.Scaler.Dense, gone)
	again, was := newScaling(Settings{Standardize: model.StandardizeAuto}, false), &coder.Coder{}
	s.denseState(was)
	c := coder.Read(was.Out)
	again.Scaler = s.Scaler
	again.denseState(c)
	must.True(t, c.Done() && !again.misfit() && again.events == s.events, "the state does not come back")
	for range 600 {
		learn(event.Vec{Index: []uint32{2}, Value: []float64{1}})
	}
	must.True(t, len(s.Scaler.Dense) == 0 && len(gone) == 1, "dense columns %v, gone %v, want none and 1", s.Scaler.Dense, gone)
}

func find(list []uint32, x uint32) (int, bool) {
	for i, y := range list {
		if y == x {
			return i, true
		}
	}
	return 0, false
}

// sparse passes events of a sparse text format to a Scaling. It returns the treatment of each numeric column, which is
// "dense" or "spread".
func sparse(t *testing.T, events int, next func(i int) event.Vec) map[uint32]string {
	s, rows := newScaling(Settings{Standardize: model.StandardizeAuto}, false), map[uint32][]float64{}
	s.addField(event.Sparse)
	row := func(column uint32) []float64 {
		if rows[column] == nil {
			rows[column] = make([]float64, model.ScalerWidth)
		}
		return rows[column]
	}
	for i := range events {
		x := next(i)
		columns, raw, _ := s.columns(x)
		for j, column := range columns {
			_, dense := find(s.Scaler.Dense, column)
			stats := row(column)
			s.observe(column, stats, raw[j], s.Scaler.Deviations(stats, raw[j]), s.treat(event.Sparse, dense, slices.Contains(s.SpreadColumns(), column), s.settled()), 0)
		}
		if s.count(x) {
			s.review(nil, row, func([]float64, float64, float64) {})
		}
	}
	out := map[uint32]string{}
	for _, column := range s.Scaler.Dense {
		out[column] = "dense"
	}
	for _, column := range s.SpreadColumns() {
		out[column] += "spread"
		got, want := rows[column][model.StatInverse], model.SpreadInverse(rows[column], float64(events))
		must.True(t, math.Abs(got-want) <= 0.1*want, "column %d is multiplied by %v, want %v", column, got, want)
	}
	return out
}

// TestTable checks that the numeric columns of a table are found although many rows omit them. Columns that are always
// 1, hardly vary, or are rarely present must not be found. No word of a text may be found, however usual.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := sparse(t, 3000, func(int) (x event.Vec) {
		for column, often := range []float64{1: 0.7, 2: 0.2, 3: 0.2, 4: 0.5, 5: 0.01, 6: 0.95} {
			if r.Float64() < often {
				value := []float64{1: r.NormFloat64(), 2: 100 * r.ExpFloat64() * r.ExpFloat64(), 3: 5 + r.Float64(), 4: 1, 5: r.Float64(), 6: r.NormFloat64()}[column]
				x.Index, x.Value = append(x.Index, uint32(column)), append(x.Value, value)
			}
		}
		return x
	})
	for column, want := range map[uint32]string{1: "spread", 2: "spread", 4: "", 5: "", 6: "dense"} {
		must.True(t, numbers[column] == want, "column %d is %q, want %q", column, numbers[column], want)
	}
	words := sparse(t, 1500, func(int) (x event.Vec) {
		for column := range uint32(2000) {
			if p := 5 / float64(column+10); column < 4 || r.Float64() < p {
				x.Index, x.Value = append(x.Index, column), append(x.Value, float64(1+r.IntN(3)))
			}
		}
		return x
	})
	must.True(t, len(words) == 0, "%d words are numbers: %v", len(words), words)
}

// TestKnotsAgain checks that a column that restarts gets the same number of new knots. An old snapshot must keep the
// old knots.
func TestKnotsAgain(t *testing.T) {
	s, r := newScaling(Settings{Standardize: model.StandardizeAuto, Knots: func(int) int { return 5 }}, false), rand.New(rand.NewPCG(1, 2))
	s.addField(event.Numeric)
	stats := make([]float64, model.ScalerWidth)
	read := func(x float64) {
		s.countForKnots(&event.Example{}, 9, func() []uint16 { return nil })
		z := s.Scaler.Deviations(stats, x)
		s.reading(5, 0, x, z)
		s.observe(5, stats, x, z, treatNumeric, 0)
		s.events++
	}
	for range 3000 {
		read(1000 * r.NormFloat64())
	}
	was := s.Scaler.Splines
	must.Require(t, was != nil && len(was.Knots[0]) == 5 && was.Knots[0][4] >= 1000, "knots %v", was)
	for range 6000 {
		read(r.NormFloat64())
	}
	now := s.Scaler.Splines
	must.True(t, len(now.Knots[0]) == 5 && now.Knots[0][4] <= 10 && now.Knots[0][4] >= 1 && was.Knots[0][4] >= 1000, "knots %v have become %v", was.Knots, now.Knots)
	scale := s.Scaler.Standardization(stats).Scale
	must.True(t, scale <= 1.2 && scale >= 0.8, "the scale is %v", scale)
	for i := range 6000 { // few different values, but the spline keeps its number of knots
		read(0.001 * float64(i%3))
	}
	if now := s.Scaler.Splines.Knots[0]; len(now) != 5 || now[2] != 0.002 || now[4] <= now[3] {
		t.Errorf("knots of three values: %v", now)
	}
}

// TestCounterDoesNotShrink checks that a column restarts if samples span a thousandth of its scale. A column must not
// restart if the readings in its samples ascend or descend, like the readings of a counter that is often reset.
func TestCounterDoesNotShrink(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(r *rand.Rand, i int) float64
		want  bool
	}{
		{"readings", func(r *rand.Rand, _ int) float64 { return r.Float64() }, true},
		{"ascending", func(_ *rand.Rand, i int) float64 { return float64(i%model.FirstReadings) / model.FirstReadings }, false},
		{"descending", func(_ *rand.Rand, i int) float64 { return -float64(i%model.FirstReadings) / model.FirstReadings }, false},
		{"drifting", func(r *rand.Rand, i int) float64 { return r.Float64() + float64(i)/8 }, false},
	} {
		s, r := newScaling(Settings{Standardize: model.StandardizeAuto}, false), rand.New(rand.NewPCG(1, 2))
		stats, shrinks := make([]float64, model.ScalerWidth), false
		s.Scaler.Set(stats, 2100, 0, 2100*1e6, 0)
		for i := range 20 * model.FirstReadings {
			shrinks = s.sample(5, stats, c.value(r, i)) != nil || shrinks
		}
		must.True(t, shrinks == c.want, "%s: shrinks: %v", c.name, shrinks)
	}
}

// TestWideSamples checks that isWide is true only for readings whose scale scaleOf finds to be as large, and for most normal
// readings.
func TestWideSamples(t *testing.T) {
	r, wide := rand.New(rand.NewPCG(1, 1)), 0
	s := newScaling(Settings{Standardize: model.StandardizeAuto}, false)
	for trial := range 4000 {
		readings := make([]float64, model.FirstReadings)
		for i := range readings {
			if readings[i] = r.NormFloat64(); trial%4 > 0 && i < trial/4%17 {
				readings[i] *= []float64{0, 1e-3, 0.05, 100}[trial%4]
			}
		}
		r.Shuffle(len(readings), func(i, j int) { readings[i], readings[j] = readings[j], readings[i] })
		scale := []float64{1, 3, 8, 15}[trial/68%4]
		is := isWide(readings, scale)
		now := s.scaleOf(readings, 0).Scale
		must.Require(t, !is || now*model.ScalerClip >= scale, "trial %d: the scale %v is not wide for %v: %v", trial, now, scale, readings)
		if is && trial%4 == 0 && scale == 1 {
			wide++
		}
	}
	must.True(t, wide >= 150, "only %d samples are wide", wide)
}

// TestOutliersLast checks that a column restarts at the same outlier if the readings were saved and read on the way.
func TestOutliersLast(t *testing.T) {
	for saved := range lasting {
		var readings recentReadings
		for n := 1; ; n++ {
			if n == saved {
				w := coder.Coder{}
				readings.state(&w)
				readings = recentReadings{}
				readings.state(coder.Read(w.Out))
			}
			if readings.of(3).addOutlier(float64(100+n), float64(n)) {
				must.True(t, n == lasting, "saved before outlier %d: the column restarts at outlier %d, want %d", saved, n, lasting)
				break
			}
			must.Require(t, n <= lasting, "saved before outlier %d: no restart", saved)
		}
	}
}
