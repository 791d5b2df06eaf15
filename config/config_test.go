package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/must"
)

// decodeFile decodes a TOML text over the values in config. It returns the origins.
func decodeFile(name, text string, config any) (map[string]string, error) {
	d, err := parse(name, text, keys(nil, config))
	if err != nil {
		return nil, err
	}
	return d.decode(nil, d.root, keys(nil, config))
}

// TestTemplateIsTheDefault checks that the template has every key once with its default. Decoding the template over an
// empty configuration must give Default.
func TestTemplateIsTheDefault(t *testing.T) {
	var got Config
	given := must.Get(decodeFile("blankout.toml", Template, &got))(t)
	want := Default()
	wanted := keys(nil, &want)
	for i, k := range keys(nil, &got) {
		if given[k.String()] == "" {
			t.Errorf("the template does not name %s", k)
		} else if got, want := format(k), format(wanted[i]); got != want {
			t.Errorf("the template says %s = %s, the default is %s", k, got, want)
		}
	}
}

// TestFilledTemplate fills the template with the values of flags. The result must be a configuration with exactly these
// values.
func TestFilledTemplate(t *testing.T) {
	flags := []string{"kafka.brokers=a:1,b:2", "kafka.tls.enabled=true", "record.label=it's \"y\"", `record.groups={engine=["a","b"]}`,
		"learner.expected_missing=0.3", "learner.half_life=1000", "checkpoint.directory=s3://bucket/prefix", "labels.max_delay=6h", "log.level=debug"}
	l := must.Get(Load(Source{Flags: flags, Env: []string{"BLANKOUT_LEARNER_C=5"}}))(t)
	text := l.FilledTemplate()
	file := filepath.Join(t.TempDir(), "f.toml")
	write(t, file, text)
	again := must.Get(Load(Source{File: file, Env: []string{"BLANKOUT_LEARNER_C=5"}}))(t)
	for i, k := range keys(nil, &l.Config) {
		must.Equal(t, format(keys(nil, &again.Config)[i]), format(k), k)
	}
	lines, template := strings.Split(text, "\n"), strings.Split(Template, "\n")
	changed := must.Count(len(lines), func(i int) bool { return lines[i] != template[i] })
	must.Equal(t, changed, len(flags), "changed lines")

	// A short text keeps its own keys and gets the others, in their tables.
	text = l.AddFlags("# A draft.\n[kafka]\nbrokers = [\"own:1\"]\n\n[learner]\nc = 2\n")
	write(t, file, text)
	again = must.Get(Load(Source{File: file}))(t)
	must.Equal(t, again.Kafka.Brokers[0], "own:1")
	must.Equal(t, again.Learner.C, 2)
	for i, k := range keys(nil, &l.Config) {
		if l.origins[k.String()] == "--set" && k.String() != "kafka.brokers" {
			must.Equal(t, format(keys(nil, &again.Config)[i]), format(k), k)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.toml")
	write(t, file, "[learner]\nnoise = 'dropout:0.1'\nlearning_rate = 0.5\nloss = 'hinge'\n")
	l, err := Load(Source{
		File:  file,
		Env:   []string{"BLANKOUT_LEARNER_NOISE=dropout:0.2", "BLANKOUT_LEARNER_LEARNING_RATE=0.25", "BLANKOUT_REQUIRE_SOMETHING=1", "HOME=/"},
		Flags: []string{"learner.noise=dropout:0.3"},
	})
	must.Do(t, err)
	c := l.Learner
	must.True(t, c.Noise == "dropout:0.3" && c.LearningRate == 0.25 && c.Loss == "hinge" && c.Optimizer == Default().Learner.Optimizer,
		"got noise %s, eta %v, loss %s, rule %s", c.Noise, c.LearningRate, c.Loss, c.Optimizer)
	var b strings.Builder
	must.Do(t, l.Show(&b))
	for _, want := range []string{
		"[learner]", `noise = "dropout:0.3" # --set`, "learning_rate = 0.25 # BLANKOUT_LEARNER_LEARNING_RATE", `loss = "hinge" # ` + file + ":4", "optimizer = \"auto\"\n",
	} {
		must.True(t, strings.Contains(b.String(), want), "show does not say %s", want)
	}
	// The output of Show must decode to the same configuration.
	again := Default()
	must.Do(t, must.Err(decodeFile("shown", b.String(), &again)))
	shown, was := keys(nil, &again), keys(nil, &l.Config)
	for i := range was {
		must.True(t, format(shown[i]) == format(was[i]), "shown %s = %s, is %s", was[i], format(shown[i]), format(was[i]))
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	tests := []struct {
		name, file string
		env, flags []string
		want       string // expected error, with FILE for the file's name
	}{
		{"value", "\n[learner]\nnoise = 'dropout:1.5'", nil, nil, `FILE:3: [learner] noise "dropout:1.5": `},
		{"value of the environment", "", []string{"BLANKOUT_LEARNER_NOISE=dropot"}, nil, `BLANKOUT_LEARNER_NOISE: [learner] noise "dropot": `},
		{"value of a flag", "[learner]\nlearning_rate = 1.0", nil, []string{"learner.learning_rate=-1"}, `--set: [learner] learning_rate `},
		{"two sections", "[record]\nbits = 40\n[checkpoint]\nkeep = 0", nil, nil, "FILE:2: [record] bits 40: want 1 to 31\nFILE:4: [checkpoint] keep 0: want at least 1"},
		{"unknown variable", "", []string{"BLANKOUT_LEARNER_NOSE=x"}, nil, "BLANKOUT_LEARNER_NOSE: unknown key of [learner], did you mean BLANKOUT_LEARNER_NOISE?"},
		{"type of a variable", "", []string{"BLANKOUT_CHECKPOINT_KEEP=many"}, nil, `BLANKOUT_CHECKPOINT_KEEP: checkpoint.keep is "many" but should be a whole number`},
		{"unknown flag", "", nil, []string{"learner.nosie=x"}, "--set learner.nosie: unknown key, did you mean learner.noise?"},
		{"no key", "", nil, []string{"noise"}, "--set noise: want section.key=value"},
		{"policy", "[dead_letter]\npolicy = 'drop'", nil, nil, `FILE:2: [dead_letter] policy "drop": want dead-letter, skip or fail`},
		{"dead letters come back", "[dead_letter]\ntopic = 'events'", nil, nil, `FILE:2: [dead_letter] topic: "events" is learned from; dead letters need their own topic`},
		{"dead letters are measured on", "[dead_letter]\ntopic = 'held'\n[validate]\nholdout_topic = 'held'", nil, nil, `FILE:2: [dead_letter] topic: "held" is measured on`},
		{"snapshots are scored", "[snapshot]\ntopic = 'more'\n[predict]\ntopic = 'more'\noutput = 'out'", nil, nil, `FILE:2: [snapshot] topic: "more" is scored`},
		{"key of a table", "[kafka]\ngroup = 'g'\n[kafka.sasl]\nusername = 'u'\nmechanism = 'NTLM'", nil, nil, `FILE:5: [kafka] sasl: mechanism "NTLM"`},
		{"key that a table lacks", "[kafka]\ngroup = 'g'\n[kafka.sasl]\nmechanism = 'PLAIN'", nil, nil, `FILE:3: [kafka] sasl: no username`},
		{"second of three times", "[kafka]\ngroup = ''\nrequest_timeout = '0s'", nil, nil, `FILE:3: [kafka] request_timeout 0s: want a positive time`},
		{"time", "[checkpoint]\ninterval = 5", nil, nil, `FILE:2: checkpoint.interval should be a time in quotes, as in "30s"`},
		{"whole", "record.bits = 2.5", nil, nil, "FILE:1: record.bits should be a whole number"},
		{"truth", "\n[kafka]\ncreate_topics = 'yes'", nil, nil, "FILE:3: kafka.create_topics should be true or false"},
		{"list", "record.classes = 'a'", nil, nil, `FILE:1: record.classes should be a list, as in ["a"]`},
		{"list of numbers", "record.classes = ['a', 2]", nil, nil, `FILE:1: record.classes should be a list, as in ["a"]`},
		{"pairs", "record.crosses = [['a', 'b'], ['c']]", nil, nil, `FILE:1: record.crosses should be a list, as in [["a", "a"]]`},
		{"table", "record.groups = 3", nil, nil, `FILE:1: record.groups should be a table, as in {name = ["a"]}`},
		{"table of texts", "learner.class_weight = {a = 'b'}", nil, nil, "FILE:1: learner.class_weight should be a table, as in {name = 2}"},
		{"no table", "log.level = 'info'\nlearner = 3", nil, nil, "FILE:2: learner should be a table, as in [learner]"},
		{"a field twice", "[record]\nlabel = 'y'\nid = 'y'", nil, nil, `FILE:3: [record] id: field "y" is also named by label`},
		{"element of a map", "[learner]\nloss = 'hinge'\nclass_weight = {a = -1}", nil, nil, `FILE:3: [learner] class_weight of "a" = -1: `},
		{"secret", "[http]\ntoken_file = '/nowhere'", nil, nil, `FILE:2: [http] token_file: `},
		{"two unknown keys", "[record]\nlabel = 'y'\nlabbel = true\n[learner]\nnosie = 'x'", nil, nil,
			"FILE:3: unknown key record.labbel, did you mean record.label?\nFILE:5: unknown key learner.nosie, did you mean learner.noise?"},
		{"auto or a number", "[validate]\nevents = 'often'", nil, nil, `FILE:2: validate.events: often: want "auto", or a number of records, 0 for never`},
		{"auto or a whole number", "[validate]\nevents = 2.5", nil, nil, `FILE:2: validate.events: 2.5: want "auto"`},
		{"no negative number", "[validate]\nevents = -1", nil, nil, `FILE:2: validate.events`},
		{"auto or a number of a flag", "", nil, []string{"validate.events=often"}, `--set validate.events: `},
		{"auto or a number of a variable", "", []string{"BLANKOUT_VALIDATE_EVENTS=-3"}, nil, `BLANKOUT_VALIDATE_EVENTS: validate.events: -3: want "auto", or a number of records, 0 for never`},
		{"misspelled", "[learner]\nnosie = 'x'", nil, nil, "FILE:2: unknown key learner.nosie, did you mean learner.noise?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f.toml")
			write(t, file, tt.file)
			_, err := Load(Source{File: file, Env: tt.env, Flags: tt.flags})
			want := strings.ReplaceAll(tt.want, "FILE", file)
			must.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got  %v\nwant %s", err, want)
		})
	}
}

// TestDeadLetters checks that dead letters are stored in the configured file or topic, by default next to the
// checkpoints.
func TestDeadLetters(t *testing.T) {
	for _, test := range []struct{ topic, file, directory, want string }{
		{"", "", "state", "/state/dead-letters.jsonl"},
		{"", "here.jsonl", "state", "/here.jsonl"},
		{"dead", "", "state", "dead/"},
		{"dead", "here.jsonl", "state", "dead/"},
		{"", "", "s3://bucket/prefix", "/dead-letters.jsonl"},
	} {
		c := Default()
		c.DeadLetter.Topic, c.DeadLetter.File, c.Checkpoint.Directory = test.topic, test.file, event.Address(test.directory)
		got := c.DeadLetters()
		must.True(t, got.Topic+"/"+filepath.ToSlash(got.File) == test.want, "%+v: %+v", test, got)
	}
}

// TestSecretsAreNotShown checks that the environment variable with a password is not treated as a key. The password
// must appear in no output.
func TestSecretsAreNotShown(t *testing.T) {
	for _, env := range []string{"BLANKOUT_KAFKA_PASSWORD", "BLANKOUT_REGISTRY_PASSWORD", "BLANKOUT_REGISTRY_TOKEN", "BLANKOUT_HTTP_TOKEN"} {
		l := must.Get(Load(Source{Env: []string{env + "=hunter2"}}))(t)
		var b strings.Builder
		must.Do(t, l.Show(&b))
		must.True(t, !strings.Contains(b.String(), "hunter2"), "%v: the password is shown", env)
	}
}

func FuzzDecodeFile(f *testing.F) {
	f.Add(Template)
	f.Add("[learner]\nlearning_rate = 'x'")
	f.Add("a.b.c = {d = [1, {e = 2}]}")
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		if _, err := decodeFile("f.toml", text, &c); err == nil {
			for _, k := range keys(nil, &c) {
				var v map[string]any
				_, err := toml.Decode("x = "+format(k), &v)
				must.True(t, err == nil, "%s = %s: %v", k, format(k), err)
			}
		}
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
}

// TestStartConfiguration checks that the configuration in docs/start.md is valid.
func TestStartConfiguration(t *testing.T) {
	data := must.Get(os.ReadFile("../docs/start.md"))(t)
	_, rest, ok := strings.Cut(string(data), "```toml\n")
	text, _, closed := strings.Cut(rest, "```")
	must.Require(t, ok && closed, "docs/start.md shows no configuration")
	file := filepath.Join(t.TempDir(), "service.toml")
	write(t, file, text)
	must.Do(t, must.Err(Load(Source{File: file})))
}

// TestAddressesAreHidden checks that every key that may hold a URL has the type event.Address, which hides secrets in
// errors and in output. New keys are tested automatically.
func TestAddressesAreHidden(t *testing.T) {
	const secret = "s3cr3t"
	c := Default()
	tested := 0
	section := ""
	said := map[string]bool{} // keys whose description in the template mentions a URL
	about := ""
	for line := range strings.Lines(Template) {
		name, _, isKey := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			section, about = strings.Trim(strings.TrimSpace(line), "[]"), ""
		case strings.HasPrefix(line, "#"):
			about += line
		case isKey:
			said[section+"."+name] = strings.Contains(about+line, "://")
			about = ""
		}
	}
	for _, k := range keys(nil, &c) {
		if k.value.Type() != reflect.TypeFor[event.Address]() {
			must.True(t, !said[k.String()] && !strings.HasSuffix(k.String(), "url"), "%s may hold a URL: let it be a event.Address", k)
			continue
		}
		tested++
		for _, value := range []string{
			"https://me:" + secret + "@host", "https://me:" + secret + "%@host", "https://" + secret + "@host", "http://host/?token=" + secret, "https://host?" + secret, "https://host/#" + secret,
			"s3://me:" + secret + "@bucket/key", "s3://bucket/key?token=" + secret, "ftp://me:" + secret + "@host", "me:" + secret + "@host:9000", "host:9000?token=" + secret,
		} {
			file := filepath.Join(t.TempDir(), "f.toml")
			write(t, file, "["+strings.Join(k.path[:len(k.path)-1], ".")+"]\n"+k.path[len(k.path)-1]+" = '"+value+"'\n")
			for _, source := range []Source{{File: file}, {Flags: []string{k.String() + "=" + value}}, {Env: []string{k.env() + "=" + value}}} {
				var shown bytes.Buffer
				l, err := Load(source)
				if err == nil {
					must.Do(t, l.Show(&shown))
					values := must.Get(l.Values())(t)
					fmt.Fprintf(&shown, "%v %+v", values, l.Config)
				}
				text := fmt.Sprint(err, shown.String())
				must.True(t, !strings.Contains(text, secret), "%s = %s: the secret is told: %s", k, value, text)
			}
		}
	}
	must.True(t, tested >= 5, "only %d keys are addresses", tested)
	for _, broker := range []string{"https://host:9092/?token=" + secret, "host:9092?token=" + secret} {
		_, err := Load(Source{Flags: []string{"kafka.brokers=" + broker}})
		must.True(t, err != nil && !strings.Contains(err.Error(), secret), "%v", err)
	}
}

