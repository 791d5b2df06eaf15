package notation

import (
	"fmt"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		n    Notation
		text string
		want float64
		ok   bool
	}{
		{Notation{",", ""}, "0,623", .623, true}, {Notation{",", ""}, "-1234,5", -1234.5, true}, {Notation{",", ""}, "12", 12, true},
		{Notation{",", ""}, "1.234,5", 0, false}, {Notation{",", "."}, "1.234,5", 1234.5, true}, {Notation{",", "."}, "1.234.567", 1234567, true},
		{Notation{",", "."}, "1.23,5", 0, false}, {Notation{",", "."}, "0.623", 0, false}, {Notation{",", "."}, "1234,5", 1234.5, true},
		{Notation{".", ","}, "622,733", 622733, true}, {Notation{".", ","}, "1,234,567.89", 1234567.89, true}, {Notation{".", ","}, "1,,234", 0, false},
		{Notation{".", ","}, ",123", 0, false}, {Notation{".", ","}, "1234,567", 0, false}, {Notation{".", ","}, "$-0.9408", -.9408, true},
		{Notation{".", ","}, "-$1,000", -1000, true}, {Notation{".", ","}, "(1,000.5)", -1000.5, true}, {Notation{".", ","}, "$(1.5)", -1.5, true},
		{Notation{",", "."}, "(1,5 €)", -1.5, true}, {Notation{".", ","}, "(-1.5)", 0, false}, {Notation{".", ","}, "((1.5))", 0, false}, {Notation{".", ","}, "()", 0, false}, {Notation{".", ","}, "(1.5", 0, false}, {Notation{".", ","}, "0.2227%", .2227, true}, {Notation{",", "."}, "€ 1.234,50", 1234.5, true},
		{Notation{",", " "}, "1\u202f234,5 kr", 1234.5, true}, {Notation{",", " "}, "1 234\u00a0567", 1234567, true}, {Notation{".", "'"}, "1’234.5 CHF", 1234.5, true},
		{Notation{".", ","}, "\u22125", -5, true}, {Notation{".", ","}, "+5", 5, true}, {Notation{".", ","}, "--5", 0, false},
		{Notation{".", ","}, "", 0, false}, {Notation{".", ","}, "$", 0, false}, {Notation{".", ","}, ".", 0, false}, {Notation{".", ","}, "-", 0, false},
		{Notation{".", ","}, ".5", .5, true}, {Notation{".", ","}, "5.", 5, true}, {Notation{".", ","}, "1e5", 0, false}, {Notation{",", ""}, "1,2,3", 0, false},
		{Notation{",", ""}, "inf", 0, false}, {Notation{",", ""}, "a1", 0, false}, {Notation{",", ""}, strings.Repeat("1", 65), 0, false},
	} {
		x, ok := test.n.Parse([]byte(test.text))
		must.True(t, ok == test.ok && (!ok || x == test.want), "%q with %v: %v, %t", test.text, test.n, x, ok)
	}
	for _, n := range []Notation{{"", ""}, {";", ""}, {".", "."}, {",", ","}, {".", "ab"}, {".", "x"}} {
		must.True(t, n.Check() != nil, "%q passes", n)
	}
	for _, n := range append(ordered, Plain) {
		must.True(t, n.Check() == nil, "%q does not pass", n)
	}
}

// TestFind checks that a numeric field is found by the common notation of its values, and that codes and category names
// are not found.
func TestFind(t *testing.T) {
	for _, test := range []struct {
		values, want string // want has the expected keys, "" if the field is not found, or "plain"
	}{
		{"0,623 0,408 0,16 1,2 3,5", `record.decimal = ","`},
		{"622,733 408,255 1,000 17,200 33,120", `record.thousands = ","`},
		{"1.234,5 2.000,1 0,7 12,5 3.000,0", `record.decimal = "," and record.thousands = "."`},
		{"$1.5 $-2 $0.3 $7 $12.25", `record.thousands = ","`},
		{"1% 2.5% 3% 4% 5%", `record.thousands = ","`},
		{"1,5% 2,5% 3% 4% 5%", `record.decimal = ","`},
		{"1.5 2.25 3.125 4.5 5.75", "plain"},
		{"00123 20095 80331 10115 50667", ""},
		{"1 2 3 4 5", ""},
		{"a1 b2 c3 d4 e5", ""},
		{"01 02 03 04 05 06 07 08 09 0,1", ""},
		{"1 2 3 4 0,5", `record.decimal = ","`},
		{"0,1 0,2 0,3 0,4", ""}, // too few values to decide
		{"0,1 0,2 0,3 0,4 b c d e", ""},
		{"2024-01-01 2024-01-02 2024-01-03 2024-01-04 2024-01-05", ""},
		{"10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5", ""},
	} {
		s := event.NewSchema(10, nil, 2)
		s.Names = event.NewNames(1000)
		s.AddField(event.Field{Name: "f", Kind: event.Categorical})
		for i, value := range strings.Fields(test.values) {
			s.Names.Add(uint64(i+1), []byte("f="+value))
		}
		found, got := Find(s), ""
		if len(found) > 0 {
			if got = found[0].Notation.String(); found[0].Notation == Plain {
				got = "plain"
			}
			must.True(t, strings.Contains(test.values, found[0].Example) && strings.Contains(found[0].String(), found[0].Example), "%q: %s", test.values, found[0])
		}
		must.True(t, got == test.want, "%q: %q, want %q", test.values, got, test.want)
	}
	// A second field resolves an ambiguous notation.
	s := event.NewSchema(10, nil, 2)
	s.Names = event.NewNames(1000)
	s.AddField(event.Field{Name: "f", Kind: event.Categorical})
	s.AddField(event.Field{Name: "g", Kind: event.Categorical})
	for i := range uint64(10) {
		s.Names.Add(2*i+1, fmt.Appendf(nil, "f=1,%d", 123+i))
		s.Names.Add(2*i+2, fmt.Appendf(nil, "g=0,%d", 123+i))
	}
	found := Find(s)
	must.True(t, len(found) == 2 && found[0].Notation == found[1].Notation && found[0].Notation.Decimal == ",", "%v", found)
}
