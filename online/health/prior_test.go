package health

import (
	"strings"
	"testing"

	"blankout/internal/coder"
)

// TestDivergenceIsNamed checks that huge scores are reported as divergence, even if a link keeps the log-loss small. A
// high log-loss without huge scores must not be reported as divergence.
func TestDivergenceIsNamed(t *testing.T) {
	for _, c := range []struct {
		score, loss float64
		want        string
	}{{1e6, 269064, "learning has diverged"}, {-1e6, .69, "learning has diverged"}, {4, 3, "a growing field"}, {4, .1, ""}} {
		w := &Counts{}
		for i := range 2 * priorBlock {
			w.Prior.Take(i/2%2, 2, c.loss, c.score, uint64(i)+1)
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
