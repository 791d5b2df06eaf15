package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// alikeStream makes events of two classes with numbers that read the same few things, in
// units of their own; null deletes fields, each by itself.
type alikeStream struct {
	r      *rand.Rand
	fields int
	null   float64
	e      blankout.Example
}

func (s *alikeStream) next() *blankout.Example {
	e := &s.e
	*e = blankout.Example{Weight: 1, Label: s.r.IntN(2), Field: []uint16{}}
	var things [3]float64
	for i := range things {
		things[i] = s.r.NormFloat64() + 0.9*float64(2*e.Label-1)
	}
	for id := range s.fields {
		x := float64(10*id) + float64(1+id)*(things[id%3]+0.4*s.r.NormFloat64())
		if s.r.Float64() < s.null {
			e.Missing = append(e.Missing, uint16(id+1))
			continue
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id+1)), append(e.Features.Value, x), append(e.Field, uint16(id+1))
	}
	return e
}

func fillConfig() Config {
	c := DefaultConfig()
	c.Noise, c.Transform = "none", "none"
	return c
}

// The covariance gathered is that of the standardised values, in the units in force at the
// end, whatever they were when a value came.
func TestGatheredCovariance(t *testing.T) {
	for _, null := range []float64{0, 0.3} {
		l := lackingLearner(t, fillConfig())
		s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: null}
		for range 12_000 {
			l.Learn(s.next())
		}
		c := l.filling.covariance
		if c == nil || len(c.Columns) != 10 || l.filling.gathered < 2900 {
			t.Fatalf("%+v after %d events", c, l.filling.gathered)
		}
		// Slowly: of complete events of the same kind, as the model standardises them.
		m, n := l.modelOf(l.mixed(0)), 20_000
		s = &alikeStream{r: rand.New(rand.NewPCG(3, 4)), fields: 10}
		var mean [10]float64
		var matrix [10][10]float64
		for range n {
			x := m.Standardised(s.next(), blankout.Vec{}).Value[:10] // hats come behind
			for i := range x {
				mean[i] += x[i] / float64(n)
				for j := range x {
					matrix[i][j] += x[i] * x[j] / float64(n)
				}
			}
		}
		for i := range mean {
			if d := math.Abs(c.Mean[i] - mean[i]); d > 0.08 {
				t.Errorf("null %v: mean %d is %v, want %v", null, i, c.Mean[i], mean[i])
			}
			for j := range mean {
				if d := math.Abs(c.Matrix[i*10+j] - (matrix[i][j] - mean[i]*mean[j])); d > 0.08 {
					t.Errorf("null %v: entry %d, %d is %v, want %v", null, i, j, c.Matrix[i*10+j], matrix[i][j]-mean[i]*mean[j])
				}
			}
		}
	}
}

// Covariances, and no variances, shrink as if events without any had been added: the fewer
// there were the more, in the unit in which events count.
func TestCovariancesShrink(t *testing.T) {
	f := &filling{columns: []uint32{3, 7}, fields: []uint16{1, 2}, mean: []float64{0, 0}, squares: []float64{20, 0, 12, 30}, weight: 10, unit: 4}
	f.renew()
	certain := 10 / (10 + covarianceRidge*2*4)
	want := []float64{2, 1.2 * certain, 1.2 * certain, 3}
	for i, got := range f.covariance.Matrix {
		if math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("%v, want %v", f.covariance.Matrix, want)
			break
		}
	}
}

// gather takes up complete events of the columns of f in the way of gatherRead.
func gatherAll(l *Learner, rows [][]float64) {
	for _, x := range rows {
		l.now.read.clear()
		l.now.read.gathers = true
		for i, x := range x {
			l.now.read.note(uint32(i+1), blankout.Numeric, uint16(i+1), x)
		}
		l.gatherRead()
	}
}

