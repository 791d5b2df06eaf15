package measure

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"blankout/internal/eventtest"
	"blankout/internal/must"
)

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
			predicted := eventtest.Class(e.f > 0)
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
