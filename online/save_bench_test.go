package online_test

import (
	"fmt"
	"testing"
	"time"

	"blankout"
	"blankout/checkpoint"
	"blankout/online"
)

// BenchmarkSave measures what a checkpoint costs a learner of a million
// features: the pause (the copy) when all of them or some were met since the
// last one, and the encoding and writing beside learning.
func BenchmarkSave(b *testing.B) {
	const features = 1_000_000
	for _, met := range []int{features, features / 100} {
		b.Run(fmt.Sprintf("met=%d", met), func(b *testing.B) {
			l, err := online.New(online.DefaultConfig(), blankout.NewSchema(22, []string{"no", "yes"}, 2))
			if err != nil {
				b.Fatal(err)
			}
			store, err := checkpoint.Open(b.TempDir(), 1)
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			learn := func(n int) {
				e := blankout.Example{Weight: 1}
				for at := 0; at < n; at += 100 {
					e.Features = blankout.Vec{}
					for i := range 100 {
						e.Features.Index = append(e.Features.Index, uint32(at+i))
						e.Features.Value = append(e.Features.Value, 1)
					}
					e.Label = at / 100 % 2
					l.Learn(&e)
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
				if err != nil {
					b.Fatal(err)
				}
				save += time.Since(begin)
			}
			b.ReportMetric(float64(pause.Microseconds())/1000/float64(b.N), "pause-ms/op")
			b.ReportMetric(float64(save.Microseconds())/1000/float64(b.N), "save-ms/op")
		})
	}
}
