package validate

import (
	"bytes"
	"cmp"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestReservoirKeepsTheSmallestHashes offers events in any order, with any number of restarts. The reservoir must hold
// the events with the smallest hashes.
func TestReservoirKeepsTheSmallestHashes(t *testing.T) {
	const n, size = 5000, 200
	event := func(offset int) *event.Example {
		return &event.Example{Label: offset % 2, Weight: 1, Offset: int64(offset),
			Features: event.Vec{Index: []uint32{uint32(offset % 7)}, Value: []float64{float64(offset)}}}
	}
	// A reservoir that is large enough for every event has every hash.
	all := newReservoir(t, n)
	for i := range n {
		all.Offer("t", 0, event(i))
	}
	slices.SortFunc(all.events, func(a, b keptEvent) int { return cmp.Compare(a.hash, b.hash) })
	want := &Reservoir{size: size, events: all.events[:size], met: n, below: all.events[size].hash}

	forwards, backwards := make([]int, n), make([]int, n)
	for i := range n {
		forwards[i], backwards[i] = i, n-1-i
	}
	for name, order := range map[string][]int{
		"forwards": forwards, "backwards": backwards, "shuffled": rand.New(rand.NewPCG(1, 2)).Perm(n),
	} {
		r := must.Get(NewReservoir(size, nil))(t)
		for i, offset := range order {
			if i == size/2 || i == size || i == n/2 {
				met := r.met
				r = must.Get(NewReservoir(size, r.Encode()))(t)
				must.Require(t, r.met == met, "restored after %d events it has met %d", i, r.met)
			}
			r.Offer("t", 0, event(offset))
		}
		must.True(t, bytes.Equal(r.Encode(), want.Encode()), "%s: other events than the %d with the smallest hashes", name, size)
	}
	// The hash does not depend on an event's time, so the sample is spread evenly over time. The mean offset of its
	// events has a standard deviation of n/sqrt(12 size), which is 102.
	mean := 0.0
	for _, k := range want.events {
		mean += float64(k.Offset) / size
	}
	must.True(t, mean >= n/2-410 && mean <= n/2+410, "the mean offset of the sample is %v of %d", mean, n)
}

func newReservoir(t *testing.T, size int) *Reservoir {
	t.Helper()
	return must.Get(NewReservoir(size, nil))(t)
}

// TestReservoirOpenedAsLarger opens a full reservoir with a larger size. The reservoir must keep only events whose
// hashes are below the smallest hash that it has dropped. Otherwise the sample would not be uniform.
func TestReservoirOpenedAsLarger(t *testing.T) {
	event := func(offset int) *event.Example {
		return &event.Example{Weight: 1, Offset: int64(offset)}
	}
	const small, large, n = 20, 60, 500
	for _, at := range []int{small - 1, small, small + 1, n / 2} {
		r := newReservoir(t, small)
		for i := range at {
			r.Offer("t", 0, event(i))
		}
		r = must.Get(NewReservoir(large, r.Encode()))(t)
		below := r.below
		must.Equal(t, below != math.MaxUint64, at > small, "after", at, "events the smallest hash let go is", below, "and whether one was let go")
		for i := at; i < n; i++ {
			r.Offer("t", 0, event(i))
		}
		want := must.Count(n, func(i int) bool { return placeHash("t", 0, int64(i)) < below })
		must.True(t, len(r.events) == min(want, large), "opened as a larger one after %d events: it keeps %d, want %d of %d", at, len(r.events), large, want)
	}
}

// TestReservoirOfLargeEvents checks that the total bytes of large events are limited. The reservoir must keep the
// events with the smallest hashes that fit, in any order and across restarts. A few much larger events must not
// displace the other events.
func TestReservoirOfLargeEvents(t *testing.T) {
	const n, limit = 400, 64 << 10
	event := func(offset int) *event.Example {
		size := must.Either(offset%50 == 0, 1000, 20+80*(offset%3))
		return &event.Example{Weight: 1, Offset: int64(offset), Features: event.Vec{Index: make([]uint32, size), Value: make([]float64, size)}}
	}
	var want []byte
	for seed := range uint64(5) {
		r := newReservoir(t, n)
		r.limit = limit
		for i, offset := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
			if i%150 == 100 {
				again := must.Get(NewReservoir(n, r.Encode()))(t)
				again.limit = limit
				r = again
			}
			r.Offer("t", 0, event(offset))
			must.Require(t, r.bytes <= limit, "%d bytes", r.bytes)
		}
		if want == nil {
			want = r.Encode()
		}
		must.True(t, bytes.Equal(r.Encode(), want) && len(r.events) >= 30 && len(r.events) <= 100, "order %d: %d events of %d bytes", seed, len(r.events), r.bytes)
	}
}

