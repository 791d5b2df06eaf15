package model

// This file holds what an answer leaves open: sets of classes, and intervals of numbers.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/loss"
)

// SetRanges is the number of ranges of the share of an event's fields that is missing, each of which
// has a limit of its own: that of events that lack nothing, and those of MissingBin.
const SetRanges = 1 + MissingBins

// Sets says what answers leave open so that they hold the truth in a share Coverage of cases, as
// package online/conformal measured it.
type Sets struct {
	Coverage float64 `json:"coverage"`
	// Limits has by range, see Answer.Range, the most that -log p may be of a class for the class not
	// to be excluded or, of numbers, to how many deviations an interval reaches on either side; -1 where
	// too little is known to say. MostLimit excludes no class.
	Limits SetLimits `json:"limits"`
	// Classes has the limits of each class, by its index. Those that are not there have Limits.
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

// MostLimit is the largest of Sets.Limits.
const MostLimit = 1000

// check says what is wrong with limits that were read.
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

// Set returns the classes that an answer with these probabilities, whose class is the given one, does
// not exclude, the most probable first: that class in any case. ok is false where the model does not
// know what to exclude.
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

// RangeName names a range by the share of the fields that is missing: 0, or from-to.
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
