package serve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/batch"
	"blankout/internal/measure"
	"blankout/internal/must"
	"blankout/online/health"
	"blankout/serve"
)

// TestPageRequests checks requests of the page. The response must be the newest valid record, the measures of the
// metrics, and the largest weights of the model.
func TestPageRequests(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	for path, want := range map[string]int{"/v1/newest": 204, "/v1/measures": 503, "/v1/model/largest": 503, "/v1/model/largest?n=0": 400, "/v1/model/largest?n=1001": 400} {
		answers(t, want, "", "GET", url+path, "")
	}
	must.Do(t, runner.Run(t.Context()))
	get := func(path string, to any) {
		t.Helper()
		decoded(t, to, "GET", url+path, "")
	}
	var newest struct{ Format, Event, Label string }
	get("/v1/newest", &newest)
	// The newest valid event is the 400th, the last of the file.
	must.True(t, newest.Format == "json" && newest.Label == "label" && strings.Contains(newest.Event, `"word":"yes4","x":0}`), "the newest event: %+v", newest)
	answers(t, 200, `"class":"yes"`, "POST", url+"/v1/predict", newest.Event)
	var measures struct {
		Classes     []string
		Confusion   [2][2]float64
		Reliability []struct{ Probability, Positive, Events float64 }
		Thresholds  []measure.Threshold
		Refused     map[string]health.Refusals
	}
	get("/v1/measures", &measures)
	b := runner.Status().Learner.Binary
	events, positive := 0.0, 0.0
	for _, r := range measures.Reliability {
		events, positive = events+r.Events, positive+r.Events*r.Positive
	}
	must.True(t, len(measures.Classes) == 2 && measures.Confusion == b.Confusion && events == 400 && math.Abs(positive-200) <= 1e-9 && measures.Refused["syntax"].Count == 4 && measures.Refused["syntax"].First != "",
		"measures: %+v", measures)
	// The table of thresholds is the ROC curve. Its area must be the AUC, and the entry at score 0 must agree with the
	// confusion matrix.
	area, last := 0.0, measure.Threshold{Score: math.Inf(1)}
	for _, x := range measures.Thresholds {
		must.True(t, x.Score < last.Score && x.Positives >= last.Positives && x.Negatives >= last.Negatives, "thresholds do not go down: %+v after %+v", x, last)
		area += (x.Negatives - last.Negatives) * (x.Positives + last.Positives) / 2
		must.True(t, x.Score <= 0 || x.Positives <= b.Confusion[1][1] && x.Negatives <= b.Confusion[0][1],
			"from score %v on %v and %v, the confusion matrix has %v", x.Score, x.Positives, x.Negatives, b.Confusion)
		last = x
	}
	must.True(t, math.Abs(area/200/200-b.AUC()) <= 1e-12 && last.Positives == 200 && last.Negatives == 200, "area %v, AUC %v; all: %+v", area/200/200, b.AUC(), last)
	var largest struct {
		Version  uint64
		Features int
		Outputs  []struct {
			Class   string
			Weights []struct {
				Feature string
				Weight  float64
			}
		}
	}
	get("/v1/model/largest?n=3", &largest)
	model := runner.Published().Linear
	must.Require(t, largest.Version == runner.Published().Version && largest.Features == 11 && len(largest.Outputs) == 1 && largest.Outputs[0].Class == "yes" && len(largest.Outputs[0].Weights) == 3,
		"largest: %+v", largest)
	third := math.Abs(largest.Outputs[0].Weights[2].Weight)
	larger := 0
	for c := range model.Columns() {
		if math.Abs(c.Weights[0]) > third {
			larger++
		}
	}
	w := largest.Outputs[0].Weights[0]
	must.True(t, larger == 2 && strings.HasPrefix(w.Feature, "word=") && (w.Weight > 0) == strings.HasPrefix(w.Feature, "word=yes"), "%d weights are larger than the third; %+v", larger, largest)
}

