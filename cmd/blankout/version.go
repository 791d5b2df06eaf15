package main

// The command version prints the source revision from which the program was built.

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// builtFrom and builtAs are the revision and the version of a release, or of a build without a checkout, as in a
// container. The linker sets them (-X main.builtFrom=REVISION).
var builtFrom, builtAs string

// buildVersion returns the module's version and the revision of the checkout. "-dirty" is appended if the checkout had
// changes.
func buildVersion() (version, revision string) {
	version, revision = "unknown", builtFrom
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	version = cmp.Or(builtAs, info.Main.Version, "unknown")
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision != "" {
		revision += dirty
	}
	return
}

// versionLine formats the version.
func versionLine() string {
	version, revision := buildVersion()
	text := fmt.Sprintf("blankout %s %s %s %s/%s", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return strings.Join(strings.Fields(text), " ") // removes the gap if there is no revision
}

func (p *program) version() *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  blankout version\n  blankout version --json",
		RunE: func(*cobra.Command, []string) error {
			version, revision := buildVersion()
			if p.json {
				return p.encode(map[string]string{
					"version": version, "revision": revision, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(p.stdout, versionLine())
			return err
		},
	}
	p.addJSON(c)
	return c
}
