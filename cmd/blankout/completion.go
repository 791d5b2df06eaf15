package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) completion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a completion script for a shell",
		Example:   "  blankout completion bash\n  blankout completion zsh",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("completion wants one shell: bash, zsh, fish or powershell")}
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
