package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream/record"
	"blankout/stream/record/recordtest"
)

func gz(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

func zst(text string) string {
	w, _ := zstd.NewWriter(nil)
	return string(w.EncodeAll([]byte(text), nil))
}

// readAll reads a file to its end, and returns the offset and content of every example. It overwrites each batch before
// it requests the next.
func readAll(path string, c record.Config, threads int, from int64) (lines []string, sum uint64, err error) {
	s := c.Schema()
	f, err := OpenFile(path, c, s)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if _, _, err := f.scanner.Skip(0, from); err != nil {
		return nil, 0, err
	}
	if threads > 0 {
		f.Ahead(threads, func(examples []event.Example) any {
			copies := must.Map(examples, func(e event.Example) event.Vec { return e.Features.Clone() })
			return copies
		})
	}
	position := event.Position{Next: from}
	var b event.Batch
	for {
		if err := f.Next(context.Background(), &b); err != nil {
			if err == io.EOF {
				err = nil
			}
			return lines, position.Sum, err
		}
		known := b.Schema
		for i := range b.Examples {
			e := &b.Examples[i]
			if threads > 0 && e.Refused == nil {
				if packed := f.Packed().([]event.Vec)[i]; !slices.Equal(packed.Index, e.Features.Index) || !slices.Equal(packed.Value, e.Features.Value) {
					return nil, 0, fmt.Errorf("offset %d: packed as %v", e.Offset, packed)
				}
			}
			if err := position.Advance(e.Offset, e.Fingerprint); err != nil {
				return nil, 0, err
			}
			lines = append(lines, fmt.Sprintf("%d: %s", e.Offset, strings.ReplaceAll(recordtest.Show(known, e), filepath.Dir(path)+"/", "")))
		}
		if b.Next < position.Next {
			return nil, 0, fmt.Errorf("batch ends at %d, its last example at %d", b.Next, position.Next)
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			clear(e.Features.Index)
			clear(e.Features.Value)
			clear(e.Key)
			if e.Refused != nil {
				clear(e.Refused.Value)
			}
		}
	}
}

func TestFile(t *testing.T) {
	images := "\x00\x00\x08\x03\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x02" + "\x00\xff\x00\x33" + "\x00\x00\x00\x00" + "\x01\x00\x00\x00"
	labels := "\x00\x00\x08\x01\x00\x00\x00\x03\x07\x00\x07"
	for _, test := range []struct {
		name, text string
		change     func(*record.Config)
		want       string // expected lines joined with newlines, or the error
	}{
		{"a.svm", "# head\n1 1:2\r\n\n -1 3:1 # x\nbad\n1 1:1", func(c *record.Config) { c.MaxClasses = 2 }, "1: 1 1:2\n3: -1 3:1\n4: label: a.svm:5: label \"bad\" is not one of the classes [\"-1\" \"1\"], and no more are possible (max_classes 2)\n5: 1 1:1"},
		{"a.svm.gz", gz("1 1:2\n"), nil, "0: 1 1:2"},
		{"a.svm.zst", zst("1 1:2\n") + zst("1 2:2"), nil, "0: 1 1:2\n1: 1 2:2"},
		{"a.jsonl", "\ufeff{\"label\":1,\"x\":2}\n\n{\"x\"\n", nil, "0: 1 x:2:n\n2: syntax: a.jsonl:3: byte 5: the record ends where a colon should be"},
		{"a.vw", "1 'k|n a\n", nil, "0: 1 n=a:1:s key=k"},
		{"a.csv", "label,\"x\"\"1\"\n1,\"two\nlines\"\n\"1\",3\n", nil, "1: 1 x\"1=two\nlines:1:c\n3: 1 x\"1:3:n"},
		{"a.csv", ",label,x,\n0,1,2,a\n1,1,,\"b\"\n2,1,3\n", nil, "1: 1 x:2:n\n2: 1 -x\n3: syntax: a.csv:4: 3 values for 4 columns"},
		{"a.csv", "label,x\n1,\"open\n2,3\n4,5\n", nil, "1: syntax: a.csv:2: byte 3: column \"x\": a quote that is not closed or does not enclose the whole value, or a newline without quotes\n2: 2 x:3:n\n3: 4 x:5:n"},
		{"a.tsv", "1;2\n", func(c *record.Config) { c.Format, c.Columns, c.Separator = "csv", []string{"label", "x"}, ";" }, "0: 1 x:2:n"},
		{"a.json", `{"x":1}`, func(c *record.Config) { c.Format = "svmlight" }, "0: label: a.json:1: byte 1: \"{\\\"x\\\":1}\" where the label should be"},
		{"a.svm", "1 1:1\n1 " + strings.Repeat("x", 100) + "\n1 2:1\n", func(c *record.Config) { c.MaxBytes = 20 },
			"0: 1 1:1\n1: oversize: a.svm:2: a line of more than max_bytes, 20; its rest is skipped\n2: 1 2:1"},
		{"a-images-idx3-ubyte", images, nil, "0: 7 2:1 4:0.2\n1: 0\n2: 7 1:0.00392156862745098"},
		{"a-images.idx3-ubyte.gz", gz(images), nil, "0: 7 2:1 4:0.2\n1: 0\n2: 7 1:0.00392156862745098"},
		{"b-images-idx3-ubyte", images, func(c *record.Config) { c.Unlabeled = true }, "0: ? 2:1 4:0.2\n1: ?\n2: ? 1:0.00392156862745098"},
		{"a.svm", "", nil, ""},

		{"a.txt", "1 1:1\n", nil, "error a.txt: its name does not show the format: name one of json, svmlight, vw, csv, as in --set record.format=json"},
		{"a.csv", "", nil, "error a.csv: syntax: no event was read: there is no header line"},
		{"a.csv", "y,x\n", nil, `error a.csv: no column "label" among ["y" "x"]: name the label's column in record.label (--label)`},
		{"a.csv", "label,x,x\n", nil, `error a.csv: duplicate-field: two columns are named "x": rename one in the header`},
		{"a.csv", "label,x\r1,2\r0,3\r", nil, "error a.csv: syntax: its lines end with CR alone, and are read as ending with LF: convert them with tr '\\r' '\\n' < FILE"},
		{"a.csv", "label,x\r1,2\r0,3", func(c *record.Config) { c.Growing, c.Columns = true, []string{"label", "x"} }, "error a.csv: syntax: its lines end with CR alone, and are read as ending with LF: convert them with tr '\\r' '\\n' < FILE"},
		{"a.csv", "label,x\r\"1,\r\",2\r", func(c *record.Config) { c.Growing = true }, "error a.csv: syntax: its lines end with CR alone, and are read as ending with LF: convert them with tr '\\r' '\\n' < FILE"},
		{"a.csv", "label,x\r\n1,2\r\n# of us\r\n", nil, "1: 1 x:2:n\n2: syntax: a.csv:3: 1 values for 2 columns: if it is a comment, remove it, as grep -v '^#' FILE does"},
		{"a.csv", "\ufeffsep=;\r\nlabel;x\r\n1;2\r\n", nil, "2: 1 x:2:n"},
		{"a.csv", "# of us\n\"sep=;\"\nlabel;x\n1;2\n", nil, "3: 1 x:2:n"},
		{"a.csv", "label,x\n1,2\nlabel,x\n0,3\n\"label\",x\nlabel,4\n", nil, "1: 1 x:2:n\n2: syntax: a.csv:3: the header again, as where files are put together\n3: 0 x:3:n\n4: syntax: a.csv:5: the header again, as where files are put together\n5: label x:4:n"},
		{"a.csv", "\ufefflabel,x\r\n1,2\r\n\ufeff\"label\",\"x\"\r\n0,3\r\n label\t, x \r\n\ufeff1,4\r\n", nil, "1: 1 x:2:n\n2: syntax: a.csv:3: the header again, as where files are put together\n3: 0 x:3:n\n4: syntax: a.csv:5: the header again, as where files are put together\n5: 1 x:4:n"},
		{"a.csv", ",label,x\n0,1,2\n,label,x\n,0,3\n", nil, "1: 1 x:2:n\n2: syntax: a.csv:3: the header again, as where files are put together\n3: 0 x:3:n"},
		{"a.csv", "\" \"\"x\",label\n2,1\n\" \"\"x\",label\n", nil, "1: 1  \"x:2:n\n2: syntax: a.csv:3: the header again, as where files are put together"},
		{"a.csv", "\ufeff# of us\r\n#\r\n\r\nSEP=;\r\n# more\r\nlabel;x\r\n1;2,5\r\n", nil, "6: 1 x=2,5:1:c"},
		{"a.csv", "# of us; and you\nsep=\t\nlabel\tx;y\n1\t2\n", nil, "3: 1 x;y:2:n"},
		{"a.csv", "# of us\nsep=; \nlabel;x\n1;2\n", nil, "3: 1 x:2:n"},
		{"a.csv", "# of us\nsep=;;\nlabel;x\n1;2\n", nil, "3: 1 x:2:n"},
		{"a.csv", "sep=|\n1|2\n", func(c *record.Config) { c.Columns = []string{"label", "x"} }, "1: 1 x:2:n"},
		{"a.csv", "# made by us, today\n#\nlabel,x\n1,2\n# more, of them\n0,3\n", nil, "3: 1 x:2:n\n5: 0 x:3:n"},
		{"a.csv", "#label,x\n1,2\n#,3\n", func(c *record.Config) { c.Label = "#label" }, "1: 1 x:2:n\n2: # x:3:n"},
		{"a.csv", "#id,x\n1,2\n", func(c *record.Config) { c.Unlabeled = true }, "1: ? #id:1:n x:2:n"},
		{"a.tsv", "label\tx\n1\t2\n", nil, "1: 1 x:2:n"},
		{"a.json", `{"data":[{"label":1,"x":2}]}`, nil, "0: syntax: a.json:1: its events are in a list named \"data\": send the list alone, or each event on a line, as jq -c '.data[]' FILE writes them"},
		{"a.json", `{"data":[{"x":2}],"label":1}` + "\n" + `{"data":[1,2]}` + "\n", nil, "0: 1 data[0].x:2:n\n1: ? data[0]:1:n data[1]:2:n"},
		{"a.avro", "Obj\x01\x04\x14avro.codec\x08null", nil, "error a.avro: syntax: it is an Avro container file, which is not read: convert it to JSON lines, CSV or Parquet, with fastavro FILE > FILE.jsonl (Python's fastavro) or avro-tools tojson FILE > FILE.jsonl"},
		{"a.csv", "ORC,label\n1,2\n", nil, "1: 2 ORC:1:n"},
		{"a.svm.gz", gz(strings.Repeat("1 1:2\n", 3))[:25], nil, "0: 1 1:2\nerror a.svm.gz:1: the compressed file ends early: unexpected EOF"},
		{"b-images-idx3-ubyte", images, nil, "error b-images-idx3-ubyte: labels: b-labels-idx1-ubyte: there is none (plain, .gz or .zst); without labels use unlabeled"},
		{"a-labels-idx1-ubyte", labels, nil, "error a-labels-idx1-ubyte: it has labels; give the file of the images, as in train-images-idx3-ubyte"},
		{"a-images-idx3-ubyte", images[:25], nil, "0: 7 2:1 4:0.2\n1: 0\nerror a-images-idx3-ubyte: it ends in image 3 of 3"},
		{"a-images-idx3-ubyte", images[:10], nil, "error a-images-idx3-ubyte: idx header: unexpected EOF"},
	} {
		for _, ahead := range []int{0, 2} {
			path := must.File(t, test.name, test.text)
			dir := filepath.Dir(path) + "/"
			if strings.HasPrefix(test.name, "a-images") {
				must.Do(t, os.WriteFile(dir+strings.NewReplacer("images", "labels", "idx3", "idx1", ".gz", "").Replace(test.name), []byte(labels), 0o666))
			}
			c := record.DefaultConfig()
			if test.change != nil {
				test.change(&c)
			}
			lines, _, err := readAll(path, c, ahead, 0)
			if err != nil {
				lines = append(lines, "error "+strings.ReplaceAll(err.Error(), dir, ""))
			}
			must.Equal(t, strings.Join(lines, "\n"), test.want, test.name, "ahead", ahead)
		}
	}
}

// manyLines returns the text of n lines of different lengths, including blank and long lines.
func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		switch {
		case i%97 == 0:
			b.WriteString("# nothing\n\n")
		case i%1000 == 500:
			fmt.Fprintf(&b, "1 1:1 %d:1%s\n", i+2, strings.Repeat(" ", 100_000))
		}
		fmt.Fprintf(&b, "%d 1:%d %d:%g\n", i%2, i, i%4000+2, float64(i)/7)
	}
	return b.String()
}

