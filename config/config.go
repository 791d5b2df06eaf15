// Package config reads the configuration of the whole program. Each section of a TOML file is decoded over the defaults
// of the package that owns the section. Environment variables and flags then override the values.
//
// An unknown key is an error that names its line and the nearest known name. A key's environment variable is
// BLANKOUT_SECTION_KEY: BLANKOUT_LEARNER_NOISE for noise of [learner].
package config

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"blankout/app/run"
	"blankout/app/served/s3"
	"blankout/app/shards"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/serve"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
	"blankout/stream/registry"
)

// Config is the configuration of a service, with one field for each section of the file. Template explains each key.
type Config struct {
	Kafka      Kafka                `toml:"kafka"`
	Record     record.Config        `toml:"record"`
	Registry   registry.Config      `toml:"registry"`
	Labels     labels.Config        `toml:"labels"`
	Learner    online.Config        `toml:"learner"`
	Checkpoint Checkpoint           `toml:"checkpoint"`
	HTTP       HTTP                 `toml:"http"`
	DeadLetter DeadLetter           `toml:"dead_letter"`
	Validate   Validate             `toml:"validate"`
	Snapshot   serve.SnapshotConfig `toml:"snapshot"`
	Predict    predict.Config       `toml:"predict"`
	Group      shards.Config        `toml:"group"`
	S3         s3.Config            `toml:"s3"`
	Log        Log                  `toml:"log"`
	// Challengers are the tables [[challenger]]. Each overrides keys of Learner and Record.
	Challengers []Challenger `toml:"-"`
}

// Log configures the log of a service.
type Log struct {
	// Level is the lowest level that is written: debug, info, warn or error.
	Level slog.Level `toml:"level"`
}

// Kafka configures the topics to consume and the connection to the cluster.
type Kafka struct {
	stream.ConsumerConfig
	// Group is the consumer group in which offsets are committed. The program never reads the group's committed
	// offsets.
	Group string `toml:"group"`
}

// Checkpoint configures where and when the state is saved.
type Checkpoint struct {
	Directory event.Address `toml:"directory"`
	Keep      int           `toml:"keep"` // number of newest checkpoints to keep
	// A checkpoint is due after this number of events or this time, whichever is first. 0 disables that condition.
	Events   uint64        `toml:"events"`
	Interval time.Duration `toml:"interval"`
	// ShutdownTimeout limits the time for stopping, including the last checkpoint.
	ShutdownTimeout time.Duration `toml:"shutdown_timeout"`
}

// Objects reports whether the directory is a prefix of objects in a store (s3://…).
func (c *Checkpoint) Objects() bool { return strings.HasPrefix(string(c.Directory), "s3://") }

func (c *Checkpoint) check() error {
	switch {
	case c.Directory == "":
		return event.KeyErrorf("directory", "directory: none given")
	case c.Objects() && s3.CheckAddress(string(c.Directory)) != nil:
		return event.KeyErrorf("directory", "directory: %w", s3.CheckAddress(string(c.Directory)))
	case !c.Objects() && strings.Contains(string(c.Directory), "://"):
		return event.KeyErrorf("directory", "directory: %q, want a directory or s3://BUCKET/PREFIX", c.Directory)
	case c.Keep < 1:
		return event.KeyErrorf("keep", "keep %d: want at least 1", c.Keep)
	case c.Interval < 0:
		return event.KeyErrorf("interval", "interval %v is negative", c.Interval)
	case c.ShutdownTimeout <= 0:
		return event.KeyErrorf("shutdown_timeout", "shutdown_timeout %v: want a positive time", c.ShutdownTimeout)
	}
	return nil
}

// HTTP configures the HTTP server.
type HTTP struct {
	serve.Config
	// PublishInterval is the time between publications of new weights to readers. 0 publishes only at the end.
	PublishInterval time.Duration `toml:"publish_interval"`
}

