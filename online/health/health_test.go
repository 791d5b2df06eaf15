package health

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
)

// TestHealthFalseAlarms checks that false alarms on a stationary stream with many fields are rarer than one per day of
// 10^8 events. In the simulation, for any values, the fraction of blocks whose sums reach g must be at most e^-g, for
// every g that occurs. This implies the rate at healthLimit. The long version simulates such a day for each field.
func TestHealthFalseAlarms(t *testing.T) {
	blocks := 20_000
	if longtest.Asked() {
		blocks = 100_000_000 / healthBlock
	}
	source := rand.NewPCG(5, 17)
	r := rand.New(source)
	fraction := func(p float64) func(*fieldHealth) {
		return func(f *fieldHealth) {
			// Draws how many events of a block lack the field, from random intervals between such events.
			for at := 0.0; p > 0; f.missing++ {
				if at += 1 + math.Floor(math.Log(1-r.Float64())/math.Log(1-p)); at > healthBlock {
					break
				}
			}
		}
	}
	number := func(draw func() float64) func(*fieldHealth) {
		return func(f *fieldHealth) {
			for range healthBlock >> sampledBits {
				f.number(draw())
			}
		}
	}
	flip := func(p, a, b float64) func() float64 {
		return func() float64 {
			if r.Float64() < p {
				return a
			}
			return b
		}
	}
	for _, c := range []struct {
		name  string
		kinds []int
		block func(*fieldHealth)
	}{
		{"never missing", []int{measureMissing}, fraction(0)},
		{"missing in 0.01 %", []int{measureMissing}, fraction(0.0001)},
		{"missing in 0.2 %", []int{measureMissing}, fraction(0.002)},
		{"missing in 5 %", []int{measureMissing}, fraction(0.05)},
		{"missing in 30 %", []int{measureMissing}, fraction(0.3)},
		{"missing in 50 %", []int{measureMissing}, fraction(0.5)},
		{"normal", []int{measureMean}, number(r.NormFloat64)},
		{"exponential", []int{measureMean}, number(r.ExpFloat64)},
		{"log-normal, deviation 2", []int{measureMean}, number(func() float64 { return math.Exp(2 * r.NormFloat64()) })},
		{"Cauchy", []int{measureMean}, number(func() float64 { return r.NormFloat64() / r.NormFloat64() })},
		{"two values", []int{measureMean}, number(flip(0.5, 0, 1))},
		{"two values, one rare", []int{measureMean}, number(flip(0.01, 0, 1))},
		{"one value and seldom 1e30", []int{measureMean}, number(flip(0.0001, 1e30, 1))},
	} {
		f := &fieldHealth{kind: event.Numeric}
		alarms, highest := 0, 0.0
		var reached [12]int // number of excursions of a sum that reach 2, 4, …
		top := [fieldMeasures][2]float64{}
		for b := range blocks {
			c.block(f)
			for _, kind := range c.kinds {
				o := [fieldMeasures]observed{{healthBlock, f.missing, f.missing}, {f.seen, f.sum, f.square}}[kind]
				m := &f.measures[kind]
				if m.compare(kind, o, Moment{Event: uint64(b)}) == alarmRaised {
					alarms++
				}
				for side, sum := range []float64{m.above, m.below} {
					if highest = max(highest, sum); sum > 0 {
						top[kind][side] = max(top[kind][side], sum)
						continue
					}
					for g := range reached {
						if top[kind][side] >= float64(2*g+2) {
							reached[g]++
						}
					}
					top[kind][side] = 0
				}
			}
			if f.kind == event.Numeric && c.kinds[0] == measureMean {
				f.checkReference()
			}
			f.missing, f.seen, f.sum, f.square = 0, 0, 0, 0
		}
		t.Logf("%-26s %d blocks, %d alarms, highest sum %.1f; excursions to 2, 4, ...: %v", c.name, blocks, alarms, highest, reached)
		if alarms > 0 {
			t.Errorf("%s: %d alarms", c.name, alarms)
		}
		for g, n := range reached {
			tests := float64(2 * len(c.kinds))
			if most := tests * float64(blocks) * math.Exp(-float64(2*g+2)); float64(n) > most+5*math.Sqrt(most)+3 {
				t.Errorf("%s: %d excursions of a sum to %d, the bound is %.1f", c.name, n, 2*g+2, most)
			}
		}
	}
	// Each field has at most three cumulative sums with healthLimit. For each sum there are two bounds on the usual value.
	perDay := 100_000_000 / healthBlock * float64(MostFields) * (3 + 2*3) * math.Exp(-healthLimit)
	t.Logf("at most %.2g false alarms in a day of 10^8 events and %d fields, all numbers", perDay, MostFields)
	if perDay > 0.5 {
		t.Errorf("%v false alarms a day", perDay)
	}
}

