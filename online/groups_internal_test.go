package online

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/synthetic"
)

// enumerated is the same variance by summing over every mask of groups and features.
func enumerated(n loss.GroupDropout, groups [][]string, features []uint32, parts []float64) float64 {
	each := slices.Clone(features)
	slices.Sort(each)
	each = slices.Compact(each)
	var names []string
	for _, g := range groups {
		names = append(names, g...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	mean, square := 0.0, 0.0
	for mask := range 1 << (len(names) + len(each)) {
		p, f := 1.0, 0.0
		dead := func(bit int, q float64) bool {
			if mask>>bit&1 == 1 {
				p *= q
				return true
			}
			p *= 1 - q
			return false
		}
		var died []string
		for i, name := range names {
			if dead(i, n.Rate(name)) {
				died = append(died, name)
			}
		}
		var lostFeatures []uint32
		for i, feature := range each {
			if dead(len(names)+i, n.Q) {
				lostFeatures = append(lostFeatures, feature)
			}
		}
		for i, part := range parts {
			lost := slices.Contains(lostFeatures, features[i])
			part /= 1 - n.Q
			for _, g := range groups[i] {
				lost = lost || slices.Contains(died, g)
				part /= 1 - n.Rate(g)
			}
			if !lost {
				f += part
			}
		}
		mean += p * f
		square += p * f * f
	}
	return square - mean*mean
}

// spy notes the gradients of a step, by row and level and output, and by row the variance
// of a feature alone, before the rule makes it.
type spy struct {
	rules.Rule
	gradients [][]float64
	alone     []float64
}

func (r *spy) Step(s *rows.Step) {
	r.gradients, r.alone = r.gradients[:0], r.alone[:0]
	for _, g := range s.Segments {
		for i := g.From; i < g.To; i++ {
			var row []float64
			for j, df := range g.DF {
				row = append(row, df*s.X[i]+g.Shrink[j]*s.Basis[i]*s.Rows[i][rows.FirstPart+j])
			}
			r.gradients = append(r.gradients, row)
			r.alone = append(r.alone, g.Strength[0])
		}
	}
	if len(r.gradients) != len(s.Rows) {
		panic(fmt.Sprintf("segments of %d rows, the event has %d", len(r.gradients), len(s.Rows)))
	}
	r.Rule.Step(s)
}

var groupNoises = []loss.GroupDropout{{Q: 0, Groups: 0.4}, {Q: 0.3, Groups: 0.2}, {Q: 0.2, Groups: 0.7}, {Q: 0.3, Groups: 0},
	{Rates: map[string]float64{"sensor": 0.6, "words": 0.15}}, {Rates: map[string]float64{"": 0.3, "words": 0.5}}}

// The variance of an event's score and the gradient of its expected loss are those of the
// slow sum over pairs of features, that of finite differences and that of every mask; and
// with the quadratic loss, whose gradient is 2 (f - y) x + 2 V w, those of the exact solvers.
func TestGroupsAgainstTheSlowSum(t *testing.T) {
	longtest.NotRaced(t)
	for i, classes := range []int{2, 3} {
		for j, noise := range groupNoises {
			for k, name := range []string{"quadratic", "logistic", "hinge", "hinge:chen:0.5", "logistic:chen", "logistic:quadratic-noising", "t-logistic:1.5"} {
				if !longtest.Some(i+j+k, 2) {
					continue
				}
				c := DefaultConfig()
				c.Loss, c.Noise, c.LearningRate = name, noise.String(), 0.05
				l, s := mustNew(t, c, classes), synthetic.NewStream(3, classes)
				s.Lacks = true
				seen := &spy{Rule: l.rule}
				l.rule = seen
				for i := range 120 {
					e := s.Next()
					e.Weight = 1
					if i < 90 {
						l.Learn(e, nil)
						continue
					}
					checkGroupStep(t, l, e, seen, noise, i == 90 && classes == 2 && name == "logistic")
				}
			}
		}
	}
}

func checkGroupStep(t *testing.T, l *Learner, e *event.Example, seen *spy, noise loss.GroupDropout, everyMask bool) {
	t.Helper()
	l.grow(e)
	l.events++
	l.lack(e)
	l.gather(e)
	st := &l.now.step
	byRow := map[*float64]uint32{}
	for slot := range l.table.Len() {
		column, row := l.table.Column(slot)
		byRow[&row[0]] = column
	}
	var columns []uint32
	var features []uint32
	for _, row := range l.features() {
		columns = append(columns, byRow[&row[0]])
		features = append(features, l.scaling.Scaler.Curves.Source(byRow[&row[0]]))
	}
	groups := synthetic.SlowGroups(e, features)
	x := slices.Clone(st.X)
	f := slices.Clone(st.F)
	weights := make([][]float64, l.k) // by output and row
	for k := range weights {
		for _, row := range st.Rows {
			weights[k] = append(weights[k], l.weights(row)[k])
		}
	}
	variance := func(k int) float64 {
		parts := make([]float64, len(columns))
		for i := range parts {
			parts[i] = weights[k][i] * x[i]
		}
		if everyMask {
			if a, b := enumerated(noise, groups, features, parts), synthetic.SlowVariance(noise, groups, features, parts); math.Abs(a-b) > 1e-10*(1+b) {
				t.Fatalf("%v: variance %v by masks, %v by the slow sum", noise, a, b)
			}
			everyMask = false
		}
		return synthetic.SlowVariance(noise, groups, features, parts)
	}
	for k := range l.active {
		if got, want := l.variance(&l.levels[0], k, k), variance(k); math.Abs(got-want) > 1e-12*(1+want) {
			t.Fatalf("%v, %s: variance %v, want %v", noise, l.config.Loss, got, want)
		}
	}
	l.sumAverage()
	for k := range l.active {
		parts := make([]float64, len(columns))
		for i, row := range l.features() {
			parts[i] = x[i] * (l.weights(row)[k] + l.levels[0].Coefficient*l.lags(row)[k])
		}
		if got, want := l.now.averageQ[k], synthetic.SlowVariance(noise, groups, features, parts); math.Abs(got-want) > 1e-12*(1+want) {
			t.Fatalf("%v, %s: variance %v of the average, want %v", noise, l.config.Loss, got, want)
		}
	}
	l.step(e.Label, 1)
	for i := range columns {
		if got, want := seen.alone[i], synthetic.SlowVariance(noise, groups[i:i+1], features[i:i+1], []float64{1}); math.Abs(got-want) > 1e-12*(1+want) {
			t.Fatalf("%v, groups %q: the variance of a feature alone is %v, want %v", noise, groups[i], got, want)
		}
	}
	for k := range l.active {
		y := rows.Y(e.Label, k, l.k)
		value := func() float64 {
			score := 0.0
			for i, w := range weights[k] {
				score += w * x[i]
			}
			value, _, _ := l.set.loss.At(y, score, variance(k))
			return value
		}
		for i := range weights[k] {
			const h = 1e-5
			w := weights[k][i]
			weights[k][i] = w + h
			up := value()
			weights[k][i] = w - h
			down := value()
			weights[k][i] = w
			if got, want := seen.gradients[i][k], (up-down)/(2*h); math.Abs(got-want) > 2e-6*(1+math.Abs(want)) {
				t.Fatalf("%v, %s, row %d: gradient %v, want %v", noise, l.config.Loss, i, got, want)
			}
		}
		if l.config.Loss == "quadratic" {
			checkAgainstBatch(t, l, e, columns, x, y, f[k], weights[k], seen.gradients, k, noise)
		}
	}
}

// checkAgainstBatch compares the gradients of output k with those of the exact solver.
func checkAgainstBatch(t *testing.T, l *Learner, e *event.Example, columns []uint32, x []float64, y, f float64, w []float64, gradients [][]float64, k int, noise loss.GroupDropout) {
	t.Helper()
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(columns[a], columns[b]) })
	var one event.Example
	b := batch.Builder{Curves: l.scaling.Scaler.Curves}
	for _, i := range order {
		one.Features.Index, one.Features.Value = append(one.Features.Index, columns[i]), append(one.Features.Value, x[i])
	}
	one.Weight = 1
	b.Fields(e)
	if err := b.Add(&one); err != nil {
		t.Fatal(err)
	}
	d := b.Data(l.schema)
	o, err := batch.NewExpected(batch.Problem{Data: d, Y: []float64{y}, Weight: []float64{1}, Loss: loss.Quadratic{}, Noise: l.levels[0].noise, Kappa: 1,
		Intercept: batch.FreeIntercept, Penalty: batch.Penalty{R: make([]float64, d.Columns()+1), Center: make([]float64, d.Columns()+1)}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	point, gradient := make([]float64, d.Columns()+1), make([]float64, d.Columns()+1)
	for n, i := range order {
		point[n] = w[i]
	}
	point[d.Columns()] = w[len(columns)]
	o.ValueGrad(point, gradient)
	for n, i := range order {
		if got, want := gradients[i][k], gradient[n]; math.Abs(got-want) > 1e-12*(1+math.Abs(want)+math.Abs(2*(f-y)*x[i])) {
			t.Fatalf("%v, column %d: gradient %v, of the exact solver %v", noise, columns[i], got, want)
		}
	}
}

// Groups of one feature each die as features do: what is learned is the same to the bit.
func TestGroupsOfOneAreDropout(t *testing.T) {
	for _, rule := range rules.Names() {
		if rule == "irls" {
			continue
		}
		learn := func(noise string) []byte {
			c := DefaultConfig()
			c.Optimizer, c.Noise, c.Standardize = rule, noise, "scale"
			c.Adapt = false // the first steps are shorter under noise of groups
			schema := event.NewSchema(6, []string{"0", "1", "2"}, 3)
			schema.NumericIndices, schema.ColumnGroups = true, &event.ColumnGroups{Every: 1}
			l, err := New(c, schema)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				e := event.Example{Weight: 1, Label: r.IntN(3)}
				for column := range uint32(12) {
					if r.IntN(2) == 0 {
						e.Features.Index, e.Features.Value = append(e.Features.Index, column), append(e.Features.Value, r.NormFloat64()+float64(e.Label))
					}
				}
				l.Learn(&e, nil)
			}
			var b bytes.Buffer
			for slot := range l.table.Len() {
				column, row := l.table.Column(slot)
				fmt.Fprintln(&b, column, row)
			}
			return fmt.Append(b.Bytes(), l.bias)
		}
		if a, b := learn("group:0.4"), learn("dropout:0.4"); !bytes.Equal(a, b) {
			t.Errorf("%s: groups of one feature and features are not the same:\n%.300s\n%.300s", rule, a, b)
		}
	}
}

// It makes no difference for the variances, and next to none for what is learned, whether
// the features of a group come together.
func TestGroupsInAnyOrder(t *testing.T) {
	const sensors, width = 4, 5
	run := func(column func(sensor, i int) uint32) *Learner {
		c := DefaultConfig()
		c.Noise = "dropout:0.1+group:0.4"
		schema := event.NewSchema(6, []string{"0", "1"}, 2)
		for sensor := range sensors {
			schema.Fields = append(schema.Fields, event.Field{Name: fmt.Sprint("s", sensor), Kind: event.Numeric})
		}
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(4, 4))
		for range 500 {
			e := event.Example{Weight: 1, Label: r.IntN(2)}
			n := sensors * width
			e.Features = event.Vec{Index: make([]uint32, n), Value: make([]float64, n)}
			e.Field = make([]uint16, n)
			for sensor := range sensors {
				for i := range width {
					at := column(sensor, i)
					e.Features.Index[at], e.Features.Value[at], e.Field[at] = at, r.NormFloat64()+float64(e.Label), uint16(1+sensor)
				}
			}
			l.Learn(&e, nil)
		}
		return l
	}
	together := func(sensor, i int) uint32 { return uint32(sensor*width + i) }
	apart := func(sensor, i int) uint32 { return uint32(i*sensors + sensor) }
	a, b := run(together), run(apart)
	if together, apart := a.groups.Row(1), b.groups.Row(1); together != 1 || apart != width {
		t.Fatalf("the second feature is in row %d together, %d apart", together, apart)
	}
	for sensor := range sensors {
		for i := range width {
			x, y := a.weights(a.table.Row(together(sensor, i)))[0], b.weights(b.table.Row(apart(sensor, i)))[0]
			if math.Abs(x-y) > 1e-9 {
				t.Errorf("sensor %d, feature %d: weight %v together, %v apart", sensor, i, x, y)
			}
		}
	}
}

