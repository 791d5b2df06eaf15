package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
)

// alikeStream makes events of two classes with numbers that read the same few things, in
// units of their own; null deletes fields, each by itself.
type alikeStream struct {
	r      *rand.Rand
	fields int
	null   float64
	e      event.Example
}

func (s *alikeStream) next() *event.Example {
	e := &s.e
	*e = event.Example{Weight: 1, Label: s.r.IntN(2), Field: []uint16{}}
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

// The covariance gathered is that of the standardized values, in the units in force at the
// end, whatever they were when a value came.
func TestGatheredCovariance(t *testing.T) {
	longtest.NotRaced(t)
	for _, null := range []float64{0, 0.3} {
		l := lackingLearner(t, fillConfig())
		s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: null}
		for range 12_000 {
			l.Learn(s.next(), nil)
		}
		c := l.filling.Covariance
		if c == nil || len(c.Columns) != 10 || l.filling.Gathered < 2900 {
			t.Fatalf("%+v after %d events", c, l.filling.Gathered)
		}
		// Slowly: of complete events of the same kind, as the model standardizes them.
		m, n := l.modelOf(l.mixed(0)), 20_000
		s = &alikeStream{r: rand.New(rand.NewPCG(3, 4)), fields: 10}
		var mean [10]float64
		var matrix [10][10]float64
		for range n {
			x := m.Standardized(s.next(), event.Vec{}).Value[:10] // hats come behind
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

// With a half-life the covariance is that of the last events; without one it remembers both
// ways in which two numbers have gone together.
func TestCovarianceFollowsTheHalfLife(t *testing.T) {
	longtest.NotRaced(t)
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
			l.Learn(&event.Example{Weight: 1, Label: r.IntN(2), Field: []uint16{1, 2},
				Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{a, sign*a + 0.3*r.NormFloat64()}}}, nil)
		}
		if x := l.filling.Covariance.Matrix[1]; halfLife > 0 && x > -0.5 || halfLife == 0 && math.Abs(x) > 0.4 {
			t.Errorf("half-life %v: the covariance is %v", halfLife, x)
		}
	}
}

// An event that lacks many columns is gathered less often than one that lacks none.
func TestLackingIsGatheredLessOften(t *testing.T) {
	longtest.NotRaced(t)
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 100 {
		schema.AddField(event.Field{Name: string([]byte{byte('a' + i/10), byte('a' + i%10)}), Kind: event.Numeric})
	}
	l, err := New(fillConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 100, null: 0.9}
	for range 4000 {
		l.Learn(s.next(), nil)
	}
	if g := l.filling.Gathered; g < 300 || g > 400 { // every twelfth of those that lack 89 columns or more
		t.Errorf("%d of 4,000 events that hold 10 of 100 columns were gathered", g)
	}
}

// Where fields read the same things and are often null filling in proves better, and what
// the Learner scores is what its model answers; a restart changes nothing.
func TestFillIsMeasured(t *testing.T) {
	longtest.NotRaced(t)
	c := fillConfig()
	reference, other := lackingLearner(t, c), lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.5}
	var served float64
	var plain [2]float64
	filled := 0
	for i := range 6000 {
		e := s.next()
		if i == 3000 {
			blocks, err := other.Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			if other, err = Restore(c, blocks); err != nil {
				t.Fatal(err)
			}
		}
		told := scoresOf(reference, e)
		if i >= 2000 {
			served += reference.decision().LogLoss(told, e.Label)
			m := reference.modelOf(reference.mixed(0))
			for j, rule := range []model.MissingPolicy{model.MissingNone, model.MissingRescale} {
				plain[j] += reference.decision().LogLoss(m.WithMissing(m.Missing.Forced(rule)).Score(e, make([]float64, 1)), e.Label)
			}
			if m.Answer(e).Policy() == model.MissingImpute {
				filled++
			}
		}
		a, b := slices.Clone(reference.Learn(e, nil).Scores), other.Learn(e, nil).Scores
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
	if a, b := scoresOf(reference, e), reference.Snapshot().Model().Score(e, make([]float64, 1)); math.Abs(a[0]-b[0]) > 1e-12 {
		t.Errorf("the published model scores %v, the learner %v", b, a)
	}
}