// The sums are those of the definition: of a first event without covariance, and of each
// event with the weight that those after it have left, to rounding; what moves, comes and goes keeps the
// others as they are.
func TestMoments(t *testing.T) {
	l := lackingLearner(t, fillConfig())
	r := rand.New(rand.NewPCG(5, 6))
	var rows [][]float64
	for range 300 {
		a, b := r.NormFloat64(), r.NormFloat64()
		rows = append(rows, []float64{a, 0.5*a + b, b - a, r.NormFloat64() + 1})
	}
	gatherAll(l, rows)
	keep := 1 - 1.0/covarianceMemory
	weight, mean := math.Pow(keep, 300), make([]float64, 4)
	for i, x := range rows {
		w := math.Pow(keep, float64(len(rows)-1-i))
		weight += w
		for j := range x {
			mean[j] += w * x[j]
		}
	}
	squares := make([]float64, 16)
	for i := range mean {
		mean[i] /= weight
	}
	first := math.Pow(keep, 300)
	for i := range mean {
		for j := range mean {
			if squares[4*i+j] = first * mean[i] * mean[j]; i == j {
				squares[4*i+j] += first
			}
			for n, x := range rows {
				squares[4*i+j] += math.Pow(keep, float64(len(rows)-1-n)) * (x[i] - mean[i]) * (x[j] - mean[j])
			}
			squares[4*i+j] /= weight
		}
	}
	f := &l.filling
	check := func(what string, columns []int, scale, shift []float64) {
		t.Helper()
		for a, i := range columns {
			if got, want := f.mean[a], (mean[i]-shift[a])/scale[a]; math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: mean %d is %v, want %v", what, i, got, want)
			}
			for b, j := range columns[:a+1] {
				if got, want := f.squares[a*len(columns)+b]/f.weight, squares[4*i+j]/scale[a]/scale[b]; math.Abs(got-want) > 1e-12 {
					t.Errorf("%s: entry %d, %d is %v, want %v", what, i, j, got, want)
				}
			}
		}
	}
	check("gathered", []int{0, 1, 2, 3}, []float64{1, 1, 1, 1}, make([]float64, 4))
	f.due = false
	f.moved(2, model.Standardisation{Centre: 5, Scale: 2}, model.Standardisation{Centre: 6, Scale: 3})
	check("moved", []int{0, 1, 2, 3}, []float64{1, 1.5, 1, 1}, []float64{0, 0.5, 0, 0})
	if !f.due {
		t.Error("a column has moved far, and nothing is due")
	}
	f.remove(3)
	check("removed", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.forget(0.1)
	check("forgotten", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.insert(2, 3, 3)
	if f.squares[2*4+2] != f.weight || f.mean[2] != 0 || f.squares[3*4+2] != 0 || f.squares[2*4+1] != 0 {
		t.Errorf("a new column begins with %v, %v", f.mean, f.squares)
	}
	f.remove(3)
	check("there and back", []int{0, 1, 3}, []float64{1, 1.5, 1}, []float64{0, 0.5, 0})
	f.moved(2, model.Standardisation{Centre: 5, Scale: 2}, model.Standardisation{Centre: 5, Scale: 2, Unit: 1})
	if f.squares[1*3+1] != f.weight || f.squares[1*3] != 0 || f.squares[2*3+1] != 0 || f.mean[1] != 0 {
		t.Errorf("a column of other values begins with %v, %v", f.mean, f.squares)
	}
}

// With a half-life the covariance is that of the last events; without one it remembers both
// ways in which two numbers have gone together.
func TestCovarianceFollowsTheHalfLife(t *testing.T) {
	for _, halfLife := range []float64{0, 500} {
		c := fillConfig()
		c.HalfLife = halfLife
		l := lackingLearner(t, c)
		r := rand.New(rand.NewPCG(7, 8))
		sign := 1.0
		for i := range 8000 {
			if i == 4000 {
				sign = -1
			}
			a := r.NormFloat64()
			l.Learn(&blankout.Example{Weight: 1, Label: r.IntN(2), Field: []uint16{1, 2},
				Features: blankout.Vec{Index: []uint32{1, 2}, Value: []float64{a, sign*a + 0.3*r.NormFloat64()}}})
		}
		if x := l.filling.covariance.Matrix[1]; halfLife > 0 && x > -0.5 || halfLife == 0 && math.Abs(x) > 0.4 {
			t.Errorf("half-life %v: the covariance is %v", halfLife, x)
		}
	}
}

// Of many columns few events are gathered once there have been several for each.
func TestGatheredLessOften(t *testing.T) {
	l := lackingLearner(t, fillConfig())
	l.filling.columns = make([]uint32, 128)
	for _, c := range []struct{ gathered, every uint64 }{{0, gatherLeast}, {8*128 - 1, gatherLeast}, {8 * 128, 16}} {
		if l.filling.gathered = c.gathered; l.gatherEvery() != c.every {
			t.Errorf("after %d gathered events every %d, want %d", c.gathered, l.gatherEvery(), c.every)
		}
	}
	l.filling.columns = l.filling.columns[:10]
	if l.gatherEvery() != gatherLeast {
		t.Errorf("of ten columns every %d", l.gatherEvery())
	}
}

// An event that lacks many columns is gathered less often than one that lacks none.
func TestLackingIsGatheredLessOften(t *testing.T) {
	l := lackingLearner(t, fillConfig())
	l.filling.columns = make([]uint32, 128)
	for _, c := range []struct {
		gathered uint64
		lacks    int
		every    uint64 // of those that gatherEvery names
	}{{0, 0, 1}, {0, 64, 1}, {0, 120, 5}, {8 * 128, 0, 1}, {8 * 128, 64, 3}, {8 * 128, 120, 11}} {
		l.filling.gathered = c.gathered
		taken := uint64(0)
		for i := range 1000 * c.every {
			if l.events = i * l.gatherEvery(); !l.passesOver(c.lacks) {
				taken++
			}
		}
		if taken != 1000 {
			t.Errorf("after %d gathered events %d of %d that lack %d columns are, want 1000", c.gathered, taken, 1000*c.every, c.lacks)
		}
	}

	schema := blankout.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 100 {
		schema.AddField(blankout.Field{Name: string([]byte{byte('a' + i/10), byte('a' + i%10)}), Kind: blankout.Numeric})
	}
	l, err := New(fillConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 100, null: 0.9}
	for range 4000 {
		l.Learn(s.next())
	}
	if g := l.filling.gathered; g < 300 || g > 400 { // every twelfth of those that lack 89 columns or more
		t.Errorf("%d of 4,000 events that hold 10 of 100 columns were gathered", g)
	}
}

// A wild value neither moves what is gathered nor tells what is missing.
func TestWildIsNotGathered(t *testing.T) {
	a, b := lackingLearner(t, fillConfig()), lackingLearner(t, fillConfig())
	r := rand.New(rand.NewPCG(7, 8))
	var rows [][]float64
	for range 400 {
		x := r.NormFloat64()
		rows = append(rows, []float64{x, x + 0.1*r.NormFloat64(), x + 0.1*r.NormFloat64()})
	}
	gatherAll(a, rows)
	wild := slices.Clone(rows)
	stats := []float64{100, 1, 100, 1, 1}
	beyond := model.Scaler{Mode: model.StandardiseAuto}
	at := beyond.Clip(stats, 1e9)
	if !model.IsWild(at) {
		t.Fatal(at)
	}
	for i := 0; i < len(wild); i += 10 {
		wild[i] = []float64{wild[i][0], at, wild[i][2]}
	}
	gatherAll(b, wild)
	for i := range 3 {
		for j := range i + 1 {
			x, y := a.filling.squares[3*i+j]/a.filling.weight, b.filling.squares[3*i+j]/b.filling.weight
			if math.Abs(x-y) > 0.05 {
				t.Errorf("entry %d, %d: %v, with wild values %v", i, j, x, y)
			}
		}
	}
}

// Where fields read the same things and are often null filling in proves better, and what
// the Learner scores is what its model answers; a restart changes nothing.
func TestFillIsMeasured(t *testing.T) {
	c := fillConfig()
	reference, other := lackingLearner(t, c), lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.5}
	var served float64
	var plain [2]float64
	filled := 0
	for i := range 6000 {
		e := s.next()
		if i == 3000 {
			blocks, err := other.Blocks()
			if err != nil {
				t.Fatal(err)
			}
			if other, err = Restore(c, blocks); err != nil {
				t.Fatal(err)
			}
		}
		told := reference.Score(e, make([]float64, 1))
		if i >= 2000 {
			served += reference.decision().LogLoss(told, e.Label)
			m := reference.modelOf(reference.mixed(0))
			for j, rule := range []model.MissingRule{model.MissingAsIs, model.MissingRescale} {
				plain[j] += reference.decision().LogLoss(m.WithMissing(m.Missing.Forced(rule)).Score(e, make([]float64, 1)), e.Label)
			}
			if m.Answer(e).Rule() == model.MissingFill {
				filled++
			}
		}
		a, b := slices.Clone(reference.Learn(e)), other.Learn(e)
		if !slices.Equal(a, b) {
			t.Fatalf("event %d: %v, after a restart %v", i, a, b)
		}
		if math.Abs(a[0]-told[0]) > 1e-9 {
			t.Fatalf("event %d: it is learned with the score %v, and was answered with %v", i, a[0], told[0])
		}
	}
	if !bytes.Equal(stateOf(t, reference), stateOf(t, other)) {
		t.Error("a restart has changed the state")
	}
	if !(served < plain[0]-10 && served < plain[1]-10) || filled < 3500 {
		t.Errorf("log-loss served %v, as is %v, rescaled %v; %d of 4,000 filled in", served, plain[0], plain[1], filled)
	}
	// The published model, which has other rows, says the same.
	e := s.next()
	if a, b := reference.Score(e, make([]float64, 1)), reference.Published().Score(e, make([]float64, 1)); math.Abs(a[0]-b[0]) > 1e-12 {
		t.Errorf("the published model scores %v, the learner %v", b, a)
	}
}

