package stdio

// This file creates, saves and inspects learners.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"blankout/app/served"
	"blankout/app/served/export"
	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
	"blankout/stream/record"
)

// learner is a learner, or a model that only predicts.
type learner struct {
	settings []string
	online   *online.Learner // nil for a model
	source   served.Source   // source of an opened model
	shard    *int            // the shard that was opened; nil for all
	model    *served.Model   // current model; nil for a learner that has learned since
	client   json.RawMessage // data that a client has stored with the learner

	record  record.Config
	schema  *event.Schema
	json    record.Decoder
	rows    []*record.Rows // decoder of rows, by shape
	widths  []int          // number of columns of each shape
	sparse  *record.SparseRows
	classes [][]byte // labels, by the client's number

	room room
}

// blockSettings is the checkpoint block with a learner's settings.
const blockSettings = "settings"

// saved is the JSON in the block blockSettings.
type saved struct {
	Settings []string        `json:"settings"` // in the format of opNew
	Client   json.RawMessage `json:"client,omitempty"`
}

// parse parses a configuration from a list of settings. Settings that are not in the list have the values of base, or
// the defaults.
func parse(base *config.Config, settings []byte) (c *config.Loaded, list []string, err error) {
	if err := json.Unmarshal(settings, &list); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errSettings, err)
	}
	if c, err = config.Load(config.Source{Base: base, Flags: list}); err != nil {
		err = fmt.Errorf("%w: %w", errSettings, err)
	}
	return c, list, err
}

func newLearner(settings []byte) (*learner, error) {
	c, list, err := parse(nil, settings)
	if err != nil {
		return nil, err
	}
	l := &learner{settings: list, record: c.Record}
	s := c.Record.Schema()
	if l.online, err = online.New(learned(c), s); err != nil {
		return nil, err
	}
	return l, l.begin(s)
}

// learned returns the settings of a configuration's learner, as the command run uses them.
func learned(c *config.Loaded) online.Config {
	out := c.Learner.Among(c.Record.Declares(""), c.Record.Grouped())
	out.Positive = c.Record.PositiveName()
	return out
}

// begin creates the decoders of a new learner with a Schema.
func (l *learner) begin(s *event.Schema) error {
	if len(l.record.Classes) == 0 {
		online.TakeMoreClasses(s)
	}
	return l.decode(s)
}

// decode creates the decoders of events with a Schema, except the decoders of rows.
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

// loadLearner loads a saved learner. Settings in the payload override the learner's saved settings.
func loadLearner(payload []byte) (*learner, error) {
	if len(payload) < 8 || binary.LittleEndian.Uint64(payload) > uint64(len(payload)-8) {
		return nil, errors.New("a file with its settings is shorter than it says")
	}
	end := 8 + binary.LittleEndian.Uint64(payload)
	file, err := checkpoint.Decode(payload[end:])
	if err != nil {
		return nil, err
	}
	var given []string
	var was saved
	var base *config.Config
	if err := json.Unmarshal(payload[8:end], &given); err != nil {
		return nil, fmt.Errorf("%w: %w", errSettings, err)
	}
	if block, err := file.Block(blockSettings); err == nil {
		if err := json.Unmarshal(block, &was); err != nil {
			return nil, fmt.Errorf("block %s: %w", blockSettings, err)
		}
	} else { // a checkpoint of the command run, which contains the format of records
		m, err := served.Options{}.FromFile(file)
		if err != nil {
			return nil, err
		}
		c := config.Default()
		c.Record = m.Record
		base = &c
	}
	list := append(was.Settings, given...)
	all, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	c, list, err := parse(base, all)
	if err != nil {
		return nil, err
	}
	l := &learner{settings: list, record: c.Record, client: was.Client}
	if l.online, err = online.Restore(learned(c), file.Blocks); err != nil {
		return nil, err
	}
	return l, l.begin(l.online.Schema())
}

// Address is the address of the model for opOpen.
type Address struct {
	Address string `json:"address"` // a file, a directory of checkpoints, a server, or a topic or object of snapshots
	Token   string `json:"token"`
	Missing string `json:"missing_policy"`
	Shard   *int   `json:"shard"` // one shard of a group; null for all
	// Settings are the settings of [kafka] and [s3], in addition to the environment's settings.
	Settings []string `json:"settings"`
}

