package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// assembly collects the functions of a file.
type assembly struct {
	*build.Context
	labels int
}

// function begins a function. The signature is that of its Go declaration, but for a pointer to a type of the
// package, which is a pointer to anything here.
func (a *assembly) function(name, signature string) {
	a.Function(name)
	a.Attributes(attr.NOSPLIT)
	a.SignatureExpr("func" + signature)
}

// end returns from the function.
func (a *assembly) end() {
	a.VZEROUPPER()
	a.RET()
}

// load returns a parameter in a new register.
func (a *assembly) load(name string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(name), r)
	return r
}

// reload loads a parameter into a register.
func (a *assembly) reload(name string, r reg.GPVirtual) { a.Load(a.Param(name), r) }

// address returns the address of a parameter.
func (a *assembly) address(name string) operand.Mem {
	at, err := a.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return at.Addr
}

// clear returns 0 in a new register.
func (a *assembly) clear() reg.GPVirtual {
	r := a.GP64()
	a.XORL(r.As32(), r.As32())
	return r
}

// label returns a name for a label.
func (a *assembly) label() string {
	a.labels++
	return fmt.Sprint("l", a.labels)
}

// table returns constants in memory. The name must be new in the file.
func (a *assembly) table(name string, values ...operand.Constant) operand.Mem {
	m := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, v := range values {
		a.AppendDatum(v)
	}
	return m
}

// jump is an instruction that jumps, JMP or a conditional one.
type jump func(to operand.Op)

// skip emits code that runs unless the jump is taken.
func (a *assembly) skip(unless jump, body func()) {
	end := a.label()
	unless(operand.LabelRef(end))
	body()
	a.Label(end)
}

// repeat emits code that runs again as long as the jump at its end is taken.
func (a *assembly) repeat(while jump, body func()) {
	begin := a.label()
	a.Label(begin)
	body()
	while(operand.LabelRef(begin))
}

// steps emits a loop over i, from its value on, in steps. It runs at least once, and ends when i reaches n.
func (a *assembly) steps(i, n reg.GPVirtual, step int, body func()) {
	a.repeat(a.JLT, func() {
		body()
		a.ADDQ(operand.Imm(uint64(step)), i)
		a.CMPQ(i, n)
	})
}

// parts emits a loop that runs while at least size of left remain, and takes size from left each time.
func (a *assembly) parts(left reg.GPVirtual, size int, body func()) {
	a.CMPQ(left, operand.Imm(uint64(size)))
	a.skip(a.JLT, func() {
		a.repeat(a.JGE, func() {
			body()
			a.SUBQ(operand.Imm(uint64(size)), left)
			a.CMPQ(left, operand.Imm(uint64(size)))
		})
	})
}

// advance adds a number of bytes to pointers.
func (a *assembly) advance(bytes int, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		a.ADDQ(operand.Imm(uint64(bytes)), p)
	}
}

// at returns the memory at a pointer and a number of bytes behind it.
func at(p reg.Register, bytes int) operand.Mem { return operand.Mem{Base: p, Disp: bytes} }

// vector emits instructions for vectors of a size: 64 bytes (AVX-512), 32, 16, or 8, which is a single float64. The
// operands of a method are registers or memory; only the last one may be in memory. The result is in a
// new register if a method has no other.
type vector struct {
	*assembly
	bytes  int
	single bool         // float32 instead of float64
	mask   reg.Register // selects the values to load and to store; nil: all
}

type operation = func(...operand.Op)

// register returns a new register.
func (v vector) register() reg.VecVirtual {
	switch v.bytes {
	case 64:
		return v.ZMM()
	case 32:
		return v.YMM()
	}
	return v.XMM()
}

// of returns the low part of a register, in this size.
func (v vector) of(r reg.VecVirtual) reg.VecVirtual {
	var part reg.Register
	switch v.bytes {
	case 64:
		part = r.AsZ()
	case 32:
		part = r.AsY()
	default:
		part = r.AsX()
	}
	return part.(reg.VecVirtual)
}

// pick runs the instruction for this size.
func (v vector) pick(double, single, scalar operation, operands ...operand.Op) {
	switch {
	case v.single:
		single(operands...)
	case v.bytes == 8:
		scalar(operands...)
	default:
		double(operands...)
	}
}

// into runs an instruction whose result is in a new register.
func (v vector) into(double, single, scalar operation, operands ...operand.Op) reg.VecVirtual {
	to := v.register()
	v.pick(double, single, scalar, append(operands, to)...)
	return to
}

func (v vector) load(m operand.Mem) reg.VecVirtual {
	if v.mask == nil {
		return v.into(v.VMOVUPD, v.VMOVUPS, v.VMOVSD, m)
	}
	to := v.register()
	if v.bytes == 64 {
		v.VMOVUPD_Z(m, v.mask, to)
	} else {
		v.VMASKMOVPD(m, v.mask, to)
	}
	return to
}

