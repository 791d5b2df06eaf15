package online

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/synthetic"
)

// Without any rate at which something dies, the level learns what noise none does.
func TestSilentOfNothing(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Noise, c.LearningRate = "none", 0.3
		none := mustNew(t, c, classes)
		c.Noise = "silent:0"
		l := mustNew(t, c, classes)
		s, s2 := synthetic.NewStream(5, classes), synthetic.NewStream(5, classes)
		for range 500 {
			none.Learn(s.Next(), nil)
			l.Learn(s2.Next(), nil)
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

// Where rows lie in the order of their groups, as levels of groups want them, the silent level learns what it does alone.
func TestSilentGroupsInAnyOrder(t *testing.T) {
	const classes = 2 // with more, levels of groups make the first steps proximal for all
	schema, s := synthetic.NewReadings(7, 12, classes)
	for i := range schema.Fields[1:] {
		schema.Fields[1+i].Group = fmt.Sprint("g", i%3) // apart from each other
	}
	other, s2 := synthetic.NewReadings(7, 12, classes)
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
		bank.Learn(s.Next(schema, classes), nil)
		alone.Learn(s2.Next(other, classes), nil)
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

// What a masked copy is judged by is what the model that is served says of an event whose dead features read what they read.
func TestMaskedCopyIsWhatIsServed(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Optimizer, c.SilentMissing = "adagrad", 0.5
		schema, s := synthetic.NewReadings(11, 8, classes)
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for i := range 1500 {
			e := s.Next(schema, classes)
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
			schema, s := synthetic.NewReadings(5, 6, classes)
			l, err := New(c, schema)
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				l.Learn(s.Next(schema, classes), nil)
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
		schema, s := synthetic.NewReadings(5, 6, 3)
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			l.Learn(s.Next(schema, 3), nil)
		}
		row := l.table.Row(2)
		before := slices.Clone(l.layout.Preconditioner(row))
		e := s.Next(schema, 3)
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
