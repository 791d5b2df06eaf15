// Package blackbox tests a learner through what its callers use: events in, predictions, snapshots, state and measures out.
// Any implementation of Learner passes Run.
package blackbox

import (
	"fmt"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/watch"
)

// Learner is what the tests use of a learner. Scores are one for two classes or a number, else one for each class; they may be
// borrowed until the next call.
type Learner interface {
	// Learn learns an event and returns the scores from before, nil if it refuses the event. Prior is nil, or what
	// Arrive returned for the event.
	Learn(e *event.Example, prior any) []float64
	// Predict returns the scores of an event and learns nothing.
	Predict(e *event.Example) []float64
	// Arrive returns what a learner must remember of an event whose label will come later.
	Arrive(e *event.Example) (prior any)
	// Decision says what the scores mean.
	Decision() model.Decision
	// Snapshot returns the model that is served. It never changes.
	Snapshot() *model.Linear
	Blocks() ([]event.Block, error)
	Report() online.Report
	SetSchema(s *event.Schema)
	Schema() *event.Schema
	// Inner returns the learner itself.
	Inner() Inner
	// SavedWarnings returns what the state that is saved warns of, with nothing more to come.
	SavedWarnings(settings online.Fingerprint) []watch.Warning
}

// Maker makes learners: New by settings, and Restore also by the blocks of another learner.
type Maker struct {
	New     func(c online.Config, s *event.Schema) (Learner, error)
	Restore func(c online.Config, blocks []event.Block) (Learner, error)
	// All has each test take all settings, else it takes one in three.
	All bool
}

// Run runs all tests.
func Run(t *testing.T, m Maker) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Maker)
	}{
		{"Table", testTable}, {"EveryRestart", testEveryRestart}, {"LongRun", testLongRun}, {"Threads", testThreads}, {"FieldOrder", testFieldOrder},
		{"WeightTwo", testWeightTwo}, {"Unlabeled", testUnlabeled}, {"SnapshotHolds", testSnapshotHolds},
		{"LateClass", testLateClass}, {"RenamedLabels", testRenamedLabels}, {"Measures", testMeasures}, {"MeasuresOfNumbers", testMeasuresOfNumbers},
		{"Delayed", testDelayed}, {"DelayedNumbers", testDelayedNumbers},
		{"TargetUnit", testTargetUnit}, {"FieldUnits", testFieldUnits}, {"Outliers", testOutliers}, {"HalfLife", testHalfLife},
		{"Missing", testMissing}, {"UnseenColumns", testUnseenColumns}, {"HugeDimension", testHugeDimension},
		{"ManyClasses", testManyClasses}, {"Presence", testPresence}, {"HalfLifeTime", testHalfLifeTime}, {"ClassWeight", testClassWeight}, {"Crosses", testCrosses}, {"Drift", testDrift},
		{"Reference", testReference},
		{"StuckRestored", testStuckRestored}, {"StuckSetting", testStuckSetting}, {"StuckCosts", testStuckCosts},
		{"Sets", testSets}, {"SetsOfLateLabels", testSetsOfLateLabels}, {"SetsOtherCoverage", testSetsOtherCoverage}, {"IntervalsCover", testIntervalsCover}, {"IntervalsByValue", testIntervalsByValue}, {"IntervalContainsItsValue", testIntervalContainsItsValue},
		{"EveryRule", testEveryRule}, {"WeightTwoOfAll", testWeightTwoOfAll}, {"Poison", testPoison}, {"MillionFeatures", testMillionFeatures}, {"Refused", testRefused}, {"FixedPoint", testFixedPoint}, {"Passes", testPasses}, {"Evaluate", testEvaluate}, {"SlidingWindow", testSlidingWindow},
		{"HealthDeadField", testHealthDeadField}, {"HealthCostNeedsEvents", testHealthCostNeedsEvents}, {"HealthUsuallyMissing", testHealthUsuallyMissing},
		{"HealthDrift", testHealthDrift}, {"HealthRestored", testHealthRestored}, {"HealthIsBounded", testHealthIsBounded},
		{"ConstantFieldIsNotTheWorst", testConstantFieldIsNotTheWorst}, {"PriorWarning", testPriorWarning}, {"PriorNoFalseAlarm", testPriorNoFalseAlarm},
		{"StreamWarnings", testStreamWarnings}, {"NumbersAsText", testNumbersAsText}, {"OddTime", testOddTime}, {"Undeclared", testUndeclared},
		{"Positive", testPositive}, {"LinkOfWrongLabels", testLinkOfWrongLabels}, {"ForecastOfCalibrated", testForecastOfCalibrated},
		{"DriftDetected", testDriftDetected}, {"Mislabeled", testMislabeled}, {"Forecast", testForecast}, {"AbruptDrift", testAbruptDrift},
		{"AgedAnswers", testAgedAnswers}, {"AgedErrOnADrift", testAgedErrOnADrift}, {"AgedLater", testAgedLater}, {"AgedLaterField", testAgedLaterField}, {"AgedFirstPassAlone", testAgedFirstPassAlone}, {"DriftAfterThePass", testDriftAfterThePass},
		{"StaleWeights", testStaleWeights}, {"HorizonSuitsItsAge", testHorizonSuitsItsAge},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, m) })
	}
}