// TestPageFiles checks that the page uses only this server. The server must serve the page's files and no other files.
func TestPageFiles(t *testing.T) {
	_, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	for path, want := range map[string]string{"/": "page/page.js", "/page/page.js": "v1/predict", "/page/uPlot.min.js": "uPlot (v1.6.32)", "/page/uPlot.LICENSE": "MIT License"} {
		status, text, header := call(t, "GET", url+path, "")
		must.True(t, status == 200 && strings.Contains(text, want) && strings.Contains(header.Get("Content-Security-Policy"), "script-src 'self'") && header.Get("ETag") != "",
			"%s: %d %v %.100s", path, status, header, text)
		kind := header.Get("Content-Type")
		must.True(t, strings.HasPrefix(kind, "text/") && (!strings.HasSuffix(path, ".js") || strings.Contains(kind, "javascript")), "%s is sent as %q", path, kind)
		status, text, _ = call(t, "GET", url+path, "", "If-None-Match", header.Get("ETag"))
		must.True(t, status == 304 && text == "", "%s again: %d %.100s", path, status, text)
		answers(t, 200, "", "GET", url+path, "", "Range", "bytes=9-1")
	}
	for _, path := range []string{"/page/", "/page/nothing.js", "/page/..%2fserve.go", "/page"} {
		status, text, _ := call(t, "GET", url+path, "")
		must.True(t, status == 404 && strings.HasPrefix(text, `{"error":`), "%s: %d %.100s", path, status, text)
	}
}

// TestHistorySurvives checks that the page's history continues after a restart, with a mark at the restart. If the
// history file is damaged, only the history may be lost.
func TestHistorySurvives(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history.json")
	for round := 1; round <= 2; round++ {
		runner, service := learned(t)
		service.History = name
		server := must.Get(serve.Start(listening(), service, quiet()))(t)
		must.Do(t, runner.Run(t.Context()))
		must.Do(t, server.Close(t.Context()))
		var kept struct {
			Points []struct{ Records uint64 }
			Marks  []struct{ Kind, Text string }
		}
		data := must.Get(os.ReadFile(name))(t)
		err := json.Unmarshal(data, &kept)
		must.Require(t, err == nil && len(kept.Points) >= round && kept.Points[len(kept.Points)-1].Records == 404, "round %d: %v %s", round, err, data)
		kinds := ""
		for _, m := range kept.Marks {
			kinds += m.Kind + " "
		}
		must.Equal(t, kinds, strings.Repeat("start stop ", round), "round", round, "marks")
		info, err := os.Stat(name)
		must.True(t, err == nil && info.Mode().Perm() == 0o600, "%v %v", info.Mode(), err)
	}
	for _, damaged := range []string{"", "{}", `{"format":2}`, "{\"format\":1,\"points\":[" + strings.TrimSuffix(strings.Repeat("{},", 601), ",") + "]}"} {
		must.Do(t, os.WriteFile(name, []byte(damaged), 0o600))
		var log strings.Builder
		_, service := learned(t)
		service.History = name
		must.Do(t, must.Get(serve.Start(listening(), service, logTo(&log)))(t, damaged).Close(t.Context()))
		must.True(t, strings.Contains(log.String(), name) && strings.Contains(log.String(), "restarts"), "%.20q: the log says %q", damaged, log.String())
	}
}

// TestPageInputsInBrowser checks that the page reacts to input. Switching off a field changes the prediction, a
// threshold changes its table, and a range changes the shown time. The page must show when the server has stopped.
func TestPageInputsInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	service.Reports, _ = must.Get2(serve.OpenReports("", 10))(t)
	c := listening()
	c.Name = "fraud, staging <b>"
	server := must.Get(serve.Start(c, service, quiet()))(t)
	closed := false
	t.Cleanup(func() {
		if !closed {
			server.Close(t.Context())
		}
	})
	must.Do(t, runner.Run(t.Context()))
	predicted := func(event string) string {
		m := served.New(runner.Published().Linear, written())
		p := must.Get(m.Predict([]byte(event), 0))(t)
		return fmt.Sprintf("%s with probability %s", p.Class, percentOf(p.Probability))
	}
	b.open(t, server.URL(), looks[0], "true")
	answer := "document.querySelector('#try-answer .bigclass')?.textContent"
	ts := runner.Status().NewestTime.UnixMilli()
	b.until(t, answer, predicted(fmt.Sprintf(`{"ts":%d,"word":"yes4","x":0}`, ts)))
	b.until(t, "document.querySelector('#name').textContent", c.Name)
	b.until(t, "document.title.startsWith('fraud, staging <b> · blankout')", true)
	b.until(t, "document.querySelector('#try-form').innerText.includes('label')", false)
	// A word that is switched off is missing. A word that is edited is another word.
	b.value(t, "document.querySelector('#try-form input[aria-label=\"use word\"]').click()")
	b.until(t, answer, predicted(fmt.Sprintf(`{"ts":%d,"word":null,"x":0}`, ts)))
	b.until(t, "document.querySelector('#try-answer').innerText.includes('Missing: word')", true)
	b.value(t, "document.querySelector('#try-form input[aria-label=\"use word\"]').click()")
	b.value(t, "(() => { const i = document.querySelector('#try-form input[aria-label=\"word\"]'); i.value = 'no1'; i.dispatchEvent(new Event('input')); })()")
	b.until(t, answer, predicted(fmt.Sprintf(`{"ts":%d,"word":"no1","x":0}`, ts)))
	// The highest threshold predicts almost nothing as positive, the lowest threshold everything.
	b.until(t, "document.querySelector('#threshold').hidden", false)
	slide := "(v => { const i = document.querySelector('#threshold-at'); i.value = v; i.dispatchEvent(new Event('input')); return document.querySelector('#threshold-table').innerText })"
	text := fmt.Sprint(b.value(t, slide+"(1e9)"))
	must.True(t, strings.Contains(text, "recall 100.0 %") && strings.Contains(text, "error 50.0 %"), "from the lowest score on: %s", text)
	b.value(t, "document.querySelector('#threshold-best').click()")
	text = fmt.Sprint(b.value(t, "document.querySelector('#threshold-table').innerText"))
	must.True(t, strings.Contains(text, "error 2.") || strings.Contains(text, "error 1.") || strings.Contains(text, "error 0."), "at the cheapest threshold: %s", text)
	b.value(t, "document.querySelector('#ranges button[data-range=\"60\"]').click()")
	b.until(t, "document.querySelector('#ranges button[aria-pressed=\"true\"]').textContent", "1 min")
	b.picture(t, "touched")
	b.serverGone = true
	must.Do(t, server.Close(t.Context()))
	closed = true
	b.until(t, "document.querySelector('#state').textContent", "no connection")
	b.until(t, "document.body.classList.contains('stale')", true)
	b.until(t, "document.title.startsWith('?')", true)
}