// Masks that are drawn show it where nothing is ever missing, with more classes too and
// where the forecast is by masks; the scores of complete events are, to the bit, those of a
// learner that gathers nothing.
func TestCompleteStreamsLearnTheSame(t *testing.T) {
	for _, noise := range []string{"none", "auto"} {
		c := DefaultConfig()
		c.Noise = noise
		gathers := lackingLearner(t, c)
		c.CovarianceFields = 0
		plain := lackingLearner(t, c)
		s := &alikeStream{r: rand.New(rand.NewPCG(9, 2)), fields: 10}
		for i := range 8000 {
			e := s.next()
			if a, b := gathers.Learn(e), plain.Learn(e); !slices.Equal(a, b) {
				t.Fatalf("%s, event %d: %v, want %v", noise, i, a, b)
			}
		}
		if m := gathers.missing.model; !m.Fill() || plain.missing.model.Fill() {
			t.Errorf("%s: the rules are %v, without a covariance %v", noise, m.Rules, plain.missing.model.Rules)
		}
		if noise != "none" {
			continue
		}
		// What is forecast is what is served.
		wrong, n, point := 0.0, 4000.0, 5
		s = &alikeStream{r: rand.New(rand.NewPCG(10, 2)), fields: 10, null: ForecastMissing(point)}
		for range int(n) {
			e := s.next()
			if class := model.Predict(gathers.Score(e, make([]float64, 1))); class != e.Label {
				wrong++
			}
		}
		if got := gathers.shares.Features.At(point); math.Abs(got-wrong/n) > 0.03 {
			t.Errorf("%v of the answers are wrong, forecast %v", wrong/n, got)
		}
	}
}

