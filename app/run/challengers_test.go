package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/measure"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream/record"
)

// challengerStream is a Source of n JSON records of topic t/3, in batches of random sizes.
type challengerStream struct {
	decoder record.Decoder
	schema  *event.Schema
	n, next int
	sizes   *rand.Rand
	passing func(offset int)
}

func (s *challengerStream) Next(ctx context.Context, b *event.Batch) error {
	b.Topic, b.Partition, b.HighWater, b.Examples = "t", 3, int64(s.n), b.Examples[:0]
	if s.next == s.n {
		return io.EOF
	}
	for range min(1+s.sizes.IntN(700), s.n-s.next) {
		if s.passing != nil {
			s.passing(s.next)
		}
		r := record.Record{Value: s.record(s.next), Offset: int64(s.next), Time: 1_700_000_000_000 + int64(s.next)}
		if len(b.Examples) < cap(b.Examples) {
			b.Examples = b.Examples[:len(b.Examples)+1]
		} else {
			b.Examples = append(b.Examples, event.Example{})
		}
		e := &b.Examples[len(b.Examples)-1]
		if err := s.decoder.Decode(ctx, r, e); err != nil {
			return err
		}
		e.Fingerprint = record.Fingerprint(r.Offset, nil, r.Value)
		s.next++
	}
	b.Next, b.Schema = int64(s.next), s.schema.View()
	return ctx.Err()
}

// record returns record number n. The label is the sign of x plus a^b as -1 or 1; no single field predicts a^b.
func (s *challengerStream) record(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 9))
	a, b, x := r.IntN(2), r.IntN(2), r.NormFloat64()
	label := must.Either(float64(2*(a^b)-1)+x > 0, "yes", "no")
	text := fmt.Sprintf(`{"label":%q,"weight":%d,"a":"a%d","b":"b%d","x":%.3f,"id":"i%d"}`, label, r.IntN(3), a, b, x, r.IntN(3000))
	switch {
	case n%13 == 4:
		text = fmt.Sprintf(`{"a":"a%d","x":null}`, a)
	case n%101 == 7:
		text = `{"label":"yes","weight":-1}` // rejected
	}
	return []byte(text)
}

// entrant is a learner in these tests. The first entrant is the Champion.
type entrant struct {
	name   string
	change func(*online.Config, *record.Config)
	auto   bool
}

var entrants = []entrant{
	{run.Champion, func(*online.Config, *record.Config) {}, true},
	{"slow", func(c *online.Config, _ *record.Config) { c.LearningRate = 0.001 }, true},
	{"product", func(_ *online.Config, r *record.Config) { r.Drop, r.Crosses = []string{"id"}, [][2]string{{"a", "b"}} }, true},
}

func (x *entrant) configs() (online.Config, record.Config) {
	c, r := online.DefaultConfig(), record.DefaultConfig()
	c.Noise, c.Optimizer, r.Weight, r.KeepValue = "none", "adagrad", "weight", true
	x.change(&c, &r)
	return c, r
}

const challengerWindow = 8000

