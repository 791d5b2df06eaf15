// Package client predicts with what a learner has learned: a model that it
// serves, a checkpoint, or a model file. Nothing is asked of a server for a
// prediction; [Follow] keeps up with one that learns on.
//
//	m, err := client.Open(ctx, "http://127.0.0.1:8642", client.Options{})
//	p, err := m.Predict([]byte(`{"words": "a fine day"}`), 0)
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"blankout"
	"blankout/checkpoint"
	"blankout/stream"
)

// Model is a model and how its events are written. It is immutable once the
// first prediction has been made, and safe for concurrent use.
type Model struct {
	*blankout.Model
	Version uint64           // larger means published later; 0 for a file that was not published
	Offsets blankout.Offsets // how far the stream had been learned; nil if there was none
	At      time.Time        // of publication; zero if it was not published
	// Record says how events are written. It comes with a snapshot or a
	// checkpoint; a model trained from files does not know it and has the
	// defaults. It may be set before the first prediction.
	Record stream.RecordConfig

	idle sync.Pool // of *decoder
	name func() func(column uint32) string
}

// Blocks of a published model beside the model's own. The first two are those
// of a checkpoint.
const (
	blockOffsets  = "offsets"     // JSON of blankout.Offsets
	blockSettings = "fingerprint" // JSON of stream.RecordConfig.Settings
	blockSnapshot = "snapshot"    // JSON of snapshot
)

type snapshot struct {
	Version uint64    `json:"version"`
	At      time.Time `json:"published"`
}

// New returns a Model of events written as record says.
func New(m *blankout.Model, record stream.RecordConfig) *Model {
	return &Model{Model: m, Record: record, name: sync.OnceValue(m.Schema.Namer)}
}

// Decode reads a Model from the bytes of a snapshot, checkpoint or model file.
func Decode(data []byte) (*Model, error) {
	file, err := checkpoint.Decode(data)
	if err != nil {
		return nil, err
	}
	if file.Kind != checkpoint.Linear {
		return nil, fmt.Errorf("a %s model: only linear ones can be used here", file.Kind)
	}
	linear, err := blankout.ReadModel(file.Blocks)
	if err != nil {
		return nil, err
	}
	m := New(linear, stream.DefaultRecordConfig())
	var settings map[string]string
	var s snapshot
	for name, to := range map[string]any{blockOffsets: &m.Offsets, blockSettings: &settings, blockSnapshot: &s} {
		block, err := file.Block(name)
		if err != nil {
			continue // a model file has none of them, a checkpoint no snapshot
		}
		if err := json.Unmarshal(block, to); err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
	}
	m.Version, m.At = s.Version, s.At
	if settings != nil {
		if m.Record, err = stream.ParseSettings(settings); err != nil {
			return nil, fmt.Errorf("block %s: %w", blockSettings, err)
		}
	}
	return m, nil
}

// Encode writes the Model as Decode reads it.
func (m *Model) Encode(w io.Writer) error {
	model, err := m.EachBlock()
	if err != nil {
		return err
	}
	var blocks []blankout.Block
	for _, b := range []struct {
		name string
		data any
	}{{blockOffsets, m.Offsets}, {blockSettings, m.Record.Settings()}, {blockSnapshot, snapshot{m.Version, m.At}}} {
		data, err := json.Marshal(b.data)
		if err != nil {
			return fmt.Errorf("block %s: %w", b.name, err)
		}
		blocks = append(blocks, blankout.Block{Name: b.name, Data: data})
	}
	return checkpoint.Write(w, checkpoint.Linear, func(yield func(blankout.Block) bool) {
		for _, b := range blocks {
			if !yield(b) {
				return
			}
		}
		model(yield)
	})
}

// ReadFile reads a Model from a file, or from the newest checkpoint of a directory.
func ReadFile(path string) (*Model, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		names, err := checkpoint.List(path)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: %w", path, checkpoint.ErrNone)
		}
		path = filepath.Join(path, names[0])
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Options say how a server is asked. The zero value will do on loopback.
type Options struct {
	Token    string        // of the server, "" if it wants none
	Client   *http.Client  // nil is one that gives up after a minute
	Interval time.Duration // between two looks of Follow, 0 is a second
	MaxBytes int64         // of a model, 0 is 4 GiB
}

var patient = &http.Client{Timeout: time.Minute}

// Open reads a Model from where: the address of a server (http:// or https://),
// a file, or a directory of checkpoints.
func Open(ctx context.Context, where string, o Options) (*Model, error) {
	if strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://") {
		m, _, err := fetch(ctx, where, "", o)
		return m, err
	}
	return ReadFile(where)
}

// fetch asks a server for its model. It returns nil without an error if that
// still has the given tag.
func fetch(ctx context.Context, address, tag string, o Options) (*Model, string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/model"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", err
	}
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	if o.Token != "" {
		request.Header.Set("Authorization", "Bearer "+o.Token)
	}
	if o.Client == nil {
		o.Client = patient
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 30
	}
	response, err := o.Client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotModified {
		return nil, tag, nil
	}
	limit := o.MaxBytes
	if response.StatusCode != http.StatusOK {
		limit = 1 << 10
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", u.Redacted(), err)
	case response.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("%s: %s: %s", u.Redacted(), response.Status, strings.TrimSpace(string(data)))
	case int64(len(data)) > limit:
		return nil, "", fmt.Errorf("%s: the model has more than %d bytes", u.Redacted(), limit)
	}
	m, err := Decode(data)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return m, response.Header.Get("ETag"), nil
}

