package stream

// This file implements members of a Kafka consumer group. The brokers distribute the partitions among the members and
// detect members that have died. The brokers are not used for anything else: the caller decides where to start in a
// partition and what to do with its records.
//
// kafka-go has two ways to join a group. The first, ConsumerGroup, has neither user data nor static members, and cannot
// list the other members. The second, Client, encodes the requests in a way that brokers since Kafka 2.4 reject
// (SyncGroup from version 4 on). So kmsg encodes the four requests, in the last versions before the flexible versions.
// All brokers since Kafka 2.3 accept these:
//
//	JoinGroup 5  ->  SyncGroup 3  ->  Heartbeat 3 … until a rebalance  ->  JoinGroup 5 …  ->  LeaveGroup 3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"blankout/internal/event"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MembershipConfig selects the group to join, and configures how the brokers monitor its members.
type MembershipConfig struct {
	ConnectConfig
	Group  string
	Topics []string // topics whose partitions the members share
	// Shards is the number of shards. Partition p of every topic belongs to shard p mod Shards, and all partitions of a
	// shard belong to one member. All members of a group have the same number.
	Shards int
	// Instance is the name of a static member. A static member keeps its partitions if it leaves and returns within
	// SessionTimeout. "" makes it an ordinary member.
	Instance string
	// SessionTimeout is the time without a heartbeat after which brokers reassign a member's partitions. A member that
	// gets no response continues for the same time. Brokers accept 6 s and more, unless group.min.session.timeout.ms is
	// set to another minimum.
	SessionTimeout time.Duration
	// RebalanceTimeout is the time that members have to rejoin in a rebalance.
	RebalanceTimeout time.Duration
	Log              *slog.Logger // nil disables the log
}

// DefaultMembershipConfig returns the default settings.
func DefaultMembershipConfig() MembershipConfig {
	return MembershipConfig{ConnectConfig: DefaultConnectConfig(), SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second}
}

// Check returns an error for the first invalid setting.
func (c *MembershipConfig) Check() error {
	switch {
	case c.Group == "":
		return errors.New("group: no name")
	case len(c.Topics) == 0:
		return event.KeyErrorf("topics", "topics: empty: name at least one")
	case c.Shards < 1:
		return event.KeyErrorf("shards", "shards %d, want at least 1", c.Shards)
	case c.SessionTimeout < 100*time.Millisecond:
		return event.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	case c.RebalanceTimeout < c.SessionTimeout:
		return event.KeyErrorf("rebalance_timeout", "rebalance_timeout %v, want at least session_timeout, %v", c.RebalanceTimeout, c.SessionTimeout)
	}
	return nil
}

// The reasons why a Generation ends.
var (
	// ErrRebalance means that the group rebalances. The member has half of RebalanceTimeout to finish its work before
	// it calls Next.
	ErrRebalance = errors.New("the group is reassigning its partitions")
	// ErrSession means that the group has removed the member, or is about to because no broker has responded for
	// SessionTimeout. The partitions belong to other members.
	ErrSession = errors.New("the group has removed this member")
)

// TopicPartition identifies a partition.
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
	Member     string           // member ID in the group
	Partitions []TopicPartition // partitions of this member, sorted; a standby member has none
	Members    int              // number of members of the group
	Standby    int              // number of members without a partition

	ctx    context.Context
	cancel context.CancelCauseFunc
	beats  sync.WaitGroup
	rest   context.CancelFunc // stops the heartbeats
}

// Done returns a channel that is closed when the Generation ends. Heartbeats continue until Next or Leave, so that the
// member can finish its work.
func (g *Generation) Done() <-chan struct{} { return g.ctx.Done() }

// Err returns nil until Done is closed. Then it returns ErrRebalance, ErrSession or another error, after which Next
// fails too.
func (g *Generation) Err() error { return context.Cause(g.ctx) }

// Membership is a membership in a group. It belongs to one goroutine. A second goroutine sends heartbeats between Next
// and the following Next or Leave.
type Membership struct {
	config  MembershipConfig
	cluster *cluster
	id      string // member ID from the group; "" before the first join and after a removal
	current *Generation
	owned   []TopicPartition // partitions of the previous Generation, to keep if possible
	known   map[string]int   // number of partitions of each topic if this member made the current assignment; nil if another member made it
}

// groupProtocol is the name of the assignment strategy. Brokers reject a member with another strategy than the group.
const groupProtocol = "blankout-sticky"

// assignmentData is the user data that the assigning member sends to the other members.
type assignmentData struct {
	Members int `json:"members"`
	Standby int `json:"standby"`
	Shards  int `json:"shards"`
}

// ShardsError reports that the assigning member has another MembershipConfig.Shards than this member.
type ShardsError struct {
	Group       string
	Theirs, Own int
}

func (e *ShardsError) Error() string {
	return fmt.Sprintf("group %s has %d shards, this member has %d: give all members the same group.shards", e.Group, e.Theirs, e.Own)
}

