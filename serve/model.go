package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"blankout"
	"blankout/client"
	"blankout/online"
	"blankout/stream"
)

// models answers with the current model and with what it predicts. It makes of
// every published model a client.Model, so a server predicts as its clients do.
type models struct {
	service Service
	maxBody int64

	mu        sync.Mutex
	published *online.Published
	current   *client.Model // of published

	answering chan struct{} // holds one for each request that is being answered
	active    atomic.Int64  // and for each that waits for it
	answered  atomic.Uint64
	failed    atomic.Uint64
	turned    atomic.Uint64 // away
}

func newModels(c Config, s Service) *models {
	return &models{service: s, maxBody: c.MaxBody, answering: make(chan struct{}, c.MaxPredicting)}
}

// requests counts those for predictions.
type requests struct{ answered, failed, turnedAway, active float64 }

func (s *models) counts() requests {
	return requests{float64(s.answered.Load()), float64(s.failed.Load()), float64(s.turned.Load()), float64(s.active.Load())}
}

// take returns the current model, nil if there is none.
func (s *models) take() *client.Model {
	if s.service.Follow != nil {
		return s.service.Follow()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.service.model(); p != s.published {
		s.published, s.current = p, nil
		if p != nil {
			record := stream.DefaultRecordConfig()
			if s.service.Record != nil {
				record = *s.service.Record
			}
			s.current = client.New(p.Model, record)
			s.current.Version, s.current.Offsets, s.current.At = p.Version, p.Offsets, p.At
		}
	}
	return s.current
}

// tag is the ETag of a model. The time is in it for the case that a learner
// begins anew in another directory, and its versions with it.
func tag(m *client.Model, form string) string {
	return fmt.Sprintf(`"%x-%x%s"`, m.Version, m.At.UnixNano(), form)
}

// get answers GET /v1/model: the model as a file, or under Accept:
// application/json its head, with ?weights=1 its weights too.
func (s *models) get(w http.ResponseWriter, r *http.Request) {
	m := s.take()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	asJSON := strings.Contains(r.Header.Get("Accept"), "application/json")
	weights := r.URL.Query().Get("weights") == "1"
	if asJSON && weights && m.Kernel != nil {
		fail(w, http.StatusBadRequest, "a kernel model has no weight of a feature: ask without weights=1, or for the file", "query")
		return
	}
	form := ""
	if asJSON {
		form = "-json"
		if weights {
			form = "-weights"
		}
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("ETag", tag(m, form))
	w.Header().Set("Blankout-Version", strconv.FormatUint(m.Version, 10))
	w.Header().Set("Last-Modified", m.At.UTC().Format(http.TimeFormat))
	if matches(r.Header.Get("If-None-Match"), tag(m, form)) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if asJSON {
		w.Header().Set("Content-Type", "application/json")
		// The status is out by now; a cut leaves JSON that does not end.
		_ = writeJSON(w, m, weights)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	// A reader notices a cut by the file's checksum.
	_ = m.Encode(w)
}

func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// place is where a model belongs in the stream: the answer to
// GET /v1/model/offsets and the beginning of the model in JSON.
type place struct {
	Version uint64           `json:"version"`
	At      time.Time        `json:"published"`
	Age     float64          `json:"age_seconds"`
	Events  uint64           `json:"events"`
	Offsets blankout.Offsets `json:"offsets"`
}

func placeOf(m *client.Model) place {
	return place{m.Version, m.At, time.Since(m.At).Seconds(), m.Events, m.Offsets}
}

func (s *models) offsets(w http.ResponseWriter, r *http.Request) {
	m := s.take()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	reply(w, http.StatusOK, placeOf(m))
}

// column is a blankout.Column in JSON.
type column struct {
	Column  uint32    `json:"column"`
	Feature string    `json:"feature"`
	Weights []float64 `json:"weights"`
	Centre  float64   `json:"centre"`
	Scale   float64   `json:"scale"`
}

// writeJSON writes the model as one JSON object, its columns one at a time.
func writeJSON(w io.Writer, m *client.Model, weights bool) error {
	where, err := json.Marshal(placeOf(m))
	if err != nil {
		return err
	}
	head, err := json.Marshal(m.Head)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `%s,"model":%s`, bytes.TrimSuffix(where, []byte("}")), head)
	if k := m.Kernel; k != nil {
		fmt.Fprintf(out, `,"kernel":%q,"support_vectors":%d`, k.Kernel.String(), k.Support())
	}
	if weights {
		name := m.Schema.Namer()
		out.WriteString(`,"weights":[`)
		separator := ""
		for c := range m.Linear.Columns() {
			out.WriteString(separator)
			data, err := json.Marshal(column{c.Number, name(c.Number), c.Weights, c.Centre, c.Scale})
			if err != nil {
				return err
			}
			out.Write(data)
			separator = ",\n"
		}
		out.WriteString("]")
		if clip := m.Clip(); clip > 0 {
			fmt.Fprintf(out, `,"clip":%v`, clip)
		}
	}
	out.WriteString("}\n")
	return out.Flush()
}

// prediction is the answer for one event: a prediction, or why there is none.
type prediction struct {
	*client.Prediction
	Error string `json:"error,omitempty"`
	Where string `json:"where,omitempty"`
}

// A request may bring this many events and ask for so much explanation of each.
const (
	maxEvents  = 1 << 16
	maxExplain = 100
)

// Who waits for predictions waits so long, in a queue of so many times
// max_predicting; how long a body may take to come while others wait.
const (
	predictWait  = time.Second
	predictQueue = 16
	bodyTime     = 10 * time.Second
)

// limited answers POST /v1/predict when it is a request's turn: what requests
// take of memory and of the processors that learn is bounded.
func (s *models) limited(w http.ResponseWriter, r *http.Request) {
	busy := func() {
		s.turned.Add(1)
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, "too many requests at once", r.URL.Path)
	}
	defer s.active.Add(-1)
	if s.active.Add(1) > int64((1+predictQueue)*cap(s.answering)) {
		busy()
		return
	}
	select {
	case s.answering <- struct{}{}: // at once
	default:
		patience := time.NewTimer(predictWait)
		defer patience.Stop()
		select {
		case s.answering <- struct{}{}:
		case <-patience.C:
			busy()
			return
		case <-r.Context().Done():
			return
		}
	}
	defer func() { <-s.answering }()
	// Who sends slowly must not keep a place for long.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	if s.predict(w, r) {
		s.answered.Add(1)
	} else {
		s.failed.Add(1)
	}
}

