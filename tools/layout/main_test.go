package main

import (
	"os"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestPictureIsCurrent checks that the picture in CONTRIBUTING.md shows the current imports.
func TestPictureIsCurrent(t *testing.T) {
	imports := must.Get(list("../.."))(t)
	document := must.Get(os.ReadFile("../../CONTRIBUTING.md"))(t)
	want := must.Get(replaced(string(document), picture(reduced(byPart(imports)))))(t)
	must.True(t, want == string(document), "CONTRIBUTING.md has another picture of the imports: go run ./tools/layout -update")
}

// TestGround checks that packages of internal, the ground of the others, import none of these.
func TestGround(t *testing.T) {
	imports := must.Get(list("../.."))(t)
	for from, list := range imports {
		for _, to := range list {
			must.True(t, !strings.HasPrefix(from, "internal/") || strings.HasPrefix(to, "internal/"), "%s imports %s", from, to)
		}
	}
}

func TestReduced(t *testing.T) {
	arrows := reduced(byPart(map[string][]string{
		"serve/predict": {"stream/record", "internal/loss", "internal/failpoint"},
		"stream":        {"internal/event", "stream/record"},
		"stream/record": {"internal/loss"}, "internal/event": {"internal/loss"},
	}))
	const want = "```mermaid\nflowchart TD\n  serve[serve] --> stream[stream]\n  stream[stream] --> internal_event[internal/event]\n  internal_event[internal/event] --> internal_loss[internal/loss]\n```\n"
	must.Equal(t, picture(arrows), want)
	must.ErrorContains(t, must.Err(replaced("no lines", "")), "no place")
}
