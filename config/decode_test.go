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

// sample has a key of every type that sections have.
type sample struct {
	Kafka struct {
		Brokers []string `toml:"brokers"`
		TLS     struct {
			CA string `toml:"ca"`
		} `toml:"tls"`
		PasswordFile string `toml:"password_file"`
	} `toml:"kafka"`
	Learner struct {
		Noise  string              `toml:"noise"`
		Eta    float64             `toml:"learning_rate"`
		Bits   uint                `toml:"bits"`
		Wait   time.Duration       `toml:"wait"`
		Flag   bool                `toml:"flag"`
		Parts  []int32             `toml:"partitions"`
		Pairs  [][2]string         `toml:"pairs"`
		Groups map[string][]string `toml:"groups"`
	} `toml:"learner"`
}

func TestDecodeReportsPlaceAndNearestName(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"misspelled", "[learner]\nnosie = 'x'", "f.toml:2: unknown key learner.nosie, did you mean learner.noise?"},
		{"section", "[lerner]\nnoise = 'x'", "f.toml:1: unknown key lerner, did you mean learner?"},
		{"wrong section", "[kafka]\n\nlearning_rate = 1.0", "f.toml:3: unknown key kafka.learning_rate, did you mean learner.learning_rate?"},
		{"no section", "learning_rate = 1.0", "f.toml:1: unknown key learning_rate, did you mean learner.learning_rate?"},
		{"nothing near", "[learner]\nxylophone = 1", "f.toml:2: unknown key learner.xylophone"},
		{"nested", "[kafka.tls]\nca = 'a'\ncq = 'b'", "f.toml:3: unknown key kafka.tls.cq, did you mean kafka.tls.ca?"},
		{"dotted", "learner.learning_rate = 1.0\nlearner.learning_rat = 1.0", "f.toml:2: unknown key learner.learning_rat, did you mean learner.learning_rate?"},
		{"two", "[learner]\nlearning_rato = 1\n[kafka]\nbroker = ['x']",
			"f.toml:2: unknown key learner.learning_rato, did you mean learner.learning_rate?\nf.toml:4: unknown key kafka.broker, did you mean kafka.brokers?"},
		{"type", "[learner]\nlearning_rate = 'fast'", "f.toml:2: learner.learning_rate should be a number"},
		{"range", "[learner]\nbits = -1", "f.toml:2: learner.bits: "},
		{"duration", "[learner]\nwait = 'soon'", "f.toml:2: learner.wait: "},
		{"syntax", "[learner]\nlearning_rate = ", "f.toml:2: learner.learning_rate: "},
		{"twice", "[learner]\nlearning_rate = 1.0\nlearning_rate = 2.0", "f.toml:3: "},
		{"secret, no quotes", "[kafka]\npassword = QZXJWV", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret, a quote in it", "[kafka]\npassword = \"a\"QZXJWV\"", "f.toml:2: kafka: expected a top-level item to end with a newline, comment, or EOF"},
		{"secret, a backslash in it", "[kafka]\npassword = \"a\\QZXJWV\"", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret, no end", "[kafka]\npassword = \"QZXJWV\n", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret of digits", "[kafka]\npassword = 12345678901234567890", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret, almost a number", "[kafka]\npassword = 12.QZXJWV", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret, almost a date", "[kafka]\npassword = 2026-99-99", "f.toml:2: kafka.password: unknown key, did you mean kafka.password_file?"},
		{"secret, no section", "password = QZXJWV", "f.toml:1: password: unknown key"},
		{"secret for a file name", "[kafka]\npassword_file = QZXJWV", "f.toml:2: kafka.password_file: not a text: write it in quotes, \"like this\", on one line, with \\\" for a quote and \\\\ for a backslash"},
		{"secret for a list", "[kafka]\nbrokers = [QZXJWV]", "f.toml:2: kafka.brokers: not a text: write it in quotes, \"like this\", on one line, with \\\" for a quote and \\\\ for a backslash"},
		{"secret of digits for a file name", "[kafka]\npassword_file = 12345678901234567890", "f.toml:2: kafka.password_file: not a text: write it in quotes, \"like this\", on one line, with \\\" for a quote and \\\\ for a backslash"},
		{"secret alone", "QZXJWV", "f.toml:1: "},
		{"secret in a section's place", "[kafka]\n[QZXJWV", "f.toml:2: "},
		{"secret after a value", "[learner]\nlearning_rate = 1.0 QZXJWV", "f.toml:2: "},
		{"text twice", "[learner]\nnoise = 'a'\nnoise = 'QZXJWV'", "f.toml:3: learner.noise: Key 'learner.noise' has already been defined."},
		{"number", "[learner]\nlearning_rate = 0.1.2", "f.toml:2: learner.learning_rate: "},
		{"secret", "[kafka]\npassword = 'x'", "f.toml:2: unknown key kafka.password, did you mean kafka.password_file?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeFile("f.toml", tt.text, new(sample))
			must.Require(t, err != nil, "no error")
			got := err.Error()
			must.True(t, got == tt.want || strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want), "got  %s\nwant %s", got, tt.want)
			got = err.Error()
			must.True(t, !strings.ContainsAny(got, "QZXJWV") && !strings.Contains(got, "1234") && !strings.Contains(got, "2026"), "%s tells of the value", got)
		})
	}
}

