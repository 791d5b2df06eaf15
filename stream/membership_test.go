package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const shortSession = 100 * time.Millisecond

// startGroupBroker starts a broker that accepts short sessions, with a topic t.
func startGroupBroker(t *testing.T, partitions int32) *Embedded {
	return startCluster(t, 1, partitions, kfake.GroupMinSessionTimeout(shortSession))
}

// memberConfig returns settings with which a silent member is detected soon.
func memberConfig(t testing.TB, b *Embedded, edit func(*MembershipConfig)) MembershipConfig {
	c := DefaultMembershipConfig()
	c.Shards = 64 // each partition of the tests is a shard
	c.Brokers, c.Group, c.Topics, c.Log = b.Brokers(), "g", []string{"t"}, streamtest.Log(t)
	c.SessionTimeout, c.RebalanceTimeout = 2*time.Second, 5*time.Second
	if edit != nil {
		edit(&c)
	}
	return c
}

func newMembership(t testing.TB, c MembershipConfig) *Membership {
	t.Helper()
	return must.Get(NewMembership(t.Context(), c))(t)
}

// testGroup runs members, each in a goroutine, and records their partitions.
type testGroup struct {
	t    testing.TB
	b    *Embedded
	edit func(*MembershipConfig)

	mu     sync.Mutex
	holds  map[string]*Generation
	rounds map[string]int // number of generations of each member
	lost   int            // number of generations that ended with ErrSession
	stops  map[string]func()
}

func newTestGroup(t testing.TB, b *Embedded, edit func(*MembershipConfig)) *testGroup {
	g := &testGroup{t: t, b: b, edit: edit, holds: map[string]*Generation{}, rounds: map[string]int{}, stops: map[string]func(){}}
	t.Cleanup(func() {
		g.mu.Lock()
		stops := g.stops
		g.stops = map[string]func(){}
		g.mu.Unlock()
		for _, stop := range stops {
			stop()
		}
	})
	return g
}

// join starts a member with the given name. If static is set, it is a static member with that name.
func (g *testGroup) join(name string, static bool) {
	c := memberConfig(g.t, g.b, g.edit)
	if static {
		c.Instance = name
	}
	m := newMembership(g.t, c)
	ctx, cancel := context.WithCancel(g.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			generation, err := m.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					g.t.Errorf("member %s: %v", name, err)
				}
				break
			}
			g.mu.Lock()
			g.holds[name] = generation
			g.rounds[name]++
			g.mu.Unlock()
			select {
			case <-generation.Done():
			case <-ctx.Done():
			}
			g.mu.Lock()
			delete(g.holds, name)
			if errors.Is(generation.Err(), ErrSession) {
				g.lost++
			}
			g.mu.Unlock()
			if ctx.Err() != nil {
				break
			}
		}
		leave, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := m.Leave(leave); err != nil {
			g.t.Logf("member %s: %v", name, err)
		}
	}()
	g.mu.Lock()
	g.stops[name] = func() { cancel(); <-done }
	g.mu.Unlock()
}

func (g *testGroup) leave(name string) {
	g.mu.Lock()
	stop := g.stops[name]
	delete(g.stops, name)
	g.mu.Unlock()
	stop()
}

// settle waits until the members have all partitions, each once, in one generation. It returns the number of partitions
// of each member, as in "a:2 b:1".
func (g *testGroup) settle(members, partitions int) string {
	g.t.Helper()
	said := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && !g.t.Failed(); time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		held, ids := map[TopicPartition]bool{}, map[int32]bool{}
		var fractions []string
		total, standby, right := 0, 0, true
		for name, generation := range g.holds {
			if generation.Err() != nil {
				right = false
			}
			ids[generation.ID] = true
			total += len(generation.Partitions)
			for _, p := range generation.Partitions {
				held[p] = true
			}
			if len(generation.Partitions) == 0 {
				standby++
			}
			fractions = append(fractions, fmt.Sprintf("%s:%d", name, len(generation.Partitions)))
		}
		for _, generation := range g.holds {
			right = right && generation.Members == members && generation.Standby == standby
		}
		slices.Sort(fractions)
		said = strings.Join(fractions, " ")
		right = right && len(g.holds) == members && len(ids) == 1 && total == partitions && len(held) == partitions
		g.mu.Unlock()
		if right {
			return said
		}
	}
	g.t.Fatalf("%d members of %d partitions do not come to rest: %s", members, partitions, said)
	return ""
}

