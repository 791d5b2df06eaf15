package group

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/staleness"
)

// newLearner returns a Learner of categories and a number.
func newLearner(t testing.TB) *online.Learner {
	t.Helper()
	s := event.NewSchema(16, []string{"no", "yes"}, 2)
	s.Fields = append(s.Fields, event.Field{Name: "x", Kind: event.Numeric}, event.Field{Name: "words", Kind: event.Words})
	return must.Get(online.New(online.DefaultConfig().ForGroup(), s))(t)
}

// record returns the event at an offset of a partition. It is the same in every call.
func record(partition int32, offset int64) *event.Example {
	r := rand.New(rand.NewPCG(uint64(partition), uint64(offset)))
	x := r.NormFloat64()
	e := &event.Example{Weight: 1, Offset: offset, Fingerprint: r.Uint64()}
	e.Features.Index, e.Features.Value, e.Field = []uint32{1}, []float64{10 + 2*x}, []uint16{1}
	f := x
	for column := uint32(2 + r.IntN(20)); column < 200; column += 1 + uint32(r.IntN(40)) {
		eventtest.Put(e, column, 1, 2)
		f += float64(column%7)/3 - 1
	}
	if f+r.NormFloat64() > 0 {
		e.Label = 1
	}
	return e
}

// entry is a record of a commit log in memory.
type entry struct {
	commit []byte
	chunks [][]byte
}

func (e entry) decode(t testing.TB) (*Commit, []*Chunk) {
	t.Helper()
	c := must.Get(DecodeCommit(e.commit))(t)
	var chunks []*Chunk
	for _, data := range e.chunks {
		chunks = append(chunks, must.Get(DecodeChunk(data))(t))
	}
	return c, chunks
}

// author is a test member that learns the records after the group's offsets.
type author struct {
	id    MemberID
	seq   uint64
	work  *online.Learner
	base  int64
	chain uint64
	spans []Span
}

func newAuthor(t testing.TB, f *Fold, id byte, peers int) *author {
	t.Helper()
	a := &author{id: MemberID{id}}
	a.work = must.Get(f.Learner().Clone())(t)
	a.begin(t, f, peers)
	return a
}

func (a *author) begin(t testing.TB, f *Fold, peers int) {
	t.Helper()
	var all []uint32
	for i := range uint32(256) {
		all = append(all, i)
	}
	must.Do(t, a.work.Follow(f.Learner(), all, peers, 50))
	a.base, a.chain = f.Base()
	a.spans = nil
}

func (a *author) learn(partition int32, from, to int64) {
	s := Span{Topic: "t", Partition: partition, From: from, To: to}
	for offset := from; offset < to; offset++ {
		e := record(partition, offset)
		a.work.Learn(e, nil)
		s.Records++
		s.Sum += e.Fingerprint
	}
	a.spans = append(a.spans, s)
}

func (a *author) commit(f *Fold) entry {
	d := a.work.Cut(32)
	c := &Commit{Fingerprint: f.Fingerprint(), Member: a.id, Seq: a.seq, Base: a.base, Chain: a.chain, Spans: a.spans, Kind: d.Kind, Events: d.Events}
	var e entry
	e.chunks, c.Chunks = EncodeChunks(a.id, a.seq, d)
	for i := range c.Chunks {
		c.Chunks[i].Partition, c.Chunks[i].Offset = 1, int64(i)
	}
	e.commit = c.Encode()
	a.seq++
	return e
}

func foldBytes(t testing.TB, f *Fold) []byte {
	t.Helper()
	blocks := must.Get(f.EachBlock())(t)
	var out []byte
	for b := range blocks {
		if b.Name != staleness.Block { // only a learner without a group has this block
			out = append(append(out, b.Name...), b.Data...)
		}
	}
	return out
}