// TestKeysInDocuments checks documents, help texts and messages. Every key that they name must exist.
func TestKeysInDocuments(t *testing.T) {
	c := Default()
	known := map[string]bool{}
	sections := []string{}
	for _, k := range keys(nil, &c) {
		for n := 1; n <= len(k.path); n++ {
			known[k.path[:n].String()] = true
		}
		if !slices.Contains(sections, k.path[0]) {
			sections = append(sections, k.path[0])
		}
	}
	named := regexp.MustCompile("`((?:" + strings.Join(sections, "|") + `)\.[a-z0-9_.]*[a-z0-9_])\b([ =` + "`" + `]|$)`)
	documents := must.Get(filepath.Glob("../docs/*.md"))(t)
	found := 0
	for _, document := range append(documents, "../README.md", "../CONTRIBUTING.md") {
		text := must.Get(os.ReadFile(document))(t)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if ext := filepath.Ext(m[1]); ext == ".go" || ext == ".txtar" {
				continue
			}
			found++
			must.True(t, known[m[1]], "%s: there is no key %s", document, m[1])
		}
	}
	must.True(t, found >= 50, "only %d keys found in the documents", found)
}

// TestEventsOfValidations checks that validate.events is "auto" or a number in every source of values. Show must write
// it in the same form.
func TestEventsOfValidations(t *testing.T) {
	for _, x := range []struct {
		text string
		want validate.Events
	}{{`"auto"`, validate.AutoEvents}, {"0", 0}, {"8000", 8000}} {
		file := filepath.Join(t.TempDir(), "f.toml")
		write(t, file, "[validate]\nevents = "+x.text)
		plain := strings.Trim(x.text, `"`)
		for _, from := range []Source{{File: file}, {Flags: []string{"validate.events=" + plain}}, {Env: []string{"BLANKOUT_VALIDATE_EVENTS=" + plain}}} {
			l := must.Get(Load(from))(t)
			i := slices.IndexFunc(keys(nil, &l.Config), func(k key) bool { return k.String() == "validate.events" })
			got := format(keys(nil, &l.Config)[i])
			must.True(t, l.Validate.Events == x.want && got == x.text, "%s by %+v: %d, shown as %s", x.text, from, l.Validate.Events, got)
		}
	}
}

