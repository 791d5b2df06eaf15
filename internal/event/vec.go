package event

// This file defines Vec, a sparse vector.

import (
	"fmt"
	"slices"
)

// Vec is a sparse feature vector: Value[i] is in column Index[i]. Columns ascend strictly, and absent columns are zero.
// A Vec borrows its slices from the caller that filled it; Clone it to keep it.
type Vec struct {
	Index []uint32
	Value []float64
}

// Len returns the number of entries.
func (x Vec) Len() int { return len(x.Index) }

// Clone returns a copy that shares no memory with x.
func (x Vec) Clone() Vec {
	return Vec{slices.Clone(x.Index), slices.Clone(x.Value)}
}

// Check returns an error for the first violation of Vec's contract. Violations are slices of different length, columns
// that do not ascend, and values that are not finite.
func (x Vec) Check() error {
	if len(x.Index) != len(x.Value) {
		return fmt.Errorf("%d columns but %d values", len(x.Index), len(x.Value))
	}
	for i, d := range x.Index {
		if i > 0 && x.Index[i-1] >= d {
			return fmt.Errorf("column %d follows column %d", d, x.Index[i-1])
		}
		if v := x.Value[i]; v-v != 0 {
			return fmt.Errorf("column %d holds %v", d, v)
		}
	}
	return nil
}
