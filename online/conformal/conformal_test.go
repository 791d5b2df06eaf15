package conformal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// met passes events from next to c. It counts the sets (used), the sets without the true class (missed), and the sets of
// one class, which is the true class (smallest).
func met(c *Predictor, r int, next func(n int, limit float64) Score, events int) (missed, used, smallest float64) {
	for n := range events {
		limit := c.Limit(r)
		x := next(n, limit)
		if limit >= 0 {
			used++
			switch held := x.First || x.Value <= limit; {
			case !held:
				missed++
			case limit == 0:
				smallest++
			}
		}
		c.Take(r, x)
	}
	return missed, used, smallest
}

// TestCoverageOfAnySequence checks the bounds for any sequence of T scores. At most a T + (a + gamma)/gamma labels may
// be missed, plus a few while the limit adapts. At least a (T - S) - 1/gamma labels must be missed, where S is the
// number of sets that could not be smaller. Scores jump, shrink, are equal, or are chosen by an adversary who sees the
// limit.
func TestCoverageOfAnySequence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sequences := map[string]func(n int, limit float64) Score{
		"drawn": func(int, float64) Score { return Score{Value: r.ExpFloat64()} },
		"right": func(int, float64) Score { return Score{Value: r.ExpFloat64(), First: r.Float64() < 0.8} },
		"enemy": func(_ int, limit float64) Score { return Score{Value: min(model.MostLimit, max(limit, 0)*1.001+1e-9)} },
		"friend": func(_ int, limit float64) Score {
			return Score{Value: max(limit, 0) / 2}
		},
		"shrinking": func(n int, _ float64) Score { return Score{Value: 1 / float64(n+1)} },
		"growing":   func(n int, _ float64) Score { return Score{Value: min(model.MostLimit, float64(n)/100)} },
		"jumps":     func(n int, _ float64) Score { return Score{Value: math.Exp(float64(n / 700 % 7))} },
		"equal":     func(int, float64) Score { return Score{Value: 3} },
		"worst":     func(int, float64) Score { return Score{Value: model.MostLimit} },
		"turns": func(n int, limit float64) Score { // small scores for long, then large ones
			return Score{Value: 2 + r.Float64(), First: n < 20_000}
		},
	}
	for name, next := range sequences {
		for _, coverage := range []float64{0.5, 0.9, 0.99} {
			for _, events := range []int{500, 5000, 40_000} {
				c, a := New(coverage), 1-coverage
				missed, used, smallest := met(c, 2, next, events)
				most := a*used + (a+gamma)/gamma + every
				must.True(t, missed <= most, "%s, coverage %v: %v of %v missed, at most %v may be", name, coverage, missed, used, most)
				least := a*(used-smallest) - 1/gamma - every
				must.True(t, missed >= least, "%s, coverage %v: %v of %v missed, at least %v should be", name, coverage, missed, used, least)
			}
		}
	}
}

// TestSmallestSets checks that prediction sets contain only the most probable class while that class is right often
// enough. If it is right less often, the sets must grow within about memory events.
func TestSmallestSets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c := New(0.9)
	draw := func(right float64) Score { return Score{Value: 1 + r.Float64(), First: r.Float64() < right} }
	for range 50_000 {
		c.Take(0, draw(0.97))
	}
	must.True(t, c.Limit(0) <= 1, "the limit is %v where 97 %% are right", c.Limit(0))
	held, used := 0.0, 0.0
	for n := range 3 * memory {
		x := draw(0.6)
		if n >= memory {
			if used++; x.First || x.Value <= c.Limit(0) {
				held++
			}
		}
		c.Take(0, x)
	}
	must.True(t, held/used >= 0.88, "%v are held after the stream has become hard", held/used)
}

// TestTooFewScores checks that a range with too few scores has no limit. Readers then use the limit of the next higher
// range (more missing fields) that has a limit.
func TestTooFewScores(t *testing.T) {
	c := New(0.9)
	for n := range enough + every {
		must.Require(t, n >= enough || c.Limit(3) < 0, "%d scores are enough", n)
		c.Take(3, Score{Value: 1})
	}
	limits, own := c.Sets().Limits, c.Limit(3)
	must.True(t, own >= 0.9 && own <= 1.1, "the limit is %v", own)
	want := [Ranges]float64{own, own, own, own, -1, -1, -1}
	must.True(t, limits == want, "readers get %v, want %v", limits, want)
	must.True(t, len(c.Report()) <= 1, "told: %+v", c.Report())
}

