package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestObserveScale checks the scale of a column that is divided by the largest |x|. The scale at most doubles at a
// time, and the returned ratio keeps the scores when the weight is multiplied by it.
func TestObserveScale(t *testing.T) {
	var s Scaler
	for _, tt := range []struct {
		readings, inverse, ratio []float64
	}{
		{[]float64{0.5, -1, 0.25}, []float64{1, 1, 1}, []float64{1, 1, 1}},
		{[]float64{-4, 3, 4}, []float64{1. / 4, 1. / 4, 1. / 4}, []float64{1, 1, 1}},
		{[]float64{0.5, -1.5, 9, 9}, []float64{1, 1 / 1.5, 1 / 3., 1 / 6.}, []float64{1, 1.5, 2, 2}},
		{[]float64{2, 1e9, 2, 1e9}, []float64{1 / 2., 1 / 2., 1 / 2., 1 / 2.}, []float64{1, 1, 1, 1}},
	} {
		stats := make([]float64, ScalerWidth)
		for i, x := range tt.readings {
			ratio, _ := s.ObserveScale(stats, x)
			must.True(t, math.Abs(stats[StatInverse]-tt.inverse[i]) <= 1e-15 && math.Abs(ratio-tt.ratio[i]) <= 1e-15 && stats[StatCount] == float64(i+1),
				"%v, reading %d: statistics %v and ratio %v, want 1/scale %v and ratio %v", tt.readings, i, stats, ratio, tt.inverse[i], tt.ratio[i])
		}
	}
}

// TestObserveSpread checks that a column that most events omit is divided by its deviation over all events.
func TestObserveSpread(t *testing.T) {
	var s Scaler
	r := rand.New(rand.NewPCG(1, 2))
	for _, fraction := range []float64{0.1, 0.5, 1} {
		stats := make([]float64, ScalerWidth)
		total, sum, squares := 0.0, 0.0, 0.0
		for n := 0.0; n < 64; { // the statistics are updated at powers of two
			total++
			if r.Float64() >= fraction {
				continue
			}
			x := 3 + r.NormFloat64()
			n, sum, squares = n+1, sum+x, squares+x*x
			s.ObserveSpread(stats, x, total)
		}
		mean := sum / total
		sd := math.Sqrt(squares/total - mean*mean)
		usual := math.Sqrt(squares / 64)
		want := 1 / max(sd, usual/ScalerClip)
		must.True(t, math.Abs(stats[StatInverse]/want-1) <= 1e-9, "in %v of the events: multiplied by %v, want %v", fraction, stats[StatInverse], want)
		got := SpreadInverse(stats, total)
		must.True(t, got == stats[StatInverse], "SpreadInverse %v, statistics %v", got, stats)
	}
	// The column is so rare that its usual value would be clipped.
	got, want := SpreadInverse([]float64{2, 3, 0, 0, 0}, 1e4), ScalerClip/3.
	must.True(t, math.Abs(got-want) <= 1e-12, "in two of 10,000 events: multiplied by %v, want %v", got, want)
	must.Equal(t, SpreadInverse(make([]float64, ScalerWidth), 5), 0, "a column that was never met is multiplied by")
	must.Equal(t, SpreadInverse([]float64{3, 0, 0, 0, 0}, 5), 0, "a column that was only 0 is multiplied by")
}

// TestScalerEach checks that Each yields every column of an event once, and the dense columns that the event lacks
// as 0.
func TestScalerEach(t *testing.T) {
	for _, tt := range []struct {
		dense, index, want []uint32
	}{
		{nil, []uint32{1, 5}, []uint32{1, 5}},
		{[]uint32{2}, nil, []uint32{2}},
		{[]uint32{0, 2, 5, 9}, []uint32{1, 2, 7}, []uint32{0, 1, 2, 5, 7, 9}},
		{[]uint32{1, 2}, []uint32{1, 2, 3}, []uint32{1, 2, 3}},
	} {
		s := Scaler{Dense: tt.dense}
		x := event.Vec{Index: tt.index}
		for i := range tt.index {
			x.Value = append(x.Value, float64(i+1))
		}
		var columns []uint32
		at := 0
		for column, value := range s.Each(x) {
			columns = append(columns, column)
			want := 0.0
			if at < len(tt.index) && tt.index[at] == column {
				at++
				want = float64(at)
			}
			must.True(t, value == want, "%v: column %d is %v, want %v", tt, column, value, want)
		}
		must.True(t, slices.Equal(columns, tt.want) && at == len(tt.index), "%v: columns %v", tt, columns)
		for range s.Each(x) { // the caller may stop early
			break
		}
		room := event.Vec{Index: []uint32{9, 9}, Value: []float64{9, 9}}
		list := s.Columns(x, &room)
		must.True(t, slices.Equal(list.Index, tt.want) && len(list.Value) == len(tt.want) && (len(tt.want) != len(tt.index) || room.Len() <= 0), "%v: listed %v, in the room %v", tt, list, room)
	}
}

// TestOutlyingSpreadAtRenewal checks an outlier that coincides with an update of the scale, in a column that most events
// omit. The returned ratio must be 1, so that no weight changes.
func TestOutlyingSpreadAtRenewal(t *testing.T) {
	s := Scaler{Mode: StandardizeAll}
	stats := make([]float64, ScalerWidth)
	for n := 1; n < 64; n++ {
		s.ObserveSpread(stats, float64(n%2)+1, float64(2*n))
	}
	was := stats[StatInverse]
	ratio := s.ObserveSpread(stats, 1e6, 128)
	must.True(t, ratio == 1 && stats[StatInverse] < was, "ratio %v; the inverse scale is %v, was %v", ratio, stats[StatInverse], was)
}