// TestFileSkip checks that reading from any line on returns the rest, with and without reading ahead.
func TestFileSkip(t *testing.T) {
	path := must.File(t, "many.svm.gz", gz(manyLines(5000)))
	c := record.DefaultConfig()
	whole, sum, err := readAll(path, c, 0, 0)
	must.Require(t, err == nil && len(whole) == 5005, "%v %v", len(whole), err)
	again, sumAgain, err := readAll(path, c, 3, 0)
	must.Require(t, err == nil && strings.Join(again, "\n") == strings.Join(whole, "\n") && sum == sumAgain, "reading ahead gives other examples %v", err)
	for from := int64(0); from < 5100; from += 83 {
		rest, _ := must.Get2(readAll(path, c, 0, from))(t)
		at := 0
		for at < len(whole) && offsetOf(whole[at]) < from {
			at++
		}
		if strings.Join(rest, "\n") != strings.Join(whole[at:], "\n") {
			for i, line := range rest {
				must.True(t, i+at >= len(whole) || line == whole[i+at], "got %.200s\nwant %.200s", line, whole[min(i+at, len(whole)-1)])
			}
			t.Fatalf("from line %d: %d examples, want %d", from, len(rest), len(whole)-at)
		}
	}
	must.ErrorContains(t, must.Err2(readAll(path, c, 0, 1e6)), "before line 1000001", "skipped past the end:")
}