// TestReport compares Report with counts of the returned sets.
func TestReport(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	c := New(0.8)
	used, held := 0.0, 0.0
	for n := range 1000 {
		x := Score{Value: r.ExpFloat64(), First: r.Float64() < 0.5, Size: math.NaN()}
		switch n % 3 {
		case 0:
			x.Size = 2
		case 1:
			x.Size = math.Inf(1)
		}
		if c.Limit(6) >= 0 {
			if used++; x.First || x.Value <= c.Limit(6) {
				held++
			}
		}
		c.Take(6, x)
	}
	report := c.Report()
	must.Require(t, len(report) == 1, "%+v", report)
	x := report[0]
	must.True(t, x.Range == "0.85-1" && x.Events == used && x.Coverage == held/used && math.Abs(x.Recent-held/used) <= 0.03 && math.Abs(x.Size-2) <= 1e-9, "%+v, want %v of %v", x, held, used)
	low := c.Low()
	must.True(t, low == nil, "low: %+v", low)
	for range memory { // all labels are missed, as if the limit could not adapt
		c.ranges[6].limit = 0
		c.Take(6, Score{Value: 1})
	}
	low = c.Low()
	must.True(t, len(low) == 1 && low[0].Recent <= 0.5, "low: %+v", low)
}

// TestState checks that a decoded state continues bit by bit, that a truncated state is rejected, and that another
// coverage is accepted.
// TestUnboundedSizes takes intervals of any size: the state is read again.
func TestUnboundedSizes(t *testing.T) {
	c, to := New(0.9), &coder.Coder{}
	for i := range 300 {
		c.Take(0, Score{Value: float64(i % 7), Size: []float64{1, 1e39, 1e40, 1e98, math.Inf(1), math.NaN()}[i%6]})
	}
	c.State(to)
	if d := coder.Read(to.Out); true {
		New(0.9).State(d)
		must.True(t, d.Done(), "a state is not read")
	}
	size := c.Report()[0].Size
	must.True(t, size > 1e38 && size < 1e40, "a mean size of %g", size)
}

// TestLongStream checks that weights stay finite over a very long stream.
func TestLongStream(t *testing.T) {
	c := New(0.9)
	s := &c.ranges[0]
	for range 600_000 {
		c.Take(0, Score{Value: 2, Size: 1})
	}
	must.True(t, s.grown < 2*largest && s.decayed.events/s.grown > memory/2 && s.decayed.events/s.grown <= memory+1, "grown %v, told %v", s.grown, s.decayed.events/s.grown)
	x := c.Report()[0]
	must.True(t, math.Abs(x.Size-1) <= 1e-9 && x.Events >= 599_000, "%+v", x)
}

// TestOneMoreScore checks that the threshold is the quantile of the weighted scores, counting the next score as one
// more. It checks a stream shorter than memory and a longer stream.
func TestOneMoreScore(t *testing.T) {
	for _, n := range []int{104, 400, 12_000} {
		r, c := rand.New(rand.NewPCG(13, 14)), New(0.9)
		for range n {
			c.Take(0, Score{Value: 4 * r.Float64()})
		}
		s := &c.ranges[0]
		all := must.Sum(s.decayed.bins[:])
		want, up := (1-s.level)*(1+1/min(float64(n), 2000))*all, 0.0
		for i, x := range s.decayed.bins {
			if up+x >= want {
				at := (float64(i) + (want-up)/x) / bins
				limit := at / (1 - at)
				must.True(t, n%every <= 0 && math.Abs(c.Limit(0)-limit) <= 1e-9, "of %d scores the limit is %v, want %v", n, c.Limit(0), limit)
				break
			}
			up += x
		}
	}
}