// TestReservoirOfRegression checks that a reservoir keeps regression targets, and that truncated data of a reservoir are
// rejected.
func TestReservoirOfRegression(t *testing.T) {
	r := must.Get(NewReservoir(5, nil))(t)
	for i := range int64(20) {
		r.Offer("x", 0, &event.Example{Offset: i, Weight: 1, Target: 0.5 + float64(i), Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}})
	}
	data := r.Encode()
	again := must.Get(NewReservoir(5, data))(t)
	must.True(t, string(again.Encode()) == string(data), "what was read is not what was written")
	events := again.Events()
	must.True(t, len(events) == 5 && events[0].Target == 0.5+float64(events[0].Offset), "read %+v", events)
	for cut := range data {
		_, err := NewReservoir(5, data[:cut])
		must.Require(t, err != nil, "cut to %d of %d bytes and read", cut, len(data))
	}
}

func sampled(r *rand.Rand, offset int) *event.Example {
	e := &event.Example{Label: offset % 3, Target: r.NormFloat64(), Weight: 1 + r.Float64(), Time: int64(offset) * 10, Offset: int64(offset)}
	for i := range r.IntN(40) {
		eventtest.Put(e, uint32(3*i), r.NormFloat64())
	}
	if offset%2 == 0 {
		for i := range e.Features.Len() {
			e.Field = append(e.Field, uint16(i))
		}
		e.Missing = []uint16{70, 71}
	} else {
		e.MissingColumns = []uint32{1 << 20}
	}
	return e
}

// TestSampleIsBoundedAndUniform checks that a Sample stays within its byte limit and returns its events unchanged. It
// must be uniform over partitions, time and event sizes.
func TestSampleIsBoundedAndUniform(t *testing.T) {
	const n, limit = 60_000, 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	s := NewSample(limit)
	all := make([]*event.Example, n)
	var early *Sample
	var before [][]byte
	for i := range n {
		all[i] = sampled(r, i)
		s.Offer("t", int32(i%4), all[i])
		total := 0
		for _, chunk := range s.chunks {
			total += cap(chunk)
		}
		must.Require(t, total <= limit && total == s.bytes, "after %d events it takes up %d bytes, and counts %d", i, total, s.bytes)
		if i == 5000 {
			early = s.Freeze()
			before = must.Map(early.draw(n), slices.Clone[[]byte])
		}
	}
	must.Require(t, s.threshold != math.MaxUint64/4 && s.Len() >= 1000 && s.Len() <= n/8, "it keeps %d of %d, below %d: this tests nothing", s.Len(), n, s.threshold)
	mean, size := 0.0, 0.0
	for _, packed := range s.draw(n) {
		var e event.Example
		unpack(packed, &e)
		want := *all[e.Offset]
		partition, offset := packedPlace(packed)
		if len(want.Features.Index) == 0 {
			want.Features, e.Features, want.Field, e.Field = event.Vec{}, event.Vec{}, nil, nil
		}
		must.Require(t, partition == int32(e.Offset%4) && offset == e.Offset && reflect.DeepEqual(clean(e), clean(want)), "kept %+v\nwant %+v", e, want)
		mean += float64(e.Offset) / float64(s.Len())
		size += float64(e.Features.Len()) / float64(s.Len())
	}
	// The standard deviations of the two means are n/sqrt(12 k) and 11.5/sqrt(k), where the sample size k is about
	// 2,000.
	must.True(t, mean >= n/2-5*400 && mean <= n/2+5*400 && size >= 19.5-5*.26 && size <= 19.5+5*.26, "mean offset %v of %d, mean length %v", mean, n, size)
	few := s.draw(500)
	must.True(t, len(few) >= 400 && len(few) <= 600, "draws %d for 500", len(few))
	for i, packed := range early.draw(n) {
		must.Require(t, slices.Equal(packed, before[i]), "what was frozen has changed")
	}
	s = NewSample(1000)
	s.Offer("t", 0, &event.Example{Weight: 1, Features: event.Vec{Index: make([]uint32, 100), Value: make([]float64, 100)}})
	must.True(t, s.bytes <= 1000, "one event alone takes up more than there is")
}

