package experts_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/additive"
	"blankout/online/experts/discriminant"
	"blankout/online/experts/newton"
)

// numbers generates encoded events of numeric fields with base scores. The last field has a nonlinear effect. The base
// scores explain a part of the label.
type numbers struct {
	r       *rand.Rand
	schema  *event.Schema
	n       *encode.Encoder
	ids     []uint16
	in      encode.Input
	base, y []float64
	seen    experts.Input
	number  uint64
}

func newNumbers(seed uint64, columns, outputs int) *numbers {
	s := &numbers{r: rand.New(rand.NewPCG(seed, 1)), schema: event.NewSchema(10, []string{"a", "b"}, 2), base: make([]float64, outputs), y: make([]float64, outputs)}
	for i := range columns {
		s.ids = append(s.ids, s.schema.AddField(event.Field{Name: fmt.Sprint(i), Kind: event.Numeric}))
	}
	s.n = encode.New(encode.Settings{Standardize: model.StandardizeAuto, Width: 24, Knots: func(numbers int) int { return experts.Knots(numbers, 1) }, Intercept: true}, s.schema)
	return s
}

// next draws the next event and passes it to UpdateColumns and Read. The first two fields are often omitted.
func (s *numbers) next(x *experts.Experts) {
	e := &event.Example{Weight: 1}
	bend := 0.0
	for i, id := range s.ids {
		if i < 2 && s.r.IntN(3) == 0 {
			continue
		}
		v := s.r.NormFloat64()
		if i == len(s.ids)-1 {
			bend = 3 * math.Abs(v)
		}
		eventtest.Put(e, uint32(1+3*i), 7+2*v, id)
	}
	for k := range s.y {
		f := bend - 2 + float64(k)*(e.Features.Value[len(e.Features.Value)-1]-7)
		s.base[k] = 0.2*f + 0.3*s.r.NormFloat64()
		if s.y[k] = -1; s.r.Float64() < 1/(1+math.Exp(-f)) {
			s.y[k] = 1
		}
	}
	s.number++
	s.n.Observe(e, s.number, &s.in)
	s.n.Rescale(&s.in)
	x.UpdateColumns(&s.in, s.n)
	x.Read(&s.in, &s.seen)
}

// lost returns the log-loss of scores. It treats each class as one class against the rest.
func (s *numbers) lost(scores []float64, factor float64) (sum float64) {
	for k, f := range scores {
		sum += math.Log1p(math.Exp(-s.y[k] * factor * f))
	}
	return sum
}

// learn makes x learn the next events.
func (s *numbers) learn(x *experts.Experts, events int) {
	scores, out := make([]float64, x.Size()), make([]float64, len(s.y))
	for range events {
		s.next(x)
		x.Score(&s.seen, s.base, scores, out)
		x.Observe(scores, s.lost)
		x.Learn(&s.seen, s.base, scores, s.y, len(s.y), 1)
	}
}

// expertSettings are settings of all experts.
type expertSettings struct {
	newton.Settings
	outputs int
	splines bool
}

func settings(outputs int, splines bool) expertSettings {
	return expertSettings{newton.Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000, Strength: 0.1}, outputs, splines}
}

func newExperts(s expertSettings) *experts.Experts {
	c := experts.Settings{List: []experts.Expert{newton.New(s.Settings, s.outputs)}, Weights: []float64{1}, Outputs: s.outputs, At: 6}
	if s.splines {
		c.List = append(c.List, additive.New(s.Loss, s.Strength, s.outputs), discriminant.New(s.outputs, s.HalfLife))
		c.Weights = []float64{0.4, 0.2, 0.2, 0.2}
	}
	return experts.New(c)
}

