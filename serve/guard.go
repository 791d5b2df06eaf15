package serve

// This file decides which requests are allowed, by token, address and origin.

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"blankout/internal/event"
	"blankout/internal/secret"
)

// token returns the token that requests must send, or "" if requests need no token.
func (c Config) token() (string, error) {
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return "", event.KeyErrorf("token_file", "token_file: %w", err)
	}
	what := ""
	switch {
	case token == "":
	case utf8.RuneCountInString(strings.TrimSpace(token)) < minToken:
		what = fmt.Sprintf("has fewer than %d characters", minToken)
	case strings.TrimSpace(token) != token:
		what = "starts or ends with a space, which no request can send"
	case strings.ContainsFunc(token, unicode.IsControl):
		what = "has a control character, which no request can send"
	}
	switch {
	case what == "":
		return token, nil
	case c.TokenFile != "":
		return "", event.KeyErrorf("token_file", "token_file: the token in %s %s", c.TokenFile, what)
	}
	return "", event.KeyErrorf("token_file", "token: the token in the variable %s %s", c.TokenEnv, what)
}

// minToken is the smallest length of a token in characters.
const minToken = 8

// checkAccess rejects an address that other machines can reach. It accepts the address if requests need a token and TLS
// protects the token. It also accepts the address if the user has allowed it explicitly.
func (c Config) checkAccess(host string) error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return event.KeyErrorf("cert_file", "cert_file: TLS needs both cert_file and key_file")
	}
	if c.ClientCAFile != "" && c.CertFile == "" {
		return event.KeyErrorf("client_ca_file", "client_ca_file: needs TLS: set cert_file and key_file")
	}
	for _, name := range c.Hosts {
		if strings.ContainsAny(name, "/[] ") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return event.KeyErrorf("hosts", "hosts: %q, want a name without a scheme and a port", name)
		}
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	if err := c.checkLearn(host, token); err != nil {
		return err
	}
	if isLoopback(host) || c.Public || (token != "" || c.ClientCAFile != "") && c.CertFile != "" {
		return nil
	}
	missing := []string{}
	if token == "" && c.ClientCAFile == "" {
		missing = append(missing, fmt.Sprintf("a token (in the variable %s or in token_file; client_ca_file instead)", c.TokenEnv))
	}
	if c.CertFile == "" {
		missing = append(missing, "TLS (cert_file, key_file)")
	}
	return event.KeyErrorf("address", "address: other machines can reach %q, which lacks %s: set it, listen on 127.0.0.1, or set public = true if intended",
		c.Address, strings.Join(missing, " and "))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard passes only allowed requests to next.
//
// If there is a token, a request must send it as "Authorization: Bearer TOKEN"; a browser sends the token as the
// password of any user. Only health checks need no token. A request without a token or a client certificate must use a
// host name of this server. Otherwise any web page could read from the server: its own host name could resolve to the
// server's address. A request that changes something is never accepted from a page of another origin.
func guard(c Config, token string, next http.Handler) http.Handler {
	wanted := sha256.Sum256([]byte(token))
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusForbidden, "requests from pages of another origin are refused", r.URL.Path)
	}))
	next = sameOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		if token == "" && c.ClientCAFile == "" && !c.isMine(r.Host) {
			fail(w, http.StatusMisdirectedRequest, "without a token this server only answers requests to its IP address, localhost and the names in http.hosts", "Host")
			return
		}
		if token != "" && !slices.Contains(healthPaths, r.URL.Path) {
			given := sha256.Sum256([]byte(credentials(r)))
			if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
				h.Add("WWW-Authenticate", `Bearer realm="blankout"`)
				h.Add("WWW-Authenticate", `Basic realm="blankout", charset="UTF-8"`)
				fail(w, http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN", "Authorization")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// healthPaths need no token, because process supervisors request them without one.
var healthPaths = []string{"/healthz", "/readyz"}

// isMine reports whether the host in a request is a name of this server: an IP address or a configured name. An IP
// address is safe, because no other machine can make it resolve to this server.
func (c Config) isMine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	address, _, _ := net.SplitHostPort(c.Address)
	return isLoopback(name) || net.ParseIP(name) != nil && !isLoopback(address) ||
		slices.ContainsFunc(c.Hosts, func(mine string) bool { return mine == "*" || strings.EqualFold(mine, name) })
}

func credentials(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
