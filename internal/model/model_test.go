package model

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

func ExampleLinear_Score() {
	schema := event.NewSchema(18, []string{"ham", "spam"}, 2)
	m := NewLinear(schema, "logistic:gaussian", "dropout:0.5", [][]float64{{0.5, 0, -2}}, []float64{0.25})
	e := &event.Example{Features: event.Vec{Index: []uint32{0, 2}, Value: []float64{3, 1}}}
	scores := m.Score(e, make([]float64, m.Outputs))
	fmt.Println(scores[0], schema.Classes[Predict(scores)])
	// Output: -0.25 ham
}

func TestLinearBlocks(t *testing.T) {
	schema := event.NewSchema(10, []string{"a", "b", "c"}, 0)
	m := NewLinear(schema, "logistic:chen", "poisson",
		[][]float64{{1, 0, math.Pi}, {2, 0, 1e-300}, {0, 0, -3}}, []float64{0.1, 0.2, 0.3})
	each := must.Get(m.EachBlock())(t)
	blocks := slices.Collect(each)
	got := must.Get(ReadLinear(append(blocks, event.Block{Name: "other", Data: nil})))(t)
	for k := range 3 {
		for d := range uint32(4) {
			if got.Weight(d, k) != m.Weight(d, k) {
				t.Errorf("weight %d of output %d: %g, want %g", d, k, got.Weight(d, k), m.Weight(d, k))
			}
		}
	}
	if want := math.Sqrt(1 + math.Pi*math.Pi + 4 + 9); math.Abs(got.Norm()-want) > 1e-15*want {
		t.Errorf("norm %g, want %g", got.Norm(), want)
	}
	if m.Rows.Len() != 2 {
		t.Errorf("%d rows for two columns with weights", m.Rows.Len())
	}
	for i, bad := range []string{`{`, `{}`, `{"schema":{},"outputs":2,"intercept":[1],"layout":{"width":2}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":1}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":2,"stats":1}}`,
		`{"schema":{},"outputs":2,"intercept":[1,2],"layout":{"width":2,"stats":-1,"weight":9223372036854775807}}`,
		`{"schema":{"classes":["a","b"]},"outputs":1,"intercept":[1],"pairs":true,"layout":{"width":2,"stats":-1}}`} {
		blocks[0].Data = []byte(bad)
		if _, err := ReadLinear(blocks); err == nil {
			t.Errorf("bad head %d: read", i)
		}
	}
}

func TestProbabilities(t *testing.T) {
	m := &Linear{}
	two := m.Probabilities([]float64{math.Log(3)}, make([]float64, 2))
	if math.Abs(two[1]-0.75) > 1e-15 || math.Abs(two[0]+two[1]-1) > 1e-15 {
		t.Errorf("two classes: %v", two)
	}
	for _, scores := range [][]float64{{0, 1, -1}, {-1e9, -1e9, -1e9}, {50, 800, 3}} {
		p := m.Probabilities(scores, make([]float64, 3))
		if sum := p[0] + p[1] + p[2]; !(math.Abs(sum-1) < 1e-12) {
			t.Errorf("%v: %v", scores, p)
		}
	}
}

// BenchmarkScore scores events with 100 features, with and without omitted dense columns. Most features have weights in
// the model.
func BenchmarkScore(b *testing.B) {
	for _, dense := range []int{0, 10} {
		for _, outputs := range []int{1, 10} {
			b.Run(fmt.Sprintf("dense=%d/outputs=%d", dense, outputs), func(b *testing.B) {
				m := &Linear{Head: Head{Schema: event.NewSchema(18, nil, 2), Outputs: outputs, Intercept: make([]float64, outputs),
					Layout: Layout{Width: ScalerWidth + outputs, Weight: ScalerWidth}}, Rows: NewTable(ScalerWidth + outputs)}
				for d := range uint32(20_000) {
					m.Rows.Touch(d)[ScalerWidth] = 1
				}
				for d := range dense {
					m.Scaler.Mode, m.Scaler.Dense = StandardizeAuto, append(m.Scaler.Dense, uint32(2000*d))
				}
				events := make([]event.Example, 100)
				for i := range events {
					for j := range uint32(100) {
						events[i].Features.Index = append(events[i].Features.Index, 210*j+uint32(i))
						events[i].Features.Value = append(events[i].Features.Value, 1)
					}
				}
				out := make([]float64, outputs)
				for i := 0; b.Loop(); i++ {
					m.Score(&events[i%len(events)], out)
				}
			})
		}
	}
}

// TestEach checks that Each yields the event's columns and the dense columns once and in order. The event's columns and
// the dense columns are any two subsets of four columns.
func TestEach(t *testing.T) {
	for set := range 256 {
		var x event.Vec
		var s Scaler
		want := map[uint32]float64{}
		for d := range uint32(4) {
			if set>>d&1 != 0 {
				x.Index, x.Value = append(x.Index, d), append(x.Value, float64(d)+1)
				want[d] = float64(d) + 1
			}
			if set>>(4+d)&1 != 0 {
				s.Dense = append(s.Dense, d)
				want[d] += 0
			}
		}
		last := -1
		for d, v := range s.Each(x) {
			w, there := want[d]
			if !there || v != w || int(d) <= last {
				t.Errorf("columns %v, dense %v: %d has %g after %d", x.Index, s.Dense, d, v, last)
			}
			delete(want, d)
			last = int(d)
		}
		if len(want) > 0 {
			t.Errorf("columns %v, dense %v: left out %v", x.Index, s.Dense, want)
		}
	}
}

func TestHeadFits(t *testing.T) {
	two, three := event.NewSchema(4, []string{"a", "b"}, 2), event.NewSchema(4, []string{"a", "b", "c"}, 3)
	for _, tt := range []struct {
		name string
		head Head
		want bool
	}{
		{"two classes", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1)}, true},
		{"three classes", Head{Schema: three, Outputs: 3, Intercept: make([]float64, 3), Threshold: 0.9}, true},
		{"pairs", Head{Schema: three, Outputs: 3, Intercept: make([]float64, 3), Pairs: true}, true},
		{"pairs of two", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Pairs: true}, false},
		{"too few pairs", Head{Schema: three, Outputs: 2, Intercept: make([]float64, 2), Pairs: true}, false},
		{"too many pairs", Head{Schema: three, Outputs: 4, Intercept: make([]float64, 4), Pairs: true}, false},
		{"no schema", Head{Outputs: 1, Intercept: make([]float64, 1)}, false},
		{"no outputs", Head{Schema: two}, false},
		{"no intercept", Head{Schema: two, Outputs: 1}, false},
		{"a threshold of 1", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Threshold: 1}, false},
		{"a threshold below 0", Head{Schema: two, Outputs: 1, Intercept: make([]float64, 1), Threshold: -0.1}, false},
	} {
		if got := tt.head.Fits(); got != tt.want {
			t.Errorf("%s: fits %v", tt.name, got)
		}
	}
}
