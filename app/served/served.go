// Package served makes predictions with a learner's model. It reads the model from a learner's server, a checkpoint or
// a model file. Packages next to this one add other sources, for example a topic of snapshots (served/kafka). A
// prediction needs no server; [Follow] follows the newer models of a learner. Your program contains no Kafka client
// unless you import served/kafka.
//
//	m, err := served.Open(ctx, "http://127.0.0.1:8642", served.Options{})
//	p, err := m.Predict([]byte(`{"words": ["a", "fine", "day"]}`), 0)
package served

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// Model is a model and the format of its events. It is immutable after the first prediction, and safe for concurrent
// use.
type Model struct {
	model.Model
	*model.Head               // head of the Model
	Version     uint64        // increases with time; 0 for a file that was not published
	Offsets     event.Offsets // position up to which the stream is learned; nil without a stream
	At          time.Time     // time of publication; zero if not published
	Learner     string        // name of the learner, if a stream has several; else ""
	// Record is the format of events. A snapshot or checkpoint contains it. A model trained from files does not, and
	// gets the defaults. Record may be set before the first prediction.
	Record record.Config
	// Recorded means that the model's file contained Record.
	Recorded bool
	// Shard describes a model of one of several shards; nil for others. See NewSet.
	Shard *ShardInfo

	set  *set      // nil for a single model
	idle sync.Pool // idle decoders (*decoder)
	name func() func(column uint32) string
}

// The blocks that a published model has in addition to the blocks of a model file. A checkpoint also has the first two
// of these blocks.
const (
	blockOffsets  = "offsets"     // JSON of an event.Offsets
	blockSettings = "fingerprint" // JSON of record.Config.Settings
	blockSnapshot = "snapshot"    // JSON of a snapshot
)

type snapshot struct {
	Version uint64    `json:"version"`
	At      time.Time `json:"published"`
	Learner string    `json:"learner,omitempty"`
	*ShardInfo
}

// New returns a Model for events in the format recordConfig.
func New(m model.Model, recordConfig record.Config) *Model {
	head := m.About()
	return &Model{Model: m, Head: head, Record: recordConfig, name: sync.OnceValue(head.Schema.Namer)}
}

// Reading returns the Model for events in another format.
func (m *Model) Reading(c record.Config) *Model {
	return &Model{Model: m.Model, Head: m.Head, Version: m.Version, Offsets: m.Offsets, At: m.At, Learner: m.Learner, Record: c, Recorded: m.Recorded, Shard: m.Shard, set: m.set, name: m.name}
}

// Decode decodes a Model from the bytes of a snapshot, checkpoint or model file.
func Decode(data []byte) (*Model, error) { return Options{}.Decode(data) }

// Decode is the function Decode with the Record and Missing of the Options.
func (o Options) Decode(data []byte) (*Model, error) {
	file, err := checkpoint.Decode(data)
	if err != nil {
		return nil, err
	}
	return o.FromFile(file)
}

// FromFile returns the Model of a decoded file, with the Record and Missing of the Options.
func (o Options) FromFile(file *checkpoint.File) (*Model, error) {
	recordConfig := cmp.Or(o.Record, new(record.DefaultConfig()))
	var trained model.Model
	var err error
	if file.Kind == checkpoint.Kernel {
		trained, err = kernel.ReadModel(file.Blocks)
	} else {
		trained, err = model.ReadLinear(file.Blocks)
	}
	if err != nil {
		return nil, err
	}
	m := New(trained, *recordConfig)
	var settings map[string]string
	var s snapshot
	for name, to := range map[string]any{blockOffsets: &m.Offsets, blockSettings: &settings, blockSnapshot: &s} {
		block, err := file.Block(name)
		if err != nil {
			continue // not in every file: a model file has none, and a checkpoint has no snapshot
		}
		if err := json.Unmarshal(block, to); err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
	}
	m.Version, m.At, m.Learner, m.Shard = s.Version, s.At, s.Learner, s.ShardInfo
	if m.Shard == nil {
		m.Shard = shardOf(settings)
	} else if !m.Shard.valid() {
		return nil, fmt.Errorf("%w: block %s: shard %d of %d", checkpoint.ErrDamaged, blockSnapshot, m.Shard.Number, m.Shard.Shards)
	}
	if settings != nil {
		if m.Record, err = record.ParseSettings(settings); err != nil {
			return nil, fmt.Errorf("block %s: %w", blockSettings, err)
		}
		m.Record.Registry, m.Recorded = recordConfig.Registry, true
	}
	m.ForceMissing(o.Missing)
	return m, nil
}

