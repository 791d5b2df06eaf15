package event

// This file has the error of a configuration key.

import "fmt"

// KeyError reports that the value of a configuration key is invalid.
type KeyError struct {
	Key string // key within its section, for example tls.ca_file within [kafka]
	Err error  // text with the key and the valid values
}

func (e *KeyError) Error() string { return e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// KeyErrorf returns a KeyError whose text is formatted as by fmt.Errorf.
func KeyErrorf(key, format string, args ...any) error {
	return &KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