// TestFoldExactlyOnce simulates members that crash, commit from old states, and send commits twice. Every accepted
// record must count once, no record may be skipped, and all readers of the commit log must have the same bytes.
func TestFoldExactlyOnce(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		const members, partitions, end = 4, 5, 400
		fold := NewFold(newLearner(t), nil, nil)
		authors := make([]*author, members)
		for i := range authors {
			authors[i] = newAuthor(t, fold, byte(i), members)
		}
		var commitLog []entry
		accepted, reasons := 0, map[Reason]int{}
		show := func(e entry) error {
			c, chunks := e.decode(t)
			_, err := fold.Apply(int64(len(commitLog)), c, chunks)
			commitLog = append(commitLog, e)
			if reason := reasonOf(err); reason != "" {
				reasons[reason]++
			} else {
				accepted++
			}
			return err
		}
		next := func(p int32) int64 { n, _ := fold.Next("t", p); return n }
		for step := 0; step < 4000; step++ {
			a := authors[r.IntN(members)]
			p := int32(r.IntN(partitions))
			from := next(p)
			if from >= end {
				continue
			}
			switch r.IntN(10) {
			case 0: // crash and lose the learned interval
				*a = *newAuthor(t, fold, a.id[0], members)
				continue
			case 1: // commit without applying the commits of others first
				from = max(0, from-int64(r.IntN(60)))
			case 2: // skip some records
				from += 1 + int64(r.IntN(5))
			case 3: // send a commit again
				if len(commitLog) > 0 {
					show(commitLog[r.IntN(len(commitLog))])
				}
				continue
			case 4: // lose a chunk
				a.begin(t, fold, members)
				a.learn(p, from, min(end, from+3))
				e := a.commit(fold)
				e.chunks = e.chunks[:0]
				if show(e) == nil {
					t.Fatal("a commit without its chunk was accepted")
				}
				a.begin(t, fold, members)
				continue
			}
			if r.IntN(3) > 0 { // else continue from an older fold
				a.begin(t, fold, members)
			}
			a.learn(p, from, min(end, from+1+int64(r.IntN(80))))
			show(a.commit(fold))
			a.begin(t, fold, members)
		}
		for p := range int32(partitions) {
			position, _ := fold.Offsets().Lookup("t", p)
			sum, n := uint64(0), uint64(0)
			for offset := position.First; offset < position.Next; offset++ {
				sum += record(p, offset).Fingerprint
				n++
			}
			if position.Records != n || position.Sum != sum || position.Next < end {
				t.Errorf("seed %d partition %d: %+v, want %d records of sum %x up to %d", seed, p, position, n, sum, end)
			}
		}
		events := uint64(0)
		for _, p := range fold.Offsets() {
			events += p.Records
		}
		if got := fold.Learner().Report().Events; got != events {
			t.Errorf("seed %d: the model has learned %d events of %d records", seed, got, events)
		}
		for _, reason := range []Reason{ReasonSpan, ReasonChunks} {
			if reasons[reason] == 0 {
				t.Errorf("seed %d: nothing was rejected for %s in %d commits", seed, reason, len(commitLog))
			}
		}
		// One replica reads the commit log from the beginning, and the other starts from a snapshot halfway.
		want := foldBytes(t, fold)
		replica := NewFold(newLearner(t), nil, nil)
		for i, e := range commitLog {
			if i == len(commitLog)/2 {
				replica = must.Get(ReadFold(online.DefaultConfig(), nil, slices.Collect(must.Get(replica.EachBlock())(t))))(t)
			}
			c, chunks := e.decode(t)
			replica.Apply(int64(i), c, chunks)
		}
		if !bytes.Equal(want, foldBytes(t, replica)) {
			t.Errorf("seed %d: the replica differs", seed)
		}
		if uint64(accepted) != fold.Accepted() {
			t.Errorf("seed %d: accepted %d, the fold says %d", seed, accepted, fold.Accepted())
		}
	}
}

// TestFoldOfOne compares a group of one member, which commits its whole state, with a Learner without a group. The
// states must be equal bit by bit, except for the errors by staleness.
func TestFoldOfOne(t *testing.T) {
	alone := newLearner(t)
	fold := NewFold(newLearner(t), nil, nil)
	a := newAuthor(t, fold, 1, 1)
	for i := range int64(20) {
		for offset := 40 * i; offset < 40*(i+1); offset++ {
			alone.Learn(record(0, offset), nil)
		}
		a.learn(0, 40*i, 40*(i+1))
		c, chunks := a.commit(fold).decode(t)
		must.Get(fold.Apply(i, c, chunks))(t)
		a.begin(t, fold, 1)
	}
	want := foldBytes(t, &Fold{learner: alone})
	got := foldBytes(t, &Fold{learner: fold.learner})
	if !bytes.Equal(want, got) {
		t.Error("the state differs from that of a learner alone")
	}
}

