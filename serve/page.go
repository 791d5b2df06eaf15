package serve

// This file serves the web page and the stream of the page's data. The folder page has the page's files.

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
)

// pages holds the files of / and /page/: the page, its scripts, and uPlot, which draws the charts. The scripts send
// requests only to this server.

//go:embed page
var pages embed.FS

// policy is the content security policy of the page. The page may run the scripts of this server and request its
// endpoints, and nothing else.
const policy = "default-src 'none'; connect-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'self'"

// pageTypes holds the media types of the page's files by extension. The operating system's table is not used, because
// it differs between machines.
var pageTypes = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// servePage handles GET / and GET /page/FILE.
func servePage(w http.ResponseWriter, r *http.Request) bool {
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "page/index.html")
	data, err := pages.ReadFile(name)
	if err != nil {
		return fail(w, http.StatusNotFound, "no such file of the page", r.URL.Path)
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-cache")
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	w.Header().Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	w.Header().Set("Content-Type", cmp.Or(pageTypes[path.Ext(name)], "text/plain; charset=utf-8"))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, err = w.Write(data)
	return err == nil
}

// Point is the state of a run at one time, for the charts. Undefined values are null.
type Point struct {
	Time    int64    `json:"t"`       // time in milliseconds since 1970
	Records uint64   `json:"records"` // number of records processed since the start
	Lag     *float64 `json:"lag"`
	// Error is the recent error as a fraction, and Loss the recent log-loss in nats. For regression they are the mean
	// absolute error and the root mean squared error.
	Error   *float64 `json:"error"`
	Total   *float64 `json:"error_total"`
	Loss    *float64 `json:"loss"`
	Numbers bool     `json:"numbers,omitempty"`
	Refused uint64   `json:"refused"`
}

func pointOf(v *view) Point {
	s := v.status
	p := Point{
		Time: time.Now().UnixMilli(), Records: s.Learned + s.Unlabeled + s.Refused,
		Error: measure.Defined(s.Learner.Window.Error()), Total: measure.Defined(s.Learner.Total.Error()),
		Loss: measure.Defined(s.Learner.Window.MeanLogLoss()), Refused: s.Refused,
	}
	if n := run.Lag(v.partitions); n >= 0 {
		p.Lag = new(float64(n))
	}
	if n := s.Learner.Numbers; n != nil {
		p.Numbers = true
		p.Error, p.Total, p.Loss = measure.Defined(n.Window.MAE()), measure.Defined(n.Total.MAE()), measure.Defined(n.Window.RMSE())
	}
	return p
}

// Report is the content of a server-sent event "status". It has all data of the page about the current state.
type Report struct {
	Point
	Name            string                  `json:"name,omitempty"` // name of the learner, see Config.Name
	Version         string                  `json:"version"`
	NotReady        string                  `json:"not_ready"`
	Ended           bool                    `json:"ended,omitempty"` // true if no more events will be sent
	Reporting       bool                    `json:"reporting"`       // true if GET /v1/reports exists
	Group           bool                    `json:"group"`           // true if GET /v1/group exists
	CanOmit         bool                    `json:"without"`         // true if GET /v1/without exists
	Started         *int64                  `json:"started"`
	Learned         uint64                  `json:"learned"`
	Unlabeled       uint64                  `json:"unlabeled"`
	Events          uint64                  `json:"events"` // number of learned events
	Partitions      []partition             `json:"partitions"`
	TotalLoss       *float64                `json:"loss_total"`
	AUC             *float64                `json:"auc"`
	Baselines       health.BaselineReport   `json:"baselines"` // baseline errors, in percent for classification
	Features        int                     `json:"features"`
	Classes         []class                 `json:"classes"`
	Level           string                  `json:"noise_level"`
	Experts         []model.Expert          `json:"experts,omitempty"`
	Sets            []measure.Coverage      `json:"sets,omitempty"`
	Forecast        *online.Forecast        `json:"forecast,omitempty"`
	LevelsByMissing []string                `json:"noise_levels_by_missing,omitempty"`
	Policies        []model.PolicyRange     `json:"missing_policies,omitempty"`
	Drift           health.Drift            `json:"drift"`
	Warnings        []health.Warning        `json:"warnings,omitempty"`
	Health          *healthReport           `json:"health,omitempty"`
	RefusedBy       map[event.Reason]uint64 `json:"refused_by"`
	Letters         map[event.Reason]uint64 `json:"dead_letters"`
	Failures        uint64                  `json:"dead_letter_failures"`
	Checkpoint      saved                   `json:"checkpoint"`
	Model           *modelReport            `json:"model"`
	Age             *float64                `json:"newest_age_seconds"`
	Predicting      *predicting             `json:"predictions,omitempty"`
	Places          []placeReport           `json:"snapshots,omitempty"`
	Labels          *run.LabelCounts        `json:"labels,omitempty"`   // counts of delayed labels
	Learners        []LearnerReport         `json:"learners,omitempty"` // learners of the stream, if there are several
}