// A state of before anything was gathered goes on; what does not fit its format is refused.
func TestFillState(t *testing.T) {
	c := fillConfig()
	l := lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.2}
	for range 2000 {
		l.Learn(s.next())
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	older := slices.DeleteFunc(slices.Clone(blocks), func(b blankout.Block) bool { return b.Name == blockFill || b.Name == "covariance" })
	if len(older) != len(blocks)-2 {
		t.Fatalf("%d of %d blocks", len(older), len(blocks))
	}
	from, err := Restore(c, older)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		from.Learn(s.next())
	}
	if from.filling.covariance == nil {
		t.Error("nothing is gathered")
	}
	for _, fields := range []int{0, 5} { // fewer than there are
		c := c
		c.CovarianceFields = fields
		less, err := Restore(c, blocks)
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			less.Learn(s.next())
		}
		if n := len(less.filling.columns); n != fields {
			t.Errorf("%d columns, want %d", n, fields)
		}
		if fields == 0 && (less.missing.model.Fill() || less.filling.covariance != nil) {
			t.Errorf("nothing can be filled in, and the rules are %v", less.missing.model)
		}
	}
	at := slices.IndexFunc(blocks, func(b blankout.Block) bool { return b.Name == blockFill })
	for cut := 0; cut < len(blocks[at].Data); cut += 7 {
		damaged := slices.Clone(blocks)
		damaged[at].Data = blocks[at].Data[:cut]
		if _, err := Restore(c, damaged); err == nil || !strings.Contains(err.Error(), "block gathered") {
			t.Fatalf("%d of %d bytes: %v", cut, len(blocks[at].Data), err)
		}
	}
}

