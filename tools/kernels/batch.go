package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gathers emits the functions of package batch. They visit a row's entries, four at a time. There is a loop for values
// that are all 1, for float32, and for float64.
func gathers(a *assembly) {
	gather(a)
	addMixed(a)
	addPair(a)
}

func fours(a *assembly) vector { return vector{assembly: a, bytes: 32} }

// entriesLoops emits the three loops. body takes the columns and the values of four entries.
func entriesLoops(a *assembly, body func(columns [4]reg.GPVirtual, x reg.VecVirtual)) {
	v, index, n, values, kind := fours(a), a.load("index"), a.load("n"), a.load("values"), a.load("kind")
	ones := v.spread(a.table(fmt.Sprint("one", a.label()), double(1)))
	end := LabelRef(a.label())
	loop := func(load func() reg.VecVirtual) {
		a.repeat(a.JNE, func() {
			var columns [4]reg.GPVirtual
			for k := range columns {
				columns[k] = a.GP64()
				a.MOVL(at(index, 4*k), columns[k].As32())
			}
			a.advance(16, index)
			body(columns, load())
			a.SUBQ(Imm(4), n)
		})
		a.JMP(end)
	}
	doubles, singles := LabelRef(a.label()), LabelRef(a.label())
	a.CMPQ(kind, Imm(1))
	a.JEQ(singles)
	a.JGT(doubles)
	loop(func() reg.VecVirtual { return ones })
	a.Label(string(singles))
	loop(func() reg.VecVirtual {
		x := a.YMM()
		a.VCVTPS2PD(at(values, 0), x)
		a.advance(16, values)
		return x
	})
	a.Label(string(doubles))
	loop(func() reg.VecVirtual {
		x := v.load(at(values, 0))
		a.advance(32, values)
		return x
	})
	a.Label(string(end))
}

// variance returns x (c1 + c2 x).
func variance(v vector, x, c1, c2 reg.VecVirtual) reg.VecVirtual {
	return v.mul(v.fma(v.copy(c1), x, c2), x)
}

func gather(a *assembly) {
	a.function("gatherAVX2", "(index *uint32, n int, values *float64, kind int, p, z *float64, c1, c2 float64) (s, t, u float64)")
	v, p, z, c1, c2 := fours(a), a.load("p"), a.load("z"), fours(a).spread(a.address("c1")), fours(a).spread(a.address("c2"))
	s, t, u := v.zero(), v.zero(), v.zero()
	entriesLoops(a, func(columns [4]reg.GPVirtual, x reg.VecVirtual) {
		var pairs [4]Mem
		for k, c := range columns {
			a.SHLQ(Imm(4), c)
			pairs[k] = at(p, 0).Idx(c, 1)
		}
		even, odd, first, second := a.YMM(), a.YMM(), a.YMM(), a.YMM()
		a.VMOVUPD(pairs[0], even.AsX())
		a.VMOVUPD(pairs[1], odd.AsX())
		a.VINSERTF128(Imm(1), pairs[2], even, even)
		a.VINSERTF128(Imm(1), pairs[3], odd, odd)
		a.VUNPCKLPD(odd, even, first)
		a.VUNPCKHPD(odd, even, second)
		w := variance(v, x, c1, c2)
		second = v.mul(second, w)
		v.store(second, at(z, 0))
		a.advance(32, z)
		v.fma(s, first, x)
		v.fma(t, first, second)
		v.fma(u, first, v.mul(first, w))
	})
	a.Store(a.across(s), a.Return("s"))
	a.Store(a.across(t), a.Return("t"))
	a.Store(a.across(u), a.Return("u"))
	a.end()
}

func addMixed(a *assembly) {
	a.function("addMixedAVX2", "(index *uint32, n int, values *float64, kind int, acc, z *float64, a, b float64)")
	v, one, acc, z := fours(a), vector{assembly: a, bytes: 8}, a.load("acc"), a.load("z")
	byX, byZ := v.spread(a.address("a")), v.spread(a.address("b"))
	entriesLoops(a, func(columns [4]reg.GPVirtual, x reg.VecVirtual) {
		low, high := a.halves(v.fma(v.mul(byX, x), byZ, at(z, 0)))
		a.advance(32, z)
		lowNext, highNext := a.XMM(), a.XMM()
		a.VUNPCKHPD(low, low, lowNext)
		a.VUNPCKHPD(high, high, highNext)
		for k, term := range []reg.VecVirtual{low, lowNext, high, highNext} {
			one.store(one.add(term, at(acc, 0).Idx(columns[k], 8)), at(acc, 0).Idx(columns[k], 8))
		}
	})
	a.end()
}

func addPair(a *assembly) {
	a.function("addPairAVX2", "(index *uint32, n int, values *float64, kind int, acc *float64, a, b, c1, c2 float64)")
	v, pair, acc := fours(a), vector{assembly: a, bytes: 16}, a.load("acc")
	byX, byVariance, c1, c2 := v.spread(a.address("a")), v.spread(a.address("b")), v.spread(a.address("c1")), v.spread(a.address("c2"))
	entriesLoops(a, func(columns [4]reg.GPVirtual, x reg.VecVirtual) {
		first, second, even, odd := v.mul(byX, x), v.mul(byVariance, variance(v, x, c1, c2)), a.YMM(), a.YMM()
		a.VUNPCKLPD(second, first, even)
		a.VUNPCKHPD(second, first, odd)
		_, third := a.halves(even)
		_, fourth := a.halves(odd)
		for k, term := range []reg.VecVirtual{pair.of(even), pair.of(odd), third, fourth} {
			a.SHLQ(Imm(4), columns[k])
			pair.store(pair.add(term, at(acc, 0).Idx(columns[k], 1)), at(acc, 0).Idx(columns[k], 1))
		}
	})
	a.end()
}
