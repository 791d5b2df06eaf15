// Package record decodes events from records: JSON, svmlight, VW text, CSV, idx images and records with a schema.
//
// A [Scanner] splits the text of a file into records. In a topic records are already separate. A [Decoder] implements
// one format and decodes records from any source to Examples. A record that cannot be used is not an error: it becomes
// an Example with Refused set.
package record

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream/record/notation"
	"blankout/stream/registry"

	"github.com/cespare/xxhash/v2"
)

// Record is one record of a topic or one line of a file. Its source owns the bytes.
type Record struct {
	Key, Value []byte
	Offset     int64
	Time       int64 // milliseconds since the Unix epoch, 0 if unknown
	Unlabeled  bool  // whether to ignore the label in the record
	// Label is the text of a label that is passed separately. The record must then contain no label.
	Label []byte
	Cut   bool // set if Value is only the start of a line longer than max_bytes
	// Headers are the unparsed headers of a record of a topic; nil for a file.
	Headers []byte
}

// RestSkipped ends the detail of a refused line of which only the start is kept.
const RestSkipped = "its rest is skipped"

// Decoder decodes records of one format into Examples. It adds new fields, classes and names to its Schema. It belongs
// to one goroutine.
type Decoder interface {
	// Decode fills e from r. It reuses e's slices and allocates nothing once fields and names are known. Key, Value and
	// Refused.Value borrow r's bytes. The source sets e.Fingerprint.
	//
	// A record that cannot be used gets e.Refused and is not an error. An error means that ctx ended while Decode
	// waited, for example for a schema from a registry. Then r is not decoded, and the reader must pass it again.
	Decode(ctx context.Context, r Record, e *event.Example) error
}

// DecodeOwned decodes a record. Unlike Decoder.Decode, it copies what e would borrow from r.
func DecodeOwned(ctx context.Context, d Decoder, r *Record, e *event.Example) error {
	key, value := e.Key[:0], e.Value[:0]
	if err := d.Decode(ctx, *r, e); err != nil {
		return err
	}
	if e.Key != nil {
		e.Key = append(key, e.Key...)
	}
	if e.Value != nil {
		e.Value = append(value, e.Value...)
	}
	if e.Refused != nil {
		e.Refused.Value = slices.Clone(e.Refused.Value)
	}
	return nil
}

