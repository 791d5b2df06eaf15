package secret

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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

// TestClient checks that a request is never redirected to another server, including another port of the same host.
// Redirects within the server are followed.
func TestClient(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("another server was asked: %v", r.Header) }))
	defer other.Close()
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusPermanentRedirect)
		default:
			got += r.Header.Get("Authorization")
		}
	}))
	defer server.Close()
	c := Client(nil)
	defer c.CloseIdleConnections()
	for path, want := range map[string]string{"/away": "307 Temporary Redirect to " + other.URL + ", another server", "/loop": "for the tenth time", "/moved": ""} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := must.Get(http.NewRequest(method, server.URL+path, strings.NewReader("a secret")))(t)
			r.Header.Set("Authorization", "Bearer open sesame")
			answer, err := c.Do(r)
			if err == nil {
				answer.Body.Close()
			}
			must.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)), "%s: %v, want %q", path, err, want)
		}
	}
	must.Equal(t, got, strings.Repeat("Bearer open sesame", 2), "the server itself was sent")
}

// TestOneClient checks that the code of the repository creates HTTP clients only through Client.
func TestOneClient(t *testing.T) {
	other := regexp.MustCompile(`http\.(Client\{|DefaultClient|DefaultTransport|Transport\{|Get\(|Head\(|Post|PostForm)`)
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == ".git" || d.Name() == "secret"):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		found := other.FindString(string(text))
		must.True(t, found == "" || strings.Contains(name, "served/s3/"), "%s: %s: ask by secret.Client", name, found)
		return err
	})
	must.Do(t, err)
}
