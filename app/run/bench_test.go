package run_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
)

// BenchmarkSave measures the cost of a checkpoint for a learner of a million features. It measures the pause of
// learning during the copy, if all or some features have changed since the last checkpoint. It also measures the
// encoding and writing, while learning continues.
func BenchmarkSave(b *testing.B) {
	const features = 1_000_000
	for _, met := range []int{features, features / 100} {
		b.Run(fmt.Sprintf("met=%d", met), func(b *testing.B) {
			l := must.Get(online.New(online.DefaultConfig(), event.NewSchema(22, []string{"no", "yes"}, 2)))(b)
			store := must.Get(checkpoint.Open(b.TempDir(), 1))(b)
			defer store.Close()
			learn := func(n int) {
				e := event.Example{Weight: 1}
				for at := 0; at < n; at += 100 {
					e.Features = event.Vec{}
					for i := range 100 {
						eventtest.Put(&e, uint32(at+i), 1)
					}
					e.Label = at / 100 % 2
					l.Learn(&e, nil)
				}
			}
			learn(features)
			l.Snapshot()
			var pause, save time.Duration
			for b.Loop() {
				b.StopTimer()
				learn(met)
				b.StartTimer()
				begin := time.Now()
				s := l.Snapshot()
				pause += time.Since(begin)
				begin = time.Now()
				blocks, err := s.EachBlock()
				if err == nil {
					var saved checkpoint.Saved
					saved, err = store.Save(checkpoint.Linear, blocks)
					b.ReportMetric(float64(saved.Bytes), "B")
				}
				must.Do(b, err)
				save += time.Since(begin)
			}
			b.ReportMetric(float64(pause.Microseconds())/1000/float64(b.N), "pause-ms/op")
			b.ReportMetric(float64(save.Microseconds())/1000/float64(b.N), "save-ms/op")
		})
	}
}

// benchBatches returns batches of events with twenty features each.
func benchBatches(batches, size int) (*event.Schema, []event.Batch) {
	schema := event.NewSchema(18, []string{"no", "yes"}, 2)
	r := rand.New(rand.NewPCG(1, 1))
	made := make([]event.Batch, batches)
	for i := range made {
		made[i] = event.Batch{Topic: "t", HighWater: -1}
		for range size {
			e := event.Example{Weight: 1, Label: r.IntN(2), Time: 1}
			for d := range 20 {
				eventtest.Put(&e, uint32(d*1000+r.IntN(1000)), 1)
			}
			made[i].Examples = append(made[i].Examples, e)
		}
	}
	return schema, made
}

// BenchmarkRun measures the overhead of the run loop: it learns events with twenty features from memory, through Run
// and directly with the Learner.
func BenchmarkRun(b *testing.B) {
	const batches, size = 8, 512
	schema, made := benchBatches(batches, size)
	learner := func() *online.Learner {
		return must.Get(online.New(online.DefaultConfig(), schema))(b)
	}
	b.Run("learner", func(b *testing.B) {
		l := learner()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			l.Learn(&made[i/size%batches].Examples[i%size], nil)
		}
	})
	b.Run("run", func(b *testing.B) {
		s := &rounds{made: made, left: b.N}
		r := &run.Runner{Config: run.DefaultConfig(), State: run.State{Learner: learner()}, Schema: schema, Source: s}
		r.Config.Refused = run.PolicySkip
		b.ReportAllocs()
		b.ResetTimer()
		must.Do(b, r.Run(b.Context()))
	})
}

// rounds is a Source that repeats the same batches with increasing offsets.
type rounds struct {
	made   []event.Batch
	left   int
	offset int64
}

func (s *rounds) Next(_ context.Context, b *event.Batch) error {
	if s.left <= 0 {
		return io.EOF
	}
	from := &s.made[int(s.offset)/len(s.made[0].Examples)%len(s.made)]
	examples := append(b.Examples[:0], from.Examples[:min(s.left, len(from.Examples))]...)
	*b = *from
	b.Examples = examples
	for i := range examples {
		examples[i].Offset = s.offset
		s.offset++
	}
	s.left -= len(examples)
	b.Next = s.offset
	return nil
}

// BenchmarkValidating compares the speed of learning with and without continuous validations that are limited to half a
// processor. If events arrive at half the maximum speed of learning, learning keeps up unless validations more than
// halve its speed. The two variants alternate every 200,000 events.
func BenchmarkValidating(b *testing.B) {
	const batches, size = 64, 512
	schema, made := benchBatches(batches, size)
	const events = 200_000
	var took [2]time.Duration
	var ratios []float64 // ratios of neighboring measurements, because the load of the machine varies
	validated := uint64(0)
	for b.Loop() {
		var now [2]time.Duration
		for beside := range took {
			l := must.Get(online.New(online.DefaultConfig(), schema))(b)
			r := &run.Runner{Config: run.DefaultConfig(), State: run.State{Learner: l}, Schema: schema, Source: &rounds{made: made, left: events}}
			r.Config.Refused = run.PolicySkip
			begin := time.Now()
			ctx, cancel := context.WithCancel(b.Context())
			if beside == 1 {
				c := validate.DefaultConfig()
				c.Window = 100_000
				r.Validator = &validate.Validator{Config: c, Learner: online.DefaultConfig(),
					Open: func(_ context.Context, _ *event.Schema, from event.Offsets) (event.Source, error) {
						return &rounds{made: made, left: events, offset: from[0].Next}, nil
					}}
				r.Observe = func(s *run.Status) {
					if !s.Validation.Running && s.Learned > 0 {
						r.Validate()
					}
					if s.Learned == events {
						cancel() // cancels a running validation
					}
				}
			}
			must.Do(b, r.Run(ctx))
			cancel()
			now[beside] = time.Since(begin)
			took[beside] += now[beside]
			validated += r.Status().Validation.Done
		}
		ratios = append(ratios, now[0].Seconds()/now[1].Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(events*float64(b.N)/took[0].Seconds(), "alone-events/s")
	b.ReportMetric(events*float64(b.N)/took[1].Seconds(), "beside-events/s")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(float64(validated)/float64(b.N), "validations/op")
}
