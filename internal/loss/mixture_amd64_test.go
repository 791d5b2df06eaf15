package loss

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/must"
)

// TestLogisticTermsOfEachWidth checks that the assembly loops for four and for eight terms at a time return the bits of
// the Go reference.
func TestLogisticTermsOfEachWidth(t *testing.T) {
	if !hasAVX2 {
		t.Skip("the processor has no AVX2")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		u, v := 10*r.NormFloat64(), 5*r.ExpFloat64()
		a, b, c := logisticTermsGo(u, v)
		for _, eight := range []bool{false, hasAVX512} {
			value, du, dv := logisticTermsFMA(u, v, &logisticP, &logisticT2, &logisticConstants, eight)
			must.Require(t, value == a && du == b && dv == c, "eight %v: of %g, %g %g, %g, %g; the reference %g, %g, %g", eight, u, v, value, du, dv, a, b, c)
		}
	}
}
