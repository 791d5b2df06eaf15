package batch

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/kernel"
	"blankout/internal/must"
)

func TestManyRowsAreIndexedByShards(t *testing.T) {
	x, y := problems.Gaussian(2, 8300, 5, true)
	if r := NewKernelRows(kernel.Linear{}, denseData(t, x, y)); r.Shards() != 2 {
		t.Errorf("%d rows in %d shards, want 2: the tests of threads rely on it", len(x), r.Shards())
	}
}

func TestCachedGramKeepsTheRowsUsedLast(t *testing.T) {
	x, y := problems.Gaussian(4, 30, 4, false)
	d := denseData(t, x, y)
	c := must.Get(NewCachedGram(kernel.Linear{}, d, 3*8*30, 1))(t)
	var held []int // reference cache: row numbers, most recent first
	want := 0
	r := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		i := r.IntN(6) * r.IntN(6)
		c.Row(i)
		if at := slices.Index(held, i); at >= 0 {
			held = slices.Delete(held, at, at+1)
		} else {
			want++
		}
		held = append([]int{i}, held...)
		held = held[:min(len(held), 3)]
		if c.computed != want {
			t.Fatalf("%d rows computed, want %d", c.computed, want)
		}
	}
}
