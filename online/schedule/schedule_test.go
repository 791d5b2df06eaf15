package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// TestHalfLifeStep checks wrong event times. A single time far ahead does not count, and a pause of the stream counts
// as one step. The clock must return to the right time after many wrong times.
func TestHalfLifeStep(t *testing.T) {
	const start, step, year = 1_700_000_000_000, 60_000, 365 * 24 * 3600 * 1000
	f := NewClock(0, step/1000/mostStep)
	now, passed := int64(start), int64(0)
	each := func(n int, wrong func(i int) int64) {
		passed = 0
		for i := range n {
			now += 1000
			passed += f.tick(now + wrong(i))
		}
	}
	right := func(int) int64 { return 0 }
	each(5000, func(i int) int64 {
		switch i % 50 {
		case 7:
			return year
		case 9, 10:
			return -year
		}
		return 0
	})
	must.True(t, passed == 4999*1000 && f.lastTime == now, "%d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
	now += year
	each(10, right)
	must.True(t, passed == step+8*1000 && f.lastTime == now, "with a pause %d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
	each(10, func(int) int64 { return year })
	must.True(t, f.lastTime == now+year, "ten times that agree: the clock is %d ms off", f.lastTime-now-year)
	each(2000, right)
	must.True(t, passed == 1000*(2000-behindFor) && f.lastTime == now, "after wrong times %d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
}

// TestImportance checks that the weight of an event is limited to 32 times the average weight, and that equal large
// weights are not reduced.
func TestImportance(t *testing.T) {
	var i Importance
	for range 99 {
		i.Observe(1)
	}
	must.Equal(t, i.Observe(1e6), MostImportance, "1e6 among events of 1 counts")
	got, want := i.Bound(1e6), MostImportance*(100.+MostImportance)/101
	must.True(t, got == want, "the next one counts %v, want %v", got, want)
	i = Importance{}
	for range 10 {
		i.Observe(1e6)
	}
	must.Equal(t, i.Observe(2e6), 2e6, "2e6 among events of 1e6 counts")
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		weight   float64
		doubling bool
		want     []float64
	}{
		{0.5, true, []float64{0.5}},
		{3, true, []float64{1, 1, 1}},
		{2.5, false, []float64{2.5 / 3, 2.5 / 3, 2.5 / 3}},
		{24, true, append(slices.Repeat([]float64{1}, 16), 1, 2, 4, 1)},
		{32, false, slices.Repeat([]float64{1}, 32)},
		{320, false, slices.Repeat([]float64{10}, 32)},
	} {
		var got []float64
		Parts(c.weight, c.doubling, func(part float64) { got = append(got, part) })
		must.True(t, slices.Equal(got, c.want), "%v, %v: %v, want %v", c.weight, c.doubling, got, c.want)
	}
	n := 0
	Parts(MostImportance*1e30, true, func(float64) { n++ })
	must.True(t, n <= MostParts, "%d parts", n)
}

// TestPace compares the lazily updated average with its definition, also after a Rebase. If the average is clearly
// better than the iterate, it must cover more of the stream. If it is clearly worse, it must not be published, and must
// restart.
func TestPace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := New(0.005, true)
	w, lag, want, began, rebased := 0.0, 0.0, 0.0, 0, false
	learn := func(events int, gain float64) {
		for range events {
			if began++; uint64(began)%Every(uint64(began)) == 0 {
				p.Compare(gain+0.01*r.NormFloat64(), Every(uint64(began)))
				if p.Choose(); p.Taken == 0 {
					began = 0
				}
			}
			power := must.Either(p.Steady(), 1/(2.5*0.005)-1, 1/0.005-1)
			delta := r.NormFloat64()
			w, lag = w+delta, lag-delta*p.Inverse
			beta := (1 + power) / (float64(p.Taken+1) + 1 + power)
			if want += beta * (w - want); p.Advance() {
				lag, rebased = lag*p.Rebase(), true
			}
			got := w + p.Coefficient*lag
			must.Require(t, math.Abs(got-want) <= 1e-8, "after %d steps: average %v, want %v", p.Taken, got, want)
		}
	}
	learn(90, 0)
	must.True(t, !p.Steady() && p.LagWeight() != 0, "a verdict of nothing")
	learn(4000, -0.1)
	must.True(t, rebased && p.Steady() && p.Rate(1) == 0.8 && p.LagWeight() == p.Coefficient, "at rest: rebased %v, steady %v, rate %v", rebased, p.Steady(), p.Rate(1))
	learn(3000, 1)
	must.True(t, p.LagWeight() == 0 && p.Taken <= 4000 && p.Rate(1) == 1, "left behind: share %v of an average of %d steps, rate %v", p.LagWeight(), p.Taken, p.Rate(1))
}

// TestStandsFor checks which events count for how many: only confident ones are sampled, only after the first events,
// the least confident score decides, and events count once in expectation.
func TestStandsFor(t *testing.T) {
	stands := func(number uint64, scores ...float64) float64 {
		return StandsFor(number, scores, []float64{1, -1}, 3) // the third output is not in use
	}
	for number := range uint64(sampleFrom) {
		must.True(t, stands(number, 20, -20, 0) == 1, "event %d is sampled", number)
	}
	for margin, most := range map[float64]float64{confident - 0.01: 1, confident + 0.01: 2, confident + 1: 4, confident + 2: 8, confident + 2.5: 16, 40: 16} {
		sum, count := 0.0, 0.0
		for number := range uint64(1 << 14) {
			w := stands(sampleFrom+number, margin, -30, 0, 30, -margin, 0)
			must.True(t, w == 0 || w == most, "a margin of %v counts %v times", margin, w)
			if sum += w; w > 0 {
				count++
			}
		}
		must.True(t, math.Abs(sum/(1<<14)-1) < 0.01, "a margin of %v counts %v times on average", margin, sum/(1<<14))
		must.True(t, math.Abs(count*most/(1<<14)-1) < 0.01, "of margin %v, %v events are learned", margin, count)
	}
	must.True(t, stands(1<<20+1, 9, 9, 0) == 1 && stands(1<<20+1, 9, -9, 0, math.NaN(), -9, 0) == 1, "a wrong score or NaN is sampled")
}

// TestSamples checks for all losses that confident events are sampled only where their gradients are small.
func TestSamples(t *testing.T) {
	sampled := 0
	for _, l := range eventtest.Losses() {
		if !Samples(l) {
			continue
		}
		sampled++
		for margin := confident; margin < 40; margin++ {
			_, df, _ := l.At(1, margin, 0)
			must.True(t, math.Abs(df) < 0.2, "%v has the derivative %v at the margin %v", l, df, margin)
		}
	}
	must.True(t, sampled >= 8 && sampled < len(eventtest.Losses()), "%d of %d losses are sampled", sampled, len(eventtest.Losses()))
}
