package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// writeMachines writes n events that resemble the readings of machines. They have nulls, omitted fields, texts, amounts
// with heavy tails, and readings up to 1e30. The argument kind is the kind of the events' label.
func writeMachines(t *testing.T, name, kind string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 3))
	var out bytes.Buffer
	for i := range n {
		temp, vibration, amount := 20+5*r.NormFloat64(), r.NormFloat64(), math.Exp(3+2*r.NormFloat64())
		machine := string("abcdefgh"[r.IntN(8)])
		words := must.List(r.IntN(6), func(int) string { return []string{"pump", "leak", "hot", "noise", "belt"}[r.IntN(5)] })
		z := 0.2*(temp-20) + vibration*vibration - 1 + 0.3*math.Log(amount) - 1 + 0.8*r.NormFloat64()
		if machine < "d" {
			z += 1.2
		}
		e := map[string]any{"id": i, "at": 1_700_000_000_000 + 60_000*i, "machine": machine, "temp": temp, "amount": amount, "on": r.IntN(2) == 0, "text": strings.Join(words, " "), "one": 1}
		switch r.IntN(40) {
		case 0, 1:
			e["temp"] = nil
		case 2:
			e["amount"] = []any{1e30, -1e12, nil, "broken"}[r.IntN(4)]
		}
		if r.IntN(5) > 0 {
			e["vibration"] = vibration
		}
		if r.IntN(3) > 0 {
			e["site"] = string("nsew"[r.IntN(4)])
		}
		switch kind {
		case "two":
			e["label"] = map[bool]string{true: "fault", false: "ok"}[z > 0.5]
		case "three":
			e["label"] = []string{"low", "mid", "high"}[int(min(2, max(0, z+1)))]
		case "number":
			e["label"] = 10*z + 50
		case "count":
			e["label"] = math.Round(math.Exp(0.3*z) + r.Float64())
		}
		must.Do(t, json.NewEncoder(&out).Encode(e))
	}
	must.Do(t, os.WriteFile(name, out.Bytes(), 0o644))
}

// drawSettings draws settings for events of a kind. Most drawn settings are valid. The program rejects invalid settings
// when it starts.
func drawSettings(r *rand.Rand, kind string) map[string]string {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	numbers := kind == "number" || kind == "count"
	s := map[string]string{
		"record.id": "id", "record.time": "at", "checkpoint.events": pick("0", "500"), "checkpoint.interval": "0s", "validate.holdout": pick("0", "10"),
		"learner.optimizer": pick("adagrad", "adagrad", "adagrad", "dropout-descent", "ftrl"),
		"learner.noise":     pick("none", "dropout:0.3", "dropout:0"), "learner.standardize": pick("auto", "auto", "all", "scale", "none"),
		"learner.covariance_max_fields": pick("256", "0"), "learner.on_drift": pick("expert", "forget", "log"), "learner.doubt": pick("auto", "log", "off"), "learner.c": pick("1", "100", "0.01"),
	}
	switch kind {
	case "two":
		s["record.classes"], s["learner.loss"], s["learner.calibrate"] = `["ok", "fault"]`, pick("logistic", "hinge", "squared-hinge", "probit", "erf", "t-logistic:1.5"), pick("off", "auto", "on")
	case "three":
		s["record.classes"], s["record.max_classes"], s["learner.loss"] = `["low", "mid", "high"]`, "3", pick("logistic", "hinge", "t-logistic:1.5")
	case "number":
		s["learner.loss"] = pick("squared", "absolute", "quantile:0.9", "huber:1")
	case "count":
		s["learner.loss"] = "poisson"
	}
	adagrad := s["learner.optimizer"] == "adagrad"
	if adagrad && r.IntN(2) == 0 {
		s["learner.noise"] = "auto"
		if !numbers && r.IntN(2) == 0 {
			s["learner.noise"] = pick("observed", "group:0.3", "dropout:0.1+group:0.3")
		}
	}
	if adagrad && r.IntN(4) == 0 {
		s["learner.half_life_time"] = "60000"
	}
	if !numbers {
		s["learner.missing_policy"] = pick("auto", "none", "rescale")
	}
	if r.IntN(2) == 0 {
		s["record.text"] = `["text"]`
	}
	if r.IntN(3) == 0 {
		s["record.groups"] = `{mechanics = ["temp", "vibration"], place = ["machine", "site"]}`
	}
	if r.IntN(4) == 0 {
		s["record.crosses"] = `[["machine", "site"]]`
	}
	return s
}

// TestRandomSettings draws random settings and runs the program twice: one run is stopped and continued two times, the
// other is not stopped. Both must end with the same bytes.
func TestRandomSettings(t *testing.T) {
	t.Parallel()
	program, dir := buildProgram(t), t.TempDir()
	kinds := []string{"two", "three", "number", "count"}
	for _, kind := range kinds {
		writeMachines(t, filepath.Join(dir, kind+".jsonl"), kind, 2500)
	}
	draws := must.Either(longtest.Asked(), 30, 4)
	refused := 0
	for i := range draws {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		kind := kinds[i%len(kinds)]
		flags := []string{"-d", filepath.Join(dir, kind+".jsonl"), "-q"}
		for key, value := range drawSettings(r, kind) {
			flags = append(flags, "--set", key+"="+value)
		}
		alone, stopped := newLearner(t, program, "127.0.0.1:1", "none"), newLearner(t, program, "127.0.0.1:1", "none")
		alone.flags = flags
		if err := alone.live(t, 0, nil); err != nil {
			log := alone.log()
			must.True(t, !strings.Contains(log, "panic") && strings.Contains(log, "[learner]"), "%v: %v\n%s", flags, err, log)
			refused++
			continue
		}
		for range 2 {
			stopped.flags = append(flags[:len(flags):len(flags)], "--max-events", fmt.Sprint(1+r.IntN(1200)))
			stopped.finish(t)
		}
		stopped.flags = flags
		stopped.finish(t)
		want, _, _ := alone.state(t)
		got, _, _ := stopped.state(t)
		must.True(t, bytes.Equal(got, want), "%v: the states differ in %s", flags, differingBlocks(got, want))
	}
	must.True(t, refused <= draws/4, "%d of %d drawn settings were refused", refused, draws)
}
