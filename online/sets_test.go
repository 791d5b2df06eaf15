package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/cover"
	"blankout/online/watch"
)

// classStream draws events of several classes with twelve numbers that go together, each null by some chance.
type classStream struct {
	r       *rand.Rand
	classes int
	null    float64
}

func (s *classStream) next() *event.Example {
	e := &event.Example{Weight: 1, Label: s.r.IntN(s.classes), Field: []uint16{}}
	shared := s.r.NormFloat64()
	for id := uint16(1); id <= 12; id++ {
		x := math.Sin(float64(int(id)*(e.Label+1))) + 0.7*shared + s.r.NormFloat64()
		if s.r.Float64() < s.null {
			e.Missing = append(e.Missing, id)
			continue
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id)), append(e.Features.Value, x), append(e.Field, id)
	}
	return e
}

func kindsLearner(t *testing.T, classes int, change func(*Config)) *Learner {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e", "f"}[:classes]
	s := event.NewSchema(8, names, classes)
	for id := range 12 {
		s.AddField(event.Field{Name: string(rune('k' + id)), Kind: event.Numeric})
	}
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// covered returns the share of events whose set holds their class, the mean size of sets, and the share of
// events whose class is right.
func covered(t *testing.T, m *model.Linear, s *classStream, n int) (held, size, right float64) {
	t.Helper()
	for range n {
		e := s.next()
		scores := m.Score(e, make([]float64, m.Outputs))
		class := m.Predict(scores)
		set, ok := m.Set(m.Answer(e), m.Probabilities(scores, make([]float64, max(2, m.Outputs))), class)
		if !ok || !slices.Contains(set, class) {
			t.Fatalf("the set %v (%v) of class %d", set, ok, class)
		}
		size += float64(len(set))
		if slices.Contains(set, e.Label) {
			held++
		}
		if class == e.Label {
			right++
		}
	}
	return held / float64(n), size / float64(n), right / float64(n)
}

// Sets of the published model hold the class as often as they should, of two classes and of more, with
// masks alone and where events lack fields by themselves, and of losses whose scores are no log-odds.
func TestSetsCoverWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for i, test := range []struct {
		name          string
		classes       int
		null          float64
		coverage, tol float64
		change        func(*Config)
	}{
		{"two", 2, 0, 0.9, 0.02, nil},
		{"many", 5, 0, 0.9, 0.02, nil},
		{"many, null", 5, 0.3, 0.9, 0.02, nil},
		{"many, seldom", 5, 0, 0.7, 0.03, func(c *Config) { c.Coverage = 0.7 }},
		{"hinge", 2, 0, 0.9, 0.02, func(c *Config) { c.Loss = "hinge" }},
		{"many, hinge", 5, 0.1, 0.9, 0.025, func(c *Config) { c.Loss = "hinge" }},
		{"arow", 5, 0, 0.9, 0.03, func(c *Config) { c.Optimizer, c.Noise = "arow", "none" }},
		{"two, threshold", 2, 0, 0.9, 0.05, func(c *Config) { c.Threshold = 0.8 }},
		{"many, as it is", 5, 0, 0.9, 0.03, func(c *Config) { c.MissingPolicy = "none" }},
		{"two, calibration", 2, 0, 0.9, 0.02, func(c *Config) { c.Calibrate = "on" }},
	} {
		if !longtest.Some(i, 3) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			l := kindsLearner(t, test.classes, func(c *Config) {
				if test.change != nil {
					test.change(c)
				}
			})
			s := &classStream{rand.New(rand.NewPCG(1, 2)), test.classes, test.null}
			for range 12_000 {
				l.Learn(s.next(), nil)
			}
			m := l.Published()
			for _, null := range []float64{0, 0.3, 0.5, 0.7} {
				held, size, right := covered(t, m, &classStream{rand.New(rand.NewPCG(3, 4)), test.classes, null}, 2500)
				if held < test.coverage-test.tol || held > max(test.coverage, right)+test.tol {
					t.Errorf("%v null: %.3f of the classes are in their set, of which %.3f are right; %.2f classes in a set", null, held, right, size)
				}
			}
		})
	}
}

// What is taken up of events without masks is what the published model says of them before they are
// learned: of whole events and, where these are many, of such as lack fields.
func TestSetsTakeWhatIsTold(t *testing.T) {
	l := kindsLearner(t, 4, func(c *Config) { c.Noise = "dropout:0.3" })
	s, slow := &classStream{rand.New(rand.NewPCG(5, 6)), 4, 0.02}, cover.New(0.9)
	state := func(c *cover.Cover) []byte {
		to := &coder.Coder{}
		c.State(to)
		return to.Out[:len(to.Out):len(to.Out)]
	}
	for n := 1; n <= 1500; n++ {
		e := s.next()
		m := l.Published()
		if a := m.Answer(e); n > 20 && a.Range == 0 {
			scores := m.Score(e, make([]float64, m.Outputs))
			p := m.Probabilities(scores, make([]float64, m.Outputs))
			class := m.Predict(scores)
			x := cover.Score{Value: -math.Log(p[e.Label]), First: class == e.Label, Class: 1 + e.Label, Came: true, Size: math.NaN()}
			if set, ok := m.Set(a, p, class); ok && l.events%sizeEvery == sizeEvery-1 {
				x.Size = float64(len(set))
			}
			slow.Take(0, x)
		}
		if l.Learn(e, nil); n == 20 {
			d := coder.Read(state(l.sets))
			slow.State(d)
		}
		if a, b := l.sets.Limit(0), slow.Limit(0); math.Abs(a-b) > 1e-9*math.Abs(a) {
			t.Fatalf("after %d events the limit is %v, want %v", n, a, b)
		}
	}
	if a, b := l.Report().Sets[0], slow.Report()[0]; a.Events != b.Events || a.Coverage != b.Coverage || math.Abs(a.Size-b.Size) > 1e-12 || a.Events < 900 {
		t.Errorf("reported %+v, want %+v", a, b)
	}
}

