package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/must"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "secret")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	t.Setenv("TEST_SECRET", "from the environment")
	for _, c := range []struct{ text, env, want, err string }{
		{"open sesame\n", "TEST_SECRET", "open sesame", ""},
		{" a\tb \r\n\n", "", " a\tb ", ""},
		{"", "TEST_SECRET", "", "is empty"},
		{"\r\n", "TEST_SECRET", "", "is empty"},
	} {
		got, err := Read(file(c.text), c.env)
		must.True(t, got == c.want && (err == nil) == (c.err == "") && (err == nil || strings.Contains(err.Error(), c.err)), "%q: %q, %v", c.text, got, err)
	}
	for env, want := range map[string]string{"TEST_SECRET": "from the environment", "TEST_NO_SECRET": "", "": ""} {
		got, err := Read("", env)
		must.True(t, got == want && err == nil, "%s: %q, %v", env, got, err)
	}
	must.Fails(t, must.Err(Read(filepath.Join(dir, "none"), "TEST_SECRET")), "a file that is not there")
}
