package stream

// A place in a Kafka consumer group: the brokers share out partitions among the members
// and notice those that have died. Nothing else is asked of them: where a partition is
// read from and what is done with its records is the caller's.
//
// kafka-go has two ways into a group. Its ConsumerGroup gives no user data, no static
// members, and cannot say who else is there; the requests of its Client are not encoded
// as brokers of Kafka 2.4 and later want them (SyncGroup from version 4 on). So the four
// requests are made by kmsg, in the last versions before the flexible ones, which all
// brokers since Kafka 2.3 take:
//
//	JoinGroup 5  ->  SyncGroup 3  ->  Heartbeat 3 … until a rebalance  ->  JoinGroup 5 …  ->  LeaveGroup 3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"blankout/internal/event"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MembershipConfig says which group is joined and how its members are watched.
type MembershipConfig struct {
	ConnectConfig
	Group  string
	Topics []string // whose partitions are shared out
	// CreateTopics creates those that do not exist, with CreatePartitions each.
	CreateTopics     bool
	CreatePartitions int
	// Instance makes the member a static one of this name: it keeps its partitions when
	// it leaves and is back within SessionTimeout. "" is a member like any other.
	Instance string
	// SessionTimeout is how long brokers wait for a heartbeat before they give a
	// member's partitions to others, and how long a member goes on without an answer.
	// Brokers take 6 s and more unless group.min.session.timeout.ms says otherwise.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long members have to come back when partitions are shared
	// out anew.
	RebalanceTimeout time.Duration
	Log              *slog.Logger // nil: no log
}

// DefaultMembershipConfig returns the defaults.
func DefaultMembershipConfig() MembershipConfig {
	return MembershipConfig{ConnectConfig: DefaultConnectConfig(), SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second}
}

// Check reports the first setting that cannot be used.
func (c *MembershipConfig) Check() error {
	switch {
	case c.Group == "":
		return errors.New("group: no name")
	case len(c.Topics) == 0:
		return event.KeyErrorf("topics", "topics: none given")
	case c.CreateTopics && c.CreatePartitions < 1:
		return event.KeyErrorf("create_partitions", "create_partitions %d, want at least 1", c.CreatePartitions)
	case c.SessionTimeout < 100*time.Millisecond:
		return event.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	case c.RebalanceTimeout < c.SessionTimeout:
		return event.KeyErrorf("rebalance_timeout", "rebalance_timeout %v, want at least session_timeout, %v", c.RebalanceTimeout, c.SessionTimeout)
	}
	return nil
}