func percentOf(p float64) string {
	return must.Either(100*p < 9.95, fmt.Sprintf("%.2f %%", 100*p), fmt.Sprintf("%.1f %%", 100*p))
}

// TestReports checks that the newest reports survive a restart. A file in the directory that is not a report must not
// be changed.
func TestReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	reports, _ := must.Get2(serve.OpenReports(dir, 2))(t)
	for i := range 3 {
		gap := float64(i)
		r := &batch.Validation{ID: fmt.Sprintf("r%d", i), Records: uint64(i), RelativeGap: &gap}
		r.Live.Objective = 10 + gap
		must.Do(t, reports.Add(r))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "notes.json"), []byte("{}"), 0o644))
	// a partial file, as a crash leaves
	must.Do(t, os.WriteFile(filepath.Join(dir, "r9.json.tmp"), []byte(`{"id":"r9"`), 0o644))
	if runtime.GOOS != "windows" { // the files contain events, so only the owner may read them
		for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "r1.json"): 0o600} {
			info, err := os.Stat(name)
			must.True(t, err == nil && info.Mode().Perm() == want, "%s: %v, %v", name, info.Mode(), err)
		}
	}
	again, foreign, err := serve.OpenReports(dir, 2)
	must.Require(t, err == nil && len(foreign) == 1 && filepath.Base(foreign[0]) == "notes.json", "%v %v", foreign, err)
	files, _ := filepath.Glob(filepath.Join(dir, "r*.json"))
	must.Equal(t, len(files), 2, "kept files", files)

	_, service := learned(t)
	service.Reports = again
	asked := 0
	service.Validate = func() error {
		if asked++; asked > 1 {
			return fmt.Errorf("cannot")
		}
		return nil
	}
	url := start(t, serve.DefaultConfig(), service)
	status, text, _ := call(t, "GET", url+"/v1/reports", "")
	var list struct {
		Reports []struct {
			ID    string   `json:"id"`
			Gap   *float64 `json:"relative_gap"`
			Error *float64 `json:"error_live"`
		} `json:"reports"`
	}
	err = json.Unmarshal([]byte(text), &list)
	must.True(t, err == nil && status == http.StatusOK && len(list.Reports) == 2 &&
		list.Reports[0].ID == "r2" && *list.Reports[0].Gap == 2 && list.Reports[1].ID == "r1" && list.Reports[0].Error == nil, "%d %s %v", status, text, err)
	for path, want := range map[string]string{
		"r1": "200 1", "latest": "200 2", "r0": "404 0", "..%2Fr1": "404 0", "notes": "404 0", "": "404 0",
	} {
		status, text, _ := call(t, "GET", url+"/v1/reports/"+path, "")
		var r batch.Validation
		_ = json.Unmarshal([]byte(text), &r)
		must.Equal(t, fmt.Sprint(status, r.Records), want, path, text)
	}
	var answers []int
	for range 2 {
		status, _, _ := call(t, "POST", url+"/v1/validate", "")
		answers = append(answers, status)
	}
	must.EqualSlices(t, answers, []int{http.StatusAccepted, http.StatusConflict}, "asked for validations")
}
