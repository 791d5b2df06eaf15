package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream"
	records "blankout/stream/record"
)

// events is a topic of events on a test broker.
type events struct {
	t          testing.TB
	broker     *kfake.Cluster
	partitions int32
	counts     []uint64    // number of records by partition
	sums       []uint64    // sum of the records' fingerprints, by partition
	complete   atomic.Bool // no more records will be produced
}

// newEvents produces the given number of events to each partition.
func newEvents(t testing.TB, partitions int32, each int, options ...kfake.Opt) *events {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	broker := must.Get(kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events"), kfake.GroupMinSessionTimeout(100*time.Millisecond))...))(t)
	t.Cleanup(broker.Close)
	e := &events{t: t, broker: broker, partitions: partitions, counts: make([]uint64, partitions), sums: make([]uint64, partitions)}
	e.produce(each)
	return e
}

func (e *events) connect() stream.ConnectConfig {
	c := stream.DefaultConnectConfig()
	c.Brokers = e.broker.ListenAddrs()
	return c
}

func (e *events) produce(each int) {
	e.t.Helper()
	c := stream.DefaultProducerConfig()
	c.ConnectConfig, c.Topic = e.connect(), "events"
	p := must.Get(stream.NewProducer(e.t.Context(), c))(e.t)
	defer p.Close()
	for i := range e.partitions {
		r := rand.New(rand.NewPCG(uint64(i), e.counts[i]))
		for range each {
			x, word := r.NormFloat64(), r.IntN(50)
			label := "no"
			if x+float64(word%5)/2-1+r.NormFloat64()/2 > 0 {
				label = "yes"
			}
			value := fmt.Appendf(nil, `{"label":%q,"x":%.4f,"word":"w%d"}`, label, x, word)
			if r.IntN(500) == 0 {
				value = []byte(`{"no event`)
			}
			must.Do(e.t, p.WriteTo(e.t.Context(), i, stream.Message{Value: value}))
			e.sums[i] += records.Fingerprint(int64(e.counts[i]), nil, value)
			e.counts[i]++
		}
	}
	must.Do(e.t, p.Flush(e.t.Context()))
}

// member returns a member with short intervals.
func (e *events) member(log *slog.Logger) *Member {
	c := DefaultConfig()
	c.Name, c.Partitions, c.Warm, c.IntervalMin, c.IntervalMax, c.SnapshotEvery = "g", 2, 300, 100, 100*time.Millisecond, 4
	c.SessionTimeout = 2 * time.Second
	kafka := stream.DefaultConsumerConfig()
	kafka.ConnectConfig, kafka.Topics, kafka.MaxWait, kafka.BatchRecords = e.connect(), []string{"events"}, 50*time.Millisecond, 50
	format := records.DefaultConfig()
	format.Seed = 1 // otherwise the commit log topic's id is the seed
	format.Bits, format.Classes = 12, []string{"no", "yes"}
	return &Member{
		Config: c, Kafka: kafka, Learner: online.DefaultConfig(), Schema: format.Schema, Log: log,
		Open: func(ctx context.Context, c stream.ConsumerConfig, s *event.Schema, from event.Offsets) (stream.Opened, error) {
			return stream.Input{Record: format, Kafka: c}.Open(ctx, s, from)
		},
	}
}

// all reports whether a member has applied every event and no more events will be produced.
func (e *events) all(s *Status) bool {
	if !e.complete.Load() {
		return false
	}
	total, want := uint64(0), uint64(0)
	for _, p := range s.Positions {
		total += p.Records
	}
	for _, n := range e.counts {
		want += n
	}
	return total >= want
}

// check compares the counts of the fold with the produced records.
func (e *events) check(s *Status) {
	e.t.Helper()
	for p := range e.partitions {
		at, _ := s.Positions.Lookup("events", p)
		if at.First != 0 || at.Next != int64(e.counts[p]) || at.Records != e.counts[p] || at.Sum != e.sums[p] {
			e.t.Errorf("partition %d: %+v, produced were %d of sum %d", p, at, e.counts[p], e.sums[p])
		}
	}
}

// limited returns a context that ends with the test, before the deadline of the test binary.
func limited(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	t.Cleanup(cancel)
	return ctx, cancel
}

// members waits until all started members have returned.
type members struct{ sync.WaitGroup }

// start runs a member. The test fails if the member returns an error.
func (r *members) start(t *testing.T, ctx context.Context, i int, m *Member) {
	r.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("member %d: %v", i, err)
		}
	})
}

