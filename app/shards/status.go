package shards

// This file has the Status of a member.

import (
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream"
)

// Status describes a member and all shards of its group, as far as the member knows them. It is immutable.
type Status struct {
	Name       string `json:"name"`
	Member     string `json:"member"`     // ID in the consumer group; "" before the member has joined
	Generation int32  `json:"generation"` // 0 before the member has joined
	Members    int    `json:"members"`    // number of members of the group
	Standby    int    `json:"standby"`    // number of members without a shard
	// Shards has all shards by number.
	Shards []ShardStatus `json:"shards"`
}

// ShardStatus describes a shard. Events and At are those of the newest model that the member has.
type ShardStatus struct {
	Number int       `json:"shard"`
	Events uint64    `json:"events"`
	At     time.Time `json:"at,omitzero"` // zero if the shard has published no model
	// Damaged is the number of published models of the shard that this member could not read.
	Damaged uint64 `json:"damaged"`
	// OwnWeight is the fraction of the shard's own score in its answers. Measured is the number of events by which the
	// answers were measured. The errors are of all events, estimated from these, and null without them.
	OwnWeight float64  `json:"own_weight"`
	Measured  float64  `json:"measured"`
	Error     *float64 `json:"error"` // in percent; for regression null
	LogLoss   *float64 `json:"log_loss"`
	MAE       *float64 `json:"mae,omitempty"`
	Covered   *float64 `json:"covered"` // fraction of sets or intervals that had the label
	// These are of shards that this member learns.
	Own        bool                    `json:"own"`
	Partitions []stream.TopicPartition `json:"partitions,omitempty"`
	Lag        int64                   `json:"lag"` // records that are not learned yet, as far as known
	Checkpoint string                  `json:"checkpoint,omitempty"`
	NotReady   string                  `json:"not_ready,omitempty"` // why the shard is not learned, or ""
}

// Status returns the current Status. models has the newest models by number, and nil for shards without one. Any
// goroutine may call it.
func (m *Member) Status(models []*served.Model) *Status {
	own, g := m.Own()
	s := &Status{Name: m.Config.Name, Shards: make([]ShardStatus, m.Shards)}
	if g != nil {
		s.Member, s.Generation, s.Members, s.Standby = g.Member, g.ID, g.Members, g.Standby
	}
	for k := range s.Shards {
		s.Shards[k].Number = k
		if k < len(models) && models[k] != nil {
			s.Shards[k].describe(models[k])
		}
	}
	for _, x := range own {
		s.Shards[x.Number].learned(x)
	}
	return s
}

// describe sets what a shard's model says.
func (s *ShardStatus) describe(m *served.Model) {
	s.Events, s.At = m.Events, m.At
	if m.Shard == nil {
		return
	}
	s.OwnWeight = m.Shard.OwnWeight
	a := m.Shard.Answered
	if a == nil || a.Weight == 0 {
		return
	}
	fraction := func(x float64) *float64 { x /= a.Weight; return &x }
	s.Measured = a.Number
	if m.Target() == loss.Sign {
		s.Error, s.LogLoss = fraction(100*a.Wrong), fraction(a.LogLoss)
	} else {
		s.MAE = fraction(a.Errors)
	}
	if m.Shard.Coverage > 0 {
		s.Covered = fraction(a.Covered)
	}
}

// learned sets what the Runner of a shard says.
func (s *ShardStatus) learned(x *Shard) {
	s.Own, s.Partitions, s.NotReady = true, x.Partitions, x.NotReady()
	r := x.Learning()
	if r == nil {
		return
	}
	status := r.Status()
	s.Events, s.Checkpoint = status.Learner.Events, status.Save.Name
	for _, p := range status.Partitions {
		s.Lag += max(p.Lag(), 0)
	}
}

// Total returns the Status of all shards that this member learns, with their counts added up. The report of the learner
// is that of the shard with the most events. NotReady names the first shard that is not learned.
func (m *Member) Total(started time.Time) *run.Status {
	own, g := m.Own()
	out := &run.Status{Started: started}
	if g == nil {
		out.NotReady = "this member has not joined the group yet"
	}
	for _, x := range own {
		if why := x.NotReady(); why != "" && out.NotReady == "" {
			out.NotReady = event.ShardName(x.Number) + ": " + why
		}
		if r := x.Learning(); r != nil {
			out.Add(r.Status())
		}
	}
	return out
}
