package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"blankout/internal/secret"
)

// token returns the token that requests must bring, "" if they need none.
func (c Config) token() (string, error) {
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return token, nil
}

// checkAccess refuses an address that other machines reach unless requests need
// a token that nobody can read on the way, or the user says that is meant.
func (c Config) checkAccess(host string) error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("cert_file: TLS needs both cert_file and key_file")
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	if isLoopback(host) || c.Public || token != "" && c.CertFile != "" {
		return nil
	}
	missing := []string{}
	if token == "" {
		missing = append(missing, fmt.Sprintf("a token (in the variable %s or in token_file)", c.TokenEnv))
	}
	if c.CertFile == "" {
		missing = append(missing, "TLS (cert_file, key_file)")
	}
	return fmt.Errorf("address: %q can be reached from other machines and lacks %s; provide that, listen on 127.0.0.1, or set public = true if it is meant",
		c.Address, strings.Join(missing, " and "))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard lets the requests through that may come through.
//
// With a token a request brings it as "Authorization: Bearer TOKEN", or a browser
// as the password of any user; only the two health checks need none. Without one
// the server is for this machine, and a request must have been addressed to it:
// otherwise any page in a browser here could read from it by a name of its own
// that resolves to 127.0.0.1. What changes something is not taken from pages of
// other origins in either case.
func guard(c Config, token string, next http.Handler) http.Handler {
	wanted := sha256.Sum256([]byte(token))
	host, _, _ := net.SplitHostPort(c.Address)
	local := token == "" && !c.Public && isLoopback(host)
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusForbidden, "a page of another origin may not ask for this", r.URL.Path)
	}))
	next = sameOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		if local {
			name, _, err := net.SplitHostPort(r.Host)
			if err != nil {
				name = strings.Trim(r.Host, "[]")
			}
			if !isLoopback(name) {
				fail(w, http.StatusMisdirectedRequest, "this server answers requests to 127.0.0.1 or localhost only", "Host")
				return
			}
		}
		if token != "" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
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
