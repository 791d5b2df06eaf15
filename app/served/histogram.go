package served

// This file estimates quantiles of nonnegative numbers of any size from sums that can be merged.

import (
	"encoding/json"
	"math"
)

// Histogram counts nonnegative numbers in bins of equal width on a logarithmic scale: 5 % each, from 1e-9 to 1e9. Older
// numbers count less. The zero value is empty.
type Histogram struct {
	bins  [histogramBins]float64
	total float64
}

const (
	histogramBins  = 850
	histogramLeast = 1e-9
	histogramWidth = .05 // width of a bin, in natural logarithms
)

// Add adds a number, after all sums are multiplied by keep.
func (h *Histogram) Add(x, keep float64) {
	for i := range h.bins {
		h.bins[i] *= keep
	}
	h.total = h.total*keep + 1
	at := 0
	if x > histogramLeast {
		at = min(1+int(math.Log(x/histogramLeast)/histogramWidth), histogramBins-1)
	}
	h.bins[at]++
}

// Merge adds the counts of another Histogram, which may be nil.
func (h *Histogram) Merge(x *Histogram) {
	if x == nil {
		return
	}
	for i, n := range x.bins {
		h.bins[i] += n
	}
	h.total += x.total
}

// Limit returns a number that the next one exceeds with a probability of at most 1 - coverage, if the numbers are
// exchangeable. It is infinite while there are too few numbers.
func (h *Histogram) Limit(coverage float64) float64 {
	want, sum := coverage*(h.total+1), 0.0
	for i, n := range h.bins {
		if sum += n; sum >= want && i < histogramBins-1 {
			return histogramLeast * math.Exp(float64(i)*histogramWidth)
		}
	}
	return math.Inf(1)
}

// MarshalJSON encodes the bins that are not empty, as pairs of index and count.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	pairs := [][2]float64{}
	for i, n := range h.bins {
		if n > 1e-3 {
			pairs = append(pairs, [2]float64{float64(i), n})
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][2]float64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	*h = Histogram{}
	for _, p := range pairs {
		if i := int(p[0]); i >= 0 && i < histogramBins && p[1] > 0 {
			h.bins[i] = p[1]
			h.total += p[1]
		}
	}
	return nil
}
