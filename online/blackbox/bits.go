package blackbox

// This file tests what must be equal to the bit.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream"
)

// testTable holds every setting to what all settings have in common. Three learners meet the same events: one of them
// restarts on the way, and another one is looked at by every means between the events.
func testTable(t *testing.T, m Maker) {
	for _, s := range m.settings(t, 0) {
		t.Run(s.String(), func(t *testing.T) {
			const events = 300
			plain, restarted, watched := newRun(t, m, s, 7), newRun(t, m, s, 7), newRun(t, m, s, 7)
			for _, r := range []*run{plain, restarted, watched} {
				r.feed.nulls, r.feed.weights, r.feed.heavy = 0.05, true, true
			}
			others := newFeed(8, s.classes)
			for i := range events {
				if i == 1 || i == 40 || i == 123 || i == 255 || i == 256 || i == 257 {
					restarted.restart()
				}
				x := plain.feed.next()
				e := plain.in.event(x)
				scores := slices.Clone(plain.Learn(e, nil))
				if again := restarted.learn(); !same(scores, again) {
					t.Fatalf("event %d: scores %v, after a restart %v", i, scores, again)
				}
				e = watched.next()
				if i > 100 && i%10 == 0 {
					watched.look(others, e)
				}
				if i == 123 || i == 257 {
					watched.ignored(e)
				}
				if again := watched.Learn(e, nil); !same(scores, again) {
					t.Fatalf("event %d: scores %v, if the learner is looked at %v", i, scores, again)
				}
				for _, f := range scores {
					if f-f != 0 {
						t.Fatalf("event %d: score %v", i, f)
					}
				}
			}
			want := state(t, plain)
			sameState(t, "after restarts", want, state(t, restarted))
			sameState(t, "looked at", want, state(t, watched))
			plain.served(plain.next())
			plain.served(plain.in.event(others.next()))
			plain.refused(plain.next())
		})
	}
}

// look uses everything of a learner that must change nothing, with an event to come and with others.
func (r *run) look(others *feed, e *event.Example) {
	x := others.next()
	x.label = ""
	unlabeled := clone(e)
	unlabeled.Label = event.Unlabeled
	for _, e := range []*event.Example{e, unlabeled, r.in.event(x)} {
		r.Predict(e)
		r.Arrive(e)
	}
	r.Snapshot()
	r.Report()
	r.Decision()
	state(r.t, r)
}

// ignored has a learner meet an event of weight 0.
func (r *run) ignored(e *event.Example) {
	r.t.Helper()
	before := state(r.t, r)
	nothing := clone(e)
	nothing.Weight = 0
	want := predict(r, nothing)
	if got := r.Learn(nothing, nil); !same(got, want) {
		r.t.Errorf("an event of weight 0: scores %v, predicted %v", got, want)
	}
	sameState(r.t, "an event of weight 0", before, state(r.t, r))
}

// served compares the prediction with what the snapshot scores, the model in the blocks, and a restored learner.
func (r *run) served(e *event.Example) {
	r.t.Helper()
	e.Label = event.Unlabeled
	got := predict(r, e)
	snapshot := r.Snapshot()
	read, err := model.ReadLinear(state(r.t, r))
	if err != nil {
		r.t.Fatal(err)
	}
	if want := score(snapshot, e); !near(got, want, 1e-12) { // which may add in another order
		r.t.Errorf("predicted %v, the snapshot scores %v", got, want)
	}
	if want := score(read, e); !same(want, score(snapshot, e)) {
		r.t.Errorf("the snapshot scores %v, the model in the blocks %v", score(snapshot, e), want)
	}
	if snapshot.Decision().Predict(got) != r.Decision().Predict(got) {
		r.t.Error("the snapshot decides otherwise than the learner")
	}
	blocks := state(r.t, r)
	restored, err := r.m.Restore(r.c, blocks)
	if err != nil {
		r.t.Fatal(err)
	}
	if want := predict(restored, e); !same(got, want) {
		r.t.Errorf("predicted %v, restored %v", got, want)
	}
	sameState(r.t, "restored", blocks, state(r.t, restored))
}

// refused has a learner meet events that it must refuse: they are counted and change no model.
func (r *run) refused(e *event.Example) {
	r.t.Helper()
	before, was := state(r.t, r), r.Report()
	n := uint64(0)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e31} {
		bad := clone(e)
		bad.Features.Value[0] = x
		if n++; r.Learn(bad, nil) != nil {
			r.t.Errorf("a feature of %v was learned", x)
		}
	}
	for _, w := range []float64{math.NaN(), math.Inf(1), -1} {
		bad := clone(e)
		bad.Weight = w
		if n++; r.Learn(bad, nil) != nil {
			r.t.Errorf("a weight of %v was learned", w)
		}
	}
	if n++; r.Learn(&event.Example{Refused: &event.Refusal{Reason: event.ReasonSyntax}}, nil) != nil {
		r.t.Error("a refused record was learned")
	}
	now := r.Report()
	if now.Refused != was.Refused+n || now.Events != was.Events || now.Total != was.Total {
		r.t.Errorf("%d refused of %d, %d learned, totals %+v", now.Refused-was.Refused, n, now.Events-was.Events, now.Total)
	}
	counted := uint64(0)
	for _, x := range now.RefusedBy {
		counted += x.Count
	}
	if counted != now.Refused {
		r.t.Errorf("%d refused by reasons, %d in all", counted, now.Refused)
	}
	// Nothing else has changed: a learner of the state before predicts the same after more events.
	other, err := r.m.Restore(r.c, before)
	if err != nil {
		r.t.Fatal(err)
	}
	for range 50 {
		e := r.next()
		other.SetSchema(r.in.schema)
		if a, b := r.Learn(e, nil), other.Learn(e, nil); !same(a, b) {
			r.t.Errorf("after refused events: scores %v, without them %v", a, b)
			break
		}
	}
}

