package model

// This file has prediction sets for classes, and prediction intervals for numbers.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// SetRanges is the number of ranges of the missing fraction, each with its own limit: one for complete events, and
// those of MissingBin.
const SetRanges = 1 + MissingBins

// Sets has the limits with which prediction sets and intervals have the given Coverage, as package online/conformal
// measured them.
type Sets struct {
	Coverage float64 `json:"coverage"`
	// Limits has, by range (see Answer.Range), the largest -log p of a class in the set or, for regression, the
	// half-width of the interval in deviations; -1 if not known. MostLimit excludes no class.
	Limits SetLimits `json:"limits"`
	// Classes has the limits of each class, by index. Further classes have Limits.
	Classes []SetLimits `json:"classes,omitempty"`
}

// SetLimits are limits by range.
type SetLimits [SetRanges]float64

// of returns the limit of a class in a range.
func (s *Sets) of(class, r int) float64 {
	if class < len(s.Classes) {
		return s.Classes[class][r]
	}
	return s.Limits[r]
}

// MostLimit is the largest limit.
const MostLimit = 1000

// check returns an error if decoded limits are invalid.
func (s *Sets) check() error {
	for _, limits := range append([]SetLimits{s.Limits}, s.Classes...) {
		for r, limit := range limits {
			if !(s.Coverage > 0 && s.Coverage < 1) || !(limit >= 0 && limit <= MostLimit || limit == -1) || (limit < 0) != (s.Limits[r] < 0) {
				return fmt.Errorf("sets of coverage %v with limits %v", s.Coverage, limits)
			}
		}
	}
	return nil
}

// Set returns the prediction set for these probabilities, the most probable class first. class is the predicted class,
// which is always in the set. ok is false if the model has no limits.
func (h *Head) Set(a Answer, probabilities []float64, class int) (set []int, ok bool) {
	if h.Sets == nil || h.Sets.Limits[a.Range] < 0 {
		return nil, false
	}
	for k, p := range probabilities {
		if limit := h.Sets.of(k, a.Range); k == class || p >= loss.Exp(-limit) || limit == MostLimit {
			set = append(set, k)
		}
	}
	slices.SortStableFunc(set, func(a, b int) int { return cmp.Compare(probabilities[b], probabilities[a]) })
	return set, true
}

// RangeName returns the name of a range by its missing fraction: 0, or from-to.
func RangeName(r int) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case r == 0:
		return "0"
	case r == 1:
		return "0-" + number(MissingEdges[0])
	case r == MissingBins:
		return number(MissingEdges[r-2]) + "-1"
	}
	return number(MissingEdges[r-2]) + "-" + number(MissingEdges[r-1])
}
