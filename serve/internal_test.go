package serve

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/internal/must"
	"blankout/stream/record"
)

// Handler returns the handler of a Server whose Config has no token.
func Handler(c Config, s Service) http.Handler { return Guarded(c, "", s) }

// Guarded returns the handler of a Server with a token.
func Guarded(c Config, token string, s Service) http.Handler {
	return guard(c, token, newSite(c, s).handler())
}

// Routes returns the patterns of the requests that a Server handles.
func Routes(c Config, s Service) []string {
	t := newSite(c, s)
	t.handler()
	return t.patterns
}

// OpenAPI is the OpenAPI document that a Server returns.
var OpenAPI = openAPI

// NewTaker returns the writer of long responses.
var NewTaker = newTaker

// Bounded returns the allowed number of connections.
var Bounded = bounded

// TestHistoryMarksEachThingOnce checks that the end of a run is marked once, however often the page requests the
// history afterwards.
func TestHistoryMarksEachThingOnce(t *testing.T) {
	var h history
	status := &run.Status{}
	kinds := func() (s string) {
		for _, m := range h.Marks {
			s += m.Kind + " "
		}
		return s
	}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { status.Started = time.Unix(1, 0) }, "start "},
		{func() { status.DriftAlarms = 2 }, "start drift "},
		{func() { status.Challengers = []run.ChallengerStatus{{Standing: run.Standing{Name: "a"}, Leader: true}} }, "start drift "},
		{func() { status.Challengers = []run.ChallengerStatus{{Standing: run.Standing{Name: "b"}, Leader: true}} }, "start drift promoted "},
		{func() { status.NotReady = "stopped" }, "start drift promoted stop "},
	} {
		step.change()
		for range 3 {
			h.note(status)
			must.Require(t, kinds() == step.want, "marks %q, want %q", kinds(), step.want)
		}
	}
	for range 2 * historyMarks {
		status.DriftAlarms++
		h.note(status)
	}
	must.True(t, len(h.Marks) == historyMarks && h.Marks[0].Kind == "drift", "%d marks, the oldest %q: the oldest is forgotten where there are too many", len(h.Marks), h.Marks[0].Kind)
}

// TestHistoryHalves checks that a full history drops every other point and doubles the interval. Its points must always
// be evenly spaced over the whole run.
func TestHistoryHalves(t *testing.T) {
	records := uint64(0)
	c := newCollector(Service{Status: func() *run.Status { return &run.Status{Counts: run.Counts{Learned: records}} }}, &models{}, &connections{places: make(chan struct{}, 1)})
	var h history
	for records < 5*historyPoints {
		records++
		h.tick(c)
		every := uint64(max(h.Every, 1))
		n := uint64(len(h.Points))
		must.Require(t, n == records/every, "after %d ticks there are %d points at an interval of %d", records, n, every)
		for i, p := range h.Points {
			want := every * uint64(i+1)
			must.Require(t, p.Records == want, "after %d ticks, at an interval of %d, point %d is of record %d, want %d", records, every, i, p.Records, want)
		}
	}
	must.Equal(t, h.Every, 8, "the interval of 5 times as many ticks as points")
}

// Every metric of the table is emitted with as many labels as the table lists, and no other metric is.
func TestEmittedMetrics(t *testing.T) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "metrics.go", nil, 0))(t)
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
	new(gate).emit("blankout_predict_requests", func(name string, _ float64, labels ...string) {
		emitted[name] = append(emitted[name], len(labels))
	})
	new(gate).emit("blankout_model_requests", func(name string, _ float64, labels ...string) {
		emitted[name] = append(emitted[name], len(labels))
	})
	for _, m := range Metrics {
		must.True(t, len(emitted[m.Name]) > 0, "%s is not emitted", m.Name)
		for _, labels := range emitted[m.Name] {
			must.True(t, labels < 0 || labels == len(m.labelNames()), "%s has another number of labels", m.Name)
		}
	}
	for name := range emitted {
		known := slices.ContainsFunc(Metrics, func(m Metric) bool { return m.Name == name })
		must.True(t, known || name == "blankout_predict_requests" || name == "blankout_model_requests", "%s is not in the table", name)
	}
}

// TestObjectOf checks that a line of CSV becomes a JSON object: numbers stay as they are written, and values that mean
// missing are null. Records that are no such line are left alone.
func TestObjectOf(t *testing.T) {
	c := &record.Config{Format: "csv", Columns: []string{"a", "b\"", "c", "d", "e"}, Separator: ";", Missing: []string{"NA"}}
	for line, want := range map[string]string{
		`1.50;"x;y";NA;;007`: `{"a":1.50,"b\"":"x;y","c":null,"d":null,"e":"007"}`,
		"1;2":                "",
		"":                   "",
	} {
		must.Equal(t, string(objectOf(c, []byte(line))), want, line)
	}
	got := objectOf(&record.Config{Format: "json", Columns: c.Columns, Separator: ";"}, []byte("1;2;3;4;5"))
	must.True(t, got == nil, "%s", got)
}
