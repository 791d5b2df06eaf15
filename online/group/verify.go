package group

// This file applies a commit log for users, to inspect it and to verify its snapshots.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"blankout/internal/event"
	"blankout/stream"
)

// Report is the result of applying a commit log.
type Report struct {
	Name string `json:"name"`
	// From is the offset of the commit log from which records were applied: the offset after the last commit in
	// the snapshot that was loaded (the oldest readable one), or 0 for the start of the commit log.
	From   int64  `json:"from"`
	Offset int64  `json:"offset"` // offset after the last applied record
	Chain  string `json:"chain"`
	// Architecture is the architecture of the members' programs, or "" before the first accepted commit.
	Architecture string            `json:"architecture,omitempty"`
	Accepted     uint64            `json:"accepted"`
	Rejected     map[Reason]uint64 `json:"rejected"`
	Skipped      []Gap             `json:"skipped,omitempty"` // gaps that the group skips
	Events       uint64            `json:"events"`
	// Members are the members with a commit after From, sorted by id.
	Members []MemberReport `json:"members"`
	// Snapshots are the snapshots after From in the snapshot topic, in order, after the older ones that could not be read.
	Snapshots []SnapshotReport `json:"snapshots"`
	Positions event.Offsets    `json:"positions"`
}

// MemberReport describes one member.
type MemberReport struct {
	Member   string `json:"member"`
	Accepted uint64 `json:"accepted"` // number of accepted commits
	Rejected uint64 `json:"rejected"`
	// RejectedFor is the number of rejected commits by reason.
	RejectedFor map[Reason]uint64 `json:"rejected_for,omitempty"`
	Events      uint64            `json:"events"` // number of events in accepted commits
	Last        int64             `json:"last"`   // offset of its last commit
}

// SnapshotReport describes one snapshot.
type SnapshotReport struct {
	Offset int64 `json:"offset"`
	Bytes  int   `json:"bytes"`
	Same   bool  `json:"same"` // whether it equals the state of the commit log, byte by byte
	// CPU is the CPU that computed the snapshot, or "" if the commit log has no mark for the snapshot.
	CPU string `json:"cpu,omitempty"`
}

// Verified returns an error if there was no snapshot, or if a snapshot differs from the state of the commit log.
func (r *Report) Verified() error {
	if len(r.Snapshots) == 0 {
		return errors.New("no snapshot follows the one that the commit log was applied from")
	}
	here := thisMachine()
	for _, b := range r.Snapshots {
		if !b.Same && r.Architecture != "" && r.Architecture != here.architecture {
			return fmt.Errorf("snapshot %d cannot be verified here: the group learns on %s, but this program is built for %s, which rounds sums differently; verify the group on %s", b.Offset, r.Architecture, here.architecture, r.Architecture)
		}
		if !b.Same {
			return fmt.Errorf("snapshot %d differs from the result of the commit log: %s, unless another program wrote to the topic of snapshots; stop the group and delete the snapshot", b.Offset, twoCPUs(here.cpu, b.CPU))
		}
	}
	return nil
}

// Inspect applies the commit log of a member's group, from its start or from the oldest snapshot, and compares later
// snapshots with the result. It writes nothing.
func Inspect(ctx context.Context, m *Member) (*Report, error) {
	r, _, err := inspectGroup(ctx, m)
	return r, err
}

// inspectGroup is Inspect, and also returns the replica at the end of the commit log.
func inspectGroup(ctx context.Context, m *Member) (*Report, *replica, error) {
	topic, err := m.Config.openSnapshots(ctx, m.Kafka.ConnectConfig, m.Log)
	if err != nil {
		return nil, nil, err
	}
	defer topic.Close()
	for attempt := 1; ; attempt++ {
		snapshots, err := topic.All(ctx)
		if err != nil {
			return nil, nil, err
		}
		r, end, err := inspect(ctx, m, snapshots, false)
		if err == nil && end.fold.Accepted() == 0 && end.fold.Rejected()[ReasonSnapshot] > 0 && len(snapshots) > 0 { // the group started from another group
			r, end, err = inspect(ctx, m, snapshots, true)
		}
		var trimmed *stream.TrimmedError
		if errors.As(err, &trimmed) && attempt < loadTries {
			continue // a newer snapshot was written in the meantime
		}
		return r, end, err
	}
}

