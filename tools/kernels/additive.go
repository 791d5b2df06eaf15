package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splines emits the functions of package online/experts/additive. Products are rounded before they are added, as in Go.
func splines(a *assembly) {
	v := vector{assembly: a, bytes: 32, single: true}
	one, epsilon := a.table("one", single(1)), a.table("epsilon", single(1e-8))
	// begin begins a function that visits n features. body takes the number of the feature and the offset of its row.
	begin := func(name, signature string, body func() (reg.GPVirtual, func(i, row reg.GPVirtual)), after func()) {
		a.function(name, signature)
		n, size, i, row := a.load("n"), a.load("lanes"), a.clear(), a.GP64()
		a.SHLQ(Imm(2), size)
		index, visit := body()
		a.steps(i, n, 1, func() {
			a.MOVQ(Mem{Base: index, Index: i, Scale: 8}, row)
			a.IMULQ(size, row)
			visit(i, row)
		})
		after()
		a.end()
	}

	wide := vector{assembly: a, bytes: 32}
	var sums [][]reg.VecVirtual
	var to reg.GPVirtual
	begin("sumAVX2", "(weights *float32, index *int, x *float64, n, lanes int, sums *[8]float64)", func() (reg.GPVirtual, func(i, row reg.GPVirtual)) {
		weights, index, xs := a.load("weights"), a.load("index"), a.load("x")
		to = a.load("sums")
		sums = wide.loads(2, to)
		return index, func(i, row reg.GPVirtual) {
			x := wide.spread(Mem{Base: xs, Index: i, Scale: 8})
			for k, sum := range sums[0] {
				w := a.YMM()
				a.VCVTPS2PD(at(weights, 16*k).Idx(row, 1), w)
				wide.plus(sum, wide.mul(w, x))
			}
		}
	}, func() { wide.stores(sums, to) })

	begin("varianceAVX2", "(weights *float32, index *int, basis *float32, n, lanes int, sums *[8]float32)", func() (reg.GPVirtual, func(i, row reg.GPVirtual)) {
		weights, index, bases := a.load("weights"), a.load("index"), a.load("basis")
		to = a.load("sums")
		sums = v.loads(1, to)
		return index, func(i, row reg.GPVirtual) {
			w := v.load(at(weights, 0).Idx(row, 1))
			v.plus(sums[0][0], v.mul(v.spread(Mem{Base: bases, Index: i, Scale: 4}), v.mul(w, w)))
		}
	}, func() { v.stores(sums, to) })

	begin("gradientsAVX2", "(weights, squares *float32, index *int, x, basis *float32, n, lanes int, by, steps *float32, kappa *[8]float32)", func() (reg.GPVirtual, func(i, row reg.GPVirtual)) {
		weights, squares, index, xs, bases := a.load("weights"), a.load("squares"), a.load("index"), a.load("x"), a.load("basis")
		by, out := a.load("by"), a.load("steps")
		df, shrink := v.load(at(by, 0)), v.load(at(by, 32))
		to = a.load("kappa")
		sums = v.loads(1, to)
		one, epsilon := v.spread(one), v.spread(epsilon)
		return index, func(i, row reg.GPVirtual) {
			x, basis := v.spread(Mem{Base: xs, Index: i, Scale: 4}), v.spread(Mem{Base: bases, Index: i, Scale: 4})
			g := v.add(v.mul(df, x), v.mul(v.mul(shrink, basis), at(weights, 0).Idx(row, 1)))
			sum := v.add(v.mul(g, g), at(squares, 0).Idx(row, 1))
			v.store(sum, at(squares, 0).Idx(row, 1))
			root := a.YMM()
			a.VSQRTPS(sum, root)
			inverse := v.div(one, v.add(root, epsilon))
			v.store(v.mul(g, inverse), at(out, 0))
			v.plus(sums[0][0], v.mul(v.mul(x, x), inverse))
			a.advance(32, out)
		}
	}, func() { v.stores(sums, to) })

	begin("descendAVX2", "(weights *float32, index *int, n, lanes int, rate *[8]float32, steps *float32)", func() (reg.GPVirtual, func(i, row reg.GPVirtual)) {
		weights, index, steps, rate := a.load("weights"), a.load("index"), a.load("steps"), v.load(at(a.load("rate"), 0))
		return index, func(i, row reg.GPVirtual) {
			v.store(v.add(v.mul(rate, at(steps, 0)), at(weights, 0).Idx(row, 1)), at(weights, 0).Idx(row, 1))
			a.advance(32, steps)
		}
	}, func() {})
}
