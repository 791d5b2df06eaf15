package main

// The command config writes, checks and shows configurations. Other commands load their configuration with the
// functions of this file.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online"
	"blankout/stream/record"
)

// configFlags are the flags of commands that use a configuration.
type configFlags struct {
	file string
	set  []string
}

// hereFile is the default configuration file of commands that run as a service.
const hereFile = "blankout.toml"

// addHere is add for commands that run as a service. Such a command uses the blankout.toml of the working directory
// unless -f names a file.
func (f *configFlags) addHere(c *cobra.Command) {
	f.add(c)
	c.Flags().Lookup("config").Usage = "configuration `FILE`, see blankout config init\n[" + hereFile + " if there is one here]"
}

// findHere selects the blankout.toml of the working directory, if it exists and -f names no file. It reports whether it
// selected the file.
func (f *configFlags) findHere() bool {
	info, err := os.Stat(hereFile)
	found := f.file == "" && err == nil && info.Mode().IsRegular()
	if found {
		f.file = hereFile
	}
	return found
}

func (f *configFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.file, "config", "f", "", "configuration `FILE`, see blankout config init")
	c.Flags().StringArrayVar(&f.set, "set", nil, "override one setting, as in --set learner.c=10 (`KEY=VALUE`)")
	_ = c.MarkFlagFilename("config", "toml")
}

// load reads the configuration: defaults, file, environment, --set, then the command's own flags as KEY=VALUE pairs.
func (f *configFlags) load(flags ...string) (*config.Loaded, error) {
	return f.loadFor(nil, nil, flags...)
}

// loadFor is load for a command that uses a model. If there is no configuration file, the record settings in the
// model's own file replace the defaults. The record settings in saved, the blocks of a checkpoint, replace the defaults
// too.
func (f *configFlags) loadFor(m *served.Model, saved []event.Block, flags ...string) (*config.Loaded, error) {
	base := config.Default()
	if saved != nil && f.file == "" {
		read := func() (err error) {
			if base.Learner, err = online.ReadConfig(saved); err != nil {
				return err
			}
			settings, err := run.ReadFingerprint(saved)
			if err != nil {
				return err
			}
			if base.Validate.Config, err = base.Validate.As(settings); err == nil {
				base.Labels, err = base.Labels.As(settings)
			}
			return err
		}
		if err := read(); err != nil {
			return nil, refusedError{err}
		}
	}
	if m != nil && m.Recorded && f.file == "" {
		base.Record = m.Record
		s := m.Schema
		base.Record.Bits, base.Record.Seed, base.Record.NumericIndices, base.Record.ZeroBased = s.Bits, s.Seed, s.NumericIndices, s.ZeroBased
		base.Record.Crosses, base.Record.MaxClasses, base.Record.Absent = s.Crosses, s.MaxClasses, cmp.Or(s.Absent, event.AbsentAuto)
	}
	l, err := config.Load(config.Source{Base: &base, File: f.file, Env: os.Environ(), Flags: append(f.set[:len(f.set):len(f.set)], flags...)})
	if err != nil {
		if is[*fs.PathError](err) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, usageError{err}
	}
	return l, nil
}

func (p *program) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Write, check and show a configuration",
		Example: "  blankout config init\n  blankout config check -f blankout.toml\n  blankout config show -f blankout.toml",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.configInit(), p.configCheck(), p.configShow())
	return c
}

// initFlags are the flags of config init.
type initFlags struct {
	force                 bool
	fromFile, fromTopic   string
	brokers, topic, label string
	set                   []string
}

