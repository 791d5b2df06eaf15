package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
	"blankout/model"
)

// What a mask makes of an event is what the published model of each level answers to the
// event with these fields null, with curves and groups too, and where an event has fewer
// numbers than others.
func TestMaskedAsAnswered(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"auto":   func(c *Config) { c.Noise, c.ExpectedMissing = "auto", 0.44 },
		"curves": func(c *Config) { c.Curves = 5 },
		"groups": func(c *Config) { c.Noise = "dropout:0.1+group:0.3" },
		"plain":  func(c *Config) { c.Missing = "rescale"; c.Curves = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			c := fillConfig()
			change(&c)
			l := lackingLearner(t, c)
			s := &alikeStream{r: rand.New(rand.NewPCG(3, 2)), fields: 10}
			next := func(n int) *blankout.Example {
				e := s.next()
				if n%3 > 0 && name == "auto" { // the field is not usual: left out it is not missing
					e.Features.Index, e.Features.Value, e.Field = e.Features.Index[1:], e.Features.Value[1:], e.Field[1:]
				}
				if n%3 == 1 && n >= 2000 && name == "auto" { // a wild reading: nothing is told from it
					e.Features.Value[4] *= 1e9
				}
				return e
			}
			for n := range 2000 {
				l.Learn(next(n))
			}
			points := l.maskedPoints()
			if points == 0 || l.missing.fills() == (name == "plain") {
				t.Fatalf("the points %b are by masks, the rules %v", points, l.missing.model.Null)
			}
			compared, apart, wrong := 0, 0, 0
			for n := range 600 {
				e := next(2000 + n)
				l.grow(e)
				l.events++
				l.lack(e)
				l.gather(e)
				if n == 300 { // between the first and the last event of a mask
					l.filling.mean[2] += 3
					l.filling.renew()
				}
				i, between := l.expected()
				f := &l.levels[0].forecast
				was := f.samples
				if known, grew := l.forecastBinary(e.Label), f.samples[i] > was[i] && (between == 0 || f.samples[i+1] > was[i+1]); known != grew {
					t.Fatalf("event %d: the forecast beside what is expected is known: %v, it has a sample more: %v", n, known, grew)
				}
				drawn := l.forecastMasked(points, e.Label)
				last := append([]int8{}, l.masked.last...)
				for v := range l.levels {
					m := l.modelOf(v)
					x := m.Standardised(e, blankout.Vec{})
					field := l.scaling.scaler.FieldsOf(e, x.Index, nil)
					for point := 1; point < ForecastPoints; point++ {
						if points&(1<<point) == 0 || math.IsNaN(drawn[v][point]) {
							continue
						}
						dead := make([]bool, len(x.Index))
						for i := range dead {
							dead[i] = int(last[l.rowOf(i)]) < point
						}
						var left blankout.Example
						m.Delete(e, x, field, dead, false, &left)
						score := m.ScoreLacking(left.Features, &left, make([]float64, 1))
						if math.Abs(score[0]) < 1e-9 {
							continue
						}
						want := 0.0
						if model.Predict(score) != e.Label {
							want = 1
						}
						if name == "auto" && (2000+n)%3 == 1 {
							apart++
						}
						if compared++; want != drawn[v][point] {
							wrong++
							t.Errorf("event %d, level %d, point %d: %v, and the answer is %v (score %v, %v)", n, v, point, drawn[v][point], want, score, last)
						}
						if wrong > 5 {
							t.FailNow()
						}
					}
				}
				l.step(e.Label, 1)
			}
			if compared < 600 || name == "auto" && apart < 20 {
				t.Errorf("%d answers are compared, %d of events with fewer numbers", compared, apart)
			}
		})
	}
}

