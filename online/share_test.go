package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
)

// stream makes events of numbers, words and one-hot columns, some of which appear late.
func shareStream(n int, seed uint64) (*blankout.Schema, []blankout.Example) {
	s := blankout.NewSchema(18, []string{"no", "yes"}, 2)
	s.Fields = append(s.Fields, blankout.Field{Name: "x", Kind: blankout.Numeric}, blankout.Field{Name: "words", Kind: blankout.Words}, blankout.Field{Name: "y", Kind: blankout.Numeric})
	r := rand.New(rand.NewPCG(seed, 1))
	weight := make([]float64, 3000)
	for i := range weight {
		weight[i] = r.NormFloat64()
	}
	events := make([]blankout.Example, n)
	for i := range events {
		e := &events[i]
		e.Weight, e.Offset, e.Fingerprint = 1, int64(i), r.Uint64()
		x, f := 20+3*r.NormFloat64(), 0.0
		e.Features.Index, e.Features.Value, e.Field = []uint32{1}, []float64{x}, []uint16{1}
		f += (x - 20) / 3
		if i > n/2 { // a column that begins late
			y := -5 + r.NormFloat64()
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, 2), append(e.Features.Value, y), append(e.Field, 3)
			f += y + 5
		}
		column := uint32(10)
		for range 8 {
			column += 1 + uint32(r.ExpFloat64()*r.ExpFloat64()*100)
			if int(column) >= len(weight) {
				break
			}
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, 1), append(e.Field, 2)
			f += weight[column]
		}
		if r.NormFloat64()+f > 0 {
			e.Label = 1
		}
	}
	return s, events
}

