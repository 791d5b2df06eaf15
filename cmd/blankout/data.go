package main

// All commands that read examples use this file. It defines their data flags and combines the flags with the
// configuration and the model's settings. It also handles records that cannot be used.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// dataFlags are the flags of a command that reads examples from files, from standard input, or from the records of a
// topic between two offsets. The command must call resolve before it reads.
type dataFlags struct {
	paths    []string
	settings configFlags   // only [record] and [registry] are used
	trains   bool          // whether the command uses [learner] without a flag
	flags    record.Config // record settings from the given flags
	refused  string        // what to do with rejected records: fail or skip
	// record holds the record settings, combined by resolve from the model's settings, the configuration and the flags.
	record record.Config
	// format is the record format of paths whose name does not imply a format; "" if unknown.
	format string
	// ahead is the number of threads that decode a file before its records are needed. 0 disables decoding ahead. If
	// ahead is not 0, the caller must not use the schema while reading.
	ahead int
	pack  func([]event.Example) any // pack argument of stream.File.Ahead
	// reading holds the record settings of the last opened path. These include settings that follow from the path's
	// name and header.
	reading record.Config
	// join is the source of delayed labels. joined has the settings for how long events wait for labels.
	join   *joinFlags
	joined labels.Config
	given  func(flag string) bool
	has    func(flag string) bool // reports whether the command has the flag
	// The function say prints a message for the user once. The function warn prints a warning.
	say, warn func(text string)
	tally     *tally
}

// tally counts the records that a command has read.
type tally struct {
	read, labeled, refused int
	first                  string // position and reason of the first rejected record
	warned                 bool   // whether the missing labels have been reported
}

func (d *dataFlags) add(c *cobra.Command) {
	d.flags, d.tally = record.DefaultConfig(), &tally{}
	d.join = &joinFlags{}
	f := c.Flags()
	d.given = f.Changed
	d.has = func(flag string) bool { return f.Lookup(flag) != nil }
	d.warn = func(text string) { fmt.Fprintln(c.ErrOrStderr(), "warning: "+text) }
	noted := map[string]bool{}
	d.say = func(text string) {
		if quiet, _ := f.GetBool("quiet"); !quiet && !noted[text] {
			fmt.Fprintln(c.ErrOrStderr(), text)
		}
		noted[text] = true
	}
	f.StringArrayVarP(&d.paths, "data", "d", nil, "`FILE` of examples; - is standard input\nsvmlight, VW, CSV, JSON lines, MNIST images (also .gz or .zst), Parquet,\nor kafka://HOST:PORT/TOPIC?partitions=0,1&from=OFFSET&to=OFFSET")
	f.StringVar(&d.flags.Format, "format", "", "json, svmlight, vw or csv (default: by the file's name)")
	f.StringVar(&d.flags.Label, "label", d.flags.Label, "`FIELD` of JSON and CSV that holds the class")
	f.StringVar(&d.flags.Weight, "weight", "", "`FIELD` of JSON and CSV that holds the importance")
	f.StringVar(&d.flags.ID, "id", "", "`FIELD` of JSON and CSV that holds the record's id; not a feature")
	f.StringSliceVar(&d.flags.Drop, "drop", nil, "comma-separated `FIELD,…` that are not features")
	f.BoolVar(&d.flags.ZeroBased, "zero-based", false, "svmlight indices start at 0")
	f.StringVar(&d.flags.Absent, "absent", d.flags.Absent, "meaning of an absent field: auto, zero or missing\nauto: a usual JSON field is missing, an index is 0; zero: a JSON number is 0; missing: a usual index is missing")
	_ = c.RegisterFlagCompletionFunc("absent", cobra.FixedCompletions([]string{event.AbsentAuto, event.AbsentZero, event.AbsentMissing}, cobra.ShellCompDirectiveNoFileComp))
	f.Func("groups", "features that fail together: every:N, or `FILE` with a line for each group\nevery:N takes columns 1 to N, N+1 to 2N and so on of svmlight and images; a line is a name, then fields or\ncolumns, as in sensor1 1-8,17", d.setGroups)
	f.StringVar(&d.refused, "refused", "fail", "on an unusable record: fail, or skip and count it")
	d.settings.add(c)
	f.Lookup("config").Usage = "configuration `FILE` with [record] and [registry], how to read records"
	f.Lookup("set").Usage = "one setting of [record], as in --set record.text=body (`KEY=VALUE`)"
}

