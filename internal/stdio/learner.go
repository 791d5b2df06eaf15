package stdio

// This file makes and saves learners, and says what there is to tell of them.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/served"
	"blankout/internal/served/export"
	"blankout/online"
	"blankout/online/watch"
	"blankout/stream/record"
)

// learner is one that learns, or a model that is predicted with.
type learner struct {
	settings []string
	online   *online.Learner  // nil of a model
	follower *served.Follower // of a model that is followed
	model    *served.Model    // of a learner the one of now, nil since it has learned

	record  record.Config
	schema  *event.Schema
	json    record.Decoder
	rows    []*record.Rows // by shape
	shapes  [][]string
	sparse  *record.SparseRows
	classes [][]byte // that labels are numbers of

	room room
}

// blockSettings is the block of a checkpoint that holds the settings of a learner, as opNew takes them.
const blockSettings = "settings"

// parse reads a configuration from a list of settings.
func parse(settings []byte) (c *config.Loaded, list []string, err error) {
	if err := json.Unmarshal(settings, &list); err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	c, err = config.Load(config.Source{Flags: list})
	return c, list, err
}

func newLearner(settings []byte) (*learner, error) {
	c, list, err := parse(settings)
	if err != nil {
		return nil, err
	}
	l := &learner{settings: list, record: c.Record}
	s := c.Record.Schema()
	if l.online, err = online.New(c.Learner, s); err != nil {
		return nil, err
	}
	return l, l.decode(s)
}

// decode makes the decoders of events of a Schema, but for shapes.
func (l *learner) decode(s *event.Schema) (err error) {
	c := l.record
	c.Format = "json"
	l.schema = s
	if l.json, err = record.NewDecoder(c, s); err != nil {
		return err
	}
	l.sparse, err = record.NewSparseRows(c, s)
	return err
}

// loadLearner goes on with a learner that was saved. Settings that are given take the place of those that it was saved with.
func loadLearner(payload []byte) (*learner, error) {
	if len(payload) < 8 || binary.LittleEndian.Uint64(payload) > uint64(len(payload)-8) {
		return nil, errors.New("a file with its settings is shorter than it says")
	}
	end := 8 + binary.LittleEndian.Uint64(payload)
	file, err := checkpoint.Decode(payload[end:])
	if err != nil {
		return nil, err
	}
	var given, saved []string
	if err := json.Unmarshal(payload[8:end], &given); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if block, err := file.Block(blockSettings); err == nil {
		if err := json.Unmarshal(block, &saved); err != nil {
			return nil, fmt.Errorf("block %s: %w", blockSettings, err)
		}
	}
	list := append(saved, given...)
	all, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	c, list, err := parse(all)
	if err != nil {
		return nil, err
	}
	l := &learner{settings: list, record: c.Record}
	if l.online, err = online.Restore(c.Learner, file.Blocks); err != nil {
		return nil, err
	}
	return l, l.decode(l.online.Schema())
}

// Address says where the model of opOpen is.
type Address struct {
	Address string  `json:"address"` // a file, a directory of checkpoints, or a server
	Token   string  `json:"token"`
	Follow  float64 `json:"follow"` // seconds between two looks for a newer one; 0 does not look
	Missing string  `json:"missing_policy"`
	Wait    bool    `json:"wait"` // where there is none yet
}

func openModel(ctx context.Context, payload []byte) (*learner, error) {
	var a Address
	if err := json.Unmarshal(payload, &a); err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	policy, err := model.ParseMissingPolicy(cmp.Or(a.Missing, string(model.MissingAuto)))
	if err != nil {
		return nil, err
	}
	o := served.Options{Token: a.Token, Missing: policy, Interval: time.Duration(a.Follow * float64(time.Second)), Wait: a.Wait}
	l := &learner{}
	if a.Follow > 0 {
		if l.follower, err = served.Follow(ctx, a.Address, o); err != nil {
			return nil, err
		}
		return l, l.followed()
	}
	m, err := served.Open(ctx, a.Address, o)
	if err != nil {
		return nil, err
	}
	return l, l.setModel(m)
}

func readModel(data []byte) (*learner, error) {
	m, err := served.Decode(data)
	if err != nil {
		return nil, err
	}
	l := &learner{}
	return l, l.setModel(m)
}

// followed takes up the newest model of a follower.
func (l *learner) followed() error {
	if l.follower == nil {
		return nil
	}
	m, err := l.follower.Model()
	if err != nil || m == l.model {
		return err
	}
	return l.setModel(m)
}

func (l *learner) setModel(m *served.Model) error {
	l.model, l.record = m, m.Record
	l.record.Unlabeled = true
	schema := m.Schema.Clone()
	schema.Names = nil // for people, not for predictions
	if err := l.decode(schema); err != nil {
		return err
	}
	l.rows = nil
	for _, names := range l.shapes {
		if err := l.addRows(names); err != nil {
			return err
		}
	}
	return nil
}

// now returns the model of now.
func (l *learner) now() *served.Model {
	if l.model == nil {
		l.model = served.New(l.online.Snapshot().Model(), l.record)
	}
	return l.model
}

