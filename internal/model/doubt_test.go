package model

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// doubtful returns a model of n numbers x_i = c + noise, of which the label is the sign of c, and a source of events.
func doubtful(t *testing.T, n int) (*Linear, func() *event.Example) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 7))
	fields := must.List(n+1, func(i int) event.Field { return event.Field{Name: string(rune('a' - 1 + i)), Kind: event.Numeric} })
	fields[0] = event.Field{}
	columns, ids, known := make([]uint32, n), make([]uint16, n), make([]CellColumn, n)
	matrix := make([]float64, n*n)
	for i := range n {
		columns[i], ids[i], known[i] = uint32(i+1), uint16(i+1), CellColumn{Column: uint32(i + 1), Most: 0.01}
		for j := range n {
			if matrix[i*n+j] = 0.9; i == j {
				matrix[i*n+j] = 1
			}
		}
	}
	m := &Linear{Head: Head{Schema: &event.Schema{Classes: []string{"no", "yes"}, Fields: fields}, Loss: "logistic", Outputs: 1, Intercept: []float64{0}, Scaler: Scaler{Mode: StandardizeAuto}, Missing: NewMissing(EveryRange(MissingImpute), nil, nil, nil)}, Rows: NewTable(ScalerWidth + 1)}
	m.Layout = Layout{Width: ScalerWidth + 1, Weight: ScalerWidth}
	for _, column := range columns {
		row := m.Rows.Touch(column)
		row[StatCount], row[StatMean], row[StatSquares], row[StatCenter], row[StatInverse], row[ScalerWidth] = 1000, 5, 4000, 5, 0.5, 1
	}
	c := must.Get(NewCovariance(columns, ids, make([]float64, n), matrix))(t)
	m.Doubt = &Doubt{Columns: known, Screen: [2]float64{-math.MaxFloat64, -math.MaxFloat64}, Gate: [2]float64{1, 1}}
	for kind := range m.Doubt.Weights {
		for i := range m.Doubt.Weights[kind] {
			m.Doubt.Weights[kind][i] = DoubtMost
		}
	}
	return m.WithCovariance(c), func() *event.Example {
		e := &event.Example{Weight: 1, Field: append([]uint16(nil), ids...), Features: event.Vec{Index: append([]uint32(nil), columns...)}}
		common := r.NormFloat64()
		if common > 0 {
			e.Label = 1
		}
		for range n {
			e.Features.Value = append(e.Features.Value, 5+2*(math.Sqrt(0.9)*common+math.Sqrt(0.1)*r.NormFloat64()))
		}
		return e
	}
}

// TestDoubted checks that a number that contradicts the others is doubted, that the others predict what it was, and that
// the prediction is then nearly the one of the event without the number.
func TestDoubted(t *testing.T) {
	m, next := doubtful(t, 8)
	found, wrongly, far, near := 0, 0, 0.0, 0.0
	for k := range 400 {
		e := next()
		if x := m.Doubted(e); x != nil {
			wrongly++
		}
		out := make([]float64, 1)
		whole := m.Score(e, out)[0]
		at := k % 8
		was := e.Features.Value[at]
		e.Features.Value[at] = was + 10 // five deviations
		x := m.Doubted(e)
		if x == nil {
			continue
		}
		for _, r := range x.Readings {
			if r.Column == uint32(at+1) && r.Probability > DoubtGone {
				found++
				must.Require(t, r.Field == uint16(at+1) && r.Value == was+10 && math.Abs(r.Expected-was) <= 4 && r.Reason == Contradicts, "%+v, was %v", r, was)
			}
		}
		plain := *m
		plain.Doubt = nil
		far += math.Abs(plain.Score(e, out)[0] - whole)
		near += math.Abs(m.Score(e, out)[0] - whole)
	}
	must.True(t, found >= 380 && wrongly <= 80 && near <= far/3, "%d of 400 found, %d wrongly, scores off by %v, without doubt %v", found, wrongly, near, far)
}

// TestContradicted checks that readings which others contradict are named for the health of fields also where the evidence
// does not reach the Gate, and none where the first round finds little.
func TestContradicted(t *testing.T) {
	m, next := doubtful(t, 8)
	for k := range 100 {
		e := next()
		at := k % 8
		e.Features.Value[at] += 10
		m.Doubt = &Doubt{Columns: m.Doubt.Columns, Screen: [2]float64{-math.MaxFloat64, -math.MaxFloat64}, Gate: [2]float64{math.MaxFloat64, math.MaxFloat64}}
		x := m.Examine(e)
		must.Require(t, x.Doubted == nil && slices.ContainsFunc(x.Contradicted, func(r DoubtedReading) bool { return r.Column == uint32(at+1) }), "%+v, %+v", x, x.Doubted)
		m.Doubt = &Doubt{Columns: m.Doubt.Columns, Screen: [2]float64{math.MaxFloat64, math.MaxFloat64}}
		x = m.Examine(e)
		must.Require(t, len(x.Contradicted) <= 0 && x.First == x.First && math.IsInf(x.Last, -1), "without evidence: %+v", x)
	}
}

