// Command rename gives the Go module of a checkout another path, for whoever publishes it
// under a path of their own:
//
//	go run ./tools/rename github.com/you/blankout
//
// It changes go.mod and the import paths of the Go files, and nothing else.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/rename MODULE, in the folder of go.mod")
		os.Exit(2)
	}
	files, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
	fmt.Printf("%d Go files import from %s now\n", files, os.Args[1])
}

// rename gives the module in dir the path to and returns how many Go files it changed.
func rename(dir, to string) (files int, err error) {
	if err := module.CheckImportPath(to); err != nil {
		return 0, err
	}
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("%w: run this in the folder of go.mod", err)
	}
	mod, err := modfile.Parse(name, data, nil)
	if err != nil {
		return 0, err
	}
	if mod.Module == nil {
		return 0, fmt.Errorf("%s names no module", name)
	}
	from := mod.Module.Mod.Path
	// The files come first: if one cannot be changed, the command can be given again.
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		changed, err := renameImports(name, from, to)
		if changed {
			files++
		}
		return err
	})
	if err != nil {
		return files, err
	}
	if err := mod.AddModuleStmt(to); err != nil {
		return files, err
	}
	if data, err = mod.Format(); err != nil {
		return files, err
	}
	return files, os.WriteFile(name, data, 0o666)
}

// renameImports changes the imports of a file from one module into those from another.
// An import whose path no longer ends in the package's name says that name.
func renameImports(name, from, to string) (changed bool, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
	if err != nil {
		return false, err
	}
	var out bytes.Buffer
	end := 0 // of what is written
	for _, spec := range file.Imports {
		old, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return false, err
		}
		if old != from && !strings.HasPrefix(old, from+"/") {
			continue
		}
		at := set.Position(spec.Path.Pos()).Offset
		out.Write(text[end:at])
		if old == from && spec.Name == nil && path.Base(to) != path.Base(from) {
			out.WriteString(path.Base(from) + " ")
		}
		out.WriteString(strconv.Quote(to + strings.TrimPrefix(old, from)))
		end = at + len(spec.Path.Value)
	}
	if end == 0 {
		return false, nil
	}
	out.Write(text[end:])
	formatted, err := format.Source(out.Bytes()) // imports in order again
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, os.WriteFile(name, formatted, 0o666)
}
