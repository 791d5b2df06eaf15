package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"blankout/internal/must"
)

func TestCount(t *testing.T) {
	const text = `package p

// A comment.
type T[K any] struct {
	A, B int
	c    string
}

func (t *T[K]) M() {} // and one behind code
func (T[K]) n()    {}
func F()           {}

const X, y = 1, 2
`
	file := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", text, 0))(t)
	methods := map[string]int{}
	var s size
	s.count(file, methods)
	must.True(t, s.exported == 3 && s.fields == 3 && methods["T"] == 2 && len(methods) == 1, "%+v, methods %v", s, methods)
	must.Equal(t, codeLines([]byte(text)), 9, "lines of code")
}

func TestShapes(t *testing.T) {
	text := "package p\n\ntype wide struct{ " + strings.Repeat("a, ", mostFields) + "b int }\n\ntype fits struct{ " + strings.Repeat("a, ", mostFields-1) + "b int }\n\n" +
		"func long() {\n" + strings.Repeat("\n", mostLines-1) + "}\n\nfunc fits2() {\n" + strings.Repeat("\n", mostLines-2) + "}\n"
	fset := token.NewFileSet()
	file := must.Get(parser.ParseFile(fset, "p.go", text, 0))(t)
	want := "type wide has 21 fields; func long has 101 lines"
	must.Equal(t, strings.Join(shapes(fset, file), "; "), want)
}
