package serve_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"blankout/app/served"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
)

// bent returns events whose class depends on the distance of the number x from 0. The number y is noise.
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
