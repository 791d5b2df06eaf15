package served_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"blankout/app/served"
	"blankout/batch"
	"blankout/batch/svm"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// kernelModel returns a model that predicts yes near (1, 1) and no near (-1, -1).
func kernelModel(t testing.TB) *served.Model {
	t.Helper()
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	var b batch.Builder
	for _, x := range []float32{-1, 1} {
		v := event.Vec{Index: []uint32{0, 1}, Value: []float64{float64(x), float64(x)}}
		must.Do(t, b.Add(&event.Example{Features: v, Weight: 1}))
	}
	k := must.Get(kernel.Parse("rbf:0.5"))(t)
	m, err := svm.NewModel(model.Head{Schema: schema, Loss: "dropsvm", Noise: "none", Outputs: 1, Intercept: []float64{0}, Layout: model.Layout{Stats: -1}}, k, b.Data(schema), []float64{-1, 1})
	must.Do(t, err)
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	return served.New(m, recordConfig)
}

// TestKernelModel checks that a kernel model predicts the same from a file as in memory, and has no explanations.
func TestKernelModel(t *testing.T) {
	m := kernelModel(t)
	path := filepath.Join(t.TempDir(), "kernel")
	must.Do(t, m.WriteFile(path))
	read := must.Get(served.ReadFile(path))(t)
	for event, class := range map[string]string{"0 1:0.9 2:1.1": "yes", "0 1:-2 2:-1": "no"} {
		want, err := m.Predict([]byte(event), 0)
		must.True(t, err == nil && want.Class == class, "%s: %+v, %v", event, want, err)
		got, err := read.Predict([]byte(event), 0)
		must.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%s: %+v, %v, want %+v", event, got, err, want)
	}
	must.ErrorContains(t, must.Err(read.Predict([]byte("0 1:1"), 3)), "a kernel model (rbf:0.5, 2 support vectors) cannot say", "an explanation")
	must.Equal(t, must.Get(checkpoint.ReadFile(path))(t).Kind, checkpoint.Kernel)
}
