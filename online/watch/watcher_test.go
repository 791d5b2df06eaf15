package watch

import (
	"slices"
	"strconv"
	"testing"

	"blankout/internal/coder"
)

// scoreByHour tells the mean score by the hour of the day.
type scoreByHour struct {
	Idle
	n, sum [24]float64
}

func (s *scoreByHour) Name() string { return "score-by-hour" }

func (s *scoreByHour) Copy(from Watcher) { *s = *from.(*scoreByHour) }

func (s *scoreByHour) State(c *coder.Coder) {
	for i := range s.n {
		c.Each(&s.n[i], &s.sum[i])
	}
}

func (s *scoreByHour) Sums(c *coder.Coder) { s.State(c) }

func (s *scoreByHour) Tell(t *Told) {
	at := t.Time / hour % 24
	s.n[at]++
	s.sum[at] += t.Score
}

func (s *scoreByHour) Merge(base, now Watcher) {
	for i := range s.n {
		s.n[i] += now.(*scoreByHour).n[i] - base.(*scoreByHour).n[i]
		s.sum[i] += now.(*scoreByHour).sum[i] - base.(*scoreByHour).sum[i]
	}
}

func (s *scoreByHour) Figures() (out []Figure) {
	for i, n := range s.n {
		if n > 0 {
			out = append(out, Figure{strconv.Itoa(i), s.sum[i] / n})
		}
	}
	return out
}

// A Watcher is a file and a line: what it counts is told, saved, copied and merged without more.
func TestWatcherIsALine(t *testing.T) {
	begin := func() *Watch {
		w := New()
		w.list = append(w.list, &scoreByHour{})
		return w
	}
	tell := func(w *Watch, hours int64, score float64) {
		w.Told(Told{Number: 1, Time: hours * hour, Weight: 1, Score: score})
	}
	w := begin()
	tell(w, 3, 1)
	tell(w, 27, 2)
	want := []Figure{{"3", 1.5}}
	if got := w.Figures()["score-by-hour"]; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c := &coder.Coder{}
	w.Block(c)
	again := begin()
	if again.Block(coder.Read(c.Out)); !slices.Equal(again.Figures()["score-by-hour"], want) {
		t.Errorf("saved and read: %v", again.Figures())
	}
	New().Block(coder.Read(c.Out)) // where nobody knows its part
	older := &coder.Coder{}
	New().Block(older)
	if again.Block(coder.Read(older.Out)); !slices.Equal(again.Figures()["score-by-hour"], want) {
		t.Errorf("a file without its part changes it: %v", again.Figures())
	}
	// What another counts between two states is added.
	member := begin()
	member.Block(coder.Read(c.Out))
	base := begin()
	base.Block(coder.Read(c.Out))
	tell(member, 3, 6)
	tell(member, 4, 7)
	sums := &coder.Coder{}
	member.SumsState(sums)
	now := begin()
	now.SumsState(coder.Read(sums.Out))
	w.Merge(base, now)
	if got := w.Figures()["score-by-hour"]; !slices.Equal(got, []Figure{{"3", 3}, {"4", 7}}) {
		t.Errorf("merged: %v", got)
	}
}
