package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// products emits the functions of package internal/model.
func products(a *assembly) {
	subtract(a)
	subtractRows(a, "subtractPairFMA", vector{assembly: a, bytes: 32}, 2)
	subtractRows(a, "subtractRowsAVX512", vector{assembly: a, bytes: 64}, 4)
	product(a)
	cosines(a)
	prefetch(a)
}

func subtract(a *assembly) {
	a.function("subtractFMA", "(from, row *float64, n int, factor float64)")
	v, from, row, n, i := vector{assembly: a, bytes: 32}, a.load("from"), a.load("row"), a.load("n"), a.clear()
	factor := v.spread(a.address("factor"))
	a.steps(i, n, 4, func() {
		v.store(v.fnma(v.load(at(from, 0).Idx(i, 8)), factor, at(row, 0).Idx(i, 8)), at(from, 0).Idx(i, 8))
	})
	a.end()
}

// subtractRows emits a function that subtracts four rows, times their factors, from a number of others. n is at least
// the values of a vector, or any number of values with AVX-512.
func subtractRows(a *assembly, name string, v vector, many int) {
	a.function(name, "(to, from *float64, stride, n int, factors *float64)")
	to, from, stride, n, i := a.load("to"), a.load("from"), a.load("stride"), a.load("n"), a.load("factors")
	var factors []reg.VecVirtual
	for k := range 4 * many {
		factors = append(factors, v.spread(at(i, 8*k)))
	}
	rows := func(first reg.GPVirtual, many int) (all []reg.GPVirtual) {
		for all = append(all, first); len(all) < many; {
			next := a.GP64()
			a.LEAQ(at(all[len(all)-1], 0).Idx(stride, 8), next)
			all = append(all, next)
		}
		return all
	}
	sources, targets := rows(from, 4), rows(to, many)
	a.XORL(i.As32(), i.As32())
	part := func(v vector) {
		var xs, sums []reg.VecVirtual
		for _, p := range sources {
			xs = append(xs, v.load(at(p, 0).Idx(i, 8)))
		}
		for _, p := range targets {
			sums = append(sums, v.load(at(p, 0).Idx(i, 8)))
		}
		for source, x := range xs {
			for target, sum := range sums {
				v.fnma(sum, x, factors[4*target+source])
			}
		}
		for target, p := range targets {
			v.store(sums[target], at(p, 0).Idx(i, 8))
		}
	}
	masked, left := v, a.GP64()
	if v.bytes == 64 {
		mask, ones := a.K(), a.GP32()
		a.MOVL(U32(255), ones)
		a.KMOVW(ones, mask)
		masked.mask = mask
		a.repeat(a.JGT, func() {
			a.CMPQ(n, Imm(8))
			a.skip(a.JGE, func() {
				ones := a.GP32()
				a.MOVL(U32(1), ones)
				a.SHLXL(n.As32(), ones, ones)
				a.DECL(ones)
				a.KMOVW(ones, mask)
			})
			part(masked)
			a.ADDQ(Imm(8), i)
			a.SUBQ(Imm(8), n)
		})
		a.end()
		return
	}
	a.MOVQ(n, left)
	a.ANDQ(Imm(3), left)
	a.SUBQ(left, n)
	a.steps(i, n, 4, func() { part(v) })
	a.TESTQ(left, left)
	a.skip(a.JEQ, func() {
		all, table, mask := U64(1<<64-1), a.GP64(), a.YMM()
		a.LEAQ(a.table("lastValues", all, all, all, U64(0), U64(0), U64(0)), table)
		a.NEGQ(left)
		a.VMOVUPD(at(table, 24).Idx(left, 8), mask)
		masked.mask = mask
		part(masked)
	})
	a.end()
}

// product sums sixteen times every sixteenth product, as productGo does.
func product(a *assembly) {
	a.function("productAVX2", "(a, b *float64, n int) float64")
	v, x, y, n, i := vector{assembly: a, bytes: 32}, a.load("a"), a.load("b"), a.load("n"), a.clear()
	a.SHLQ(Imm(3), n)
	sums := []reg.VecVirtual{v.zero(), v.zero(), v.zero(), v.zero()}
	a.steps(i, n, 128, func() {
		for k, sum := range sums {
			v.plus(sum, v.mul(v.load(at(x, 32*k).Idx(i, 1)), at(y, 32*k).Idx(i, 1)))
		}
	})
	low, high := a.halves(v.add(v.add(sums[0], sums[1]), v.add(sums[2], sums[3])))
	a.VHADDPD(low, low, low)
	a.VHADDPD(high, high, high)
	a.Store(vector{assembly: a, bytes: 8}.add(low, high), a.ReturnIndex(0))
	a.end()
}

// cosines rounds products before they are added, as in Go.
func cosines(a *assembly) {
	a.function("cosinesAVX2", "(x *float64, n int, constants *[10]float64)")
	v, x, n, constants := vector{assembly: a, bytes: 32}, a.load("x"), a.load("n"), a.load("constants")
	var c []reg.VecVirtual
	for i := range 10 {
		c = append(c, v.spread(at(constants, 8*i)))
	}
	a.repeat(a.JNE, func() {
		for _, half := range []Mem{at(x, 0), at(x, 32)} {
			y := v.load(half)
			y = v.sub(y, v.sub(v.add(y, c[0]), c[0]))
			a.VANDPD(c[2], y, y)
			y = v.sub(c[1], y)
			square := v.mul(y, y)
			sum := v.mul(c[9], square)
			for i := 8; i > 3; i-- {
				sum = v.mul(v.add(sum, c[i]), square)
			}
			v.store(v.mul(v.add(sum, c[3]), y), half)
		}
		a.advance(64, x)
		a.DECQ(n)
	})
	a.end()
}

// prefetch emits functions that load memory into the cache.
func prefetch(a *assembly) {
	lines := func(from, to reg.GPVirtual) {
		a.repeat(a.JLT, func() {
			a.PREFETCHT0(at(from, 0))
			a.advance(64, from)
			a.CMPQ(from, to)
		})
	}
	a.function("prefetchLines", "(p *float64, bytes int)")
	p, end := a.load("p"), a.load("bytes")
	a.ADDQ(p, end)
	lines(p, end)
	a.RET()

	a.function("prefetch", "(slots *uint32, count int, blocks *float64, perBits, size, bytes int)")
	slots, count, blocks, perBits, size, bytes := a.load("slots"), a.load("count"), a.load("blocks"), reg.RCX, a.load("size"), a.load("bytes")
	a.Load(a.Param("perBits"), perBits)
	mask, slot, row := a.GP64(), a.GP64(), a.GP64()
	a.MOVQ(U32(1), mask)
	a.SHLQ(reg.CL, mask)
	a.DECQ(mask)
	a.repeat(a.JNE, func() {
		a.MOVL(at(slots, 0), slot.As32())
		a.advance(4, slots)
		a.SUBL(Imm(1), slot.As32())
		a.skip(a.JCS, func() { // it was 0
			a.MOVQ(slot, row)
			a.ANDQ(mask, row)
			a.IMULQ(size, row)
			a.SHRQ(reg.CL, slot)
			a.SHLQ(Imm(5), slot) // of a tableBlock's four words the first is the address
			a.ADDQ(at(blocks, 0).Idx(slot, 1), row)
			a.LEAQ(at(row, 0).Idx(bytes, 1), slot)
			lines(row, slot)
		})
		a.DECQ(count)
	})
	a.RET()
}
