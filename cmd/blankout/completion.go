package main

// This file defines the completions of a shell: commands, flags and the values of flags.

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"blankout/batch"
	"blankout/batch/estimators"
	"blankout/internal/loss"
	"blankout/online/optimizers"
	"blankout/stream/record"
)

// flagValues holds the completions of flags whose values are neither files nor numbers. If a completion ends in a
// colon, the user types the rest. A command's own completion takes precedence.
var flagValues = map[string][]string{
	"format":      record.Formats(),
	"loss":        batch.LossNames(estimators.All()),
	"bound":       {"gaussian", "chen", "quadratic-noising", "mcf", "exact"},
	"noise":       append(loss.NoiseNames(), "auto", loss.ObservedNoise),
	"intercept":   {"free", "penalized", "none"},
	"multiclass":  {"ovr", "ovo"},
	"solver":      {"newton", "irls", "lbfgs", "smo", "online"},
	"prior":       {"student", "l2"},
	"kernel":      {"linear", "rbf", "poly:", "chi2"},
	"drop-q":      {"auto", "0"},
	"epochs":      {"inf"},
	"standardize": {"auto", "all", "scale", "none"},
	"optimizer":   optimizers.Names(),
	"refused":     {"fail", "skip"},
	"doubt":       {"auto", "log", "off"},
	"compression": {"none", "gzip", "snappy", "lz4", "zstd"},
}

// complete adds flagValues to c and its subcommands, and makes those that do not say what arguments they take take none.
func complete(c *cobra.Command) {
	if c.Args == nil {
		c.Args = noArgs
	}
	for name, values := range flagValues {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		then := cobra.ShellCompDirectiveNoFileComp
		for _, v := range values {
			if strings.HasSuffix(v, ":") {
				then |= cobra.ShellCompDirectiveNoSpace
			}
		}
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, then)) // the error means that c has its own completion
	}
	for _, child := range c.Commands() {
		complete(child)
	}
}

func (p *program) completion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a completion script for a shell",
		Example:   "  blankout completion bash\n  blankout completion zsh",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("completion: name one shell: bash, zsh, fish or powershell")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.stdout, true)
			case "zsh":
				return root.GenZshCompletion(p.stdout)
			case "fish":
				return root.GenFishCompletion(p.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.stdout)
			}
			return usageError{fmt.Errorf("completion: unknown shell %q: want bash, zsh, fish or powershell", args[0])}
		},
	}
}