// predicting describes the topic of predictions and its state.
type predicting struct {
	Scored    uint64   `json:"scored"`
	Refused   uint64   `json:"refused"`
	Lag       int64    `json:"lag"`
	Version   uint64   `json:"version"`
	Staleness *float64 `json:"staleness_seconds"`
	Age       *float64 `json:"newest_age_seconds"`
	LastError string   `json:"trouble,omitempty"`
}

// placeReport describes a destination of snapshots.
type placeReport struct {
	Place     string `json:"place"`
	Version   uint64 `json:"version"`
	At        *int64 `json:"published"`
	Published uint64 `json:"snapshots"`
	LastError string `json:"trouble,omitempty"`
}

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
	HighWater int64  `json:"high_water"`
	Records   uint64 `json:"records"`
	Failing   string `json:"failing,omitempty"`
}

type class struct {
	Name   string `json:"name"`
	Events uint64 `json:"events"`
}

type saved struct {
	Name   string  `json:"name"`
	Bytes  int64   `json:"bytes"`
	At     *int64  `json:"at"`
	Took   float64 `json:"seconds"`
	Pause  float64 `json:"pause_seconds"`
	Saved  uint64  `json:"saved"`
	Failed uint64  `json:"failed"`
}

type modelReport struct {
	Version uint64 `json:"version"`
	At      int64  `json:"published"`
	Events  uint64 `json:"events"`
	Loss    string `json:"loss"`
	Noise   string `json:"noise"`
	Trained string `json:"trained"`
	Kernel  bool   `json:"kernel,omitempty"`
}