// TestLimitIsTheQuantile checks that a limit is the quantile of the recent scores. It checks stationary and changing
// streams, and different distributions of scores.
func TestLimitIsTheQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() float64{
		"exponential": func() float64 { return r.ExpFloat64() },
		"wide":        func() float64 { return math.Exp(r.NormFloat64()) },
		"narrow":      func() float64 { return 0.05 * r.Float64() },
	} {
		for _, was := range []float64{1, 4} { // factor of the scores in the first part of the stream
			c := New(0.9)
			for n := range 30_000 {
				x := draw()
				if n < 10_000 {
					x *= was
				}
				c.Take(0, Score{Value: x})
			}
			const draws = 50_000
			got := float64(must.Count(draws, func(int) bool { return draw() <= c.Limit(0) })) / draws
			must.True(t, math.Abs(got-0.9) <= 0.025, "%s from %v: the limit holds %v", name, was, got)
		}
	}
}

// TestTakeClasses checks prediction sets of three classes. They must contain the true class as often as configured, and
// their mean size must equal the counted size. A nil Predictor returns no sets.
func TestTakeClasses(t *testing.T) {
	r, c := rand.New(rand.NewPCG(1, 2)), New(0.8)
	d := model.Decision{}
	held, used, size := 0.0, 0.0, 0.0
	for range 20_000 {
		label := r.IntN(3)
		scores := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), -20}
		scores[label] += 1.5
		if c.Limit(1) >= 0 {
			used++
			h := model.Head{Sets: c.Sets()}
			set, _ := h.Set(model.MissingHandling{Range: 1}, d.Probabilities(scores, make([]float64, 4))[:3], d.Predict(scores))
			if size += float64(len(set)); slices.Contains(set, label) {
				held++
			}
		}
		c.TakeClasses(Answer{Range: 1, Scores: scores, Label: label, Decision: d, Judged: d.Judge(scores, label), Active: 3, Sized: true})
	}
	x := c.Report()[0]
	must.True(t, x.Events == used && math.Abs(x.Coverage-held/used) <= 1e-12 && math.Abs(x.Recent-0.8) <= 0.03 && math.Abs(x.Size-size/used) <= 0.05,
		"%+v, want %v of %v and a size of %v", x, held/used, used, size/used)
	all := New(0.8) // its sets contain every class in use
	all.ranges[0].limit = model.MostLimit
	scores := []float64{1, 2, 3, -20}
	all.TakeClasses(Answer{Scores: scores, Decision: d, Judged: d.Judge(scores, 0), Active: 3, Sized: true})
	must.True(t, all.Report()[0].Size == 3, "%+v, want a size of 3", all.Report()[0])
	var none *Predictor
	must.True(t, none.Report() == nil && none.Sets() == nil && none.Encode() == nil && none.Low() == nil && none.Decode([]byte{1}), "without a Cover there is one")
	again := New(0.8)
	must.True(t, again.Decode(c.Encode()) && again.Limit(1) == c.Limit(1) && !again.Decode(c.Encode()[1:]), "the state does not come back")
}

// TestTakeNumber checks that prediction intervals contain the target as often as configured, and that the counts refer
// to the returned interval.
func TestTakeNumber(t *testing.T) {
	r, c := rand.New(rand.NewPCG(3, 4)), New(0.7)
	residual := &model.Residual{Deviation: 2}
	held, used, size := 0.0, 0.0, 0.0
	for range 10_000 {
		c.TakeNumber(loss.Real, residual, 5+0.1*r.NormFloat64(), 5, model.MissingVariance{}) // with no missing fields
		by := model.MissingVariance{Range: 2}
		y, value := 5+3*r.NormFloat64(), 5.0
		low, high := c.Interval(loss.Real, residual, value, by)
		if c.Limit(2) >= 0 {
			size += high - low
			if used++; low <= y && y <= high {
				held++
			}
		}
		c.TakeNumber(loss.Real, residual, y, value, by)
	}
	x := c.Report()[1]
	must.True(t, x.Events == used && math.Abs(x.Coverage-held/used) <= 1e-12 && math.Abs(held/used-0.7) <= 0.02 && math.Abs(x.Size-size/used) <= 0.1*x.Size, "%+v, want %v of %v", x, held/used, used)
	low, _ := c.Interval(loss.Real, nil, 5, model.MissingVariance{})
	must.True(t, low != low, "an interval of nothing known")
	var none *Predictor
	low, high := none.Interval(loss.Real, residual, 5, model.MissingVariance{})
	must.True(t, low < 5 && high > 5, "without a Cover the interval is %v, %v", low, high)
}