func (g *testGroup) partitions(name string) []TopicPartition {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds[name].Partitions
}

func TestMembersJoinAndLeave(t *testing.T) {
	t.Parallel() // mostly waiting
	g := newTestGroup(t, startGroupBroker(t, 4), nil)
	g.join("a", false)
	must.Equal(t, g.settle(1, 4), "a:4")
	g.join("b", false)
	must.Equal(t, g.settle(2, 4), "a:2 b:2")
	must.Equal(t, fmt.Sprint(g.partitions("a")), "[{t 0} {t 1}]", "the partitions of a")
	g.join("c", false)
	g.settle(3, 4)
	g.join("d", false)
	g.join("e", false)
	got := g.settle(5, 4)
	must.True(t, strings.Count(got, ":1") == 4 && strings.Count(got, ":0") == 1, "five members of four partitions: %s", got)
	standby := got[strings.Index(got, ":0")-1:][:1]
	leaver := "a"
	if standby == leaver {
		leaver = "b"
	}
	was := g.partitions(leaver)
	kept := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		kept[name] = fmt.Sprint(g.partitions(name))
	}
	g.leave(leaver)
	g.settle(4, 4)
	for name, before := range kept {
		want := before
		switch name {
		case leaver:
			continue
		case standby:
			want = fmt.Sprint(was)
		}
		must.Equal(t, fmt.Sprint(g.partitions(name)), want, "the partitions of", name)
	}
}

// TestMemberStopsByItsOwnClock checks that a member whose heartbeats get no response stops by its own clock. The group
// must continue once the heartbeats get responses.
func TestMemberStopsByItsOwnClock(t *testing.T) {
	t.Parallel() // mostly waiting
	var n network
	b := startCluster(t, 1, 3, kfake.ListenFn(n.listen), kfake.GroupMinSessionTimeout(shortSession))
	edit := func(c *MembershipConfig) { c.SessionTimeout = 500 * time.Millisecond; c.RequestTimeout = time.Second }
	m := newMembership(t, memberConfig(t, b, edit))
	g, err := m.Next(t.Context())
	must.Do(t, err)
	began := time.Now()
	n.hang.Lock()
	<-g.Done()
	took := time.Since(began)
	must.True(t, took >= 300*time.Millisecond && errors.Is(g.Err(), ErrSession), "after %v: %v", took, g.Err())
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	must.Fails(t, must.Err(m.Next(short)), "joining without a response")
	cancel()
	n.hang.Unlock()
	g, err = m.Next(t.Context())
	must.True(t, err == nil && len(g.Partitions) == 3, "%+v, %v", g, err)
	must.Do(t, m.Leave(t.Context()))
}

// TestMembersWithBrokenConnections checks that broken connections do not remove a member from the group, and do not
// prevent members from joining and leaving.
func TestMembersWithBrokenConnections(t *testing.T) {
	t.Parallel() // mostly waiting
	var n network
	b := startCluster(t, 2, 6, kfake.ListenFn(n.listen), kfake.GroupMinSessionTimeout(shortSession))
	g := newTestGroup(t, b, func(c *MembershipConfig) { c.RequestTimeout = time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	var cutting sync.WaitGroup
	random := rand.New(rand.NewPCG(3, 4))
	cutting.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			n.cut()
		}
	})
	g.join("a", false)
	g.settle(1, 6)
	g.join("b", false)
	g.join("c", false)
	g.settle(3, 6)
	g.leave("b")
	g.settle(2, 6)
	cancel()
	cutting.Wait()
	before := g.rounds["a"]
	time.Sleep(time.Second) // time for four heartbeats
	g.settle(2, 6)
	must.True(t, g.rounds["a"] == before, "a rebalance without a cause")
	must.True(t, g.lost == 0, "%d sessions lost, though heartbeats could be sent", g.lost)
}

