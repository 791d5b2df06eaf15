package serve

// This file answers what the page asks for beside the stream of events: the newest event,
// how good the predictions have been, and the largest weights.

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"blankout"
	"blankout/client"
	"blankout/measure"
	"blankout/model"
	"blankout/online"
	"blankout/run"
)

// newestEvent is the answer of GET /v1/newest.
type newestEvent struct {
	Format string `json:"format"` // in which POST /v1/predict takes it
	Event  string `json:"event"`
	Label  string `json:"label"` // the field that holds the label
	// Groups are fields that fail together, by the group's name.
	Groups map[string][]string `json:"groups,omitempty"`
}

// newest answers GET /v1/newest: the newest record that could be used, as it came; nothing
// if none has come since the start.
func (t *site) newest(w http.ResponseWriter, r *http.Request) {
	m, event := t.service.model(), t.service.status().Newest
	if m == nil || event == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	format := m.Record.FormatName()
	if !utf8.Valid(event) {
		format, event = "json", []byte("{}") // the records are binary, and questions about them JSON
	}
	reply(w, http.StatusOK, newestEvent{format, string(event), m.Record.Label, m.Record.Groups})
}

// measured is the answer of GET /v1/measures: what is known of the predictions, each made
// before its event was learned. Every number of events counts importance.
type measured struct {
	Classes   []string    `json:"classes"` // of two the positive one last
	Positive  string      `json:"positive,omitempty"`
	Confusion [][]float64 `json:"confusion"` // events by true and predicted class
	// Since is when the events of Confusion begin, milliseconds: those of two classes with
	// the learner, those of more when its program was started.
	Since *int64 `json:"since,omitempty"`
	// Reliability groups the events by the probability of the positive class: the mean
	// probability, and the share that was positive.
	Reliability []reliability       `json:"reliability,omitempty"`
	Thresholds  []measure.Threshold `json:"thresholds,omitempty"`
	// Refused has by reason how many records were refused since the learner's beginning,
	// and what was wrong with the first of them.
	Refused map[blankout.Reason]online.Refusals `json:"refused,omitempty"`
	// Samples are some of the newest records refused, Suspects events whose label is doubted.
	Samples  []run.Sample `json:"samples,omitempty"`
	Suspects []run.Sample `json:"suspects,omitempty"`
}

type reliability struct {
	Probability float64 `json:"probability"`
	Right       float64 `json:"positive"`
	Weight      float64 `json:"events"`
}

// measures answers GET /v1/measures.
func (t *site) measures(w http.ResponseWriter, r *http.Request) {
	m, status := t.service.model(), t.service.status()
	metrics := status.Metrics
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	answer := measured{Classes: m.Schema.Classes, Refused: metrics.RefusedBy, Samples: status.RefusedSamples, Suspects: status.SuspectSamples}
	if b := metrics.Binary; b != nil {
		if n := len(answer.Classes); n == 2 && answer.Classes[0] == metrics.Positive {
			answer.Classes = []string{answer.Classes[1], answer.Classes[0]}
		}
		answer.Positive = metrics.Positive
		answer.Confusion = [][]float64{b.Confusion[0][:], b.Confusion[1][:]}
		for _, bin := range b.Diagram() {
			answer.Reliability = append(answer.Reliability, reliability(bin))
		}
		answer.Thresholds = b.Thresholds()
	} else if status.Confusion != nil {
		n := min(len(m.Schema.Classes), len(status.Confusion))
		for _, row := range status.Confusion[:n] {
			answer.Confusion = append(answer.Confusion, row[:n])
		}
		answer.Since = milli(status.Started)
	}
	reply(w, http.StatusOK, answer)
}

// defaultLargest is how many of the largest weights are returned for each class unless ?n
// asks for another number; there are never more than maxLargest.
const (
	defaultLargest = 20
	maxLargest     = 1000
)

// weight is one of the largest weights.
type weight struct {
	Feature string  `json:"feature"`
	Weight  float64 `json:"weight"` // of the standardised feature
}

// largest answers GET /v1/model/largest: by output the weights that are farthest from 0,
// largest first. With two classes there is one output, the positive class.
func (s *models) largest(w http.ResponseWriter, r *http.Request) {
	n := defaultLargest
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxLargest {
			fail(w, http.StatusBadRequest, fmt.Sprintf("n=%.20q: want a number of weights from 1 to %d", text, maxLargest), "query")
			return
		}
	}
	m := s.take()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "there is no model yet", r.URL.Path)
		return
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		fail(w, http.StatusNotFound, "a kernel model has no weight of a feature", r.URL.Path)
		return
	}
	if !s.sending.enter(w, r) {
		return
	}
	defer s.sending.leave(true)
	type output struct {
		Class   string   `json:"class"`
		Weights []weight `json:"weights"`
	}
	columns, found := s.most.of(m, linear)
	answer := struct {
		Version uint64   `json:"version"`
		Columns int      `json:"columns"`
		Outputs []output `json:"outputs"`
	}{Version: m.Version, Columns: columns}
	name := m.Namer()
	for k, list := range found {
		out := output{Class: outputName(m, k)}
		for _, c := range list[:min(n, len(list))] {
			out.Weights = append(out.Weights, weight{name(c.column), c.weight})
		}
		answer.Outputs = append(answer.Outputs, out)
	}
	reply(w, http.StatusOK, answer)
}

// outputName is the class that output k speaks for.
func outputName(m *client.Model, k int) string {
	if m.Outputs == 1 {
		k = len(m.Schema.Classes) - 1
	}
	if k < 0 || k >= len(m.Schema.Classes) {
		return ""
	}
	return m.Schema.Classes[k]
}

// largestWeights remembers the largest weights of the model it was asked about last.
type largestWeights struct {
	mu      sync.Mutex
	model   *client.Model
	columns int
	largest [][]columnWeight // by output, the largest first
}

type columnWeight struct {
	column uint32
	weight float64
}

// of returns those of a model. What it returns is shared.
func (l *largestWeights) of(m *client.Model, linear *model.Linear) (columns int, largest [][]columnWeight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.model != m {
		l.model, l.columns, l.largest = m, 0, make([][]columnWeight, m.Outputs)
		farther := func(a, b columnWeight) int {
			return cmp.Or(cmp.Compare(math.Abs(b.weight), math.Abs(a.weight)), cmp.Compare(a.column, b.column))
		}
		for c := range linear.Columns() {
			l.columns++
			for k, w := range c.Weights {
				list := append(l.largest[k], columnWeight{c.Number, w})
				if len(list) >= 4*maxLargest {
					slices.SortFunc(list, farther)
					list = list[:maxLargest]
				}
				l.largest[k] = list
			}
		}
		for k, list := range l.largest {
			slices.SortFunc(list, farther)
			l.largest[k] = list[:min(len(list), maxLargest)]
		}
	}
	return l.columns, l.largest
}
