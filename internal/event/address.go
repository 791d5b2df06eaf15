package event

// This file defines Address, a URL that may contain a secret.

import (
	"regexp"
	"strings"
)

// Address is a URL, a path or other text. Printing, logging and marshaling hide the user and the query of a URL, which
// may be secrets. string(a) is the full text.
type Address string

const hidden = "***"

// String returns the address without secrets. If a is not a valid URL, it hides too much rather than too little.
func (a Address) String() string {
	scheme, rest := "", string(a)
	if i := strings.Index(rest, "://"); i >= 0 {
		scheme, rest = rest[:i+3], rest[i+3:]
	}
	query := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 && (scheme != "" || strings.Contains(rest[i:], "=")) {
		rest, query = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 && (scheme != "" || strings.IndexByte(rest[:i], ':') > 1) { // excludes C:\a@b
		rest = hidden + rest[i:]
	} else if strings.Contains(query, "@") { // the password contains a question mark
		rest = hidden
	}
	if query != "" {
		query = query[:1] + hidden
	}
	return scheme + rest + query
}

// GoString returns String, for %#v.
func (a Address) GoString() string { return a.String() }

// MarshalText makes logs, JSON and TOML show String.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// HideAddresses returns an error with the text of err, in which every URL is hidden as in an Address. It returns nil if
// err is nil.
func HideAddresses(err error) error {
	if err == nil {
		return nil
	}
	return &hiddenError{err}
}

type hiddenError struct{ error }

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"]+`)

func (e *hiddenError) Unwrap() error { return e.error }

func (e *hiddenError) Error() string {
	return anyURL.ReplaceAllStringFunc(e.error.Error(), func(u string) string { return Address(u).String() })
}
