package serve_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/served"
	"blankout/serve"
)

// inferred is a response of the Open Inference Protocol.
type inferred struct {
	ID           string
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	Outputs      []struct {
		Name, Datatype string
		Shape          []int
		Data           []any
	}
	Error string
}

func (a inferred) data(name string) []any {
	for _, o := range a.Outputs {
		if o.Name == name {
			return o.Data
		}
	}
	return nil
}

// TestInference checks predictions by the Open Inference Protocol, for complete events and for separate fields, flat or
// nested. They must equal the predictions of POST /v1/predict.
func TestInference(t *testing.T) {
	runner, service := learned(t)
	config := serve.DefaultConfig()
	config.Name = "films one"
	url := start(t, config, service)
	path := url + "/v2/models/films%20one"
	answers(t, 503, "", "GET", path+"/ready", "")
	must.Do(t, runner.Run(t.Context()))
	var want struct {
		Version     uint64
		Predictions []served.Prediction
	}
	text := decoded(t, &want, "POST", url+"/v1/predict", `{"word":"yes1","x":1}`+"\n"+`{"word":null,"x":2}`+"\n"+`{"word":"no2","x":0}`)
	must.Require(t, len(want.Predictions) == 3, "%v", text)
	for _, inputs := range []string{
		`{"name":"events","datatype":"BYTES","shape":[3],"data":["{\"word\":\"yes1\",\"x\":1}","{\"word\":null,\"x\":2}","{\"word\":\"no2\",\"x\":0}"]}`,
		`{"name":"word","datatype":"BYTES","shape":[3],"data":["yes1",null,"no2"]},{"name":"x","datatype":"INT64","shape":[3,1],"data":[[1],[2],[0]]}`,
		`{"name":"x","datatype":"FP32","shape":[3,1],"data":[1.0, 2, 0e0]},{"name":"word","datatype":"BYTES","shape":[3],"data":["yes1",null,"no2"]}`,
	} {
		var a inferred
		text := decoded(t, &a, "POST", path+"/infer", `{"id":"7","inputs":[`+inputs+`]}`)
		if a.ID != "7" || a.ModelName != "films one" || a.ModelVersion != fmt.Sprint(want.Version) {
			t.Errorf("%+v", a)
		}
		for i, p := range want.Predictions {
			chances := a.data("probabilities")[2*i : 2*i+2]
			positive := 0
			if p.Class == "yes" {
				positive = 1
			}
			if a.data("class")[i] != p.Class || a.data("probability")[i] != p.Probability || a.data("scores")[i] != p.Scores[0] || a.data("missing_policy")[i] != string(p.MissingPolicy) ||
				a.data("missing")[i] != strings.Join(p.Missing, ",") || chances[positive] != p.Probability || math.Abs(chances[0].(float64)+chances[1].(float64)-1) > 1e-15 {
				t.Errorf("event %d: %s, want %+v", i, text, p)
			}
		}
	}
	must.Contains(t, text, `"missing_policy":"`)
	// If a field has several values, it is a set of words.
	decoded(t, &want, "POST", url+"/v1/predict", `[{"word":["yes1","no2"]},{"word":["no3","no4"]}]`)
	for _, data := range []string{`["yes1","no2","no3","no4"]`, `[["yes1","no2"],["no3","no4"]]`} {
		var a inferred
		text = decoded(t, &a, "POST", path+"/infer", `{"inputs":[{"name":"word","datatype":"BYTES","shape":[2,2],"data":`+data+`}]}`)
		if len(a.data("scores")) != 2 || a.data("scores")[0] != want.Predictions[0].Scores[0] || a.data("scores")[1] != want.Predictions[1].Scores[0] {
			t.Errorf("%s: %s, want %+v", data, text, want)
		}
	}
	// The response must have the requested outputs in the requested order, with their metadata.
	var a inferred
	text = decoded(t, &a, "POST", path+"/versions/"+fmt.Sprint(want.Version)+"/infer", `{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1]}],"outputs":[{"name":"scores"},{"name":"class"}]}`)
	must.True(t, len(a.Outputs) == 2 && a.Outputs[0].Name == "scores" && a.Outputs[1].Name == "class", "%s", text)
	_, text, _ = call(t, "GET", path, "")
	for _, part := range []string{`"name":"films one","versions":["`, `{"name":"events","datatype":"BYTES","shape":[-1]}`, `{"name":"probabilities","datatype":"FP64","shape":[-1,2]}`, `"classes":["no","yes"]`} {
		must.Contains(t, text, part)
	}
	for body, want := range map[string]string{
		`[`: `400 {"error":"unexpected end of JSON input","where":"body"}`, `{}`: `no inputs`,
		`{"inputs":[{"name":"events","datatype":"BYTES","shape":[1],"data":["{\"word\":"]}]}`:                                                     `"where":"event 0"`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[2],"data":[1]}]}`:                                                                      `1 values, want 2`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[[1]]}]}`:                                                                    `nested deeper`,
		`{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1.5]}]}`:                                                                    `is no \"INT8\"`,
		`{"inputs":[{"name":"x","datatype":"TEXT","shape":[1],"data":["a"]}]}`:                                                                    `is no \"TEXT\"`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[0],"data":[]}]}`:                                                                       `shape [0]`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":"a"}]}`:                                                                      `want an array`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1]},{"name":"x","datatype":"FP64","shape":[1],"data":[1]}]}`:                `missing or repeated`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1]},{"name":"y","datatype":"FP64","shape":[2],"data":[1,2]}]}`:              `want [1]`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"parameters":{"binary_data_size":8}}]}`:                                             `binary`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1]}],"outputs":[{"name":"embedding"}]}`:                                     `no output \"embedding\": the outputs are class, probability`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1]}],"outputs":[{"name":"class","parameters":{"binary_data":true}}]}`:       `binary`,
		`{"inputs":[{"name":"events","datatype":"BYTES","shape":[1],"data":["{}"]},{"name":"x","datatype":"FP64","shape":[1],"data":[{"a":1}]}]}`: `is no \"FP64\"`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[65537],"data":[1]}]}`:                                                                  `413 {"error":"too many events`,
		`{"inputs":[{"name":"x","datatype":"FP64","shape":[3,9223372036854775807],"data":[1,2,3]}]}`:                                              `3 values`,
	} {
		status, text, _ := call(t, "POST", path+"/infer", body)
		if got := fmt.Sprintf("%d %s", status, text); status/100 != 4 || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	for path, want := range map[string]int{"/v2/models/other": 404, "/v2/models/films%20one/versions/99": 404, "/v2": 200, "/v2/health/live": 200, "/v2/health/ready": 200, "/v2/models/films%20one/ready": 200} {
		answers(t, want, "", "GET", url+path, "")
	}
	answers(t, 404, "", "POST", url+"/v2/models/other/infer", `{}`)
}

// TestReadyWithoutLearner checks that a service that only predicts is ready as soon as it has a model.
func TestReadyWithoutLearner(t *testing.T) {
	var m *served.Model
	url := start(t, serve.DefaultConfig(), serve.Service{Model: func() *served.Model { return m }})
	answers(t, 503, "not ready: no model has been published yet", "GET", url+"/readyz", "")
	m = served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), written())
	answers(t, 200, "", "GET", url+"/readyz", "")
}

// TestFormatIsReported serves a model without a configured record format. The server must report the format of its
// events, and must accept events of that format.
func TestFormatIsReported(t *testing.T) {
	runner, service := learned(t)
	must.Do(t, runner.Run(t.Context()))
	model := service.Model
	format := ""
	service.Model = func() *served.Model { m := *model(); m.Record.Format = format; return &m }
	url := start(t, serve.DefaultConfig(), service)
	fields := `{"inputs":[{"name":"x","datatype":"INT64","shape":[1],"data":[1]}]}`
	for _, c := range []struct {
		format, named, answer string
		status                int
	}{{"", "json", `"outputs"`, 200}, {"svmlight", "svmlight", "the events of this model are svmlight: want one input", 400}} {
		format = c.format
		answers(t, c.status, c.answer, "POST", url+"/v2/models/blankout/infer", fields)
		for _, path := range []string{"/v2/models/blankout", "/v1/newest"} {
			if _, text, _ := call(t, "GET", url+path, ""); !strings.Contains(text, `"format":"`+c.named+`"`) {
				t.Errorf("%q: %s: %s", format, path, text)
			}
		}
	}
}

// TestInferenceOfRegression checks that events that are not JSON are accepted as complete texts. Regression predictions
// must be numbers.
func TestInferenceOfRegression(t *testing.T) {
	schema := event.NewSchema(8, nil, 2)
	schema.NumericIndices = true
	m := served.New(model.NewLinear(schema, "squared", "none", [][]float64{{2, 4}}, []float64{0.5}), written())
	m.Record.Format = "svmlight"
	m.Residual = &model.Residual{Deviation: 1}
	url := start(t, serve.DefaultConfig(), serve.Service{Model: func() *served.Model { return m }})
	var p struct{ Predictions []served.Prediction }
	text := decoded(t, &p, "POST", url+"/v1/predict", "0 1:1 2:3")
	if len(p.Predictions) != 1 || p.Predictions[0].Value == nil || p.Predictions[0].Low == nil {
		t.Fatal(text)
	}
	var a inferred
	text = decoded(t, &a, "POST", url+"/v2/models/blankout/infer", `{"inputs":[{"name":"events","datatype":"BYTES","shape":[1],"data":["0 1:1 2:3"]}]}`)
	for name, want := range map[string]*float64{"value": p.Predictions[0].Value, "low": p.Predictions[0].Low, "high": p.Predictions[0].High} {
		if got := a.data(name); len(got) != 1 || got[0] != *want {
			t.Errorf("%s: %v, want %v: %s", name, got, *want, text)
		}
	}
	must.True(t, a.data("class") == nil, "%v", text)
	answers(t, 400, "are svmlight", "POST", url+"/v2/models/blankout/infer", `{"inputs":[{"name":"1","datatype":"FP64","shape":[1],"data":[1]}]}`)
}