// NewMembership connects to the brokers. Next joins the group.
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
		if _, err := k.ensureTopic(ctx, topic, false, 0); err != nil {
			k.close()
			return nil, err
		}
	}
	return &Membership{config: config, cluster: k}, nil
}

// Next ends the current Generation and returns the next Generation. It retries until ctx ends or an error is final.
// Final errors are a missing permission, another kind of program in the group, a static member with the same name, and a
// ShardsError.
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
				err = before // the earlier error is more informative than the timeout
			}
			return nil, fmt.Errorf("%s: %w", doing, explainGroup(err))
		case errors.Is(err, kafka.MemberIDRequired):
			continue // join again with the received member ID
		case is[*ShardsError](err):
			return nil, fmt.Errorf("%s: %w", doing, err)
		case errors.Is(err, kafka.RebalanceInProgress), errors.Is(err, kafka.IllegalGeneration): // another member joined at the same time
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

// explainGroup adds a hint for the user to an error of a group.
func explainGroup(err error) error {
	switch {
	case errors.Is(err, kafka.InconsistentGroupProtocol):
		return fmt.Errorf("%w: another program uses this group name: choose another name", err)
	case errors.Is(err, kafka.FencedInstanceID):
		return fmt.Errorf("%w: another process uses this group.instance: give each member its own", err)
	case errors.Is(err, kafka.InvalidSessionTimeout):
		return fmt.Errorf("%w: the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms bound session_timeout", err)
	case errors.Is(err, kafka.GroupMaxSizeReached):
		return fmt.Errorf("%w: the brokers' group.max.size bounds the members", err)
	}
	return explain(err, false)
}

// join sends one JoinGroup and one SyncGroup, and starts the heartbeats.
func (m *Membership) join(ctx context.Context) (*Generation, error) {
	c := &m.config
	request := kmsg.NewPtrJoinGroupRequest()
	request.Version, request.Group, request.MemberID, request.InstanceID = 5, c.Group, m.id, m.instance()
	request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = int32(c.SessionTimeout.Milliseconds()), int32(c.RebalanceTimeout.Milliseconds())
	request.ProtocolType = "consumer" // makes Kafka's tools show the group
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = groupProtocol, m.subscription()
	request.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
	wait := c.RebalanceTimeout + c.RequestTimeout // the response waits for the other members
	joined, err := askGroup(ctx, wait, m.cluster, c.Group, request, func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })
	if joined != nil && joined.MemberID != "" {
		m.id = joined.MemberID
	}
	if err != nil {
		return nil, err
	}

	beat := time.Now()
	ready := kmsg.NewPtrSyncGroupRequest()
	ready.Version, ready.Group, ready.MemberID, ready.InstanceID, ready.Generation = 3, c.Group, m.id, m.instance(), joined.Generation
	m.known = nil
	if joined.LeaderID == m.id {
		if ready.GroupAssignment, err = m.assign(ctx, joined.Members); err != nil {
			return nil, err
		}
	}
	// The response waits for the assigning member.
	synced, err := askGroup(ctx, wait, m.cluster, c.Group, ready, func(r *kmsg.SyncGroupResponse) int16 { return r.ErrorCode })
	if err != nil {
		return nil, err
	}
	g := &Generation{ID: joined.Generation, Member: m.id}
	if err := g.read(synced.MemberAssignment, c); err != nil {
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

// subscription returns the topics of this member and its partitions in the previous Generation.
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

// assign assigns the current partitions of the topics to the members.
func (m *Membership) assign(ctx context.Context, members []kmsg.JoinGroupResponseMember) ([]kmsg.SyncGroupRequestGroupAssignment, error) {
	owned := map[string][]TopicPartition{}
	for _, member := range members {
		var s kmsg.ConsumerMemberMetadata
		if err := s.ReadFrom(member.ProtocolMetadata); err != nil {
			return nil, fmt.Errorf("the metadata of member %s cannot be read: %w", member.MemberID, err)
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
	given, units := m.config.distribute(all, owned)
	sent := assignmentData{Members: len(members), Standby: max(len(members)-units, 0), Shards: m.config.Shards}
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

// distribute assigns all partitions to members, with the partitions of a shard together. units is the number of shards
// that were distributed.
func (c *MembershipConfig) distribute(all []TopicPartition, owned map[string][]TopicPartition) (given map[string][]TopicPartition, units int) {
	of := func(partitions []TopicPartition) (shards []int) {
		for _, p := range partitions {
			shards = append(shards, event.ShardOf(p.Partition, c.Shards))
		}
		slices.Sort(shards)
		return slices.Compact(shards)
	}
	claims := map[string][]int{}
	for member, partitions := range owned {
		claims[member] = of(partitions)
	}
	shards := of(all)
	given = map[string][]TopicPartition{}
	for member, own := range sticky(shards, claims) {
		for _, p := range all {
			if slices.Contains(own, event.ShardOf(p.Partition, c.Shards)) {
				given[member] = append(given[member], p)
			}
		}
		slices.SortFunc(given[member], TopicPartition.compare)
	}
	return given, len(shards)
}

// sticky assigns shards evenly: the numbers per member differ by at most one. Within this limit a member keeps the first
// of its shards. If two members claim the same shard, the lower member ID wins. The result depends only on the
// arguments, which are sorted.
func sticky(all []int, owned map[string][]int) map[string][]int {
	free := map[int]bool{}
	for _, shard := range all {
		free[shard] = true
	}
	members := slices.Sorted(maps.Keys(owned))
	keeps := map[string][]int{}
	for _, member := range members {
		for _, shard := range owned[member] {
			if free[shard] {
				free[shard] = false
				keeps[member] = append(keeps[member], shard)
			}
		}
	}
	// If the numbers differ, the members with the most shards get one more.
	slices.SortStableFunc(members, func(a, b string) int { return len(keeps[b]) - len(keeps[a]) })
	left := slices.Clone(all)
	quota := make([]int, len(members))
	for i, member := range members {
		if quota[i] = len(all) / len(members); i < len(all)%len(members) {
			quota[i]++
		}
		keeps[member] = keeps[member][:min(len(keeps[member]), quota[i])]
		left = slices.DeleteFunc(left, func(shard int) bool { return slices.Contains(keeps[member], shard) })
	}
	for i, member := range members {
		n := quota[i] - len(keeps[member])
		keeps[member], left = append(keeps[member], left[:n]...), left[n:]
	}
	return keeps
}

// read parses the partitions that are assigned to this member.
func (g *Generation) read(assignment []byte, c *MembershipConfig) error {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(assignment); err != nil {
		return fmt.Errorf("the assignment of this member cannot be read: %w", err)
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			g.Partitions = append(g.Partitions, TopicPartition{t.Topic, p})
		}
	}
	slices.SortFunc(g.Partitions, TopicPartition.compare)
	var sent assignmentData
	if err := json.Unmarshal(a.UserData, &sent); err != nil {
		return fmt.Errorf("the members of the group cannot be read: %w", err)
	}
	if sent.Shards != c.Shards {
		return &ShardsError{c.Group, sent.Shards, c.Shards}
	}
	g.Members, g.Standby = sent.Members, sent.Standby
	return nil
}

// keepAlive sends heartbeats until ctx ends or the group has removed the member. It ends the Generation when the group
// starts a rebalance. It also ends the Generation by the member's own clock, if no heartbeat sent within SessionTimeout
// was answered. The member that assigns the partitions also looks for new partitions.
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
		_, err := askGroup(ctx, interval, m.cluster, c.Group, request, func(r *kmsg.HeartbeatResponse) int16 { return r.ErrorCode })
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
			due.Reset(interval / 8) // retry soon on a new connection
		}
		if known != nil && time.Since(checked) >= c.MetadataInterval {
			checked = time.Now()
			if m.grown(ctx, known) {
				g.cancel(ErrRebalance)
			}
		}
	}
}

