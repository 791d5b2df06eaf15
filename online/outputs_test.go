package online_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/online"
)

// manyClasses draws events of 60 mostly rare classes. The Schema allows 12.
func manyClasses(seed uint64) stream {
	s := event.NewSchema(16, nil, 12)
	r := rand.New(rand.NewPCG(seed, 6))
	return stream{s, func() *event.Example {
		class := min(int(r.ExpFloat64()*9), 59)
		label, ok := s.Class([]byte(fmt.Sprint("c", class)))
		if !ok {
			panic("no room for a class")
		}
		e := &event.Example{Weight: 1, Label: label}
		for _, word := range []int{class, 100 + r.IntN(30), 200 + class%7} {
			eventtest.Put(e, uint32(word), 1)
		}
		return e
	}}
}

// TestYoungClasses checks that rare classes share an output if there are more classes than outputs. A restart must not
// change any score, and the model must predict the same as Predict.
func TestYoungClasses(t *testing.T) {
	s := manyClasses(9)
	l, wrong, shared := newTwins(t, plain(), s.schema), 0, 0
	online.TakeMoreClasses(s.schema)
	for n := range 1600 {
		e := s.next()
		if n%97 == 96 {
			l.restart()
		}
		if p := l.Learn(e, nil); n >= 800 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
		if n%200 == 199 {
			if l.Snapshot().Model().Layout.Outputs != nil {
				shared++
			}
			agree(t, l.Learner, s.next())
		}
	}
	if shared == 0 || wrong > 310 {
		t.Errorf("%d of 8 models share an output, %d of 800 wrong", shared, wrong)
	}
}

// TestMoreClasses checks that labels beyond max_classes are accepted and counted, unless the classes are configured.
func TestMoreClasses(t *testing.T) {
	for maxClasses, want := range map[int]int{10: 10, 12: 120} {
		s := event.NewSchema(10, nil, maxClasses)
		online.TakeMoreClasses(s)
		got := 0
		for label := range 1000 {
			if _, ok := s.Class([]byte(fmt.Sprint("l", label))); ok {
				got++
			}
		}
		if got != want {
			t.Errorf("%d labels of max_classes %d", got, maxClasses)
		}
	}
}

// TestManyColumnsAfterClasses checks that rare classes share an output as soon as new columns make their separate outputs
// too large, also if the events have one of the first classes. max_memory would otherwise refuse the columns.
func TestManyColumnsAfterClasses(t *testing.T) {
	t.Parallel()
	for frequent, first := range map[int]int{1: 100, 10: 3} { // first is the number of classes before the columns come
		c := online.DefaultConfig()
		c.MaxMemory = 150 << 20
		s := event.NewSchema(20, nil, 100)
		l := newTwins(t, c, s)
		learn := func(class int, columns ...int) {
			t.Helper()
			label, _ := s.Class([]byte(fmt.Sprint("c", class)))
			e := &event.Example{Weight: 1, Label: label}
			for _, column := range columns {
				eventtest.Put(e, uint32(column), 1)
			}
			l.SetSchema(s.View())
			if r := l.Refusal(e); r != nil {
				t.Fatalf("%d frequent classes, %d first: %v", frequent, first, r)
			}
			l.Learn(e, nil)
		}
		for class := range first {
			learn(class, class)
		}
		next := 1000
		for n := range 25 {
			columns := make([]int, 4000)
			for i := range columns {
				columns[i] = next
				next++
			}
			learn(n%frequent, columns...)
			if n == 12 {
				l.restart()
			}
		}
		for class := range 100 {
			learn(class, class)
		}
		l.restart()
		learn(0, 1)
	}
}
