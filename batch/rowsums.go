package batch

// This file holds what objectives need whose rows are not in one place (package joint): the
// sums over the rows of one place, and the certificate made of the sums of all.

// RowSums is an Expected without its penalty: what is summed over its rows. The values of
// several of them add up.
type RowSums struct{ o *Expected }

// NewRowSums returns the sums over the rows of a problem, whose penalty it leaves out.
func NewRowSums(p Problem) (*RowSums, error) {
	p.Penalty = Ridge(p.Data.Columns(), 0, p.Intercept)
	o, err := NewExpected(p)
	return &RowSums{o}, err
}

// Dim returns the number of parameters.
func (s *RowSums) Dim() int { return s.o.dim }

// Smooth rounds the losses off, see Smoother.
func (s *RowSums) Smooth(eps float64) { s.o.Smooth(eps) }

// ValueGrad returns the losses at w and writes their gradient to grad unless that is nil.
func (s *RowSums) ValueGrad(w, grad []float64) float64 {
	s.o.cached = false
	return s.o.ValueGrad(w, grad)
}

// HessVec and Diagonal are those of the losses at the point of the last gradient.
func (s *RowSums) HessVec(v, out []float64) { s.o.HessVec(v, out) }

// Diagonal writes the diagonal of the matrix of HessVec.
func (s *RowSums) Diagonal(out []float64) { s.o.Diagonal(out) }

// Line returns the losses along a line, see Liner.
func (s *RowSums) Line(d []float64) func(t float64) (value, slope, curvature float64) {
	return s.o.Line(d)
}

// DualRows is what the certificate of an Expected asks of its rows: the methods are called in
// this order, Slope any number of times. See Expected.Gap.
type DualRows interface {
	// Scores computes the scores at w. It returns the size of the slopes of the point before.
	Scores(w []float64) (size float64)
	// Slope returns the slope of the losses with the scores shifted.
	Slope(shift float64) float64
	// Dual shifts the scores for good and takes the dual point there. It returns the
	// losses, and what the rows of either sign of df sum up to.
	Dual(shift float64) (value, up, down float64)
	// Bound writes the gradient of the losses at the dual point, whose rows of either sign
	// are multiplied by a theta, to r and returns the rows' own parts of the gap.
	Bound(w []float64, thetaUp, thetaDown float64, r []float64) (kink float64)
}

// DualGap returns the duality gap of w, and what of it are the rows' own parts. It moves a
// free intercept, w's last coordinate, to its optimum.
func DualGap(rows DualRows, p Penalty, free bool, w []float64) (gap, kink float64) {
	size, shift := rows.Scores(w), 0.0
	if free {
		shift = zeroOf(rows.Slope, size)
		w[len(w)-1] += shift
	}
	_, up, down := rows.Dual(shift)
	thetaUp, thetaDown := 1.0, 1.0
	if free {
		thetaUp, thetaDown = thetas(up, down)
	}
	r := make([]float64, len(w))
	kink = rows.Bound(w, thetaUp, thetaDown, r)
	p.ValueGrad(w, r)
	return p.GradientGap(r, free) + kink, kink
}

// Scores implements DualRows.
func (s *RowSums) Scores(w []float64) (size float64) {
	size = s.o.slopeSize()
	s.o.scores(w)
	return size
}

// Slope implements DualRows.
func (s *RowSums) Slope(shift float64) float64 { return s.o.slope(shift) }

// Dual implements DualRows.
func (s *RowSums) Dual(shift float64) (value, up, down float64) {
	s.o.shift(shift)
	value = s.o.dualPoint()
	up, down = s.o.dualSums()
	return value, up, down
}

// Bound implements DualRows.
func (s *RowSums) Bound(w []float64, thetaUp, thetaDown float64, r []float64) (kink float64) {
	return s.o.dualGradient(w, r, thetaUp, thetaDown, s.o.smoothedSlack)
}

// Rounding returns the weight of the rows with less variance than smoothing, the sum of the
// variances and that of the weights, at the last scores.
func (s *RowSums) Rounding() (sharp, variance, all float64) { return s.o.roundingSums() }
