package serve_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
)

// threeClasses returns events of three classes with two groups of fields. Two of the classes are often confused. Some
// events are invalid.
func threeClasses() []byte {
	var lines bytes.Buffer
	for i := range 900 {
		class := []string{"apple", "pear", "plum"}[i%3]
		word := must.Either(i%5 == 0, "pear", class)
		fmt.Fprintf(&lines, `{"label":%q,"word":"%s%d","left":%d,"right":%d}`+"\n", class, word, i%2, i%7, i%4)
		if i%300 == 7 {
			fmt.Fprintf(&lines, "{spoilt <b>%d</b>\n", i)
		}
	}
	return lines.Bytes()
}

// TestConfusionAndSamples checks that the errors in the confusion matrix of three classes add up to the learner's own
// count of errors. The samples must be the newest rejected records in their original form.
func TestConfusionAndSamples(t *testing.T) {
	runner, service := runnerOver(t, threeClasses())
	runner.Learner = must.Get(online.New(suspicious(), manyClasses(runner)))(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	var m struct {
		Classes             []string
		Confusion           [][]float64
		Since               int64
		Samples, Mislabeled []run.Sample
	}
	decoded(t, &m, "GET", url+"/v1/measures", "")
	must.Require(t, len(m.Confusion) == 3 && len(m.Classes) == 3 && m.Since != 0, "%+v", m)
	wrong, all := 0.0, 0.0
	for i, row := range m.Confusion {
		for j, n := range row {
			if all += n; i != j {
				wrong += n
			}
		}
	}
	total := runner.Status().Learner.Total
	must.True(t, all == 900 && wrong == total.Wrong, "%v of %v are wrong, the learner counts %v", wrong, all, total.Wrong)
	must.True(t, len(m.Samples) == 3 && m.Samples[0].Text == "{spoilt <b>607</b>" && m.Samples[2].Text == "{spoilt <b>7</b>" && strings.HasPrefix(m.Samples[0].Why, "syntax: ") && m.Samples[0].Offset == 610,
		"samples: %+v", m.Samples)
	if n := runner.Status().Learner.Mislabeled; n == 0 || len(m.Mislabeled) != int(min(n, 20)) || !strings.HasPrefix(m.Mislabeled[0].Why, "labeled ") || !strings.Contains(m.Mislabeled[0].Text, `"label"`) {
		t.Errorf("%d mislabeled events: %+v", n, m.Mislabeled)
	}
}

// TestConfusionAndSamplesInBrowser checks that the page shows the confusion matrix and the rejected records of the
// server. The page must be able to switch off all fields of a group together.
func TestConfusionAndSamplesInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := runnerOver(t, threeClasses())
	runner.Learner = must.Get(online.New(suspicious(), manyClasses(runner)))(t)
	record := written()
	record.Groups = map[string][]string{"sides": {"left", "right"}}
	service.Model = latest(runner.Published, record)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	b.eachLook(t, url, "document.querySelectorAll('#confusion-table tbody tr').length === 3", func(t *testing.T, l look) {
		b.until(t, "document.querySelector('#try-answer .bigclass') != null", true)
		b.shows(t, map[string]any{
			"[...document.querySelectorAll('#confusion-table th')].map(e => e.textContent).join('|').replace(/ /g, '')":      "actual/predicted|apple|pear|plum|recall",
			"document.querySelector('#confusion').hidden":                                                                    false,
			"document.querySelector('#aside').hidden":                                                                        false,
			"document.querySelector('#aside-tables pre.record').textContent":                                                 "{spoilt <b>607</b>",
			"document.querySelectorAll('#aside-tables > details').length":                                                    2.0,
			"document.querySelector('#try-form [data-group=sides]').checked":                                                 true,
			"document.documentElement.scrollWidth <= innerWidth":                                                             true,
			"[...document.querySelectorAll('#confusion, #aside')].every(e => e.getBoundingClientRect().right <= innerWidth)": true,
		})
		b.value(t, "document.querySelector('#try-form [data-group=sides]').click()")
		must.Equal(t, b.value(t, "[...document.querySelectorAll('#try-form .off')].map(e => e.textContent).join(' ')"), "left right", "switched off")
		b.until(t, "/Missing: left, right/.test(document.querySelector('#try-answer').innerText)", true)
		b.picture(t, "aside-"+l.name)
	})
}

// TestZoomAndLostConnectionInBrowser checks that dragging over a chart zooms all charts over time to the selected span.
// A double click must reset the charts. If the server has stopped, the page must show the time of the lost connection
// and gray out its content.
func TestZoomAndLostConnectionInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	server := must.Get(serve.Start(listening(), service, quiet()))(t)
	must.Do(t, runner.Run(t.Context()))
	b.open(t, server.URL(), looks[0], "Number(document.querySelector('#chart-error')?.dataset.points) >= 4")
	const chosen = "document.querySelector('#ranges button[aria-pressed=true]')?.textContent ?? 'none'"
	const shown = "(s => s.max - s.min)(plots['chart-error'].plot.scales.x)"
	all := b.value(t, shown).(float64)
	place := func(fraction float64) map[string]any {
		box := "document.querySelector('#chart-error .u-over').getBoundingClientRect()"
		x := b.value(t, fmt.Sprintf("%s.left + %v * %s.width", box, fraction, box)).(float64)
		y := b.value(t, box+".top + 40").(float64)
		return map[string]any{"x": x, "y": y, "button": "left", "clickCount": 1}
	}
	mouse := func(kind string, at map[string]any) {
		at["type"] = kind
		b.call(t, "Input.dispatchMouseEvent", at)
	}
	mouse("mouseMoved", place(.3))
	mouse("mousePressed", place(.3))
	mouse("mouseMoved", place(.45))
	mouse("mouseMoved", place(.6))
	mouse("mouseReleased", place(.6))
	b.until(t, chosen, "none")
	part := b.value(t, shown).(float64)
	must.True(t, part <= .45*all && part >= .15*all, "a drag over .3 of the chart shows %v ms of %v", part, all)
	must.Equal(t, b.value(t, "plots['chart-error'].plot.scales.x.min === plots['chart-loss'].plot.scales.x.min"), true, "the other charts show another span")
	for clicks := range 2 {
		at := place(.5)
		at["clickCount"] = clicks + 1
		mouse("mousePressed", at)
		mouse("mouseReleased", at)
	}
	b.until(t, chosen, "All")
	again := b.value(t, shown).(float64)
	must.True(t, again >= all, "after a double click %v ms are shown, were %v", again, all)

	b.serverGone = true
	must.Do(t, server.Close(t.Context()))
	b.until(t, "document.querySelector('#state').textContent", "no connection")
	b.until(t, "/^The server does not answer. This page is .* old.$/.test(document.querySelector('#why').textContent)", true)
	b.shows(t, map[string]any{
		"document.title.startsWith('? ')":                                           true,
		"document.body.classList.contains('stale')":                                 true,
		"Number(getComputedStyle(document.querySelector('.tile .v')).opacity) < .6": true,
		"document.querySelector('#events').textContent":                             "400",
	})
}

// suspicious returns the settings of a learner that detects mislabeled events.
func suspicious() online.Config {
	c := online.DefaultConfig()
	c.Loss, c.MislabeledBelow = "t-logistic:1.6", 0.8
	return c
}

// manyClasses returns a Schema with which a runner's events may have up to five classes.
func manyClasses(r *run.Runner) *event.Schema {
	r.Schema.MaxClasses = 5
	return r.Schema
}
