package group

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/internal/longtest"
	records "blankout/record"
	"blankout/stream"
)

// solvers runs members that can validate until stop is called, and waits until they have
// written a base that counts at least so many records in, of every partition. more, if it is not nil, produces
// some meanwhile: a base comes after so many commits, and how many these are is chance.
func (e *events) solvers(n int, least uint64, more func(), change func(*Member)) (members []*Member, stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 100*time.Second)
	var running sync.WaitGroup
	for i := range n {
		m := e.member(testLog(e.t, fmt.Sprint(i)))
		e.validating(m)
		m.Validator.Config.Events = 0
		change(m)
		members = append(members, m)
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				e.t.Errorf("member %d: %v", i, err)
			}
		})
	}
	for {
		asked, err := stream.OpenBases(ctx, members[0].Config.Bases(e.connect(), testLog(e.t, "look")))
		if err != nil {
			e.t.Fatal(err)
		}
		base, err := asked.Newest(ctx, nil)
		if err != nil {
			e.t.Fatal(err)
		}
		asked.Close()
		if base != nil {
			r, err := readReplica(members[0].Learner, members[0].Settings, base, 4)
			if err != nil {
				e.t.Fatal(err)
			}
			if at := r.fold.Offsets(); recordsOf(at) >= least && len(at) == int(e.partitions) && !slices.ContainsFunc(at, func(p blankout.Position) bool { return p.Records == 0 }) {
				break
			}
		}
		if time.Sleep(20 * time.Millisecond); ctx.Err() != nil {
			e.t.Fatal("no base comes")
		}
		if more != nil {
			more()
		}
	}
	return members, func() { cancel(); running.Wait() }
}

// The members of a group solve its exact problem together as one machine does.
func TestSolve(t *testing.T) {
	e := newEvents(t, 4, 700)
	members, stop := e.solvers(2, 2000, func() { e.produce(20) }, func(m *Member) { m.Validator.Config.Tol = 1e-10 })
	defer stop()
	for { // both have partitions
		a, b := members[0].Status(), members[1].Status()
		if a != nil && b != nil && len(a.Partitions) == 2 && len(b.Partitions) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Old bases are deleted: the one that is asked for stays as long as few are written after it.
	e.complete.Store(true)
	for !e.all(members[0].Status()) {
		time.Sleep(10 * time.Millisecond)
	}
	m := e.member(testLog(t, "asks"))
	e.validating(m)
	m.Validator.Config.Tol = 1e-12
	parts, iterations := 0, 0
	got, exact, err := Solve(t.Context(), m, func(p batch.Progress) { iterations = p.Iteration }, func(ready, of int) { parts = ready * 10 * of })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got)
	if got.Members != 2 || got.Partitions != 4 || got.Records < 2000 || got.Read != got.Records || !got.Verified || got.Events == 0 || !got.Converged || got.Rounds < 10 || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
	if parts != 160 || iterations == 0 {
		t.Errorf("progress: %d of 160 and %d iterations", parts, iterations)
	}
	report := e.alone(m, got.Base)
	near := func(what string, a, b, tolerance float64) {
		t.Helper()
		if !(math.Abs(a-b) <= tolerance*math.Abs(b)) {
			t.Errorf("%s: together %.15g, alone %.15g", what, a, b)
		}
	}
	near("objective", got.Objective, report.Exact.Objective, 1e-9)
	near("live objective", got.LiveObjective, report.Live.Objective, 1e-9)
	near("events", float64(got.Events), float64(report.Events), 0)
	near("intercept", exact.Intercept[0], report.Exact.Intercept[0], 1e-4)
	if got.Loss != report.Loss || got.Noise != report.Noise || exact.Events != got.Events || !(got.Certificate <= 1e-9*got.Objective) {
		t.Errorf("%+v, %s %s", got, report.Loss, report.Noise)
	}
	// Again, while the learners go on.
	e.produce(200)
	again, _, err := Solve(t.Context(), m, nil, nil)
	if err != nil || again.Base == got.Base && again.Objective != got.Objective {
		t.Errorf("again: %+v, %v", again, err)
	}
	// A window is shared out.
	m.Validator.Config.Window = 1000
	window, _, err := Solve(t.Context(), m, nil, nil)
	if err != nil || window.Read < 1000 || window.Read > 1004 || window.Verified {
		t.Errorf("window: %+v, %v", window, err)
	}
}

