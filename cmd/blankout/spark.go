package main

import "strings"

// sparkline draws values as bars of text, from 0 to the largest value. Negative values have no bar.
func sparkline(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 && v > 0 {
			i = min(int(v/most*float64(len(bars))), len(bars)-1)
		}
		b.WriteRune(bars[i])
	}
	return b.String()
}
