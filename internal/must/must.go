// Package must provides checks of errors and values for tests, and short forms for making values. The checks call t.Helper
// only if they fail, because it costs more than most of them.
package must

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Do ends the test if err is not nil. The message has the words of what before err.
func Do(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Fatalf("%s%v", prefix(what), err)
	}
}

// Get takes the two results of a call, and returns a function. That function ends the test if the error is not nil, and
// otherwise returns the value: file := must.Get(os.Open(name))(t).
func Get[T any](value T, err error) func(t testing.TB, what ...any) T {
	return func(t testing.TB, what ...any) T {
		if err != nil {
			t.Helper()
			Do(t, err, what...)
		}
		return value
	}
}

// Get2 is Get for a call that returns two values and an error.
func Get2[A, B any](a A, b B, err error) func(t testing.TB, what ...any) (A, B) {
	return func(t testing.TB, what ...any) (A, B) {
		if err != nil {
			t.Helper()
			Do(t, err, what...)
		}
		return a, b
	}
}

// True marks the test as failed if ok is false, with a message formatted as by fmt.Sprintf.
func True(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Require is True, but ends the test.
func Require(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// Either returns a if yes, else b. Both are evaluated.
func Either[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

// List returns the n values that f returns for 0 to n-1, called in this order.
func List[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Count returns for how many of 0 to n-1 yes returns true.
func Count(n int, yes func(i int) bool) (count int) {
	for i := range n {
		if yes(i) {
			count++
		}
	}
	return count
}

// Sum returns the sum of numbers, added in order.
func Sum[T int | float64](numbers []T) (sum T) {
	for _, x := range numbers {
		sum += x
	}
	return sum
}

// Map returns what f returns for each value of a list, in order.
func Map[S ~[]A, A, B any](list S, f func(A) B) []B {
	return List(len(list), func(i int) B { return f(list[i]) })
}

// All returns the values that next returns before io.EOF. Another error ends the test.
func All[T any](t testing.TB, next func() (T, error)) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			x, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			if Do(t, err); !yield(x) {
				return
			}
		}
	}
}

// File writes data to a file in a new temporary directory and returns the file's path.
func File[T string | []byte](t testing.TB, name string, data T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Do(t, os.WriteFile(path, []byte(data), 0o600))
	return path
}

// Err returns the error of a call, without the value.
func Err[T any](_ T, err error) error { return err }

// Err2 is Err for a call that returns two values and an error.
func Err2[A, B any](_ A, _ B, err error) error { return err }

// Fails marks the test as failed if err is nil. The words of what describe the call that should have failed.
func Fails(t testing.TB, err error, what ...any) {
	if err == nil {
		t.Helper()
		t.Errorf("%sgot no error", prefix(what))
	}
}

// ErrorIs marks the test as failed unless errors.Is(err, want).
func ErrorIs(t testing.TB, err, want error, what ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%sgot error %v, want %v", prefix(what), err, want)
	}
}

// ErrorContains marks the test as failed unless err is an error whose text contains want.
func ErrorContains(t testing.TB, err error, want string, what ...any) {
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Helper()
		t.Errorf("%sgot error %v, want one with %q", prefix(what), err, want)
	}
}

// Finite marks the test as failed unless all values are finite.
func Finite(t testing.TB, values []float64, what ...any) {
	for i, x := range values {
		if x-x != 0 {
			t.Helper()
			t.Errorf("%snumber %d is %v", prefix(what), i, x)
		}
	}
}

// Near ends the test unless got has the length of want, and each number differs by at most the tolerance. The tolerance is
// relative to numbers over 1.
func Near(t testing.TB, got, want []float64, tolerance float64, what ...any) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) }
	if !slices.EqualFunc(got, want, near) {
		t.Helper()
		t.Fatalf("%sgot %v, want %v within %g", prefix(what), got, want, tolerance)
	}
}

// Contains marks the test as failed unless got contains every part.
func Contains(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %s, want text with %q", got, part)
		}
	}
}

// Equal marks the test as failed if got is not want. The message has the words of what before the two values.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		differ(t, got, want, what)
	}
}

// EqualSlices is Equal for slices. A nil slice equals an empty one.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, what ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		differ(t, got, want, what)
	}
}

// EqualMaps is Equal for maps. A nil map equals an empty one.
func EqualMaps[M ~map[K]V, K, V comparable](t testing.TB, got, want M, what ...any) {
	if !maps.Equal(got, want) {
		t.Helper()
		differ(t, got, want, what)
	}
}

func differ(t testing.TB, got, want any, what []any) {
	t.Helper()
	switch got.(type) {
	case string, []string, []byte:
		t.Errorf("%sgot %q, want %q", prefix(what), got, want)
	default:
		t.Errorf("%sgot %+v, want %+v", prefix(what), got, want)
	}
}

// prefix joins words with spaces, and adds a colon at the end.
func prefix(what []any) string {
	if len(what) == 0 {
		return ""
	}
	for i, w := range what {
		if b, ok := w.([]byte); ok {
			what[i] = string(b)
		}
	}
	return strings.TrimSuffix(fmt.Sprintln(what...), "\n") + ": "
}
