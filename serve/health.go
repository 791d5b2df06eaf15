package serve

// This file reports the health of fields: in metrics, on the web page, and at /v1/features.

import (
	"math"
	"net/http"
	"strings"

	"blankout/app/run"
	"blankout/online/health"
)

var fieldMetrics = []metric{
	{"blankout_field_alarms", gauge, []string{"kind"}, "Current alarms about fields: missing, mean, doubted or stuck; /v1/features names the fields.",
		alarmsByKind},
	{"blankout_field_alarms_total", counter, nil, "Alarms about fields raised since the start.",
		one(func(v *view) float64 { return float64(v.status.FieldAlarms) })},
	{"blankout_field_missing_ratio", gauge, []string{"field", "span"}, "Fraction of events in which the field is null, omitted or of an unusual kind: now or usual.",
		ofField(func(f *health.FieldHealth, emit func(float64, ...string)) { spans(f.Missing, emit) })},
	{"blankout_field_doubted_ratio", gauge, []string{"field"}, "Fraction of the examined numbers of the field that are probably no measurements.",
		ofField(func(f *health.FieldHealth, emit func(float64, ...string)) {
			if f.Doubted != nil {
				emit(f.Doubted.Now)
			}
		})},
	{"blankout_field_stuck", gauge, []string{"field"}, "1 for a numeric field that has stopped changing; it counts as missing if learner.doubt is auto.",
		ofField(func(f *health.FieldHealth, emit func(float64, ...string)) {
			for _, a := range f.Alarms {
				if a.Kind == health.AlarmStuck {
					emit(1)
				}
			}
		})},
	{"blankout_field_alarm_error_ratio", gauge, []string{"field", "side"}, "Error forecast before the field went missing, and with it missing: before or after.",
		ofField(func(f *health.FieldHealth, emit func(float64, ...string)) {
			for _, a := range f.Alarms {
				if a.ErrorAfter != nil {
					emit(*a.ErrorBefore/100, "before")
					emit(*a.ErrorAfter/100, "after")
				}
			}
		})},
}

// defaultFields is the number of fields in a response if ?limit is not given. The response has the fields in the worst
// health first.
const defaultFields = 100

// features answers GET /v1/features with the health of the fields.
func (t *site) features(w http.ResponseWriter, r *http.Request) {
	limit, ok := asked(w, r, "limit", "fields", 0, math.MaxInt, defaultFields)
	if !ok {
		return
	}
	report := t.service.status().Learner.Health
	if report == nil {
		fail(w, http.StatusServiceUnavailable, "no event has been learned yet", r.URL.Path)
		return
	}
	reply(w, http.StatusOK, struct {
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

// metricFields is the number of fields with their own metrics. These are the worst of the fields that have an alarm.
// The limit bounds the number of time series.
const metricFields = 10

// worstFields calls f for each field that has metrics, with the field's name in the metrics.
func worstFields(v *view, f func(name string, field *health.FieldHealth)) {
	h := v.status.Learner.Health
	if h == nil {
		return
	}
	seen := map[string]bool{}
	for i := range h.Fields {
		field := &h.Fields[i]
		if len(field.Alarms) == 0 || len(seen) == metricFields {
			return // fields are sorted, so no later field has an alarm
		}
		name := strings.ToValidUTF8(field.Field, "\uFFFD")
		if len(name) > maxLabel {
			name = strings.ToValidUTF8(name[:maxLabel], "") + "…"
		}
		if !seen[name] { // fields of several kinds may share a name
			seen[name] = true
			f(name, field)
		}
	}
}

// alarmsByKind counts the alarms about fields by kind.
func alarmsByKind(v *view, emit func(float64, ...string)) {
	if v.status.Learner.Health == nil {
		return
	}
	on := map[string]float64{}
	for _, f := range v.status.Learner.Health.Fields {
		for _, a := range f.Alarms {
			on[a.Kind]++
		}
	}
	for _, kind := range health.FieldAlarmKinds {
		emit(on[kind], kind)
	}
}

// maxLabel is the largest number of bytes of a field name in a metric label.
const maxLabel = 100

// ofField returns a reader of metrics that calls read for each of the worst fields.
func ofField(read func(f *health.FieldHealth, emit func(value float64, labels ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		worstFields(v, func(name string, f *health.FieldHealth) {
			read(f, func(value float64, labels ...string) { emit(value, append([]string{name}, labels...)...) })
		})
	}
}

// spans emits the current value of a condition with the label "now", and its usual value with the label "usual".
func spans(c *health.Condition, emit func(float64, ...string)) {
	if c != nil {
		emit(c.Now, "now")
		emit(c.Usual, "usual")
	}
}
