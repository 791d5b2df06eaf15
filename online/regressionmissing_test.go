package online_test

import (
	"fmt"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// Nine of ten targets lie in their interval for any number of missing fields, whether learned events had missing fields
// or not.
func TestIntervalCoversWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for i, lossName := range []string{"squared", "absolute", "poisson"} {
		for j, learned := range []float64{0, 0.3} {
			for k, missing := range []model.MissingPolicy{"auto", "none"} {
				if !longtest.Some(i+j+k, 2) {
					continue
				}
				c := online.DefaultConfig()
				c.Loss, c.MissingPolicy = lossName, string(missing)
				s := event.NewSchema(8, nil, 2)
				s.Target = loss.LabelsOf(lossName)
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					s.AddField(event.Field{Name: name, Kind: event.Numeric})
				}
				l := must.Get(online.New(c, s))
				events := synthetic.Correlated(9000, s.Target)
				for _, e := range synthetic.Blanked(events[:6000], learned, 1) {
					l.Learn(e, nil)
				}
				m := l.Snapshot().Model()
				if got := m.Missing.Policies[2].Largest(); missing == "auto" && got != model.MissingImpute {
					t.Errorf("%s: events that lack three tenths are answered by %s, where filling in halves the error", lossName, got)
				}
				for _, share := range []float64{0, 0.1, 0.3} {
					t.Run(fmt.Sprintf("%s/%s/learned with %v/%v", lossName, missing, learned, share), func(t *testing.T) {
						in := 0.0
						for _, e := range synthetic.Blanked(events[6000:], share, 2) {
							value := m.Value(m.Score(e, make([]float64, 1))[0])
							low, high := m.Interval(value, model.ScoreVariance(m, e))
							if low <= e.Target && e.Target <= high {
								in++
							}
						}
						in /= 3000
						if !(in > 0.87 && in < 0.93) {
							t.Errorf("%.3f of the targets lie within their interval", in)
						}
					})
				}
			}
		}
	}
}
