// Command papers reproduces the tables and figures of the papers that blankout builds on, with real data. For each
// claim of a paper it reports whether the claim is reproduced.
//
//	go run ./cmd/papers --list
//	go run ./cmd/papers quadratic-penalty --quick -o penalty
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"blankout/internal/event"
	"blankout/papers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs the command with args and returns the exit code: 0 success, 1 failure, 2 wrong usage, 3 data rejected.
// Results go to stdout, all messages to stderr.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := command(stdout, stderr)
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintln(stderr, "papers:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	if _, ok := errors.AsType[*event.Refusal](err); ok {
		return 3
	}
	return 1
}

// usageError marks a wrong usage.
type usageError struct{ error }

type flags struct {
	data, out, vw     string
	list, quick, full bool
	seed              uint64
	threads           int
	json, quiet       bool
}

func command(stdout, stderr io.Writer) *cobra.Command {
	var o flags
	c := &cobra.Command{
		Use:   "papers [NAME|all|index]",
		Short: "Repeat the tables and figures of the papers",
		Long: `papers repeats an experiment of a paper on real data. For each claim it prints whether the
direction is reproduced and whether our interval contains the printed size. Without a name
it lists the experiments. all runs every experiment, each in a folder of its name. index
writes the summary of such folders.

DIR of --data contains a folder for each data set; go run ./tools/fetch-data downloads the
public originals. Without --data, or with --quick, papers uses a few embedded examples.

papers writes results.md, results.json and figures to the folder of -o, and cells.jsonl,
with which the same command continues after a stop.`,
		Example: "  papers --list\n" +
			"  papers quadratic-penalty --quick -o penalty\n" +
			"  papers all --quick -o results",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("name one experiment, or all; got %q", args)}
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || o.list {
				return list(stdout)
			}
			return run(c.Context(), args[0], &o, stdout, stderr)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{fmt.Errorf("%w (see papers --help)", err)} })
	f := c.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "out" {
			name = "output"
		}
		return pflag.NormalizedName(name)
	})
	f.BoolVar(&o.list, "list", false, "list the experiments and the data that each needs")
	f.StringVar(&o.data, "data", "", "`DIR` with a folder for each data set (default: the embedded samples)")
	f.StringVarP(&o.out, "output", "o", "", "write the results to `DIR`")
	f.StringVar(&o.vw, "vw", "", "`PROGRAM` Vowpal Wabbit, which haphazard compares with if it is given")
	f.BoolVar(&o.quick, "quick", false, "use the embedded samples; takes seconds")
	f.BoolVar(&o.full, "full", false, "use the full sets and grids; takes hours")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random draws")
	f.IntVar(&o.threads, "threads", 0, "at most `N` threads (0: all processors); the result does not depend on it")
	f.BoolVar(&o.json, "json", false, "write the results as one JSON object to standard output")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no progress")
	return c
}

func list(stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, e := range papers.All() {
		needs := strings.Join(e.Needs, " ")
		if needs == "" {
			needs = "nothing"
		}
		if len(e.Takes) > 0 {
			needs += "; optional " + strings.Join(e.Takes, " ")
		}
		fmt.Fprintf(w, "%s\t%s\n\t%s; needs %s\n", e.Name, e.Help, e.Paper+", "+e.Part, needs)
	}
	return w.Flush()
}

// run runs the experiment with the given name or all experiments. On request it writes the index of their claims
// instead.
func run(ctx context.Context, name string, o *flags, stdout, stderr io.Writer) error {
	if o.quick && o.full {
		return usageError{errors.New("--quick and --full exclude each other")}
	}
	chosen := papers.All()
	if name != "all" && name != "index" {
		e, err := papers.Find(name)
		if err != nil {
			return usageError{err}
		}
		chosen = []papers.Experiment{e}
	}
	if o.out == "" {
		return usageError{errors.New("name a folder for the results with -o")}
	}
	if name == "index" {
		return papers.Index(o.out)
	}
	for _, e := range chosen {
		if o.full && o.data == "" && len(e.Needs) > 0 {
			return usageError{fmt.Errorf("%s: --full needs the data sets: name their folder with --data", e.Name)}
		}
	}
	say := func(line string) { fmt.Fprintln(stderr, line) }
	if o.quiet {
		say = func(string) {}
	}
	results := map[string]*papers.Result{}
	for _, e := range chosen {
		said := time.Now()
		options := papers.Options{Size: papers.Default, Data: o.data, Out: o.out, Seed: o.seed, Threads: o.threads, VW: o.vw, Progress: func(s papers.Status) {
			if time.Since(said) > 10*time.Second {
				said = time.Now()
				say(progress(s))
			}
		}}
		switch {
		case o.quick, o.data == "" && len(e.Needs) > 0:
			options.Size = papers.Quick
		case o.full:
			options.Size = papers.Full
		}
		if name == "all" {
			options.Out = filepath.Join(o.out, e.Name)
		}
		r, err := papers.Run(ctx, e, options)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s: run the same command to continue: %w", e.Name, err)
			}
			return err
		}
		results[e.Name] = r
		if !o.json {
			fmt.Fprint(stdout, r.Lines())
		}
		say(fmt.Sprintf("%s: %s: see %s", e.Name, verdicts(r.Claims), filepath.Join(options.Out, "results.md")))
	}
	if name == "all" {
		if err := papers.Index(o.out); err != nil {
			return err
		}
	}
	if !o.json {
		return nil
	}
	var result any = results
	if name != "all" {
		result = results[name]
	}
	return json.NewEncoder(stdout).Encode(result)
}

// verdicts formats the number of claims with each verdict.
func verdicts(claims []papers.Claim) string {
	count := map[papers.Verdict]int{}
	printed, inside := 0, 0
	for _, c := range claims {
		count[c.Verdict]++
		printed, inside = printed+c.Printed.Of, inside+c.Printed.Inside
	}
	if n := count[papers.NotDecided]; n == len(claims) { // either all claims or none
		return fmt.Sprintf("claims %s: %d", papers.NotDecided, n)
	}
	text := fmt.Sprintf("claims reproduced %d, not %d, undecided %d", count[papers.Reproduced], count[papers.NotReproduced], count[papers.Undecided])
	if n := count[papers.NotComparable]; n > 0 {
		text += fmt.Sprintf(", not comparable %d", n)
	}
	if printed > 0 {
		text += fmt.Sprintf("; %d of %d printed sizes in our intervals", inside, printed)
	}
	return text
}

func progress(s papers.Status) string {
	line := fmt.Sprintf("%s: %d of %d", s.Experiment, s.Done, s.Known)
	if s.Reused > 0 {
		line += fmt.Sprintf(" (%d from before)", s.Reused)
	}
	if s.Doing != "" {
		line += ", " + s.Doing
	}
	return line
}
