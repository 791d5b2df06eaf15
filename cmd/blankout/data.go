package main

// This file holds the flags of every command that reads examples, and how a model's own
// settings overrule them.

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

	"github.com/spf13/cobra"

	"blankout"
	"blankout/checkpoint"
	"blankout/client"
	"blankout/record"
	"blankout/stream"
)

// dataFlags are the flags of a command that reads examples: files, standard
// input, or the records of a topic between two offsets.
type dataFlags struct {
	paths  []string
	record record.Config
	// format is that of paths whose name tells none, "" if that is not known.
	format string
	// ahead lets a file be decoded, on that many threads, while the examples before
	// are used, 0 does not. The schema must not be looked at then.
	ahead int
	pack  func([]blankout.Example) any // of stream.File.Ahead
	// reading is how the records of the path opened last are written, as its name and
	// header tell.
	reading record.Config
	given   func(flag string) bool
	// note tells a person something about a path, once.
	note func(path, text string)
}

func (d *dataFlags) add(c *cobra.Command) {
	d.record = record.DefaultConfig()
	d.record.MaxClasses = 1000
	f := c.Flags()
	d.given = f.Changed
	noted := map[string]bool{}
	d.note = func(path, text string) {
		if quiet, _ := f.GetBool("quiet"); !quiet && !noted[path] {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", path, text)
		}
		noted[path] = true
	}
	f.StringArrayVarP(&d.paths, "data", "d", nil, "`FILE` of examples: svmlight, VW, CSV, JSON lines or MNIST images, plain, .gz or .zst; - is\nstandard input; or kafka://HOST:PORT/TOPIC?partitions=0,1&from=OFFSET&to=OFFSET")
	f.StringVar(&d.record.Format, "format", "", "json, svmlight, vw or csv where the name does not tell")
	f.StringVar(&d.record.Label, "label", d.record.Label, "`FIELD` of JSON and CSV that holds the class")
	f.StringVar(&d.record.Weight, "weight", "", "`FIELD` of JSON and CSV that holds the importance")
	f.StringVar(&d.record.ID, "id", "", "`FIELD` of JSON and CSV that names the record: its key, no feature")
	f.StringSliceVar(&d.record.Drop, "drop", nil, "`FIELD,…` that are no features")
	f.BoolVar(&d.record.ZeroBased, "zero-based", false, "svmlight indices count from 0")
	f.UintVar(&d.record.Bits, "bits", d.record.Bits, "names hash to 2^`BITS` columns")
	f.Var(groupsFlag{&d.record}, "groups", "what dies together: every:N (columns 1 to N and so on, of svmlight and images), or `FILE` with a\nline for each group: its name, then its fields or columns, as in sensor1 1-8,17")
}

// groupsFlag is the flag --groups.
type groupsFlag struct{ record *record.Config }

func (g groupsFlag) String() string { return "" }
func (g groupsFlag) Type() string   { return "string" }

