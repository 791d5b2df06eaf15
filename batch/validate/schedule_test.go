package validate

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"blankout/batch"
	"blankout/internal/must"
)

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
