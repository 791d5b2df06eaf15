package tests

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/record"
	"blankout/stream/registry"
)

// amplifier is a small input that makes the program allocate much memory.
type amplifier struct {
	name, file string // the name implies the format
	data       []byte
	allowed    int64 // additional memory allowed, in bytes
}

const (
	amplifierBytes = 2 << 20
	eventBytes     = 400      // train --solver online keeps its events in memory
	longLine       = 64 << 20 // a line of record.max_bytes, its copy for the dead letters, and garbage of both
)

func fill(piece string) []byte { return bytes.Repeat([]byte(piece), amplifierBytes/len(piece)) }

func around(before string, piece string, after string) []byte {
	return slices.Concat([]byte(before), fill(piece), []byte(after+"\n"))
}

// amplifiers returns the inputs by the name of the reader: the names of record.Formats and of all other kinds of files.
func amplifiers(t *testing.T) map[string][]amplifier {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write(make([]byte, 100*amplifierBytes))
	z.Close()
	encoder := must.Get(zstd.NewWriter(nil))(t)
	idx := func(head ...uint32) (b []byte) {
		for _, x := range head {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		return append(b, 1, 2, 3)
	}
	return map[string][]amplifier{
		"json": {
			{name: "nested lists", file: "a.jsonl", data: around(`{"label":1,"x":`, "[", "")},
			{name: "empty objects", file: "a.jsonl", data: around(`{"label":1,"x":[`, "{},", `0]}`)},
			{name: "empty lists", file: "a.jsonl", data: around(`{"label":1,"x":[`, "[],", `0]}`)},
			{name: "nulls", file: "a.jsonl", data: around(`{"label":1,"x":[`, "null,", `0]}`)},
			{name: "numbers", file: "a.jsonl", data: around(`{"label":1,"x":[`, "1,", `0]}`)},
			{name: "words", file: "a.jsonl", data: around(`{"label":1,"x":[`, `"",`, `""]}`)},
			{name: "words under a long key", file: "a.jsonl", data: around(`{"label":1,"`+strings.Repeat("k", 4000)+`":[`, `"a",`, `""]}`)},
			{name: "an open text", file: "a.jsonl", data: around(`{"label":1,"x":"`, `\u0000`, "")},
			{"empty records", "a.jsonl", fill("{}\n"), eventBytes * amplifierBytes / 3},
		},
		"svmlight": {
			{name: "one column", file: "a.svm", data: around("1", " 1:1", "")},
			{name: "far columns", file: "a.svm", data: around("1", " 4194304:1", "\n1 4194304:1\n-1 1:1\n")},
			{"empty records", "a.svm", fill("1\n"), eventBytes * amplifierBytes / 2},
			{name: "a long number", file: "a.svm", data: around("1 1:", "1", "")},
		},
		"vw": {
			{name: "one word", file: "a.vw", data: around("1 |", " a", "")},
			{name: "namespaces", file: "a.vw", data: around("1 ", "|a b ", "")},
			{name: "a long namespace", file: "a.vw", data: around("1 |"+strings.Repeat("n", 4000), " a", "")},
		},
		"csv": {
			{name: "a wide header", file: "a.csv", data: slices.Concat(around("label", ",a", ""), around("1", ",1", ""))},
			{name: "an open quote", file: "a.csv", data: around("label,x\n1,\"", "a\n", "")},
			{name: "empty fields", file: "a.csv", data: around("label,x\n1", ",", "")},
		},
		"avro": {
			{name: "nulls of no byte", file: "", data: fill("\x02\xa0\x8d\x06\x00")},
			{name: "empty texts", file: "", data: fill("\x02\x01\x02")},
		},
		"protobuf": {
			{name: "empty messages", file: "", data: fill("\x0a\x00")},
			{name: "packed bools", file: "", data: append([]byte("\x12\x80\x80\x80\x01"), fill("\x01")...)},
			{name: "empty texts", file: "", data: fill("\x1a\x00")},
		},
		"json-schema": {
			{name: "empty objects", file: "", data: around(`{"label":1,"x":[`, "{},", `0]}`)},
		},
		"gzip":    {{name: "zeros", file: "a.jsonl.gz", data: gz.Bytes(), allowed: longLine}},
		"zstd":    {{name: "zeros", file: "a.jsonl.zst", data: encoder.EncodeAll(make([]byte, 100*amplifierBytes), nil), allowed: longLine}},
		"idx":     {{name: "images that are not there", file: "a-images-idx3-ubyte", data: idx(0x803, 1<<31-1, 1<<15, 1<<15)}},
		"parquet": {{name: "a long text in many rows", file: "a.parquet", data: longTextParquet(t)}},
	}
}

func longTextParquet(t *testing.T) []byte {
	type event struct {
		Label string `parquet:"label"`
		Text  string `parquet:"text,dict"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[event](&b, parquet.Compression(&parquet.Zstd), parquet.SkipPageBounds("text"))
	text := strings.Repeat("x", amplifierBytes)
	for range 200 {
		must.Get(w.Write([]event{{"a", text}}))(t)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

// peak runs a command and returns its largest resident memory in bytes. It polls the memory while the command runs,
// because the value that the system reports after the end includes the parent process.
func peak(t *testing.T, c *exec.Cmd) (most int64) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	must.Do(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for status := fmt.Sprintf("/proc/%d/status", c.Process.Pid); ; time.Sleep(time.Millisecond) {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			must.True(t, (err == nil || errors.As(err, &exit) && exit.ExitCode() >= 1 && exit.ExitCode() <= 3) && !strings.Contains(out.String(), "goroutine "),
				"%v: %v\n%.2000s", c.Args, err, &out)
			return most
		default:
		}
		text, _ := os.ReadFile(status)
		if _, rest, ok := bytes.Cut(text, []byte("VmHWM:")); ok {
			var kB int64
			if _, err := fmt.Fscan(bytes.NewReader(rest), &kB); err == nil {
				most = max(most, kB<<10)
			}
		}
	}
}

// TestAmplifiers checks the memory of every reader of events: every record format, every other kind of file, and every
// command with -d. A reader may take as much memory as for a few small events, plus 64 MB and eight times the size of
// its input. The test fails if it does not list a format or command.
func TestAmplifiers(t *testing.T) {
	longtest.Only(t)
	program, dir, all := buildProgram(t), t.TempDir(), amplifiers(t)
	few := filepath.Join(dir, "few.svm")
	model := filepath.Join(dir, "few.model")
	must.Do(t, os.WriteFile(few, []byte(strings.Repeat("1 1:1 2:0.5\n-1 2:1 3:0.5\n", 50)), 0o600))
	runProgram(t, "", program, "train", "-d", few, "-o", model)
	commands := map[string][]string{
		"corrupt": {"--noise", "dropout:0.5", "-o", filepath.Join(dir, "copies.svm")}, "predict": {"-m", model, "--delete-groups", "0.3", "--groups", "every:2"},
		"produce": {"--brokers", "127.0.0.1:1", "--topic", "t", "--set", "kafka.request_timeout=10ms"}, "run": {"--set", "checkpoint.directory=" + filepath.Join(dir, "checkpoints"), "--set", "http.address="},
		"simulate": {"-m", model, "--nightmare", "random:0.5", "--repeat", "1", "-o", filepath.Join(dir, "simulation")},
		"train":    {"--solver", "online", "-o", filepath.Join(dir, "a.model")},
		"validate": {"-m", model},
	}
	help := must.Get(exec.Command(program, "help").CombinedOutput())(t)
	for _, line := range regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}`).FindAllStringSubmatch(string(help), -1) {
		text, _ := exec.Command(program, line[1], "--help").CombinedOutput()
		must.True(t, commands[line[1]] != nil || !bytes.Contains(text, []byte("-d, --data")), "command %s reads events and is not among those that amplifiers are given to", line[1])
	}
	run := func(t *testing.T, name string, a amplifier) {
		t.Helper()
		file := filepath.Join(dir, a.file)
		must.Do(t, os.WriteFile(file, a.data, 0o600))
		defer os.Remove(file)
		command := func(data string) *exec.Cmd {
			c := exec.Command(program, append([]string{name, "-d", data}, commands[name]...)...)
			c.Dir = dir // so that dead letters are written there
			return c
		}
		within(t, a, peak(t, command(few)), peak(t, command(file)))
	}
	for _, kind := range slices.Concat(record.Formats(), []string{"gzip", "zstd", "idx", "parquet"}) {
		t.Run(kind, func(t *testing.T) {
			must.True(t, len(all[kind]) != 0, "it has no amplifier")
			for _, a := range all[kind] {
				t.Run(a.name, func(t *testing.T) {
					if a.file != "" {
						run(t, "train", a)
						return
					}
					decode := func(data []byte) *exec.Cmd {
						c := exec.Command(os.Args[0], "-test.run=^TestDecodeAmplifier$", "-test.v")
						c.Env, c.Stdin = append(os.Environ(), "BLANKOUT_AMPLIFIER="+kind), bytes.NewReader(data)
						return c
					}
					within(t, a, peak(t, decode(nil)), peak(t, decode(a.data)))
				})
			}
		})
	}
	for name := range commands {
		t.Run(name, func(t *testing.T) {
			for _, a := range slices.Concat(all["json"][1:5], all["svmlight"][1:2]) {
				run(t, name, a)
			}
		})
	}
}

func within(t *testing.T, a amplifier, little, much int64) {
	t.Helper()
	allowed := a.allowed
	if longtest.Race { // the race detector keeps shadow memory of allocations
		allowed += 64 << 20
	}
	most := little + 64<<20 + 8*int64(len(a.data)) + allowed
	must.True(t, much <= most, "%s, %d bytes: took %d MB, of few events %d MB, want %d MB at most", a.name, len(a.data), much>>20, little>>20, most>>20)
}

// TestDecodeAmplifier runs in a child process of TestAmplifiers. It decodes its input as a record of a format that
// occurs only in topics.
func TestDecodeAmplifier(t *testing.T) {
	format := os.Getenv("BLANKOUT_AMPLIFIER")
	if format == "" {
		t.Skip("TestAmplifiers runs it")
	}
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("t-value", 1, 1, map[string]sr.Schema{
		"avro":        {Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[{"name":"nulls","type":{"type":"array","items":{"type":"array","items":["null","string"]}}}]}`},
		"protobuf":    {Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message E { repeated E list = 1; repeated bool bools = 2; repeated string words = 3; }`},
		"json-schema": {Type: sr.TypeJSON, Schema: `{}`},
	}[format])
	client := must.Get(registry.New(registry.Config{URL: event.Address(fake.URL())}, nil))(t)
	c := record.DefaultConfig()
	c.Format, c.Registry = format, client
	d := must.Get(record.NewDecoder(c, c.Schema()))(t)
	header := []byte{0, 0, 0, 0, 1}
	if format == "protobuf" {
		header = append(header, 0)
	}
	var data bytes.Buffer
	data.Grow(2 * amplifierBytes)
	data.Write(header)
	must.Get(data.ReadFrom(os.Stdin))(t)
	var e event.Example
	must.Do(t, d.Decode(t.Context(), record.Record{Value: data.Bytes()}, &e))
	fmt.Println(e.Features.Len(), e.Refused != nil)
}
