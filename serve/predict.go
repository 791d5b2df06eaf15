package serve

// This file implements POST /v1/predict, and functions that other prediction requests share.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/stream/record"
)

// answer holds the prediction for one event, or the reason why it cannot be predicted.
type answer struct {
	*served.Prediction
	Error string `json:"error,omitempty"`
	Where string `json:"where,omitempty"`
}

// A request may have up to maxEvents events. It may request an explanation by up to maxExplain of the most important
// features of each event. The response may have up to maxNumbers numbers in total: one for each class and for each
// explained feature of an event.
const (
	maxEvents  = 1 << 16
	maxExplain = 100
	maxNumbers = 1 << 20
)

// limited returns a handler of prediction requests that handles only a limited number of requests at a time. This
// limits the memory of the requests and the processor time that they take from learning.
func (s *models) limited(answer func(http.ResponseWriter, *http.Request) (ok bool)) func(http.ResponseWriter, *http.Request) (ok bool) {
	return func(w http.ResponseWriter, r *http.Request) (ok bool) {
		if !s.predicting.enter(w, r) {
			return false
		}
		defer func() { s.predicting.leave(ok) }()
		// A client that sends its body slowly must not occupy a place for long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.ClientTimeout))
		return answer(w, r)
	}
}

// asCSV returns the model for a request that says that its body is CSV with a header. A model whose events are JSON, or
// of a format that its file does not name, then reads the columns of that header.
func asCSV(m *served.Model, r *http.Request, body []byte) (*served.Model, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	c := m.Record
	if kind != "text/csv" || c.Format != "" && c.Format != "json" {
		return m, nil
	}
	c.Format, c.Unlabeled = "csv", true
	lines, err := record.NewScanner("the body", bytes.NewReader(body), c)
	if err != nil {
		return nil, err
	}
	known := func(name string) bool {
		return name != "" && slices.ContainsFunc(m.Schema.Fields, func(f event.Field) bool { return f.Name == name })
	}
	if !slices.ContainsFunc(lines.Columns(), known) {
		return nil, fmt.Errorf("the header names no field of the model: %.200q", lines.Columns())
	}
	return m.Reading(lines.Config()), nil
}

// body reads the body of a request, which must be uncompressed. If ok is false, it has sent an error response.
func (c Config) body(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return nil, fail(w, http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding %.20q is not supported: send events uncompressed", coding), "Content-Encoding")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, c.MaxBody))
	if err == nil {
		return body, true
	}
	status := http.StatusBadRequest
	if errors.As(err, new(*http.MaxBytesError)) {
		status = http.StatusRequestEntityTooLarge
	}
	return nil, fail(w, status, err.Error(), "body")
}

// mostEvents returns the largest number of events in a request that asks for explanations by the given number of
// features. The result each is the number of numbers in the response to one event.
func mostEvents(m *served.Model, explain int) (most, each int) {
	each = max(m.Outputs, len(m.Schema.Classes)) + explain
	return min(maxEvents, max(1, maxNumbers/max(1, each))), each
}

func failTooMany(w http.ResponseWriter, most, each int) bool {
	return fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("too many events: a request may contain %d (%d if each event has at most %d numbers; here %d, its classes and explained features)",
		most, maxEvents, maxNumbers/maxEvents, each), "body")
}

// predict handles POST /v1/predict: events in the format of the stream, one per line. JSON events may also be
// concatenated or in an array. Labels are ignored. It reports whether it has responded with predictions.
func (s *models) predict(w http.ResponseWriter, r *http.Request) (ok bool) {
	explain, ok := asked(w, r, "explain", "features", 0, maxExplain, 0)
	if !ok {
		return false
	}
	m := s.chosen(w, r)
	if m == nil {
		return false
	}
	body, ok := s.config.body(w, r)
	if !ok {
		return false
	}
	if explain > 0 {
		if err := m.Explains(); err != nil {
			return fail(w, http.StatusBadRequest, err.Error(), "query")
		}
	}
	m, err := asCSV(m, r, body)
	if err != nil {
		return fail(w, http.StatusBadRequest, err.Error(), "body")
	}
	most, each := mostEvents(m, explain)
	events, err := split(body, most)
	if err == nil && m.Record.Format == "csv" {
		events, err = m.Record.Rows(events)
	}
	switch {
	case errors.Is(err, errTooMany):
		return failTooMany(w, most, each)
	case err != nil:
		return fail(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("event %d", len(events)))
	case len(events) == 0:
		return fail(w, http.StatusBadRequest, "no events", "body")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.AnswerTimeout)
	defer cancel()
	out := newTaker(w, s.config.ClientTimeout, 0)
	w.Header().Set("Content-Type", "application/json")
	if err := writePredictions(ctx, out, m, events, explain, asker{s.config, []byte(r.URL.Query().Get("key"))}); err != nil {
		if out.began {
			panic(http.ErrAbortHandler) // aborting shows the client that the response is incomplete
		}
		if none := (*noneError)(nil); errors.As(err, &none) {
			return fail(w, http.StatusBadRequest, none.Error(), "event 0")
		}
		return failLate(w, r, s.config.AnswerTimeout)
	}
	return true
}

