package online_test

// This file tests warnings.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/synthetic"
)

func kinds(warnings []health.Warning) []string {
	return must.Map(warnings, func(w health.Warning) string { return w.Kind })
}

// TestPriorWarning checks the warning that predicting the class frequencies is better. With informative features there
// must be no warning. While features are extreme noise there must be a warning. A Learner restored in the middle of a
// block must give the same warnings.
func TestPriorWarning(t *testing.T) {
	source := rand.NewPCG(1, 1)
	r := rand.New(source)
	c := online.DefaultConfig()
	c.Standardize, c.LearningRate, c.Noise = "none", 1, "none"
	l := streamed(t, c, 2)
	learn := func(n int, size float64) {
		for range n {
			e := synthetic.Drawn(r)
			e.Features.Value[0] *= size
			if size > 1 {
				e.Label = r.IntN(4) / 3 // 1 in a quarter of the events
			}
			l.Learn(e, nil)
		}
	}
	settings := online.Fingerprint{"label": "label"}
	warnings := func(l *learner, final bool) []health.Warning { // without the warning about older weights, which noise also causes
		return slices.DeleteFunc(l.Warnings(settings, final), func(w health.Warning) bool { return w.Kind == health.WarnStale })
	}
	learn(2000, 1)
	w := warnings(l, true)
	must.Require(t, len(w) == 0 && l.Report().Prior.Event == 2000 && l.Report().Prior.LogLoss < l.Report().Prior.Frequencies, "a good stream: %v, %+v", w, l.Report().Prior)
	got := l.Report().Prior.Frequencies
	must.True(t, math.Abs(got-math.Ln2) <= 2e-3, "the loss of two equal shares is %v", got)
	learn(2000/2, 50)
	w = warnings(l, true)
	must.True(t, len(w) <= 0, "in the middle of a block: %v", w)
	restored := l.restored()
	for range 2 {
		again := *source
		r = rand.New(&again)
		learn(2000/2, 50)
		w := warnings(l, false)
		must.True(t, slices.Equal(kinds(w), []string{health.WarnPrior}) && strings.Contains(w[0].Text, fmt.Sprint("up to event ", 2*2000)), "noise: %v, %+v", w, l.Report().Prior)
		l, restored = restored, l
	}
	must.True(t, slices.Equal(l.Warnings(settings, false), restored.Warnings(settings, false)), "a restored learner warns of something else")
	learn(4*2000, 1)
	w = warnings(l, false)
	must.True(t, len(w) <= 0, "afterwards: %v", w)
}

// TestPriorNoFalseAlarm checks that there is no false warning with importance weights, or with a loss whose scores are
// not log-odds.
func TestPriorNoFalseAlarm(t *testing.T) {
	for _, set := range []func(*online.Config){
		func(c *online.Config) { c.Loss = "hinge" },
		func(c *online.Config) { c.ClassWeight = map[string]float64{"c1": 30} },
		func(c *online.Config) {},
	} {
		r := rand.New(rand.NewPCG(2, 2))
		c := online.DefaultConfig()
		set(&c)
		l := streamed(t, c, 2)
		for range 3 * 2000 {
			e := synthetic.Drawn(r)
			if e.Label = 0; e.Features.Value[0]+0.3*r.NormFloat64() > 2.2 { // true for about 1 % of the events
				e.Label = 1
			}
			l.Learn(e, nil)
		}
		w := l.Warnings(nil, true)
		must.True(t, len(w) <= 0, "%s %s %v: %v", c.Loss, c.Optimizer, c.ClassWeight, w)
	}
}

