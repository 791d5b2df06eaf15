package client_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that reads models from servers and files gets no client of Kafka with package
// client; one that follows a topic asks for it by client/kafka.
func TestDependencies(t *testing.T) {
	kafka := func(pkg string) (found []string) {
		t.Helper()
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps %s: %v\n%s", pkg, err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			for _, heavy := range []string{"/stream", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go/pkg/k", "golang.org/x/oauth2"} {
				if strings.Contains(name, heavy) {
					found = append(found, name)
				}
			}
		}
		return found
	}
	if found := kafka("."); len(found) > 0 {
		t.Errorf("package client brings %q", found)
	}
	if found := kafka("./kafka"); len(found) == 0 {
		t.Error("package client/kafka brings no client of Kafka: the names that are looked for are not those of today")
	}
}
