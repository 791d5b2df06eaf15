package record

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"

	"github.com/BurntSushi/toml"
)

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
