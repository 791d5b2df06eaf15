package config

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/must"
)

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
		{"unknown key", head + "nosie = 'none'", nil, nil, `FILE: [[challenger]] "a": unknown key nosie, did you mean noise?`},
		{"type", head + "\nc = 'one'", nil, nil, `FILE: [[challenger]] "a": c should be a number`},
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
		{"a flag of nobody", head, nil, []string{"challenger.b.c=2"}, `--set challenger.b.c: no challenger "b"`},
		{"a flag of no key", head, nil, []string{"challenger.a.cc=2"}, `--set challenger.a.cc: unknown key, did you mean c?`},
		{"a flag of no value", head, nil, []string{"challenger.a=2"}, `--set challenger.a: want challenger.NAME.KEY=VALUE`},
		{"a bad flag", head, nil, []string{"challenger.a.c=two"}, `--set challenger.a.c: c is "two" but should be a number`},
	} {
		t.Run(x.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f.toml")
			write(t, file, x.file)
			_, err := Load(Source{File: file, Env: x.env, Flags: x.flags})
			want := strings.ReplaceAll(x.want, "FILE", file)
			must.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got  %v\nwant %s", err, want)
		})
	}
	_, err := Load(Source{File: func() string {
		file := filepath.Join(t.TempDir(), "f.toml")
		write(t, file, strings.Repeat("[[challenger]]\nname = 'a'\n", 17))
		return file
	}()})
	must.True(t, err != nil && strings.Contains(err.Error(), "17 challengers: want at most 16"), "%v", err)
}
