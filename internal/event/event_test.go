package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestPlainNumber checks that PlainNumber is exact, and equal for all spellings of one number.
func TestPlainNumber(t *testing.T) {
	for text, want := range map[string]string{
		"1234567": "1234567", "2.0": "2", "-0": "0", "0e5": "0", "+7": "7", "1e2": "100", "12e-1": "1.2", "1.50": "1.5", "-.5": "-0.5", "5.": "5",
		"9007199254740993": "9007199254740993", "0.1e1": "1", "00123": "123", "1e-7": "0.0000001", "1E+07": "10000000", "1e300": "1e300", "10e300": "1e301", "-1.5e-300": "-15e-301",
		"": "", "-": "", ".": "", "1e": "", "e5": "", "inf": "", "nan": "", "0x10": "", "1_0": "", "1e9223372036854775807": "", "1e-9223372036854775808": "", "1 ": "", "--1": "",
	} {
		got := string(PlainNumber([]byte(text)))
		must.True(t, got == want, "%q is %q, want %q", text, got, want)
		if got == "" {
			continue
		}
		a, _ := new(big.Rat).SetString(text)
		b, ok := new(big.Rat).SetString(got)
		must.True(t, ok && a.Cmp(b) == 0, "%q became %q, another number", text, got)
		must.Equal(t, string(PlainNumber([]byte(got))), got, text, "became")
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
		must.True(t, slices.EqualFunc(got, c.want, strings.Contains), "%s: %q, want %q", c.labels, got, c.want)
		got = s.View().LabelSpellings()
		must.True(t, len(got) == len(c.want), "%s: a later view says %q", c.labels, got)
		must.True(t, len(before.Joined) <= 0, "%s: a view has changed", c.labels)
	}
}

// TestUsualPairSpellings checks that UsualPair and PositiveClass accept every spelling of a label.
func TestUsualPairSpellings(t *testing.T) {
	for _, pair := range [][2]string{{"0", "1"}, {"-1", "+1"}, {"0.0", "1.0"}, {"-1.0", "1"}, {"false", "true"}} {
		must.True(t, UsualPair(pair[0], pair[1]) && !UsualPair(pair[1], pair[0]), "%q", pair)
	}
	must.True(t, !UsualPair("0", "01") && !UsualPair("00", "1"), "other texts are no usual pair")
	s := NewSchema(10, nil, 2)
	s.Class([]byte("+1"))
	s.Class([]byte("-1"))
	must.True(t, s.PositiveClass("1") == 1 && s.PositiveClass("-1.0") == 0, "positive classes of %q", s.Classes)
}

func TestAddress(t *testing.T) {
	for a, want := range map[Address]string{
		"":                                      "",
		"checkpoints":                           "checkpoints",
		`C:\models\a@b`:                         `C:\models\a@b`,
		"models/a@b.blankout":                   "models/a@b.blankout",
		"what?.blankout":                        "what?.blankout",
		"s3://bucket/key":                       "s3://bucket/key",
		"https://host:1/path":                   "https://host:1/path",
		"https://me@host/path":                  "https://***@host/path",
		"https://me:s3cret@host:1/path":         "https://***@host:1/path",
		"https://me:a@s3cret@host":              "https://***@host",
		"https://me:s3/cret@host":               "https://***@host",
		"https://me:s3?cret@host":               "https://***?***",
		"https://me:s3cret%@host":               "https://***@host",
		"https://host/p?token=s3cret":           "https://host/p?***",
		"https://host/p#s3cret":                 "https://host/p#***",
		"https://host?a=b@s3cret":               "https://***?***",
		"https://a,https://me:s3cret@b":         "https://***@b",
		"https://a?token=s3cret,x,https://b":    "https://a?***",
		"me:s3cret@host:9000":                   "***@host:9000",
		"host:9000/?token=s3cret":               "host:9000/?***",
		"http:/me:s3cret@host":                  "***@host",
		"kafka://host:9092/topic?secret=s3cret": "kafka://host:9092/topic?***",
	} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "at", a)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "at", struct{ A Address }{a})
		asJSON := must.Get(json.Marshal(map[string]any{"a": a}))(t)
		for _, text := range []string{a.String(), fmt.Sprintf("%v %q %#v %+v", a, a, a, struct{ A Address }{a}), string(asJSON), log.String()} {
			must.True(t, !strings.Contains(text, "s3") || !strings.Contains(text, "cret"), "%s tells the secret: %s", string(a), text)
		}
		must.Equal(t, a.String(), want, string(a))
	}
}