func reportOf(v *view) Report {
	s, m := v.status, v.status.Learner
	r := Report{
		Point: pointOf(v), Version: v.version, NotReady: v.notReady, Ended: s.NotReady == run.Ended, Started: milli(s.Started), Learned: s.Learned, Unlabeled: s.Unlabeled,
		Events: m.Events, Baselines: m.Baselines.Report(m.Numbers != nil), TotalLoss: measure.Defined(m.Total.MeanLogLoss()), Features: m.Features, Level: m.Level, Drift: m.Drift, Warnings: s.Warnings,
		Labels: s.Labels, Learners: LearnerReports(s), RefusedBy: s.RefusedBy, Letters: s.DeadLetters, Failures: s.DeadLetterFailures,
		Checkpoint: saved{s.Save.Name, s.Save.Bytes, milli(s.Save.At), s.Save.Took.Seconds(), s.Save.Pause.Seconds(), s.Save.Saved, s.Save.Failed},
	}
	if len(m.RefusedBy) > 0 { // report the counts since the learner's start, not only those of this run
		r.RefusedBy = map[event.Reason]uint64{}
		for reason, n := range m.RefusedBy {
			r.RefusedBy[reason] = n.Count
		}
	}
	r.Health = healthOf(s)
	if m.Numbers != nil {
		r.TotalLoss = measure.Defined(m.Numbers.Total.RMSE())
	}
	if m.Binary != nil {
		r.AUC = measure.Defined(m.Binary.AUC())
	}
	for _, p := range v.partitions {
		out := partition{Topic: p.Topic, Partition: p.Partition, Next: p.Next, HighWater: p.HighWater, Records: p.Records}
		if v.source != nil {
			for _, q := range v.source.Partitions {
				if q.Topic == p.Topic && q.Partition == p.Partition {
					out.Failing = q.Failing
				}
			}
		}
		r.Partitions = append(r.Partitions, out)
	}
	r.Experts, r.Sets = m.Experts, m.Sets
	r.LevelsByMissing, r.Forecast = m.LevelsByMissing, m.Forecasts()
	if s := v.predicting; s != nil {
		r.Predicting = &predicting{Scored: s.Scored, Refused: s.Refused, Version: s.Version, LastError: s.LastError}
		for _, p := range s.Partitions {
			r.Predicting.Lag += p.Lag
		}
		if !s.At.IsZero() {
			r.Predicting.Staleness = measure.Defined(s.Age.Seconds())
		}
		if s.Scored > 0 {
			r.Predicting.Age = measure.Defined(s.NewestAge.Seconds())
		}
	}
	for _, p := range v.places {
		r.Places = append(r.Places, placeReport{p.name, p.version, milli(p.when), p.published, p.lastError})
	}
	if p := v.model; p != nil {
		at := cmp.Or(milli(p.At), new(int64))
		l, linear := p.Model.(*model.Linear)
		if linear {
			r.Policies = l.Missing.Ranges()
		}
		r.Model = &modelReport{p.Version, *at, p.Events, p.Loss, p.Noise, p.Trained, !linear}
		for i, name := range p.Schema.Classes {
			if i < len(m.Classes) && i < 20 {
				r.Classes = append(r.Classes, class{name, m.Classes[i]})
			}
		}
	}
	if !s.NewestTime.IsZero() {
		r.Age = measure.Defined(s.NewestAge.Seconds())
	}
	return r
}

func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// maxListeners is the largest number of concurrent clients of GET /v1/events. They also use at most half of all
// connections.
const maxListeners = 64

// events handles GET /v1/events. It sends an event "history" with the run so far and an event "marks" with the run's
// marks. Then it sends an event "status" every second, and "marks" again whenever there are new marks.
func (s *site) events(w http.ResponseWriter, r *http.Request) bool {
	select {
	case s.listeners <- struct{}{}:
		defer func() { <-s.listeners }()
	default:
		w.Header().Set("Retry-After", "10")
		return fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d clients are already connected", cap(s.listeners)), r.URL.Path)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // so that proxies do not buffer the stream
	out := http.NewResponseController(w)
	// The timeouts of short requests would end this long request too early.
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		return fail(w, http.StatusInternalServerError, err.Error(), r.URL.Path)
	}
	send := func(kind string, data any) error {
		text, err := json.Marshal(data)
		if err != nil {
			return err
		}
		if err := out.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text); err != nil {
			return err
		}
		return out.Flush()
	}
	points, marks := s.history.copy()
	if send("history", points) != nil || send("marks", marks) != nil {
		return false
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	shown := len(marks)
	for {
		now := reportOf(s.collector.view())
		now.CanOmit = s.service.Recent != nil && s.service.Model != nil
		now.Name, now.Reporting, now.Group = s.config.Name, s.service.Reports != nil, call(s.service.Group) != nil
		if send("status", now) != nil {
			return false
		}
		if _, marks := s.history.copy(); len(marks) != shown {
			if shown = len(marks); send("marks", marks) != nil {
				return false
			}
		}
		select {
		case <-r.Context().Done():
			return false
		case <-s.closing:
			return false
		case <-tick.C:
		}
	}
}
