package group

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/internal/must"
	"blankout/online"
	"blankout/stream"
)

// TestFoldSkips checks that a skip is applied only once, and only if it starts where its partition ends. Earlier
// commits for other partitions must still be accepted, and a snapshot must contain the skip.
func TestFoldSkips(t *testing.T) {
	fold := NewFold(newLearner(t), nil, nil)
	first, other := newAuthor(t, fold, 1, 2), newAuthor(t, fold, 2, 2)
	first.learn(0, 5, 15)
	offset := int64(-1)
	apply := func(a *author) error {
		offset++
		c, chunks := a.commit(fold).decode(t)
		_, err := fold.Apply(offset, c, chunks)
		return err
	}
	must.Do(t, apply(first))
	other.begin(t, fold, 2)
	other.learn(1, 0, 10)
	first.begin(t, fold, 2)
	first.learn(0, 15, 25)
	before := foldBytes(t, fold)
	skip := &Skip{Fingerprint: fold.Fingerprint(), Author: MemberID{9}, Gap: Gap{"t", 0, 15, 40}}
	for _, wrong := range []struct {
		reason Reason
		to     func(*Skip)
	}{
		{ReasonSettings, func(s *Skip) { s.Fingerprint++ }},
		{ReasonSpan, func(s *Skip) { s.From = 14 }},
		{ReasonSpan, func(s *Skip) { s.From = 16 }},
		{ReasonSpan, func(s *Skip) { s.To = 15 }},
		{ReasonSpan, func(s *Skip) { s.Partition = 1 }},
		{ReasonSpan, func(s *Skip) { s.Topic = "other" }},
	} {
		bad, err := DecodeSkip(skip.Encode())
		if err != nil || *bad != *skip {
			t.Fatal(bad, err)
		}
		wrong.to(bad)
		offset++
		if err := fold.Skip(offset, bad); reasonOf(err) != wrong.reason {
			t.Errorf("%+v: %v, want %s", bad, err, wrong.reason)
		}
	}
	if len(fold.Skipped()) > 0 || fold.Accepted() != 1 || fold.Rejected()[ReasonSpan] != 5 || fold.Rejected()[ReasonSettings] != 1 {
		t.Errorf("%v, %d accepted, %v", fold.Skipped(), fold.Accepted(), fold.Rejected())
	}
	_, chain := fold.Base()
	offset++
	must.Do(t, fold.Skip(offset, skip))
	if _, after := fold.Base(); after == chain || fold.Accepted() != 2 || bytes.Equal(before, foldBytes(t, fold)) {
		t.Error("the skip is not in the chain")
	}
	if at, _ := fold.Offsets().Lookup("t", 0); at.First != 5 || at.Next != 40 || at.Records != 10 || !slices.Equal(fold.Skipped(), []Gap{skip.Gap}) {
		t.Errorf("%+v, %v", at, fold.Skipped())
	}
	if err := apply(first); reasonOf(err) != ReasonSpan {
		t.Errorf("records that are passed over: %v", err)
	}
	if err := apply(other); err != nil {
		t.Errorf("another partition's: %v", err)
	}
	offset++
	if err := fold.Skip(offset, skip); reasonOf(err) != ReasonSpan {
		t.Errorf("a second time: %v", err)
	}
	again, err := ReadFold(online.DefaultConfig().ForGroup(), nil, slices.Collect(must.Get(fold.EachBlock())(t)))
	if err != nil || !bytes.Equal(foldBytes(t, fold), foldBytes(t, again)) || !slices.Equal(again.Skipped(), fold.Skipped()) {
		t.Errorf("read again: %v", err)
	}
	first.begin(t, again, 2)
	first.learn(0, 40, 50)
	c, chunks := first.commit(again).decode(t)
	for _, f := range []*Fold{fold, again} {
		if _, err := f.Apply(offset+1, c, chunks); err != nil {
			t.Errorf("behind it: %v", err)
		}
	}
	if !bytes.Equal(foldBytes(t, fold), foldBytes(t, again)) {
		t.Error("the applies differ")
	}
	// A snapshot may be due after a skip, as after an accepted commit.
	replica := &replica{fold: again, every: fold.Accepted() + 1, floorsAt: map[int64][]int64{}}
	if _, due, err := replica.apply(mixed{offset: offset + 2, skip: &Skip{Fingerprint: fold.Fingerprint(), Gap: Gap{"t", 0, 50, 60}}}); err != nil || !due || replica.read != offset+3 {
		t.Errorf("a snapshot is due: %v, at %d, %v", due, replica.read, err)
	}
}

