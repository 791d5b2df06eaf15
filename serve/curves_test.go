package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"blankout/online"
	"blankout/serve"
)

// bent returns events whose class depends on the distance of the number x from 0. The number y tells nothing.
func bent(n int) []byte {
	var lines bytes.Buffer
	for i := range n {
		x := math.Mod(float64(i)*0.6180339887, 1)*2 - 1
		label := "near"
		if math.Abs(x) > 0.5 {
			label = "far"
		}
		fmt.Fprintf(&lines, `{"label":%q,"x":%.4f,"y":%d}`+"\n", label, x, i%7)
	}
	return lines.Bytes()
}

// The curves of /v1/model equal the differences between the scores of /v1/predict for events that differ in one number.
func TestCurvesAreServed(t *testing.T) {
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
	status, text, _ := call(t, "GET", url+"/v1/model", "", "Accept", "application/json")
	if err := json.Unmarshal([]byte(text), &model); status != 200 || err != nil || len(model.Curves) != 2 {
		t.Fatalf("%d %v %s", status, err, text)
	}
	curve := model.Curves[0]
	if curve.Feature != "x" {
		curve = model.Curves[1]
	}
	if curve.Feature != "x" || len(curve.X) != 5 || len(curve.Added) != 1 || curve.Added[0].Class != "far" && curve.Added[0].Class != "near" {
		t.Fatalf("%+v", curve)
	}
	score := func(x float64) float64 {
		status, text, _ := call(t, "POST", url+"/v1/predict", fmt.Sprintf(`{"x":%v,"y":3}`, x))
		var answer struct{ Predictions []struct{ Scores []float64 } }
		if err := json.Unmarshal([]byte(text), &answer); status != 200 || err != nil || len(answer.Predictions) != 1 {
			t.Fatalf("%d %v %s", status, err, text)
		}
		scores := answer.Predictions[0].Scores
		return scores[len(scores)-1]
	}
	first, widest := score(curve.X[0]), 0.0
	for i, x := range curve.X {
		drawn := curve.Added[0].Score[i] - curve.Added[0].Score[0]
		widest = max(widest, math.Abs(drawn))
		if got := score(x) - first; math.Abs(got-drawn) > 1e-12 {
			t.Errorf("from %v to %v: drawn %v, scored %v", curve.X[0], x, drawn, got)
		}
	}
	if widest < 1 {
		t.Errorf("the curve moves the score by %v only", widest)
	}
}

// looks are the sizes and colors in which the page is tested.
var looks = []struct {
	name, scheme string
	width        int
}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 390}, {"phone-dark", "dark", 390}}

// look opens the page with a look and waits until an expression is true.
func (b *browser) look(t *testing.T, url, scheme string, width int, until string) {
	t.Helper()
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 2400, "deviceScaleFactor": 1, "mobile": width < 500})
	b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
	b.await(t, until)
}

// await waits until an expression is true.
func (b *browser) await(t *testing.T, until string) {
	t.Helper()
	for tries := 0; b.value(t, until) != true; tries++ {
		if tries == 300 {
			t.Fatalf("%s: the page shows %v", until, b.value(t, "document.body?.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// shows compares the values of expressions in the page.
func (b *browser) shows(t *testing.T, want map[string]any) {
	t.Helper()
	for expression, want := range want {
		if got := b.value(t, expression); got != want {
			t.Errorf("%s: %v, want %v", expression, got, want)
		}
	}
}

// The curves of numbers in a real browser: one small chart each.
func TestCurvesInBrowser(t *testing.T) {
	b := browse(t)
	c := online.DefaultConfig()
	_, service := learnedFrom(t, c, 2, bent(3000))
	url := start(t, serve.DefaultConfig(), service)
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b.look(t, url, l.scheme, l.width, "document.querySelectorAll('#curves-charts .uplot').length === 2")
			b.shows(t, map[string]any{
				"document.querySelector('#curves').hidden":                                                      false,
				"document.querySelector('#curves-charts h3').textContent":                                       "x", // the one that changes the score most
				"document.querySelector('#curve-0').dataset.points":                                             "5",
				"/x@-?0\\.\\d+/.test(document.querySelector('#largest-table').innerText)":                       true, // hats have names
				"document.querySelector('#curves-class').hidden":                                                true,
				"document.documentElement.scrollWidth <= innerWidth":                                            true,
				"document.querySelector('#curve-0 canvas').getBoundingClientRect().right <= innerWidth":         true,
				"document.querySelector('#curve-0').getAttribute('aria-label').includes('x adds to the score')": true,
			})
			b.value(t, "document.querySelector('#curves').scrollIntoView()")
			b.picture(t, "curves-"+l.name)
		})
	}
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}