// Why a Generation ends.
var (
	// ErrRebalance says that partitions are shared out anew: there is time, half of
	// RebalanceTimeout, to finish what is under way, and then Next.
	ErrRebalance = errors.New("the group shares out its partitions anew")
	// ErrSession says that the group has given the member up, or that no broker has
	// answered for SessionTimeout, after which the group will do so: the partitions belong
	// to others.
	ErrSession = errors.New("the group has given this member up")
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func (p TopicPartition) compare(q TopicPartition) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// Generation is the time between two rebalances.
type Generation struct {
	ID         int32
	Member     string           // the id that the group has given this member
	Partitions []TopicPartition // of this member, in order; none: it stands by
	Members    int              // of the group
	Standby    int              // of them without a partition

	ctx    context.Context
	cancel context.CancelCauseFunc
	beats  sync.WaitGroup
	rest   context.CancelFunc // ends the heartbeats
}

// Done is closed when the Generation ends. Heartbeats go on until Next or Leave, so that
// the member may finish what it holds.
func (g *Generation) Done() <-chan struct{} { return g.ctx.Done() }

// Err returns ErrRebalance or ErrSession, or another error after which Next fails too,
// once Done is closed; nil before.
func (g *Generation) Err() error { return context.Cause(g.ctx) }

// Membership is a place in a group. It belongs to one goroutine; a second one, from Next
// to the following Next or Leave, sends the heartbeats.
type Membership struct {
	config  MembershipConfig
	cluster *cluster
	id      string // that the group has given; "" before, and after it gave the member up
	current *Generation
	owned   []TopicPartition // of the Generation before, which the group may give again
	known   map[string]int   // partitions of each topic, when this member shared them out
}

// groupProtocol names the way in which partitions are shared out: programs that do it
// otherwise are refused by the brokers under the same group name.
const groupProtocol = "blankout-sticky"

// shares is what the member that shares out the partitions tells the others.
type shares struct {
	Members int `json:"members"`
	Standby int `json:"standby"`
}

// NewMembership connects. Next joins.
func NewMembership(ctx context.Context, config MembershipConfig) (*Membership, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	config.Topics = slices.Compact(slices.Sorted(slices.Values(config.Topics)))
	k, err := connect(ctx, config.ConnectConfig, config.Topics, config.Log)
	if err != nil {
		return nil, err
	}
	for _, topic := range config.Topics {
		if _, err := k.ensureTopic(ctx, topic, config.CreateTopics, config.CreatePartitions); err != nil {
			k.close()
			return nil, err
		}
	}
	return &Membership{config: config, cluster: k}, nil
}

// Next gives up the Generation there is and returns the next one. It tries until ctx ends
// or an error is final: no permission, another program in the group, a static member of
// the same name.
func (m *Membership) Next(ctx context.Context) (*Generation, error) {
	m.endGeneration()
	doing := "joining group " + m.config.Group
	var before error
	for attempt := 1; ; attempt++ {
		epoch := m.cluster.now()
		g, err := m.join(ctx)
		if err == nil {
			m.current, m.owned = g, g.Partitions
			m.cluster.log.Info("joined the group", "group", m.config.Group, "generation", g.ID, "member", g.Member, "members", g.Members, "partitions", g.Partitions)
			return g, nil
		}
		switch {
		case ctx.Err() != nil:
			if before != nil {
				err = before // says more than that the time is up
			}
			return nil, fmt.Errorf("%s: %w", doing, explainGroup(err))
		case errors.Is(err, kafka.MemberIDRequired):
			continue // with the id that it came with
		case errors.Is(err, kafka.RebalanceInProgress), errors.Is(err, kafka.IllegalGeneration): // another member came in between
		case errors.Is(err, kafka.UnknownMemberId):
			m.id = ""
		default:
			err = m.cluster.cause(ctx, err)
			if permanent(err) {
				return nil, fmt.Errorf("%s: %w", doing, explainGroup(err))
			}
			m.cluster.forget(epoch)
		}
		before = err
		if logged(attempt) && ctx.Err() == nil {
			m.cluster.log.Warn(doing, "attempt", attempt, "err", explainGroup(err))
		}
		if !backoff(ctx, attempt) {
			return nil, fmt.Errorf("%s: %w", doing, explainGroup(before))
		}
	}
}

// explainGroup adds to an error of a group what a person can do about it.
func explainGroup(err error) error {
	switch {
	case errors.Is(err, kafka.InconsistentGroupProtocol):
		return fmt.Errorf("%w: another program is in the group of this name: choose another one", err)
	case errors.Is(err, kafka.FencedInstanceID):
		return fmt.Errorf("%w: another process is the member of this instance name: each needs its own", err)
	case errors.Is(err, kafka.InvalidSessionTimeout):
		return fmt.Errorf("%w: the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms bound session_timeout", err)
	case errors.Is(err, kafka.GroupMaxSizeReached):
		return fmt.Errorf("%w: the brokers' group.max.size bounds the members", err)
	}
	return explain(err)
}

// join does one JoinGroup and one SyncGroup, and begins the heartbeats.
func (m *Membership) join(ctx context.Context) (*Generation, error) {
	c := &m.config
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.Group, request.MemberID, request.InstanceID = 5, c.Group, m.id, m.instance()
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = int32(c.SessionTimeout.Milliseconds()), int32(c.RebalanceTimeout.Milliseconds())
	request.ProtocolType = "consumer" // so that Kafka's tools show the group
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = groupProtocol, m.subscription()
	request.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
	wait, cancel := context.WithTimeout(ctx, c.RebalanceTimeout+c.RequestTimeout) // the answer waits for the other members
	joined, err := askGroup[*kmsg.JoinGroupResponse](wait, m.cluster, c.Group, request)
	cancel()
	if err != nil {
		return nil, err
	}
	if joined.MemberID != "" {
		m.id = joined.MemberID
	}
	if joined.ErrorCode != 0 {
		return nil, kafka.Error(joined.ErrorCode)
	}

	beat := time.Now()
	ready := kmsg.NewPtrSyncGroupRequest()
	ready.Version, ready.Group, ready.MemberID, ready.InstanceID, ready.Generation = 3, c.Group, m.id, m.instance(), joined.Generation
	m.known = nil
	if joined.LeaderID == m.id {
		if ready.GroupAssignment, err = m.share(ctx, joined.Members); err != nil {
			return nil, err
		}
	}
	wait, cancel = context.WithTimeout(ctx, c.RebalanceTimeout+c.RequestTimeout) // for the member that shares out
	synced, err := askGroup[*kmsg.SyncGroupResponse](wait, m.cluster, c.Group, ready)
	cancel()
	if err != nil {
		return nil, err
	}
	if synced.ErrorCode != 0 {
		return nil, kafka.Error(synced.ErrorCode)
	}
	g := &Generation{ID: joined.Generation, Member: m.id}
	if err := g.read(synced.MemberAssignment); err != nil {
		return nil, err
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	beating, rest := context.WithCancel(context.Background())
	g.rest = rest
	member, known := m.id, m.known
	g.beats.Go(func() { m.keepAlive(beating, g, member, known, beat) })
	return g, nil
}

func (m *Membership) instance() *string {
	if m.config.Instance == "" {
		return nil
	}
	return &m.config.Instance
}

// subscription says what this member reads and has read in the Generation before.
func (m *Membership) subscription() []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, m.config.Topics
	for _, topic := range m.config.Topics {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic = topic
		for _, p := range m.owned {
			if p.Topic == topic {
				owned.Partitions = append(owned.Partitions, p.Partition)
			}
		}
		if len(owned.Partitions) > 0 {
			s.OwnedPartitions = append(s.OwnedPartitions, owned)
		}
	}
	return s.AppendTo(nil)
}

// share shares out the partitions of the topics that exist now.
func (m *Membership) share(ctx context.Context, members []kmsg.JoinGroupResponseMember) ([]kmsg.SyncGroupRequestGroupAssignment, error) {
	owned := map[string][]TopicPartition{}
	for _, member := range members {
		var s kmsg.ConsumerMemberMetadata
		if err := s.ReadFrom(member.ProtocolMetadata); err != nil {
			return nil, fmt.Errorf("what member %s says of itself cannot be read: %w", member.MemberID, err)
		}
		owned[member.MemberID] = nil
		for _, topic := range s.OwnedPartitions {
			for _, p := range topic.Partitions {
				owned[member.MemberID] = append(owned[member.MemberID], TopicPartition{topic.Topic, p})
			}
		}
	}
	m.known = map[string]int{}
	var all []TopicPartition
	for _, topic := range m.config.Topics {
		numbers, err := m.cluster.partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		m.known[topic] = len(numbers)
		for _, p := range numbers {
			all = append(all, TopicPartition{topic, p})
		}
	}
	given := sticky(all, owned)
	sent := shares{Members: len(members), Standby: max(len(members)-len(all), 0)}
	data, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, member := range members {
		a := kmsg.NewConsumerMemberAssignment()
		a.Version, a.UserData = 1, data
		for _, p := range given[member.MemberID] {
			if n := len(a.Topics); n == 0 || a.Topics[n-1].Topic != p.Topic {
				t := kmsg.NewConsumerMemberAssignmentTopic()
				t.Topic = p.Topic
				a.Topics = append(a.Topics, t)
			}
			t := &a.Topics[len(a.Topics)-1]
			t.Partitions = append(t.Partitions, p.Partition)
		}
		entry := kmsg.NewSyncGroupRequestGroupAssignment()
		entry.MemberID, entry.MemberAssignment = member.MemberID, a.AppendTo(nil)
		out = append(out, entry)
	}
	return out, nil
}

// sticky shares out partitions evenly: numbers differ by one at most. A member keeps what
// it owned as far as that allows, the first of its partitions first, and of two that
// claim the same one the first in the order of ids. The result, each share in order,
// depends on nothing but the arguments.
func sticky(all []TopicPartition, owned map[string][]TopicPartition) map[string][]TopicPartition {
	all = slices.Clone(all)
	slices.SortFunc(all, TopicPartition.compare)
	free := map[TopicPartition]bool{}
	for _, p := range all {
		free[p] = true
	}
	var members []string
	keeps := map[string][]TopicPartition{}
	for member := range owned {
		members = append(members, member)
	}
	slices.Sort(members)
	for _, member := range members {
		claims := slices.Clone(owned[member])
		slices.SortFunc(claims, TopicPartition.compare)
		for _, p := range claims {
			if free[p] {
				free[p] = false
				keeps[member] = append(keeps[member], p)
			}
		}
	}
	// The members that own most get the shares that are larger by one.
	slices.SortStableFunc(members, func(a, b string) int { return len(keeps[b]) - len(keeps[a]) })
	least, larger := len(all)/len(members), len(all)%len(members)
	quota := func(i int) int {
		if i < larger {
			return least + 1
		}
		return least
	}
	for i, member := range members {
		if n := quota(i); len(keeps[member]) > n {
			for _, p := range keeps[member][n:] {
				free[p] = true
			}
			keeps[member] = keeps[member][:n]
		}
	}
	i := 0
	for _, p := range all {
		if !free[p] {
			continue
		}
		for len(keeps[members[i]]) >= quota(i) {
			i++
		}
		keeps[members[i]] = append(keeps[members[i]], p)
	}
	for _, partitions := range keeps {
		slices.SortFunc(partitions, TopicPartition.compare)
	}
	return keeps
}

// read takes over what was shared out to this member.
func (g *Generation) read(assignment []byte) error {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(assignment); err != nil {
		return fmt.Errorf("what partitions this member has cannot be read: %w", err)
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			g.Partitions = append(g.Partitions, TopicPartition{t.Topic, p})
		}
	}
	slices.SortFunc(g.Partitions, TopicPartition.compare)
	var sent shares
	if err := json.Unmarshal(a.UserData, &sent); err != nil {
		return fmt.Errorf("who is in the group cannot be read: %w", err)
	}
	g.Members, g.Standby = sent.Members, sent.Standby
	return nil
}

