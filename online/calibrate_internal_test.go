package online

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
)

// flipped draws an event of a clear class, whose label is turned over with a probability.
func flipped(r *rand.Rand, share float64) *event.Example {
	x, y := 6*r.Float64()-3, 6*r.Float64()-3
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, y}}}
	if (x+y > 0) != (r.Float64() < share) {
		e.Label = 1
	}
	return e
}

// Where one label in ten is wrong, "auto" finds the link that says so: the loss comes down, the published model says
// what the learner says, and a restart goes on to the bit. "off" has none, nor has a member of a group; weights are
// the same whatever is set.
func TestLinkOfWrongLabels(t *testing.T) {
	longtest.NotRaced(t)
	learners := map[string]*Learner{}
	for _, calibrate := range []string{"off", "auto", "on"} {
		c := DefaultConfig()
		c.Calibrate = calibrate
		l, err := New(c, event.NewSchema(8, []string{"a", "b"}, 2))
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 12_000 {
			l.Learn(flipped(r, 0.1), nil)
		}
		learners[calibrate] = l
	}
	off, auto, on := learners["off"], learners["auto"], learners["on"]
	if off.Snapshot().Model().Link != nil || auto.Snapshot().Model().Link == nil || on.Snapshot().Model().Link == nil {
		t.Fatal("not those that calibrate have a link")
	}
	now, plain := auto.Report(), off.Report()
	a, b := now.Summary(), plain.Summary()
	if !(*a.RecentLogLoss < *b.RecentLogLoss-0.01) || *a.CalibrationError > 0.04 || *b.CalibrationError < 0.06 {
		t.Errorf("recent log-loss %v, without a link %v; calibration error %v", *a.RecentLogLoss, *b.RecentLogLoss, *a.CalibrationError)
	}
	r, m := rand.New(rand.NewPCG(9, 2)), auto.Snapshot().Model()
	for range 200 {
		e := flipped(r, 0)
		scores := m.Score(e, make([]float64, 1))
		if got, want := m.Decision().Probability(scores[0]), auto.decision().Probability(scores[0]); got != want {
			t.Fatalf("the model says %v, the learner %v", got, want)
		}
		if other := off.Snapshot().Model().Score(e, make([]float64, 1)); other[0] != scores[0] {
			t.Fatalf("weights depend on calibrate: %v and %v", scores[0], other[0])
		}
	}
	blocks, err := auto.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Restore(auto.Config(), blocks)
	if err != nil {
		t.Fatal(err)
	}
	x, y := rand.New(rand.NewPCG(5, 2)), rand.New(rand.NewPCG(5, 2))
	for range 500 {
		auto.Learn(flipped(x, 0.1), nil)
		again.Learn(flipped(y, 0.1), nil)
	}
	p, _ := auto.Snapshot().Blocks()
	q, _ := again.Snapshot().Blocks()
	if !reflect.DeepEqual(p, q) {
		t.Error("a restart goes on otherwise")
	}
	c := auto.Config()
	c.Calibrate = "off"
	if changed, err := Restore(c, blocks); err != nil || changed.Snapshot().Model().Link != nil {
		t.Errorf("with calibrate off there is a link (%v)", err)
	}
	c.Calibrate, c.ClassWeight = "auto", map[string]float64{"b": 8}
	if weighted, err := New(c, event.NewSchema(8, []string{"a", "b"}, 2)); err != nil || weighted.calibrates() {
		t.Errorf("with class weights auto calibrates (%v)", err)
	}
	c.ClassWeight = nil
	if c = c.Shared(); c.CheckShared() != nil || c.Calibrate != "off" {
		t.Errorf("in a group calibrate is %q, %v", c.Calibrate, c.CheckShared())
	}
	c.Calibrate = "sometimes"
	if _, err := New(c, event.NewSchema(8, nil, 2)); err == nil || !strings.Contains(err.Error(), "auto, on or off") {
		t.Errorf("a calibrate that is none: %v", err)
	}
}
