package main

// version --sbom lists the modules that the program is built from, with their licences.

import (
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"blankout/serve"
)

// licences says under which licence each module is, a line for each: its path, a
// blank, and the SPDX expression. A test compares it with the modules' files.
//
//go:embed licences.txt
var licences string

// licence returns the SPDX expression of a module, "" if it is not known.
func licence(path string) string {
	for line := range strings.Lines(licences) {
		if module, expression, _ := strings.Cut(strings.TrimSpace(line), " "); module == path {
			return expression
		}
	}
	return ""
}

// writeSBOM writes which modules this very program was built from, as a CycloneDX
// document. Equal programs give equal documents: there is no time and no serial
// number in it.
func writeSBOM(w io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this program was built without the list of its modules")
	}
	version, revision := buildVersion()
	main := component(info.Main.Path, version)
	main.Type = cdx.ComponentTypeApplication
	main.Licenses = &cdx.Licenses{{Expression: "Apache-2.0"}}
	if revision != "" {
		main.Properties = &[]cdx.Property{{Name: "vcs.revision", Value: revision}}
	}
	standard := component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	components := []cdx.Component{standard}
	needs := []string{standard.BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(m.Path, m.Version)
		// h1: is a SHA-256, of the names and sums of the module's files.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	// The page embeds its charts' library, which is no Go module.
	const plots = "pkg:npm/uplot@" + serve.UPlotVersion
	components = append(components, cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: plots, Name: "uplot", Version: serve.UPlotVersion, PackageURL: plots, Licenses: &cdx.Licenses{{Expression: "MIT"}}})
	needs = append(needs, plots)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
	if expression := licence(path); expression != "" {
		c.Licenses = &cdx.Licenses{{Expression: expression}}
	}
	return c
}
