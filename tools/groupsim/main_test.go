package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRun checks that members learn a file together in spite of crashes and lost messages. No record may be lost or
// counted twice.
func TestRun(t *testing.T) {
	var lines strings.Builder
	for i := range 48 {
		fmt.Fprintf(&lines, "%+d %d:1 %d:1\n", 2*(i%2)-1, 1+i%4, 5+i%2)
	}
	file := filepath.Join(t.TempDir(), "train.svm")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-d", file, "-test", file, "-members", "1,4", "-interval", "2", "-warm", "4"},
		{"-d", file, "-members", "8", "-interval", "2", "-warm", "4", "-crash", "0.1", "-pause", "0.1", "-loss", "0.1", "-delay", "50ms"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		for _, n := range strings.Split(args[slices.Index(args, "-members")+1], ",") {
			if !regexp.MustCompile(`(?m)^\| ` + n + ` \| 2 \|.*\| 0 \| 0 \|$`).MatchString(out.String()) {
				t.Errorf("%v: no line of %s members in\n%s", args, n, &out)
			}
		}
	}
	for _, args := range [][]string{{}, {"-d", "nowhere"}, {"-d", file, "-members", "0"}, {"-d", file, "-crash", "0.6", "-pause", "0.6"}, {"-d", file, "-noise", "gaussian:1"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
