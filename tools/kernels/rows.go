package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel emits the functions of package online/rows. A row holds, from an offset on, n weights w, n sums m and n
// averages u; a function takes the first outputs of them, which are active.
type kernel struct {
	*assembly
	tail        Mem // masks of 4, 3, 2 and 1 values: the last is 24 bytes behind the first
	half, guess Mem
}

func rows(a *assembly) {
	all, none := U64(1<<64-1), U64(0)
	k := kernel{
		a, a.table("tail", all, all, all, all, none, none, none),
		a.table("half", double(0.5)), a.table("guess", U64(0x5fe6eb50c7b537a9)),
	}
	k.sum()
	k.sumAverages()
	k.adagrad("adagradStepAVX2", "rates", k.stepPart)
	k.adagrad("adagradKappaAVX2", "kappa", k.kappaPart)
	k.gradients()
	k.descend()
	k.inverseRoots()
	k.sum1()
	k.gradients1()
	k.step1()
}

func (k kernel) vector(bytes int) vector { return vector{assembly: k.assembly, bytes: bytes} }

// offsets returns the parameters at, in bytes, and n, the bytes from w to m.
func (k kernel) offsets() (at, n reg.GPVirtual) {
	at, n = k.load("at"), k.load("n")
	k.SHLQ(Imm(3), at)
	k.SHLQ(Imm(3), n)
	return at, n
}

// masked returns the vectors of four values of which the first are left, one or more.
func (k kernel) masked(left reg.GPVirtual) vector {
	v, mask, table := k.vector(32), k.YMM(), k.GP64()
	k.LEAQ(k.tail, table)
	k.VMOVUPD(at(table, 0), mask)
	k.CMPQ(left, Imm(4))
	k.skip(k.JGE, func() {
		skipped := k.GP64()
		k.MOVQ(U32(4), skipped)
		k.SUBQ(left, skipped)
		k.VMOVUPD(Mem{Base: table, Index: skipped, Scale: 8}, mask)
	})
	v.mask = mask
	return v
}

// each emits a loop over rows, of which a slice is 24 bytes. body takes the row's first weight in use.
func (k kernel) each(rows, count, at reg.GPVirtual, body func(row, i reg.GPVirtual)) {
	i, slice, row := k.clear(), k.GP64(), k.GP64()
	k.MOVQ(rows, slice)
	k.steps(i, count, 1, func() {
		k.MOVQ(Mem{Base: slice}, row)
		k.ADDQ(at, row)
		body(row, i)
		k.ADDQ(Imm(24), slice)
	})
}

// down emits a loop over rows that changes rows and count. body finds the row's first weight in use in row.
func (k kernel) down(rows, count, at, row reg.GPVirtual, body func()) {
	k.repeat(k.JNE, func() {
		k.MOVQ(Mem{Base: rows}, row)
		k.ADDQ(at, row)
		body()
		k.advance(24, rows)
		k.DECQ(count)
	})
}

// rest emits the last outputs, masked, four at a time.
func (k kernel) rest(active reg.GPVirtual, part func(v vector, many int) func()) {
	k.TESTQ(active, active)
	k.skip(k.JEQ, func() {
		k.repeat(k.JGT, func() {
			part(k.masked(active), 1)()
			k.SUBQ(Imm(4), active)
		})
	})
}

