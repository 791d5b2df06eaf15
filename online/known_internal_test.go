package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online/synthetic"
)

func gaugesLearner(t *testing.T, known bool) *Learner {
	t.Helper()
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices, schema.Absent = true, map[bool]string{true: event.AbsentMissing}[known]
	l, err := New(DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A column that becomes dense is centered over the events that hold it alone.
func TestKnownCenter(t *testing.T) {
	for _, known := range []bool{false, true} {
		l, s := gaugesLearner(t, known), &synthetic.Gauges{R: rand.New(rand.NewPCG(5, 4)), Gone: 0}
		sum := 0.0
		for i := range 10 { // after which dense columns are looked for first
			e := s.Next()
			if i == 3 {
				e.Features.Index, e.Features.Value = e.Features.Index[1:], e.Features.Value[1:]
			} else {
				sum += e.Features.Value[0]
			}
			l.Learn(e, nil)
		}
		mean := sum / 10
		if known {
			mean = sum / 9
		}
		if got := l.scaling.Scaler.Standardization(l.table.Row(0)).Center; math.Abs(got-mean) > 1e-9 {
			t.Errorf("known %v: center %v, want %v", known, got, mean)
		}
	}
}