// setGroups sets the groups of --groups.
func (d *dataFlags) setGroups(text string) error {
	if every, ok := strings.CutPrefix(text, "every:"); ok {
		n, err := strconv.ParseUint(every, 10, 31)
		if err != nil || n < 1 {
			return fmt.Errorf("want a number of columns after every:, as in every:8, not %q", every)
		}
		d.flags.Groups, d.flags.GroupEvery = nil, uint32(n)
		return nil
	}
	file, err := os.Open(text)
	if err != nil {
		return err
	}
	defer file.Close()
	groups, err := record.ReadGroups(file)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	d.flags.Groups, d.flags.GroupEvery = groups, 0
	return nil
}

// addForModel is add for a command with a model. The record settings in the model's file take precedence over the
// defaults.
func (d *dataFlags) addForModel(c *cobra.Command) {
	d.add(c)
	for _, name := range []string{"label", "weight", "id", "drop", "groups", "absent", "zero-based"} {
		f := c.Flags().Lookup(name)
		f.Usage += " (default: the model's)"
		if name == "label" || name == "absent" {
			f.DefValue = ""
		}
	}
}

// flagFor returns the command's flag for a setting of [learner], or "" if no flag sets it.
func (d *dataFlags) flagFor(set string) string {
	key, value, _ := strings.Cut(set, "=")
	flag, learner := strings.CutPrefix(key, "learner.")
	if flag = strings.ReplaceAll(flag, "_", "-"); !learner || !d.has(flag) {
		return ""
	}
	return fmt.Sprintf("; use the flag --%s=%s", flag, value)
}

// override copies the settings of the flags that the user has given to recordConfig.
func (d *dataFlags) override(recordConfig *record.Config) {
	given := &d.flags
	for flag, take := range map[string]func(){
		"format":     func() { recordConfig.Format = given.Format },
		"label":      func() { recordConfig.Label = given.Label },
		"weight":     func() { recordConfig.Weight = given.Weight },
		"id":         func() { recordConfig.ID = given.ID },
		"drop":       func() { recordConfig.Drop = given.Drop },
		"absent":     func() { recordConfig.Absent = given.Absent },
		"zero-based": func() { recordConfig.ZeroBased = given.ZeroBased },
		"groups":     func() { recordConfig.Groups, recordConfig.GroupEvery = given.Groups, given.GroupEvery },
	} {
		if d.given(flag) {
			take()
		}
	}
}

// maxClasses is the largest number of classes of a command on files, if no setting limits it. A learner needs the limit
// at its first event and uses two.
const maxClasses = 1000