// FuzzFillState reads blocks; what is taken is written again as it was.
func FuzzFillState(f *testing.F) {
	l := filling{columns: []uint32{1, 4}, fields: []uint16{1, 2}, weight: 2, unit: 1, growth: 1, mean: []float64{0, 1}, squares: []float64{1, 0, .5, 2}}
	w := coder.Coder{}
	l.state(&w)
	f.Add(w.Out)
	f.Fuzz(func(t *testing.T, data []byte) {
		var f filling
		r := coder.Read(data)
		if f.state(r); !r.Done() {
			return
		}
		var w coder.Coder
		if f.state(&w); !bytes.Equal(w.Out, data) && !w.Failed {
			t.Errorf("read %x, written %x", data, w.Out)
		}
	})
}

// What cannot be filled in is refused by the name of its key, several learners among it.
func TestFillRefused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"covariance_fields = -1: must lie in 0 to 1024":   func(c *Config) { c.CovarianceFields = -1 },
		"covariance_fields = 1025: must lie in 0 to 1024": func(c *Config) { c.CovarianceFields = 1025 },
		"missing \"fill\": filling in needs":              func(c *Config) { c.Missing, c.CovarianceFields = "fill", 0 },
		"filling in needs covariance_fields":              func(c *Config) { c.Missing, c.Standardise = "fill", "none" },
	} {
		c := DefaultConfig()
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), want) {
			t.Errorf("%v, want %s", c.Check(), want)
		}
	}
	c := DefaultConfig()
	c.Missing = "fill"
	if err := c.CheckShared(); err == nil || !strings.Contains(err.Error(), "do not gather a covariance") {
		t.Error(err)
	}
	l := lackingLearner(t, c)
	if l.missing.model.Rules[0] != model.OneRule(model.MissingFill) {
		t.Error(l.missing.model)
	}
	c.Missing = "auto"
	l = lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.4}
	for range 3000 {
		l.Learn(s.next())
	}
	if !l.missing.model.Fill() {
		t.Fatal(l.missing.model)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if l, err = Restore(c.Shared(), blocks); err != nil { // as the base of a group
		t.Fatal(err)
	}
	for range 300 {
		l.Learn(s.next())
	}
	if l.missing.model.Fill() || len(l.filling.columns) > 0 {
		t.Errorf("%v, %d columns", l.missing.model, len(l.filling.columns))
	}
}
