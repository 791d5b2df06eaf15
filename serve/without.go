package serve

// This file answers what becomes of the error if a sensor dies.

import (
	"errors"
	"fmt"
	"net/http"

	"blankout/batch"
	"blankout/model"
)

// without answers GET /v1/without?kind=field&name=NAME: the error of the current model on
// recent events and its forecast, with and without a group, field or feature.
func (t *site) without(w http.ResponseWriter, r *http.Request) {
	m := t.service.model()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		fail(w, http.StatusNotFound, "of a kernel model it is not known what a field adds", r.URL.Path)
		return
	}
	events := t.service.Recent()
	if len(events) == 0 {
		fail(w, http.StatusServiceUnavailable, "no event with a label has come since the start", r.URL.Path)
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
	gone, err := batch.WithoutPart(linear, events, kind, name, batch.DefaultValidateConfig().Deletions)
	switch {
	case errors.As(err, new(*batch.UnknownPartError)):
		fail(w, http.StatusNotFound, err.Error(), "query")
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error(), r.URL.Path)
	default:
		reply(w, http.StatusOK, gone)
	}
}
