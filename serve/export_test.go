package serve

import "net/http"

// Handler answers what a Server answers to a Config without a token.
func Handler(c Config, s Service) http.Handler { return Guarded(c, "", s) }

// Guarded is Handler with a token.
func Guarded(c Config, token string, s Service) http.Handler {
	return guard(c, token, newSite(c, s).handler())
}

// Routes returns the patterns of the requests that a Server answers.
func Routes(c Config, s Service) []string {
	t := newSite(c, s)
	t.handler()
	return t.patterns
}

// OpenAPI is the document that a Server serves.
var OpenAPI = openAPI

// NewTaker is what writes long answers.
var NewTaker = newTaker

// Bounded is how many connections there may be.
var Bounded = bounded