// testEveryRestart restarts after each event.
func testEveryRestart(t *testing.T, m Maker) {
	for _, s := range m.usual() {
		s.c.ServingStaleness = 100
		t.Run(s.String(), func(t *testing.T) {
			plain, restarted := newRun(t, m, s, 3), newRun(t, m, s, 3)
			for i := range 260 {
				plain.feed.nulls, restarted.feed.nulls = 0.1, 0.1
				restarted.restart()
				if a, b := plain.learn(), restarted.learn(); !same(a, b) {
					t.Fatalf("event %d: scores %v, after %d restarts %v", i, a, i+1, b)
				}
			}
			sameState(t, "after restarts", state(t, plain), state(t, restarted))
		})
	}
}

// testLongRun goes beyond the events in which all is new: averages begin anew, alarms are raised, mixture weights come into
// force at other times. It restarts and looks seldom, and ends in a concept that has turned around.
func testLongRun(t *testing.T, m Maker) {
	for _, s := range m.usual() {
		t.Run(s.String(), func(t *testing.T) {
			const events = 7000
			plain, other := newRun(t, m, s, 5), newRun(t, m, s, 5)
			others := newFeed(6, s.classes)
			for i := range events {
				for _, r := range []*run{plain, other} {
					r.feed.nulls, r.feed.turned = 0.05, i >= events-2000
				}
				a := plain.learn()
				e := other.next()
				if i%611 == 610 {
					other.restart()
				}
				if i%97 == 96 {
					other.look(others, e)
				}
				if b := other.Learn(e, nil); !same(a, b) {
					t.Fatalf("event %d: scores %v and %v", i, a, b)
				}
			}
			sameState(t, "after restarts", state(t, plain), state(t, other))
			plain.served(plain.next())
		})
	}
}

// testThreads reads the same file decoded in turn and ahead, by several goroutines, in batches.
func testThreads(t *testing.T, m Maker) {
	for _, s := range m.usual() {
		t.Run(s.String(), func(t *testing.T) {
			f := newFeed(11, s.classes)
			f.nulls = 0.05
			var text []byte
			for i := range 3000 {
				x := f.next()
				if i >= 1000 { // a field and its categories that come later
					x.set("later", fmt.Sprintf("%q", fmt.Sprint("l", i%7)))
				}
				text = append(append(text, x.json(nil)...), '\n')
			}
			path := filepath.Join(t.TempDir(), "events.jsonl")
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
			var want []event.Block
			for _, threads := range []int{0, 1, 2, 5} { // 0: in turn
				got := state(t, learnFile(t, m, s, path, threads))
				if want == nil {
					want = got
				}
				sameState(t, fmt.Sprint(threads, " threads"), want, got)
			}
		})
	}
}

