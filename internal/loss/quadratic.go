package loss

// Quadratic is E (f~ - y)^2 = (f - y)^2 + v, exact for every noise (van der
// Maaten et al. 2013, section 3.1).
type Quadratic struct{}

func (Quadratic) At(y, f, v float64) (value, df, dv float64) {
	return (f-y)*(f-y) + v, 2 * (f - y), 1
}
func (Quadratic) At2(_, _, _ float64) (ff, fv, vv float64) { return 2, 0, 0 }
func (Quadratic) Facts() Facts {
	return Facts{Target: Real, Convex: true, CleanConvex: true, LabelFree: true, Cost: 1}
}
func (Quadratic) String() string { return "quadratic" }

// Linear is the log-loss of linear regression with its noising penalty, half of Quadratic: (f - y)^2/2 + v/2 (Wager et
// al. 2013, A(f) = f^2/2).
type Linear struct{}

func (Linear) At(y, f, v float64) (value, df, dv float64) {
	return 0.5*(f-y)*(f-y) + 0.5*v, f - y, 0.5
}
func (Linear) At2(_, _, _ float64) (ff, fv, vv float64) { return 1, 0, 0 }
func (Linear) Facts() Facts {
	return Facts{Target: Real, Regression: true, Convex: true, CleanConvex: true, LabelFree: true, Cost: 1}
}
func (Linear) String() string { return "linear" }