func TestChallengers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.toml")
	write(t, file, `[record]
drop = ["a", "b"]
groups = {engine = ["rpm"]}
[learner]
c = 2.0
class_weight = {x = 2.0}

[[challenger]] # the first
name = "big"
c = 10.0
crosses = [
  ["p", "q"], # a list like a header
  ["[[challenger]]", "r"],
]

[challenger.groups]
wheels = ["left", "right"]

[validate]
directory = """
[[challenger]]
"""
[[challenger]]
name = "two"
drop = ["c"]
class_weight = {y = 3.0}
promote = "auto"
window = 20_000
`)
	l := must.Get(Load(Source{File: file, Env: []string{"BLANKOUT_LEARNER_HALF_LIFE=7000"}, Flags: []string{"challenger.two.learning_rate=0.25", "learner.coverage=0.8"}}))(t)
	must.Require(t, len(l.Challengers) == 2 && l.Validate.Directory == "[[challenger]]\n", "%d challengers, and the name is %q", len(l.Challengers), l.Validate.Directory)
	big, two := l.Challengers[0], l.Challengers[1]
	must.True(t, big.Name == "big" && big.C == 10 && big.HalfLife == 7000 && big.Coverage == 0.8 && big.Promote == "manual" && big.Window == 100_000 &&
		reflect.DeepEqual(big.Crosses, [][2]string{{"p", "q"}, {"[[challenger]]", "r"}}) && slices.Equal(big.Drop, []string{"a", "b"}) &&
		reflect.DeepEqual(big.Groups, map[string][]string{"wheels": {"left", "right"}}) && reflect.DeepEqual(big.ClassWeight, map[string]float64{"x": 2}), "big is %+v", big)
	must.True(t, two.Name == "two" && two.C == 2 && two.LearningRate == 0.25 && two.HalfLife == 7000 && two.Promote == "auto" && two.Window == 20_000 &&
		slices.Equal(two.Drop, []string{"c"}) && reflect.DeepEqual(two.ClassWeight, map[string]float64{"y": 3}), "two is %+v", two)
	must.True(t, l.Learner.C == 2 && l.Learner.LearningRate == 0 && slices.Equal(l.Record.Drop, []string{"a", "b"}) && reflect.DeepEqual(l.Learner.ClassWeight, map[string]float64{"x": 2}) && len(l.Record.Groups) == 1,
		"the sections have become %+v, %+v", l.Learner, l.Record)
	r, own := two.RecordOf(l.Record)
	must.True(t, own && slices.Equal(r.Drop, []string{"c"}) && len(r.Groups) == 1, "two reads records as %+v, its own: %v", r, own)
	same := two
	if same.Drop = []string{"a", "b"}; same.Drop != nil {
		_, own := same.RecordOf(l.Record)
		must.True(t, !own, "the record keys of the section are its own")
	}
	var shown bytes.Buffer
	must.Do(t, l.Show(&shown))
	for _, line := range []string{"[[challenger]]\nname = \"big\" # " + file + "\n", "crosses = [[\"p\", \"q\"], [\"[[challenger]]\", \"r\"]] # " + file + "\n", "learning_rate = 0.25 # --set\n"} {
		must.True(t, strings.Contains(shown.String(), line), "%q is not shown in\n%s", line, shown.String())
	}
	values, err := l.Values()
	v := values["challenger.two.window"]
	must.True(t, err == nil && v.Value == int64(20_000) && v.Origin == file, "%+v, %v", v, err)
	must.True(t, slices.Contains(l.Given(), "challenger.two.learning_rate"), "given is %q", l.Given())
}