var (
	// errOpening reports that a model cannot be opened.
	errOpening = errors.New("opening a model")
	// errSettings reports invalid settings.
	errSettings = errors.New("settings")
)

func openModel(ctx context.Context, payload []byte) (*learner, error) {
	var a Address
	if err := json.Unmarshal(payload, &a); err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	policy, err := model.ParseMissingPolicy(cmp.Or(a.Missing, string(model.MissingAuto)))
	if err != nil {
		return nil, fmt.Errorf("%w: missing_policy %w", errSettings, err)
	}
	c, err := config.Load(config.Source{Env: os.Environ(), Flags: a.Settings})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSettings, err)
	}
	schemes := map[string]served.Opener{"kafka": kafka.Opener(c.Kafka.ConnectConfig), "s3": s3.Opener(c.S3)}
	source, err := served.NewSource(a.Address, served.Options{Token: a.Token, Missing: policy, Schemes: schemes})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOpening, err)
	}
	m, err := source.Look(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOpening, errors.Join(err, source.Close()))
	}
	if a.Shard != nil {
		if m, err = m.OneShard(*a.Shard); err != nil {
			return nil, fmt.Errorf("%w: %w", errSettings, errors.Join(err, source.Close()))
		}
	}
	if policy.Imputes() && m.Head.Covariance == nil {
		return nil, fmt.Errorf("%w: missing_policy %s: the model has no covariance of numeric columns to impute from", errSettings, policy)
	}
	l := &learner{source: source, shard: a.Shard}
	return l, l.setModel(m)
}

func readModel(data []byte) (*learner, error) {
	m, err := decodeModel(data)
	if err != nil {
		return nil, err
	}
	l := &learner{}
	return l, l.setModel(m)
}

func (l *learner) setModel(m *served.Model) error {
	l.model, l.record = m, m.Record
	schema := m.Schema.Clone()
	schema.Names = nil // predictions do not need names
	return l.decode(schema)
}

// now returns the current model, and publishes it first if the learner has learned.
func (l *learner) now() *served.Model {
	if l.model == nil {
		l.model = served.New(l.online.Snapshot().Model(), l.record)
	}
	return l.model
}

func (l *learner) close() error {
	if l.source != nil {
		return l.source.Close()
	}
	return nil
}

func (l *learner) addShape(payload []byte) (a answer, err error) {
	var names []string
	if err := json.Unmarshal(payload, &names); err != nil {
		return a, fmt.Errorf("names of columns: %w", err)
	}
	c := l.record
	c.Format = "json"
	rows, err := record.NewRows(c, l.schema, names)
	if err != nil {
		return a, err
	}
	l.rows, l.widths = append(l.rows, rows), append(l.widths, len(names))
	return jsonAnswer(len(l.rows) - 1)
}

func (l *learner) addClasses(payload []byte) (a answer, err error) {
	var labels []string
	if err := json.Unmarshal(payload, &labels); err != nil {
		return a, fmt.Errorf("labels: %w", err)
	}
	first := len(l.classes)
	for _, label := range labels {
		l.classes = append(l.classes, []byte(label))
	}
	return jsonAnswer(map[string]any{"first": first, "classes": append([]string{}, l.schema.Classes...)})
}

// Inspection is the JSON response to opInspect.
type Inspection struct {
	Events     uint64   `json:"events"`
	Regression bool     `json:"regression"`
	Classes    []string `json:"classes"`
	Positive   string   `json:"positive,omitempty"` // positive class of two
	Fields     []string `json:"fields"`
	Kind       string   `json:"kind"` // kind of the model: linear or kernel
	Loss       string   `json:"loss"`
	Noise      string   `json:"noise"`
	Version    uint64   `json:"version,omitempty"` // version of a snapshot
	Published  string   `json:"published,omitempty"`
	Shards     int      `json:"shards,omitempty"`     // number of shards of a group that answer together; they take only opAnswers
	Keyed      bool     `json:"keyed,omitempty"`      // the shard of a key is known
	ZeroBased  bool     `json:"zero_based,omitempty"` // numeric columns start at 0 in lines of svmlight
	Settings   []string `json:"settings,omitempty"`
	// Client is what the client stored when the learner was saved.
	Client json.RawMessage `json:"client,omitempty"`
	// Measures and Warnings are set only for a learner.
	Measures *online.Summary  `json:"measures,omitempty"`
	Warnings []health.Warning `json:"warnings,omitempty"`
}