// TestFileAhead checks that lines decoded on any number of threads equal sequentially decoded lines, including classes,
// refusals and sums.
func TestFileAhead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	lines := []string{"", "\r", "# nothing", "1 1:1 2:0.25 900000:12 \r", "0 3:0.1234567 4:12345678 5:1e3 6:.5", "2 7:1 1:2 7:3", "5 1:1",
		"1 0:1", "1 99999999:1", "1 1:x", "nan 1:1", "1 1:1e31", ":", strings.Repeat("x", 700), "2 " + strings.Repeat("1:1 ", 400), "1 1:1 2:nan # x"}
	for i := range 5 {
		var text strings.Builder
		for range r.IntN(8_000) {
			line := lines[r.IntN(len(lines))]
			if line == "1 1:x" && r.IntN(1000) == 0 {
				line += strings.Repeat(" ", r.IntN(3<<18))
			}
			text.WriteString(line + "\n")
		}
		text.WriteString(lines[r.IntN(len(lines))])
		path := must.File(t, "a.svm.gz", gz(text.String()))
		if i%3 == 0 {
			path = must.File(t, "a.svm", text.String())
		}
		c := record.DefaultConfig()
		c.MaxClasses = 3
		if i%2 == 0 {
			c.MaxBytes = 500 + r.IntN(1<<18)
		}
		want, sum := must.Get2(readAll(path, c, 0, 0))(t)
		for _, threads := range []int{1, 2, 5} {
			got, again, err := readAll(path, c, threads, 0)
			must.Require(t, err == nil && sum == again && slices.Equal(got, want), "file %d, %d threads: %d examples instead of %d, sum %d instead of %d: %v", i, threads, len(got), len(want), again, sum, err)
		}
	}
}

