package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
)

// hostile lists, by format, records that exceed the documented limits. They contain fields, words and classes that no
// valid record contains. The learned state must contain none of these.
var hostile = map[string][]struct {
	reason event.Reason
	record string
}{
	"json": {
		{event.ReasonSyntax, `{"label":"good","evil":1,"words":["evil"],"x":`},
		{event.ReasonWeight, `{"label":"good","evil":1,"x":NaN,"weight":-1}`},
		{event.ReasonOutOfRange, `{"label":"good","evil":"much","x":1e308}`},
		{event.ReasonTooMany, `{"label":"good","words":[` + strings.Repeat(`"evil","more","of it",`, 40) + `"x"]}`},
		{event.ReasonOversize, `{"label":"good","evil":"` + strings.Repeat("x", 4000) + `"}`},
		{event.ReasonLabel, `{"label":"evil","evil":1,"x":5,"words":["evil"]}`},
		{event.ReasonWeight, `{"evil":1,"label":"good","x":1,"weight":-1}`},
		{event.ReasonSchemaFormat, "\x00\x00\x00\x00\x07{\"label\":\"good\"}"},
		{event.ReasonDuplicate, `{"label":"good","evil":1,"x":1,"x":2}`},
		{event.ReasonDecompression, ""},
		{event.ReasonSyntax, `{"label":"good","a":` + strings.Repeat(`{"evil":`, 100) + `1` + strings.Repeat("}", 101)},
		{event.ReasonSyntax, "not JSON at all \xff\xfe"},
		{event.ReasonSyntax, `{"label":"good","x":-Infinite}`},
	},
	"svmlight": {
		{event.ReasonSyntax, `1 1:1 evil`},
		{event.ReasonNotFinite, `1 3:nan`},
		{event.ReasonNotFinite, `inf 3:1`},
		{event.ReasonOutOfRange, `1 7:1e308`},
		{event.ReasonOutOfRange, `1 4000000000:1`},
		{event.ReasonTooMany, `1` + strings.Repeat(" 5:1", 110)},
		{event.ReasonOversize, `1 1:` + strings.Repeat("1", 4000)},
		{event.ReasonLabel, `3 1:1 900:1`},
		{event.ReasonSchemaFormat, "\x00\x00\x00\x00\x07 1"},
		{event.ReasonDecompression, ""},
	},
	"vw": {
		{event.ReasonSyntax, `1 |a evil:one x:2`},
		{event.ReasonNotFinite, `1 |evil more x:nan`},
		{event.ReasonOutOfRange, `1 |evil x:1e308`},
		{event.ReasonTooMany, `1 |evil` + strings.Repeat(" a b c d", 30)},
		{event.ReasonOversize, `1 |a ` + strings.Repeat("e", 4000)},
		{event.ReasonLabel, `7 |evil a b c`},
		{event.ReasonWeight, `1 -2 |evil a b c`},
		{event.ReasonSchemaFormat, "\x00\x00\x00\x00\x07 | a"},
		{event.ReasonDecompression, ""},
	},
	"csv": {
		{event.ReasonSyntax, `good,1,"evil`},
		{event.ReasonSyntax, `good,1,evil,1,1,1,1`},
		{event.ReasonOutOfRange, `good,-1e31,evil,1`},
		{event.ReasonOutOfRange, `good,1e308,evil,1`},
		{event.ReasonOversize, `good,1,` + strings.Repeat("e", 4000) + `,1`},
		{event.ReasonLabel, `evil,1,evil,1`},
		{event.ReasonWeight, `good,1,evil,-1`},
		{event.ReasonSchemaFormat, "\x00\x00\x00\x00\x07 | a"},
		{event.ReasonDecompression, ""},
	},
}

// goodRecord returns the i-th valid record of a format.
func goodRecord(format string, i int, r *rand.Rand) string {
	label, x, color := i%2, r.NormFloat64(), []string{"red", "green", "blue"}[r.IntN(3)]
	x += float64(label)
	word := r.IntN(200)
	class := []string{"bad", "good"}[label]
	switch format {
	case "json":
		if r.IntN(10) == 0 {
			return fmt.Sprintf(`{"label":%q,"x":null,"color":%q,"words":["w%d","v%d"]}`, class, color, word, word/3)
		}
		return fmt.Sprintf(`{"label":%q,"x":%.3f,"color":%q,"words":["w%d"],"weight":%d}`, class, x, color, word, r.IntN(3))
	case "svmlight":
		return fmt.Sprintf(`%d 1:%.3f %d:1`, label, x, 10+word)
	case "vw":
		return fmt.Sprintf(`%d %d |f x:%.3f color_%s |words w%d`, 2*label-1, 1+r.IntN(2), x, color, word)
	}
	return fmt.Sprintf(`%s,%.3f,%s,%d`, class, x, color, r.IntN(3))
}

// records is a Source of the records of one partition. An empty record represents a compressed batch that cannot be
// decompressed.
type records struct {
	decoder record.Decoder
	schema  *event.Schema
	left    []string
	offset  int64
}

