package main

// This file removes events that wait for their labels.

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"blankout/checkpoint"
	"blankout/stream/labels"
)

func (p *program) labelsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "labels",
		Short:   "Manage events that wait for their labels",
		Example: "  blankout labels forget order-17",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var settings configFlags
	var asJSON bool
	forget := &cobra.Command{
		Use:   "forget ID…",
		Short: "Delete events that wait for their labels",
		Long: `forget deletes the features of waiting events, also from the files. They are not learned, and
their labels are counted as forgotten. An id remains until the wait of its event ends.

Stop the learner first. forget sees events up to the newest checkpoint. Later events are read
from the topic again, so delete them there. An event that was already learned stays learned.`,
		Example: "  blankout labels forget order-17\n  blankout labels forget order-17 --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			if err := p.forget(&settings, ids, asJSON); err != nil {
				return fmt.Errorf("labels forget: %w", err)
			}
			return nil
		},
	}
	settings.addHere(forget)
	forget.Flags().BoolVar(&asJSON, "json", false, "write the result as one JSON object to standard output")
	c.AddCommand(forget)
	return c
}

func (p *program) forget(settings *configFlags, ids []string, asJSON bool) (err error) {
	settings.findHere()
	c, err := settings.load()
	if err != nil {
		return err
	}
	store, err := openCheckpoints(&c.Config) // opened so that no learner can use the store at the same time
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	file, _, err := store.Load()
	if errors.Is(err, checkpoint.ErrNone) {
		return fmt.Errorf("%s contains no checkpoint, so no event waits", store.Dir())
	}
	if err != nil {
		return err
	}
	state, ok, err := labels.ReadState(file.Blocks)
	if err != nil {
		return refusedError{fmt.Errorf("%s: %w", file.Name, err)}
	}
	if !ok {
		return usageError{fmt.Errorf("%s belongs to a learner without delayed labels", file.Name)}
	}
	join, err := labels.Open(c.Labels, c.LabelsDirectory(), state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, join.Close()) }()
	done, unknown := []string{}, []string{}
	for _, id := range ids {
		found, err := join.Forget([]byte(id))
		if err != nil {
			return err
		}
		if found {
			done = append(done, id)
		} else {
			unknown = append(unknown, id)
		}
	}
	if !p.quiet {
		for _, id := range done {
			fmt.Fprintf(p.stderr, "%s is forgotten\n", id)
		}
	}
	if asJSON {
		if err := json.NewEncoder(p.stdout).Encode(map[string][]string{"forgotten": done, "not_waiting": unknown}); err != nil {
			return err
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("no event waits with the id %q in %s", unknown[0], file.Name)
	}
	return nil
}
