package online_test

import (
	"errors"
	"fmt"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
)

// TestCheckNumbers checks which labels look like regression targets under a loss for classification.
func TestCheckNumbers(t *testing.T) {
	whole := make([]string, 21)
	for i := range whole {
		whole[i] = fmt.Sprint(i)
	}
	refused := event.Example{Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: `label "2.5" is not one of the classes`}}
	for _, c := range []struct {
		name    string
		loss    string
		classes []string
		refused bool // the last event has an unknown label
		events  uint64
		numbers bool // want a NumbersError
	}{
		{"two numbers", "logistic", []string{"0.5", "1.5"}, false, 0, false},
		{"three numbers", "logistic", []string{"0.5", "1.5", "2"}, false, 0, true},
		{"three names", "logistic", []string{"0.5", "1.5", "x"}, false, 0, false},
		{"whole numbers", "logistic", whole, false, 0, false},
		{"20 whole numbers under the quadratic loss", "quadratic", whole[:20], false, 0, false},
		{"21 whole numbers under the quadratic loss", "quadratic", whole, false, 0, true},
		{"an unknown number under the quadratic loss", "quadratic", whole[:3], true, 0, true},
		{"an unknown number under the logistic loss", "logistic", whole[:3], true, 0, false},
		{"an unknown number beside names", "quadratic", []string{"a", "b", "c"}, true, 0, false},
		{"just before the limit", "logistic", []string{"0.5", "1.5", "2"}, false, health.WarnAfter - 1, true},
		{"late in the stream", "logistic", []string{"0.5", "1.5", "2"}, false, health.WarnAfter, false},
		{"an unknown number late in the stream", "quadratic", whole[:3], true, health.WarnAfter, false},
		{"regression", "squared", []string{"0.5", "1.5", "2"}, false, 0, false},
	} {
		s := event.NewSchema(8, nil, 100)
		s.Classes = c.classes
		b := &event.Batch{Schema: s, Examples: []event.Example{{Label: 0}, {Label: 1}}}
		if c.refused {
			b.Examples = append(b.Examples, refused)
		}
		err := online.CheckNumbers(c.loss, b, len(b.Examples), c.events)
		must.Equal(t, errors.As(err, new(*online.NumbersError)), c.numbers, c.name)
	}
	b := &event.Batch{Schema: event.NewSchema(8, nil, 100), Examples: []event.Example{{}, refused}}
	b.Schema.Classes = whole[:3]
	must.Do(t, online.CheckNumbers("quadratic", b, 1, 0), "an event that is not among the first n")
}
