package loss

// SquaredHinge is E max(0, z~)^2 for z~ ~ N(z, v), z = Ell - y f: with s = sqrt(v)
//
//	(z^2 + v) Phi(z/s) + z s phi(z/s),  d/dz = 2 (z Phi + s phi),  d/dv = Phi.
//
// At v = 0 it is the loss of the support vector machine that LIBLINEAR calls L2-loss.
type SquaredHinge struct{ Ell float64 }

func (l SquaredHinge) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	hinge := max(z*p+s*phi, 0) // the expected hinge, which rounding may make negative far from the margin
	return max(z*hinge+v*p, 0), -2 * y * hinge, p
}

func (l SquaredHinge) At2(y, f, v float64) (ff, fv, vv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	if phi == 0 { // also avoids 0/0 in the quotients below
		return 2 * p, 0, 0
	}
	return 2 * p, -y * phi / s, -0.5 * phi * (z / s) / v
}

func (SquaredHinge) Facts() Facts { return Facts{Convex: true, CleanConvex: true, Cost: 1} }

// Conjugate implements the interface Conjugate. At a = -y p with p >= 0 the conjugate is p^2/4 - Ell p.
func (l SquaredHinge) Conjugate(y, a float64) (nearest, value float64) {
	p := max(-y*a, 0)
	return -y * p, p * (0.25*p - l.Ell)
}

func (l SquaredHinge) String() string { return "squared-hinge:gaussian" + formatEll(l.Ell) }
