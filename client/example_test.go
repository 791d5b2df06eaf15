package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"blankout/app/served"
	"blankout/client"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/stream/record"
)

// opinion returns a sentiment model in which "fine" is positive; in version 2 "dull" is positive too.
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

// An event is the bytes of a record, or a struct or map that encoding/json encodes.
func ExampleModel_PredictValue() {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fraud.blankout")
	if err := opinion(1).WriteFile(path); err != nil { // takes the role of a learner
		fmt.Println(err)
		return
	}

	// Your own program contains the code from here on.
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

// A Follower keeps the newest model, here from a file that a learner replaces.
func ExampleFollow() {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fraud.blankout") // the learner's snapshot.file
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