func (s *records) Next(ctx context.Context, b *event.Batch) error {
	if len(s.left) == 0 {
		return io.EOF
	}
	b.Topic, b.HighWater, b.Examples = "t", -1, b.Examples[:0]
	for ; len(s.left) > 0 && len(b.Examples) < 64; s.left = s.left[1:] {
		value := []byte(s.left[0])
		var e event.Example
		if len(value) == 0 {
			e = event.Example{Label: event.Unlabeled, Offset: s.offset, Refused: &event.Refusal{Reason: event.ReasonDecompression, Value: []byte("bomb")}}
		} else {
			if err := s.decoder.Decode(ctx, record.Record{Value: value, Offset: s.offset}, &e); err != nil {
				return err
			}
		}
		e.Fingerprint = record.Fingerprint(s.offset, nil, value)
		b.Examples = append(b.Examples, e)
		s.offset++
	}
	b.Next, b.Schema = s.offset, s.schema.View()
	return nil
}

// learnRecords learns the records in all. It returns the state, the counts of rejected records by reason, and the dead
// letters.
func learnRecords(t *testing.T, c record.Config, all []string) (map[string][]byte, map[event.Reason]uint64, []byte) {
	t.Helper()
	schema := c.Schema()
	decoder := must.Get(record.NewDecoder(c, schema))(t)
	learner := must.Get(online.New(online.DefaultConfig(), schema))(t)
	name := filepath.Join(t.TempDir(), "dead.jsonl")
	letters := must.Get(stream.OpenDeadLetters(t.Context(), stream.DeadLetterConfig{File: name}, stream.ConnectConfig{}, nil))(t)
	defer letters.Close()
	r := &run.Runner{Config: run.DefaultConfig(), Schema: schema, State: run.State{Learner: learner}, DeadLetters: letters,
		Source: &records{decoder: decoder, schema: schema, left: all}}
	must.Do(t, r.Run(t.Context()))
	blocks := must.Get(learner.Snapshot().Blocks())(t)
	state := map[string][]byte{}
	for _, b := range blocks {
		state[b.Name] = b.Data
	}
	dead := must.Get(os.ReadFile(name))(t)
	return state, r.Status().RefusedBy, dead
}

// TestHostileRecords learns a stream in which one record in a hundred is hostile, and a few at the start. The result
// must have the same bits as the stream without the hostile records: weights, statistics, fields, names and measures.
// Every hostile record must be a dead letter with its reason.
//
// A valid record with an unknown label adds a class. So without record.classes the states are equal only if all classes
// have arrived before the first such record.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	t.Run("classes", func(t *testing.T) { testHostile(t, true) })
	t.Run("no classes", func(t *testing.T) { testHostile(t, false) })
}

func testHostile(t *testing.T, named bool) {
	reasons := map[event.Reason]bool{}
	for format, kinds := range hostile {
		t.Run(format, func(t *testing.T) {
			c := record.DefaultConfig()
			c.Format, c.Weight, c.MaxFeatures, c.MaxBytes = format, "weight", 100, 3000
			c.MaxClasses = 2
			if named {
				c.Classes = map[string][]string{"svmlight": {"0", "1"}, "vw": {"-1", "1"}}[format]
				if c.Classes == nil {
					c.Classes = []string{"bad", "good"}
				}
			}
			if format == "json" {
				c.Crosses = [][2]string{{"color", "words"}}
			}
			if format == "csv" {
				c.Columns = []string{"label", "x", "color", "weight"}
			}
			r := rand.New(rand.NewPCG(5, 6))
			var good, mixed []string
			want := map[event.Reason]uint64{}
			n := 0
			first := 0 // valid records come before a record whose only fault is an unknown label
			add := func() {
				kind := kinds[n%len(kinds)]
				n++
				if !named {
					if kind.reason == event.ReasonLabel && len(good) < 2 {
						first++
						return
					}
					// A record that is rejected for another reason must not add a class either.
					kind.record = strings.ReplaceAll(kind.record, `good`, "evil")
					if strings.HasPrefix(kind.record, "1 ") {
						kind.record = "7" + kind.record[1:]
					}
				}
				want[kind.reason]++
				reasons[kind.reason] = true
				mixed = append(mixed, kind.record)
			}
			for i := range 3000 {
				if i == 0 || i == 2 || i%100 == 50 {
					for range len(kinds) {
						add()
						if i > 2 {
							break // all kinds of hostile records at the start, then one at a time
						}
					}
				}
				record := goodRecord(format, i, r)
				good, mixed = append(good, record), append(mixed, record)
			}
			calm, none, _ := learnRecords(t, c, good)
			must.Require(t, len(none) == 0, "good records refused: %v", none)
			state, refused, dead := learnRecords(t, c, mixed)
			must.EqualMaps(t, refused, want, "refused")
			names := slices.Sorted(maps.Keys(state))
			must.Require(t, slices.Equal(names, slices.Sorted(maps.Keys(calm))), "blocks %v and %v", names, slices.Sorted(maps.Keys(calm)))
			for _, name := range names {
				if name == "refused" {
					continue
				}
				must.True(t, bytes.Equal(state[name], calm[name]), "block %s is another with hostile records in between", name)
			}
			must.True(t, !bytes.Contains(state["model"], []byte("evil")) && !bytes.Contains(state["names"], []byte("evil")), "the model remembers a hostile record")
			lines := 0
			for line := range bytes.Lines(dead) {
				var letter struct{ Reason event.Reason }
				must.Do(t, json.Unmarshal(line, &letter))
				want[letter.Reason]--
				lines++
			}
			must.True(t, lines == n-first && !slices.ContainsFunc(slices.Collect(maps.Values(want)), func(n uint64) bool { return n != 0 }), "%d dead letters for %d hostile records: %v", lines, n-first, want)
		})
	}
	must.Equal(t, len(reasons), 10, "reasons")
}