// The settings that a shard's checkpoint has in its fingerprint.
const settingShard, settingShards = "group.shard", "group.shards"

// Settings returns the settings of a shard that are part of its checkpoint's fingerprint.
func (s *ShardInfo) Settings() map[string]string {
	return map[string]string{settingShard: strconv.Itoa(s.Number), settingShards: strconv.Itoa(s.Shards)}
}

// shardOf returns the ShardInfo in the settings of a checkpoint, or nil.
func shardOf(settings map[string]string) *ShardInfo {
	number, err := strconv.Atoi(settings[settingShard])
	shards, err2 := strconv.Atoi(settings[settingShards])
	if s := (&ShardInfo{Number: number, Shards: shards}); err == nil && err2 == nil && s.valid() {
		return s
	}
	return nil
}

// MaxShards is the largest number of shards. Each member of a group keeps the models of all shards in memory.
const MaxShards = 256

func (s *ShardInfo) valid() bool {
	return 0 <= s.Number && s.Number < s.Shards && s.Shards <= MaxShards
}

// Encode writes the Model in the format that Decode reads.
func (m *Model) Encode(w io.Writer) error {
	kind, blocks, err := m.Blocks()
	if err != nil {
		return err
	}
	return checkpoint.Write(w, kind, blocks)
}

// WriteFile writes the Model to path, and replaces an existing file as checkpoint.WriteFile does.
func (m *Model) WriteFile(path string) error {
	kind, blocks, err := m.Blocks()
	if err != nil {
		return err
	}
	return checkpoint.WriteFile(path, kind, blocks)
}

// Blocks returns the kind and the blocks of the Model's file.
func (m *Model) Blocks() (checkpoint.Kind, iter.Seq[event.Block], error) {
	model, err := m.EachBlock()
	if err != nil {
		return "", nil, err
	}
	var blocks []event.Block
	add := func(name string, data any) {
		if err == nil {
			var b event.Block
			b, err = event.JSONBlock(name, data)
			blocks = append(blocks, b)
		}
	}
	settings := m.Record.Settings()
	if m.Shard != nil {
		maps.Copy(settings, m.Shard.Settings())
	}
	add(blockSettings, settings)
	if m.Version > 0 || len(m.Offsets) > 0 { // the model is from a stream
		add(blockOffsets, m.Offsets)
		add(blockSnapshot, snapshot{m.Version, m.At, m.Learner, m.Shard})
	}
	if err != nil {
		return "", nil, err
	}
	return checkpoint.Kind(m.Kind()), event.JoinBlocks(slices.Values(blocks), model), nil
}

