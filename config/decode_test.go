package config

import (
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

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
			err := decodeFile(placeIn("f.toml"), tt.text, new(sample))
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
	must.Do(t, decodeFile(placeIn("f.toml"), "[learner]\nlearning_rate = 0.0\nwait = '2s'", &c))
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
		for _, k := range keys(&c) {
			if k.String() != tt.key {
				continue
			}
			if err := k.set(tt.text, "flag"); err != nil {
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
	var names []string
	for _, k := range keys(new(sample)) {
		names = append(names, k.env())
	}
	got := strings.Join(names, " ")
	want := "BLANKOUT_KAFKA_BROKERS BLANKOUT_KAFKA_PASSWORD_FILE BLANKOUT_KAFKA_TLS_CA BLANKOUT_LEARNER_NOISE " +
		"BLANKOUT_LEARNER_LEARNING_RATE BLANKOUT_LEARNER_BITS BLANKOUT_LEARNER_WAIT BLANKOUT_LEARNER_FLAG BLANKOUT_LEARNER_PARTITIONS " +
		"BLANKOUT_LEARNER_PAIRS BLANKOUT_LEARNER_GROUPS"
	must.True(t, got == want, "got  %s\nwant %s", got, want)
}

func TestLineOf(t *testing.T) {
	text := "# [a]\n# x = 1\n[a]\ny = '''\nx = 2\n'''\nx = 3\n[b.c]\nz = {d = 1}\n"
	for k, want := range map[string]int{"a.x": 7, "b.c.z.d": 9, "a": 3, "a.q": 0} {
		must.Equal(t, lineOf(text, toml.Key(strings.Split(k, "."))), want, k, "is on line")
	}
}
