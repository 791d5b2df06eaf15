package event

import (
	"math/big"
	"slices"
	"strings"
	"testing"
)

// TestPlainNumber checks that PlainNumber is exact, and equal for all spellings of one number.
func TestPlainNumber(t *testing.T) {
	for text, want := range map[string]string{
		"1234567": "1234567", "2.0": "2", "-0": "0", "0e5": "0", "+7": "7", "1e2": "100", "12e-1": "1.2", "1.50": "1.5", "-.5": "-0.5", "5.": "5",
		"9007199254740993": "9007199254740993", "0.1e1": "1", "00123": "123", "1e-7": "0.0000001", "1E+07": "10000000", "1e300": "1e300", "10e300": "1e301", "-1.5e-300": "-15e-301",
		"": "", "-": "", ".": "", "1e": "", "e5": "", "inf": "", "nan": "", "0x10": "", "1_0": "", "1e9223372036854775807": "", "1e-9223372036854775808": "", "1 ": "", "--1": "",
	} {
		got := string(PlainNumber([]byte(text)))
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if got == "" {
			continue
		}
		a, _ := new(big.Rat).SetString(text)
		if b, ok := new(big.Rat).SetString(got); !ok || a.Cmp(b) != 0 {
			t.Errorf("%q became %q, another number", text, got)
		}
		if again := string(PlainNumber([]byte(got))); again != got {
			t.Errorf("%q became %q, and that %q", text, got, again)
		}
	}
}

// TestLabelSpellings checks that the warning lists joined labels and classes that are equal numbers, and no other
// classes.
func TestLabelSpellings(t *testing.T) {
	for _, c := range []struct {
		labels string
		want   []string // a substring of each sentence
	}{
		{labels: "a b 1 2 3"},
		{labels: "-1 +1 -1 +1"},
		{labels: "9007199254740992 9007199254740993"},
		{labels: "+1 -1 1 1.0", want: []string{`one class: "+1" and "1"`}},
		{labels: "0 1 0.0 1.0", want: []string{`one class: "0" and "0.0", "1" and "1.0"`}},
		{labels: "2 2.0", want: []string{`the same number: "2" and "2.0";`}},
		{labels: "inf Infinity", want: []string{`the same number: "inf" and "Infinity";`}},
		{labels: "nan NaN None", want: []string{`only by case or blanks: ["nan" "NaN"];`, `class "nan", "NaN", "None" probably means`}},
		{labels: "yes Yes no_ yes_ YES No_", want: []string{`blanks: ["yes" "Yes" "yes " "YES"], ["no " "No "]; if they are one class, write its label in one way, as jq`}},
		{labels: "1 2 3 4 1.0 2.0 3.0 4.0 02 03", want: []string{`one class: "1" and "1.0"`, `the same number: "2" and "2.0", "3" and "3.0", "4" and "4.0" and 2 more;`}},
	} {
		s := NewSchema(10, nil, 20)
		before := s.View()
		for _, l := range strings.Fields(c.labels) {
			s.Class([]byte(strings.ReplaceAll(l, "_", " ")))
		}
		got := s.LabelSpellings()
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", c.labels, got, c.want)
		}
		if got := s.View().LabelSpellings(); len(got) != len(c.want) {
			t.Errorf("%s: a later view says %q", c.labels, got)
		}
		if len(before.Joined) > 0 {
			t.Errorf("%s: a view has changed", c.labels)
		}
	}
}

// TestUsualPairSpellings checks that UsualPair and PositiveClass accept every spelling of a label.
func TestUsualPairSpellings(t *testing.T) {
	for _, pair := range [][2]string{{"0", "1"}, {"-1", "+1"}, {"0.0", "1.0"}, {"-1.0", "1"}, {"false", "true"}} {
		if !UsualPair(pair[0], pair[1]) || UsualPair(pair[1], pair[0]) {
			t.Errorf("%q", pair)
		}
	}
	if UsualPair("0", "01") || UsualPair("00", "1") {
		t.Error("other texts are no usual pair")
	}
	s := NewSchema(10, nil, 2)
	s.Class([]byte("+1"))
	s.Class([]byte("-1"))
	if s.PositiveClass("1") != 1 || s.PositiveClass("-1.0") != 0 {
		t.Errorf("positive classes of %q", s.Classes)
	}
}
