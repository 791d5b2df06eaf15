package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/run"
	"blankout/internal/served"
	"blankout/internal/served/s3"
	"blankout/online"
	"blankout/online/group"
	"blankout/online/watch"
	"blankout/serve"
	"blankout/serve/predict"
	"blankout/stream"
)

// The page in a real browser shows what the server reports, in light and dark mode and on a phone, without errors and
// without requests to other servers. BLANKOUT_SCREENSHOTS names a directory for screenshots.
func TestPageInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	var err error
	if service.Reports, _, err = serve.OpenReports("", 10); err != nil {
		t.Fatal(err)
	}
	service.Predictions = func() *predict.Stats {
		return &predict.Stats{Scored: 1234, Refused: 5, Age: 700 * time.Millisecond, At: time.Now(), NewestAge: 12 * time.Millisecond,
			Partitions: []stream.PartitionStats{{Topic: "more", Lag: 67}}}
	}
	snapshot := serve.DefaultSnapshotConfig()
	snapshot.File = filepath.Join(t.TempDir(), "model.blankout")
	snapshots, err := serve.OpenSnapshots(t.Context(), snapshot, stream.DefaultConnectConfig(), false, s3.DefaultConfig(), func() *served.Model {
		m := served.New(runner.Model(), written())
		m.Version, m.At = runner.Published().Version, runner.Published().At
		return m
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	service.Snapshots = func() *serve.Snapshots { return snapshots }
	runner.Report = service.Reports.Add
	runner.Validator = &validate.Validator{Config: validate.DefaultConfig(), Learner: online.DefaultConfig(),
		Open: func(_ context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
			return stream.OpenFile(from[0].Topic, written(), s)
		}}
	runner.Validator.Config.Policy, runner.Validator.Config.AdoptMargin, runner.Validator.Config.Events = "adopt", math.Inf(-1), 200 // of 404: two make a line
	url := start(t, serve.DefaultConfig(), service)
	if err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	snapshots.Run(ended) // sends the last one
	if m, err := served.ReadFile(snapshot.File); err != nil || m.Version != runner.Published().Version {
		t.Fatalf("the snapshot: %v", err)
	}
	for _, c := range []struct {
		name          string
		width, height int
		scheme        string
	}{{"light", 1240, 2250, "light"}, {"dark", 1240, 2250, "dark"}, {"phone", 390, 3450, "light"}} {
		t.Run(c.name, func(t *testing.T) {
			b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": c.scheme}}})
			b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": c.width, "height": c.height, "deviceScaleFactor": 1, "mobile": c.width < 500})
			b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
			// Two points make a line.
			drawn := "[document.body?.dataset.events, document.querySelector('#chart-error')?.dataset.series, document.querySelector('#chart-gap')?.dataset.series, document.querySelector('#try-answer .bigclass') != null, document.querySelector('#chart-calibration')?.dataset.series, document.querySelector('#largest-table tbody tr') != null].join(' ')"
			for tries := 0; b.value(t, drawn) != "400 2 1 true 2 true"; tries++ {
				if tries == 300 {
					t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
				}
				time.Sleep(50 * time.Millisecond)
			}
			for expression, want := range map[string]any{
				"document.querySelector('#state').textContent":   "stopped",
				"document.querySelector('#refused').textContent": "4",
				"document.querySelector('#events').textContent":  "400",
				// Only the first moments of a run are cut off, never later ones.
				"Math.round(1000 * ceiling({data: [[...Array(100).keys()], [...Array(100).keys()].map(i => i < 2 ? 50 : i > 98 ? 23.8 : 10)]}, {time: true, range: [0, 99]}))": 39984.0,
				"Math.round(1000 * ceiling({data: [[...Array(100).keys()], [...Array(100).keys()].map(i => i > 98 ? 23.8 : 10)]}, {time: true, range: [0, 99]}))":              24990.0,
				// Characters that do not print, or that change the direction of text, are shown as escapes. Numbers
				// keep their spaces.
				`el("i", {title: "a\u202eb"}, "c\u202ed\u200b\n", "1\u202f000").textContent`:                         "c\\u202ed\\u200b\n1\u202f000",
				`el("i", {title: "a\u202eb", "data-x": "a\u202eb"}).title + el("i", {"data-x": "\u202e"}).dataset.x`: "a\\u202eb\u202e",
				// Rejected records are grouped by reason, each behind a click.
				"document.querySelectorAll('#aside details[open]').length":                                                                                                 0.0,
				"document.querySelector('#aside-tables > details > summary').textContent":                                                                                  "syntax: 4, the newest 4",
				"document.querySelectorAll('#aside-tables > details > details > pre.record').length":                                                                       4.0,
				"document.querySelector('#refused-note').textContent":                                                                                                      "syntax 4 · 0 kept since the start",
				"document.title.startsWith(document.querySelector('#name').textContent + ' · blankout')":                                                                   true,
				"document.querySelector('#name').textContent.endsWith('.jsonl')":                                                                                           true,
				"document.querySelectorAll('#alarms li').length":                                                                                                           0.0,
				"document.querySelector('#chart-forecast').dataset.series":                                                                                                 "4", // live and exact, and while learning declared and silent
				"document.querySelector('#exact').innerText.includes('the very ones learned')":                                                                             true,
				"/Last adopted .*, at 400 records: objective .* → .*, error .* → .* %. Since the start 2 adopted\\.$/.test(document.querySelector('#adoption').innerText)": true,
				"document.querySelector('#exact').innerText.includes('before that was adopted')":                                                                           true,
				"document.querySelector('#failures').hidden":                                                                                                               false,
				"document.querySelector('#failures-table tbody tr td').textContent":                                                                                        "word",
				"document.querySelector('#counts').innerText.includes('yes')":                                                                                              true,
				"/scored\\s+1.234\\s+refused\\s+5\\s+lag\\s+67/.test(document.querySelector('#counts').innerText)":                                                         true,
				"/file\\s+1\\s/.test(document.querySelector('#counts').innerText)":                                                                                         true,
				"document.documentElement.scrollWidth <= innerWidth":                                                                                                       true,
				"performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))":                                                                  true,
				"getComputedStyle(document.body).backgroundColor":                                                                                                          map[string]any{"light": "rgb(246, 247, 249)", "dark": "rgb(18, 21, 26)"}[c.scheme],
				"[...document.querySelectorAll('.tile .v')].every(e => e.scrollWidth <= e.parentElement.clientWidth)":                                                      true,
			} {
				if got := b.value(t, expression); got != want {
					t.Errorf("%s: %v, want %v", expression, got, want)
				}
			}
			aged := `(() => { measures.by_staleness = [{age: 0, events: 9, error: 8, log_loss: .2}, {age: 1000, events: 5, error: 25.48, log_loss: .9566, fresh_error: 5.767, fresh_log_loss: .1836}]; drawAged();
				return [...document.querySelectorAll("#by-age td")].map(e => e.textContent).join("|"); })()`
			if got := b.value(t, aged); got != "1\u202f000|25.5 %|5.77 %|0.9566|0.1836" {
				t.Errorf("by age the page shows %q", got)
			}
			covered := `(() => { measures.coverage_by_class = [{class: "a", events: 1200, recent: .912}, {class: "b", events: 30, recent: .87}, {class: "c", events: 0, recent: 0}]; drawClassCoverage();
				return [...document.querySelectorAll("#class-coverage td")].map(e => e.textContent).join("|"); })()`
			if got := b.value(t, covered); got != "b|87 %|30|a|91 %|1\u202f200" {
				t.Errorf("sets by class the page shows %q", got)
			}
			b.picture(t, "page-"+c.name)
			alarm := `(() => { now.health = {alarms: 1, watched: 2, fields: [{field: "x", alarms: [{field: "x", kind: "missing", text: "x is missing", error_before: 11, error_after: 25.4}]}]}; draw();
				return ["alarms", "field-alarms", "field-alarms-note"].map(id => document.getElementById(id).textContent).join("|"); })()`
			if got := b.value(t, alarm); got != "x is missing|1|x costs 14.4 points of error" {
				t.Errorf("an alarm at the top: %v", got)
			}
		})
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// priced returns events whose label is a price. Every seventh lacks a number.
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

// The page of a learner of numbers in a real browser: its errors are MAE and RMSE in the unit of the labels, nothing is
// about classes, and a tried event has its interval.
func TestNumbersInBrowser(t *testing.T) {
	b := browse(t)
	c := online.DefaultConfig()
	c.Loss = "squared"
	runner, service := runnerOf(t, c, priced(2000))
	var err error
	if service.Reports, _, err = serve.OpenReports("", 10); err != nil {
		t.Fatal(err)
	}
	runner.Report = service.Reports.Add
	recordConfig := written()
	recordConfig.Target = loss.Real
	runner.Validator = &validate.Validator{Config: validate.DefaultConfig(), Learner: c,
		Open: func(_ context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
			return stream.OpenFile(from[0].Topic, recordConfig, s)
		}}
	runner.Validator.Config.Events, runner.Validator.Config.Holdout = 900, 5
	url := start(t, serve.DefaultConfig(), service)
	if err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := runner.Status().Learner.Numbers
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%d", scheme, width)
			t.Run(name, func(t *testing.T) {
				b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
				b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": map[int]int{1280: 2600, 390: 4600}[width], "deviceScaleFactor": 1, "mobile": width < 500})
				b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
				for tries := 0; b.value(t, "document.querySelector('#try-answer .bigclass') != null && document.querySelector('#chart-error')?.dataset.series == 2 && document.querySelector('#chart-gap')?.dataset.series == 1") != true; tries++ {
					if tries == 300 {
						t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
					}
					time.Sleep(50 * time.Millisecond)
				}
				page := "document.body.innerText"
				for expression, want := range map[string]any{
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
				} {
					if got := b.value(t, expression); got != want {
						t.Errorf("%s: %v, want %v", expression, got, want)
					}
				}
				b.picture(t, "numbers-"+name)
			})
		}
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// The page's warnings in a real browser: every warning is readable, whatever text it contains, and does not make the
// page wider than the window.
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
	var err error
	if service.Reports, _, err = serve.OpenReports("", 10); err != nil {
		t.Fatal(err)
	}
	url := start(t, serve.DefaultConfig(), service)
	if err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kinds := len(runner.Status().Warnings); kinds != 2 {
		t.Fatalf("%d warnings, want those of refused records and of a stray label", kinds)
	}
	for _, width := range []int{1280, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
			b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
			for tries := 0; b.value(t, "document.querySelectorAll('#warnings li').length") != 2.0; tries++ {
				if tries == 300 {
					t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
				}
				time.Sleep(50 * time.Millisecond)
			}
			for i, w := range runner.Status().Warnings {
				li := fmt.Sprintf("document.querySelectorAll('#warnings li')[%d]", i)
				for expression, want := range map[string]any{
					li + ".textContent":                                 "Warning: " + w.Text,
					li + ".dataset.kind":                                w.Kind,
					li + ".children.length":                             0.0, // a label is not markup
					li + ".getBoundingClientRect().height > 10":         true,
					li + ".getBoundingClientRect().right <= innerWidth": true,
					li + ".scrollWidth <= " + li + ".clientWidth":       true,
					"getComputedStyle(" + li + ").color === getComputedStyle(document.body).color": false,
					"document.documentElement.scrollWidth <= innerWidth":                           true,
				} {
					if got := b.value(t, expression); got != want {
						t.Errorf("%s: %v, want %v", expression, got, want)
					}
				}
			}
			b.picture(t, fmt.Sprintf("warnings-%d", width))
		})
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// The health of fields in a real browser, in light and dark mode and on a phone: the dead field comes first with its
// report, and no name is markup.
func TestHealthInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := runnerOver(t, dying())
	var err error
	if service.Reports, _, err = serve.OpenReports("", 10); err != nil {
		t.Fatal(err)
	}
	url := start(t, serve.DefaultConfig(), service)
	if err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := runner.Status().Learner.Health.Fields[0].Alarms[0].Text
	for _, c := range []struct {
		name, scheme string
		width        int
	}{{"light", "light", 1240}, {"dark", "dark", 1240}, {"phone", "light", 390}} {
		t.Run(c.name, func(t *testing.T) {
			b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": c.scheme}}})
			b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": c.width, "height": 2000, "deviceScaleFactor": 1, "mobile": c.width < 500})
			b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
			for tries := 0; b.value(t, "document.querySelectorAll('#health-table tbody tr').length") != 3.0; tries++ {
				if tries == 300 {
					t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
				}
				time.Sleep(50 * time.Millisecond)
			}
			first := "document.querySelector('#health-table tbody tr')"
			for expression, want := range map[string]any{
				"document.querySelector('#health').hidden":                                                                   false,
				"document.querySelectorAll('#health-alarms li').length":                                                      1.0,
				"document.querySelector('#health-alarms li').textContent":                                                    told,
				first + ".children[0].textContent":                                                                           "vibration",
				first + ".children[1].textContent":                                                                           "100.0 %",
				first + ".children[1].className":                                                                             "bad",
				first + ".children[2].textContent":                                                                           "0.00 %",
				"document.querySelectorAll('#health-table td.bad').length":                                                   1.0,
				"document.querySelector('#health-table').innerHTML.includes('<b>x')":                                         false,
				"document.querySelector('#health-table').innerText.includes('<b>x')":                                         true,
				"document.documentElement.scrollWidth <= innerWidth":                                                         true,
				"document.querySelector('#health-table').scrollWidth <= document.querySelector('#health-table').clientWidth": true,
				"document.querySelector('#health-alarms li').getBoundingClientRect().right <= innerWidth":                    true,
			} {
				if got := b.value(t, expression); got != want {
					t.Errorf("%s: %v, want %v", expression, got, want)
				}
			}
			b.picture(t, "health-"+c.name)
		})
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// The alarm of a field in a real browser, beside a field without one.
func TestAlarmsInBrowser(t *testing.T) {
	b := browse(t)
	_, service := learned(t)
	gone := watch.FieldHealth{Field: "gone", Missing: &watch.Condition{Now: 1}, Alarms: []watch.FieldAlarm{{Field: "gone", Kind: "missing", Text: "gone is missing"}}}
	status := *service.Status()
	status.Learner.Health = &watch.Health{Alarms: 1, Fields: []watch.FieldHealth{gone, {Field: "there", Missing: &watch.Condition{}}}}
	service.Status = func() *run.Status { return &status }
	url := start(t, serve.DefaultConfig(), service)
	b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
	for tries := 0; b.value(t, "document.querySelectorAll('#health-table tbody tr').length") != 2.0; tries++ {
		if tries == 300 {
			t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	for expression, want := range map[string]any{
		"document.querySelector('#alarms').innerText":              "gone is missing",
		"document.querySelector('#field-alarms').innerText":        "1",
		"document.querySelectorAll('#health-alarms li').length":    1.0,
		"document.querySelectorAll('#health-table td.bad').length": 1.0,
		// Unknown values are dashes in a table.
		"/gone\\s+100.0 %\\s+0.00 %(\\s+–){5}\\s/.test(document.querySelector('#health-table').innerText)": true,
		// The line since the beginning is dashed where the legend explains it. The recent one is not.
		"[...document.querySelectorAll('#legend-error span')].map(s => s.innerText + getComputedStyle(s.firstChild).borderTopStyle).join()": "recentsolid,since the startdashed",
	} {
		if got := b.value(t, expression); got != want {
			t.Errorf("%s: %v, want %v", expression, got, want)
		}
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// The members of a group in a real browser, wide and on a phone.
func TestGroupInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	var members []group.Peer
	for i := range 3 {
		members = append(members, group.Peer{Member: strings.Repeat(fmt.Sprint(i), 32), Accepted: 10, Rejected: uint64(i), Events: 12345, At: time.Now(), Behind: int64(i)})
	}
	shown := &group.Status{Member: members[1].Member, Members: 4, Standby: 1, Partitions: []stream.TopicPartition{{Topic: "t"}, {Topic: "t", Partition: 2}},
		Lag: 5, Accepted: 30, Rejected: map[group.Reason]uint64{group.ReasonSpan: 8, group.ReasonSnapshot: 2}, Pending: 77, Reprocessed: 1234, SnapshotOffset: 40, SnapshotHash: "0123456789abcdef", SnapshotAt: time.Now(), Peers: members}
	var mismatch atomic.Bool
	service.Group = func() *group.Status {
		s := *shown
		if mismatch.Load() {
			s.Mismatches = 2
		}
		return &s
	}
	url := start(t, serve.DefaultConfig(), service)
	if err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{1280, 390} {
		mismatch.Store(width == 390)
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 2600, "deviceScaleFactor": 1, "mobile": width < 500})
			b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
			for tries := 0; b.value(t, "document.querySelectorAll('#group-table tbody tr').length") != 3.0; tries++ {
				if tries == 300 {
					t.Fatalf("the page shows: %v", b.value(t, "document.body?.innerText"))
				}
				time.Sleep(50 * time.Millisecond)
			}
			row := "[...document.querySelectorAll('#group-table tbody tr')[1].children].map(e => e.textContent).join('|')"
			note := "document.querySelector('#group-note').textContent"
			for expression, want := range map[string]any{
				"document.querySelector('#group').hidden":                                                                  false,
				row + ".startsWith('11111111 (this one)|12\u202f345|10|1|1|')":                                             true,
				note + ".startsWith('3 learn, 1 stand by. This one learns 2 partitions; 5 commits')":                       true,
				note + ".includes('30 were accepted and 10 rejected (25.0 %)')":                                            true,
				note + ".includes('Latest snapshot 40, 0123456789abcdef')":                                                 true,
				"document.querySelector('#group-alarm').textContent.includes('2 snapshots')":                               width == 390,
				"document.documentElement.scrollWidth <= innerWidth":                                                       true,
				"document.querySelector('#group-note').getBoundingClientRect().right <= innerWidth":                        true,
				"document.querySelector('#group-table').scrollWidth <= document.querySelector('#group-table').clientWidth": width > 500,
			} {
				if got := b.value(t, expression); got != want {
					t.Errorf("%s: %v, want %v", expression, got, want)
				}
			}
			b.picture(t, fmt.Sprintf("group-%d", width))
		})
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// picture takes a screenshot. BLANKOUT_SCREENSHOTS names its directory.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	shot := b.call(t, "Page.captureScreenshot", map[string]any{"format": "png"})
	picture, err := base64.StdEncoding.DecodeString(shot["data"].(string))
	if err != nil || len(picture) < 10_000 {
		t.Errorf("a picture of %d bytes, %v", len(picture), err)
	}
	if dir := os.Getenv("BLANKOUT_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// chromium is a headless Chromium, controlled over its debugging protocol: JSON messages that end in a zero byte, over
// two pipes.
type chromium struct {
	command *exec.Cmd
	profile string
	to      *os.File
	pipe    *os.File
	from    *bufio.Reader
	id      int
}

// shared is the Chromium of all tests, nil until the first one needs it. TestMain ends it.
var shared *chromium

// sharing ends what tests have shared.
type sharing struct{ *testing.M }

func (m sharing) Run() int {
	code := m.M.Run()
	if shared != nil {
		shared.end()
	}
	return code
}

// browser is a page of chromium with its own session and store.
type browser struct {
	*chromium
	session    string
	complaints []string
}

// browse opens an empty page, or skips the test without Chromium.
func browse(t *testing.T) *browser {
	t.Helper()
	if shared == nil {
		shared = startChromium(t)
	}
	b := &browser{chromium: shared}
	if err := b.pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	store := b.call(t, "Target.createBrowserContext", map[string]any{})["browserContextId"]
	target := b.call(t, "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": store})
	t.Cleanup(func() {
		b.session = ""
		b.call(t, "Target.disposeBrowserContext", map[string]any{"browserContextId": store})
	})
	b.session = b.call(t, "Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(t, domain+".enable", map[string]any{})
	}
	return b
}

func startChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no chromium here: the page is not tested in a browser")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's directory, because helper processes may still write to it after the browser has ended.
	profile, err := os.MkdirTemp("", "blankout-browser-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile)
	c.ExtraFiles = []*os.File{theirs, ours} // 3 and 4
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close()
	return &chromium{command: c, profile: profile, to: to, pipe: from, from: bufio.NewReader(from)}
}

func (c *chromium) end() {
	fmt.Fprintf(c.to, `{"id":0,"method":"Browser.close"}`+"\x00")
	late := time.AfterFunc(10*time.Second, func() { c.command.Process.Kill() })
	c.command.Wait()
	late.Stop()
	for range 20 {
		if os.RemoveAll(c.profile) == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.to.Close()
	c.pipe.Close()
}

// call waits for the response of a method and collects errors of the page meanwhile.
func (b *browser) call(t *testing.T, method string, params map[string]any) map[string]any {
	t.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	for {
		data, err := b.from.ReadBytes(0)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID        int
			Method    string
			SessionID string
			Result    map[string]any
			Error     any
		}
		if err := json.Unmarshal(data[:len(data)-1], &answer); err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.SessionID != b.session: // of a closed page
		case answer.Method == "Runtime.exceptionThrown", answer.Method == "Log.entryAdded":
			b.complaints = append(b.complaints, string(data))
		case answer.ID == b.id && answer.Error != nil:
			t.Fatalf("%s: %v", method, answer.Error)
		case answer.ID == b.id:
			return answer.Result
		}
	}
}

// value evaluates an expression in the page.
func (b *browser) value(t *testing.T, expression string) any {
	t.Helper()
	result := b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if thrown, ok := result["exceptionDetails"]; ok {
		t.Fatalf("%s: %v", expression, thrown)
	}
	return result["result"].(map[string]any)["value"]
}
