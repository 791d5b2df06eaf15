package main

// This file has the flags of train and run that have several learners learn one model.

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"blankout/online"
	"blankout/run"
)

// learnersFlags say how many learners there are and how often they share what they learned.
type learnersFlags struct{ run.Learners }

func (o *learnersFlags) add(c *cobra.Command, prefix string) {
	o.Learners = run.DefaultLearners(1)
	f := c.Flags()
	f.IntVar(&o.N, "learners", 1, prefix+"`N` learners, a thread each, learn one model together; the result depends on N and on\nno chance")
	f.Uint64Var(&o.MinInterval, "interval", o.MinInterval, prefix+"with --learners: each learns at least `N` events before they share what they learned")
	f.Uint64Var(&o.Warm, "warm", o.Warm, prefix+"with --learners: the first `N` events are learned by one of them alone")
}

// check completes the settings and says what is wrong with them.
func (o *learnersFlags) check(c *cobra.Command, learner online.Config) error {
	if o.N <= 1 {
		if o.N < 1 {
			return fmt.Errorf("--learners %d: want at least 1", o.N)
		}
		return refuseFlags(c, []string{"interval", "warm"}, "goes with --learners 2 or more")
	}
	o.MaxInterval = max(o.MaxInterval, o.MinInterval)
	if err := o.Learners.Check(); err != nil {
		return err
	}
	if err := o.CheckLearner(learner); err != nil {
		return fmt.Errorf("--learners %d: %w", o.N, err)
	}
	return nil
}

// errAdopt says that several learners cannot adopt an exact solution.
var errAdopt = errors.New("--learners: validate.policy adopt is for one learner; use observe or alarm")
