package serve_test

import (
	"math"
	"testing"

	"blankout/internal/must"
	"blankout/serve"
)

// TestUnseenFeatures checks that an event with only unseen features is rejected. All other events of the request must
// be predicted. This includes an event whose fields are all declared missing. Both classes must have a probability.
func TestUnseenFeatures(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	_, text, _ := call(t, "POST", url+"/v1/predict", `{"x":"1.5"}`)
	must.Contains(t, text, "the model has seen no feature of the event: x=1.5 (x is numeric in the model)")
	var answer struct {
		Predictions []struct {
			Class         string
			Probabilities map[string]float64
			Unknown       []string
			Error, Where  string
		}
	}
	text = decoded(t, &answer, "POST", url+"/v1/predict", `[{"x":1,"new":2},{"new":2,"newer":"a"},{"x":null,"word":null}]`)
	must.Require(t, len(answer.Predictions) == 3, "%s", text)
	for i, p := range answer.Predictions {
		if i == 1 {
			must.True(t, p.Error == "the model has seen no feature of the event: new, newer=a" && p.Where == "event 1" && p.Class == "", "a stranger: %+v", p)
			continue
		}
		must.True(t, p.Error == "" && len(p.Probabilities) == 2 && math.Abs(p.Probabilities["yes"]+p.Probabilities["no"]-1) <= 1e-12, "event %d: %+v", i, p)
	}
}
