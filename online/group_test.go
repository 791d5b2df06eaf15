package online_test

// This file tests a group of several learners that learn one model.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/deltas"
)

// sharer returns a learner with the settings for a group.
func sharer(t testing.TB, s *event.Schema, change func(*online.Config)) *online.Learner {
	t.Helper()
	c := online.DefaultConfig().ForGroup()
	if change != nil {
		change(&c)
	}
	return newLearner(t, c, s)
}

// shareStream returns events with numbers, words and one-hot columns, some of which first appear late.
func shareStream(n int, seed uint64) (*event.Schema, []event.Example) {
	s := event.NewSchema(18, []string{"no", "yes"}, 2)
	s.Fields = append(s.Fields, event.Field{Name: "x", Kind: event.Numeric}, event.Field{Name: "words", Kind: event.Words}, event.Field{Name: "y", Kind: event.Numeric})
	r := rand.New(rand.NewPCG(seed, 1))
	weight := make([]float64, 3000)
	for i := range weight {
		weight[i] = r.NormFloat64()
	}
	events := make([]event.Example, n)
	for i := range events {
		e := &events[i]
		e.Weight, e.Offset, e.Fingerprint = 1, int64(i), r.Uint64()
		x, f := 20+3*r.NormFloat64(), 0.0
		eventtest.Put(e, 1, x, 1)
		f += (x - 20) / 3
		if i > n/2 { // a column that appears late
			y := -5 + r.NormFloat64()
			eventtest.Put(e, 2, y, 3)
			f += y + 5
		}
		column := uint32(10)
		for range 8 {
			column += 1 + uint32(r.ExpFloat64()*r.ExpFloat64()*100)
			if int(column) >= len(weight) {
				break
			}
			eventtest.Put(e, column, 1, 2)
			f += weight[column]
		}
		if r.NormFloat64()+f > 0 {
			e.Label = 1
		}
	}
	return s, events
}

// TestGroupOfOne compares a group of one learner, which merges after every interval, with a learner outside a group.
// Their states must be equal bit by bit.
func TestGroupOfOne(t *testing.T) {
	for _, noise := range []string{"auto", "dropout:0.3", "none"} {
		set := func(c *online.Config) { c.Noise = noise }
		s, events := shareStream(5000, 1)
		alone, fold := sharer(t, s, set), sharer(t, s, set)
		work := cloned(t, fold)
		must.Do(t, work.Follow(fold, nil, 1, 300))
		for i := range events {
			alone.Learn(&events[i], nil)
			work.Learn(&events[i], nil)
			if i%300 == 299 || i == len(events)-1 {
				d := work.Cut(32)
				must.Do(t, fold.Add(d))
				must.Do(t, work.Follow(fold, d.Columns, 1, 300))
				sameState(t, noise+": one that follows", blocksOf(t, fold), blocksOf(t, work))
			}
		}
		want, got := blocksOf(t, alone), blocksOf(t, fold)
		byAge := func(b event.Block) bool { return strings.HasPrefix(b.Name, "aged") || b.Name == "summary" } // a fold does not measure staleness
		sameState(t, noise, slices.DeleteFunc(want, byAge), slices.DeleteFunc(got, byAge))
	}
}

// TestGroupAddRefuses checks that a Delta that does not fit is rejected and changes no bit of the learner.
func TestGroupAddRefuses(t *testing.T) {
	for _, peers := range []int{1, 2} {
		s, events := shareStream(900, 3)
		fold := sharer(t, s, nil)
		for i := range events[:600] {
			fold.Learn(&events[i], nil)
		}
		work := cloned(t, fold)
		must.Do(t, work.Follow(fold, nil, peers, 300))
		for i := range events[600:] {
			work.Learn(&events[600+i], nil)
		}
		d, before := work.Cut(32), blocksOf(t, fold)
		for name, spoil := range map[string]func(d *deltas.Delta){
			"width":      func(d *deltas.Delta) { d.Width++ },
			"column":     func(d *deltas.Delta) { d.Columns = append(slices.Clone(d.Columns[1:]), 1<<30) },
			"state":      func(d *deltas.Delta) { d.State = d.State[:len(d.State)-1] },
			"no state":   func(d *deltas.Delta) { d.State = nil },
			"many cells": func(d *deltas.Delta) { d.Values = d.Values[1:] },
			"count":      func(d *deltas.Delta) { d.Events++ },
		} {
			bad := *d
			if spoil(&bad); name == "count" && peers == 1 {
				continue // its state contains its own number of events
			}
			if fold.Add(&bad) == nil {
				t.Fatalf("%d learners: a delta of another %s is added", peers, name)
			}
			sameState(t, fmt.Sprintf("%d learners: a delta of another %s", peers, name), before, blocksOf(t, fold))
		}
		if err := fold.Add(d); err != nil || fold.Report().Events != 900 {
			t.Errorf("%d learners: the delta itself is not added: %v", peers, err)
		}
	}
}

