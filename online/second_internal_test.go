package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/synthetic"
)

func tidesLearner(t testing.TB, s *synthetic.Tides, change func(*Config)) *Learner {
	t.Helper()
	c := DefaultConfig()
	if s.Classes == 0 {
		c.Loss = "squared"
	}
	if change != nil {
		change(&c)
	}
	l, err := New(c, s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What an event is told while learning is what the published model answers, before a restart and
// after, with nulls, of two classes, of several and of numbers: the expert's weights, its hats
// and its coefficient are all in the file.
func TestSecondIsPublished(t *testing.T) {
	longtest.NotRaced(t)
	for i, classes := range []int{2, 3, 0} {
		for j, null := range []float64{0, 0.1} {
			if !longtest.Some(i+j+1, 2) {
				continue
			}
			s := synthetic.NewTides(1, classes, null)
			l := tidesLearner(t, s, func(c *Config) {
				if null > 0 && classes > 0 {
					c.Noise = "dropout:0.1+group:0.2"
				}
			})
			other, told := l, make([]float64, l.outputs())
			for n := range 2600 {
				e := s.Next()
				if n%29 == 0 || n > 2500 {
					m := l.Snapshot().Model()
					for _, m := range []model.Model{m, m.Compact()} {
						m.Score(e, told)
						was := slices.Clone(told)
						if told = scoresOf(l, e); !alike(was, told) {
							t.Fatalf("%d classes, event %d: %v, published %v", classes, n, told, was)
						}
					}
				}
				if n == 1700 {
					blocks, err := l.Snapshot().Blocks()
					if err != nil {
						t.Fatal(err)
					}
					if other, err = Restore(l.Config(), blocks); err != nil {
						t.Fatal(err)
					}
				}
				told = scoresOf(l, e)
				got := l.Learn(e, nil).Scores
				if n > 20 && !alike(got, told) { // among the first a class comes with an event
					t.Fatalf("%d classes, event %d: it is told %v, the model says %v", classes, n, got, told)
				}
				if n >= 1700 && !slices.Equal(slices.Clone(got), other.Learn(e, nil).Scores) {
					t.Fatalf("%d classes, event %d: another score after a restart", classes, n)
				}
			}
			if !bytes.Equal(stateOf(t, l), stateOf(t, other)) {
				t.Errorf("%d classes: another state after a restart", classes)
			}
			clone, err := l.Clone()
			if err != nil && classes > 0 { // not of numbers
				t.Fatal(err)
			}
			for n := range 100 {
				e := s.Next()
				if got := slices.Clone(l.Learn(e, nil).Scores); null == 0 && classes > 0 && !slices.Equal(got, clone.Learn(e, nil).Scores) { // a copy fills nothing in
					t.Fatalf("%d classes: after %d events a copy has another score", classes, n)
				}
			}
			share, second := 0.0, 0.0
			experts := l.Report().Experts
			for i, e := range experts {
				if e.Corrects {
					second += e.Share
				} else {
					share += e.Share
				}
				if e.Corrects != (i >= len(l.levels)) {
					t.Errorf("%d classes: %s corrects: %v", classes, e.Name, e.Corrects)
				}
			}
			if math.Abs(share-1) > 1e-12 || experts[len(l.levels)].Name != "second order" || second < 0.1 {
				t.Errorf("%d classes: the experts are %+v", classes, experts)
			}
			if c := l.Snapshot().Model().Scaler.Curves; c == nil || len(c.Columns) != 3 || l.Snapshot().Model().Weight(c.Hat(2, 0), 0) == 0 {
				t.Errorf("%d classes: the curves are %+v", classes, c)
			}
		}
	}
}

func alike(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9*max(1, math.Abs(a[i])) {
			return false
		}
	}
	return len(a) == len(b)
}

// A learner that has begun without an expert goes on without, to the bit; and the levels of one that has
// one go on alone, as they would have.
func TestSecondAndOlderRules(t *testing.T) {
	s := synthetic.NewTides(3, 2, 0.05)
	levels := tidesLearner(t, s, func(c *Config) { c.Optimizer = "adagrad" })
	both := tidesLearner(t, s, nil)
	for range 1500 {
		e := s.Next()
		levels.Learn(e, nil)
		both.Learn(e, nil)
	}
	restore := func(l *Learner, rule string) *Learner {
		blocks, err := l.Snapshot().Blocks()
		if err != nil {
			t.Fatal(err)
		}
		c := l.Config()
		c.Optimizer = rule
		other, err := Restore(c, blocks)
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	older, alone := restore(levels, "auto"), restore(both, "adagrad")
	if older.Config().Optimizer != "adagrad" || older.second.on() || alone.Config().Optimizer != "adagrad" || alone.second.on() || alone.table.Width() != levels.table.Width() {
		t.Fatalf("they go on under %q and %q", older.Config().Optimizer, alone.Config().Optimizer)
	}
	again := restore(alone, "auto")
	for n := range 500 {
		e := s.Next()
		if a, b := slices.Clone(levels.Learn(e, nil).Scores), older.Learn(e, nil).Scores; !slices.Equal(a, b) {
			t.Fatalf("event %d: %v, from its checkpoint under auto %v", n, a, b)
		}
		if a, b := slices.Clone(alone.Learn(e, nil).Scores), again.Learn(e, nil).Scores; !slices.Equal(a, b) {
			t.Fatalf("event %d: %v, after a restart %v", n, a, b)
		}
	}
	for column := range uint32(3) { // the levels have learned alike all along
		if a, b := levels.weights(levels.table.Row(column)), alone.weights(alone.table.Row(column)); !slices.Equal(a, b) {
			t.Errorf("column %d: weights %v, want %v", column, b, a)
		}
	}
	c := both.Config()
	c.Optimizer = "sgd"
	blocks, err := both.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(c, blocks); err == nil || !strings.Contains(err.Error(), "optimizer") {
		t.Errorf("another optimizer: %v", err)
	}
}

// The expert is left out where it does not fit: by the settings, and where there come to be too many
// numbers. Everything is then as under the rule adagrad.
func TestSecondLeftOut(t *testing.T) {
	longtest.NotRaced(t)
	for name, change := range map[string]func(*Config){
		"observed": func(c *Config) { c.Noise = "observed" },
		"gaussian": func(c *Config) { c.Noise = "gaussian:0.3" },
		"scale":    func(c *Config) { c.Standardize = "scale" },
		"loss":     func(c *Config) { c.Loss = "t-logistic:1.5" },
		"shared":   func(c *Config) { *c = c.Shared() },
	} {
		s := synthetic.NewTides(4, 2, 0)
		auto, plain := tidesLearner(t, s, change), tidesLearner(t, s, func(c *Config) { change(c); c.Optimizer = "adagrad" })
		for range 300 {
			e := s.Next()
			if a, b := slices.Clone(auto.Learn(e, nil).Scores), plain.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatalf("%s: %v, under adagrad %v", name, a, b)
			}
		}
		if auto.second.expert != nil || auto.table.Width() != plain.table.Width() {
			t.Errorf("%s: there is an expert", name)
		}
	}
	schema := event.NewSchema(15, []string{"no", "yes"}, 2)
	for i := range 20_001 {
		schema.AddField(event.Field{Name: strconv.Itoa(i), Kind: event.Numeric})
	}
	r := rand.New(rand.NewPCG(1, 2))
	learners := map[string]*Learner{}
	for _, rule := range []string{"auto", "adagrad"} {
		c := DefaultConfig()
		c.Optimizer, c.CovarianceMaxFields = rule, 0
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		learners[rule] = l
	}
	for n := range 16 {
		e := &event.Example{Weight: 1, Label: r.IntN(2)}
		for i := range uint32(1250 * (n + 1)) {
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, i), append(e.Features.Value, r.NormFloat64()+float64(e.Label)), append(e.Field, uint16(i+1))
		}
		if n == 15 {
			for i := uint32(20_000); i < 20_001; i++ {
				e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, i), append(e.Features.Value, 1), append(e.Field, uint16(i+1))
			}
		}
		a := slices.Clone(learners["auto"].Learn(e, nil).Scores)
		b := learners["adagrad"].Learn(e, nil).Scores
		if n == 14 && slices.Equal(a, b) {
			t.Error("there is no expert")
		}
		if n == 15 && !alike(a, b) {
			t.Errorf("with 20,001 numbers: %v, under adagrad %v", a, b)
		}
	}
	l := learners["auto"]
	if l.Learn(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{0}, Value: []float64{1}}, Field: []uint16{1}}, nil); l.scaling.Read.Hats {
		t.Error("hats are made for nobody")
	}
	if l.second.on() || len(l.Report().Experts) != len(l.levels) {
		t.Error("there is an expert still")
	}
	for slot := range l.table.Len() {
		if _, row := l.table.Column(slot); l.own(row)[0] != 0 {
			t.Fatal("rows hold weights of its")
		}
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Restore(l.Config(), blocks); err != nil || other.second.on() {
		t.Errorf("after a restart: %v", err)
	}
}

