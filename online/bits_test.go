package online_test

// This file tests results that must be equal bit by bit.

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
	input "blankout/stream"
)

// TestTable tests the properties that hold with every combination of settings. Three learners receive the same events.
// The second learner restarts several times. On the third, all read-only methods are called between the events.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, s := range settings(t, 0, longtest.Asked()) {
		t.Run(s.String(), func(t *testing.T) {
			const events = 300
			plain, restarted, watched := newRun(t, s, 7), newRun(t, s, 7), newRun(t, s, 7)
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
				scores := slices.Clone(plain.learn(e))
				again := restarted.step()
				must.Require(t, sameScores(scores, again), "event %d: scores %v, after a restart %v", i, scores, again)
				e = watched.next()
				if i > 100 && i%10 == 0 {
					watched.look(others, e)
				}
				if i == 123 || i == 257 {
					watched.ignored(e)
				}
				again = watched.learn(e)
				must.Require(t, sameScores(scores, again), "event %d: scores %v, if the learner is looked at %v", i, scores, again)
				must.Finite(t, scores, "event", i)
			}
			want := plain.blocks()
			sameState(t, "after restarts", want, restarted.blocks())
			sameState(t, "looked at", want, watched.blocks())
			plain.served(plain.next())
			plain.served(plain.in.event(others.next()))
			finite(t, plain.Learner)
			plain.refused(plain.next())
		})
	}
}

// look calls all methods that must not change the learner. Their arguments are the next event of the run, or events
// drawn from others.
func (r *run) look(others *feed, e *event.Example) {
	x := others.next()
	x.label = ""
	unlabeled := clone(e)
	unlabeled.Label = event.Unlabeled
	for _, e := range []*event.Example{e, unlabeled, r.in.event(x)} {
		r.Predict(e)
		r.arrive(e)
	}
	r.model()
	r.Report()
	r.decision()
	r.blocks()
}

// ignored checks that an event with weight 0 does not change the state.
func (r *run) ignored(e *event.Example) {
	r.t.Helper()
	before := r.blocks()
	nothing := clone(e)
	nothing.Weight = 0
	want := r.scores(nothing)
	if got := r.learn(nothing); !sameScores(got, want) {
		r.t.Errorf("an event of weight 0: scores %v, predicted %v", got, want)
	}
	sameState(r.t, "an event of weight 0", before, r.blocks())
}

// served compares the prediction with the scores of the snapshot, of the saved model, and of a restored learner.
func (r *run) served(e *event.Example) {
	r.t.Helper()
	e.Label = event.Unlabeled
	got := r.scores(e)
	snapshot := r.model()
	read := must.Get(model.ReadLinear(r.blocks()))(r.t)
	if want := score(snapshot, e); !near(got, want, 1e-12) { // the sums may be added in another order
		r.t.Errorf("predicted %v, the snapshot scores %v", got, want)
	}
	if want := score(read, e); !sameScores(want, score(snapshot, e)) {
		r.t.Errorf("the snapshot scores %v, the model in the blocks %v", score(snapshot, e), want)
	}
	if snapshot.Decision().Predict(got) != r.decision().Predict(got) {
		r.t.Error("the snapshot decides otherwise than the learner")
	}
	blocks := r.blocks()
	restored := r.restored()
	if want := restored.scores(e); !sameScores(got, want) {
		r.t.Errorf("predicted %v, restored %v", got, want)
	}
	sameState(r.t, "restored", blocks, restored.blocks())
}

