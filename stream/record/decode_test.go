package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"
)

func TestMain(m *testing.M) {
	longtest.CollectRarely()
	m.Run()
}

func TestDecode(t *testing.T) {
	type line struct{ in, want string }
	for _, test := range []struct {
		name   string
		change func(*Config)
		lines  []line
	}{
		{"json", func(c *Config) { c.NaN = "refuse" }, []line{
			{`{"x":NaN}`, `not-finite: byte 6: NaN is not a number`},
			{`{"x":-Infinity}`, `not-finite: byte 6: -Infinity is not a number`},
			{`{"label":NaN}`, `not-finite: byte 10: NaN is not a number`},
		}},
		{"csv", func(c *Config) { c.Columns, c.NaN = []string{"label", "x"}, "refuse" }, []line{
			{`yes,NaN`, `not-finite: byte 5: column "x": NaN is not a number`},
		}},
		{"json", func(c *Config) {
			c.Weight, c.ID, c.Time, c.Drop, c.Categorical = "w", "meta.id", "meta.at", []string{"secret", "a.b"}, []string{"zip"}
		}, []line{
			{`{}`, `?`},
			{`{"label":"yes","x":1.5,"s":"red","t":["a","b","a"],"ok":true}`, `yes x:1.5:n s=red:1:c t=a:2:w t=b:1:w ok=true:1:b`},
			{` { "label" : "no" , "s" : null , "x":-2e3, "t":[ ] , "new":null } `, `no x:-2000:n -s`},
			{`{"x":0,"zip":80331,"secret":{"a":[1,{"b":"\u00e9"},null,true]},"a":{"b":{"c":1},"c":2}}`, `? x:0:n zip=80331:1:c a.c:2:n`},
			{`{"a":null}`, `? -a.c`},
			{`{"v":[1,null,2.5,[3],{"k":"q"},false]}`, `? v[0]:1:n v[2]:2.5:n v[3][0]:3:n v[4].k=q:1:c v[5]=false:1:b`},
			{`{"v":[null,1]}`, `? v[1]:1:n -v[0]`},
			{`{"x":"n/a"}`, `? x=n/a:1:c`},
			{`{"x":null}`, `? -x`},
			{`{"a.c":1,"a":{"c":2}}`, `? a.c:3:n`},
			{`{"w":2.5,"label":null,"meta":{"id":"k\n1","at":1500}}`, "? weight=2.5 key=k\n1 time=1500"},
			{`{"meta":{"id":17,"at":"2026-01-02T03:04:05.006+01:00"}}`, "? key=17 time=1767319445006"},
			{`{"e\u0073c":"\ud83d\ude00\ud800x\/"}`, "? esc=😀\ufffdx/:1:c"},
			{`{"esc":"é"}`, `? esc=é:1:c`},

			{``, `syntax: the record is empty`},
			{`[1]`, `syntax: byte 1: '[' where an object should be`},
			{`{"x":1`, `syntax: byte 7: the record ends where a comma or the object's end should be`},
			{`{"x":1}}`, `syntax: byte 8: '}' where the end of the record should be`},
			{`{"x":01}`, `syntax: byte 6: '0' where a value should be`},
			{`{"x":1,"x":1}`, `duplicate-field: byte 9: field "x" twice`},
			{`{"x":NaN}`, `? -x not-finite=1`},
			{`{"x":-Infinity,"a":{"c":Infinity},"zip":NaN,"secret":NaN}`, `? -x -zip -a.c not-finite=4`},
			{`{"v":[nan,2]}`, `? v[1]:2:n -v[0] not-finite=1`},
			{`{"label":NaN,"w":NaN,"x":1,"meta":{"at":-inf}}`, `? x:1:n not-finite=3`},
			{`{"x":-Infinite}`, `syntax: byte 6: '-' where a value should be`},
			{`{"x":NaNs}`, `syntax: byte 6: 'N' where a value should be`},
			{`{"x":1.1e30}`, `out-of-range: byte 6: field "x" is 1.1e30, the limit is 1e30`},
			{`{"x":1e999}`, `out-of-range: byte 6: field "x" is 1e999, the limit is 1e30`},
			{"{\"x\":\"a\xffb\"}", `syntax: byte 8: byte 0xff is not UTF-8: convert the text, with iconv -f LATIN1 -t UTF-8 if it is Latin-1`},
			{"{\"x\":\"a\tb\"}", `syntax: byte 8: control character U+0009 in a string`},
			{`{"t":["a"},"y":1}`, `syntax: byte 10: '}' where a comma or the array's end should be`},
			{`{"x":"a\`, `syntax: byte 9: the record ends where the end of a string should be`},
			{`{"x":"\u003:"}`, `syntax: byte 7: '\\' where \u and four hexadecimal digits should be`},
			{`{"x":"\u00g9"}`, `syntax: byte 7: '\\' where \u and four hexadecimal digits should be`},
			{`{"x":"\q"}`, `syntax: byte 7: '\\' where a known escape sequence should be`},
			{`{"label":"other"}`, `label: label "other" is not one of the classes ["yes" "no"], and no more are possible (max_classes 2)`},
			{`{"label":["yes"]}`, `label: byte 10: field "label" holds several values: an event has one label; for several, learn a model for each, as with jq -c '.label |= (index("CLASS") != null)'`},
			{`{"label":{"name":"yes"}}`, `label: byte 10: field "label" holds several values: name the value in it, as in record.label = "label.name"`},
			{`{"label":" "}`, `label: the label is empty: leave the field out, or write null, if the event has no label`},
			{`{"label":NaN}`, `? not-finite=1`},
			{`{"w":-1}`, `weight: byte 6: weight "-1": want a number from 0 to 1e+06`},
			{`{"w":1000001}`, `weight: byte 6: weight "1000001": want a number from 0 to 1e+06`},
			{`{"w":"1.5"}`, `? weight=1.5`},
			{`{"w":"heavy"}`, `weight: byte 6: weight "heavy": want a number from 0 to 1e+06`},
			{`{"meta":{"at":"noon"}}`, `syntax: byte 15: time "noon": want milliseconds since 1970, or a date as 2026-01-31T12:00:00Z, 2026-01-31 12:00 or 1/31/2026 (record.timezone)`},
			{"\x00\x00\x00\x01\x02{}", `confluent-wire: magic byte 0: a record of a schema registry, schema 258: the formats avro, protobuf and json-schema read it`},
			{strings.Repeat(`{"a":`, 100) + strings.Repeat(`}`, 100), `syntax: byte 321: nested deeper than 64`},
			{`{"t":["` + strings.Repeat(`b","`, 100) + `b"]}`, `? t=b:101:w`},
		}},
		{"json", func(c *Config) { c.MaxFeatures, c.MaxBytes = 2, 30 }, []line{
			{`{"a":1,"b":2,"c":3}`, `too-many: more features than max_features, 2`},
			{`{"a":1,"b":"` + strings.Repeat("x", 30) + `"}`, `oversize: 44 bytes, max_bytes is 30`},
		}},
		{"json", func(c *Config) { c.MaxFields = 2 }, []line{ // later names are in field 0
			{`{"a":1,"b":"x"}`, `? a:1:n b=x:1:s`},
			{`{"c":{"d":1},"e":[2,3]}`, `? c.d:1:s e[0]:2:s e[1]:3:s`},
			{`{"c":1,"c":2}`, `duplicate-field: byte 9: field "c" twice`},
		}},
		{"json", func(c *Config) { c.Crosses = [][2]string{{"a", "b"}, {"b", "b"}} }, []line{
			{`{"a":3,"b":2}`, `? a:3:n b:2:n a ^ b:6:x b ^ b:4:x`},
			{`{"a":3,"b":"u"}`, `? a:3:n b=u:1:c a ^ b=u:3:x b=u ^ b=u:1:x`},
			{`{"a":1e20,"b":1e20}`, `out-of-range: a^b is 1e+40, the limit is 1e30`},
		}},
		{"json", func(c *Config) { c.Crosses, c.MaxFeatures = [][2]string{{"a", "b"}}, 8 }, []line{
			{`{"a":["p","q"],"b":["s","t"]}`, `? a=p:1:w a=q:1:w b=s:1:w b=t:1:w a=p ^ b=s:1:x a=p ^ b=t:1:x a=q ^ b=s:1:x a=q ^ b=t:1:x`},
			{`{"a":["p","q","r"],"b":["s","t","u"]}`, `too-many: more features than max_features, 8`},
		}},
		{"svmlight", func(c *Config) {}, []line{
			{`+1 1:0.5 3:2 # a comment 7:1`, `+1 1:0.5 3:2`},
			{"  -1\tqid:4 3:-1e-3 1:.5 3:+2.\r\n", `-1 1:0.5 3:1.999`},
			{`1.0`, `+1`},
			{`+1.0 1:1`, `+1 1:1`},
			{`-1 4194304:1`, `-1 4194304:1`},

			{`2 1:1`, `label: label "2" is not one of the classes ["-1" "+1"], and no more are possible (max_classes 2)`},
			{`# nothing`, `syntax: byte 1: no label`},
			{`1:1 2:1`, `label: byte 1: "1:1" where the label should be`},
			{`1,2 2:1`, `label: byte 1: "1,2" where the label should be`},
			{`nan 2:1`, `not-finite: byte 1: label nan`},
			{`1 0:1`, `out-of-range: byte 3: index 0, but indices start at 1 (set zero_based if they start at 0)`},
			{`1 4194305:1`, `out-of-range: byte 3: index 4194305 needs more than bits 22`},
			{`1 2:1 x:1`, `syntax: byte 7: "x:1" where index:value should be`},
			{`1 2`, `syntax: byte 3: "2" where index:value should be`},
			{`1 2:`, `syntax: byte 3: "2:" where index:value should be`},
			{`1 2:1x`, `syntax: byte 3: "2:1x" where index:value should be`},
			{`1 2:0x10`, `syntax: byte 3: "2:0x10" where index:value should be`},
			{`1 2:-INF`, `not-finite: byte 3: "2:-INF" is not finite`},
			{`1 2:1e31`, `out-of-range: byte 3: "2:1e31" is beyond 1e30`},
			{`1 2:1e30 2:1e30`, `out-of-range: the features that meet in column 1 sum to 2e+30`},
		}},
		{"svmlight", func(c *Config) { c.ZeroBased, c.Unlabeled, c.MaxFeatures = true, true, 2 }, []line{
			{`0 0:1 7:2`, `? 0:1 7:2`},
			{`0 0:1 7:2 8:1`, `too-many: more features than max_features, 2`},
		}},
		{"svmlight", func(c *Config) { c.NumericIndices = false }, []line{
			{`0 0:1 999999999:2 0:3`, `0 0:4 999999999:2`},
		}},
		{"vw", func(c *Config) { c.Drop = []string{"x"} }, []line{
			{`1 | a b:2 1:3 0:4 8388608:5`, `1 a:1:s b:2:s 0:4:s 8388608:5:s 1:3:s`},
			{`-1 2.5 'id|ns:2 a b:.5 |ns a|x a:7| c`, `-1 ns=a:3:s ns=b:1:s c:1:s weight=2.5 key=id`},
			{`|a b`, `? a=b:1:s`},
			{`id|a b`, `? a=b:1:s key=id`},
			{`1 1`, `1`},
			{`1 2 3 |`, `syntax: byte 5: "3", want at most label, importance and tag before the first |`},
			{`1 -2 |`, `weight: byte 3: weight "-2": want a number from 0 to 1e+06`},
			{`nan |`, `not-finite: byte 1: label nan`},
			{`1:0.5 |`, `label: byte 1: "1:0.5" is not one label`},
			{`1 |a b:c`, `syntax: byte 6: "b:c", want name or name:number`},
			{`1 |a b:nan|`, `not-finite: byte 6: "b:nan" is not finite`},
			{`1 |a b:1e31`, `out-of-range: byte 6: "b:1e31" is beyond 1e30`},
			{`1 |a:1e20 b:1e20`, `out-of-range: byte 11: "b:1e20" is beyond 1e30`},
		}},
		{"csv", func(c *Config) {
			c.Columns, c.Weight, c.ID, c.Categorical = []string{"label", "age", "job", "w", "id", "zip"}, "w", "id", []string{"zip"}
			c.Infer = false
		}, []line{
			{`yes,39, clerk ,1,a,80331`, `yes age:39:n job=clerk:1:c zip=80331:1:c key=a`},
			{`no,NA,"a ""b"", c",.5,"x""y",NaN`, `no job=a "b", c:1:c zip=NaN:1:c -age weight=0.5 key=x"y`},
			{`,,,,,`, `? -age -job -zip`},
			{`yes,true,7,1,,` + "\r\n", `yes age=true:1:b job:7:n -zip`},
			{`yes,1`, `syntax: 2 values for 6 columns`},
			{`yes,1,2,3,4,5,6`, `syntax: byte 15: a value more than the 6 columns`},
			{`yes,1,a"b,3,4,5`, `syntax: byte 7: column "job": a quote that is not closed or does not enclose the whole value, or a newline without quotes`},
			{`yes,1,"ab"c,3,4,5`, `syntax: byte 7: column "job": a quote that is not closed or does not enclose the whole value, or a newline without quotes`},
			{`yes,1,"ab`, `syntax: byte 7: column "job": a quote that is not closed or does not enclose the whole value, or a newline without quotes`},
			{`yes,nan,a,3,4,5`, `yes job=a:1:c zip=5:1:c -age weight=3 key=4 not-finite=1`},
			{`yes,-1e40,a,3,4,5`, `out-of-range: byte 5: column "age": -1e40 is beyond 1e30`},
			{`yes,1,a,heavy,4,5`, `weight: byte 9: column "w": weight "heavy": want a number from 0 to 1e+06`},
			{`maybe,1,a,1,4,5`, `label: label "maybe" is not one of the classes ["yes" "no"], and no more are possible (max_classes 2)`},
		}},
		{"csv", func(c *Config) { c.Columns, c.Separator, c.Missing = []string{"label", "a"}, "\t", []string{"?"} }, []line{
			{"1\t?", `1`},
			{"1\t", `1 a=:1:c`},
			{"1\t?", `1 -a`},
		}},
		{"csv", func(c *Config) { c.Columns = []string{"label", "label.x"} }, []line{ // a missing label must not count as a missing feature
			{`yes,5`, `yes label.x:5:n`},
			{`,6`, `? label.x:6:n`},
		}},
		{"json", func(c *Config) { c.Counts = true }, []line{
			{`{"x":0,"y":-0.5,"z":-1}`, `out-of-range: a feature of field "y" is -0.5, but noise poisson needs features of at least 0`},
			{`{"x":0,"s":"red"}`, `? x:0:n s=red:1:c`},
		}},
		{"svmlight", func(c *Config) { c.Counts = true }, []line{
			{`1 1:2 7:-3`, `out-of-range: a feature of column 7 is -3, but noise poisson needs features of at least 0`},
			{`1 7:-3 1:2`, `out-of-range: a feature of column 7 is -3, but noise poisson needs features of at least 0`},
			{`1 1:2 7:0`, `1 1:2 7:0`},
		}},
		{"svmlight", func(c *Config) { c.Counts, c.ZeroBased = true, true }, []line{
			{`1 0:2 7:-3`, `out-of-range: a feature of column 7 is -3, but noise poisson needs features of at least 0`},
		}},
	} {
		c := DefaultConfig()
		c.MaxClasses = 2
		c.Format = test.name
		test.change(&c)
		s, d := newDecoder(t, c)
		var e event.Example
		for _, l := range test.lines {
			value := []byte(l.in)
			d.Decode(context.Background(), Record{Value: value}, &e)
			must.Equal(t, recordtest.Show(s, &e), l.want, test.name, l.in)
			must.True(t, e.Refused == nil || string(e.Refused.Value) == l.in, "%s %.80q: refused with other bytes %+v", test.name, l.in, e.Refused)
		}
	}
}

// TestDecodeAllocs checks that decoding allocates nothing once all names have been decoded.
func TestDecodeAllocs(t *testing.T) {
	for _, f := range formats {
		d := benchDecoder(t, f.name)
		r := Record{Value: benchRecord(t, f.name)}
		e := make([]event.Example, 2)
		d.Decode(context.Background(), r, &e[0])
		d.Decode(context.Background(), r, &e[1])
		must.Require(t, e[0].Refused == nil, "%v", e[0].Refused)
		must.Equal(t, testing.AllocsPerRun(100, func() {
			d.Decode(context.Background(), r, &e[0])
			d.Decode(context.Background(), r, &e[1])
		}), 0, f.name, "allocations")
	}
}

// TestNumber checks that number returns the same bits as strconv.ParseFloat.
func TestNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var text string
		switch r.IntN(4) {
		case 0:
			text = strconv.FormatFloat(math.Float64frombits(r.Uint64()), 'g', -1, 64)
		case 1:
			text = strconv.FormatFloat(r.NormFloat64(), "gfe"[r.IntN(3)], r.IntN(25), 64)
		case 2:
			text = fmt.Sprintf("%d.%de%d", r.Uint64N(1<<r.IntN(63)), r.Uint64N(1<<r.IntN(63)), r.IntN(60)-30)
		case 3:
			text = strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		}
		want, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(want, 0) || math.IsNaN(want) || strings.HasSuffix(text, "Inf") {
			continue
		}
		got, next := number([]byte(text), 0, true)
		must.Require(t, next == len(text) && math.Float64bits(got) == math.Float64bits(want), "%s is %v, want %v", text, got, want)
	}
}