// An alarm of drift makes the second-order expert forget where the levels do. Of numbers it is alone.
func TestSecondForgets(t *testing.T) {
	// How much the weights move at the next event tells how much is known.
	moves := func(alarm bool) (most float64) {
		s := synthetic.NewTides(5, 0, 0)
		l := tidesLearner(t, s, func(c *Config) { c.OnDrift = "forget" })
		for range 1500 {
			l.Learn(s.Next(), nil)
		}
		if alarm {
			l.drifted()
		}
		was := slices.Clone(l.second.expert.Weights(0))
		e := s.Next()
		e.Target += 20
		l.Learn(e, nil)
		for i, w := range l.second.expert.Weights(0) {
			most = max(most, math.Abs(w-was[i]))
		}
		return most
	}
	if a, b := moves(false), moves(true); !(b > 1.3*a) {
		t.Errorf("a weight moves by %v, after an alarm by %v", a, b)
	}
}

// A number that is often left out has the hat of its presence, which the levels learn, and no others.
func TestSecondLeavesPresence(t *testing.T) {
	a := newAbsences(1)
	l, err := New(DefaultConfig(), a.schema)
	if err != nil {
		t.Fatal(err)
	}
	for range 1200 {
		l.Learn(a.next(), nil)
	}
	c := l.scaling.Scaler.Curves
	if i := c.Of(20); i < 0 || !slices.Equal(c.Knots[i], model.Present()) || len(c.Columns) < 2 {
		t.Fatalf("the curves are %+v", c)
	}
	for i, column := range c.Columns {
		learned := false
		if row := l.table.Row(c.Hat(i, 0)); row != nil {
			learned = slices.ContainsFunc(l.weights(row), func(w float64) bool { return w != 0 })
		}
		if learned != (column == 20) {
			t.Errorf("the levels have learned a hat of column %d: %v", column, learned)
		}
	}
}