// TestStreamWarnings checks the warnings about labels and rejected records. A restored learner and a saved state must
// give the same warnings.
func TestStreamWarnings(t *testing.T) {
	type source func(r *rand.Rand, i int) *event.Example
	drawn := func(r *rand.Rand, _ int) *event.Example { return synthetic.Drawn(r) }
	unlabeled := func(*rand.Rand, int) *event.Example { return &event.Example{Weight: 1, Label: event.Unlabeled} }
	class := func(label int) source { // every event has this label
		return func(r *rand.Rand, _ int) *event.Example {
			e := synthetic.Drawn(r)
			e.Label = label
			return e
		}
	}
	refused := func(reason event.Reason) source {
		return func(*rand.Rand, int) *event.Example {
			return &event.Example{Refused: &event.Refusal{Reason: reason, Detail: `label "7` + "\x1b" + `" is none of them`}}
		}
	}
	mixed := func(first func(i int) bool, a, b source) source { // event i is from a if first(i), otherwise from b
		return func(r *rand.Rand, i int) *event.Example {
			if first(i) {
				return a(r, i)
			}
			return b(r, i)
		}
	}
	every := func(n int) func(int) bool { return func(i int) bool { return i%n == 0 } }
	only := func(n int) func(int) bool { return func(i int) bool { return i == n } }
	below := func(n int) func(int) bool { return func(i int) bool { return i < n } }
	one := mixed(only(0), class(0), class(1))
	stray := func(r *rand.Rand, i int) *event.Example { // only the first event has label 0; further such events are rejected
		e := synthetic.Drawn(r)
		if i > 0 && e.Label == 0 {
			return refused(event.ReasonLabel)(r, i)
		} else if i == 0 {
			e.Label = 0
		}
		return e
	}
	rare := func(r *rand.Rand, i int) *event.Example {
		e := synthetic.Drawn(r)
		if i == 0 {
			return refused(event.ReasonLabel)(r, i)
		} else if i%200 != 1 {
			e.Label = 1
		}
		return e
	}
	for _, c := range []struct {
		name   string
		next   source
		n      int
		final  bool
		want   []string
		saying string
	}{
		{"one class", class(1), 1000, false, []string{health.WarnOneClass}, `every label of 1000 events is "`},
		{"one class, not yet", class(1), 999, false, nil, ""},
		{"one class at the end", class(0), 2, true, []string{health.WarnOneClass}, "every label of 2 events is"},
		{"no labels", unlabeled, 1000, false, []string{health.WarnUnlabeled}, `none of 1000 events had a label, so nothing was learned: no event has the field record.label = "target"`},
		{"not yet", unlabeled, 999, false, nil, ""},
		{"at the end", unlabeled, 3, true, []string{health.WarnUnlabeled}, "none of 3 events"},
		{"one label", mixed(only(500), drawn, unlabeled), 1000, true, nil, ""},
		{"refused", mixed(every(10), refused(event.ReasonSyntax), drawn), 2000, false, []string{health.WarnRefused}, `200 of 2000 records (10 %) were refused: syntax 200 (the first: label "7\x1b" is none of them)`},
		{"few refused", mixed(every(25), refused(event.ReasonSyntax), drawn), 2000, true, nil, ""},
		{"repeated", mixed(every(2), refused(event.ReasonRepeated), drawn), 2000, true, nil, ""},
		{"lately refused", mixed(below(20000), drawn, refused(event.ReasonWeight)), 20500, false, []string{health.WarnRefused}, "500 of 20500 records (2.44 %), and about 39 % of the latest 1000 were refused: weight 500"},
		{"refused long ago", mixed(below(500), refused(event.ReasonWeight), drawn), 20500, false, nil, ""},
		{"stray", stray, 2000, false, []string{health.WarnRefused, health.WarnStrayLabel}, `the label "c0" of 1 of`},
		{"a class of one event", one, 300, true, []string{health.WarnStrayLabel}, `class "c0" has one example of 300; to exclude it`},
		{"one event of few", one, 99, true, nil, ""},
		{"one event, and more to come", one, 9999, false, nil, ""},
		{"one event of many", one, 10000, false, []string{health.WarnStrayLabel}, `class "c0" has one example of 10000`},
		{"a rare class", rare, 2000, true, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 3))
			l := streamed(t, online.DefaultConfig(), 2)
			for i := range c.n {
				l.Learn(c.next(r, i), nil)
			}
			settings := online.Fingerprint{"label": "target", "format": "json"}
			got := l.Warnings(settings, c.final)
			// TestPriorWarning tests the warning about the class frequencies.
			got = slices.DeleteFunc(got, func(w health.Warning) bool { return w.Kind == health.WarnPrior })
			must.Require(t, slices.Equal(kinds(got), c.want), "%v, want %v", got, c.want)
			text := ""
			for _, w := range got {
				text += w.Text + "\n"
			}
			must.True(t, strings.Contains(text, c.saying) && !strings.ContainsRune(text, 0x1b), "%q, want %q", text, c.saying)
			saved := kinds(l.savedWarnings(settings))
			must.True(t, !c.final || slices.Equal(slices.DeleteFunc(saved, func(kind string) bool { return kind == health.WarnPrior }), c.want), "saved: %v, want %v", saved, c.want)
			restored := l.restored()
			again := restored.Warnings(settings, c.final)
			again = slices.DeleteFunc(again, func(w health.Warning) bool { return w.Kind == health.WarnPrior })
			must.True(t, slices.Equal(again, got), "restored: %v, before %v", again, got)
		})
	}
}

