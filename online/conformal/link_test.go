package conformal

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/internal/must"
)

// drawn passes events with scores f to the Link. The second of two classes has probability p(f). drawn returns three
// mean log-losses: with the raw scores (own), with the Link (linked), and with the true probabilities (least).
func drawn(l *Link, r *rand.Rand, events int, p func(f float64) float64) (own, linked, least float64) {
	for range events {
		f, label := 3*r.NormFloat64(), 0
		q := p(f)
		if r.Float64() < q {
			label = 1
		}
		scores := []float64{f}
		own += model.Decision{}.LogLoss(scores, label)
		linked += model.Decision{Link: l.Latest()}.LogLoss(scores, label)
		if least -= math.Log(q); label == 0 {
			least += math.Log(q) - math.Log(1-q)
		}
		l.Take(scores, 1, label, 1)
	}
	n := float64(events)
	return own / n, linked / n, least / n
}

// TestLinkLearns checks scores that are not log-odds: scores with a wrong factor and offset, scores for labels of which
// one in ten is wrong, and a step function. The Link must help, and its loss must be nearly the least possible.
func TestLinkLearns(t *testing.T) {
	for name, p := range map[string]func(f float64) float64{
		"a line":       func(f float64) float64 { return sigmoid(0.4*f - 1.5) },
		"wrong labels": func(f float64) float64 { return 0.1 + 0.8*sigmoid(3*f) },
		"a step":       func(f float64) float64 { return 0.2 + 0.6*math.Max(0, math.Copysign(1, f-1)) },
	} {
		l := NewLink()
		drawn(&l, rand.New(rand.NewPCG(1, 2)), 20_000, p)
		must.True(t, l.Helps(), "%s: it does not help", name)
		own, linked, least := drawn(&l, rand.New(rand.NewPCG(3, 4)), 20_000, p)
		must.True(t, linked <= least+0.006 && own >= linked+0.02, "%s: log-loss %.4f, %.4f without, the least is %.4f", name, linked, own, least)
		must.Do(t, l.Latest().Check())
	}
}

// TestLinkOfLogOdds checks scores that already are log-odds. The Link must hardly increase the loss, and Helps must be
// false. After other scores become log-odds, Helps must change from true to false.
func TestLinkOfLogOdds(t *testing.T) {
	l, r := NewLink(), rand.New(rand.NewPCG(5, 6))
	helped := must.Count(40, func(int) bool {
		drawn(&l, r, 1000, sigmoid)
		return l.Helps()
	})
	own, linked, _ := drawn(&l, r, 20_000, sigmoid)
	must.True(t, helped <= 0 && linked <= own+0.001, "it helps in %d of 40; log-loss %v, without %v", helped, linked, own)
	drawn(&l, r, 20_000, func(f float64) float64 { return 0.1 + 0.8*sigmoid(f) })
	must.Require(t, l.Helps(), "wrong labels are not noticed")
	drawn(&l, r, 6000, func(f float64) float64 { return sigmoid(2 * f) })
	must.True(t, !l.Helps(), "it is said to help where scores are log-odds again, and more")
}

// TestLinkOfSeveralClasses checks that all outputs share one function, and that unused outputs are ignored. With noisy
// labels the resulting probabilities must be nearly right.
func TestLinkOfSeveralClasses(t *testing.T) {
	r, l := rand.New(rand.NewPCG(7, 8)), NewLink()
	var before, after, n float64
	for i := range 30_000 {
		class := r.IntN(3)
		scores := []float64{-4, -4, -4, -1e5}
		scores[class] = 4
		if r.Float64() < 0.3 {
			class = r.IntN(3)
		}
		if i >= 10_000 {
			n++
			before += model.Decision{}.LogLoss(scores, class)
			after += model.Decision{Link: l.Latest()}.LogLoss(scores, class)
		}
		l.Take(scores, 3, class, 1)
	}
	least := -0.8*math.Log(0.8) - 0.2*math.Log(0.1)
	must.True(t, l.Helps() && after/n <= least+0.02 && before/n >= after/n+0.2, "log-loss %.3f, %.3f before, the least is %.3f", after/n, before/n, least)
	b := l.bins[0]
	must.True(t, b.weight == 0, "the output that is not in use has the weight %v", b.weight)
}

// TestLongLink checks that the sums in a Link stay finite in a long stream.
func TestLongLink(t *testing.T) {
	l := NewLink()
	drawn(&l, rand.New(rand.NewPCG(1, 2)), 3_000_000, func(float64) float64 { return 0.3 })
	own, linked, least := drawn(&l, rand.New(rand.NewPCG(1, 2)), 10_000, func(float64) float64 { return 0.3 })
	must.True(t, linked <= least+0.005 && own > linked && l.grown <= largest && l.gain.grown <= largest, "log-loss %v, the least %v, without %v, grown %v", linked, least, own, l.grown)
}

// TestLinkIsNotHasty checks that Helps is false before there are enough events, and that a large event weight counts as
// 1.
func TestLinkIsNotHasty(t *testing.T) {
	l, r := NewLink(), rand.New(rand.NewPCG(11, 12))
	half := func(float64) float64 { return 0.5 }
	drawn(&l, r, 450, half)
	must.True(t, !l.Helps(), "450 events are enough")
	drawn(&l, r, 1000, half)
	must.True(t, l.Helps(), "1,450 events are not enough")
	before := model.Decision{Link: l.Latest()}.Probability(3)
	l.Take([]float64{3}, 1, 1, 1e9)
	drawn(&l, r, 64, half)
	after := (model.Decision{Link: l.Latest()}).Probability(3)
	must.True(t, after <= before+0.05, "one event of a large weight moves a probability from %v to %v", before, after)
}

// TestInvalidLinks checks that inconsistent states are rejected.
func TestInvalidLinks(t *testing.T) {
	for name, spoil := range map[string]func(l *Link){
		"more ones than events": func(l *Link) { l.bins[3].ones = l.bins[3].weight + 1 },
		"a falling function":    func(l *Link) { l.latest.LogOdds[3] = 99 },
		"no growth":             func(l *Link) { l.grown = 0 },
	} {
		l, to := NewLink(), &coder.Coder{}
		drawn(&l, rand.New(rand.NewPCG(9, 10)), 3000, func(f float64) float64 { return 0.1 + 0.8*sigmoid(f) })
		spoil(&l)
		l.State(to)
		d, out := coder.Read(to.Out), NewLink()
		out.State(d)
		must.True(t, !d.Done(), "%s: it is taken", name)
	}
}