// TestGroupSkips checks that every member stops with an error if events were deleted before they were learned. The
// error must name the command that skips these events. After the skip all members, including later ones, must continue
// at the same offset.
func TestGroupSkips(t *testing.T) {
	e := newEvents(t, 2, 400)
	ctx, _ := limited(t)
	e.complete.Store(true)
	m := e.member(testLog(t, "first"))
	m.Until = e.all
	must.Do(t, m.Run(ctx))
	e.produce(300)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(e.broker.ListenAddrs()...)))(t)
	defer client.Close()
	deletes := kadm.Offsets{}
	deletes.AddOffset("events", 1, 550, -1)
	must.Get(kadm.NewClient(client).DeleteRecords(ctx, deletes))(t)
	advice := "blankout group skip g events/1 550"
	var out *stream.OffsetOutOfRangeError
	if err := e.member(testLog(t, "stopped")).Run(ctx); !errors.As(err, &out) || !strings.Contains(err.Error(), "events/1: offset 400 is out of range, the log holds 550 to 700: the log has lost 150 records before it; ") || !strings.Contains(err.Error(), advice) {
		t.Fatal(err)
	}
	for _, wrong := range []struct {
		topic     string
		partition int32
		to        int64
		want      string
	}{
		{"events", 1, 400, "is already at offset 400"},
		{"events", 1, 549, "name an offset from 550 to 700"},
		{"events", 1, 701, "name an offset from 550 to 700"},
		{"events", 7, 550, "has learned nothing of this partition"},
		{"else", 1, 550, "has learned nothing of this partition"},
	} {
		var refused *SkipError
		if _, err := SkipTo(ctx, e.member(testLog(t, "skips")), wrong.topic, wrong.partition, wrong.to); !errors.As(err, &refused) || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	gap, err := SkipTo(ctx, e.member(testLog(t, "skips")), "events", 1, 550)
	if want := (Gap{"events", 1, 400, 550}); err != nil || gap != want {
		t.Fatal(gap, err)
	}
	// Checks two members, and a third member that starts after all events are learned.
	all := func(s *Status) bool {
		a, _ := s.Positions.Lookup("events", 0)
		b, _ := s.Positions.Lookup("events", 1)
		return a.Next == 700 && b.Next == 700
	}
	var seen snapshots
	var running members
	members := make([]*Member, 3)
	for i := range members {
		if i == 2 {
			running.Wait()
		}
		m := e.member(testLog(t, fmt.Sprint(i)))
		m.Observe, m.Until = seen.observe, all
		members[i] = m
		running.start(t, ctx, i, m)
	}
	running.Wait()
	seen.one(t)
	for i, m := range members {
		s := m.Status()
		if s == nil {
			t.Fatalf("member %d has no status", i)
		}
		if at, _ := s.Positions.Lookup("events", 1); at.First != 0 || at.Next != 700 || at.Records != 550 || !slices.Equal(s.Skipped, []Gap{gap}) || s.Chain != members[0].Status().Chain {
			t.Errorf("member %d: %+v, %v, %s", i, at, s.Skipped, s.Chain)
		}
	}
	e.fresh(members[0].Status())
	if r := e.inspect(); !slices.Equal(r.Skipped, []Gap{gap}) || r.Verified() != nil {
		t.Errorf("%+v", r)
	}
}

// TestSkipWhileLearning checks that all members apply a skip at the same position. A commit with records of the gap
// must be rejected, and its author must continue after the gap.
func TestSkipWhileLearning(t *testing.T) {
	e := newEvents(t, 2, 500)
	ctx, _ := limited(t)
	var seen snapshots
	var running members
	members := make([]*Member, 2)
	member := func(name string) *Member {
		m := e.member(testLog(t, name))
		// The interval is long, so that the test can write a skip between two commits of the partition even on a busy
		// machine.
		m.Config.IntervalMin, m.Config.IntervalMax = 10_000, 2*time.Second
		return m
	}
	for i := range members {
		m := member(fmt.Sprint(i))
		m.Observe = seen.observe
		m.Until = func(s *Status) bool {
			at, _ := s.Positions.Lookup("events", 0)
			other, _ := s.Positions.Lookup("events", 1)
			return e.complete.Load() && at.Next == int64(e.counts[0]) && other.Next == int64(e.counts[1])
		}
		members[i] = m
		running.start(t, ctx, i, m)
	}
	skipped := []Gap{}
	for len(skipped) < 3 && ctx.Err() == nil {
		e.produce(300)
		to := int64(e.counts[0]) - 20
		if gap, err := SkipTo(ctx, member("skips"), "events", 0, to); err == nil {
			skipped = append(skipped, gap)
		} else {
			t.Log(err)
		}
	}
	e.complete.Store(true)
	running.Wait()
	seen.one(t)
	lost := int64(0)
	for _, g := range skipped {
		lost += g.To - g.From
	}
	for i, m := range members {
		s := m.Status()
		at, _ := s.Positions.Lookup("events", 0)
		if int64(at.Records)+lost != int64(e.counts[0]) || !slices.Equal(s.Skipped, skipped) {
			t.Errorf("member %d: %d learned and %d passed over of %d: %v", i, at.Records, lost, e.counts[0], s.Skipped)
		}
		t.Logf("member %d: %d refused, %v", i, s.Refused, s.Rejected)
	}
}