// TestNumbersAsText checks the warning about a field whose texts are numbers. The warning must contain an example and
// the key that makes the field numeric, also from a checkpoint. There must be no warning about codes, such as numbers
// with leading zeros.
func TestNumbersAsText(t *testing.T) {
	s := event.NewSchema(10, []string{"a", "b"}, 2)
	s.Names = event.NewNames(100)
	field := s.AddField(event.Field{Name: "price", Kind: event.Categorical})
	s.AddField(event.Field{Name: "zip", Kind: event.Categorical})
	l := start(t, online.DefaultConfig(), s)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		if i < 10 {
			s.Names.Add(uint64(2*i+1), fmt.Appendf(nil, "price=%d,5\x1b", i)[:len(fmt.Sprint(i))+8])
			s.Names.Add(uint64(2*i+2), fmt.Appendf(nil, "zip=0%d", i))
			l.SetSchema(s.View())
		}
		e := synthetic.Drawn(r)
		e.Field = slices.Repeat([]uint16{field}, e.Features.Len())
		l.Learn(e, nil)
	}
	want := []health.Warning{{Kind: health.WarnText, Text: `field "price" contains numbers written as text, such as "0,5", and each is a separate category: record.decimal = "," reads them`}}
	of := func(list []health.Warning) []health.Warning {
		return slices.DeleteFunc(list, func(w health.Warning) bool { return w.Kind != health.WarnText })
	}
	must.EqualSlices(t, of(l.Warnings(nil, false)), want)
	must.EqualSlices(t, of(l.savedWarnings(nil)), want, "a checkpoint")
	s.Names.Add(1000, []byte("zip=0,1"))
	l.SetSchema(s.View())
	must.EqualSlices(t, of(l.Warnings(nil, false)), want, "later")
}

// TestOddTime checks that a time in a wrong unit gives a warning with the field and the value, also after a restart.
// There must be no warning about correct times or about records without a time field.
func TestOddTime(t *testing.T) {
	settings := online.Fingerprint{"time": "at"}
	for _, c := range []struct {
		time int64
		want bool
	}{{1_767_225_600, true}, {1_767_225_600_000, false}, {1_767_225_600_000_000, true}, {0, false}, {-1, false}} {
		l := streamed(t, online.DefaultConfig(), 2)
		for i := range 1200 {
			e := &event.Example{Label: i % 2, Weight: 1, Time: c.time, Features: event.Vec{Index: []uint32{1}, Value: []float64{float64(i % 2)}}}
			l.Learn(e, nil)
		}
		restored := l.restored()
		for i, w := range [][]health.Warning{l.Warnings(settings, false), restored.Warnings(settings, false), l.savedWarnings(settings)} {
			must.True(t, slices.Contains(kinds(w), health.WarnTime) == c.want, "%d: %v of a time of %d", i, kinds(w), c.time)
			for _, w := range w {
				must.True(t, w.Kind != health.WarnTime || strings.Contains(w.Text, `record.time = "at"`) && strings.Contains(w.Text, strconv.FormatInt(c.time, 10)), "%v", w.Text)
			}
		}
		w := l.Warnings(online.Fingerprint{}, false)
		must.True(t, !slices.Contains(kinds(w), health.WarnTime), "%v where no field holds the time", kinds(w))
	}
}