func (p *program) configInit() *cobra.Command {
	var o initFlags
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration with every key explained (to blankout.toml; - is standard output)",
		Long: `init writes a configuration with every key explained. --brokers, --topic and --label fill in
the keys that have no default for your stream; --set sets any other key.

With --from-file or --from-topic it reads the first events and drafts a short configuration:
the format, the classes (the rarer of two last), and each field with its kind, its range and
how often it is missing. It drops fields that look like an id or a time.`,
		Example: "  blankout config init\n  blankout config init service.toml --brokers kafka-1:9092 --topic payments --label fraud\n  blankout config init -\n" +
			"  blankout config init draft.toml --from-file events.jsonl --label fraud\n" +
			"  blankout config init - --from-topic payments --label fraud",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("config init takes one file, got %d", len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			name := "blankout.toml"
			if len(args) > 0 {
				name = args[0]
			}
			text, next, err := o.text(c.Context())
			if err != nil {
				return err
			}
			if name == "-" {
				_, err := fmt.Fprint(p.stdout, text)
				return err
			}
			if err := o.write(name, text); err != nil {
				return err
			}
			fmt.Fprintf(p.stderr, "wrote %s: %s, then blankout config check -f %s\n", name, next, name)
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&o.force, "force", false, "overwrite an existing file")
	f.StringVar(&o.fromFile, "from-file", "", "draft from the first events of `FILE`")
	f.StringVar(&o.fromTopic, "from-topic", "", "draft from the first events of `TOPIC` or kafka://HOST:PORT/TOPIC")
	f.StringVar(&o.brokers, "brokers", "", "`HOST:PORT,…` [kafka.brokers]")
	f.StringVar(&o.topic, "topic", "", "`TOPIC` [kafka.topics]")
	f.StringVar(&o.label, "label", "", "`FIELD` to predict [record.label]")
	f.StringArrayVar(&o.set, "set", nil, "one setting, as in --set learner.half_life=50000 (`KEY=VALUE`)")
	return c
}

// settings returns the keys that the flags set, and the flags that would set the other keys without a useful default.
func (o *initFlags) settings() (set []string, left []string) {
	topic := o.topic
	if o.fromTopic != "" && !strings.HasPrefix(o.fromTopic, "kafka://") {
		topic = o.fromTopic
	}
	set = slices.Clip(o.set)
	for _, key := range []struct{ name, flag, value string }{{"kafka.brokers", "--brokers", o.brokers}, {"kafka.topics", "--topic", topic}, {"record.label", "--label", o.label}} {
		switch given := func(s string) bool { return strings.HasPrefix(s, key.name+"=") }; {
		case key.value != "":
			set = append(set, key.name+"="+key.value)
		case !slices.ContainsFunc(set, given):
			left = append(left, key.flag)
		}
	}
	return set, left
}

// text returns the configuration, and what the user should do next.
func (o *initFlags) text(ctx context.Context) (text, next string, err error) {
	address := strings.HasPrefix(o.fromTopic, "kafka://")
	switch {
	case o.fromFile != "" && o.fromTopic != "":
		return "", "", usageError{errors.New("config init: --from-file and --from-topic exclude each other")}
	case o.fromTopic != "" && o.topic != "":
		return "", "", usageError{errors.New("config init: --topic and --from-topic exclude each other")}
	case o.brokers != "" && address:
		return "", "", usageError{errors.New("config init: --brokers and the brokers of --from-topic kafka://… exclude each other")}
	}
	set, left := o.settings()
	next = "look it over"
	flags := configFlags{set: set}
	if o.fromFile == "" && o.fromTopic == "" {
		if len(left) > 0 {
			next = "edit [kafka] and [record] (or give " + strings.Join(left, ", ") + ")"
		}
		if len(set) == 0 {
			return config.Template, next, nil
		}
	}
	l, err := flags.load()
	if err != nil {
		return "", "", err
	}
	if o.fromFile == "" && o.fromTopic == "" {
		return l.FilledTemplate(), next, nil
	}
	where := o.fromFile
	if address {
		where = o.fromTopic
	}
	drafted, todo, err := draft(ctx, l, where)
	if err != nil {
		return "", "", fmt.Errorf("config init: %w", err)
	}
	return l.AddFlags(string(drafted)), cmp.Or(todo, next), nil
}