func (c *HTTP) check() error {
	if c.PublishInterval < 0 {
		return event.KeyErrorf("publish_interval", "publish_interval %v is negative", c.PublishInterval)
	}
	return c.Config.Check()
}

// DeadLetter configures what happens to records that cannot be used.
type DeadLetter struct {
	Policy run.Policy `toml:"policy"`
	stream.DeadLetterConfig
}

func (c *Config) checkDeadLetter() error {
	if p := c.DeadLetter.Policy; !slices.Contains([]run.Policy{run.PolicyDeadLetter, run.PolicySkip, run.PolicyFail}, p) {
		return event.KeyErrorf("policy", "policy %q: want %s, %s or %s", p, run.PolicyDeadLetter, run.PolicySkip, run.PolicyFail)
	}
	return c.writes(c.DeadLetter.Topic, "topic", "dead letters")
}

// DeadLetters returns the destination of dead letters: the configured topic or file. If neither is set, it is a file in
// the directory of the checkpoints. If the checkpoints are not on a disk, the file is in the working directory.
func (c *Config) DeadLetters() stream.DeadLetterConfig {
	where := c.DeadLetter.DeadLetterConfig
	switch {
	case where.Topic != "":
		where.File = ""
	case where.File == "" && c.Checkpoint.Objects():
		where.File = "dead-letters.jsonl"
	case where.File == "":
		where.File = filepath.Join(string(c.Checkpoint.Directory), "dead-letters.jsonl")
	}
	return where
}

// Validate configures how live weights are compared with the exact solution.
type Validate struct {
	validate.Config
	// Directory stores the newest reports of a running learner.
	Directory string `toml:"directory"`
}

// checkLearner checks [learner]. In addition it rejects group noise if no setting defines groups or their rates.
func (c *Config) checkLearner() error {
	if err := c.Learner.Check(); err != nil {
		return err
	}
	if f := c.Record.Format; c.Learner.Noise == loss.ObservedNoise && (f == "svmlight" || f == "vw") {
		return event.KeyErrorf("noise", "noise %s: %w", c.Learner.Noise, event.ErrNoRates)
	}
	if c.Learner.Grouped() && c.Record.Format == "svmlight" && c.Record.Schema().ColumnGroups == nil {
		return event.KeyErrorf("noise", "noise %s: %w", c.Learner.Noise, model.ErrNoGroups)
	}
	return nil
}

// checkLabels checks [labels]. In addition it rejects settings that do not work with events that wait for labels.
func (c *Config) checkLabels() error {
	if err := c.Labels.Check(); err != nil || len(c.Labels.Topics) == 0 {
		return err
	}
	for _, topic := range c.Labels.Topics {
		if slices.Contains(c.Kafka.Topics, topic) {
			return event.KeyErrorf("topics", "topics: %q is a topic of events; labels need their own topic", topic)
		}
	}
	return c.CheckJoin()
}

// LabelsDirectory returns the directory of the events that wait for labels.
func (c *Config) LabelsDirectory() string {
	return cmp.Or(c.Labels.Directory, filepath.Join(string(c.Checkpoint.Directory), "labels"))
}

// CheckJoin returns an error for the first setting that does not work with delayed labels.
func (c *Config) CheckJoin() error {
	switch {
	case c.Checkpoint.Objects() && c.Labels.Directory == "":
		return event.KeyErrorf("directory", "directory: waiting events need a disk, but the checkpoints are in %s: name a directory on a disk that moves with the learner", c.Checkpoint.Directory)
	case len(c.Kafka.UnlabeledTopics) > 0:
		return event.KeyErrorf("topics", "topics: with delayed labels kafka.unlabeled_topics must be empty")
	case loss.IsRegression(c.Learner.Loss) && c.Labels.TimeoutLabel != "" && !isNumber(c.Labels.TimeoutLabel):
		return event.KeyErrorf("timeout_label", "timeout_label %q: loss %s is for regression; give a number, or leave timeout_label empty", c.Labels.TimeoutLabel, c.Learner.Loss)
	case c.Validate.HoldoutTopic != "":
		return event.KeyErrorf("topics", "topics: with delayed labels validate.holdout_topic must be empty; use validate.holdout")
	case c.Labels.LatePolicy == labels.LateDeadLetter && c.DeadLetter.Policy != run.PolicyDeadLetter:
		return event.KeyErrorf("late_policy", "late_policy %s: dead_letter.policy must be dead-letter too", c.Labels.LatePolicy)
	case c.Labels.TimeoutLabel != "" && len(c.Record.Classes) > 0 && event.FindClass(c.Record.Classes, c.Labels.TimeoutLabel) < 0:
		return event.KeyErrorf("timeout_label", "timeout_label %q is not in record.classes %q", c.Labels.TimeoutLabel, c.Record.Classes)
	}
	return nil
}

