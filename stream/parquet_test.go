package stream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/record"
)

type parquetInner struct {
	City  string   `parquet:"city"`
	Score *float64 `parquet:"score,optional"`
}

type parquetEvent struct {
	Label  string            `parquet:"label"`
	X      *float64          `parquet:"x,optional"`
	N      int64             `parquet:"n"`
	Small  uint32            `parquet:"small"`
	Yes    bool              `parquet:"yes"`
	Shop   string            `parquet:"shop,dict"`
	At     time.Time         `parquet:"at,timestamp(microsecond)"`
	Price  int64             `parquet:"price,decimal(2:10)"`
	Words  []string          `parquet:"words,list"`
	Plain  []string          `parquet:"plain"`
	Nested *parquetInner     `parquet:"nested,optional"`
	Many   []parquetInner    `parquet:"many,list"`
	Map    map[string]int64  `parquet:"map"`
	Deep   [][]string        `parquet:"-"`
	Empty  map[string]string `parquet:"-"`
}

func number(x float64) *float64 { return &x }

// parquetFile writes rows to a file, with row groups of the given size.
func parquetFile[T any](t testing.TB, rows []T, each int, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	for len(rows) > 0 {
		n := min(each, len(rows))
		must.Get(w.Write(rows[:n]))(t)
		must.Do(t, w.Flush())
		rows = rows[n:]
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

// TestParquetLines checks the conversion of rows to lines of JSON for each kind of column.
func TestParquetLines(t *testing.T) {
	at := time.Date(1969, 12, 31, 23, 59, 59, 999_500_000, time.UTC)
	rows := []parquetEvent{
		{Label: "yes", X: number(1.5), N: -7, Small: 4e9, Yes: true, Shop: "a\"b\\\n<ü>", At: at, Price: -1234, Words: []string{"red", "car"}, Plain: []string{"p"},
			Nested: &parquetInner{"Rome", number(2)}, Many: []parquetInner{{"x", nil}, {"y", number(3)}}, Map: map[string]int64{"k": 5}},
		{Label: "no", Shop: "\xff", At: at.Add(time.Second)},
		{Label: "no", X: number(-0.25), Words: []string{""}, Nested: &parquetInner{City: "Bern"}, At: time.UnixMilli(1700000000123)},
	}
	want := `{"label":"yes","x":1.5,"n":-7,"small":4000000000,"yes":true,"shop":"a\"b\\\n<ü>","at":"1969-12-31T23:59:59.999Z","price":-1234e-2,"words":["red","car"],"plain":["p"],` +
		`"nested":{"city":"Rome","score":2},"many":[{"city":"x","score":null},{"city":"y","score":3}],"map":{"k":5}}
{"label":"no","x":null,"n":0,"small":0,"yes":false,"shop":"` + "\xff" + `","at":"1970-01-01T00:00:00.999Z","price":0e-2,"words":[],"plain":[],"nested":null,"many":[],"map":{}}
{"label":"no","x":-0.25,"n":0,"small":0,"yes":false,"shop":"","at":"2023-11-14T22:13:20.123Z","price":0e-2,"words":[""],"plain":[],"nested":{"city":"Bern","score":null},"many":[],"map":{}}
`
	for _, each := range []int{1, 2, 3} {
		data := parquetFile(t, rows, each)
		p := must.Get(openParquet(bytes.NewReader(data), int64(len(data)), 1<<20))(t)
		got, err := io.ReadAll(p)
		must.True(t, err == nil && string(got) == want, "%d rows a group: %v\n%s\nwant\n%s", each, err, got, want)
	}
}

func parquetConfig() record.Config {
	c := record.DefaultConfig()
	c.Classes = []string{"no", "yes"}
	return c
}

func readParquet(t *testing.T, path string, from event.Offsets) (all []event.Example, s *event.Schema, err error) {
	t.Helper()
	c := parquetConfig()
	s = c.Schema()
	in, err := Input{Where: path, Record: c}.Open(t.Context(), s, from)
	if err != nil {
		return nil, s, err
	}
	defer in.Close()
	for {
		var b event.Batch
		if err := in.Next(context.Background(), &b); errors.Is(err, io.EOF) {
			return all, s, nil
		} else if err != nil {
			return all, s, err
		}
		all = append(all, b.Examples...)
	}
}

// TestParquetFile checks that a Parquet file is read as events: nulls are missing, and strings are categories. The
// offset of an event is its row number, and reading can continue from any row. A Parquet file with any name must be
// detected by its first bytes.
func TestParquetFile(t *testing.T) {
	type ev struct {
		Label string   `parquet:"label"`
		X     *float64 `parquet:"x,optional"`
		Shop  string   `parquet:"shop"`
	}
	var rows []ev
	for i := range 1000 {
		e := ev{Label: []string{"no", "yes"}[i%2], Shop: []string{"a", "b", "c"}[i%3]}
		if i%5 != 4 {
			e.X = number(float64(i))
		}
		rows = append(rows, e)
	}
	data := parquetFile(t, rows, 300, parquet.Compression(&parquet.Zstd))
	for _, name := range []string{"events.parquet", "events"} {
		path := must.File(t, name, data)
		all, s, err := readParquet(t, path, nil)
		must.Require(t, err == nil && len(all) == 1000, "%d events, %v", len(all), err)
		for i, e := range all {
			must.Require(t, e.Offset == int64(i) && e.Label == i%2 && e.Refused == nil && len(e.Missing) == map[bool]int{true: 1}[i%5 == 4] && len(e.Features.Index) == 2-len(e.Missing), "event %d: %+v", i, e)
			must.Require(t, i%5 == 4 || slices.Contains(e.Features.Value, float64(i)), "event %d: %+v", i, e)
		}
		must.True(t, slices.IndexFunc(s.Fields, func(f event.Field) bool { return f.Name == "shop" && f.Kind == event.Categorical }) >= 0, "fields %+v", s.Fields)
		rest, _, err := readParquet(t, path, event.Offsets{{Topic: path, Next: 777}})
		must.True(t, err == nil && len(rest) == 223 && rest[0].Offset == 777 && rest[0].Fingerprint == all[777].Fingerprint, "going on: %d events, %v", len(rest), err)
	}
}

// TestParquetDamaged checks that a damaged or unseekable file is an error that names the position.
func TestParquetDamaged(t *testing.T) {
	type event struct {
		Label string  `parquet:"label"`
		X     float64 `parquet:"x"`
	}
	rows := must.List(2000, func(i int) event { return event{[]string{"no", "yes"}[i%2], float64(i)} })
	data := parquetFile(t, rows, 500)
	read := func(name string, data []byte) (int, error) {
		path := must.File(t, name, data)
		all, _, err := readParquet(t, path, nil)
		return len(all), err
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"cut.parquet", data[:len(data)-100], "cut.parquet: it is not a Parquet file, or is damaged"},
		{"text.parquet", []byte("hello"), "text.parquet: it is not a Parquet file, or is damaged"},
		{"empty.parquet", nil, "empty.parquet: it is not a Parquet file, or is damaged"},
	} {
		n, err := read(tt.name, tt.data)
		must.True(t, err != nil && n <= 0 && strings.Contains(err.Error(), tt.want), "%s: %d events, %v", tt.name, n, err)
	}
	broken := slices.Clone(data)
	at := len(data) / 2
	for i := range 200 {
		broken[at+i] ^= 0x5a
	}
	n, err := read("broken.parquet", broken)
	must.True(t, err != nil && n != 2000 && strings.Contains(err.Error(), "broken.parquet") && strings.Contains(err.Error(), "row "), "%d events, %v", n, err)
	t.Log(n, err)
}

// TestParquetText checks that strings are written as encoding/json writes them. Invalid UTF-8 does not change, so that
// the decoder refuses it.
func TestParquetText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "\"", "\\", "\n", "\t", "\x00", "\x1f", "\x7f", "é", "\u2028", "\u2029", "\xff", "\xe2\x80", "\xf0\x9f\x98", "😀", "<&>", "\ufffd"}
	for range 5000 {
		s := ""
		for range r.IntN(8) {
			s += pieces[r.IntN(len(pieces))]
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		must.Do(t, e.Encode(strings.ToValidUTF8(s, "\ufffd")))
		if !utf8.ValidString(s) {
			must.True(t, !utf8.Valid(appendText(nil, s)), "%q became valid", s)
			continue
		}
		for _, got := range []string{string(appendText(nil, s)), string(appendText(nil, []byte(s)))} {
			must.Require(t, got+"\n" == want.String(), "%q is %s, want %s", s, got, &want)
		}
	}
}