func offsetOf(line string) (offset int64) {
	fmt.Sscan(line, &offset)
	return offset
}

// TestStandardInput checks that standard input returns received bytes without waiting for more, and that waiting ends
// with the context.
func TestStandardInput(t *testing.T) {
	for _, ahead := range []int{0, 2} {
		in, out := must.Get2(os.Pipe())(t)
		stdin := os.Stdin
		os.Stdin = in
		defer func() { os.Stdin = stdin }()
		io.WriteString(out, "1 1:1\n-1 2:2\n1 3")
		c := record.DefaultConfig()
		c.Format = "svmlight"
		f := must.Get(OpenFile("-", c, c.Schema()))(t)
		if ahead > 0 {
			f.Ahead(ahead, nil)
		}
		var b event.Batch
		ctx, cancel := context.WithCancel(context.Background())
		err := f.Next(ctx, &b)
		must.Require(t, err == nil && len(b.Examples) == 2 && b.Topic == "stdin", "%v, %d examples of %s", err, len(b.Examples), b.Topic)
		io.WriteString(out, ":1\n")
		err = f.Next(ctx, &b)
		must.Require(t, err == nil && len(b.Examples) == 1 && b.Examples[0].Offset == 2, "%v, %d examples", err, len(b.Examples))
		time.AfterFunc(10*time.Millisecond, cancel)
		err = f.Next(ctx, &b)
		must.Require(t, errors.Is(err, context.Canceled), "canceled: %v", err)
		out.Close()
		must.Do(t, f.Close())
	}
}

// TestRecords checks that the records of a file are its lines. The records of an idx pair must be svmlight lines that
// give the same examples.
func TestRecords(t *testing.T) {
	path := must.File(t, "a.csv", "label,x\n1,2\n\n2,\"a\nb\"\n")
	must.Equal(t, fmt.Sprint(records(t, path)), "[1:1,2 3:2,\"a\nb\"]")
	path = must.File(t, "x-images-idx3-ubyte", "\x00\x00\x08\x03\x00\x00\x00\x02\x00\x00\x00\x10\x00\x00\x00\x10"+allBytes()+strings.Repeat("\x00", 256))
	os.WriteFile(filepath.Dir(path)+"/x-labels-idx1-ubyte", []byte("\x00\x00\x08\x01\x00\x00\x00\x02\x09\x01"), 0o666)
	want, _ := must.Get2(readAll(path, record.DefaultConfig(), 0, 0))(t)
	var text []string
	for _, r := range records(t, path) {
		_, line, _ := strings.Cut(r, ":")
		text = append(text, line)
	}
	got, _, err := readAll(must.File(t, "x.svm", strings.Join(text, "\n")), record.DefaultConfig(), 0, 0)
	must.True(t, err == nil && strings.Join(got, "\n") == strings.Join(want, "\n"), "%v\n got %s\nwant %s", err, got, want)
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func records(t *testing.T, path string) (out []string) {
	t.Helper()
	in := must.Get(OpenRecords(path, record.DefaultConfig()))(t)
	defer in.Close()
	for {
		var r record.Record
		err := in.Next(&r)
		if err == io.EOF {
			read, size := in.Progress()
			must.True(t, read == size, "%s: read %d of %d bytes", path, read, size)
			return out
		}
		must.Do(t, err)
		out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Value))
	}
}