// sum walks all rows for every sixteen outputs (AVX-512), every eight, then every four, with the three sums in registers.
func (k kernel) sum() {
	k.function("sumAVX2", "(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int)")
	rows, count := k.load("rows"), k.load("count")
	offset, n := k.offsets()
	k.SHLQ(Imm(1), n)
	x, basis, f, lag, q, active := k.load("x"), k.load("basis"), k.load("f"), k.load("lag"), k.load("q"), k.load("active")
	part := func(v vector, many int) func() {
		return func() {
			sums := v.loads(many, f, lag, q)
			k.each(rows, count, offset, func(row, i reg.GPVirtual) {
				x, basis := v.spread(Mem{Base: x, Index: i, Scale: 8}), v.spread(Mem{Base: basis, Index: i, Scale: 8})
				for j := range many {
					w := v.load(at(row, j*v.bytes))
					v.fma(sums[0][j], x, w)
					v.fma(sums[1][j], x, v.load(at(row, j*v.bytes).Idx(n, 1)))
					v.fma(sums[2][j], v.mul(basis, w), w)
				}
			})
			v.stores(sums, f, lag, q)
			k.advance(many*v.bytes, f, lag, q, offset)
		}
	}
	k.CMPB(NewDataAddr(Symbol{Name: "·hasAVX512"}, 0), Imm(0))
	k.skip(k.JEQ, func() { k.parts(active, 16, part(k.vector(64), 2)) })
	k.parts(active, 8, part(k.vector(32), 2))
	k.rest(active, part)
	k.end()
}

func (k kernel) sumAverages() {
	k.function("sumAveragesAVX2", "(rows *[]float64, count, at, n int, basis, c, q *float64, active int)")
	rows, count := k.load("rows"), k.load("count")
	offset, n := k.offsets()
	k.SHLQ(Imm(1), n)
	basis, c, q, active := k.load("basis"), k.load("c"), k.load("q"), k.load("active")
	part := func(v vector, many int) func() {
		return func() {
			sums := v.loads(many, q, c)
			k.each(rows, count, offset, func(row, i reg.GPVirtual) {
				basis := v.spread(Mem{Base: basis, Index: i, Scale: 8})
				for j := range many {
					w := v.load(at(row, j*v.bytes))
					v.fma(w, sums[1][j], v.load(at(row, j*v.bytes).Idx(n, 1)))
					v.fma(sums[0][j], v.mul(basis, w), w)
				}
			})
			v.stores(sums[:1], q)
			k.advance(many*v.bytes, q, c, offset)
		}
	}
	k.parts(active, 8, part(k.vector(32), 2))
	k.rest(active, part)
	k.end()
}

// newton holds the constants of an inverse root.
type newton struct{ eps, half, guess, zero reg.VecVirtual }

// root returns the InverseRoot of s. That of a NaN is 0.
func (c newton) root(v vector, s reg.VecVirtual) reg.VecVirtual {
	half, y, a := v.of(c.half), v.register(), v.mul(v.of(c.half), s)
	v.VPSRLQ(Imm(1), s, y)
	v.VPSUBQ(y, v.of(c.guess), y)
	a = v.mul(y, a)
	for range 2 {
		r := v.fnma(v.copy(half), y, a)
		v.horner(y, r, y)
		v.horner(a, r, a)
	}
	v.pick(v.VFNMADD213PD, nil, v.VFNMADD213SD, half, y, a)
	v.fnma(a, y, v.of(c.eps))
	y = v.horner(v.copy(y), a, y)
	return v.into(v.VMAXPD, nil, v.VMAXSD, v.of(c.zero), y)
}

// gradient returns df x + (shrink basis + ridge) w.
func gradient(v vector, df Op, shrink Mem, x, basis, ridge, w reg.VecVirtual) reg.VecVirtual {
	g := v.mul(v.of(x), df)
	return v.fma(g, v.horner(v.load(shrink), v.of(basis), v.of(ridge)), w)
}

// adagradPart has what a part of a row's outputs needs. to is the list that a function names last.
type adagradPart struct {
	row, n, df, shrink, to         reg.GPVirtual
	start, x, basis, ridge, square reg.VecVirtual
	newton
}

