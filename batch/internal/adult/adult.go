// Package adult reads the data set of the validation tests. It is apart from package problems, so that tests of single
// solvers do not link the readers of streams.
package adult

import (
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/stream"
	"blankout/stream/record"
)

// Events returns the events of batch/testdata/adult.svm.gz, copied so that a test can present them repeatedly.
func Events(t *testing.T) (*event.Schema, []event.Example) {
	t.Helper()
	c := record.DefaultConfig()
	c.Classes = []string{"-1", "1"}
	schema := c.Schema()
	file := must.Get(stream.OpenFile("testdata/adult.svm.gz", c, schema))(t)
	defer file.Close()
	var all []event.Example
	for e := range eventtest.Examples(t, file.Next) {
		all = append(all, *e)
		all[len(all)-1].Features = e.Features.Clone()
	}
	return schema, all
}
