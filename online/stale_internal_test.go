package online

import (
	"math"
	"testing"

	"blankout/internal/event"
)

// What a constant loses are the class fractions of the events before, by hand.
func TestConstantLost(t *testing.T) {
	l, err := New(DefaultConfig(), event.NewSchema(8, []string{"a", "b"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	l.watch.Measures.Classes = []uint64{3, 1}
	for label, want := range [][2]float64{{0, -math.Log(4.0 / 6)}, {1, -math.Log(2.0 / 6)}} {
		if got := l.constantLost(&event.Example{Label: label}); got.Error != want[0] || math.Abs(got.Loss-want[1]) > 1e-15 {
			t.Errorf("class %d: %+v, want %v", label, got, want)
		}
	}
}

// The bound of a cautious link is around the class fractions, and grows with the number of models of that age that
// have been seen; what was learned at another age does not count.
func TestCautiousLink(t *testing.T) {
	c := DefaultConfig()
	c.ServingStaleness = 100
	l, err := New(c, event.NewSchema(8, []string{"a", "b"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	width := func() float64 {
		u := l.linked().LogOdds
		return u[len(u)-1] - u[0]
	}
	l.watch.Measures.Classes = []uint64{29, 9}
	if u := l.linked().LogOdds; math.Abs((u[0]+u[1])/2+math.Log(3)) > 1e-12 || math.Abs(width()-1.2) > 1e-12 {
		t.Errorf("the bounds are %v", u)
	}
	l.link.Age = 100
	for n := range 800 {
		if l.link.Take([]float64{float64(n%40) - 20}, 1, n%40/20, 1); n == 399 && math.Abs(width()-1.2) > 1e-9 {
			t.Errorf("after four models the bounds are %v apart", width())
		}
	}
	if math.Abs(width()-2.4) > 1e-9 {
		t.Errorf("after eight models the bounds are %v apart", width())
	}
	if l.link.Age = 300; math.Abs(width()-1.2) > 1e-9 {
		t.Errorf("of another age the bounds are %v apart", width())
	}
}