func TestHideAddresses(t *testing.T) {
	err := HideAddresses(fmt.Errorf(`Get "https://me:s3cret@host/p?token=s3cret": not found: http://b/?x=s3cret: %w`, io.EOF))
	want := `Get "https://***@host/p?***": not found: http://b/?*** EOF`
	must.True(t, err.Error() == want && errors.Is(err, io.EOF), "%v, want %s", err, want)
	must.True(t, HideAddresses(nil) == nil, "nothing became an error")
}

func TestOffsets(t *testing.T) {
	var o Offsets
	o.At("b", 1, 5)
	o.At("a", 2, 7)
	o.At("b", 0, 9)
	order := ""
	for _, p := range o {
		order += fmt.Sprint(p.Topic, p.Partition, " ")
	}
	must.True(t, order == "a2 b0 b1 ", "order %s", order)
	p := o.At("b", 1, 99)
	must.True(t, p.Next == 5, "a known partition starts again at %d", p.Next)
	must.Do(t, p.Advance(5, 100))
	// a gap is not an error
	must.Do(t, p.Advance(8, 1))
	got, _ := o.Lookup("b", 1)
	must.True(t, got == (Position{"b", 1, 9, 2, 101, 5, ""}), "%+v", got)
	before := *p
	err := p.Advance(8, 1)
	must.True(t, err != nil && *p == before, "going back: %v, %+v", err, *p)
	_, ok := o.Lookup("c", 0)
	must.True(t, !ok, "a partition never seen")
}

func TestVecCheck(t *testing.T) {
	zero := 0.0
	for name, x := range map[string]Vec{
		"descending": {[]uint32{2, 1}, []float64{1, 1}},
		"twice":      {[]uint32{2, 2}, []float64{1, 1}},
		"lengths":    {[]uint32{2}, nil},
		"infinite":   {[]uint32{2}, []float64{1 / zero}},
		"nan":        {[]uint32{2}, []float64{zero / zero}},
	} {
		must.True(t, x.Check() != nil, "%s: passed", name)
	}
	x := Vec{[]uint32{1, 4}, []float64{1, -2}}
	must.Do(t, x.Check())
	y := x.Clone()
	y.Value[0] = 9
	must.True(t, x.Value[0] == 1, "Clone shares memory")
}

func TestSchemaClass(t *testing.T) {
	for _, c := range []struct {
		name, classes string
		fixed         []string
		max           int
		labels        []string
		want          []int // -1 for a refused label
	}{
		{name: "order of appearance", max: 3, labels: []string{"x", "y", "x", "z", "w"}, want: []int{0, 1, 0, 2, -1}},
		{name: "minus one first", max: 2, labels: []string{"-1", "+1", "1.0", "0"}, want: []int{0, 1, 1, -1}},
		{name: "zero and one", max: 3, labels: []string{"0.0", "1", "0", "-0", "+1.00", "1.", "01", "1e0"}, want: []int{0, 1, 0, 0, 1, 1, 2, -1}},
		{name: "own text", max: 9, labels: []string{"00123", "123", "123.0", "1e2", "100", "inf", "Infinity", "9007199254740992", "9007199254740993", "123"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 1}},
		{name: "spelled one first", max: 2, labels: []string{"+1.0", "0", "1"}, want: []int{1, 0, 1}},
		{name: "one first", max: 2, labels: []string{"1", "-1", "1"}, want: []int{1, 0, 1}},
		{name: "one first, then zero", max: 2, labels: []string{"1", "0", "-1"}, want: []int{1, 0, -1}},
		{name: "true first", max: 2, labels: []string{"true", "false"}, want: []int{1, 0}},
		{name: "fixed", fixed: []string{"ham", "spam"}, labels: []string{"spam", "ham", "eggs", ""}, want: []int{1, 0, -1, -1}},
	} {
		s := NewSchema(10, c.fixed, c.max)
		var got []int
		for _, l := range c.labels {
			k, ok := s.Class([]byte(l))
			if !ok {
				k = -1
			}
			got = append(got, k)
		}
		must.True(t, slices.Equal(got, c.want), "%s: %v, want %v (classes %q)", c.name, got, c.want, s.Classes)
	}
}
