package main

// This file lets simulate --label-delay delay the labels of a file.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"blankout/simulate"
)

// checkDelays returns an error for the first setting that does not work with --label-delay.
func (o *simulateFlags) checkDelays(c *cobra.Command) error {
	for _, name := range []string{"nightmare", "delete", "delete-groups", "group", "dead", "rescale", "missing-policy", "repeat", "train", "loss", "grid", "hold-out", "tol"} {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--label-delay excludes --%s: no features die", name)
		}
	}
	for _, text := range o.delays {
		if _, err := simulate.ParseDelay(text); err != nil {
			return fmt.Errorf("--label-delay %w", err)
		}
	}
	switch {
	case len(o.models) > 0:
		return errors.New("--label-delay excludes -m: name learners with --learn")
	case o.replay.Bins < 1:
		return fmt.Errorf("--bins %d: want at least 1", o.replay.Bins)
	case len(o.data.paths) == 0 || slices.Contains(o.data.paths, "-"):
		return errors.New("name a file of examples with -d; standard input cannot be read again")
	case len(o.learn) > 1:
		return errors.New("--label-delay needs one learner: give --learn once")
	}
	return nil
}

func (p *program) runDelays(ctx context.Context, o *simulateFlags, screen *screen) error {
	var changes []string
	if len(o.learn) > 0 {
		changes = strings.Fields(o.learn[0])
	}
	learner, err := o.learner(changes)
	if err != nil {
		return err
	}
	data, err := o.dataFor(nil)
	if err != nil {
		return err
	}
	schema, err := findSchema(ctx, data, data.paths, learner.Loss)
	if err != nil {
		return err
	}
	events, err := o.examples(ctx, data, data.paths, schema, screen)
	if err != nil {
		return err
	}
	results := []*simulate.Delayed{}
	for _, text := range o.delays {
		delay, err := simulate.ParseDelay(text)
		if err != nil {
			return usageError{err}
		}
		r, err := delay.Learn(ctx, *learner, schema, events, o.replay.Seed, o.replay.Bins)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	files := []string{}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o777); err != nil {
			return err
		}
		base := filepath.Join(o.out, "label-delay")
		if err := simulate.DelayFigure(results).Save(base); err != nil {
			return err
		}
		table, err := os.Create(base + ".md")
		if err != nil {
			return err
		}
		if err := errors.Join(simulate.DelayTable(table, results), table.Close()); err != nil {
			return err
		}
		files = append(files, base+".md", base+".png", base+".svg")
	}
	if !p.quiet {
		screen.done(fmt.Sprintf("%s, %s", plural(len(events), "event"), plural(len(results), "delay")))
		if err := simulate.DelayTable(p.stderr, results); err != nil {
			return err
		}
		if len(files) > 0 {
			fmt.Fprintf(p.stderr, "\nwritten: %s\n", strings.Join(files, " "))
		}
	}
	if o.json {
		return json.NewEncoder(p.stdout).Encode(map[string]any{"delays": results, "files": files, "refused": o.data.tally.refused})
	}
	return nil
}
