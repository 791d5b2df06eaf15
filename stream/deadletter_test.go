package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream/record"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func refused(offset int64, value string) *event.Example {
	return &event.Example{Offset: offset, Time: 1000 + offset, Key: []byte("k"), Label: event.Unlabeled,
		Refused: &event.Refusal{Reason: event.ReasonNotFinite, Detail: "field x: NaN", Value: []byte(value)}}
}

// connectTo returns the settings of a connection to a broker.
func connectTo(b *Embedded) ConnectConfig {
	c := DefaultConnectConfig()
	c.Brokers = b.Brokers()
	return c
}

// openDeadLetters opens dead letters that are closed at the end of the test. b is nil for a file.
func openDeadLetters(t *testing.T, b *Embedded, c DeadLetterConfig) *DeadLetters {
	t.Helper()
	connection := ConnectConfig{}
	if b != nil {
		connection = connectTo(b)
	}
	d := must.Get(OpenDeadLetters(t.Context(), c, connection, streamtest.Log(t)))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// recordsOf returns a client that reads a topic from its start.
func recordsOf(t *testing.T, b *Embedded, topic string) *kgo.Client {
	t.Helper()
	return streamtest.Client(t, b.Brokers(), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
}

// shown returns the key, the value and the headers of a record as text.
func shown(r *kgo.Record) string {
	out := fmt.Sprintf("%s %q", r.Key, r.Value)
	for _, h := range r.Headers {
		out += fmt.Sprintf(" %s=%s", h.Key, h.Value)
	}
	return out
}

func TestDeadLetterTopic(t *testing.T) {
	b := startBroker(t, map[string]int32{"dead": 3})
	d := openDeadLetters(t, b, DeadLetterConfig{Topic: "dead"})
	d.producer.config.DeliveryTimeout = 50 * time.Millisecond
	must.Do(t, d.Add(t.Context(), "t", 4, refused(7, "\x00\xff")))
	down := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1})
	must.Fails(t, d.Flush(t.Context()), "Flush without a broker that stores")
	down.Remove()
	must.Do(t, d.Flush(t.Context()))
	client := recordsOf(t, b, "dead")
	records := client.PollFetches(t.Context()).Records()
	must.Require(t, len(records) == 1, "%d records", len(records))
	r := records[0]
	age := time.Since(r.Timestamp)
	must.True(t, age >= -time.Second && age <= time.Minute, "timestamp %v", r.Timestamp)
	const want = `t/4/7 "\x00\xff" reason=not-finite detail=field x: NaN topic=t partition=4 offset=7 time=1007 key=k`
	must.Equal(t, shown(r), want)
}

func TestDeadLetterFile(t *testing.T) {
	name := must.File(t, "dead.jsonl", `{"topic":"half a li`)
	for round := range 2 {
		d := openDeadLetters(t, nil, DeadLetterConfig{File: name})
		for i := range 2 {
			must.Do(t, d.Add(t.Context(), "t", 0, refused(int64(2*round+i), "\x00bad\n")))
		}
		must.Do(t, d.Flush(t.Context()))
		must.Do(t, d.Close())
	}
	b := must.Get(os.ReadFile(name))(t)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	must.Require(t, len(lines) == 5, "%d lines:\n%s", len(lines), b)
	for i, line := range lines[1:] {
		var got Letter
		must.Do(t, json.Unmarshal([]byte(line), &got))
		must.True(t, string(got.Value) == "\x00bad\n" && string(got.Key) == "k" && got.Offset == int64(i) && got.Time == 1000+int64(i) && got.Reason == "not-finite", "line %d: %+v", i, got)
	}
}

