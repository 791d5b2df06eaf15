package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/silent"
)

// readings makes events of numeric fields that each tell a little of the label, far from 0 and correlated: all read what
// one hidden number is, some of them after a transform.
type readings struct {
	r      *rand.Rand
	e      event.Example
	hidden []float64
}

func newReadings(seed uint64, fields, classes int) (*event.Schema, *readings) {
	var names []string
	for c := range classes {
		names = append(names, fmt.Sprint("c", c))
	}
	s := event.NewSchema(10, names, max(classes, 2))
	for i := range fields {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("f", i), Kind: event.Numeric, Group: fmt.Sprint("g", i/4)})
	}
	return s, &readings{r: rand.New(rand.NewPCG(seed, 50)), hidden: make([]float64, max(classes, 1))}
}

func (s *readings) next(schema *event.Schema, classes int) *event.Example {
	e, r := &s.e, s.r
	e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0]
	for c := range s.hidden {
		s.hidden[c] = r.NormFloat64()
	}
	if classes > 0 {
		e.Label = r.IntN(classes)
		s.hidden[e.Label] += 2
	} else {
		e.Target = 100 + 10*s.hidden[0]
	}
	for i := range len(schema.Fields) - 1 {
		x := s.hidden[i%len(s.hidden)] + 1.5*r.NormFloat64()
		if i%3 == 0 {
			x = math.Exp(x)
		}
		e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(i+1)), append(e.Features.Value, 50+10*x)
		e.Field = append(e.Field, uint16(i+1))
	}
	e.Weight = 1
	return e
}

// silentLoss learns so many events and returns what a reader of the model loses on events of which half of the fields, or of
// the groups, have died silently to their mean: the error, of numbers the root of the mean squared one.
func silentLoss(t *testing.T, c Config, classes, events int, groups bool) float64 {
	t.Helper()
	const fields = 16
	schema, s := newReadings(3, fields, classes)
	if classes == 0 {
		c.Loss, schema.Target, schema.Classes = "squared", loss.Real, nil
	}
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]float64, fields)
	for range events {
		e := s.next(schema, classes)
		for i, x := range e.Features.Value {
			sums[i] += x / float64(events)
		}
		l.Learn(e, nil)
	}
	m := l.Snapshot().Model()
	r, lost := rand.New(rand.NewPCG(9, 9)), 0.0
	out := make([]float64, max(classes, 1))
	const tests = 2000
	for range tests {
		e := s.next(schema, classes)
		died := false
		for i := range e.Features.Value {
			if !groups || i%4 == 0 {
				died = r.IntN(2) == 0
			}
			if died {
				e.Features.Value[i] = sums[i]
			}
		}
		scores := m.Score(e, out[:m.Outputs])
		switch {
		case classes == 0:
			d := m.Value(scores[0]) - e.Target
			lost += d * d / tests
		case m.Decision().Predict(scores) != e.Label:
			lost += 1.0 / tests
		}
	}
	if classes == 0 {
		return math.Sqrt(lost)
	}
	return lost
}

// What is learned for silent death loses less where half of the fields, or of the groups, have died and nobody says so: of two
// classes, of several, and of numbers, with the second-order expert and without.
func TestSilentMissingKeepsItsPromise(t *testing.T) {
	for _, classes := range []int{2, 4, 0} {
		for _, optimizer := range []string{"auto", "adagrad"} {
			for _, groups := range []bool{false, true} {
				if groups && classes == 0 {
					continue
				}
				t.Run(fmt.Sprint(classes, optimizer, groups), func(t *testing.T) {
					c := DefaultConfig()
					c.Optimizer = optimizer
					plain := silentLoss(t, c, classes, 4000, groups)
					c.SilentMissing, c.SilentGroups = 0.5, groups
					with := silentLoss(t, c, classes, 4000, groups)
					t.Logf("%.4f without, %.4f with", plain, with)
					if !(with < plain) {
						t.Errorf("it loses %.4f with silent_missing = 0.5, %.4f without", with, plain)
					}
				})
			}
		}
	}
}

