package online

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/memory"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/synthetic"
	"blankout/online/watch"
	"blankout/online/young"
)

// crowdedAt is the event of a comingStream that has wideColumns columns.
const crowdedAt, wideColumns = 150, 1500

// comingStream gives events of more and more classes, whose numbers and words tell them apart.
type comingStream struct {
	r    *rand.Rand
	n    int
	most int // classes
}

func newComingStream(seed uint64) *comingStream {
	return &comingStream{r: rand.New(rand.NewPCG(seed, 2)), most: 40}
}

func comingLearner(t testing.TB, c Config, maxClasses int) *Learner {
	t.Helper()
	s := event.NewSchema(20, nil, maxClasses)
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric}, {Name: "b", Kind: event.Numeric}, {Name: "words", Kind: event.Words}} {
		s.AddField(f)
	}
	s.NumericIndices = true
	for class := range 200 {
		s.Classes = append(s.Classes, fmt.Sprint("c", class))
	}
	l, err := newLearner(c, mustParse(t, c), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.youngBytes = 1 << 20
	return l
}

func mustParse(t testing.TB, c Config) settings {
	t.Helper()
	set, err := c.parse()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// of returns an event of a class, with so many columns that no event has had.
func (s *comingStream) of(class, columns int) *event.Example {
	e := &event.Example{Label: class, Weight: 1, Offset: int64(s.n), Time: synthetic.SensorStart + int64(s.n)}
	add := func(field uint16, column uint32, x float64) {
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, x), append(e.Field, field)
	}
	add(1, 1, 10+float64(class%7)+0.3*s.r.NormFloat64())
	add(2, 2, float64(class/7)+0.3*s.r.NormFloat64())
	add(3, uint32(100+class), 1)
	add(3, uint32(300+s.r.IntN(5)), 1)
	for i := range columns {
		add(3, uint32(1000+columns*s.n+i), 1)
	}
	s.n++
	return e
}

func (s *comingStream) next() *event.Example {
	columns := 0
	if s.n == crowdedAt {
		columns = wideColumns
	}
	return s.of(s.r.IntN(min(s.most, 8+s.n/8)), columns)
}

func mustBlocks(t testing.TB, l *Learner) []event.Block {
	t.Helper()
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// Classes have outputs of their own until these take much room. From then on those of few events share one until their
// eighth event, and the model that is published gives each class the score that the learner gives it.
func TestYoungShare(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 100), newComingStream(1)
	promoted, early, costs := 0, 0, 0
	for i := range 1500 {
		e := s.next()
		was, fraction := l.young.On() && l.young.IsYoung(e.Label), 0.0
		if was {
			fraction = l.young.Expand(make([]float64, l.k), 0, nil)[e.Label]
		}
		scored := scoresOf(l, e)
		told := l.Learn(e, nil).Scores
		if on := l.young.On(); on != (i >= crowdedAt) {
			t.Fatalf("event %d: classes share an output: %v", i, on)
		}
		if !l.young.On() {
			continue
		}
		if len(told) != l.outputs() || l.outputs() != len(l.measured.Classes) || l.k != l.young.Count() || l.active != l.k {
			t.Fatalf("event %d: %d scores of %d classes, %d outputs of %d", i, len(told), len(l.measured.Classes), l.k, l.young.Count())
		}
		for class, n := range l.measured.Classes {
			if l.young.IsYoung(class) && (class < young.Own || n >= young.Ripe) {
				t.Fatalf("event %d: class %d of %d events shares its output", i, class, n)
			}
		}
		alone := l.youngAlone(l.young.Known())
		if l.youngCost(&event.Example{}, alone) > l.youngBytes {
			t.Fatalf("event %d: %d outputs of classes of few events take %d bytes", i, alone, l.youngCost(&event.Example{}, alone))
		}
		switch {
		case was && !l.young.IsYoung(e.Label):
			if promoted++; l.eventsOf(e.Label) < young.Ripe {
				early++
			}
		case was && l.young.Expand(make([]float64, l.k), 0, nil)[e.Label] <= fraction:
			t.Errorf("event %d: class %d is not more likely after its event", i, e.Label)
		}
		if l.second.knows() && !l.second.away {
			for k, y := range l.second.targets[:l.k] {
				if (y > 0) != (k == l.young.Output(e.Label)) {
					t.Fatalf("event %d of class %d: output %d learns %v", i, e.Label, k, y)
				}
			}
		}
		if found := l.deleting.found; watch.Sampled(l.events, costBits) && len(found) > 0 {
			costs++
			if right := l.decision().Predict(told) == e.Label; right != (found[0].with == 0) {
				t.Errorf("event %d: right is %v, and its error %v", i, right, found[0].with)
			}
		}
		if i == crowdedAt && l.table.Len() < wideColumns {
			t.Fatal("the columns are gone")
		}
		if i > crowdedAt && i%50 == 0 && len(scored) == len(told) {
			for class := range told {
				if math.Abs(told[class]-scored[class]) > 0.05 { // the scales move in between
					t.Errorf("event %d: class %d scores %v, before it is learned %v", i, class, told[class], scored[class])
				}
			}
		}
	}
	if promoted < 15 || early < 3 || early > promoted-3 || costs < 10 || l.young.Young() > 5 {
		t.Errorf("%d classes got an output of their own, %d before their eighth event; %d share one", promoted, early, l.young.Young())
	}
	recent := &measure.Classes{}
	for range 400 {
		e := s.next()
		p := l.Predict(e)
		p.Measure(e, recent)
	}
	if recent.Error() > 0.05 {
		t.Errorf("error %.3f", recent.Error())
	}
	e := s.next()
	want := scoresOf(l, e)
	for name, m := range map[string]*model.Linear{"compact": l.Snapshot().Model().Compact(), "apart": l.Snapshot().Model().Compact().Apart(), "snapshot": l.Snapshot().Model(), "read": readModel(t, l)} {
		if m.Outputs != l.outputs() {
			t.Errorf("%s: %d scores", name, m.Outputs)
			continue
		}
		for class, f := range m.Score(e, make([]float64, m.Outputs)) {
			if math.Abs(f-want[class]) > 1e-9 {
				t.Errorf("%s: class %d scores %v, want %v", name, class, f, want[class])
			}
		}
	}
}

