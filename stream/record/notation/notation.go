// Package notation parses numbers written for people: with a decimal comma, with thousands separators, with a currency
// or percent sign.
package notation

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"blankout/internal/event"
)

// Notation describes how numbers are written.
type Notation struct {
	Decimal   string // decimal separator, "." or ","
	Thousands string // separator between groups of three digits, "" for none
}

// Plain is the notation of programming languages.
var Plain = Notation{Decimal: "."}

// Check returns an error that names the first invalid key of a Notation.
func (n Notation) Check() error {
	switch {
	case n.Decimal != "." && n.Decimal != ",":
		return event.KeyErrorf("decimal", "decimal %q: want a point or a comma", n.Decimal)
	case n.Thousands == "":
	case len(n.Thousands) != 1 || !strings.Contains(",. '_", n.Thousands):
		return event.KeyErrorf("thousands", "thousands %q: want a comma, a point, a blank, an apostrophe, an underscore, or nothing", n.Thousands)
	case n.Thousands == n.Decimal:
		return event.KeyErrorf("thousands", "thousands %q: it is the decimal mark, too", n.Thousands)
	}
	return nil
}

// String returns the configuration keys that set the Notation.
func (n Notation) String() string {
	var keys []string
	if n.Decimal != Plain.Decimal {
		keys = append(keys, fmt.Sprintf("record.decimal = %q", n.Decimal))
	}
	if n.Thousands != "" {
		keys = append(keys, fmt.Sprintf("record.thousands = %q", n.Thousands))
	}
	return strings.Join(keys, " and ")
}

// maxText is the largest length of a text that Parse examines.
const maxText = 64

// Parse returns the number in a text. Blanks around the number, and a currency or percent sign, have no effect.
func (n Notation) Parse(text []byte) (x float64, ok bool) {
	if len(text) == 0 || len(text) > maxText {
		return 0, false
	}
	s := strings.TrimFunc(string(text), unicode.IsSpace)
	minus := false
	for range 2 { // the sign, or the parentheses of bookkeepers, may be before or after the currency
		if len(s) > 2 && s[0] == '(' && s[len(s)-1] == ')' && !minus {
			s, minus = strings.TrimFunc(s[1:len(s)-1], unicode.IsSpace), true
		}
		if rest, cut := cutSign(s); cut {
			if minus {
				return 0, false
			}
			s, minus = rest, strings.TrimLeft(s, "+") == s
		}
		s = trimUnit(s)
	}
	whole, fraction, point := strings.Cut(s, n.Decimal)
	whole, ok = n.ungrouped(whole)
	if !ok || !isDigits(fraction) || point && whole+fraction == "" || whole == "" && !point {
		return 0, false
	}
	x, err := strconv.ParseFloat("0"+whole+"."+fraction+"0", 64)
	if minus {
		x = -x
	}
	return x, err == nil
}

// cutSign removes the sign of a number.
func cutSign(s string) (rest string, cut bool) {
	for _, sign := range []string{"-", "+", "\u2212"} {
		if rest, cut := strings.CutPrefix(s, sign); cut {
			return strings.TrimLeftFunc(rest, unicode.IsSpace), true
		}
	}
	return s, false
}

// units are currency abbreviations.
var units = []string{"EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "NOK", "SEK", "DKK", "PLN", "CZK", "kr.", "kr", "zł"}

// trimUnit removes a currency or percent sign from either end.
func trimUnit(s string) string {
	isUnit := func(r rune) bool { return r == '%' || r == '‰' || unicode.Is(unicode.Sc, r) }
	s = strings.TrimFunc(s, func(r rune) bool { return isUnit(r) || unicode.IsSpace(r) })
	for _, unit := range units {
		if rest, cut := strings.CutPrefix(s, unit); cut {
			return strings.TrimFunc(rest, func(r rune) bool { return isUnit(r) || unicode.IsSpace(r) })
		}
		if rest, cut := strings.CutSuffix(s, unit); cut {
			return strings.TrimRightFunc(rest, unicode.IsSpace)
		}
	}
	return s
}

// ungrouped removes the thousands separators from a whole number. A number without separators may have any digits. If
// there are separators, the first group has one to three digits and no leading 0, and each other group has three.
func (n Notation) ungrouped(whole string) (digits string, ok bool) {
	groups := strings.FieldsFunc(whole, n.separates)
	if n.Thousands == "" || len(groups) < 2 {
		return whole, isDigits(whole)
	}
	digits = strings.Join(groups, "")
	marks := utf8.RuneCountInString(whole) - utf8.RuneCountInString(digits)
	if marks != len(groups)-1 || len(groups[0]) > 3 || groups[0][0] == '0' {
		return "", false
	}
	for i, group := range groups {
		if !isDigits(group) || i > 0 && len(group) != 3 {
			return "", false
		}
	}
	return digits, true
}

// separates reports whether r is the thousands separator. Any kind of blank or apostrophe matches the configured kind.
func (n Notation) separates(r rune) bool {
	switch n.Thousands {
	case " ":
		return r == ' ' || r == '\u00a0' || r == '\u202f' || r == '\u2009'
	case "'":
		return r == '\'' || r == '’'
	}
	return n.Thousands != "" && r == rune(n.Thousands[0])
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return true
}
