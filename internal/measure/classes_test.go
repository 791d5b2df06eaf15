package measure

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"blankout/internal/must"
)

// TestEvaluationAgainstTheDefinitions compares the measures with their definitions. AUC is the fraction of pairs in the
// right order. Average precision is summed threshold by threshold.
func TestEvaluationAgainstTheDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 200
	m := NewEvaluation(2)
	score, label, weight := make([]float64, n), make([]int, n), make([]float64, n)
	wrong, total, logLoss := 0.0, 0.0, 0.0
	for i := range n {
		label[i] = r.IntN(2)
		score[i] = float64(r.IntN(20)-10+3*label[i]) / 4 // includes ties
		weight[i] = float64(1 + r.IntN(3))
		p := 1 / (1 + math.Exp(-score[i]))
		predicted := must.Either(score[i] > 0, 1, 0)
		m.Add(label[i], weight[i], score[i:i+1], predicted, []float64{1 - p, p})
		if predicted != label[i] {
			wrong += weight[i]
		}
		total += weight[i]
		if label[i] == 0 {
			p = 1 - p
		}
		logLoss -= weight[i] * math.Log(p)
	}
	pairs, right := 0.0, 0.0
	for i := range n {
		for j := range n {
			if label[i] == 1 && label[j] == 0 {
				w := weight[i] * weight[j]
				pairs += w
				if score[i] > score[j] {
					right += w
				} else if score[i] == score[j] {
					right += w / 2
				}
			}
		}
	}
	ap, lastRecall := 0.0, 0.0
	for s := 10.0; s > -10; s -= 0.25 {
		hits, all, positives := 0.0, 0.0, 0.0
		for i := range n {
			if label[i] == 1 {
				positives += weight[i]
			}
			if score[i] >= s {
				all += weight[i]
				hits += weight[i] * float64(label[i])
			}
		}
		if all > 0 {
			ap += (hits/positives - lastRecall) * hits / all
			lastRecall = hits / positives
		}
	}
	off := 0.0
	for bin := range 15 {
		bar := 0.0 // sum of the probabilities minus the number of events of the class
		for i := range n {
			p := 1 / (1 + math.Exp(-math.Abs(score[i]))) // probability of the predicted class
			if p < float64(bin)/15 || p >= float64(bin+1)/15 {
				continue
			}
			if bar += weight[i] * p; (score[i] > 0) == (label[i] == 1) {
				bar -= weight[i]
			}
		}
		off += math.Abs(bar)
	}
	got := m.Report()
	for _, c := range []struct {
		name      string
		got       *float64
		want, tol float64
	}{
		{"error", got.Error, 100 * wrong / total, 1e-12},
		{"log loss", got.LogLoss, logLoss / total, 1e-12},
		{"auc", got.AUC, right / pairs, 1e-12},
		{"average precision", got.AveragePrecision, ap, 1e-12},
		{"calibration error", got.CalibrationError, off / total, 1e-12},
	} {
		if c.got == nil {
			t.Errorf("%s: none, want %v", c.name, c.want)
		} else if math.Abs(*c.got-c.want) > c.tol {
			t.Errorf("%s: %v, want %v", c.name, *c.got, c.want)
		}
	}
	sum := 0.0
	for _, row := range got.Confusion {
		for _, c := range row {
			sum += c
		}
	}
	must.True(t, sum == total, "the confusion matrix sums to %v, want %v", sum, total)
}

func TestEvaluationUndefined(t *testing.T) {
	m := NewEvaluation(2)
	r := m.Report()
	must.True(t, r.Error == nil && r.AUC == nil && r.Confusion == nil, "no example: %+v", r)
	m.Add(-1, 1, []float64{1}, 1, []float64{0.1, 0.9})
	r = m.Report()
	must.True(t, r.Examples == 1 && r.Error == nil, "no label: %+v", r)
	m.Add(1, 1, []float64{1}, 1, []float64{0.1, 0.9})
	r = m.Report()
	must.True(t, *r.Error == 0 && r.AUC == nil && *r.AveragePrecision == 1 && *r.MAP == 1, "one class: %+v", r)
	// A NaN score, from a model with huge weights, is measured too.
	m.Add(0, 1, []float64{math.NaN()}, 0, []float64{math.NaN(), math.NaN()})
	r = m.Report()
	must.True(t, r.CalibrationError == nil && len(r.Reliability) == 1 && r.AUC != nil, "no number: %+v", r)
}

// TestClasses compares the decayed sums after each event with sums over the whole history of events, weighted by the
// decay.
func TestClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, keep := range []float64{1, 0.9} {
		var c Classes
		weight, wrong, logLoss := 0.0, 0.0, 0.0
		for i := range 200 {
			right, w, l := r.IntN(3) > 0, float64(r.IntN(3)), r.ExpFloat64()
			c.Add(right, w, l, keep)
			k := math.Pow(keep, float64(199-i))
			weight += k * w
			logLoss += k * w * l
			if !right {
				wrong += k * w
			}
		}
		if math.Abs(c.Error()-wrong/weight) > 1e-12 || math.Abs(c.MeanLogLoss()-logLoss/weight) > 1e-12 {
			t.Errorf("keep %v: error %v and log-loss %v, want %v and %v", keep, c.Error(), c.MeanLogLoss(), wrong/weight, logLoss/weight)
		}
	}
}

