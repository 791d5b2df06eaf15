package online_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
)

// grownClasses returns settings with which classes can be added while learning.
func grownClasses() map[string]online.Config {
	all := map[string]online.Config{}
	for _, r := range optimizers.Table {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise = r.Name, "dropout:0.3"
		switch r.Name {
		case "irls":
			c.IRLSBatch = 20
		case "adagrad":
			c.IRLSBatch, c.IRLSWindow = 20, 60
		}
		all[r.Name] = c
	}
	bank, groups, scaled := online.DefaultConfig(), online.DefaultConfig(), online.DefaultConfig()
	groups.Noise = "dropout:0.1+group:0.3"
	scaled.Noise, scaled.HalfLife, scaled.OnDrift = "gaussian:0.1", 300, "forget"
	all["bank"], all["groups"], all["gaussian"] = bank, groups, scaled
	return all
}

// TestWidenRestart checks that a restored Learner continues with the same bytes, both if classes are added before and
// if they are added after the restart.
func TestWidenRestart(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	all := grownClasses()
	for k, name := range slices.Sorted(maps.Keys(all)) {
		if !longtest.Some(k, 2) {
			continue
		}
		c := all[name]
		l, s := newTwins(t, c, sensorSchema()), synthetic.NewSensors(6)
		l.schema.MaxClasses, l.schema.Classes = 100, []string{"no", "yes", "c", "d", "e"}
		s.Lost, s.Absent = 0.3, true
		for i := range 1601 {
			if slices.Contains([]int{300, 401, 1399, 1450, 1600}, i) {
				l.same(t, fmt.Sprintf("%s, %d events", name, i))
				l.restart()
			}
			e := s.Next()
			switch {
			case i >= 1400:
				e.Label = i % 5
			case i >= 400:
				e.Label = i % 3
			}
			l.Learn(e, nil)
		}
	}
}