// Masks that are drawn show it where nothing is ever missing, with more classes too and
// where the forecast is by masks; the scores of complete events are, to the bit, those of a
// learner that gathers nothing.
func TestCompleteStreamsLearnTheSame(t *testing.T) {
	longtest.NotRaced(t)
	for _, noise := range []string{"none", "auto"} {
		c := DefaultConfig()
		c.Noise = noise
		gathers := lackingLearner(t, c)
		c.CovarianceMaxFields = 0
		plain := lackingLearner(t, c)
		s := &alikeStream{r: rand.New(rand.NewPCG(9, 2)), fields: 10}
		for i := range 8000 {
			e := s.next()
			if a, b := gathers.Learn(e, nil).Scores, plain.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatalf("%s, event %d: %v, want %v", noise, i, a, b)
			}
		}
		if m := gathers.fields.Missing; !m.Fill() || plain.fields.Missing.Fill() {
			t.Errorf("%s: the rules are %v, without a covariance %v", noise, m.Policies, plain.fields.Missing.Policies)
		}
		if noise != "none" {
			continue
		}
		// What is forecast is what is served.
		wrong, n, point := 0.0, 4000.0, 5
		s = &alikeStream{r: rand.New(rand.NewPCG(10, 2)), fields: 10, null: ForecastMissing(point)}
		for range int(n) {
			e := s.next()
			if class := model.Predict(scoresOf(gathers, e)); class != e.Label {
				wrong++
			}
		}
		if got := gathers.shares.Features.Error.At(point); math.Abs(got-wrong/n) > 0.03 {
			t.Errorf("%v of the answers are wrong, forecast %v", wrong/n, got)
		}
	}
}

// A state of before anything was gathered goes on; what does not fit its format is refused.
func TestFillState(t *testing.T) {
	longtest.NotRaced(t)
	c := fillConfig()
	l := lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.2}
	for range 2000 {
		l.Learn(s.next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	older := slices.DeleteFunc(slices.Clone(blocks), func(b event.Block) bool { return b.Name == blockFill || b.Name == "covariance" })
	if len(older) != len(blocks)-2 {
		t.Fatalf("%d of %d blocks", len(older), len(blocks))
	}
	from, err := Restore(c, older)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		from.Learn(s.next(), nil)
	}
	if from.filling.Covariance == nil {
		t.Error("nothing is gathered")
	}
	for _, fields := range []int{0, 5} { // fewer than there are
		c := c
		c.CovarianceMaxFields = fields
		less, err := Restore(c, blocks)
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			less.Learn(s.next(), nil)
		}
		if n := len(less.filling.Columns); n != fields {
			t.Errorf("%d columns, want %d", n, fields)
		}
		if fields == 0 && (less.fields.Missing.Fill() || less.filling.Covariance != nil) {
			t.Errorf("nothing can be filled in, and the rules are %v", less.fields.Missing)
		}
	}
	at := slices.IndexFunc(blocks, func(b event.Block) bool { return b.Name == blockFill })
	for cut := 0; cut < len(blocks[at].Data); cut += 7 {
		damaged := slices.Clone(blocks)
		damaged[at].Data = blocks[at].Data[:cut]
		if _, err := Restore(c, damaged); err == nil || !strings.Contains(err.Error(), "block gathered") {
			t.Fatalf("%d of %d bytes: %v", cut, len(blocks[at].Data), err)
		}
	}
}

// What cannot be filled in is refused by the name of its key, several learners among it.
func TestFillRefused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"covariance_max_fields = -1: must lie in 0 to 1024":   func(c *Config) { c.CovarianceMaxFields = -1 },
		"covariance_max_fields = 1025: must lie in 0 to 1024": func(c *Config) { c.CovarianceMaxFields = 1025 },
		"missing_policy \"impute\": filling in needs":         func(c *Config) { c.MissingPolicy, c.CovarianceMaxFields = "impute", 0 },
		"filling in needs covariance_max_fields":              func(c *Config) { c.MissingPolicy, c.Standardize = "impute", "none" },
	} {
		c := DefaultConfig()
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), want) {
			t.Errorf("%v, want %s", c.Check(), want)
		}
	}
	c := DefaultConfig()
	c.MissingPolicy = "impute"
	if err := c.CheckShared(); err == nil || !strings.Contains(err.Error(), "do not gather a covariance") {
		t.Error(err)
	}
	l := lackingLearner(t, c)
	if l.fields.Missing.Policies[0] != model.OnePolicy(model.MissingImpute) {
		t.Error(l.fields.Missing)
	}
	c.MissingPolicy = "auto"
	l = lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.4}
	for range 3000 {
		l.Learn(s.next(), nil)
	}
	if !l.fields.Missing.Fill() {
		t.Fatal(l.fields.Missing)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if l, err = Restore(c.Shared(), blocks); err != nil { // as the base of a group
		t.Fatal(err)
	}
	for range 300 {
		l.Learn(s.next(), nil)
	}
	if l.fields.Missing.Fill() || len(l.filling.Columns) > 0 {
		t.Errorf("%v, %d columns", l.fields.Missing, len(l.filling.Columns))
	}
}