// A label that comes later is held against the set of the scores that the event was told.
func TestSetsOfLateLabels(t *testing.T) {
	l := kindsLearner(t, 3, nil)
	s := &classStream{rand.New(rand.NewPCG(7, 8)), 3, 0}
	for range 500 {
		l.Learn(s.next(), nil)
	}
	const every = 5 // limits do not move so soon
	before := l.Report().Sets[0]
	for range every {
		e := s.next()
		told := make([]float64, 3)
		for k := range told {
			if told[k] = 9; k == e.Label {
				told[k] = -9 // it was sure of all others
			}
		}
		l.Learn(e, &Prediction{Learned: l.Report().Events, Scores: told})
	}
	after := l.Report().Sets[0]
	if after.Events != before.Events+every || math.Round(after.Coverage*after.Events) != math.Round(before.Coverage*before.Events) {
		t.Errorf("%+v, before %+v: some of the sets held the class", after, before)
	}
}

// Where labels come such that each is just outside of its set there is a warning.
func TestSetsWarn(t *testing.T) {
	l := kindsLearner(t, 2, func(c *Config) { c.Calibrate = "off" })
	s := &classStream{rand.New(rand.NewPCG(17, 18)), 2, 0}
	for range 3500 {
		e := s.next()
		if s.r.Float64() < 0.2 { // some labels are wrong
			e.Label = 1 - e.Label
		}
		l.Learn(e, nil)
	}
	warned := func() bool {
		return slices.ContainsFunc(l.Warnings(nil, false), func(w watch.Warning) bool { return w.Kind == watch.WarnCoverage })
	}
	if warned() {
		t.Error("there is a warning of sets that hold what they should")
	}
	for range 300 {
		e := s.next()
		told := math.Log(math.Expm1(1.001 * max(l.sets.Limit(0), 1))) // of the other class
		if e.Label == 1 {
			told = -told
		}
		l.Learn(e, &Prediction{Learned: l.Report().Events, Scores: []float64{told}})
	}
	if !warned() {
		t.Errorf("there is no warning of %+v", l.Report().Sets[0])
	}
}

// Intervals of numbers hold as many targets as they should where residuals are far from normal, too; those
// of a coverage of 0 are made as before there were others.
func TestIntervalsCover(t *testing.T) {
	for coverage, want := range map[float64]float64{0.9: 0.9, 0.6: 0.6, 0: 0.95} {
		c := DefaultConfig()
		c.Loss, c.Coverage = "squared", coverage
		l := numberLearner(t, c)
		r := rand.New(rand.NewPCG(9, 10))
		draw := func() *event.Example {
			x, noise := r.NormFloat64(), math.Copysign(math.Exp(1.3*r.NormFloat64()), r.NormFloat64())
			return &event.Example{Weight: 1, Target: 40 + 5*x + noise, Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}}
		}
		for range 8000 {
			l.Learn(draw(), nil)
		}
		m, held := l.Published(), 0.0
		for range 4000 {
			e := draw()
			if low, high := m.Interval(m.Value(m.Score(e, make([]float64, 1))[0]), model.ScoreVariance(m, e)); low <= e.Target && e.Target <= high {
				held++
			}
		}
		if held /= 4000; math.Abs(held-want) > 0.04 {
			t.Errorf("coverage %v: intervals hold %v", coverage, held)
		}
		if got := l.Report().Sets; (got == nil) != (coverage == 0) {
			t.Errorf("coverage %v: told of sets %+v", coverage, got)
		}
	}
}

