package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponentials emits the functions of package internal/loss. constants is the address of vectors of eight times the
// same constant.
func exponentials(a *assembly) {
	logisticTerms(a)
	exps(a)
}

// constant returns constant i.
func constant(constants reg.GPVirtual, i int) Mem { return at(constants, 64*i) }

// logisticTerms emits logisticTermsGo: every instruction is one of its operations, of four terms at a time or, with
// AVX-512, of eight.
func logisticTerms(a *assembly) {
	a.function("logisticTermsFMA", "(u, v float64, p, t2 *[8]float64, constants *[32][8]float64, eight bool) (value, du, dv float64)")
	p, t2, constants := a.load("p"), a.load("t2"), a.load("constants")
	four := vector{assembly: a, bytes: 32}
	sums := []reg.VecVirtual{four.zero(), four.zero(), four.zero()}
	// terms adds the terms that the vector holds, from the offset of their t^2 and p on.
	terms := func(v vector, offset int) {
		c := func(i int) Mem { return constant(constants, i) }
		u, variance, abs := v.spread(a.address("u")), v.spread(a.address("v")), v.register()
		a.VPSLLQ(Imm(1), u, abs)
		a.VPSRLQ(Imm(1), abs, abs)
		s, one := v.register(), v.load(c(1))
		a.VSQRTPD(v.add(variance, at(t2, offset)), s)
		inverse := v.div(one, s)
		x := v.register() // |u| / s, 37 at most
		a.VMINPD(v.mul(abs, inverse), v.load(c(2)), x)
		y, n := v.mul(v.mul(x, c(0)), x), v.load(c(3))
		v.horner(n, y, c(4))
		e, r := v.sub(n, c(4)), v.load(c(5))
		a.VFNMSUB213PD(y, e, r)
		v.fnma(r, e, c(6))
		e = v.load(c(8))
		for _, i := range []int{9, 10, 11, 12, 13, 14, 15, 16, 0, 1, 1} {
			v.horner(e, r, c(i))
		}
		a.VPSLLQ(Imm(52), n, n)
		a.VPADDQ(n, e, e)
		tail, den := v.load(c(17)), v.load(c(24))
		for i := 18; i <= 23; i++ {
			v.horner(tail, x, c(i))
			v.horner(den, x, c(i+7))
		}
		v.horner(den, x, c(31))
		tail = v.mul(v.div(tail, den), e)
		cdf := v.sub(one, tail)
		if v.bytes == 64 {
			positive := a.K()
			a.VCMPPD(Imm(14), v.zero(), u, positive)
			a.VBLENDMPD(cdf, tail, positive, cdf)
		} else {
			positive := v.zero()
			a.VCMPPD(Imm(14), positive, u, positive)
			a.VBLENDVPD(positive, cdf, tail, cdf)
		}
		e = v.mul(e, c(7))
		parts := []reg.VecVirtual{v.fma(v.mul(cdf, u), s, e), cdf, v.mul(e, inverse)}
		for half := 0; half < v.bytes; half += 32 {
			p := four.load(at(p, offset+half))
			for i, sum := range sums {
				part := four.of(parts[i])
				if half > 0 {
					part = a.YMM()
					a.VEXTRACTF64X4(Imm(1), parts[i], part)
				}
				four.fma(sum, part, p)
			}
		}
	}
	across, all := a.label(), a.label()
	a.CMPB(a.address("eight"), Imm(0))
	a.JNE(LabelRef(all))
	terms(four, 0)
	terms(four, 32)
	a.JMP(LabelRef(across))
	a.Label(all)
	terms(vector{assembly: a, bytes: 64}, 0)
	a.Label(across)
	a.Store(a.across(sums[0]), a.Return("value"))
	a.Store(a.across(sums[1]), a.Return("du"))
	a.Store(vector{assembly: a, bytes: 8}.mul(a.across(sums[2]), constant(constants, 0)), a.Return("dv"))
	a.end()
}

// exps does what archExp of package math does with FMA, four at a time, and stops at four of which one is beyond
// constant 13. Eight at a time (AVX-512) are no faster: the sums of a polynomial wait for each other.
func exps(a *assembly) {
	a.function("expsAVX2", "(x *float64, fours int, constants *[15][8]float64) (done int)")
	v := vector{assembly: a, bytes: 32}
	x, left, constants := a.load("x"), a.load("fours"), a.load("constants")
	c := func(i int) Mem { return constant(constants, i) }
	limit, end := v.load(c(13)), LabelRef(a.label())
	a.parts(left, 1, func() {
		z, abs, within := v.load(at(x, 0)), a.YMM(), a.GP32()
		a.VPSLLQ(Imm(1), z, abs)
		a.VPSRLQ(Imm(1), abs, abs)
		a.VCMPPD(Imm(2), limit, abs, abs)
		a.VMOVMSKPD(abs, within)
		a.CMPL(within, Imm(15))
		a.JNE(end)
		integer, n, power := a.XMM(), a.YMM(), a.YMM()
		a.VCVTPD2DQY(v.mul(z, c(0)), integer)
		a.VCVTDQ2PD(integer, n)
		v.fnma(z, n, c(1))
		v.fnma(z, n, c(2))
		z = v.mul(z, c(3))
		e := v.load(c(4))
		for i := 5; i <= 11; i++ {
			v.horner(e, z, c(i))
		}
		e = v.mul(z, e)
		for range 3 {
			e = v.mul(e, v.add(e, c(12)))
		}
		v.horner(e, v.add(e, c(12)), c(11))
		a.VPMOVSXDQ(integer, power)
		a.VPADDQ(c(14), power, power)
		a.VPSLLQ(Imm(52), power, power)
		v.store(v.mul(e, power), at(x, 0))
		a.advance(32, x)
	})
	a.Label(string(end))
	a.SUBQ(a.address("x"), x)
	a.SHRQ(Imm(5), x)
	a.Store(x, a.Return("done"))
	a.end()
}
