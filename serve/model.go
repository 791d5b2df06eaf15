package serve

// This file implements the endpoints of the model: its file, its weights, and predictions.

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/model"
	"blankout/stream/record"
)

// Newest returns a function that returns the model that a Runner published last for the learner with the given name; ""
// is the leader. The function returns nil if there is no such model. It is safe for concurrent use. The function asked
// returns the current record settings, which change when the format is detected, and own returns those of a learner.
func Newest(published func() *run.Published, asked func() *record.Config, own func(learner string, c record.Config) record.Config) func(learner string) *served.Model {
	type made struct {
		of    *run.Published
		as    *record.Config
		model *served.Model
	}
	var mu sync.Mutex
	all := map[string]made{}
	return func(learner string) *served.Model {
		mu.Lock()
		defer mu.Unlock()
		p := published()
		if p != nil && learner != "" && p.Learner != learner {
			i := slices.IndexFunc(p.Others, func(x *run.Published) bool { return x.Learner == learner })
			if i < 0 {
				return nil
			}
			p = p.Others[i]
		}
		if p == nil {
			return nil
		}
		m, how := all[p.Learner], asked()
		if m.of != p || m.as != how {
			m = made{p, how, served.New(p.Linear, own(p.Learner, *how))}
			m.model.Version, m.model.Offsets, m.model.At, m.model.Learner = p.Version, p.Offsets, p.At, p.Learner
			all[p.Learner] = m
		}
		return m.model
	}
}

// models handles requests for the current model and for predictions. Clients that download the model can compute the
// same predictions.
type models struct {
	config Config
	take   func() *served.Model // returns the current model or nil
	// learner returns the model of the learner with the given name, or nil. The function itself is nil for a single
	// learner.
	learner func(name string) *served.Model

	predicting gate
	sending    gate // limits requests for the model as a file or with its weights
	most       largestWeights
}

func newModels(c Config, s Service) *models {
	return &models{
		config: c, take: s.model, learner: s.Learner,
		predicting: gate{places: make(chan struct{}, c.MaxPredicting)},
		sending:    gate{places: make(chan struct{}, maxSending)},
	}
}

// current returns the current model. If it returns nil, it has sent an error response.
func (s *models) current(w http.ResponseWriter, r *http.Request) *served.Model {
	m := s.take()
	if m == nil {
		fail(w, http.StatusServiceUnavailable, "no model has been published yet", r.URL.Path)
	}
	return m
}

// tag returns the ETag of a model. The ETag includes the time, because a learner that restarts in another directory may
// use the same versions again.
func tag(m *served.Model, form string) string {
	if m.Learner != "" {
		form += "-" + m.Learner
	}
	return fmt.Sprintf(`"%x-%x%s"`, m.Version, m.At.UnixNano(), form)
}

// get handles GET /v1/model. It sends the model as a file. For Accept: application/json it sends the head and the
// splines of the model as JSON, and with ?weights=1 the weights too.
func (s *models) get(w http.ResponseWriter, r *http.Request) (ok bool) {
	weights, ok := switched(w, r, "weights")
	if !ok {
		return false
	}
	m := s.chosen(w, r)
	if m == nil {
		return false
	}
	asJSON := strings.Contains(r.Header.Get("Accept"), "application/json")
	if m.Shards() != nil && (weights || !asJSON) {
		return fail(w, http.StatusNotFound, "the shards of a group are several models: follow kafka://HOST:PORT/NAME-snapshots", r.URL.Path)
	}
	linear, _ := m.Model.(*model.Linear)
	if asJSON && weights && linear == nil {
		return fail(w, http.StatusBadRequest, "a kernel model has no feature weights: omit weights=1, or request the file", "query")
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
		return true
	}
	if asJSON && !weights {
		w.Header().Set("Content-Type", "application/json")
		return writeJSON(w, m, linear, false) == nil
	}
	if !s.sending.enter(w, r) {
		return false
	}
	ok = false
	defer func() { s.sending.leave(ok) }()
	out := newTaker(w, s.config.ClientTimeout, sendingRate)
	var err error
	if asJSON {
		w.Header().Set("Content-Type", "application/json")
		err = writeJSON(out, m, linear, weights)
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		err = m.Encode(out)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // aborting shows the client that the response is incomplete
	}
	return true
}

// Only a limited number of clients receive a model concurrently, because a model stays in memory while it is sent. A
// client that receives less than sendingRate bytes per second for Config.ClientTimeout is disconnected.
const (
	maxSending  = 4
	sendingRate = 1 << 16
)

func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// place is the position of a model in the stream. It is the response to GET /v1/model/offsets and the first part of the
// model as JSON.
type place struct {
	Version uint64        `json:"version"`
	Learner string        `json:"learner,omitempty"` // name of the learner, if there are several
	At      time.Time     `json:"published"`
	Age     float64       `json:"age_seconds"`
	Events  uint64        `json:"events"`
	Offsets event.Offsets `json:"offsets"`
}

