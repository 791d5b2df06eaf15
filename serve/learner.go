package serve

// This file handles requests about a learner: its newest event, the quality of its predictions, the health of its
// fields, and ablations.

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"blankout/app/run"
	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/stream/record"
)

// newestEvent is the JSON response to GET /v1/newest.
type newestEvent struct {
	Format string `json:"format"` // format in which POST /v1/predict accepts the event
	Event  string `json:"event"`
	Label  string `json:"label"` // name of the field with the label
	// Unused lists fields that are not features: weight, ID, time and dropped fields.
	Unused []string `json:"unused,omitempty"`
	// Groups lists fields that fail together, by the name of the group.
	Groups map[string][]string `json:"groups,omitempty"`
}

// newest handles GET /v1/newest. It responds with the newest valid record in its original form, or with no record if
// none has arrived since the start.
func (t *site) newest(w http.ResponseWriter, r *http.Request) bool {
	m, event := t.service.model(), t.service.status().Newest
	if m == nil || event == nil {
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	format := m.Record.FormatName()
	if !utf8.Valid(event) {
		format, event = "json", []byte("{}") // the records are binary, so prediction requests are JSON
	}
	if object := objectOf(&m.Record, event); object != nil {
		format, event = "json", object
	}
	unused := slices.DeleteFunc(append([]string{m.Record.Weight, m.Record.ID, m.Record.Time}, m.Record.Drop...), func(name string) bool {
		return name == "" || slices.Contains(m.Record.TimeFeatures, name)
	})
	return reply(w, http.StatusOK, newestEvent{format, string(event), m.Record.Label, unused, m.Record.Groups})
}

// objectOf returns a line of CSV as a JSON object, which POST /v1/predict accepts too. It returns nil for other records,
// and if the names of the columns are not known.
func objectOf(c *record.Config, line []byte) []byte {
	if c.Format != "csv" || len(c.Columns) == 0 {
		return nil
	}
	in := csv.NewReader(bytes.NewReader(line))
	in.Comma, in.LazyQuotes = rune(c.Separator[0]), true
	values, err := in.Read()
	if err != nil || len(values) != len(c.Columns) {
		return nil
	}
	var pairs [][]byte
	for i, value := range values {
		name, _ := json.Marshal(c.Columns[i])
		text, _ := json.Marshal(value)
		switch {
		case value == "" || slices.Contains(c.Missing, value):
			text = []byte("null")
		case strings.Trim(value, "-0123456789.eE+") == "" && json.Valid([]byte(value)):
			text = []byte(value)
		}
		pairs = append(pairs, fmt.Appendf(name, ":%s", text))
	}
	return fmt.Appendf(nil, "{%s}", bytes.Join(pairs, []byte(",")))
}

// measured is the JSON response to GET /v1/measures: the quality of progressive predictions, each made before its event
// was learned. All counts of events are sums of importance weights.
type measured struct {
	Classes   []string    `json:"classes"` // class names; the positive one of two is last
	Positive  string      `json:"positive,omitempty"`
	Confusion [][]float64 `json:"confusion"` // weighted number of events by true and predicted class
	// Since is the time of the first event in Confusion, in milliseconds since 1970. Confusion starts at the learner's
	// start for two classes, and at the start of the process for more classes.
	Since *int64 `json:"since,omitempty"`
	// Reliability groups the events by the predicted probability of the positive class. Each group has the mean
	// probability and the fraction of positive events.
	Reliability []reliability       `json:"reliability,omitempty"`
	Thresholds  []measure.Threshold `json:"thresholds,omitempty"`
	// CoverageByClass has, for each class, how often the prediction sets of the class's events contained the class.
	CoverageByClass []measure.ClassCoverage `json:"coverage_by_class,omitempty"`
	// ByAge has the error (in percent for classification) and the loss by the staleness of the weights.
	ByAge []measure.StaleLoss `json:"by_staleness,omitempty"`
	// Refused has, by reason, the number of records rejected since the learner's start, and the error of the first such
	// record.
	Refused map[event.Reason]health.Refusals `json:"refused,omitempty"`
	// Samples are some of the newest rejected records. Mislabeled are events whose label is probably wrong.
	Samples    []run.Sample `json:"samples,omitempty"`
	Mislabeled []run.Sample `json:"mislabeled,omitempty"`
}

type reliability struct {
	Probability float64 `json:"probability"`
	Right       float64 `json:"positive"`
	Weight      float64 `json:"events"`
}

// measures handles GET /v1/measures.
func (t *site) measures(w http.ResponseWriter, r *http.Request) bool {
	m, status := t.models.current(w, r), t.service.status()
	if m == nil {
		return false
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
	return reply(w, http.StatusOK, answer)
}

// omit handles GET /v1/without?kind=field&name=NAME. It responds with the error of the current model on recent events
// and the forecast of the error. Each is given with and without a group, field or feature.
func (t *site) omit(w http.ResponseWriter, r *http.Request) bool {
	m := t.models.current(w, r)
	if m == nil {
		return false
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return fail(w, http.StatusNotFound, "a kernel model does not have contributions of fields", r.URL.Path)
	}
	events := t.service.Recent()
	if len(events) == 0 {
		return fail(w, http.StatusServiceUnavailable, "no labeled event has arrived since the start", r.URL.Path)
	}
	kind, name := cmp.Or(r.URL.Query().Get("kind"), "field"), r.URL.Query().Get("name")
	if kind != "group" && kind != "field" && kind != "feature" || name == "" {
		return fail(w, http.StatusBadRequest, fmt.Sprintf("kind=%.20q, name=%.100q: want a kind of group, field or feature, and its name", kind, name), "query")
	}
	if !t.models.sending.enter(w, r) {
		return false
	}
	defer t.models.sending.leave(true)
	lost, err := batch.WithoutPart(linear, events, kind, name, batch.DefaultValidateConfig().Deletions)
	switch {
	case errors.As(err, new(*batch.UnknownPartError)):
		return fail(w, http.StatusNotFound, err.Error(), "query")
	case err != nil:
		return fail(w, http.StatusInternalServerError, err.Error(), r.URL.Path)
	}
	return reply(w, http.StatusOK, lost)
}

// defaultFields is the number of fields in a response if ?limit is not given. The response has the fields in the worst
// health first.
const defaultFields = 100

// features answers GET /v1/features with the health of the fields.
func (t *site) features(w http.ResponseWriter, r *http.Request) bool {
	limit, ok := asked(w, r, "limit", "fields", 0, math.MaxInt, defaultFields)
	if !ok {
		return false
	}
	report := t.service.status().Learner.Health
	if report == nil {
		return fail(w, http.StatusServiceUnavailable, "no event has been learned yet", r.URL.Path)
	}
	return reply(w, http.StatusOK, struct {
		*health.Health
		Watched int                  `json:"watched"` // number of monitored fields
		Fields  []health.FieldHealth `json:"fields"`
	}{report, len(report.Fields), report.Fields[:min(limit, len(report.Fields))]})
}

// healthReport is the part of the web page's data about the health of the fields.
type healthReport struct {
	Alarms  int                  `json:"alarms"`
	Watched int                  `json:"watched"`
	Fields  []health.FieldHealth `json:"fields"` // the pageFields worst fields
}

// pageFields is the number of fields on the web page.
const pageFields = 12

func healthOf(s *run.Status) *healthReport {
	h := s.Learner.Health
	if h == nil || len(h.Fields) == 0 {
		return nil
	}
	return &healthReport{h.Alarms, len(h.Fields), h.Fields[:min(len(h.Fields), pageFields)]}
}

// worstAlarm returns the text of an alarm about the field in the worst health, or "" if there is no alarm.
func worstAlarm(h *health.Health) string {
	if h == nil || len(h.Fields) == 0 || len(h.Fields[0].Alarms) == 0 {
		return ""
	}
	return h.Fields[0].Alarms[0].Text
}