// Prediction is the prediction of a model for an event.
type Prediction struct {
	ID string `json:"id,omitempty"` // id of the event, if it has one
	// Value is the predicted value for regression (loss.IsRegression). Low and High bound its interval with coverage
	// 0.9, or learner.coverage, if the model has residuals (model.Head.Interval). If there are two classes and numbers
	// were imputed, Low and High bound Probability (model.Linear.ChanceInterval).
	Value *float64 `json:"value,omitempty"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
	// Class is the predicted class, and Probability its probability; both are absent for regression.
	Class       string  `json:"class,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	// Probabilities has the probabilities of all classes.
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
	// Set is the prediction set (model.Head.Set), the most probable class first; nil if the model has no limits.
	Set []string `json:"set,omitempty"`
	// Score is the score of Class or of Value; with two classes it is the score of the second class. Scores has the
	// scores of all outputs: one for two classes and for regression.
	Score  float64   `json:"score"`
	Scores []float64 `json:"scores"`
	// Missing names the missing fields: null, or usual and absent. MissingPolicy is the policy with the largest weight
	// in the scores.
	Missing       []string `json:"missing,omitempty"`
	MissingPolicy string   `json:"missing_policy,omitempty"`
	// MixtureWeights are the weights of the policies in the scores, if an explanation was requested and fields are
	// missing.
	MixtureWeights map[string]float64 `json:"mixture_weights,omitempty"`
	// Stuck names the fields in Missing that have the value at which they are stuck (model.Faults).
	Stuck []string `json:"stuck,omitempty"`
	// Doubted has the numbers that count as missing because they are hardly measurements (model.Doubt).
	Doubted []DoubtedReading `json:"doubted,omitempty"`
	// NoiseLevel is the noise with which the weights were learned, in the syntax of loss.ParseNoise, but without rates
	// of single groups (loss.ShortNoise). For a learner with noise auto it is the noise level with the largest mixture
	// weight.
	NoiseLevel string `json:"noise_level,omitempty"`
	Version    uint64 `json:"version,omitempty"` // version of the Model
	Learner    string `json:"learner,omitempty"` // name of the learner, if a stream has several
	Shards     int    `json:"shards,omitempty"`  // number of shards that predicted, if the learner is divided
	// Unseen names up to twenty features that the model has not seen. These features add nothing to the score. The
	// score of an event with only such features is the intercept.
	Unseen []string `json:"unseen,omitempty"`
	// OnlyUnseen means that the event has features, and the model has seen none of them.
	OnlyUnseen bool `json:"-"`
	// Explanation has the largest contributions to the score of Class, the largest first, if requested. If there are
	// two classes, it explains the score of the positive class.
	Explanation []Contribution `json:"explanation,omitempty"`
}

// DoubtedReading is a number that is probably no measurement.
type DoubtedReading struct {
	Field       string  `json:"field"` // name of the field or column
	Value       float64 `json:"value"`
	Expected    float64 `json:"expected"`    // what the other numbers of the event predict
	Probability float64 `json:"probability"` // probability that the number is no measurement
	Reason      string  `json:"reason"`      // repeated or contradicts
}

// Contribution is the contribution of one feature to a score: its standardized value times its weight.
type Contribution struct {
	Feature string  `json:"feature"` // name in the event, or InterceptName
	Value   float64 `json:"value"`
	Weight  float64 `json:"weight"`
	Score   float64 `json:"score"`
}

// InterceptName is the name of the intercept among features. DenseName and CosinesName are the names of the contributions
// of imputation and of the cosines
// (see model.Explanation).
const InterceptName, DenseName, CosinesName = "(intercept)", "(imputed)", "(cosines)"

const maxUnknown = 20 // largest length of Prediction.Unseen

// decoder decodes for one prediction at a time, and reuses its memory.
type decoder struct {
	record.Decoder
	schema  *event.Schema
	example event.Example
	left    event.Example // scratch memory for Declare
	names   *EventNames   // created when needed
	scores  []float64
	chances []float64
}

// Predict decodes and scores an event: one record as in the learner's stream. If the stream uses a schema registry or
// CSV, the event may also be JSON with the same fields. Predict ignores a label. It also returns the largest
// contributions to the score, unless Explains returns an error; explain is their number. The error is an *event.Refusal
// if the event cannot be used.
func (m *Model) Predict(event []byte, explain int) (Prediction, error) {
	return m.PredictRecord(context.Background(), record.Record{Value: event}, explain)
}