// The unit that targets are measured in moves, and no answer with it.
func TestSecondFollowsTheUnit(t *testing.T) {
	s := synthetic.NewTides(6, 0, 0)
	l := tidesLearner(t, s, nil)
	for range 3000 {
		l.Learn(s.Next(), nil)
	}
	e := s.Next()
	answer := func() float64 { return l.modelOf(l.mixed(0)).Score(e, make([]float64, 1))[0] }
	if l.second.share(&l.shares.InForce[0]) < 0.5 {
		t.Fatalf("the expert's share is %v", l.second.share(&l.shares.InForce[0]))
	}
	before, next := answer(), l.unit
	next.Center, next.Scale = next.Center+30, 2.5*next.Scale
	l.rescaleSecond(l.moveTo(next))
	if after := answer(); math.Abs(after-before) > 1e-9*math.Abs(before) {
		t.Errorf("the answer was %v, and is %v", before, after)
	}
}

// Many classes of readings around a mean of each are the levels' alone: the panel rests once it has had no part in answers for
// long. It answers again where classes become others.
func TestSecondRestsWithoutWeight(t *testing.T) {
	longtest.NotRaced(t)
	const columns, classes = 40, 10
	names := make([]string, classes)
	for k := range names {
		names[k] = strconv.Itoa(k)
	}
	schema := event.NewSchema(columns, names, classes)
	for i := range columns {
		schema.AddField(event.Field{Name: strconv.Itoa(i), Kind: event.Numeric})
	}
	c := DefaultConfig()
	c.OnDrift = "log" // an alarm would wake the panel by itself
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	var means [classes][columns]float64
	for k := range means {
		for i := range means[k] {
			means[k][i] = r.NormFloat64()
		}
	}
	learn := func(spread bool) {
		e := &event.Example{Weight: 1, Label: r.IntN(classes)}
		mean := &means[e.Label]
		if r.IntN(4) == 0 {
			e.Label = r.IntN(classes)
		}
		for i := range uint32(columns) {
			x := 0.6*mean[i] + r.NormFloat64()
			if spread {
				x = math.Abs(mean[i]) * r.NormFloat64()
			}
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, i), append(e.Features.Value, x), append(e.Field, uint16(i+1))
		}
		l.Learn(e, nil)
	}
	for n := 0; !l.second.gain.Resting(); n++ {
		if learn(false); n == 8000 {
			t.Fatalf("it does not rest: %+v, weights %v", l.second.gain, l.shares.InForce)
		}
	}
	for n := 0; l.second.gain.Resting(); n++ {
		if learn(true); n == 16_000 {
			t.Fatalf("it does not wake: %+v, weights %v", l.second.gain, l.shares.InForce)
		}
	}
}

