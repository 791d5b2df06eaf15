package serve_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/serve"
)

// TestHosts checks that a server without a token only answers requests for its own host names. Otherwise a web page
// whose host name resolves to the server could read from the server and start validations.
func TestHosts(t *testing.T) {
	validated := 0
	service := following(t, 2, 10)
	service.Validate = func() error { validated++; return nil }
	for _, c := range []struct {
		address string
		public  bool
		hosts   []string
		host    string
		want    int
	}{
		{"127.0.0.1:8642", false, nil, "127.0.0.1:8642", 202},
		{"127.0.0.1:8642", false, nil, "evil.example", 421},
		{"127.0.0.1:8642", false, nil, "192.168.1.5:8642", 421},
		{"127.0.0.1:8642", true, nil, "evil.example:8642", 421},
		{"0.0.0.0:8642", true, nil, "evil.example:8642", 421},
		{"0.0.0.0:8642", true, nil, "192.168.1.5:8642", 202},
		{"0.0.0.0:8642", true, nil, "[fe80::1]:8642", 202},
		{"0.0.0.0:8642", true, nil, "localhost:8642", 202},
		{":8642", true, nil, "learner", 421},
		{":8642", true, []string{"learner"}, "Learner:1", 202},
		{":8642", true, []string{"learner"}, "learner.evil.example", 421},
		{":8642", true, []string{"learner"}, "", 421},
		{":8642", true, []string{"*"}, "any.example", 202},
	} {
		config := serve.DefaultConfig()
		config.Address, config.Public, config.Hosts = c.address, c.public, c.hosts
		must.Do(t, config.Check())
		request := httptest.NewRequest("POST", "/v1/validate", nil)
		request.Host = c.host
		w := httptest.NewRecorder()
		before := validated
		serve.Handler(config, service).ServeHTTP(w, request)
		must.True(t, w.Code == c.want && (validated > before) == (c.want == 202), "%+v: %d %s", c, w.Code, w.Body)
	}
	// A client with a certificate or a token may use any host name for the server.
	for ca, token := range map[string]string{"authority.pem": "", "": "open sesame"} {
		config := serve.DefaultConfig()
		config.ClientCAFile = ca
		request := httptest.NewRequest("POST", "/v1/validate", nil)
		request.Host = "evil.example"
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		serve.Guarded(config, token, service).ServeHTTP(w, request)
		must.True(t, w.Code == 202, "%q, %q: %d %s", ca, token, w.Code, w.Body)
	}
	for _, host := range []string{"http://learner", "learner:80", "[::1]", "a b"} {
		config := serve.DefaultConfig()
		config.Hosts = []string{host}
		err := config.Check()
		must.True(t, err != nil && strings.HasPrefix(err.Error(), "hosts: "), "%q: %v", host, err)
	}
}

// TestPoorTokens checks that tokens are rejected if they are easy to guess or impossible to send. The error must not
// contain the token.
func TestPoorTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for token, want := range map[string]string{
		"x": "fewer than 8", "        ": "fewer than 8", "1234567\n": "fewer than 8", "   1234567   ": "fewer than 8",
		" 12345678": "space", "1234\t5678": "control character", "1234\n5678": "control character", "12345678\n": "", "päßwörter": "", "open sesame": "",
	} {
		must.Do(t, os.WriteFile(file, []byte(token), 0o600))
		for _, from := range []string{"token_file", "token"} {
			config := serve.DefaultConfig()
			config.TokenEnv = "BLANKOUT_TEST_TOKEN"
			if from == "token_file" {
				config.TokenFile = file
			} else {
				t.Setenv(config.TokenEnv, strings.TrimRight(token, "\n"))
			}
			err := config.Check()
			text := strings.ReplaceAll(fmt.Sprint(err), file, "FILE") // the file's random name may contain "1234"
			must.True(t, (err == nil) == (want == "") && (err == nil || strings.HasPrefix(text, from+": ") && strings.Contains(text, want) && !strings.Contains(text, "1234")), "%s %q: %v", from, token, err)
		}
	}
}

// TestClientCertificates checks that with client_ca_file only clients with a certificate of that authority are
// accepted. These clients must need no token.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	config := serve.DefaultConfig()
	config.TokenEnv = "BLANKOUT_TEST_NO_TOKEN"
	config.CertFile, config.KeyFile = certificate(t, dir)
	authority := filepath.Join(dir, "clients.pem")
	clients := streamtest.NewAuthority(t)
	must.Do(t, os.WriteFile(authority, clients.PEM, 0o600))
	config.ClientCAFile = authority
	config.Address = "0.0.0.0:0"
	must.Do(t, config.Check(), "instead of a token")
	url := start(t, config, following(t, 2, 10))
	get := func(pairs ...tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: pairs}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(url + "/v1/model")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status, err := get(clients.Pair(t, "client"))
	must.True(t, status == 200 && err == nil, "with a certificate: %d, %v", status, err)
	for name, pairs := range map[string][]tls.Certificate{"no certificate": nil, "another authority's": {streamtest.NewAuthority(t).Pair(t, "client")}} {
		status, err := get(pairs...)
		must.True(t, err != nil, "%s: %d", name, status)
	}
	config.ClientCAFile = config.KeyFile
	must.ErrorContains(t, must.Err(serve.Start(config, serve.Service{}, nil)), "client_ca_file", "a file without a certificate")
	config.CertFile, config.KeyFile, config.Address = "", "", "127.0.0.1:0"
	err = config.Check()
	must.True(t, err != nil && strings.HasPrefix(err.Error(), "client_ca_file: "), "without TLS: %v", err)
}
