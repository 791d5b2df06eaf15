package main

// The command man writes the manual pages of all commands.

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func (p *program) man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands into a directory",
		Long: `man writes a page for each command, as blankout-run.1, from the text of its --help.
The directory is made if there is none. man -l DIR/blankout-run.1 shows a page; in
share/man/man1 of a prefix, as /usr/local, man blankout-run finds it.`,
		Example: "  blankout man pages",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("man wants one directory to write the pages into")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := writePages(c.Root(), args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// writePages writes the pages of a command and of those under it into a directory.
func writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root.DisableAutoGenTag = true // no date of the day: the same program writes the same pages
	paged(root)
	return doc.GenManTree(root, &doc.GenManHeader{Source: "blankout", Manual: "blankout", Date: built()}, dir)
}

// paged words flags as pages show them, which mark names in another way and break lines
// where they like.
func paged(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, usage := pflag.UnquoteUsage(f)
		if name != "" && f.DefValue == "" && f.NoOptDefVal == "" {
			f.DefValue = name
		}
		f.Usage = strings.Join(strings.Fields(usage), " ")
	})
	for _, sub := range c.Commands() {
		paged(sub)
	}
}

// built is the time of the revision that the program was built from, nil if it is not known.
func built() *time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok || os.Getenv("SOURCE_DATE_EPOCH") != "" {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return &t
			}
		}
	}
	return nil
}
