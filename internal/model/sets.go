package model

// This file defines prediction sets for classes, and limits of prediction intervals for regression.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// SetRanges is the number of ranges of the missing fraction, each with its own limit: one for complete events, and one
// for each MissingBin.
const SetRanges = 1 + MissingBins

// Sets has the limits that give prediction sets and intervals the stated Coverage. Package online/conformal measures
// them.
type Sets struct {
	Coverage float64 `json:"coverage"`
	// Limits has the limit of each range (see MissingHandling.Range). For classification it is the largest -log p of a class in
	// the set; MostLimit excludes no class. For regression it is the half-width of the interval in standard deviations.
	// A limit of -1 is unknown.
	Limits SetLimits `json:"limits"`
	// Classes has the limits of each class, by class index. Classes beyond its length use Limits.
	Classes []SetLimits `json:"classes,omitempty"`
}

// SetLimits has one limit for each range of the missing fraction.
type SetLimits [SetRanges]float64

// of returns the limit of a class in range r.
func (s *Sets) of(class, r int) float64 {
	if class < len(s.Classes) {
		return s.Classes[class][r]
	}
	return s.Limits[r]
}

// MostLimit is the largest limit, which excludes no class.
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
func (h *Head) Set(a MissingHandling, probabilities []float64, class int) (set []int, ok bool) {
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

// RangeName returns the name of range r of the missing fraction: 0, or from-to.
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