func readModel(t *testing.T, l *Learner) *model.Linear {
	t.Helper()
	m, err := model.ReadLinear(mustBlocks(t, l))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An output of its own gives a class the score that it had, and no other class another one; nor does a new class.
func TestYoungScoresStay(t *testing.T) {
	longtest.NotRaced(t)
	for _, name := range []string{"adagrad", "ftrl", "sgd", "irls"} {
		c := DefaultConfig()
		if c.Optimizer, c.Noise = name, "dropout:0.3"; name == "irls" {
			c.IRLSBatch = 20
		}
		l, s := comingLearner(t, c, 24), newComingStream(2)
		grown, joined := 0, 0
		for range 500 {
			e := s.next()
			on, known, count := l.young.On(), l.young.Known(), l.k
			before := scoresOf(l, e)
			if l.shareOutputs(e); on && (l.k > count || l.young.Known() > known) {
				after := scoresOf(l, e)
				for class, f := range before {
					if math.Abs(after[class]-f) > 1e-9 {
						t.Fatalf("%s, event %d: class %d scores %v, before %v", name, s.n, class, after[class], f)
					}
				}
				if joined += l.young.Known() - known; l.k > count {
					grown++
				}
			}
			l.Learn(e, nil)
		}
		if grown < 5 || joined < 5 {
			t.Errorf("%s: %d outputs and %d classes came", name, grown, joined)
		}
		recent := &measure.Classes{}
		for range 200 {
			e := s.next()
			e.Label = l.young.Class(e.Label % l.k)
			if e.Label < 0 {
				continue
			}
			e = s.of(e.Label, 0)
			p := l.Predict(e)
			p.Measure(e, recent)
		}
		if most := map[string]float64{"adagrad": 0.3, "ftrl": 0.5, "sgd": 0.5, "irls": 0.2}[name]; recent.Error() > most {
			t.Errorf("%s: error %.3f of classes with outputs of their own", name, recent.Error())
		}
	}
}

// A Learner that is restored goes on to the same bytes while classes share an output, under every rule.
func TestYoungRestart(t *testing.T) {
	longtest.NotRaced(t)
	all := map[string]Config{"auto": DefaultConfig()}
	all["auto"] = func() Config { c := DefaultConfig(); c.ServingStaleness = 100; return c }()
	for _, r := range rules.Table {
		c := DefaultConfig()
		c.Optimizer, c.Noise = r.Name, "dropout:0.3"
		switch r.Name {
		case "arow":
			c.Loss, c.Noise = "hinge", "none"
		case "irls":
			c.IRLSBatch = 20
		}
		all[r.Name+" alone"] = c
	}
	for k, name := range slices.Sorted(maps.Keys(all)) {
		if !longtest.Some(k+1, 2) { // auto among them
			continue
		}
		c := all[name]
		whole, parts, s := comingLearner(t, c, 24), comingLearner(t, c, 24), newComingStream(3)
		classes := whole.schema.Classes
		for i := range 420 {
			if slices.Contains([]int{151, 152, 200, 275, 350, 419}, i) {
				got, want := mustBlocks(t, parts), mustBlocks(t, whole)
				for j := range want {
					if !bytes.Equal(got[j].Data, want[j].Data) {
						t.Fatalf("%s: after %d events block %s differs", name, i, want[j].Name)
					}
				}
				var err error
				if parts, err = Restore(c, got); err != nil {
					t.Fatal(name, i, err)
				}
				parts.schema.Classes, parts.youngBytes = classes, whole.youngBytes
				if parts.young.Young() == 0 {
					t.Errorf("%s: no class shares an output after %d events", name, i)
				}
			}
			e := s.next()
			whole.Learn(e, nil)
			parts.Learn(e, nil)
		}
	}
}

// A hundred stray labels at the start take no class's place: those of few events share an output when all places are
// taken, and the classes that come later are told apart.
func TestStraysTakeNoPlaces(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 20), newComingStream(4)
	for class := range 100 {
		e := s.of(class, 0)
		if l.Refusal(e) != nil || l.Learn(e, nil).Scores == nil {
			t.Fatalf("class %d is refused", class)
		}
	}
	if l.k != young.Own+1 || l.outputs() != 100 {
		t.Fatalf("%d outputs of %d classes", l.k, l.outputs())
	}
	wrong := 0
	for i := range 400 {
		e := s.of(100+i%9, 0)
		if got := l.Learn(e, nil).Scores; i >= 200 && l.decision().Predict(got) != e.Label {
			wrong++
		}
	}
	if wrong > 10 || l.k != young.Own+1+9 {
		t.Errorf("%d of 200 events are wrong, %d outputs", wrong, l.k)
	}
	// There are 20 places: a class that comes often afterwards shares for good, and a warning says so.
	for i := range 40 {
		l.Learn(s.of(110+i%2, 0), nil)
	}
	if l.k != 21 || l.young.IsYoung(110) == l.young.IsYoung(111) {
		t.Errorf("%d outputs for 20 places; young are %v and %v", l.k, l.young.IsYoung(110), l.young.IsYoung(111))
	}
	stuck := "c110"
	if l.young.IsYoung(111) {
		stuck = "c111"
	}
	for from, warnings := range map[string][]string{"learner": warned(l.Warnings(nil, true)), "snapshot": warned(l.Snapshot().Warnings(nil))} {
		if !slices.ContainsFunc(warnings, func(w string) bool {
			return strings.HasPrefix(w, fmt.Sprintf("class %q has had 20 events and shares an output with 91 more", stuck))
		}) {
			t.Errorf("%s: warnings %q", from, warnings)
		}
	}
}

