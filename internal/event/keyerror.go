package event

// This file holds the error of a configuration key.

import "fmt"

// KeyError says that the value of a configuration key cannot be used.
type KeyError struct {
	Key string // within its section, as tls.ca_file within [kafka]
	Err error  // names the key and says what is wanted instead
}

func (e *KeyError) Error() string { return e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// KeyErrorf returns a KeyError whose text is made as fmt.Errorf makes it.
func KeyErrorf(key, format string, args ...any) error {
	return &KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