// Where the panel gains nothing it rests: answers are those of the levels, it is asked at every sixteenth
// event, and what it is resting from survives a restart. When it would gain, it answers again.
func TestSecondRests(t *testing.T) {
	longtest.NotRaced(t)
	for _, of := range []struct{ null, silent float64 }{{0, 0}, {0.4, 0}, {0, 0.3}} {
		s := synthetic.NewTides(9, 2, of.null)
		l := tidesLearner(t, s, nil)
		straight := func() *event.Example {
			e := s.Next()
			f := 0.0
			for i, x := range e.Features.Value[:len(e.Features.Value)-1] {
				f += []float64{1, 0.5, 0.1}[e.Field[i]-1] * x * (1 - of.null/0.4)
			}
			if e.Label = 0; s.R.Float64() < 1/(1+math.Exp(1-f)) {
				e.Label = 1
			}
			if s.R.Float64() < of.silent && e.Field[0] == 1 {
				e.Features.Index, e.Features.Value, e.Field = e.Features.Index[1:], e.Features.Value[1:], e.Field[1:]
			}
			return e
		}
		for n := 0; !l.second.gain.Resting(); n++ {
			if l.Learn(straight(), nil); n > 40_000 {
				t.Fatalf("%v: it does not rest: %+v", of, l.second.gain)
			}
		}
		var restored *Learner
		away := 0
		for n := range 400 {
			e := straight()
			want, judged := scoresOf(l, e)[0], l.second.gain
			answered := l.Learn(e, nil).Scores[0]
			if math.Abs(answered-want) > 1e-9*(1+math.Abs(want)) {
				t.Fatalf("%v: event %d is answered %v, by the model %v", of, n, answered, want)
			}
			if l.second.away {
				if away++; l.second.gain != judged || l.now.published[l.n] != 0 {
					t.Fatalf("%v: event %d is left out, and judged %+v", of, n, l.second.gain)
				}
			}
			if n == 5 {
				if !l.second.away {
					t.Fatal("this tests nothing")
				}
				blocks, err := l.Snapshot().Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if restored, err = Restore(l.config, blocks); err != nil {
					t.Fatal(err)
				}
				restored.second.last[0] = 1e17 // room, of which nothing counts
			} else if restored != nil {
				if got := restored.Learn(e, nil).Scores[0]; got != answered {
					t.Fatalf("%v: event %d is answered %v, after a restart %v", of, n, answered, got)
				}
			}
		}
		if l.second.gain != restored.second.gain {
			t.Errorf("%v: gain %+v, after a restart %+v", of, l.second.gain, restored.second.gain)
		}
		if away != 400*15/16 {
			t.Errorf("%v: of 400 events it left %d out", of, away)
		}
		for _, x := range l.Report().Experts {
			if (x.Name == "second order" || x.Name == "curves") && x.Share != 0 {
				t.Errorf("%v: it rests, and there are the experts %v", of, l.Report().Experts)
			}
		}
		if of.silent > 0 != slices.ContainsFunc(l.scaling.Scaler.Curves.Knots, func(knots []float64) bool { return len(knots) == 1 }) {
			t.Errorf("%v: the curves have the knots %v", of, l.scaling.Scaler.Curves.Knots)
		}
		restored.adoptSecond(func(uint32, int, int) float64 { return 1 })
		if share := restored.second.share(&restored.shares.InForce[0]); share != 1 {
			t.Errorf("%v: beside levels that have been placed it has a share of %v", of, share)
		}
		for range 16_000 {
			l.Learn(s.Next(), nil)
		}
		if share := l.second.share(&l.shares.InForce[0]); share < 0.5 {
			t.Errorf("%v: where curves gain much it has a share of %v: %+v", of, share, l.second.gain)
		}
	}
}
