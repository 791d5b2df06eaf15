package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/cover"
	"blankout/online/synthetic"
	"blankout/online/watch"
)

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

// What is taken up of events without masks is what the published model says of them before they are
// learned: of whole events and, where these are many, of such as lack fields.
func TestSetsTakeWhatIsTold(t *testing.T) {
	l := kindsLearner(t, 4, func(c *Config) { c.Noise = "dropout:0.3" })
	s, slow := &synthetic.ClassStream{R: rand.New(rand.NewPCG(5, 6)), Classes: 4, Null: 0.02}, cover.New(0.9)
	state := func(c *cover.Cover) []byte {
		to := &coder.Coder{}
		c.State(to)
		return to.Out[:len(to.Out):len(to.Out)]
	}
	for n := 1; n <= 1500; n++ {
		e := s.Next()
		m := l.Snapshot().Model()
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

// Where labels come such that each is just outside of its set there is a warning.
func TestSetsWarn(t *testing.T) {
	l := kindsLearner(t, 2, func(c *Config) { c.Calibrate = "off" })
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(17, 18)), Classes: 2, Null: 0}
	for range 3500 {
		e := s.Next()
		if s.R.Float64() < 0.2 { // some labels are wrong
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
		e := s.Next()
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
		events := synthetic.Correlated(3200, schema.Target)
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
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(11, 12)), Classes: 3, Null: 0.1}
	for range 3000 {
		l.Learn(s.Next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
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
	if before.sets.Limit(0) != -1 || before.Report().Sets != nil || none.Snapshot().Model().Sets != nil || !(often.sets.Limit(0) > l.sets.Limit(0)) {
		t.Errorf("limits: %v without a block, %v of 0.99, %v before", before.sets.Limit(0), often.sets.Limit(0), l.sets.Limit(0))
	}
	for range 1000 {
		e := s.Next()
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
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(13, 14)), Classes: 4, Null: 0.05}
	events := make([]event.Example, 9000)
	for i := range events {
		events[i] = *s.Next()
	}
	rounds(t, l, events, 500, 3, 100, 32)
	if got := l.sets.Report()[0].Events; got < 4000 {
		t.Errorf("%v events without anything missing have been told a set", got)
	}
	m := l.Snapshot().Model()
	for _, null := range []float64{0, 0.3, 0.6} {
		held, size, right := synthetic.Covered(t, m, &synthetic.ClassStream{R: rand.New(rand.NewPCG(15, 16)), Classes: 4, Null: null}, 4000)
		if held < 0.87 || held > max(0.9, right)+0.03 {
			t.Errorf("%v null: %.3f of the classes are in their set, of which %.3f are right; %.2f classes in a set", null, held, right, size)
		}
	}
}
