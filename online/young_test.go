package online_test

import (
	"fmt"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// Labels beyond max_classes are reported if the classes are not configured, for a learner without a group.
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
