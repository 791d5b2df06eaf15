package members

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// groupEvents returns events of two classes with words and a number.
func groupEvents(n int) (*event.Schema, []event.Example) {
	s := event.NewSchema(16, []string{"no", "yes"}, 2)
	s.Fields = append(s.Fields, event.Field{Name: "x", Kind: event.Numeric}, event.Field{Name: "words", Kind: event.Words})
	r := rand.New(rand.NewPCG(1, 2))
	events := make([]event.Example, n)
	for i := range events {
		e := &events[i]
		x := r.NormFloat64()
		e.Weight = 1
		e.Features.Index, e.Features.Value, e.Field = []uint32{1}, []float64{10 + 2*x}, []uint16{1}
		f := 2 * x
		for column := uint32(2 + r.IntN(20)); column < 200; column += 1 + uint32(r.IntN(40)) {
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, 1), append(e.Field, 2)
			f += float64(column%7)/2 - 1.5
		}
		if f+r.NormFloat64() > 0 {
			e.Label = 1
		}
	}
	return s, events
}

func members(n int) Members {
	return Members{N: n, Interval: 50, Fraction: 0.02, Warm: 500, Rate: 1000, Precision: 32, Delay: 0.01, Timeout: 0.1, Session: 1}
}

// TestMembers simulates all failures of members. Every record must be counted once, and all replicas must be equal. The
// model must be about as good as without failures.
func TestMembers(t *testing.T) {
	s, all := groupEvents(8000)
	events, test := all[:6000], all[6000:]
	c := online.DefaultConfig()
	c.Noise = "none" // otherwise chance decides between equally good noise levels
	alone := members(1)
	want, err := alone.Run(t.Context(), c, s, events, test)
	if err != nil {
		t.Fatal(err)
	}
	seen := MembersResult{Rejected: nil}
	rejected := uint64(0)
	for seed := range uint64(5) {
		m := members(7)
		m.Partitions, m.Seed, m.Loss, m.Crash, m.Pause = 10, seed, 0.2, 0.1, 0.1
		got, err := m.Run(t.Context(), c, s, events, test)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.Run(t.Context(), c, s, events, test)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Errorf("seed %d: the same gave\n%+v\n%+v", seed, got, again)
		}
		if got.Lost != 0 || got.Twice != 0 || !got.Replicas {
			t.Errorf("seed %d: %d lost, %d twice, replicas equal: %v", seed, got.Lost, got.Twice, got.Replicas)
		}
		if *got.TestLogLoss > *want.TestLogLoss+0.03 {
			t.Errorf("seed %d: test log-loss %.4f, alone %.4f", seed, *got.TestLogLoss, *want.TestLogLoss)
		}
		seen.Crashes, seen.Pauses, seen.Reprocessed = seen.Crashes+got.Crashes, seen.Pauses+got.Pauses, seen.Reprocessed+got.Reprocessed
		for _, n := range got.Rejected {
			rejected += n
		}
	}
	if seen.Crashes == 0 || seen.Pauses == 0 || seen.Reprocessed == 0 || rejected == 0 {
		t.Errorf("nothing happened: %+v, %d rejected", seen, rejected)
	}
}

// TestMembersAlone checks that a group with one member learns the same model as a single learner.
func TestMembersAlone(t *testing.T) {
	s, events := groupEvents(2000)
	c := online.DefaultConfig().ForGroup() // members do not impute and have no second-order expert
	l, err := online.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		l.Learn(&events[i], nil)
	}
	m := members(1)
	got, err := m.Run(t.Context(), c, s, events, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Report(); got.ProgressiveLogLoss != want.Total.MeanLogLoss() || got.Events != want.Events || got.TestError != nil {
		t.Errorf("%+v, want log-loss %v", got, want.Total.MeanLogLoss())
	}
}

func TestMembersCheck(t *testing.T) {
	for name, change := range map[string]func(*Members){
		"members":   func(m *Members) { m.N = 0 },
		"interval":  func(m *Members) { m.Interval = 0 },
		"precision": func(m *Members) { m.Precision = 16 },
		"rate":      func(m *Members) { m.Rate = 0 },
		"loss":      func(m *Members) { m.Loss = 1 },
		"crash":     func(m *Members) { m.Crash, m.Pause = 0.5, 0.5 },
	} {
		m := members(2)
		if change(&m); m.Check() == nil || !strings.Contains(m.Check().Error(), name) {
			t.Errorf("%s: %v", name, m.Check())
		}
	}
}
