package client_test

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"blankout"
	"blankout/client"
	"blankout/stream"
)

// The few features that matter most are the first of all, ties included, and to
// find them takes no memory for the others.
func TestExplainFew(t *testing.T) {
	const columns = 100_000
	schema := blankout.NewSchema(20, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	weights := make([]float64, columns)
	for d := range weights {
		weights[d] = float64(d*7919%1000-500) / 100 // a hundred columns of each weight
	}
	model := blankout.NewModel(schema, "logistic", "none", [][]float64{weights}, []float64{4.995})
	record := stream.DefaultRecordConfig()
	record.Format = "svmlight"
	m := client.New(model, record)
	event := []byte("1")
	for d := range columns {
		event = fmt.Appendf(event, " %d:1", d+1)
	}
	explain := func(most int) ([]client.Contribution, uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := m.Predict(event, most)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return p.Explanation, after.TotalAlloc - before.TotalAlloc
	}
	all, _ := explain(columns + 1)
	if len(all) < columns/2 {
		t.Fatal(len(all))
	}
	for _, most := range []int{1, 2, 3, 99, 100, 101, 150, 1000} {
		if few, _ := explain(most); !reflect.DeepEqual(few, all[:most]) {
			t.Errorf("the first %d: %+v", most, few)
		}
	}
	_, none := explain(0)
	if _, some := explain(100); some > none+2<<20 {
		t.Errorf("%d bytes were allocated to explain an event that takes %d without", some, none)
	}
}