// TestSampleStandsForTheStream checks that each half of a sample represents all learned events. An event must count by
// its own weight times the weight of its class.
func TestSampleStandsForTheStream(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	live := model.NewLinear(schema, "logistic", "none", [][]float64{make([]float64, 256)}, []float64{0})
	const n = 6000
	live.Events = n
	s := NewSample(SampleBytes)
	for i := range n {
		e := event.Example{Label: i / 3 % 2, Weight: float64(1 + i%2), Offset: int64(i), Features: event.Vec{Index: []uint32{3}, Value: []float64{1}}}
		s.Offer("t", 0, &e)
	}
	v := &Validator{Config: Config{Holdout: 4}}
	v.Learner.ClassWeight = map[string]float64{"yes": 3}
	got := must.Get(v.gatherSample(t.Context(), Request{Live: live, Sample: s, Most: n}, schema, &throttle{fraction: 1}))(t)
	d := got.evidence.LearnedData()
	// There are four kinds of events: event weight 1 or 2, and class weight 1 or 3. Compare their weights with the
	// number of events of each kind.
	sum, lightest := 0.0, math.Inf(1)
	for i := range d.Rows() {
		sum, lightest = sum+d.Weight(i), min(lightest, d.Weight(i))
	}
	must.True(t, d.Rows() >= 300 && d.Rows() <= s.Len()*45/100, "%d of %d events are solved for, want some 35 in 100", d.Rows(), s.Len())
	each := n / float64(d.Rows())
	must.True(t, math.Abs(lightest-each) <= 1e-9*each, "an event stands for %v, want %v", lightest, each)
	want := 3.0 * n
	must.True(t, math.Abs(sum-want) <= 0.1*want, "all of them stand for %v, want %v", sum, want)
}

// clean returns e with empty slices replaced by nil.
func clean(e event.Example) event.Example {
	for _, list := range []*[]uint16{&e.Field, &e.Missing} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(e.MissingColumns) == 0 {
		e.MissingColumns = nil
	}
	return e
}

// TestAlarm checks that a gap above the limit raises an alarm under the policy alarm. A gap that could not be computed
// must raise an alarm too.
func TestAlarm(t *testing.T) {
	c := DefaultConfig()
	gap := func(x float64) *float64 { return &x }
	for _, x := range []struct {
		policy string
		gap    *float64
		want   bool
	}{{"alarm", nil, true}, {"alarm", gap(c.MaxGap), false}, {"alarm", gap(1.01 * c.MaxGap), true}, {"alarm", gap(0), false}, {"observe", nil, false}, {"observe", gap(1), false}} {
		c.Policy = x.policy
		s := Status{Alarm: !x.want, Running: true}
		s.Take(c, Result{Report: &batch.Validation{RelativeGap: x.gap}}, slog.New(slog.DiscardHandler))
		must.True(t, s.Alarm == x.want && !s.Running && s.Done == 1 && s.Last != nil, "%s, gap %v: %+v, want alarm %v", x.policy, x.gap, s, x.want)
	}
	for _, policy := range []string{"observe", "alarm"} { // for every policy
		var s Status
		c.Policy = policy
		s.Take(c, Result{Report: &batch.Validation{RelativeGap: gap(0), Alarm: "far off"}}, slog.New(slog.DiscardHandler))
		must.True(t, s.Alarm, "%s: a report that is an alarm raises none", policy)
	}
}

