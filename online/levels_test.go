package online

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
	"blankout/model"
)

// oneStrong returns events of two classes that one reading tells nearly always, if it is there.
// Twelve others are copies of it with much noise, which nobody needs who has that one. Each is
// null with the given chance.
func oneStrong(n int, chance float64, seed uint64) []*blankout.Example {
	r := rand.New(rand.NewPCG(seed, 3))
	events := make([]*blankout.Example, n)
	for i := range events {
		e := &blankout.Example{Label: r.IntN(2), Weight: 1, Field: []uint16{}, Offset: int64(i)}
		y := float64(2*e.Label - 1)
		strong := y + 0.5*r.NormFloat64()
		for j := range uint16(13) {
			x := strong
			if j > 0 {
				x += 1.5 * r.NormFloat64()
			}
			if r.Float64() < chance {
				e.Missing = append(e.Missing, j+1)
				continue
			}
			e.Field = append(e.Field, j+1)
			e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(j)), append(e.Features.Value, x)
		}
		events[i] = e
	}
	return events
}

func oneStrongSchema() *blankout.Schema {
	s := blankout.NewSchema(8, []string{"a", "b"}, 2)
	for j := range 13 {
		s.AddField(blankout.Field{Name: string(rune('a' + j)), Kind: blankout.Numeric})
	}
	return s
}

// Where the bank's levels are compared, events that lack much are answered by a level that
// has learned to do without, be it known from masks or from such events; they are answered
// better for it, and the forecast says so.
func TestLevelsByShare(t *testing.T) {
	for _, learned := range []float64{0, 0.5} {
		var wrong [2]float64
		for i, levels := range []bool{false, true} {
			c := DefaultConfig()
			c.Missing, c.PublishLevels = "as-is", levels
			l, err := New(c, oneStrongSchema())
			if err != nil {
				t.Fatal(err)
			}
			for k, e := range oneStrong(12_000, 0, 1) {
				if learned > 0 && k%3 == 0 {
					e = oneStrong(1, learned, uint64(k))[0]
				}
				l.Learn(e)
			}
			m := l.Published()
			test := oneStrong(20_000, 0.6, 2)
			for _, e := range test {
				scores := m.Score(e, make([]float64, 1))
				if live := l.Score(e, make([]float64, 1)); math.Abs(live[0]-scores[0]) > 1e-12 {
					t.Fatalf("live %v, published %v", live, scores)
				}
				if m.Predict(scores) != e.Label {
					wrong[i] += 100 / float64(len(test))
				}
			}
			metrics := l.Metrics()
			if !levels {
				if m.Levels != nil || metrics.LevelsByShare != nil || metrics.Served.Error[6] != metrics.Forecasts[l.chosen].Error[6] {
					t.Errorf("levels that are not to be compared answer: %v", metrics.LevelsByShare)
				}
				continue
			}
			if len(m.Levels) == 0 || m.Missing.Levels[3] == 0 {
				t.Fatalf("learned with %v: shares are answered by %v of %v", learned, m.Missing.Levels, metrics.LevelsByShare)
			}
			if name := metrics.LevelsByShare[3]; name != m.Levels[m.Missing.Levels[3]-1].Noise {
				t.Errorf("%v, but the model has %+v", metrics.LevelsByShare, m.Levels)
			}
			answers := slices.IndexFunc(metrics.Forecasts, func(f Forecast) bool { return f.Level == metrics.LevelsByShare[3] })
			if got := metrics.Served; got.Error[6] != metrics.Forecasts[answers].Error[6] || got.Error[0] != metrics.Forecasts[l.chosen].Error[0] {
				t.Errorf("the forecast of what is answered is %+v", got)
			}
			if summary := metrics.Summary(); summary.Served == nil || summary.Served.Error[6] != 100*metrics.Served.Error[6] {
				t.Errorf("summed up as %+v", summary.Served)
			}
		}
		if learned == 0 && !(wrong[1] < wrong[0]-4) || !(wrong[1] < wrong[0]+0.2) { // all that lack fields teach the published level too
			t.Errorf("learned with %v null: %.2f %% wrong by the published level, %.2f by that of the share", learned, wrong[0], wrong[1])
		}
	}
}

// Each event is answered before it is learned as the model of that moment answers it, and a
// learner that was saved and restored goes on to the bit.
func TestLevelsAreServedAndKept(t *testing.T) {
	for _, missing := range []string{"as-is", "auto"} {
		c := DefaultConfig()
		c.Missing = missing
		l, err := New(c, oneStrongSchema())
		if err != nil {
			t.Fatal(err)
		}
		events := slices.Concat(oneStrong(6000, 0, 1), oneStrong(3000, 0.5, 2))
		answered := map[string]int{}
		for i, e := range events {
			if i == 7000 {
				blocks, err := l.Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if l, err = Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
				again, err := l.Blocks()
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
			answered[m.NoiseOf(m.Answer(e))]++
			want := m.Score(e, make([]float64, 1))[0]
			if got := l.Learn(e)[0]; math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) && !l.now.hasMoved {
				t.Fatalf("missing %s: event %d was answered %v, and the model says %v", missing, i, got, want)
			}
		}
		if missing == "as-is" && len(answered) < 2 {
			t.Errorf("all events were answered by %v", answered)
		}
		straight, err := New(c, oneStrongSchema())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			straight.Learn(e)
		}
		sameState(t, straight, l)
	}
}