func TestDecodeKeepsWhatIsNotNamed(t *testing.T) {
	var c sample
	c.Learner.Noise, c.Learner.Eta = "auto", 0.1
	must.Do(t, must.Err(decodeFile("f.toml", "[learner]\nlearning_rate = 0.0\nwait = '2s'", &c)))
	must.True(t, c.Learner.Noise == "auto" && c.Learner.Eta == 0 && c.Learner.Wait == 2*time.Second, "got %+v", c.Learner)
}

func TestSet(t *testing.T) {
	tests := []struct{ key, text, want string }{
		{"learner.noise", "dropout:0.5", `learner.noise = "dropout:0.5"`},
		{"learner.noise", `a"b\` + "\t", `learner.noise = "a\"b\\\t"`},
		{"learner.learning_rate", "0.25", "learner.learning_rate = 0.25"},
		{"learner.learning_rate", "1", "learner.learning_rate = 1.0"},
		{"learner.wait", "90s", `learner.wait = "1m30s"`},
		{"learner.flag", "true", "learner.flag = true"},
		{"learner.partitions", "1,2", "learner.partitions = [1, 2]"},
		{"learner.partitions", "", "learner.partitions = []"},
		{"learner.pairs", `[["a", "b"]]`, `learner.pairs = [["a", "b"]]`},
		{"learner.groups", `{z = ["a", "b"], "y 1" = []}`, `learner.groups = {"y 1" = [], "z" = ["a", "b"]}`},
		{"learner.groups", `{}`, `learner.groups = {}`},
		{"kafka.brokers", "a:1, b:2", `kafka.brokers = ["a:1", "b:2"]`},
		{"kafka.brokers", `["a:1"]`, `kafka.brokers = ["a:1"]`},
		{"kafka.tls.ca", "ca.pem", `kafka.tls.ca = "ca.pem"`},
		{"learner.learning_rate", "fast", `error: flag: learner.learning_rate is "fast" but should be a number`},
		{"learner.bits", "-1", "error: flag: learner.bits: "},
		{"learner.wait", "soon", "error: flag: learner.wait: "},
	}
	for _, tt := range tests {
		var c sample
		got := "no such key"
		for _, k := range keys(nil, &c) {
			if k.String() != tt.key {
				continue
			}
			if err := k.setText("flag", tt.text); err != nil {
				got = "error: " + err.Error()
			} else {
				got = k.String() + " = " + format(k)
			}
		}
		must.True(t, got == tt.want || strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want), "%s set to %q: %s, want %s", tt.key, tt.text, got, tt.want)
	}
}

// TestQuotedFlags checks that a string given with --set may have TOML quotes, which a shell may pass on. The value of
// an environment variable may be a secret and must be used unchanged.
func TestQuotedFlags(t *testing.T) {
	for value, want := range map[string]string{`";"`: ";", `;`: ";", `"\t"`: "\t", `'|'`: "|"} {
		l, err := Load(Source{Flags: []string{"record.separator=" + value}})
		must.True(t, err == nil && l.Record.Separator == want, "%s: %v", value, err)
	}
	for value, want := range map[string]string{`"a"b"`: `"a"b"`, `"a`: `"a`, `"`: `"`, `""`: ""} {
		l, err := Load(Source{Flags: []string{"record.label=" + value}})
		must.True(t, err == nil && l.Record.Label == want, "%s: %v", value, err)
	}
	l, err := Load(Source{Env: []string{`BLANKOUT_RECORD_LABEL="a"`}})
	must.True(t, err == nil && l.Record.Label == `"a"`, "the environment: %v", err)
}

func TestKeysAndEnvironment(t *testing.T) {
	names := must.Map(keys(nil, new(sample)), key.env)
	got := strings.Join(names, " ")
	want := "BLANKOUT_KAFKA_BROKERS BLANKOUT_KAFKA_PASSWORD_FILE BLANKOUT_KAFKA_TLS_CA BLANKOUT_LEARNER_NOISE " +
		"BLANKOUT_LEARNER_LEARNING_RATE BLANKOUT_LEARNER_BITS BLANKOUT_LEARNER_WAIT BLANKOUT_LEARNER_FLAG BLANKOUT_LEARNER_PARTITIONS " +
		"BLANKOUT_LEARNER_PAIRS BLANKOUT_LEARNER_GROUPS"
	must.True(t, got == want, "got  %s\nwant %s", got, want)
}

func TestLines(t *testing.T) {
	text := "# [learner]\n# noise = 1\n[learner]\nlearning_rate = 1\nnoise = '''\nbits = 2\n'''\nBits = 3\n[kafka.tls]\nca = 'd'\n"
	must.EqualMaps(t, must.Get(decodeFile("f", text, new(sample)))(t), map[string]string{"learner": "f:3", "learner.learning_rate": "f:4", "learner.noise": "f:7",
		"learner.bits": "f:8", "kafka": "f:9", "kafka.tls": "f:9", "kafka.tls.ca": "f:10"})
}

// TestNegativeNumbersAreRefused checks that every key rejects numbers below zero with an error that names the key. Keys
// for which negative values are valid are exempt. New keys are tested automatically.
func TestNegativeNumbersAreRefused(t *testing.T) {
	c := Default()
	tested := 0
	for _, k := range keys(nil, &c) {
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