func learnFile(t *testing.T, m Maker, s setting, path string, threads int) Learner {
	t.Helper()
	c := recordsOf(m, s)
	schema := c.Schema()
	l, err := m.New(s.c, schema.View())
	if err != nil {
		t.Fatal(err)
	}
	f, err := stream.OpenFile(path, c, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if threads > 0 {
		f.Ahead(threads, nil)
	}
	var b event.Batch
	for {
		if err := f.Next(context.Background(), &b); errors.Is(err, io.EOF) {
			return l
		} else if err != nil {
			t.Fatal(err)
		}
		l.SetSchema(b.Schema)
		for i := range b.Examples {
			l.Learn(&b.Examples[i], nil)
		}
	}
}

// testFieldOrder: the order of the fields in a JSON object decides nothing.
func testFieldOrder(t *testing.T, m Maker) {
	for _, s := range m.usual() {
		t.Run(s.String(), func(t *testing.T) {
			a, b := newRun(t, m, s, 13), newRun(t, m, s, 13)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range 600 {
				x := a.feed.next()
				y := b.feed.next()
				order := r.Perm(len(y.names))
				if i == 0 { // fields are numbered as they come
					order = nil
				}
				p, q := slices.Clone(a.Learn(a.in.event(x), nil)), slices.Clone(b.Learn(b.in.decode(y.json(order)), nil))
				if !same(p, q) {
					t.Fatalf("event %d: scores %v, in another order %v", i, p, q)
				}
			}
		})
	}
}

// testSnapshotHolds: a snapshot does not change while learning goes on.
func testSnapshotHolds(t *testing.T, m Maker) {
	for _, s := range m.usual() {
		r := newRun(t, m, s, 17)
		for range 300 {
			r.learn()
		}
		e := r.next()
		e.Label = event.Unlabeled
		before := r.Snapshot()
		want := score(before, e)
		for range 300 {
			r.learn()
		}
		if got := score(before, e); !same(got, want) {
			t.Errorf("%v: a snapshot scored %v, and %v 300 events later", s, want, got)
		}
		if now := predict(r, e); same(now, want) {
			t.Errorf("%v: 300 events have changed nothing", s)
		}
	}
}

// testWeightTwo: a weight of 2 is the event met twice, where nothing but weights counts events: no scales, no ridge by
// events, no noise that depends on counts.
func testWeightTwo(t *testing.T, m Maker) {
	for _, optimizer := range []string{"adagrad", "dropout-descent", "sgd", "arow", "ftrl"} {
		for _, lossName := range []string{"logistic", "hinge"} {
			for _, classes := range []int{2, 3} {
				c := online.DefaultConfig()
				c.Optimizer, c.Loss, c.Noise, c.Standardize, c.MissingPolicy = optimizer, lossName, "dropout:0.3", "none", "none"
				c.Presence, c.Calibrate, c.OnDrift, c.Stuck, c.Coverage, c.Adapt = "none", "off", "log", "off", 0, false
				if optimizer != "dropout-descent" && optimizer != "ftrl" { // whose ridge counts no events
					c.C = math.Inf(1)
				}
				s := setting{c, classes}
				if c.Check() != nil {
					continue
				}
				once, twice := newRun(t, m, s, 19), newRun(t, m, s, 19)
				small := func(_ string, x float64) string { return number(math.Mod(x, 3)) }
				once.feed.value, twice.feed.value = small, small
				for i := range 200 {
					e := once.next()
					e.Weight = 2
					once.Learn(e, nil)
					e = twice.next()
					twice.Learn(e, nil)
					twice.Learn(e, nil)
					if a, b := predict(once, e), predict(twice, e); !same(a, b) {
						t.Errorf("%v, event %d: %v learned at weight 2, %v learned twice", s, i, a, b)
						break
					}
				}
			}
		}
	}
}

// testUnlabeled: an event without a label moves no weight, and is counted. With unlabeled_weight it makes later steps
// shorter.
func testUnlabeled(t *testing.T, m Maker) {
	// Nor does it move a scale, however large its numbers are.
	for _, mode := range []string{"auto", "all", "scale"} {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise, c.Standardize, c.Presence, c.MissingPolicy, c.Stuck = "adagrad", "dropout:0.3", mode, "none", "none", "off"
		r := newRun(t, m, setting{c, 2}, 25)
		for range 200 {
			r.learn()
		}
		test := r.next()
		test.Label = event.Unlabeled
		want := predict(r, test)
		r.feed.value = func(_ string, x float64) string { return number(1e5 * x) }
		for range 300 {
			x := r.feed.next()
			x.label = ""
			r.Learn(r.in.event(x), nil)
		}
		if got := predict(r, test); !same(got, want) {
			t.Errorf("standardize = %q: unlabeled events moved a prediction from %v to %v", mode, want, got)
		}
	}
	for _, weight := range []float64{0, 1} {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise, c.UnlabeledWeight, c.Standardize, c.Presence, c.MissingPolicy, c.Adapt = "adagrad", "dropout:0.3", weight, "none", "none", "none", false
		s := setting{c, 2}
		with, without := newRun(t, m, s, 23), newRun(t, m, s, 23)
		small := func(_ string, x float64) string { return number(math.Mod(x, 3)) }
		with.feed.value, without.feed.value = small, small
		others := newFeed(24, 2)
		others.value = small
		for range 200 {
			with.learn()
			without.learn()
		}
		test := with.next()
		test = clone(test)
		without.next()
		for range 100 {
			x := others.next()
			x.label = ""
			e := with.in.event(x)
			if e.Label != event.Unlabeled {
				t.Fatal("an event without a label has one")
			}
			if scores := with.Learn(e, nil); scores == nil {
				t.Fatal("an unlabeled event is refused")
			}
		}
		if a, b := predict(with, test), predict(without, test); !same(a, b) {
			t.Errorf("unlabeled events of weight %v moved a prediction from %v to %v", weight, b, a)
		}
		a, b := with.Report(), without.Report()
		if a.Unlabeled != 100 || a.Events != 300 || a.Total != b.Total || b.Unlabeled != 0 {
			t.Errorf("%d of %d events are unlabeled; totals %+v, without them %+v", a.Unlabeled, a.Events, a.Total, b.Total)
		}
		before := predict(with, test)[0]
		e := with.in.event(with.feed.next())
		without.feed.next()
		with.Learn(e, nil)
		without.Learn(e, nil)
		moved, plain := math.Abs(predict(with, test)[0]-before), math.Abs(predict(without, test)[0]-before)
		if weight == 0 && moved != plain || weight == 1 && !(moved < plain) {
			t.Errorf("weight %v: a step of %v after unlabeled events, of %v without", weight, moved, plain)
		}
	}
}
