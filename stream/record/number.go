package record

// This file parses decimal numbers.

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"
)

var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number parses the decimal number at data[p:]: digits, optionally with a point and an exponent. If strict is true, it
// uses JSON's grammar. Otherwise it also allows a + sign and an empty integer or fractional part. next is -1 if there
// is no number. The result is the same as from strconv; beyond the range it is an infinity.
func number(data []byte, p int, strict bool) (x float64, next int) {
	start := p
	negative := false
	if p < len(data) && (data[p] == '-' || data[p] == '+' && !strict) {
		negative = data[p] == '-'
		p++
	}
	// m has at most 19 digits. Longer numbers are parsed by strconv.
	m, first := uint64(0), p
	for p < len(data) && data[p]-'0' <= 9 {
		m = 10*m + uint64(data[p]-'0')
		p++
	}
	digits := p - first
	if strict && (digits == 0 || digits > 1 && data[first] == '0') {
		return 0, -1
	}
	e := 0
	if p < len(data) && data[p] == '.' {
		p++
		first = p
		for p < len(data) && data[p]-'0' <= 9 {
			m = 10*m + uint64(data[p]-'0')
			p++
		}
		e = first - p
		digits -= e
		if strict && e == 0 {
			return 0, -1
		}
	}
	if digits == 0 {
		return 0, -1
	}
	if p < len(data) && data[p]|0x20 == 'e' {
		q, sign := p+1, 1
		if q < len(data) && (data[q] == '-' || data[q] == '+') {
			if data[q] == '-' {
				sign = -1
			}
			q++
		}
		first, exponent := q, 0
		for q < len(data) && data[q]-'0' <= 9 {
			if exponent < 1e6 {
				exponent = 10*exponent + int(data[q]-'0')
			}
			q++
		}
		if q == first {
			return 0, -1
		}
		e += sign * exponent
		p = q
	}
	// Clinger's fast path: m and the power of ten are exact, so the result is rounded only once.
	if digits <= 19 && m <= 1<<53 && e >= -22 && e <= 22 {
		x = float64(m)
		if e < 0 {
			x /= powersOfTen[-e]
		} else if e > 0 {
			x *= powersOfTen[e]
		}
		if negative {
			x = -x
		}
		return x, p
	}
	if digits <= 19 && e >= -maxPower && e <= maxPower {
		if x, ok := product(m, e); ok {
			if negative {
				x = -x
			}
			return x, p
		}
	}
	return slowNumber(data[start:p]), p
}

// notDigits returns the highest bit of each of eight characters that is not a digit; the first character is in the
// lowest byte. Bits after the first such bit may be wrong.
func notDigits(w uint64) uint64 {
	w ^= 0x3030303030303030 // '0' to '9' become 0 to 9
	return (w + 0x7676767676767676 | w) & 0x8080808080808080
}

// firstDigits returns the number of the first n of eight digits, 1 <= n <= 8.
func firstDigits(w uint64, n int) uint64 {
	w = (w ^ 0x3030303030303030) << (-8 * n & 63) // shift in zeros at the front
	// Combine neighbors to numbers of two digits, then four, then eight.
	w = 10*w + w>>8
	high, low := w&0x000000ff000000ff, w>>16&0x000000ff000000ff
	return (high*(100+1000000<<32) + low*(1+10000<<32)) >> 32
}

// power is 10^q = (high 2^64 + low + d) 2^exponent, with 0 <= d < 1 and high >= 2^63.
type power struct {
	high, low uint64
	exponent  int
}

const maxPower = 40

// powers has 10^q for q from -maxPower to maxPower.
var powers = func() (powers [2*maxPower + 1]power) {
	set := func(q int, x *big.Int, exponent int) { // x must have 128 bits
		powers[maxPower+q] = power{new(big.Int).Rsh(x, 64).Uint64(), x.Uint64(), exponent}
	}
	set(0, new(big.Int).Lsh(big.NewInt(1), 127), -127)
	ten, product := big.NewInt(10), big.NewInt(1)
	for q := 1; q <= maxPower; q++ {
		product.Mul(product, ten)
		size := product.BitLen()
		shift := 127 + size // 2^shift / 10^q is between 2^127 and 2^128
		set(-q, new(big.Int).Quo(new(big.Int).Lsh(big.NewInt(1), uint(shift)), product), -shift)
		x := new(big.Int).Lsh(product, 128)
		set(q, x.Rsh(x, uint(size)), size-128)
	}
	return powers
}()

// product returns the float64 nearest to m 10^q, after Lemire, Number parsing at a gigabyte per second (2021). product
// multiplies m, shifted to 64 bits, by the 128 bits of the power. The computed product of 192 bits is too small by less
// than 2^64. If this error may change the rounding, which happens about once in 2^54 calls, ok is false.
func product(m uint64, q int) (x float64, ok bool) {
	t := &powers[q+maxPower]
	shift := bits.LeadingZeros64(m)
	m <<= shift
	p2, p1 := bits.Mul64(m, t.high)
	carry, _ := bits.Mul64(m, t.low)
	p1, carry = bits.Add64(p1, carry, 0)
	p2 += carry
	// The top of p2 has 53 bits and one bit for rounding. The remainder is the rest of the product, in units of the
	// rounding bit. It must be strictly between zero and one; otherwise the exact product may be halfway between two
	// float64 values.
	up := int(p2 >> 63)
	below := p2 & (1<<(9+up) - 1)
	if p1 == 1<<64-1 || p1 == 0 && below == 0 {
		return 0, false
	}
	mantissa := p2 >> (9 + up)
	mantissa = (mantissa + mantissa&1) >> 1
	exponent := 138 + up - shift + t.exponent
	return float64(mantissa) * math.Float64frombits(uint64(exponent+1023)<<52), true
}

// slowNumber parses numbers that the fast path does not. Beyond the range it returns an infinity.
func slowNumber(text []byte) float64 {
	x, _ := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
	return x
}

// notFinite reports whether text is a usual spelling of NaN or an infinity.
func notFinite(text []byte) bool {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	switch len(text) {
	case 3, 8:
		lower := [8]byte{}
		for i, c := range text {
			lower[i] = c | 0x20
		}
		word := string(lower[:len(text)])
		return word == "nan" || word == "inf" || word == "infinity"
	}
	return false
}
