package served_test

import (
	"bytes"
	"slices"
	"testing"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/must"
)

// FuzzModel reads models with correct checksums and one altered block, as from a hostile server or another program.
// Reading must fail, or the model must predict; it must never panic.
func FuzzModel(f *testing.F) {
	r, record := must.Get2(learner(f.TempDir(), 50))(f)
	must.Do(f, r.Run(f.Context()))
	var files []*checkpoint.File
	var kernel bytes.Buffer
	must.Do(f, kernelModel(f).Encode(&kernel))
	var linear bytes.Buffer
	must.Do(f, served.New(r.Model(), record).Encode(&linear))
	for i, data := range [][]byte{linear.Bytes(), kernel.Bytes()} {
		file := must.Get(checkpoint.Decode(data))(f)
		files = append(files, file)
		for _, b := range file.Blocks {
			if len(b.Data) < 10_000 {
				f.Add(i == 1, b.Name, b.Data)
			}
		}
	}
	f.Add(false, "model", []byte(`{"schema":{"bits":8,"classes":["a","b"],"max_classes":2,"fields":[{"name":"","kind":"sparse"}]},"outputs":1,"intercept":[0],"layout":{"width":1,"weight":9223372036854775807,"stats":-1}}`))
	f.Add(false, "model", []byte(`{"schema":{"bits":8,"classes":[],"max_classes":0,"fields":[]},"outputs":1,"intercept":[0],"layout":{"width":46,"weight":0,"stats":45}}`))
	f.Fuzz(func(t *testing.T, isKernel bool, name string, data []byte) {
		file := files[0]
		if isKernel {
			file = files[1]
		}
		blocks := slices.Clone(file.Blocks)
		for i := range blocks {
			if blocks[i].Name == name {
				blocks[i].Data = data
			}
		}
		var b bytes.Buffer
		must.Do(t, checkpoint.Write(&b, file.Kind, slices.Values(blocks)))
		m, err := served.Decode(b.Bytes())
		if err != nil {
			return
		}
		for _, event := range []string{`{"word":"y1","x":1,"none":null}`, "0 1:2 3:4", "", "1 |a b c:2"} {
			_, _ = m.Predict([]byte(event), 0)
			_, _ = m.Predict([]byte(event), 3)
		}
		var again bytes.Buffer
		must.Do(t, m.Encode(&again), "a model that is read but cannot be written")
	})
}
