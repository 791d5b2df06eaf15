package serve_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/serve"
)

// dying returns events whose field vibration is null from event 3000 on.
func dying() []byte {
	var lines bytes.Buffer
	for i := range 4000 {
		label, x, null := "no", float64(i%7)/2, "null"
		if i%2 == 1 {
			label, x = "yes", x+4
		}
		if i < 3000 {
			null = fmt.Sprint(x)
		}
		fmt.Fprintf(&lines, `{"label":%q,"ts":%d,"word":"w%d","vibration":%s,"<b>x":%d}`+"\n", label, 1_700_000_000_000+1000*i, i%5, null, i%11)
	}
	return lines.Bytes()
}

// TestFeatures checks a stream in which a field is missing from some event on. The response of /v1/features and the
// metrics must agree with the Learner's report.
func TestFeatures(t *testing.T) {
	runner, service := runnerOver(t, dying())
	url := start(t, serve.DefaultConfig(), service)
	answers(t, 503, "no event has been learned yet", "GET", url+"/v1/features", "")
	must.Do(t, runner.Run(t.Context()))
	var got struct {
		health.Health
		Watched int
	}
	text := decoded(t, &got, "GET", url+"/v1/features?limit=2", "")
	must.Require(t, got.Events == 4000 && got.Alarms == 1 && got.Raised == 1 && got.Watched == 3 && len(got.Fields) == 2 && len(got.Changes) == 1, "%s", text)
	f := got.Fields[0]
	must.True(t, f.Field == "vibration" && f.Missing.Now == 1 && f.Missing.Usual <= 0.001 && f.Mean != nil && f.ErrorWithout != nil && math.Abs(*f.ErrorWithout-*f.Alarms[0].ErrorAfter) <= 0.1, "%s", text)
	a := f.Alarms[0]
	want := fmt.Sprintf("vibration missing in 100 %% since 2023-11-14T23:03:20Z (usually 0 %%); error forecast %.1f -> %.1f %%; it is null", *a.ErrorBefore, *a.ErrorAfter)
	must.True(t, a.Text == want && a.SinceEvent == 3001 && *a.ErrorBefore <= 15 && *a.ErrorAfter >= 30, "%+v\nwant %s", a, want)
	for _, bad := range []string{"x", "-1", "1e3"} {
		answers(t, 400, "limit=", "GET", url+"/v1/features?limit="+bad, "")
	}
	_, text, _ = call(t, "GET", url+"/metrics", "")
	must.Contains(t, text,
		`blankout_field_alarms{kind="missing"} 1`, `blankout_field_alarms{kind="mean"} 0`,
		`blankout_field_alarms_total 1`, `blankout_field_missing_ratio{field="vibration",span="now"} 1`, fmt.Sprintf(`blankout_field_alarm_error_ratio{field="vibration",side="after"} %v`, *a.ErrorAfter/100),
		"# HELP blankout_field_missing_ratio Fraction of events in which the field is null, omitted or of an unusual kind",
	)
	must.True(t, !strings.Contains(text, `field="word"`), "a field without an alarm has metrics")
}

// TestFieldMetricsAreLimited checks that at most ten fields with an alarm have metrics, and that long names are
// truncated.
func TestFieldMetricsAreLimited(t *testing.T) {
	h := &health.Health{Alarms: 50}
	for i := range 50 {
		f := health.FieldHealth{Field: fmt.Sprint("f", i), Missing: &health.Condition{Now: 1}, Mean: &health.Condition{}}
		switch i {
		case 0, 1:
			f.Field = "twice"
		case 2:
			f.Field = "\xff\xfe\"\n" + strings.Repeat("é", 300)
		}
		f.Alarms = []health.FieldAlarm{{Field: f.Field, Kind: "missing"}}
		h.Fields = append(h.Fields, f)
	}
	_, service := learned(t)
	service.Status = func() *run.Status { return &run.Status{Learner: online.Report{Report: health.Report{Health: h}}} }
	url := start(t, serve.DefaultConfig(), service)
	status, text, _ := call(t, "GET", url+"/metrics", "")
	must.Require(t, status == 200 && strings.Contains(text, `blankout_field_alarms{kind="missing"} 50`), "%d %.300s", status, text)
	must.Equal(t, strings.Count(text, "blankout_field_missing_ratio{"), 20, "series, want those of 10 fields now and usually")
	for line := range strings.Lines(text) {
		must.True(t, !strings.HasPrefix(line, "blankout_field_") || len(line) <= 300, "a line of %d bytes", len(line))
	}
}