// setting is a row of the table of settings.
type setting struct {
	c       online.Config
	classes int // 0: regression
}

func (s setting) String() string {
	return fmt.Sprint(s.c.Optimizer, "/", s.c.Loss, "/", s.c.Noise, "/", s.classes)
}

// settings returns optimizers, losses, noises and numbers of classes, so many that any two values that go together do in
// one. A test of less than all gives a number of its own, by which it takes others.
func (m Maker) settings(t *testing.T, test int) (out []setting) {
	all := paired()
	if len(all) < 60 {
		t.Fatalf("%d settings go together, want more", len(all))
	}
	for i, s := range all {
		if m.All || i%3 == test%3 {
			out = append(out, s)
		}
	}
	return out
}

func paired() (out []setting) {
	type candidate struct {
		setting
		pairs [][2]string
	}
	var all []candidate
	add := func(optimizer, lossName, noise string, classes int) {
		c := online.DefaultConfig()
		c.Optimizer, c.Loss, c.Noise = optimizer, lossName, noise
		switch noise {
		case "auto and silent":
			c.Noise, c.SilentMissing = "auto", 0.4
		case "poisson":
			c.Standardize = "scale"
		case "gaussian:0.3":
			c.Standardize = "all"
		}
		if optimizer == "irls" {
			c.IRLSBatch, c.IRLSWindow = 40, 120
		}
		if c.Check() == nil {
			k := fmt.Sprint(classes)
			all = append(all, candidate{setting{c, classes}, [][2]string{{optimizer, lossName}, {optimizer, noise}, {optimizer, k}, {lossName, noise}, {lossName, k}, {noise, k}}})
		}
	}
	for _, optimizer := range []string{"auto", "adagrad", "dropout-descent", "sgd", "arow", "ftrl", "irls"} {
		for _, noise := range []string{"auto", "none", "dropout:0.3", "gaussian:0.3", "laplace:0.1", "poisson", "dropout:0.2+group:0.4", "observed", "silent:0.5", "auto and silent"} {
			for _, lossName := range []string{"logistic", "logistic:quadratic-noising", "hinge", "quadratic", "t-logistic:1.5"} {
				for _, classes := range []int{2, 3} {
					add(optimizer, lossName, noise, classes)
				}
			}
			for _, lossName := range []string{"squared", "absolute", "huber:1", "quantile:0.8"} {
				add(optimizer, lossName, noise, 0)
			}
		}
	}
	paired := map[[2]string]bool{}
	fresh := func(c candidate) (n int) {
		for _, p := range c.pairs {
			if !paired[p] {
				n++
			}
		}
		return n
	}
	for len(all) > 0 {
		best := 0
		for i, c := range all {
			if fresh(c) > fresh(all[best]) {
				best = i
			}
		}
		c := all[best]
		if all = slices.Delete(all, best, best+1); fresh(c) == 0 {
			break
		}
		for _, p := range c.pairs {
			paired[p] = true
		}
		out = append(out, c.setting)
	}
	return out
}

// usual are the default settings for two classes, three and regression.
func (m Maker) usual() []setting {
	numbers := online.DefaultConfig()
	numbers.Loss = "squared"
	return []setting{{online.DefaultConfig(), 2}, {online.DefaultConfig(), 3}, {numbers, 0}}
}

// run is a learner with its own decoder and events.
type run struct {
	Learner
	t    *testing.T
	m    Maker
	c    online.Config
	in   *reader
	feed *feed
}

// newRun returns a learner of the settings that will meet the events of a seed.
func newRun(t *testing.T, m Maker, s setting, seed uint64) *run {
	t.Helper()
	r := &run{t: t, m: m, c: s.c, in: newReader(t, m, s), feed: newFeed(seed, s.classes)}
	var err error
	if r.Learner, err = m.New(s.c, r.in.schema); err != nil {
		t.Fatal(err)
	}
	return r
}

// next returns the next event, decoded.
func (r *run) next() *event.Example { return r.in.event(r.feed.next()) }

// learn learns the next event.
func (r *run) learn() []float64 { return slices.Clone(r.Learn(r.next(), nil)) }

// restart replaces the learner by one that its state restores. The decoder goes on with the saved Schema.
func (r *run) restart() {
	r.t.Helper()
	blocks, err := r.Blocks()
	if err != nil {
		r.t.Fatal(err)
	}
	if r.Learner, err = r.m.Restore(r.c, blocks); err != nil {
		r.t.Fatal(err)
	}
	r.in.follow(r.Schema())
}