// TestOtherCoverage checks that thresholds move at once if a state is decoded for another coverage, also by class.
func TestOtherCoverage(t *testing.T) {
	r, c, to := rand.New(rand.NewPCG(9, 10)), New(0.9), &coder.Coder{}
	for range 10_000 {
		c.Take(1, rare(r))
	}
	c.State(to)
	other, d := New(0.6), coder.Read(to.Out)
	other.State(d)
	must.True(t, d.Done() && other.Limit(1) < c.Limit(1)/2 && other.Limit(1) > 0, "the limit is %v, it was %v", other.Limit(1), c.Limit(1))
	a, b := other.Sets().Classes[1][1], c.Sets().Classes[1][1]
	must.True(t, a < b && other.Sets().Coverage == 0.6, "the threshold of a class is %v, it was %v", a, b)
}

// TestInvalidStates checks that inconsistent states are rejected.
func TestInvalidStates(t *testing.T) {
	for name, spoil := range map[string]func(s *scores){
		"more held than told": func(s *scores) { s.all.held = s.all.events + 1 },
		"more told than came": func(s *scores) { s.all.events = s.taken + 1 },
		"a limit below -1":    func(s *scores) { s.limit = -2 },
		"less than nothing":   func(s *scores) { s.all.held = -1 },
		"too many to count":   func(s *scores) { s.taken = 1<<53 + 2 },
		"too large a weight":  func(s *scores) { s.grown = 3 * largest },
		"no level":            func(s *scores) { s.level = math.NaN() },
		"no weight":           func(s *scores) { s.grown = 0 },
		"a negative bin":      func(s *scores) { s.decayed.bins[100] = -1 },
	} {
		c, to := New(0.9), &coder.Coder{}
		for range 300 {
			c.Take(1, Score{Value: 1, Size: 1})
		}
		spoil(&c.ranges[1])
		c.State(to)
		d := coder.Read(to.Out)
		New(0.9).State(d)
		must.True(t, !d.Done(), "%s: the state is taken", name)
	}
}

// rare draws nonconformity scores of two classes. One score in ten is of class 2. The scores of class 2 are far larger
// than the scores of class 1.
func rare(r *rand.Rand) Score {
	if r.IntN(10) == 0 {
		return Score{Class: 2, Value: 2 + r.ExpFloat64(), Came: true}
	}
	return Score{Class: 1, Value: 0.3 * r.ExpFloat64(), First: r.Float64() < 0.5, Came: true}
}

// TestThresholdsByClass checks that the sets of each class contain that class as often as configured. A single
// threshold for all classes would rarely include the rare class. ByClass must report the coverage of the returned sets.
func TestThresholdsByClass(t *testing.T) {
	r, c, common := rand.New(rand.NewPCG(1, 2)), New(0.9), New(0.9)
	var used, held, all [3]float64 // all: how often the common threshold would include the class
	for range 30_000 {
		x := rare(r)
		if limit := c.Sets().Classes; len(limit) >= x.Class && limit[x.Class-1][3] >= 0 {
			if used[x.Class]++; x.within(limit[x.Class-1][3]) {
				held[x.Class]++
			}
			if x.within(common.Limit(3)) {
				all[x.Class]++
			}
		}
		c.Take(3, x)
		common.Take(3, Score{Value: x.Value, First: x.First})
	}
	for k := 1; k <= 2; k++ {
		got := held[k] / used[k]
		must.True(t, math.Abs(got-0.9) <= 0.02, "the sets of class %d hold %.3f", k, got)
	}
	must.True(t, all[2]/used[2] <= 0.5, "one threshold holds the rare class in %v of its sets: the test shows nothing", all[2]/used[2])
	report := c.ByClass([]string{"often", "rare"})
	must.Require(t, len(report) == 2 && report[1].Class == "rare", "%+v", report)
	for i, x := range report {
		k := i + 1
		must.True(t, x.Events == used[k] && x.Coverage == held[k]/used[k] && math.Abs(x.Recent-0.9) <= 0.03 && len(x.ByMissing) == 1 &&
			x.ByMissing[0].Range == "0.3-0.5" && x.ByMissing[0].Events == used[k] && x.ByMissing[0].Coverage == x.Coverage, "%+v, want %v of %v", x, held[k], used[k])
	}
	got := c.Report()[0]
	must.True(t, math.Abs(got.Coverage-(held[1]+held[2])/(used[1]+used[2])) <= 1e-12, "all sets hold %v", got.Coverage)
	few := c.ByClass([]string{"often"})
	must.True(t, len(few) == 1, "of one name: %+v", few)
}

