package stream

import (
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record"
	"blankout/stream/record/recordtest"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

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
		refused := 0
		for _, line := range lines {
			if strings.Contains(line, "syntax") {
				refused++
			}
		}
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
				var b event.Batch
				for {
					if err := f.Next(t.Context(), &b); err == io.EOF {
						f.Close()
						break
					} else if err != nil {
						t.Fatal(err)
					}
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