// refused checks that invalid events are rejected and counted, and do not change the model.
func (r *run) refused(e *event.Example) {
	r.t.Helper()
	before, was := r.blocks(), r.Report()
	n := uint64(0)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e31} {
		bad := clone(e)
		bad.Features.Value[0] = x
		if n++; r.learn(bad) != nil {
			r.t.Errorf("a feature of %v was learned", x)
		}
	}
	for _, w := range []float64{math.NaN(), math.Inf(1), -1} {
		bad := clone(e)
		bad.Weight = w
		if n++; r.learn(bad) != nil {
			r.t.Errorf("a weight of %v was learned", w)
		}
	}
	bad := clone(e)
	if bad.Features.Value[0] = math.NaN(); !r.Predict(bad).Refused {
		r.t.Error("a feature of NaN is predicted")
	}
	if n++; r.learn(&event.Example{Refused: &event.Refusal{Reason: event.ReasonSyntax}}) != nil {
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
	// Also compare the rest of the state: a learner restored from the earlier state must predict the same after more
	// events.
	other := restore(r.t, r.c, before)
	for range 50 {
		e := r.next()
		other.SetSchema(r.in.schema)
		if a, b := r.learn(e), other.learn(e); !sameScores(a, b) {
			r.t.Errorf("after refused events: scores %v, without them %v", a, b)
			break
		}
	}
}

// TestRandomRestarts stops learners with every feature after random events, and compares their states with
// those of learners that go on. Labels are delayed, and fields are null or stuck, so that the correcting experts rest,
// wake and count.
func TestRandomRestarts(t *testing.T) {
	t.Parallel()
	silent, groups, fading, counts := online.DefaultConfig(), online.DefaultConfig(), online.DefaultConfig(), online.DefaultConfig()
	silent.SilentMissing, silent.Calibrate = 0.3, "on"
	groups.Noise, groups.ExpectedMissingGroups, groups.UnlabeledWeight, groups.OnDrift = "group:0.3", 0.3, 0.5, "forget"
	fading.HalfLife, fading.ClassWeight = 400, map[string]float64{"c1": 2}
	counts.Loss = "absolute"
	count := must.Either(longtest.Asked(), 100, 20)
	for i, c := range []struct {
		setting
		events, delay int
	}{
		{setting{online.DefaultConfig(), 2}, 18000, 40}, // so long that the correcting experts rest
		{setting{online.DefaultConfig(), 3}, 2000, 40},
		{setting{silent, 2}, 1500, 40}, {setting{silent, 3}, 1500, 0}, {setting{groups, 3}, 1500, 40},
		{setting{fading, 2}, 1500, 40}, {setting{counts, 0}, 1500, 40},
	} {
		t.Run(fmt.Sprint(i, " ", c.setting), func(t *testing.T) { restarts(t, c.setting, c.events, c.delay, count, c.events > 5000, uint64(70+i)) })
	}
}

// restarts stops a learner so many times, on average, and compares it with one that learns on.
func restarts(t *testing.T, s setting, events, delay, count int, random bool, seed uint64) {
	type waiting struct {
		e     *event.Example
		prior *online.Prediction
	}
	plain, other := newRun(t, s, seed), newRun(t, s, seed)
	queues, stop := [2][]waiting{}, rand.New(rand.NewPCG(seed, uint64(delay)))
	for i := range events {
		for k, r := range []*run{plain, other} {
			r.feed.nulls, r.feed.turned = 0.1*float64(i/300%3), i > events-events/5
			e := r.next()
			label := e.Label
			if random {
				label = i * 31 % 37 % s.classes
			}
			e.Label = event.Unlabeled
			w := waiting{e: e}
			if delay > 0 {
				p := r.Predict(e)
				prior := must.Get(online.ReadPrediction(p.Append(nil)))(t)
				w.prior = &prior
			}
			if e.Label = label; i%11 == 10 {
				e.Label = event.Unlabeled
			}
			if queues[k] = append(queues[k], w); len(queues[k]) > delay {
				w, queues[k] = queues[k][0], queues[k][1:]
				r.Learner.Learn(w.e, w.prior)
			}
		}
		if stop.IntN(events) < count {
			other.restart()
			sameState(t, fmt.Sprintf("delay %d, stopped after event %d", delay, i), plain.blocks(), other.blocks())
		}
		if t.Failed() {
			return
		}
	}
	sameState(t, fmt.Sprintf("delay %d, at the end", delay), plain.blocks(), other.blocks())
}

