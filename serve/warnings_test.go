package serve_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/internal/must"
	"blankout/online/health"
	"blankout/serve"
)

// TestWarnings checks that the page shows a warning of the run, and that a metric reports the kinds of warnings.
func TestWarnings(t *testing.T) {
	_, service := learned(t)
	warning := health.Warning{Kind: "no-labels", Text: "none of 5 events has had a label"}
	service.Status = func() *run.Status { return &run.Status{Warnings: []health.Warning{warning}} }
	url := start(t, serve.DefaultConfig(), service)
	_, text, _ := call(t, "GET", url+"/metrics", "")
	for _, kind := range health.WarningKinds {
		want := `blankout_warning{kind="` + kind + `"} 0`
		if kind == warning.Kind {
			want = `blankout_warning{kind="` + kind + `"} 1`
		}
		must.Contains(t, text, want)
	}
	response := must.Get(http.Get(url + "/v1/events"))(t)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), `data: {`) {
			must.True(t, strings.Contains(lines.Text(), `"warnings":[{"kind":"no-labels","text":"none of 5 events has had a label"}]`), "the page is told %s", lines.Text())
			break
		}
	}
}
