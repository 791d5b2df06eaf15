package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/served/s3"
	"blankout/app/shards"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/serve"
	"blankout/serve/predict"
	"blankout/stream"
)

// TestPageInBrowser checks in a real browser that the page shows the data that the server reports, in light and dark
// mode and on a phone. The page must cause no errors and no requests to other servers. BLANKOUT_SCREENSHOTS names a
// directory for screenshots.
func TestPageInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	var err error
	service.Predictions = func() *predict.Stats {
		return &predict.Stats{Scored: 1234, Refused: 5, Age: 700 * time.Millisecond, At: time.Now(), NewestAge: 12 * time.Millisecond,
			Partitions: []stream.PartitionStats{{Topic: "more", Lag: 67}}}
	}
	snapshot := serve.DefaultSnapshotConfig()
	snapshot.File = filepath.Join(t.TempDir(), "model.blankout")
	snapshots, err := serve.OpenSnapshots(t.Context(), snapshot, stream.DefaultConnectConfig(), false, s3.DefaultConfig(), func() *served.Model {
		m := served.New(runner.Published().Linear, written())
		m.Version, m.At = runner.Published().Version, runner.Published().At
		return m
	}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	service.Snapshots = func() *serve.Snapshots { return snapshots }
	validates(t, runner, &service, online.DefaultConfig(), written())
	validatesTwice(runner, &service)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	snapshots.Run(ended) // sends the last model
	m, err := served.Open(t.Context(), snapshot.File, served.Options{})
	must.Require(t, err == nil && m.Version == runner.Published().Version, "the snapshot: %v", err)
	// A chart draws a line only if it has at least two points.
	drawn := "[document.body?.dataset.events, document.querySelector('#chart-error')?.dataset.series, document.querySelector('#chart-gap')?.dataset.series, document.querySelector('#try-answer .bigclass') != null, document.querySelector('#chart-calibration')?.dataset.series, document.querySelector('#largest-table tbody tr') != null].join(' ') === '400 2 1 true 2 true'"
	b.eachLook(t, url, drawn, func(t *testing.T, l look) {
		b.shows(t, map[string]any{
			"document.querySelector('#state').textContent":   "stopped",
			"document.querySelector('#refused').textContent": "4",
			"document.querySelector('#events').textContent":  "400",
			// The range of the chart may cut off only the first moments of a run, never later values.
			"Math.round(1000 * ceiling({data: [[...Array(100).keys()], [...Array(100).keys()].map(i => i < 2 ? 50 : i > 98 ? 23.8 : 10)]}, {time: true, range: [0, 99]}))": 39984.0,
			"Math.round(1000 * ceiling({data: [[...Array(100).keys()], [...Array(100).keys()].map(i => i > 98 ? 23.8 : 10)]}, {time: true, range: [0, 99]}))":              24990.0,
			// Characters that do not print, or that change the direction of text, must be shown as escapes. Spaces
			// within numbers must not change.
			`el("i", {title: "a\u202eb"}, "c\u202ed\u200b\n", "1\u202f000").textContent`:                         "c\\u202ed\\u200b\n1\u202f000",
			`el("i", {title: "a\u202eb", "data-x": "a\u202eb"}).title + el("i", {"data-x": "\u202e"}).dataset.x`: "a\\u202eb\u202e",
			// Rejected records are grouped by reason. A click must expand a group.
			"document.querySelectorAll('#aside details[open]').length":                                            0.0,
			"document.querySelector('#aside-tables > details > summary').textContent":                             "syntax: 4, the newest 4",
			"document.querySelectorAll('#aside-tables > details > details > pre.record').length":                  4.0,
			"document.querySelector('#refused-note').textContent":                                                 "syntax 4 · 0 kept since the start",
			"document.title.startsWith(document.querySelector('#name').textContent + ' · blankout')":              true,
			"document.querySelector('#name').textContent.endsWith('.jsonl')":                                      true,
			"document.querySelectorAll('#policies tbody tr').length":                                              6.0,
			"/^0–10 %(\\d[\\d.]* %){4}$/.test(document.querySelector('#policies tbody tr').textContent)":          true,
			"document.querySelectorAll('#alarms li').length":                                                      0.0,
			"document.querySelector('#chart-forecast').dataset.series":                                            "4", // live and exact forecasts, and those made while learning, declared and silent
			"document.querySelector('#exact').innerText.includes('the very ones learned')":                        true,
			"document.querySelector('#failures').hidden":                                                          false,
			"document.querySelector('#failures-table tbody tr td').textContent":                                   "word",
			"document.querySelector('#counts').innerText.includes('yes')":                                         true,
			"/scored\\s+1.234\\s+refused\\s+5\\s+lag\\s+67/.test(document.querySelector('#counts').innerText)":    true,
			"/file\\s+1\\s/.test(document.querySelector('#counts').innerText)":                                    true,
			"document.documentElement.scrollWidth <= innerWidth":                                                  true,
			"performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))":             true,
			"getComputedStyle(document.body).backgroundColor":                                                     map[string]any{"light": "rgb(246, 247, 249)", "dark": "rgb(18, 21, 26)"}[l.scheme],
			"[...document.querySelectorAll('.tile .v')].every(e => e.scrollWidth <= e.parentElement.clientWidth)": true,
		})
		added := `(() => { const was = now.classes; now.classes = [{name: "a"}, {name: "b"}];
			const text = doubted => completed({explanation: [{feature: "x", score: 2}, {feature: "(intercept)", score: -1}], scores: [1], score: doubted ? 1.2 : 1, class: "b", probability: .8, probabilities: {a: .2, b: .8}, doubted}).map(c => c.feature + " " + c.score.toFixed(2)).join("|");
			const both = text() + " " + text([{}]); now.classes = was; return both; })()`
		must.Equal(t, b.value(t, added), "x 2.00|(intercept) -1.00|(calibration) 0.39|log-odds of 80.0 % 1.39 x 2.00|(intercept) -1.00|(doubted numbers) 0.20|(calibration) 0.19|log-odds of 80.0 % 1.39", "the contributions that the page shows")
		must.Equal(t, b.value(t, `ticks([2017, 2017.25, 2017.5], v => +v.toPrecision(4) + "").join("|")`), "2017|2017.3|2017.5", "ticks")
		aged := `(() => { measures.by_staleness = [{age: 0, events: 9, error: 8, log_loss: .2}, {age: 1000, events: 5, error: 25.48, log_loss: .9566, fresh_error: 5.767, fresh_log_loss: .1836}]; drawAged();
			return [...document.querySelectorAll("#by-age td")].map(e => e.textContent).join("|"); })()`
		must.Equal(t, b.value(t, aged), "1,000|25.5 %|5.77 %|0.9566|0.1836", "by age the page shows")
		covered := `(() => { measures.coverage_by_class = [{class: "a", events: 1200, recent: .912}, {class: "b", events: 30, recent: .87}, {class: "c", events: 0, recent: 0}]; drawClassCoverage();
			return [...document.querySelectorAll("#class-coverage td")].map(e => e.textContent).join("|"); })()`
		must.Equal(t, b.value(t, covered), "b|87 %|30|a|91 %|1,200", "sets by class the page shows")
		b.picture(t, "page-"+l.name)
		alarm := `(() => { now.health = {alarms: 1, watched: 2, fields: [{field: "x", alarms: [{field: "x", kind: "missing", text: "x is missing", error_before: 11, error_after: 25.4}]}]}; draw();
			return ["alarms", "field-alarms", "field-alarms-note"].map(id => document.getElementById(id).textContent).join("|"); })()`
		must.Equal(t, b.value(t, alarm), "x is missing|1|x costs 14.4 points of error", "an alarm at the top")
	})
}