func warned(warnings []watch.Warning) (out []string) {
	for _, w := range warnings {
		out = append(out, w.Text)
	}
	return out
}

// Where rows may not be wider, young classes share an output, and one is refused only where that has no room either.
func TestYoungMemory(t *testing.T) {
	c := DefaultConfig()
	l, s := comingLearner(t, c, 100), newComingStream(5)
	for class := range 14 {
		l.Learn(s.of(class, 0), nil)
	}
	l.Learn(s.of(0, 2000), nil)
	l.config.MaxMemory = int(memory.Bytes(l.table.Len(), l.width(14)))
	e := s.of(14, 0)
	e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:2], e.Features.Value[:2], e.Field[:2] // known columns
	if l.Refusal(e) != nil || l.Learn(e, nil).Scores == nil || l.k != young.Own+1 || l.outputs() != 15 {
		t.Errorf("%d outputs of %d classes", l.k, l.outputs())
	}
	// The eighth event finds room for three more outputs, and then for none.
	for range young.Ripe {
		for class := 10; class < 15; class++ {
			e.Label = class
			if l.Learn(e, nil).Scores == nil {
				t.Fatalf("an event of class %d is refused", class)
			}
		}
	}
	if l.k != 14 || l.young.Young() != 2 || !l.fits(l.k) || l.fits(l.k+1) {
		t.Errorf("%d outputs, %d classes share one", l.k, l.young.Young())
	}
	small, s := comingLearner(t, c, 100), newComingStream(5)
	for class := range 10 {
		small.Learn(s.of(class, 0), nil)
	}
	small.Learn(s.of(0, 2000), nil)
	small.config.MaxMemory = int(memory.Bytes(small.table.Len(), small.width(10)))
	e.Label = 10
	if r := small.Refusal(e); r == nil || r.Reason != event.ReasonMemory || !strings.HasPrefix(r.Detail, `class "c10": `) {
		t.Errorf("refusal %v", r)
	}
}

