package serve_test

import (
	"testing"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/serve"
)

// TestReadyWithoutLearner checks that a service that only predicts is ready as soon as it has a model.
func TestReadyWithoutLearner(t *testing.T) {
	var m *served.Model
	url := start(t, serve.DefaultConfig(), serve.Service{Model: func() *served.Model { return m }})
	answers(t, 503, "not ready: no model has been published yet", "GET", url+"/readyz", "")
	m = served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), written())
	answers(t, 200, "", "GET", url+"/readyz", "")
}

// TestFormatIsReported serves a model without a configured record format. The server must report the format of its events.
func TestFormatIsReported(t *testing.T) {
	runner, service := learned(t)
	must.Do(t, runner.Run(t.Context()))
	model := service.Model
	format := ""
	service.Model = func() *served.Model { m := *model(); m.Record.Format = format; return &m }
	url := start(t, serve.DefaultConfig(), service)
	for set, named := range map[string]string{"": "json", "svmlight": "svmlight"} {
		format = set
		answers(t, 200, `"format":"`+named+`"`, "GET", url+"/v1/newest", "")
	}
}
