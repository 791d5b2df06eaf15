package batch

// This file sums over the rows on several threads. The result is the same for any number of threads.

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Summer sums a function of the rows of Data on several threads. The rows are cut into groups that depend only on the
// data. Every group has its own partial sum, and the partial sums are added in a fixed order. So results have the same
// bits for any number of threads. A Summer owns its buffers and is not safe for concurrent use.
type Summer struct {
	bounds  []int // group g consists of the rows bounds[g] … bounds[g+1]-1
	partial [][]float64
	scalar  []float64
	threads int
}

// maxGroups is the largest number of groups and so of threads. A group makes at least four additions per coordinate of
// its partial sum, so that adding the partial sums costs little in comparison.
const maxGroups = 32

// NewSummer prepares sums with dim coordinates. threads < 1 means one.
func NewSummer(d *Data, dim, threads int) *Summer {
	return newSummerOf(d, d.entries, dim, threads)
}

// newSummerOf is NewSummer with a given number of additions, instead of one addition for each entry.
func newSummerOf(d *Data, additions, dim, threads int) *Summer {
	groups := min(max(additions/(4*dim+1), 1), maxGroups, max(d.Rows(), 1))
	s := &Summer{threads: min(max(threads, 1), groups), partial: make([][]float64, groups), scalar: make([]float64, groups)}
	s.bounds = make([]int, 1, groups+1)
	// The cost of a row is its number of entries, plus perRow for the loss.
	const perRow = 16
	total, have, g := d.entries+perRow*d.Rows(), 0, 1
	for i, r := range d.rows {
		have += int(r.n) + perRow
		if have*groups >= g*total && g < groups {
			s.bounds = append(s.bounds, i+1)
			g++
		}
	}
	for len(s.bounds) <= groups {
		s.bounds = append(s.bounds, d.Rows())
	}
	for g := range s.partial {
		s.partial[g] = make([]float64, dim)
	}
	return s
}

// Each calls f once for every group, on all threads, and waits for all calls.
func (s *Summer) Each(f func(g, lo, hi int)) {
	Parallel(s.threads, len(s.partial), func(g int) { f(g, s.bounds[g], s.bounds[g+1]) })
}

// Sum calls f for every group of rows lo … hi-1. The function f adds to acc, which starts at zero. Sum writes the total
// of all acc to out and returns the total of the values of f. If out is nil, acc is nil. The slice out may be shorter
// than dim; acc has the length of out.
func (s *Summer) Sum(out []float64, f func(lo, hi int, acc []float64) float64) float64 {
	s.Each(func(g, lo, hi int) {
		var acc []float64
		if out != nil {
			acc = s.partial[g][:len(out)]
			clear(acc)
		}
		s.scalar[g] = f(lo, hi, acc)
	})
	total := 0.0
	for _, v := range s.scalar {
		total += v
	}
	if out == nil {
		return total
	}
	const stripe = 1 << 14
	Parallel(s.threads, (len(out)+stripe-1)/stripe, func(k int) {
		lo, hi := k*stripe, min((k+1)*stripe, len(out))
		out := out[lo:hi]
		copy(out, s.partial[0][lo:hi])
		for _, p := range s.partial[1:] {
			for i, v := range p[lo:hi] {
				out[i] += v
			}
		}
	})
	return total
}

// Each calls f(0) … f(n-1) on up to the given number of threads and waits. An error cancels the context of the other
// calls. Each returns the first error that was not caused by this cancellation. If the cancellation caused all errors,
// Each returns the first error.
func Each(ctx context.Context, threads, n int, f func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	Parallel(threads, n, func(i int) {
		if errs[i] = f(ctx, i); errs[i] != nil {
			cancel()
		}
	})
	if at := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) }); at >= 0 {
		return errs[at]
	}
	return cmp.Or(errs...)
}

// Parallel calls f(0) … f(n-1) on up to the given number of threads and waits.
func Parallel(threads, n int, f func(i int)) {
	if threads = min(threads, n); threads <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int32
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
}
