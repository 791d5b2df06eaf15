package secret

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Client returns a client for requests that may contain secrets; t may be nil. Its timeout is one minute, and it
// follows redirects only to the requested server. Package http would treat all ports of a host as one server.
func Client(t *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = t
	return &http.Client{Timeout: time.Minute, Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case !SameOrigin(r, via):
			return fmt.Errorf("%s to %s://%s, another server, is not followed: if it is right, set its address", r.Response.Status, r.URL.Scheme, r.URL.Host)
		case len(via) >= 10:
			return fmt.Errorf("%s for the tenth time", r.Response.Status)
		}
		return nil
	}}
}

// SameOrigin reports whether a redirected request goes to the same server as the first request. The scheme, host and
// port must be equal.
func SameOrigin(r *http.Request, via []*http.Request) bool {
	first := via[0].URL
	return r.URL.Scheme == first.Scheme && strings.EqualFold(r.URL.Host, first.Host)
}