// TestDeadLetterFileRemoved checks a file that is removed or renamed during use, alone or with its directory. The file
// must be recreated without losing a letter since the last Flush. If it cannot be recreated, Flush must return an
// error.
func TestDeadLetterFileRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	for what, remove := range map[string]func(name string) error{
		"removed":           os.Remove,
		"renamed":           func(name string) error { return os.Rename(name, name+".old") },
		"directory removed": func(name string) error { return os.RemoveAll(filepath.Dir(name)) },
		"replaced": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("{}\n"), 0o600))
		},
	} {
		name := filepath.Join(t.TempDir(), "letters", "dead.jsonl")
		must.Do(t, os.Mkdir(filepath.Dir(name), 0o700))
		var said bytes.Buffer
		d := must.Get(OpenDeadLetters(t.Context(), DeadLetterConfig{File: name}, ConnectConfig{}, slog.New(slog.NewTextHandler(&said, nil))))(t)
		add := func(offset int64) {
			must.Do(t, d.Add(t.Context(), "t", 0, refused(offset, "x")))
		}
		add(1)
		err := d.Flush(t.Context())
		must.Require(t, err == nil && said.Len() <= 0, "%s: %v, %s", what, err, &said)
		add(2)
		// writes without syncing
		must.Do(t, d.write())
		must.Do(t, remove(name))
		add(3)
		must.Do(t, d.Flush(t.Context()), what)
		add(4)
		must.Do(t, errors.Join(d.Flush(t.Context()), d.Close()), what)
		data := must.Get(os.ReadFile(name))(t, what)
		found := regexp.MustCompile(`"offset":(\d+)`).FindAllStringSubmatch(string(data), -1)
		offsets := must.Map(found, func(m []string) string { return m[1] })
		got := strings.Join(offsets, " ")
		must.True(t, got == "2 3 4" && strings.Count(said.String(), "it is created again") == 1, "%s: letters %q, said %s", what, got, &said)
	}
}

// TestDeadLetterFileCannotBeMade checks that Flush returns an error while the directory cannot be recreated.
func TestDeadLetterFileCannotBeMade(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	dir := filepath.Join(t.TempDir(), "letters")
	must.Do(t, os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, "dead.jsonl")
	d := openDeadLetters(t, nil, DeadLetterConfig{File: name})
	must.Do(t, errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)))
	must.Do(t, d.Add(t.Context(), "t", 0, refused(1, "x")))
	for range 2 {
		must.ErrorContains(t, d.Flush(t.Context()), dir, "a file stands where the directory was")
	}
	must.Do(t, errors.Join(os.Remove(dir), d.Flush(t.Context()), d.Close()))
	data, err := os.ReadFile(name)
	must.True(t, err == nil && strings.Count(string(data), "\n") == 1, "%q, %v", data, err)
}

