package serve

// This file implements POST /v1/learn, which accepts events to learn.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/stream/inbox"
)

// Acceptor accepts events and stores them in a log or sends them to a topic.
type Acceptor interface {
	// Accept accepts the events of a request, or labels of events, and returns when they are stored safely. A key
	// identifies a repeated request; "" means no key.
	Accept(ctx context.Context, key string, events [][]byte, labels bool) (inbox.Accepted, error)
}

const maxKey = 1024 // largest length of an Idempotency-Key in bytes

// learned is the JSON response to POST /v1/learn.
type learned struct {
	inbox.Accepted
	// Predictions are the predictions for the events before the events were accepted, if the request asks for
	// predictions.
	Predictions json.RawMessage `json:"predictions,omitempty"`
}

// learn handles POST /v1/learn: events in the format of the stream, one per line. JSON events may also be concatenated
// or in an array.
func (t *site) learn(w http.ResponseWriter, r *http.Request) (ok bool) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return fail(w, http.StatusBadRequest, fmt.Sprintf("%d bytes, the most is %d", len(key), maxKey), "Idempotency-Key")
	}
	predict, ok1 := switched(w, r, "predict")
	labels, ok2 := switched(w, r, "labels")
	if !ok1 || !ok2 {
		return false
	}
	acceptor := t.service.Learn()
	if acceptor == nil {
		w.Header().Set("Retry-After", "1")
		return fail(w, http.StatusServiceUnavailable, "the learner is starting", r.URL.Path)
	}
	body, ok := t.config.body(w, r)
	if !ok {
		return false
	}
	var m *served.Model
	most, each := maxEvents, 0
	if predict = predict && !labels; predict {
		if m = t.service.model(); m != nil {
			most, each = mostEvents(m, 0)
		}
	}
	events, err := split(body, most)
	switch {
	case errors.Is(err, errTooMany):
		return failTooMany(w, most, each)
	case err != nil:
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			err = fmt.Errorf("byte %d of the request: %w", syntax.Offset, err)
		}
		return fail(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("event %d", len(events)))
	case len(events) == 0:
		return fail(w, http.StatusBadRequest, "no events", "body")
	}
	for i, e := range events {
		events[i] = oneLine(e)
	}
	var out learned
	if predict {
		ctx, cancel := context.WithTimeout(r.Context(), t.config.AnswerTimeout)
		defer cancel()
		var list bytes.Buffer
		asked := events
		if m != nil && m.Record.Format == "csv" {
			if asked, err = m.Record.Rows(events); err != nil {
				return fail(w, http.StatusBadRequest, err.Error(), "body")
			}
		}
		if err := writeAnswers(ctx, &list, m, asked, 0, asker{Config: t.config}, false); err != nil {
			return failLate(w, r, t.config.AnswerTimeout) // nothing is stored
		}
		out.Predictions = list.Bytes()
	}
	if out.Accepted, err = acceptor.Accept(r.Context(), key, events, labels); err != nil {
		return failLearn(w, r, err)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(newTaker(w, t.config.ClientTimeout, 0)).Encode(out) // an error means that the client has gone
	return true
}

// oneLine returns an event without the line breaks that JSON allows between values.
func oneLine(e []byte) []byte {
	if bytes.IndexByte(e, '\n') < 0 || e[0] != '{' {
		return e
	}
	return bytes.Map(func(r rune) rune { // no string of JSON contains a line break
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, e)
}

// failLearn responds with the reason why events were not accepted. It returns false.
func failLearn(w http.ResponseWriter, r *http.Request, err error) bool {
	var refused *inbox.RefusedError
	var reused *inbox.ReusedError
	status, where := http.StatusInternalServerError, r.URL.Path
	switch {
	case errors.As(err, &refused):
		return fail(w, http.StatusBadRequest, string(refused.Reason)+": "+refused.Detail, fmt.Sprintf("event %d", refused.Event))
	case errors.As(err, &reused):
		if status, where = http.StatusUnprocessableEntity, fmt.Sprintf("event %d", reused.Event); reused.Event < 0 {
			where = "Idempotency-Key"
		}
	case errors.Is(err, inbox.ErrBehind):
		w.Header().Set("Retry-After", "1")
		status = http.StatusTooManyRequests
	case errors.Is(err, inbox.ErrDiskFull):
		status = http.StatusInsufficientStorage
	case errors.Is(err, inbox.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	case errors.Is(err, errors.ErrUnsupported):
		return fail(w, http.StatusBadRequest, "separate labels need labels.topics", "labels")
	}
	return fail(w, status, err.Error(), where)
}

// switched returns in set whether a query parameter is 1. If the parameter is neither absent nor 1 nor 0, switched
// sends an error response and ok is false.
func switched(w http.ResponseWriter, r *http.Request, name string) (set, ok bool) {
	switch text := r.URL.Query().Get(name); text {
	case "", "0", "false":
		return false, true
	case "1", "true":
		return true, true
	default:
		return false, fail(w, http.StatusBadRequest, fmt.Sprintf("%s=%.20q: want 1 or 0", name, text), "query")
	}
}

// checkLearn rejects settings under which every client that can reach the server could send events to learn.
func (c Config) checkLearn(host, token string) error {
	if !c.Learn || isLoopback(host) || token != "" || c.ClientCAFile != "" {
		return nil
	}
	return event.KeyErrorf("learn", "learn: other machines can reach %q and send events: set a token (variable %s or token_file) or client_ca_file, or listen on 127.0.0.1", c.Address, c.TokenEnv)
}
