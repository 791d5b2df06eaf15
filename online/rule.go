package online

// rule is an update rule: how a gradient changes the weights. A rule owns the
// values of a row's level: for output k of n they are p[k] the weight, p[n+k]
// the metric, p[2n+k] the lag of the average, and further ones if it asks.
//
// Whoever changes a weight by delta subtracts delta times average.inverse from
// the lag.
type rule interface {
	// start fills the level of a new row, which is all zero.
	start(p []float64, n int)
	// set makes b the weight of output k.
	set(p []float64, n, k int, b float64)
	// rescale multiplies the weights of the first active outputs by ratio because
	// the feature's scale has grown by it; gradients shrink by it.
	rescale(p []float64, n, active int, ratio float64)
	// step updates the rows of l.now for one level, whose derivatives start at
	// index at of l.now.df and dv. The gradient of feature i and output k is
	//
	//	df[k] x + dv[k] (scale basis + c0 scarce) w + ridge w.
	step(l *Learner, v *level, at int)
	// unlabelled adds the curvature l.now.h[at+k] times the feature to the metric.
	unlabelled(l *Learner, v *level, at int)
}

type ruleEntry struct {
	name   string
	eta    float64 // the default
	slots  int     // values for a level and output
	metric bool    // unlabelled events add to it
	rule
}

// rules is the table of rules: a new one is a file and a line here.
var rules = []ruleEntry{
	{"adagrad", 0.3, 3, true, adagrad{}},
	{"dropout-descent", 0.5, 3, true, descent{}},
	{"sgd", 0.5, 3, false, sgd{}},
}

// plain is what rules have in common whose weight is p[k] and whose metric is
// a sum of squared gradients.
type plain struct{}

func (plain) start([]float64, int)                 {}
func (plain) set(p []float64, n, k int, b float64) { p[k] = b }
func (plain) rescale(p []float64, n, active int, ratio float64) {
	inverse := 1 / (ratio * ratio)
	for k := range active {
		p[k] *= ratio
		p[n+k] *= inverse
		p[2*n+k] *= ratio
	}
}
