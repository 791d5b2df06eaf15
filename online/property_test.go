package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout"
)

// stream makes reproducible events of every kind of field: two readings far
// from zero, a category, a bag of words and sparse columns, some of them dense.
type stream struct {
	r       *rand.Rand
	classes int
	e       blankout.Example
}

func newStream(seed uint64, classes int) *stream {
	return &stream{r: rand.New(rand.NewPCG(seed, 1)), classes: classes}
}

func streamSchema(classes int) *blankout.Schema {
	var names []string
	for c := range classes {
		names = append(names, fmt.Sprint("c", c))
	}
	s := blankout.NewSchema(10, names, classes)
	for _, k := range []blankout.Kind{blankout.Numeric, blankout.Categorical, blankout.Words, blankout.Cross} {
		s.Fields = append(s.Fields, blankout.Field{Name: k.String(), Kind: k})
	}
	return s
}

func (s *stream) next() *blankout.Example {
	e, r := &s.e, s.r
	e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0]
	add := func(column uint32, field uint16, x float64) {
		e.Features.Index = append(e.Features.Index, column)
		e.Features.Value = append(e.Features.Value, x)
		e.Field = append(e.Field, field)
	}
	label := r.IntN(s.classes)
	shift := float64(label)
	add(1, 0, 5+shift+r.NormFloat64()) // sparse and dense
	if r.IntN(20) > 0 {
		add(2, 0, 3*r.Float64())
	}
	add(3, 1, 300+20*shift+40*r.NormFloat64())
	add(4, 1, -1e-3*(1+r.Float64()))
	add(10+uint32(r.IntN(4)), 2, 1)
	for c := uint32(20); c < 40; c++ {
		if r.IntN(6) == 0 || r.IntN(40) == 20+label {
			add(c, 3, 1)
		}
	}
	add(50+uint32(r.IntN(3)), 4, 200*r.NormFloat64())
	e.Label, e.Weight = label, []float64{1, 1, 1, 2, 0.5, 1.5}[r.IntN(6)]
	return e
}

// eachConfig runs f for every rule, loss and noise that go together.
func eachConfig(t *testing.T, f func(t *testing.T, c Config, classes int)) {
	t.Helper()
	for _, rule := range rules {
		for _, loss := range []string{"hinge", "hinge:chen:0.5", "logistic", "logistic:chen", "logistic:quadratic-noising", "quadratic", "linear"} {
			for _, noise := range []string{"none", "dropout:0.5", "auto", "gaussian:0.3", "laplace:0.1", "poisson"} {
				for _, classes := range []int{2, 3} {
					c := DefaultConfig()
					c.Rule, c.Loss, c.Noise = rule.name, loss, noise
					if noise == "poisson" {
						c.Standardise = "scale"
					}
					if _, err := c.parse(); err != nil {
						continue
					}
					t.Run(fmt.Sprint(rule.name, "/", loss, "/", noise, "/", classes), func(t *testing.T) { f(t, c, classes) })
				}
			}
		}
	}
}

func mustNew(t testing.TB, c Config, classes int) *Learner {
	t.Helper()
	l, err := New(c, streamSchema(classes))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stateOf returns everything of a Learner as bytes.
func stateOf(t testing.TB, l *Learner) []byte {
	t.Helper()
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, block := range blocks {
		fmt.Fprintf(&b, "%s %d\n", block.Name, len(block.Data))
		b.Write(block.Data)
	}
	return b.Bytes()
}

func TestEveryRule(t *testing.T) {
	eachConfig(t, func(t *testing.T, c Config, classes int) {
		const n, cut = 300, 137
		l, s := mustNew(t, c, classes), newStream(7, classes)
		other, s2 := mustNew(t, c, classes), newStream(7, classes)
		for i := range n {
			e := s.next()
			// What a reader of the snapshot predicts is what Learn scores.
			if i == cut {
				want := l.Snapshot().Model().Score(e, make([]float64, l.k))
				for k, f := range l.Learn(e) {
					if math.Abs(f-want[k]) > 1e-9*(1+math.Abs(want[k])) {
						t.Errorf("output %d: Learn scored %v, the snapshot scores %v", k, f, want[k])
					}
				}
			} else {
				l.Learn(e)
			}
			// A weight of 0 changes nothing.
			if i == cut {
				before := stateOf(t, l)
				weight := e.Weight
				e.Weight = 0
				l.Learn(e)
				e.Weight = weight
				if !bytes.Equal(before, stateOf(t, l)) {
					t.Error("an event of weight 0 changed the state")
				}
			}
		}
		for _, x := range l.bias {
			if x-x != 0 {
				t.Fatalf("an intercept is %v", x)
			}
		}
		for i := range l.table.Len() {
			column, row := l.table.Column(i)
			for _, x := range row {
				if x-x != 0 {
					t.Fatalf("column %d: row %v", column, row)
				}
			}
		}
		// The same, saved and restored on the way.
		for i := range n {
			if i == cut {
				blocks, err := other.Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if other, err = Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
			}
			other.Learn(s2.next())
		}
		if !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
			t.Error("saved and restored on the way, the state is another")
		}
	})
}
