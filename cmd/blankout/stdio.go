package main

// The command stdio learns and predicts for another program.

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"blankout/internal/stdio"
)

func (p *program) stdio() *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Learn and predict for another program, in frames on standard input and output",
		Long: `stdio lets another program learn and predict: it reads requests from standard input and
answers each on standard output until the input ends. One process holds as many
learners as the program asks for. The Python package starts it; docs/http.md
describes the frames for programs in other languages.

It reads no configuration: settings come with the request that makes a learner.`,
		Example: "  blankout stdio",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if isTerminal(p.stdin) {
				return usageError{errors.New("stdio: standard input is a terminal: a program is to write requests to it, see docs/http.md")}
			}
			version, _ := buildVersion()
			if err := stdio.New(version).Serve(c.Context(), p.stdin, p.stdout); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("stdio: %w", err)
			}
			return nil
		},
	}
}
