package online

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online/synthetic"
)

// While there is nothing that is old enough a Learner is judged as it is, and then no more.
func TestHorizonBegins(t *testing.T) {
	for _, c := range agedCases(1700) {
		t.Run(c.name, func(t *testing.T) {
			plain, ahead := c.learner(t), c.learner(t)
			ahead.config.ServingStaleness = 400
			for i, e := range c.events {
				learnGrowing(plain, e)
				learnGrowing(ahead, e)
				if i == 199 {
					sameShares(t, plain, ahead, true)
				}
				if newest := ahead.horizon.pasts[1]; newest.Learner == nil || ahead.events-newest.events >= 400 || ahead.older().k != ahead.k {
					t.Fatalf("event %d: what it was is too old, or knows other classes", i+1)
				}
				if age := ahead.events - ahead.older().events; i >= 200 && i < 1500 && (age < 200 || age > 600) {
					t.Fatalf("event %d is judged by weights %d events old", i+1, age)
				}
			}
			sameShares(t, plain, ahead, false)
			ahead.EndPass()
			learnGrowing(ahead, c.events[0])
			if ahead.older() != ahead || ahead.horizon.pasts[1].blocks != nil {
				t.Error("it is judged by what it was also in a second pass")
			}
		})
	}
}

func sameShares(t *testing.T, a, b *Learner, want bool) {
	t.Helper()
	if same := fmt.Sprint(a.shares.InForce) == fmt.Sprint(b.shares.InForce); same != want {
		t.Errorf("after %d events the shares are the same: %v, want %v", a.events, same, want)
	}
}

// What was said earlier by averages and by iterates decides which are published.
func TestHorizonJudgesAverages(t *testing.T) {
	blend := func(wrong int) float64 { // 0: iterates were wrong, 1: averages
		c := agedCases(600)[2]
		l := c.learner(t)
		for _, e := range c.events {
			prior := &Prediction{Learned: synthetic.Long, Scores: []float64{0}, Lanes: make([]float64, 2*l.n)}
			for j := range prior.Lanes {
				if prior.Lanes[j] = float64(2*e.Label - 1); j/l.n == wrong {
					prior.Lanes[j] *= -1
				}
			}
			l.Learn(e, prior)
		}
		return l.levels[0].AverageShare()
	}
	if iterates, averages := blend(1), blend(0); iterates != 0 || averages != 1 {
		t.Errorf("where averages were wrong their share is %v, where iterates were %v", iterates, averages)
	}
}

// Fields that are new since then are none to what the Learner was.
func TestHorizonMeetsNewFields(t *testing.T) {
	s, _ := synthetic.NumberFields(4)
	s.Fields, s.Classes = s.Fields[:len(s.Fields)-1], []string{"0", "1"}
	c := DefaultConfig()
	c.ServingStaleness = 300
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := synthetic.NumberFields(4)
	for i, e := range synthetic.AgedEvents(1000, 2) {
		if i < 400 {
			for len(e.Field) > 3 {
				e.Field, e.Features.Index, e.Features.Value = e.Field[:3], e.Features.Index[:3], e.Features.Value[:3]
			}
			e.Missing = nil
		} else if s.Fields = all.Fields; i == 400 {
			l.SetSchema(s)
		}
		if l.Learn(e, nil).Scores == nil {
			t.Fatalf("event %d was refused", i)
		}
	}
	if l.older() == l || len(l.older().scaling.Kinds) > len(all.Fields) {
		t.Error("nothing older tells")
	}
}

// A Learner that is restored, or copied, while it holds what it was comes to the same state.
func TestHorizonResumes(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range agedCases(3000) {
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			l.config.ServingStaleness = 300
			c.resumes(t, l, 1, 350, 1450, 1700)
		})
	}
}

// What it was is left where no horizon is wanted any more; damage to it is an error that names the block.
func TestHorizonBlocks(t *testing.T) {
	c := agedCases(1000)[0]
	l := c.learner(t)
	l.config.ServingStaleness = 300
	for _, e := range c.events {
		l.Learn(e, nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	ahead := slices.Clone(blocks)
	young := c.learner(t)
	for _, e := range c.events[:100] {
		young.Learn(e, nil)
	}
	youngBlocks, err := young.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	ahead = append(youngBlocks, slices.DeleteFunc(ahead, func(b event.Block) bool { return !strings.HasPrefix(b.Name, blockPast) })...)
	if _, err := Restore(l.config, ahead); err == nil || !strings.Contains(err.Error(), "of 100") {
		t.Errorf("what it was has learned more than it: %v", err)
	}
	none := l.config
	none.ServingStaleness = 0
	restored, err := Restore(none, blocks)
	if err != nil {
		t.Fatal(err)
	}
	after, err := restored.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	past := 0
	for i, b := range blocks {
		if !strings.HasPrefix(b.Name, blockPast) {
			continue
		}
		past++
		if strings.HasPrefix(b.Name, blockPast+"0/"+blockPast) || strings.Contains(b.Name, "/aged") {
			t.Errorf("block %s is no past's", b.Name)
		}
		if b.Name != pastPrefix(1)+"learner" {
			continue
		}
		broken := append([]event.Block(nil), blocks...)
		broken[i].Data = b.Data[:len(b.Data)/2]
		if _, err := Restore(l.config, broken); err == nil || !strings.Contains(err.Error(), "past/1/") {
			t.Errorf("half a past: %v", err)
		}
	}
	if past == 0 || len(after) != len(blocks)-past {
		t.Errorf("%d blocks of what it was among %d; without a horizon %d", past, len(blocks), len(after))
	}
	for _, n := range []int{-1, 99, 20_000_000} {
		c := DefaultConfig()
		c.ServingStaleness = n
		if _, err := c.parse(); err == nil || !strings.Contains(err.Error(), "serving_staleness") {
			t.Errorf("serving_staleness = %d: %v", n, err)
		}
	}
}

// What it was before it has adopted other weights says nothing of these.
func TestHorizonEndsWithAdoption(t *testing.T) {
	c := agedCases(700)[2]
	l := c.learner(t)
	l.config.ServingStaleness = 200
	for _, e := range c.events[:600] {
		l.Learn(e, nil)
	}
	if l.older() == l {
		t.Fatal("nothing older tells")
	}
	levels, _ := l.Snapshot().Levels()
	l.Adopt(levels, func(func(*event.Example)) {}, func() {})
	if l.Learn(c.events[600], nil); l.older() != l {
		t.Errorf("weights that were adopted are judged by what there was %d events ago", l.events-l.older().events)
	}
}