// priced returns events whose label is a price. Every seventh event has a missing number.
func priced(n int) []byte {
	var lines bytes.Buffer
	r := rand.New(rand.NewPCG(8, 8))
	for i := range n {
		size, rooms := 60+20*r.NormFloat64(), 1+r.IntN(5)
		price, area := 1000+12*size+80*float64(rooms)+60*r.NormFloat64(), fmt.Sprintf("%.1f", size)
		if i%7 == 3 {
			area = "null"
		}
		fmt.Fprintf(&lines, `{"label":%.2f,"ts":%d,"size":%s,"rooms":%d,"town":"t%d"}`+"\n", price, time.Now().UnixMilli(), area, rooms, i%3)
		if i%200 == 7 {
			fmt.Fprintf(&lines, `{"label":"on request","ts":%d,"size":1,"rooms":1}`+"\n", time.Now().UnixMilli())
		}
	}
	return lines.Bytes()
}

// TestRegressionInBrowser checks the page of a regression learner in a real browser. The errors on the page must be MAE
// and RMSE in the unit of the labels. The page must not mention classes. The prediction for an event entered on the
// page must have an interval.
func TestRegressionInBrowser(t *testing.T) {
	b := browse(t)
	c := online.DefaultConfig()
	c.Loss = "squared"
	runner, service := runnerOf(t, c, priced(2000))
	recordConfig := written()
	recordConfig.Target = loss.Real
	validates(t, runner, &service, c, recordConfig)
	runner.Validator.Config.Events, runner.Validator.Config.Holdout = 900, 5
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	m := runner.Status().Learner.Numbers
	b.eachLook(t, url, "document.querySelector('#try-answer .bigclass') != null && document.querySelector('#chart-error')?.dataset.series == 2 && document.querySelector('#chart-gap')?.dataset.series == 1", func(t *testing.T, l look) {
		page := "document.body.innerText"
		b.shows(t, map[string]any{
			"document.querySelector('#error').textContent":                                                         fmt.Sprintf("%#.4g", m.Window.MAE()),
			"document.querySelector('#loss').textContent":                                                          fmt.Sprintf("%#.4g", m.Window.RMSE()),
			"/^Mean absolute error/.test(document.querySelector('#error').previousElementSibling.textContent)":     true,
			"/^Root mean squared error/.test(document.querySelector('#loss').previousElementSibling.textContent)":  true,
			"/between [\\d.]+ and [\\d.]+/.test(document.querySelector('#try-answer .bigclass').innerText)":        true,
			"(" + page + ".match(/.*(NaN|undefined|\\[object|, for :|\\de\\+\\d|probabilit|nats).*/i) || [''])[0]": "",
			"/log-loss/i.test(" + page + ")":                                                                       false,
			"document.querySelector('#refused').textContent":                                                       "10",
			"document.documentElement.scrollWidth <= innerWidth":                                                   true,
			"[...document.querySelectorAll('.tile .v')].every(e => e.scrollWidth <= e.parentElement.clientWidth)":  true,
		})
		b.picture(t, "numbers-"+l.name)
	})
}

