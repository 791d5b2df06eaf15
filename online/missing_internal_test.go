package online

import (
	"testing"

	"blankout/internal/event"
)

func lackingLearner(t *testing.T, c Config) *Learner {
	t.Helper()
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 10 {
		s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
