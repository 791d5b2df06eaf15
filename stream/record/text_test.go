package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestTexts checks that max_features limits the memory for a text with any words. After a restart, texts must be
// decoded as before, because a checkpoint has the settings of texts.
func TestTexts(t *testing.T) {
	c := DefaultConfig()
	c.Text, c.Ngrams, c.MaxFeatures = []string{"body"}, 5, 100
	again, err := ParseSettings(c.Settings())
	must.Require(t, err == nil && again.Ngrams == 5 && len(again.Text) == 1 && again.Text[0] == "body", "%+v, %v", again, err)
	for _, format := range []string{"json", "csv"} {
		c.Format, c.Columns = format, []string{"label", "body"}
		s, d := newDecoder(t, c)
		var e event.Example
		for words, features := range map[int]int{1: 1, 2: 3, 5: 15, 22: 100, 23: -1, 100_000: -1} {
			var text []byte
			for i := range words {
				text = fmt.Appendf(text, "W%d. ", i)
			}
			value := fmt.Appendf(nil, `{"label":1,"body":"%s"}`, text)
			if format == "csv" {
				value = fmt.Appendf(nil, `1,"%s"`, text)
			}
			must.Do(t, d.Decode(context.Background(), Record{Value: value}, &e))
			switch {
			case features < 0 && (e.Refused == nil || e.Refused.Reason != event.ReasonTooMany):
				t.Errorf("%s, %d words: %d features, %v", format, words, e.Features.Len(), e.Refused)
			case features >= 0 && (e.Refused != nil || e.Features.Len() != features):
				t.Errorf("%s, %d words: %d features, want %d (%v)", format, words, e.Features.Len(), features, e.Refused)
			}
		}
		must.Equal(t, s.Names.Find(event.Mix(event.Mix(xxhash.Sum64String("body")+s.Seed)+xxhash.Sum64String("w0 w1"))), "body=w0 w1", format, "a pair is called")
	}
	for _, wrong := range []struct {
		key    string
		change func(*Config)
	}{
		{"text", func(c *Config) { c.Text = []string{"label"} }},
		{"text", func(c *Config) { c.Text, c.Categorical = []string{"a"}, []string{"a"} }},
		{"text", func(c *Config) { c.Text = []string{string(bytes.Repeat([]byte("a"), maxNameBytes+1))} }},
		{"ngrams", func(c *Config) { c.Text, c.Ngrams = []string{"a"}, 6 }},
		{"ngrams", func(c *Config) { c.Ngrams = 2 }},
	} {
		c := DefaultConfig()
		wrong.change(&c)
		var key *event.KeyError
		err := c.Check()
		must.True(t, errors.As(err, &key) && key.Key == wrong.key, "%q: %v", wrong.key, err)
	}
}

// TestWrapped checks which JSON objects are lists of events in the form of another service, and that an event with a list
// of objects in a field of such a name is an event.
func TestWrapped(t *testing.T) {
	for value, want := range map[string]string{
		`{"instances":[{"x":1}]}`:                                        "instances",
		`{ "instances" : [ [1,2] ] }`:                                    "instances",
		"{\n \"parameters\": {},\n \"instances\": [\n {\"x\": 1}\n ]\n}": "instances",
		`{"signature_name":"serving_default","instances":[{"x":1}]}`:     "instances",
		`{"dataframe_split":{"columns":["x"],"data":[[1]]}}`:             "dataframe_split.data",
		`{"dataframe_split":{"data":[[1]],"columns":["x"]},"params":{}}`: "dataframe_split.data",
		`{"dataframe_records":[{"x":1}]}`:                                "dataframe_records",
		`{"data":[{"x":1},{"x":2}]}`:                                     "data",
		`{"data":[[1,2]]}`:                                               "data",
		`{"label":"a","instances":[{"x":1}]}`:                            "",
		`{"id":7,"inputs":[{"value":1},{"value":2}]}`:                    "",
		`{"x":1,"data":[{"y":2}]}`:                                       "",
		`{"data":["a","b"]}`:                                             "",
		`{"instances":["a","b"]}`:                                        "",
		`{"instances":3}`:                                                "",
		`{"words":["instances","[{"],"x":1}`:                             "",
		`{"x":1}`:                                                        "",
		`{"instances":[{"x":1}`:                                          "",
		``:                                                               "",
	} {
		must.Equal(t, wrapped([]byte(value), "label"), want, value)
	}
}

// TestFormatOf checks that the suffix of a file name takes precedence over the rest of the name.
func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{
		"idx.csv": "csv", "a/sidx.jsonl.gz": "json", "train.svm.zst": "svmlight", "x.vw": "vw",
		"train-images-idx3-ubyte.gz": "idx", "t10k-images.idx3-ubyte": "idx", "events": "",
	} {
		must.Equal(t, FormatOf(name), want, name)
	}
}

// TestGroups checks that groups are read from a file or the configuration, for fields or for columns. A feature must be
// in at most one group.
func TestGroups(t *testing.T) {
	groups, err := ReadGroups(strings.NewReader("# sensors\nfront 1-8,17\n\nengine rpm  oil # and\n"))
	must.True(t, err == nil && len(groups) == 2 && strings.Join(groups["front"], " ") == "1-8 17" && strings.Join(groups["engine"], " ") == "rpm oil", "read %q, %v", groups, err)
	c := DefaultConfig()
	c.Groups = groups
	must.Do(t, c.Check())
	s := c.Schema()
	spans, _ := s.ColumnGroups.Find("front")
	must.True(t, len(spans) == 2 && spans[1] == (event.Span{From: 16, To: 17}) && len(s.ColumnGroups.Named) == 1, "columns %v", s.ColumnGroups)
	s.AddField(event.Field{Name: "rpm", Kind: event.Numeric})
	c.Regroup(s)
	must.Equal(t, s.Fields[1].Group, "engine", "the group of rpm")
	c = DefaultConfig()
	s = c.Schema()
	must.True(t, s.ColumnGroups == nil, "no groups asked for, but %v", s.ColumnGroups)
	c.GroupEvery = 8
	s = c.Schema()
	must.True(t, s.ColumnGroups != nil && s.ColumnGroups.Every == 8, "columns %v", s.ColumnGroups)

	for text, want := range map[string]string{"": "no group", "front": "no members", "a 1\na 2\n": "twice"} {
		must.ErrorContains(t, must.Err(ReadGroups(strings.NewReader(text))), want, text)
	}
	for want, groups := range map[string]map[string][]string{
		`"rpm" is in "a" and in "b"`: {"a": {"rpm"}, "b": {"rpm"}},
		`"a" and "b" share a column`: {"a": {"1-8"}, "b": {"8-9"}},
		`"a" and "a" share a column`: {"a": {"1-8", "3"}},
		"the name \"\": want 1 to":   {"": {"x"}},
	} {
		c := DefaultConfig()
		c.Groups = groups
		must.ErrorContains(t, c.Check(), want, groups)
	}
}

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
