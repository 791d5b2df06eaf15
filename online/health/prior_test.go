package health

import (
	"math"
	"strings"
	"testing"

	"blankout/internal/coder"
)

// TestPriorOfRareClass checks that predictions which are as good as the class frequencies so far are not called worse:
// in blocks with one class, whose frequencies have no loss by hindsight, and by less than chance. Worse predictions
// are.
func TestPriorOfRareClass(t *testing.T) {
	for name, c := range map[string]struct {
		every int     // one label of so many is the rare one
		p     float64 // predicted probability of the rare class, in proportion to its rate
		worse bool
	}{"rare": {3000, 1, false}, "half": {2, 1.02, false}, "overconfident": {20, 10, true}} {
		w := &Counts{}
		for i := range 5 * priorBlock {
			label := 0
			if i%c.every == c.every/2 {
				label = 1
			}
			p := c.p / float64(c.every)
			loss := -math.Log(1 - p)
			if label == 1 {
				loss = -math.Log(p)
			}
			e := &LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Label: label, Weight: 1, Loss: loss}
			w.Measures.Take(e)
			w.Prior.Take(1, loss, w.Baselines.Tell(e), 1, e.Number)
			if !c.worse && w.Prior.Exceeded {
				t.Errorf("%s, event %d: %+v", name, i+1, w.Prior)
				break
			}
		}
		if w.Prior.Exceeded != c.worse {
			t.Errorf("%s: %+v", name, w.Prior)
		}
		warned := false
		for _, x := range w.Warnings(Stream{Events: 5 * priorBlock, Classes: []string{"a", "b"}}) {
			warned = warned || x.Kind == WarnPrior
		}
		if warned != c.worse {
			t.Errorf("%s: warned %v, want %v", name, warned, c.worse)
		}
	}
}

// TestDivergenceIsNamed checks that huge scores are reported as divergence, even if a link keeps the log-loss small. A
// high log-loss without huge scores must not be reported as divergence.
func TestDivergenceIsNamed(t *testing.T) {
	for _, c := range []struct {
		score, loss float64
		want        string
	}{{1e6, 269064, "learning has diverged"}, {-1e6, .69, "learning has diverged"}, {4, 3, "a growing field"}, {4, .1, ""}} {
		w := &Counts{}
		for i := range 2 * priorBlock {
			w.Prior.Take(2, c.loss, math.Ln2, c.score, uint64(i)+1)
			w.Measures.Take(&LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Label: i / 2 % 2, Predicted: i / 2 % 2, Weight: 2, Loss: c.loss})
		}
		got := ""
		for _, x := range w.Warnings(Stream{Events: 2 * priorBlock}) {
			got += x.Text
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "has diverged") && strings.Contains(got, "a growing field") {
			t.Errorf("scores of %v, log-loss %v: %q", c.score, c.loss, got)
		}
		out := &coder.Coder{}
		w.Prior.State(out)
		var again Prior
		if again.State(coder.Read(out.Out)); again.Size != w.Prior.Size || again.size != w.Prior.size || again.Diverged() != w.Prior.Diverged() {
			t.Errorf("%+v, saved %+v", again, w.Prior)
		}
	}
}