// Several learners of one model have an output for each class that there may be: none is shared.
func TestYoungAmongSeveral(t *testing.T) {
	c, schema := DefaultConfig(), comingLearner(t, DefaultConfig(), 40).schema
	schema.MaxClasses, schema.Classes = 40, schema.Classes[:40]
	l, err := NewShared(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.beginInterval(2, 1000); err != nil {
		t.Fatal(err)
	}
	s := newComingStream(6)
	s.n = 80
	for range 200 {
		l.Learn(s.next(), nil)
	}
	if l.young.On() || l.k != 40 {
		t.Errorf("%d outputs, shared %v", l.k, l.young.On())
	}
}

// What was said of an event before outputs changed is measured as it was said, and decides nothing else.
func TestYoungLater(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 100), newComingStream(7)
	type waiting struct {
		e    *event.Example
		told *Prediction
	}
	var queue []waiting
	heeded, passed, changed := 0, 0, uint64(0)
	for range 500 {
		e := s.next()
		queue = append(queue, waiting{e, kept(l.Predict(e))})
		if len(queue) < 20 {
			continue
		}
		x := queue[0]
		queue = queue[1:]
		before, wrong, outputs := l.Report().Total, 0.0, l.k
		if scores := x.told.Scores; len(scores) <= x.e.Label || model.Predict(scores) != x.e.Label {
			wrong = 1
		}
		if l.Learn(x.e, x.told); l.k != outputs {
			changed = l.events
		}
		if got := l.Report().Total.Wrong - before.Wrong; got != wrong {
			t.Fatalf("event %d: %v wrong, want %v", x.e.Offset, got, wrong)
		}
		switch {
		case l.now.told == nil:
			passed++
		case x.told.Learned < changed:
			t.Fatalf("event %d: the prediction made after %d events counts; outputs have changed at %d", x.e.Offset, x.told.Learned, changed)
		default:
			heeded++
		}
	}
	if heeded < 50 || passed < 50 {
		t.Errorf("%d times it counts what was said, %d times not", heeded, passed)
	}
}

// An exact solution is taken over for the classes that have an output, and the shared one stays.
func TestYoungAdopt(t *testing.T) {
	c := DefaultConfig()
	c.Optimizer, c.Noise = "adagrad", "dropout:0.3"
	l, s := comingLearner(t, c, 100), newComingStream(8)
	for range 300 {
		l.Learn(s.next(), nil)
	}
	weights := make([][]float64, l.outputs())
	intercept := make([]float64, l.outputs())
	for class := range weights {
		weights[class] = make([]float64, 3)
		weights[class][1], intercept[class] = float64(class), float64(-class)
	}
	exact := model.NewLinear(l.schema, "logistic", "dropout:0.3", weights, intercept)
	shared := l.weights(l.table.Row(1))[l.young.Shared()]
	l.Adopt([]*model.Linear{exact}, func(take func(*event.Example)) {
		take(&event.Example{Label: 12, Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}})
	}, func() {})
	m := l.Snapshot().Model()
	for class := range weights {
		want, b := float64(class), float64(-class)
		if l.young.IsYoung(class) {
			if want = shared; math.Abs(m.Weight(1, class)-want) > 1e-12 {
				t.Errorf("class %d, which shares an output, has the weight %v, want %v", class, m.Weight(1, class), want)
			}
			continue
		}
		if math.Abs(m.Weight(1, class)-want) > 1e-12 || math.Abs(m.Intercept[class]-b) > 1e-12 {
			t.Errorf("class %d has the weight %v and the intercept %v, want %v and %v", class, m.Weight(1, class), m.Intercept[class], want, b)
		}
	}
}

