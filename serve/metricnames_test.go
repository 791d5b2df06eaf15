package serve

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blankout/internal/must"
)

// Every metric of the table is emitted with as many labels as the table lists, and no other metric is.
func TestEmittedMetrics(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "metrics.go", nil, 0)
	must.Do(t, err)
	emitted := map[string][]int{} // numbers of labels; -1 if the call is not that of emit
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		name, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		metric, _ := strconv.Unquote(name.Value)
		switch f, isName := call.Fun.(*ast.Ident); {
		case !strings.HasPrefix(metric, "blankout_"):
		case isName && f.Name == "emit":
			emitted[metric] = append(emitted[metric], len(call.Args)-2)
		default:
			emitted[metric] = append(emitted[metric], -1)
		}
		return true
	})
	requests{}.emit("blankout_predict_requests", func(name string, _ float64, labels ...string) {
		emitted[name] = append(emitted[name], len(labels))
	})
	requests{}.emit("blankout_model_requests", func(name string, _ float64, labels ...string) {
		emitted[name] = append(emitted[name], len(labels))
	})
	for _, m := range metrics {
		must.True(t, len(emitted[m.name]) > 0, "%s is not emitted", m.name)
		for _, labels := range emitted[m.name] {
			must.True(t, labels < 0 || labels == len(m.labelNames()), "%s has another number of labels", m.name)
		}
	}
	for name := range emitted {
		known := slices.ContainsFunc(metrics, func(m metric) bool { return m.name == name })
		must.True(t, known || name == "blankout_predict_requests" || name == "blankout_model_requests", "%s is not in the table", name)
	}
}