// challengers returns a Runner of the entrants that continues from the newest checkpoint of a directory.
func challengers(t *testing.T, dir string, list []entrant, n int, seed uint64) (*run.Runner, *challengerStream, *checkpoint.Store) {
	t.Helper()
	store := must.Get(checkpoint.Open(dir, 2))(t)
	t.Cleanup(func() { store.Close() })
	r := &run.Runner{Config: run.DefaultConfig()}
	r.Config.Refused, r.Config.SaveInterval, r.Config.ShutdownTimeout = run.PolicySkip, 0, time.Hour
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		saved, err := store.Save(checkpoint.Linear, blocks)
		return saved.Name, saved.Bytes, errors.Join(err, saved.Prune)
	}
	file, _, err := store.Load()
	var blocks []event.Block
	leader := 0
	saved := run.SavedChallengers{}
	if err == nil {
		blocks = file.Blocks
		saved = must.Get(run.ReadChallengers(blocks))(t)
		leader = slices.IndexFunc(list, func(x entrant) bool { return x.name == saved.Leader })
		c, rc := list[leader].configs()
		r.State = must.Get(run.Resume(c, rc.Settings(), blocks))(t)
	} else if !errors.Is(err, checkpoint.ErrNone) {
		t.Fatal(err)
	}
	k := &run.Challengers{Leader: leader}
	for i, x := range list {
		c, rc := x.configs()
		var l *online.Learner
		switch {
		case blocks == nil:
			schema := rc.Schema()
			if i > 0 && rc.Crosses == nil {
				schema = k.All[0].Learner.Schema()
			}
			l, err = online.New(c, schema)
		case i == leader:
			l = r.Learner
		default:
			l, err = run.ResumeLearner(c, rc.Settings(), event.BlocksUnder(blocks, run.ChallengerPrefix(x.name)))
		}
		must.Do(t, err)
		y := &run.Challenger{Learner: l, Fingerprint: rc.Settings()}
		y.Standing, _ = saved.Standing(x.name)
		y.Name, y.Promote, y.Window = x.name, "manual", challengerWindow
		if x.auto {
			y.Promote = run.PromoteAuto
		}
		if rc.Crosses != nil {
			y.Schema = l.Schema()
			y.Decoder = must.Get(record.NewDecoder(rc, y.Schema))(t)
		} else if i > 0 {
			l.SetSchema(k.All[0].Learner.Schema())
		}
		k.All = append(k.All, y)
	}
	r.Learner, r.Fingerprint, r.Schema = k.All[leader].Learner, k.All[leader].Fingerprint, k.All[0].Learner.Schema()
	if len(list) > 1 {
		r.Challengers = k
	}
	_, rc := list[0].configs()
	decoder := must.Get(record.NewDecoder(rc, r.Schema))(t)
	s := &challengerStream{decoder: decoder, schema: r.Schema, n: n, sizes: rand.New(rand.NewPCG(seed, 1))}
	if p, ok := r.Offsets.Lookup("t", 3); ok {
		s.next = int(p.Next)
	}
	r.Source = s
	return r, s, store
}

func challengerState(t *testing.T, dir string) ([]byte, []event.Block, run.SavedChallengers) {
	t.Helper()
	data, _ := newest(t, dir)
	file := must.Get(checkpoint.Decode(data))(t)
	saved := must.Get(run.ReadChallengers(file.Blocks))(t)
	return data, file.Blocks, saved
}

// TestChallengersDependOnEventsOnly checks that the final bytes do not depend on stops at any record, with or without a
// save. The final bytes must not depend on batch sizes and threads either. The learner with the product must become
// the leader.
func TestChallengersDependOnEventsOnly(t *testing.T) {
	const n = 17_000
	reference := t.TempDir()
	r, _, _ := challengers(t, reference, entrants, n, 1)
	r.Config.SaveEvents, r.Config.PublishInterval = 0, 0
	must.Do(t, r.Run(t.Context()))
	want, _, saved := challengerState(t, reference)
	must.Require(t, saved.Leader == "product", "%s is the leader of %+v", saved.Leader, saved.Learners)
	for seed := range must.Either[uint64](longtest.Asked(), 4, 2) {
		threads := runtime.GOMAXPROCS(1 + int(seed%2)*3)
		dir, random := t.TempDir(), rand.New(rand.NewPCG(seed, 3))
		lives := 0
		for done := false; !done; lives++ {
			r, s, store := challengers(t, dir, entrants, n, seed<<32+uint64(lives))
			r.Config.SaveEvents, r.Config.PublishEvents = uint64(500+random.IntN(2000)), uint64(100+random.IntN(1000))
			ctx, cancel := context.WithCancel(t.Context())
			stop, dead := s.next+1+random.IntN(5000), false
			switch done = stop >= n; {
			case done:
			case random.IntN(2) == 0:
				r.Config.MaxEvents = uint64(stop - s.next)
			default: // stop without a final save
				r.Config.SaveEvents = 0
				count := 0
				failSaves(r, "dead", func() bool {
					count++
					return count > 2 || dead
				})
				r.Config.SaveEvents = 700
				s.passing = func(offset int) {
					if offset == stop {
						cancel()
					}
				}
			}
			err := r.Run(ctx)
			cancel()
			must.Require(t, err == nil || strings.HasSuffix(err.Error(), "dead"), "%v", err)
			store.Close()
		}
		runtime.GOMAXPROCS(threads)
		got, _, _ := challengerState(t, dir)
		must.True(t, bytes.Equal(got, want), "seed %d: %d lives end in another state", seed, lives)
		must.True(t, lives >= 2, "seed %d: one life only", seed)
	}
}

