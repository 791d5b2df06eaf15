package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout"
	"blankout/record"

	"github.com/parquet-go/parquet-go"
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

// parquetFile writes rows into a file, a row group for each so many.
func parquetFile[T any](t testing.TB, rows []T, each int, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	for len(rows) > 0 {
		n := min(each, len(rows))
		if _, err := w.Write(rows[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Rows are lines of JSON: what each kind of column becomes.
func TestParquetLines(t *testing.T) {
	at := time.Date(1969, 12, 31, 23, 59, 59, 999_500_000, time.UTC)
	rows := []parquetEvent{
		{Label: "yes", X: number(1.5), N: -7, Small: 4e9, Yes: true, Shop: "a\"b\\\n<ü>", At: at, Price: -1234, Words: []string{"red", "car"}, Plain: []string{"p"},
			Nested: &parquetInner{"Rome", number(2)}, Many: []parquetInner{{"x", nil}, {"y", number(3)}}, Map: map[string]int64{"k": 5}},
		{Label: "no", Shop: "\xff", At: at.Add(time.Second)},
		{Label: "no", X: number(-0.25), Words: []string{""}, Nested: &parquetInner{City: "Bern"}, At: time.UnixMilli(1700000000123)},
	}
	want := `{"label":"yes","x":1.5,"n":-7,"small":4000000000,"yes":true,"shop":"a\"b\\\n<ü>","at":-1,"price":-1234e-2,"words":["red","car"],"plain":["p"],` +
		`"nested":{"city":"Rome","score":2},"many":[{"city":"x","score":null},{"city":"y","score":3}],"map":{"k":5}}
{"label":"no","x":null,"n":0,"small":0,"yes":false,"shop":"` + "\ufffd" + `","at":999,"price":0e-2,"words":[],"plain":[],"nested":null,"many":[],"map":{}}
{"label":"no","x":-0.25,"n":0,"small":0,"yes":false,"shop":"","at":1700000000123,"price":0e-2,"words":[""],"plain":[],"nested":{"city":"Bern","score":null},"many":[],"map":{}}
`
	for _, each := range []int{1, 2, 3} {
		data := parquetFile(t, rows, each)
		p, err := openParquet(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(p)
		if err != nil || string(got) != want {
			t.Errorf("%d rows a group: %v\n%s\nwant\n%s", each, err, got, want)
		}
	}
}

func parquetConfig() record.Config {
	c := record.DefaultConfig()
	c.Classes = []string{"no", "yes"}
	return c
}

func readParquet(t *testing.T, path string, from blankout.Offsets) (all []blankout.Example, s *blankout.Schema, err error) {
	t.Helper()
	c := parquetConfig()
	s = c.Schema()
	in, err := Input{Where: path, Record: c}.Open(t.Context(), s, from)
	if err != nil {
		return nil, s, err
	}
	defer in.Close()
	for {
		var b blankout.Batch
		if err := in.Next(context.Background(), &b); errors.Is(err, io.EOF) {
			return all, s, nil
		} else if err != nil {
			return all, s, err
		}
		all = append(all, b.Examples...)
	}
}

// A Parquet file is read as events: nulls are missing, strings categories, the position is
// the row, and reading goes on from there. One without the name is known by its first bytes.
func TestParquetFile(t *testing.T) {
	type event struct {
		Label string   `parquet:"label"`
		X     *float64 `parquet:"x,optional"`
		Shop  string   `parquet:"shop"`
	}
	var rows []event
	for i := range 1000 {
		e := event{Label: []string{"no", "yes"}[i%2], Shop: []string{"a", "b", "c"}[i%3]}
		if i%5 != 4 {
			e.X = number(float64(i))
		}
		rows = append(rows, e)
	}
	data := parquetFile(t, rows, 300, parquet.Compression(&parquet.Zstd))
	for _, name := range []string{"events.parquet", "events"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		all, s, err := readParquet(t, path, nil)
		if err != nil || len(all) != 1000 {
			t.Fatalf("%d events, %v", len(all), err)
		}
		for i, e := range all {
			if e.Offset != int64(i) || e.Label != i%2 || e.Refused != nil || len(e.Missing) != map[bool]int{true: 1}[i%5 == 4] || len(e.Features.Index) != 2-len(e.Missing) {
				t.Fatalf("event %d: %+v", i, e)
			}
			if i%5 != 4 && !slices.Contains(e.Features.Value, float64(i)) {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
		if i := slices.IndexFunc(s.Fields, func(f blankout.Field) bool { return f.Name == "shop" && f.Kind == blankout.Categorical }); i < 0 {
			t.Errorf("fields %+v", s.Fields)
		}
		rest, _, err := readParquet(t, path, blankout.Offsets{{Topic: path, Next: 777}})
		if err != nil || len(rest) != 223 || rest[0].Offset != 777 || rest[0].Fingerprint != all[777].Fingerprint {
			t.Errorf("going on: %d events, %v", len(rest), err)
		}
	}
}

// A damaged file, and what cannot be read from its end, is an error that names the place.
func TestParquetDamaged(t *testing.T) {
	type event struct {
		Label string  `parquet:"label"`
		X     float64 `parquet:"x"`
	}
	var rows []event
	for i := range 2000 {
		rows = append(rows, event{[]string{"no", "yes"}[i%2], float64(i)})
	}
	data := parquetFile(t, rows, 500)
	read := func(name string, data []byte) (int, error) {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		all, _, err := readParquet(t, path, nil)
		return len(all), err
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"cut.parquet", data[:len(data)-100], "cut.parquet: it is no Parquet file, or is damaged"},
		{"text.parquet", []byte("hello"), "text.parquet: it is no Parquet file, or is damaged"},
		{"empty.parquet", nil, "empty.parquet: it is no Parquet file, or is damaged"},
	} {
		if n, err := read(tt.name, tt.data); err == nil || n > 0 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d events, %v", tt.name, n, err)
		}
	}
	broken := slices.Clone(data)
	at := len(data) / 2
	for i := range 200 {
		broken[at+i] ^= 0x5a
	}
	n, err := read("broken.parquet", broken)
	if err == nil || n == 2000 || !strings.Contains(err.Error(), "broken.parquet") || !strings.Contains(err.Error(), "row ") {
		t.Errorf("%d events, %v", n, err)
	}
	t.Log(n, err)
}

// FuzzParquet reads bytes as a Parquet file: there may be an error, never a panic, and what
// is read is lines of JSON.
func FuzzParquet(f *testing.F) {
	at := time.UnixMilli(5)
	f.Add(parquetFile(f, []parquetEvent{{Label: "yes", X: number(1), At: at, Words: []string{"a", "b"}, Many: []parquetInner{{"x", nil}}, Map: map[string]int64{"k": 1}}, {Label: "no", At: at}}, 1))
	f.Add(parquetFile(f, []parquetInner{{"x", number(1)}}, 1, parquet.Compression(&parquet.Snappy)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := openParquet(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		defer p.Close()
		if _, err := io.Copy(io.Discard, io.LimitReader(p, 1<<20)); err != nil && !strings.Contains(err.Error(), "row ") {
			t.Errorf("an error without a place: %v", err)
		}
	})
}

// A length that is beyond the file is an error before memory is taken for it: so says every
// place of a file at which one could be.
func TestParquetLengths(t *testing.T) {
	at := time.UnixMilli(5)
	data := parquetFile(t, []parquetEvent{{Label: "yes", X: number(1), At: at, Words: []string{"a", "b"}, Many: []parquetInner{{"x", nil}}, Map: map[string]int64{"k": 1}}, {Label: "no", At: at}}, 1)
	var before, after runtime.MemStats
	for i := 4; i+5 < len(data); i += 3 {
		for shift := range 2 {
			broken := slices.Clone(data)
			// 2 GB as a length, and as a signed number, of variable length.
			copy(broken[i+shift:], [][]byte{{0xff, 0xff, 0xff, 0xff, 0x07}, {0xfe, 0xff, 0xff, 0xff, 0x0f}}[i/3%2])
			runtime.ReadMemStats(&before)
			p, err := openParquet(bytes.NewReader(broken), int64(len(broken)))
			if err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(p, 1<<20)) // whether it fails depends on the place
				p.Close()
			}
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
				t.Fatalf("a length at byte %d of %d: %d MB were allocated", i+shift, len(data), (after.TotalAlloc-before.TotalAlloc)>>20)
			}
		}
	}
}