// TestParquetAmplifiers checks that a page that requests more memory than its bytes can need is rejected before
// allocation. The error must name the column.
func TestParquetAmplifiers(t *testing.T) {
	longtest.NotRaced(t)
	type event struct {
		Label string `parquet:"label"`
		Text  string `parquet:"text,dict"`
	}
	type lists struct {
		Words []string `parquet:"words,dict"`
	}
	long := strings.Repeat("x", 2<<20)
	var rows, many []event
	for i := range 200 {
		rows = append(rows, event{"a", long})
		many = append(many, event{"a", long[:1000+i]})
	}
	small := parquetFile(t, many, 100, parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1))
	for _, c := range []struct {
		name string
		data []byte
		want string // part of the error text; "" for no error
		rows int
	}{
		{"a long string in a dictionary", parquetFile(t, rows, 200, parquet.Compression(&parquet.Zstd), parquet.SkipPageBounds("text")), "", 200},
		{"lz4", parquetFile(t, many, 100, parquet.Compression(&parquet.Lz4Raw)), "is compressed by LZ4_RAW, which is not read", 0},
		{"gzip", small, "", 200},
		{"snappy", parquetFile(t, many, 100, parquet.Compression(&parquet.Snappy)), "", 200},
		{"zstd", parquetFile(t, many, 100, parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(2)), "", 200},
		{"lists of one word", parquetFile(t, []lists{{slices.Repeat([]string{"a"}, 20<<20)}}, 1, parquet.PageBufferSize(1<<30), parquet.Compression(&parquet.Zstd)), "write smaller pages", 0},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := openParquet(bytes.NewReader(c.data), int64(len(c.data)), 1<<20)
		n := 0
		if err == nil {
			s := bufio.NewScanner(p)
			for s.Buffer(nil, 2<<20); s.Scan(); n++ {
			}
			err = s.Err()
			p.Close()
		}
		runtime.ReadMemStats(&after)
		took, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+8*len(c.data))
		must.True(t, took <= most, "%s: %d bytes took %d, want %d at most", c.name, len(c.data), took, most)
		must.True(t, n == c.rows && (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)), "%s: %d rows, %v", c.name, n, err)
	}
}

