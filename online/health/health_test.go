package health

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/readings"
)

// TestHealthFalseAlarms checks that false alarms on a stationary stream with many fields are rarer than one per day of
// 10^8 events. In the simulation, for any values, the fraction of blocks whose sums reach g must be at most e^-g, for
// every g that occurs. This implies the rate at healthLimit. The long version simulates such a day for each field.
func TestHealthFalseAlarms(t *testing.T) {
	blocks := must.Either(longtest.Asked(), 100_000_000/healthBlock, 20_000)
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
		return func() float64 { return must.Either(r.Float64() < p, a, b) }
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
				if m.compare(kind, o, readings.Moment{Event: uint64(b)}) == alarmRaised {
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
		must.True(t, alarms <= 0, "%s: %d alarms", c.name, alarms)
		for g, n := range reached {
			tests := float64(2 * len(c.kinds))
			most := tests * float64(blocks) * math.Exp(-float64(2*g+2))
			must.True(t, float64(n) <= most+5*math.Sqrt(most)+3, "%s: %d excursions of a sum to %d, the bound is %.1f", c.name, n, 2*g+2, most)
		}
	}
	// Each field has at most three cumulative sums with healthLimit. For each sum there are two bounds on the usual value.
	perDay := 100_000_000 / healthBlock * float64(MostFields) * (3 + 2*3) * math.Exp(-healthLimit)
	t.Logf("at most %.2g false alarms in a day of 10^8 events and %d fields, all numbers", perDay, MostFields)
	must.True(t, perDay <= 0.5, "%v false alarms a day", perDay)
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
		a := h.Report(number, fields, -1, nil)
		must.Require(t, a.Alarms <= 0 && a.Raised <= 0, "null %v: alarms while all is as usual: %+v", null, a)
		feed(4*healthBlock, 0)
		a = h.Report(number, fields, -1, nil)
		must.True(t, a.Alarms == 1 && a.Fields[0].Field == "words" && a.Fields[0].Missing.Now >= 0.95, "null %v: %+v", null, a)
		// A restored state must continue with the same results.
		again := restored(t, h)
		again.seen = h.seen
		both = again
		feed(3*healthBlock+1, 1)
		must.EqualSlices(t, saved(h), saved(again), "null", null, "a restart changes what is watched")
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
	w.State(c)
	must.Require(t, c.Done(), "the state does not fit its format")
	return w
}

// TestPriorOfRareClass checks that predictions which are as good as the class frequencies so far are not called worse:
// in blocks with one class, whose frequencies have no loss by hindsight, and by less than chance. Worse predictions
// are.
func TestPriorOfRareClass(t *testing.T) {
	for name, c := range map[string]struct {
		every int     // one label of so many is the rare one
		p     float64 // predicted probability of the rare class, in proportion to its rate
		worse bool
	}{"rare": {3000, 1, false}, "half": {2, 1.02, false}, "overconfident": {20, 10, true}} {
		w := &Counts{}
		for i := range 5 * priorBlock {
			label := must.Either(i%c.every == c.every/2, 1, 0)
			p := c.p / float64(c.every)
			loss := must.Either(label == 1, -math.Log(p), -math.Log(1-p))
			e := &LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Label: label, Weight: 1, Loss: loss}
			w.Measures.take(e)
			w.Prior.take(1, loss, w.Baselines.Tell(e), 1, e.Number)
			if !c.worse && w.Prior.Exceeded {
				t.Errorf("%s, event %d: %+v", name, i+1, w.Prior)
				break
			}
		}
		must.True(t, w.Prior.Exceeded == c.worse, "%s: %+v", name, w.Prior)
		warned := false
		for _, x := range w.warnings(Stream{Events: 5 * priorBlock, Classes: []string{"a", "b"}}) {
			warned = warned || x.Kind == WarnPrior
		}
		must.True(t, warned == c.worse, "%s: warned %v, want %v", name, warned, c.worse)
	}
}

