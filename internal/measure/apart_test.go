package measure_test

import (
	"testing"

	"blankout/internal/measure"
)

// TestApart checks that the texts of different numbers differ.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b         float64
		wantA, wantB string
	}{{1, 1.00004, "1", "1.00004"}, {0.69316, 0.69319, "0.69316", "0.69319"}, {2.5, 3, "2.5", "3"}, {1, 1, "1", "1"}, {1e9, 1e9 + 1, "1000000000", "1000000001"}} {
		if a, b := measure.Apart(c.a, c.b, 4); a != c.wantA || b != c.wantB {
			t.Errorf("%v and %v: %s and %s, want %s and %s", c.a, c.b, a, b, c.wantA, c.wantB)
		}
	}
}
