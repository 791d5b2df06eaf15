package correct

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/newton"
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
	seen    Input
	number  uint64
}

func newNumbers(seed uint64, columns, outputs int) *numbers {
	s := &numbers{r: rand.New(rand.NewPCG(seed, 1)), schema: event.NewSchema(10, []string{"a", "b"}, 2), base: make([]float64, outputs), y: make([]float64, outputs)}
	for i := range columns {
		s.ids = append(s.ids, s.schema.AddField(event.Field{Name: fmt.Sprint(i), Kind: event.Numeric}))
	}
	s.n = encode.New(encode.Settings{Standardize: model.StandardizeAuto, Transform: func(string) model.Transform { return "none" }, Width: 24, Knots: Knots, Intercept: true}, s.schema)
	return s
}

// next draws the next event and passes it to UpdateColumns and Read. The first two fields are often omitted.
func (s *numbers) next(x *Experts) {
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
func (s *numbers) learn(x *Experts, events int) {
	scores, out := x.NewScores(), make([]float64, len(s.y))
	for range events {
		s.next(x)
		x.Score(&s.seen, s.base, &scores, out)
		x.Observe(scores.Lanes, s.lost)
		x.Update(&s.seen, &scores, s.y, len(s.y), 1)
	}
}

func settings(outputs int, splines bool) Settings {
	return Settings{Settings: newton.Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000, Strength: 0.1}, Outputs: outputs, Splines: splines, At: 6}
}

// TestScoreIsOfWeights checks that the mixed scores of the experts equal the scores of one linear model over the
// numbers and their spline columns. That model consists of the base score times Base, of Intercept, and of the weights
// that Publish writes to the rows.
func TestScoreIsOfWeights(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for _, splines := range []bool{true, false} {
			x, s := New(settings(outputs, splines)), newNumbers(1, 4, outputs)
			out, short := make([]float64, outputs), make([]float64, outputs)
			for n := range 1400 {
				s.learn(x, 1)
				if n%50 > 0 {
					continue
				}
				s.next(x)
				x.Publish(s.n.Table)
				scores := x.NewScores()
				x.Score(&s.seen, s.base, &scores, out)
				x.Linear(&s.seen, s.base, short)
				columns := event.Vec{Index: s.in.Columns, Value: s.in.X}
				if c := s.n.Scaling.Scaler.Splines; c != nil {
					columns = c.Append(event.Vec{Index: slices.Clone(s.in.Columns), Value: slices.Clone(s.in.X[:s.in.Features()])}, event.Vec{Index: s.in.Columns, Value: s.in.Raw}, nil)
				}
				for k := range out {
					want := x.Base()*s.base[k] + x.Intercept(k)
					for i, column := range columns.Index {
						w := s.n.Table.Row(column)[6+k]
						if want += columns.Value[i] * w; w != weight(x, column, k) {
							t.Fatalf("the row of column %d has %v, its weight is %v", column, w, weight(x, column, k))
						}
					}
					if math.Abs(out[k]-want) > 1e-9 || math.Abs(short[k]-want) > 1e-9 {
						t.Fatalf("%d outputs, event %d: score %v, in short %v, of the weights %v", outputs, n, out[k], short[k], want)
					}
				}
			}
			if s.n.Scaling.Scaler.Splines == nil || len(x.Columns()) < 4*4 {
				t.Errorf("%d columns", len(x.Columns()))
			}
			// The event has no features, and its constant feature is 0.5. Its score must be half of the intercept.
			scores := x.NewScores()
			x.Score(&Input{One: 0.5}, make([]float64, outputs), &scores, out)
			if got, want := out[0], 0.5*x.Intercept(0); math.Abs(got-want) > 1e-12 {
				t.Errorf("half an intercept: %v, want %v", got, want)
			}
		}
	}
}

// TestSplinesPay checks a number with a nonlinear effect. The spline expert must have the largest mixture weight if no
// other expert has splines.
func TestSplinesPay(t *testing.T) {
	x, s := New(settings(1, true)), newNumbers(2, 90, 1)
	s.learn(x, 8000)
	sum := 0.0
	for _, e := range x.Published(1) {
		if e.Name != "second order" {
			sum += e.Weight
		}
	}
	if sum < 0.6 {
		t.Errorf("where a number bends, and only they have splines, they have %v", sum)
	}
}