func (g groupsFlag) Set(text string) error {
	if every, ok := strings.CutPrefix(text, "every:"); ok {
		n, err := strconv.ParseUint(every, 10, 31)
		if err != nil || n < 1 {
			return fmt.Errorf("want a number of columns behind every:, as in every:8, not %q", every)
		}
		g.record.Groups, g.record.GroupEvery = nil, uint32(n)
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
	g.record.Groups, g.record.GroupEvery = groups, 0
	return nil
}

// addForModel is add for a command that takes a model, whose file knows better than
// the defaults.
func (d *dataFlags) addForModel(c *cobra.Command) {
	d.add(c)
	for name, usage := range map[string]string{
		"label":      " (default: as the model's events, else \"label\")",
		"weight":     " (default: as the model's events)",
		"id":         " (default: as the model's events)",
		"drop":       " (default: as the model's events)",
		"bits":       "; the model's are in force",
		"groups":     " (default: the model's)",
		"zero-based": "; the model's rule is in force",
	} {
		f := c.Flags().Lookup(name)
		f.Usage += usage
		switch name {
		case "label":
			f.DefValue = ""
		case "bits":
			f.DefValue = "0"
		}
	}
}

// override takes the settings of the flags that were given over into record.
func (d *dataFlags) override(recordConfig *record.Config) {
	given := &d.record
	for flag, take := range map[string]func(){
		"format":     func() { recordConfig.Format = given.Format },
		"label":      func() { recordConfig.Label = given.Label },
		"weight":     func() { recordConfig.Weight = given.Weight },
		"id":         func() { recordConfig.ID = given.ID },
		"drop":       func() { recordConfig.Drop = given.Drop },
		"zero-based": func() { recordConfig.ZeroBased = given.ZeroBased },
		"bits":       func() { recordConfig.Bits = given.Bits },
		"groups":     func() { recordConfig.Groups, recordConfig.GroupEvery = given.Groups, given.GroupEvery },
	} {
		if d.given(flag) {
			take()
		}
	}
}

// regroup gives a model's Schema the groups of --groups, if that was given.
func (d *dataFlags) regroup(s *blankout.Schema) {
	if d.given("groups") {
		d.record.Regroup(s)
	}
}

// suits refuses flags about columns that contradict what the model says of them.
func (d *dataFlags) suits(m *blankout.Head) error {
	switch s := m.Schema; {
	case d.given("bits") && d.record.Bits != s.Bits:
		return usageError{fmt.Errorf("--bits %d: the model's names hash to 2^%d columns", d.record.Bits, s.Bits)}
	case d.given("zero-based") && d.record.ZeroBased != s.ZeroBased:
		return usageError{fmt.Errorf("--zero-based=%t: the model's indices count from %d", d.record.ZeroBased, map[bool]int{false: 1}[s.ZeroBased])}
	}
	return nil
}

// readAs makes d read events as those were read that a model was learned from, if
// the model's file tells how; flags that were given still override that.
func (d *dataFlags) readAs(m *client.Model) error {
	if err := d.suits(m.Head); err != nil || !m.Recorded {
		return err
	}
	recordConfig := m.Record
	recordConfig.MaxClasses = d.record.MaxClasses
	d.override(&recordConfig)
	if !d.given("format") {
		recordConfig.Format, d.format = "", cmp.Or(recordConfig.Format, "json") // a file's name tells first
	}
	d.record = recordConfig
	return nil
}

// sayReadAs tells a person how a model's file has it that events are read, and which
// of its further settings are in force.
func (p *program) sayReadAs(m *client.Model, further ...string) {
	if p.quiet || !m.Recorded {
		return
	}
	defaults := record.DefaultConfig().Settings()
	var own []string
	for key, value := range m.Record.Settings() {
		if value != defaults[key] && key != "format" { // a file's name tells that first
			own = append(own, fmt.Sprintf("%s %q", key, value))
		}
	}
	slices.Sort(own)
	also := ""
	if len(further) > 0 {
		slices.Sort(further)
		also = fmt.Sprintf(", its other settings (%s) are in force", strings.Join(further, ", "))
	}
	fmt.Fprintf(p.stderr, "events are read by the model's own record settings (%s)%s; flags override them\n", cmp.Or(strings.Join(own, ", "), "the defaults"), also)
}

// open opens one path.
func (d *dataFlags) open(ctx context.Context, path string, s *blankout.Schema) (stream.Opened, error) {
	in := stream.Input{Where: path, Record: d.record, Format: d.format, Kafka: stream.DefaultConsumerConfig()}
	events, err := in.Open(ctx, s, nil)
	d.reading = d.record
	d.reading.Format = cmp.Or(d.record.Format, d.format, "json") // of a topic; a file knows better
	if f, ok := events.(*stream.File); ok {
		if unnamed := f.Unnamed(); len(unnamed) > 0 {
			d.note(path, unnamedColumns(unnamed))
		}
		d.reading = f.Record()
		if d.ahead > 0 {
			f.Ahead(d.ahead, d.pack)
		}
	}
	return events, err
}

// unnamedColumns says what becomes of the columns of CSV without a name.
func unnamedColumns(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("column %d has no name in the header and is left out, as an index of the rows", numbers[0])
	}
	list := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]")), ", ")
	return fmt.Sprintf("columns %s have no name in the header and are left out", list)
}

// each calls f for every example of the paths. A record that cannot be used is
// an error that names its place.
func (d *dataFlags) each(ctx context.Context, paths []string, s *blankout.Schema, f func(e *blankout.Example) error) error {
	return d.eachPlaced(ctx, paths, s, func(in *packedBatch, i int, _ func() string) error { return f(&in.Examples[i]) })
}

// packedBatch is a batch of a source and what dataFlags.pack has made of its examples.
type packedBatch struct {
	blankout.Batch
	packed any
}

// eachPlaced is each for an f that may want the batch that the example is in, and
// the example's place: file and line, or topic, partition and offset.
func (d *dataFlags) eachPlaced(ctx context.Context, paths []string, s *blankout.Schema, f func(in *packedBatch, i int, place func() string) error) error {
	if len(paths) == 0 {
		return usageError{errors.New("name a file of examples with -d (- is standard input)")}
	}
	for _, path := range paths {
		if err := d.eachOf(ctx, path, s, f); err != nil {
			return err
		}
	}
	return nil
}

func (d *dataFlags) eachOf(ctx context.Context, path string, s *blankout.Schema, f func(in *packedBatch, i int, place func() string) error) (err error) {
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
				return fmt.Sprintf("%s:%d", b.Topic, e.Offset+1)
			}
			if e.Refused != nil {
				if topic {
					return refusedError{fmt.Errorf("%s: %w", place(), e.Refused)}
				}
				return refusedError{placedRefusal{e.Refused}}
			}
			if err := f(&b, i, place); is[*fs.PathError](err) {
				return err // of what f writes: the record is not to blame
			} else if err != nil {
				return refusedError{fmt.Errorf("%s: %w", place(), err)}
			}
		}
	}
}

// placedRefusal is the refusal of a record of a file: its detail begins with the place.
type placedRefusal struct{ *blankout.Refusal }

func (r placedRefusal) Error() string { return fmt.Sprintf("%s (%s)", r.Detail, r.Reason) }
func (r placedRefusal) Unwrap() error { return r.Refusal }

// readModel reads a model, a checkpoint (of a directory the newest) or a snapshot.
func readModel(path string) (*client.Model, error) {
	if path == "" {
		return nil, usageError{errors.New("name a model file with -m")}
	}
	path, err := checkpoint.Newest(path)
	if err != nil {
		return nil, err
	}
	file, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modelOf(file, path)
}

// writeModel replaces the file at path by a model.
func writeModel(path string, m blankout.Model) error {
	blocks, err := m.EachBlock()
	if err != nil {
		return err
	}
	return checkpoint.WriteFile(path, checkpoint.Kind(m.Kind()), blocks)
}

// modelOf reads the model of a file.
func modelOf(file *checkpoint.File, path string) (*client.Model, error) {
	m, err := client.FromFile(file)
	if err != nil {
		return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	return m, nil
}
