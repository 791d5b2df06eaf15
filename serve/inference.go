package serve

// This file implements the Open Inference Protocol, version 2, over REST, as used by KServe, Triton and MLServer:
// https://github.com/kserve/open-inference-protocol. It returns the same predictions as POST /v1/predict.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/served"
)

// inference handles the paths under /v2.
type inference struct {
	*models
	program string // version of the program
}

func (s inference) routes(mux *router) {
	mux.HandleFunc("GET /v2", s.server)
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, map[string]bool{"live": true}) })
	mux.HandleFunc("GET /v2/health/ready", s.ready)
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		mux.HandleFunc("GET "+path, s.metadata)
		mux.HandleFunc("GET "+path+"/ready", s.ready)
		mux.HandleFunc("POST "+path+"/infer", s.limited(s.infer))
	}
}

// name returns the name of the model in request paths.
func (s inference) name() string { return cmp.Or(s.config.Name, "blankout") }

// server answers GET /v2 with metadata about the server.
func (s inference) server(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, map[string]any{"name": "blankout", "version": s.program, "extensions": []string{}})
}

// named returns the model that the request path names. If it returns nil, it has sent an error response.
func (s inference) named(w http.ResponseWriter, r *http.Request) *served.Model {
	m := s.current(w, r)
	if m == nil || !s.means(w, r, m) {
		return nil
	}
	return m
}

// means reports whether the request path names m. If not, it sends an error response.
func (s inference) means(w http.ResponseWriter, r *http.Request, m *served.Model) bool {
	name, version := r.PathValue("model"), r.PathValue("version")
	switch {
	case name != "" && name != s.name():
		fail(w, http.StatusNotFound, fmt.Sprintf("no model %.100q: the model is %q", name, s.name()), r.URL.Path)
	case version != "" && version != versionOf(m):
		fail(w, http.StatusNotFound, fmt.Sprintf("no version %.30q: the current version is %s", version, versionOf(m)), r.URL.Path)
	default:
		return true
	}
	return false
}

func versionOf(m *served.Model) string { return strconv.FormatUint(m.Version, 10) }

// ready responds with status 200 if the server, or the model in the path, can predict.
func (s inference) ready(w http.ResponseWriter, r *http.Request) {
	if s.named(w, r) != nil {
		reply(w, http.StatusOK, map[string]bool{"ready": true})
	}
}

// tensor is an input or an output of a model. In metadata a tensor has no data, and a length of -1 means that the
// length depends on the request.
type tensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
	Data     any    `json:"data,omitempty"`
}

// wholeEvents is the name of the input that holds events as text, in the format of the stream.
const wholeEvents = "events"

// metadata responds with the inputs and outputs of a model.
func (s inference) metadata(w http.ResponseWriter, r *http.Request) {
	m := s.named(w, r)
	if m == nil {
		return
	}
	var outputs []tensor
	for _, o := range outputsOf(m, nil) {
		o.Shape[0], o.Data = -1, nil
		outputs = append(outputs, o)
	}
	reply(w, http.StatusOK, struct {
		Name       string         `json:"name"`
		Versions   []string       `json:"versions"`
		Platform   string         `json:"platform"`
		Inputs     []tensor       `json:"inputs"`
		Outputs    []tensor       `json:"outputs"`
		Parameters map[string]any `json:"parameters"`
	}{s.name(), []string{versionOf(m)}, "blankout", []tensor{{Name: wholeEvents, Datatype: "BYTES", Shape: []int{-1}}}, outputs,
		map[string]any{"format": m.Record.FormatName(), "classes": slices.Concat([]string{}, m.Schema.Classes), "loss": m.Loss, "noise": m.Noise, "events": m.Events}})
}

// nulls returns a JSON text with null in place of each NaN or infinity, which means the same.
func nulls(text []byte) []byte {
	plain := finite(text)
	if &plain[0] == &text[0] {
		return text
	}
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] == plain[i] {
			out = append(out, text[i])
			continue
		}
		for i+1 < len(text) && text[i+1] != plain[i+1] {
			i++
		}
		out = append(bytes.TrimRight(out, "-+"), "null"...)
	}
	return out
}

