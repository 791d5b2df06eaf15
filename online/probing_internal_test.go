package online

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/probe"
	"blankout/online/synthetic"
)

// atHand takes an event through the stages up to its probes.
func (l *Learner) atHand(e *event.Example) {
	l.begin(e)
	l.lack(e)
	l.gather(e)
	l.publish(e)
	l.judging(e)
	l.prepare(e)
}

// What a probe makes of an event is what the published model answers to the event with these
// fields null: with groups, several classes and columns that are declared, where an event
// lacks fields by itself, and where ranges have shares of their own.
func TestProbesAsAnswered(t *testing.T) {
	longtest.NotRaced(t)
	for name, change := range map[string]func(*Config){
		"one level":  func(c *Config) {},
		"auto":       func(c *Config) { c.Noise, c.ExpectedMissing = "auto", 0.44 },
		"groups":     func(c *Config) { c.Noise = "dropout:0.1+group:0.3" },
		"rescale":    func(c *Config) { c.MissingPolicy = "rescale" },
		"calibrated": func(c *Config) { c.Noise, c.Calibrate = "auto", "on" },
		"threshold":  func(c *Config) { c.Noise, c.Threshold = "auto", 0.7 },
	} {
		t.Run(name, func(t *testing.T) {
			c := fillConfig()
			change(&c)
			l := lackingLearner(t, c)
			s := &alikeStream{r: rand.New(rand.NewPCG(3, 2)), fields: 10, null: 0.05}
			for range 2100 {
				l.Learn(s.next(), nil)
			}
			apart, compared := 0, 0
			for v := range l.levels { // so that every range is a mixture of its own
				for r := range probe.Ranges {
					l.shares.TakeLevels(r, shifted(len(l.levels), v, r))
				}
			}
			l.shares.Apply()
			l.takeForce()
			for range 200 {
				e := s.next()
				l.atHand(e)
				if l.now.hasMoved {
					l.learnFrom(e)
					continue
				}
				for _, groups := range []bool{false, true} {
					if groups && !l.grouped() {
						continue
					}
					named := l.drawMask(e, groups)
					l.sumLeft()
					own := slices.Clone(l.probing.part)
					for point := 1; point < probe.Points; point++ {
						want, left := l.slowAnswer(e, point)
						k := l.modelOf(l.mixed(0)).Lack(left)
						got := l.fields.All(l.schema.Fields)
						got.Null, got.Named = got.Null+l.probing.mask.Dead[point], got.Named-l.probing.mask.Dead[point]
						if got != k || !named {
							t.Fatalf("an event lacks %+v at point %d, and the probe says %+v (named %v)", k, point, got, named)
						}
						copy(l.probing.part, own)
						fill := false
						for i, place := range l.probing.places {
							if place >= 0 && int(l.probing.mask.Last[i]) < point {
								l.probing.part[place], fill = model.Filled, true
							}
						}
						fill = (fill || slices.Contains(own, model.Filled)) && l.filling.Covariance != nil
						r := probe.Range(k)
						if fill {
							l.fillPattern(r, l.probing.part)
						}
						score := l.weigh(r, k, l.probing.left[point], fill, false)[0]
						if compared++; math.Abs(score-want) > 1e-9*max(1, math.Abs(want)) {
							t.Fatalf("at point %d an event scores %v, and the probe says %v", point, want, score)
						}
						if r > 0 && fill {
							apart++
						}
					}
					copy(l.probing.part, own)
				}
				l.learnFrom(e)
			}
			if compared < 900 || apart < 500 {
				t.Errorf("%d answers are compared, %d filled in", compared, apart)
			}
		})
	}
}

// shifted returns losses by which the shares of a range differ from those of others.
func shifted(n, v, r int) []float64 {
	losses := make([]float64, n)
	losses[(v+r)%n] = 0.3 * float64(r)
	return losses
}