func shareLearner(t testing.TB, s *blankout.Schema, change func(*Config)) *Learner {
	t.Helper()
	c := DefaultConfig()
	c.CovarianceFields, c.PublishLevels = 0, false // as in Config.Shared
	if change != nil {
		change(&c)
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func sameState(t *testing.T, want, got *Learner) {
	t.Helper()
	a, err := want.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != len(b) {
		t.Fatalf("%d blocks, want %d", len(b), len(a))
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
			t.Errorf("block %s differs: %d bytes, want %d", b[i].Name, len(b[i].Data), len(a[i].Data))
		}
	}
}

// One learner that hands on what it has learned after every interval comes to the state,
// to the bit, of one that learns alone.
func TestShareAlone(t *testing.T) {
	for _, noise := range []string{"auto", "dropout:0.3", "none"} {
		t.Run(noise, func(t *testing.T) {
			set := func(c *Config) {
				if c.Noise = noise; noise == "none" {
					c.Curves = 8
				}
			}
			s, events := shareStream(5000, 1)
			alone, fold := shareLearner(t, s, set), shareLearner(t, s, set)
			work, err := fold.Clone()
			if err != nil {
				t.Fatal(err)
			}
			if err := work.Share(1, 300); err != nil {
				t.Fatal(err)
			}
			for i := range events {
				alone.Learn(&events[i])
				work.Learn(&events[i])
				if i%300 == 299 || i == len(events)-1 {
					d := work.Cut(32)
					if err := fold.Check(d); err != nil {
						t.Fatal(err)
					}
					fold.Add(d)
					if i < 600 { // goes on as it is, or as the fold is: the same
						err = work.Share(1, 300)
					} else {
						err = work.Follow(fold, d.Columns, 1, 300)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			sameState(t, alone, fold)
		})
	}
}

// rounds has n learners learn the events in rounds, each its part, and returns the fold.
func rounds(t testing.TB, fold *Learner, events []blankout.Example, warm, n, interval, precision int) {
	for i := range events[:warm] {
		fold.Learn(&events[i])
	}
	peers := make([]*Learner, n)
	for i := range peers {
		var err error
		if peers[i], err = fold.Clone(); err != nil {
			t.Fatal(err)
		}
		if err := peers[i].Share(n, uint64(interval)); err != nil {
			t.Fatal(err)
		}
	}
	for rest := events[warm:]; len(rest) > 0; {
		var deltas []*Delta
		var columns []uint32
		for _, p := range peers {
			k := min(interval, len(rest))
			for i := range rest[:k] {
				p.Learn(&rest[i])
			}
			rest = rest[k:]
			deltas = append(deltas, p.Cut(precision))
		}
		for _, d := range deltas {
			if err := fold.Check(d); err != nil {
				t.Fatal(err)
			}
			fold.Add(d)
			columns = append(columns, d.Columns...)
		}
		for _, p := range peers {
			if err := p.Follow(fold, columns, n, uint64(interval)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Changes that were made under another centre and scale change every score as they did there.
func TestShareConvert(t *testing.T) {
	s, events := shareStream(500, 3)
	l := shareLearner(t, s, func(c *Config) { c.Noise, c.Average = "none", 0 })
	for i := range events {
		l.Learn(&events[i])
	}
	score := func(x float64) float64 {
		e := &blankout.Example{Features: blankout.Vec{Index: []uint32{1}, Value: []float64{x}}, Field: []uint16{1}}
		return l.Score(e, make([]float64, 1))[0]
	}
	at := []float64{15, 20, 23}
	var before []float64
	for _, x := range at {
		before = append(before, score(x))
	}
	const centre, scale, u = 18.0, 5.0, 0.3
	v := make([]float64, sharedParts+2)
	v[sharedFlags], v[sharedCentre], v[sharedInverse], v[sharedParts] = hasForce|hasMoments, centre, 1/scale, u
	v[sharedCount], v[sharedMean] = 0, 20
	l.addRow(1, v)
	for i, x := range at {
		if want, got := u*(x-centre)/scale, score(x)-before[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("the score at %v changed by %v, want %v", x, got, want)
		}
	}
	// A column without a scale, or with a transform, has no slope to add to.
	v[sharedInverse] = 0
	was := score(20)
	l.addRow(1, v)
	if got := score(20); got != was {
		t.Errorf("the score changed by %v", got-was)
	}
}

// The moments of readings and the counts come to what they would be if one had met them all.
func TestShareMoments(t *testing.T) {
	s, events := shareStream(6000, 4)
	for _, precision := range []int{32, 64} {
		alone, fold := shareLearner(t, s, nil), shareLearner(t, s, nil)
		for i := range events {
			alone.Learn(&events[i])
		}
		rounds(t, fold, events, 1000, 4, 100, precision)
		for slot := range alone.table.Len() {
			column, want := alone.table.Column(slot)
			got := fold.table.Row(column)
			if got == nil || got[blankout.StatCount] != want[blankout.StatCount] {
				t.Fatalf("column %d: %v, want %v", column, got, want[:5])
			}
			if column > 2 {
				continue
			}
			for _, i := range []int{blankout.StatMean, blankout.StatSquares} {
				if math.Abs(got[i]-want[i]) > 1e-9*math.Abs(want[i]) {
					t.Errorf("column %d: statistic %d is %v, want %v", column, i, got[i], want[i])
				}
			}
		}
		a, b := alone.Metrics(), fold.Metrics()
		if alone.steps != fold.steps || a.Events != b.Events || a.Total.Weight != b.Total.Weight || a.Classes[0] != b.Classes[0] || a.Classes[1] != b.Classes[1] {
			t.Errorf("%+v, want %+v", b.Total, a.Total)
		}
		if c, d := a.Binary.Confusion, b.Binary.Confusion; c[0][0]+c[0][1] != d[0][0]+d[0][1] || c[1][0]+c[1][1] != d[1][0]+d[1][1] {
			t.Errorf("confusion %v, want the row sums of %v", d, c)
		}
	}
}

// A step counts c times: by so much AdaGrad's sums gain, and weights move; c is as sharing
// says, computed here the slow way.
func TestShareStep(t *testing.T) {
	s, events := shareStream(4000, 6)
	for _, noise := range []string{"none", "auto"} {
		l := shareLearner(t, s, func(c *Config) { c.Noise = noise })
		for i := range events[:3000] {
			l.Learn(&events[i])
		}
		const peers, own = 6, 40
		began, err := l.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Share(peers, own); err != nil {
			t.Fatal(err)
		}
		unlike := 0
		for i := range events[3000:] {
			e := &events[3000+i]
			var before [][]float64
			var fresh []bool // not met in the interval before
			for _, column := range e.Features.Index {
				row := l.table.Row(column)
				if row == nil {
					row = make([]float64, l.table.Width())
				}
				before = append(before, append([]float64(nil), row...))
				fresh = append(fresh, !slices.Contains(l.share.columns, column))
			}
			l.Learn(e)
			rates := make([]float64, l.n)
			for k, column := range e.Features.Index {
				if !fresh[k] {
					continue
				}
				was, row := before[k], l.table.Row(column)
				a := 0.0
				for _, g := range l.layout.preconditioner(was) {
					a += 2 * l.set.eta * (math.Sqrt(l.config.Start+g*(1+own/3000.0)) - math.Sqrt(l.config.Start+g))
				}
				a /= float64(l.n)
				c := 1 + (peers-1)*math.Min(1, own*was[blankout.StatCount]/3000)/(1+0.3*float64(len(before))*a)
				if c > 1.5 {
					unlike++
				}
				for j := range l.n {
					dw := math.Abs(l.weights(row)[j] - l.weights(was)[j])
					g := l.layout.preconditioner(row)[j]
					dg := g - l.layout.preconditioner(was)[j]
					if dg < 1e-9*g || dg < 1e-12 {
						continue
					}
					// |dw| = rate c |gradient| / sqrt(start + G), and dg = c gradient^2.
					rate := dw * math.Sqrt(l.config.Start+g) / math.Sqrt(c*dg)
					if rates[j] == 0 {
						rates[j] = rate
					} else if math.Abs(rate-rates[j]) > 1e-4*rates[j] {
						t.Fatalf("%s, event %d, column %d, level %d: its rate is %v, that of another %v, c = %v", noise, i, column, j, rate, rates[j], c)
					}
				}
			}
		}
		if unlike < 100 {
			t.Errorf("%s: only %d rows counted more than once", noise, unlike)
		}
		// What is handed on is alpha of the change, as sharing says.
		d := l.Cut(64)
		for i, column := range d.Columns {
			row, was, v := l.table.Row(column), began.table.Row(column), d.Values[i*d.Width:][:d.Width]
			if was == nil {
				was = make([]float64, l.table.Width())
			}
			k := row[blankout.StatCount] - was[blankout.StatCount]
			alpha := k / (k + (peers-1)*own*was[blankout.StatCount]/3000)
			for j, u := range v[sharedParts : sharedParts+l.n] {
				if want := alpha * (l.weights(row)[j] - l.weights(was)[j]); v[sharedCount] != k || math.Abs(u-want) > 1e-12 {
					t.Fatalf("%s, column %d: u = %v of %v events, want %v of %v", noise, column, u, v[sharedCount], want, k)
				}
			}
		}
	}
}

// A class that is met late, by one of several, is known to the model, and what is not met
// yet when sharing begins is none of the model's.
func TestShareLateClass(t *testing.T) {
	s, events := shareStream(2000, 5)
	s.Classes, s.MaxClasses = []string{"a", "b", "c", "d"}, 4
	for i := range events {
		if events[i].Label = i % 2; i > 1200 {
			events[i].Label = i % 3
		}
	}
	fold := shareLearner(t, s, func(c *Config) { c.ClassWeight = map[string]float64{"c": 2} })
	rounds(t, fold, events, 500, 3, 50, 32)
	if fold.active != 3 || len(fold.classes) != 3 || fold.classes[2] != 2 {
		t.Errorf("%d classes in use of weights %v", fold.active, fold.classes)
	}
	clone, err := fold.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if clone.classes[2] != 2 {
		t.Errorf("a copy has weights %v", clone.classes)
	}
}

// Several learners come close to one, with one output, several, a bank, and groups.
func TestShareQuality(t *testing.T) {
	s, events := shareStream(20_000, 2)
	for _, noise := range []string{"none", "dropout:0.1", "group:0.1"} {
		set := func(c *Config) { c.Noise = noise }
		alone := shareLearner(t, s, set)
		for i := range events {
			alone.Learn(&events[i])
		}
		for _, n := range []int{2, 8} {
			fold := shareLearner(t, s, set)
			rounds(t, fold, events, 2000, n, 50, 32)
			want, got := alone.Metrics().Window.MeanLogLoss(), fold.Metrics().Window.MeanLogLoss()
			if got > want+0.02*float64(n)/2 {
				t.Errorf("%s, %d learners: log-loss %.4f, alone %.4f", noise, n, got, want)
			}
		}
	}
}
