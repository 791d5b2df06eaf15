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

// TestNamesPrefix checks that a dictionary decoded from its block grows to the same bytes as the original, for several
// lengths. A restart from a checkpoint needs this.
func TestNamesPrefix(t *testing.T) {
	const max = 3000
	hash := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	add := func(n *Names, from, to int) {
		for i := from; i < to; i++ {
			if name := fmt.Sprint("name", i); n.Wants(hash(i)) {
				n.Add(hash(i), []byte(name))
			}
			must.Require(t, !n.Wants(hash(i)), "wants name %d again", i)
		}
	}
	whole := NewNames(max)
	add(whole, 0, max+10) // the last ten do not fit
	a, b := whole.Find(hash(7)), whole.Find(hash(max))
	must.True(t, a == "name7" && b == "", "found %q and %q", a, b)
	must.Require(t, whole.Len() == max, "%d names, want %d", whole.Len(), max)
	want := string(whole.Blocks()[0].Data)
	for _, count := range []int{0, 1, 511, 1024, max} {
		part := NewNames(max)
		add(part, 0, count)
		view := part.View()
		read := must.Get(ReadNames(view.Blocks()))(t)
		for _, n := range []*Names{part, read} {
			add(n, 0, max+10)
			must.Equal(t, string(n.Blocks()[0].Data), want, "from", count, "names: another dictionary")
		}
		add(view, 100, 200) // must not overwrite later names of the original
		must.Equal(t, string(part.Blocks()[0].Data), want, "adding to a view changed the whole")
	}
	for cut := range 40 {
		must.Fails(t, must.Err(ReadNames([]Block{{"names", []byte(want[:cut])}})), "read a block cut to", cut, "bytes")
	}
	columns := map[uint64]bool{}
	for i := range max {
		columns[hash(i)&(1<<10-1)] = true
	}
	s := NewSchema(10, nil, 2)
	s.Names = whole
	must.Equal(t, s.Collisions(), max-len(columns))
}

// TestSchemaView checks that a View does not change when the Schema grows or drops fields. A Schema that has not grown
// returns the same View.
func TestSchemaView(t *testing.T) {
	for _, labels := range [][]string{{"1", "0"}, {"0", "1"}, {"true", "false"}, {"a", "b"}, {"1", "-1", "5"}} {
		s := NewSchema(10, nil, 2)
		s.Names = NewNames(10)
		var views []*Schema
		var want []string
		for i, label := range append([]string{""}, labels...) {
			s.Class([]byte(label))
			s.AddField(Field{Name: label})
			s.Names.Add(uint64(i+1), []byte("name "+label))
			v := s.View()
			must.True(t, v.View() == v && s.View() == v, "%v: another View of the same Schema", labels)
			views, want = append(views, v), append(want, fmt.Sprintf("%q %v %s", s.Classes, s.Fields, s.Names.Blocks()[0].Data))
			n := len(s.Fields)
			s.AddField(Field{Name: "of a record that is refused"})
			s.DropFields(n)
			own := v.Clone()
			own.AddField(Field{Name: "of a copy"})
			own.Class([]byte("a copy's"))
			own.Names.Add(77, []byte("a copy's"))
		}
		for i, v := range views {
			must.Equal(t, fmt.Sprintf("%q %v %s", v.Classes, v.Fields, v.Names.Blocks()[0].Data), want[i], labels, "after", i, "labels")
		}
	}
}

// TestSchemaViewWhileGrowing reads a View while its Schema grows: the race detector must find nothing.
func TestSchemaViewWhileGrowing(t *testing.T) {
	s := NewSchema(10, nil, 2)
	s.Names = NewNames(1000)
	s.Class([]byte("1"))
	views := make(chan *Schema)
	done := make(chan int)
	go func() {
		n := 0
		for v := range views {
			for _, f := range v.Fields {
				n += len(f.Name)
			}
			n += len(v.Classes[0]) + len(v.Clone().Names.Blocks()[0].Data)
		}
		done <- n
	}()
	for i := range 500 {
		views <- s.View()
		s.AddField(Field{Name: fmt.Sprint("refused ", i)})
		s.DropFields(len(s.Fields) - 1)
		s.AddField(Field{Name: fmt.Sprint("field ", i)})
		s.Names.Add(uint64(i+1), []byte("name"))
		if i == 250 {
			s.Class([]byte("0"))
		}
	}
	close(views)
	<-done
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"words=a fine day":       "words=a fine day",
		`C:\new "x" ü 漢 😀`:       `C:\new "x" ü 漢 😀`,
		"\x1b[2J":                `\x1b[2J`,
		"a\nb\tc\rd\x00":         `a\nb\tc\rd\x00`,
		"\u202ekcab\u009b\u2028": `\u202ekcab\u009b\u2028`,
		"\xff\xc3x\ufffd":        `\xff\xc3x` + "\ufffd",
	} {
		got := Printable(text)
		must.True(t, got == want && Printable(got) == want, "%q: %q, twice %q, want %q", text, got, Printable(got), want)
	}
}

// TestNamer checks that the name of a column consists of all names that hash to the column, or is the column's number.
func TestNamer(t *testing.T) {
	const bits = 4
	s := NewSchema(bits, nil, 2)
	s.Names = NewNames(4)
	for _, n := range []struct {
		hash uint64
		name string
	}{{3, "age"}, {3 + 1<<bits, "color=red"}, {5, "size"}, {3 + 5<<bits, "x"}} {
		must.Require(t, !s.Names.Full(), "full before %q", n.name)
		s.Names.Add(n.hash, []byte(n.name))
	}
	must.True(t, s.Names.Full() && !(*Names)(nil).Full(), "four of four names are not full, or none are")
	for _, tt := range []struct {
		numeric, zeroBased bool
		want               string // name of column 7
	}{{false, false, "#7"}, {true, false, "8"}, {true, true, "7"}} {
		s.NumericIndices, s.ZeroBased = tt.numeric, tt.zeroBased
		name := s.Namer()
		a, b, c := name(3), name(5), name(7)
		must.True(t, a == "age | color=red | x" && b == "size" && c == tt.want, "%+v: columns are called %q, %q and %q", tt, a, b, c)
	}
}
