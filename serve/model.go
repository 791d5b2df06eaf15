package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"blankout"
	"blankout/checkpoint"
	"blankout/stream"

	"github.com/cespare/xxhash/v2"
)

// models answers with the current model and with what it predicts.
type models struct {
	service Service
	maxBody int64

	mu      sync.Mutex
	current *blankout.Model
	etag    string    // of current, "" until somebody asks
	idle    []decoder // made for current's Schema
}

// decoder is one of several that work at a time; it keeps its memory.
type decoder struct {
	stream.Decoder
	example *blankout.Example
	scores  []float64
	chances []float64
}

// take returns the current model, nil if there is none, and forgets what
// belongs to the one before. The caller holds mu.
func (s *models) take() *blankout.Model {
	if m := s.service.model(); m != s.current {
		s.current, s.etag, s.idle = m, "", nil
	}
	return s.current
}

// get answers GET /v1/model: the model as a file, or under Accept:
// application/json its head. The tag is a hash of the contents, so it holds
// across restarts.
func (s *models) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	m := s.take()
	if m == nil {
		s.mu.Unlock()
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	if s.etag == "" {
		hash := xxhash.New()
		if err := writeModel(hash, m); err != nil {
			s.mu.Unlock()
			fail(w, http.StatusInternalServerError, err.Error(), r.URL.Path)
			return
		}
		s.etag = fmt.Sprintf(`"%016x"`, hash.Sum64())
	}
	etag := s.etag
	s.mu.Unlock()

	asJSON := strings.Contains(r.Header.Get("Accept"), "application/json")
	if asJSON {
		etag = strings.TrimSuffix(etag, `"`) + `-json"`
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if asJSON {
		reply(w, http.StatusOK, m.Head)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	// The status is out by now; a reader notices a cut by the file's checksum.
	_ = writeModel(w, m)
}

func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

func writeModel(w io.Writer, m *blankout.Model) error {
	blocks, err := m.EachBlock()
	if err != nil {
		return err
	}
	return checkpoint.Write(w, checkpoint.Linear, blocks)
}

// prediction is the answer for one event. Error is set instead of the others
// for an event that cannot be used.
type prediction struct {
	ID          string             `json:"id,omitempty"`
	Class       string             `json:"class,omitempty"`
	Probability float64            `json:"probability"` // of that class
	Classes     map[string]float64 `json:"probabilities,omitempty"`
	Scores      []float64          `json:"scores,omitempty"`
	Error       string             `json:"error,omitempty"`
	Where       string             `json:"where,omitempty"`
}

// predict answers POST /v1/predict: events in the stream's format, one a line,
// in JSON also one after another or in an array. Labels are not needed.
func (s *models) predict(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		fail(w, status, err.Error(), "body")
		return
	}
	events, err := split(body)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("event %d", len(events)))
		return
	}
	if len(events) == 0 {
		fail(w, http.StatusBadRequest, "no events", "body")
		return
	}
	m, d, err := s.decoder()
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error(), r.URL.Path)
		return
	}
	predictions := make([]prediction, len(events))
	for i, event := range events {
		predictions[i] = d.predict(m, int64(i), event)
	}
	s.mu.Lock()
	if s.current == m {
		s.idle = append(s.idle, d)
	}
	s.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{"events": m.Events, "predictions": predictions})
}

// decoder returns the current model and a decoder for its Schema.
func (s *models) decoder() (*blankout.Model, decoder, error) {
	s.mu.Lock()
	m := s.take()
	if m != nil && len(s.idle) > 0 {
		d := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		s.mu.Unlock()
		return m, d, nil
	}
	s.mu.Unlock()
	if m == nil {
		return nil, decoder{}, errors.New("there is no model yet")
	}
	schema := m.Schema.Clone(-1, -1)
	schema.Names = nil // for reports, not for predictions
	d, err := s.service.Decoder(schema)
	if err != nil {
		return nil, decoder{}, fmt.Errorf("decoding events: %w", err)
	}
	return m, decoder{d, &blankout.Example{}, make([]float64, m.Outputs), make([]float64, max(2, m.Outputs))}, nil
}

func (d *decoder) predict(m *blankout.Model, i int64, event []byte) prediction {
	e := d.example
	d.Decode(stream.Record{Value: event, Offset: i}, e)
	if e.Refused != nil {
		return prediction{Error: e.Refused.Error(), Where: "event " + itoa(i)}
	}
	scores := m.Score(e, d.scores)
	chances := m.Probabilities(scores, d.chances)
	class := blankout.Predict(scores)
	p := prediction{ID: string(e.Key), Class: className(m, class), Probability: chances[class], Scores: slices.Clone(scores)}
	if m.Outputs > 1 {
		p.Classes = map[string]float64{}
		for k := range min(len(chances), len(m.Schema.Classes)) {
			p.Classes[className(m, k)] = chances[k]
		}
	}
	return p
}

// className returns a class's name, its number if it has none yet.
func className(m *blankout.Model, class int) string {
	if class < len(m.Schema.Classes) && m.Schema.Classes[class] != "" {
		return m.Schema.Classes[class]
	}
	return itoa(int64(class))
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
