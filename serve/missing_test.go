package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/batch"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/mixture"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/record"
)

// telemetry is a generated sequence of events with the given number of classes, and with numeric fields or words.
type telemetry struct {
	r       *mathrand.Rand
	classes int
	words   bool
	labels  []int
	values  [][]float64 // NaN means null, also during learning
}

func newTelemetry(seed uint64, n, classes, fields int, words bool, null float64) *telemetry {
	s := &telemetry{r: mathrand.New(mathrand.NewPCG(5, seed)), classes: classes, words: words}
	weight := must.List(classes*fields, func(int) float64 { return 0.35 * s.r.NormFloat64() })
	for range n {
		label, values := s.r.IntN(classes), make([]float64, fields)
		for j := range values {
			if values[j] = weight[label*fields+j] + s.r.NormFloat64(); s.r.Float64() < null {
				values[j] = math.NaN()
			}
		}
		s.labels, s.values = append(s.labels, label), append(s.values, values)
	}
	return s
}

// write writes event i with a fraction of its fields missing. Missing numbers are null, and missing words are omitted.
func (s *telemetry) write(b io.Writer, i int, missing float64) {
	var words []string
	fmt.Fprintf(b, `{"label":"c%d"`, s.labels[i])
	for j, x := range s.values[i] {
		switch gone := s.r.Float64() < missing; {
		case s.words && x > 0 && !gone:
			words = append(words, fmt.Sprintf(`"w%d"`, j))
		case s.words:
		case gone || math.IsNaN(x):
			fmt.Fprintf(b, `,"sensor%d":null`, j)
		default:
			fmt.Fprintf(b, `,"sensor%d":%.4f`, j, 20+float64(j)*x)
		}
	}
	if s.words {
		fmt.Fprintf(b, `,"words":[%s]`, strings.Join(words, ","))
	}
	fmt.Fprintln(b, "}")
}

// TestServedAsForecast checks that the forecast while learning equals the error of the server's predictions for the
// same events with the same missing fraction. The forecast must also equal the learner's own error. The mean difference
// over the streams must be below one percentage point. For one stream of two classes the difference has a standard
// deviation of 1.4 points, because masks are drawn for some events only.
func TestServedAsForecast(t *testing.T) {
	longtest.NotRaced(t)
	learned, asked := must.Either(longtest.Asked(), 30_000, 16_000), must.Either(longtest.Asked(), 15_000, 8_000) // asked: the last events, whose forecasts have not decayed
	for _, c := range []struct {
		name    string
		classes int
		fields  int
		words   bool
		noise   string
		null    float64 // fraction that is missing during learning too
		points  []int   // forecast points to compare
		streams uint64
	}{
		{"clean", 2, 24, false, "auto", 0, []int{0, 1, 3, 5, 7}, 8}, // with four, chance alone exceeds a point now and then
		{"no noise", 2, 24, false, "none", 0, []int{3, 5, 7}, 4},
		{"nulls", 2, 24, false, "auto", 0.3, []int{0}, 1},
		{"more nulls", 2, 24, false, "dropout:0.3", 0.3, []int{3}, 5},
		{"words", 2, 60, true, "auto", 0, []int{0, 3, 5, 7}, 2},
		{"classes", 5, 30, false, "auto", 0, []int{7}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.null == 0 {
				longtest.Only(t)
			}
			most, forecast, served := 1.0, make([]float64, len(c.points)), make([]float64, len(c.points)) // means over the streams
			if c.streams == 5 && !longtest.Asked() {
				most, c.streams = 2, 1
			}
			check := func(what string, point int, forecast, served, most float64) {
				said := fmt.Sprintf("%s, %.0f %% more missing: forecast %.2f %%, served %.2f %%", what, 100*mixture.Missing(point), forecast, served)
				t.Log(said)
				must.True(t, math.Abs(served-forecast) <= most, "%v", said)
			}
			for stream := range c.streams {
				s := newTelemetry(17+stream, learned, c.classes, c.fields, c.words, c.null)
				var lines bytes.Buffer
				for i := range learned {
					s.write(&lines, i, 0)
				}
				config := online.DefaultConfig()
				config.Noise = c.noise
				if c.classes > 2 {
					config.Levels, config.ExpectedMissing = []float64{0, 0.5}, 0.7
				}
				runner, service := learnedFrom(t, config, c.classes, lines.Bytes())
				url := start(t, serve.DefaultConfig(), service)
				metrics := runner.Status().Learner
				for i, point := range c.points {
					is := 100 * servedError(t, url, s, asked, mixture.Missing(point))
					was := 100 * metrics.Forecast.Declared[point].Error
					served[i] += is / float64(c.streams)
					if forecast[i] += was / float64(c.streams); c.classes == 2 {
						check(fmt.Sprint("stream ", stream), point, was, is, 3.5)
					}
				}
			}
			for i, point := range c.points {
				most := most
				if point == 7 { // the forecast is smooth over all fractions, and turns here
					most = max(most, 1.5)
				}
				check("all streams", point, forecast[i], served[i], most)
			}
		})
	}
}

