package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"blankout/internal/must"
)

// TestNegativeNumbersAreRefused checks that every key rejects numbers below zero with an error that names the key. Keys
// for which negative values are valid are exempt. New keys are tested automatically.
func TestNegativeNumbersAreRefused(t *testing.T) {
	c := Default()
	tested := 0
	for _, k := range keys(&c) {
		negative := "-1"
		switch {
		case k.value.Type() == reflect.TypeFor[time.Duration]():
			negative = "-1s"
		case !k.value.CanInt() && !k.value.CanFloat():
			continue
		}
		tested++
		refuses(t, k.path[len(k.path)-1], k.String()+"="+negative)
	}
	must.True(t, tested >= 30, "only %d keys are numbers", tested)
}

// TestBounds checks that each key accepts its largest valid value and rejects the next one.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		key       string
		good, bad []string
	}{
		{"kafka.request_timeout", []string{"1ms"}, []string{"0s"}},
		{"record.bits", []string{"1", "31"}, []string{"0", "32"}},
		{"record.max_classes", []string{"2"}, []string{"1"}},
		{"record.max_bytes", []string{"1", "1073741824"}, []string{"0", "1073741825"}},
		{"learner.expected_missing", []string{"0.0", "0.9"}, []string{"0.91", "nan"}},
		{"learner.silent_missing", []string{"0.0", "0.9"}, []string{"0.91", "nan"}},
		{"learner.expected_missing_groups", []string{"0.0", "0.9"}, []string{"0.91", "nan"}},
		{"learner.c", []string{"1e-30", "1e30", "inf"}, []string{"0.0", "5e-324", "1e31", "nan"}},
		{"learner.learning_rate", []string{"0.0", "1e-12", "1e6"}, []string{"1e-13", "1.1e6", "1e200", "inf", "nan"}},
		{"learner.l1", []string{"0.0"}, []string{"inf", "nan", "0.1"}},
		{"learner.irls_batch", []string{"0"}, []string{"100000", "100001"}},
		{"learner.irls_window", []string{"0"}, []string{"100"}},
		{"learner.unlabeled_weight", []string{"0.0", "1.0"}, []string{"1.01", "nan"}},
		{"learner.half_life", []string{"0.0", "1.0"}, []string{"0.5", "inf", "nan"}},
		{"learner.half_life_time", []string{"0.0", "1.0"}, []string{"0.5", "inf", "nan"}},
		{"learner.mislabeled_below", []string{"0.0"}, []string{"0.1", "1.0", "nan"}},
		{"learner.threshold", []string{"0.001", "0.999"}, []string{"0.0", "1.0", "nan"}},
		{"checkpoint.keep", []string{"1"}, []string{"0"}},
		{"checkpoint.shutdown_timeout", []string{"1ns"}, []string{"0s"}},
		{"validate.holdout", []string{"0", "2"}, []string{"1"}},
		{"validate.max_gap", []string{"0.0", "inf"}, []string{"nan"}},
		{"snapshot.interval", []string{"1ns"}, []string{"0s"}},
	} {
		_, name, _ := strings.Cut(tt.key, ".")
		for _, value := range tt.good {
			must.Do(t, must.Err(Load(Source{Flags: []string{tt.key + "=" + value}})), tt.key, "=", value, "is refused")
		}
		for _, value := range tt.bad {
			refuses(t, name, tt.key+"="+value)
		}
	}
}

// TestBoundOfIRLSBatch checks the upper bound of irls_batch for the optimizer irls, which needs no window.
func TestBoundOfIRLSBatch(t *testing.T) {
	_, err := Load(Source{Flags: []string{"learner.optimizer=irls", "learner.irls_batch=100000"}})
	must.True(t, err == nil, "%v", err)
	must.ErrorContains(t, must.Err(Load(Source{Flags: []string{"learner.optimizer=irls", "learner.irls_batch=100001"}})), "must lie in 0 to 100000", "one more")
}

// refuses checks that a configuration with these flags is rejected. The error must name the key, and the flag as the
// source of the value.
func refuses(t *testing.T, name string, flags ...string) {
	t.Helper()
	_, err := Load(Source{Flags: flags})
	if err == nil {
		t.Errorf("%v is taken", flags)
		return
	}
	must.True(t, strings.Contains(err.Error(), name) && strings.HasPrefix(err.Error(), "--set"), "%v: the error does not name %s and the flag: %v", flags, name, err)
}

// TestFilesThatAreNone checks that invalid configuration files are rejected with the reason: very long, or full
// of unknown keys. The rejection must not take much time or memory.
func TestFilesThatAreNone(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a long one":             {"#" + strings.Repeat("x", maxFile), "f.toml is longer than 1048576 bytes"},
		"many strange keys":      {manyKeys(1000), "f.toml: 990 more unknown keys"},
		"brackets that are text": {"[learner]\nloss = \"" + strings.Repeat("[", 40) + strings.Repeat(".", 40) + "\"", "loss"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f.toml")
		must.Do(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := Load(Source{File: file})
		must.True(t, err != nil && strings.Contains(err.Error(), c.want), "%s: %.200v, want %q", name, err, c.want)
	}
	for set, want := range map[string]string{"learner.learning_rate=1e200": "1e-12 to 1e+06", "learner.c=5e-324": "1e-30 to 1e+30"} {
		must.ErrorContains(t, loadWith(set), want, set)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d = 1\n", i)
	}
	return b.String()
}

func loadWith(set string) error {
	_, err := Load(Source{Flags: []string{set}})
	return err
}