// TestFillValueMissing checks that readings at a fill value count as missing, however few readings are left.
func TestFillValueMissing(t *testing.T) {
	m, next := doubtful(t, 8)
	for i := range m.Doubt.Columns {
		m.Doubt.Columns[i].Fills = []float64{4.25}
	}
	out := make([]float64, 1)
	for k := range 100 {
		e := next()
		for i := range 6 {
			e.Features.Value[(k+i)%8] = 4.25
		}
		x := m.Doubted(e)
		must.Require(t, x != nil && x.Kind == DoubtsFill && len(x.Event.Missing) == 6 && len(x.Event.Features.Index) == 2 && len(x.Event.Field) == 2, "%+v", x)
		for _, r := range x.Readings {
			must.Require(t, r.Value != 4.25 || r.Reason == Repeated && r.Probability >= cellCertain, "%+v", r)
		}
		// The prediction mixes probabilities.
		must.Require(t, len(x.Rest.Missing) == 6 && x.Rest.Features.Value[0] == e.Features.Value[slices.Index(e.Features.Index, x.Rest.Features.Index[0])], "%+v", x.Rest)
		plain := *m
		plain.Doubt = nil
		p := func(e *event.Example) float64 { return plain.Decision().Probability(plain.Score(e, out)[0]) }
		m.Doubt.Rest[x.Range] = 0.3
		got, want := m.Decision().Probability(m.Score(e, out)[0]), (1-DoubtMost)*(0.7*p(e)+0.3*p(x.Rest))+DoubtMost*p(x.Event)
		must.Require(t, math.Abs(got-want) <= 1e-12, "probability %v, want %v", got, want)
	}
}

// TestMixScores checks that mixed scores have mixed probabilities, for any number of outputs and with a link.
func TestMixScores(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	link := &Link{Scores: []float64{-20, 20}, LogOdds: []float64{-15, 15}}
	for range 200 {
		k := []int{1, 3, 5}[r.IntN(3)]
		d := Decision{}
		if r.IntN(2) == 0 {
			d.Link = link
		}
		a, b := make([]float64, k), make([]float64, k)
		for i := range a {
			a[i], b[i] = 3*r.NormFloat64(), 3*r.NormFloat64()
		}
		p, q, w := d.Probabilities(a, make([]float64, max(2, k))), d.Probabilities(b, make([]float64, max(2, k))), r.Float64()
		got := d.Probabilities(MixScores(d, false, w, a, b), make([]float64, max(2, k)))
		for i := range got {
			want := (1-w)*p[i] + w*q[i]
			must.Require(t, math.Abs(got[i]-want) <= 1e-9, "%d outputs: %v, want %v", k, got[i], want)
		}
	}
	must.Equal(t, MixScores(Decision{}, true, 0.25, []float64{4}, []float64{8})[0], 5, "regression mixes")
}

// TestReader checks that a Reader finds the fill value of a stream that the model has never seen, and that the model
// itself does not change.
func TestReader(t *testing.T) {
	m, next := doubtful(t, 8)
	reader := NewReader(m)
	wrong := [2]int{}
	for k := range 1000 {
		e := next()
		for i := range e.Features.Value {
			if (7*k+3*i)%10 < 6 {
				e.Features.Value[i] = 7.5
			}
		}
		out := make([]float64, 1)
		for i, m := range []*Linear{m, reader.For(e)} {
			if m.Predict(m.Score(e, out)) != e.Label && k >= 100 {
				wrong[i]++
			}
		}
	}
	found := reader.Found()
	must.True(t, len(found) == 8 && found[0].Fills[0] == 7.5 && len(m.Doubt.Columns[0].Fills) <= 0, "found %+v", found)
	must.True(t, wrong[1] <= wrong[0]*2/3, "%d errors with the fill value known, %d without", wrong[1], wrong[0])
}

// TestDoubtFile checks that a Doubt is stored in the model, and that a damaged one is refused.
func TestDoubtFile(t *testing.T) {
	m, next := doubtful(t, 5)
	data := must.Get(json.Marshal(m.Head))(t)
	again := &Linear{Rows: m.Rows}
	must.Do(t, json.Unmarshal(data, &again.Head))
	again.Schema.Fields = m.Schema.Fields
	again = again.WithCovariance(m.Covariance)
	for range 50 {
		e := next()
		e.Features.Value[2] += 12
		a, b := m.Score(e, make([]float64, 1))[0], again.Score(e, make([]float64, 1))[0]
		must.Require(t, a == b, "%v, stored %v", a, b)
	}
	for _, broken := range []func(d *Doubt){
		func(d *Doubt) { d.Columns[1].Column = 1 }, func(d *Doubt) { d.Columns[1].Zeros = 2 }, func(d *Doubt) { d.Weights[1][1] = 2 }, func(d *Doubt) { d.Weights[1][1] = math.NaN() },
		func(d *Doubt) { d.Rest[1] = 2 },
	} {
		d := m.Doubt.With(append([]CellColumn(nil), m.Doubt.Columns...))
		broken(d)
		must.True(t, d.check() != nil, "%+v is accepted", d)
	}
}

// TestLiveZero checks that a 0 in a column that is often 0 is doubted only if the other numbers do not predict it.
func TestLiveZero(t *testing.T) {
	m, next := doubtful(t, 8)
	m.Doubt.Columns[0].Zeros, m.Doubt.Columns[0].Least = 0.3, true
	for _, c := range []struct {
		others float64
		doubts bool
	}{{1, false}, {9, true}} {
		e := next()
		for i := range e.Features.Value {
			e.Features.Value[i] = c.others + 0.1*float64(i)
		}
		e.Features.Value[0] = 0
		doubted := false
		if x := m.Doubted(e); x != nil {
			doubted = x.Kind == DoubtsZero && x.Readings[0].Column == 1 && x.Readings[0].Probability > DoubtGone
		}
		must.True(t, doubted == c.doubts, "among readings of %v, doubted: %v", c.others, doubted)
	}
}
