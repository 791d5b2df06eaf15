package main

// The command experiment names the experiments of package papers, runs one or
// all of them into a folder each, and prints the claims with what came out.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"blankout/papers"
)

type experimentFlags struct {
	data, out   string
	quick, full bool
	seed        uint64
	threads     int
	json        bool
}

func (p *program) experiment() *cobra.Command {
	var o experimentFlags
	c := &cobra.Command{
		Use:   "experiment [NAME|all|index]",
		Short: "Make the tables and figures of the papers again",
		Long: `experiment computes what a paper shows again, on real data, and says of each claim
whether it is reproduced. Without a name it lists the experiments. all does every one,
each into a folder of its name, and index writes the summary of such folders.

DIR of --data holds a folder for each data set; go run ./tools/fetch-data, in a
checkout, gets the public originals. Without it a few embedded examples of each set show what comes out, as
--quick does in seconds.

Into the folder of -o go results.md, results.json and the figures, and cells.jsonl:
there the same command goes on after it has been stopped.`,
		Example: "  blankout experiment\n" +
			"  blankout experiment quadratic-penalty --quick -o penalty\n" +
			"  blankout experiment all --quick -o results",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("experiment: one name at a time, or all, got %q", args)}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range papers.All() {
				names = append(names, e.Name+"\t"+e.Help)
			}
			return append(names, "all\tevery experiment", "index\tthe summary of results"), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return p.listExperiments()
			}
			return p.runExperiments(c.Context(), args[0], &o)
		},
	}
	f := c.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "out" { // its name before it was that of all commands
			name = "output"
		}
		return pflag.NormalizedName(name)
	})
	f.StringVar(&o.data, "data", "", "`DIR` with a folder for each data set (default: the embedded samples)")
	f.StringVarP(&o.out, "output", "o", "", "write the results into `DIR`")
	f.BoolVar(&o.quick, "quick", false, "seconds, on the embedded samples")
	f.BoolVar(&o.full, "full", false, "no limit of time: the full sets and grids")
	f.Uint64Var(&o.seed, "seed", 1, "of everything that is drawn")
	f.IntVar(&o.threads, "threads", 0, "at most `N` threads (0: all processors); the result does not depend on it")
	f.BoolVar(&o.json, "json", false, "the results as one JSON object on standard output")
	return c
}

func (p *program) listExperiments() error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, e := range papers.All() {
		needs := strings.Join(e.Needs, " ")
		if needs == "" {
			needs = "nothing"
		}
		fmt.Fprintf(w, "%s\t%s\n\t%s; needs %s\n", e.Name, e.Help, e.Paper+", "+e.Part, needs)
	}
	return w.Flush()
}

func (p *program) runExperiments(ctx context.Context, name string, o *experimentFlags) error {
	if o.quick && o.full {
		return usageError{errors.New("experiment: give one of --quick and --full")}
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
		return usageError{errors.New("experiment: name a folder for the results with -o")}
	}
	if name == "index" {
		return papers.Index(o.out)
	}
	options := papers.Options{Size: papers.Default, Data: o.data, Seed: o.seed, Threads: o.threads}
	switch {
	case o.quick:
		options.Size = papers.Quick
	case o.full:
		options.Size = papers.Full
	}
	screen := p.newScreen(10 * time.Second)
	options.Progress = func(g papers.Status) {
		if screen.due() {
			screen.progress(experimentProgress(g))
		}
	}
	results := map[string]*papers.Result{}
	for _, e := range chosen {
		if o.full && o.data == "" && len(e.Needs) > 0 {
			return usageError{fmt.Errorf("experiment %s: --full needs the data sets: name their folder with --data", e.Name)}
		}
	}
	for _, e := range chosen {
		options := options
		if o.data == "" && len(e.Needs) > 0 {
			options.Size = papers.Quick
		}
		options.Out = o.out
		if name == "all" {
			options.Out = filepath.Join(o.out, e.Name)
		}
		r, err := papers.Run(ctx, e, options)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("experiment %s: the same command goes on from here: %w", e.Name, err)
			}
			return fmt.Errorf("experiment: %w", err)
		}
		results[e.Name] = r
		screen.done(fmt.Sprintf("%s: %s: see %s", e.Name, verdicts(r.Claims), filepath.Join(options.Out, "results.md")))
	}
	if name == "all" {
		if err := papers.Index(o.out); err != nil {
			return err
		}
	}
	if o.json {
		var result any = results
		if name != "all" {
			result = results[name]
		}
		return json.NewEncoder(p.stdout).Encode(result)
	}
	return nil
}

// verdicts counts what became of claims.
func verdicts(claims []papers.Claim) string {
	count := map[papers.Verdict]int{}
	for _, c := range claims {
		count[c.Verdict]++
	}
	if n := count[papers.NotDecided]; n == len(claims) { // all or none
		return fmt.Sprintf("%s %s", plural(n, "claim"), papers.NotDecided)
	}
	return fmt.Sprintf("%s reproduced, %d not, %d undecided", plural(count[papers.Reproduced], "claim"), count[papers.NotReproduced], count[papers.Undecided])
}

func experimentProgress(g papers.Status) string {
	line := fmt.Sprintf("%s: %d of %d", g.Experiment, g.Done, g.Known)
	if g.Reused > 0 {
		line += fmt.Sprintf(" (%d from before)", g.Reused)
	}
	if g.Doing != "" {
		line += ", " + g.Doing
	}
	return line
}