// TestThreads decodes the same file twice, sequentially and in batches with several goroutines, and compares the
// results.
func TestThreads(t *testing.T) {
	t.Parallel()
	for _, s := range usual() {
		t.Run(s.String(), func(t *testing.T) {
			f := newFeed(11, s.classes)
			f.nulls = 0.05
			var text []byte
			for i := range 1500 {
				x := f.next()
				if i >= 700 { // a field and its categories that appear later
					x.set("later", fmt.Sprintf("%q", fmt.Sprint("l", i%7)))
				}
				text = append(append(text, x.json(nil)...), '\n')
			}
			path := must.File(t, "events.jsonl", text)
			var want []event.Block
			for _, threads := range []int{0, 1, 5} { // 0 means sequential decoding
				got := learnFile(t, s, path, threads).blocks()
				if want == nil {
					want = got
				}
				sameState(t, fmt.Sprint(threads, " threads"), want, got)
			}
		})
	}
}

func learnFile(t *testing.T, s setting, path string, threads int) *learner {
	t.Helper()
	c := recordsOf(s)
	schema := c.Schema()
	l := start(t, s.c, schema.View())
	f := must.Get(input.OpenFile(path, c, schema))(t)
	defer f.Close()
	if threads > 0 {
		f.Ahead(threads, nil)
	}
	for b := range eventtest.Batches(t, f.Next) {
		l.SetSchema(b.Schema)
		for i := range b.Examples {
			l.learn(&b.Examples[i])
		}
	}
	return l
}

// TestFieldOrder checks that the order of the fields in a JSON object does not matter.
func TestFieldOrder(t *testing.T) {
	for _, s := range usual() {
		t.Run(s.String(), func(t *testing.T) {
			a, b := newRun(t, s, 13), newRun(t, s, 13)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range 600 {
				x := a.feed.next()
				y := b.feed.next()
				order := r.Perm(len(y.names))
				if i == 0 { // fields are numbered by first appearance
					order = nil
				}
				p, q := slices.Clone(a.learn(a.in.event(x))), slices.Clone(b.learn(b.in.decode(y.json(order))))
				must.Require(t, sameScores(p, q), "event %d: scores %v, in another order %v", i, p, q)
			}
		})
	}
}

// TestUnlabeled checks that an event without a label changes no weight and is counted. With unlabeled_weight, such an
// event only makes later steps shorter.
func TestUnlabeled(t *testing.T) {
	// Outliers in unlabeled events must not change the scale of a column.
	for _, mode := range []string{"auto", "all", "scale"} {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise, c.Standardize, c.Presence, c.MissingPolicy, c.Doubt = "adagrad", "dropout:0.3", mode, "none", "none", "off"
		r := newRun(t, setting{c, 2}, 25)
		for range 200 {
			r.step()
		}
		test := r.next()
		test.Label = event.Unlabeled
		want := r.scores(test)
		r.feed.value = func(_ string, x float64) string { return number(1e5 * x) }
		for range 300 {
			x := r.feed.next()
			x.label = ""
			r.learn(r.in.event(x))
		}
		got := r.scores(test)
		must.True(t, sameScores(got, want), "standardize = %q: unlabeled events moved a prediction from %v to %v", mode, want, got)
	}
	for _, weight := range []float64{0, 1} {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise, c.UnlabeledWeight, c.Standardize, c.Presence, c.MissingPolicy, c.Adapt = "adagrad", "dropout:0.3", weight, "none", "none", "none", false
		s := setting{c, 2}
		with, without := newRun(t, s, 23), newRun(t, s, 23)
		small := func(_ string, x float64) string { return number(math.Mod(x, 3)) }
		with.feed.value, without.feed.value = small, small
		others := newFeed(24, 2)
		others.value = small
		for range 200 {
			with.step()
			without.step()
		}
		test := with.next()
		test = clone(test)
		without.next()
		for range 100 {
			x := others.next()
			x.label = ""
			e := with.in.event(x)
			must.Require(t, e.Label == event.Unlabeled, "an event without a label has one")
			must.Require(t, with.learn(e) != nil, "an unlabeled event is refused")
		}
		if a, b := with.scores(test), without.scores(test); !sameScores(a, b) {
			t.Errorf("unlabeled events of weight %v moved a prediction from %v to %v", weight, b, a)
		}
		a, b := with.Report(), without.Report()
		must.True(t, a.Unlabeled == 100 && a.Events == 300 && a.Total == b.Total && b.Unlabeled == 0, "%d of %d events are unlabeled; totals %+v, without them %+v", a.Unlabeled, a.Events, a.Total, b.Total)
		before := with.scores(test)[0]
		e := with.in.event(with.feed.next())
		without.feed.next()
		with.learn(e)
		without.learn(e)
		moved, plain := math.Abs(with.scores(test)[0]-before), math.Abs(without.scores(test)[0]-before)
		must.True(t, (weight != 0 || moved == plain) && (weight != 1 || moved < plain), "weight %v: a step of %v after unlabeled events, of %v without", weight, moved, plain)
	}
}