// Config determines how records are decoded: the section [record] of the configuration. config/blankout.toml explains
// each key.
type Config struct {
	Format string `toml:"format"` // json, svmlight, vw or csv; "" selects by the file name
	// Label, Weight, ID and Time name the JSON and CSV fields with the class, the importance, the ID and the time of
	// the event. The time is in milliseconds since the Unix epoch, or an RFC 3339 string. Dots name a nested field, as
	// in meta.label. "" means that there is no such field.
	Label  string `toml:"label"`
	Weight string `toml:"weight"`
	ID     string `toml:"id"`
	Time   string `toml:"time"`
	// Drop lists fields that are not features. A dropped object includes all fields in it.
	Drop []string `toml:"drop"`
	// Categorical lists fields whose numbers are category names, such as postcodes.
	Categorical []string `toml:"categorical"`
	// Text lists fields whose strings are texts. A text becomes a bag of its lowercase words, and of every sequence of
	// up to Ngrams words.
	Text   []string `toml:"text"`
	Ngrams int      `toml:"ngrams"`
	// Groups lists fields that fail together, by the name of the group. For the sparse text formats, which have no
	// fields, it lists columns and ranges of columns, as in 1-8.
	Groups map[string][]string `toml:"groups"`
	// GroupEvery divides the columns of a sparse text format into groups of this size, from its first index on. 0 makes
	// no groups.
	GroupEvery uint32 `toml:"-"`
	// Unlabeled ignores the labels.
	Unlabeled bool `toml:"-"`

	// The settings that determine the columns of names, and the classes, are stored in the Schema of a new model. The
	// Schema of an existing model takes precedence.
	Bits           uint   `toml:"bits"`            // names are hashed to 2^bits columns
	Seed           uint64 `toml:"seed"`            // seed of the hash of names
	NumericIndices bool   `toml:"numeric_indices"` // svmlight indices, and numeric names in VW's anonymous namespace, are columns
	ZeroBased      bool   `toml:"zero_based"`      // svmlight indices start at 0
	// Absent determines the meaning of an omitted value, see event.Schema.
	Absent     string      `toml:"absent"`
	Crosses    [][2]string `toml:"crosses"` // pairs of fields whose products are features
	Classes    []string    `toml:"classes"` // all classes; empty means to learn up to max_classes
	Target     loss.Target `toml:"-"`       // kind of the labels; it follows from the loss, not from a key
	Counts     bool        `toml:"-"`       // refuse negative features, because the noise requires counts
	MaxClasses int         `toml:"max_classes"`
	// Positive names the positive class of two, see PositiveName.
	Positive string `toml:"positive"`
	MaxNames int    `toml:"max_names"` // capacity of the dictionary of names for reports

	// Infer reads strings that look like free text as words, and dates and growing epochs as times, see event.Reading.
	Infer bool `toml:"infer"`
	// NaN determines how a NaN or infinite number in JSON, CSV or a record with a schema is handled. The number is
	// missing, as null is, or the record is refused.
	NaN string `toml:"nan"`

	// Records beyond these limits are refused.
	MaxFeatures int `toml:"-"`
	MaxBytes    int `toml:"max_bytes"`
	// MaxFields is the largest number of separate fields. Later fields are part of field 0, but still have their own
	// columns.
	MaxFields int `toml:"-"`

	// For CSV: Columns names the columns if there is no header line, as in a topic. Missing lists the values that mean
	// unknown.
	Columns   []string `toml:"columns"`
	Missing   []string `toml:"missing"`
	Separator string   `toml:"separator"`
	// Decimal and Thousands are the notation of numbers in texts, see notation.Notation. If either is not the default,
	// texts in that notation are numbers, including JSON strings.
	Decimal   string `toml:"decimal"`
	Thousands string `toml:"thousands"`
	// Timezone is the time zone of times that state none, and of the hour and weekday of TimeFeatures. TimeFeatures
	// lists fields whose hour, weekday and age are features.
	Timezone     string   `toml:"timezone"`
	TimeFeatures []string `toml:"time_features"`

	// Growing ignores the last line of a file until a newline ends it, because a program may still be writing it. A
	// complete JSON object is not ignored. Growing applies to plain regular files only.
	Growing bool `toml:"-"`
	// Registry provides the schemas for formats that need them.
	Registry *registry.Client `toml:"-"`
	// KeepValue keeps the bytes of every record in Example.Value.
	KeepValue bool `toml:"-"`
}

// DefaultMaxClasses is the largest number of classes if the configuration names none.
const DefaultMaxClasses = 100

// DefaultConfig returns the default settings: JSON with the field "label" as the class.
func DefaultConfig() Config {
	return Config{
		Label:          "label",
		Ngrams:         1,
		Bits:           22,
		NumericIndices: true,
		Absent:         event.AbsentAuto,
		MaxClasses:     DefaultMaxClasses,
		Infer:          true,
		NaN:            nanMissing,
		MaxNames:       1 << 16,
		MaxFeatures:    100_000,
		MaxBytes:       16 << 20,
		MaxFields:      1 << 14,
		Missing:        []string{"", "NA", "null"},
		Separator:      ",",
		Decimal:        notation.Plain.Decimal,
		Timezone:       utc,
	}
}

// utc is the default value of Config.Timezone.
const utc = "UTC"

// The valid values of Config.NaN.
const (
	nanMissing = "missing"
	nanRefuse  = "refuse"
)

// maxMagnitude is the largest absolute value of a number in a record, so that squares and products of a few numbers do
// not overflow.
const maxMagnitude = 1e30

// maxWeight is the largest importance of an event, so that a single extreme event cannot dominate the measures.
const maxWeight = 1e6

// maxNameBytes is the largest stored length of the name of a field or class. A field with a longer name is treated as a
// field beyond max_fields. A longer label is refused.
const maxNameBytes = event.MaxNameBytes

// maxFieldBytes is the largest length of a field name. A record with a longer name is refused.
const maxFieldBytes = 4096

