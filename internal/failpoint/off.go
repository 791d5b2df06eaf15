//go:build !failpoint

package failpoint

// Enabled reports whether the program was built with failpoints.
const Enabled = false

// Here marks a place. It returns an error if the failpoint's action is an error. It does not return if the action kills
// the process.
func Here(place string) error { return nil }

// Number returns a setting that only tests change.
func Number(name string, usual float64) float64 { return usual }
