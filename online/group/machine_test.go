package group

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"blankout/internal/must"
)

// TestFoldRefusesOtherArchitecture checks that a commit from another architecture than the accepted commits is rejected
// and changes nothing. The same must hold after the fold is restored from a snapshot.
func TestFoldRefusesOtherArchitecture(t *testing.T) {
	f := NewFold(newLearner(t), nil, nil)
	offset := int64(0)
	apply := func(a *author, architecture string) error {
		t.Helper()
		c, chunks := a.commit(f).decode(t)
		c.Architecture = architecture
		c, err := DecodeCommit(c.Encode())
		if err != nil || c.Architecture != architecture {
			t.Fatalf("%+v, %v", c, err)
		}
		_, err = f.Apply(offset, c, chunks)
		offset++
		return err
	}
	first, second := newAuthor(t, f, 1, 2), newAuthor(t, f, 2, 2)
	first.learn(0, 0, 50)
	second.learn(1, 0, 50)
	if f.Architecture() != "" {
		t.Errorf("before the first commit: %q", f.Architecture())
	}
	if err := apply(first, "amd64"); err != nil || f.Architecture() != "amd64" {
		t.Fatalf("the first commit: %v, %q", err, f.Architecture())
	}
	blocks := must.Get(f.EachBlock())(t)
	again, err := ReadFold(newLearner(t).Config(), nil, slices.Collect(blocks))
	if err != nil || again.Architecture() != "amd64" {
		t.Fatalf("from its blocks: %v, %v", again, err)
	}
	for _, other := range []string{"arm64", "amd64 (GOAMD64=v3)", ""} {
		before := f.Learner().Report().Events
		var rejected *Rejection
		if err := apply(second, other); !errors.As(err, &rejected) || rejected.Reason != ReasonArchitecture || !strings.Contains(rejected.Detail, "learned on "+other+", and the group learns on amd64") {
			t.Errorf("%q: %v", other, err)
		}
		if f.Learner().Report().Events != before || f.Architecture() != "amd64" {
			t.Errorf("%q: a rejected commit has changed the fold", other)
		}
		second.begin(t, f, 2)
		second.learn(1, 0, 50)
	}
	if err := apply(second, "amd64"); err != nil || f.Learner().Report().Events != 100 {
		t.Errorf("the same architecture: %v", err)
	}
}

