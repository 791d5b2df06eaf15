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

// learn learns events up to the event number to, and makes the predictions that are due. Whenever a model is frozen, it
// calls frozen with the number of learned events.
func learn(a *Stale, from, to uint64, features, rows int, frozen func(n uint64)) {
	for n := from; n <= to; n++ {
		for i := range Ages {
			if m := a.Due(i, n); m != nil {
				a.Fresh(1, Lost{Loss: float64(n % 7)})
				a.Take(i, 1, Lost{Error: float64(n % 3), Loss: m.Intercept[0]}, Lost{Loss: float64(n % 7)}, Lost{Error: 1, Loss: float64(n % 2)})
			}
		}
		if a.Learned(n, features, rows, 8) {
			frozen(n)
			a.Freeze(n, linear(float64(n)))
		}
	}
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

// TestRestore checks that a restored state continues like the original, with different stored models. A model that is
// used for several ages must be stored only once.
func TestRestore(t *testing.T) {
	for _, at := range []uint64{0, 999, 1000, 1095, 1150, 2000, 2050, 3500, 12500} {
		var a, b Stale
		learn(&a, 1, at, 10, 50, func(uint64) {})
		blocks := blocksOf(t, &a)
		distinct := map[*model.Linear]bool{}
		for i := range a.ages {
			if m := a.ages[i].model; m != nil {
				distinct[m] = true
			}
		}
		heads := 0
		for _, x := range blocks {
			if len(x.Name) > 5 && x.Name[len(x.Name)-5:] == "model" {
				heads++
			}
		}
		if heads != len(distinct) {
			t.Errorf("at %d: %d models for %d", at, heads, len(distinct))
		}
		other := append([]event.Block{{Name: "model", Data: []byte("another's")}, {Name: "columns"}}, blocks...)
		must.Do(t, b.Restore(other, 1))
		for _, x := range []*Stale{&a, &b} {
			learn(x, at+1, at+15000, 10, 50, func(uint64) {})
		}
		if x, y := blocksOf(t, &a), blocksOf(t, &b); !slices.EqualFunc(x, y, func(a, b event.Block) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }) {
			t.Errorf("restored at %d it has come to another state", at)
		}
	}
}

// TestDamaged checks that inconsistent blocks are rejected.
func TestDamaged(t *testing.T) {
	var a Stale
	learn(&a, 1, 2050, 10, 50, func(uint64) {})
	blocks := blocksOf(t, &a)
	for i := range blocks {
		var b Stale
		damaged := slices.Clone(blocks)
		damaged[i].Data = damaged[i].Data[:len(damaged[i].Data)/2]
		if b.Restore(damaged, 1) == nil {
			t.Errorf("half of block %s is taken", blocks[i].Name)
		}
		var c Stale
		if c.Restore(slices.Delete(slices.Clone(blocks), i, i+1), 1) == nil && blocks[i].Name != Block {
			t.Errorf("it goes without block %s", blocks[i].Name)
		}
	}
	two := Stale{seen: a.seen}
	two.Freeze(10, model.NewLinear(&event.Schema{}, "logistic", "none", [][]float64{{1}, {2}}, []float64{0, 0}))
	var b Stale
	if b.Restore(blocksOf(t, &two), 1) == nil {
		t.Error("a model with more outputs than the learner is taken")
	}
	if err := b.Restore(blocksOf(t, &two), 2); err != nil {
		t.Error(err)
	}
	a.now.loss = -1
	if b.Restore(blocksOf(t, &a), 1) == nil {
		t.Error("negative sums are taken")
	}
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