type format struct {
	name     string
	suffixes []string // suffixes of file names
	new      func(core) (Decoder, error)
	framing  framing // how text is split into records; formats without text are for topics only
}

// formatNamed returns the format with a name, or nil.
func formatNamed(name string) *format {
	if i := slices.IndexFunc(formats, func(f format) bool { return f.name == name }); i >= 0 {
		return &formats[i]
	}
	return nil
}

// formats lists the record formats, the default first. To add a format, write a new file in this package and a line
// here.
var formats = []format{
	{"json", []string{".json", ".jsonl", ".ndjson", ".parquet"}, newJSON, framing{finished: closedObject}},
	{"svmlight", []string{".svm", ".svmlight", ".libsvm"}, newSvmlight, framing{comment: '#'}},
	{"vw", []string{".vw"}, newVW, framing{}},
	{"csv", []string{".csv", ".tsv"}, newCSV, framing{quotes: true}},
	{"avro", nil, newAvro, framing{none: true}},
	{"protobuf", nil, newProtobuf, framing{none: true}},
	{"json-schema", nil, newJSONSchema, framing{none: true}},
}

// Formats returns the names of the formats.
func Formats() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// FileFormats returns the names of the formats for files.
func FileFormats() []string {
	return slices.DeleteFunc(Formats(), func(name string) bool { return formatNamed(name).framing.none })
}

// FormatName returns c.Format, or the default format.
func (c Config) FormatName() string { return cmp.Or(c.Format, formats[0].name) }

// HasSchemas reports whether the records use the wire format of a schema registry. Only topics can have such records.
func (c Config) HasSchemas() bool {
	f := formatNamed(c.Format)
	return f != nil && f.framing.none
}

// FormatOf returns the format that a file name implies: "idx" for an MNIST pair, or "" for no format. The rows of a
// Parquet file are read as JSON.
func FormatOf(name string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".zst")
	for _, f := range formats {
		if slices.Contains(f.suffixes, filepath.Ext(base)) {
			return f.name
		}
	}
	if strings.Contains(base, "idx") {
		return "idx"
	}
	return ""
}