// keepAlive sends heartbeats until ctx ends or the group has given the member up, and
// ends the Generation when it is over: also by the member's own clock, when no heartbeat
// that was sent within SessionTimeout has been answered. The member that shared out the
// partitions also looks for new ones.
func (m *Membership) keepAlive(ctx context.Context, g *Generation, member string, known map[string]int, beat time.Time) {
	c := &m.config
	interval := c.SessionTimeout / 4
	due := time.NewTimer(interval)
	defer due.Stop()
	expired := time.AfterFunc(time.Until(beat.Add(c.SessionTimeout)), func() { g.cancel(ErrSession) })
	defer expired.Stop()
	checked := time.Now()
	for attempt := 0; ; {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		due.Reset(interval)
		request := kmsg.NewPtrHeartbeatRequest()
		request.Version, request.Group, request.MemberID, request.InstanceID, request.Generation = 3, c.Group, member, m.instance(), g.ID
		epoch, sent := m.cluster.now(), time.Now()
		wait, cancel := context.WithTimeout(ctx, interval)
		r, err := askGroup[*kmsg.HeartbeatResponse](wait, m.cluster, c.Group, request)
		cancel()
		if err == nil && r.ErrorCode != 0 {
			err = kafka.Error(r.ErrorCode)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, errors.Is(err, kafka.RebalanceInProgress):
			attempt = 0
			expired.Reset(time.Until(sent.Add(c.SessionTimeout)))
			if err != nil {
				g.cancel(ErrRebalance)
			}
		case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration):
			g.cancel(ErrSession)
			return
		case permanent(err):
			g.cancel(fmt.Errorf("heartbeat to group %s: %w", c.Group, explainGroup(err)))
			return
		default:
			if attempt++; logged(attempt) {
				m.cluster.log.Warn("no answer to a heartbeat", "group", c.Group, "attempt", attempt, "err", err)
			}
			m.cluster.forget(epoch)
			due.Reset(interval / 8) // a connection that has broken is made anew
		}
		if known != nil && time.Since(checked) >= c.MetadataInterval {
			checked = time.Now()
			if m.grown(ctx, known) {
				g.cancel(ErrRebalance)
			}
		}
	}
}

