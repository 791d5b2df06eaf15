package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"blankout/client"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/served"
	"blankout/stream/record"
)

// opinion returns a model of sentences that likes "fine" and, of version 2, "dull" too.
func opinion(version uint64) *served.Model {
	recordConfig := record.DefaultConfig()
	schema := recordConfig.Schema()
	schema.Classes = []string{"no", "yes"}
	decoder, err := record.NewDecoder(recordConfig, schema)
	if err != nil {
		panic(err)
	}
	weights := make([]float64, schema.Columns())
	for word, weight := range map[string]float64{"fine": 1, "dull": float64(version) - 1.5} {
		var e event.Example
		if err := decoder.Decode(context.Background(), record.Record{Value: fmt.Appendf(nil, `{"label":"yes","words":[%q]}`, word)}, &e); err != nil {
			panic(err)
		}
		weights[e.Features.Index[0]] = weight
	}
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{weights}, []float64{0}), recordConfig)
	m.Version = version
	return m
}

// An event is the bytes of a record, or whatever encoding/json makes them of: a struct or
// a map.
func ExampleModel_PredictValue() {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fraud.blankout")
	if err := opinion(1).WriteFile(path); err != nil { // stands for a learner
		fmt.Println(err)
		return
	}

	// From here on it is what a program of your own does.
	m, err := client.Open(context.Background(), path, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	type sentence struct {
		Words []string `json:"words"`
	}
	for _, event := range []any{sentence{[]string{"a", "fine", "day"}}, map[string]any{"words": []string{"dull"}}} {
		p, err := m.PredictValue(event, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Class, p.Scores, p.Unseen)
	}
	// Output:
	// yes [1] [words=a words=day]
	// no [-0.5] []
}

// A follower has the newest model at hand, here of a file that a learner replaces.
func ExampleFollow() {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fraud.blankout") // snapshot.file of the learner
	if err := opinion(1).WriteFile(path); err != nil {
		fmt.Println(err)
		return
	}
	newer := make(chan uint64)
	f, err := client.Follow(context.Background(), path, client.Options{
		Interval: 10 * time.Millisecond,
		Updated:  func(m *client.Model) { newer <- m.Version() },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	m, _ := f.Model()
	fmt.Println("version", m.Version())
	if err := opinion(2).WriteFile(path); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", <-newer)
	m, err = f.Model()
	fmt.Println("version", m.Version(), err)
	// Output:
	// version 1
	// version 2
	// version 2 <nil>
}