// adagrad emits a function that computes the gradients of a row's outputs: of eight at a time (AVX-512), four, two and
// one. It uses no masks, for a load that reaches over a store under way, even where it is masked, waits for it.
func (k kernel) adagrad(name, to string, part func(v vector, p *adagradPart)) {
	k.function(name, "(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, "+to+" *float64, active int, c *float64)")
	rows, count := k.load("rows"), k.load("count")
	offset, n := k.offsets()
	xs, bases, ridges := k.load("x"), k.load("basis"), k.load("ridge")
	wide := NewDataAddr(Symbol{Name: "·hasAVX512"}, 0)
	left := k.load("c")
	p := &adagradPart{k.GP64(), n, k.GP64(), k.GP64(), k.GP64(), k.ZMM(), k.ZMM(), k.ZMM(), k.ZMM(), k.ZMM(), newton{k.ZMM(), k.ZMM(), k.ZMM(), k.ZMM()}}
	constants := func(v vector) {
		k.VBROADCASTSD(at(left, 0), v.of(p.start))
		k.VBROADCASTSD(at(left, 8), v.of(p.eps))
		k.VBROADCASTSD(k.half, v.of(p.half))
		k.VBROADCASTSD(k.guess, v.of(p.guess))
	}
	feature := func(v vector) {
		k.VBROADCASTSD(at(xs, 0), v.of(p.x))
		k.VBROADCASTSD(at(bases, 0), v.of(p.basis))
		k.VBROADCASTSD(at(ridges, 0), v.of(p.ridge))
		if to == "kappa" {
			k.VMULPD(v.of(p.x), v.of(p.x), v.of(p.square))
		}
	}
	next := func(v vector) {
		part(v, p)
		k.advance(v.bytes, p.row, p.df, p.shrink, p.to)
	}
	constants(k.vector(32))
	k.VXORPD(p.zero.AsY(), p.zero.AsY(), p.zero.AsY())
	k.CMPB(wide, Imm(0))
	k.skip(k.JEQ, func() { constants(k.vector(64)) })
	k.down(rows, count, offset, p.row, func() {
		feature(k.vector(32))
		k.reload("df", p.df)
		k.reload("shrink", p.shrink)
		k.reload(to, p.to)
		k.reload("active", left)
		k.CMPB(wide, Imm(0))
		k.skip(k.JEQ, func() {
			// The next row is asked for meanwhile. After the last one it is the same again.
			ahead := k.clear()
			k.CMPQ(count, Imm(1))
			k.SETNE(ahead.As8())
			k.LEAQ(Mem{Base: ahead, Index: ahead, Scale: 2}, ahead)
			k.MOVQ(Mem{Base: rows, Index: ahead, Scale: 8}, ahead)
			k.ADDQ(offset, ahead)
			feature(k.vector(64))
			k.parts(left, 8, func() {
				for _, m := range []Mem{at(ahead, 0), at(ahead, 0).Idx(n, 1), at(ahead, 0).Idx(n, 2)} {
					k.PREFETCHT0(m)
				}
				k.advance(64, ahead)
				next(k.vector(64))
			})
		})
		k.parts(left, 4, func() { next(k.vector(32)) })
		for _, outputs := range []int{2, 1} {
			k.TESTQ(U32(uint32(outputs)), left)
			k.skip(k.JEQ, func() { next(k.vector(8 * outputs)) })
		}
		k.advance(8, xs, bases, ridges)
	})
	k.end()
}

// stepPart makes a step.
func (k kernel) stepPart(v vector, p *adagradPart) {
	w, m, u := v.load(at(p.row, 0)), v.load(at(p.row, 0).Idx(p.n, 1)), v.load(at(p.row, 0).Idx(p.n, 2))
	g := gradient(v, at(p.df, 0), at(p.shrink, 0), p.x, p.basis, p.ridge, w)
	v.store(v.fma(m, g, g), at(p.row, 0).Idx(p.n, 1))
	delta := v.mul(v.mul(g, at(p.to, 0)), p.root(v, v.add(v.of(p.start), m)))
	v.store(v.add(w, delta), at(p.row, 0))
	v.store(v.fnma(u, delta, at(p.to, 0).Idx(p.n, 1)), at(p.row, 0).Idx(p.n, 2))
}

