package staleness

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// linear returns a model with a constant score.
func linear(score float64) *model.Linear {
	return model.NewLinear(&event.Schema{}, "logistic", "none", [][]float64{{1, 0, 2}}, []float64{score})
}

// TestSchedule checks that models are frozen at multiples of a thousand events. For each age they must predict events
// at which their age differs by at most a tenth. Larger ages must have fewer predictions. A frozen model must be used
// for all ages without a model.
func TestSchedule(t *testing.T) {
	var a Stale
	var frozen []uint64
	served := map[uint64][len(Ages)][]uint64{} // predicted events by model and age
	for n := uint64(1); n <= 60000; n++ {
		for i := range Ages {
			m := a.Due(i, n)
			if m == nil {
				continue
			}
			born := uint64(m.Intercept[0])
			of := served[born]
			of[i] = append(of[i], n-1-born)
			served[born] = of
			a.Take(i, 1, Lost{}, Lost{}, Lost{})
		}
		if a.Learned(n, 100, 50, 8) {
			frozen = append(frozen, n)
			a.Freeze(n, linear(float64(n)))
		}
	}
	if len(frozen) != 60 || frozen[0] != 1000 || frozen[1] != 2000 {
		t.Errorf("frozen at %v", frozen)
	}
	for born, want := range map[uint64][len(Ages)]bool{1000: {true, true, true}, 2000: {true, false, false}, 3000: {true, true, false}, 13000: {true, true, true}} {
		for i, ages := range served[born] {
			age := Ages[i]
			if want[i] != (ages != nil) {
				t.Errorf("the model of %d answers at ages %v, want some: %v", born, ages, want[i])
			}
			if ages != nil && (slices.Min(ages) < age*9/10 || slices.Max(ages) > age*11/10) {
				t.Errorf("the model of %d answers at ages %v for %d", born, ages, age)
			}
		}
	}
	for i, want := range []int{10, 40, 133} {
		if n := len(served[49000][i]); n < want*2/3 || n > want*3/2 {
			t.Errorf("a model answers %d events at age %d, want some %d", n, Ages[i], want)
		}
	}
	places := map[uint64]bool{}
	for _, age := range served[49000][2] {
		places[age%every[2]] = true
	}
	if len(places) < 10 {
		t.Errorf("they are at the places %v of a cycle", places)
	}
}

// TestWide checks a model with wide rows. It must be frozen less often, and must predict more events.
func TestWide(t *testing.T) {
	var a Stale
	m := linear(0)
	for column := range uint32(wide) {
		m.Rows.Touch(column)
	}
	a.Freeze(1000, m)
	var n [len(Ages)]int
	for event := range uint64(13000) {
		for i := range Ages {
			if a.Due(i, event) != nil {
				n[i]++
			}
		}
	}
	if n[0] != 21 || n[1] < 50 || n[1] > 85 || n[2] < 130 || n[2] > 200 {
		t.Errorf("%v answers", n)
	}
}

func blocksOf(t *testing.T, a *Stale) (blocks []event.Block) {
	t.Helper()
	each := must.Get(a.EachBlock())(t)
	for b := range each {
		blocks = append(blocks, event.Block{Name: b.Name, Data: bytes.Clone(b.Data)})
	}
	return blocks
}

// TestInfiniteLoss checks that sums stay finite after an infinite loss, and can be decoded again.
func TestInfiniteLoss(t *testing.T) {
	var a Stale
	a.Freeze(5, linear(0))
	a.Learned(5, 1, 1, 8)
	for range 3 {
		a.Fresh(1, Lost{1, math.Inf(1)})
		a.Take(1, 1, Lost{math.Inf(1), math.Inf(1)}, Lost{1, 1e300}, Lost{1, 2})
	}
	r := a.Report(false)
	if *r[0].LogLoss != mostLoss || *r[1].LogLoss != mostLoss || *r[1].FreshLogLoss != mostLoss || *r[1].ConstantLogLoss != 2 {
		t.Errorf("%+v", r)
	}
	var b Stale
	if err := b.Restore(blocksOf(t, &a), 1); err != nil {
		t.Error(err)
	}
}
