package online_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
)

// BenchmarkLearnGroups compares learning with group noise and with feature noise, on events of sensors with eight
// readings each.
func BenchmarkLearnGroups(b *testing.B) {
	const sensors, width, n = 16, 8, 16 * 8
	for _, classes := range []int{2, 6} {
		for _, noise := range []string{"dropout:0.5", "group:0.5", "dropout:0.1+group:0.5"} {
			for _, order := range []string{"together", "apart"} {
				if noise == "dropout:0.5" && order == "apart" {
					continue
				}
				b.Run(fmt.Sprintf("%d/%s/%s", classes, noise, order), func(b *testing.B) {
					c := online.DefaultConfig()
					c.Noise = noise
					var names []string
					for k := range classes {
						names = append(names, fmt.Sprint(k))
					}
					schema := event.NewSchema(8, names, classes)
					for sensor := range sensors {
						schema.Fields = append(schema.Fields, event.Field{Name: fmt.Sprint("s", sensor), Kind: event.Numeric})
					}
					l := must.Get(online.New(c, schema))(b)
					r := rand.New(rand.NewPCG(1, 1))
					events := make([]event.Example, 500)
					for i := range events {
						e := &events[i]
						e.Weight, e.Label = 1, r.IntN(classes)
						for j := range uint32(n) {
							field := uint16(1 + j/width)
							if order == "apart" {
								field = uint16(1 + j%sensors)
							}
							eventtest.Put(e, j, r.NormFloat64()+float64(e.Label), field)
						}
						l.Learn(e, nil)
					}
					b.ReportAllocs()
					i := 0
					for b.Loop() {
						l.Learn(&events[i%len(events)], nil)
						i++
					}
				})
			}
		}
	}
}
