package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"
)

// shown decodes a value with a configuration and returns the event as text.
func shown(t *testing.T, c Config, value string) string {
	t.Helper()
	s, d := newDecoder(t, c)
	var e event.Example
	must.Do(t, d.Decode(t.Context(), Record{Value: []byte(value)}, &e))
	return showOr(s, e)
}

// showOr returns an event as text, or the reason why its record was refused.
func showOr(s *event.Schema, e event.Example) string {
	if e.Refused != nil {
		return string(e.Refused.Reason)
	}
	return recordtest.Show(s, &e)
}

// TestNumbersAsText checks that with record.decimal or record.thousands a text in that notation is a number. This
// applies to every format with texts, and to the target and the weight, but not to a categorical field.
func TestNumbersAsText(t *testing.T) {
	base := DefaultConfig()
	base.Weight, base.Categorical, base.Text, base.Columns, base.Separator = "w", []string{"zip"}, []string{"body"}, []string{"label", "w", "a", "zip", "body", "s"}, ";"
	for _, test := range []struct {
		format, decimal, thousands, value, want string
	}{
		{"csv", ".", "", "y;1;0,5;1,5;1,5;x", "y a=0,5:1:c zip=1,5:1:c body=1:1:w body=5:1:w s=x:1:c"},
		{"csv", ",", "", "y;0,5;0,5;1,5;1,5;x", "y weight=0.5 a:0.5:n zip=1,5:1:c body=1:1:w body=5:1:w s=x:1:c"},
		{"csv", ",", "", "y;1;0.25;1,5;x;-3,5", "y a:0.25:n s:-3.5:n zip=1,5:1:c body=x:1:w"},
		{"csv", ",", ".", "y;1;1.234,5;1;x;€ 7", "y a:1234.5:n s:7:n zip=1:1:c body=x:1:w"},
		{"csv", ".", ",", "y;1;$-1,000.5;1;x;12 %", "y a:-1000.5:n s:12:n zip=1:1:c body=x:1:w"},
		{"json", ".", "", `{"label":"y","a":"0,5","zip":"1,5","s":"12"}`, "y s=12:1:c a=0,5:1:c zip=1,5:1:c"},
		{"json", ",", "", `{"label":"y","w":"0,5","a":"0,5","zip":"1,5","s":"12","body":"1,5","t":["1,5"],"n":0.5}`, "y weight=0.5"},
	} {
		c := base
		c.Format, c.Decimal, c.Thousands = test.format, test.decimal, test.thousands
		got := shown(t, c, test.value)
		for _, part := range strings.Fields(test.want) {
			must.Contains(t, " "+got+" ", " "+part+" ")
		}
		again, err := ParseSettings(c.Settings())
		must.True(t, err == nil && again.Notation() == c.Notation(), "%v is kept as %v: %v", c.Notation(), again.Notation(), err)
	}
	c := base
	c.Format, c.Decimal = "json", ","
	got, want := shown(t, c, `{"a":"0,5","zip":"1,5","s":"12","t":["1,5"],"n":0.5}`), "? a:0.5:n s:12:n n:0.5:n zip=1,5:1:c t=1,5:1:w"
	must.True(t, len(strings.Fields(got)) == 6 && sameWords(got, want), "%s, want %s", got, want)
	c.Target = loss.Real
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	var e event.Example
	d.Decode(t.Context(), Record{Value: []byte(`{"label":"1,5","a":1}`)}, &e)
	must.True(t, e.Refused == nil && e.Target == 1.5, "target %v, %v", e.Target, e.Refused)
	refuses(t, d, `{"label":"1,5,5","a":1}`, event.ReasonLabel)
	wire := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[{"name":"a","type":"string"},{"name":"zip","type":"string"}]}`})
	wire.ID, wire.Time, wire.Weight, wire.Text, wire.Ngrams, wire.Decimal = "", "", "", nil, 1, ","
	must.Equal(t, shown(t, wire, "\x00\x00\x00\x00\x01\x060,5\x061,5"), "? a:0.5:n zip=1,5:1:c", "avro")
}

func sameWords(a, b string) bool {
	for _, word := range strings.Fields(a) {
		if !strings.Contains(" "+b+" ", " "+word+" ") {
			return false
		}
	}
	return len(strings.Fields(a)) == len(strings.Fields(b))
}

// TestCategoriesAsNumbers checks that a numeric category has the same spelling in all formats. A text keeps its
// spelling, with an exception in CSV, where numbers are texts: the zero fraction that pandas adds to whole numbers is
// removed.
func TestCategoriesAsNumbers(t *testing.T) {
	base := DefaultConfig()
	base.Categorical, base.Columns, base.Label, base.Unlabeled = []string{"zip"}, []string{"zip"}, "", true
	for format, values := range map[string]map[string]string{
		"json": {"20095": "20095", "20095.0": "20095", "2.0095e4": "20095", "1234567.0": "1234567", "-0.50": "-0.5", "1e2": "100",
			`"00123"`: "00123", `"20095.0"`: "20095.0", "12345678901234567890": "12345678901234567890"},
		"csv": {"20095": "20095", "20095.0": "20095", "20095.000": "20095", "00123": "00123", "00123.0": "00123.0", "1.10": "1.10", "1.0": "1", "-7.0": "-7",
			"0.0": "0", "100": "100", "100.": "100.", ".0": ".0", "a.0": "a.0", "1.2.0": "1.2.0", `"20095.0"`: "20095"},
	} {
		for value, want := range values {
			c := base
			if c.Format = format; format == "json" {
				value = `{"zip":` + value + `}`
			}
			must.Equal(t, shown(t, c, value), "? zip="+want+":1:c", format, value, want)
		}
	}
	for kind, value := range map[string]string{
		"double": string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1234567))), "float": string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1234567))), "int": string(binary.AppendVarint(nil, 1234567)),
	} {
		c := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: fmt.Sprintf(`{"type":"record","name":"E","fields":[{"name":"zip","type":%q}]}`, kind)})
		c.ID, c.Time, c.Weight, c.Text, c.Ngrams = "", "", "", nil, 1
		must.Equal(t, shown(t, c, "\x00\x00\x00\x00\x01"+value), "? zip=1234567:1:c", "avro", kind)
	}
}