func number(x float64) *float64 { return &x }

// TestStale checks that Stale lists the ages at which the weights predict worse than a constant prediction. Stale must
// compare log-losses or errors, and omit ages with too few events.
func TestStale(t *testing.T) {
	reports := []StaleLoss{
		{Events: 1000, Error: number(7), LogLoss: number(0.2)},
		{Age: 100, Events: 1000, Error: number(60), LogLoss: number(0.5), ConstantError: number(40), ConstantLogLoss: number(0.6)},
		{Age: 1000, Events: 1000, Error: number(30), LogLoss: number(0.7), ConstantError: number(40), ConstantLogLoss: number(0.6)},
		{Age: 10000, Events: 19, Error: number(99), LogLoss: number(9), ConstantError: number(40), ConstantLogLoss: number(0.6)},
	}
	for nats, want := range map[bool]string{true: "1000 events old they lose 0.7 nats, the class frequencies 0.6.", false: "100 events old they err 60 %, the most frequent class 40 %."} {
		got := Stale(reports, nats)
		must.True(t, strings.Contains(got, ": "+want) && !strings.Contains(got, "10000"), "%v: %q", nats, got)
	}
	reports[3].Events = 20
	got := Stale(reports, true)
	must.True(t, strings.Contains(got, "10000 events old"), "of 20 events: %q", got)
	reports[3].LogLoss, reports[2].LogLoss = number(0.9), number(0.65) // differences within chance
	must.Equal(t, Stale(reports[3:], true), "", "of a difference that is chance")
	reports[2].LogLoss = number(0.59)
	must.Equal(t, Stale(reports, true)+Stale([]StaleLoss{{Age: 100, Events: 999, Error: number(3), Deviance: number(8)}}, true), "")
}

// TestWorseThanConstant checks that WorseThanConstant warns if the class frequencies predict the events better than the
// model does.
func TestWorseThanConstant(t *testing.T) {
	r := ClassesReport{Examples: 100, Confusion: [][]float64{{60, 0}, {39, 1}}, Error: number(39), LogLoss: number(0.68)}
	got := -0.6*math.Log(0.6) - 0.4*math.Log(0.4)
	must.True(t, got < 0.68 && strings.Contains(r.WorseThanConstant(true), "log-loss 0.68 nats, that of the frequencies 0.673"), "%q, the entropy is %v", r.WorseThanConstant(true), got)
	must.Equal(t, r.WorseThanConstant(false), "")
	r.Error, r.LogLoss = number(41), number(0.67)
	if got := r.WorseThanConstant(false); !strings.Contains(got, "error 41 %, that of the class 40 %") || r.WorseThanConstant(true) != "" {
		t.Errorf("%q, %q", got, r.WorseThanConstant(true))
	}
	r.Examples = 99
	few := r.WorseThanConstant(false)
	r.Examples, r.Confusion = 100, [][]float64{{100, 0}, {0, 0}}
	one := r.WorseThanConstant(false)
	must.True(t, few == "" && one == "", "of few: %q, of one class: %q", few, one)
}

// TestBinaryMeasures compares the binned measures with their definitions over all events.
func TestBinaryMeasures(t *testing.T) {
	type event struct {
		f     float64
		label int
	}
	for _, fraction := range []float64{0.5, 0.01} {
		r := rand.New(rand.NewPCG(1, 2))
		b, events := &Binary{}, []event{}
		for range 20000 {
			e := event{r.NormFloat64() * 2, 0}
			if r.Float64() < fraction {
				e.label = 1
				e.f += 2.5
			}
			events = append(events, e)
			predicted := must.Either(e.f > 0, 1, 0)
			b.Add(e.label, predicted, 1, e.f, 1/(1+math.Exp(-e.f)))
		}
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(b.f, a.f) })
		auc, ap, positives, negatives := 0.0, 0.0, 0.0, 0.0
		for i, e := range events {
			if e.label == 1 {
				positives++
				ap += positives / float64(i+1)
			} else {
				negatives++
				auc += positives
			}
		}
		auc, ap = auc/(positives*negatives), ap/positives
		got := b.AUC()
		must.True(t, math.Abs(got-auc) <= 2e-3, "share %v: AUC %v, want %v", fraction, got, auc)
		got = b.AveragePrecision()
		must.True(t, math.Abs(got-ap) <= 2e-3+0.02*ap, "share %v: average precision %v, want %v", fraction, got, ap)
		above, right := 0.0, 0.0
		for _, e := range events {
			if e.f > 0 {
				above++
				right += float64(e.label)
			}
		}
		off := 0.0
		for bin := range 10 {
			bar := 0.0 // sum of the probabilities minus the number of events of the class
			for _, e := range events {
				if p := 1 / (1 + math.Exp(-e.f)); p >= float64(bin)/10 && p < float64(bin+1)/10 {
					bar += p - float64(e.label)
				}
			}
			off += math.Abs(bar) / float64(len(events))
		}
		got = b.CalibrationError()
		must.True(t, math.Abs(got-off) <= 1e-9, "share %v: calibration error %v, want %v", fraction, got, off)
		must.True(t, b.Precision() == right/above && b.Recall() == right/positives, "share %v: precision %v and recall %v, want %v and %v", fraction, b.Precision(), b.Recall(), right/above, right/positives)
	}
}