// TestChallengersLearnIndependently checks that each learner learns as a single learner would, and that the
// differences are computed from the learners' predictions.
func TestChallengersLearnIndependently(t *testing.T) {
	const n = 9000
	list := slices.Clone(entrants)
	for i := range list {
		list[i].auto = false
	}
	dir := t.TempDir()
	holdout := &validate.Validator{Config: validate.Config{Holdout: 9}}
	r, _, _ := challengers(t, dir, list, n, 1)
	r.Validator = holdout
	must.Do(t, r.Run(t.Context()))
	_, blocks, saved := challengerState(t, dir)
	losses := make([][]float64, len(list)) // losses by learner and record
	weights := make([]float64, n)
	for i, x := range list {
		alone := t.TempDir()
		r, _, _ := challengers(t, alone, []entrant{x}, n, 2)
		r.Validator = holdout
		at := 0
		r.Answer = func(e *event.Example, p *online.Prediction) error {
			if e == nil {
				return nil
			}
			loss := math.NaN()
			if p != nil && !p.Refused && e.Label != event.Unlabeled && !validate.HeldOut(3, e.Offset, 9) {
				model := p.Alone()
				loss, weights[at] = model.Decision.LogLoss(model.Scores, e.Label), e.Weight
			}
			losses[i] = append(losses[i], loss)
			at++
			return nil
		}
		must.Do(t, r.Run(t.Context()))
		_, want, _ := challengerState(t, alone)
		got := blocks
		if i > 0 {
			got = event.BlocksUnder(blocks, run.ChallengerPrefix(x.name))
		}
		for _, b := range want {
			if b.Name == "offsets" || b.Name == "warnings" { // blocks of the stream, which only the leader has
				continue
			}
			data, err := event.FindBlock(got, b.Name)
			must.True(t, err == nil && bytes.Equal(data, b.Data), "%s: block %s is not as of the learner alone: %v", x.name, b.Name, err)
		}
	}
	for i, x := range list[1:] {
		paired := measure.NewPaired(0)
		for j := range n {
			if d := losses[i+1][j] - losses[0][j]; !math.IsNaN(d) {
				paired.Add(uint64(j+1), d, weights[j], challengerWindow)
			}
		}
		paired.Advance(n, challengerWindow)
		s, ok := saved.Standing(x.name)
		must.True(t, ok && s.Paired.Total.Blocks == n/1000 && math.Abs(s.Paired.Total.Mean-paired.Total.Mean) <= 1e-12 && math.Abs(s.Paired.Total.Scatter-paired.Total.Scatter) <= 1e-12 && s.Paired.Window.Blocks == paired.Window.Blocks,
			"%s: %+v, by what was predicted %+v", x.name, s.Paired, paired)
	}
}

// TestEqualChallengers checks that equal learners do not change the leader.
func TestEqualChallengers(t *testing.T) {
	alike := entrant{"alike", func(c *online.Config, _ *record.Config) { c.LearningRate = 0.0501 }, true}
	base := entrant{run.Champion, func(c *online.Config, _ *record.Config) { c.LearningRate = 0.05 }, true}
	dir := t.TempDir()
	r, _, _ := challengers(t, dir, []entrant{base, alike, {"same", base.change, true}}, 17_000, 1)
	must.Do(t, r.Run(t.Context()))
	_, _, saved := challengerState(t, dir)
	s, _ := saved.Standing("same")
	must.True(t, saved.Leader == run.Champion && s.Paired.Total.Blocks == 17 && s.Paired.Total.Mean == 0, "%s is the leader, same is at %+v", saved.Leader, s)
}

