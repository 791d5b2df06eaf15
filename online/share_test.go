package online

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
			set := func(c *Config) { c.Noise = noise }
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

func TestShareQuality(t *testing.T) {
	s, events := shareStream(40_000, 2)
	for _, noise := range []string{"none", "auto"} {
		set := func(c *Config) { c.Noise = noise }
		alone := shareLearner(t, s, set)
		for i := range events {
			alone.Learn(&events[i])
		}
		for _, n := range []int{2, 8} {
			fold := shareLearner(t, s, set)
			rounds(t, fold, events, 2000, n, 50, 32)
			a, b := alone.Metrics(), fold.Metrics()
			fmt.Println(noise, n, a.Total.Error(), b.Total.Error(), a.Total.MeanLogLoss(), b.Total.MeanLogLoss(), a.Window.MeanLogLoss(), b.Window.MeanLogLoss(), a.Level, b.Level, a.Events, b.Events, a.Total.Weight, b.Total.Weight)
		}
	}
}
