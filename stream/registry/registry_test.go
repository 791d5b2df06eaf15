package registry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"blankout/internal/event"
	"blankout/internal/must"
)

const number = `{"type":"record","name":"E","fields":[{"name":"x","type":"double"}]}`

// open returns a client with a short time between requests.
func open(t *testing.T, c Config) *Client {
	t.Helper()
	client := must.Get(New(c, nil))(t)
	client.pause = time.Millisecond
	return client
}

// TestSchema checks that a schema is requested once. The schema must be returned with the schemas that it refers to;
// each of these follows the schemas that it refers to.
func TestSchema(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("a", 1, 10, sr.Schema{Type: sr.TypeAvro, Schema: number})
	fake.SeedSchema("b", 3, 11, sr.Schema{Type: sr.TypeAvro, Schema: `"E"`, References: []sr.SchemaReference{{Name: "E", Subject: "a", Version: 1}}})
	fake.SeedSchema("c", 1, 12, sr.Schema{Type: sr.TypeAvro, Schema: `["E","null"]`, References: []sr.SchemaReference{{Name: "b", Subject: "b", Version: 3}, {Name: "E", Subject: "a", Version: 1}}})
	c := open(t, Config{URL: event.Address(" " + fake.URL() + "/ ,")})
	for range 3 {
		s := must.Get(c.Schema(t.Context(), 12))(t)
		must.True(t, s.Type == "AVRO" && len(s.References) == 2 && s.References[0] == (Reference{"E", number}) && s.References[1].Name == "b", "%+v", s)
	}
	s := c.Status()
	must.True(t, s.Failures == 0 && s.LastError == "", "%+v", s)
	id := must.Get(c.Register(t.Context(), "new", "PROTOBUF", `syntax = "proto3"; message E { double x = 1; }`))(t)
	must.Equal(t, must.Get(c.Schema(t.Context(), id))(t).Type, "PROTOBUF")
}