// inferRequest is the JSON body of an inference request.
type inferRequest struct {
	ID     string `json:"id"`
	Inputs []struct {
		Name       string          `json:"name"`
		Datatype   string          `json:"datatype"`
		Shape      []int           `json:"shape"`
		Data       json.RawMessage `json:"data"`
		Parameters map[string]any  `json:"parameters"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	} `json:"outputs"`
}

// infer answers a request with one prediction for each event, in order. A single invalid event rejects the whole
// request.
func (s inference) infer(w http.ResponseWriter, r *http.Request) (ok bool) {
	m, body, ok := s.question(w, r)
	if !ok || !s.means(w, r, m) {
		return false
	}
	var q inferRequest
	if err := json.Unmarshal(nulls(body), &q); err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "body")
		return false
	}
	most, each := mostEvents(m, 0)
	events, err := q.events(m, most)
	switch {
	case errors.Is(err, errTooMany):
		failTooMany(w, most, each)
		return false
	case err != nil:
		fail(w, http.StatusBadRequest, err.Error(), "inputs")
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.config.AnswerTimeout)
	defer cancel()
	predictions := make([]served.Prediction, len(events))
	for i, event := range events {
		if ctx.Err() != nil {
			failLate(w, r, s.config.AnswerTimeout)
			return false
		}
		if predictions[i], err = s.config.predict(m, event, 0); err == nil && slices.ContainsFunc(predictions[i].Scores, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			err = errors.New("its score is not finite")
		}
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error(), "event "+strconv.Itoa(i))
			return false
		}
	}
	outputs, err := q.choose(outputsOf(m, predictions))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "outputs")
		return false
	}
	data, err := json.Marshal(struct {
		ID      string   `json:"id,omitempty"`
		Name    string   `json:"model_name"`
		Version string   `json:"model_version"`
		Outputs []tensor `json:"outputs"`
	}{q.ID, s.name(), versionOf(m), outputs})
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), r.URL.Path)
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := newTaker(w, s.config.ClientTimeout, 0).Write(append(data, '\n')); err != nil {
		panic(http.ErrAbortHandler) // aborting shows the client that the response is incomplete
	}
	return true
}

// events returns the events of a request, or errTooMany if there are more than most. The request has one text input
// named "events", or one input for each field. In the second form, the method events builds a JSON event from the
// inputs.
func (q *inferRequest) events(m *served.Model, most int) ([][]byte, error) {
	if len(q.Inputs) == 0 {
		return nil, fmt.Errorf("no inputs: want one named %q, or one for each field", wholeEvents)
	}
	n, whole := 0, len(q.Inputs) == 1 && q.Inputs[0].Name == wholeEvents
	if !whole && !m.TakesJSON() {
		return nil, fmt.Errorf("the events of this model are %s: want one input, %q of BYTES, each an event as text", m.Record.FormatName(), wholeEvents)
	}
	seen := map[string]bool{}
	var objects []bytes.Buffer
	for i, input := range q.Inputs {
		name := fmt.Sprintf("input %.100q", input.Name)
		if input.Name == "" || seen[input.Name] {
			return nil, fmt.Errorf("%s: a name is missing or repeated", name)
		}
		seen[input.Name] = true
		if _, binary := input.Parameters["binary_data_size"]; binary {
			return nil, fmt.Errorf("%s: binary tensors are not supported: send data as JSON", name)
		}
		if len(input.Shape) < 1 || len(input.Shape) > 2 || input.Shape[0] < 1 || len(input.Shape) == 2 && input.Shape[1] < 1 {
			return nil, fmt.Errorf("%s: shape %v, want [events] or [events, values of one]", name, input.Shape)
		}
		if input.Shape[0] > most {
			return nil, errTooMany
		}
		each := 1
		if len(input.Shape) == 2 {
			each = input.Shape[1]
		}
		if i == 0 {
			n, objects = input.Shape[0], make([]bytes.Buffer, input.Shape[0])
		}
		if input.Shape[0] != n || whole && each != 1 {
			return nil, fmt.Errorf("%s: shape %v, want [%d]", name, input.Shape, n)
		}
		values, err := flatten(nil, input.Data, len(input.Shape))
		if err != nil {
			return nil, fmt.Errorf("%s: data: %w", name, err)
		}
		if len(values)/each != n || len(values)%each != 0 {
			return nil, fmt.Errorf("%s: %d values, want %d by the shape %v", name, len(values), int64(n)*int64(each), input.Shape)
		}
		for k, value := range values {
			if !isOf(input.Datatype, value) {
				return nil, fmt.Errorf("%s: value %d, %.20s, is no %.20q", name, k, value, input.Datatype)
			}
		}
		if whole {
			events := make([][]byte, n)
			for k, value := range values {
				var text string
				if err := json.Unmarshal(value, &text); err != nil || input.Datatype != "BYTES" {
					return nil, fmt.Errorf("%s: value %d: want an event as text, of the datatype BYTES", name, k)
				}
				events[k] = []byte(text)
			}
			return events, nil
		}
		key, err := json.Marshal(input.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for k := range objects {
			o := &objects[k]
			o.WriteByte("{,"[min(i, 1)])
			o.Write(key)
			o.WriteByte(':')
			if len(input.Shape) == 1 || each == 1 {
				o.Write(values[k])
				continue
			}
			o.WriteByte('[')
			o.Write(bytes.Join(values[k*each:(k+1)*each], []byte(",")))
			o.WriteByte(']')
		}
	}
	events := make([][]byte, n)
	for k := range objects {
		objects[k].WriteByte('}')
		events[k] = objects[k].Bytes()
	}
	return events, nil
}

// flatten appends the values of an array in row-major order. The array may be nested to the given depth.
func flatten(to [][]byte, data json.RawMessage, depth int) ([][]byte, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil || list == nil {
		return nil, fmt.Errorf("%.20q, want an array of values", data)
	}
	for _, value := range list {
		if value[0] != '[' {
			to = append(to, value)
			continue
		}
		if depth == 1 {
			return nil, errors.New("it is nested deeper than its shape")
		}
		var err error
		if to, err = flatten(to, value, depth-1); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// isOf reports whether a JSON value has the given datatype. A null means a missing value and has every datatype.
func isOf(datatype string, value []byte) bool {
	first := value[0]
	switch {
	case datatype == "BYTES":
		return first == '"' || first == 'n'
	case datatype == "BOOL":
		return first == 't' || first == 'f' || first == 'n'
	case slices.Contains([]string{"FP16", "FP32", "FP64"}, datatype):
		return first == '-' || first >= '0' && first <= '9' || first == 'n'
	case slices.Contains([]string{"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}, datatype):
		return !bytes.ContainsAny(value, ".eE") && (first == '-' && datatype[0] == 'I' || first >= '0' && first <= '9') || first == 'n'
	}
	return false
}

// outputsOf returns the predictions as tensors, one for each value of a Prediction. For classification "probabilities"
// has a column for each class, in the order of the model.
func outputsOf(m *served.Model, predictions []served.Prediction) []tensor {
	n, classes := len(predictions), m.Schema.Classes
	numbers := func(name string, each int, of func(p served.Prediction, to []float64)) tensor {
		t := tensor{Name: name, Datatype: "FP64", Shape: []int{n, each}}
		if each == 0 {
			t.Shape, each = t.Shape[:1], 1
		}
		data := make([]float64, n*each)
		for i, p := range predictions {
			of(p, data[i*each:(i+1)*each])
		}
		t.Data = data
		return t
	}
	texts := func(name string, of func(p served.Prediction) string) tensor {
		data := make([]string, n)
		for i, p := range predictions {
			data[i] = of(p)
		}
		return tensor{name, "BYTES", []int{n}, data}
	}
	scores := numbers("scores", m.Outputs, func(p served.Prediction, to []float64) { copy(to, p.Scores) })
	rule := texts("missing_policy", func(p served.Prediction) string { return string(p.MissingPolicy) })
	missing := texts("missing", func(p served.Prediction) string { return strings.Join(p.Missing, ",") })
	if loss.IsRegression(m.Loss) {
		outputs := []tensor{numbers("value", 0, func(p served.Prediction, to []float64) { to[0] = orNaN(p.Value) }), scores, rule, missing}
		if low, high := m.Interval(0, model.MissingVariance{}); low <= high {
			outputs = append(outputs, numbers("low", 0, func(p served.Prediction, to []float64) { to[0] = orNaN(p.Low) }),
				numbers("high", 0, func(p served.Prediction, to []float64) { to[0] = orNaN(p.High) }))
		}
		return outputs
	}
	outputs := []tensor{texts("class", func(p served.Prediction) string { return p.Class }),
		numbers("probability", 0, func(p served.Prediction, to []float64) { to[0] = p.Probability })}
	if len(classes) > 1 {
		outputs = append(outputs, numbers("probabilities", len(classes), func(p served.Prediction, to []float64) {
			for k, class := range classes {
				switch {
				case p.Probabilities != nil:
					to[k] = p.Probabilities[class]
				case class == p.Class:
					to[k] = p.Probability
				default:
					to[k] = 1 - p.Probability
				}
			}
		}))
	}
	if _, ok := m.Set(model.MissingHandling{}, nil, 0); ok {
		outputs = append(outputs, texts("set", func(p served.Prediction) string { return strings.Join(p.Set, ",") }))
	}
	return append(outputs, scores, rule, missing)
}

// orNaN returns *x, or NaN if x is nil. JSON cannot represent NaN, so a response never contains an invented number.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// choose returns the outputs that the request names, in that order. If the request names no outputs, it returns all
// outputs.
func (q *inferRequest) choose(all []tensor) (chosen []tensor, err error) {
	if len(q.Outputs) == 0 {
		return all, nil
	}
	var names []string
	for _, t := range all {
		names = append(names, t.Name)
	}
	for _, asked := range q.Outputs {
		if asked.Parameters["binary_data"] == true {
			return nil, fmt.Errorf("output %.100q: binary tensors are not supported: request JSON", asked.Name)
		}
		k := slices.Index(names, asked.Name)
		if k < 0 {
			return nil, fmt.Errorf("no output %.100q: the outputs are %s", asked.Name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[k])
	}
	return chosen, nil
}
