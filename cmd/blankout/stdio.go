package main

// The command stdio learns and predicts for another program.

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"blankout/app/stdio"
)

func (p *program) stdio() *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Learn and predict for another program, in frames on standard input and output",
		Long: `stdio reads requests from standard input and answers each on standard output until the
input ends. A process can hold several learners. The Python package uses it; docs/http.md
describes the frames for other languages.

It reads no configuration: each request that creates a learner contains its settings.`,
		Example: "  blankout stdio",
		RunE: func(c *cobra.Command, _ []string) error {
			if isTerminal(p.stdin) {
				return usageError{errors.New("standard input is a terminal: connect a program that writes requests, see docs/http.md")}
			}
			version, _ := buildVersion()
			err := stdio.New(version).Serve(c.Context(), p.stdin, p.stdout)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}
