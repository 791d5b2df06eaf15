package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"blankout/internal/must"
)

// TestAdoptUnderSettingsOfRecords checks that an exact solution can be adopted if the learner's settings depend on the
// records. Here svmlight records cannot declare missing fields, so the expected noise is silent.
func TestAdoptUnderSettingsOfRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	var lines bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for range 1200 {
		z, sum, features := r.NormFloat64(), 0.0, ""
		for j := range 12 { // nearly equal features, so that AdaGrad is far from the solution
			x := z + 0.05*r.NormFloat64()
			sum += 20 * float64(1-2*(j%2)) * x
			features += fmt.Sprintf(" %d:%.4f", j+1, x)
		}
		label := "-1"
		if sum+0.3*r.NormFloat64() > 0 {
			label = "+1"
		}
		fmt.Fprintln(&lines, label+features)
	}
	must.Do(t, os.WriteFile("events.svm", lines.Bytes(), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without a timeout the command would retry forever
	defer cancel()
	args := []string{"run", "-d", "events.svm"}
	for _, set := range []string{"learner.expected_missing=0.05", "learner.optimizer=adagrad", "learner.covariance_max_fields=0", "validate.events=1000",
		"validate.policy=adopt", "validate.window=0", "validate.directory=", "checkpoint.directory=checkpoints", "http.address="} {
		args = append(args, "--set", set)
	}
	var out, log bytes.Buffer
	if code := execute(ctx, args, strings.NewReader(""), &out, &log); code != 0 || !strings.Contains(log.String(), "adopted the exact solution") {
		t.Errorf("exit code %d\n%s", code, log.String())
	}
}