// kappaPart adds to kappa.
func (k kernel) kappaPart(v vector, p *adagradPart) {
	w, m := v.load(at(p.row, 0)), v.load(at(p.row, 0).Idx(p.n, 1))
	g := gradient(v, at(p.df, 0), at(p.shrink, 0), p.x, p.basis, p.ridge, w)
	root := p.root(v, v.add(v.of(p.start), v.fma(m, g, g)))
	v.store(v.fma(v.load(at(p.to, 0)), v.of(p.square), root), at(p.to, 0))
}

// gradients sets out to the g and the root of the n outputs of each row, at most four, each padded to four. df, shrink and
// kappa have room for four outputs. Of a row nothing is read behind the outputs, and nothing is written.
func (k kernel) gradients() {
	k.function("adagradGradientsAVX2", "(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, c, out *float64)")
	v, rows, count := k.vector(32), k.load("rows"), k.load("count")
	left := k.load("n")
	masked := k.masked(left)
	offset, n := k.offsets()
	xs, bases, ridges, constants := k.load("x"), k.load("basis"), k.load("ridge"), k.load("c")
	start, c := v.spread(at(constants, 0)), newton{v.spread(at(constants, 8)), v.spread(k.half), v.spread(k.guess), v.zero()}
	out, df, shrink, kappas, row := k.load("out"), k.load("df"), k.load("shrink"), k.load("kappa"), k.GP64()
	kappa := v.load(at(kappas, 0))
	k.down(rows, count, offset, row, func() {
		x, basis, ridge := v.spread(at(xs, 0)), v.spread(at(bases, 0)), v.spread(at(ridges, 0))
		w, m := masked.load(at(row, 0)), masked.load(at(row, 0).Idx(n, 1))
		g := gradient(v, at(df, 0), at(shrink, 0), x, basis, ridge, w)
		v.store(g, at(out, 0))
		root := c.root(v, v.add(start, v.fma(m, g, g)))
		v.store(root, at(out, 32))
		v.fma(kappa, v.mul(x, x), root)
		k.advance(64, out)
		k.advance(8, xs, bases, ridges)
	})
	v.store(kappa, at(kappas, 0))
	k.end()
}

// descend makes the steps of gradients, in rows in which four values of the last part can be stored. minusEta and inverse
// have room for four outputs. What follows a part gets what it holds: its g is 0, and the parts are stored in their order.
func (k kernel) descend() {
	k.function("adagradDescendAVX2", "(rows *[]float64, count, at, n int, minusEta, inverse, out *float64)")
	v, rows, count := k.vector(32), k.load("rows"), k.load("count")
	offset, n := k.offsets()
	minusEta, inverse, out, row := v.load(at(k.load("minusEta"), 0)), v.load(at(k.load("inverse"), 0)), k.load("out"), k.GP64()
	k.down(rows, count, offset, row, func() {
		w, m, u, g := v.load(at(row, 0)), v.load(at(row, 0).Idx(n, 1)), v.load(at(row, 0).Idx(n, 2)), v.load(at(out, 0))
		v.fma(m, g, g)
		delta := v.mul(v.mul(g, minusEta), at(out, 32))
		v.store(v.add(w, delta), at(row, 0))
		v.store(m, at(row, 0).Idx(n, 1))
		v.store(v.fnma(u, inverse, delta), at(row, 0).Idx(n, 2))
		k.advance(64, out)
	})
	k.end()
}

// inverseRoots sums kappa one by one, while the next roots are on their way.
func (k kernel) inverseRoots() {
	k.function("inverseRootsAVX2", "(s, x *float64, count int, eps float64) (kappa float64)")
	four, one := k.vector(32), k.vector(8)
	s, xs, left, kappa := k.load("s"), k.load("x"), k.load("count"), one.zero()
	c := newton{four.spread(k.address("eps")), four.spread(k.half), four.spread(k.guess), four.zero()}
	k.repeat(k.JGT, func() {
		v := k.masked(left)
		sum, x := v.load(at(s, 0)), v.load(at(xs, 0))
		square := four.mul(x, x)
		root := c.root(four, sum)
		v.store(root, at(s, 0))
		for half := range 2 {
			r, x2 := root.AsX().(reg.VecVirtual), square.AsX().(reg.VecVirtual)
			if half == 1 {
				_, r = k.halves(root)
				_, x2 = k.halves(square)
			}
			one.fma(kappa, x2, r)
			nextR, nextX := k.XMM(), k.XMM()
			k.VPERMILPD(Imm(1), r, nextR)
			k.VPERMILPD(Imm(1), x2, nextX)
			one.fma(kappa, nextX, nextR)
		}
		k.advance(32, s, xs)
		k.SUBQ(Imm(4), left)
	})
	k.Store(kappa, k.Return("kappa"))
	k.end()
}