// PredictRecord is Predict for a record with a key and a time. If it must fetch a schema from a registry that does not
// respond, it waits until ctx ends.
func (m *Model) PredictRecord(ctx context.Context, r record.Record, explain int) (Prediction, error) {
	if m.set != nil {
		return m.predictSet(ctx, r, explain)
	}
	if explain > 0 {
		if err := m.Explains(); err != nil {
			return Prediction{}, err
		}
	}
	d, err := m.decoder()
	if err != nil {
		return Prediction{}, err
	}
	defer m.idle.Put(d)
	e := &d.example
	if err := d.Decode(ctx, r, e); err != nil {
		return Prediction{}, err
	}
	if refusal := e.Refused; refusal != nil {
		return Prediction{}, &event.Refusal{Reason: refusal.Reason, Detail: refusal.Detail, Value: slices.Clone(refusal.Value)}
	}
	came := e
	e = m.Declare(came, &d.left)
	scores, doubted := m.score(e, d.scores)
	p, class := m.prediction(e, scores, d.chances)
	p.Doubted = doubted
	return p, m.nameFeatures(&p, came, e, class, explain, r.Value, d.schema, func() (_ *EventNames, err error) {
		if d.names == nil {
			d.names, err = m.NewEventNames(m.Record)
		}
		return d.names, err
	})
}

// decoder returns an idle decoder, which the caller puts back.
func (m *Model) decoder() (*decoder, error) {
	if d, ok := m.idle.Get().(*decoder); ok {
		return d, nil
	}
	inner, schema, err := m.newDecoder(m.Record)
	if err != nil {
		return nil, err
	}
	return &decoder{Decoder: inner, schema: schema, scores: make([]float64, max(m.Outputs, len(m.Schema.Classes))), chances: make([]float64, max(2, m.Outputs, len(m.Schema.Classes)))}, nil
}

// nameFeatures sets the fields of a prediction that name features: the stuck and unseen features, and the largest
// contributions to the score of a class. The event came was decoded from value with the Schema s. The model scored it as
// e, see Declare.
func (m *Model) nameFeatures(p *Prediction, came, e *event.Example, class, explain int, value []byte, s *event.Schema, names func() (*EventNames, error)) error {
	p.Stuck = m.StuckFields(came)
	features, known := m.unknown(came)
	unknown := len(features)
	p.OnlyUnseen = unknown > 0 && !known
	var why []contribution
	if explain > 0 {
		answer := m.Handling(e)
		if p.MissingPolicy != "" {
			p.MixtureWeights = map[string]float64{}
			for policy, weight := range answer.ByPolicy() {
				p.MixtureWeights[string(policy)] = weight
			}
		}
		why = explained(m.Model.(*model.Linear), answer, e, class, explain)
	}
	if unknown+len(why) == 0 {
		return nil
	}
	for _, c := range why {
		if c.isFeature {
			features = append(features, c.feature)
		}
	}
	own, err := names()
	if err != nil {
		return err
	}
	named, err := own.Of(value, s, features)
	if err != nil {
		return err
	}
	for i := range unknown {
		p.Unseen = append(p.Unseen, joinNames(named[i]))
	}
	named = named[unknown:]
	for _, c := range why {
		if c.isFeature {
			c.Feature, named = joinNames(named[0]), named[1:]
		}
		p.Explanation = append(p.Explanation, c.Contribution)
	}
	return nil
}

// newDecoder returns a decoder of events, and the Schema that the decoder extends.
func (m *Model) newDecoder(c record.Config) (record.Decoder, *event.Schema, error) {
	schema := m.Schema.Clone()
	schema.Names = nil                 // predictions do not need names
	c.Unlabeled, c.Infer = true, false // the learner alone decides how values are read
	inner, err := newEventDecoder(c, schema)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding events: %w", err)
	}
	return inner, schema, nil
}

func newEventDecoder(c record.Config, s *event.Schema) (record.Decoder, error) {
	if !c.HasSchemas() && c.Format != "csv" {
		return record.NewDecoder(c, s)
	}
	plain := c
	plain.Format = "json"
	json, err := record.NewDecoder(plain, s)
	switch {
	case err != nil || c.HasSchemas() && c.Registry == nil || !c.HasSchemas() && len(c.Columns) == 0: // the columns are unknown
		return json, err
	case c.HasSchemas():
		wire, err := record.NewDecoder(c, s)
		return &eventDecoder{json, wire, func(event []byte) bool { return event[0] != 0 }}, err
	}
	csv, err := record.NewDecoder(c, s)
	return &eventDecoder{json, csv, func(event []byte) bool { return event[0] == '{' }}, err
}

