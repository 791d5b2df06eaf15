package group

// This file has skips. A skip is a record of the commit log: it makes the group skip records of a partition that were
// deleted before they were learned.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"blankout/internal/coder"
	"blankout/stream"
)

// Gap is a range of offsets of a partition that a group skips.
type Gap struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"` // offset after the last skipped record
}

func (g Gap) String() string {
	return fmt.Sprintf("%s/%d offsets %d to %d", g.Topic, g.Partition, g.From, g.To-1)
}

// Skip is a record of the commit log. Before the skip the accepted records of the partition end at offset From, and
// after the skip they end at offset To.
type Skip struct {
	Fingerprint uint64 // hash of the settings, as in a Commit
	Author      MemberID
	Gap
}

const skipMagic = "bkoskip"

// Encode returns the skip's bytes; the method state lists the fields in order.
func (s *Skip) Encode() []byte {
	to := &coder.Coder{Out: append([]byte(skipMagic), formatVersion)}
	s.state(to)
	return seal(to.Out)
}

// DecodeSkip decodes the result of Encode. The error describes the damage.
func DecodeSkip(data []byte) (*Skip, error) {
	data, err := unseal(skipMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a skip: %w", err)
	}
	s, from := &Skip{}, coder.Read(data)
	if s.state(from); !from.Done() {
		return nil, fmt.Errorf("decoding a skip: %d bytes do not fit its format", len(data))
	}
	return s, nil
}

func (s *Skip) state(to *coder.Coder) {
	to.Uint(&s.Fingerprint)
	memberState(to, &s.Author)
	gapState(to, &s.Gap)
}

func gapState(to *coder.Coder, g *Gap) {
	text(to, &g.Topic)
	number(to, &g.Partition)
	to.Int64(&g.From)
	to.Int64(&g.To)
}

// Skip applies a skip, which is at the given offset of the commit log. It is accepted only if the accepted records of
// its partition end at From. Of two equal skips therefore only the first is accepted. An error is a *Rejection.
func (f *Fold) Skip(offset int64, s *Skip) error {
	f.advance(offset)
	before, found := f.offsets.Lookup(s.Topic, s.Partition)
	var r *Rejection
	switch {
	case s.Fingerprint != f.fingerprint:
		r = &Rejection{ReasonSettings, "it was made under other settings"}
	case !found || s.From != before.Next:
		r = &Rejection{ReasonSpan, fmt.Sprintf("%s: the accepted records end before offset %d", s.Gap, before.Next)}
	case s.To <= s.From:
		r = &Rejection{ReasonSpan, fmt.Sprintf("%s: the range is empty", s.Gap)}
	}
	if r != nil {
		f.rejected[r.Reason]++
		return r
	}
	f.offsets.At(s.Topic, s.Partition, s.From).Next = s.To
	f.skipped = append(f.skipped, s.Gap)
	f.accept(s.Encode())
	return nil
}

// SkipError reports why a group cannot skip a gap.
type SkipError struct{ error }

// SkipTo makes a group skip the records of a partition before an offset. The broker must have deleted these records.
// SkipTo returns the gap after the skip was written to the commit log. All members, including later ones, apply the
// skip at the same position of the commit log.
func SkipTo(ctx context.Context, m *Member, topic string, partition int32, to int64) (Gap, error) {
	gap := Gap{Topic: topic, Partition: partition, To: to}
	r, state, err := inspectGroup(ctx, m)
	if err != nil {
		return gap, err
	}
	var found bool
	if gap.From, found = state.fold.Next(topic, partition); !found {
		return gap, &SkipError{fmt.Errorf("%s/%d: group %s has learned nothing of this partition and will start at kafka.start", topic, partition, r.Name)}
	}
	start, end, err := stream.LogRange(ctx, m.Kafka.ConnectConfig, topic, partition, m.Log)
	switch {
	case err != nil:
		return gap, err
	case to <= gap.From:
		return gap, &SkipError{fmt.Errorf("%s/%d: group %s is already at offset %d: there is nothing to skip before %d", topic, partition, r.Name, gap.From, to)}
	case to < start || to > end:
		return gap, &SkipError{fmt.Errorf("%s/%d: the log contains %d to %d, so the group cannot continue at %d: name an offset from %d to %d", topic, partition, start, end, to, max(start, gap.From+1), end)}
	}
	commitLog, err := m.Config.openCommitLog(ctx, m.Kafka.ConnectConfig, m.Log)
	if err != nil {
		return gap, err
	}
	defer commitLog.Close()
	s := &Skip{Fingerprint: state.fold.Fingerprint(), Gap: gap}
	if _, err := rand.Read(s.Author[:]); err != nil {
		return gap, err
	}
	offset, err := commitLog.AppendCommit(ctx, s.Encode())
	if err != nil {
		return gap, err
	}
	if _, state, err = inspectGroup(ctx, m); err != nil {
		return gap, fmt.Errorf("the skip was written at offset %d of the commit log, but its result is unknown: %w", offset, err)
	}
	for _, there := range state.fold.skipped {
		if there == gap {
			return gap, nil
		}
	}
	next, _ := state.fold.Next(topic, partition)
	return gap, fmt.Errorf("%s: the skip was not accepted, because a member has committed records up to offset %d", gap, next)
}

// trimmedError adds to an error about deleted records what the user of a group can do.
func (m *Member) trimmedError(err error) error {
	if out, ok := errors.AsType[*stream.OffsetOutOfRangeError](err); ok && out.Offset > out.End {
		out.Advice = fmt.Sprintf("start a new group from this one's state with run --from-group %s", m.Config.Name)
	} else if ok {
		out.Advice = fmt.Sprintf("the group did not learn them: restore them, or skip them with: blankout group skip %s %s/%d %d", m.Config.Name, out.Topic, out.Partition, out.Start)
	}
	return err
}
