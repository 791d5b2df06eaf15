package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestStandardizeAll compares standardize = "all" with a dense computation: the same events with every zero given
// explicitly, so that every column is centered and scaled. Both must solve the same problem without noise, with one
// exact refresh at the end.
func TestStandardizeAll(t *testing.T) {
	const n, columns = 1200, 12
	c := online.DefaultConfig()
	c.Optimizer, c.IRLSBatch, c.Noise, c.Standardize = "irls", n, "none", "all"
	c.Average, c.Adapt = 0, false
	newLearner := func() *online.Learner {
		return must.Get(online.New(c, event.NewSchema(10, []string{"-", "+"}, 2)))(t)
	}
	sparse, dense := newLearner(), newLearner()
	r := rand.New(rand.NewPCG(8, 8))
	present := func(d int) float64 { return []float64{0.05, 0.3, 0.6, 0.8, 0.97, 1}[d%6] }
	event := func() (few, all *event.Example) {
		few, all = &event.Example{Weight: 1}, &event.Example{Weight: 1}
		f := 0.0
		for d := range columns {
			x := 0.0
			if r.Float64() < present(d) {
				x = 1
				if d >= 6 {
					x = 300 + 50*r.NormFloat64()
				}
				few.Features.Index = append(few.Features.Index, uint32(d))
				few.Features.Value = append(few.Features.Value, x)
				f += math.Sin(float64(d)) * (x - 0.5)
				if d >= 6 {
					f += math.Sin(float64(d)) * (0.02*(x-300) - x + 0.5)
				}
			}
			eventtest.Put(all, uint32(d), x)
		}
		if f+r.NormFloat64() > 0 {
			few.Label, all.Label = 1, 1
		}
		return few, all
	}
	for range n {
		few, all := event()
		sparse.Learn(few, nil)
		dense.Learn(all, nil)
	}
	all, few := dense.Snapshot().Model(), sparse.Snapshot().Model()
	if len(all.Scaler.Dense) != columns || len(few.Scaler.Dense) != 4 {
		t.Fatalf("dense columns %v of the whole events, %v of the sparse ones", all.Scaler.Dense, few.Scaler.Dense)
	}
	// Over all events, with absent columns counted as 0, the statistics must be the same.
	for d := range uint32(columns) {
		a, b := few.Stats(few.Rows.Row(d)), all.Stats(all.Rows.Row(d))
		total := float64(n)
		mean, m2 := a[1]*a[0]/total, a[2]+a[1]*a[1]*a[0]*(total-a[0])/total
		if math.Abs(mean-b[1]) > 1e-9*math.Abs(b[1]) || math.Abs(m2-b[2]) > 1e-9*b[2] {
			t.Errorf("column %d: mean %v, squares %v; dense %v, %v", d, mean, m2, b[1], b[2])
		}
		if b[4] > 0 && math.Abs(a[4]/b[4]-1) > 0.05 { // the scale in effect is from up to a sixteenth of the events ago
			t.Errorf("column %d: scale %v, dense %v", d, 1/a[4], 1/b[4])
		}
	}
	off, square := 0.0, 0.0
	for range 1000 {
		few, all := event()
		a, b := scoresOf(sparse, few)[0], scoresOf(dense, all)[0]
		off += (a - b) * (a - b)
		square += b * b
	}
	if relative := math.Sqrt(off / square); !(relative < 0.02) {
		t.Errorf("scores are off by %.3g of their size", relative)
	}
	// The errors are also similar without the IRLS window.
	c.Optimizer, c.IRLSBatch, c.Noise = "adagrad", 0, "auto"
	sparse, dense = newLearner(), newLearner()
	for range 4000 {
		few, all := event()
		sparse.Learn(few, nil)
		dense.Learn(all, nil)
	}
	a, b := sparse.Report().Window.MeanLogLoss(), dense.Report().Window.MeanLogLoss()
	if a > b+0.03 {
		t.Errorf("log-loss %v, dense %v", a, b)
	}
	t.Logf("progressive log-loss %.3f, of the whole events %.3f", a, b)
}

// TestColumnThatIsDenseNoMore checks a column that is no longer dense. It must again be divided by the bound of its
// readings, which is their mean plus three standard deviations. The result must be as if the column had never been
// centered.
func TestColumnThatIsDenseNoMore(t *testing.T) {
	c := online.DefaultConfig()
	c.Standardize = "auto"
	l := must.Get(online.New(c, event.NewSchema(10, []string{"-", "+"}, 2)))(t)
	r := rand.New(rand.NewPCG(3, 3))
	const column = 3
	var readings []float64
	for i := range 20 {
		e := &event.Example{Weight: 1, Label: i % 2, Features: event.Vec{Index: []uint32{0}, Value: []float64{1}}}
		if i < 10 {
			x := 2 + r.NormFloat64() // 0 is not an outlier here
			readings = append(readings, x)
			eventtest.Put(e, column, x)
		}
		l.Learn(e, nil)
		if i == 9 && len(l.Snapshot().Model().Scaler.Dense) != 1 {
			t.Fatal("no dense column after ten events")
		}
	}
	m := l.Snapshot().Model()
	if dense := m.Scaler.Dense; len(dense) != 0 {
		t.Fatalf("dense columns: %d", dense)
	}
	mean, squares := 0.0, 0.0
	for _, x := range readings {
		mean += x / float64(len(readings))
	}
	for _, x := range readings {
		squares += (x - mean) * (x - mean)
	}
	row := m.Stats(m.Rows.Row(column))
	want := 1 / (mean + 3*math.Sqrt(squares/float64(len(readings))))
	if got := row[model.StatInverse]; math.Abs(got-want) > 1e-6*want {
		t.Errorf("divided by %v, want %v", 1/got, 1/want)
	}
	if got := row[model.StatCenter]; got != 0 {
		t.Errorf("center %v", got)
	}
}