// TestScoreIsOfWeights checks that the mixed scores of the experts equal the scores of one linear model over the
// numbers and their spline columns. That model consists of the base score times Base, of Intercept, and of the weights
// that Publish writes to the rows.
func TestScoreIsOfWeights(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for _, splines := range []bool{true, false} {
			x, s := newExperts(settings(outputs, splines)), newNumbers(1, 4, outputs)
			out, short, intercepts := make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
			for n := range 1400 {
				s.learn(x, 1)
				if n%50 > 0 {
					continue
				}
				s.next(x)
				x.Publish(s.n.Table)
				scores := make([]float64, x.Size())
				x.Score(&s.seen, s.base, scores, out)
				x.Sum(&s.seen, short)
				x.Intercepts(intercepts)
				columns := event.Vec{Index: s.in.Columns, Value: s.in.X}
				if c := s.n.Scaling.Scaler.Splines; c != nil {
					columns = c.Append(event.Vec{Index: slices.Clone(s.in.Columns), Value: slices.Clone(s.in.X[:s.in.Features()])}, event.Vec{Index: s.in.Columns, Value: s.in.Raw})
				}
				for k := range out {
					want := x.Base()*s.base[k] + intercepts[k]
					for i, column := range columns.Index {
						w := s.n.Table.Row(column)[6+k]
						want += columns.Value[i] * w
						must.Require(t, w == weight(x, column, k), "the row of column %d has %v, its weight is %v", column, w, weight(x, column, k))
					}
					must.Require(t, math.Abs(out[k]-want) <= 1e-9 && math.Abs(x.Base()*s.base[k]+short[k]-want) <= 1e-9,
						"%d outputs, event %d: score %v, in short %v, of the weights %v", outputs, n, out[k], short[k], want)
				}
			}
			must.True(t, s.n.Scaling.Scaler.Splines != nil && len(x.Columns()) >= 4*4, "%d columns", len(x.Columns()))
			x.Intercepts(intercepts)
			// The event has no features, and its constant feature is 0.5. Its score must be half of the intercept.
			scores := make([]float64, x.Size())
			x.Score(&experts.Input{One: 0.5}, make([]float64, outputs), scores, out)
			got, want := out[0], 0.5*intercepts[0]
			must.True(t, math.Abs(got-want) <= 1e-12, "half an intercept: %v, want %v", got, want)
		}
	}
}

// TestSplinesPay checks a number with a nonlinear effect. The spline expert must have the largest mixture weight if no
// other expert has splines.
func TestSplinesPay(t *testing.T) {
	x, s := newExperts(settings(1, true)), newNumbers(2, 90, 1)
	s.learn(x, 8000)
	sum := 0.0
	for _, e := range x.Published(1) {
		if e.Name != "second order" {
			sum += e.Weight
		}
	}
	must.True(t, sum >= 0.6, "where a number bends, and only they have splines, they have %v", sum)
}

// TestTooMany checks that no expert is used once there are too many numeric columns. The rows must then have no weights
// of experts.
func TestTooMany(t *testing.T) {
	x, s := newExperts(settings(1, true)), newNumbers(4, 3, 1)
	s.learn(x, 1200)
	x.Publish(s.n.Table)
	many := must.List(30_000, func(i int) uint32 { return uint32(i) })
	columns := slices.Clone(x.Columns())
	x.FollowNumbers(many, nil, s.n.Table)
	must.True(t, !x.HasColumns() && !x.Counts(), "it follows 30,000 numbers")
	for _, column := range columns {
		must.Equal(t, s.n.Table.Row(column)[6], 0, "column", column, "has the weight")
	}
	s.next(x)
	must.True(t, !x.HasColumns(), "it begins again")
}

func TestPairsFit(t *testing.T) {
	for _, x := range []struct {
		columns, outputs int
		want             bool
	}{{256, 1, true}, {257, 1, false}, {200, 100, true}, {201, 100, false}, {256, 78, true}, {256, 79, false}} {
		must.True(t, experts.PairsFit(x.columns, x.outputs) == x.want, "%d columns of %d outputs: %v", x.columns, x.outputs, !x.want)
	}
}