// TestDecodeRestart checks a decoder that starts from the Schema of any moment, as after a crash. The decoder must
// return the same examples and the same Schema as an uninterrupted decoder.
func TestDecodeRestart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "b", "c", "a.b", "long name", "d[0]"}
	var value func(depth int) string
	value = func(depth int) string {
		switch n := r.IntN(9 - depth); n {
		case 0, 1:
			return strconv.Itoa(r.IntN(100))
		case 2, 3:
			return fmt.Sprintf("\"%c\"", 'p'+r.IntN(5))
		case 4:
			return []string{"true", "false"}[r.IntN(2)]
		case 5:
			return "null"
		case 6:
			return "[" + value(depth+1) + "," + value(depth+1) + "]"
		}
		out := []string{}
		for i, name := range names {
			if r.IntN(3) == 0 {
				out = append(out, fmt.Sprintf("%q:%s", name, value(min(depth+1, 3))))
			}
			if depth == 0 && i == 0 && r.IntN(4) > 0 {
				out = append(out, fmt.Sprintf(`"label":%q`, []string{"no", "yes", "1", "true"}[r.IntN(4)]))
			}
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	events := must.List(1000, func(int) string { return value(0) })
	for _, maxFields := range []int{10, 1000} {
		c := DefaultConfig()
		c.MaxFields, c.MaxNames, c.Crosses = maxFields, 40, [][2]string{{"a", "b"}}
		state := func(s *event.Schema) string {
			text := must.Get(json.Marshal(s))(t)
			return string(text) + string(s.Names.Blocks()[0].Data)
		}
		s, d := newDecoder(t, c)
		var e event.Example
		var want []string
		var known []*event.Schema
		for _, event := range events {
			known = append(known, s.View())
			d.Decode(context.Background(), Record{Value: []byte(event)}, &e)
			want = append(want, recordtest.Show(s, &e)+fmt.Sprint(e.Features, e.Field))
		}
		for _, from := range []int{0, 1, 2, 3, 10, 50, 299} {
			at := known[from]
			names := must.Get(event.ReadNames(at.Names.Blocks()))(t)
			text, _ := json.Marshal(at)
			again := &event.Schema{Names: names}
			must.Do(t, json.Unmarshal(text, again))
			d := must.Get(NewDecoder(c, again))(t)
			for i, ev := range events[from:] {
				e := decoded(d, ev)
				got := recordtest.Show(again, &e) + fmt.Sprint(e.Features, e.Field)
				must.Require(t, got == want[from+i], "restarted at event %d, event %d %s:\n got %s\nwant %s", from, from+i, ev, got, want[from+i])
			}
			must.Require(t, state(again) == state(s), "restarted at event %d: another Schema", from)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	must.Do(t, DefaultConfig().Check())
	for want, change := range map[string]func(*Config){
		"format":            func(c *Config) { c.Format = "xml" },
		"bits":              func(c *Config) { c.Bits = 32 },
		"classes":           func(c *Config) { c.Classes = []string{"a", "a"} },
		"max_classes":       func(c *Config) { c.MaxClasses = 1 },
		"max_fields":        func(c *Config) { c.MaxFields = 1 << 20 },
		"max_features":      func(c *Config) { c.MaxFeatures = 0 },
		"max_bytes":         func(c *Config) { c.MaxBytes = 0 },
		"max_names":         func(c *Config) { c.MaxNames = -1 },
		"separator":         func(c *Config) { c.Separator = ";;" },
		"crosses":           func(c *Config) { c.Crosses = [][2]string{{"a", ""}} },
		`weight: field "x"`: func(c *Config) { c.Weight, c.Drop = "x", []string{"x"} },
	} {
		c := DefaultConfig()
		change(&c)
		err := c.Check()
		must.True(t, err != nil && strings.HasPrefix(err.Error(), want), "%s: %v", want, err)
	}
}

// TestDecodersShareSchema checks two decoders that alternate on one Schema. The decoders must add every field once, and
// a null must mark a field that only the other decoder has seen.
func TestDecodersShareSchema(t *testing.T) {
	c := DefaultConfig()
	s := c.Schema()
	var two [2]Decoder
	for i := range two {
		two[i] = must.Get(NewDecoder(c, s))(t)
	}
	var e event.Example
	for i := range 4 {
		two[i%2].Decode(context.Background(), Record{Value: []byte(`{"label":"a","x":1,"word":"w"}`)}, &e)
	}
	must.Equal(t, len(s.Fields), 3, "fields", s.Fields)
	two[0].Decode(context.Background(), Record{Value: []byte(`{"label":"a","y":1}`)}, &e)
	two[1].Decode(context.Background(), Record{Value: []byte(`{"label":"a","y":null}`)}, &e)
	must.True(t, len(e.Missing) == 1 && s.Fields[e.Missing[0]].Name == "y", "missing %v of %+v", e.Missing, s.Fields)
}

// TestEmptyValuesAreLimited checks that a record with very many empty values, which give no features, is refused
// because of max_features. A CSV header with too many columns must be refused too.
func TestEmptyValuesAreLimited(t *testing.T) {
	c := DefaultConfig()
	c.MaxFeatures = 100
	for value, want := range map[string]event.Reason{
		`[` + strings.Repeat("[],", 300) + `[]]`:             "",
		`[` + strings.Repeat("[],", 500) + `[]]`:             event.ReasonTooMany,
		`[` + strings.Repeat("{},", 500) + `{}]`:             event.ReasonTooMany,
		`[` + strings.Repeat("null,", 500) + `0]`:            event.ReasonTooMany,
		`[` + strings.Repeat(`{"b":{}},`, 250) + `0]`:        event.ReasonTooMany,
		`{` + strings.Repeat(`"b":[],`, 1) + `"c":[[[0]]]}`:  "",
		`[` + strings.Repeat(`[[[[[[]]]]]],`, 80) + `[1,2]]`: event.ReasonTooMany,
	} {
		d := must.Get(NewDecoder(c, c.Schema()))(t)
		e := decoded(d, `{"a":`+value+`}`)
		must.True(t, (e.Refused != nil || want == "") && (e.Refused == nil || e.Refused.Reason == want), "%.40s: %v, want %q", value, e.Refused, want)
	}
	c.Format = "csv"
	for columns, refused := range map[int]bool{104: false, 107: true, 300_000: true} {
		c.Columns = []string{"label"}
		for i := range columns {
			c.Columns = append(c.Columns, strconv.Itoa(i))
		}
		_, err := NewDecoder(c, c.Schema())
		refusal := (*event.Refusal)(nil)
		must.True(t, errors.As(err, &refusal) == refused && (!refused || refusal.Reason == event.ReasonTooMany), "%d columns: %v", columns, err)
	}
}

// TestLongRecordsTakeLittleMemory checks that a record with too many fields takes memory in proportion to its bytes,
// however long the joined names are.
func TestLongRecordsTakeLittleMemory(t *testing.T) {
	objects := &strings.Builder{}
	for i := range 90_000 {
		fmt.Fprintf(objects, `"k%d":1,`, i)
	}
	for _, value := range []string{
		`{"x":[` + strings.Repeat("1,", 89_999) + `1]}`,
		`{` + objects.String() + `"x":1}`,
		`{"` + strings.Repeat("k", 4000) + `":[` + strings.Repeat("1,", 19_999) + `1]}`,
		`{"` + strings.Repeat("k", 200) + `":[` + strings.Repeat("1,", 19_999) + `1]}`,
		`{"x":[` + strings.Repeat(`{"a":1},`, 20_000) + `1]}`,
	} {
		c := DefaultConfig()
		d := must.Get(NewDecoder(c, c.Schema()))(t)
		var e event.Example
		var before, after runtime.MemStats
		for range 3 { // the first records fill the tree
			runtime.ReadMemStats(&before)
			d.Decode(context.Background(), Record{Value: []byte(value)}, &e)
			runtime.ReadMemStats(&after)
		}
		took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(value))
		must.True(t, e.Refused == nil && took <= 30, "%.30s, %d bytes: %v, took %.1f times as many", value, len(value), e.Refused, took)
	}
}

// newDecoder returns a decoder with a new Schema.
func newDecoder(t testing.TB, c Config) (*event.Schema, Decoder) {
	t.Helper()
	s := c.Schema()
	return s, must.Get(NewDecoder(c, s))(t)
}

// decoded returns the event that a decoder makes of a value.
func decoded[Text string | []byte](d Decoder, value Text) (e event.Example) {
	d.Decode(context.Background(), Record{Value: []byte(value)}, &e)
	return e
}

// refuses checks that a decoder refuses a value for the given reason.
func refuses[Text string | []byte](t *testing.T, d Decoder, value Text, reason event.Reason) {
	t.Helper()
	e := decoded(d, value)
	must.True(t, e.Refused != nil && e.Refused.Reason == reason, "%q: %v, want %s", value, e.Refused, reason)
}

// TestDocumentedExamples checks that the examples in docs/formats.md give the documented results.
func TestDocumentedExamples(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/formats.md"))(t)
	kind := regexp.MustCompile(`:[sncwbx]\b`)
	formatsShown := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```records\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		config, records, _ := strings.Cut(block[1], "\n\n")
		c := DefaultConfig()
		must.Get(toml.Decode(config, &c))(t)
		formatsShown[c.Format] = true
		s, d := newDecoder(t, c)
		var e event.Example
		lines := strings.Split(strings.TrimSpace(records), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			d.Decode(context.Background(), Record{Value: []byte(strings.TrimPrefix(lines[i], "> "))}, &e)
			got := kind.ReplaceAllString(recordtest.Show(s, &e), "")
			must.True(t, got == lines[i+1], "%s\n got %s\nwant %s", lines[i], got, lines[i+1])
		}
	}
	for _, f := range formats {
		must.True(t, f.framing.none || formatsShown[f.name], "no example of %s", f.name)
	}
}