// resolve determines the settings for reading records. They are in [record] of the configuration file or, if there is
// none, in the model file that m was read from. The environment, --set and flags override both. The model m may be nil.
func (d *dataFlags) resolve(m *served.Model) error {
	if !slices.Contains([]string{"fail", "skip"}, d.refused) {
		return usageError{fmt.Errorf("--refused %q: want fail or skip", d.refused)}
	}
	for _, set := range d.settings.set {
		if !(d.trains && strings.HasPrefix(set, "learner.")) && !strings.HasPrefix(set, "record.") && !strings.HasPrefix(set, "registry.") && !(d.join.labels != "" && strings.HasPrefix(set, "labels.")) {
			return usageError{fmt.Errorf("--set %s: this command accepts only settings of [record] and [registry], as in --set record.text=body%s", set, d.flagFor(set))}
		}
	}
	settings := d.settings
	if d.trains {
		settings.set = slices.DeleteFunc(slices.Clone(settings.set), func(set string) bool { return strings.HasPrefix(set, "learner.") })
	}
	l, err := settings.loadFor(m, nil)
	if err != nil {
		return err
	}
	if err := l.OpenRegistry(nil); err != nil {
		return usageError{err}
	}
	d.record, d.joined = l.Record, l.Labels
	if d.given("id") {
		d.joined.ID = d.flags.ID
	}
	d.override(&d.record)
	given := l.Given()
	if !slices.Contains(given, "record.max_classes") {
		d.record.MaxClasses = maxClasses
	}
	if d.settings.file == "" && !d.given("format") && !slices.Contains(given, "record.format") {
		d.record.Format, d.format = "", cmp.Or(d.record.Format, d.format) // the format of the file name takes precedence
		if m != nil && m.Recorded {
			d.format = cmp.Or(d.format, "json")
		}
	}
	if m == nil {
		return nil
	}
	said := func(flag string) string { // how the user has given a setting
		switch key := "record." + strings.ReplaceAll(flag, "-", "_"); {
		case d.given(flag):
			return "--" + flag
		case slices.Contains(given, key):
			return key
		}
		return ""
	}
	if how := said("bits"); how != "" && d.record.Bits != m.Schema.Bits {
		return usageError{fmt.Errorf("%s %d: the model's names hash to 2^%d columns", how, d.record.Bits, m.Schema.Bits)}
	}
	if how := said("zero-based"); how != "" && d.record.ZeroBased != m.Schema.ZeroBased {
		return usageError{fmt.Errorf("%s=%t: the model's indices start at %d", how, d.record.ZeroBased, map[bool]int{false: 1}[m.Schema.ZeroBased])}
	}
	if how := said("absent"); how != "" && d.record.Absent != cmp.Or(m.Schema.Absent, event.AbsentAuto) {
		return usageError{fmt.Errorf("%s %s: the model was trained with %s", how, d.record.Absent, cmp.Or(m.Schema.Absent, event.AbsentAuto))}
	}
	return nil
}

// regroup sets the groups from --groups or the configuration in the Schema of a model, if any are given.
func (d *dataFlags) regroup(s *event.Schema) {
	if len(d.record.Groups) > 0 || d.record.GroupEvery > 0 {
		d.record.Regroup(s)
	}
}

// printFormat prints the record settings of a model's file, and which of the file's other settings are used. It prints
// nothing if a configuration file replaces them.
func (p *program) printFormat(settings *configFlags, m *served.Model, further ...string) {
	if p.quiet || settings.file != "" || !m.Recorded {
		return
	}
	defaults := record.DefaultConfig().Settings()
	var own []string
	for key, value := range m.Record.Settings() {
		if value != defaults[key] && key != "format" { // the format of the file name takes precedence
			own = append(own, fmt.Sprintf("%s %q", key, value))
		}
	}
	slices.Sort(own)
	also := ""
	if len(further) > 0 {
		slices.Sort(further)
		also = fmt.Sprintf(", its other settings (%s) apply", strings.Join(further, ", "))
	}
	if len(own)+len(further) == 0 {
		return
	}
	fmt.Fprintf(p.stderr, "events are read with the model's record settings (%s)%s; flags override them\n", cmp.Or(strings.Join(own, ", "), "the defaults"), also)
}

// open opens one path for reading.
func (d *dataFlags) open(ctx context.Context, path string, s *event.Schema) (stream.Opened, error) {
	in := stream.Input{Where: path, Record: d.record, Format: d.format, Kafka: stream.DefaultConsumerConfig()}
	d.reading = d.record
	d.reading.Format = cmp.Or(d.record.Format, d.format, "json") // format of a topic; a file determines its own
	if d.join.labels != "" {
		return d.openJoined(ctx, in, s)
	}
	events, err := in.Open(ctx, s, nil)
	if f, ok := events.(*stream.File); ok {
		if unnamed := f.Unnamed(); len(unnamed) > 0 {
			d.say(path + ": " + unnamedColumns(unnamed))
		}
		d.reading = f.Record()
		if d.ahead > 0 {
			f.Ahead(d.ahead, d.pack)
		}
	}
	return events, err
}

