package online_test

import (
	"maps"
	"slices"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
)

// A Clone continues with the same bits as the original, and learning with one does not change the other.
func TestClone(t *testing.T) {
	t.Parallel()
	for i, kind := range slices.Sorted(maps.Keys(streams)) {
		draw := streams[kind]
		for j, name := range []string{"default", "observed", "gaussian", "half-life", "calibrated", "silent too"} {
			if !longtest.Some(i+j, 2) {
				continue
			}
			c := plain()
			configs[name](&c)
			s, again, others := draw(9), draw(9), draw(10)
			l, alone := newLearner(t, c, s.schema), newLearner(t, c, again.schema)
			var copied *online.Learner
			for n := range 2400 {
				if n == 700 {
					copied = must.Get(l.Clone())
				}
				e, same := s.next(), again.next()
				got, want := slices.Clone(l.Learn(e, nil).Scores), alone.Learn(same, nil).Scores
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s: event %d: %v, without a copy %v", kind, name, n, got, want)
				}
				switch {
				case copied == nil:
				case n >= 1000:
					x := others.next()
					x.Weight = 2
					copied.Learn(x, nil)
				default:
					if p := copied.Learn(e, nil).Scores; !slices.Equal(p, want) {
						t.Fatalf("%s, %s: event %d: the copy says %v, not %v", kind, name, n, p, want)
					}
				}
			}
		}
	}
}