// FuzzRestore restores checkpoints with valid checksums in which one block is arbitrary. Restore must reject the
// checkpoint or return a Learner that can be saved again.
func FuzzRestore(f *testing.F) {
	c := online.DefaultConfig()
	c.IRLSBatch, c.IRLSWindow, c.Noise = 7, 14, "dropout:0.3"
	l, s := streamLearner(f, c, 2), synthetic.NewStream(4, 2)
	learnNext(l, 40, s.Next)
	blocks := blocksOf(f, l)
	for _, b := range blocks {
		if len(b.Data) < 20_000 {
			f.Add(b.Name, b.Data)
		}
	}
	e := s.Next()
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		blocks := slices.Clone(blocks)
		for i := range blocks {
			if blocks[i].Name == name {
				blocks[i].Data = data
			}
		}
		l, err := online.Restore(c, blocks)
		if err != nil {
			return
		}
		must.Do(t, must.Err(l.Snapshot().Blocks()))
		scoresOf(l, e)
	})
}

// TestSnapshotIsImmutable learns while a Snapshot is encoded. Learning must change neither the Snapshot nor the scores
// of its model.
func TestSnapshotIsImmutable(t *testing.T) {
	l, s := streamLearner(t, online.DefaultConfig(), 3), synthetic.NewStream(4, 3)
	learnNext(l, 50, s.Next)
	snapshot, want := l.Snapshot(), blocksOf(t, l)
	e := clone(s.Next())
	held := snapshot.Model()
	scores := score(held, e)
	done := make(chan error)
	var got []event.Block
	go func() {
		var err error
		got, err = snapshot.Blocks()
		done <- err
	}()
	for range 500 {
		l.Learn(s.Next(), nil)
		l.Snapshot()
	}
	must.Do(t, <-done)
	sameState(t, "the snapshot", want, got)
	after := score(held, e)
	must.True(t, sameScores(after, scores) && !sameScores(scoresOf(l, e), scores), "the snapshot scored %v, then %v, and the learner %v", scores, after, scoresOf(l, e))
}

// TestDamagedStates cuts and changes the blocks of saved states. Restore must reject each cut block. It must reject a
// changed block too, or return a Learner that can be saved again and learns.
func TestDamagedStates(t *testing.T) {
	longtest.Numeric(t)
	for _, classes := range []int{2, 30, 0} {
		c := correctedConfigs(classes)["silent"]
		c.Calibrate = "auto"
		schema, draw := drawn(7, classes)
		l, r := newLearner(t, c, schema), rand.New(rand.NewPCG(5, 3))
		l.Learn(&event.Example{Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: "none"}}, nil)
		learnNext(l, 1100, draw)
		whole, restored := blocksOf(t, l), restart(t, c, l)
		sameState(t, "restored", whole, blocksOf(t, restored))
		by := restored.Report().RefusedBy
		must.True(t, by[event.ReasonLabel].Count == 1, "refused, restored: %v", by)
		for i, b := range whole {
			if b.Name == "summary" || b.Name == health.BlockHealth {
				continue // a Learner does not read these reports
			}
			for n := range 2 * min(5, len(b.Data)) {
				blocks, at := slices.Clone(whole), r.IntN(len(b.Data))
				if blocks[i].Data = b.Data[:at]; n%2 > 0 {
					blocks[i].Data = slices.Clone(b.Data)
					blocks[i].Data[at] ^= byte(1 + r.IntN(255))
				}
				again, err := online.Restore(c, blocks)
				if err != nil {
					continue
				}
				_, err = again.Snapshot().Blocks()
				must.True(t, err == nil && n%2 != 0, "%d classes, damage %d at byte %d of %d: block %s is restored, and saved with the error %v", classes, n, at, len(b.Data), b.Name, err)
				again.SetSchema(schema)
				again.Learn(draw(), nil)
			}
		}
	}
}