// inspect is one attempt of inspectGroup. snapshots must be sorted by offset. inspect starts with the oldest snapshot
// in three cases: oldest is true, the first records of the commit log have been deleted, or a snapshot is older than
// the first record. The error is a *SettingsError if no commit in the commit log has the settings of m.
func inspect(ctx context.Context, m *Member, snapshots []stream.GroupSnapshot, oldest bool) (*Report, *replica, error) {
	c := &m.Config
	report, all := &Report{Name: c.Name}, snapshots
	var end *replica
	where := c.CommitLog(m.Kafka.ConnectConfig, m.Log)
	reader, err := stream.ReadCommitLog(ctx, where, "", 0, true)
	var trimmed *stream.TrimmedError
	if oldest = oldest || len(snapshots) > 0 && snapshots[0].Offset == 0; oldest && err == nil {
		err = errors.Join(reader.Close(), &stream.TrimmedError{Topic: where.Topic})
	}
	for errors.As(err, &trimmed) && len(snapshots) > 0 {
		first := &snapshots[0]
		snapshots = snapshots[1:]
		var settings *SettingsError
		if end, err = readReplica(m.Learner, m.Settings, first, c.SnapshotEvery); errors.As(err, &settings) {
			return nil, nil, fmt.Errorf("snapshot %d: %w", first.Offset, err)
		} else if err != nil {
			report.Snapshots = append(report.Snapshots, SnapshotReport{Offset: first.Offset, Bytes: len(first.Data)})
			err = fmt.Errorf("snapshot %d: %w, and before it %w", first.Offset, err, trimmed)
			continue
		}
		report.From = first.Offset
		reader, err = stream.ReadCommitLog(ctx, where, end.topicID, end.read, true)
		break
	}
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	if end == nil {
		if end, err = newReplica(m.Learner, m.Settings, m.Schema(), reader.ID(), c.SnapshotEvery); err != nil {
			return nil, nil, err
		}
	}
	end.topicID = reader.ID()
	members := map[MemberID]*MemberReport{}
	for {
		records, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		for _, record := range records {
			m := readMixed(ctx, reader, record.Offset, record.Value)
			if m.err != nil {
				return nil, nil, m.err
			}
			_, _, err := end.apply(m)
			var rejected *Rejection
			if err != nil && !errors.As(err, &rejected) {
				return nil, nil, err
			}
			count(members, m, rejected)
			report.marked(m.mark)
			for len(snapshots) > 0 && snapshots[0].Offset <= end.read {
				same, err := end.same(&snapshots[0])
				if err != nil {
					return nil, nil, err
				}
				report.Snapshots = append(report.Snapshots, SnapshotReport{Offset: snapshots[0].Offset, Bytes: len(snapshots[0].Data), Same: same})
				snapshots = snapshots[1:]
			}
		}
	}
	if end.fold.Accepted() == 0 && end.fold.Rejected()[ReasonSettings] > 0 {
		if len(all) > 0 {
			if _, err := readReplica(m.Learner, m.Settings, &all[len(all)-1], c.SnapshotEvery); err != nil {
				return nil, nil, err
			}
		}
		return nil, nil, &SettingsError{}
	}
	for _, id := range slices.SortedFunc(maps.Keys(members), func(a, b MemberID) int { return bytes.Compare(a[:], b[:]) }) {
		report.Members = append(report.Members, *members[id])
	}
	_, chain := end.fold.Base()
	report.Offset, report.Chain = end.read, fmt.Sprintf("%016x", chain)
	report.Accepted, report.Rejected, report.Positions = end.fold.Accepted(), end.fold.Rejected(), end.fold.Offsets()
	report.Architecture = end.fold.Architecture()
	report.Skipped, report.Events = end.fold.Skipped(), end.fold.Learner().Report().Events
	return report, end, nil
}

// marked records the mark of a snapshot. m may be nil.
func (r *Report) marked(m *Mark) {
	for i := range r.Snapshots {
		if b := &r.Snapshots[i]; m != nil && b.Offset == m.Base {
			b.CPU = m.CPU
		}
	}
}

func count(members map[MemberID]*MemberReport, m mixed, rejected *Rejection) {
	if m.commit == nil {
		return
	}
	r := members[m.commit.Member]
	if r == nil {
		r = &MemberReport{Member: m.commit.Member.String(), RejectedFor: map[Reason]uint64{}}
		members[m.commit.Member] = r
	}
	r.Last = m.offset
	if rejected != nil {
		r.Rejected++
		r.RejectedFor[rejected.Reason]++
		return
	}
	r.Accepted++
	r.Events += m.commit.Events
}

// same reports whether a snapshot equals the state of the replica.
func (r *replica) same(b *stream.GroupSnapshot) (bool, error) {
	if b.Offset != r.read {
		return false, nil // no member writes a snapshot at this offset
	}
	data, _, err := r.encode()
	return bytes.Equal(data, b.Data), err
}
