package measure

import "strconv"

// Apart formats two numbers for one sentence, with at least the given number of significant digits. It adds digits, up
// to ten, until the texts of different numbers differ.
func Apart(a, b float64, digits int) (string, string) {
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', digits, 64) }
	for a != b && text(a) == text(b) && digits < 10 {
		digits++
	}
	return text(a), text(b)
}
