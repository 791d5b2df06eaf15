package online

import (
	"math"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online/newton"
	"blankout/online/panel"
	"blankout/online/synthetic"
)

// paired returns a learner of tides of which two numbers die together, under noise of groups.
func pairedLearner(t *testing.T, s *synthetic.Tides, rule, noise string) *Learner {
	t.Helper()
	c := DefaultConfig()
	if c.Optimizer, c.Noise = rule, noise; noise == "auto" {
		c.ExpectedMissingGroups = 0.3
	}
	schema := s.Schema()
	schema.Fields[1].Group, schema.Fields[2].Group = "coast", "coast"
	l, err := New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The expert is told which numbers and hats die together, and what the levels say of each group: of all groups
// and the intercept it is the base score.
func TestSecondGroups(t *testing.T) {
	for _, classes := range []int{2, 3} {
		s := synthetic.NewTides(3, classes, 0)
		l := pairedLearner(t, s, "auto", "auto")
		told, intercepts := 0, make([]float64, l.k)
		for n := range 2600 {
			learns := l.second.expert.Learns()
			l.interceptsOf(l.shares.InForce[0].Levels, intercepts)
			e := s.Next()
			l.Learn(e, nil)
			if l.now.hasMoved || !learns || n < 50 {
				continue
			}
			told++
			g := l.second.groups
			for k, base := range l.second.base[:l.active] {
				sum := intercepts[k]
				for j := range g.Keys {
					sum += g.Sums[j*l.k+k]
				}
				if math.Abs(sum-base) > 1e-9*(1+math.Abs(base)) {
					t.Fatalf("%d classes, event %d: groups and intercept say %v, the base %v", classes, n, sum, base)
				}
			}
			of := map[uint32]int{}
			for i, column := range l.second.columns {
				source := l.scaling.Scaler.Curves.Source(column)
				if at, met := of[source]; met && at != g.Of[i] {
					t.Fatalf("event %d: a hat of column %d is of another group", n, source)
				}
				of[source] = g.Of[i]
			}
			if of[0] != of[1] || of[0] == of[2] || of[0] < 0 || of[2] < 0 {
				t.Fatalf("event %d: the groups are %v", n, of)
			}
		}
		if told < 1000 {
			t.Errorf("%d events are told", told)
		}
		size := func(e *panel.Panel) int {
			var c coder.Coder
			e.State(&c)
			return len(c.Out)
		}
		fresh := panel.New(newton.Settings{Loss: l.set.loss, Ridge: 1}, l.k, false)
		if fresh.Follow(l.second.expert.Columns()); size(l.second.expert) < size(fresh)+500 {
			t.Error("no noise of groups is summed up")
		}
	}
}

// Among the first events of several classes nobody knows yet how large values are: under noise of groups no
// step takes a score far past what its label calls for.
func TestFirstStepsOfGroups(t *testing.T) {
	schema := event.NewSchema(10, []string{"a", "b", "c"}, 3)
	schema.NumericIndices, schema.ColumnGroups = true, &event.ColumnGroups{Every: 4}
	for _, standardize := range []string{"all", "auto"} {
		c := DefaultConfig()
		c.Noise, c.Standardize, c.Optimizer = loss.GroupDropout{Groups: 0.5}.String(), standardize, "adagrad"
		l, err := New(c, schema)
		if err != nil {
			t.Fatal(err)
		}
		farthest := 0.0
		for n := range 40 {
			e := &event.Example{Weight: 1, Label: n % 3}
			for column := range uint32(40) {
				e.Features.Index, e.Features.Value = append(e.Features.Index, column), append(e.Features.Value, 100+float64(column%7)+float64(n*int(column)%5))
			}
			l.Learn(e, nil)
			l.resum()
			for _, f := range l.now.step.F[:l.active] {
				farthest = max(farthest, math.Abs(f))
			}
		}
		if farthest > map[string]float64{"all": 20, "auto": 4}[standardize] {
			t.Errorf("%s: an iterate says %v", standardize, farthest)
		}
	}
}