// TestBatchesShareNoMemory checks that filling other Batches does not change a Batch.
func TestBatchesShareNoMemory(t *testing.T) {
	var text strings.Builder
	for i := range 3 * batchExamples {
		fmt.Fprintf(&text, `{"label":"%d","id":"event %d","x":%d}`+"\n", i%2, i, i)
		if i%7 == 0 {
			fmt.Fprintf(&text, "bad %d\n", i)
		}
	}
	name := must.File(t, "f.jsonl", text.String())
	c := record.DefaultConfig()
	c.ID = "id"
	f := must.Get(OpenFile(name, c, c.Schema()))(t)
	defer f.Close()
	show := func(b *event.Batch) string {
		var s strings.Builder
		for _, e := range b.Examples {
			fmt.Fprintf(&s, "%d %s %v", e.Offset, e.Key, e.Features.Value)
			if e.Refused != nil {
				s.Write(e.Refused.Value)
			}
		}
		return s.String()
	}
	var first, second event.Batch
	must.Do(t, f.Next(t.Context(), &first))
	before := show(&first)
	for f.Next(t.Context(), &second) == nil {
	}
	must.Equal(t, show(&first), before, "reading on changed an earlier batch")
}

// away is a decoder that fails with the context's error at its first call for each record, as if it waited for an
// unreachable registry.
type away struct {
	record.Decoder
	asked int64 // largest offset so far
}

func (d *away) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	if d.asked < r.Offset {
		d.asked = r.Offset
		e.Label = 1 // partial result that must be ignored
		return context.Canceled
	}
	return d.Decoder.Decode(ctx, r, e)
}

// offsetsOf returns the offsets of all records of a source, and the number of interrupted calls.
func offsetsOf(t *testing.T, next func(context.Context, *event.Batch) error) (offsets []int64, broken int) {
	var b event.Batch
	for {
		err := next(t.Context(), &b)
		switch {
		case err == io.EOF:
			return offsets, broken
		case errors.Is(err, context.Canceled):
			broken++
			continue
		case err != nil:
			t.Fatal(err)
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			must.True(t, e.Refused == nil && e.Features.Len() == 1, "%+v", e)
			offsets = append(offsets, b.Examples[i].Offset)
		}
		n := len(b.Examples)
		must.True(t, n == 0 || b.Next == b.Examples[n-1].Offset+1, "next %d after the offsets of %+v", b.Next, b.Examples)
	}
}

// TestDecodingIsInterrupted checks that a record is returned again after its decoding was interrupted. No record may be
// lost or refused.
func TestDecodingIsInterrupted(t *testing.T) {
	event := `{"label":1,"x":1}`
	path := must.File(t, "a.jsonl", strings.Repeat(event+"\n", 20))
	c := record.DefaultConfig()
	f := must.Get(OpenFile(path, c, c.Schema()))(t)
	defer f.Close()
	f.decoder = &away{f.decoder, -1}
	offsets, broken := offsetsOf(t, f.Next)
	must.True(t, len(offsets) == 20 && offsets[19] == 19 && broken != 0, "a file: broken off %d times, offsets %v", broken, offsets)

	b := startBroker(t, map[string]int32{"t": 1})
	for range 5 {
		produce(t, b, "t", nil, slices.Repeat([]Message{{Value: []byte(event)}}, 4)...)
	}
	config := DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UntilEnd, config.MaxWait = b.Brokers(), []string{"t"}, true, 50*time.Millisecond
	s := c.Schema()
	decoder := must.Get(record.NewDecoder(c, s))(t)
	consumer := must.Get(NewConsumer(t.Context(), config, &away{decoder, -1}, s, nil))(t)
	defer consumer.Close()
	offsets, broken = offsetsOf(t, consumer.Next)
	must.True(t, len(offsets) == 20 && offsets[19] == 19 && broken != 0, "a topic: broken off %d times, offsets %v", broken, offsets)
}

// TestSkipBehindLongLine checks that reading after a line that was too long skips the rest of that line.
func TestSkipBehindLongLine(t *testing.T) {
	c := record.DefaultConfig()
	c.MaxBytes = 20
	path := must.File(t, "a.svm", "1 1:1\n1 "+strings.Repeat("2:1 ", 1<<18)+"\n1 3:1\n")
	lines, _, err := readAll(path, c, 0, 2)
	must.True(t, err == nil && len(lines) == 1 && lines[0] == "2: 1 3:1", "%v: %q", err, lines)
}