// What a mask opens of an interval is what the published model says of the event with these fields null.
func TestMaskedVariance(t *testing.T) {
	for _, lossName := range []string{"squared", "poisson"} {
		c := DefaultConfig()
		c.Loss = lossName
		schema := event.NewSchema(8, nil, 2)
		schema.Target = loss.LabelsOf(lossName)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			schema.AddField(event.Field{Name: name, Kind: event.Numeric})
		}
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		events := correlated(3200, schema.Target)
		for _, e := range events[:3000] {
			l.Learn(e, nil)
		}
		events = events[3000:]
		compared := 0
		for _, e := range events {
			l.begin(e)
			l.lack(e)
			l.gather(e)
			l.publish(e)
			l.prepare(e)
			if l.now.hasMoved {
				continue
			}
			named := l.drawMask(e, false)
			l.sumLeft()
			own := slices.Clone(l.probing.part)
			m := model.Linear{Head: l.head(l.schema), Rows: l.table}
			x := m.Standardized(e, event.Vec{})
			for _, point := range []int{3, 6} {
				dead := make([]bool, len(x.Index))
				copy(l.probing.part, own)
				fill := false
				for i, place := range l.probing.places {
					if dead[i] = int(l.probing.mask.Last[i]) < point; dead[i] && place >= 0 {
						l.probing.part[place], fill = model.Filled, true
					}
				}
				if !named || !fill {
					continue
				}
				for i, column := range x.Index { // hats die with their number
					if source, _ := slices.BinarySearch(x.Index, m.Scaler.Curves.Source(column)); column >= model.FirstHat {
						dead[i] = dead[source]
					}
				}
				var left event.Example
				m.Delete(e, x, l.scaling.Scaler.FieldsOf(e, x.Index, nil), dead, false, &left)
				want := m.VarianceLacking(left.Features, &left)
				if want.Range == 0 {
					continue
				}
				k := l.fields.All(l.schema.Fields)
				k.Null, k.Named = k.Null+l.probing.mask.Dead[point], k.Named-l.probing.mask.Dead[point]
				l.fillPattern(want.Range, l.probing.part)
				l.weigh(want.Range, k, l.probing.left[point], true, false)
				if got := l.maskedLacked(want.Range, true).Variance; math.Abs(got-want.Variance) > 1e-9*want.Variance || want.Variance == 0 {
					t.Fatalf("%s: the variance is %v, want %v", lossName, got, want.Variance)
				}
				compared++
			}
		}
		if compared < 50 {
			t.Errorf("%d are compared", compared)
		}
	}
}

// A checkpoint goes on to the bit; one from before there were sets begins without, under another
// coverage the limits follow it, and none of it is told where there is to be none.
func TestSetsRestored(t *testing.T) {
	l := kindsLearner(t, 3, nil)
	s := &classStream{rand.New(rand.NewPCG(11, 12)), 3, 0.1}
	for range 3000 {
		l.Learn(s.next(), nil)
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	restore := func(coverage float64, without string) *Learner {
		c := DefaultConfig()
		c.Coverage = coverage
		kept := slices.DeleteFunc(slices.Clone(blocks), func(b event.Block) bool { return b.Name == without })
		l, err := Restore(c, kept)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	same, before, often, none := restore(0.9, ""), restore(0.9, blockSets), restore(0.99, ""), restore(0, "")
	if before.sets.Limit(0) != -1 || before.Report().Sets != nil || none.Published().Sets != nil || !(often.sets.Limit(0) > l.sets.Limit(0)) {
		t.Errorf("limits: %v without a block, %v of 0.99, %v before", before.sets.Limit(0), often.sets.Limit(0), l.sets.Limit(0))
	}
	for range 1000 {
		e := s.next()
		for _, x := range []*Learner{l, same, before} {
			x.Learn(e, nil)
		}
	}
	if a, b := l.sets.Encode(), same.sets.Encode(); !bytes.Equal(a, b) {
		t.Error("it does not go on to the bit")
	}
	if before.sets.Limit(0) < 0 {
		t.Error("one without a block does not begin")
	}
	copied, err := l.Clone()
	if err != nil || !bytes.Equal(copied.sets.Encode(), l.sets.Encode()) {
		t.Errorf("a copy has other sets (%v)", err)
	}
	for _, coverage := range []float64{-0.1, 0.3, 1, math.NaN()} {
		c := DefaultConfig()
		c.Coverage = coverage
		if _, err := New(c, event.NewSchema(4, nil, 2)); err == nil {
			t.Errorf("coverage %v is taken", coverage)
		}
	}
	broken := slices.Clone(blocks)
	for i := range broken {
		if broken[i].Name == blockSets {
			broken[i].Data = broken[i].Data[:len(broken[i].Data)-3]
		}
	}
	if _, err := Restore(DefaultConfig(), broken); err == nil {
		t.Error("a block that is cut is taken")
	}
}

// Several learners' sets hold what they should, with limits that all have from the fold.
func TestSetsShared(t *testing.T) {
	l := kindsLearner(t, 4, func(c *Config) { c.CovarianceMaxFields = 0 })
	s := &classStream{rand.New(rand.NewPCG(13, 14)), 4, 0.05}
	events := make([]event.Example, 9000)
	for i := range events {
		events[i] = *s.next()
	}
	rounds(t, l, events, 500, 3, 100, 32)
	if got := l.sets.Report()[0].Events; got < 4000 {
		t.Errorf("%v events without anything missing have been told a set", got)
	}
	m := l.Published()
	for _, null := range []float64{0, 0.3, 0.6} {
		held, size, right := covered(t, m, &classStream{rand.New(rand.NewPCG(15, 16)), 4, null}, 4000)
		if held < 0.87 || held > max(0.9, right)+0.03 {
			t.Errorf("%v null: %.3f of the classes are in their set, of which %.3f are right; %.2f classes in a set", null, held, right, size)
		}
	}
}