// TestUndeclared checks that there is a warning if fields are expected to be declared missing but no field can be.
// There must be no warning if a field can be declared missing, if silently missing fields are expected, or if no
// missing fields are expected.
func TestUndeclared(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*online.Config)
		kinds  []event.Kind
		want   string
	}{
		{"words", func(c *online.Config) { c.ExpectedMissing = 0.5 }, []event.Kind{event.Words, event.Words}, "expected_missing is for"},
		{"groups", func(c *online.Config) { c.ExpectedMissingGroups = 0.5 }, []event.Kind{event.Words}, "expected_missing_groups is for"},
		{"a number", func(c *online.Config) { c.ExpectedMissing = 0.5 }, []event.Kind{event.Words, event.Numeric}, ""},
		{"silent", func(c *online.Config) { c.ExpectedMissing, c.SilentMissing = 0.5, 0.5 }, []event.Kind{event.Words}, ""},
		{"nothing", func(c *online.Config) {}, []event.Kind{event.Words}, ""},
	} {
		s := event.NewSchema(10, []string{"a", "b"}, 2)
		field := func(i int) uint16 { return s.AddField(event.Field{Name: fmt.Sprint(i), Kind: c.kinds[i]}) }
		fields := must.List(len(c.kinds), field)
		config := online.DefaultConfig()
		c.change(&config)
		l := start(t, config, s)
		got := kinds(l.Warnings(nil, true))
		must.True(t, !slices.Contains(got, health.WarnUndeclared), "%s, before any event: %v", c.name, got)
		for i := range 50 {
			l.Learn(&event.Example{Label: i % 2, Weight: 1, Field: []uint16{fields[i%len(fields)]}, Features: event.Vec{Index: []uint32{uint32(1 + i%7)}, Value: []float64{1}}}, nil)
		}
		text := ""
		for _, w := range l.Warnings(nil, true) {
			if w.Kind == health.WarnUndeclared {
				text = w.Text
			}
		}
		must.True(t, strings.HasPrefix(text, c.want) && (text == "") == (c.want == ""), "%s: %q", c.name, text)
	}
}

// TestRateWarnings checks two warnings: about rates of fields that no event has, and about observed noise if no fields
// are missing.
func TestRateWarnings(t *testing.T) {
	for _, x := range []struct {
		noise string
		rate  float64 // rate at which each sensor fails
		want  string
	}{
		{"observed", 0, "prepare for the first loss"}, {"observed", 0.3, ""}, {"group:a=0.1,b=0.2", 0, ""},
		{"group:a=0.1,wheels=0.3,engine=0.1", 0, `rate for "engine", "wheels"`},
	} {
		c := with(func(c *online.Config) { c.Noise = x.noise })
		l := newLearner(t, c, synthetic.SensorSchema())
		s := &synthetic.MortalSensors{R: rand.New(rand.NewPCG(1, 2))}
		for i := range s.Rates {
			s.Rates[i] = x.rate
		}
		learnNext(l, 2000, s.Next)
		restored := restart(t, c, l)
		for name, l := range map[string]*online.Learner{"learned": l, "restored": restored} {
			got := ""
			for _, w := range l.Warnings(online.Fingerprint{}, false) {
				if w.Kind == health.WarnNoRate {
					got = w.Text
				}
			}
			must.True(t, (got == "") == (x.want == "") && strings.Contains(got, x.want), "%s, rate %v, %s: warning %q, want one of %q", x.noise, x.rate, name, got, x.want)
		}
	}
}