// TestFoldMoved checks commits that replace the whole state. Such a commit must be rejected if another member has
// committed after its base. Inconsistent commits must be rejected with their reason.
func TestFoldMoved(t *testing.T) {
	fold := NewFold(newLearner(t), nil, nil)
	one, other := newAuthor(t, fold, 1, 1), newAuthor(t, fold, 2, 1)
	one.learn(0, 0, 10)
	other.learn(1, 0, 10)
	c, chunks := one.commit(fold).decode(t)
	must.Get(fold.Apply(0, c, chunks))(t)
	before := foldBytes(t, &Fold{learner: fold.learner})
	c, chunks = other.commit(fold).decode(t)
	if _, err := fold.Apply(1, c, chunks); reasonOf(err) != ReasonMoved {
		t.Errorf("error %v, want %s", err, ReasonMoved)
	}
	if !bytes.Equal(before, foldBytes(t, &Fold{learner: fold.learner})) {
		t.Error("a rejected commit has changed the model")
	}
	// These commits have other settings, or belong to another commit log.
	for _, change := range []struct {
		reason Reason
		to     func(*Commit)
	}{
		{ReasonSettings, func(c *Commit) { c.Fingerprint++ }},
		{ReasonSnapshot, func(c *Commit) { c.Chain++ }},
		{ReasonSnapshot, func(c *Commit) { c.Base = 99 }},
		{ReasonDelta, func(c *Commit) { c.Events-- }},
		{ReasonSpan, func(c *Commit) { c.Spans[0].Records = 11 }},
		{ReasonSpan, func(c *Commit) { c.Events = 11 }},
		{ReasonSpan, func(c *Commit) { c.Spans = append(c.Spans, c.Spans[0]) }},
		{ReasonChunks, func(c *Commit) { c.Chunks[0].Hash++ }},
		{ReasonChunks, func(c *Commit) { c.Seq++ }},
	} {
		other.begin(t, fold, 2)
		other.learn(1, 0, 10)
		c, chunks := other.commit(fold).decode(t)
		change.to(c)
		offset, _ := fold.Base()
		if _, err := fold.Apply(offset+1, c, chunks); reasonOf(err) != change.reason {
			t.Errorf("error %v, want %s", err, change.reason)
		}
	}
	if !bytes.Equal(before, foldBytes(t, &Fold{learner: fold.learner})) {
		t.Error("a rejected commit has changed the model")
	}
}

func TestChunks(t *testing.T) {
	fold := NewFold(newLearner(t), nil, nil)
	a := newAuthor(t, fold, 3, 2)
	a.learn(0, 0, 50)
	d := a.work.Cut(64)
	// Enlarge the delta until its rows need several chunks.
	for range 5 {
		d.Columns, d.Values = append(d.Columns, d.Columns...), append(d.Values, d.Values...)
	}
	for len(d.Columns) < 30_000 {
		d.Columns, d.Values = append(d.Columns, d.Columns...), append(d.Values, d.Values...)
	}
	d.State = append(d.State, make([]byte, 2*MaxChunk)...)
	encoded, refs := EncodeChunks(a.id, 9, d)
	if len(encoded) < 4 {
		t.Fatalf("%d chunks", len(encoded))
	}
	c := &Commit{Member: a.id, Seq: 9, Kind: d.Kind, Events: d.Events, Chunks: refs}
	var chunks []*Chunk
	for _, data := range encoded {
		if len(data) > MaxChunk {
			t.Errorf("a chunk of %d bytes", len(data))
		}
		chunks = append(chunks, must.Get(DecodeChunk(data))(t))
	}
	got := must.Get(join(c, chunks))(t)
	if !reflect.DeepEqual(got, d) {
		t.Error("the delta is not what was encoded")
	}
	swapped := slices.Clone(chunks)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	for _, bad := range [][]*Chunk{nil, chunks[1:], swapped, append(slices.Clone(chunks), chunks[0])} {
		if _, err := join(c, bad); err == nil {
			t.Error("chunks that do not belong were joined")
		}
	}
}