// TestAdversarialSequenceOfAClass checks that the bounds on missed labels hold for the events of one class, whatever
// the events of the other classes are.
func TestAdversarialSequenceOfAClass(t *testing.T) {
	r, c := rand.New(rand.NewPCG(3, 4)), New(0.9)
	missed, used := 0.0, 0.0
	for n := range 60_000 {
		if n%3 > 0 {
			c.Take(0, Score{Class: 1, Value: 0.1 * r.Float64()})
			continue
		}
		limit := c.ranges[0].limitFor(c.own(0, 2))
		x := Score{Class: 2, Value: min(model.MostLimit, max(limit, 0)*1.001+1e-9)}
		if limit >= 0 {
			if used++; x.Value > limit {
				missed++
			}
		}
		c.Take(0, x)
	}
	most := 0.1*used + (0.1+gamma)/gamma + every
	must.True(t, missed <= most, "%v of %v missed, at most %v may be", missed, used, most)
}

// TestFewEventsOfAClass checks the threshold of a class by its number of events. Without events it is the common
// threshold, with few events it is close to the common threshold, and with more events it approaches the quantile of
// the class.
func TestFewEventsOfAClass(t *testing.T) {
	r, c := rand.New(rand.NewPCG(5, 6)), New(0.9)
	for range 5000 {
		c.Take(0, Score{Class: 1, Value: r.Float64()})
	}
	common := c.Limit(0)
	least, _ := c.least(0, 7)
	must.True(t, least == math.Exp(-common), "an unseen class is in a set from probability %v on", least)
	limits := []float64{common}
	for n := 1; n <= 400; n++ {
		c.Take(0, Score{Class: 2, Value: 3 + r.Float64()})
		if n == 1 || n == 20 || n == 400 {
			limits = append(limits, c.Sets().Classes[1][0])
		}
	}
	must.True(t, limits[1] > limits[0] && limits[1] < 1.2*limits[0] && limits[2] > limits[1] && limits[3] > 3.5 && limits[3] < 4,
		"common %v; after 1, 20 and 400 events %v", limits[0], limits[1:])
}

// TestSetsByClass checks that Sets returns the same thresholds by class that the Predictor uses for its counts. A range
// without thresholds has the thresholds of the next range.
func TestSetsByClass(t *testing.T) {
	r, c := rand.New(rand.NewPCG(7, 8)), New(0.9)
	for range 3000 {
		c.Take(4, rare(r))
	}
	c.Take(2, rare(r))
	sets := c.Sets()
	for k := range 2 {
		own := c.classes[k].ranges[4].limit
		must.Equal(t, sets.Classes[k], model.SetLimits{own, own, own, own, own, -1, -1}, "class", k, "has the limits")
		least, always := c.least(4, k)
		must.True(t, least == math.Exp(-own) && !always, "class %d is in sets from %v on", k, least)
	}
	c.classes[1].ranges[4].limit = model.MostLimit
	_, always := c.least(4, 1)
	must.True(t, always, "a limit that excludes nothing excludes")
}

// TestNoThresholdOfAClassAlone checks that a class has no threshold in a range without a threshold, even if the class
// has many events.
func TestNoThresholdOfAClassAlone(t *testing.T) {
	c := New(0.9)
	for range enough - 1 {
		c.Take(2, Score{Class: 1, Value: 1})
	}
	limits := c.Sets().Classes[0]
	must.True(t, limits == (model.SetLimits{-1, -1, -1, -1, -1, -1, -1}) && c.classes[0].ranges[2].limit == -1, "the thresholds are %v", limits)
}

// TestRecentCoverageOfAClass checks that the reported recent coverage is over about two thousand events.
func TestRecentCoverageOfAClass(t *testing.T) {
	r, c := rand.New(rand.NewPCG(15, 16)), New(0.9)
	for n := range 30_000 {
		c.Take(0, Score{Class: 1, Came: true, First: n < 24_000, Value: r.ExpFloat64()})
	}
	x := c.ByClass([]string{"a"})[0]
	must.True(t, math.Abs(x.Recent-0.9) <= 0.03 && x.Coverage >= 0.96, "%+v", x)
}
