package stream

import (
	"strconv"
	"unsafe"
)

var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// number reads the decimal number at data[p:]: digits, of them perhaps a point
// and an exponent. strict is JSON's grammar; otherwise a sign + and an empty
// integer or fractional part may be, too. next is -1 if there is none. The
// result is strconv's: beyond the range it is an infinity.
func number(data []byte, p int, strict bool) (x float64, next int) {
	start := p
	negative := false
	if p < len(data) && (data[p] == '-' || data[p] == '+' && !strict) {
		negative = data[p] == '-'
		p++
	}
	// At most 19 digits fit in m; more of them are left to strconv.
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
	// Clinger's fast path: m and the power of ten are exact, one rounding is made.
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
	return slowNumber(data[start:p]), p
}

// slowNumber reads what number cannot; beyond the range it is an infinity.
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