// The functions for one output do what the compiler could, but it would look before every sum whether the processor can
// round once.

// sole emits a loop over rows of one output: body takes the index of the row, and where its weight is.
func (k kernel) sole(body func(i reg.GPVirtual, w Mem)) {
	rows, count, offset, i, row := k.load("rows"), k.load("count"), k.load("at"), k.clear(), k.GP64()
	k.steps(i, count, 1, func() {
		k.MOVQ(at(rows, 0), row)
		k.advance(24, rows)
		body(i, at(row, 0).Idx(offset, 8))
	})
}

func (k kernel) sum1() {
	k.function("sum1FMA", "(rows *[]float64, count, at int, x, basis, f, lag, q *float64)")
	v, xs, bases, f, lag, q := k.vector(8), k.load("x"), k.load("basis"), k.load("f"), k.load("lag"), k.load("q")
	sums := v.loads(1, f, lag, q)
	k.sole(func(i reg.GPVirtual, at Mem) {
		w, x := v.load(at), v.load(Mem{Base: xs, Index: i, Scale: 8})
		v.fma(sums[0][0], x, w)
		v.fma(sums[1][0], x, at.Offset(16))
		v.fma(sums[2][0], v.mul(w, Mem{Base: bases, Index: i, Scale: 8}), w)
	})
	v.stores(sums, f, lag, q)
	k.RET()
}

func (k kernel) gradients1() {
	k.function("adagradGradients1FMA", "(rows *[]float64, count, at int, x, basis, ridge *float64, df, shrink, start float64, grad, s *float64)")
	v, xs, bases, ridges, grad, s := k.vector(8), k.load("x"), k.load("basis"), k.load("ridge"), k.load("grad"), k.load("s")
	df, shrink, start := v.load(k.address("df")), v.load(k.address("shrink")), v.load(k.address("start"))
	k.sole(func(i reg.GPVirtual, at Mem) {
		by := v.fma(v.load(Mem{Base: ridges, Index: i, Scale: 8}), shrink, Mem{Base: bases, Index: i, Scale: 8})
		g := v.fma(v.mul(df, Mem{Base: xs, Index: i, Scale: 8}), by, at)
		v.store(g, Mem{Base: grad, Index: i, Scale: 8})
		v.store(v.add(start, v.fma(v.load(at.Offset(8)), g, g)), Mem{Base: s, Index: i, Scale: 8})
	})
	k.RET()
}

func (k kernel) step1() {
	k.function("adagradStep1FMA", "(rows *[]float64, count, at int, grad, r *float64, minusEta, inverse float64)")
	v, grad, root := k.vector(8), k.load("grad"), k.load("r")
	minusEta, inverse := v.load(k.address("minusEta")), v.load(k.address("inverse"))
	k.sole(func(i reg.GPVirtual, at Mem) {
		g := v.load(Mem{Base: grad, Index: i, Scale: 8})
		m, delta := v.fma(v.load(at.Offset(8)), g, g), v.mul(v.mul(minusEta, g), Mem{Base: root, Index: i, Scale: 8})
		u := v.fnma(v.load(at.Offset(16)), delta, inverse)
		v.store(v.add(delta, at), at)
		v.store(m, at.Offset(8))
		v.store(u, at.Offset(16))
	})
	k.RET()
}