// withoutLabel reports whether the first file is CSV without the column of the label. Its examples have no labels.
func (d *dataFlags) withoutLabel(ctx context.Context, s *event.Schema) (bool, error) {
	if len(d.paths) == 0 || d.paths[0] == "-" || strings.Contains(d.paths[0], "://") || d.join.labels != "" || d.record.Label == "" || d.given("label") {
		return false, nil
	}
	file, err := stream.OpenFileContext(ctx, d.paths[0], d.record, s.Clone())
	if err == nil {
		return false, file.Close()
	}
	if missing := (*record.MissingColumnError)(nil); !errors.As(err, &missing) || missing.Column != d.record.Label {
		return false, nil // reading reports the error
	}
	d.say(fmt.Sprintf("%s: no column %q: the examples have no labels", d.paths[0], d.record.Label))
	return true, nil
}

// unnamedColumns returns a message about the CSV columns without a name.
func unnamedColumns(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("column %d has no name in the header and is ignored, as a row index", numbers[0])
	}
	list := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]")), ", ")
	return fmt.Sprintf("columns %s have no name in the header and are ignored", list)
}

// each calls f for every example of the paths. For a record that cannot be used it returns an error with the record's
// position.
func (d *dataFlags) each(ctx context.Context, paths []string, s *event.Schema, f func(e *event.Example) error) error {
	return d.eachPlaced(ctx, paths, s, func(in *packedBatch, i int, _ func() string) error { return f(&in.Examples[i]) })
}

// packedBatch is a batch of a source with the result of dataFlags.pack for its examples.
type packedBatch struct {
	event.Batch
	packed any
}