func (l *learner) inspect() (answer, error) {
	m := l.now()
	i := Inspection{
		Events: m.Events, Regression: loss.IsRegression(m.Loss), Classes: append([]string{}, l.schema.Classes...), Kind: m.Kind(),
		Loss: m.Loss, Noise: m.Noise, Version: m.Version, ZeroBased: l.schema.ZeroBased, Settings: l.settings, Client: l.client, Fields: []string{},
	}
	for _, shard := range m.Shards() {
		if shard != nil {
			i.Shards++
		}
	}
	i.Keyed = m.Keyed()
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
		i.Measures, i.Warnings = new(report.Summary()), l.online.Warnings(online.FingerprintOf(l.online.Config(), l.schema), true)
	}
	return jsonAnswer(i)
}

// save returns a checkpoint with the blocks of the command run, the settings, and the client's JSON.
func (l *learner) save(client []byte) (a answer, err error) {
	if l.online == nil {
		return a, errors.New("a model that was loaded does not learn, and has no state to save: export it")
	}
	if l.client = nil; len(client) > 0 {
		if !json.Valid(client) {
			return a, errors.New("what a client saves with a learner is not JSON")
		}
		l.client = slices.Clone(client)
	}
	state, err := l.online.Snapshot().EachBlock()
	if err != nil {
		return a, err
	}
	var blocks []event.Block
	for _, of := range []struct {
		name string
		data any
	}{{blockSettings, saved{l.settings, l.client}}, {"offsets", event.Offsets{}}, {"fingerprint", config.Fingerprint(l.online.Config(), l.record, validate.DefaultConfig())}} {
		block, err := event.JSONBlock(of.name, of.data)
		if err != nil {
			return a, err
		}
		blocks = append(blocks, block)
	}
	var b bytes.Buffer
	err = checkpoint.Write(&b, checkpoint.Linear, event.JoinBlocks(slices.Values(blocks), state))
	return answer{payload: b.Bytes()}, err
}

// export returns the current model as a file.
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
	var b bytes.Buffer
	switch m := l.now(); {
	case m.Shards() != nil && as.Format == "model":
		err = encodeShards(&b, m)
	case m.Shards() != nil:
		return a, &export.RefusedError{Why: "the shards of a group are several models, and their mean is none: load one of them, as in load(…, shard=0)"}
	case as.Format == "model":
		if linear, ok := m.Model.(*model.Linear); ok && l.online != nil {
			m = served.New(linear.Compact(), l.record)
		}
		err = m.Encode(&b)
	default:
		_, err = export.Write(&b, m, as.Format, policy)
	}
	return answer{payload: b.Bytes()}, err
}

// shardsMark begins the shards of a group as one file: after it, each shard is its size (uint64) and its file.
const shardsMark = "blankout shards\n"

// encodeShards writes all models of a set, for decodeModel.
func encodeShards(to *bytes.Buffer, m *served.Model) error {
	to.WriteString(shardsMark)
	for _, shard := range m.Shards() {
		if shard == nil {
			continue
		}
		var b bytes.Buffer
		if err := shard.Encode(&b); err != nil {
			return err
		}
		to.Write(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())))
		to.Write(b.Bytes())
	}
	return nil
}

// decodeModel returns the model in the bytes of a file, or of encodeShards.
func decodeModel(data []byte) (*served.Model, error) {
	rest, several := bytes.CutPrefix(data, []byte(shardsMark))
	if !several {
		return served.Decode(data)
	}
	var shards []*served.Model
	for len(rest) > 0 {
		if len(rest) < 8 || binary.LittleEndian.Uint64(rest) > uint64(len(rest)-8) {
			return nil, fmt.Errorf("%w: a shard is shorter than it says", checkpoint.ErrDamaged)
		}
		end := 8 + binary.LittleEndian.Uint64(rest)
		m, err := served.Decode(rest[8:end])
		if err != nil {
			return nil, err
		}
		if m.Shard == nil || shards != nil && len(shards) != m.Shard.Shards {
			return nil, fmt.Errorf("%w: a model of another set of shards", checkpoint.ErrDamaged)
		}
		if shards == nil {
			shards = make([]*served.Model, m.Shard.Shards)
		}
		shards[m.Shard.Number], rest = m, rest[end:]
	}
	if shards == nil {
		return nil, fmt.Errorf("%w: no shard", checkpoint.ErrDamaged)
	}
	return served.NewSet(shards), nil
}
