package main

// This file defines the completions of a shell: commands, flags and the values of flags. It also formats texts of --help.

import (
	"fmt"
	"strings"
	"unicode/utf8"

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

// valuesUsage formats the possible values of a flag. A value that ends in a colon is followed by a number.
func valuesUsage(values []string) string {
	numbers := map[string]string{"dropout": ":Q", "group": ":Q", "gaussian": ":SD", "laplace": ":B", "t-logistic": ":T", "fdrop": ":K", "dropsvm": "[:square|:ridge]"}
	out := make([]string, len(values))
	for i, value := range values {
		name, _, asks := strings.Cut(value, ":")
		out[i] = name
		if number := numbers[name]; number != "" {
			out[i] += number
		} else if asks {
			out[i] += ":X"
		}
	}
	last := len(out) - 1
	return wrapped(strings.Join(out[:last], ", ") + " or " + out[last])
}

// wrapped breaks a text into lines that fit next to the names of flags on a terminal.
func wrapped(text string) string {
	const width = 88
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > width:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
