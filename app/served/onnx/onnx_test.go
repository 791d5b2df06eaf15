package onnx_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"blankout/app/served"
	"blankout/app/served/onnx"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// fields returns the strings and messages that a message has under a field number.
func fields(t *testing.T, message []byte, number protowire.Number) (found [][]byte) {
	t.Helper()
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(n, kind, message)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		if n == number {
			value, _ := protowire.ConsumeBytes(message)
			found = append(found, value)
		}
		message = message[size:]
	}
	return found
}

// TestGraph checks the inputs and outputs of the graph, and that equal models have equal bytes. The tests of the Python
// package compare the graph's results with the model in onnxruntime.
func TestGraph(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{{0, 1, 0, -2}}, []float64{0.5}), record.DefaultConfig())
	data := must.Get(onnx.Encode(m))(t)
	again, err := onnx.Encode(m)
	must.True(t, err == nil && bytes.Equal(data, again), "the bytes differ from time to time (%v)", err)
	graph := fields(t, data, 7)[0]
	names := func(number protowire.Number) (names []string) {
		for _, value := range fields(t, graph, number) {
			names = append(names, string(fields(t, value, 1)[0]))
		}
		return names
	}
	must.EqualSlices(t, names(11), []string{"x"}, "inputs")
	must.EqualSlices(t, names(12), []string{"score", "label", "probabilities"}, "outputs")

	schema.Absent = event.AbsentMissing
	unsupported := (*onnx.UnsupportedError)(nil)
	_, err = onnx.Encode(m)
	must.True(t, errors.As(err, &unsupported), "columns that go missing: %v", err)
}

// TestGraphOfFaults checks that the graph compares its input with the stuck value and the placeholders of the model's Faults.
// The tests of the Python package compare the predictions.
func TestGraphOfFaults(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.Apart, schema.Names = true, event.NewNames(16)
	schema.AddField(event.Field{Name: "heat", Kind: event.Numeric, Column: 1})
	schema.AddField(event.Field{Name: "load", Kind: event.Numeric, Column: 3})
	operators := func(f *model.Faults) map[string]int {
		linear := model.NewLinear(schema, "logistic", "none", [][]float64{{0, 1, 0, -2}}, []float64{0.5}).WithFaults(f)
		data := must.Get(onnx.Encode(served.New(linear, record.DefaultConfig())))(t)
		count := map[string]int{}
		for _, node := range fields(t, fields(t, data, 7)[0], 1) {
			count[string(fields(t, node, 4)[0])]++
		}
		return count
	}
	plain := operators(nil)
	for _, c := range []struct {
		faults     *model.Faults
		equal, nan int
	}{
		{model.NewFaults([]model.StuckField{{Field: 1, Value: 2.5}}, nil), 1, 1},
		{model.NewFaults([]model.StuckField{{Field: 1, Value: 2.5}}, []model.StuckField{{Field: 1, Value: -999}, {Field: 2, Value: -1}}), 3, 2},
	} {
		got := operators(c.faults)
		must.True(t, got["Equal"] == plain["Equal"]+c.equal && got["Where"] == plain["Where"]+c.nan, "%+v: %v, without %v", c.faults, got, plain)
	}
}