// TestParquetPageSize checks a page whose decompressed size exceeds the size in its header. Reading must fail, and take
// little memory.
func TestParquetPageSize(t *testing.T) {
	const size = 64 << 20
	for _, codec := range []compress.Codec{&parquet.Gzip, &parquet.Zstd, &parquet.Snappy} {
		packed := must.Get(codec.Encode(nil, make([]byte, size)))(t)
		head := pageHead{size: 10 + size, compressed: int64(10 + len(packed)), levels: 10, packed: true}
		file := bytes.NewReader(append(make([]byte, 10), packed...))
		must.Do(t, checkPage(file, 0, head, codec.CompressionCodec()), codec)
		head.size--
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must.ErrorIs(t, checkPage(file, 0, head, codec.CompressionCodec()), errPageSize, codec)
		runtime.ReadMemStats(&after)
		must.True(t, after.TotalAlloc-before.TotalAlloc <= 40<<20, "%v: %d MB were allocated", codec, (after.TotalAlloc-before.TotalAlloc)>>20)
		head.packed = false
		must.Do(t, checkPage(file, 0, head, codec.CompressionCodec()), codec, "not packed")
	}
}

// TestParquetKinds reads columns that programs write but few people: rows beyond empty row groups, NaN and infinities,
// half-precision floats, dates, and bytes that are not text.
func TestParquetKinds(t *testing.T) {
	type ev struct {
		Label string    `parquet:"label"`
		X     float64   `parquet:"x"`
		Half  [2]byte   `parquet:"half"`
		Day   int32     `parquet:"day,date"`
		Local time.Time `parquet:"local,timestamp(millisecond:local)"`
		Bytes []byte    `parquet:"bytes"`
	}
	at := time.UnixMilli(1700000000123)
	var rows []ev
	for i, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.5} {
		half := [][2]byte{{0, 0x3e}, {0, 0x7c}, {1, 0x80}, {0, 0xc4}}[i] // 1.5, infinity, -2^-24, -4
		rows = append(rows, ev{"yes", x, half, 20000, at, []byte{byte('a' + i), byte(0x7e + i)}})
	}
	data := parquetFile(t, rows, 2)
	p := must.Get(openParquet(bytes.NewReader(data), int64(len(data)), 1<<20))(t)
	p.half = map[int]bool{2: true} // the parquet package cannot write the type
	p.groups, p.heads = slices.Insert(p.groups, 1, parquet.RowGroup(emptyGroup{p.groups[0]})), slices.Insert(p.heads, 1, p.heads[0])
	p.groups, p.heads = append(p.groups, emptyGroup{p.groups[0]}), append(p.heads, p.heads[0])
	got := string(must.Get(io.ReadAll(p))(t))
	want := ""
	for i, x := range []string{"NaN", "Infinity", "-Infinity", "1.5"} {
		want += `{"label":"yes","x":` + x + `,"half":` + []string{"1.5", "Infinity", "-5.9604645e-08", "-4"}[i] + `,"day":"2024-10-04T00:00:00","local":"2023-11-14T22:13:20.123","bytes":"` + []string{"a~", "b\x7f", "6380", "6481"}[i] + "\"}\n"
	}
	must.Equal(t, got, want, "the lines")
	half := []format.SchemaElement{{}, {Type: thrift.New(format.Int32)}, {Type: thrift.New(format.FixedLenByteArray), LogicalType: format.LogicalType{Value: &format.Float16Type{}}}}
	must.True(t, halves(half)[1] && !halves(half)[0], "half-precision floats: %v", halves(half))
	for bits, want := range map[uint16]float64{0x3c00: 1, 0xbc00: -1, 0x7bff: 65504, 0x0400: math.Ldexp(1, -14), 0x0001: math.Ldexp(1, -24), 0x0000: 0} {
		must.Equal(t, float16(bits), want, bits)
	}
	must.True(t, math.IsNaN(float16(0x7e00)) && math.IsInf(float16(0xfc00), -1), "NaN and -infinity")
}