// TestUnseenFeatures checks that an event with only unseen features is rejected. All other events of the request must
// be predicted. This includes an event whose fields are all declared missing. Both classes must have a probability.
func TestUnseenFeatures(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	_, text, _ := call(t, "POST", url+"/v1/predict", `{"x":"1.5"}`)
	must.Contains(t, text, "the model has seen no feature of the event: x=1.5 (x is numeric in the model)")
	var answer struct {
		Predictions []struct {
			Class         string
			Probabilities map[string]float64
			Unknown       []string
			Error, Where  string
		}
	}
	text = decoded(t, &answer, "POST", url+"/v1/predict", `[{"x":1,"new":2},{"new":2,"newer":"a"},{"x":null,"word":null}]`)
	must.Require(t, len(answer.Predictions) == 3, "%s", text)
	for i, p := range answer.Predictions {
		if i == 1 {
			must.True(t, p.Error == "the model has seen no feature of the event: new, newer=a" && p.Where == "event 1" && p.Class == "", "a stranger: %+v", p)
			continue
		}
		must.True(t, p.Error == "" && len(p.Probabilities) == 2 && math.Abs(p.Probabilities["yes"]+p.Probabilities["no"]-1) <= 1e-12, "event %d: %+v", i, p)
	}
}

// sticking returns events whose field vibration reads 2.5 from event 3000 on.
func sticking() []byte {
	var lines bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		label, x, load := "no", r.NormFloat64(), r.NormFloat64()
		if i%2 == 1 {
			label, x, load = "yes", x+4, load+2
		}
		if i >= 3000 {
			x = 2.5
		}
		fmt.Fprintf(&lines, `{"label":%q,"ts":%d,"vibration":%v,"load":%v}`+"\n", label, 1_700_000_000_000+1000*i, x, load)
	}
	return lines.Bytes()
}

// TestStuck checks that a stuck field is treated as missing in predictions while it has that value. It must be reported
// in predictions, alarms and metrics.
func TestStuck(t *testing.T) {
	runner, service := runnerOver(t, sticking())
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	type prediction struct {
		Scores         []float64
		Missing, Stuck []string
		Unseen         []string
		Explanation    []struct{ Feature string }
	}
	predict := func(event string) (p prediction) {
		t.Helper()
		var got struct{ Predictions []prediction }
		text := decoded(t, &got, "POST", url+"/v1/predict?explain=3", event)
		must.Require(t, len(got.Predictions) == 1, "%s", text)
		return got.Predictions[0]
	}
	stuck, null, moving := predict(`{"vibration":2.5,"load":1}`), predict(`{"vibration":null,"load":1}`), predict(`{"vibration":2.25,"load":1}`)
	must.True(t, fmt.Sprint(stuck.Stuck, stuck.Missing, null.Stuck, null.Missing, moving.Stuck, moving.Missing) == "[vibration] [vibration] [] [vibration] [] []", "%+v\n%+v\n%+v", stuck, null, moving)
	stuck.Stuck = nil
	must.True(t, fmt.Sprint(stuck) == fmt.Sprint(null) && moving.Scores[0] != null.Scores[0], "%+v\n%+v\n%+v", stuck, null, moving)
	// The model has seen the field, although the field's value counts as missing. So the event is not rejected for
	// having only unseen features.
	p := predict(`{"vibration":2.5,"new":1}`)
	must.True(t, fmt.Sprint(p.Unseen, p.Stuck) == "[new] [vibration]", "%+v", p)
	_, text, _ := call(t, "GET", url+"/v1/features", "")
	must.Contains(t, text, `"kind":"stuck","state":"raised"`, `"value":2.5`, `vibration reads 2.5 since 2023-11-14T23:03:20Z: stuck, and this value counts as missing (after 50 repeats; usually 0 % of its values repeat the one before)`, `"repeats":0`)
	_, text, _ = call(t, "GET", url+"/metrics", "")
	must.Contains(t, text, `blankout_field_stuck{field="vibration"} 1`, `blankout_field_alarms{kind="stuck"} 1`, `blankout_field_alarms{kind="missing"} 0`)
	must.True(t, !strings.Contains(text, `blankout_field_stuck{field="load"}`), "load is stuck")
}

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