func (c *Config) checkValidate() error {
	v := &c.Validate
	if v.HoldoutTopic != "" && (slices.Contains(c.Kafka.Topics, v.HoldoutTopic) || slices.Contains(c.Kafka.UnlabeledTopics, v.HoldoutTopic)) {
		return event.KeyErrorf("holdout_topic", "holdout_topic %q is in kafka.topics: name another topic", v.HoldoutTopic)
	}
	return v.Config.Check()
}

// Default returns the configuration of an empty file.
func Default() Config {
	run := run.DefaultConfig()
	c := Config{
		Kafka:  Kafka{ConsumerConfig: stream.DefaultConsumerConfig(), Group: "blankout"},
		Record: record.DefaultConfig(), Registry: registry.DefaultConfig(),
		Labels:  labels.DefaultConfig(),
		Learner: online.DefaultConfig(),
		Checkpoint: Checkpoint{
			Directory: "checkpoints", Keep: 3,
			Events: run.SaveEvents, Interval: run.SaveInterval, ShutdownTimeout: run.ShutdownTimeout,
		},
		HTTP:       HTTP{Config: serve.DefaultConfig(), PublishInterval: run.PublishInterval},
		DeadLetter: DeadLetter{Policy: run.Refused},
		Validate:   Validate{Config: validate.DefaultConfig(), Directory: "reports"},
		Snapshot:   serve.DefaultSnapshotConfig(),
		Predict:    predict.DefaultConfig(),
		Group:      shards.DefaultConfig(),
		S3:         s3.DefaultConfig(),
	}
	c.Kafka.Topics = []string{"events"}
	return c
}

// sections lists the sections of the configuration with their check functions.
func (c *Config) sections() []section {
	return []section{
		{"kafka", c.Kafka.Check},
		{"record", c.Record.Check},
		{"registry", c.Registry.Check},
		{"labels", c.checkLabels},
		{"learner", c.checkLearner},
		{"checkpoint", c.Checkpoint.check},
		{"http", c.HTTP.check},
		{"dead_letter", c.checkDeadLetter},
		{"validate", c.checkValidate},
		{"snapshot", c.checkSnapshot},
		{"predict", c.checkPredict},
		{"group", c.checkGroup},
		{"s3", c.S3.Check},
	}
}

// writes returns an error if a topic to write is also a topic to read. Otherwise every written record would be read as
// an event, and every dead letter would cause another dead letter.
func (c *Config) writes(topic, key, what string) error {
	use := ""
	switch {
	case topic == "":
	case slices.Contains(c.Kafka.Topics, topic) || slices.Contains(c.Kafka.UnlabeledTopics, topic) || slices.Contains(c.Labels.Topics, topic):
		use = "learned from"
	case topic == c.Predict.Topic:
		use = "scored"
	case topic == c.Validate.HoldoutTopic:
		use = "measured on"
	}
	if use == "" {
		return nil
	}
	return event.KeyErrorf(key, "%s: %q is %s; %s need their own topic", key, topic, use, what)
}

func (c *Config) checkSnapshot() error {
	if err := c.writes(c.Snapshot.Topic, "topic", "snapshots"); err != nil {
		return err
	}
	return c.Snapshot.Check()
}