// Without any rate at which something dies, the level learns what noise none does.
func TestSilentOfNothing(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Noise, c.LearningRate = "none", 0.3
		none := mustNew(t, c, classes)
		c.Noise = "silent:0"
		l := mustNew(t, c, classes)
		s, s2 := newStream(5, classes), newStream(5, classes)
		for range 500 {
			none.Learn(s.next(), nil)
			l.Learn(s2.next(), nil)
		}
		for i := range none.table.Len() {
			column, a := none.table.Column(i)
			b := l.table.Row(column)
			for j := range none.k {
				x, y := none.weights(a)[j], l.weights(b)[j]
				if math.Abs(x-y) > 0.02*(1+math.Abs(x)) {
					t.Errorf("%d classes, column %d: weight %v, of noise none %v", classes, column, y, x)
				}
			}
		}
	}
}

// A wild reading and one of an unlabeled event do not move what a dead number reads.
func TestDeadValuesAreOfSoundReadings(t *testing.T) {
	c := DefaultConfig()
	c.SilentMissing = 0.3
	schema, s := newReadings(1, 4, 2)
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		e := s.next(schema, 2)
		switch {
		case i > 100 && i%50 == 0:
			e.Features.Value[1] = 1e20
		case i%50 == 1:
			e.Label, e.Features.Value[1] = event.Unlabeled, -3
		}
		l.Learn(e, nil)
	}
	dead := l.Snapshot().Model().Dead
	if x, known := dead.Of(2); !known || x < 40 || x > 80 {
		t.Errorf("a dead number reads %v, known %v", x, known)
	}
	if _, known := dead.Of(99); known {
		t.Error("a column without readings is known")
	}
	var none *silent.Values = silent.NewValues("auto")
	if none.Dead() != nil {
		t.Error("without columns there are dead values")
	}
}

// Where rows lie in the order of their groups, as levels of groups want them, the silent level learns what it does alone.
func TestSilentGroupsInAnyOrder(t *testing.T) {
	const classes = 2 // with more, levels of groups make the first steps proximal for all
	schema, s := newReadings(7, 12, classes)
	for i := range schema.Fields[1:] {
		schema.Fields[1+i].Group = fmt.Sprint("g", i%3) // apart from each other
	}
	other, s2 := newReadings(7, 12, classes)
	copy(other.Fields, schema.Fields)
	c := DefaultConfig()
	c.Optimizer, c.OnDrift = "adagrad", "log"
	c.ExpectedMissingGroups, c.SilentMissing, c.SilentGroups = 0.3, 0.5, true
	bank, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	one := DefaultConfig()
	one.Optimizer, one.OnDrift, one.Noise = "adagrad", "log", "silent-group:0.5"
	alone, err := New(one, other)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		bank.Learn(s.next(schema, classes), nil)
		alone.Learn(s2.next(other, classes), nil)
	}
	at := bank.silent.level * bank.k
	for i := range alone.table.Len() {
		column, row := alone.table.Column(i)
		for j, want := range alone.weights(row) {
			if got := bank.weights(bank.table.Row(column))[at+j]; math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
				t.Fatalf("column %d: weight %v in the bank, %v alone", column, got, want)
			}
		}
	}
}

// A class that comes late makes outputs of one, and what was learned until then can be restored.
func TestSilentLateClass(t *testing.T) {
	for _, noise := range []string{"silent:0.5", "silent-group:0.5", "auto"} {
		c := DefaultConfig()
		if c.Noise = noise; noise == "auto" {
			c.SilentMissing = 0.5
		}
		schema := streamSchema(3)
		schema.Classes, schema.MaxClasses = nil, 5
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		s := newStream(1, 3)
		for i := range 400 {
			e := s.next()
			if i < 200 {
				e.Label %= 2
			}
			for len(schema.Classes) <= e.Label {
				schema.Classes = append(schema.Classes, fmt.Sprint(len(schema.Classes)))
			}
			l.Learn(e, nil)
		}
		blocks, err := l.Blocks()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(c, blocks); err != nil {
			t.Errorf("%s: %v", noise, err)
		}
	}
}