// TestFlipped checks that the measures of Flipped equal the measures with the other class as the positive one.
func TestFlipped(t *testing.T) {
	var one, other Binary
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		score := r.NormFloat64()
		label := int(math.Round(r.Float64()*.6 + .2*score/3))
		label = min(max(label, 0), 1)
		predicted, p := 0, 1/(1+math.Exp(-score))
		if score > .3 {
			predicted = 1
		}
		one.Add(label, predicted, 2, score, p)
		other.Add(1-label, 1-predicted, 2, -score, 1-p)
	}
	got := one.Flipped()
	for name, f := range map[string]func(*Binary) float64{
		"AUC": (*Binary).AUC, "average precision": (*Binary).AveragePrecision, "precision": (*Binary).Precision, "recall": (*Binary).Recall, "calibration": (*Binary).CalibrationError,
	} {
		a, b := f(got), f(&other)
		must.True(t, math.Abs(a-b) < 1e-9, "%s: %v, want %v", name, a, b)
	}
	must.True(t, *got.Flipped() == one || math.Abs(got.Flipped().AveragePrecision()-one.AveragePrecision()) < 1e-12, "twice flipped is not as before")
}

func TestScoreBin(t *testing.T) {
	check := func(f float64) {
		exact := scoreBins/2 + 24*math.Asinh(2*f)
		if f != 0 && math.Abs(exact-math.Round(exact)) < 1e-9 {
			return // the score is on an edge, where rounding decides the bin
		}
		got, want := scoreBin(f), int(max(0, min(math.Floor(exact), scoreBins-1)))
		must.True(t, got == want, "scoreBin(%g) = %d, want %d", f, got, want)
	}
	for _, f := range []float64{0, 1e-300, 1e-9, 103, 104, 1e9, 1e200, math.MaxFloat64} {
		check(f)
		check(-f)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(math.Sinh(6*r.NormFloat64()/2) / 2)
	}
}

// TestBinaryAgainstEvaluation compares the binned measures with the measures of the exact scores, with any weights.
// Every score is the center of a bin, so they must be equal.
func TestBinaryAgainstEvaluation(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	var b Binary
	e := NewEvaluation(2)
	for range 3000 {
		label, bin := r.IntN(2), 100+r.IntN(40)
		if label == 1 {
			bin += 9
		}
		f, weight := math.Sinh((float64(bin-scoreBins/2)+0.5)/24)/2, 0.25*float64(r.IntN(9))
		b.Add(label, 0, weight, f, 0.5)
		e.Add(label, weight, []float64{f}, 0, []float64{0.5, 0.5})
	}
	report := e.Report()
	must.True(t, b.AUC() == *report.AUC && b.AveragePrecision() == *report.AveragePrecision && b.AUC() >= 0.5 && b.AUC() <= 0.95,
		"AUC %v and average precision %v in bins, %v and %v by the scores", b.AUC(), b.AveragePrecision(), *report.AUC, *report.AveragePrecision)
	all := b.Thresholds()
	last := all[len(all)-1]
	must.True(t, last.Positives+last.Negatives == e.sums.Weight && slices.IsSortedFunc(all, func(x, y Threshold) int { return cmp.Compare(y.Score, x.Score) }),
		"%+v: want the weight of all events, %v, last", all, e.sums.Weight)
}

// TestSums checks that Sums contains a pointer to every field once. A field that Sums omits would be neither saved nor
// merged.
func TestSums(t *testing.T) {
	var b Binary
	var c Classes
	var n Numbers
	for _, x := range []struct {
		name string
		sums []*float64
		size uintptr
	}{{"Binary", b.Sums(), unsafe.Sizeof(b)}, {"Classes", c.Sums(), unsafe.Sizeof(c)}, {"Numbers", n.Sums(), unsafe.Sizeof(n)}} {
		distinct := map[*float64]bool{}
		for _, p := range x.sums {
			distinct[p] = true
		}
		size := uintptr(8 * len(distinct))
		must.True(t, size == x.size && len(distinct) == len(x.sums), "%s: %d sums, %d of them different, in %d bytes", x.name, len(x.sums), len(distinct), x.size)
	}
}
