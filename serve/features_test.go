package serve_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/monitor"
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
	service.Status = func() *run.Status { return &run.Status{Learner: online.Report{Report: monitor.Report{Health: h}}} }
	url := start(t, serve.DefaultConfig(), service)
	status, text, _ := call(t, "GET", url+"/metrics", "")
	must.Require(t, status == 200 && strings.Contains(text, `blankout_field_alarms{kind="missing"} 50`), "%d %.300s", status, text)
	must.Equal(t, strings.Count(text, "blankout_field_missing_ratio{"), 20, "series, want those of 10 fields now and usually")
	for line := range strings.Lines(text) {
		must.True(t, !strings.HasPrefix(line, "blankout_field_") || len(line) <= 300, "a line of %d bytes", len(line))
	}
}