// TestWarningsInBrowser checks the page's warnings in a real browser. Warnings with any text must be readable, and must
// not make the page wider than the window.
func TestWarningsInBrowser(t *testing.T) {
	b := browse(t)
	var lines bytes.Buffer
	long := "<b>" + strings.Repeat("wide", 30) + "\\u001b[2J"
	fmt.Fprintf(&lines, `{"label":"%s","x":0}`+"\n", long)
	for i := range 40 {
		fmt.Fprintf(&lines, `{"label":"%d","x":%d}`+"\n", i%2, i%3)
	}
	runner, service := runnerOver(t, lines.Bytes())
	runner.Schema.MaxClasses = 2
	service.Reports, _ = must.Get2(serve.OpenReports("", 10))(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	kinds := len(runner.Status().Warnings)
	must.Require(t, kinds == 2, "%d warnings, want those of refused records and of a stray label", kinds)
	b.eachLook(t, url, "document.querySelectorAll('#warnings li').length === 2", func(t *testing.T, l look) {
		for i, w := range runner.Status().Warnings {
			li := fmt.Sprintf("document.querySelectorAll('#warnings li')[%d]", i)
			b.shows(t, map[string]any{
				li + ".textContent":                                 "Warning: " + w.Text,
				li + ".dataset.kind":                                w.Kind,
				li + ".children.length":                             0.0, // labels are escaped, not interpreted as markup
				li + ".getBoundingClientRect().height > 10":         true,
				li + ".getBoundingClientRect().right <= innerWidth": true,
				li + ".scrollWidth <= " + li + ".clientWidth":       true,
				"getComputedStyle(" + li + ").color === getComputedStyle(document.body).color": false,
				"document.documentElement.scrollWidth <= innerWidth":                           true,
			})
		}
		b.picture(t, "warnings-"+l.name)
	})
}

// TestHealthInBrowser checks the health of fields in a real browser, in light and dark mode and on a phone. The failed
// field must be first, with its report, and field names must be escaped.
func TestHealthInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := runnerOver(t, dying())
	service.Reports, _ = must.Get2(serve.OpenReports("", 10))(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	told := runner.Status().Learner.Health.Fields[0].Alarms[0].Text
	b.eachLook(t, url, "document.querySelectorAll('#health-table tbody tr').length === 3", func(t *testing.T, l look) {
		first := "document.querySelector('#health-table tbody tr')"
		b.shows(t, map[string]any{
			"document.querySelector('#health').hidden":                                                                   false,
			"document.querySelectorAll('#alarms li').length":                                                             1.0,
			"document.querySelector('#alarms li').textContent":                                                           told,
			first + ".children[0].textContent":                                                                           "vibration",
			first + ".children[1].textContent":                                                                           "100.0 %",
			first + ".children[1].className":                                                                             "bad",
			first + ".children[2].textContent":                                                                           "0.00 %",
			"document.querySelectorAll('#health-table td.bad').length":                                                   1.0,
			"document.querySelector('#health-table').innerHTML.includes('<b>x')":                                         false,
			"document.querySelector('#health-table').innerText.includes('<b>x')":                                         true,
			"document.documentElement.scrollWidth <= innerWidth":                                                         true,
			"document.querySelector('#health-table').scrollWidth <= document.querySelector('#health-table').clientWidth": true,
			"document.querySelector('#alarms li').getBoundingClientRect().right <= innerWidth":                           true,
		})
		b.picture(t, "health-"+l.name)
	})
}

// TestAlarmsInBrowser checks in a real browser that a field with an alarm is marked, and that a field without an alarm
// is not marked.
func TestAlarmsInBrowser(t *testing.T) {
	b := browse(t)
	_, service := learned(t)
	gone := health.FieldHealth{Field: "gone", Missing: &health.Condition{Now: 1}, Alarms: []health.FieldAlarm{{Field: "gone", Kind: "missing", Text: "gone is missing"}}}
	status := *service.Status()
	status.Learner.Health = &health.Health{Alarms: 1, Fields: []health.FieldHealth{gone, {Field: "there", Missing: &health.Condition{}}}}
	service.Status = func() *run.Status { return &status }
	url := start(t, serve.DefaultConfig(), service)
	b.open(t, url, looks[0], "document.querySelectorAll('#health-table tbody tr').length === 2")
	b.shows(t, map[string]any{
		"document.querySelector('#alarms').innerText":              "gone is missing",
		"document.querySelector('#field-alarms').innerText":        "1",
		"document.querySelectorAll('#alarms li').length":           1.0,
		"document.querySelectorAll('#health-table td.bad').length": 1.0,
		// A table shows unknown values as dashes.
		"/gone\\s+100.0 %\\s+0.00 %(\\s+–){2}\\s/.test(document.querySelector('#health-table').innerText)": true,
		// The line since the beginning is dashed where the legend explains it. The recent line is solid.
		"[...document.querySelectorAll('#legend-error span')].map(s => s.innerText + getComputedStyle(s.firstChild).borderTopStyle).join()": "recentsolid,since the startdashed",
	})
}

// TestGroupInBrowser checks the list of a group's shards in a real browser, in a wide window and on a phone.
func TestGroupInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	off := 12.5
	shown := &shards.Status{Member: strings.Repeat("1", 32), Members: 4, Standby: 1}
	for i := range 3 {
		shown.Shards = append(shown.Shards, shards.ShardStatus{Number: i, Events: 12345, At: time.Now(), OwnWeight: .25})
	}
	shown.Shards[1].Own, shown.Shards[1].Lag, shown.Shards[1].Error = true, 7, &off
	var waits atomic.Bool
	service.Group = func() *shards.Status {
		s := *shown
		s.Shards = slices.Clone(s.Shards)
		if waits.Load() {
			s.Shards[1].NotReady = "process 7 has it"
		}
		return &s
	}
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			waits.Store(l.scheme == "dark")
			b.open(t, url, l, "document.querySelectorAll('#group-table tbody tr').length === 3")
			row := "[...document.querySelectorAll('#group-table tbody tr')[1].children].map(e => e.textContent).join('|')"
			note := "document.querySelector('#group-note').textContent"
			b.shows(t, map[string]any{
				"document.querySelector('#group').hidden":                                                                  false,
				row + ".startsWith('1 (this member)|12,345|12.5 %|25.0 %|7|')":                                             true,
				note + ".startsWith('3 members learn, 1 stand by. This one learns 1 of 3 shards.')":                        true,
				"document.querySelector('#group-alarm').textContent.includes('process 7 has it')":                          l.scheme == "dark",
				"document.documentElement.scrollWidth <= innerWidth":                                                       true,
				"document.querySelector('#group-note').getBoundingClientRect().right <= innerWidth":                        true,
				"document.querySelector('#group-table').scrollWidth <= document.querySelector('#group-table').clientWidth": l.width > 500,
			})
			b.picture(t, "group-"+l.name)
		})
	}
}
