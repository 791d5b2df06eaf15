package blankout

// hasAVX2 says whether the processor and the system have AVX2.
var hasAVX2 = detectAVX2()

func logisticTerms(u, v float64) (value, du, dv float64) {
	if !hasAVX2 {
		return logisticTermsGo(u, v)
	}
	return logisticTermsAVX2(u, v, &logisticP, &logisticT2)
}

//go:noescape
func logisticTermsAVX2(u, v float64, p, t2 *[8]float64) (value, du, dv float64)

func detectAVX2() bool