// TestMemberOfOtherArchitecture starts a member of another architecture than the group's, with and without a snapshot.
// It must stop with an error that names both architectures, and must not affect the group. Another group with the
// member's architecture may start from the snapshot.
func TestMemberOfOtherArchitecture(t *testing.T) {
	for _, snapshots := range []uint64{4, 2048} {
		t.Run(fmt.Sprint("a snapshot every ", snapshots), func(t *testing.T) {
			e := newEvents(t, 2, 500)
			e.complete.Store(true)
			ctx, _ := limited(t)
			first := e.member(testLog(t, "first"))
			first.machine, first.Config.SnapshotEvery = &machine{"arm64", "A"}, snapshots
			first.Until = e.all
			if snapshots > 4 {
				first.crash = func() bool { return true } // prevents that the member writes a snapshot when it stops
			}
			must.Do(t, first.Run(ctx))
			other := e.member(testLog(t, "other"))
			other.machine, other.Config.SnapshotEvery = &machine{"amd64", "B"}, snapshots
			var refused *ArchitectureError
			err := other.Run(ctx)
			if !errors.As(err, &refused) || *refused != (ArchitectureError{"g", "arm64", "amd64"}) {
				t.Fatalf("another architecture: %v", err)
			}
			for _, part := range []string{"group g learns on arm64", "is built for amd64", "run a build for arm64", "--from-group g"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			r := e.inspect()
			if len(r.Members) != 1 || r.Architecture != "arm64" {
				t.Errorf("members %+v of architecture %q", r.Members, r.Architecture)
			}
			if snapshots > 4 {
				return
			}
			next := e.member(testLog(t, "next"))
			next.machine, next.Config.Name, next.From = &machine{"amd64", "B"}, "h", "g"
			next.Until = func(s *Status) bool { return s.Learner.Events > 0 && s.Members == 1 }
			if err := next.Run(ctx); err != nil || next.Status().Learner.Events < 900 {
				t.Errorf("a group from one of another architecture: %v", err)
			}
		})
	}
}

// TestArchitecturesBeginTogether starts a group with two members of different architectures. One must continue, and the
// other must stop with an error.
func TestArchitecturesBeginTogether(t *testing.T) {
	e := newEvents(t, 2, 1000)
	ctx, _ := limited(t)
	names, errs := []string{"amd64", "arm64"}, make([]error, 2)
	members := make([]*Member, 2)
	var running sync.WaitGroup
	for i := range members {
		m := e.member(testLog(t, names[i]))
		m.machine, m.Until, m.Config.Warm = &machine{names[i], "C"}, e.all, 0
		members[i] = m
		running.Go(func() { errs[i] = m.Run(ctx) })
	}
	e.complete.Store(true)
	running.Wait()
	var refused *ArchitectureError
	lost := slices.IndexFunc(errs, func(err error) bool { return errors.As(err, &refused) })
	if lost < 0 || errs[1-lost] != nil {
		t.Fatalf("the members ended with %v", errs)
	}
	if refused.Here != names[lost] || refused.Group != names[1-lost] {
		t.Errorf("%+v of %s", refused, names[lost])
	}
	e.check(members[1-lost].Status())
}

// TestDifferentStates checks a member whose snapshot differs from the group's. The member must report both CPUs. The
// report must end when a later snapshot is equal, or when the member starts from a snapshot.
func TestDifferentStates(t *testing.T) {
	e := newEvents(t, 1, 1)
	var log bytes.Buffer
	m := e.member(slog.New(slog.NewTextHandler(&log, nil)))
	m.machine = &machine{"amd64", "model A with FMA, with AVX2"}
	state := func(events int64) *replica {
		t.Helper()
		r := &replica{fold: NewFold(newLearner(t), nil, nil), every: 4, floorsAt: map[int64][]int64{}}
		a := newAuthor(t, r.fold, 1, 1)
		a.learn(0, 0, events)
		c, chunks := a.commit(r.fold).decode(t)
		if _, _, err := r.apply(mixed{commit: c, chunks: chunks, trimmed: make([]bool, len(chunks))}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	l := newRunning(m)
	l.entries = &entries{}
	mark := func(offset int64, own, group *replica, cpu string) {
		t.Helper()
		sums := []*sum{}
		for _, r := range []*replica{own, group} {
			sums = append(sums, must.Get(r.sum())(t))
		}
		l.replica = own
		l.endSnapshot(offset, sums[0], false, nil)
		said := must.Get(DecodeMark((&Mark{Member: MemberID{7}, Base: offset, Hash: sums[1].Sum64(), CPU: cpu}).Encode()))(t)
		must.Do(t, l.apply(mixed{offset: offset, mark: said}))
	}
	mark(4, state(50), state(50), "model B")
	if l.snapshots.differs != "" || l.current.Mismatches != 0 {
		t.Fatalf("equal states: %s", l.snapshots.differs)
	}
	mark(8, state(50), state(51), "model B without FMA, with AVX2")
	want := "at snapshot 8 of the commit log this member's model differs from the group's: it computes on model A with FMA, with AVX2, and the group's was computed on model B without FMA, with AVX2"
	if l.snapshots.differs != want || l.current.Mismatches != 1 {
		t.Errorf("%q, want %q", l.snapshots.differs, want)
	}
	if text := log.String(); !strings.Contains(text, want) || strings.Contains(text, "memory") || !strings.Contains(text, "CPUs of one model") {
		t.Errorf("the log says %q", text)
	}
	mark(12, state(60), state(61), m.machine.cpu)
	if !strings.Contains(l.snapshots.differs, "both were computed on model A with FMA, with AVX2, so the builds of the program probably differ") {
		t.Errorf("the same CPU: %q", l.snapshots.differs)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("one mismatch that lasts is told %d times", n)
	}
	mark(16, state(70), state(70), "model B")
	if l.snapshots.differs != "" || l.current.Mismatches != 2 {
		t.Errorf("equal again: %q", l.snapshots.differs)
	}
	mark(20, state(80), state(81), "")
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("two mismatches are told %d times", n)
	}
	if !strings.Contains(l.snapshots.differs, "an unknown CPU") {
		t.Errorf("a mark without a CPU: %q", l.snapshots.differs)
	}
	if l.snapshots.begun(1); l.snapshots.differs != "" || len(l.snapshots.marks) != 0 {
		t.Errorf("begun anew: %+v", l.snapshots)
	}
}

// TestVerifiedNamesMachines checks the report of a snapshot that differs from the replayed commit log. It must name the
// CPUs, or state that this architecture cannot verify the snapshot.
func TestVerifiedNamesMachines(t *testing.T) {
	here := thisMachine()
	r := &Report{Architecture: here.architecture, Snapshots: []SnapshotReport{{Offset: 3, Same: true}, {Offset: 8}}}
	r.marked(&Mark{Base: 8, CPU: "model B"})
	r.marked(&Mark{Base: 9, CPU: "model C"})
	r.marked(nil)
	if err := r.Verified(); err == nil || !strings.Contains(err.Error(), "snapshot 8 differs from the result of the commit log: it computes on "+here.cpu+", and the group's was computed on model B") || strings.Contains(err.Error(), "memory") {
		t.Error(err)
	}
	r.Architecture = "vax"
	if err := r.Verified(); err == nil || !strings.Contains(err.Error(), "snapshot 8 cannot be verified here: the group learns on vax, but this program is built for "+here.architecture) {
		t.Error(err)
	}
	r.Snapshots = r.Snapshots[:1]
	if err := r.Verified(); err != nil {
		t.Errorf("all snapshots are equal: %v", err)
	}
}

func TestThisMachine(t *testing.T) {
	m := thisMachine()
	if !strings.HasPrefix(m.architecture, runtime.GOARCH) || m.cpu == "" {
		t.Errorf("%+v", m)
	}
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: X\nmodel name\t: AMD EPYC 7B13\nflags\t: fma\n": "AMD EPYC 7B13",
		"cpu\t\t: POWER9\n":             "POWER9",
		"processor\t: 0\nBogoMIPS: 2\n": "",
		"":                              "",
	} {
		if got := cpuModel(strings.NewReader(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := withFeatures("X", true, false); got != "X with FMA, without AVX2" {
		t.Error(got)
	}
	if fuses(1, 1, 1) {
		t.Error("1+1 is not 2")
	}
}
