package serve

// This file answers what is asked of a learner: its newest event, how good its predictions
// have been, the condition of its fields, and what it would lose without one of them.

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/run"
	"blankout/online/watch"
)

// newestEvent is the answer of GET /v1/newest.
type newestEvent struct {
	Format string `json:"format"` // in which POST /v1/predict takes it
	Event  string `json:"event"`
	Label  string `json:"label"` // the field that holds the label
	// Groups are fields that fail together, by the group's name.
	Groups map[string][]string `json:"groups,omitempty"`
}

// newest answers GET /v1/newest: the newest record that could be used, as it came; nothing
// if none has come since the start.
func (t *site) newest(w http.ResponseWriter, r *http.Request) {
	m, event := t.service.model(), t.service.status().Newest
	if m == nil || event == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	format := m.Record.FormatName()
	if !utf8.Valid(event) {
		format, event = "json", []byte("{}") // the records are binary, and questions about them JSON
	}
	reply(w, http.StatusOK, newestEvent{format, string(event), m.Record.Label, m.Record.Groups})
}

// measured is the answer of GET /v1/measures: what is known of the predictions, each made
// before its event was learned. Every number of events counts importance.
type measured struct {
	Classes   []string    `json:"classes"` // of two the positive one last
	Positive  string      `json:"positive,omitempty"`
	Confusion [][]float64 `json:"confusion"` // events by true and predicted class
	// Since is when the events of Confusion begin, milliseconds: those of two classes with
	// the learner, those of more when its program was started.
	Since *int64 `json:"since,omitempty"`
	// Reliability groups the events by the probability of the positive class: the mean
	// probability, and the share that was positive.
	Reliability []reliability       `json:"reliability,omitempty"`
	Thresholds  []measure.Threshold `json:"thresholds,omitempty"`
	// CoverageByClass says how often the sets of each class's events have held that class.
	CoverageByClass []measure.ClassCoverage `json:"coverage_by_class,omitempty"`
	// ByAge has the error, of classes in percent, and the loss by the age of the weights.
	ByAge []measure.StaleLoss `json:"by_staleness,omitempty"`
	// Refused has by reason how many records were refused since the learner's beginning,
	// and what was wrong with the first of them.
	Refused map[event.Reason]watch.Refusals `json:"refused,omitempty"`
	// Samples are some of the newest records refused, Mislabeled events whose label is doubted.
	Samples    []run.Sample `json:"samples,omitempty"`
	Mislabeled []run.Sample `json:"mislabeled,omitempty"`
}

type reliability struct {
	Probability float64 `json:"probability"`
	Right       float64 `json:"positive"`
	Weight      float64 `json:"events"`
}

// measures answers GET /v1/measures.
func (t *site) measures(w http.ResponseWriter, r *http.Request) {
	m, status := t.models.current(w, r), t.service.status()
	if m == nil {
		return
	}
	metrics := status.Learner
	answer := measured{
		Classes: m.Schema.Classes, CoverageByClass: metrics.CoverageByClass, ByAge: metrics.Summary().ByAge, Refused: metrics.RefusedBy,
		Samples: status.RefusedSamples, Mislabeled: status.MislabeledSamples,
	}
	if b := metrics.Binary; b != nil {
		if n := len(answer.Classes); n == 2 && answer.Classes[0] == metrics.Positive {
			answer.Classes = []string{answer.Classes[1], answer.Classes[0]}
		}
		answer.Positive = metrics.Positive
		answer.Confusion = [][]float64{b.Confusion[0][:], b.Confusion[1][:]}
		for _, bin := range b.Diagram() {
			answer.Reliability = append(answer.Reliability, reliability(bin))
		}
		answer.Thresholds = b.Thresholds()
	} else if status.Confusion != nil {
		n := min(len(m.Schema.Classes), len(status.Confusion))
		for _, row := range status.Confusion[:n] {
			answer.Confusion = append(answer.Confusion, row[:n])
		}
		answer.Since = milli(status.Started)
	}
	reply(w, http.StatusOK, answer)
}

// omit answers GET /v1/without?kind=field&name=NAME: the error of the current model on
// recent events and its forecast, with and without a group, field or feature.
func (t *site) omit(w http.ResponseWriter, r *http.Request) {
	m := t.models.current(w, r)
	if m == nil {
		return
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		fail(w, http.StatusNotFound, "a kernel model does not have contributions of fields", r.URL.Path)
		return
	}
	events := t.service.Recent()
	if len(events) == 0 {
		fail(w, http.StatusServiceUnavailable, "no labeled event has arrived since the start", r.URL.Path)
		return
	}
	kind, name := r.URL.Query().Get("kind"), r.URL.Query().Get("name")
	if kind == "" {
		kind = "field"
	}
	if kind != "group" && kind != "field" && kind != "feature" || name == "" {
		fail(w, http.StatusBadRequest, fmt.Sprintf("kind=%.20q, name=%.100q: want a kind of group, field or feature, and its name", kind, name), "query")
		return
	}
	if !t.models.sending.enter(w, r) {
		return
	}
	defer t.models.sending.leave(true)
	lost, err := batch.WithoutPart(linear, events, kind, name, batch.DefaultValidateConfig().Deletions)
	switch {
	case errors.As(err, new(*batch.UnknownPartError)):
		fail(w, http.StatusNotFound, err.Error(), "query")
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error(), r.URL.Path)
	default:
		reply(w, http.StatusOK, lost)
	}
}
