package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestSeparatorIsFound checks that the separator of CSV is detected by the configured columns, or else by the first
// line. A configured separator must be used unchanged.
func TestSeparatorIsFound(t *testing.T) {
	for _, test := range []struct {
		text    string
		change  func(*Config)
		want    string
		columns int
	}{
		{"label;a;b\n1;0,5;2\n", nil, ";", 3},
		{"label\ta\n", nil, "\t", 2},
		{"a|label|b|c\n", nil, "|", 4},
		{"\"label\";\"a;b\"\n", nil, ";", 2},
		{"label,a;b,c;d;e;f\n", nil, ",", 3},
		{"a,b;label;c,d,e\n", nil, ";", 3},
		{"x;y,z,z2\n", nil, ",", 3},
		{"x;y\n", nil, ";", 2},
		{"label\n", nil, ",", 1},
		{"label;a\n", func(c *Config) { c.Separator = "\t" }, "\t", 1},
		{"when;a\n", func(c *Config) { c.Unlabeled, c.Time = true, "when" }, ";", 2},
		{"1;2;3\n", func(c *Config) { c.Columns = []string{"label", "a", "b"} }, ";", 3},
		{"1,5;2,5;3,5\n", func(c *Config) { c.Columns = []string{"label", "a", "b"} }, ";", 3},
		{"1,2;3\n", func(c *Config) { c.Columns = []string{"label", "a"} }, ",", 2},
	} {
		c := DefaultConfig()
		if c.Format = "csv"; test.change != nil {
			test.change(&c)
		}
		for _, in := range []io.Reader{strings.NewReader(test.text), iotest.OneByteReader(strings.NewReader(test.text))} {
			s, err := NewScanner("x.csv", in, c)
			if err != nil || s.Config().Separator != test.want || len(s.Columns()) != test.columns {
				t.Errorf("%q: %q, %q, %v", test.text, s.Config().Separator, s.Columns(), err)
				continue
			}
			var r Record
			err = s.Next(&r)
			must.True(t, len(c.Columns) == 0 || err == nil && r.Offset == 0, "%q: the first line is taken: %v", test.text, err)
		}
	}
}

// TestHeaderOfNamedColumns checks that a first line with the same names as the configured columns is a header. The
// order of the names in the header determines the order of the columns.
func TestHeaderOfNamedColumns(t *testing.T) {
	c := DefaultConfig()
	c.Format, c.Columns = "csv", []string{"label", "a", "b"}
	for text, want := range map[string]string{"b,label,a\n1,2,3\n": "b label a 1", "label,a,b\n1,2,3\n": "label a b 1", "1,2,3\n": "label a b 0", "label,a,a\n": "label a b 0"} {
		s := must.Get(NewScanner("x.csv", strings.NewReader(text), c))(t)
		var r Record
		err := s.Next(&r)
		must.True(t, err == nil && fmt.Sprint(strings.Join(s.Columns(), " "), " ", r.Offset) == want, "%q: %q, %d, %v", text, s.Columns(), r.Offset, err)
	}
}

// TestEncodingIsNamed checks that text that is not UTF-8 is refused in every text format. The error must name the
// encoding or the invalid byte, and advise a conversion.
func TestEncodingIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"\xff\xfel\x00a\x00":       "UTF-16LE",
		"\xfe\xff\x00l\x00a":       "UTF-16BE",
		"l\x00a\x00b\x00":          "UTF-16LE",
		"\x00{\x00\"\x00a":         "UTF-16BE",
		"label,\xf8l\n1,2\n":       "the header: byte 7: 0xf8 is not UTF-8",
		"\ufefflabel,\xf8l\n1,2\n": "the header: byte 7: 0xf8 is not UTF-8",
	} {
		for _, format := range []string{"csv", "json", "vw", "svmlight"} {
			if format != "csv" && strings.HasPrefix(want, "the header") {
				continue
			}
			c := DefaultConfig()
			c.Format = format
			_, err := NewScanner("x", strings.NewReader(text), c)
			var refusal *event.Refusal
			must.True(t, errors.As(err, &refusal) && strings.Contains(refusal.Detail, want) && strings.Contains(refusal.Detail, "iconv -f "), "%s, %q: %v", format, text, err)
		}
	}
	for format, value := range map[string]string{"csv": "1,bl\xe5", "json": "{\"a\":\"bl\xe5\"}"} {
		c := DefaultConfig()
		c.Format, c.Columns = format, []string{"label", "a"}
		d := must.Get(NewDecoder(c, c.Schema()))(t)
		var e event.Example
		d.Decode(context.Background(), Record{Value: []byte(value)}, &e)
		must.True(t, e.Refused != nil && strings.Contains(e.Refused.Detail, "0xe5 is not UTF-8: convert the text, with iconv -f LATIN1 -t UTF-8"), "%s: %v", format, e.Refused)
	}
	c := DefaultConfig()
	c.Format, c.Columns = "csv", []string{"label", "a", "b"}
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	e := decoded(d, "1;2,5;3")
	want := `2 values for 3 columns: record.separator is ',', and ';' would make them so many`
	must.True(t, e.Refused != nil && e.Refused.Detail == want, "%v", e.Refused)
}