// reasonOf returns the reason of a Rejection, or "" for another error or nil.
func reasonOf(err error) Reason {
	var r *Rejection
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

// snapshots collects the hashes of the members' snapshots.
type snapshots struct {
	mu sync.Mutex
	at map[int64]map[string]bool
}

func (b *snapshots) observe(s *Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[int64]map[string]bool{}
	}
	if s.SnapshotOffset > 0 {
		if b.at[s.SnapshotOffset] == nil {
			b.at[s.SnapshotOffset] = map[string]bool{}
		}
		b.at[s.SnapshotOffset][s.SnapshotHash] = true
	}
}

// one checks that all members had the same hash for each snapshot.
func (b *snapshots) one(t testing.TB) {
	t.Helper()
	if len(b.at) == 0 {
		t.Error("no snapshot was made")
	}
	for offset, hashes := range b.at {
		if len(hashes) > 1 {
			t.Errorf("snapshot %d has the hashes %v", offset, hashes)
		}
	}
}

func testLog(t testing.TB, name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("m", name)
}

// TestMemberCountsReaders checks that Status counts a reader in Turns.Asked.
func TestMemberCountsReaders(t *testing.T) {
	m := &Member{}
	l := newRunning(m)
	if m.Status(); l.work.intake.Turns.Asked.Load() != 1 {
		t.Error("a question was not counted")
	}
}

func TestMembers(t *testing.T) {
	e := newEvents(t, 4, 500)
	var seen snapshots
	ctx, _ := limited(t)
	var running members
	members := make([]*Member, 3)
	for i := range members {
		m := e.member(testLog(t, fmt.Sprint(i)))
		m.Observe, m.Until = seen.observe, e.all
		members[i] = m
		running.start(t, ctx, i, m)
	}
	for !slices.ContainsFunc(members, func(m *Member) bool { s := m.Status(); return s != nil && s.Members == 3 }) {
		if time.Sleep(10 * time.Millisecond); ctx.Err() != nil {
			t.Fatal("the members do not find each other")
		}
	}
	for range 10 {
		e.produce(200)
		time.Sleep(50 * time.Millisecond)
	}
	e.complete.Store(true)
	running.Wait()
	learned := 0
	for i, m := range members {
		s := m.Status()
		if s == nil {
			t.Fatalf("member %d has no status", i)
		}
		e.check(s)
		if s.Committed > s.Refused {
			learned++
			if s.DeltaRows == 0 || s.DeltaBytes <= 8*s.DeltaRows { // a row has its column and several numbers
				t.Errorf("member %d has written %d rows in %d bytes", i, s.DeltaRows, s.DeltaBytes)
			}
		}
		t.Logf("member %d: %d commits, %d refused, %d reprocessed events; accepted %d, rejected %v; intercept %.3f", i, s.Committed, s.Refused, s.Reprocessed, s.Accepted, s.Rejected, s.Model.Model().Intercept)
	}
	if learned < 3 {
		t.Errorf("%d members have learned", learned)
	}
	seen.one(t)
	e.fresh(members[0].Status())
	r := e.inspect()
	if s := members[0].Status(); r.Chain != s.Chain || !slices.Equal(r.Positions, s.Positions) || r.Accepted != s.Accepted {
		t.Errorf("inspected: %+v, want %+v", r, s)
	}
	if len(r.Members) == 0 || r.From == 0 {
		t.Errorf("%+v", r)
	}
	if err := r.Verified(); err != nil {
		t.Error(err)
	}
	e.damage()
	if err := e.inspect().Verified(); err == nil || !strings.Contains(err.Error(), "differs from the result of the commit log") {
		t.Errorf("another snapshot: %v", err)
	}
}