// TestDeadLetterTooLarge checks that a letter that is too large for its topic is cut and marked as truncated. A large
// letter that compresses well, and the letters around it, must be complete.
func TestDeadLetterTooLarge(t *testing.T) {
	b := startCluster(t, 1, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000"}))
	d := openDeadLetters(t, b, DeadLetterConfig{Topic: "t"})
	noise := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	blanks := strings.Repeat(" ", 3_000_000)
	long := refused(3, string(noise[:3000]))
	long.Key = noise[:50_000]
	letters := []*event.Example{refused(0, "small"), refused(1, blanks), refused(2, string(noise)), long, refused(4, "last")}
	for _, e := range letters {
		must.Do(t, d.Add(t.Context(), "t", 0, e))
	}
	must.Do(t, d.Flush(t.Context()))
	client := recordsOf(t, b, "t")
	var got []string
	for len(got) < len(letters) {
		for _, r := range client.PollFetches(t.Context()).Records() {
			e := letters[len(got)]
			line := fmt.Sprintf("%s %d", r.Key, len(r.Value))
			must.True(t, bytes.HasPrefix(e.Refused.Value, r.Value), "%s: another value", r.Key)
			for _, h := range r.Headers {
				switch h.Key {
				case "key":
					if len(h.Value) > 1 {
						line += fmt.Sprint(" key ", len(h.Value))
					}
					must.True(t, bytes.HasPrefix(e.Key, h.Value), "%s: another key", r.Key)
				case "truncated", "truncated_key":
					line += fmt.Sprintf(" %s=%s", h.Key, h.Value)
				}
			}
			got = append(got, line)
		}
	}
	want := []string{"t/0/0 5", "t/0/1 3000000", "t/0/2 6250 truncated=100000", "t/0/3 3000 key 6250 truncated_key=50000", "t/0/4 4"}
	must.EqualSlices(t, got, want)

	name := filepath.Join(t.TempDir(), "dead.jsonl")
	f := openDeadLetters(t, nil, DeadLetterConfig{File: name})
	err := errors.Join(f.Add(t.Context(), "t", 0, refused(0, strings.Repeat("x", maxLetterBytes+1))), f.Flush(t.Context()), f.Close())
	info, _ := os.Stat(name)
	must.Require(t, err == nil && info.Size() >= maxLetterBytes, "%v", err)
	line, err := os.ReadFile(name)
	if want := fmt.Sprintf(`,"truncated":%d,`, maxLetterBytes+1); err != nil || !bytes.Contains(line[:300], []byte(want)) {
		t.Errorf("%v: %s, want %s", err, line[:300], want)
	}
}

// TestDeadLettersAreSmall checks that dead letters take about as much space as their records. The test stores many
// empty records, and records with invalid labels if the configuration has very many classes.
func TestDeadLettersAreSmall(t *testing.T) {
	b := startBroker(t, map[string]int32{"dead": 1})
	d := openDeadLetters(t, b, DeadLetterConfig{Topic: "dead"})
	c := record.DefaultConfig()
	c.Format = "vw"
	for i := range 400 {
		c.Classes = append(c.Classes, fmt.Sprintf("%d %s", i, strings.Repeat("class ", 40)))
	}
	decoder := must.Get(record.NewDecoder(c, c.Schema()))(t)
	const n = 50_000
	var e event.Example
	for i := range n {
		r := record.Record{Offset: int64(i), Time: 1767225600000 + int64(i)}
		if i%2 == 1 {
			r.Value = fmt.Appendf(nil, "label%d |a b c", i)
		}
		err := decoder.Decode(t.Context(), r, &e)
		must.Require(t, err == nil && e.Refused != nil && len(e.Refused.Detail) <= 450, "%v, %v", err, e.Refused)
		must.Do(t, d.Add(t.Context(), "some-topic", 0, &e))
	}
	must.Do(t, d.Flush(t.Context()))
	size := b.cluster.PartitionInfo("dead", 0).NumBytes
	must.True(t, size <= 40*n, "%d letters take %d bytes", n, size)
}

func TestDeadLetterErrors(t *testing.T) {
	b := startBroker(t, nil)
	connection := connectTo(b)
	for want, c := range map[string]DeadLetterConfig{
		"either a topic or a file": {},
		"topic or a file":          {Topic: "a", File: "b"},
		"does not exist":           {Topic: "dead"},
		"no such file":             {File: filepath.Join(t.TempDir(), "no", "dir")},
	} {
		must.ErrorContains(t, must.Err(OpenDeadLetters(t.Context(), c, connection, nil)), want)
	}
	full, err := OpenDeadLetters(t.Context(), DeadLetterConfig{File: "/dev/full"}, connection, nil)
	if err != nil {
		t.Skip(err)
	}
	must.Do(t, full.Add(t.Context(), "t", 0, refused(1, "x")))
	must.Fails(t, full.Flush(t.Context()), "Flush to a full disk")
	must.Fails(t, full.Close(), "Close with a letter that was not written")
}

// TestLetters checks that dead letters are read as they were stored, from a topic and from a file. The letters have
// null and empty bytes, reasons, and cut values. For a record that is not a letter, reading must return an error with
// the position of the record, and continue.
func TestLetters(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startBroker(t, map[string]int32{"dead": 1})
	connection := connectTo(b)
	examples := []*event.Example{refused(0, "plain"), refused(1, ""), refused(2, "\x00\xff\n"), refused(3, strings.Repeat("x", maxLetterBytes+1)), refused(4, "last")}
	examples[1].Refused.Value, examples[1].Key = nil, nil
	examples[2].Time = 0
	for _, c := range []DeadLetterConfig{{Topic: "dead"}, {File: filepath.Join(t.TempDir(), "dead.jsonl")}} {
		if c.Topic != "" {
			examples[3].Refused.Value = []byte("short") // with more bytes the topic would reject it
		} else {
			examples[3].Refused.Value = bytes.Repeat([]byte("x"), maxLetterBytes+1)
		}
		d, err := OpenDeadLetters(t.Context(), c, connection, streamtest.Log(t))
		must.Do(t, err)
		for i, e := range examples {
			if i == 4 { // add a foreign record before the last letter
				must.Do(t, d.Flush(t.Context()))
				if d.producer != nil {
					err = d.producer.Write(t.Context(), Message{Value: []byte("{}"), Headers: []Header{{Key: "reason", Value: []byte("syntax")}}})
				} else {
					_, err = d.file.WriteString("{}\n\n")
				}
				must.Do(t, err)
			}
			must.Do(t, d.Add(t.Context(), "t", 2, e))
		}
		must.Do(t, errors.Join(d.Flush(t.Context()), d.Close()))
		in := Input{Where: c.File, Kafka: DefaultConsumerConfig()}
		in.Kafka.ConnectConfig, in.Kafka.Topics = connection, []string{"dead"}
		letters := must.Get(OpenLetters(t.Context(), in))(t)
		var got []*Letter
		var wrong []string
		for {
			l, err := letters.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if e, ok := errors.AsType[*LetterError](err); ok {
				wrong = append(wrong, e.Error())
			} else {
				must.Do(t, err)
				got = append(got, l)
			}
		}
		must.Do(t, letters.Close())
		want := map[string]string{"dead": "dead/0/4: no letter: no header topic", "": c.File + ":5: not a dead letter: it has no topic or no reason"}[c.Topic]
		must.True(t, len(wrong) == 1 && wrong[0] == want, "%q, want %q", wrong, want)
		must.Require(t, len(got) == len(examples), "%d letters", len(got))
		for i, e := range examples {
			want := &Letter{Topic: "t", Partition: 2, Offset: e.Offset, Time: e.Time, Reason: e.Refused.Reason, Detail: e.Refused.Detail, Key: e.Key, Value: e.Refused.Value}
			partial := ""
			if len(want.Value) > maxLetterBytes {
				want.Value, want.Truncated, partial = want.Value[:maxLetterBytes], maxLetterBytes+1, "it was cut to fit the size limit"
			}
			must.True(t, reflect.DeepEqual(got[i], want) && got[i].Partial() == partial, "%v letter %d: %.200v, want %.200v", c, i, got[i], want)
		}
	}
}

// TestParseHeaders checks that headers with a wrong number or length are an error, and allocate no memory.
func TestParseHeaders(t *testing.T) {
	var w batchWriter
	want := []Header{{Key: "a", Value: []byte("b")}, {}, {Key: "long", Value: bytes.Repeat([]byte("x"), 300)}}
	w.add(0, Message{[]byte("k"), []byte("v"), 5, want})
	r := recordReader{rest: w.Records, left: 1}
	var rec rawRecord
	ok, err := r.next(&rec)
	must.Require(t, ok && err == nil, "%v %v", ok, err)
	got, err := parseHeaders(rec.headers)
	must.True(t, err == nil && reflect.DeepEqual(got, want), "%v: %v", err, got)
	for n := range rec.headers {
		must.Fails(t, must.Err(parseHeaders(rec.headers[:n])), n, "of", len(rec.headers), "bytes are taken for all")
	}
	for _, lie := range [][]byte{binary.AppendVarint(nil, 1<<40), binary.AppendVarint(nil, -1)} {
		must.Fails(t, must.Err(parseHeaders(lie)), "headers", lie)
	}
}