// eachPlaced is each with more arguments for f. The argument in is the batch of the example. The argument place returns
// the example's position (file and line, or topic, partition and offset).
func (d *dataFlags) eachPlaced(ctx context.Context, paths []string, s *event.Schema, f func(in *packedBatch, i int, place func() string) error) error {
	if len(paths) == 0 {
		return usageError{errors.New("name a file of examples with -d (- is standard input)")}
	}
	for _, path := range paths {
		if err := d.eachOf(ctx, path, s, f); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if d.tally.read == 0 && d.refused == "fail" {
		return errNoRecord(paths)
	}
	d.reportRejected()
	return nil
}

// errNoRecord returns the error that there is nothing to read.
func errNoRecord(paths []string) error {
	return refusedError{fmt.Errorf("%s: contains no event", strings.Join(paths, ", "))}
}

// errNoLabel returns an error if records were read but none had a label.
func (d *dataFlags) errNoLabel(read, labeled int) error {
	if read == 0 || labeled > 0 || d.record.Unlabeled || d.join.labels != "" || !slices.ContainsFunc(d.paths, func(path string) bool { return namesLabel(d.record, path) }) {
		return nil
	}
	return usageError{fmt.Errorf("none of %s has a label in field %q: name the label's field with --label", plural(read, "record"), d.record.Label)}
}

func (d *dataFlags) eachOf(ctx context.Context, path string, s *event.Schema, f func(in *packedBatch, i int, place func() string) error) (err error) {
	src, err := d.open(ctx, path, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	topic := strings.HasPrefix(path, "kafka://")
	var b packedBatch
	for {
		if err := src.Next(ctx, &b.Batch); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if file, ok := src.(*stream.File); ok && d.pack != nil {
			b.packed = file.Packed()
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			place := func() string {
				if topic {
					return fmt.Sprintf("%s/%d: offset %d", b.Topic, b.Partition, e.Offset)
				}
				if file, ok := src.(*stream.File); ok {
					return file.Place(e.Offset)
				}
				return fmt.Sprintf("%s:%d", b.Topic, e.Offset+1)
			}
			if e.Refused != nil && !e.Refused.Reason.Faulty() {
				continue // skip a tombstone
			}
			d.tally.read++
			if e.Refused != nil {
				err := error(placedRefusal{e.Refused})
				if topic {
					err = fmt.Errorf("%s: %w", place(), e.Refused)
				}
				if d.refused == "fail" {
					return refusedError{err}
				}
				d.tally.refuse(err)
				continue
			}
			if e.Label != event.Unlabeled {
				d.tally.labeled++
			}
			if t := d.tally; t.read-t.refused >= 1000 && t.labeled == 0 && !t.warned && !d.record.Unlabeled {
				t.warned = true
				d.warn(fmt.Sprintf("none of the first %s has a label in field %q: name the label's field with --label", plural(t.read-t.refused, "record"), d.record.Label))
			}
			switch err := f(&b, i, place); {
			case is[*fs.PathError](err):
				return err // the error is from writing f's output, not from the record
			case is[unusable](err) && d.refused == "skip":
				d.tally.refuse(fmt.Errorf("%s: %w", place(), err))
			case err != nil:
				return refusedError{fmt.Errorf("%s: %w", place(), err)}
			}
		}
	}
}

// unusable is the reason why a valid record cannot be used.
type unusable struct{ error }

func (t *tally) refuse(err error) {
	if t.refused++; t.refused == 1 {
		t.first = err.Error()
	}
}

// reportRejected reports the rejected records after all records have been read.
func (d *dataFlags) reportRejected() {
	t := d.tally
	if t.refused == 0 {
		return
	}
	text := fmt.Sprintf("%s of %s refused and skipped (%.3g %%), first reason: %s", humanize.Comma(int64(t.refused)), plural(t.read, "record"), 100*float64(t.refused)/float64(t.read), event.Printable(t.first))
	if 20*t.refused > t.read {
		d.warn(text)
	} else {
		d.say(text)
	}
}

// placedRefusal is the rejection of a record of a file. Its detail begins with the record's position.
type placedRefusal struct{ *event.Refusal }

func (r placedRefusal) Error() string { return fmt.Sprintf("%s (%s)", r.Detail, r.Reason) }
func (r placedRefusal) Unwrap() error { return r.Refusal }

// readModel reads a model, a snapshot or a checkpoint from a file or an address, as served.Open does. For a directory
// it reads the newest checkpoint. It refuses the shards of a group, which are several models.
func readModel(path string) (*served.Model, error) {
	m, err := readAnswering(path)
	if err == nil && m.Shards() != nil {
		return nil, usageError{fmt.Errorf("%s: the shards of a group are several models: name one shard, as in DIRECTORY/shard-0", event.Address(path))}
	}
	return m, err
}

// readAnswering is readModel for predictions. For the shards of a group the Model answers with all of them, see
// served.NewSet.
func readAnswering(path string) (*served.Model, error) {
	if path == "" {
		return nil, usageError{errors.New("name a model file with -m")}
	}
	if strings.Contains(path, "://") || len(served.ShardDirectories(path)) > 0 {
		return openModel(path)
	}
	s, err := readCheckpoint(path)
	if err != nil {
		return nil, err
	}
	return s.model, nil
}

// warnStale prints a warning if predictions of a model with stale weights were worse than predicting the class
// frequencies. It also says if the learner predicts by the last label, which no model knows.
func (p *program) warnStale(m *served.Model) {
	if w := m.Head.LastLabel; w > 0 {
		p.note(fmt.Sprintf("the learner also predicts by the last label (weight %.2g); this model leaves it out", w))
	}
	p.warn(m.Head.Stale)
}

// write replaces the file at path with a model that was trained on the events that d has read.
func (d *dataFlags) write(path string, m model.Model) error {
	read := d.reading
	read.Columns = d.record.Columns // the header of another file may differ
	return served.New(m, read).WriteFile(path)
}
