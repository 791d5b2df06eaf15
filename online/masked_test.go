package online_test

import (
	"math"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// TestLevelsByMissing checks that levels with high noise get most mixture weight for events with many missing fields.
// The learner must find this from masks or from events with missing fields. The error must be lower than with one
// level, and the forecast must match the error.
func TestLevelsByMissing(t *testing.T) {
	longtest.NotRaced(t)
	for _, learned := range []float64{0, 0.5} {
		c := online.DefaultConfig()
		c.MissingPolicy = "none"
		l := must.Get(online.New(c, synthetic.OneStrongSchema()))(t)
		for k, e := range synthetic.OneStrong(12_000, 0, 1) {
			if learned > 0 && k%3 == 0 {
				e = synthetic.OneStrong(1, learned, uint64(k))[0]
			}
			l.Learn(e, nil)
		}
		m := l.Snapshot().Model()
		var wrong [2]float64
		test := synthetic.OneStrong(8000, 0.6, 2)
		for _, e := range test {
			scores := m.Score(e, make([]float64, 1))
			live := scoresOf(l, e)
			must.Require(t, math.Abs(live[0]-scores[0]) <= 1e-12, "live %v, published %v", live, scores)
			for i, of := range []*model.Linear{m.Alone(), m} {
				if of.Predict(of.Score(e, scores)) != e.Label {
					wrong[i] += 100 / float64(len(test))
				}
			}
		}
		metrics := l.Report()
		must.Require(t, len(m.Levels) != 0 && m.Missing.Levels[3] != 0, "learned with %v: shares are answered by %v of %v", learned, m.Missing.Levels, metrics.LevelsByMissing)
		must.True(t, metrics.LevelsByMissing[3] == m.Levels[m.Missing.Levels[3]-1].Noise, "%v, but the model has %+v", metrics.LevelsByMissing, m.Levels)
		got := 100 * metrics.Forecast.Declared[6].Error
		must.True(t, learned != 0 || math.Abs(got-wrong[1]) <= 3, "learned with %v null: forecast %.2f %%, %.2f are wrong", learned, got, wrong[1])
		// with missing fields in the stream, all noise levels learn from such events
		must.True(t, (learned != 0 || wrong[1] < wrong[0]-4) && wrong[1] < wrong[0]+0.2,
			"learned with %v null: %.2f %% wrong by the weights of whole events, %.2f by those of the share", learned, wrong[0], wrong[1])
	}
}