// TestSplineOfColumnThatIsNoNumber checks that the experts learn the spline of a column although they do not learn the
// column itself, because an omitted column is 0.
func TestSplineOfColumnThatIsNoNumber(t *testing.T) {
	c := &model.Splines{Columns: []uint32{1, 4, 6}, Knots: [][]float64{{-1, 0, 1}, {0, 1, 2}, model.Present()}}
	x := newExperts(settings(1, true))
	x.FollowNumbers([]uint32{1, 3}, c, model.NewTable(24))
	want := []uint32{1, 3, c.BasisColumn(0, 0), c.BasisColumn(0, 1), c.BasisColumn(0, 2), c.BasisColumn(1, 0), c.BasisColumn(1, 1), c.BasisColumn(1, 2), c.BasisColumn(2, 0)}
	must.Require(t, slices.Equal(x.Columns(), want), "the experts follow %v, want %v", x.Columns(), want)
	for _, event := range []struct {
		columns []uint32
		values  []float64
		index   []int
		x       []float64
		source  []int
	}{
		{[]uint32{1, 2, 3, 4, 6}, []float64{0.25, 7, 5, 1.5, 9}, []int{0, 1, 3, 4, 6, 7, 8}, []float64{0.25, 5, 0.75, 0.25, 0.5, 0.5, 1}, []int{0, 2, 0, 0, 3, 3, 4}},
		{[]uint32{2, 4}, []float64{7, 2}, []int{7}, []float64{1}, []int{1}},
		{[]uint32{3}, []float64{5}, []int{1}, []float64{5}, []int{0}},
	} {
		n := len(event.columns)
		in := encode.Input{Columns: event.columns, Raw: event.values, X: append(slices.Clone(event.values), 1), Rows: make([][]float64, n+1)}
		var got experts.Input
		if x.Read(&in, &got); !slices.Equal(got.Index, event.index) || !slices.Equal(got.X, event.x) || !slices.Equal(got.Source, event.source) {
			t.Errorf("columns %v: the experts see %v %v of %v, want %v %v of %v", event.columns, got.Index, got.X, got.Source, event.index, event.x, event.source)
		}
	}
}

// weight returns the mixed weight of a column for an output.
func weight(x *experts.Experts, column uint32, output int) float64 {
	w := make([]float64, x.Outputs)
	x.ColumnWeights(column, w)
	return w[output]
}

// TestExpertsRestAndWake checks an expert with almost no mixture weight. After restAfter events it must rest and learn
// only every restEvery-th event. Once its mixture weight reaches wakeWeight, it must learn every event again.
func TestExpertsRestAndWake(t *testing.T) {
	x := newExperts(settings(1, true))
	learns := func(weight float64, events int) int {
		return must.Count(events, func(int) bool { return x.Learns(1, []float64{weight, weight / 2}) })
	}
	for _, c := range []struct {
		share        float64
		events, want int
	}{{experts.LeastWeight / 2, experts.RestAfter, experts.RestAfter - 1}, {experts.LeastWeight / 2, 160, 10}, {0.9 * experts.WakeWeight, 160, 10}, {experts.WakeWeight, 160, 160}, {experts.LeastWeight / 2, 160, 160}} {
		got := learns(c.share, c.events)
		must.True(t, got >= c.want && got <= c.want+1, "with %v it learns %d of %d events, want %d", c.share, got, c.events, c.want)
	}
}

