package group

import (
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestFoldHistory checks the length of the fold's history. The history grows to maxHistory accepted commits and is then
// cut to the latest half. A delta from the oldest commit in the history is accepted, and a delta from an earlier commit
// is rejected.
func TestFoldHistory(t *testing.T) {
	fold := NewFold(newLearner(t), nil, event.Offsets{{Topic: "t"}})
	chains := []uint64{fold.chain} // chain hash before each offset of the commit log
	offset := int64(-1)
	skip := func() {
		t.Helper()
		offset++
		must.Do(t, fold.Skip(offset, &Skip{Fingerprint: fold.Fingerprint(), Gap: Gap{"t", 0, offset, offset + 1}}))
		chains = append(chains, fold.chain)
	}
	build := func(base int64) Reason {
		t.Helper()
		a := newAuthor(t, fold, 1, 2)
		a.learn(1, 0, 1)
		c, chunks := a.commit(fold).decode(t)
		c.Base, c.Chain = base, chains[base+1]
		offset++
		chains = append(chains, fold.chain)
		_, err := fold.Apply(offset, c, chunks)
		return reasonOf(err)
	}
	for range maxHistory - 1 {
		skip()
	}
	if len(fold.history) != maxHistory || fold.history[0].offset != -1 {
		t.Fatalf("%d links from %d on, want %d from the beginning on", len(fold.history), fold.history[0].offset, maxHistory)
	}
	skip()
	oldest := fold.history[0].offset
	if len(fold.history) != maxHistory/2+1 || oldest != maxHistory/2-1 {
		t.Fatalf("%d links from %d on, want %d from %d on", len(fold.history), oldest, maxHistory/2+1, maxHistory/2-1)
	}
	if r := build(oldest - 1); r != ReasonSnapshot {
		t.Errorf("behind what is remembered: %q, want %q", r, ReasonSnapshot)
	}
	if r := build(oldest); r != "" {
		t.Errorf("on the oldest that is remembered: %q", r)
	}
}

// TestFoldTopicID checks that a span is rejected if its topic was deleted and created again. If the span or the fold
// has no topic id, the topics count as the same.
func TestFoldTopicID(t *testing.T) {
	for _, test := range []struct {
		was, is, then string
		reason        Reason
	}{
		{"a", "a", "a", ""}, {"a", "", "a", ""}, {"", "b", "b", ""}, {"", "", "", ""}, {"a", "b", "a", ReasonSpan},
	} {
		fold := NewFold(newLearner(t), nil, nil)
		for i, id := range []string{test.was, test.is} {
			a := newAuthor(t, fold, 1, 2)
			a.learn(0, int64(10*i), int64(10*i+10))
			a.spans[0].TopicID = id
			c, chunks := a.commit(fold).decode(t)
			_, err := fold.Apply(int64(i), c, chunks)
			if want := test.reason; i == 1 && want != "" && reasonOf(err) != want || (i == 0 || want == "") && err != nil {
				t.Errorf("%+v: %v, want %s", test, err, want)
			}
		}
		if at, _ := fold.Offsets().Lookup("t", 0); at.TopicID != test.then {
			t.Errorf("%+v: the id is %q", test, at.TopicID)
		}
	}
}