// A checkpoint whose classes do not fit its model is refused.
func TestYoungStateFits(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 100), newComingStream(9)
	for range 200 {
		l.Learn(s.next(), nil)
	}
	blocks := mustBlocks(t, l)
	at := slices.IndexFunc(blocks, func(b event.Block) bool { return b.Name == blockYoung })
	if at < 0 {
		t.Fatal("no block")
	}
	for i := range blocks[at].Data {
		if i < 8 || i >= 24 && i < 32 && l.young.Young() == 0 {
			continue
		}
		other := slices.Clone(blocks)
		other[at].Data = slices.Clone(blocks[at].Data)
		if other[at].Data[i] ^= 0x40; i%8 < 7 && i >= 32 && (i/8)%2 == 1 {
			continue // another weight is one all the same
		}
		if _, err := Restore(DefaultConfig(), other); err == nil || !strings.Contains(err.Error(), blockYoung) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if _, err := Restore(DefaultConfig(), slices.Delete(slices.Clone(blocks), at, at+1)); err == nil {
		t.Error("it goes on without the block")
	}
	if rows.NoClass >= 0 {
		t.Error("a class that has not come is likely")
	}
}

// The shared output begins as the mean of those of the young classes, as likely as all of them together.
func TestMergeYoung(t *testing.T) {
	c := DefaultConfig()
	c.Noise = "auto"
	l, s := comingLearner(t, c, 100), newComingStream(10)
	for range crowdedAt {
		l.Learn(s.next(), nil)
	}
	var youngOnes []int
	for class := range l.k {
		if l.isYoung(class) {
			youngOnes = append(youngOnes, class)
		}
	}
	was, row, bias := l.k, slices.Clone(l.table.Row(1)), slices.Clone(l.bias)
	before := slices.Clone(l.weights(row))
	var odds []float64
	for v := range l.levels {
		sum := 0.0
		for _, class := range youngOnes {
			sum += math.Exp(l.weights(bias)[v*was+class])
		}
		odds = append(odds, sum)
	}
	l.mergeYoung(0)
	if len(youngOnes) < 3 || l.k != was-len(youngOnes)+1 {
		t.Fatalf("%d outputs of %d, %d classes are young", l.k, was, len(youngOnes))
	}
	for v := range l.levels {
		mean := 0.0
		for _, class := range youngOnes {
			mean += before[v*was+class] / float64(len(youngOnes))
		}
		j := v*l.k + l.young.Shared()
		if got := l.weights(l.table.Row(1))[j]; math.Abs(got-mean) > 1e-12 {
			t.Errorf("level %d: weight %v, want %v", v, got, mean)
		}
		if got := math.Exp(l.weights(l.bias)[j]); math.Abs(got-odds[v]) > 1e-9 {
			t.Errorf("level %d: odds %v, want %v", v, got, odds[v])
		}
	}
}

// A past whose outputs meant something else tells nothing, even if there are as many.
func TestYoungHorizon(t *testing.T) {
	c := DefaultConfig()
	c.ServingStaleness = 100
	l, s := comingLearner(t, c, 13), newComingStream(11)
	for i := range 160 {
		label := i % 10
		switch {
		case i == 50 || i > 110 && i < 120:
			label = 10
		case i == 51:
			label = 11
		}
		l.Learn(s.of(label, 0), nil)
	}
	if p := l.oldEnough(); p == nil || p.k != 12 {
		t.Fatal("no past is old enough")
	}
	l.Learn(s.of(13, 0), nil)
	if p := l.oldEnough(); l.k != 12 || !l.young.On() || p != nil {
		t.Errorf("%d outputs, shared %v; a past of other outputs tells: %v", l.k, l.young.On(), p != nil)
	}
}