// TestIsOutlier checks that IsOutlier returns true exactly for the values that Clip returns for outliers.
func TestIsOutlier(t *testing.T) {
	stats := make([]float64, ScalerWidth)
	stats[StatCenter], stats[StatInverse] = 2, 1
	var s Scaler
	for _, z := range []float64{0, 1, -3, 5, -7.5, 1.01 * ScalerClip, -100, 1e30} {
		got, want := IsOutlier(s.Clip(stats, z)), math.Abs(z) > ScalerClip
		must.True(t, got == want, "a reading of %v deviations is wild: %v, want %v", z, got, want)
	}
}

// TestCountWithin checks that CountWithin leaves the same statistics as ObserveScale whenever it counts a reading,
// and that it counts nearly all readings within the scale.
func TestCountWithin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	for range 200 {
		var slow, fast [ScalerWidth]float64
		size, counted := math.Exp(6*r.NormFloat64()), 0
		s := Scaler{}
		for n := 1.0; n <= 3000; n++ {
			x := size * r.NormFloat64()
			switch {
			case r.IntN(300) == 0:
				x *= 1000
			case n == 1500:
				size /= 100 * r.Float64()
			}
			s.ObserveScale(slow[:], x)
			if z := math.Abs(x) * fast[StatInverse]; fast[StatInverse] > 0 && z <= 1 && CountWithin(&fast, n, math.Abs(x)) {
				counted++
			} else {
				s.ObserveScale(fast[:], x)
			}
			must.Require(t, slow == fast, "reading %v is %v: %v, want %v", n, x, fast, slow)
		}
		must.True(t, counted >= 2500, "%d of 3,000 readings were counted", counted)
	}
}

// TestBegin checks that Begin sets the mean and deviation of ordinary readings. If a minority of
// the readings are outliers, the result must be close to the mean and deviation of the other readings.
func TestBegin(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var s Scaler
	for range 500 {
		n := 8 + r.IntN(FirstReadings-7)
		x := make([]float64, n)
		sum, squares := 0.0, 0.0
		for i := range x {
			x[i] = 300 + 40*r.NormFloat64()
			sum += x[i]
			squares += x[i] * x[i]
		}
		mean := sum / float64(n)
		deviation := math.Sqrt(squares/float64(n) - mean*mean)
		stats := make([]float64, ScalerWidth)
		s.Begin(stats, float64(n), x, true)
		got := s.Standardization(stats)
		must.Require(t, math.Abs(got.Center-mean) <= 1e-9*mean && math.Abs(got.Scale/deviation-1) <= 1e-9 && got.Transform == "", "%v: %+v, want %v and %v", x, got, mean, deviation)
		for i := range n / 8 {
			x[i*5] = []float64{1e30, -1e12, 9e18, 1e6}[i%4]
		}
		s.Begin(stats, float64(n), x, false)
		if got := s.Standardization(stats); math.Abs(got.Center-mean) > 2.5*deviation || got.Scale > 4*deviation || got.Scale < deviation/4 {
			t.Fatalf("with wild ones %v: %+v, without %v and %v", x, got, mean, deviation)
		}
	}
}

// TestPackUnit checks that unitOf returns the packed unit, and that packing hardly changes the scale.
func TestPackUnit(t *testing.T) {
	for exponent := -120; exponent <= 120; exponent++ {
		for _, inverse := range []float64{1e-30, 0.3, 1, 7e20} {
			unit := math.Ldexp(1, exponent)
			packed := packUnit(inverse, unit)
			must.Require(t, unitOf(packed) == unit && math.Abs(-packed/inverse-1) <= 1e-12, "%v of unit %v: %v of unit %v", inverse, unit, packed, unitOf(packed))
		}
	}
	must.True(t, unitOf(packUnit(2, 0)) == 0 && packUnit(2, 0) == 2, "no unit is one")
}

// FuzzBegin checks, for any readings, that the statistics are finite and that a standardized value is within its
// bounds.
func FuzzBegin(f *testing.F) {
	f.Add(1.0, 2.0, 1e30, uint8(9), uint8(0))
	f.Add(0.0, 0.0, 1e-300, uint8(32), uint8(1))
	f.Add(-1e30, 1e30, 5e-324, uint8(20), uint8(2))
	f.Fuzz(func(t *testing.T, a, b, c float64, n, which uint8) {
		for _, x := range []float64{a, b, c} {
			if !(math.Abs(x) <= 1e30) {
				return
			}
		}
		count := 1 + int(n)%FirstReadings
		x := must.List(count, func(i int) float64 { return []float64{a, b, c, a * 0.5}[(i*7+int(n))%4] })
		var s Scaler
		stats := make([]float64, ScalerWidth)
		s.Begin(stats, float64(count), x, which%2 == 0)
		for range 100 {
			for _, v := range append(x, a, b, c, 1e30, -1e30) {
				z := s.Apply(stats, v)
				must.Require(t, math.Abs(z) <= ScalerClip, "%v of %v is %v", v, stats, z)
				s.Observe(stats, v, s.Deviations(stats, v))
			}
		}
		must.Finite(t, stats, "statistics")
	})
}
