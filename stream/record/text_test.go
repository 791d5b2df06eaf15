package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"

	"github.com/cespare/xxhash/v2"
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