// rounds lets n learners learn the events in rounds. In each round every learner learns some of the events.
func rounds(t testing.TB, fold *online.Learner, events []event.Example, warm, n, interval, precision int) {
	for i := range events[:warm] {
		fold.Learn(&events[i], nil)
	}
	peers := make([]*online.Learner, n)
	for i := range peers {
		peers[i] = cloned(t, fold)
		must.Do(t, peers[i].Follow(fold, nil, n, uint64(interval)))
	}
	for rest := events[warm:]; len(rest) > 0; {
		var deltas []*deltas.Delta
		var columns []uint32
		for _, p := range peers {
			k := min(interval, len(rest))
			for i := range rest[:k] {
				p.Learn(&rest[i], nil)
			}
			rest = rest[k:]
			deltas = append(deltas, p.Cut(precision))
		}
		for _, d := range deltas {
			must.Do(t, fold.Add(d))
			columns = append(columns, d.Columns...)
		}
		for _, p := range peers {
			must.Do(t, p.Follow(fold, columns, n, uint64(interval)))
		}
		if len(rest) < 3*interval*n { // occasional checks are enough
			a := fold.Snapshot().Model().Rows
			for i, p := range peers {
				b := p.Snapshot().Model().Rows
				for slot := range a.Len() {
					column, row := a.Column(slot)
					if !slices.Equal(b.Row(column), row) {
						t.Fatalf("column %d of learner %d that follows the fold is %v, the fold's %v", column, i, b.Row(column), row)
					}
				}
			}
		}
	}
}

// TestGroupMoments checks that the merged moments and counts equal the moments and counts of one learner with all
// events.
func TestGroupMoments(t *testing.T) {
	t.Parallel()
	s, events := shareStream(6000, 4)
	alone := sharer(t, s, nil)
	for i := range events {
		alone.Learn(&events[i], nil)
	}
	for _, precision := range []int{32, 64} {
		fold := sharer(t, s, nil)
		rounds(t, fold, events, 1000, 4, 100, precision)
		rows := alone.Snapshot().Model().Rows
		for slot := range rows.Len() {
			column, want := rows.Column(slot)
			got := fold.Snapshot().Model().Rows.Row(column)
			if got == nil || got[model.StatCount] != want[model.StatCount] {
				t.Fatalf("column %d: %v, want %v", column, got, want[:5])
			}
			for _, i := range []int{model.StatMean, model.StatSquares} {
				if column <= 2 && math.Abs(got[i]-want[i]) > 1e-9*math.Abs(want[i]) {
					t.Errorf("column %d: statistic %d is %v, want %v", column, i, got[i], want[i])
				}
			}
		}
		a, b := alone.Report(), fold.Report()
		if a.Events != b.Events || a.Total.Weight != b.Total.Weight || a.Classes[0] != b.Classes[0] || a.Classes[1] != b.Classes[1] {
			t.Errorf("%+v, want %+v", b.Total, a.Total)
		}
		if c, d := a.Binary.Confusion, b.Binary.Confusion; c[0][0]+c[0][1] != d[0][0]+d[0][1] || c[1][0]+c[1][1] != d[1][0]+d[1][1] {
			t.Errorf("confusion %v, want the row sums of %v", d, c)
		}
	}
}

// TestGroupLateClass checks a class whose first event is late, at one member. The merged model must have the class.
// Before that event no member may use the class.
func TestGroupLateClass(t *testing.T) {
	s, events := shareStream(2000, 5)
	s.Classes, s.MaxClasses = []string{"a", "b", "c", "d"}, 4
	for i := range events {
		if events[i].Label = i % 2; i > 1200 {
			events[i].Label = i % 3
		}
	}
	fold := sharer(t, s, func(c *online.Config) { c.ClassWeight = map[string]float64{"c": 2} })
	rounds(t, fold, events, 500, 3, 50, 32)
	if b := fold.Snapshot().Model().Intercept; len(b) != 4 || b[2] < -10 || b[3] > -20 {
		t.Errorf("intercepts %v: the third class has come, the fourth has not", b)
	}
	light := sharer(t, s, nil)
	rounds(t, light, events, 500, 3, 50, 32)
	if a, b := fold.Snapshot().Model().Intercept[2], light.Snapshot().Model().Intercept[2]; a < b+0.1 {
		t.Errorf("the intercept of the third class is %v with weight 2, %v without", a, b)
	}
}