// slowAnswer returns what the published model answers to the event at hand with the features null
// that die before a point, and what is left of it.
func (l *Learner) slowAnswer(e *event.Example, point int) (float64, *event.Example) {
	m := model.Linear{Head: l.head(l.schema), Rows: l.table}
	x := m.Standardized(e, event.Vec{})
	field := l.scaling.Scaler.FieldsOf(e, x.Index, nil)
	dead := make([]bool, len(x.Index))
	for i := range dead {
		dead[i] = i < len(l.probing.mask.Last) && int(l.probing.mask.Last[i]) < point
	}
	m.Scaler.Curves.Follow(x.Index, dead)
	var left event.Example
	m.Delete(e, x, field, dead, false, &left)
	return m.ScoreLacking(left.Features, &left, make([]float64, 1))[0], &left
}

// A group dies as a whole in a mask, a product with either of its factors or groups, a number with
// its curve, and features besides where they are expected to.
func TestGroupsInMasks(t *testing.T) {
	longtest.NotRaced(t)
	c := DefaultConfig()
	c.ExpectedMissingGroups, c.ExpectedMissing = 0.5, 0.25
	l, s := mustNew(t, c, 2), synthetic.NewStream(5, 2)
	s.Omits = true
	var died, features, hats float64
	for range 3000 {
		e := s.Next()
		l.Learn(e, nil)
		l.atHand(e)
		columns := l.now.columns[:len(l.features())]
		l.drawMask(e, true)
		last := l.probing.mask.Last
		point, source := map[string]int8{}, map[uint32]int8{}
		var sources []uint32
		for _, column := range columns {
			sources = append(sources, l.scaling.Scaler.Curves.Source(column))
		}
		groups := synthetic.SlowGroups(e, sources)
		for i, g := range groups {
			if features++; last[i] < 0 {
				died++
				continue
			}
			if was, ok := point[g[0]]; len(g) == 1 && ok && was != last[i] {
				t.Fatalf("features of group %s survive %d and %d points", g[0], was, last[i])
			} else if len(g) == 1 {
				point[g[0]] = last[i]
			}
		}
		for i, g := range groups {
			if len(g) == 1 || last[i] < 0 {
				continue
			}
			for _, name := range g {
				if p, ok := point[name]; ok && last[i] > p {
					t.Fatalf("a product survives %d points, its group %s %d", last[i], name, p)
				}
			}
		}
		l.drawMask(e, false)
		for i, column := range columns {
			from := l.scaling.Scaler.Curves.Source(column)
			if was, ok := source[from]; ok && was != l.probing.mask.Last[i] {
				t.Fatalf("a number survives %d points, its curve %d", was, l.probing.mask.Last[i])
			} else if ok {
				hats++
			}
			source[from] = l.probing.mask.Last[i]
		}
	}
	if share := died / features; math.Abs(share-0.25) > 0.01 {
		t.Errorf("%v of the features die alone, want 0.25", share)
	}
	if hats == 0 {
		t.Error("no hat was met")
	}
}

// Each event is answered before it is learned as the model of that moment answers it, and a
// learner that was saved and restored goes on to the bit.
func TestSharesAreServedAndKept(t *testing.T) {
	longtest.NotRaced(t)
	for _, missing := range []string{"none", "auto"} {
		c := DefaultConfig()
		c.MissingPolicy = missing
		l, err := New(c, synthetic.OneStrongSchema())
		if err != nil {
			t.Fatal(err)
		}
		events := slices.Concat(synthetic.OneStrong(4000, 0, 1), synthetic.OneStrong(2000, 0.5, 2))
		for i, e := range events {
			if i == 5000 {
				blocks, err := l.Snapshot().Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if l, err = Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
				again, err := l.Snapshot().Blocks()
				if err != nil {
					t.Fatal(err)
				}
				for j := range blocks {
					if !bytes.Equal(blocks[j].Data, again[j].Data) {
						t.Errorf("block %s is not what it was", blocks[j].Name)
					}
				}
			}
			m := model.Linear{Head: l.head(l.schema), Rows: l.table}
			want := m.Score(e, make([]float64, 1))[0]
			applied := (l.events+1)%applyEvery == 0
			if got := l.Learn(e, nil).Scores[0]; math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) && !l.now.hasMoved && !applied {
				t.Fatalf("missing %s: event %d was answered %v, and the model says %v", missing, i, got, want)
			}
		}
		straight, err := New(c, synthetic.OneStrongSchema())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			straight.Learn(e, nil)
		}
		sameState(t, straight, l)
	}
}

