package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/aged"
	"blankout/online/share"
)

// stream makes events of numbers, words and one-hot columns, some of which appear late.
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
		e.Features.Index, e.Features.Value, e.Field = []uint32{1}, []float64{x}, []uint16{1}
		f += (x - 20) / 3
		if i > n/2 { // a column that begins late
			y := -5 + r.NormFloat64()
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, 2), append(e.Features.Value, y), append(e.Field, 3)
			f += y + 5
		}
		column := uint32(10)
		for range 8 {
			column += 1 + uint32(r.ExpFloat64()*r.ExpFloat64()*100)
			if int(column) >= len(weight) {
				break
			}
			e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, 1), append(e.Field, 2)
			f += weight[column]
		}
		if r.NormFloat64()+f > 0 {
			e.Label = 1
		}
	}
	return s, events
}

func shareLearner(t testing.TB, s *event.Schema, change func(*Config)) *Learner {
	t.Helper()
	c := DefaultConfig().Shared()
	if change != nil {
		change(&c)
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func sameState(t *testing.T, want, got *Learner) {
	t.Helper()
	a, err := want.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != len(b) {
		t.Fatalf("%d blocks, want %d", len(b), len(a))
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
			t.Errorf("block %s differs: %d bytes, want %d", b[i].Name, len(b[i].Data), len(a[i].Data))
		}
	}
}

// One learner that hands on what it has learned after every interval comes to the state,
// to the bit, of one that learns alone.
func TestShareAlone(t *testing.T) {
	for _, noise := range []string{"auto", "dropout:0.3", "none"} {
		t.Run(noise, func(t *testing.T) {
			set := func(c *Config) {
				if c.Noise = noise; noise == "auto" {
					c.Optimizer = "auto"
				}
			}
			s, events := shareStream(5000, 1)
			alone, fold := shareLearner(t, s, set), shareLearner(t, s, set)
			work, err := fold.Clone()
			if err != nil {
				t.Fatal(err)
			}
			if err := work.beginInterval(1, 300); err != nil {
				t.Fatal(err)
			}
			for i := range events {
				alone.Learn(&events[i], nil)
				work.Learn(&events[i], nil)
				if i%300 == 299 || i == len(events)-1 {
					d := work.Cut(32)
					if err := fold.Add(d); err != nil {
						t.Fatal(err)
					}
					if i < 600 { // goes on as it is, or as the fold is: the same
						err = work.beginInterval(1, 300)
					} else {
						err = work.Follow(fold, d.Columns, 1, 300)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if alone.Report().ByAge == nil || fold.Report().ByAge != nil {
				t.Error("answers are measured by age alone, and not where learners share a model")
			}
			alone.aged = aged.Aged{}
			sameState(t, alone, fold)
		})
	}
}

// A Delta that does not fit is not added: not a bit of the Learner changes.
func TestAddRefuses(t *testing.T) {
	for _, peers := range []int{1, 2} {
		s, events := shareStream(900, 3)
		fold := shareLearner(t, s, nil)
		for i := range events[:600] {
			fold.Learn(&events[i], nil)
		}
		work, err := fold.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := work.Follow(fold, nil, peers, 300); err != nil {
			t.Fatal(err)
		}
		for i := range events[600:] {
			work.Learn(&events[600+i], nil)
		}
		d, before := work.Cut(32), mustBlocks(t, fold)
		for name, spoil := range map[string]func(d *share.Delta){
			"width":      func(d *share.Delta) { d.Width++ },
			"column":     func(d *share.Delta) { d.Columns = append(slices.Clone(d.Columns[1:]), 1<<30) },
			"state":      func(d *share.Delta) { d.State = d.State[:len(d.State)-1] },
			"no state":   func(d *share.Delta) { d.State = nil },
			"many cells": func(d *share.Delta) { d.Values = d.Values[1:] },
		} {
			bad := *d
			if spoil(&bad); fold.Add(&bad) == nil {
				t.Fatalf("%d learners: a delta of another %s is added", peers, name)
			}
			if !reflect.DeepEqual(mustBlocks(t, fold), before) {
				t.Fatalf("%d learners: a delta of another %s changes the model", peers, name)
			}
		}
		if err := fold.Add(d); err != nil || reflect.DeepEqual(mustBlocks(t, fold), before) {
			t.Errorf("%d learners: the delta itself is not added: %v", peers, err)
		}
	}
}

// rounds has n learners learn the events in rounds, each its part, and returns the fold.
func rounds(t testing.TB, fold *Learner, events []event.Example, warm, n, interval, precision int) {
	for i := range events[:warm] {
		fold.Learn(&events[i], nil)
	}
	peers := make([]*Learner, n)
	for i := range peers {
		var err error
		if peers[i], err = fold.Clone(); err != nil {
			t.Fatal(err)
		}
		if err := peers[i].beginInterval(n, uint64(interval)); err != nil {
			t.Fatal(err)
		}
	}
	for rest := events[warm:]; len(rest) > 0; {
		var deltas []*share.Delta
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
			if err := fold.Add(d); err != nil {
				t.Fatal(err)
			}
			columns = append(columns, d.Columns...)
		}
		for _, p := range peers {
			if err := p.Follow(fold, columns, n, uint64(interval)); err != nil {
				t.Fatal(err)
			}
			for slot := range fold.table.Len() {
				column, want := fold.table.Column(slot)
				if got := p.table.Row(column); !slices.Equal(got, want) {
					t.Fatalf("column %d of a learner that follows the fold is %v, the fold's %v", column, got, want)
				}
			}
			if p.rewritten != fold.rewritten { // else it would copy all rows every time
				t.Fatalf("all rows were written %d times in a learner, %d times in the fold that it follows", p.rewritten, fold.rewritten)
			}
		}
	}
}

// The moments of readings and the counts come to what they would be if one had met them all.
func TestShareMoments(t *testing.T) {
	s, events := shareStream(6000, 4)
	for _, precision := range []int{32, 64} {
		alone, fold := shareLearner(t, s, nil), shareLearner(t, s, nil)
		for i := range events {
			alone.Learn(&events[i], nil)
		}
		rounds(t, fold, events, 1000, 4, 100, precision)
		for slot := range alone.table.Len() {
			column, want := alone.table.Column(slot)
			got := fold.table.Row(column)
			if got == nil || got[model.StatCount] != want[model.StatCount] {
				t.Fatalf("column %d: %v, want %v", column, got, want[:5])
			}
			if column > 2 {
				continue
			}
			for _, i := range []int{model.StatMean, model.StatSquares} {
				if math.Abs(got[i]-want[i]) > 1e-9*math.Abs(want[i]) {
					t.Errorf("column %d: statistic %d is %v, want %v", column, i, got[i], want[i])
				}
			}
		}
		a, b := alone.Report(), fold.Report()
		if alone.steps != fold.steps || a.Events != b.Events || a.Total.Weight != b.Total.Weight || a.Classes[0] != b.Classes[0] || a.Classes[1] != b.Classes[1] {
			t.Errorf("%+v, want %+v", b.Total, a.Total)
		}
		if c, d := a.Binary.Confusion, b.Binary.Confusion; c[0][0]+c[0][1] != d[0][0]+d[0][1] || c[1][0]+c[1][1] != d[1][0]+d[1][1] {
			t.Errorf("confusion %v, want the row sums of %v", d, c)
		}
	}
}

// A step counts c times: by so much AdaGrad's sums gain, and weights move by what adagrad
// says; both are computed here the slow way.
func TestShareStep(t *testing.T) {
	s, events := shareStream(4000, 6)
	for _, noise := range []string{"none", "auto", "fading"} {
		reach := 3000.0
		l := shareLearner(t, s, func(c *Config) {
			if c.Noise = noise; noise == "fading" {
				c.Noise, c.HalfLife = "none", 150
				reach = 150 / math.Ln2
			}
		})
		for i := range events[:3000] {
			l.Learn(&events[i], nil)
		}
		const peers, own = 6, 40
		began, err := l.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.beginInterval(peers, own); err != nil {
			t.Fatal(err)
		}
		unlike := 0
		for i := range events[3000:] {
			e := &events[3000+i]
			var before [][]float64
			var fresh []bool // not met in the interval before
			for _, column := range e.Features.Index {
				row := l.table.Row(column)
				if row == nil {
					row = make([]float64, l.table.Width())
				}
				before = append(before, append([]float64(nil), row...))
				fresh = append(fresh, !slices.Contains(l.share.Columns(), column))
			}
			l.Learn(e, nil)
			now := &l.now.step
			roots := slices.Clone(now.Roots)
			sums := func(i, j int) (sum, gained float64) {
				if i == len(before) {
					return l.config.Start + l.layout.Preconditioner(l.bias)[j]/l.fade.Growth, 0
				}
				g := l.layout.Preconditioner(l.table.Row(e.Features.Index[i]))[j] / l.fade.Growth
				return l.config.Start + g, g - l.layout.Preconditioner(before[i])[j]/l.fade.Growth
			}
			for k := range e.Features.Index {
				was := before[k]
				a := 0.0
				for _, g := range l.layout.Preconditioner(was) {
					g /= l.fade.Growth
					a += 2 * l.set.eta * (math.Sqrt(l.config.Start+g*(1+own/reach)) - math.Sqrt(l.config.Start+g))
				}
				a /= float64(l.n)
				c := 1 + (peers-1)*math.Min(1, own*was[model.StatCount]/3000)/(1+0.3*float64(len(before))*a)
				if fresh[k] && math.Abs(roots[k]*roots[k]-c) > 1e-9*c {
					t.Fatalf("%s, event %d: column %d counts %v times, want %v", noise, i, e.Features.Index[k], roots[k]*roots[k], c)
				}
			}
			// The intercepts are a column that every event holds, and alone in its row.
			a := 0.0
			for _, g := range began.layout.Preconditioner(began.bias) {
				g /= began.fade.Growth
				a += 2 * l.set.eta / float64(l.n) * (math.Sqrt(l.config.Start+g*(1+own/reach)) - math.Sqrt(l.config.Start+g))
			}
			if c := 1 + (peers-1)/(1+0.3*a); len(roots) != len(before)+1 || math.Abs(roots[len(before)]*roots[len(before)]-c) > 1e-9*c {
				t.Fatalf("%s, event %d: roots %v, want the last of %v", noise, i, roots, math.Sqrt(c))
			}
			for j := range l.n {
				eta := l.levels[j].Rate(l.set.eta) * math.Exp(l.levels[j].Raise())
				kappa, once := 0.0, 0.0
				for k, root := range roots {
					sum, _ := sums(k, j)
					part := eta * now.X[k] * now.X[k] / math.Sqrt(sum)
					kappa, once = kappa+root*root*part, once+part
				}
				part, partOnce := l.slowShare(j, kappa), l.slowShare(j, once)
				for k, column := range e.Features.Index {
					sum, gained := sums(k, j)
					if gained < 1e-9*sum {
						continue
					}
					// G gains c gradient^2.
					c := roots[k] * roots[k]
					dw := math.Abs(l.weights(l.table.Row(column))[j] - l.weights(before[k])[j])
					got := dw * math.Sqrt(sum) / math.Sqrt(gained/c) / eta
					if want := partOnce + (c-1)*part; math.Abs(got-want) > 0.02*want {
						t.Fatalf("%s, event %d, column %d, level %d: its rate is multiplied by %v, want %v: c = %v, shares %v and %v", noise, i, column, j, got, want, c, part, partOnce)
					}
					if c*part < 0.8*(partOnce+(c-1)*part) {
						unlike++
					}
				}
			}
		}
		if unlike < 100 {
			t.Errorf("%s: only %d rows that count less than others do", noise, unlike)
		}
		// What is handed on is alpha of the change, as sharing says.
		d := l.Cut(64)
		for i, column := range d.Columns {
			row, was, v := l.table.Row(column), began.table.Row(column), d.Values[i*d.Width:][:d.Width]
			if was == nil {
				was = make([]float64, l.table.Width())
			}
			k := row[model.StatCount] - was[model.StatCount]
			alpha := k / (k + (peers-1)*own*was[model.StatCount]/3000)
			for j, u := range v[share.Parts : share.Parts+l.n] {
				if want := alpha * (l.weights(row)[j] - l.weights(was)[j]); v[share.Count] != k || math.Abs(u-want) > 1e-12 {
					t.Fatalf("%s, column %d: u = %v of %v events, want %v of %v", noise, column, u, v[share.Count], want, k)
				}
			}
		}
	}
}

// slowShare returns the share of the step of the event that has just been learned, of which
// every unit of -df moves the score by kappa.
func (l *Learner) slowShare(j int, kappa float64) float64 {
	s := &l.now.step
	_, df, _ := l.set.loss.At(s.Y[j], s.F[j], s.Variance[j])
	low, high := 0.0, 1.0
	for range 60 {
		a := (low + high) / 2
		if _, d, _ := l.set.loss.At(s.Y[j], s.F[j]-a*df*kappa, s.Variance[j]); a > d/df {
			high = a
		} else {
			low = a
		}
	}
	return low
}

// A class that is met late, by one of several, is known to the model, and what is not met
// yet when sharing begins is none of the model's.
func TestShareLateClass(t *testing.T) {
	s, events := shareStream(2000, 5)
	s.Classes, s.MaxClasses = []string{"a", "b", "c", "d"}, 4
	for i := range events {
		if events[i].Label = i % 2; i > 1200 {
			events[i].Label = i % 3
		}
	}
	fold := shareLearner(t, s, func(c *Config) { c.ClassWeight = map[string]float64{"c": 2} })
	rounds(t, fold, events, 500, 3, 50, 32)
	if fold.active != 3 || len(fold.classes) != 3 || fold.classes[2] != 2 {
		t.Errorf("%d classes in use of weights %v", fold.active, fold.classes)
	}
	clone, err := fold.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if clone.classes[2] != 2 {
		t.Errorf("a copy has weights %v", clone.classes)
	}
}

// Several learners come close to one, with one output, several, a bank, and groups.
func TestShareQuality(t *testing.T) {
	longtest.NotRaced(t)
	s, events := shareStream(12_000, 2)
	for i, noise := range []string{"none", "dropout:0.1", "group:0.1"} {
		set := func(c *Config) { c.Noise = noise }
		alone := shareLearner(t, s, set)
		for i := range events {
			alone.Learn(&events[i], nil)
		}
		for j, n := range []int{2, 8} {
			if !longtest.Some(i+j+1, 2) {
				continue
			}
			fold := shareLearner(t, s, set)
			rounds(t, fold, events, 2000, n, 50, 32)
			want, got := alone.Report().Window.MeanLogLoss(), fold.Report().Window.MeanLogLoss()
			if got > want+0.02*float64(n)/2 {
				t.Errorf("%s, %d learners: log-loss %.4f, alone %.4f", noise, n, got, want)
			}
		}
	}
}

// The metric fades with the events of all: what a delta finds is halved once every half-life,
// to the same weights and the same metric wherever the stored sums are scaled down, and what
// it adds counts in full.
func TestShareHalfLife(t *testing.T) {
	const halfLife = 25
	s, events := shareStream(4000, 7)
	for _, growth := range []float64{1, 1e97} { // the second passes maxGrowth
		l := shareLearner(t, s, func(c *Config) { c.HalfLife, c.Noise = halfLife, "dropout:0.2" })
		for i := range events[:2000] {
			l.Learn(&events[i], nil)
		}
		for slot := range l.table.Len() {
			_, row := l.table.Column(slot)
			for j := range l.layout.Preconditioner(row) {
				l.layout.Preconditioner(row)[j] *= growth / l.fade.Growth
			}
		}
		for j := range l.layout.Preconditioner(l.bias) {
			l.layout.Preconditioner(l.bias)[j] *= growth / l.fade.Growth
		}
		l.fade.Growth = growth
		peer, err := l.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := peer.beginInterval(3, 400); err != nil {
			t.Fatal(err)
		}
		for i := range events[2000:2400] {
			peer.Learn(&events[2000+i], nil)
		}
		if peer.fade.Growth != growth {
			t.Errorf("within an interval growth %v has become %v", growth, peer.fade.Growth)
		}
		d := peer.Cut(64)
		before := map[uint32]float64{}
		for slot := range l.table.Len() {
			column, row := l.table.Column(slot)
			before[column] = l.layout.Preconditioner(row)[0] / l.fade.Growth
		}
		if err := l.Add(d); err != nil {
			t.Fatal(err)
		}
		if scaled := l.fade.Growth < growth; scaled != (growth > 1) {
			t.Fatalf("growth %v has become %v", growth, l.fade.Growth)
		}
		added := map[uint32]float64{}
		for i, column := range d.Columns {
			added[column] = d.Values[i*d.Width+share.Parts+1]
		}
		for slot := range l.table.Len() {
			column, row := l.table.Column(slot)
			if column == 1 { // has moved meanwhile, and with it what its sum is measured in
				continue
			}
			want := before[column]*math.Exp2(-400.0/halfLife) + added[column]
			if got := l.layout.Preconditioner(row)[0] / l.fade.Growth; math.Abs(got-want) > 1e-12*(want+1e-9) {
				t.Fatalf("growth %v, column %d: the metric is %v, want %v", growth, column, got, want)
			}
		}
	}
}

// In a world that turns around, learners that forget come back, as one alone does, and those
// that do not stay behind; by half-life and by the alarm.
func TestShareForgets(t *testing.T) {
	s, events := shareStream(14_000, 8)
	for i := range events[8000:] {
		events[8000+i].Label = 1 - events[8000+i].Label
	}
	loss := map[string]float64{}
	for name, set := range map[string]func(*Config){
		"never":     func(c *Config) { c.OnDrift = "log" },
		"half-life": func(c *Config) { c.HalfLife, c.OnDrift = 1000, "log" },
		"alarm":     func(c *Config) { c.OnDrift = "forget" },
	} {
		metric := func(c *Config) { // what else follows a stream that moves is switched off
			set(c)
			c.Noise, c.Adapt, c.Average = "none", false, 0
		}
		alone := shareLearner(t, s, metric)
		for i := range events {
			alone.Learn(&events[i], nil)
		}
		fold := shareLearner(t, s, metric)
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
	t.Log(loss)
	if loss["half-life"] > loss["never"]-0.07 || loss["alarm"] > loss["never"]-0.07 {
		t.Errorf("log-losses %v", loss)
	}
}

// What a Learner rewrites of rows that no delta holds, it tells those who follow: its lags when
// the averages' coefficient becomes too small, see pace.Pace.
func TestShareRebase(t *testing.T) {
	s, events := shareStream(4000, 9)
	fold := shareLearner(t, s, nil)
	for i := range events[:2000] {
		fold.Learn(&events[i], nil)
	}
	for v := range fold.levels {
		a, g := &fold.levels[v], 1e-148
		scale := g / a.Coefficient
		a.Coefficient, a.Inverse = g, 1/g
		for slot := range fold.table.Len() {
			_, row := fold.table.Column(slot)
			for k := range fold.k {
				fold.lags(row)[v*fold.k+k] /= scale
			}
		}
	}
	was := fold.rewritten
	rounds(t, fold, events[2000:], 0, 3, 40, 32)
	if fold.rewritten == was {
		t.Error("the coefficient has not become too small")
	}
}

// Which numbers are often left out is what one alone has found; the weights of their presence are
// then as good of several learners as of one, and learners that begin too early have none.
func TestSharePresence(t *testing.T) {
	a := newAbsences(5)
	events := make([]event.Example, 9000)
	for i := range events {
		events[i] = *a.next()
	}
	set := func(c *Config) { c.Noise = "dropout:0.1" }
	alone, fold := shareLearner(t, a.schema, set), shareLearner(t, a.schema, set)
	for i := range events {
		alone.Learn(&events[i], nil)
	}
	rounds(t, fold, events, 1100, 4, 50, 32)
	curves, want := fold.scaling.Scaler.Curves, alone.scaling.Scaler.Curves
	if !slices.Equal(curves.Columns, want.Columns) || !slices.EqualFunc(curves.Knots, want.Knots, slices.Equal) {
		t.Errorf("curves %v, alone %v", curves, want)
	}
	one, several := alone.Report().Window.MeanLogLoss(), fold.Report().Window.MeanLogLoss()
	absent := shareLearner(t, a.schema, func(c *Config) { c.Noise, c.Presence = "dropout:0.1", "none" })
	for i := range events {
		absent.Learn(&events[i], nil)
	}
	if without := absent.Report().Window.MeanLogLoss(); several > one+0.05 || several > without-0.1 {
		t.Errorf("log-loss %.4f, alone %.4f, without presence %.4f", several, one, without)
	}
	early := shareLearner(t, a.schema, func(c *Config) { c.Noise = "dropout:0.1" })
	rounds(t, early, events, 500, 4, 50, 32)
	if early.scaling.Scaler.Curves != nil {
		t.Error("learners that shared from event 500 on have found out what is often left out")
	}
}
