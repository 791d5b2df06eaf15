package batch

import (
	"math"
	"testing"

	"blankout/internal/must"
)

// TestPercent checks that a fraction is formatted in percent with two significant digits and at most four decimals.
func TestPercent(t *testing.T) {
	for fraction, want := range map[float64]string{2.2355: "224", 0.5: "50", -0.0523: "5.2", 0.0049: "0.49", 0.000123: "0.012", 0.0000123: "0.0012", 1e-9: "0.0000", 0: "0.0000"} {
		got := percent(fraction)
		must.True(t, got == want, "%v is %s %%, want %s", fraction, got, want)
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
		must.Equal(t, digits(c.x, c.n), c.want, c.x, "with", c.n, "digits")
	}
}

// TestValidationAlarm checks that a report has an alarm if the live weights are far from the exact weights. There must
// be no alarm if the live weights are better on the newest events.
func TestValidationAlarm(t *testing.T) {
	x := func(x float64) *float64 { return &x }
	for name, c := range map[string]struct {
		gap, gapError float64
		live, exact   *float64
		better, want  string
	}{
		"near":                    {0.99, 0, x(0.5), x(0.45), "exact", ""},
		"a gap of 248 %":          {2.48, 0, x(0.5), x(0.45), "exact", "the current weights are far from the exact solution on the same events: their objective is 248 % above the exact one"},
		"a gap by chance":         {1.2, 0.3, nil, nil, "neither", ""},
		"a log-loss of 1.56":      {0.2, 0, x(1.56), x(0.48), "neither", "the current weights are far from the exact solution on the same events: their log-loss is 1.56, that of the exact solution 0.48"},
		"small losses":            {0.2, 0, x(0.02), x(0.01), "exact", ""},
		"losses in proportion":    {0.2, 0, x(1.4), x(1), "exact", ""},
		"the stream has moved on": {2.48, 0, x(1.56), x(0.48), "live", ""},
		"numbers":                 {3, 0, nil, nil, "exact", "the current weights are far from the exact solution on the same events: their objective is 300 % above the exact one"},
	} {
		v := Validation{RelativeGap: &c.gap, GapError: c.gapError, Live: ModelMeasures{LogLoss: c.live}, Exact: ModelMeasures{LogLoss: c.exact}, Newest: &Newest{Better: c.better}}
		must.Equal(t, v.alarm(), c.want, name)
	}
	must.True(t, (&Validation{}).alarm() == "", "a report of nothing is an alarm")
}