// TestHeartbeatIsSentAgainAtOnce checks that a heartbeat on a broken connection is repeated within an eighth of the
// interval. The member must still be in the group after nine broken heartbeats in a row, although nine intervals exceed
// two sessions.
func TestHeartbeatIsSentAgainAtOnce(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startGroupBroker(t, 1)
	var broken atomic.Int32
	answered := make(chan struct{})
	b.cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		switch n := broken.Add(1); {
		case n <= 9:
			return nil, errors.New("the connection breaks"), true
		case n == 10:
			close(answered)
		}
		return nil, nil, false
	})
	m := newMembership(t, memberConfig(t, b, func(c *MembershipConfig) { c.SessionTimeout = 4 * time.Second }))
	g := must.Get(m.Next(t.Context()))(t)
	select {
	case <-answered:
	case <-g.Done():
	}
	must.True(t, g.Err() == nil, "after %d heartbeats: %v", broken.Load(), g.Err())
	must.Do(t, m.Leave(t.Context()))
}

// TestSilentMember checks that a member that is silent for a session loses its partitions to the other members.
func TestSilentMember(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startGroupBroker(t, 2)
	edit := func(c *MembershipConfig) { c.SessionTimeout = 500 * time.Millisecond }
	silent := newMembership(t, memberConfig(t, b, edit))
	first := must.Get(silent.Next(t.Context()))(t)
	g := newTestGroup(t, b, edit)
	g.join("a", false)
	<-first.Done() // the rebalance does not include the silent member
	must.True(t, errors.Is(first.Err(), ErrRebalance), "%v", first.Err())
	silent.endGeneration()
	g.settle(1, 2)
	// The member returns as an ordinary member.
	back, err := silent.Next(t.Context())
	must.True(t, err == nil && len(back.Partitions) == 1, "%+v, %v", back, err)
	must.Do(t, silent.Leave(t.Context()))
	g.settle(1, 2)
}

// TestStaticMember checks that a static member that returns within the session keeps its partitions, without a
// rebalance of the other members.
func TestStaticMember(t *testing.T) {
	t.Parallel() // mostly waiting
	g := newTestGroup(t, startGroupBroker(t, 4), nil)
	g.join("a", true)
	g.settle(1, 4)
	g.join("b", true)
	g.settle(2, 4)
	before, rounds := fmt.Sprint(g.partitions("b")), g.rounds["a"]
	g.leave("b")
	g.join("b", true)
	g.settle(2, 4)
	must.Equal(t, fmt.Sprint(g.partitions("b")), before, "the partitions of b")
	must.Equal(t, g.rounds["a"], rounds, "rounds of a, which had to give up its partitions,")
}

func TestMembersOfGrowingTopic(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startGroupBroker(t, 1)
	g := newTestGroup(t, b, func(c *MembershipConfig) { c.MetadataInterval = 100 * time.Millisecond })
	g.join("a", false)
	g.join("b", false)
	g.settle(2, 1)
	must.Get(streamtest.Admin(t, b.Brokers()...).UpdatePartitions(t.Context(), 3, "t"))(t)
	g.settle(2, 3)
}