// TestFileResumes checks that Resume continues at a position, and skips the header of a CSV file as at the beginning.
func TestFileResumes(t *testing.T) {
	var text strings.Builder
	text.WriteString("label,x,shop\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "%d,%d,s%d\n", i%2, i, i%7)
	}
	path := must.File(t, "some.csv.gz", gz(text.String()))
	for _, from := range []int64{0, 1, 1500, 3} {
		f := must.Get(OpenFile(path, record.DefaultConfig(), record.DefaultConfig().Schema()))(t)
		defer f.Close()
		must.Do(t, f.Resume(streamtest.From(path, 0, from)))
		first := int64(-1)
		for e := range eventtest.Examples(t, f.Next) {
			first = must.Either(first < 0, e.Offset, first)
			must.Require(t, e.Refused == nil, "%v", e.Refused)
		}
		must.Equal(t, first, max(from, 1), "the first record from", from)
	}
}

// FuzzFile reads files with any contents, compressed or not; an images file has a labels file. Reading must end and
// respect the limits.
func FuzzFile(f *testing.F) {
	images := "\x00\x00\x08\x03\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\xff\x01\x02"
	labels := "\x00\x00\x08\x01\x00\x00\x00\x02\x01\x00"
	for _, seed := range [][2]string{{images, labels}, {gz(images), zst(labels)}, {images[:18], labels}, {"\x00\x00\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", labels}} {
		f.Add(0, []byte(seed[0]), []byte(seed[1]))
	}
	f.Add(1, []byte("1 1:2\n\n# nothing\n-1 2:1"), []byte(nil))
	f.Add(2, []byte("label,a\nyes,\"1\n2\"\nno,3\n"), []byte(nil))
	f.Add(3, []byte(zst("{\"label\":1,\"a\":2}\n{")), []byte(nil))
	f.Add(1, []byte(gz(strings.Repeat("1 1:1\n", 1000))), []byte(nil))
	dir := f.TempDir()
	names := []string{"x-images-idx3-ubyte", "x.svm", "x.csv", "x.jsonl", "x.vw"}
	f.Fuzz(func(t *testing.T, kind int, data, labels []byte) {
		path := filepath.Join(dir, names[uint(kind)%uint(len(names))])
		must.Do(t, os.WriteFile(path, data, 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, "x-labels-idx1-ubyte"), labels, 0o600))
		c := record.DefaultConfig()
		c.MaxBytes, c.MaxFeatures = 1000, 100
		file, err := OpenFile(path, c, c.Schema())
		if err != nil {
			return
		}
		defer file.Close()
		last := int64(-1)
		var b event.Batch
		for n := 0; n < 10_000; n += len(b.Examples) { // a decompression bomb may have more examples; stop early
			if file.Next(t.Context(), &b) != nil {
				return
			}
			for i := range b.Examples {
				e := &b.Examples[i]
				must.Require(t, e.Offset > last && (e.Refused != nil || e.Features.Check() == nil && e.Features.Len() <= 100), "offset %d after %d: %+v", e.Offset, last, e)
				last = e.Offset
			}
		}
	})
}

// TestEndlessFile checks that reading an endless file or an endless line stops when the context ends, at any point.
func TestEndlessFile(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	for _, format := range []string{"json", "csv", "svmlight", "vw"} {
		for _, threads := range []int{0, 2} {
			c := record.DefaultConfig()
			c.Format, c.Columns, c.MaxBytes = format, []string{"label"}, 1<<16
			f, err := OpenFile("/dev/zero", c, c.Schema())
			must.Require(t, err == nil, "%v %v", format, err)
			ctx, cancel := context.WithCancel(t.Context())
			if threads > 0 {
				f.Ahead(threads, nil)
			}
			var b event.Batch
			for n := 0; err == nil; n++ {
				if err = f.Next(ctx, &b); n == 0 {
					time.AfterFunc(10*time.Millisecond, cancel)
				}
			}
			must.True(t, errors.Is(err, context.Canceled), "%s, %d threads: %v", format, threads, err)
			must.Do(t, f.Close())
			cancel()
		}
		c := record.DefaultConfig()
		c.Format, c.Columns, c.MaxBytes = format, []string{"label"}, 1<<16
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := (Input{Where: "/dev/zero", Record: c}).Open(ctx, c.Schema(), event.Offsets{{Topic: "/dev/zero", Next: 7}})
		must.True(t, errors.Is(err, context.DeadlineExceeded), "%s, stepping over what was learned: %v", format, err)
		cancel()
	}
}

