package online

// rule is an update rule: how a gradient changes the weights. A rule owns what
// follows the statistics in a row: for index j of n (levels times outputs) p[j]
// is the weight, p[n+j] the metric, p[2n+j] the lag of the average, and it may
// ask for further ones.
//
// Whoever changes a weight by delta subtracts delta times average.inverse from
// the lag.
type rule interface {
	// start fills a new row, which is all zero.
	start(p []float64, n int)
	// set makes b the weight at j.
	set(l *Learner, p []float64, j int, b float64)
	// rescale multiplies the weights by ratio because the feature's scale has
	// grown by it; gradients shrink by it.
	rescale(l *Learner, p []float64, ratio float64)
	// shifted says that the intercepts have taken up shift times the weights of p.
	shifted(l *Learner, intercepts, p []float64, shift float64)
	// forget leaves a share of the metric, as if less had been seen.
	forget(l *Learner, p []float64, keep float64)
	// step updates the rows of l.now. The gradient of feature i at index j is
	//
	//	df[j] x + (shrink[j] basis + ridge) w.
	step(l *Learner)
	// unlabelled adds the curvature l.now.h[j] times the feature to the metric.
	unlabelled(l *Learner)
}

type ruleEntry struct {
	name   string
	eta    float64 // the default
	slots  int     // values for a level and output
	metric bool    // a sum over events that unlabelled ones add to and that may fade
	starts bool    // start does something
	ridges bool    // start of Config may stand for the ridge, see there
	rule
}

// rules is the table of rules: a new one is a file and a line here.
var rules = []ruleEntry{
	{name: "adagrad", eta: 0.3, slots: 3, metric: true, ridges: true, rule: adagrad{}},
	{name: "dropout-descent", eta: 0.5, slots: 3, metric: true, rule: descent{}},
	{name: "sgd", eta: 0.5, slots: 3, rule: sgd{}},
	{name: "arow", eta: 1, slots: 3, starts: true, rule: arow{}},
	{name: "ftrl", eta: 0.3, slots: 4, rule: ftrl{}},
	{name: "irls", eta: 1, slots: 3, metric: true, rule: irls{}},
}

// Rules returns the names of the update rules, the default first.
func Rules() []string {
	var names []string
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// plain is what rules have in common whose metric is a sum of squared gradients.
type plain struct{}

func (plain) start([]float64, int)                            {}
func (plain) set(_ *Learner, p []float64, j int, b float64)   { p[j] = b }
func (plain) shifted(*Learner, []float64, []float64, float64) {}
func (plain) unlabelled(*Learner)                             {}
func (plain) forget(l *Learner, p []float64, keep float64) {
	for j := l.n; j < 2*l.n; j++ {
		p[j] *= keep
	}
}
func (plain) rescale(l *Learner, p []float64, ratio float64) {
	n, inverse := l.n, 1/(ratio*ratio)
	for j := range n {
		p[j] *= ratio
		p[n+j] *= inverse
		p[2*n+j] *= ratio
	}
}