// learnedFrom returns a Runner that has learned the given lines, and its Service.
func learnedFrom(t *testing.T, config online.Config, classes int, lines []byte) (*run.Runner, serve.Service) {
	t.Helper()
	path := must.File(t, "events.jsonl", lines)
	recordConfig := record.DefaultConfig()
	recordConfig.Format, recordConfig.MaxClasses = "json", classes
	schema := recordConfig.Schema()
	source := must.Get(stream.OpenFile(path, recordConfig, schema))(t)
	t.Cleanup(func() { source.Close() })
	learner := must.Get(online.New(config, schema))(t)
	runner := &run.Runner{Config: run.DefaultConfig(), Source: source, State: run.State{Learner: learner}, Schema: schema, Fingerprint: recordConfig.Settings()}
	runner.Config.Refused = run.PolicyFail
	must.Do(t, runner.Run(t.Context()))
	return runner, serve.Service{Status: runner.Status, Model: latest(runner.Published, recordConfig)}
}

// servedError returns the error of predictions over HTTP for the last n events.
func servedError(t *testing.T, url string, s *telemetry, n int, missing float64) float64 {
	t.Helper()
	wrong := 0
	for from := len(s.labels) - n; from < len(s.labels); from += 1000 {
		var events strings.Builder
		for i := range 1000 {
			s.write(&events, from+i, missing)
		}
		var answer struct {
			Predictions []struct {
				Class   string
				Missing []string
				Rule    string `json:"missing_policy"`
			}
		}
		decoded(t, &answer, "POST", url+"/v1/predict", events.String())
		must.Require(t, len(answer.Predictions) == 1000, "%v", len(answer.Predictions))
		for i, p := range answer.Predictions {
			if p.Class != fmt.Sprint("c", s.labels[from+i]) {
				wrong++
			}
			must.Require(t, (len(p.Missing) > 0) == (p.Rule != "") && (len(p.Missing) <= 0 || !s.words), "missing %q, rule %q", p.Missing, p.Rule)
		}
	}
	return float64(wrong) / float64(n)
}

// TestMissingPredicted checks that a response names the missing fields, null or omitted, and the missing policy. If the
// user chooses another policy, the response must name that policy.
func TestMissingPredicted(t *testing.T) {
	s := newTelemetry(17, 400, 2, 4, false, 0)
	var lines bytes.Buffer
	for i := range s.labels {
		s.write(&lines, i, 0)
	}
	scores := map[model.MissingPolicy]float64{}
	for _, policy := range []model.MissingPolicy{model.MissingNone, model.MissingRescale} {
		config := online.DefaultConfig()
		config.MissingPolicy = string(policy)
		_, service := learnedFrom(t, config, 2, lines.Bytes())
		url := start(t, serve.DefaultConfig(), service)
		_, body, _ := call(t, "POST", url+"/v1/predict", `{"sensor0":21,"sensor1":24,"sensor2":null}`)
		for _, want := range []string{`"missing":["sensor2","sensor3"]`, fmt.Sprintf(`"missing_policy":%q`, policy)} {
			must.Contains(t, body, want)
		}
		var answer struct{ Predictions []struct{ Scores []float64 } }
		must.Do(t, json.Unmarshal([]byte(body), &answer))
		scores[policy] = answer.Predictions[0].Scores[0]
		_, body, _ = call(t, "POST", url+"/v1/predict", `{"sensor0":21,"sensor1":24,"sensor2":24,"sensor3":23}`)
		must.True(t, !strings.Contains(body, `"missing_policy"`) && !strings.Contains(body, `"missing"`), "nothing is missing: %s", body)
	}
	must.True(t, scores[model.MissingNone] != scores[model.MissingRescale], "both rules score the same")
}

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
