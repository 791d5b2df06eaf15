package validate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestAdoptRegression checks that, for regression, the adopted state predicts as the exact solution does at each noise
// level. Learning must continue from the solution and its accumulators.
func TestAdoptRegression(t *testing.T) {
	longtest.NotRaced(t)
	for i, lossName := range []string{"squared", "huber:1", "poisson"} {
		for j, rule := range []string{"adagrad", "ftrl", "sgd"} {
			if !longtest.Some(i+j, 3) {
				continue
			}
			t.Run(lossName+" "+rule, func(t *testing.T) {
				c := online.DefaultConfig()
				c.Loss, c.Optimizer, c.Noise = lossName, rule, "auto"
				schema := event.NewSchema(12, nil, 2)
				schema.Target = loss.LabelsOf(lossName)
				l := must.Get(online.New(c, schema))(t)
				r := rand.New(rand.NewPCG(3, 4))
				var all []event.Example
				var at event.Offsets
				p := at.At("x", 0, 0)
				for i := range 600 {
					e := event.Example{Offset: int64(i), Weight: []float64{1, 1, 2.5}[i%3], Fingerprint: r.Uint64()}
					f := 0.0
					for j := range uint32(6) {
						x := r.NormFloat64()
						f += x * float64(j) / 10
						eventtest.Put(&e, j, x)
					}
					if e.Target = 700 + 30*(f+r.NormFloat64()/3); lossName == "poisson" {
						e.Target = math.Floor(9 * math.Exp(f))
					}
					l.Learn(&e, nil)
					must.Do(t, p.Advance(e.Offset, e.Fingerprint))
					all = append(all, e)
				}
				v, a := adopt(t, c, l, all, at)
				value := func(m *model.Linear, i int) float64 { return m.Value(m.Score(&all[i], make([]float64, 1))[0]) }
				adopted := a.Learner.Snapshot()
				for i := range 50 {
					if got, want := value(adopted.Model(), i), value(a.Exact, i); math.Abs(got-want) > 1e-9*math.Abs(want) {
						t.Fatalf("event %d: the adopted state says %v, the exact solution %v", i, got, want)
					}
				}
				// The adopted model is at its own minimum, within the tolerance.
				again, _, err := v.Validate(t.Context(), validate.Request{Live: adopted.Model(), Unit: adopted.Unit(), At: at})
				if err != nil || !(math.Abs(*again.RelativeGap) < 1e-5) || !again.Verified {
					t.Errorf("validated again: gap %v, %v", *again.RelativeGap, err)
				}
				// Learning the same events again, from the saved state, stays near the solution.
				blocks := must.Get(adopted.Blocks())(t)
				next := must.Get(online.Restore(c, blocks))(t)
				for i := range all {
					next.Learn(&all[i], nil)
				}
				spread := map[bool]float64{true: 6, false: 24}[lossName == "poisson"] // spread of the targets
				rmse := func(m *model.Linear) float64 {
					sum := 0.0
					for i := range all {
						sum += math.Pow(value(m, i)-all[i].Target, 2)
					}
					return math.Sqrt(sum / float64(len(all)))
				}
				if before, after := rmse(adopted.Model()), rmse(next.Snapshot().Model()); !(after < before+spread/20) {
					t.Errorf("RMSE %v as adopted, %v after learning on", before, after)
				}
			})
		}
	}
}

// TestReservoirOfRegression checks that a reservoir keeps regression targets, and that truncated data of a reservoir are
// rejected.
func TestReservoirOfRegression(t *testing.T) {
	r := must.Get(validate.NewReservoir(5, nil))(t)
	for i := range int64(20) {
		r.Offer("x", 0, &event.Example{Offset: i, Weight: 1, Target: 0.5 + float64(i), Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}})
	}
	data := r.Encode()
	again := must.Get(validate.NewReservoir(5, data))(t)
	if string(again.Encode()) != string(data) {
		t.Error("what was read is not what was written")
	}
	if events := again.Events(); len(events) != 5 || events[0].Target != 0.5+float64(events[0].Offset) {
		t.Errorf("read %+v", events)
	}
	for cut := range data {
		if _, err := validate.NewReservoir(5, data[:cut]); err == nil {
			t.Fatalf("cut to %d of %d bytes and read", cut, len(data))
		}
	}
}