func TestMembershipRefused(t *testing.T) {
	b := startGroupBroker(t, 1)
	streamtest.Client(t, b.Brokers(), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for group := b.cluster.GroupInfo("g"); group == nil || group.State != "Stable"; group = b.cluster.GroupInfo("g") {
		time.Sleep(10 * time.Millisecond)
		must.Require(t, ctx.Err() == nil, "the other program has not joined: %+v", group)
	}
	m := newMembership(t, memberConfig(t, b, nil))
	must.ErrorContains(t, must.Err(m.Next(ctx)), "another program uses this group name", "beside another program")
	must.Do(t, m.Leave(ctx))
	must.ErrorContains(t, must.Err(NewMembership(ctx, memberConfig(t, b, func(c *MembershipConfig) { c.Topics = []string{"none"} }))), "create it", "without the topic")
	for _, edit := range []func(*MembershipConfig){
		func(c *MembershipConfig) { c.Group = "" },
		func(c *MembershipConfig) { c.Topics = nil },
		func(c *MembershipConfig) { c.SessionTimeout = 0 },
		func(c *MembershipConfig) { c.RebalanceTimeout = c.SessionTimeout - 1 },
	} {
		c := memberConfig(t, b, edit)
		must.True(t, c.Check() != nil, "%+v passes", c)
	}
}

// TestSticky checks sticky for random claims. Every shard must be assigned once, and the numbers per
// member must differ by at most one. No other even assignment may keep more shards.
func TestSticky(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, count := 1+random.IntN(6), random.IntN(20)
		all := must.List(count, func(i int) int { return i })
		owned := map[string][]int{}
		for i := range n {
			owned[fmt.Sprint("m", i)] = nil
		}
		claimed := map[int]bool{}
		honest := random.IntN(2) == 0
		for _, p := range all {
			for range 1 + random.IntN(2) {
				if member := fmt.Sprint("m", random.IntN(n+1)); member != fmt.Sprint("m", n) && !(honest && claimed[p]) {
					claimed[p] = true
					owned[member] = append(owned[member], p)
				}
			}
		}
		if random.IntN(4) == 0 {
			owned["m0"] = append(owned["m0"], count+7)
		}
		given := sticky(all, owned)
		seen := map[int]string{}
		least, most, kept := count, 0, 0
		for i := range n {
			member := fmt.Sprint("m", i)
			least, most = min(least, len(given[member])), max(most, len(given[member]))
			for _, p := range given[member] {
				other, ok := seen[p]
				must.Require(t, !ok, "%v is given to %s and %s", p, other, member)
				seen[p] = member
				if slices.Contains(owned[member], p) {
					kept++
				}
			}
		}
		must.Require(t, len(seen) == count && most <= least+1, "%d of %d partitions are given, %d to %d to each", len(seen), count, least, most)
		if honest { // no partition is claimed twice, so every claim within the limit can be kept
			sizes := must.List(n, func(i int) int {
				own := owned[fmt.Sprint("m", i)]
				return must.Count(len(own), func(j int) bool { return own[j] < count })
			})
			slices.SortFunc(sizes, func(a, b int) int { return b - a })
			could := 0
			for i, has := range sizes {
				quota := count / n
				if i < count%n {
					quota++
				}
				could += min(has, quota)
			}
			must.Require(t, kept == could, "%d partitions stay where they were, %d could: %v of %v", kept, could, given, owned)
		}
	}
}

// TestDistributeShards checks that all partitions of a shard go to one member, that members keep their shards, and that a
// member gets none if there are more members than shards.
func TestDistributeShards(t *testing.T) {
	var all []TopicPartition
	for _, topic := range []string{"a", "b"} {
		for p := range int32(7) {
			all = append(all, TopicPartition{topic, p})
		}
	}
	c := MembershipConfig{Shards: 3}
	of := func(given map[string][]TopicPartition) map[int32]string {
		owner, n := map[int32]string{}, 0
		for member, partitions := range given {
			for _, p := range partitions {
				n++
				o := owner[p.Partition%3]
				must.True(t, o == "" || o == member, "shard %d belongs to %s and %s", p.Partition%3, o, member)
				owner[p.Partition%3] = member
			}
		}
		must.True(t, n == len(all), "%d of %d partitions are given", n, len(all))
		return owner
	}
	given, units := c.distribute(all, map[string][]TopicPartition{"x": nil, "y": nil})
	before := of(given)
	given["z"] = nil
	more, _ := c.distribute(all, given)
	moved := 0
	for shard, owner := range of(more) {
		if owner != before[shard] {
			moved++
		}
	}
	must.True(t, units == 3 && moved == 1, "%d shards, %d moved to a third member", units, moved)
	more["u"] = nil
	last, _ := c.distribute(all, more)
	of(last)
	must.True(t, len(last["u"]) <= 0, "a fourth member gets %v", last["u"])
}
