package loss

import "math"

// Exps replaces each of x by math.Exp of it, to the bit. Four are found in hardly more time than one.
func Exps(x []float64) {
	for len(x) > 0 {
		x = x[exps(x):]
		n := min(len(x), 4) // one of them is out of range
		for i := range x[:n] {
			x[i] = math.Exp(x[i])
		}
		x = x[n:]
	}
}
