package serve

// This file answers GET /v1/features, and says which fields have metrics of their own.

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"blankout/online"
)

// defaultFields is how many fields an answer has, the worst first, unless ?limit asks for
// another number.
const defaultFields = 100

// features answers GET /v1/features: the condition of the fields.
func (t *site) features(w http.ResponseWriter, r *http.Request) {
	limit := defaultFields
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			fail(w, http.StatusBadRequest, fmt.Sprintf("limit=%.20q: want a number of fields from 0 on", text), "query")
			return
		}
		limit = n
	}
	health := t.service.status().Health
	if health == nil {
		fail(w, http.StatusServiceUnavailable, "nothing has been learned yet", r.URL.Path)
		return
	}
	reply(w, http.StatusOK, struct {
		*online.Health
		Watched int                  `json:"watched"` // fields
		Fields  []online.FieldHealth `json:"fields"`
	}{health, len(health.Fields), health.Fields[:min(limit, len(health.Fields))]})
}

// healthReport is what the page shows of the condition of the fields.
type healthReport struct {
	Alarms  int                  `json:"alarms"`
	Watched int                  `json:"watched"`
	Fields  []online.FieldHealth `json:"fields"` // the pageFields worst
}

// pageFields is how many fields the page shows.
const pageFields = 12

// metricFields is how many fields have metrics of their own: the worst ones of those with
// an alarm. It bounds the number of time series.
const metricFields = 10

// worstFields calls f with the fields that have metrics, and the names that these have.
func worstFields(v *view, f func(name string, field *online.FieldHealth)) {
	h := v.status.Health
	if h == nil {
		return
	}
	seen := map[string]bool{}
	for i := range h.Fields {
		field := &h.Fields[i]
		if len(field.Alarms) == 0 || len(seen) == metricFields {
			return // the others have none either
		}
		name := strings.ToValidUTF8(field.Field, "\uFFFD")
		if len(name) > maxLabel {
			name = strings.ToValidUTF8(name[:maxLabel], "") + "…"
		}
		if !seen[name] { // a name may belong to fields of several kinds
			seen[name] = true
			f(name, field)
		}
	}
}

// maxLabel bounds the bytes of a field's name in a label.
const maxLabel = 100

// ofField reads the worst fields.
func ofField(read func(f *online.FieldHealth, emit func(value float64, labels ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		worstFields(v, func(name string, f *online.FieldHealth) {
			read(f, func(value float64, labels ...string) { emit(value, append([]string{name}, labels...)...) })
		})
	}
}

// spans emits a condition now and as it usually is.
func spans(c *online.Condition, emit func(float64, ...string)) {
	if c != nil {
		emit(c.Now, "now")
		emit(c.Usual, "usual")
	}
}
