package online

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/mixture"
)

// Forecasts returns the forecast errors, by point, of events with declared missing and with silently missing features.
func (l *Learner) Forecasts() (declared, silent [mixture.Points]float64) {
	f := &l.predictor.mixture.Forecasts
	declared, _ = f.Of(&f.Features, 0)
	silent, _ = f.Of(&f.SilentFeatures, 0)
	return declared, silent
}

// Pairs returns the pairs of features that are dropped together in the last encoded event. MaskLast returns, for each
// feature, the last point of the mask at which the feature is present. It returns nil if no mask was drawn for the last
// event.
func (l *Learner) Pairs() [][2]int32 { return l.room.in.Pairs }

func (l *Learner) MaskLast() []int8 {
	if !masks(l.events, l.predictor.imputer.Columns()) {
		return nil
	}
	return l.masked.mask.Last
}

// KeepsCosines returns the steps after which a part of the cosines that an earlier event had is still in effect, although
// no event with such a part is current. It is for a Learner whose cosines have no part in complete events.
func (l *Learner) KeepsCosines() (steps []string) {
	x, in, by := &l.predictor.cosines, &l.room.in, &mixture.Event{Outputs: 1, Active: 1, Label: 1}
	for step, f := range map[string]func(){
		"an event":               func() { l.predictor.readCosines(in, false, &imputed{}) },
		"a masked copy":          func() { l.masked.readMaskedCosines(in, &labeled{}, 0) },
		"a number of outputs":    func() { x.setOutputs(len(x.sum)) },
		"a comparison of losses": func() { x.observe(0, x.base, by) },
	} {
		x.some = true
		if f(); x.part() != nil {
			steps = append(steps, step)
		}
	}
	return steps
}

// NestedScores returns the scores of nested copies of the last encoded event, scored together and each alone, without copy
// 0. Feature i is present up to copy last(i). corrects reports whether the correcting experts, with splines, have scored
// them.
func (l *Learner) NestedScores(last func(i int) int8) (together, alone [][]float64, corrects bool) {
	x, in := l.predictor, &l.room.in
	until := must.List(in.Features(), last)
	n, one := x.newNested(), x.newScored()
	for range 2 { // the second time reuses memory
		x.scoreNested(in, until, x.corrects(true), &n)
	}
	for i := 1; i < mixture.Points; i++ {
		var left encode.Input
		in.Mask(must.Map(until, func(at int8) bool { return int(at) < i }), &left)
		x.score(&left, true, &one)
		together, alone = append(together, n.copies[i].components), append(alone, slices.Clone(one.components))
	}
	return together, alone, one.some && len(x.experts.Columns()) > len(x.experts.NumericColumns())
}

// TestSampled checks which part of the events the samples have, early and late in a stream.
func TestSampled(t *testing.T) {
	const n = 1 << 14
	for name, c := range map[string]struct {
		first  uint64
		chosen func(number uint64) bool
		want   float64 // fraction of the events
	}{
		"examined early, few columns":    {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsFew, true); return whole }, 1. / 4},
		"copies early":                   {1, func(i uint64) bool { _, copies := doubts(i%doubtsFirst, doubtsFew, true); return copies }, 1. / 4},
		"examined early, many columns":   {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsFew+1, true); return whole }, 1. / 16},
		"examined early, without gain":   {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsWide, false); return whole }, 1. / 16},
		"examined, more columns":         {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsWide+1, true); return whole }, 1. / 32},
		"examined later":                 {doubtsFirst + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, true); return whole }, 1. / 32},
		"copies later":                   {doubtsFirst + 1, func(i uint64) bool { _, copies := doubts(i, doubtsFew, true); return copies }, 1. / 128},
		"examined later, without gain":   {doubtsFirst + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, false); return whole }, 1. / 128},
		"examined late":                  {masksFew + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, true); return whole }, 1. / 64},
		"mixture weights":                {decidesAll + 1, func(i uint64) bool { return decides(i, 0) }, 1. / 4},
		"mixture weights late":           {decidesSome + 1, func(i uint64) bool { return decides(i, 0) }, 1. / 16},
		"a fresh expert":                 {decidesSome + 1, func(i uint64) bool { return decides(i, math.MaxUint64) }, 1},
		"points of early masks":          {1, func(i uint64) bool { return turns(i%masksWhole, int(i%7)) }, 1},
		"points of masks":                {masksWhole + 1, func(i uint64) bool { return turns(i, int(i*i%7)) }, 1. / 3},
		"points that are predicted":      {1, func(i uint64) bool { return predicts(masksFew, masksWhole+i, int(i%7)) }, 1},
		"points that are predicted late": {1, func(i uint64) bool { return predicts(masksFew+1, masksWhole+i, int(i*i%7)) }, 1. / 3},
		"dead copies":                    {1, dies, 1. / 2},
	} {
		got := float64(must.Count(n, func(i int) bool { return c.chosen(c.first + uint64(i)) })) / n
		must.True(t, math.Abs(got-c.want) <= 0.03*c.want, "%s: %v of the events, want %v", name, got, c.want)
	}
	for i := range uint64(1000) { // examined events are fewer without gain, not others
		if whole, copies := doubts(doubtsFirst+1+i, 8, false); whole || copies {
			all, _ := doubts(doubtsFirst+1+i, 8, true)
			must.True(t, all, "event %d is examined only without gain", i)
		}
	}
}

// TestMemoryBound checks that a column that is already in the table needs no additional memory, and that first returns the
// first column that does not fit.
func TestMemoryBound(t *testing.T) {
	table := model.NewTable(10)
	for column := range uint32(5) {
		table.Touch(10 * column)
	}
	for _, c := range []struct {
		rows    int // number of rows that fit
		columns []uint32
		width   int
		i, n    int
	}{
		{8, []uint32{0, 1, 2, 3}, 10, -1, 8},
		{7, []uint32{0, 1, 2, 3}, 10, 3, 8},
		{6, []uint32{0, 1, 10, 20, 21}, 10, 4, 7},
		{5, []uint32{0, 10, 20, 30, 40}, 10, -1, 5},
		{5, []uint32{0, 10, 20, 30, 41}, 10, 4, 6},
		{4, []uint32{0, 10, 20}, 10, -1, 5}, // already above the bound
		{8, []uint32{1, 2, 3}, 11, 2, 8},
	} {
		i, n := memoryBound(80*c.rows).first(table, c.columns, c.width)
		must.True(t, i == c.i && (i < 0 || n == c.n), "room for %d rows, columns %v of %d numbers: entry %d, row %d, want %d, %d", c.rows, c.columns, c.width, i, n, c.i, c.n)
	}
	i, _ := memoryBound(0).first(table, []uint32{1}, 1<<15)
	must.True(t, i < 0, "no bound refuses")
	must.True(t, memoryBound(80).fits(1, 10) && !memoryBound(79).fits(1, 10) && !memoryBound(1<<40).fits(1<<31, 1<<14), "bytes are not rows times width times 8")
}
