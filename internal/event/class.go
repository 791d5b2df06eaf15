package event

// This file maps labels to classes.

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Class returns the class of a label, and adds the class if the Schema can still grow. ok is false for a label that is
// not a class.
//
// The first label text of a class becomes the name of the class. A label with another text is another class. Exceptions
// are the spellings of -1, 0 and 1, which are joined (SameLabel): Joined then records the second spelling.
//
// If there are two classes, the second is the positive class. If the first label is the larger of a usual pair (1 of
// -1/1 or 0/1, true), it becomes the second class. The first class is then named "" until its label arrives.
func (s *Schema) Class(label []byte) (class int, ok bool) {
	if len(label) == 0 {
		return 0, false
	}
	if i := s.FindClass(string(label)); i >= 0 {
		s.join(i, label)
		return i, true
	}
	name := string(label)
	for i, c := range s.Classes {
		if c == "" {
			s.Classes = append([]string(nil), s.Classes...) // a View shares the old slice
			s.Classes[i] = name
			return i, true
		}
	}
	if len(s.Classes) >= s.MaxClasses+s.MoreClasses {
		return 0, false
	}
	if len(s.Classes) == 0 && (unit(name) == "1" || name == "true") {
		s.Classes = append(s.Classes, "")
	}
	s.Classes = append(s.Classes, name)
	return len(s.Classes) - 1, true
}

// FindClass returns the index of the class of a label, or -1.
func (s *Schema) FindClass(label string) int { return FindClass(s.Classes, label) }

// FindClass returns the index in classes of the class of a label, or -1.
func FindClass(classes []string, label string) int {
	alike := -1
	for i, c := range classes {
		if c == label && c != "" {
			return i
		}
		if alike < 0 && SameLabel(c, label) {
			alike = i
		}
	}
	return alike
}

// SameLabel reports whether two labels are the same class: they are equal, or both spell -1, 0 or 1 (for example 1, +1
// or 1.0).
func SameLabel(a, b string) bool {
	if a == b {
		return true
	}
	number := unit(a)
	return number != "" && number == unit(b)
}

// IsZero reports whether a label spells the number 0.
func IsZero(label string) bool { return unit(label) == "0" }

// unit returns "-1", "0" or "1" if text spells that number with an optional sign, one digit and zeros after the point.
// Otherwise it returns "".
func unit(text string) string {
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 || digits == "" || digits[0] != '0' && digits[0] != '1' {
		return ""
	}
	if rest := digits[1:]; rest != "" && (rest[0] != '.' || strings.Trim(rest[1:], "0") != "") {
		return ""
	}
	if text[0] == '-' && digits[0] == '1' {
		return "-1"
	}
	return digits[:1]
}

// join records in Joined the first spelling of a class that differs from the class name. A warning lists these
// spellings.
func (s *Schema) join(class int, label []byte) {
	name := s.Classes[class]
	if name == string(label) || slices.ContainsFunc(s.Joined, func(pair [2]string) bool { return pair[0] == name }) {
		return
	}
	s.Joined = append(s.Joined[:len(s.Joined):len(s.Joined)], [2]string{name, string(label)})
}

// LabelSpellings returns sentences for a warning. The sentences list labels that were joined as spellings of one
// number, and classes that are equal numbers but were not joined.
func (s *Schema) LabelSpellings() (out []string) {
	if len(s.Joined) > 0 {
		var pairs []string
		for _, pair := range s.Joined {
			pairs = append(pairs, fmt.Sprintf("%.40q and %.40q", pair[0], pair[1]))
		}
		out = append(out, fmt.Sprintf("labels that spell the same number are one class: %s", strings.Join(pairs, ", ")))
	}
	first := map[string]string{}
	var pairs []string
	for _, c := range s.Classes {
		number := PlainNumber([]byte(c))
		if x, err := strconv.ParseFloat(c, 64); err == nil && math.IsInf(x, 0) && number == nil {
			number = strconv.AppendFloat(nil, x, 'g', -1, 64) // inf and Infinity are the same number
		}
		if number == nil {
			continue
		}
		if before, ok := first[string(number)]; ok {
			pairs = append(pairs, fmt.Sprintf("%.40q and %.40q", before, c))
			continue
		}
		first[string(number)] = c
	}
	if len(pairs) > 0 {
		more := ""
		if n := len(pairs) - 3; n > 0 {
			pairs, more = pairs[:3], fmt.Sprintf(" and %d more", n)
		}
		out = append(out, fmt.Sprintf("different classes spell the same number: %s%s; if they are one class, write the number in one way", strings.Join(pairs, ", "), more))
	}
	return append(out, s.labelCases()...)
}