// TestGroupQuality checks that the error of several learners in a group is close to the error of one learner. It checks
// one output, several outputs, several noise levels, and group noise.
func TestGroupQuality(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	s, events := shareStream(12_000, 2)
	for i, noise := range []string{"none", "dropout:0.1", "group:0.1", "auto"} {
		set := func(c *online.Config) { c.Noise = noise }
		alone := sharer(t, s, set)
		for i := range events {
			alone.Learn(&events[i], nil)
		}
		for j, n := range []int{2, 8} {
			if !longtest.Some(i+j+1, 2) {
				continue
			}
			fold := sharer(t, s, set)
			rounds(t, fold, events, 2000, n, 50, 32)
			want, got := alone.Report().Window.MeanLogLoss(), fold.Report().Window.MeanLogLoss()
			if got > want+0.02*float64(n)/2 {
				t.Errorf("%s, %d learners: log-loss %.4f, alone %.4f", noise, n, got, want)
			}
		}
	}
}

// TestGroupForgets checks the error after a concept change, with a half-life and with alarms. A group that forgets must
// recover like one learner that forgets. A group that does not forget must not recover.
func TestGroupForgets(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	s, events := shareStream(14_000, 8)
	for i := range events[8000:] {
		events[8000+i].Label = 1 - events[8000+i].Label
	}
	loss := map[string]float64{}
	for name, set := range map[string]func(*online.Config){
		"never":     func(c *online.Config) { c.OnDrift = "log" },
		"half-life": func(c *online.Config) { c.HalfLife, c.OnDrift = 1000, "log" },
		"alarm":     func(c *online.Config) { c.OnDrift = "forget" },
	} {
		metric := func(c *online.Config) { // disables all other adaptation to drift
			set(c)
			c.Noise, c.Adapt, c.Average = "none", false, 0
		}
		alone := sharer(t, s, metric)
		for i := range events {
			alone.Learn(&events[i], nil)
		}
		fold := sharer(t, s, metric)
		rounds(t, fold, events, 2000, 4, 50, 32)
		a, b := alone.Report(), fold.Report()
		loss[name] = b.Window.MeanLogLoss()
		if want := a.Window.MeanLogLoss(); name != "never" && loss[name] > want+0.04 {
			t.Errorf("%s: log-loss %.4f, alone %.4f", name, loss[name], want)
		}
		if name == "alarm" && b.Drift.Alarms == 0 {
			t.Error("no alarm")
		}
	}
	if loss["half-life"] > loss["never"]-0.07 || loss["alarm"] > loss["never"]-0.07 {
		t.Errorf("log-losses %v", loss)
	}
}

// TestGroupUnlabeled checks that a Delta contains the effect of unlabeled events on steps, and that the fold counts
// these events.
func TestGroupUnlabeled(t *testing.T) {
	s, events := shareStream(3000, 11)
	sum := func(weight float64) (all float64, r online.Report) {
		fold := sharer(t, s, func(c *online.Config) { c.Noise, c.UnlabeledWeight = "none", weight })
		for i := range events {
			if i%3 == 0 {
				events[i].Label = event.Unlabeled
			}
		}
		rounds(t, fold, events, 600, 3, 100, 64)
		rows := fold.Snapshot().Model().Rows
		for slot := range rows.Len() {
			_, row := rows.Column(slot)
			all += row[model.ScalerWidth+1]
		}
		return all, fold.Report()
	}
	without, _ := sum(0)
	with, r := sum(0.5)
	if with < 1.1*without || r.Unlabeled != 1000 || r.Events != 3000 {
		t.Errorf("sums of squares %v with unlabeled events, %v without; %d of %d unlabeled", with, without, r.Unlabeled, r.Events)
	}
}

// TestFoldRestored saves and restores a fold. Adding the same Deltas to the restored fold must give the same bits, for
// a group of one member and of several members.
func TestFoldRestored(t *testing.T) {
	for _, kind := range []string{"records", "nulls", "several classes", "texts"} {
		draw := streams["records"]
		if kind != "several classes" {
			draw = streams[kind]
		}
		s := draw(21)
		if kind == "several classes" {
			s.schema.Classes, s.schema.MaxClasses = []string{"a", "b", "c", "d"}, 4
		}
		c := online.DefaultConfig()
		fold := must.Get(online.NewForGroup(c, s.schema))(t)
		member := cloned(t, fold)
		other := cloned(t, fold)
		for round := range 40 {
			peers := 1
			if round > 5 {
				peers = 3
			}
			must.Do(t, member.Follow(fold, nil, peers, 50))
			for range 50 {
				member.Learn(vary(rand.New(rand.NewPCG(uint64(round), 1)), s.next()), nil)
			}
			d := member.Cut(32)
			for _, l := range []*online.Learner{fold, other} {
				must.Do(t, l.Add(d))
			}
			if round%3 == 2 {
				other = restart(t, c.ForGroup(), other)
				other.SetSchema(s.schema)
			}
			sameState(t, fmt.Sprint(kind, ", round ", round), blocksOf(t, fold), blocksOf(t, other))
		}
	}
}