// Targets of 0 are learned like others: of counts most may be 0.
func TestSilentCountsOfZero(t *testing.T) {
	c := DefaultConfig()
	c.Loss, c.Noise, c.Optimizer = "poisson", "silent:0.3", "adagrad" // the level alone
	schema, s := newReadings(3, 4, 0)
	schema.Target, schema.Classes = loss.Count, nil
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	counts, predicted := 0.0, 0.0
	for i := range 4000 {
		e := s.next(schema, 0)
		e.Target = float64(max(0, int(s.hidden[0])))
		if i >= 3000 {
			m := l.Snapshot().Model()
			counts, predicted = counts+e.Target, predicted+m.Value(m.Score(e, make([]float64, 1))[0])
		}
		l.Learn(e, nil)
	}
	if !(math.Abs(predicted-counts) < 0.25*counts) {
		t.Errorf("the last thousand counts, most of them 0, sum to %v, the predictions to %v", counts, predicted)
	}
}

// What a masked copy is judged by is what the model that is served says of an event whose dead features read what they read.
func TestMaskedCopyIsWhatIsServed(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Optimizer, c.SilentMissing = "adagrad", 0.5
		schema, s := newReadings(11, 8, classes)
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for i := range 1500 {
			e := s.next(schema, classes)
			var m *model.Linear
			var want []float64
			if i > 1000 {
				m = l.Snapshot().Model().Alone()
			}
			mix := slices.Clone(l.shares.InForce[0].Levels)
			l.Learn(e, nil)
			if m == nil || l.now.hasMoved || !l.masked.mask.Some {
				continue
			}
			compared++
			x := m.Standardized(e, event.Vec{})
			for at := range x.Index {
				if l.masked.mask.Dead[at] {
					x.Value[at] = l.silent.dead[at]
				}
			}
			want = m.ScoreVec(x, make([]float64, l.k))
			got := make([]float64, l.k)
			l.mixOf(mix, l.masked.published, got)
			for k := range got {
				if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
					t.Fatalf("%d classes, event %d, output %d: the copy scores %v, served it would be %v", classes, i, k, got[k], want[k])
				}
			}
		}
		if compared < 100 {
			t.Errorf("%d classes: only %d events were compared", classes, compared)
		}
		prior := l.newTable().InForce[0].Levels
		if slices.Equal(prior, l.shares.InForce[0].Levels) {
			t.Errorf("%d classes: the weights of the levels are still those at first, %v", classes, prior)
		}
	}
}

// With several outputs and no learning rate set the level learns at 10/3 of the optimizer's.
func TestSilentPace(t *testing.T) {
	for _, classes := range []int{2, 3} {
		learned := func(rate float64) *Learner {
			c := DefaultConfig()
			c.Optimizer, c.Noise, c.LearningRate = "adagrad", "silent:0.5", rate
			schema, s := newReadings(5, 6, classes)
			l, err := New(c, schema)
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				l.Learn(s.next(schema, classes), nil)
			}
			return l
		}
		rate := 0.3
		if classes > 2 {
			rate = 1
		}
		auto, set := learned(0), learned(rate)
		for i := range auto.table.Len() {
			column, row := auto.table.Column(i)
			for j, w := range auto.weights(row) {
				if other := set.weights(set.table.Row(column))[j]; math.Abs(w-other) > 1e-9*(1+math.Abs(w)) {
					t.Fatalf("%d classes, column %d: weight %v, at the rate %v %v", classes, column, w, rate, other)
				}
			}
		}
	}
}

// What an unlabeled event adds to the sums of squares of the silent level is in proportion to unlabeled_weight.
func TestSilentUnlabeled(t *testing.T) {
	added := func(weight float64) (sums []float64) {
		c := DefaultConfig()
		c.Optimizer, c.Noise, c.UnlabeledWeight = "adagrad", "silent:0.5", weight
		schema, s := newReadings(5, 6, 3)
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			l.Learn(s.next(schema, 3), nil)
		}
		row := l.table.Row(2)
		before := slices.Clone(l.layout.Preconditioner(row))
		e := s.next(schema, 3)
		e.Label = event.Unlabeled
		l.Learn(e, nil)
		for j, m := range l.layout.Preconditioner(l.table.Row(2)) {
			sums = append(sums, m-before[j])
		}
		return sums
	}
	half, whole := added(0.4), added(0.8)
	for j := range half {
		if !(half[j] > 0) || math.Abs(whole[j]-2*half[j]) > 1e-6*whole[j] {
			t.Errorf("output %d: %v is added at a weight of .4, %v at .8", j, half[j], whole[j])
		}
	}
}