// Check returns the first error in the configuration, with its key.
func (c Config) Check() error {
	switch {
	case c.Format != "" && !slices.Contains(Formats(), c.Format):
		return event.KeyErrorf("format", "format %q: want one of %s", c.Format, strings.Join(Formats(), ", "))
	case c.Bits < 1 || c.Bits > 31:
		return event.KeyErrorf("bits", "bits %d: want 1 to 31", c.Bits)
	case len(c.Classes) == 1:
		return event.KeyErrorf("classes", "classes %q: want at least two, or none to learn them", c.Classes)
	case len(c.Classes) == 0 && c.MaxClasses < 2:
		return event.KeyErrorf("max_classes", "max_classes %d: want at least 2", c.MaxClasses)
	case c.MaxFields < 1 || c.MaxFields > event.MaxFields:
		return event.KeyErrorf("max_fields", "max_fields %d: want 1 to %d", c.MaxFields, event.MaxFields)
	case c.Absent != "" && c.Absent != event.AbsentAuto && c.Absent != event.AbsentZero && c.Absent != event.AbsentMissing:
		return event.KeyErrorf("absent", "absent %q: want %s, %s or %s", c.Absent, event.AbsentAuto, event.AbsentZero, event.AbsentMissing)
	case c.NaN != nanMissing && c.NaN != nanRefuse:
		return event.KeyErrorf("nan", "nan %q: want %s or %s", c.NaN, nanMissing, nanRefuse)
	case c.MaxFeatures < 1:
		return event.KeyErrorf("max_features", "max_features %d: want at least 1", c.MaxFeatures)
	case c.MaxBytes < 1 || c.MaxBytes > 1<<30:
		return event.KeyErrorf("max_bytes", "max_bytes %d: want 1 to %d", c.MaxBytes, 1<<30)
	case c.MaxNames < 0:
		return event.KeyErrorf("max_names", "max_names %d: want 0 or more", c.MaxNames)
	case len(c.Separator) != 1 || c.Separator == `"` || c.Separator == "\n" || c.Separator == "\r":
		return event.KeyErrorf("separator", "separator %q: want one character that is no quote and no newline", c.Separator)
	}
	for i, name := range c.Classes {
		if name == "" || event.FindClass(c.Classes[:i], name) >= 0 {
			return event.KeyErrorf("classes", "classes %q: empty or twice the same", c.Classes)
		}
	}
	if c.Positive != "" && len(c.Classes) > 0 && event.FindClass(c.Classes, c.Positive) < 0 {
		return event.KeyErrorf("positive", "positive %q: it is not one of classes %q", c.Positive, c.Classes)
	}
	for _, x := range c.Crosses {
		if x[0] == "" || x[1] == "" {
			return event.KeyErrorf("crosses", "crosses %q: want pairs of names of fields", x)
		}
	}
	if err := cmp.Or(c.Notation().Check(), c.checkTimes()); err != nil {
		return err
	}
	special := c.special()
	if c.Ngrams < 0 || c.Ngrams > maxNgrams {
		return event.KeyErrorf("ngrams", "ngrams %d: want 1 to %d", c.Ngrams, maxNgrams)
	}
	if c.Ngrams > 1 && len(c.Text) == 0 {
		return event.KeyErrorf("ngrams", "ngrams %d: needs record.text", c.Ngrams)
	}
	for _, name := range c.Text {
		if slices.Contains(c.Categorical, name) || slices.Contains(c.Drop, name) || slices.Contains(special[:], name) {
			return event.KeyErrorf("text", "text: field %q is also named as label, weight, id, time, drop or categorical", name)
		}
	}
	if err := c.checkGroups(); err != nil {
		return err
	}
	for i, name := range special {
		if name == "" {
			continue
		}
		other := "drop"
		if j := slices.Index(special[:i], name); j >= 0 {
			other = roleKeys[j]
		} else if !slices.Contains(c.Drop, name) {
			continue
		}
		return event.KeyErrorf(roleKeys[i], "%s: field %q is also named by %s", roleKeys[i], name, other)
	}
	names := map[string][]string{"drop": c.Drop, "categorical": c.Categorical, "text": c.Text}
	for i, name := range special {
		names[roleKeys[i]] = []string{name}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		for _, name := range names[key] {
			if len(name) > maxNameBytes {
				return event.KeyErrorf(key, "%s: field %.40q…: want names of up to %d bytes, this one has %d", key, name, maxNameBytes, len(name))
			}
		}
	}
	return nil
}

// Notation returns the notation of numbers in texts.
func (c Config) Notation() notation.Notation {
	return notation.Notation{Decimal: cmp.Or(c.Decimal, notation.Plain.Decimal), Thousands: c.Thousands}
}

// PositiveName returns the name of the positive class of two: the configured class, or the last of two configured
// classes. It returns "" if the classes in the data determine it.
func (c Config) PositiveName() string {
	if c.Positive == "" && len(c.Classes) == 2 {
		return c.Classes[1]
	}
	return c.Positive
}