// TestBeginFromGroup checks that a group can start from another group's newest snapshot, also with changed settings
// that a checkpoint would allow. The commit log of the other group must not be accepted by the new fold.
func TestBeginFromGroup(t *testing.T) {
	e := newEvents(t, 2, 500)
	ctx, _ := limited(t)
	e.complete.Store(true)
	old := e.member(testLog(t, "old"))
	old.Until = e.all
	must.Do(t, old.Run(ctx))
	events := old.Status().Learner.Events
	from := func(name string) *Member {
		m := e.member(testLog(t, name))
		m.Config.Name, m.From = "new", "g"
		m.Config.SnapshotEvery, m.Config.Partitions, m.Learner.MissingPolicy = 3, 3, "rescale"
		return m
	}
	other := from("other settings")
	other.Learner.LearningRate = 0.25
	var settings *SettingsError
	if err := other.Run(ctx); !errors.As(err, &settings) || !strings.Contains(err.Error(), `learning_rate: was "0", is "0.25"`) {
		t.Errorf("other settings: %v", err)
	}
	nobody := from("nobody")
	nobody.Config.Name, nobody.From = "next", "nobody"
	var missing *stream.TopicMissingError
	if err := nobody.Run(ctx); !errors.As(err, &missing) || !strings.Contains(err.Error(), "beginning from group nobody: ") {
		t.Errorf("no group: %v", err)
	}
	e.complete.Store(false)
	var seen snapshots
	var running members
	members := make([]*Member, 2)
	for i := range members {
		m := from(fmt.Sprint(i))
		m.Observe, m.Until = seen.observe, e.all
		members[i] = m
		running.start(t, ctx, i, m)
	}
	for _, m := range members {
		for m.Status() == nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if s := m.Status(); s == nil || s.Learner.Events < events {
			t.Fatalf("it begins with %+v, want %d events", s, events)
		}
	}
	inspected := func() *Report {
		t.Helper()
		m := from("inspect")
		m.From = ""
		return must.Get(Inspect(ctx, m))(t)
	}
	if r := inspected(); r.Events < events {
		t.Errorf("before its first commit it has %d events, want %d", r.Events, events)
	}
	for range 5 {
		e.produce(200)
	}
	e.complete.Store(true)
	running.Wait()
	seen.one(t)
	s := members[0].Status()
	e.check(s)
	if got := s.Learner.Events; got <= events || s.Accepted == 0 || s.Rejected[ReasonSnapshot] > 0 {
		t.Errorf("%d events after %d, %d accepted, %v", got, events, s.Accepted, s.Rejected)
	}
	if r := inspected(); r.Accepted != s.Accepted || r.Verified() != nil {
		t.Errorf("%+v", r)
	}
	// From is ignored once the group has started.
	again := from("again")
	again.From = "nobody"
	again.Until = e.all
	if err := again.Run(ctx); err != nil || again.Status().Chain != s.Chain {
		t.Errorf("again: %v", err)
	}
	// A group that has a commit log, but no snapshot, was started without another group. Starting it from another group
	// must fail.
	begun := from("begun")
	begun.Config.MixTopic, begun.Config.SnapshotTopic = "new-commits", "none-snapshots"
	if err := begun.Run(ctx); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("begun: %v", err)
	}
}

// TestFromGroupWithoutItsSnapshot loses the first snapshot of a group that started from another group, before its
// members have written another snapshot. No member may start with an empty model.
func TestFromGroupWithoutItsSnapshot(t *testing.T) {
	e := newEvents(t, 2, 500)
	ctx, _ := limited(t)
	e.complete.Store(true)
	old := e.member(testLog(t, "old"))
	old.Until = e.all
	must.Do(t, old.Run(ctx))
	e.produce(200)
	m := e.member(testLog(t, "new"))
	m.Config.Name, m.From, m.Config.SnapshotEvery, m.Until, m.crash = "new", "g", 1000, e.all, func() bool { return true }
	must.Do(t, m.Run(ctx))
	inspected := e.member(testLog(t, "inspect"))
	inspected.Config.Name, inspected.Config.SnapshotEvery = "new", 1000
	if r, err := Inspect(ctx, inspected); err != nil || r.Accepted != m.Status().Accepted || r.Rejected[ReasonSnapshot] > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	lost := e.member(testLog(t, "lost"))
	lost.Config.Name, lost.Config.SnapshotTopic = "new", "none-snapshots"
	if err := lost.Run(ctx); err == nil || !strings.Contains(err.Error(), "has another start") {
		t.Errorf("without the snapshot: %v", err)
	}
	// After another snapshot is written, a member can start from it and apply the commit log.
	e.produce(200)
	next := e.member(testLog(t, "next"))
	next.Config.Name, next.Config.SnapshotEvery, next.Until = "new", 1000, e.all
	must.Do(t, next.Run(ctx))
	c := stream.DefaultProducerConfig()
	c.ConnectConfig, c.Topic = e.connect(), "new-snapshots"
	p, err := stream.NewProducer(ctx, c)
	if err == nil {
		_, err = p.Append(ctx, 0, stream.Message{Key: fmt.Appendf(nil, "snapshot/%020d", 0)})
		p.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Inspect(ctx, inspected); err != nil || r.From == 0 || r.Accepted != next.Status().Accepted || r.Chain != next.Status().Chain {
		t.Errorf("%+v, %v", r, err)
	}
}
