package served_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that reads models from servers and files gets no client of Kafka and no library
// of linear algebra with package client; one that follows a topic asks for the former by
// client/kafka.
func TestDependencies(t *testing.T) {
	heavyOf := func(pkg string) (found []string) {
		t.Helper()
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps %s: %v\n%s", pkg, err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			for _, heavy := range []string{"gonum.org", "blankout/batch", "/stream", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go/pkg/k", "golang.org/x/oauth2"} {
				if strings.Contains(name, heavy) {
					found = append(found, name)
				}
			}
		}
		return found
	}
	if found := heavyOf("."); len(found) > 0 {
		t.Errorf("package client brings %q", found)
	}
	if found := heavyOf("./kafka"); len(found) == 0 {
		t.Error("package client/kafka brings no client of Kafka: the names that are looked for are not those of today")
	}
}
