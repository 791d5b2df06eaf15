package batch

import (
	"math"
	"testing"
)

// TestPercent checks that a fraction is formatted in percent with two significant digits and at most four decimals.
func TestPercent(t *testing.T) {
	for fraction, want := range map[float64]string{2.2355: "224", 0.5: "50", -0.0523: "5.2", 0.0049: "0.49", 0.000123: "0.012", 0.0000123: "0.0012", 1e-9: "0.0000", 0: "0.0000"} {
		if got := percent(fraction); got != want {
			t.Errorf("%v is %s %%, want %s", fraction, got, want)
		}
	}
}

// TestDigits checks that a measure is formatted with the given number of digits, without an exponent if that is
// readable.
func TestDigits(t *testing.T) {
	for _, c := range []struct {
		x    float64
		n    int
		want string
	}{{180.4, 2, "180"}, {7554.4, 4, "7554"}, {75544, 4, "75540"}, {-0.00012345, 4, "-0.0001234"}, {0, 2, "0"}, {0.4849, 4, "0.4849"},
		{1.5e20, 2, "1.5e+20"}, {3e-9, 2, "3e-09"}, {math.Inf(1), 4, "+Inf"}} {
		if got := digits(c.x, c.n); got != c.want {
			t.Errorf("%v with %d digits is %s, want %s", c.x, c.n, got, c.want)
		}
	}
}