func (l *learner) close() error {
	if l.follower != nil {
		l.follower.Close()
	}
	return nil
}

func (l *learner) addRows(names []string) error {
	c := l.record
	c.Format = "json"
	rows, err := record.NewRows(c, l.schema, names)
	if err == nil {
		l.rows = append(l.rows, rows)
	}
	return err
}

func (l *learner) addShape(payload []byte) (a answer, err error) {
	var names []string
	if err := json.Unmarshal(payload, &names); err != nil {
		return a, fmt.Errorf("names of columns: %w", err)
	}
	if err := l.addRows(names); err != nil {
		return a, err
	}
	l.shapes = append(l.shapes, names)
	return jsonAnswer(len(l.shapes) - 1)
}

func (l *learner) addClasses(payload []byte) (a answer, err error) {
	var labels []string
	if err := json.Unmarshal(payload, &labels); err != nil {
		return a, fmt.Errorf("labels: %w", err)
	}
	for _, label := range labels {
		l.classes = append(l.classes, []byte(label))
	}
	if err := l.followed(); err != nil {
		return a, err
	}
	return jsonAnswer(append([]string{}, l.schema.Classes...))
}

// Inspection is what opInspect answers.
type Inspection struct {
	Events     uint64   `json:"events"`
	Regression bool     `json:"regression"`
	Classes    []string `json:"classes"`
	Positive   string   `json:"positive,omitempty"` // of two classes
	Fields     []string `json:"fields"`
	Kind       string   `json:"kind"` // linear or kernel
	Loss       string   `json:"loss"`
	Noise      string   `json:"noise"`
	Version    uint64   `json:"version,omitempty"` // of a snapshot
	Published  string   `json:"published,omitempty"`
	Settings   []string `json:"settings,omitempty"`
	// Of a learner.
	Measures *online.Summary `json:"measures,omitempty"`
	Warnings []watch.Warning `json:"warnings,omitempty"`
}

func (l *learner) inspect() (answer, error) {
	if err := l.followed(); err != nil {
		return answer{}, err
	}
	m := l.now()
	i := Inspection{
		Events: m.Events, Regression: loss.IsRegression(m.Loss), Classes: append([]string{}, l.schema.Classes...), Kind: m.Kind(),
		Loss: m.Loss, Noise: m.Noise, Version: m.Version, Settings: l.settings, Fields: []string{},
	}
	seen := map[string]bool{"": true}
	for _, f := range l.schema.Fields {
		if f.Kind != event.Cross && !seen[f.Name] {
			seen[f.Name] = true
			i.Fields = append(i.Fields, f.Name)
		}
	}
	if len(i.Classes) == 2 {
		i.Positive = i.Classes[m.Schema.PositiveClass(m.Positive)]
	}
	if !m.At.IsZero() {
		i.Published = m.At.Format(time.RFC3339Nano)
	}
	if l.online != nil {
		report := l.online.Report()
		summary := report.Summary()
		i.Measures, i.Warnings = &summary, l.online.Warnings(online.FingerprintOf(l.online.Config(), l.schema), true)
	}
	return jsonAnswer(i)
}

// save returns a checkpoint: what run writes, and the settings.
func (l *learner) save() (a answer, err error) {
	if l.online == nil {
		return a, errors.New("a model that was loaded does not learn, and has no state to save: export it")
	}
	state, err := l.online.Snapshot().EachBlock()
	if err != nil {
		return a, err
	}
	var blocks []event.Block
	for name, of := range map[string]any{blockSettings: l.settings, "offsets": event.Offsets{}, "fingerprint": l.record.Settings()} {
		data, err := json.Marshal(of)
		if err != nil {
			return a, err
		}
		blocks = append(blocks, event.Block{Name: name, Data: data})
	}
	var b bytes.Buffer
	err = checkpoint.Write(&b, checkpoint.Linear, func(yield func(event.Block) bool) {
		for _, block := range blocks {
			if !yield(block) {
				return
			}
		}
		state(yield)
	})
	return answer{payload: b.Bytes()}, err
}

// export returns the model of now as a file.
func (l *learner) export(payload []byte) (a answer, err error) {
	var as struct {
		Format  string `json:"format"`
		Missing string `json:"missing_policy"`
	}
	if err := json.Unmarshal(payload, &as); err != nil {
		return a, fmt.Errorf("export: %w", err)
	}
	policy, err := model.ParseMissingPolicy(cmp.Or(as.Missing, string(model.MissingAuto)))
	if err != nil {
		return a, err
	}
	if err := l.followed(); err != nil {
		return a, err
	}
	var b bytes.Buffer
	switch m := l.now(); as.Format {
	case "model":
		if linear, ok := m.Model.(*model.Linear); ok && l.online != nil {
			m = served.New(linear.Compact(), l.record)
		}
		err = m.Encode(&b)
	default:
		_, err = export.Write(&b, m, as.Format, policy)
	}
	return answer{payload: b.Bytes()}, err
}
