package batch_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestValidateByLevel checks the validation of a live model that predicts with several noise levels. The error of each
// event must be measured with the noise level that predicts it. The error at a deleted fraction must be the error of
// the noise level for that fraction.
func TestValidateByLevel(t *testing.T) {
	t.Parallel()
	s := eventtest.Schema(13, "", "a", "b")
	// One reading determines the class. The other readings are noisy copies of the first.
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]event.Example, 20_000)
	for i := range all {
		e := &all[i]
		*e = event.Example{Label: r.IntN(2), Weight: 1, Offset: int64(i)}
		strong := float64(2*e.Label-1) + 0.5*r.NormFloat64()
		for j := range uint16(13) {
			x := strong
			if j > 0 {
				x += 1.5 * r.NormFloat64()
			}
			e.Field = append(e.Field, j+1)
			eventtest.Put(e, uint32(j), x)
		}
		if i%10 == 0 && i%20 == 0 { // every 20th event: half of the holdout
			*e = *without(r, e, 0.6)
		}
	}
	report, live, exact := validated(t, s, all, func(c *online.Config) { c.Noise, c.MissingPolicy = "auto", "none" }, batch.DefaultValidateConfig())
	if len(live.Levels) == 0 || live.Missing.Levels[3] == 0 || exact.Levels != nil {
		t.Fatalf("levels %v, %d of the exact solution", live.Missing.Levels, len(exact.Levels))
	}
	for name, m := range map[string]struct {
		model *model.Linear
		said  float64
	}{"live": {live, *report.Live.Error}, "exact": {exact, *report.Exact.Error}} {
		wrong := 0.0
		for i := 0; i < len(all); i += 10 {
			if m.model.Predict(m.model.Score(&all[i], make([]float64, 1))) != all[i].Label {
				wrong += 100. / 2000
			}
		}
		if math.Abs(wrong-m.said) > 1e-9 {
			t.Errorf("%s: %v %% wrong, the validation says %v", name, wrong, m.said)
		}
	}
	alone, err := batch.NewEvidence(live.Alone()), error(nil)
	for i := 0; i < len(all) && err == nil; i += 10 {
		err = alone.HeldOut(&all[i])
	}
	for i := 1; i < len(all) && err == nil; i += 10 {
		err = alone.Learned(&all[i], 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise = live.Loss, live.Noise
	one, _ := must.Get2(alone.Validate(t.Context(), c))(t)
	for i, fraction := range report.Deletions {
		by, own := *report.Live.Robustness[i], *one.Live.Robustness[i]
		if another := live.Missing.Levels[model.MissingBin(fraction)] > 0 && fraction > 0; another == (by == own) {
			t.Errorf("%v deleted: error %v %%, of the published level %v, and level %d answers", fraction, by, own, live.Missing.Levels[model.MissingBin(fraction)])
		}
	}
}