func (o *initFlags) write(name, text string) error {
	create := createFile
	if !o.force {
		create = func(name string) (*os.File, error) {
			return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		}
	}
	f, err := create(name)
	if errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("writing the configuration: %s exists (--force overwrites it)", name)}
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// checkResult is the JSON output of config check for a valid configuration.
type checkResult struct {
	File   string        `json:"file"`             // name of the file, "" if none was read
	Given  []string      `json:"given"`            // keys that were set by the file, the environment or --set
	Sample *sampleResult `json:"sample,omitempty"` // result of --sample
}

func (p *program) configCheck() *cobra.Command {
	var flags configFlags
	var sample string
	c := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration; exit with 2 if it has an error",
		Long: `check reads a configuration as run does, with the files and passwords that it names, and
reports every error. Without -f or a blankout.toml in this directory, give settings in the
environment or with --set.

With --sample it also reads the first events of a file, counts the classes and names fields
that look like a time or an id. Such fields harm the model if they are features.`,
		Example: "  blankout config check -f blankout.toml\n  blankout config check -f blankout.toml --sample events.jsonl\n" +
			"  blankout config check -f blankout.toml --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.findHere() {
				p.note("reading the " + hereFile + " here")
			}
			l, err := flags.load()
			if err != nil {
				return err
			}
			if err := l.CheckSecrets(); err != nil {
				return usageError{err}
			}
			if err := l.OpenRegistry(nil); err != nil {
				return usageError{err}
			}
			result := checkResult{File: flags.file, Given: l.Given()}
			records := l.Record
			records.Unlabeled = records.Unlabeled || len(l.Labels.Topics) > 0 // delayed labels are in topics of their own
			if sample != "" {
				if result.Sample, err = p.checkSample(c.Context(), records, sample); err != nil {
					return fmt.Errorf("reading the sample: %w", err)
				}
			}
			classes := cmp.Or(len(l.Record.Classes), l.Record.MaxClasses)
			if result.Sample != nil {
				classes = min(classes, len(result.Sample.Classes))
			}
			p.warnOfClasses(classes, l.Learner)
			switch given := result.Given; {
			case result.Sample != nil && len(result.Sample.Warnings) > 0 && (flags.file != "" || len(given) > 0):
				p.note("the configuration is valid; see the warnings about the sample")
			case flags.file != "":
				p.note("the configuration is valid")
			case len(given) > 0:
				p.note("no file was read (name one with -f); the defaults with " + strings.Join(given, ", ") + " are valid")
			case sample == "":
				return usageError{errors.New("config check: nothing to check: name a file with -f, or give settings with --set or in the environment")}
			}
			if err := p.encode(result); err != nil {
				return err
			}
			return result.Sample.learnable(records.Unlabeled || l.Learner.UnlabeledWeight > 0)
		},
	}
	flags.addHere(c)
	p.addJSON(c)
	c.Flags().StringVar(&sample, "sample", "", "name fields of `FILE` that look like a time or an id")
	return c
}

// warnOfClasses prints a warning about the cost of n classes with noise auto. The argument n may be the limit
// record.max_classes. There is no warning for 100, the default of this limit.
func (p *program) warnOfClasses(n int, c online.Config) {
	if n > record.DefaultMaxClasses && c.Noise == "auto" && !loss.IsRegression(c.Loss) {
		p.warn(fmt.Sprintf("%s: noise auto learns each at several noise levels, with two to three times the time and memory of one level such as none or dropout:0.3", plural(n, "class")))
	}
}

// note prints a message for the user, unless --quiet is set.
func (p *program) note(text string) {
	if !p.quiet {
		fmt.Fprintln(p.stderr, text)
	}
}

func (p *program) configShow() *cobra.Command {
	var flags configFlags
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force and the source of each value, without secrets",
		Example: "  blankout config show -f blankout.toml\n  blankout config show --set learner.noise=dropout:0.3\n" +
			"  blankout config show -f blankout.toml --json",
		RunE: func(*cobra.Command, []string) error {
			flags.findHere()
			l, err := flags.load()
			if err != nil {
				return err
			}
			if !p.json {
				return l.Show(p.stdout)
			}
			values, err := l.Values()
			if err != nil {
				return err
			}
			return p.encode(values)
		},
	}
	flags.addHere(c)
	p.addJSON(c)
	return c
}