func placeOf(m *served.Model) place {
	return place{m.Version, m.Learner, m.At, time.Since(m.At).Seconds(), m.Events, m.Offsets}
}

func (s *models) offsets(w http.ResponseWriter, r *http.Request) bool {
	m := s.chosen(w, r)
	if m == nil {
		return false
	}
	return reply(w, http.StatusOK, placeOf(m))
}

// column is the JSON form of an event.Column.
type column struct {
	Column  uint32    `json:"column"`
	Feature string    `json:"feature"`
	Weights []float64 `json:"weights"`
	model.Standardization
}

// writeJSON writes the model as one JSON object, with the splines of a linear model. If requested it adds the weights,
// one column at a time.
func writeJSON(w io.Writer, m *served.Model, linear *model.Linear, weights bool) error {
	where, err := json.Marshal(placeOf(m))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	part := func(before string, x any) error {
		data, err := json.Marshal(x)
		out.WriteString(before)
		out.Write(data)
		return err
	}
	out.Write(bytes.TrimSuffix(where, []byte("}")))
	if err := part(`,"model":`, m.Head); err != nil {
		return err
	}
	if k, ok := m.Model.(*kernel.Model); ok {
		fmt.Fprintf(out, `,"kernel":%q,"support_vectors":%d`, k.Kernel.String(), k.Support())
	}
	if linear != nil {
		separator := `,"curves":[`
		for c := range linear.DrawnSplines() {
			if err := part(separator, c); err != nil {
				return err
			}
			separator = ",\n"
		}
		if separator == ",\n" {
			out.WriteString("]")
		}
	}
	if weights {
		name := m.Namer()
		out.WriteString(`,"weights":[`)
		separator := ""
		for c := range linear.Columns() {
			if err := part(separator, column{c.Number, name(c.Number), c.Weights, c.Standardization}); err != nil {
				return err
			}
			separator = ",\n"
		}
		out.WriteString("]")
		if clip := m.Clip(); clip > 0 {
			fmt.Fprintf(out, `,"clip":%v`, clip)
		}
		if cosines := linear.ExportedCosines(); cosines != nil {
			if err := part(`,"cosines":`, cosines); err != nil {
				return err
			}
		}
	}
	out.WriteString("}\n")
	return out.Flush()
}

// defaultLargest is the number of largest weights returned for each output if ?n is not given. maxLargest is the
// largest valid ?n.
const (
	defaultLargest = 20
	maxLargest     = 1000
)

// weight is one of the largest weights.
type weight struct {
	Feature string  `json:"feature"`
	Weight  float64 `json:"weight"` // weight of the standardized feature
}

// largest handles GET /v1/model/largest. The response has, for each output, the weights with the largest absolute
// values, largest first. A model of two classes has one output, for the positive class.
func (s *models) largest(w http.ResponseWriter, r *http.Request) bool {
	n, ok := asked(w, r, "n", "weights", 1, maxLargest, defaultLargest)
	if !ok {
		return false
	}
	m := s.chosen(w, r)
	if m == nil {
		return false
	}
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return fail(w, http.StatusNotFound, "a kernel model has no feature weights", r.URL.Path)
	}
	if !s.sending.enter(w, r) {
		return false
	}
	defer s.sending.leave(true)
	type output struct {
		Class   string   `json:"class"`
		Weights []weight `json:"weights"`
	}
	answer := struct {
		Version  uint64   `json:"version"`
		Features int      `json:"features"`
		Outputs  []output `json:"outputs"`
	}{Version: m.Version, Features: linear.Rows.Features()}
	name := m.Namer()
	for k, list := range s.most.of(m, linear) {
		out := output{Class: outputName(m, k)}
		for _, c := range list[:min(n, len(list))] {
			out.Weights = append(out.Weights, weight{name(c.column), c.weight})
		}
		answer.Outputs = append(answer.Outputs, out)
	}
	return reply(w, http.StatusOK, answer)
}

// outputName returns the name of the class of output k.
func outputName(m *served.Model, k int) string {
	if m.Outputs == 1 {
		k = len(m.Schema.Classes) - 1
	}
	if k < 0 || k >= len(m.Schema.Classes) {
		return ""
	}
	return m.Schema.Classes[k]
}

// largestWeights caches the largest weights of one model, the last for which they were requested.
type largestWeights struct {
	mu      sync.Mutex
	model   *served.Model
	largest [][]columnWeight // largest weights by output, largest first
}

type columnWeight struct {
	column uint32
	weight float64
}

// of returns the largest weights of a model. The caller must not change the returned weights.
func (l *largestWeights) of(m *served.Model, linear *model.Linear) [][]columnWeight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.model != m {
		l.model, l.largest = m, make([][]columnWeight, m.Outputs)
		farther := func(a, b columnWeight) int {
			return cmp.Or(cmp.Compare(math.Abs(b.weight), math.Abs(a.weight)), cmp.Compare(a.column, b.column))
		}
		for c := range linear.Columns() {
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
	return l.largest
}
