package serve

import "net/http"

// Handler returns the handler of a Server whose Config has no token.
func Handler(c Config, s Service) http.Handler { return Guarded(c, "", s) }

// Guarded returns the handler of a Server with a token.
func Guarded(c Config, token string, s Service) http.Handler {
	return guard(c, token, newSite(c, s).handler())
}

// Routes returns the patterns of the requests that a Server handles.
func Routes(c Config, s Service) []string {
	t := newSite(c, s)
	t.handler()
	return t.patterns
}

// OpenAPI is the OpenAPI document that a Server returns.
var OpenAPI = openAPI

// NewTaker returns the writer of long responses.
var NewTaker = newTaker

// Bounded returns the allowed number of connections.
var Bounded = bounded
