package batch

// This file implements the loops over the entries of a row. Each loop has an assembly version in rows_amd64.go.

import (
	"math"
	"unsafe"
)

// Newton's method spends most of its time in these loops over the entries of a row with noise. The Go functions here
// are the reference. The assembly in rows_amd64.s computes the same sums in the same order, four entries at a time,
// with the same bits. Products are added with one rounding, as math.FMA does on every machine.
//
// x_d is a row's value and V_d = c1 x_d + c2 x_d^2 its variance.

// gather returns for the pairs (a_d, b_d) of p
//
//	s = sum x_d a_d,  t = sum V_d a_d b_d,  u = sum V_d a_d^2,
//
// and writes V_d b_d to z by entry. The argument z must have at least as many elements as the row.
func (r Row) gather(p, z []float64, c1, c2 float64) (s, t, u float64) {
	n := len(r.Index) &^ 3
	z = z[:len(r.Index)]
	if n > 0 {
		if hasAVX2 {
			values, kind := r.values()
			s, t, u = gatherAVX2(&r.Index[0], n, values, kind, &p[0], &z[0], c1, c2)
		} else {
			s, t, u = r.gatherGo(n, p, z, c1, c2)
		}
	}
	for i, d := range r.Index[n:] {
		x := r.At(n + i)
		v := x * math.FMA(c2, x, c1)
		a, b := p[2*d], p[2*d+1]
		z[n+i] = v * b
		s = math.FMA(x, a, s)
		t = math.FMA(z[n+i], a, t)
		u = math.FMA(v*a, a, u)
	}
	return s, t, u
}

// gatherGo is gather for the first n entries; n is a multiple of four.
func (r Row) gatherGo(n int, p, z []float64, c1, c2 float64) (s, t, u float64) {
	var ss, ts, us [4]float64
	for i, d := range r.Index[:n] {
		x := r.At(i)
		v := x * math.FMA(c2, x, c1)
		q := p[2*d:][:2]
		a, j := q[0], i&3
		z[i] = v * q[1]
		ss[j] = math.FMA(x, a, ss[j])
		ts[j] = math.FMA(z[i], a, ts[j])
		us[j] = math.FMA(v*a, a, us[j])
	}
	across := func(x *[4]float64) float64 { return (x[0] + x[2]) + (x[1] + x[3]) }
	return across(&ss), across(&ts), across(&us)
}

// addMixed adds a x_d + b z_d to acc_d. The argument z is indexed by entry.
func (r Row) addMixed(acc, z []float64, a, b float64) {
	n := 0
	if hasAVX2 {
		if n = len(r.Index) &^ 3; n > 0 {
			values, kind := r.values()
			addMixedAVX2(&r.Index[0], n, values, kind, &acc[0], &z[0], a, b)
		}
	}
	for i, d := range r.Index[n:] {
		acc[d] += math.FMA(b, z[n+i], a*r.At(n+i))
	}
}

// addPair adds a x_d to acc_2d and b V_d to acc_2d+1.
func (r Row) addPair(acc []float64, a, b, c1, c2 float64) {
	n := 0
	if hasAVX2 {
		if n = len(r.Index) &^ 3; n > 0 {
			values, kind := r.values()
			addPairAVX2(&r.Index[0], n, values, kind, &acc[0], a, b, c1, c2)
		}
	}
	for i, d := range r.Index[n:] {
		x := r.At(n + i)
		q := acc[2*d:][:2]
		q[0] += float64(a * x)
		q[1] += float64(b * float64(x*math.FMA(c2, x, c1)))
	}
}

// The types of a row's values.
const (
	kindOnes = iota
	kindFloat32
	kindFloat64
)

// values returns the address and the type of a row's values.
func (r Row) values() (unsafe.Pointer, int) {
	switch {
	case r.f32 != nil:
		return unsafe.Pointer(&r.f32[0]), kindFloat32
	case r.f64 != nil:
		return unsafe.Pointer(&r.f64[0]), kindFloat64
	}
	return nil, kindOnes
}