// TestState checks that a decoded state continues bit by bit, and that invalid bytes are rejected.
func TestState(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		x, s := New(settings(outputs, true)), newNumbers(3, 4, outputs)
		s.learn(x, 1300)
		written := func(x *Experts) []byte {
			c := &coder.Coder{}
			x.State(c, s.n.Scaling.Scaler.Splines)
			return c.Out
		}
		data := written(x)
		other := New(settings(outputs, true))
		c := coder.Read(data)
		if other.State(c, s.n.Scaling.Scaler.Splines); !c.Done() {
			t.Fatal("the state is not read")
		}
		for k := range outputs {
			for _, column := range x.Columns() {
				if weight(x, column, k) != weight(other, column, k) {
					t.Fatalf("column %d has other weights", column)
				}
			}
		}
		for range 200 {
			s.next(x)
			other.UpdateColumns(&s.in, s.n)
			for _, x := range []*Experts{x, other} {
				scores, out := x.NewScores(), make([]float64, outputs)
				x.Score(&s.seen, s.base, &scores, out)
				x.Observe(scores.Lanes, s.lost)
				x.Update(&s.seen, &scores, s.y, outputs, 1)
			}
		}
		x.Gain(3, 2)
		other.gain = x.gain
		x.idle[1] = 77
		data = written(x)
		again := New(settings(outputs, true))
		if again.State(coder.Read(data), s.n.Scaling.Scaler.Splines); again.learned != 1500 || again.idle[1] != 77 || again.gain != x.gain || again.look != x.look {
			t.Errorf("it has learned %d events, is idle for %v, gains %+v", again.learned, again.idle, again.gain)
		}
		x.idle[1] = other.idle[1]
		if !bytes.Equal(written(x), written(other)) {
			t.Error("it does not go on to the bit")
		}
		for cut := 0; cut < len(data); cut += 13 {
			c := coder.Read(data[:cut])
			if New(settings(outputs, true)).State(c, s.n.Scaling.Scaler.Splines); c.Done() {
				t.Fatalf("%d of %d bytes are read as a state", cut, len(data))
			}
		}
		c = coder.Read(data)
		if New(settings(outputs, true)).State(c, nil); c.Done() {
			t.Error("columns of splines are read without these")
		}
	}
}

// TestExpertsRestAndWake checks an expert with almost no mixture weight. After restAfter events it must rest and learn
// only every restEvery-th event. Once its mixture weight reaches wakeWeight, it must learn every event again.
func TestExpertsRestAndWake(t *testing.T) {
	x := New(settings(1, true))
	learns := func(weight float64, events int) (n int) {
		for range events {
			if x.learns(1, []float64{weight, weight / 2}) {
				n++
			}
			x.learned++
		}
		return n
	}
	for _, c := range []struct {
		share        float64
		events, want int
	}{{leastWeight / 2, restAfter, restAfter - 1}, {leastWeight / 2, 160, 10}, {0.9 * wakeWeight, 160, 10}, {wakeWeight, 160, 160}, {leastWeight / 2, 160, 160}} {
		if got := learns(c.share, c.events); got < c.want || got > c.want+1 {
			t.Errorf("with %v it learns %d of %d events, want %d", c.share, got, c.events, c.want)
		}
	}
}

// TestTooMany checks that no expert is used once there are too many numeric columns. The rows must then have no weights
// of experts.
func TestTooMany(t *testing.T) {
	x, s := New(settings(1, true)), newNumbers(4, 3, 1)
	s.learn(x, 1200)
	x.Publish(s.n.Table)
	many := make([]uint32, 30_000)
	for i := range many {
		many[i] = uint32(i)
	}
	columns := slices.Clone(x.Columns())
	x.follow(many, s.n.Table)
	if x.HasColumns() || x.Counts() {
		t.Error("it follows 30,000 numbers")
	}
	for _, column := range columns {
		if w := s.n.Table.Row(column)[6]; w != 0 {
			t.Errorf("column %d has the weight %v", column, w)
		}
	}
	if s.next(x); x.HasColumns() {
		t.Error("it begins again")
	}
}

