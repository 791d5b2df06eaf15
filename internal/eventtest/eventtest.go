// Package eventtest creates simple events and their Schema, for tests of learners and solvers.
package eventtest

import (
	"context"
	"io"
	"iter"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// Schema returns a Schema with n numeric fields named a, b, c and so on. If no classes are given, the labels are
// regression targets of the named loss.
func Schema(n int, lossName string, classes ...string) *event.Schema {
	s := event.NewSchema(8, classes, max(2, len(classes)))
	if len(classes) == 0 {
		s.Target = loss.LabelsOf(lossName)
	}
	for i := range n {
		s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
	}
	return s
}

// Event returns an event of a Schema of numeric fields: field i is in column i, both counted from 1.
func Event(label int, x ...float64) *event.Example {
	e := &event.Example{Label: label, Weight: 1}
	for i, x := range x {
		Put(e, uint32(i+1), x, uint16(i+1))
	}
	return e
}

// Put appends a feature to an event, and its field id if given.
func Put(e *event.Example, column uint32, x float64, field ...uint16) {
	e.Features.Index, e.Features.Value = append(e.Features.Index, column), append(e.Features.Value, x)
	e.Field = append(e.Field, field...)
}

// Builder collects events for an exact solver, whose data are of type D.
type Builder[D any] interface {
	Add(e *event.Example) error
	Data(s *event.Schema) D
}

// Data adds events to a Builder and returns its data.
func Data[D any](t testing.TB, b Builder[D], s *event.Schema, events ...event.Example) D {
	t.Helper()
	for i := range events {
		if err := b.Add(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Data(s)
}

// Source returns a Source of the given batches.
func Source(batches ...event.Batch) event.Source { return &source{batches} }

type source struct{ left []event.Batch }

func (s *source) Next(_ context.Context, b *event.Batch) error {
	if len(s.left) == 0 {
		return io.EOF
	}
	*b, s.left = s.left[0], s.left[1:]
	return nil
}

// Batches returns all batches of a Source, of which next is the method. Each is valid until the next. An error ends the
// test.
func Batches(t testing.TB, next func(context.Context, *event.Batch) error) iter.Seq[*event.Batch] {
	b := new(event.Batch)
	return must.All(t, func() (*event.Batch, error) { return b, next(t.Context(), b) })
}

// Examples returns the examples of all batches of a Source.
func Examples(t testing.TB, next func(context.Context, *event.Batch) error) iter.Seq[*event.Example] {
	return func(yield func(*event.Example) bool) {
		for b := range Batches(t, next) {
			for i := range b.Examples {
				if !yield(&b.Examples[i]) {
					return
				}
			}
		}
	}
}

// Losses returns each loss with each of its bounds. A loss that requires a parameter gets a valid one.
func Losses() (out []loss.Loss) {
	for _, name := range loss.Names() {
		for _, bound := range loss.Bounds(name) {
			forms := []string{name + ":" + bound, name}
			if loss.Parameter(name) != "" && bound == "" {
				forms = []string{name + ":1.5", name + ":0.8"}
			}
			for _, form := range forms {
				if l, err := loss.Parse(form); err == nil {
					out = append(out, l)
					break
				}
			}
		}
	}
	return out
}
