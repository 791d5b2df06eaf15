package serve

// This file reports the health of fields: in metrics, on the web page, and at /v1/features.

import (
	"math"
	"net/http"

	"blankout/app/run"
	"blankout/online/health"
)

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