// Older weights answer the classes that they knew, whichever shared an output then or does now, also after a restart.
func TestYoungAged(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 20), newComingStream(12)
	for i := range 1300 {
		label := i % 10
		if i < 60 {
			label = i
		} else if i%5 == 0 {
			label = 10 + (i/5)%45 // some twenty get outputs, the others share one
		}
		l.Learn(s.of(label, 0), nil)
		if i == 1050 {
			again, err := Restore(DefaultConfig(), mustBlocks(t, l))
			if err != nil {
				t.Fatal(err)
			}
			again.schema.Classes, l = l.schema.Classes, again
		}
	}
	old := l.Report().ByAge[1]
	if old.Age != 100 || old.Events < 5 || old.Error == nil || !(*old.Error < 0.7) || !l.young.IsYoung(54) {
		t.Errorf("by age: %+v", old)
	}
}

// With its second event a class gets an output as long as young classes take little room, and leaves it again, those of the
// fewest events first, when rows have become many.
func TestYoungMergeAgain(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 100), newComingStream(13)
	for class := range 30 {
		for range 1 + class%5 {
			l.Learn(s.of(class, 0), nil)
		}
	}
	l.Learn(s.of(0, 1000), nil)
	half := int(l.youngBytes / l.youngCost(&event.Example{}, 2))
	if alone := l.youngAlone(30); !l.young.On() || alone == 0 || alone > half || l.k != young.Own+alone+1 {
		t.Fatalf("%d outputs, %d of classes of few events, of %d", l.k, alone, half)
	}
	check := func() {
		t.Helper()
		fewest, most := uint64(100), uint64(0) // events of those alone, and of those that share
		for class := young.Own; class < l.young.Known(); class++ {
			if n := l.eventsOf(class); l.young.IsYoung(class) {
				most = max(most, n)
			} else {
				fewest = min(fewest, n)
			}
		}
		if fewest <= most {
			t.Errorf("a class of %d events has an output, and one of %d shares", fewest, most)
		}
	}
	check()
	late := 30
	for l.youngAlone(l.young.Known()) < half {
		l.Learn(s.of(late, 0), nil)
		if !l.young.IsYoung(late) {
			t.Fatalf("class %d has an output with its first event", late)
		}
		l.Learn(s.of(late, 0), nil)
		if l.young.IsYoung(late) {
			t.Fatalf("class %d shares with its second event, of %d bytes", late, l.youngCost(&event.Example{}, l.youngAlone(l.young.Known())))
		}
		late++
	}
	l.Learn(s.of(late, 0), nil)
	if l.Learn(s.of(late, 0), nil); !l.young.IsYoung(late) {
		t.Error("a class has an output beyond half the room")
	}
	before := l.youngAlone(l.young.Known())
	l.Learn(s.of(0, 3*l.table.Len()), nil)
	if after := l.youngAlone(l.young.Known()); after >= before || l.youngCost(&event.Example{}, 2*after) > l.youngBytes {
		t.Errorf("%d classes of few events have outputs, before %d", after, before)
	}
	check()
}

// Where all places are taken, a class with its eighth event gets one that a class of few events has.
func TestYoungLeavePlaces(t *testing.T) {
	l, s := comingLearner(t, DefaultConfig(), 15), newComingStream(14)
	l.Learn(&event.Example{Weight: 1}, nil) // which has no features
	for range 2 {
		for class := range 16 { // the sixteenth has them share
			l.Learn(s.of(class, 0), nil)
		}
	}
	for class := 10; class < 16; class++ {
		l.Learn(s.of(class, 0), nil)
	}
	if l.k != 16 || l.youngAlone(16) != 5 {
		t.Fatalf("%d outputs, %d of classes of few events", l.k, l.youngAlone(16))
	}
	for n := range young.Ripe {
		if l.young.On() && l.young.Known() > 20 && !l.young.IsYoung(20) {
			t.Fatalf("a place is free before event %d", n+1)
		}
		l.Learn(s.of(20, 0), nil)
	}
	if l.k != young.Own+2 || l.young.IsYoung(20) || !l.young.IsYoung(10) {
		t.Errorf("%d outputs, the eighth event shares: %v", l.k, l.young.IsYoung(20))
	}
}