// TestSchedule checks that a validation is due at the multiples of Config.Events, for any number of records at the
// start.
func TestSchedule(t *testing.T) {
	c := DefaultConfig()
	c.Events = 10
	for _, x := range []struct{ at, due uint64 }{{0, 10}, {1, 10}, {9, 10}, {10, 20}, {25, 30}} {
		s := NewSchedule(c, x.at)
		must.True(t, !s.Due(x.due-1) && s.Due(x.due) && s.Due(x.due+5), "from record %d on: due at %d %v, at %d %v", x.at, x.due-1, s.Due(x.due-1), x.due, s.Due(x.due))
	}
	s := NewSchedule(c, 0)
	s.Begun(30)
	must.True(t, !s.Due(39) && s.Due(40), "after one at 30 the next is not due at 40")
}

var day0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns the progress of a learner that needed the processor time each per record. This process has learned all
// records, and all records are in the sample.
func at(records uint64, each time.Duration, after time.Duration) Progress {
	learning := time.Duration(records) * each
	return Progress{Records: records, Own: records, Learning: learning, CPU: learning, Sampled: int(records), Now: day0.Add(after)}
}

// report returns the report of a validation on n events. Reading took the time each per event, and solving took the
// same time again. The pause was as long as both together.
func report(records uint64, n int, each time.Duration, when time.Duration) *batch.Validation {
	took := (time.Duration(n) * each).Seconds()
	return &batch.Validation{Time: day0.Add(when), Source: fromSample, Records: records, Read: uint64(n), Reading: took, Seconds: took, Pause: took}
}

func few() int { return 10 }

// TestAutoSchedule checks that a validation is due at 10,000 records and whenever the number doubles, but never twice a
// day.
func TestAutoSchedule(t *testing.T) {
	rich := func(records uint64, after time.Duration) Progress {
		p := at(records, time.Microsecond, after)
		p.CPU = time.Hour
		return p
	}
	a := NewAuto(0, nil)
	must.Require(t, a.Due(rich(9_999, 0), few) <= 0 && a.Due(rich(10_000, 0), few) == 10_000, "the first is not due at 10,000 records")
	a.Begun(rich(10_050, 0))
	for _, x := range []struct {
		records uint64
		after   time.Duration
		due     bool
	}{{19_999, 48 * time.Hour, false}, {20_000, 23 * time.Hour, false}, {20_000, 24 * time.Hour, true}, {80_000, time.Hour, false}} {
		due := a.Due(rich(x.records, x.after), few) > 0
		must.True(t, due == x.due, "at %d records, %v after the first: due %v", x.records, x.after, due)
	}
	a.Begun(rich(85_000, 30*time.Hour))
	must.True(t, a.Due(rich(159_999, 100*time.Hour), few) <= 0 && a.Due(rich(160_000, 100*time.Hour), few) != 0, "after one at 85,000 records the next is not due at 160,000")
	must.True(t, NewAuto(0, nil).Due(Progress{Records: 50_000, Now: day0}, few) <= 0, "due before anything was learned in this life")
}

