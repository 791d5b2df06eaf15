package batch

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"blankout"
)

const (
	// Up to so many features of an event the masks are summed one by one, of an
	// event with more those of so many that matter most.
	maskedFeatures, maskedLargest = 12, 6
	// Masks drawn in all, for more than two classes.
	sampledMasks = 40_000
)

// robustness forecasts the error in percent if a share d of the features dies
// at random and the survivors are scaled by 1/(1-d), for each d of deletions.
//
// With two classes the score is then close to normal with mean f and variance
// d/(1-d) sum_j w_j^2 x_j^2 (docs/mathematics.md), so an event of label y is
// predicted wrongly with probability Phi(-y f/sd). A few large parts of a score
// are not normal: over what becomes of those we sum, which is exact for events of
// few features. With more classes masks are drawn.
func (w linear) robustness(d *Data, deletions []float64, rest func(row int)) []float64 {
	wrong := make([]float64, len(deletions))
	total := 0.0
	add := w.foretell
	if len(w) > 1 {
		add = w.foretellSampled
	}
	for i := range d.Rows() {
		rest(i)
		total += d.Weight(i)
		add(d, i, deletions, wrong)
	}
	for i := range wrong {
		wrong[i] *= 100 / total
	}
	return wrong
}

// foretell adds the chances that event i is predicted wrongly, two classes.
func (w linear) foretell(d *Data, i int, deletions, wrong []float64) {
	row, b := d.Row(i), w.intercept(d, 0)
	var part []float64
	for j, c := range row.Index {
		if p := row.At(j) * w[0][c]; p != 0 {
			part = append(part, p)
		}
	}
	slices.SortFunc(part, func(x, y float64) int { return cmp.Compare(math.Abs(y), math.Abs(x)) })
	large := len(part)
	if large > maskedFeatures {
		large = maskedLargest
	}
	// The rest is close to normal, given which of the large ones survive.
	f, v := 0.0, 0.0
	for _, p := range part[large:] {
		f += p
		v += p * p
	}
	var sum [1 << maskedFeatures]float64 // by mask of survivors
	var chance [maskedFeatures + 1]float64
	for mask := 1; mask < 1<<large; mask++ {
		sum[mask] = sum[mask&(mask-1)] + part[bits.TrailingZeros(uint(mask))]
	}
	for k, q := range deletions {
		for s := range large + 1 {
			chance[s] = math.Pow(1-q, float64(s)) * math.Pow(q, float64(large-s))
		}
		scale := 1 / (1 - q)
		sd, below := math.Sqrt(q*scale*v), 0.0 // P(score <= 0)
		for mask, x := range sum[:1<<large] {
			p := chance[bits.OnesCount(uint(mask))]
			switch mean := scale*x + f + b; {
			case p == 0:
			case sd > 0:
				below += p * 0.5 * math.Erfc(mean/(sd*math.Sqrt2))
			case mean <= 0:
				below += p
			}
		}
		if d.Label(i) != 1 {
			below = 1 - below
		}
		below = max(0, min(below, 1)) // of the sum's rounding
		wrong[k] += d.Weight(i) * below
	}
}

// foretellSampled draws masks of event i. A feature that survives a share of
// deletions survives every smaller one, which takes noise out of the curve.
func (w linear) foretellSampled(d *Data, i int, deletions, wrong []float64) {
	row, k := d.Row(i), len(w)
	draws := max(1, min(64, sampledMasks/d.Rows()))
	scores := make([]float64, k*len(deletions))
	var r rand.PCG
	r.Seed(uint64(i), 0x626c616e6b6f7574)
	for range draws {
		for q := range deletions {
			for o := range k {
				scores[q*k+o] = w.intercept(d, o)
			}
		}
		for j, c := range row.Index {
			luck := float64(r.Uint64()>>11) / (1 << 53)
			for q, p := range deletions {
				if luck < p {
					continue
				}
				x := row.At(j) / (1 - p)
				for o := range k {
					scores[q*k+o] += x * w[o][c]
				}
			}
		}
		for q := range deletions {
			if blankout.Predict(scores[q*k:q*k+k]) != d.Label(i) {
				wrong[q] += d.Weight(i) / float64(draws)
			}
		}
	}
}