// eventDecoder decodes events as in the stream (with a schema registry, or as lines of CSV) and also as JSON, which
// people and services send.
type eventDecoder struct {
	json, stream record.Decoder
	isJSON       func(event []byte) bool // the event is never empty
}

func (d *eventDecoder) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	if len(r.Value) > 0 && d.isJSON(r.Value) {
		return d.json.Decode(ctx, r, e)
	}
	return d.stream.Decode(ctx, r, e)
}

// Feature is a column and the field of the event that it belongs to, or 0 if the event does not have it.
type Feature struct {
	Column uint32
	Field  uint16
	Known  bool // the model has seen the column
}

// unknown returns at most maxUnknown features of an event that the model has not seen. known reports whether the model
// has seen at least one feature of the event.
func (m *Model) unknown(e *event.Example) (out []Feature, known bool) {
	known = m.EachUnseen(e, func(f Feature) {
		if len(out) < maxUnknown {
			out = append(out, f)
		}
	})
	return out, known
}

// EachUnseen calls f for every feature of an event that the model has not seen. It reports whether the model has seen
// at least one feature of the event. A kernel machine counts every feature as seen.
func (m *Model) EachUnseen(e *event.Example, f func(Feature)) (known bool) {
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return true
	}
	for i, column := range e.Features.Index {
		if linear.Rows.Row(column) != nil {
			known = true
			continue
		}
		feature := Feature{Column: column}
		if len(e.Field) > 0 {
			feature.Field = e.Field[i]
		}
		f(feature)
	}
	return known
}

// UnseenFeaturesError reports that the model has seen no feature of an event. The score is then the intercept.
type UnseenFeaturesError struct {
	Features []string // names of the features
	Empty    bool     // the model has not learned any event
}

func (e *UnseenFeaturesError) Error() string {
	if e.Empty {
		return "the model has not learned any event yet"
	}
	return "the model has seen no feature of the event: " + strings.Join(e.Features, ", ")
}

// UnseenError returns the error for an event in which m has seen no feature. features are the names of the features, as
// in Prediction.Unseen.
func (m *Model) UnseenError(features []string) *UnseenFeaturesError {
	out := &UnseenFeaturesError{Empty: m.Events == 0}
	for _, name := range features {
		field, _, isText := strings.Cut(name, "=")
		out.Features = append(out.Features, name+otherKind(m.Schema.Fields, field, !isText))
	}
	return out
}

// otherKind returns a note for an error if fields has a field of the given name, numeric in place of another kind or the
// reverse. Otherwise it returns "".
func otherKind(fields []event.Field, name string, numeric bool) string {
	i := slices.IndexFunc(fields, func(f event.Field) bool { return f.Name == name && (f.Kind == event.Numeric) != numeric })
	if i < 0 || name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s is %v in the model)", name, fields[i].Kind)
}

// OnlyUnseen returns an *UnseenFeaturesError if the model has seen no feature of an event of the Schema s. It returns
// nil for an event without features. The error names fields, or columns if there is no field.
func (m *Model) OnlyUnseen(e *event.Example, s *event.Schema) error {
	unknown, known := m.unknown(e)
	if known || len(unknown) == 0 {
		return nil
	}
	out := &UnseenFeaturesError{Empty: m.Events == 0}
	for _, f := range unknown {
		field := s.Fields[f.Field]
		name := field.Name
		if name == "" {
			name = m.name()(f.Column)
		} else {
			name += otherKind(s.Fields, name, field.Kind == event.Numeric)
		}
		if !slices.Contains(out.Features, name) {
			out.Features = append(out.Features, name)
		}
	}
	return out
}

// EventNames finds the names of the features in one event. A model's dictionary does not suffice, because it may have
// names of other events that share a column. An EventNames belongs to one goroutine.
type EventNames struct {
	model *Model
	again record.Decoder // decodes an event again, to find its names
	// schema is the Schema that the decoder in the field again extends.
	schema  *event.Schema
	example event.Example
}

