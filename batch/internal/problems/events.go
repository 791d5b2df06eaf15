package problems

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/stream"
	"blankout/stream/record"
)

// Events returns the events of a file, copied so that a test can present them repeatedly.
func Events(t *testing.T, path string) (*event.Schema, []event.Example) {
	t.Helper()
	c := record.DefaultConfig()
	c.Classes = []string{"-1", "1"}
	schema := c.Schema()
	file, err := stream.OpenFile(path, c, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []event.Example
	for {
		var b event.Batch
		if err := file.Next(context.Background(), &b); errors.Is(err, io.EOF) {
			return schema, all
		} else if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Examples {
			e.Features = e.Features.Clone()
			all = append(all, e)
		}
	}
}

// Several returns n events of k classes with numeric features. The mean of feature j is larger in class j%k than in the
// other classes.
func Several(k, n int) (*event.Schema, []event.Example) {
	r := rand.New(rand.NewPCG(1, 2))
	var classes []string
	for c := range k {
		classes = append(classes, fmt.Sprint("c", c))
	}
	schema := event.NewSchema(10, classes, k)
	for i := range 20 {
		schema.AddField(event.Field{Name: fmt.Sprint("f", i), Kind: event.Numeric, Group: []string{"left", "right"}[i/10]})
	}
	var all []event.Example
	for i := range n {
		e := event.Example{Label: i % k, Weight: 1, Offset: int64(i)}
		for j := range 20 {
			x := 3 + 2*r.NormFloat64()
			if j%k == e.Label {
				x += 3
			}
			e.Features.Index = append(e.Features.Index, uint32(j))
			e.Features.Value = append(e.Features.Value, x)
			e.Field = append(e.Field, uint16(j+1))
		}
		all = append(all, e)
	}
	return schema, all
}