func (c *Config) checkPredict() error {
	if err := c.Predict.Check(); err != nil {
		return err
	}
	out := c.Predict.Output
	if out != "" && out == c.Snapshot.Topic {
		return event.KeyErrorf("output", "output: %q is the topic of snapshots: name another topic", out)
	}
	return c.writes(out, "output", "predictions")
}

// checkGroup checks [group]. In addition it refuses settings that shards do not support.
func (c *Config) checkGroup() error {
	if err := c.Group.Check(); err != nil || c.Group.Name == "" {
		return err
	}
	if err := c.writes(c.Group.SnapshotTopic(), "name", "snapshots"); err != nil {
		return err
	}
	why := ""
	switch {
	case len(c.Kafka.Partitions) > 0:
		why = "kafka.partitions: leave it empty, because the group assigns the partitions"
	case c.Kafka.Group == c.Group.Name:
		why = "kafka.group: it stores offsets for displays and must be another consumer group, or empty"
	case c.DeadLetter.Policy == run.PolicyFail:
		why = "dead_letter.policy fail: one record would stop every member; set it to dead-letter or skip"
	case len(c.Labels.Topics) > 0 && c.Checkpoint.Objects():
		why = "labels.topics: events that wait for labels need a disk that all members share, not s3://"
	case c.Snapshot.Topic != "" || c.Snapshot.File != "" || c.Snapshot.Object != "":
		why = "[snapshot]: a group publishes its shards to the topic " + c.Group.SnapshotTopic() + "; unset topic, file and object"
	case c.Predict.Topic != "":
		why = "predict.topic: not supported in a group; use run --predict-only with predict.model = \"kafka:///" + c.Group.SnapshotTopic() + "\""
	}
	if why != "" {
		return event.KeyErrorf("name", "name %q: %s", c.Group.Name, why)
	}
	return nil
}

// Fingerprint returns all settings that define the meaning of weights, except the Schema. It includes the learner's
// settings and the way in which records become events. It also includes the features that group noise removes together
// and the choice of held-out events.
func Fingerprint(c online.Config, r record.Config, v validate.Config) online.Fingerprint {
	f := online.Fingerprint(r.Settings())
	if c.Grouped() {
		f["groups"] = r.GroupSettings()
	}
	maps.Copy(f, v.Fingerprint())
	return f
}

// OpenRegistry creates the client of the schema registry with which records are decoded, if a registry is configured.
// It sends no request yet. The argument log may be nil.
func (c *Config) OpenRegistry(log *slog.Logger) error {
	if c.Registry.URL == "" {
		return nil
	}
	client, err := registry.New(c.Registry, log)
	if err != nil {
		return fmt.Errorf("[registry] %w", err)
	}
	c.Record.Registry = client
	return nil
}

type section struct {
	name  string
	check func() error
}

// Source specifies the texts of which a configuration consists. The values of a later field override the values of an
// earlier field: Base, File, Env, Flags.
type Source struct {
	Base  *Config  // configuration of an empty file; nil means Default
	File  string   // path of a TOML file; "" for none
	Env   []string // environment in the form of os.Environ; only BLANKOUT_SECTION_KEY=value is used
	Flags []string // section.key=value, in the given order
}

// Template is a complete configuration that lists every key with its default and its meaning. blankout config init
// writes it. It is the only place that explains the keys to users. A test checks that its values equal Default.

//go:embed blankout.toml
var Template string

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Config
	file    string            // name of the file, or ""
	origins map[string]string // FILE:LINE, a variable or --set, by key; FILE:LINE by table; absent for a default
}