// TestStrayQuoteCostsOneRow checks that a stray quote in a file affects only one row, whether other rows have quotes or
// not.
func TestStrayQuoteCostsOneRow(t *testing.T) {
	for _, row := range []string{"%d,some text,%d\n", "%d,\"some, text\",%d\n"} {
		var text strings.Builder
		text.WriteString("label,text,x\n")
		for i := range 20_000 {
			if i == 11 {
				text.WriteString("1,\"some text,7\n")
				continue
			}
			fmt.Fprintf(&text, row, i%2, i)
		}
		lines, _, err := readAll(must.File(t, "a.csv", text.String()), record.DefaultConfig(), 2, 0)
		refused := must.Count(len(lines), func(i int) bool { return strings.Contains(lines[i], "syntax") })
		must.True(t, err == nil && len(lines) == 20_000 && refused == 1 && strings.HasPrefix(lines[11], "12: syntax: a.csv:13: byte 3: "), "%v: %d records, %d refused: %s", err, len(lines), refused, lines[11])
	}
}

// TestGrowingFile checks that the last line of a growing file is learned only once it has its newline. In a file that
// does not grow, the last line counts without a newline.
func TestGrowingFile(t *testing.T) {
	for _, test := range []struct {
		name, first, rest string
		held              int64
		before, after     []string // expected values
	}{
		{"a.svm", "1 1:1\n-1 2:2\n1 3:0.2", "5 4:1\n-1 1:1\n", 3, []string{"1:1", "2:2"}, []string{"3:0.25 4:1", "1:1"}},
		{"a.svm", "1 1:1\n-1 2:2\n", "1 3:1\n", 0, []string{"1:1", "2:2"}, []string{"3:1"}},
		{"a.svm", "1 1:", "1\n", 1, nil, []string{"1:1"}},
		{"a.svm", "1 1:1\n  ", "-1 2:2\n", 0, []string{"1:1"}, []string{"2:2"}},
		{"a.vw", "1 | 1:1\n-1 | 2:2 3:1", "7\n", 2, []string{"1:1:s"}, []string{"2:2:s 3:17:s"}},
		{"a.csv", "label,x\n1,2\n0,3", "4\n1,5\n", 3, []string{"x:2:n"}, []string{"x:34:n", "x:5:n"}},
		{"a.csv", "label,x\n1,\"a\n0,3\n1,", "4\n", 4, []string{"syntax", "x:3:n"}, []string{"x:4:n"}},
		{"a.jsonl", "{\"label\":1,\"x\":1}\n{\"label\":0,\"x\":2}", "\n{\"label\":1,\"x\":3}\n", 0, []string{"x:1:n", "x:2:n"}, []string{"x:3:n"}},
		{"a.jsonl", "{\"label\":1,\"x\":1}\n{\"label\":0,\"y\":{\"x\":2}", "}\n", 2, []string{"x:1:n"}, []string{"y.x:2:n"}},
		{"a.json", "[{\"label\":1,\"x\":1},\n{\"label\":0,\"x\":", "2}]", 2, []string{"x:1:n"}, []string{"x:2:n"}},
		{"a.json", "{\n\"label\":1,\n\"x\":1}\n{\n\"x\":2}\n{\"y\":[", "7]}", 3, []string{"x:1:n", "x:2:n"}, []string{"y[0]:7:n"}},
		{"a.json.gz", gz("[{\"label\":1,\"x\":1},{\"x\":2"), "", 0, []string{"x:1:n", "syntax"}, nil},
		{"a.svm.gz", gz("1 1:1\n-1 2:2"), "", 0, []string{"1:1", "2:2"}, nil},
	} {
		for _, threads := range []int{0, 2} {
			path := must.File(t, test.name, test.first)
			c := record.DefaultConfig()
			c.Growing = true
			s, held := c.Schema(), test.held
			var offsets event.Offsets
			read := func() (values []string) {
				f := must.Get(OpenFile(path, c, s))(t)
				must.Do(t, f.Resume(offsets))
				if threads > 0 {
					f.Ahead(threads, nil)
				}
				for b := range eventtest.Batches(t, f.Next) {
					offsets.At(b.Topic, 0, 0).Next = b.Next
					for i := range b.Examples {
						if r := b.Examples[i].Refused; r != nil {
							values = append(values, string(r.Reason))
						} else {
							_, value, _ := strings.Cut(recordtest.Show(b.Schema, &b.Examples[i]), " ")
							values = append(values, value)
						}
					}
				}
				f.Close()
				must.Equal(t, f.Held(), held, test.name, test.first, "held line")
				return values
			}
			must.EqualSlices(t, read(), test.before, test.name, threads, "threads", test.first)
			if test.rest == "" {
				continue
			}
			must.Do(t, os.WriteFile(path, []byte(test.first+test.rest), 0o600))
			held = 0
			must.EqualSlices(t, read(), test.after, test.name, threads, "threads", test.first, "then", test.rest)
		}
	}
}

