package serve

// This file handles requests about several learners of one stream, including requests to promote one of them.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/measure"
	"blankout/online"
)

// LearnerReport compares one of several learners of a stream with the leader. GET /v1/learners uses the same
// JSON names.
type LearnerReport struct {
	Name    string `json:"name"`
	Leader  bool   `json:"leader"`
	Promote string `json:"promote"` // "auto" or "manual"
	Begun   uint64 `json:"begun"`   // number of records before the first record that it learned
	Events  uint64 `json:"events"`  // number of events learned
	// Error is in percent, for classification. MAE and RMSE are for regression.
	Error         *float64 `json:"error,omitempty"`
	LogLoss       *float64 `json:"log_loss,omitempty"`
	RecentError   *float64 `json:"recent_error,omitempty"`
	RecentLogLoss *float64 `json:"recent_log_loss,omitempty"`
	MAE           *float64 `json:"mae,omitempty"`
	RMSE          *float64 `json:"rmse,omitempty"`
	RecentMAE     *float64 `json:"recent_mae,omitempty"`
	RecentRMSE    *float64 `json:"recent_rmse,omitempty"`
	// Compared is the loss of the learner minus the loss of the leader; nil for the leader itself.
	Compared *Comparison `json:"compared,omitempty"`
}

// Comparison is the JSON form of a measure.Paired.
type Comparison struct {
	measure.DifferenceReport                          // all blocks since record From
	From                     uint64                   `json:"from"`
	WindowRecords            uint64                   `json:"window_records"`
	Window                   measure.DifferenceReport `json:"window"`          // latest complete window
	Previous                 measure.DifferenceReport `json:"previous_window"` // window before the latest complete one
}

// LearnerReports returns the reports about several learners in a Status, or nil if there is only one learner.
func LearnerReports(s *run.Status) (out []LearnerReport) {
	for i := range s.Challengers {
		x := &s.Challengers[i]
		out = append(out, NewLearnerReport(&x.Standing, x.Leader, x.Learner.Events, new(x.Learner.Summary())))
	}
	return out
}

// NewLearnerReport returns the report about a learner with the given number of events and summary.
func NewLearnerReport(x *run.Standing, leader bool, events uint64, s *online.Summary) LearnerReport {
	r := LearnerReport{
		Name: x.Name, Leader: leader, Promote: x.Promote, Begun: x.Begun, Events: events,
		Error: s.Error, LogLoss: s.LogLoss, RecentError: s.RecentError, RecentLogLoss: s.RecentLogLoss,
	}
	if n := s.NumbersSummary; n != nil {
		r.MAE, r.RMSE, r.RecentMAE, r.RecentRMSE = n.MAE, n.RMSE, n.RecentMAE, n.RecentRMSE
	}
	if p := &x.Paired; !leader {
		r.Compared = &Comparison{p.Total.Report(), p.From, x.Window, p.Window.Report(), p.Before.Report()}
	}
	return r
}

// learners handles GET /v1/learners.
func (t *site) learners(w http.ResponseWriter, r *http.Request) bool {
	list := LearnerReports(t.service.status())
	if list == nil {
		return fail(w, http.StatusNotFound, "there is only one learner: add others with [[challenger]]", r.URL.Path)
	}
	return reply(w, http.StatusOK, map[string]any{"learners": list})
}

// promoteTimeout limits the wait until a checkpoint contains the promotion.
const promoteTimeout = time.Minute

// promote handles POST /v1/promote with the body {"name": NAME}.
func (t *site) promote(w http.ResponseWriter, r *http.Request) bool {
	body, ok := t.config.body(w, r)
	if !ok {
		return false
	}
	var asked struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(body, &asked); err != nil || asked.Name == "" {
		return fail(w, http.StatusBadRequest, `want {"name": NAME} of the learner to promote`, "body")
	}
	// A promotion that was requested is completed even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), promoteTimeout)
	defer cancel()
	err := t.service.Promote(ctx, asked.Name)
	switch {
	case err == nil:
		return reply(w, http.StatusOK, map[string]string{"leader": asked.Name})
	case errors.As(err, new(*run.UnknownChallengerError)):
		return fail(w, http.StatusNotFound, err.Error(), "name")
	case ctx.Err() != nil:
		return fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%s is not yet the leader in a checkpoint: see GET /v1/learners", asked.Name), r.URL.Path)
	}
	return fail(w, http.StatusConflict, err.Error(), r.URL.Path)
}

// chosen returns the model of the learner that the query names. If the query names no learner, it returns the current
// model. If it returns nil, it has sent an error response.
func (s *models) chosen(w http.ResponseWriter, r *http.Request) *served.Model {
	name := r.URL.Query().Get("name")
	if name == "" {
		return s.current(w, r)
	}
	if s.learner == nil || s.take() != nil && s.learner(name) == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("no learner %.40q: GET /v1/learners lists the names", name), "name")
		return nil
	}
	m := s.learner(name)
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "no model has been published yet", r.URL.Path)
	}
	return m
}
