package served_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream/record"
)

// TestExplainFew checks that a short explanation is the start of the whole explanation, including ties. It must not
// allocate memory for the other features.
func TestExplainFew(t *testing.T) {
	const columns = 100_000
	schema := event.NewSchema(20, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	// a hundred columns have each weight
	weights := must.List(columns, func(d int) float64 { return float64(d*7919%1000-500) / 100 })
	model := model.NewLinear(schema, "logistic", "none", [][]float64{weights}, []float64{4.995})
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	m := served.New(model, recordConfig)
	event := []byte("1")
	for d := range columns {
		event = fmt.Appendf(event, " %d:1", d+1)
	}
	explain := func(most int) ([]served.Contribution, uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := m.Predict(event, most)
		runtime.ReadMemStats(&after)
		must.Do(t, err)
		return p.Explanation, after.TotalAlloc - before.TotalAlloc
	}
	all, _ := explain(columns + 1)
	must.Require(t, len(all) >= columns/2, "%v", len(all))
	for _, most := range []int{1, 2, 3, 99, 100, 101, 150, 1000} {
		few, _ := explain(most)
		must.True(t, reflect.DeepEqual(few, all[:most]), "the first %d: %+v", most, few)
	}
	// Take the minimum of a few calls. A garbage collection empties the pool of buffers, and the next call allocates
	// new buffers.
	least := func(most int) uint64 {
		_, least := explain(most)
		for range 4 {
			_, n := explain(most)
			least = min(least, n)
		}
		return least
	}
	none, some := least(0), least(100)
	must.True(t, some <= none+2<<20, "%d bytes were allocated to explain an event that takes %d without", some, none)
}

// TestExplainNames checks that an explanation names features of the event, even if other features share their column.
// Features that the model has not seen must be reported.
func TestExplainNames(t *testing.T) {
	for _, bits := range []uint{2, 20} {
		recordConfig := record.DefaultConfig()
		recordConfig.Format, recordConfig.Classes, recordConfig.Bits = "json", []string{"no", "yes"}, bits
		recordConfig.Crosses = [][2]string{{"color", "words"}, {"color", "size"}}
		schema := recordConfig.Schema()
		decoder, err := record.NewDecoder(recordConfig, schema)
		must.Do(t, err)
		learner := must.Get(online.New(online.DefaultConfig(), schema))(t)
		var e event.Example
		for i := range 200 {
			value := fmt.Appendf(nil, `{"label":"%s","words":["short","w%d"],"color":"red","size":%d}`,
				recordConfig.Classes[i%2], i%2, i%5)
			must.Do(t, decoder.Decode(context.Background(), record.Record{Value: value}, &e))
			learner.Learn(&e, nil)
		}
		m := served.New(learner.Snapshot().Model(), recordConfig)
		event := []byte(`{"words":["a","fine","day"],"color":"red","size":3}`)
		inEvent := []string{"words=a", "words=fine", "words=day", "color=red", "size", "color=red ^ size", "color=red ^ words=a", "color=red ^ words=fine", "color=red ^ words=day"}
		p := must.Get(m.Predict(event, 100))(t)
		intercepts := 0
		for _, c := range p.Explanation {
			switch c.Feature {
			case served.InterceptName:
				intercepts++
				continue
			case served.CosinesName:
				continue
			}
			for _, name := range strings.Split(c.Feature, " | ") {
				must.True(t, slices.Contains(inEvent, name), "%d bits: %q is not in the event", bits, c.Feature)
			}
		}
		must.True(t, intercepts == 1 && len(p.Explanation) >= 3, "%d bits: %+v", bits, p.Explanation)
		if bits == 2 {
			continue // the model has seen every column
		}
		slices.Sort(p.Unseen)
		want := []string{"color=red ^ words=a", "color=red ^ words=day", "color=red ^ words=fine", "words=a", "words=day", "words=fine"}
		must.EqualSlices(t, p.Unseen, want, "unseen features")
		// Repeat without an explanation, with one decoder, and for numeric fields.
		for range 2 {
			p, err = m.Predict([]byte(`{"words":"never","number":5,"flag":true}`), 0)
			want := []string{"flag=true", "number", "words=never"}
			must.True(t, err == nil && slices.Equal(slices.Sorted(slices.Values(p.Unseen)), want), "unknown %q, want %q: %v", p.Unseen, want, err)
			// its usual fields are missing, which has mixture weights of its own
			must.True(t, math.Abs(p.Scores[0]-m.Intercept[0]) <= 0.01, "an event with only unseen features scores %v, the intercept is %v", p.Scores, m.Intercept)
		}
		p, err = m.Predict([]byte(`{"words":["short"],"color":"red","size":1}`), 0)
		must.True(t, err == nil && p.Unseen == nil, "unknown %q: %v", p.Unseen, err)
		// The name of a numeric field is part of its crosses in every event.
		for range 3 {
			p, err := m.Predict([]byte(`{"color":"red","size":3}`), 100)
			must.True(t, err == nil && slices.ContainsFunc(p.Explanation, func(c served.Contribution) bool { return c.Feature == "color=red ^ size" }), "%+v, %v", p.Explanation, err)
		}
		// The list of unseen features is limited.
		many := []byte(`{"words":["x"`)
		for i := range 1000 {
			many = fmt.Appendf(many, `,"x%d"`, i)
		}
		must.Equal(t, len(must.Get(m.Predict(append(many, `]}`...), 0))(t).Unseen), 20, "unseen features")
	}
}

// TestExplainMissing checks that the contributions add up to the score if fields are missing. The mixture weights of
// the missing policies must be reported.
func TestExplainMissing(t *testing.T) {
	how := record.DefaultConfig()
	schema := how.Schema()
	decoder := must.Get(record.NewDecoder(how, schema))(t)
	l := must.Get(online.New(online.DefaultConfig(), schema))(t)
	r := rand.New(rand.NewPCG(1, 2))
	var e event.Example
	for range 3000 {
		a, b := r.NormFloat64(), r.NormFloat64()
		label := a+b+0.5*r.NormFloat64() > 0
		event := fmt.Sprintf(`{"label":"%t","a":%g,"b":%g,"c":%g,"d":%g}`, label, a, b, a+0.3*r.NormFloat64(), b+0.3*r.NormFloat64())
		err := decoder.Decode(t.Context(), record.Record{Value: []byte(event)}, &e)
		must.Require(t, err == nil && e.Refused == nil, "%v %v", err, e.Refused)
		l.Learn(&e, nil)
	}
	m := served.New(l.Snapshot().Model(), how)
	must.Require(t, len(m.Levels) != 0, "the model has no weights of its own for any level")
	for _, event := range []string{`{"a":1,"b":-2,"c":1,"d":-1}`, `{"a":1,"b":null,"c":1,"d":-1}`, `{"a":null,"b":null,"c":1,"d":-1}`, `{"a":1,"b":null,"c":null,"d":null}`} {
		p := must.Get(m.Predict([]byte(event), 100))(t)
		sum, fractions := 0.0, 0.0
		for _, c := range p.Explanation {
			sum += c.Score
		}
		for _, fraction := range p.MixtureWeights {
			fractions += fraction
		}
		must.True(t, math.Abs(sum-p.Score) <= 1e-12, "%s: the contributions add up to %v, the score is %v", event, sum, p.Score)
		missing := strings.Contains(event, "null")
		must.True(t, missing == (math.Abs(fractions-1) < 1e-12) && (!missing || p.MixtureWeights[p.MissingPolicy] >= 1/3.), "%s: missing policy %s, mixture weights %v", event, p.MissingPolicy, p.MixtureWeights)
		p, err := m.Predict([]byte(event), 0)
		must.True(t, err == nil && p.MixtureWeights == nil, "%s: mixture weights %v without an explanation, %v", event, p.MixtureWeights, err)
	}
}