// TestRegistryAway checks that the request for a schema is repeated while the registry fails, or while a proxy responds
// in its place. The request must succeed when the registry works again.
func TestRegistryAway(t *testing.T) {
	fake := srfake.NewRegistry()
	fake.SeedSchema("a", 1, 1, sr.Schema{Type: sr.TypeAvro, Schema: number})
	var bad, asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1); bad.Load() {
		case 1:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case 2:
			w.Write([]byte("no JSON"))
		case 3:
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case 4:
			http.NotFound(w, r)
		default:
			fake.Handler().ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	for kind := int32(1); kind <= 4; kind++ {
		bad.Store(kind)
		asked.Store(0)
		c := open(t, Config{URL: event.Address(server.URL)})
		got := make(chan error, 1)
		go func() {
			_, err := c.Schema(t.Context(), 1)
			got <- err
		}()
		for c.Status().Failures < 3 {
			time.Sleep(time.Millisecond)
		}
		s := c.Status()
		must.True(t, strings.Contains(s.LastError, "the registry does not return schema 1") && !s.Since.IsZero(), "%d: %+v", kind, s)
		bad.Store(0)
		must.Do(t, <-got, kind)
		s = c.Status()
		must.True(t, s.LastError == "" && s.Since.IsZero(), "%d: %+v", kind, s)
	}
	c := open(t, Config{URL: event.Address(server.URL)})
	bad.Store(1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Schema(ctx, 2)
	must.True(t, errors.Is(err, context.DeadlineExceeded) && c.Status().LastError == "", "%v, %+v", err, c.Status())
}

// TestSchemaDenied checks that an unknown schema is requested once and then not for a while, so that no record waits
// for it. The same applies to schemas that are too large or have too many references.
func TestSchemaDenied(t *testing.T) {
	fake := srfake.NewRegistry()
	refersTo := func(i int) []sr.SchemaReference {
		return []sr.SchemaReference{{Name: fmt.Sprint("r", i), Subject: fmt.Sprint("r", i), Version: 1}}
	}
	for i := range maxReferences + 1 {
		s := sr.Schema{Type: sr.TypeAvro, Schema: number}
		if i > 0 {
			s.References = refersTo(i - 1)
		}
		fake.SeedSchema(fmt.Sprint("r", i), 1, 1000+i, s)
	}
	fake.SeedSchema("chain", 1, 1, sr.Schema{Type: sr.TypeAvro, Schema: number, References: refersTo(maxReferences)})
	fake.SeedSchema("long", 1, 2, sr.Schema{Type: sr.TypeAvro, Schema: strings.Repeat(" ", maxAnswer) + number})
	for i := range 3 {
		fake.SeedSchema(fmt.Sprint("big", i), 1, 10+i, sr.Schema{Type: sr.TypeAvro, Schema: strings.Repeat(" ", maxAnswer/2) + number})
	}
	fake.SeedSchema("many", 1, 3, sr.Schema{Type: sr.TypeAvro, Schema: number, References: []sr.SchemaReference{
		{Name: "a", Subject: "big0", Version: 1}, {Name: "b", Subject: "big1", Version: 1}, {Name: "c", Subject: "big2", Version: 1}}})
	fake.SeedSchema("gone", 1, 5, sr.Schema{Type: sr.TypeAvro, Schema: number})
	fake.SeedSchema("dangling", 1, 4, sr.Schema{Type: sr.TypeAvro, Schema: number, References: []sr.SchemaReference{{Name: "gone", Subject: "gone", Version: 1}}})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); strings.HasPrefix(r.URL.Path, "/subjects/gone/") {
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"error_code": 40401, "message": "subject not found"}`))
			return
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	c := must.Get(New(Config{URL: event.Address(server.URL)}, nil))(t)
	c.pause = 24 * time.Hour // a wait would block the test
	for _, x := range []struct {
		id, asked int
		why       string
	}{{1, 1 + maxReferences, "refers to more than 200 schemas"}, {2, 1, "longer than 2097152 bytes"}, {3, 3, "more than 2097152 bytes of them"}, {4, 2, "gone, version 1"}, {7, 1, "not found"}} {
		asked.Store(0)
		for range 3 {
			var denied *DeniedError
			_, err := c.Schema(t.Context(), uint32(x.id))
			must.True(t, errors.As(err, &denied) && strings.Contains(err.Error(), x.why), "schema %d: %v, want %q", x.id, err, x.why)
		}
		must.Equal(t, int(asked.Load()), x.asked, "schema", x.id, "requests")
	}
	for id := range uint32(maxDenied + 1) {
		c.deny(1e6+id, errTooLong)
	}
	n := len(c.denied)
	must.True(t, n <= maxDenied, "%d denials are kept", n)
}

// TestRefusedRecordsInARow checks that the status reports many consecutive records without a usable schema, until a record has one.
func TestRefusedRecordsInARow(t *testing.T) {
	c := open(t, Config{URL: "http://127.0.0.1:1"})
	for i := range refusedInARow {
		must.Equal(t, c.Status().Refused, "", "after", i, "records")
		c.Use(fmt.Errorf("schema %d: none", i))
	}
	why := c.Status().Refused
	must.True(t, strings.Contains(why, "the last 10 records") && strings.Contains(why, "schema 9: none"), "%v", why)
	c.Use(nil)
	must.Equal(t, c.Status().Refused, "")
}

// TestAccess checks that the registry receives the password or the token, over TLS with the configured authority. No
// error may contain the password or the token.
func TestAccess(t *testing.T) {
	fake := srfake.NewRegistry()
	fake.SeedSchema("a", 1, 1, sr.Schema{Type: sr.TypeAvro, Schema: number})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if name+password != "learneropen sesame" && r.Header.Get("Authorization") != "Bearer open token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fake.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	authority := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	t.Setenv("TEST_REGISTRY_TOKEN", "open token")
	for name, c := range map[string]Config{
		"password": {Username: "learner", PasswordFile: file("password", "open sesame\n"), CAFile: authority},
		"token":    {TokenEnv: "TEST_REGISTRY_TOKEN", CAFile: authority},
	} {
		c.URL = event.Address(server.URL)
		must.Get(open(t, c).Schema(t.Context(), 1))(t, name)
	}
	for name, c := range map[string]Config{
		"wrong password":        {Username: "learner", PasswordFile: file("wrong", "open barley"), CAFile: authority},
		"an unknown authority":  {TokenEnv: "TEST_REGISTRY_TOKEN"},
		"neither of the access": {CAFile: authority},
	} {
		c.URL = event.Address(server.URL)
		client := open(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for client.Status().Failures == 0 {
				time.Sleep(time.Millisecond)
			}
			trouble := client.Status().LastError
			must.True(t, trouble != "" && !strings.Contains(trouble, "barley"), "%s: %q", name, trouble)
			cancel()
		}()
		must.ErrorIs(t, must.Err(client.Schema(ctx, 1)), context.Canceled, name)
		cancel()
	}
}

// TestRedirect checks that a redirect is not followed, so that the token reaches no other server.
func TestRedirect(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	t.Setenv("TEST_REGISTRY_TOKEN", "open token")
	client := open(t, Config{URL: event.Address(server.URL), TokenEnv: "TEST_REGISTRY_TOKEN"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for client.Status().Failures == 0 && reached.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	must.ErrorIs(t, must.Err(client.Schema(ctx, 1)), context.Canceled)
	must.True(t, reached.Load() == 0, "a redirect was followed")
}

// TestCheck checks which settings are rejected, and with which key.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		config Config
		key    string
	}{
		{Config{}, ""}, {DefaultConfig(), ""}, {Config{URL: "http://a:1,https://b"}, ""},
		{Config{URL: "a:1"}, "url"}, {Config{URL: "ftp://a"}, "url"}, {Config{URL: "http://user:open-sesame@a"}, "url"}, {Config{URL: "http://a", CAFile: "ca.pem"}, "url"},
		{Config{Username: "u"}, "url"}, {Config{URL: "http://a", PasswordFile: "f"}, "username"}, {Config{URL: "http://a", Username: "u", TokenFile: "f"}, "token_file"},
		{Config{URL: "https://a", CertFile: "f"}, "cert_file"},
	} {
		err := c.config.Check()
		var key *event.KeyError
		must.True(t, (err != nil) == (c.key != "") && (err == nil || errors.As(err, &key) && key.Key == c.key), "%+v: %v", c.config, err)
		must.True(t, err == nil || !strings.Contains(err.Error(), "sesame"), "%v", err)
	}
	for _, c := range []Config{
		{URL: "https://a", CAFile: "none"}, {URL: "https://a", Username: "u"}, {URL: "https://a", Username: "u", PasswordFile: "none"}, {URL: "https://a", TokenFile: "none"},
	} {
		must.Fails(t, c.CheckSecrets(), c)
	}
	must.Fails(t, must.Err(New(Config{}, nil)), "a client of no registry")
}
