package group

// This file holds commits that learn nothing: they have the group pass over offsets of a
// partition whose records were deleted before they were learned.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"blankout/internal/coder"
	"blankout/stream"
)

// Gap is a run of offsets of a partition that a group passes over.
type Gap struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"` // the offset that follows the last
}

func (g Gap) String() string {
	return fmt.Sprintf("%s/%d offsets %d to %d", g.Topic, g.Partition, g.From, g.To-1)
}

// Skip is a record of the commit log: from here on the accepted records of a partition end
// before To and no longer before From.
type Skip struct {
	Fingerprint uint64 // as a Commit's
	Author      MemberID
	Gap
}

const skipMagic = "bkoskip"

// Encode returns the skip's bytes; state has its fields in order.
func (s *Skip) Encode() []byte {
	to := &coder.Coder{Out: append([]byte(skipMagic), formatVersion)}
	s.state(to)
	return seal(to.Out)
}

// DecodeSkip reads what Encode wrote. The error says what is wrong with the bytes.
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

// Skip gives the fold the commit log's skip at an offset. It is accepted, as a commit is, only
// where it begins where its partition has come to: of two of the same gap one counts. The
// error is a *Rejection.
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
		r = &Rejection{ReasonSpan, fmt.Sprintf("%s: nothing is between the two", s.Gap)}
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

// SkipError says why a group cannot pass over what it was asked to.
type SkipError struct{ error }

// SkipTo has a group pass over the records of a partition before an offset, which the log has
// lost. It returns the gap once the commit log holds it. All members, those that start later too,
// pass it at the same place of the commit log.
func SkipTo(ctx context.Context, m *Member, topic string, partition int32, to int64) (Gap, error) {
	gap := Gap{Topic: topic, Partition: partition, To: to}
	r, state, err := inspectGroup(ctx, m)
	if err != nil {
		return gap, err
	}
	var found bool
	if gap.From, found = state.fold.Next(topic, partition); !found {
		return gap, &SkipError{fmt.Errorf("%s/%d: group %s has learned nothing of this partition, which it begins where kafka.start says", topic, partition, r.Name)}
	}
	start, end, err := stream.LogRange(ctx, m.Kafka.ConnectConfig, topic, partition, m.Log)
	switch {
	case err != nil:
		return gap, err
	case to <= gap.From:
		return gap, &SkipError{fmt.Errorf("%s/%d: group %s has come to offset %d already: nothing is to be passed over before %d", topic, partition, r.Name, gap.From, to)}
	case to < start || to > end:
		return gap, &SkipError{fmt.Errorf("%s/%d: the log holds %d to %d, and the group could not go on at %d: name an offset from %d to %d", topic, partition, start, end, to, max(start, gap.From+1), end)}
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
		return gap, fmt.Errorf("the skip was written at offset %d of the commit log, and what became of it is not known: %w", offset, err)
	}
	for _, there := range state.fold.skipped {
		if there == gap {
			return gap, nil
		}
	}
	next, _ := state.fold.Next(topic, partition)
	return gap, fmt.Errorf("%s: the skip was not accepted, for a member has committed records of the partition meanwhile: it has come to offset %d", gap, next)
}

// trimmedError has an error that says that the events which a group would learn next are not
// there say what can be done in a group.
func (m *Member) trimmedError(err error) error {
	if out, ok := errors.AsType[*stream.OffsetOutOfRangeError](err); ok && out.Offset > out.End {
		out.Advice = fmt.Sprintf("begin another group, with run --from-group %s for what this one has learned", m.Config.Name)
	} else if ok {
		out.Advice = fmt.Sprintf("the group did not learn them: restore them, or have all members pass over them with: blankout group skip %s %s/%d %d", m.Config.Name, out.Topic, out.Partition, out.Start)
	}
	return err
}