// Follower keeps the newest model of a server at hand.
type Follower struct {
	stop    context.CancelFunc
	done    chan struct{}
	mu      sync.RWMutex
	model   *Model
	trouble error
}

// Follow reads the model of a server and looks for a newer one every
// Options.Interval, until Close. It fails if there is none to begin with.
func Follow(ctx context.Context, address string, o Options) (*Follower, error) {
	m, tag, err := fetch(ctx, address, "", o)
	if err != nil {
		return nil, err
	}
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Follower{stop: stop, done: make(chan struct{}), model: m}
	go func() {
		defer close(f.done)
		tick := time.NewTicker(o.Interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			m, newer, err := fetch(ctx, address, tag, o)
			if ctx.Err() != nil {
				return
			}
			f.mu.Lock()
			f.trouble = err
			// Of several servers behind one address one may lag behind the other.
			if err == nil && m != nil && (m.Version > f.model.Version || m.At.After(f.model.At)) {
				f.model = m
			}
			f.mu.Unlock()
			if err == nil {
				tag = newer
			}
		}
	}()
	return f, nil
}

// Model returns the newest model read, and the error of the last look for a
// newer one: the model is then as it was before.
func (f *Follower) Model() (*Model, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.model, f.trouble
}

// Close stops following.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}

// Prediction is what a model says about an event.
type Prediction struct {
	ID          string  `json:"id,omitempty"` // of the event, if it has one
	Class       string  `json:"class"`
	Probability float64 `json:"probability"` // of that class
	// Probabilities are those of all classes, if there are more than two.
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
	Scores        []float64          `json:"scores"` // of two classes the positive one's
	// Explanation holds what adds most to the score of Class (of two classes the
	// positive one's), the largest first, if that was asked for.
	Explanation []Contribution `json:"explanation,omitempty"`
}

// Contribution is the part of a score that is due to one feature: its value,
// standardised, times its weight.
type Contribution struct {
	Feature string  `json:"feature"` // "" is the intercept
	Value   float64 `json:"value"`
	Weight  float64 `json:"weight"`
	Score   float64 `json:"score"`
}

// decoder works for one prediction at a time and keeps its memory.
type decoder struct {
	stream.Decoder
	example blankout.Example
	scores  []float64
	chances []float64
	scaled  blankout.Vec
}

// Predict decodes an event, one record as the learner's stream has them, and
// scores it; a label in it is ignored. It names the explain features that
// matter most. The error is a *blankout.Refusal if the event cannot be used.
func (m *Model) Predict(event []byte, explain int) (Prediction, error) {
	return m.PredictRecord(stream.Record{Value: event}, explain)
}

// PredictRecord is Predict for a record with a key and a time.
func (m *Model) PredictRecord(r stream.Record, explain int) (Prediction, error) {
	d, _ := m.idle.Get().(*decoder)
	if d == nil {
		schema := m.Schema.Clone(-1, -1) // decoders add to it
		schema.Names = nil               // for people, not for predictions
		record := m.Record
		record.Unlabelled = true
		inner, err := stream.NewDecoder(record, schema)
		if err != nil {
			return Prediction{}, fmt.Errorf("decoding events: %w", err)
		}
		d = &decoder{Decoder: inner, scores: make([]float64, max(m.Outputs, len(m.Schema.Classes))), chances: make([]float64, max(2, m.Outputs, len(m.Schema.Classes)))}
	}
	defer m.idle.Put(d)
	e := &d.example
	d.Decode(r, e)
	if refusal := e.Refused; refusal != nil {
		return Prediction{}, &blankout.Refusal{Reason: refusal.Reason, Detail: refusal.Detail, Value: slices.Clone(refusal.Value)}
	}
	scores := m.Score(e, d.scores)
	chances := m.Probabilities(scores, d.chances)
	class := m.Model.Predict(scores)
	p := Prediction{ID: string(e.Key), Class: m.className(class), Probability: chances[class], Scores: slices.Clone(scores)}
	if len(scores) > 1 {
		p.Probabilities = map[string]float64{}
		for k := range min(len(chances), len(m.Schema.Classes)) {
			p.Probabilities[m.className(k)] = chances[k]
		}
	}
	if explain > 0 && !m.Pairs {
		p.Explanation = m.explain(d, class, explain)
	}
	return p, nil
}

func (m *Model) explain(d *decoder, class, most int) []Contribution {
	k := 0
	if m.Outputs > 1 {
		k = class
	}
	d.scaled.Index, d.scaled.Value = d.scaled.Index[:0], d.scaled.Value[:0]
	d.scaled = m.Standardised(&d.example, d.scaled)
	name := m.name()
	all := []Contribution{{"", 1, m.Intercept[k], m.Intercept[k]}}
	for i, column := range d.scaled.Index {
		if w, x := m.Weight(column, k), d.scaled.Value[i]; w*x != 0 {
			all = append(all, Contribution{name(column), x, w, w * x})
		}
	}
	slices.SortStableFunc(all, func(a, b Contribution) int {
		switch x, y := math.Abs(a.Score), math.Abs(b.Score); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return strings.Compare(a.Feature, b.Feature)
	})
	return slices.Clone(all[:min(most, len(all))])
}

// className returns a class's name, its number if it has none yet.
func (m *Model) className(class int) string {
	if class < len(m.Schema.Classes) && m.Schema.Classes[class] != "" {
		return m.Schema.Classes[class]
	}
	return strconv.Itoa(class)
}

// IsRefused tells whether an error of Predict is about the event.
func IsRefused(err error) bool {
	return errors.As(err, new(*blankout.Refusal))
}