func (v vector) store(x reg.VecVirtual, m operand.Mem) {
	switch {
	case v.mask == nil:
		v.pick(v.VMOVUPD, v.VMOVUPS, v.VMOVSD, x, m)
	case v.bytes == 64:
		v.VMOVUPD(x, v.mask, m)
	default:
		v.VMASKMOVPD(x, v.mask, m)
	}
}

// loads returns the vectors at the pointers and at those behind each, a pointer's vectors together.
func (v vector) loads(many int, pointers ...reg.GPVirtual) (all [][]reg.VecVirtual) {
	for _, p := range pointers {
		var behind []reg.VecVirtual
		for k := range many {
			behind = append(behind, v.load(at(p, k*v.bytes)))
		}
		all = append(all, behind)
	}
	return all
}

// stores is the inverse of loads.
func (v vector) stores(all [][]reg.VecVirtual, pointers ...reg.GPVirtual) {
	for i, p := range pointers {
		for k, x := range all[i] {
			v.store(x, at(p, k*v.bytes))
		}
	}
}

// spread returns a vector whose values are all the value in memory.
func (v vector) spread(m operand.Mem) reg.VecVirtual {
	to := v.register()
	switch {
	case v.single:
		v.VBROADCASTSS(m, to)
	case v.bytes == 8:
		v.VMOVSD(m, to)
	default:
		v.VBROADCASTSD(m, to)
	}
	return to
}

// zero returns 0.
func (v vector) zero() reg.VecVirtual {
	x := v.register()
	if v.bytes == 64 {
		v.VPXORQ(x, x, x)
	} else {
		v.VXORPD(x, x, x)
	}
	return x
}

func (v vector) copy(x operand.Op) reg.VecVirtual { return v.into(v.VMOVAPD, v.VMOVAPS, v.VMOVAPD, x) }

func (v vector) add(x, y operand.Op) reg.VecVirtual {
	return v.into(v.VADDPD, v.VADDPS, v.VADDSD, y, x)
}
func (v vector) mul(x, y operand.Op) reg.VecVirtual {
	return v.into(v.VMULPD, v.VMULPS, v.VMULSD, y, x)
}

// sub returns x - y.
func (v vector) sub(x, y operand.Op) reg.VecVirtual {
	return v.into(v.VSUBPD, v.VSUBPS, v.VSUBSD, y, x)
}

// div returns x / y.
func (v vector) div(x, y operand.Op) reg.VecVirtual {
	return v.into(v.VDIVPD, v.VDIVPS, v.VDIVSD, y, x)
}

// plus adds y to sum.
func (v vector) plus(sum reg.VecVirtual, y operand.Op) {
	v.pick(v.VADDPD, v.VADDPS, v.VADDSD, y, sum, sum)
}

// fma adds x y to sum, and returns sum.
func (v vector) fma(sum, x reg.VecVirtual, y operand.Op) reg.VecVirtual {
	v.pick(v.VFMADD231PD, v.VFMADD231PS, v.VFMADD231SD, y, x, sum)
	return sum
}

// fnma subtracts x y from sum, and returns sum.
func (v vector) fnma(sum, x reg.VecVirtual, y operand.Op) reg.VecVirtual {
	v.pick(v.VFNMADD231PD, v.VFNMADD231PS, v.VFNMADD231SD, y, x, sum)
	return sum
}

// horner makes p a step of a polynomial in x, p x + c, and returns p.
func (v vector) horner(p, x reg.VecVirtual, c operand.Op) reg.VecVirtual {
	v.pick(v.VFMADD213PD, v.VFMADD213PS, v.VFMADD213SD, c, x, p)
	return p
}

// halves returns the low half of a vector of 32 bytes, and the high half.
func (a *assembly) halves(x reg.VecVirtual) (low, high reg.VecVirtual) {
	high = a.XMM()
	a.VEXTRACTF128(operand.Imm(1), x.AsY(), high)
	return vector{assembly: a, bytes: 16}.of(x), high
}

// across returns the sum of four float64: of the halves first.
func (a *assembly) across(x reg.VecVirtual) reg.VecVirtual {
	low, high := a.halves(x)
	two, last := vector{assembly: a, bytes: 16}.add(low, high), a.XMM()
	a.VUNPCKHPD(two, two, last)
	return vector{assembly: a, bytes: 8}.add(two, last)
}

// double and single return constants by their bits: avo writes a whole number as an integer.
func double(x float64) operand.Constant { return operand.U64(math.Float64bits(x)) }

func single(x float32) operand.Constant { return operand.U32(math.Float32bits(x)) }