// Every column dies at a point with the chance that the point stands for, whatever the
// others do; events in a row have their mask in common; and a restart changes nothing.
func TestMaskAlike(t *testing.T) {
	c := fillConfig()
	l := lackingLearner(t, c)
	s := &alikeStream{r: rand.New(rand.NewPCG(3, 2)), fields: 10}
	for range 3000 {
		l.Learn(s.next())
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(c, blocks)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		e := s.next()
		l.Learn(e)
		restored.Learn(e)
	}
	if !bytes.Equal(stateOf(t, l), stateOf(t, restored)) {
		t.Error("a restart has changed the state")
	}
	l.grow(s.next())
	l.gather(&s.e)
	const point = 3
	var died [10]int
	var both, masks int
	was := []int8{}
	for range 8000 * 80 / 10 {
		l.events += 10
		last := l.maskAlike()
		if string(toBytes(last)) == string(toBytes(was)) {
			continue
		}
		was = append(was[:0], last...)
		masks++
		for i, last := range last {
			if last < point {
				died[i]++
			}
		}
		if last[2] < point && last[7] < point {
			both++
		}
	}
	if masks < 7900 || masks > 8100 {
		t.Errorf("%d masks, want about 8,000", masks)
	}
	for i, n := range died {
		if share := float64(n) / float64(masks); math.Abs(share-0.3) > 0.01 {
			t.Errorf("column %d dies in %v of the masks, want 0.3", i, share)
		}
	}
	if share := float64(both) / float64(masks); math.Abs(share-0.09) > 0.02 {
		t.Errorf("two columns die together in %v of the masks, want 0.09", share)
	}
}

func toBytes(x []int8) (out []byte) {
	for _, x := range x {
		out = append(out, byte(x))
	}
	return out
}

// Eight masks in a row take each column to each eighth of the rates once, in an order that
// differs from column to column and from eight masks to the next.
func TestMasksInARow(t *testing.T) {
	l := lackingLearner(t, fillConfig())
	s := &alikeStream{r: rand.New(rand.NewPCG(3, 2)), fields: 10}
	for range 2000 {
		l.Learn(s.next())
	}
	e := s.next()
	l.lack(e)
	l.gather(e)
	length := uint64(max(alikeLater, 8*len(l.filling.columns)))
	first := 8 * (alikeFirstEvents/length/8 + 1)
	orders := map[string]bool{}
	for eight := range uint64(6) {
		rows := make([][]int8, 10)
		for number := range uint64(8) {
			l.events = (first + 8*eight + number) * length
			for row, last := range l.maskAlike() {
				rows[row] = append(rows[row], last)
			}
		}
		for row, lasts := range rows {
			orders[fmt.Sprint(lasts)] = true
			slices.Sort(lasts)
			for i, last := range lasts {
				if int(last) < i*ForecastPoints/8 || int(last) > (i+1)*ForecastPoints/8 {
					t.Errorf("masks %d to %d: column %d survives up to the points %d", 8*eight, 8*eight+7, row, lasts)
					break
				}
			}
		}
	}
	if len(orders) < 20 { // 10 if they were the same every time
		t.Errorf("60 times eight masks have only %d orders", len(orders))
	}
}

// BenchmarkLearnNumbers learns events of 24 numbers, each a field of its own and correlated
// with the others, with all that the default does besides: a profile says what of it the
// forecasts on masks and filling in take.
func BenchmarkLearnNumbers(b *testing.B) {
	const n = 24
	schema := blankout.NewSchema(8, []string{"0", "1"}, 2)
	for i := range n {
		schema.Fields = append(schema.Fields, blankout.Field{Name: fmt.Sprint("f", i), Kind: blankout.Numeric})
	}
	l, err := New(DefaultConfig(), schema)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	events := make([]blankout.Example, 4000)
	for i := range events {
		e := &events[i]
		e.Weight, e.Label = 1, r.IntN(2)
		common := r.NormFloat64()
		for j := range uint32(n) {
			e.Features.Index, e.Features.Value = append(e.Features.Index, j), append(e.Features.Value, common+r.NormFloat64()+float64(e.Label))
			e.Field = append(e.Field, uint16(1+j))
		}
		l.Learn(e)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		l.Learn(&events[i%len(events)])
		i++
	}
}