// A state whose comparisons are not those of the bank is refused.
func TestLevelsStateIsChecked(t *testing.T) {
	l, err := New(DefaultConfig(), oneStrongSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range oneStrong(500, 0.2, 1) {
		l.Learn(e)
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(blocks, func(b blankout.Block) bool { return b.Name == blockLevels })
	for n := range len(blocks[at].Data) {
		spoiled := slices.Clone(blocks)
		spoiled[at].Data = blocks[at].Data[:n]
		if _, err := Restore(DefaultConfig(), spoiled); err == nil {
			t.Fatalf("%d of %d bytes are taken", n, len(blocks[at].Data))
		}
	}
}

// Another level needs more evidence than a rule, or than the level that is at home; what is not
// allowed is not chosen, and neither is anything before enough events have been compared.
func TestBetterAnswer(t *testing.T) {
	all := func(int) bool { return true }
	// Answers of two levels under three rules; the squares make a standard error of 10 each.
	choice := func(gain float64, at int) *answerChoice {
		c := &answerChoice{events: 100, sum: make([]float64, 6), squares: []float64{100, 100, 100, 100, 100, 100}}
		c.sum[at] = -gain
		return c
	}
	for _, x := range []struct {
		what            string
		c               *answerChoice
		now, home, want int
		allowed         func(int) bool
	}{
		{"a rule that is better by one error of both", choice(20, 2), 1, 0, 2, all},
		{"a rule that is not", choice(13, 2), 1, 0, 1, all},
		{"a level that is better by one", choice(20, 4), 1, 0, 1, all},
		{"a level that is better by more than two", choice(41, 4), 1, 0, 4, all},
		{"the level at home that is better by one", choice(20, 4), 1, 1, 4, all},
		{"a rule that is not allowed", choice(100, 2), 1, 0, 1, func(rule int) bool { return rule < 2 }},
	} {
		if got := x.c.better(x.now, x.home, x.allowed); got != x.want {
			t.Errorf("%s: %d, want %d", x.what, got, x.want)
		}
		x.c.events = leastCompared - 1
		if got := x.c.better(x.now, x.home, x.allowed); got != x.now {
			t.Errorf("%s, of few events: %d", x.what, got)
		}
	}
}

// withLevels returns a Learner in which a level but the published one answers every range.
func withLevels(t *testing.T) *Learner {
	t.Helper()
	c := DefaultConfig()
	c.Missing = "as-is"
	l, err := New(c, oneStrongSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range oneStrong(3000, 0, 1) {
		l.Learn(e)
	}
	for bin := range l.missing.answers {
		l.missing.answers[bin].level = (l.chosen + 1) % len(l.levels)
	}
	return l
}

// What is forecast with nothing missing is of the published level, whatever answers the rest,
// and so is the objective.
func TestPublishedLevelOfComplete(t *testing.T) {
	l := withLevels(t)
	m := l.Metrics()
	if next := (l.chosen + 1) % len(l.levels); m.Served.Error[0] != m.Forecasts[l.chosen].Error[0] || m.Served.Error[1] != m.Forecasts[next].Error[1] {
		t.Errorf("forecast %+v", m.Served)
	}
	evaluate := func() float64 {
		objective, _, _, err := l.Evaluate(t.Context(), &exampleSource{examples: oneStrong(500, 0, 2)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return objective
	}
	with := evaluate()
	l.config.PublishLevels = false
	if alone := evaluate(); with != alone {
		t.Errorf("objective %v with the levels of other shares, %v without", with, alone)
	}
}

// exampleSource yields examples in one batch.
type exampleSource struct {
	examples []*blankout.Example
}

func (s *exampleSource) Next(_ context.Context, b *blankout.Batch) error {
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

// A change of what answers lets the forecasts of the range fade, and what masks had to say fades
// once there are events of the range's own. A range that comes back to the published level
// follows it.
func TestAnswersChange(t *testing.T) {
	l := withLevels(t)
	e := oneStrong(1, 0.45, 7)[0]
	l.Learn(e)
	l.chosen = 2 // not the natural one
	const next = 3
	bin := model.MissingBin(l.missing.event.lack.Share())
	c := &l.missing.answers[bin]
	var point int
	for point = 1; forecastBins[point] != bin; point++ {
	}
	other := 1
	for forecastBins[other] == bin {
		other++
	}
	// Nothing speaks for the next level, and much for the published one as is.
	c.events, c.own, c.level = 5000, comparisonOwn-1, next
	for i := range c.sum {
		c.sum[i], c.squares[i] = 1000, 700*700 // so that the bar decides
	}
	c.sum[l.chosen*missingRuleCount] = -1000
	for v := range l.levels {
		l.levels[v].forecast.samples[point], l.levels[v].forecast.samples[other] = 2*forecastOther, 2*forecastOther
	}
	l.events = drawFirst + comparedLater - drawFirst%comparedLater
	l.compareAnswersOwn(e, e.Label)
	if c.level != published || c.events != comparisonOwn+1 {
		t.Errorf("level %d (published is %d), %v events", c.level, published, c.events)
	}
	if f := &l.levels[0].forecast; f.samples[point] != forecastOther || f.samples[other] != 2*forecastOther {
		t.Errorf("samples of the range %v, of another %v", f.samples[point], f.samples[other])
	}
}