// TestMembersForgetAndMislabeled checks a half-life, forgetting after alarms, and the count of mislabeled events in a
// group. All members must have the same bytes.
func TestMembersForgetAndMislabeled(t *testing.T) {
	e := newEvents(t, 4, 600)
	e.complete.Store(true)
	var seen snapshots
	ctx, _ := limited(t)
	var running sync.WaitGroup
	members := make([]*Member, 3)
	for i := range members {
		if i == 2 { // starts late, from a snapshot
			running.Wait()
		}
		m := e.member(testLog(t, fmt.Sprint(i)))
		m.Observe, m.Until = seen.observe, e.all
		m.Learner.HalfLife, m.Learner.OnDrift = 300, "forget"
		m.Learner.Loss, m.Learner.MislabeledBelow = "t-logistic:1.9", 0.5
		members[i] = m
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	running.Wait()
	s, late := members[0].Status(), members[2].Status()
	e.check(s)
	seen.one(t)
	a, b := s.Model.Model(), late.Model.Model()
	if late.Chain != s.Chain || !slices.Equal(a.Intercept, b.Intercept) {
		t.Errorf("chain %s, intercept %v; late %s, %v", s.Chain, a.Intercept, late.Chain, b.Intercept)
	}
	for _, f := range a.Schema.Fields { // commits contain only the fields' names
		if f.Kind == event.Numeric && f.Column == 0 {
			t.Errorf("the group's field %q has no column", f.Name)
		}
	}
	if n := s.Learner.Mislabeled; n < 10 || late.Learner.Mislabeled != n {
		t.Errorf("%d mislabeled events, the late member has counted %d", n, late.Learner.Mislabeled)
	}
}

// TestReplicaMismatch checks that a member counts and reports a mismatch if its state differs from the group's
// snapshot. If they are equal, there must be no mismatch.
func TestReplicaMismatch(t *testing.T) {
	e := newEvents(t, 2, 300)
	ctx, cancel := limited(t)
	var running members
	var members []*Member
	for i := range 2 {
		m := e.member(testLog(t, fmt.Sprint(i)))
		m.machine = &machine{"amd64", fmt.Sprintf("CPU %d", i)}
		members = append(members, m)
		running.start(t, ctx, i, m)
	}
	more := true // events are still produced
	await := func(what string, done func(*Status) bool) {
		t.Helper()
		for ctx.Err() == nil {
			if !slices.ContainsFunc(members, func(m *Member) bool { s := m.Status(); return s == nil || !done(s) }) {
				return
			}
			if more {
				e.produce(50)
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal(what + ": it does not come")
	}
	await("a base of both", func(s *Status) bool { return s.SnapshotOffset > 0 && len(s.Peers) == 2 })
	for _, m := range members {
		s := m.Status()
		for _, p := range s.Peers {
			if p.Behind < 0 || p.Behind > s.Offset || p.Accepted == 0 || p.Events == 0 || p.At.IsZero() {
				t.Errorf("%+v", p)
			}
		}
		if s.Mismatches != 0 {
			t.Errorf("%d mismatches", s.Mismatches)
		}
	}
	c := members[0].Config.CommitLog(e.connect(), testLog(t, "other"))
	commitLog := must.Get(stream.OpenCommitLog(ctx, c))(t)
	defer commitLog.Close()
	more = false // so that no equal snapshot follows
	e.complete.Store(true)
	await("all that was produced", e.all)
	for _, m := range members {
		if s := m.Status(); s.NotReady != "" {
			t.Errorf("not ready without a mismatch: %s", s.NotReady)
		}
		other := Mark{Member: MemberID{1}, Base: m.Status().SnapshotOffset, Hash: 12345, CPU: "another CPU"}
		must.Get(commitLog.AppendCommit(ctx, other.Encode()))(t)
	}
	await("a mismatch", func(s *Status) bool { return s.Mismatches > 0 })
	for i, m := range members {
		want := fmt.Sprintf("this member's model differs from the group's: it computes on CPU %d, and the group's was computed on another CPU", i)
		if why := m.Status().NotReady; !strings.HasSuffix(why, want) {
			t.Errorf("member %d is not ready because of %q, want %q", i, why, want)
		}
	}
	more = true
	await("the end of the mismatch, with the next snapshot", func(s *Status) bool { return s.NotReady == "" })
	cancel()
	running.Wait()
	if err := e.inspect().Verified(); err != nil {
		t.Errorf("with the marks of snapshots in the commit log: %v", err)
	}
}

func (e *events) inspect() *Report {
	e.t.Helper()
	m := e.member(testLog(e.t, "inspect"))
	return must.Get(Inspect(e.t.Context(), m))(e.t)
}

// damage replaces the newest snapshot by a different one.
func (e *events) damage() {
	e.t.Helper()
	m := e.member(testLog(e.t, "damage"))
	topic := must.Get(stream.OpenSnapshots(e.t.Context(), m.Config.Snapshots(e.connect(), m.Log)))(e.t)
	defer topic.Close()
	base, err := topic.Newest(e.t.Context(), nil)
	if err == nil {
		base.Data[len(base.Data)/2] ^= 1
		_, err = topic.Write(e.t.Context(), base)
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// fresh starts a replica from the newest snapshot, applies the rest of the commit log, and compares the result with a
// member's Status.
func (e *events) fresh(want *Status) {
	e.t.Helper()
	m := e.member(testLog(e.t, "fresh"))
	ctx, _ := limited(e.t)
	m.Config.Name = "reader" // only reads, and does not join the group
	m.Config.MixTopic, m.Config.SnapshotTopic = "g-commits", "g-snapshots"
	m.Until = func(s *Status) bool { return s.Offset >= want.Offset }
	if err := m.Run(ctx); err != nil {
		e.t.Error(err)
	}
	got := m.Status()
	if got.Offset == want.Offset && (got.Chain != want.Chain || !slices.Equal(got.Positions, want.Positions)) {
		e.t.Errorf("applied anew: chain %s at %v, want %s at %v", got.Chain, got.Positions, want.Chain, want.Positions)
	}
}

// TestMembersThatCrash starts and crashes members while connections break. Every event must count once, and all members
// must end with the same state.
func TestMembersThatCrash(t *testing.T) {
	e := newEvents(t, 4, 1000)
	var seen snapshots
	ctx, cancel := limited(t)
	random := rand.New(rand.NewPCG(5, 6))
	var running sync.WaitGroup
	crash := make([]context.CancelFunc, 3)
	start := func(i int) {
		m := e.member(testLog(t, fmt.Sprint(i)))
		m.Config.SessionTimeout = 300 * time.Millisecond
		m.Observe = seen.observe
		alive, die := context.WithCancelCause(ctx)
		crash[i] = func() { die(errCrash) }
		m.crash = func() bool { return errors.Is(context.Cause(alive), errCrash) }
		running.Go(func() {
			if err := m.Run(alive); err != nil && alive.Err() == nil {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	for i := range crash {
		start(i)
	}
	for range 6 {
		time.Sleep(time.Duration(200+random.IntN(400)) * time.Millisecond)
		i := random.IntN(3)
		crash[i]()
		e.produce(200)
		start(i)
	}
	e.complete.Store(true)
	last := e.member(testLog(t, "last"))
	last.Observe, last.Until = seen.observe, e.all
	if err := last.Run(ctx); err != nil {
		t.Error(err)
	}
	e.check(last.Status())
	cancel()
	running.Wait()
	seen.one(t)
	t.Logf("accepted %d, rejected %v", last.Status().Accepted, last.Status().Rejected)
}

// TestMemberStops checks that a stopped member commits its learned changes. A member with other settings must be
// rejected before it adds anything to the model.
func TestMemberStops(t *testing.T) {
	e := newEvents(t, 2, 700)
	m := e.member(testLog(t, "stopped"))
	m.Config.IntervalMin, m.Config.IntervalMax, m.Config.Warm = 100_000, time.Hour, 0
	ctx, cancel := limited(t)
	m.Observe = func(s *Status) {
		if s.Pending == 1400 {
			cancel()
		}
	}
	must.Do(t, m.Run(ctx))
	if s := m.Status(); s.Accepted != 1 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	e.check(m.Status())

	other := e.member(testLog(t, "other"))
	other.Learner.LearningRate = 0.25
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings: %v", err)
	}
	other.Learner = online.DefaultConfig()
	other.Learner.Optimizer = "ftrl"
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "adagrad") {
		t.Errorf("another rule: %v", err)
	}
}

var errCrash = errors.New("crash")

func TestConfigCheck(t *testing.T) {
	if c := DefaultConfig(); c.Check() != nil {
		t.Error(c.Check())
	}
	for key, edit := range map[string]func(*Config){
		"interval_min":    func(c *Config) { c.IntervalMin = 0 },
		"interval_max":    func(c *Config) { c.IntervalMax = 0 },
		"snapshot_every":  func(c *Config) { c.SnapshotEvery = 0 },
		"session_timeout": func(c *Config) { c.SessionTimeout = 0 },
	} {
		c := DefaultConfig()
		edit(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMemberReportsObstacles checks that a member reports why it is not ready: it cannot read events, cannot read the
// commit log, or cannot write. The report must end when the problem ends.
func TestMemberReportsObstacles(t *testing.T) {
	for _, test := range []struct {
		name        string
		from, fails kmsg.Key // after the first request of kind from, requests of kind fails fail
		want        string
	}{
		{"reading", kmsg.Fetch, kmsg.Fetch, "cannot be read ("},
		{"reading while it commits", kmsg.Produce, kmsg.Fetch, "cannot be read ("},
		{"writing", kmsg.Produce, kmsg.Produce, "a commit has taken "},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEvents(t, 2, 300)
			m := e.member(testLog(t, "cut off"))
			m.Kafka.RequestTimeout = time.Second
			ctx, cancel := limited(t)
			var learns, away, back atomic.Bool
			e.broker.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
				e.broker.KeepControl()
				key := kmsg.Key(request.Key())
				if key == test.from && learns.Load() && !back.Load() {
					away.Store(true)
				}
				if key == test.fails && away.Load() {
					return nil, errors.New("away"), true // breaks the connection
				}
				return nil, nil, false // answer normally
			})
			told := ""
			m.Observe = func(s *Status) {
				switch {
				case s.Generation > 0 && s.NotReady == "" && !learns.Load():
					e.produce(300)
					learns.Store(true)
				case s.NotReady != "" && away.Load():
					told = s.NotReady
					back.Store(true)
					away.Store(false)
				case told != "" && s.NotReady == "":
					cancel()
				}
			}
			must.Do(t, m.Run(ctx))
			if strings.Contains(told, "taken 0s") {
				t.Errorf("after less than the time of a request it said %q", told)
			}
			if !strings.Contains(told, test.want) || !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("while the broker was away it said %q, and afterwards %q", told, m.Status().NotReady)
			}
		})
	}
}

// TestMemberCreatesTopics checks that a member creates a missing topic, like a learner without a group.
func TestMemberCreatesTopics(t *testing.T) {
	e := newEvents(t, 1, 0)
	m := e.member(testLog(t, "first"))
	m.Kafka.Topics = []string{"events", "new"}
	ctx, _ := limited(t)
	err := m.Run(ctx)
	if missing := (*stream.TopicMissingError)(nil); !errors.As(err, &missing) || missing.Topic != "new" {
		t.Fatal(err)
	}
	m.Kafka.CreateTopics, m.Kafka.CreatePartitions = true, 3
	m.Until = func(s *Status) bool { return len(s.Partitions) == 4 }
	if err := m.Run(ctx); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
}

// TestInspectUnderOtherSettings calls Inspect with other settings than the group's. If the group has a snapshot,
// Inspect must return the differences. If a member has other settings, the report must name that member.
func TestInspectUnderOtherSettings(t *testing.T) {
	for _, snapshots := range []bool{true, false} {
		t.Run(fmt.Sprint(snapshots), func(t *testing.T) { inspectUnderOtherSettings(t, snapshots) })
	}
}

func inspectUnderOtherSettings(t *testing.T, snapshots bool) {
	e := newEvents(t, 2, 500)
	e.complete.Store(true)
	m := e.member(testLog(t, "learns"))
	if !snapshots {
		m.Config.SnapshotEvery, m.crash = 1000, func() bool { return true }
	}
	m.Until = func(s *Status) bool { return e.all(s) && (s.SnapshotOffset > 0) == snapshots }
	must.Do(t, m.Run(t.Context()))
	other := e.member(testLog(t, "looks"))
	other.Learner.LearningRate = 0.25
	var settings *SettingsError
	_, err := Inspect(t.Context(), other)
	if !errors.As(err, &settings) {
		t.Fatalf("%v", err)
	}
	which := "no snapshot yet"
	if snapshots {
		which = `learning_rate: was "0", is "0.25"`
	}
	if !strings.Contains(err.Error(), which) {
		t.Errorf("%v, want %s", err, which)
	}
	foreign := Commit{Fingerprint: 1, Member: MemberID{7}}
	commitLog, err := stream.OpenCommitLog(t.Context(), m.Config.CommitLog(e.connect(), m.Log))
	if err == nil {
		_, err = commitLog.AppendCommit(t.Context(), foreign.Encode())
		commitLog.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := e.inspect()
	if i := slices.IndexFunc(r.Members, func(m MemberReport) bool { return m.Member == foreign.Member.String() }); i < 0 || r.Members[i].RejectedFor[ReasonSettings] != 1 {
		t.Errorf("%+v", r.Members)
	}
}

// TestMemberRefusesRetention checks the case that the brokers are configured to delete old records of the commit log. A
// new member must not start. A running member must commit and stop once it notices the configuration. The last member
// must write a snapshot, from which the next member starts.
func TestMemberRefusesRetention(t *testing.T) {
	e := newEvents(t, 2, 300)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(e.broker.ListenAddrs()...)))(t)
	defer client.Close()
	retain := func(ms string) {
		t.Helper()
		must.Get(kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, "g-commits"))(t)
	}
	m := e.member(testLog(t, "learns"))
	m.Config.SnapshotEvery, m.keepEvery = 1000, 20*time.Millisecond
	m.Config.IntervalMin, m.Config.IntervalMax, m.Config.Warm = 1000, time.Hour, 0
	altered := false
	m.Observe = func(s *Status) {
		if s.Pending == 600 && !altered {
			altered = true
			retain("60000")
		}
	}
	ctx, _ := limited(t)
	var expires *stream.RetentionError
	if err := m.Run(ctx); !errors.As(err, &expires) || expires.Topic != "g-commits" || expires.Key != "retention.ms" {
		t.Fatalf("while it learns: %v", err)
	}
	e.check(m.Status())
	if s := m.Status(); s.SnapshotOffset != 1 || s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
	if err := m.Run(ctx); !errors.As(err, &expires) {
		t.Errorf("at its start: %v", err)
	}
	retain("-1")
	next := e.member(testLog(t, "next"))
	next.Until = func(s *Status) bool { return s.Generation > 0 }
	if err := next.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	r := e.inspect()
	if len(r.Snapshots) != 1 || !r.Snapshots[0].Same || r.Accepted != 1 {
		t.Errorf("%+v", r) // a member that has learned nothing writes no snapshot
	}
}

// TestJunkAmongSnapshots checks an invalid record and a snapshot with an invalid model. They must be skipped with a
// warning that names them, and members must start from the previous snapshot.
func TestJunkAmongSnapshots(t *testing.T) {
	for what, data := range map[string]func(sound []byte) []byte{
		"not a blankout file": func([]byte) []byte { return []byte("no model") },
		"it is that of":       func(sound []byte) []byte { return sound },
	} {
		t.Run(what, func(t *testing.T) { junkAmongSnapshots(t, what, data) })
	}
}

func junkAmongSnapshots(t *testing.T, what string, data func(sound []byte) []byte) {
	e := newEvents(t, 2, 600)
	e.complete.Store(true)
	m := e.member(testLog(t, "learns"))
	m.Until = e.all
	must.Do(t, m.Run(t.Context()))
	where := m.Config.Snapshots(e.connect(), m.Log)
	topic := must.Get(stream.OpenSnapshots(t.Context(), where))(t)
	sound, err := topic.Newest(t.Context(), nil)
	if err == nil {
		_, err = topic.Write(t.Context(), &stream.GroupSnapshot{Offset: sound.Offset + 1, Data: data(sound.Data)})
	}
	topic.Close()
	if err != nil {
		t.Fatal(err)
	}
	c := stream.DefaultProducerConfig()
	c.ConnectConfig, c.Topic = e.connect(), where.Topic
	p, err := stream.NewProducer(t.Context(), c)
	if err == nil {
		_, err = p.Append(t.Context(), 0, stream.Message{Key: []byte("what"), Value: []byte("ever")})
		p.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	next := e.member(slog.New(slog.NewTextHandler(&told, nil)))
	next.Until = func(s *Status) bool { return s.Generation > 0 }
	must.Do(t, next.Run(t.Context()))
	e.check(next.Status())
	for _, want := range []string{"records=1", "topic g-snapshots offset ", `key \"what\" is not a snapshot`, fmt.Sprintf("topic=g-snapshots snapshot=%d offset=", sound.Offset+1), "snapshot=true", what} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("without %s: %s", want, told.String())
		}
	}
	r := e.inspect()
	if n := len(r.Snapshots); n == 0 || r.Snapshots[n-1].Same || r.Verified() == nil {
		t.Errorf("%+v", r.Snapshots)
	}
}

// TestEnds checks that a member reports the end offsets of its partitions, and for each partition the number of records
// that the group has not learned yet.
func TestEnds(t *testing.T) {
	const each = 20_000
	e := newEvents(t, 2, each)
	m := e.member(testLog(t, "ends"))
	e.complete.Store(true)
	behind := 0
	var last []End
	m.Until = func(s *Status) bool {
		last = s.Ends
		return e.all(s)
	}
	m.Observe = func(s *Status) {
		if len(s.Ends) == 0 {
			return // the member is not reading
		}
		for _, end := range s.Ends {
			at, learned := s.Positions.Lookup("events", end.Partition)
			if learned && end.Lag != end.HighWater-at.Next || end.HighWater != each || end.Topic != "events" || end.Lag < 0 {
				t.Errorf("%+v, learned up to %d", end, at.Next)
			}
			if end.Lag > 0 {
				behind++
			}
		}
	}
	must.Do(t, m.Run(t.Context()))
	if len(last) != 2 || last[0].Lag+last[1].Lag != 0 || behind == 0 {
		t.Errorf("at the end %+v, behind %d times", last, behind)
	}
}
