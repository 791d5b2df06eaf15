package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
	"blankout/stream/record"
)

// TestExportsScore scores events using only the exported JSON, the exported text or the response of GET
// /v1/model?weights=1. The scores must equal the scores of the model.
func TestExportsScore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	mixed := func(i int) string {
		x, note := random.NormFloat64(), "usual"
		if i%100 == 99 {
			x, note = 1e6, "rare" // outside the clipping limits
		}
		label := "abc"[min(2, max(0, int(1.5+x+random.NormFloat64())))]
		return fmt.Sprintf(`{"label":"%c","temp":%v,"price":%v,"tail":%v,"same":7,"color":"%s","words":["%s","w%d"],"on":%t}`,
			label, 290+5*x, 1e6*math.Exp(min(x, 9)/2), math.Exp(5*random.NormFloat64()), []string{"red", "green"}[i%2], note, random.IntN(5), i%3 == 0)
	}
	two := func(i int) string { return strings.Replace(mixed(i), `"label":"c"`, `"label":"b"`, 1) }
	dense := func(i int) string {
		line := []string{"-1", "+1"}[random.IntN(2)]
		for d := 1; d < 6; d++ {
			if random.IntN(20) > 0 || d == 5 {
				line += fmt.Sprintf(" %d:%v", d, 40+random.NormFloat64())
			}
		}
		if i%7 == 0 {
			line += " 9:3"
		}
		return line
	}
	for _, c := range []struct {
		name, format, standardize string
		classes                   []string
		event                     func(int) string
		exact                     bool
	}{
		{"two classes", "json", "auto", []string{"a", "b"}, two, false},
		{"solved exactly", "json", "auto", []string{"a", "b"}, two, true},
		{"three classes", "json", "auto", []string{"a", "b", "c"}, mixed, false},
		{"nothing standardized", "json", "none", []string{"a", "b"}, two, false},
		{"only scaled", "json", "scale", []string{"a", "b"}, two, false},
		{"everything standardized", "svmlight", "all", nil, dense, false},
		{"dense columns", "svmlight", "auto", nil, dense, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			recordConfig := record.DefaultConfig()
			recordConfig.Format, recordConfig.Classes = c.format, c.classes
			schema := recordConfig.Schema()
			config := online.DefaultConfig()
			config.Doubt = "log" // an export takes numbers as they are
			config.Standardize = c.standardize
			learner := must.Get(online.New(config, schema))(t)
			decoder := must.Get(record.NewDecoder(recordConfig, schema))(t)
			var e event.Example
			next := func(i int) *event.Example {
				must.Do(t, decoder.Decode(context.Background(), record.Record{Value: []byte(c.event(i)), Offset: int64(i)}, &e))
				must.Require(t, e.Refused == nil, "%v", e.Refused)
				return &e
			}
			var b batch.Builder
			fit := batch.Standardizer{Mode: model.Standardize(c.standardize)}
			for i := range 1500 {
				e := next(i)
				if c.exact {
					fit.Observe(e, schema)
					must.Require(t, b.Add(e) == nil, "the event does not fit")
				} else {
					learner.Learn(e, nil)
				}
			}
			m := learner.Snapshot().Model()
			if c.exact {
				d, scaler := must.Get2(fit.Fit(b.Data(schema)))(t)
				solved := must.Get(batch.Train(t.Context(), d, batch.DefaultConfig()))(t)
				m = solved.Model.WithScaler(scaler)
				// Every training event must have the same score with the export as with the trained model.
				for i := range d.Rows() {
					x := d.Vec(i, event.Vec{})
					f := m.ScoreVec(x, make([]float64, 1))
					must.Require(t, !math.IsNaN(f[0]) && math.Abs(f[0]-solved.Model.Score(&event.Example{Features: x}, make([]float64, 1))[0]) <= 1e-12, "event %d: %v", i, f)
				}
			}
			path := filepath.Join(t.TempDir(), "model")
			must.Do(t, served.New(m, recordConfig).WriteFile(path))
			if m, err := readModel(path); err != nil || m.Model.(*model.Linear).Rows.Len() == 0 {
				t.Fatal(m, err)
			}
			name := m.Schema.Namer()
			forms := map[string]formula{
				"JSON": jsonFormula(t, path), "text": textFormula(t, path, m), "HTTP": servedFormula(t, served.New(m, recordConfig)),
			}
			clipped, filled, transformed, bent := false, false, false, false
			for i := range 200 {
				e := next(i)
				want := m.Score(e, make([]float64, m.Outputs))
				present := map[string]float64{}
				for j, column := range e.Features.Index {
					present[name(column)] = e.Features.Value[j]
				}
				for form, f := range forms {
					got := f.score(present)
					must.Near(t, got, want, 1e-12, "event", i, "as", form, "says")
					clipped, filled, transformed, bent = clipped || f.clipped, filled || f.filled, transformed || f.transformed, bent || f.bent
				}
			}
			must.Equal(t, bent, !c.exact && (c.standardize == "auto" || c.standardize == "all"), "numbers that are bent")
			must.Equal(t, clipped, c.standardize != "none", "values beyond the clip")
			must.Equal(t, transformed, c.format == "json" && c.standardize == "auto", "transformed values")
			want := len(m.Scaler.Dense) > 0
			must.True(t, filled == want && want == (c.format == "svmlight"), "dense columns that an event leaves out: %v, the model has %v", filled, m.Scaler.Dense)
		})
	}
}

// formula is a model, read from an export.
type formula struct {
	intercept []float64
	terms     map[string]formulaTerm // terms by name
	knots     map[string][]float64   // knots of the splines, by name
	clip      float64

	clipped, filled, transformed, bent bool // whether a score has used this part of the formula
}