// TestMove checks that a change of a column's scale changes no score. If the unit of a column changes, the weights of
// that column must be 0.
func TestMove(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		x, s := newExperts(settings(outputs, true)), newNumbers(5, 4, outputs)
		s.learn(x, 1500)
		s.next(x)
		scores, out, moved := make([]float64, x.Size()), make([]float64, outputs), make([]float64, outputs)
		x.Score(&s.seen, s.base, scores, out)
		last := s.in.Features() - 1 // a number that is in every event
		const ratio, shift = 1.02, 0.01
		s.in.Moves = []encode.Move{{Column: s.in.Columns[last], Numeric: true, Ratio: ratio, Shift: shift, Was: model.Standardization{Scale: 1}, Is: model.Standardization{Scale: 1}}}
		x.UpdateColumns(&s.in, s.n)
		s.in.X[last] = (s.in.X[last] - shift) / ratio
		x.Read(&s.in, &s.seen)
		x.Score(&s.seen, s.base, scores, moved)
		for k := range out {
			must.True(t, math.Abs(out[k]-moved[k]) <= 1e-7 && weight(x, s.in.Columns[last], k) != 0, "output %d: %v, moved %v", k, out[k], moved[k])
		}
		s.in.Moves[0].Renews = true
		x.UpdateColumns(&s.in, s.n)
		must.True(t, weight(x, s.in.Columns[last], 0) == 0, "a column with another unit keeps its weight")
	}
}

// TestCenter checks that the mean of a spline over its knots is close to 0. Without centering the mean would be .81.
func TestCenter(t *testing.T) {
	x, s := newExperts(settings(1, true)), newNumbers(7, 3, 1)
	for range 4000 {
		s.next(x)
		scores := make([]float64, x.Size())
		x.Score(&s.seen, []float64{0}, scores, make([]float64, 1))
		x.Learn(&s.seen, []float64{0}, scores, s.y, 1, 1)
	}
	mean := make([]float64, 1)
	var in experts.Input
	var columns []uint32
	in.X, columns = x.Fractions(2)
	for _, column := range columns {
		at, _ := slices.BinarySearch(x.Columns(), column)
		in.Index = append(in.Index, at)
	}
	x.List[0].Sum(&in, mean)
	must.True(t, math.Abs(mean[0]) < 0.3, "a spline adds %v in the mean", mean[0])
}

// counted is an expert that counts the events that it learns, and sums their weights.
type counted struct {
	experts.Expert
	events  int
	weights float64
}

func (c *counted) Learn(_ *experts.Input, _, _, _ []float64, _ int, weight float64) {
	c.events, c.weights = c.events+1, c.weights+weight
}

// countedAll also learns confident events.
type countedAll struct{ counted }

func (c *countedAll) LearnsAll() {}

// TestConfidentEventsAreSampled checks that an expert learns a few of the confident events after the first ones, and that
// these count for the others. An expert that describes the events of each class learns all.
func TestConfidentEventsAreSampled(t *testing.T) {
	const first, events = 4096, 1 << 12
	for _, samples := range []bool{true, false} {
		some, all := &counted{Expert: newton.New(settings(1, false).Settings, 1)}, &countedAll{counted{Expert: discriminant.New(1, 2000)}}
		x, s := experts.New(experts.Settings{List: []experts.Expert{some, all}, Weights: []float64{0.5, 0.5}, Outputs: 1, At: 6, Samples: samples}), newNumbers(1, 2, 1)
		s.next(x)
		for range first + events {
			x.Learn(&s.seen, []float64{0}, []float64{5, 5}, []float64{1}, 1, 0.5)
		}
		must.True(t, all.events == first+events && all.weights == 0.5*float64(all.events), "of all, %d are learned", all.events)
		must.True(t, math.Abs(some.weights/(first+events)-0.5) < 0.01, "an event counts %v", some.weights/(first+events))
		must.True(t, some.events < first+events*3/10 == samples, "%d events are learned", some.events)
	}
}

// TestKnots checks the number of knots where the second-order expert has memory for splines, for shorter ones, for none,
// and where no expert has.
func TestKnots(t *testing.T) {
	for in, want := range map[[2]int]int{{42, 1}: 5, {50, 1}: 3, {128, 6}: 5, {256, 13}: 5, {784, 4}: 5, {784, 5}: 0, {784, 10}: 0} {
		got := experts.Knots(in[0], in[1])
		must.True(t, got == want, "%d numbers, %d outputs: %d knots, want %d", in[0], in[1], got, want)
	}
}