// TestPromote checks that a requested learner becomes the leader. When Promote returns, a checkpoint must contain the
// change, and the next run must continue with the new leader.
func TestPromote(t *testing.T) {
	const n = 9000
	list := slices.Clone(entrants)
	for i := range list {
		list[i].auto = false
	}
	dir := t.TempDir()
	r, s, store := challengers(t, dir, list, n, 1)
	r.Config.SaveEvents = 0
	r.Config.PublishEvents = 1
	save, saves := r.Save, 0
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		saves++
		time.Sleep(100 * time.Millisecond) // if Promote did not wait for a save, it would return earlier
		return save(blocks)
	}
	err := r.Promote(t.Context(), "nobody")
	must.True(t, err != nil && err.Error() == `no learner "nobody": want one of ["learner" "slow" "product"]`, "%v", err)
	asked, promoted := make(chan bool), make(chan error, 1)
	s.passing = func(offset int) {
		if offset > 4000 && offset%500 == 0 {
			time.Sleep(30 * time.Millisecond) // time for unrequested saves
		}
		if offset == 4000 {
			<-asked
			err := <-promoted
			_, _, saved := challengerState(t, dir)
			must.True(t, saved.Leader == "product" && err == nil, "%s is the leader in the checkpoint: %v", saved.Leader, err)
			promoted <- nil
		}
	}
	go func() {
		close(asked)
		promoted <- r.Promote(t.Context(), "product")
	}()
	must.Do(t, r.Run(t.Context()))
	must.True(t, saves == 2, "%d saves, want that of the promotion and that of the end", saves)
	status := r.Status()
	p := r.Published()
	must.True(t, p.Learner == "product" && len(p.Others) == 2 && p.Others[0].Learner == run.Champion && p.Events == r.Learner.Report().Events, "%q is published, and %d others", p.Learner, len(p.Others))
	if k := status.Challengers; len(k) != 3 || !k[2].Leader || k[0].Leader || k[0].Paired.From == 0 || k[0].Paired.From > 5000 || k[0].Paired.Total.Mean <= 0 || k[2].Paired.Total.Blocks > 0 || k[2].Begun != 0 {
		t.Errorf("%+v, %+v, %+v", k[0].Standing, k[1].Standing, k[2].Standing)
	}
	must.ErrorContains(t, r.Promote(t.Context(), "slow"), "ended", "promoted after the end")
	store.Close()
	again, _, _ := challengers(t, dir, list, n, 1)
	must.True(t, again.Challengers.Leader == 2 && reflect.DeepEqual(again.Challengers.All[0].Paired, status.Challengers[0].Paired), "the next run has leader %d", again.Challengers.Leader)
	var alone run.Runner
	must.ErrorContains(t, alone.Promote(t.Context(), "a"), "[[challenger]]")
}