// Load reads a configuration. An error names the file and line, the variable or the flag. Several errors are joined,
// one per line.
func Load(s Source) (*Loaded, error) {
	l := &Loaded{Config: Default(), file: s.File, origins: map[string]string{}}
	if s.Base != nil {
		l.Config = *s.Base
	}
	known := keys(nil, &l.Config)
	d := new(document)
	if s.File != "" {
		text, err := readFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		if d, err = parse(s.File, string(text), known); err != nil {
			return nil, err
		}
		if l.origins, err = d.decode(nil, d.root, known); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(l.setVariables(s.Env, known), l.setFlags(s.Flags, known, false)); err != nil {
		return nil, err
	}
	err := l.readChallengers(d)
	own := slices.DeleteFunc(l.challengerKeys(), func(k key) bool { return k.name() == "name" }) // flags cannot change it
	if err := errors.Join(err, l.setFlags(s.Flags, own, true)); err != nil {
		return nil, err
	}
	l.Learner = l.Learner.WithPreset()
	for i := range l.Challengers {
		l.Challengers[i].Config = l.Challengers[i].Config.WithPreset()
	}
	if err := errors.Join(l.check(l.sections()), l.checkChallengers()); err != nil {
		return nil, err
	}
	l.Record.Target, l.Record.Counts = loss.LabelsOf(l.Learner.Loss), loss.OfCounts(l.Learner.Noise)
	return l, nil
}

// maxFile is the largest size of a configuration file in bytes.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes, too long for a configuration: check the file name", name, maxFile)
	}
	return data, err
}

// setVariables applies the environment to the known keys.
func (l *Loaded) setVariables(env []string, known []key) error {
	var errs []error
	secrets := []string{l.Kafka.SASL.PasswordEnv, l.Registry.PasswordEnv, l.Registry.TokenEnv, l.HTTP.TokenEnv}
	var variables []string
	for _, k := range known {
		variables = append(variables, k.env())
	}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		i := slices.Index(variables, name)
		of := slices.IndexFunc(known, func(k key) bool { return strings.HasPrefix(name, key{path: k.path[:1]}.env()+"_") })
		switch {
		case i >= 0:
			l.origins[known[i].String()] = name
			errs = append(errs, known[i].setText(name, value))
		case strings.HasPrefix(name, envPrefix+strings.ToUpper(challengerKey)+"_"):
			errs = append(errs, fmt.Errorf("%s: variables cannot set keys of challengers: use [[challenger]] or --set challenger.NAME.KEY", name))
		case of >= 0 && !slices.Contains(secrets, name):
			errs = append(errs, fmt.Errorf("%s: unknown key of [%s]%s", name, known[of].path[0], Nearest(name, variables)))
		}
	}
	return errors.Join(errs...)
}

// setFlags applies --set KEY=VALUE of the sections or of the challengers to the known keys.
func (l *Loaded) setFlags(flags []string, known []key, ofChallengers bool) error {
	var errs []error
	for _, flag := range flags {
		name, value, ok := strings.Cut(flag, "=")
		i := slices.IndexFunc(known, func(k key) bool { return k.String() == name })
		switch {
		case strings.HasPrefix(name, challengerKey+".") != ofChallengers:
		case !ok:
			errs = append(errs, fmt.Errorf("--set %s: want section.key=value", flag))
		case i < 0:
			// The error omits the value, which may be a secret given by mistake.
			errs = append(errs, fmt.Errorf("--set %s: unknown key%s", name, suggest(name, known)))
		default:
			l.origins[name] = "--set"
			errs = append(errs, known[i].setText("--set "+name, known[i].unquoted(value)))
		}
	}
	return errors.Join(errs...)
}

// check runs the checks of sections. It adds the section and its position to each error.
func (l *Loaded) check(sections []section) error {
	var errs []error
	for _, s := range sections {
		if err := s.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s[%s] %w", l.position(err, s.name), s.name, err))
		}
	}
	return errors.Join(errs...)
}

// position returns the position of an error in a table, with a colon. For a KeyError this is the origin of the key's
// value. Otherwise it is the table, or else the file.
func (l *Loaded) position(err error, path ...string) string {
	if e, ok := errors.AsType[*event.KeyError](err); ok {
		path = append(path, strings.Split(e.Key, ".")...)
	}
	origin := l.file
	for n := range path {
		origin = cmp.Or(l.origins[toml.Key(path[:n+1]).String()], origin)
	}
	if origin == "" {
		return ""
	}
	return origin + ": "
}