// NewEventNames returns an EventNames for events in the format c.
func (m *Model) NewEventNames(c record.Config) (*EventNames, error) {
	n := &EventNames{model: m}
	if c.Format == "svmlight" && m.Schema.NumericIndices {
		return n, nil // a column is named by its number
	}
	var err error
	n.again, n.schema, err = m.newDecoder(c)
	return n, err
}

// Of returns the names of an event's features, given its record and the Schema with which it was decoded. If several
// features of the event share a column, it returns several names, the name of the Feature's field first.
func (n *EventNames) Of(value []byte, s *event.Schema, features []Feature) ([][]string, error) {
	own := map[uint32][]string{} // names by column
	if n.again != nil {
		for _, f := range features {
			own[f.Column] = nil
		}
		n.schema.Names = event.NewNames(1 << 16)
		if err := n.again.Decode(context.Background(), record.Record{Value: value}, &n.example); err != nil {
			return nil, err
		}
		n.schema.EachName(func(column uint32, name string) {
			if at, wanted := own[column]; wanted {
				own[column] = append(at, name)
			}
		})
	}
	names := make([][]string, len(features))
	for i, f := range features {
		names[i] = n.model.nameOf(f, own[f.Column], s)
	}
	return names, nil
}

// nameOf returns the names of a feature of an event. If the feature has names in the event, nameOf returns these names.
// Otherwise they are the name of its numeric field, or its names in the model's dictionary. s is the event's Schema.
func (m *Model) nameOf(f Feature, own []string, s *event.Schema) []string {
	field := s.Fields[f.Field]
	isNumber := field.Kind == event.Numeric
	switch {
	case isNumber && !slices.Contains(own, field.Name):
		return append([]string{field.Name}, own...)
	case len(own) > 0:
		other := func(name string) int {
			if name == field.Name || strings.HasPrefix(name, field.Name+"=") {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(own, func(a, b string) int { return other(a) - other(b) })
		return own
	case field.Kind == event.Cross:
		return []string{field.Name}
	case f.Field > 0 && !f.Known:
		return []string{field.Name + "=#" + strconv.FormatUint(uint64(f.Column), 10)}
	}
	return []string{m.name()(f.Column)}
}

func joinNames(names []string) string { return strings.Join(names, " | ") }

// PredictionOf returns the prediction for an event of the Schema s with the given scores and doubted readings, which may
// be nil. The event must have its Value. The prediction lists at most explain contributions, see Predict; if explain is
// above 0, Explains must return nil.
func (m *Model) PredictionOf(e *event.Example, s *event.Schema, scores []float64, doubted *model.Doubted, names *EventNames, explain int) (Prediction, error) {
	scored := m.Declare(e, &event.Example{})
	p, class := m.prediction(scored, scores, make([]float64, max(2, m.Outputs, len(m.Schema.Classes))))
	p.Doubted = m.DoubtedReadings(doubted)
	return p, m.nameFeatures(&p, e, scored, class, explain, e.Value, s, func() (*EventNames, error) { return names, nil })
}

// ColumnName returns the name of a column, as in the stream.
func (m *Model) ColumnName(column uint32) string { return m.name()(column) }

// score returns the scores of an event, and its doubted readings.
func (m *Model) score(e *event.Example, out []float64) ([]float64, []DoubtedReading) {
	linear, ok := m.Model.(*model.Linear)
	if !ok {
		return m.Score(e, out), nil
	}
	scores, x := linear.ScoreDoubted(e, out)
	return scores, m.DoubtedReadings(x)
}

// DoubtedReadings lists the readings that count as missing because they are doubted. x may be nil.
func (m *Model) DoubtedReadings(x *model.Doubted) (doubted []DoubtedReading) {
	if x == nil {
		return nil
	}
	for _, r := range x.Readings {
		if r.Probability <= model.DoubtGone {
			continue
		}
		doubted = append(doubted, DoubtedReading{m.ColumnName(r.Column), r.Value, r.Expected, r.Probability, string(r.Reason)})
	}
	return doubted
}

func (m *Model) prediction(e *event.Example, scores, chances []float64) (p Prediction, class int) {
	answer := m.Handling(e)
	p = Prediction{ID: string(e.Key), Scores: slices.Clone(scores), NoiseLevel: loss.ShortNoise(m.NoiseOf(answer)), Version: m.Version, Learner: m.Learner}
	if p.MissingPolicy = string(answer.Policy()); p.MissingPolicy != "" {
		p.Missing = m.MissingFields(e)
	}
	class = m.Head.Predict(scores)
	p.Score = scores[min(class, len(scores)-1)]
	if loss.IsRegression(m.Loss) {
		value := m.Value(scores[0])
		p.Value = &value
		if low, high := m.Interval(value, model.ScoreVariance(m.Model, e)); low <= high {
			p.Low, p.High = &low, &high
		}
		return p, class
	}
	chances = m.Probabilities(scores, chances)
	p.Class, p.Probability = m.className(class), chances[class]
	if l, linear := m.Model.(*model.Linear); linear && answer.Roles != nil {
		if low, high, known := l.ChanceInterval(e); known {
			if class == 0 {
				low, high = 1-high, 1-low
			}
			p.Low, p.High = &low, &high
		}
	}
	shown := max(2, min(len(chances), len(m.Schema.Classes)))
	p.Probabilities = make(map[string]float64, shown)
	for k, chance := range chances[:shown] {
		p.Probabilities[m.className(k)] = chance
	}
	set, _ := m.Head.Set(answer, chances[:shown], class)
	for _, k := range set {
		p.Set = append(p.Set, m.className(k))
	}
	return p, class
}

// Explains returns nil if the Model's scores are sums over features, so that Predict can explain them. Otherwise it
// returns an error with the reason.
func (m *Model) Explains() error {
	switch _, linear := m.Model.(*model.Linear); {
	case !linear:
		return fmt.Errorf("a %v cannot say what a feature adds to a score", m.Model)
	case m.Pairs:
		return errors.New("a one-against-one model cannot say what a feature adds to the score of a class")
	}
	return nil
}

// contribution is a Contribution without a name.
type contribution struct {
	Contribution
	feature   Feature
	isFeature bool
}

// explained returns the largest contributions to the score of a class. answer is how m scores e.
func explained(m *model.Linear, answer model.MissingHandling, e *event.Example, class, most int) []contribution {
	intercepts := m.At(answer).Intercept
	intercept := intercepts[0]
	if m.Outputs == 1 {
		class = 1
	} else {
		intercept = intercepts[class]
	}
	all := []contribution{{Contribution: Contribution{InterceptName, 1, intercept, intercept}}}
	if answer.Roles != nil || m.Cosines != nil {
		x := m.Explain(e, class)
		if answer.Roles != nil {
			all = append(all, contribution{Contribution: Contribution{DenseName, 1, x.Imputed, x.Imputed}})
		}
		if x.Cosines != 0 {
			all = append(all, contribution{Contribution: Contribution{CosinesName, 1, x.Cosines, x.Cosines}})
		}
	}
	least := 0.0 // smallest absolute value among the largest contributions
	cut := func() {
		slices.SortStableFunc(all, func(a, b contribution) int { // ties stay in the order of columns
			return cmp.Compare(math.Abs(b.Score), math.Abs(a.Score))
		})
		all = all[:min(most, len(all))]
		least = math.Abs(all[len(all)-1].Score)
	}
	for t := range m.Terms(e, class) {
		if size := math.Abs(t.Contribution); size == 0 || size < least {
			continue
		}
		all = append(all, contribution{Contribution{"", t.Value, t.Weight, t.Contribution}, Feature{t.Column, t.Field, t.Known}, true})
		if len(all) == 2*most+1 { // limits the memory for an event with many features
			cut()
		}
	}
	cut()
	return all
}

// className returns the name of a class, or its number if it has no name yet.
func (m *Model) className(class int) string {
	if class < len(m.Schema.Classes) && m.Schema.Classes[class] != "" {
		return m.Schema.Classes[class]
	}
	return strconv.Itoa(class)
}

// IsRefused reports whether an error of Predict is due to the event.
func IsRefused(err error) bool {
	return errors.As(err, new(*event.Refusal))
}
