package main

// This file makes small changes of source files that a test should notice.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small change of a source file that a test should notice.
type mutant struct {
	file     string // path from the module's root
	function string // that it is in, "" for a declaration outside
	line     int
	column   int
	from, to int    // bytes of the file that are replaced
	old, new string // those bytes, and what replaces them
	nth      int    // among the mutants of the function that look the same
}

// key names a mutant by what it changes, not by its line: it stays the same while
// other functions are edited.
func (m mutant) key() string {
	return fmt.Sprintf("%s %s: `%s` -> `%s` #%d", m.file, m.function, oneLine(m.old), oneLine(m.new), m.nth)
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s: `%s` -> `%s`", m.file, m.line, m.function, oneLine(m.old), oneLine(m.new))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// swapped are the operators and words that are exchanged for others.
var swapped = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.OR}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
}

var swappedWords = map[string]string{"min": "max", "max": "min", "true": "false", "false": "true"}

// mutantsOf returns the mutants of a source file in the order of their places. What
// only words an error or only reserves memory is left alone.
func mutantsOf(root, path string) ([]mutant, error) {
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []mutant
	function := ""
	add := func(from, to token.Pos, replacement string) {
		p, end := set.Position(from), set.Position(to)
		found = append(found, mutant{file: path, function: function, line: p.Line, column: p.Column,
			from: p.Offset, to: end.Offset, old: string(source[p.Offset:end.Offset]), new: replacement})
	}
	text := func(n ast.Node) string {
		return string(source[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	swap := func(at token.Pos, was token.Token) {
		for _, is := range swapped[was] {
			add(at, at+token.Pos(len(was.String())), is.String())
		}
	}
	condition := func(n ast.Expr) {
		add(n.Pos(), n.End(), "("+text(n)+") && false")
		add(n.Pos(), n.End(), "("+text(n)+") || true")
	}
	remove := func(n ast.Node) { add(n.Pos(), n.End(), "") }
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.ArrayType, *ast.StructType:
			return false
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			swap(n.TokPos, n.Tok)
			remove(n)
		case *ast.AssignStmt:
			swap(n.TokPos, n.Tok)
			if n.Tok != token.DEFINE {
				remove(n)
			}
		case *ast.BranchStmt:
			if n.Label == nil {
				swap(n.Pos(), n.Tok)
			}
		case *ast.UnaryExpr:
			if n.Op == token.SUB || n.Op == token.NOT {
				add(n.OpPos, n.X.Pos(), "")
			}
		case *ast.BasicLit:
			switch n.Kind {
			case token.INT:
				add(n.Pos(), n.End(), "("+n.Value+" + 1)")
			case token.FLOAT:
				changed := "(2 * " + n.Value + ")"
				if x, err := strconv.ParseFloat(n.Value, 64); err == nil && x == 0 {
					changed = "(" + n.Value + " + 1)"
				}
				add(n.Pos(), n.End(), changed)
			}
		case *ast.Ident:
			if other, ok := swappedWords[n.Name]; ok {
				add(n.Pos(), n.End(), other)
			}
		case *ast.IfStmt:
			condition(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						condition(e)
					}
				}
			}
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && !words(text(call.Fun)) {
				remove(n)
			}
		case *ast.CallExpr:
			if words(text(n.Fun)) {
				return false
			}
		}
		return true
	}
	for _, d := range file.Decls {
		function = ""
		if f, ok := d.(*ast.FuncDecl); ok {
			if function = f.Name.Name; f.Recv != nil {
				function = strings.Trim(text(f.Recv.List[0].Type), "*") + "." + function
			}
			if f.Body != nil {
				ast.Inspect(f.Body, visit)
			}
			continue
		}
		ast.Inspect(d, visit)
	}
	slices.SortStableFunc(found, func(a, b mutant) int { return a.from - b.from })
	same := map[string]int{}
	for i := range found {
		k := found[i].key()
		found[i].nth = same[k]
		same[k]++
	}
	return found, nil
}

// words says whether a call only words something for people, or only reserves
// memory: no test needs to see it changed.
func words(function string) bool {
	switch function {
	case "panic", "errors.New", "fmt.Errorf", "fmt.Sprintf", "fmt.Sprint",
		"make", "slices.Grow", "slices.Clip", "bufio.NewReaderSize", "bufio.NewWriterSize":
		return true
	}
	return false
}

// sample returns the mutants in the order in which they are drawn: by the hash of
// their keys, so that an edit elsewhere changes the sample as little as it can.
func sample(all []mutant, seed uint64) []mutant {
	hash := func(m mutant) uint64 {
		h := fnv.New64a()
		fmt.Fprint(h, seed, " ", m.key())
		x := h.Sum64() // FNV alone leaves the keys of one function together
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	drawn := slices.Clone(all)
	slices.SortStableFunc(drawn, func(a, b mutant) int {
		if hash(a) < hash(b) {
			return -1
		}
		return 1
	})
	return drawn
}

// apply returns the source with the mutant in it.
func (m mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.from], []byte(m.new), source[m.to:])
}
