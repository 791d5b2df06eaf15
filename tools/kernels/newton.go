package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// covariances emits the functions of package online/experts/newton. Both visit the columns j of the triangle U, and
// products are rounded before they are added, as in Go.
func covariances(a *assembly) {
	one, four := vector{assembly: a, bytes: 8}, vector{assembly: a, bytes: 32}
	// fours visits rows i in fours, as long as i is below j - 3, and then singly, as long as i is below j.
	fours := func(i, j reg.GPVirtual, visit func(v vector), between func()) {
		last := a.GP64()
		a.LEAQ(at(j, -3), last)
		a.CMPQ(i, last)
		a.skip(a.JGE, func() { a.steps(i, last, 4, func() { visit(four) }) })
		between()
		a.CMPQ(i, j)
		a.skip(a.JGE, func() { a.steps(i, j, 1, func() { visit(one) }) })
	}
	// next goes to the next column.
	next := func(column, j reg.GPVirtual) {
		a.INCQ(j)
		a.LEAQ(at(column, 0).Idx(j, 8), column)
	}

	a.function("leverageAVX2", "(data, z, f *float64, n, first int) (h float64)")
	column, z, f, n, first, j, i, h := a.load("data"), a.load("z"), a.load("f"), a.load("n"), a.load("first"), a.clear(), a.GP64(), one.zero()
	a.repeat(a.JLT, func() {
		sum := one.zero()
		a.CMPQ(j, first)
		a.skip(a.JLT, func() {
			a.MOVQ(first, i)
			sums := four.zero()
			fours(i, j, func(v vector) {
				to := sums
				if v == one {
					to = sum
				}
				v.plus(to, v.mul(v.load(at(column, 0).Idx(i, 8)), at(z, 0).Idx(i, 8)))
			}, func() {
				low, high := a.halves(sums)
				a.VADDPD(high, low, low)
				a.VPERMILPD(Imm(1), low, high)
				a.VADDSD(high, low, sum)
			})
			one.plus(sum, at(z, 0).Idx(j, 8))
		})
		one.store(sum, at(f, 0).Idx(j, 8))
		one.plus(h, one.mul(one.mul(sum, sum), at(column, 0).Idx(j, 8)))
		next(column, j)
		a.CMPQ(j, n)
	})
	a.VZEROUPPER()
	a.Store(h, a.Return("h"))
	a.RET()

	a.function("updateAVX2", "(data, f, gain *float64, n int, a float64) (alpha float64)")
	column, f, gain, n, j, i := a.load("data"), a.load("f"), a.load("gain"), a.load("n"), a.clear(), a.GP64()
	by, alpha, sign := one.load(a.address("a")), one.load(a.table("one", double(1))), one.load(a.table("sign", U64(1<<63)))
	a.repeat(a.JLT, func() {
		f, d := one.load(at(f, 0).Idx(j, 8)), one.load(at(column, 0).Idx(j, 8))
		scaled, v := one.mul(by, f), one.mul(d, f)
		after := one.add(alpha, one.mul(scaled, v))
		one.store(one.mul(d, one.div(alpha, after)), at(column, 0).Idx(j, 8))
		a.VXORPD(sign, scaled, scaled)
		lambda, times := a.YMM(), a.YMM()
		a.VBROADCASTSD(one.div(scaled, alpha), lambda)
		a.VBROADCASTSD(v, times)
		a.VMOVAPD(after, alpha)
		a.XORL(i.As32(), i.As32())
		fours(i, j, func(v vector) {
			u, g := v.load(at(column, 0).Idx(i, 8)), v.load(at(gain, 0).Idx(i, 8))
			v.store(v.add(u, v.mul(v.of(lambda), g)), at(column, 0).Idx(i, 8))
			v.store(v.add(g, v.mul(v.of(times), u)), at(gain, 0).Idx(i, 8))
		}, func() {})
		one.store(v, at(gain, 0).Idx(j, 8))
		next(column, j)
		a.CMPQ(j, n)
	})
	a.VZEROUPPER()
	a.Store(alpha, a.Return("alpha"))
	a.RET()
}