func TestChallengersThatAreRefused(t *testing.T) {
	const head = "[learner]\nc = 1.0\n[[challenger]]\nname = \"a\"\n"
	for _, x := range []struct {
		name, file string
		env, flags []string
		want       string
	}{
		{"unknown key", head + "nosie = 'none'", nil, nil, "FILE: unknown key challenger.a.nosie, did you mean challenger.a.noise?"},
		{"type", head + "\nc = 'one'", nil, nil, "FILE: challenger.a.c should be a number"},
		{"not TOML", head + "c = ", nil, nil, `FILE:5: challenger.c: `},
		{"value", head + "window = 20000\nnoise = 'dropout:2'", nil, nil, `FILE: [[challenger]] "a": noise`},
		{"record", head + "drop = ['label']", nil, nil, `FILE: [[challenger]] "a": label: field "label" is also named by drop`},
		{"no name", "[[challenger]]\nc = 2.0", nil, nil, `FILE: [[challenger]] "": name "": want 1 to 32`},
		{"a name that is taken", head + "[[challenger]]\nname = 'a'", nil, nil, `FILE: [[challenger]] "a": name "a" is used twice`},
		{"the name of the champion", "[[challenger]]\nname = 'learner'", nil, nil, `FILE: [[challenger]] "learner": name "learner" is reserved for [learner]`},
		{"promote", head + "promote = 'now'", nil, nil, `FILE: [[challenger]] "a": promote "now": want manual or auto`},
		{"window", head + "window = 10_500", nil, nil, `FILE: [[challenger]] "a": window 10500: want a multiple of 1000`},
		{"other labels", head + "loss = 'squared'\nnoise = 'none'", nil, nil, `FILE: [[challenger]] "a": loss squared: [learner] has logistic:gaussian`},
		{"counts", head + "noise = 'poisson'\nstandardize = 'none'\noptimizer = 'adagrad'", nil, nil, `FILE: [[challenger]] "a": noise poisson: [learner] has auto`},
		{"a group", head + "[group]\nname = 'g'\n[record]\nclasses = ['0', '1']\n", nil, nil, `[[challenger]] ["a"]: not supported in a group`},
		{"delayed labels", head + "[labels]\ntopics = ['l']\n[record]\nid = 'id'\n", nil, nil, `[[challenger]] ["a"]: not supported with delayed labels`},
		{"a table alone", "[challenger]\nname = 'a'", nil, nil, `FILE:1: unknown key challenger: write [[challenger]], once for each`},
		{"a variable", head, []string{"BLANKOUT_CHALLENGER_A_C=2"}, nil, "BLANKOUT_CHALLENGER_A_C: variables cannot set keys of challengers"},
		{"a flag of nobody", head, nil, []string{"challenger.b.c=2"}, "--set challenger.b.c: unknown key, did you mean challenger.a.c?"},
		{"a flag of no key", head, nil, []string{"challenger.a.cc=2"}, "--set challenger.a.cc: unknown key, did you mean challenger.a.c?"},
		{"a flag of no value", head, nil, []string{"challenger.a=2"}, "--set challenger.a: unknown key: write [[challenger]], once for each, or --set challenger.NAME.KEY=VALUE"},
		{"a bad flag", head, nil, []string{"challenger.a.c=two"}, `--set challenger.a.c: challenger.a.c is "two" but should be a number`},
	} {
		t.Run(x.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f.toml")
			write(t, file, x.file)
			_, err := Load(Source{File: file, Env: x.env, Flags: x.flags})
			want := strings.ReplaceAll(x.want, "FILE", file)
			must.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got  %v\nwant %s", err, want)
		})
	}
	file := filepath.Join(t.TempDir(), "f.toml")
	write(t, file, strings.Repeat("[[challenger]]\nname = 'a'\n", 17))
	_, err := Load(Source{File: file})
	must.True(t, err != nil && strings.Contains(err.Error(), "17 challengers: want at most 16"), "%v", err)
}
