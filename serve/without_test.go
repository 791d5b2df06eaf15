package serve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"testing"

	"blankout/batch"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
)

// TestWithout checks that GET /v1/without agrees with the predictions of /v1/predict for events in which a field is
// null.
func TestWithout(t *testing.T) {
	runner, service := learned(t)
	address := start(t, serve.DefaultConfig(), service)
	ask := func(query string) (int, string) {
		status, text, _ := call(t, "GET", address+"/v1/without"+query, "")
		return status, text
	}
	status, text := ask("?name=word")
	must.True(t, status == 503, "before the start: %d %s", status, text)
	must.Do(t, runner.Run(t.Context()))
	for query, want := range map[string]int{"": 400, "?kind=sensor&name=word": 400, "?name=nothing": 404, "?kind=group&name=word": 404} {
		status, text := ask(query)
		must.True(t, status == want, "%s: %d %s", query, status, text)
	}
	var g batch.Ablation
	status, text = ask("?name=word")
	err := json.Unmarshal([]byte(text), &g)
	must.Require(t, status == 200 && err == nil, "%d %v %s", status, err, text)
	wrong := 0.0
	for i := range 400 {
		var answer struct{ Predictions []struct{ Class string } }
		decoded(t, &answer, "POST", address+"/v1/predict", fmt.Sprintf(`{"word":null,"x":%d}`, i%3))
		if answer.Predictions[0].Class != [2]string{"no", "yes"}[i%2] {
			wrong += 100. / 400
		}
	}
	must.True(t, g.Events == 400 && g.WithPart == 400 && g.With == 0 && math.Abs(g.Without-wrong) <= 1e-9 && len(g.Deletions) == 10 && len(g.ForecastWithout) == 10 && math.Abs(*g.ForecastWithout[0]-wrong) <= 1e-9 && len(g.Recent) == 16,
		"%+v, want the error %v without the word", g, wrong)
	status, text = ask("?kind=feature&name=" + url.QueryEscape("word=yes1"))
	must.True(t, status == 200, "a word: %d %s", status, text)
}

// TestFailuresAndReportsInBrowser checks in a real browser that a single point of failure can be selected by mouse and
// by keyboard. The page must be able to compare two validations.
func TestFailuresAndReportsInBrowser(t *testing.T) {
	b := browse(t)
	runner, service := learned(t)
	validates(t, runner, &service, online.DefaultConfig(), written())
	validatesTwice(runner, &service)
	address := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	reports := service.Reports.List()
	must.Require(t, len(reports) >= 2, "%d reports", len(reports))
	b.eachLook(t, address, "document.querySelectorAll('#failures-table tbody button').length > 0", func(t *testing.T, l look) {
		b.until(t, "document.querySelectorAll('.refusal').length === 1", true) // a reason for the invalid records is shown
		b.shows(t, map[string]any{"document.querySelector('#without').hidden": true,
			"/^First record refused for syntax: .+/.test(document.querySelector('.refusal').textContent)": true})
		drawn := "document.querySelector('#chart-without-forecast').dataset.series === '2' && document.querySelector('#chart-without-recent').dataset.series === '2'"
		if l.width > 500 { // click on the bar
			at := b.value(t, "(() => { const e = document.querySelector('#failures-table tbody .bar'); e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return (r.left + 1) + ' ' + (r.top + r.height / 2); })()").(string)
			var x, y float64
			must.Get(fmt.Sscan(at, &x, &y))(t)
			for _, kind := range []string{"mousePressed", "mouseReleased"} {
				b.call(t, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
			}
		} else { // press a key
			b.value(t, "document.querySelector('#failures-table tbody button').focus()")
			b.call(t, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
			b.call(t, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13})
		}
		b.until(t, drawn, true)
		b.value(t, "document.querySelector('#failures').scrollIntoView()")
		b.shows(t, map[string]any{
			"document.querySelector('#without-name').textContent":                                                                          "If the field word dies",
			"/^0.00 % → .* % on 400 of the newest events, of which 400 hold it/.test(document.querySelector('#without-note').textContent)": true,
			"document.querySelector('#failures-table tbody button').getAttribute('aria-expanded')":                                         "true",
			"document.documentElement.scrollWidth <= innerWidth":                                                                           true,
			"document.querySelector('#chart-without-recent canvas').getBoundingClientRect().right <= innerWidth":                           true,
		})
		b.picture(t, "without-"+l.name)
		b.value(t, "document.querySelector('#failures-table tbody button').click()")
		b.shows(t, map[string]any{"document.querySelector('#without').hidden": true})

		// The page shows the older report next to the newest.
		b.value(t, fmt.Sprintf("(() => { const s = document.querySelector('#report-other'); s.value = %q; s.dispatchEvent(new Event('change')); })()", reports[1].ID))
		b.until(t, "document.querySelectorAll('#exact thead th').length === 5", true)
		b.value(t, "document.querySelector('#exact').scrollIntoView()")
		cells := "[...[...document.querySelectorAll('#exact tbody tr')].find(r => r.textContent.startsWith('%s')).children].map(e => e.textContent.replace(/\\u202f/g, ''))"
		b.shows(t, map[string]any{
			fmt.Sprintf(cells, "records") + ".join('|')": fmt.Sprintf("records|%d||%d|", reports[0].Records, reports[1].Records),
			fmt.Sprintf(cells, "objective") + ".slice(1).every(x => x !== '–') && " + fmt.Sprintf(cells, "objective") + "[1] !== " + fmt.Sprintf(cells, "objective") + "[3]": true,
			"document.documentElement.scrollWidth <= innerWidth": true,
		})
		b.picture(t, "compared-"+l.name)
	})
}
