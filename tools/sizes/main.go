// Command sizes prints the size of the product: a line for each package of the module that ./cmd/blankout uses. The
// flag -shape prints instead the structs with more than 20 fields and the functions with more than 100 lines. With -most N
// it fails if there are more than N lines of code in all.
//
//	go run ./tools/sizes -most 75000
//	go run ./tools/sizes -shape
//
// The column code counts lines of Go, assembly and the web page that are neither blank nor comments. Of generated
// assembly it counts the generator. The column
// exported counts top-level names. The columns methods and fields have the largest number of any type. The build is for
// linux/amd64 without cgo.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	shape := flag.Bool("shape", false, "print what is too wide or too long")
	most := flag.Int("most", 0, "fail if there are more than `N` lines of code in all (0: any number)")
	flag.Parse()
	if err := run(os.Stdout, *shape, *most); err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, shape bool, most int) error {
	packages, err := product()
	if err != nil {
		return err
	}
	if shape {
		return writeShape(out, packages)
	}
	table, all, err := measure(packages)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(out, table); err == nil && most > 0 && all > most {
		err = fmt.Errorf("%d lines of code are %d more than the bound: what comes must pay with what goes", all, all-most)
	}
	return err
}

// listed is the output of go list about a package.
type listed struct {
	ImportPath, Dir             string
	Standard                    bool
	Module                      *struct{ Main bool }
	GoFiles, SFiles, EmbedFiles []string
}

func goCommand(args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	c.Stderr = os.Stderr
	return c
}

// product returns the packages that ./cmd/blankout uses, including packages of other modules.
func product() (packages []listed, err error) {
	list, err := goCommand("list", "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,SFiles,EmbedFiles", "./cmd/blankout").Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

func (p *listed) own() bool    { return p.Module != nil && p.Module.Main }
func (p *listed) room() string { return strings.TrimPrefix(p.ImportPath, "blankout/") }

func measure(packages []listed) (table string, all int, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %6s %8s %7s %6s\n", "room", "code", "exported", "methods", "fields")
	var rows []string
	for _, p := range packages {
		if !p.own() {
			continue
		}
		s, err := sizeOf(&p)
		if err != nil {
			return "", 0, err
		}
		all += s.code
		rows = append(rows, fmt.Sprintf("%-24s %6d %8d %7d %6d\n", p.room(), s.code, s.exported, s.methods, s.fields))
	}
	s, err := generatorSize()
	if err != nil {
		return "", 0, err
	}
	all += s.code
	rows = append(rows, fmt.Sprintf("%-24s %6d %8d %7d %6d\n", generator, s.code, s.exported, s.methods, s.fields))
	slices.Sort(rows)
	b.WriteString(strings.Join(rows, ""))
	binary, err := binarySize()
	if err != nil {
		return "", 0, err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", 0, err
	}
	required := bytes.Count(mod, []byte("\n\t")) - bytes.Count(mod, []byte("\n\t//"))
	fmt.Fprintf(&b, "%-24s %6d\n", "all", all)
	fmt.Fprintf(&b, "%-24s %6d\n", "packages", len(packages))
	fmt.Fprintf(&b, "%-24s %6d\n", "modules", required)
	fmt.Fprintf(&b, "%-24s %6d\n", "binary-kB", binary/1000)
	return b.String(), all, nil
}

// binarySize builds the program as for a release and returns its size.
func binarySize() (int64, error) {
	dir, err := os.MkdirTemp("", "sizes-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "blankout")
	if err := goCommand("build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", name, "./cmd/blankout").Run(); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// generator is the folder of the command that writes the assembly: its lines count, and the assembly's do not.
const generator = "tools/kernels"

func generatorSize() (size, error) {
	files, err := filepath.Glob(generator + "/*.go")
	if err != nil || len(files) == 0 {
		return size{}, errors.Join(err, fmt.Errorf("%s: %d files; run this in the repository's root", generator, len(files)))
	}
	return sizeOf(&listed{GoFiles: files})
}

type size struct{ code, exported, methods, fields int }

func sizeOf(p *listed) (s size, err error) {
	methods, fset := map[string]int{}, token.NewFileSet()
	for _, name := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return s, err
		}
		switch filepath.Ext(name) {
		case ".go", ".html", ".css", ".js":
			s.code += codeLines(text)
		case ".s":
			if !bytes.HasPrefix(text, []byte("// Code generated ")) {
				s.code += codeLines(text)
			}
		}
		if filepath.Ext(name) != ".go" {
			continue
		}
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return s, err
		}
		s.count(file, methods)
	}
	for _, n := range methods {
		s.methods = max(s.methods, n)
	}
	return s, nil
}

func codeLines(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}

// count adds the declarations of a file. The map methods has the number of methods by receiver type.
func (s *size) count(file *ast.File, methods map[string]int) {
	exported := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				s.exported++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				exported(d.Name)
			} else {
				methods[receiver(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					exported(spec.Names...)
				case *ast.TypeSpec:
					exported(spec.Name)
					if t, ok := spec.Type.(*ast.StructType); ok {
						s.fields = max(s.fields, t.Fields.NumFields())
					}
				}
			}
		}
	}
}

// receiver returns the name of a method's receiver type.
func receiver(t ast.Expr) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(t), "*"), "[")
	return name
}

const (
	mostFields = 20  // largest number of fields of a struct, without fields of embedded structs
	mostLines  = 100 // largest number of lines of a function
)

// writeShape lists the structs and functions of the product that exceed the limits of their size.
func writeShape(out io.Writer, packages []listed) error {
	for _, p := range packages {
		if !p.own() {
			continue
		}
		fset := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, line := range shapes(fset, file) {
				fmt.Fprintf(out, "%s/%s: %s\n", p.room(), name, line)
			}
		}
	}
	return nil
}

// shapes returns descriptions of the structs and functions of a file that exceed the limits.
func shapes(fset *token.FileSet, file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1; lines > mostLines {
				found = append(found, fmt.Sprintf("func %s has %d lines", n.Name.Name, lines))
			}
		case *ast.TypeSpec:
			if t, ok := n.Type.(*ast.StructType); ok && t.Fields.NumFields() > mostFields {
				found = append(found, fmt.Sprintf("type %s has %d fields", n.Name.Name, t.Fields.NumFields()))
			}
		}
		return true
	})
	return found
}