// CheckSecrets reads the passwords and certificates that the configuration names. Load does not read them.
func (l *Loaded) CheckSecrets() error {
	checks := []section{{"kafka", l.Kafka.CheckSecrets}, {"registry", l.Registry.CheckSecrets}}
	if l.HTTP.Address != "" {
		checks = append(checks, section{"http", l.HTTP.CheckSecrets})
	}
	return l.check(checks)
}

// FilledTemplate returns Template with the values that were set by flags.
func (l *Loaded) FilledTemplate() string {
	text := Template
	for _, k := range l.flagged() {
		at := strings.Index(text, "\n["+k.table()+"]\n")
		at += strings.Index(text[at:], "\n"+k.name()+" = ") + 1
		_, after, _ := strings.Cut(text[at:], "\n")
		text = text[:at] + k.assignment() + "\n" + after
	}
	return text
}

// AddFlags returns a TOML text with the values that were set by flags and whose keys the text does not have. The text
// has the form of a draft: lines KEY = VALUE under the header of each table.
func (l *Loaded) AddFlags(text string) string {
	for _, k := range l.flagged() {
		header, line := "\n["+k.table()+"]\n", k.assignment()+"\n"
		before, after, found := strings.Cut(text, header)
		own, _, _ := strings.Cut("\n"+after, "\n[")
		switch {
		case strings.Contains(own, "\n"+k.name()+" = "):
		case found:
			text = before + header + line + after
		default:
			text = strings.TrimRight(text, "\n") + "\n" + header + line
		}
	}
	return text
}

// flagged returns the keys of the sections that were set by flags.
func (l *Loaded) flagged() []key {
	return slices.DeleteFunc(keys(nil, &l.Config), func(k key) bool { return l.origins[k.String()] != "--set" })
}

// Given returns the sorted keys that were set.
func (l *Loaded) Given() (given []string) {
	for _, k := range l.shown() {
		if l.origins[k.String()] != "" {
			given = append(given, k.String())
		}
	}
	slices.Sort(given)
	return given
}

// shown returns the keys that Show writes: those of the sections and those that challengers have set.
func (l *Loaded) shown() []key {
	own := slices.DeleteFunc(l.challengerKeys(), func(k key) bool { return l.origins[k.String()] == "" })
	return append(keys(nil, &l.Config), own...)
}

// Show writes the effective configuration as TOML, with the origin of every value that is not a default. The output
// contains no secrets: the configuration only names the variables and files that hold secrets. An Address hides its
// part that may be secret.
func (l *Loaded) Show(w io.Writer) error {
	var b strings.Builder
	before := ""
	for _, k := range l.shown() {
		if table := k.table(); table != before {
			if before != "" {
				b.WriteByte('\n')
			}
			before = table
			if k.path[0] == challengerKey {
				table = "[challenger]"
			}
			fmt.Fprintf(&b, "[%s]\n", table)
		}
		b.WriteString(k.assignment())
		if origin := l.origins[k.String()]; origin != "" {
			b.WriteString(" # " + origin)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Shown is an effective value and its origin.
type Shown struct {
	Value  any    `json:"value"`  // value as in TOML; times and durations are strings
	Origin string `json:"origin"` // FILE:LINE, a variable or --set; "" for a default
}

// Values returns the values and origins that Show writes, by SECTION.KEY.
func (l *Loaded) Values() (map[string]Shown, error) {
	out := map[string]Shown{}
	for _, k := range l.shown() {
		var parsed struct{ X any }
		if _, err := toml.Decode("x = "+format(k), &parsed); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		out[k.String()] = Shown{parsed.X, l.origins[k.String()]}
	}
	return out, nil
}

func isNumber(text string) bool {
	x, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}