// bent returns events whose class depends on the distance of the number x from 0. The number y is noise.
func bent(n int) []byte {
	var lines bytes.Buffer
	for i := range n {
		x := math.Mod(float64(i)*0.6180339887, 1)*2 - 1
		label := must.Either(math.Abs(x) > 0.5, "far", "near")
		fmt.Fprintf(&lines, `{"label":%q,"x":%.4f,"y":%d}`+"\n", label, x, i%7)
	}
	return lines.Bytes()
}

// TestSplinesAreServed scores events that differ in one number with /v1/predict. The differences between the scores
// must equal the differences of the spline in /v1/model, but for the part of the cosines.
func TestSplinesAreServed(t *testing.T) {
	c := online.DefaultConfig()
	_, service := learnedFrom(t, c, 2, bent(3000))
	url := start(t, serve.DefaultConfig(), service)
	var model struct {
		Curves []struct {
			Feature string
			X       []float64
			Added   []struct {
				Class string
				Score []float64
			}
		}
	}
	text := decoded(t, &model, "GET", url+"/v1/model", "", "Accept", "application/json")
	must.Require(t, len(model.Curves) == 2, "%s", text)
	spline := model.Curves[0]
	if spline.Feature != "x" {
		spline = model.Curves[1]
	}
	must.Require(t, spline.Feature == "x" && len(spline.X) == 5 && len(spline.Added) == 1 && (spline.Added[0].Class == "far" || spline.Added[0].Class == "near"), "%+v", spline)
	score := func(x float64) float64 {
		var answer struct{ Predictions []served.Prediction }
		text := decoded(t, &answer, "POST", url+"/v1/predict?explain=10", fmt.Sprintf(`{"x":%v,"y":3}`, x))
		must.Require(t, len(answer.Predictions) == 1, "%s", text)
		p := answer.Predictions[0]
		sum := p.Scores[len(p.Scores)-1]
		for _, c := range p.Explanation {
			if c.Feature == served.CosinesName {
				sum -= c.Score
			}
		}
		return sum
	}
	first, widest := score(spline.X[0]), 0.0
	for i, x := range spline.X {
		drawn := spline.Added[0].Score[i] - spline.Added[0].Score[0]
		widest = max(widest, math.Abs(drawn))
		got := score(x) - first
		must.True(t, math.Abs(got-drawn) <= 1e-9, "from %v to %v: drawn %v, scored %v", spline.X[0], x, drawn, got)
	}
	must.True(t, widest >= 1, "the curve moves the score by %v only", widest)
}

// TestSplinesInBrowser checks that the page shows one small chart for the spline of each number.
func TestSplinesInBrowser(t *testing.T) {
	b := browse(t)
	c := online.DefaultConfig()
	_, service := learnedFrom(t, c, 2, bent(3000))
	url := start(t, serve.DefaultConfig(), service)
	b.eachLook(t, url, "document.querySelectorAll('#curves-charts .uplot').length === 2", func(t *testing.T, l look) {
		b.shows(t, map[string]any{
			"document.querySelector('#curves').hidden":                                                      false,
			"document.querySelector('#curves-charts h3').textContent":                                       "x", // the number with the largest effect on the score
			"document.querySelector('#curve-0').dataset.points":                                             "5",
			"/x@-?0\\.\\d+/.test(document.querySelector('#largest-table').innerText)":                       true, // spline columns have readable names
			"document.querySelector('#curves-class').hidden":                                                true,
			"document.documentElement.scrollWidth <= innerWidth":                                            true,
			"document.querySelector('#curve-0 canvas').getBoundingClientRect().right <= innerWidth":         true,
			"document.querySelector('#curve-0').getAttribute('aria-label').includes('x adds to the score')": true,
		})
		b.value(t, "document.querySelector('#curves').scrollIntoView()")
		b.picture(t, "curves-"+l.name)
	})
}