// TestDivergenceIsNamed checks that huge scores are reported as divergence, even if a link keeps the log-loss small. A
// high log-loss without huge scores must not be reported as divergence.
func TestDivergenceIsNamed(t *testing.T) {
	for _, c := range []struct {
		score, loss float64
		want        string
	}{{1e6, 269064, "learning has diverged"}, {-1e6, .69, "learning has diverged"}, {4, 3, "a growing field"}, {4, .1, ""}} {
		w := &Counts{}
		for i := range 2 * priorBlock {
			w.Prior.take(2, c.loss, math.Ln2, c.score, uint64(i)+1)
			w.Measures.take(&LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Label: i / 2 % 2, Predicted: i / 2 % 2, Weight: 2, Loss: c.loss})
		}
		got := ""
		for _, x := range w.warnings(Stream{Events: 2 * priorBlock}) {
			got += x.Text
		}
		must.True(t, strings.Contains(got, c.want) && (c.want != "" || got == "") && (!strings.Contains(got, "has diverged") || !strings.Contains(got, "a growing field")),
			"scores of %v, log-loss %v: %q", c.score, c.loss, got)
		out := &coder.Coder{}
		w.Prior.State(out)
		var again Prior
		again.State(coder.Read(out.Out))
		must.True(t, again.Size == w.Prior.Size && again.size == w.Prior.size && again.diverged() == w.Prior.diverged(), "%+v, saved %+v", again, w.Prior)
	}
}

// fill sets every number, boolean and kind in v to a different value, using the counter n. It skips the fields that but
// names.
func fill(v reflect.Value, n *int, but map[string]bool) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !but[v.Type().Field(i).Name] {
				fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), n, but)
			}
		}
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n % 4)) // kinds and ids are small
	case reflect.Uint16, reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*n%4) + 1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// TestStateHoldsEverything checks that the encoded state contains all struct fields of fieldHealth and of fieldChange.
func TestStateHoldsEverything(t *testing.T) {
	n := 0
	h := &Fields{}
	h.events, h.named, h.start = 7, 6, readings.Moment{Event: 5, Time: 4}
	h.fields, h.watched = make([]fieldHealth, 5), model.NewFieldSet(5)
	for i := range h.fields {
		f := &h.fields[i]
		fill(reflect.ValueOf(f).Elem(), &n, map[string]bool{"kind": true, "leader": true, "name": true, "measures": true})
		h.watched.Add([]uint16{uint16(i)})
		f.leader = i
		f.kind = []event.Kind{event.Numeric, event.Categorical, event.Boolean}[i%3]
		for _, kind := range measuresOf(f.kind) {
			m := &f.measures[kind]
			fill(reflect.ValueOf(m).Elem(), &n, nil)
		}
	}
	h.link(3, 1)
	h.link(4, 1)
	h.alarms = alarmLog{raised: 3, changed: 5, changes: make([]fieldChange, 3)}
	for i := range h.alarms.changes {
		fill(reflect.ValueOf(&h.alarms.changes[i]).Elem(), &n, nil)
	}
	c := &coder.Coder{}
	h.State(c)
	var got Fields
	d := coder.Read(c.Out)
	got.State(d)
	must.Require(t, d.Done(), "what is written cannot be read")
	must.True(t, reflect.DeepEqual(&got, h), "%+v\nwant %+v", &got, h)
	// A truncated or invalid state must be rejected without a panic.
	for n := range c.Out {
		d := coder.Read(c.Out[:n])
		new(Fields).State(d)
		must.Require(t, !d.Done(), "%d of %d bytes are read as a state", n, len(c.Out))
	}
	h.alarms.changes[0].field = 5
	c = &coder.Coder{}
	h.State(c)
	d = coder.Read(c.Out)
	new(Fields).State(d)
	must.True(t, !d.Done(), "a state about more fields than there are is read")
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
				h.fields[0].cost.add(0, 1)
			case (i+3)*c.better/c.samples != (i+4)*c.better/c.samples:
				h.fields[0].cost.add(1, 0)
			default:
				h.fields[0].cost.add(1, 1)
			}
		}
		m := &h.fields[0].measures[measureMissing]
		m.n, m.recentN, m.recentSum, m.before = 1, 1, 1, 0.3 // the field is missing from all events, and was from none
		v, rise := h.value(0, measureMissing), h.fields[0].cost.rise()
		must.True(t, math.Abs(rise-c.rise) <= 0.004 && v.before == 30 && math.Abs(v.after-30-100*rise) <= 1e-9, "%+v: rise %v, %+v", c, rise, v)
		m.before = -1
		v = h.value(0, measureMissing)
		must.True(t, v.before == -1 && v.after == -1, "%+v: without a forecast %+v", c, v)
	}
}