// labelCases returns sentences for a warning about classes that differ only by case or blanks, and about classes that
// probably mean that there is no label.
func (s *Schema) labelCases() (out []string) {
	const most = 6
	spellings, absent := map[string][]string{}, []string{}
	var alike []string
	for _, c := range s.Classes {
		plain := strings.ToLower(strings.Join(strings.Fields(c), " "))
		switch plain {
		case "nan", "null", "none", "na", "n/a", "<na>", "nil", "undefined", "missing":
			absent = append(absent, strconv.Quote(Printable(c)))
		}
		spellings[plain] = append(spellings[plain], c)
	}
	for _, c := range s.Classes {
		if all := spellings[strings.ToLower(strings.Join(strings.Fields(c), " "))]; len(all) > 1 && all[0] == c {
			more := ""
			if n := len(all) - most; n > 0 {
				all, more = all[:most], fmt.Sprintf(" and %d more", n)
			}
			alike = append(alike, fmt.Sprintf("%.40q%s", all, more))
		}
	}
	if more := len(alike) - most; more > 0 {
		alike = append(alike[:most], fmt.Sprintf("%d more", more))
	}
	if len(alike) > 0 {
		out = append(out, fmt.Sprintf("classes differ only by case or blanks: %s; if they are one class, write its label in one way, as jq -c '.label |= (ascii_downcase | gsub(\"^ +| +$\"; \"\"))' does, or list the right spellings in record.classes, which refuses the others", strings.Join(alike, ", ")))
	}
	if len(absent) > 0 {
		out = append(out, fmt.Sprintf("the class %s probably means that the event has no label: leave the field out or write null (in CSV name the text in record.missing)", strings.Join(absent, ", ")))
	}
	return out
}

// PlainNumber returns the canonical spelling of a decimal number, without rounding. It spells an integer as an integer,
// and any other number without an exponent or trailing zeros. A number with more than plainDigits digits keeps an
// exponent. PlainNumber returns nil if text is not a finite number or its exponent is beyond a million.
func PlainNumber(text []byte) []byte {
	rest := text
	negative := len(rest) > 0 && rest[0] == '-'
	if negative || len(rest) > 0 && rest[0] == '+' {
		rest = rest[1:]
	}
	exponent := 0
	if at := bytes.IndexAny(rest, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(rest[at+1:])); err != nil || exponent > 1e6 || exponent < -1e6 {
			return nil
		}
		rest = rest[:at]
	}
	whole, fraction, _ := bytes.Cut(rest, []byte{'.'})
	digits := append(append(make([]byte, 0, len(rest)), whole...), fraction...)
	if len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
		return nil
	}
	exponent -= len(fraction)
	trimmed := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if digits = bytes.TrimLeft(trimmed, "0"); len(digits) == 0 {
		return []byte{'0'}
	}
	out := make([]byte, 0, len(digits)+8)
	if negative {
		out = append(out, '-')
	}
	switch point := len(digits) + exponent; { // number of digits before the decimal point
	case exponent >= 0 && point <= plainDigits:
		return append(append(out, digits...), bytes.Repeat([]byte{'0'}, exponent)...)
	case exponent >= 0 || point > plainDigits || -exponent > plainDigits:
		return strconv.AppendInt(append(append(out, digits...), 'e'), int64(exponent), 10)
	case point > 0:
		return append(append(append(out, digits[:point]...), '.'), digits[point:]...)
	default:
		return append(append(append(out, '0', '.'), bytes.Repeat([]byte{'0'}, -point)...), digits...)
	}
}

// plainDigits is the largest number of digits that PlainNumber writes before or after a decimal point.
const plainDigits = 40