// TestHealthWords checks a bag of words that most events have. An alarm must be raised once it is null or omitted, and
// not before.
func TestHealthWords(t *testing.T) {
	for _, null := range []bool{false, true} {
		r := rand.New(rand.NewPCG(3, 5))
		h := &Fields{}
		usual := &model.Missing{}
		fields := []event.Field{{}, {Name: "x", Kind: event.Numeric}, {Name: "words", Kind: event.Words}}
		number, both := uint64(0), &Fields{}
		feed := func(n int, fraction float64) {
			for range n {
				number++
				e := &event.Example{Field: []uint16{1}, Features: event.Vec{Index: []uint32{1}, Value: []float64{r.NormFloat64()}}}
				present := model.NewFieldSet(len(fields))
				if present.Add([]uint16{1}); r.Float64() < fraction {
					present.Add([]uint16{2})
				} else if null {
					e.Missing = []uint16{2}
				}
				for _, h := range []*Fields{h, both} {
					h.Take(&Met{Event: e, Came: e, Number: number, Named: true, Present: present, Fields: fields, Usual: usual, Error: -1})
				}
			}
		}
		feed(100*healthBlock, 0.3) // few events have the field, so its absence does not count yet
		feed(200*healthBlock, 0.7)
		if a := h.Report(number, fields, -1, nil); a.Alarms > 0 || a.Raised > 0 {
			t.Fatalf("null %v: alarms while all is as usual: %+v", null, a)
		}
		feed(4*healthBlock, 0)
		a := h.Report(number, fields, -1, nil)
		if a.Alarms != 1 || a.Fields[0].Field != "words" || a.Fields[0].Missing.Now < 0.95 {
			t.Errorf("null %v: %+v", null, a)
		}
		// A restored state must continue with the same results.
		again := restored(t, h)
		again.seen = h.seen
		both = again
		feed(3*healthBlock+1, 1)
		if a, b := saved(h), saved(again); !slices.Equal(a, b) {
			t.Errorf("null %v: a restart changes what is watched", null)
		}
	}
}

// TestCostOfAField checks that a difference of errors that can be chance is not reported as a cost.
func TestCostOfAField(t *testing.T) {
	for _, c := range []struct {
		samples, worse, better int
		rise                   float64
	}{{70, 0, 0, 0}, {1000, 6, 4, 0}, {1000, 60, 40, 0.015}, {1000, 100, 0, 0.099}, {1000, 0, 100, -0.099}, {100, 9, 8, 0}, {12_000, 84, 0, 0.0067}} {
		h := &Fields{fields: make([]fieldHealth, 1)}
		for i := range c.samples {
			switch {
			case i*c.worse/c.samples != (i+1)*c.worse/c.samples:
				h.Cost(0, 0, 1)
			case (i+3)*c.better/c.samples != (i+4)*c.better/c.samples:
				h.Cost(0, 1, 0)
			default:
				h.Cost(0, 1, 1)
			}
		}
		m := &h.fields[0].measures[measureMissing]
		m.n, m.recentN, m.recentSum, m.before = 1, 1, 1, 0.3 // the field is missing from all events, and was from none
		if v, rise := h.value(0, measureMissing), h.fields[0].cost.rise(); math.Abs(rise-c.rise) > 0.004 || v.before != 30 || math.Abs(v.after-30-100*rise) > 1e-9 {
			t.Errorf("%+v: rise %v, %+v", c, rise, v)
		}
		m.before = -1
		if v := h.value(0, measureMissing); v.before != -1 || v.after != -1 {
			t.Errorf("%+v: without a forecast %+v", c, v)
		}
	}
}

// saved returns the encoded state of w.
func saved(w *Fields) []byte {
	c := &coder.Coder{}
	w.State(c)
	return c.Out
}

// readOf returns a Coder that reads the encoded state of w.
func readOf(w *Fields) *coder.Coder { return coder.Read(saved(w)) }

// restored returns Fields with the encoded state of was.
func restored(t *testing.T, was *Fields) *Fields {
	t.Helper()
	w, c := &Fields{}, readOf(was)
	if w.State(c); !c.Done() {
		t.Fatal("the state does not fit its format")
	}
	return w
}
