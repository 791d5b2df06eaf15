package batch

import "testing"

// A share is told in percent with two digits, however large it is, and four behind the point at most.
func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{2.2355: "224", 0.5: "50", -0.0523: "5.2", 0.0049: "0.49", 0.000123: "0.012", 0.0000123: "0.0012", 1e-9: "0.0000", 0: "0.0000"} {
		if got := percent(share); got != want {
			t.Errorf("%v is %s %%, want %s", share, got, want)
		}
	}
}