// TestDamage checks that every changed or missing byte of a record is detected.
func TestDamage(t *testing.T) {
	fold := NewFold(newLearner(t), nil, nil)
	a := newAuthor(t, fold, 3, 2)
	a.learn(0, 0, 3)
	e := a.commit(fold)
	for i := range e.commit {
		bad := slices.Clone(e.commit)
		bad[i] ^= 1
		if _, err := DecodeCommit(bad); err == nil {
			t.Errorf("commit with byte %d changed was read", i)
		}
		if _, err := DecodeCommit(e.commit[:i]); err == nil {
			t.Errorf("commit of %d bytes was read", i)
		}
	}
	for i := 0; i < len(e.chunks[0]); i += 7 {
		bad := slices.Clone(e.chunks[0])
		bad[i] ^= 1
		if _, err := DecodeChunk(bad); err == nil {
			t.Errorf("chunk with byte %d changed was read", i)
		}
		if _, err := DecodeChunk(e.chunks[0][:i]); err == nil {
			t.Errorf("chunk of %d bytes was read", i)
		}
	}
}

// FuzzRecords decodes arbitrary content with a valid checksum, and applies the decoded records.
func FuzzRecords(f *testing.F) {
	fold := NewFold(newLearner(f), nil, nil)
	a := newAuthor(f, fold, 3, 2)
	a.learn(0, 0, 3)
	e := a.commit(fold)
	full := newAuthor(f, fold, 4, 1)
	full.learn(0, 0, 3)
	w := full.commit(fold)
	f.Add(e.commit, e.chunks[0])
	f.Add(w.commit, w.chunks[0])
	f.Add((&Mark{Member: MemberID{1, 2}, Base: 3, Hash: 4}).Encode(), w.chunks[0])
	f.Add((&Skip{Fingerprint: 5, Gap: Gap{"t", 1, 2, 3}}).Encode(), w.chunks[0])
	f.Fuzz(func(t *testing.T, commit, chunk []byte) {
		repair := func(data []byte) []byte { return seal(data[:max(0, len(data)-checksumBytes)]) }
		if m, err := DecodeMark(repair(commit)); err == nil {
			if again, err := DecodeMark(m.Encode()); err != nil || *again != *m {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		if s, err := DecodeSkip(repair(commit)); err == nil && !bytes.Equal(s.Encode(), repair(commit)) {
			t.Errorf("%+v is not what it was read from", s)
		}
		c, err := DecodeCommit(repair(commit))
		if err != nil {
			return
		}
		if again, err := DecodeCommit(c.Encode()); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%+v became %+v, %v", c, again, err)
		}
		k, err := DecodeChunk(repair(chunk))
		if err != nil {
			return
		}
		c.Fingerprint, c.Base, c.Chain, c.Member, c.Seq, c.Spans = fold.Fingerprint(), -1, 0, k.Member, k.Seq, []Span{{To: 1 << 40, Records: 1 << 39}}
		c.Chunks = []ChunkRef{{Rows: uint32(len(k.Delta.Columns)), Hash: k.Hash}}
		k.Index = 0
		NewFold(newLearner(t), nil, nil).Apply(0, c, []*Chunk{k})
	})
}

// TestManyPartitions checks that a commit and a snapshot with many partitions and the shortest possible names can be
// decoded.
func TestManyPartitions(t *testing.T) {
	f := NewFold(newLearner(t), nil, nil)
	c := &Commit{}
	for p := range int32(100) {
		f.offsets.At("", p, 0).Next = 1
		c.Spans = append(c.Spans, Span{Partition: p, To: 1})
	}
	got, err := DecodeCommit(c.Encode())
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v, %v", got, err)
	}
	blocks := must.Get(f.EachBlock())(t)
	again := must.Get(ReadFold(online.DefaultConfig(), nil, slices.Collect(blocks)))(t)
	if got, want := again.learner.Config().CovarianceMaxFields, f.learner.Config().CovarianceMaxFields; got != want {
		t.Errorf("the fold of a snapshot gathers the covariance of %d columns, the fold itself of %d", got, want)
	}
	if !bytes.Equal(foldBytes(t, f), foldBytes(t, again)) {
		t.Error("the fold that was read differs")
	}
}