// The objective is that of the weights that answer whole events, and its noise that of the level
// with the largest share.
func TestObjectiveOfWholeEvents(t *testing.T) {
	c := DefaultConfig()
	l, err := New(c, synthetic.OneStrongSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range synthetic.OneStrong(3000, 0, 1) {
		l.Learn(e, nil)
	}
	evaluate := func() float64 {
		objective, _, _, err := l.Evaluate(t.Context(), &exampleSource{examples: synthetic.OneStrong(500, 0, 2)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return objective
	}
	with := evaluate()
	for r := 1; r < probe.Ranges; r++ {
		l.shares.InForce[r].Levels = l.shares.InForce[0].Levels
	}
	if alone := evaluate(); with != alone {
		t.Errorf("objective %v with the weights of other ranges, %v without", with, alone)
	}
}

// exampleSource yields examples in one batch.
type exampleSource struct {
	examples []*event.Example
}

func (s *exampleSource) Next(_ context.Context, b *event.Batch) error {
	if s.examples == nil {
		return io.EOF
	}
	b.Examples = b.Examples[:0]
	for _, e := range s.examples {
		b.Examples = append(b.Examples, *e)
	}
	s.examples = nil
	return nil
}

// Events move the shares as they came, whole or not: each at first, then every fourth.
func TestEventsAreProbesAsTheyCame(t *testing.T) {
	longtest.NotRaced(t)
	for _, null := range []bool{false, true} {
		c := DefaultConfig()
		c.Noise = "auto"
		schema, fields := synthetic.NumberFields(3)
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		state := func() []byte {
			shares, c := *l.shares, &coder.Coder{}
			shares.Features, shares.SilentFeatures = probe.Curves{}, probe.Curves{} // which go on by themselves
			shares.State(c)
			return c.Out
		}
		for n := uint64(1); n <= probe.Second+8; n++ {
			e := synthetic.NumbersEvent(fields, r.IntN(2), []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()})
			if null {
				e = without(e, fields[0])
			}
			if n >= 10 && n <= probe.Second-100 {
				l.Learn(e, nil)
				continue
			}
			before := state()
			l.Learn(e, nil)
			moved := !bytes.Equal(before, state())
			if want := n%4 == 0; n < 10 && !moved || n > probe.Second && moved != want {
				t.Errorf("null %v: event %d moves the shares: %v", null, n, moved)
			}
		}
	}
}

// Of a range in which events lack fields by themselves, these tell the shares, and masks no longer:
// here a number can be told from another where a mask deletes it, but where it is null by itself the
// label goes against what would be told.
func TestOwnEventsOutweighMasks(t *testing.T) {
	longtest.NotRaced(t)
	for _, null := range []bool{false, true} {
		schema, fields := synthetic.NumberFields(3)
		l, err := New(DefaultConfig(), schema)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 4000 {
			a := r.NormFloat64()
			b, label := a+0.1*r.NormFloat64(), 0
			if a+0.1*r.NormFloat64() > 0 {
				label = 1
			}
			e := synthetic.NumbersEvent(fields, label, []float64{a, b, r.NormFloat64()})
			if null && n%4 == 0 {
				e = without(e, fields[0])
				e.Label = 1 - label
			}
			l.Learn(e, nil)
		}
		third, most := probe.Range(model.Lack{Null: 1, Named: 2}), probe.Range(model.Lack{Null: 9, Named: 1})
		if l.shares.Heeds(third) == null || !l.shares.Heeds(most) {
			t.Errorf("nulls %v: masks count for a third %v, for nine tenths %v", null, l.shares.Heeds(third), l.shares.Heeds(most))
		}
		if fill := l.shares.InForce[third].Rules[2]; (fill < 0.05) != null {
			t.Errorf("nulls %v: filling in has %v of the answer", null, fill)
		}
	}
}

// without returns e with its first field, of this id, null.
func without(e *event.Example, id uint16) *event.Example {
	return &event.Example{Label: e.Label, Weight: e.Weight, Field: e.Field[1:], Missing: []uint16{id},
		Features: event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}}
}
