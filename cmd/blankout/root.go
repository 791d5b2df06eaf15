package main

// This file is shared by all commands: the root command, exit codes, output files and usage errors.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"blankout/app/run"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/online"
	"blankout/simulate"
	"blankout/stream"
	"blankout/stream/inbox"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// program holds the state that every command needs: the streams of the process, or of a test. Results go to standard
// output, all other text to stderr.
type program struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	quiet  bool          // print no progress, only warnings and errors
	json   bool          // --json of the command
	level  slog.LevelVar // level of logs
}

// execute runs the program with args (without the program's name) and returns the exit code. It writes any error to
// stderr in the form "blankout: doing what: why".
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	root := p.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "blankout:", event.Printable(strings.TrimRight(line, "\n")))
	}
	return exitCode(err)
}

// root returns the tree of commands. To add a command, add a file with a function that returns the command, and call
// the function here.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "blankout",
		Short: "Learn from a Kafka topic, robust to missing features",
		Long: `blankout learns linear models from a Kafka topic, one event at a time. It minimizes the
expected loss over missing features, so the model keeps working when features die.`,
		Example: "  blankout demo\n  blankout config init\n  blankout run -f blankout.toml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(c, args[0])
		},
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().BoolVarP(&p.quiet, "quiet", "q", false, "print no progress, only warnings and errors")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 { // for example rum -d FILE
			return unknownCommand(c, args[0])
		}
		hint := ""
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
			hint = config.Nearest("--"+unknown.GetSpecifiedName(), names)
		}
		return usageError{fmt.Errorf("%w%s (see %s --help)", err, hint, c.CommandPath())}
	})
	for _, c := range []*cobra.Command{
		p.demo(),
		p.broker(),
		p.runCommand(),
		p.sampleCommand(),
		p.produce(),
		p.inspect(),
		p.serve(),
		p.train(),
		p.predict(),
		p.validate(),
		p.deadLetters(),
		p.corrupt(),
		p.simulate(),
		p.export(),
		p.stdio(),
	} {
		nameErrors(c, c.Name())
		root.AddCommand(c)
	}
	root.AddCommand(p.configCommand(), p.version(), p.completion())
	complete(root)
	return root
}

// nameErrors makes a command and its subcommands begin their errors with their name, except errors that are located.
func nameErrors(c *cobra.Command, name string) {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if err == nil || is[located](err) {
			return err
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, sub := range c.Commands() {
		nameErrors(sub, name+" "+sub.Name())
	}
}

// located marks an error that begins with its place, such as a line of the configuration.
type located struct{ error }

func (e located) Unwrap() error { return e.error }

// resultFile is the output file of results. Close writes the buffered output.
type resultFile struct {
	*bufio.Writer
	file io.Closer
}

// create returns the resultFile for a path. The path - means standard output, and "" discards the output.
func (p *program) create(path string) (*resultFile, error) {
	switch path {
	case "":
		return &resultFile{bufio.NewWriter(io.Discard), nil}, nil
	case "-":
		return &resultFile{bufio.NewWriter(p.stdout), nil}, nil
	}
	f, err := createFile(path)
	return &resultFile{bufio.NewWriterSize(f, 1<<16), f}, err
}

// createFile opens an empty file for lines of text. A terminal, a pipe or /dev/null is accepted. A disk device is
// rejected, because writing would destroy its data.
func createFile(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0 {
		return nil, fmt.Errorf("writing %s: this is a block device; name a file", path)
	}
	return os.Create(path)
}

// modelTarget returns an error if a model cannot be written to path. Commands call it before they start work. The path
// "" means that no model is written.
func modelTarget(path string) error {
	if path == "" {
		return nil
	}
	if _, err := checkpoint.Target(path); err != nil {
		return usageError{err}
	}
	return nil
}

// closeAll closes all resources in a list.
func closeAll[C io.Closer](all []C) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (o *resultFile) Close() error {
	err := o.Flush()
	if o.file != nil {
		err = errors.Join(err, o.file.Close())
	}
	return err
}

// unknownCommand returns an error for an unknown subcommand.
func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usageError{fmt.Errorf("unknown command %q%s (%s --help lists them)", strings.TrimPrefix(c.CommandPath()+" "+name, "blankout "), config.Nearest(name, names), c.CommandPath())}
}

// noArgs rejects arguments after the flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.HasSubCommands() {
		return unknownCommand(c, args[0])
	}
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q (see %s --help)", c.CommandPath(), args[0], c.CommandPath())}
	}
	return nil
}

// fileArgs takes arguments after the flags as values of -d, as in run events.csv.
func fileArgs(c *cobra.Command, args []string) error {
	for i, file := range args {
		data := c.Flags().Lookup("data")
		if data.Value.Type() == "string" && (i > 0 || data.Changed) {
			return usageError{fmt.Errorf("%s reads one file, got %q too", c.CommandPath(), file)}
		}
		if err := c.Flags().Set("data", file); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// usageError marks an error in the usage or the configuration: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// refusedError marks an error in the data: exit code 3.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// exitCode returns the program's exit code for an error: 0 success, 1 failure (network, file), 2 wrong usage or
// configuration, 3 data rejected.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case is[usageError](err), is[*online.MismatchError](err), is[*stream.ShardsError](err), is[*online.NumbersError](err), is[*simulate.RequestError](err), is[*record.MissingColumnError](err), is[*stream.AddressError](err), is[*event.KeyError](err):
		return 2
	case is[refusedError](err), is[*run.RefusedError](err), is[*run.FruitlessError](err), is[*event.Refusal](err), is[*stream.ParquetError](err), is[*stream.ReplacedError](err),
		is[*stream.OffsetOutOfRangeError](err), is[*stream.TopicRecreatedError](err), is[*stream.CorruptBatchError](err),
		is[*labels.StateError](err), is[*labels.DamageError](err), is[*inbox.DamageError](err), errors.Is(err, checkpoint.ErrDamaged), errors.Is(err, checkpoint.ErrForeign), errors.Is(err, checkpoint.ErrNewer), errors.Is(err, checkpoint.ErrLost):
		return 3
	}
	return 1
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// result prints the result of a command as text to standard error and, with --json, as a JSON object to standard
// output. The text omits the lists with a name in hidden.
func (p *program) result(result any, hidden ...string) error {
	if !p.quiet {
		if err := printText(p.stderr, result, textRows, hidden...); err != nil {
			return err
		}
	}
	return p.encode(result)
}

// encode writes the result of a command as a JSON object to standard output, with --json.
func (p *program) encode(result any) error {
	if !p.json {
		return nil
	}
	return json.NewEncoder(p.stdout).Encode(result)
}

// addJSON adds the flag --json.
func (p *program) addJSON(c *cobra.Command) {
	c.Flags().BoolVar(&p.json, "json", false, "write the result as one JSON object to standard output")
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(s any) bool {
	f, ok := s.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// setLevel hides log lines below the level. The flag --quiet may hide more lines.
func (p *program) setLevel(level slog.Level) {
	if p.quiet {
		level = max(level, slog.LevelWarn)
	}
	p.level.Set(level)
}

// logger returns a logger that writes above the progress line: text on a terminal, otherwise JSON.
func (p *program) logger(screen *screen) *slog.Logger {
	options := &slog.HandlerOptions{Level: &p.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // otherwise slog writes nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	p.setLevel(p.level.Level())
	if screen.terminal {
		return slog.New(slog.NewTextHandler(screen, options))
	}
	return slog.New(slog.NewJSONHandler(screen, options))
}
