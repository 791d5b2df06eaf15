package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestKafkaJarsAreNotFetchedUnasked checks that the real broker's jars are not downloaded unless the user requests
// this. The message must explain how to request the download, and name the source and the target of the download.
func TestKafkaJarsAreNotFetchedUnasked(t *testing.T) {
	dir := t.TempDir()
	cache, called := filepath.Join(dir, "cache"), filepath.Join(dir, "called")
	for name, script := range map[string]string{
		"java": "exit 1",
		"mvn":  "echo \"$@\" > " + called + "; exit 1",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", cache)
	_, err := kafkaJars(t.Context(), false)
	for _, want := range []string{requireKafka + "=1", cache, "44 MB", "repository"} {
		must.ErrorContains(t, err, want, "unasked")
	}
	for _, path := range []string{called, cache} {
		must.Fails(t, must.Err(os.Stat(path)), "the file without a request", path)
	}
	// If the user requests it, the download is attempted.
	must.ErrorContains(t, must.Err(kafkaJars(t.Context(), true)), "mvn could not fetch", "asked")
	text, _ := os.ReadFile(called)
	must.True(t, strings.Contains(string(text), "dependency:copy-dependencies"), "asked, mvn was called with %q", text)
}