// grown reports whether a topic has more partitions than at the assignment.
func (m *Membership) grown(ctx context.Context, known map[string]int) bool {
	ctx, cancel := context.WithTimeout(ctx, m.config.SessionTimeout/4)
	defer cancel()
	metadata, err := m.cluster.client.Metadata(ctx, &kafka.MetadataRequest{Topics: m.config.Topics})
	if err != nil {
		return false // the next heartbeat gets and reports the same error
	}
	return slices.ContainsFunc(metadata.Topics, func(t kafka.Topic) bool { return len(t.Partitions) > known[t.Name] })
}

// endGeneration stops the heartbeats and waits for their goroutine.
func (m *Membership) endGeneration() {
	if g := m.current; g != nil {
		if errors.Is(g.Err(), ErrSession) {
			m.owned = nil // they belong to other members
		}
		g.rest()
		g.beats.Wait()
		g.cancel(ErrRebalance)
		m.current = nil
	}
}

// Leave ends the Generation and leaves the group, so that other members need not wait for SessionTimeout, and closes
// the connections. A static member stays in the group. The error reports that the brokers could not be notified. The
// Membership ends in any case.
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
		_, err := askGroup(ctx, m.config.RequestTimeout, m.cluster, m.config.Group, request, func(r *kmsg.LeaveGroupResponse) int16 { return r.ErrorCode })
		switch {
		case err == nil, errors.Is(err, kafka.UnknownMemberId): // the coordinator has processed the request
			return nil
		case permanent(err), ctx.Err() != nil:
			return fmt.Errorf("leaving group %s: %w; other members wait until its session ends", m.config.Group, err)
		}
		m.cluster.forget(epoch)
		_ = Sleep(ctx, m.config.SessionTimeout/32)
	}
}