// TestMove checks that a change of a column's scale changes no score. If the unit of a column changes, the weights of
// that column must be 0.
func TestMove(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		x, s := New(settings(outputs, true)), newNumbers(5, 4, outputs)
		s.learn(x, 1500)
		s.next(x)
		scores, out, moved := x.NewScores(), make([]float64, outputs), make([]float64, outputs)
		x.Score(&s.seen, s.base, &scores, out)
		last := s.in.Features() - 1 // a number that is in every event
		const ratio, shift = 1.02, 0.01
		s.in.Moves = []encode.Move{{Column: s.in.Columns[last], Numeric: true, Ratio: ratio, Shift: shift, Was: model.Standardization{Scale: 1}, Is: model.Standardization{Scale: 1}}}
		x.UpdateColumns(&s.in, s.n)
		s.in.X[last] = (s.in.X[last] - shift) / ratio
		x.Read(&s.in, &s.seen)
		x.Score(&s.seen, s.base, &scores, moved)
		for k := range out {
			if math.Abs(out[k]-moved[k]) > 1e-9 || weight(x, s.in.Columns[last], k) == 0 {
				t.Errorf("output %d: %v, moved %v", k, out[k], moved[k])
			}
		}
		s.in.Moves[0].Is.Unit = 2
		if x.UpdateColumns(&s.in, s.n); weight(x, s.in.Columns[last], 0) != 0 {
			t.Error("a column with another unit keeps its weight")
		}
	}
}

// TestStartFresh checks that a fresh start resets the second-order expert and the mixture weights.
func TestStartFresh(t *testing.T) {
	x, s := New(settings(1, true)), newNumbers(6, 4, 1)
	s.learn(x, 1500)
	before := x.Published(1)
	x.StartFresh()
	if got := x.Published(1); got[0].Weight != 0.5 || before[0].Weight == 0.5 {
		t.Errorf("experts count %v, before %v", got, before)
	}
	if b := x.list[0].Base(0); b != 1 {
		t.Errorf("the base counts %v", b)
	}
	if x.list[1].Intercept(0, 0) == 0 {
		t.Error("splines are forgotten")
	}
}

// TestCenter checks that the mean of a spline over its knots is close to 0. Without centering the mean would be .81.
func TestCenter(t *testing.T) {
	x, s := New(settings(1, true)), newNumbers(7, 3, 1)
	for range 4000 {
		s.next(x)
		scores := x.NewScores()
		x.Score(&s.seen, []float64{0}, &scores, make([]float64, 1))
		x.Update(&s.seen, &scores, s.y, 1, 1)
	}
	mean := make([]float64, 1)
	for knot, weight := range x.splines.fractions(2) {
		at, _ := slices.BinarySearch(x.Columns(), x.splines.splines.BasisColumn(2, knot))
		x.list[0].AddWeights([]int{at}, []float64{weight}, []float64{1}, mean)
	}
	if !(math.Abs(mean[0]) < 0.3) {
		t.Errorf("a spline adds %v in the mean", mean[0])
	}
}

// TestRescale checks that the predictions of a regression do not depend on the unit of targets and scores.
func TestRescale(t *testing.T) {
	c := settings(1, false)
	c.Loss = loss.Quadratic{}
	x, s := New(c), newNumbers(8, 3, 1)
	s.learn(x, 800)
	s.next(x)
	scores, was, is := x.NewScores(), make([]float64, 1), make([]float64, 1)
	x.Score(&s.seen, s.base, &scores, was)
	const factor, shift = 3, 0.7
	x.Rescale(factor, shift)
	x.Score(&s.seen, []float64{factor*s.base[0] + shift}, &scores, is)
	if want := factor*was[0] + shift; math.Abs(is[0]-want) > 1e-9*math.Abs(want) {
		t.Errorf("%v, want %v", is[0], want)
	}
}

