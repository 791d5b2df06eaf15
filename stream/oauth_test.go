package stream

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// tokens is a test authority that issues and counts tokens.
type tokens struct {
	*httptest.Server
	given   int
	expires int // lifetime in seconds
	token   string
}

func startTokens(t *testing.T) *tokens {
	a := &tokens{expires: 3600}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, password, basic := r.BasicAuth()
		if r.Method != http.MethodPost || !basic || id != "learner" || password != "secret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "read write" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		a.given++
		w.Header().Set("Content-Type", "application/json")
		token := a.token
		if token == "" {
			token = fmt.Sprint("token-", a.given)
		}
		json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": a.expires})
	}))
	t.Cleanup(a.Close)
	return a
}

// config returns the settings of a client of the authority.
func (a *tokens) config(t *testing.T) SASLConfig {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	must.Do(t, os.WriteFile(ca, text, 0o600))
	t.Setenv("OAUTH_SECRET", "secret")
	return SASLConfig{Mechanism: "OAUTHBEARER", Username: "learner", PasswordEnv: "OAUTH_SECRET", TokenURL: event.Address(a.URL + "/token"),
		TokenCAFile: ca, Scopes: []string{"read", "write"}, Extensions: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}}
}

// TestOAuth checks that the messages conform to RFC 7628. A token must be used until it expires or is rejected.
func TestOAuth(t *testing.T) {
	noLeaks(t)
	a := startTokens(t)
	c := a.config(t)
	must.Do(t, c.check())
	mechanism := must.Get(c.load())(t)
	must.Equal(t, mechanism.Name(), "OAUTHBEARER")
	first := func(token string) string {
		return "n,,\x01auth=Bearer " + token + "\x01identityPoolId=pool-2\x01logicalCluster=lkc-1\x01\x01"
	}
	for range 2 {
		session, message, err := mechanism.Start(t.Context())
		must.Require(t, err == nil && string(message) == first("token-1"), "%q, %v", message, err)
		if done, answer, err := session.Next(t.Context(), nil); !done || len(answer) > 0 || err != nil {
			t.Errorf("the broker is content: %t, %q, %v", done, answer, err)
		}
	}
	session, _ := must.Get2(mechanism.Start(t.Context()))(t)
	if done, answer, err := session.Next(t.Context(), []byte(`{"status":"invalid_token"}`)); done || string(answer) != "\x01" || err != nil {
		t.Errorf("a refused token: %t, %q, %v", done, answer, err)
	}
	if done, _, err := session.Next(t.Context(), nil); done || err == nil || !strings.Contains(err.Error(), `the broker refuses the token: {"status":"invalid_token"}`) {
		t.Errorf("after that: %t, %v", done, err)
	}
	a.expires = 1 // within the safety margin
	for _, want := range []string{"token-2", "token-3"} {
		if _, message, err := mechanism.Start(t.Context()); err != nil || string(message) != first(want) {
			t.Errorf("%q, %v, want %s", message, err, want)
		}
	}
	a.token = "a\x01b"
	if _, _, err := mechanism.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "control characters") {
		t.Errorf("a token that would be another message: %v", err)
	}
	a.token = ""
	given := a.given
	elsewhere := httptest.NewServer(http.RedirectHandler(a.URL+"/token", http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	for name, test := range map[string]struct {
		edit func(*SASLConfig)
		err  string
	}{
		"secret":    {func(c *SASLConfig) { c.PasswordEnv = "HOME" }, "invalid_client"},
		"address":   {func(c *SASLConfig) { c.TokenURL = event.Address(elsewhere.URL) }, "307"},
		"authority": {func(c *SASLConfig) { c.TokenCAFile = "" }, "certificate"},
	} {
		c := a.config(t)
		test.edit(&c)
		mechanism := must.Get(c.load())(t)
		if _, _, err := mechanism.Start(t.Context()); err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "sasl.token_url") {
			t.Errorf("wrong %s: %v", name, err)
		}
	}
	must.Equal(t, a.given, given, "tokens given for a request that should have failed")
}

func TestOAuthConfig(t *testing.T) {
	good := SASLConfig{Mechanism: "OAUTHBEARER", Username: "learner", PasswordEnv: "OAUTH_SECRET", TokenURL: "https://login.example.com/token"}
	must.Do(t, good.check())
	for text, edit := range map[string]func(*SASLConfig){
		"needs token_url":                       func(c *SASLConfig) { c.TokenURL = "" },
		"want https://HOST/PATH":                func(c *SASLConfig) { c.TokenURL = "login.example.com" },
		"unencrypted":                           func(c *SASLConfig) { c.TokenURL = "http://login.example.com/token" },
		"put them in username":                  func(c *SASLConfig) { c.TokenURL = "https://a:b@login.example.com/token" },
		"no username":                           func(c *SASLConfig) { c.Username = "" },
		`"auth" = "x"`:                          func(c *SASLConfig) { c.Extensions = map[string]string{"auth": "x"} },
		`"a=b" = "x"`:                           func(c *SASLConfig) { c.Extensions = map[string]string{"a=b": "x"} },
		`"a" = "x\x01auth=y"`:                   func(c *SASLConfig) { c.Extensions = map[string]string{"a": "x\x01auth=y"} },
		"token_url needs mechanism OAUTHBEARER": func(c *SASLConfig) { c.Mechanism = "PLAIN" },
		"scopes need":                           func(c *SASLConfig) { c.Mechanism, c.TokenURL, c.Scopes = "PLAIN", "", []string{"a"} },
		"extensions need":                       func(c *SASLConfig) { c.Mechanism, c.TokenURL, c.Extensions = "PLAIN", "", map[string]string{"a": "b"} },
		"token_ca_file needs":                   func(c *SASLConfig) { c.Mechanism, c.TokenURL, c.TokenCAFile = "PLAIN", "", "ca.pem" },
	} {
		c := good
		edit(&c)
		must.ErrorContains(t, c.check(), text)
	}
	local := good
	local.TokenURL = "http://127.0.0.1:8080/token"
	must.Do(t, local.check())
}