// checkGroups returns the first error in the groups.
func (c Config) checkGroups() error {
	if c.GroupEvery > 0 && !c.NumericIndices {
		return event.KeyErrorf("groups", "groups every:%d: columns have no order unless numeric_indices is true", c.GroupEvery)
	}
	if c.GroupEvery > 1<<31 {
		return event.KeyErrorf("groups", "groups every:%d: want 0 to %d", c.GroupEvery, 1<<31)
	}
	owner := map[string]string{}
	for _, group := range slices.Sorted(maps.Keys(c.Groups)) {
		if group == "" || len(group) > maxNameBytes {
			return event.KeyErrorf("groups", "groups: the name %.40q: want 1 to %d bytes", group, maxNameBytes)
		}
		for _, name := range c.Groups[group] {
			if other, ok := owner[name]; ok {
				return event.KeyErrorf("groups", "groups: %q is in %q and in %q: put it in one group", name, other, group)
			}
			owner[name] = group
		}
	}
	type span struct {
		event.Span
		group string
	}
	var spans []span
	if columns := c.columnGroups(); columns != nil {
		for _, g := range columns.Named {
			for _, s := range g.Spans {
				spans = append(spans, span{s, g.Name})
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	for i := range spans {
		if i > 0 && spans[i].From < spans[i-1].To {
			return event.KeyErrorf("groups", "groups: %q and %q share a column: put each column in one group", spans[i-1].group, spans[i].group)
		}
	}
	return nil
}

// columnGroups returns the groups of columns in c, or nil if c has no groups.
func (c Config) columnGroups() *event.ColumnGroups {
	g := &event.ColumnGroups{Every: c.GroupEvery}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		n := event.NamedColumns{Name: name}
		for _, member := range c.Groups[name] {
			spans, _ := event.ParseSpans(member, c.ZeroBased) // otherwise member is the name of a field
			n.Spans = append(n.Spans, spans...)
		}
		if len(n.Spans) > 0 {
			g.Named = append(g.Named, n)
		}
	}
	if g.Every == 0 && g.Named == nil || !c.NumericIndices {
		return nil
	}
	return g
}

// Regroup replaces the groups in a Schema by the groups in c.
func (c Config) Regroup(s *event.Schema) {
	c.ZeroBased, c.NumericIndices = s.ZeroBased, s.NumericIndices
	s.ColumnGroups = c.columnGroups()
	s.Fields = slices.Clone(s.Fields) // a View shares the slice and must not change
	for i := range s.Fields {
		s.Fields[i].Group = c.groupOf(s.Fields[i].Name)
	}
}

// groupOf returns the group of a field, or "".
func (c Config) groupOf(field string) string {
	for group, names := range c.Groups {
		if slices.Contains(names, field) {
			return group
		}
	}
	return ""
}

// ReadGroups parses groups, one per line. A line has the name, then the fields or, for a sparse text format, columns
// and ranges of columns. Blanks or commas separate them:
//
//	front 1-8,17
//	engine rpm oil_pressure
//
// Empty lines and text after a # are ignored. The result is a Config.Groups.
func ReadGroups(r io.Reader) (map[string][]string, error) {
	groups := map[string][]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
		switch {
		case len(words) == 0:
		case len(words) == 1:
			return nil, fmt.Errorf("line %d: group %q has no members: want its name and then its columns or fields, as in sensor1 1-8", n, words[0])
		case groups[words[0]] != nil:
			return nil, fmt.Errorf("line %d: group %q is there twice", n, words[0])
		default:
			groups[words[0]] = words[1:]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, errors.New("it names no group: want a line for each, its name and then its columns or fields, as in sensor1 1-8")
	}
	return groups, nil
}

// special returns the names of the fields that are not features, by role.
func (c Config) special() [5]string {
	return [5]string{isLabel: c.Label, isWeight: c.Weight, isID: c.ID, isTime: c.Time}
}

// roleKeys has the configuration keys of fields that are not features, by role.
var roleKeys = [5]string{isLabel: "label", isWeight: "weight", isID: "id", isTime: "time"}

// Schema returns the Schema of a new model for such records.
func (c Config) Schema() *event.Schema {
	s := event.NewSchema(c.Bits, c.Classes, c.MaxClasses)
	s.Apart = true
	s.Seed, s.NumericIndices, s.ZeroBased, s.Crosses = c.Seed, c.NumericIndices, c.ZeroBased, slices.Clone(c.Crosses)
	s.ColumnGroups, s.Target = c.columnGroups(), c.Target
	if c.Absent != event.AbsentAuto {
		s.Absent = c.Absent
	}
	if s.Target != loss.Sign {
		s.Classes, s.MaxClasses = nil, 2
	}
	if c.MaxNames > 0 {
		s.Names = event.NewNames(c.MaxNames)
	}
	return s
}

// Declares reports whether records in a file can declare that a feature is missing. The file at path determines the
// format; the path "" means c.Format. An omitted column without a name is 0, unless Absent declares it missing.
func (c Config) Declares(path string) bool {
	return c.Absent == event.AbsentMissing || !slices.Contains([]string{"svmlight", "vw", "idx"}, cmp.Or(FormatOf(path), c.Format))
}

// Grouped reports whether groups are configured, so that features die together.
func (c Config) Grouped() bool { return c.GroupEvery > 0 || len(c.Groups) > 0 }

// NewDecoder returns a Decoder for the format in c. It uses the columns, fields and classes of s, and adds new ones to
// s.
func NewDecoder(c Config, s *event.Schema) (Decoder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return formatNamed(c.FormatName()).new(newCore(c, s))
}

// Settings returns the settings, besides the Schema, that determine how a record becomes an event, by key. Checkpoints
// store them. ParseSettings is the inverse.
func (c Config) Settings() map[string]string {
	settings := map[string]string{
		"format": c.Format, "label": c.Label, "weight": c.Weight, "id": c.ID, "time": c.Time,
		"drop": joinList(c.Drop), "categorical": joinList(c.Categorical), "columns": joinList(c.Columns),
		"missing": joinList(c.Missing), "separator": c.Separator, "unlabeled": strconv.FormatBool(c.Unlabeled),
	}
	if len(c.Text) > 0 { // omitted from checkpoints if there are no texts
		settings["text"], settings["ngrams"] = joinList(c.Text), strconv.Itoa(c.Ngrams)
	}
	// These settings are also omitted if they have their defaults.
	if n := c.Notation(); n != notation.Plain {
		settings["decimal"], settings["thousands"] = n.Decimal, n.Thousands
	}
	if c.Timezone != utc && c.Timezone != "" {
		settings["timezone"] = c.Timezone
	}
	if len(c.TimeFeatures) > 0 {
		settings["time_features"] = joinList(c.TimeFeatures)
	}
	return settings
}

// GroupSettings returns the settings that determine which features die together, or "". If weights depend on them, they
// are part of the fingerprint under the key groups.
func (c Config) GroupSettings() string {
	if !c.Grouped() {
		return ""
	}
	data, err := json.Marshal(groupSettings{c.GroupEvery, c.Groups})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(data)
}

type groupSettings struct {
	Every uint32              `json:"every,omitempty"`
	Named map[string][]string `json:"named,omitempty"`
}

// ParseSettings returns the configuration of Settings, with defaults for all other keys. It ignores unknown keys.
func ParseSettings(settings map[string]string) (Config, error) {
	c := DefaultConfig()
	for key, to := range map[string]*string{"format": &c.Format, "label": &c.Label, "weight": &c.Weight, "id": &c.ID, "time": &c.Time, "separator": &c.Separator} {
		*to = settings[key]
	}
	for key, to := range map[string]*[]string{"drop": &c.Drop, "categorical": &c.Categorical, "columns": &c.Columns, "missing": &c.Missing, "text": &c.Text, "time_features": &c.TimeFeatures} {
		list, err := splitList(settings[key])
		if err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
		*to = list
	}
	c.Unlabeled = settings["unlabeled"] == "true"
	c.Decimal, c.Thousands = cmp.Or(settings["decimal"], c.Decimal), settings["thousands"]
	c.Timezone = cmp.Or(settings["timezone"], utc)
	if text := settings["ngrams"]; text != "" {
		var err error
		if c.Ngrams, err = strconv.Atoi(text); err != nil {
			return c, fmt.Errorf("ngrams: %w", err)
		}
	}
	if text := settings["groups"]; text != "" {
		var g groupSettings
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			return c, fmt.Errorf("groups: %w", err)
		}
		c.Groups, c.GroupEvery = g.Named, g.Every
	}
	return c, c.Check()
}

// joinList joins a list with commas, or as a JSON array if commas would be ambiguous.
func joinList(list []string) string {
	text := strings.Join(list, ",")
	if again, err := splitList(text); err == nil && slices.Equal(again, list) {
		return text
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(data)
}

func splitList(text string) (list []string, err error) {
	switch {
	case text == "":
		return nil, nil
	case text[0] == '[':
		err = json.Unmarshal([]byte(text), &list)
		return list, err
	}
	return strings.Split(text, ","), nil
}

// Fingerprint returns the hash of a record, which Position.Sum sums.
func Fingerprint(offset int64, key, value []byte) uint64 {
	return event.Mix(event.Mix(xxhash.Sum64(value)+event.Mix(xxhash.Sum64(key))) + uint64(offset))
}
