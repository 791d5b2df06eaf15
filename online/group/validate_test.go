package group

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream"
)

// validating gives a member a Validator that holds out one record in five and validates after every thousand records.
func (e *events) validating(m *Member) {
	c := validate.DefaultConfig()
	c.Holdout, c.Events, c.Window, c.CPU = 5, 1000, 0, 1
	kafka := m.Kafka
	kafka.UntilEnd, kafka.Start = true, "earliest"
	open := m.Open
	m.Validator = &validate.Validator{Config: c, Learner: m.Learner, Open: func(ctx context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
		return open(ctx, kafka, s, from)
	}}
	m.Settings = c.Fingerprint()
}

// TestMembersValidate checks that one member of a group compares the group's model with the exact solution for the
// events of all members. Held-out records must be counted but not learned.
func TestMembersValidate(t *testing.T) {
	e := newEvents(t, 4, 500)
	ctx, _ := limited(t)
	var mu sync.Mutex
	reports := map[int][]*batch.Validation{} // reports by member
	var running members
	members := make([]*Member, 2)
	for i := range members {
		m := e.member(testLog(t, fmt.Sprint(i)))
		e.validating(m)
		m.Report = func(v *batch.Validation) error {
			mu.Lock()
			defer mu.Unlock()
			reports[i] = append(reports[i], v)
			return nil
		}
		// Stop after all records are applied and all due or requested validations are reported.
		asked := false
		m.Until = func(s *Status) bool {
			if !e.all(s) || s.Validation.Running {
				return false
			}
			if !asked {
				asked = true
				if err := m.Validate(); err != nil {
					t.Error(err)
				}
			}
			return s.Validation.Last != nil && s.Validation.Last.Records == 4000
		}
		members[i] = m
		running.start(t, ctx, i, m)
	}
	// If a validation is due, only one member validates.
	for due := false; !due; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("nothing is validated")
		}
		for _, m := range members {
			s := m.Status()
			due = due || s != nil && s.Validation.Done > 0
		}
	}
	e.produce(500)
	e.complete.Store(true)
	running.Wait()
	held := uint64(0)
	for p := range e.partitions {
		for o := range e.counts[p] {
			if validate.HeldOut(p, int64(o), 5) {
				held++
			}
		}
	}
	var last []*batch.Validation
	for i, m := range members {
		s := m.Status()
		e.check(s)
		// Some of the rejected records would have been held out.
		if got := s.Learner.Events + s.Learner.Refused; got < 4000-held || s.Learner.Events > 4000-held || s.Learner.Refused == 0 {
			t.Errorf("member %d: %d events and %d refused of 4000 of which %d are held out", i, s.Learner.Events, s.Learner.Refused, held)
		}
		v := s.Validation.Last
		if v == nil {
			t.Fatalf("member %d has not validated", i)
		}
		if !v.Verified || v.Source != "log" || uint64(v.Holdout) < held-30 || uint64(v.Holdout) > held || v.MeasuredOn != "holdout" {
			t.Errorf("member %d: %d records held out of %d, verified %v, measured on %s", i, v.Holdout, held, v.Verified, v.MeasuredOn)
		}
		if v.RelativeGap == nil || !(*v.RelativeGap > 0 && *v.RelativeGap < 1) {
			t.Errorf("member %d: relative gap %v", i, v.RelativeGap)
		}
		if s.Validation.Done != uint64(len(reports[i])) || v.ID == "" {
			t.Errorf("member %d: %d validations, %d reports", i, s.Validation.Done, len(reports[i]))
		}
		last = append(last, v)
	}
	// The members may have read the partitions in different orders.
	if a, b := last[0].Live.Objective, last[1].Live.Objective; math.Abs(a-b) > 1e-12*a {
		t.Errorf("the members' objectives are %v and %v, of the same model and events", a, b)
	}
	due, at := 0, map[uint64]bool{}
	for _, list := range reports {
		for _, v := range list {
			if v.Records < 4000 {
				due++
				if at[v.Records/1000] {
					t.Errorf("two validations after %d thousand records", v.Records/1000)
				}
				at[v.Records/1000] = true
			}
			if v.Records < 1000 {
				t.Errorf("validated after %d records", v.Records)
			}
		}
	}
	if due == 0 || due > 3 {
		t.Errorf("%d validations were due before 4000 records, one each thousand", due)
	}
}

// TestMemberOfOtherSettings checks that a member learns nothing if its settings convert records to other events.
func TestMemberOfOtherSettings(t *testing.T) {
	e := newEvents(t, 1, 1500)
	e.complete.Store(true)
	ctx, _ := limited(t)
	m := e.member(testLog(t, "first"))
	e.validating(m)
	m.Until = func(s *Status) bool { return e.all(s) && s.SnapshotOffset > 0 }
	must.Do(t, m.Run(ctx))
	other := e.member(testLog(t, "other"))
	e.validating(other)
	other.Settings = online.Fingerprint{"holdout": "7"}
	err := other.Run(ctx)
	if err == nil || !strings.Contains(err.Error(), `holdout: was "5", is "7"`) {
		t.Errorf("another holdout: %v", err)
	}
	if s := other.Status(); s != nil {
		t.Errorf("it had a status: %+v", s)
	}
	// A commit with other settings must also be rejected.
	marks := map[uint64]bool{}
	for _, settings := range []online.Fingerprint{nil, {"holdout": "5"}, {"holdout": "7"}, {"holdout": "5", "drop": "x"}} {
		marks[NewFold(newLearner(t), settings, nil).Fingerprint()] = true
	}
	if len(marks) != 4 || !marks[FingerprintHash(online.FingerprintOf(newLearner(t).Config(), newLearner(t).Schema()))] {
		t.Errorf("%d fingerprints of four settings", len(marks))
	}
	// A snapshot from an older program, without settings, must be accepted.
	topic := must.Get(stream.OpenSnapshots(ctx, m.Config.Snapshots(e.connect(), m.Log)))(t)
	defer topic.Close()
	base := must.Get(topic.Newest(ctx, nil))(t)
	r := must.Get(readReplica(m.Learner, m.Settings, base, m.Config.SnapshotEvery))(t)
	r.fold.settings = nil
	old, s := must.Get2(r.encode())(t)
	if _, err := readReplica(m.Learner, m.Settings, &stream.GroupSnapshot{Offset: base.Offset, Data: old}, m.Config.SnapshotEvery); err != nil {
		t.Errorf("a snapshot without settings: %v", err)
	}
	if want := xxhash.Sum64(old); s.Sum64() != want || s.bytes != len(old) {
		t.Errorf("a base of %d bytes and hash %x has the sum %x of %d", len(old), want, s.Sum64(), s.bytes)
	}
	if text, err := json.Marshal(mixBlock{}); err != nil || strings.Contains(string(text), "settings") {
		t.Errorf("no settings are written as %s, %v", text, err)
	}
}
