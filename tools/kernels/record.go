package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bytesOf returns a constant of eight equal bytes.
func bytesOf(c byte) U64 { return U64(c) * 0x0101010101010101 }

// entries emits the function of package stream/record.
func entries(a *assembly) {
	var powers []Constant
	for p := 1.0; p <= 1e8; p *= 10 {
		powers = append(powers, double(p))
	}
	zeros, power := a.table("zeros", bytesOf('0')), a.table("powers", powers...)
	// Neighboring digits, pairs and quadruples of digits become one number.
	tables := []Mem{zeros, a.table("nines", bytesOf(9)), a.table("tens", U64(0x010a010a010a010a)), a.table("hundreds", U64(0x0001006400010064)),
		a.table("tenThousands", U64(0x0001271000012710)), a.table("blanks", bytesOf(' '))}

	a.function("usualEntriesAVX2", "(data *byte, size int, index *uint32, value *float64, room int, first, mask uint64, last int64) (n, end int, ascending bool)")
	data, end, index, value, room, last := a.load("data"), a.load("size"), a.load("index"), a.load("value"), a.load("room"), a.load("last")
	a.LEAQ(at(data, -32).Idx(end, 1), end)  // the last place with 32 bytes
	a.LEAQ(at(index, 0).Idx(room, 4), room) // the end of index
	ascending := a.GP64()
	a.MOVQ(U32(1), ascending)
	var c []reg.VecVirtual
	for _, m := range tables {
		x := a.YMM()
		a.VPBROADCASTQ(m, x)
		c = append(c, x)
	}
	done := LabelRef(a.label())
	// digits returns the first count of the eight digits at a place, in its highest bytes, with zeros before them.
	digits := func(place Mem, count reg.GPVirtual) reg.GPVirtual {
		bits, w := a.GP64(), a.GP64()
		a.MOVQ(place, w)
		a.XORQ(zeros, w)
		a.MOVQ(count, bits)
		a.SHLQ(Imm(3), bits)
		a.NEGQ(bits) // of a shift by 64 - 8 count the processor takes six bits
		a.SHLXQ(bits, w, w)
		return w
	}
	// next returns how many digits there are before the first byte that is none, at most most and at least 1, and takes them
	// and that byte from others.
	next := func(others reg.GPVirtual, most int) reg.GPVirtual {
		n, less := a.GP64(), a.GP64()
		a.TZCNTL(others.As32(), n.As32())
		a.LEAL(at(n, -1), less.As32())
		a.CMPL(less.As32(), Imm(uint64(most-1)))
		a.JHI(done)
		a.SHRXL(n.As32(), others.As32(), others.As32())
		a.SHRL(Imm(1), others.As32())
		return n
	}
	a.repeat(a.JMP, func() {
		a.CMPQ(data, end)
		a.JHI(done)
		a.CMPQ(index, room)
		a.JAE(done)
		a.CMPB(at(data, 0), Imm(' '))
		a.JNE(done)

		// others has a bit for each of the 31 bytes after the blank that is no digit.
		text, blank, digit, numbers := a.YMM(), a.YMM(), a.YMM(), a.YMM()
		a.VMOVDQU(at(data, 0), text)
		a.VPCMPEQB(c[5], text, blank)
		a.VPSUBB(c[0], text, text)
		a.VPMINUB(c[1], text, digit)
		a.VPCMPEQB(digit, text, digit)
		others := a.GP64()
		a.VPMOVMSKB(digit, others.As32())
		a.NOTL(others.As32())
		a.SHRL(Imm(1), others.As32())

		count := next(others, 7)
		a.CMPB(at(data, 1).Idx(count, 1), Imm(':'))
		a.JNE(done)
		place := a.GP64() // of the value
		a.LEAQ(at(data, 2).Idx(count, 1), place)
		a.VMOVQ(digits(at(data, 1), count), numbers.AsX())

		minus, sign := a.clear(), a.XMM() // minus is 1 for a minus sign
		a.CMPB(at(place, 0), Imm('-'))
		a.SETEQ(minus.As8())
		a.ADDQ(minus, place)
		a.SHRXL(minus.As32(), others.As32(), others.As32())
		a.SHLQ(Imm(63), minus)
		a.VMOVQ(minus, sign)

		// The next entry begins at the next blank, so the processor can start it before it knows how many digits this entry has.
		entry := a.GP64()
		a.VPMOVMSKB(blank, entry.As32())
		a.SHRL(Imm(1), entry.As32())
		a.TZCNTL(entry.As32(), entry.As32())
		a.LEAQ(at(data, 1).Idx(entry, 1), entry)

		whole := next(others, 7)
		a.VPINSRQ(Imm(1), digits(at(place, 0), whole), numbers.AsX(), numbers.AsX())
		a.ADDQ(whole, place) // after the whole part
		fraction, decimals := a.clear(), a.clear()
		a.CMPQ(place, entry)
		a.skip(a.JEQ, func() {
			a.CMPB(at(place, 0), Imm('.'))
			a.JNE(done)
			a.MOVQ(next(others, 8), decimals)
			a.MOVQ(digits(at(place, 1), decimals), fraction)
			a.LEAQ(at(place, 1).Idx(decimals, 1), place)
			a.CMPQ(place, entry)
			a.JNE(done)
		})

		high, column := a.XMM(), a.GP64()
		a.VMOVQ(fraction, high)
		a.VINSERTI128(Imm(1), high, numbers, numbers)
		a.VPMADDUBSW(c[2], numbers, numbers)
		a.VPMADDWD(c[3], numbers, numbers)
		a.VPACKUSDW(numbers, numbers, numbers)
		a.VPMADDWD(c[4], numbers, numbers)
		a.VMOVD(numbers.AsX(), column.As32())
		a.SUBQ(a.address("first"), column)
		a.CMPQ(column, a.address("mask"))
		a.JHI(done)
		low, by, table := a.XMM(), a.XMM(), a.GP64()
		a.VEXTRACTI128(Imm(1), numbers, high)
		a.VPSRLQ(Imm(32), numbers.AsX(), low)
		a.VCVTDQ2PD(low, low)
		a.VCVTDQ2PD(high, high)
		a.LEAQ(power, table)
		a.VMOVSD(at(table, 0).Idx(decimals, 8), by)
		a.VMULSD(by, low, low)
		a.VADDSD(high, low, low)
		a.VDIVSD(by, low, low) // only the division rounds
		a.VORPD(sign, low, low)
		a.MOVL(column.As32(), at(index, 0))
		a.VMOVSD(low, at(value, 0))
		a.advance(4, index)
		a.advance(8, value)
		a.MOVQ(entry, data)
		a.CMPQ(column, last)
		a.MOVQ(column, last)
		a.skip(a.JGT, func() { a.XORL(ascending.As32(), ascending.As32()) })
	})
	a.Label(string(done))
	a.VZEROUPPER()
	a.SUBQ(a.address("index"), index)
	a.SHRQ(Imm(2), index)
	a.Store(index, a.Return("n"))
	a.SUBQ(a.address("data"), data)
	a.Store(data, a.Return("end"))
	a.Store(ascending.As8(), a.Return("ascending"))
	a.RET()
}
