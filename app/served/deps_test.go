package served_test

import (
	"os/exec"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestDependencies checks that package served imports neither a Kafka client nor a linear algebra library. A program
// that follows a topic imports served/kafka for the Kafka client.
func TestDependencies(t *testing.T) {
	heavyOf := func(pkg string) (found []string) {
		t.Helper()
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		must.Require(t, err == nil, "go list -deps %s: %v\n%s", pkg, err, out)
		for name := range strings.FieldsSeq(string(out)) {
			for _, heavy := range []string{"gonum.org", "blankout/batch", "blankout/stream$", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go/pkg/k"} {
				if strings.Contains(name+"$", heavy) {
					found = append(found, name)
				}
			}
		}
		return found
	}
	found := heavyOf(".")
	must.True(t, len(found) <= 0, "package served brings %q", found)
	found = heavyOf("./kafka")
	must.True(t, len(found) != 0, "package served/kafka brings no client of Kafka: the names that are looked for are not those of today")
}
