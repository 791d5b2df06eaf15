package serve_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/must"
	"blankout/serve"
)

// sticking returns events whose field vibration reads 2.5 from event 3000 on.
func sticking() []byte {
	var lines bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		label, x, load := "no", r.NormFloat64(), r.NormFloat64()
		if i%2 == 1 {
			label, x, load = "yes", x+4, load+2
		}
		if i >= 3000 {
			x = 2.5
		}
		fmt.Fprintf(&lines, `{"label":%q,"ts":%d,"vibration":%v,"load":%v}`+"\n", label, 1_700_000_000_000+1000*i, x, load)
	}
	return lines.Bytes()
}

// TestStuck checks that a stuck field is treated as missing in predictions while it has that value. It must be reported
// in predictions, alarms and metrics.
func TestStuck(t *testing.T) {
	runner, service := runnerOver(t, sticking())
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	type prediction struct {
		Scores         []float64
		Missing, Stuck []string
		Unseen         []string
		Explanation    []struct{ Feature string }
	}
	predict := func(event string) (p prediction) {
		t.Helper()
		var got struct{ Predictions []prediction }
		text := decoded(t, &got, "POST", url+"/v1/predict?explain=3", event)
		must.Require(t, len(got.Predictions) == 1, "%s", text)
		return got.Predictions[0]
	}
	stuck, null, moving := predict(`{"vibration":2.5,"load":1}`), predict(`{"vibration":null,"load":1}`), predict(`{"vibration":2.25,"load":1}`)
	must.True(t, fmt.Sprint(stuck.Stuck, stuck.Missing, null.Stuck, null.Missing, moving.Stuck, moving.Missing) == "[vibration] [vibration] [] [vibration] [] []", "%+v\n%+v\n%+v", stuck, null, moving)
	stuck.Stuck = nil
	must.True(t, fmt.Sprint(stuck) == fmt.Sprint(null) && moving.Scores[0] != null.Scores[0], "%+v\n%+v\n%+v", stuck, null, moving)
	// The model has seen the field, although the field's value counts as missing. So the event is not rejected for
	// having only unseen features.
	p := predict(`{"vibration":2.5,"new":1}`)
	must.True(t, fmt.Sprint(p.Unseen, p.Stuck) == "[new] [vibration]", "%+v", p)
	_, text, _ := call(t, "GET", url+"/v1/features", "")
	must.Contains(t, text, `"kind":"stuck","state":"raised"`, `"value":2.5`, `vibration reads 2.5 since 2023-11-14T23:03:20Z: stuck, and this value counts as missing (after 50 repeats; usually 0 % of its values repeat the one before)`, `"repeats":0`)
	_, text, _ = call(t, "GET", url+"/metrics", "")
	must.Contains(t, text, `blankout_field_stuck{field="vibration"} 1`, `blankout_field_alarms{kind="stuck"} 1`, `blankout_field_alarms{kind="missing"} 0`)
	must.True(t, !strings.Contains(text, `blankout_field_stuck{field="load"}`), "load is stuck")
}