// TestSourceName checks that a file is one source however its path is written, and that its name is UTF-8. A checkpoint
// with another spelling must be continued.
func TestSourceName(t *testing.T) {
	for path, want := range map[string]string{
		"g": "g", "./g": "g", "a//b/../g": "a/g", "/x/./g": "/x/g", "-": "stdin", "./-": "-",
		"\xff\xe9t\xc3\xa9.svm": `\xff\xe9t` + "é.svm", "\ufffd": "\ufffd",
	} {
		got := SourceName(path)
		must.True(t, got == want && utf8.ValidString(got), "%q: %q, want %q", path, got, want)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"g.svm", "h\xff\xfe.svm"} {
		if err := os.WriteFile(name, []byte("1 1:1\n-1 1:2\n1 1:3\n"), 0o600); err != nil {
			t.Skip(err) // the file system allows only UTF-8 names
		}
		for _, known := range []string{"", "./" + name, "x/..//" + name} {
			var offsets event.Offsets
			if known != "" && utf8.ValidString(known) {
				offsets.At(known, 0, 0).Next = 1 // written by an older version
			}
			for _, path := range []string{name, "./" + name} {
				c := record.DefaultConfig()
				f := must.Get(OpenFile(path, c, c.Schema()))(t)
				var b event.Batch
				must.Do(t, f.Resume(offsets))
				n := 0
				for ; f.Next(t.Context(), &b) == nil; n += len(b.Examples) {
				}
				next := int64(0)
				if len(offsets) > 0 {
					next = offsets[0].Next
				}
				must.Equal(t, n, int(3-next), path, "events from", offsets)
				if n > 0 {
					offsets.At(b.Topic, 0, 0).Next = 3
				}
				// Encode and decode the offsets as in a checkpoint.
				text, err := json.Marshal(offsets)
				must.Require(t, err == nil && json.Unmarshal(text, &offsets) == nil && len(offsets) == 1, "%q: sources %s, %v", path, text, err)
				f.Close()
			}
		}
	}
}

// TestReplacedFile checks that a file that was replaced by a longer file is not continued, because it does not begin
// with the learned records.
func TestReplacedFile(t *testing.T) {
	for _, test := range []struct {
		name, first, grown, other string
	}{
		{"a.csv", "label,x\n1,2\n0,3\n", "1,4\n", "label,x\n1,2\n0,4\n1,5\n1,6\n"},
		{"a.csv", "label,x\n1,2\n0,3\n", "1,4\n", "label,x\n1,2\n\n0,3\n1,5\n1,6\n"},
		{"a.jsonl", "{\"x\":1}\n\n{\"x\":2}\n", "{\"x\":3}\n", "{\"x\":1}\n{\"x\":2}\n{\"x\":2}\n{\"x\":4}\n"},
		{"a.json", "[{\"x\":1},{\"x\":2}", ",{\"x\":3}]", "[{\"x\":2},{\"x\":2},{\"x\":3}]"},
		{"a.svm", "1 1:1\n# no\n-1 2:2\n", "1 3:1\n", "1 1:1\n# no\n-1 2:2.\n1 3:1\n"},
		{"a.vw", "1 | a\n-1 | b\n", "1 | c\n", "1 | a\n-1 | c\n1 | c\n"},
	} {
		path := must.File(t, test.name, test.first)
		c := record.DefaultConfig()
		c.Growing = true
		var offsets event.Offsets
		read := func() (n int, err error) {
			f := must.Get(OpenFile(path, c, c.Schema()))(t)
			defer f.Close()
			if err := f.Resume(offsets); err != nil {
				return 0, err
			}
			var b event.Batch
			for f.Next(t.Context(), &b) == nil {
				for i := range b.Examples {
					e := &b.Examples[i]
					must.Do(t, offsets.At(b.Topic, b.Partition, e.Offset).Advance(e.Offset, e.Fingerprint))
					n++
				}
				offsets.At(b.Topic, b.Partition, 0).Next = b.Next
			}
			return n, nil
		}
		n, err := read()
		must.True(t, n == 2 && err == nil, "%s: %d records, %v", test.name, n, err)
		must.Do(t, os.WriteFile(path, []byte(test.other), 0o600))
		var replaced *ReplacedError
		_, err = read()
		must.True(t, errors.As(err, &replaced), "%s, %q in place of %q: %v", test.name, test.other, test.first, err)
		must.Do(t, os.WriteFile(path, []byte(test.first+test.grown), 0o600))
		n, err = read()
		must.True(t, n == 1 && err == nil, "%s, grown: %d records, %v", test.name, n, err)
	}
}