func failLate(w http.ResponseWriter, r *http.Request, timeout time.Duration) bool {
	return fail(w, http.StatusServiceUnavailable, fmt.Sprintf("no answer within %v: send fewer events at a time", timeout), r.URL.Path)
}

// asker predicts the events of a request.
type asker struct {
	Config
	key []byte // key of the events' records, whose shard has more weight in the answer; empty for none
}

// predict predicts an event. It returns an error if the model has seen none of the event's features, unless
// Config.Unseen is "answer".
func (c asker) predict(m *served.Model, event []byte, explain int) (served.Prediction, error) {
	p, err := m.PredictRecord(context.Background(), record.Record{Key: c.key, Value: event}, explain)
	if err == nil && p.OnlyUnseen && c.Unseen == unseenRefuse {
		err = m.UnseenError(p.Unseen)
	}
	return p, err
}

// noneError reports that no event of a request can be predicted, with the reason for the first.
type noneError struct {
	first  error
	events int
}

func (e *noneError) Error() string {
	if e.events == 1 {
		return e.first.Error()
	}
	return fmt.Sprintf("%v; no other of the %d events can be predicted", e.first, e.events)
}

// anyPredicted reports whether an event can be predicted, or ctx has ended.
func (c asker) anyPredicted(ctx context.Context, m *served.Model, events [][]byte) bool {
	return slices.ContainsFunc(events, func(event []byte) bool {
		_, err := c.predict(m, event, 0)
		return err == nil || ctx.Err() != nil
	})
}

// writePredictions writes the response, event by event, until ctx ends. It returns a noneError, and writes nothing, if no
// event can be predicted.
func writePredictions(ctx context.Context, w io.Writer, m *served.Model, events [][]byte, explain int, c asker) error {
	// Most requests have one event. A buffer of 64 KB for each would be most of the memory that the program allocates.
	out := bufio.NewWriterSize(w, min(1<<16, len(events)<<10))
	fmt.Fprintf(out, `{"version":%d,"events":%d,"predictions":`, m.Version, m.Events)
	if err := writeAnswers(ctx, out, m, events, explain, c, true); err != nil {
		return err
	}
	out.WriteString("}\n")
	return out.Flush()
}

// writeAnswers writes the list of predictions, event by event, until ctx ends. A nil model gives reasons instead. If some
// is true and no event can be predicted, it writes nothing and returns a noneError.
func writeAnswers(ctx context.Context, out io.Writer, m *served.Model, events [][]byte, explain int, c asker, some bool) error {
	before := "["
	for i, event := range events {
		if err := ctx.Err(); err != nil {
			return err
		}
		var data []byte
		p, err := served.Prediction{}, errNoModel
		if m != nil {
			p, err = c.predict(m, event, explain)
		}
		if err == nil {
			data, err = json.Marshal(answer{Prediction: &p})
		}
		if err != nil && i == 0 && some && !c.anyPredicted(ctx, m, events[1:]) {
			return &noneError{err, len(events)}
		}
		if err != nil {
			if data, err = json.Marshal(answer{Error: err.Error(), Where: "event " + strconv.Itoa(i)}); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(out, before); err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
		before = ",\n"
	}
	_, err := io.WriteString(out, "]")
	return err
}

var errNoModel = errors.New("no model has been published yet")

// errTooMany reports that a body has more events than allowed.
var errTooMany = errors.New("too many events")

// split splits a body into events: JSON values, the elements of a JSON array, or lines of text. The events share the
// memory of body. If split returns an error, it also returns the events before the error. It returns errTooMany as soon
// as there are more than most events.
func split(body []byte, most int) (events [][]byte, err error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] != '[' && text[0] != '{' {
		for line := range bytes.Lines(body) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			line = bytes.TrimRight(line, "\r\n") // tabs are kept, because they may separate values
			if len(events) == most {
				return events, errTooMany
			}
			events = append(events, line)
		}
		return events, nil
	}
	d := json.NewDecoder(bytes.NewReader(finite(text)))
	array := text[0] == '['
	if array {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	var event json.RawMessage // one buffer for all values, of which only the end position matters
	for !array || d.More() {
		if err := d.Decode(&event); err == io.EOF && !array {
			return events, nil
		} else if err != nil {
			return events, cut(err)
		}
		if len(events) == most {
			return events, errTooMany
		}
		end := d.InputOffset()
		events = append(events, text[end-int64(len(event)):end:end])
	}
	if _, err := d.Token(); err != nil {
		return events, cut(err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return events, fmt.Errorf("%.20q after the array", rest)
	}
	return events, nil
}

// finite returns a JSON text in which a number of the same length replaces each NaN or infinity outside of strings.
// Python's json module writes these words, and the decoder of events reads them.
func finite(text []byte) []byte {
	var out []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case quoted || c|0x20 != 'n' && c|0x20 != 'i':
		default:
			end := i
			for end < len(text) && text[end]|0x20-'a' < 26 {
				end++
			}
			if word := strings.ToLower(string(text[i:min(end, i+9)])); word == "nan" || word == "inf" || word == "infinity" {
				if out == nil {
					out = bytes.Clone(text)
				}
				copy(out[i:end], "11111111")
			}
			i = end - 1
		}
	}
	if out == nil {
		return text
	}
	return out
}

// cut returns err. If the JSON text ended too early, it returns a clearer error.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