type formulaTerm struct {
	weights []float64
	model.Standardization
	always bool // treat the value as 0 if the event omits it
}

// score computes the scores as documented for the exports.
func (f *formula) score(event map[string]float64) []float64 {
	out := append([]float64(nil), f.intercept...)
	hats := map[string]float64{}
	for name, knots := range f.knots {
		x, ok := event[name]
		if !ok && !f.terms[name].always {
			continue
		}
		if len(knots) == 1 {
			hats[name+"@present"] = 1
			continue
		}
		for i, knot := range knots {
			hat := 0.0
			switch {
			case i == 0 && x <= knot || i == len(knots)-1 && x >= knot:
				hat = 1
			case i > 0 && x > knots[i-1] && x <= knot:
				hat = (x - knots[i-1]) / (knot - knots[i-1])
			case i < len(knots)-1 && x >= knot && x < knots[i+1]:
				hat = 1 - (x-knot)/(knots[i+1]-knot)
			}
			if hat > 0 {
				hats[name+"@"+strconv.FormatFloat(knot, 'g', 6, 64)], f.bent = hat, true
			}
		}
	}
	for name, term := range f.terms {
		x, ok := event[name]
		if hat := hats[name]; hat > 0 {
			x, ok = hat, true
		}
		if !ok && !term.always || term.Scale == 0 {
			continue
		}
		f.filled = f.filled || !ok
		if term.Unit != 0 {
			x, f.transformed = math.Asinh(x/term.Unit), true
		}
		z := (x - term.Center) / term.Scale
		if f.clip > 0 && math.Abs(z) > f.clip {
			z, f.clipped = math.Copysign(term.Beyond, z), true
		}
		for k, w := range term.weights {
			out[k] += w * z
		}
	}
	return out
}

// exportedColumn has the fields of both JSON exports.
type exportedColumn struct {
	Column        uint32
	Name, Feature string
	Weights       []float64
	Center, Scale *float64
	Unit, Beyond  float64
}

func newFormula(t *testing.T, h *model.Head, clip float64, columns []exportedColumn) formula {
	f := formula{intercept: h.Intercept, clip: clip, terms: map[string]formulaTerm{}, knots: map[string][]float64{}}
	dense := map[uint32]bool{}
	for _, d := range h.Scaler.Dense {
		dense[d] = true
	}
	names := map[uint32]string{}
	for _, c := range columns {
		names[c.Column] = c.Name + c.Feature
		f.terms[c.Name+c.Feature] = formulaTerm{c.Weights, model.Standardization{Center: *c.Center, Scale: *c.Scale, Unit: c.Unit, Beyond: c.Beyond}, dense[c.Column]}
	}
	if c := h.Scaler.Splines; c != nil {
		for i, column := range c.Columns {
			f.knots[names[column]] = c.Knots[i]
		}
	}
	return f
}

func exportOf(t *testing.T, path, format string) []byte {
	out, _ := blankout(t, "export", "-m", path, "--format", format)
	return []byte(out)
}

func jsonFormula(t *testing.T, path string) formula {
	var x struct {
		model.Head
		Clip     float64
		Features []exportedColumn
	}
	must.Do(t, json.Unmarshal(exportOf(t, path, "json"), &x))
	return newFormula(t, &x.Head, x.Clip, x.Features)
}

func servedFormula(t *testing.T, m *served.Model) formula {
	config := serve.DefaultConfig()
	config.Address = "127.0.0.1:0"
	server := must.Get(serve.Start(config, serve.Service{Model: func() *served.Model { return m }}, slog.New(slog.DiscardHandler)))(t)
	defer server.Close(t.Context())
	request := must.Get(http.NewRequest("GET", server.URL()+"/v1/model?weights=1", nil))(t)
	request.Header.Set("Accept", "application/json")
	r := must.Get(http.DefaultClient.Do(request))(t)
	defer r.Body.Close()
	var x struct {
		Model   model.Head
		Weights []exportedColumn
		Clip    float64
	}
	must.Do(t, json.NewDecoder(r.Body).Decode(&x))
	return newFormula(t, &x.Model, x.Clip, x.Weights)
}

func textFormula(t *testing.T, path string, m *model.Linear) formula {
	f := formula{terms: map[string]formulaTerm{}, knots: map[string][]float64{}}
	var heads []string
	for line := range strings.Lines(string(exportOf(t, path, "text"))) {
		line = strings.TrimSuffix(line, "\n")
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			heads = strings.Split(comment, "\t") // the last comment names the columns
			if spline, ok := strings.CutPrefix(comment, "knots of "); ok {
				name, knots, _ := strings.Cut(spline, ": ")
				for knot := range strings.FieldsSeq(knots) {
					x := must.Get(strconv.ParseFloat(knot, 64))(t)
					f.knots[name] = append(f.knots[name], x)
				}
			}
			if _, limit, ok := strings.Cut(comment, "A z beyond +-"); ok {
				limit, _, _ = strings.Cut(limit, " ")
				f.clip, _ = strconv.ParseFloat(limit, 64)
			}
			continue
		}
		cells := strings.Split(line, "\t")
		must.Require(t, len(cells) == len(heads), "%q has not the columns %q", line, heads)
		var term formulaTerm
		for i, cell := range cells[1:] {
			if heads[i+1] == "absent" {
				term.always = cell == "0"
				continue
			}
			x := must.Get(strconv.ParseFloat(cell, 64))(t)
			switch heads[i+1] {
			case "center":
				term.Center = x
			case "scale":
				term.Scale = x
			case "unit":
				term.Unit = x
			case "beyond":
				term.Beyond = x
			default:
				term.weights = append(term.weights, x)
			}
		}
		if cells[0] == "(intercept)" {
			f.intercept = term.weights
			continue
		}
		f.terms[cells[0]] = term
	}
	return f
}
