package conformal

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/model"
	"blankout/internal/must"
)

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