// TestDiscriminant compares the weights and intercepts of the discriminant with the result computed from class means
// and the covariance within classes. It repeats the comparison after columns and classes are added, moved or replaced.
func TestDiscriminant(t *testing.T) {
	const classes, numbers, events = 20, 3, solveEvery
	d := newDiscriminant(Settings{Outputs: classes})
	d.Follow([]uint32{2, 5, 9}, numbers)
	r := rand.New(rand.NewPCG(1, 2))
	var all [classes][][]float64
	target, weights := make([]float64, classes), 0.0
	for n := range events {
		class := r.IntN(classes)
		x := []float64{r.NormFloat64() + float64(class%3), 0, 0.5*r.NormFloat64() - float64(class)/10}
		x[1] = 0.7*x[0] + r.NormFloat64()
		for k := range target {
			target[k] = -1
		}
		target[class] = 1
		if d.Asleep() != (n < solveFirst) {
			t.Fatalf("after %d events: asleep is %v", n, d.Asleep())
		}
		d.Update(&Input{Index: []int{0, 1, 2}, X: x, One: 1}, nil, target, classes, 1)
		all[class] = append(all[class], x)
	}
	s := mat.NewSymDense(numbers, nil)
	means := make([][]float64, classes)
	for k, of := range all {
		means[k] = make([]float64, numbers)
		for _, x := range of {
			for i := range x {
				means[k][i] += x[i] / float64(len(of))
			}
		}
		for _, x := range of {
			for i := range x {
				for j := range i + 1 {
					s.SetSym(i, j, s.At(i, j)+(x[i]-means[k][i])*(x[j]-means[k][j]))
				}
			}
		}
		weights += float64(len(of)) - harmonic(len(of))
	}
	for i := range numbers {
		s.SetSym(i, i, s.At(i, i)+firstEvents+leastScatter*weights)
	}
	var chol mat.Cholesky
	if !chol.Factorize(s) {
		t.Fatal("no covariance")
	}
	check := func(what string, x []float64, out []float64, want func(k int) float64) {
		for k := range out {
			if w := want(k) - d.norm; math.Abs(out[k]-w) > 1e-9*max(1, math.Abs(w)) {
				t.Fatalf("%s: class %d of %v: %v, want %v", what, k, x, out[k], w)
			}
		}
	}
	x, out := []float64{0.3, -1, 2}, make([]float64, classes)
	slow := func(k int) float64 {
		n := float64(len(all[k]))
		m, w := mat.NewVecDense(numbers, nil), mat.NewVecDense(numbers, nil)
		m.ScaleVec(n/(n+1), mat.NewVecDense(numbers, means[k]))
		must.Do(t, chol.SolveVecTo(w, m))
		w.ScaleVec(weights+firstEvents, w)
		return math.Log(n/events) - mat.Dot(w, m)/2 + mat.Dot(w, mat.NewVecDense(numbers, x))
	}
	d.Score(&Input{Index: []int{0, 1, 2}, X: x, One: 1}, nil, out, nil)
	check("as solved", x, out, slow)
	was := slices.Clone(d.scatter)
	d.Move(5, 1.5, 0.2)
	for at, ratio := range []float64{1, 1.5, 1, 1.5, 2.25, 1.5, 1, 1.5, 1} {
		if got, want := d.scatter[at], was[at]/ratio; math.Abs(got-want) > 1e-9 {
			t.Errorf("scatter %d moved: %v, want %v", at, got, want)
		}
	}
	moved := []float64{x[0], (x[1] - 0.2) / 1.5, x[2]}
	d.Score(&Input{Index: []int{0, 1, 2}, X: moved, One: 1}, nil, out, nil)
	check("moved", x, out, slow)
	d.Move(5, 1/1.5, -0.2/1.5)
	d.Follow([]uint32{2, 4, 5, 9}, 4)
	d.Score(&Input{Index: []int{0, 2, 3}, X: x, One: 1}, nil, out, nil)
	check("with another column", x, out, slow)
	d.Grow(classes + 1)
	out = make([]float64, classes+1)
	d.Score(&Input{Index: []int{0, 2, 3}, X: x, One: 1}, nil, out, nil)
	if out[classes] > -unseen/2 {
		t.Errorf("a class of no event has the score %v", out[classes])
	}
	for k := 1; k < classes; k++ {
		if a, b := out[k]-out[0], slow(k)-slow(0); math.Abs(a-b) > 0.1*max(1, math.Abs(b)) {
			t.Errorf("class %d has the score %v more than the first, was %v", k, a, b)
		}
	}
	if d.Renew(5); d.weights[2] != 0 || d.means[2] != 0 {
		t.Error("a column with another meaning keeps its weight")
	}
}

