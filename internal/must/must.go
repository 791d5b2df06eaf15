// Package must keeps tests short where an error would be a defect: in steps that prepare what a test
// checks.
package must

import "testing"

// Get returns x. If err is not nil it panics, which fails the test and prints the stack.
func Get[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// Do stops the test if err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get2 is Get for a call that returns two values and an error.
func Get2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}