// alone validates a base on one machine.
func (e *events) alone(m *Member, base int64) *batch.Validation {
	e.t.Helper()
	topic, err := stream.OpenBases(e.t.Context(), m.Config.Bases(e.connect(), m.Log))
	if err != nil {
		e.t.Fatal(err)
	}
	defer topic.Close()
	bases, err := topic.All(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	i := slices.IndexFunc(bases, func(b stream.Base) bool { return b.Offset == base })
	if i < 0 {
		e.t.Fatalf("base %d is gone", base)
	}
	r, err := readReplica(m.Learner, m.Settings, &bases[i], 4)
	if err != nil {
		e.t.Fatal(err)
	}
	report, _, err := m.Validator.Validate(e.t.Context(), requestOf(r))
	if err != nil {
		e.t.Fatal(err)
	}
	return report
}

// The training set of a9a in four partitions, learned by two members under dropout, has the
// solution that one machine finds.
func TestSolveA9a(t *testing.T) {
	longtest.Only(t)
	file, err := os.Open("../tests/testdata/a9a/train.svm.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	e := newEvents(t, 4, 0)
	c := stream.DefaultProducerConfig()
	c.ConnectConfig, c.Topic = e.connect(), "events"
	p, err := stream.NewProducer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unpacked)
	total := uint64(0)
	for ; lines.Scan(); total++ {
		if err := p.WriteTo(t.Context(), int32(total%4), stream.Message{Value: bytes.Clone(lines.Bytes())}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(lines.Err(), p.Flush(t.Context()), p.Close()); err != nil {
		t.Fatal(err)
	}
	setup := func(m *Member) {
		format := records.DefaultConfig()
		format.Seed = 1
		format.Format, format.Classes = "svmlight", []string{"-1", "1"}
		m.Learner.Noise = "dropout:0.3"
		m.Schema, m.Config.IntervalMin = format.Schema, 1000
		m.Kafka.BatchRecords = 1000
		m.Open = func(ctx context.Context, c stream.ConsumerConfig, s *blankout.Schema, from blankout.Offsets) (stream.Opened, error) {
			return stream.Input{Record: format, Kafka: c}.Open(ctx, s, from)
		}
		e.validating(m)
		m.Validator.Learner = m.Learner
		m.Validator.Config.Holdout, m.Validator.Config.Events, m.Validator.Config.Tol = 0, 0, 1e-10
		m.Settings = nil
	}
	_, stop := e.solvers(2, total/2, nil, setup)
	defer stop()
	m := e.member(testLog(t, "asks"))
	setup(m)
	got, _, err := Solve(t.Context(), m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := e.alone(m, got.Base)
	t.Logf("%s of %d of %d records: objective together %.12f, alone %.12f; certificate %.2g; %d iterations, %d questions, %d bytes, %.1f s; alone %.1f s", got.Noise, got.Read, total, got.Objective, report.Exact.Objective, got.Certificate, got.Iterations, got.Rounds, got.Bytes, got.Seconds, report.Seconds)
	if math.Abs(got.Objective-report.Exact.Objective) > 1e-9*report.Exact.Objective || !got.Verified || got.Partitions != 4 {
		t.Errorf("%+v, alone %v", got, report.Exact.Objective)
	}
}

// Without anyone who answers, or when a member goes, the one who asks is told.
func TestSolveErrors(t *testing.T) {
	e := newEvents(t, 2, 700)
	m := e.member(testLog(t, "asks"))
	if _, _, err := Solve(t.Context(), m, nil, nil); err == nil {
		t.Error("without a Validator: no error")
	}
	e.validating(m)
	m.Config.SessionTimeout = 300 * time.Millisecond
	if _, _, err := Solve(t.Context(), m, nil, nil); err == nil || !strings.Contains(err.Error(), "no base yet") {
		t.Errorf("without a base: %v", err)
	}
	_, stop := e.solvers(1, 1000, func() { e.produce(20) }, func(*Member) {})
	// The member crashes after the first answers.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, err := Solve(ctx, m, func(batch.Progress) { stop() }, nil)
	if err == nil || !strings.Contains(err.Error(), "silent") {
		t.Errorf("a member that has gone: %v", err)
	}
	if _, _, err := Solve(t.Context(), m, nil, nil); err == nil || !strings.Contains(err.Error(), "no member of group g answers for events/") {
		t.Errorf("without members: %v", err)
	}
	// Who comes later does not answer what was asked before.
	before := e.claims(m)
	e.complete.Store(true)
	later := e.member(testLog(t, "later"))
	e.validating(later)
	later.Validator.Config.Events = 0
	since := time.Now()
	later.Until = func(s *Status) bool { return e.all(s) && time.Since(since) > time.Second }
	if err := later.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if after := e.claims(m); before == 0 || after != before {
		t.Errorf("%d claims, and %d after a member came", before, after)
	}
}

// claims counts what members have said that they will answer.
func (e *events) claims(m *Member) (n int) {
	e.t.Helper()
	reader, err := stream.ReadLedger(e.t.Context(), m.Config.solveTopic(e.connect(), m.Log), "", 0, true)
	if err != nil {
		e.t.Fatal(err)
	}
	defer reader.Close()
	for {
		records, err := reader.Next(e.t.Context())
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			e.t.Fatal(err)
		}
		for _, r := range records {
			if m, err := decodeMessage(r.Value); err == nil && m.About == aboutClaim {
				n++
			}
		}
	}
}

func TestMessages(t *testing.T) {
	m := &message{
		Job: MemberID{1, 2}, Author: MemberID{3}, About: aboutAnswer, Round: 7, Part: part{Topic: "t", Partition: 4}, Parts: []part{{"a", 1, MemberID{9}}, {"b", 2, MemberID{}}},
		Ask: 3, Output: 2, Numbers: []float64{1, math.Inf(1), -0.5}, Counts: []uint64{5, 6}, Text: "why", Has: true, Chunks: []ChunkRef{{Partition: 1, Offset: 2, Rows: 3, Hash: 4}},
	}
	data := m.encode()
	got, err := decodeMessage(data)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("%+v, %v", got, err)
	}
	c := &Call{Job: MemberID{4, 5}, Base: 77, From: 88, Window: 99}
	if back, err := DecodeCall(c.Encode()); err != nil || *back != *c {
		t.Errorf("%+v, %v", back, err)
	}
	for i := range data {
		broken := slices.Clone(data)
		broken[i] ^= 1
		if _, err := decodeMessage(broken); err == nil {
			t.Errorf("byte %d changed: no error", i)
		}
	}
	if _, err := decodeMessage(seal(append([]byte(messageMagic), formatVersion, 1, 2, 3))); err == nil {
		t.Error("a message that is too short was taken")
	}
	if _, err := DecodeCall(seal(append([]byte(callMagic), formatVersion, 1, 2, 3))); err == nil {
		t.Error("a call that is too short was taken")
	}
}

// Bytes that are no message or call are refused, and what is read is written again as it was.
func FuzzMessages(f *testing.F) {
	m := &message{About: aboutReady, Parts: []part{{"a", 1, MemberID{9}}}, Numbers: []float64{1}, Counts: []uint64{5}, Chunks: []ChunkRef{{Partition: 1}}}
	f.Add(m.encode()[len(messageMagic)+1:])
	f.Add((&Call{Base: 3}).Encode()[len(callMagic)+1:])
	f.Fuzz(func(t *testing.T, data []byte) {
		asMessage := seal(append(append([]byte(messageMagic), formatVersion), data...))
		if m, err := decodeMessage(asMessage); err == nil && !bytes.Equal(m.encode(), asMessage) {
			t.Errorf("%+v is written as other bytes than it was read from", m)
		}
		asCall := seal(append(append([]byte(callMagic), formatVersion), data...))
		if c, err := DecodeCall(asCall); err == nil && !bytes.Equal(c.Encode(), asCall) {
			t.Errorf("%+v is written as other bytes than it was read from", c)
		}
	})
}