// harmonic returns 1 + 1/2 + 1/3 + … + 1/n. The i-th event of a class counts 1 - 1/i in the scatter, because the event
// also changes the class mean. So n events count n - harmonic(n).
func harmonic(n int) (sum float64) {
	for i := range n {
		sum += 1 / float64(i+1)
	}
	return sum
}

// TestSplineOfColumnThatIsNoNumber checks that the experts learn the spline of a column although they do not learn the
// column itself, because an omitted column is 0.
func TestSplineOfColumnThatIsNoNumber(t *testing.T) {
	c := &model.Splines{Columns: []uint32{1, 4, 6}, Knots: [][]float64{{-1, 0, 1}, {0, 1, 2}, model.Present()}}
	x := New(Settings{Settings: newton.Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000}, Outputs: 1, Splines: true, At: 6})
	x.splines.splines = c
	x.follow([]uint32{1, 3}, model.NewTable(24))
	want := []uint32{1, 3, c.BasisColumn(0, 0), c.BasisColumn(0, 1), c.BasisColumn(0, 2), c.BasisColumn(1, 0), c.BasisColumn(1, 1), c.BasisColumn(1, 2), c.BasisColumn(2, 0)}
	if !slices.Equal(x.Columns(), want) {
		t.Fatalf("the experts follow %v, want %v", x.Columns(), want)
	}
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
		var got Input
		if x.Read(&in, &got); !slices.Equal(got.Index, event.index) || !slices.Equal(got.X, event.x) || !slices.Equal(got.Source, event.source) {
			t.Errorf("columns %v: the experts see %v %v of %v, want %v %v of %v", event.columns, got.Index, got.X, got.Source, event.index, event.x, event.source)
		}
	}
}

// TestForceNeedsObservations checks that an update without a new observation leaves the weights in effect as they are. A
// restored learner has only these weights until the next observation.
func TestForceNeedsObservations(t *testing.T) {
	x, s := New(settings(1, true)), newNumbers(8, 4, 1)
	s.learn(x, 800)
	scores, out := x.NewScores(), make([]float64, 1)
	s.next(x)
	x.Score(&s.seen, s.base, &scores, out)
	for i := range x.weights.mix {
		x.weights.mix[i] = float64(1+i) / 100 // not what the learned weights would give
	}
	was := slices.Clone(x.weights.mix)
	x.Update(&s.seen, &scores, s.y, 1, 1)
	must.Require(t, slices.Equal(x.weights.mix, was), "without an observation the weights are %v, they were %v", x.weights.mix, was)
	x.Observe(scores.Lanes, s.lost)
	x.Update(&s.seen, &scores, s.y, 1, 1)
	must.Require(t, !slices.Equal(x.weights.mix, was), "an observation leaves the weights %v", was)
}

// TestForceWithoutWeights checks the weights in effect if all lanes are asleep, and if all lanes that are awake had no
// weight.
func TestForceWithoutWeights(t *testing.T) {
	w := newWeights([]float64{0.5, 0.5, 0})
	w.force(func(int) bool { return true })
	must.EqualSlices(t, w.mix, []float64{0, 0, 0})
	w.force(func(lane int) bool { return lane < 2 })
	must.EqualSlices(t, w.mix, []float64{0, 0, 1})
}

// weight returns the mixed weight of a column for an output.
func weight(x *Experts, column uint32, output int) float64 {
	w := make([]float64, x.outputs)
	x.Weights(column, w)
	return w[output]
}