// emptyGroup is a row group without rows, as some programs write. Its columns cannot be read.
type emptyGroup struct{ parquet.RowGroup }

func (emptyGroup) NumRows() int64 { return 0 }

// FuzzParquet reads arbitrary bytes as a Parquet file. It may return an error but must not panic, and the output must
// be lines of JSON.
func FuzzParquet(f *testing.F) {
	at := time.UnixMilli(5)
	f.Add(parquetFile(f, []parquetEvent{{Label: "yes", X: number(1), At: at, Words: []string{"a", "b"}, Many: []parquetInner{{"x", nil}}, Map: map[string]int64{"k": 1}}, {Label: "no", At: at}}, 1))
	f.Add(parquetFile(f, []parquetInner{{"x", number(1)}}, 1, parquet.Compression(&parquet.Snappy)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := openParquet(bytes.NewReader(data), int64(len(data)), 1<<20)
		if err != nil {
			return
		}
		defer p.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(p, 1<<20))
		must.True(t, err == nil || strings.Contains(err.Error(), "row "), "an error without a place: %v", err)
	})
}

// TestParquetLengths writes a length beyond the file at every position of a file that may be a length. Reading must
// fail before it allocates memory of that length.
func TestParquetLengths(t *testing.T) {
	longtest.NotRaced(t)
	at := time.UnixMilli(5)
	data := parquetFile(t, []parquetEvent{{Label: "yes", X: number(1), At: at, Words: []string{"a", "b"}, Many: []parquetInner{{"x", nil}}, Map: map[string]int64{"k": 1}}, {Label: "no", At: at}}, 1)
	step := must.Either(longtest.Asked(), 3, 18)
	var before, after runtime.MemStats
	for i := 4; i+5 < len(data); i += step {
		for shift := range 2 {
			broken := slices.Clone(data)
			// The variable-length encodings of 2 GB, as an unsigned and as a signed number.
			copy(broken[i+shift:], [][]byte{{0xff, 0xff, 0xff, 0xff, 0x07}, {0xfe, 0xff, 0xff, 0xff, 0x0f}}[i/3%2])
			runtime.ReadMemStats(&before)
			p, err := openParquet(bytes.NewReader(broken), int64(len(broken)), 1<<20)
			if err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(p, 1<<20)) // some positions give an error
				p.Close()
			}
			runtime.ReadMemStats(&after)
			must.Require(t, after.TotalAlloc-before.TotalAlloc <= 64<<20, "a length at byte %d of %d: %d MB were allocated", i+shift, len(data), (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}
}

// TestParquetLabels checks that numeric labels of a Parquet file become classes named by their integers, and text
// labels become classes named by their text.
func TestParquetLabels(t *testing.T) {
	read := func(data []byte) []string {
		path := must.File(t, "labels.parquet", data)
		c := record.DefaultConfig()
		s := c.Schema()
		in := must.Get(Input{Where: path, Record: c}.Open(t.Context(), s, nil))(t)
		defer in.Close()
		for e := range eventtest.Examples(t, in.Next) {
			must.True(t, e.Refused == nil, "%v", e.Refused)
		}
		return s.Classes
	}
	type double struct {
		Label float64 `parquet:"label"`
		X     float64 `parquet:"x"`
	}
	type long struct {
		Label int64   `parquet:"label"`
		X     float64 `parquet:"x"`
	}
	type text struct {
		Label string  `parquet:"label"`
		X     float64 `parquet:"x"`
	}
	for name, c := range map[string]struct{ got, want []string }{
		"double": {read(parquetFile(t, []double{{1234567, 1}, {20260101, 2}, {2.5, 3}, {1234567, 4}}, 2)), []string{"1234567", "20260101", "2.5"}},
		"long":   {read(parquetFile(t, []long{{9007199254740992, 1}, {9007199254740993, 2}, {-7, 3}}, 2)), []string{"9007199254740992", "9007199254740993", "-7"}},
		"text":   {read(parquetFile(t, []text{{"00123", 1}, {"123", 2}, {"1e2", 3}, {"00123", 4}}, 2)), []string{"00123", "123", "1e2"}},
	} {
		must.EqualSlices(t, c.got, c.want, name, "classes")
	}
}