// TestGroupExpertsRestore checks that noise levels of features and of groups continue bit by bit from a checkpoint. The
// expected missing fraction may change in between if the noise levels stay the same.
func TestGroupExpertsRestore(t *testing.T) {
	longtest.NotRaced(t)
	for _, classes := range []int{2, 3} {
		c := online.DefaultConfig()
		c.ExpectedMissingGroups, c.ExpectedMissing = 0.3, 0.1
		l, s := newTwins(t, c, synthetic.StreamSchema(classes)), synthetic.NewStream(8, classes)
		for i := range 700 {
			if i == 333 {
				l.restart()
			}
			l.Learn(s.Next(), nil)
		}
		l.same(t, fmt.Sprint(classes, " classes"))
		blocks := blocksOf(t, l.Learner)
		c.ExpectedMissingGroups = 0.6
		must.Do(t, must.Err(online.Restore(c, blocks)))
		was, err := online.ReadConfig(blocks)
		must.True(t, err == nil && online.FingerprintOf(was, l.Schema()).Diff(online.FingerprintOf(l.Config(), l.Schema())) == nil, "%v: read as %v", err, was)
		c.ExpectedMissingGroups = 0
		must.Fails(t, must.Err(online.Restore(c, blocks)), "a bank without groups took up one with groups")
	}
}

// grownClasses returns settings with which classes can be added while learning.
func grownClasses() map[string]online.Config {
	all := map[string]online.Config{}
	for _, r := range optimizers.Table {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise = r.Name, "dropout:0.3"
		switch r.Name {
		case "irls":
			c.IRLSBatch = 20
		case "adagrad":
			c.IRLSBatch, c.IRLSWindow = 20, 60
		}
		all[r.Name] = c
	}
	bank, groups, scaled := online.DefaultConfig(), online.DefaultConfig(), online.DefaultConfig()
	groups.Noise = "dropout:0.1+group:0.3"
	scaled.Noise, scaled.HalfLife, scaled.OnDrift = "gaussian:0.1", 300, "forget"
	all["bank"], all["groups"], all["gaussian"] = bank, groups, scaled
	return all
}

// TestWidenRestart checks that a restored Learner continues with the same bytes, both if classes are added before and
// if they are added after the restart.
func TestWidenRestart(t *testing.T) {
	longtest.Numeric(t)
	all := grownClasses()
	for _, name := range longtest.Few(slices.Sorted(maps.Keys(all)), 0, 3) {
		c := all[name]
		l, s := newTwins(t, c, sensorSchema()), synthetic.NewSensors(6)
		l.schema.MaxClasses, l.schema.Classes = 100, []string{"no", "yes", "c", "d", "e"}
		s.Lost, s.Absent = 0.3, true
		for i := range 1601 {
			if slices.Contains([]int{300, 401, 1399, 1450, 1600}, i) {
				l.same(t, fmt.Sprintf("%s, %d events", name, i))
				l.restart()
			}
			e := s.Next()
			switch {
			case i >= 1400:
				e.Label = i % 5
			case i >= 400:
				e.Label = i % 3
			}
			l.Learn(e, nil)
		}
	}
}