// TestAutoBudget checks that all validations together take at most 5 % of the processor time. A validation must use as
// many events as this budget allows. It must not be due if these are too few events.
func TestAutoBudget(t *testing.T) {
	const each = 10 * time.Microsecond
	a := NewAuto(0, nil)
	spent, last, made, dearest := time.Duration(0), 0, 0, 0.0
	for records, after := uint64(10_000), time.Duration(0); records < 50_000_000; records, after = records+records/50, after+time.Hour {
		p := at(records, each, after)
		n := a.Due(p, few)
		if n == 0 {
			continue
		}
		cost := 2 * each // cost per event, above the assumed cost of the first validation
		if last == 0 {
			cost = autoDear * 10 * time.Microsecond
		}
		must.Require(t, n >= autoLeast && n <= int(records), "over %d of %d events", n, records)
		a.Begun(p)
		a.Take(report(records, n, cost, after))
		spent, last = spent+time.Duration(n)*cost, n
		fraction := spent.Seconds() / p.CPU.Seconds()
		most := autoFraction
		if made == 1 {
			most *= 1.2 // this validation cost more than the previous one predicted
		}
		must.True(t, fraction <= most, "at %d records validations have taken %.3f of the time", records, fraction)
		dearest = max(dearest, fraction)
		made++
	}
	must.True(t, last >= 100_000 && made >= 8 && dearest >= autoFraction/2, "%d validations, the last over %d events, took a share of %v at most", made, last, dearest)
	// The budget counts processor time beyond learning. Reports on events that are not from a sample do not use the
	// budget.
	p := at(20_000, each, 0)
	must.True(t, NewAuto(0, nil).Due(p, few) <= 0, "over more events than a twentieth of the time pays for")
	p.CPU *= 2
	a = NewAuto(0, nil)
	a.Take(&batch.Validation{Source: "log", Read: 10, Seconds: 1e9})
	p.Records = 40_000
	must.True(t, a.Due(p, few) != 0, "what else the program does is not counted")
	// A validation needs enough events for each feature.
	asked := 0
	p = at(1_000_000, each, 0)
	features := func() int { asked++; return 5_000 }
	a = NewAuto(0, nil)
	first, again := a.Due(p, features), a.Due(p, features)
	must.True(t, first <= 0 && again <= 0 && asked == 1, "over too few events for its features; asked %d times", asked)
	p.Sampled = autoLeast - 1
	must.True(t, NewAuto(0, nil).Due(p, few) <= 0, "over fewer events than tell anything")
}

// TestAutoAfterRestart checks that the schedule after a restart continues from this learner's reports. It must use the
// time and number of records of the last report, and the total cost.
func TestAutoAfterRestart(t *testing.T) {
	const each = 10 * time.Microsecond
	reports := []*batch.Validation{report(90_000, 4000, each, 3*time.Hour), {Source: "log", Records: 60_000, Seconds: 1000, Time: day0},
		report(41_000, 3000, 2*each, 0), report(70_000, 9000, time.Second, -time.Hour)}
	a := NewAuto(100_000, reports)
	want := 4000*each + 3000*2*each
	must.True(t, a.spent == want && a.each == each && a.last.Equal(day0.Add(3*time.Hour)) && a.at == 160_000, "goes on from %+v, want %v spent", a, want)
	// This process has learned only the last 1,000 of a million records, but the budget counts all records of the
	// learner.
	p := Progress{Records: 1_000_000, Own: 1000, Learning: 1000 * each, CPU: 2000 * each, Sampled: 1e6, Now: day0.Add(27 * time.Hour)}
	all := (999_000 + 2000) * each
	n := a.Due(p, few)
	must.True(t, n == int((autoFraction*all.Seconds()-a.spent.Seconds())/each.Seconds()) && n >= 2000, "due over %d events", n)
	b := NewAuto(30_000, reports)
	must.True(t, *b == (Auto{at: autoFirst}), "reports of a learner before it count: %+v", b)
}

// TestConfigCheck checks that invalid settings are rejected with an error that names the setting. The limits of the
// valid ranges must be accepted.
func TestConfigCheck(t *testing.T) {
	for _, tt := range []struct {
		want string // "" if the settings are valid
		edit func(c *Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Holdout, c.MaxGap = 2, 0 }},
		{"", func(c *Config) { c.Policy = "alarm" }},
		{"holdout 1", func(c *Config) { c.Holdout = 1 }},
		{`policy "hope"`, func(c *Config) { c.Policy = "hope" }},
		{"max_gap", func(c *Config) { c.MaxGap = math.NaN() }},
	} {
		c := DefaultConfig()
		tt.edit(&c)
		err := c.Check()
		must.True(t, (err == nil) == (tt.want == "") && (err == nil || strings.HasPrefix(err.Error(), tt.want)), "%+v: %v, want %q", c, err, tt.want)
	}
}

// TestAs checks that As restores the settings from which a fingerprint was made.
func TestAs(t *testing.T) {
	c := DefaultConfig()
	c.Holdout = 7
	with := DefaultConfig()
	got, err := with.As(c.Fingerprint())
	must.True(t, err == nil && got == c, "got %+v, %v\nwant %+v", got, err, c)
	must.Fails(t, must.Err(with.As(map[string]string{"holdout": "x"})), "holdout = x is taken")
}