// sensorEvents makes events of four sensors of three readings each that say the same of
// the class, and two more readings of which each is a group of its own.
func sensorEvents(seed uint64) (*event.Schema, func() *event.Example) {
	const sensors, width = 4, 3
	schema := event.NewSchema(6, []string{"0", "1"}, 2)
	schema.NumericIndices = true
	schema.ColumnGroups = &event.ColumnGroups{}
	for i := range uint32(sensors) {
		schema.ColumnGroups.Named = append(schema.ColumnGroups.Named, event.NamedColumns{Name: fmt.Sprint("s", i), Spans: []event.Span{{From: i * width, To: (i + 1) * width}}})
	}
	r := rand.New(rand.NewPCG(seed, 9))
	return schema, func() *event.Example {
		e := &event.Example{Weight: 1, Label: r.IntN(2)}
		for column := range uint32(sensors*width + 2) {
			e.Features.Index = append(e.Features.Index, column)
			e.Features.Value = append(e.Features.Value, float64(2*e.Label-1)*0.4+r.NormFloat64())
		}
		return e
	}
}

// What is forecast where groups die is what deleting them makes of the same events, each
// mask drawn anew; and the level that is expected is the natural one.
func TestForecastOfGroups(t *testing.T) {
	longtest.NotRaced(t)
	schema, next := sensorEvents(1)
	c := DefaultConfig()
	c.ExpectedMissingGroups, c.Standardize = 0.5, "none"
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(2, 2))
	dead := func(e *event.Example, d float64) *event.Example {
		var gone [6]bool
		for i := range gone {
			gone[i] = r.Float64() < d
		}
		out := &event.Example{Weight: 1, Label: e.Label}
		for i, column := range e.Features.Index {
			if group := min(column/3, 4) + column/13; !gone[group] {
				out.Features.Index, out.Features.Value = append(out.Features.Index, column), append(out.Features.Value, e.Features.Value[i])
			}
		}
		return out
	}
	const n = 20_000
	var wrong, trials [ForecastPoints]float64
	for i := range n {
		e := next()
		if i > n/4 {
			for point := range wrong {
				trials[point]++
				if model.Predict(scoresOf(l, dead(e, ForecastMissing(point)))) != e.Label {
					wrong[point]++
				}
			}
		}
		l.Learn(e, nil)
	}
	m := l.Report()
	var levels []string
	for _, e := range m.Experts {
		levels = append(levels, e.Name)
	}
	if want := []string{"dropout:0", "dropout:0.3", "group:0.3", "group:0.5"}; !slices.Equal(levels, want) {
		t.Fatalf("levels %v, want %v", levels, want)
	}
	for point, p := range m.Forecast.DeclaredGroups {
		got := p.Error
		if want := wrong[point] / trials[point]; math.Abs(got-want) > 0.04 {
			t.Errorf("%v of the groups dead: forecast %v, actual %v", ForecastMissing(point), got, want)
		}
	}
	if l.natural() != 3 {
		t.Errorf("the level for half of the groups is %s", levels[l.natural()])
	}
}