// grown tells whether a topic has more partitions than were shared out.
func (m *Membership) grown(ctx context.Context, known map[string]int) bool {
	ctx, cancel := context.WithTimeout(ctx, m.config.SessionTimeout/4)
	defer cancel()
	metadata, err := m.cluster.client.Metadata(ctx, &kafka.MetadataRequest{Topics: m.config.Topics})
	if err != nil {
		return false // the next heartbeat meets the same trouble and reports it
	}
	return slices.ContainsFunc(metadata.Topics, func(t kafka.Topic) bool { return len(t.Partitions) > known[t.Name] })
}

// endGeneration ends the heartbeats and waits for that.
func (m *Membership) endGeneration() {
	if g := m.current; g != nil {
		if errors.Is(g.Err(), ErrSession) {
			m.owned = nil // others have it
		}
		g.rest()
		g.beats.Wait()
		g.cancel(ErrRebalance)
		m.current = nil
	}
}

// Leave gives up the Generation and the place in the group, so that others need not wait
// for SessionTimeout, and ends the connections. A static member keeps its place. The
// error is about the brokers having been told; the Membership is over in any case.
func (m *Membership) Leave(ctx context.Context) error {
	m.endGeneration()
	defer m.cluster.close()
	if m.id == "" || m.config.Instance != "" {
		return nil
	}
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Version, request.Group = 3, m.config.Group
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = m.id
	request.Members = []kmsg.LeaveGroupRequestMember{member}
	ctx, cancel := context.WithTimeout(ctx, m.config.RequestTimeout)
	defer cancel()
	for {
		epoch := m.cluster.now()
		r, err := askGroup[*kmsg.LeaveGroupResponse](ctx, m.cluster, m.config.Group, request)
		if err == nil && r.ErrorCode != 0 {
			err = kafka.Error(r.ErrorCode)
		}
		switch {
		case err == nil, errors.Is(err, kafka.UnknownMemberId): // the coordinator knew
			return nil
		case permanent(err), ctx.Err() != nil:
			return fmt.Errorf("leaving group %s: %w; the others wait for its session to end", m.config.Group, err)
		}
		m.cluster.forget(epoch)
		select {
		case <-time.After(m.config.SessionTimeout / 32):
		case <-ctx.Done():
		}
	}
}