// predict answers POST /v1/predict: events in the stream's format, one a line,
// in JSON also one after another or in an array. Labels are ignored. It returns
// whether the request was one.
func (s *models) predict(w http.ResponseWriter, r *http.Request) (ok bool) {
	explain := 0
	if text := r.URL.Query().Get("explain"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxExplain {
			fail(w, http.StatusBadRequest, fmt.Sprintf("explain=%.20q: want a number of features from 0 to %d", text, maxExplain), "query")
			return false
		}
		explain = n
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		fail(w, status, err.Error(), "body")
		return false
	}
	events, err := split(body)
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("event %d", len(events)))
		return false
	case len(events) == 0:
		fail(w, http.StatusBadRequest, "no events", "body")
		return false
	case len(events) > maxEvents:
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("%d events: a request may bring %d", len(events), maxEvents), "body")
		return false
	}
	m := s.take()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return false
	}
	if explain > 0 {
		if err := m.Explains(); err != nil {
			fail(w, http.StatusBadRequest, err.Error(), "query")
			return false
		}
	}
	predictions := make([]prediction, len(events))
	for i, event := range events {
		p, err := m.Predict(event, explain)
		if err == nil {
			predictions[i] = prediction{Prediction: &p}
		} else {
			predictions[i] = prediction{Error: err.Error(), Where: "event " + strconv.Itoa(i)}
		}
	}
	reply(w, http.StatusOK, struct {
		Version     uint64       `json:"version"`
		Events      uint64       `json:"events"` // the model has learned from
		Predictions []prediction `json:"predictions"`
	}{m.Version, m.Events, predictions})
	return true
}

// split takes a body apart into events: JSON values, the elements of a JSON
// array, or lines of text. With an error it returns the events before it.
func split(body []byte) (events [][]byte, err error) {
	text := bytes.TrimSpace(body)
	if len(text) == 0 {
		return nil, nil
	}
	switch text[0] {
	case '[':
		var array []json.RawMessage
		if err := json.Unmarshal(text, &array); err != nil {
			return nil, err
		}
		for _, event := range array {
			events = append(events, event)
		}
	case '{':
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var event json.RawMessage
			if err := d.Decode(&event); errors.Is(err, io.EOF) {
				return events, nil
			} else if err != nil {
				return events, err
			}
			events = append(events, event)
		}
	default:
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				events = append(events, line)
			}
		}
	}
	return events, nil
}