// TestPromotionDuringSaves checks that each checkpoint has the settings of its own learners, while learners are promoted
// and checkpoints are written all the time. A promotion whose save fails must be answered by the next save.
func TestPromotionDuringSaves(t *testing.T) {
	list := slices.Clone(entrants)
	want := map[string]online.Fingerprint{}
	for i, x := range list {
		list[i].auto = false
		_, rc := x.configs()
		want[x.name] = rc.Settings()
	}
	r, s, _ := challengers(t, t.TempDir(), list, 6000, 1)
	r.Config.SaveEvents = 1
	saves, promotions := 0, 0
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		if saves++; saves%5 == 0 {
			return "", 0, errors.New("no space")
		}
		all := slices.Collect(blocks)
		saved := must.Get(run.ReadChallengers(all))(t)
		for _, x := range saved.Learners {
			of := all
			if x.Name != saved.Leader {
				of = event.BlocksUnder(all, run.ChallengerPrefix(x.Name))
			}
			got := must.Get(run.ReadFingerprint(of))(t)
			diff := want[x.Name].Diff(got)
			must.True(t, len(diff) <= 0, "save %d: learner %s, while %s leads, has the settings of another: %v", saves, x.Name, saved.Leader, diff)
		}
		return "saved", 1, nil
	}
	stop, promoted := make(chan bool), make(chan bool)
	s.passing = func(offset int) {
		if offset%10 == 0 {
			time.Sleep(time.Millisecond)
		}
		if offset == 5500 {
			close(stop)
			<-promoted
		}
	}
	go func() {
		defer close(promoted)
		for ; ; promotions++ {
			select {
			case <-stop:
				return
			default:
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			err := r.Promote(ctx, list[promotions%len(list)].name)
			cancel()
			if err != nil {
				t.Errorf("promotion %d: %v", promotions, err)
				return
			}
		}
	}()
	must.Do(t, r.Run(t.Context()))
	must.True(t, promotions >= 5 && saves >= 10, "%d promotions, %d saves", promotions, saves)
}

// TestChallengersFailTogether checks a record that ends the run: all learners must have learned every record before it
// and none after.
func TestChallengersFailTogether(t *testing.T) {
	dir := t.TempDir()
	list := []entrant{entrants[0], {"slow", entrants[1].change, false}}
	r, _, _ := challengers(t, dir, list, 3000, 1)
	r.Config.Refused = run.PolicyFail
	var refused *run.RefusedError
	// the first rejected record
	err := r.Run(t.Context())
	must.Require(t, errors.As(err, &refused) && refused.Offset == 7, "%v", err)
	for _, x := range r.Challengers.All {
		events := x.Learner.Report().Events
		must.True(t, events == r.Learner.Report().Events && events >= 3, "%s has learned %d events", x.Name, events)
	}
	p, _ := r.Offsets.Lookup("t", 3)
	must.True(t, p.Next == 7 && r.Challengers.All[1].Paired.Seen == 7, "at %d, compared up to %d", p.Next, r.Challengers.All[1].Paired.Seen)
}

// TestStopWithinABatch checks that a run of slow events stops within 64 events, in the middle of a batch. The next run
// must continue there and end in the same state as a run without a stop.
func TestStopWithinABatch(t *testing.T) {
	const n = 1200
	list := []entrant{entrants[0], {"slow", entrants[1].change, false}}
	reference, dir := t.TempDir(), t.TempDir()
	r, _, _ := challengers(t, reference, list, n, 1)
	must.Do(t, r.Run(t.Context()))
	r, _, store := challengers(t, dir, list, n, 1)
	ctx, cancel := context.WithCancel(t.Context())
	learned, stop := 0, 0
	r.Answer = func(e *event.Example, _ *online.Prediction) error {
		if e == nil {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
		if learned++; learned == 300 {
			stop = learned
			cancel()
		}
		return nil
	}
	must.Do(t, r.Run(ctx))
	p, _ := r.Offsets.Lookup("t", 3)
	must.True(t, stop != 0 && learned >= stop && learned < stop+64 && int(p.Next) == learned, "stopped after event %d, learned %d, at %d", stop, learned, p.Next)
	store.Close()
	r, _, _ = challengers(t, dir, list, n, 2)
	must.Do(t, r.Run(t.Context()))
	got, _, _ := challengerState(t, dir)
	want, _, _ := challengerState(t, reference)
	must.True(t, bytes.Equal(got, want), "another state than without a stop")
}

// TestUnknownLeader checks that a checkpoint whose leader is not one of its learners is refused.
func TestUnknownLeader(t *testing.T) {
	blocks := []event.Block{{Name: "challengers", Data: []byte(`{"lead":"a","learners":[{"name":"a"}]}`)}}
	_, err := run.ReadChallengers(blocks)
	must.ErrorContains(t, err, `its leader "" is not one of its learners`)
}
