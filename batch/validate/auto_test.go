package validate

import (
	"testing"
	"time"

	"blankout/batch"
)

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
	if a.Due(rich(9_999, 0), few) > 0 || a.Due(rich(10_000, 0), few) != 10_000 {
		t.Fatal("the first is not due at 10,000 records")
	}
	a.Begun(rich(10_050, 0))
	for _, x := range []struct {
		records uint64
		after   time.Duration
		due     bool
	}{{19_999, 48 * time.Hour, false}, {20_000, 23 * time.Hour, false}, {20_000, 24 * time.Hour, true}, {80_000, time.Hour, false}} {
		if due := a.Due(rich(x.records, x.after), few) > 0; due != x.due {
			t.Errorf("at %d records, %v after the first: due %v", x.records, x.after, due)
		}
	}
	a.Begun(rich(85_000, 30*time.Hour))
	if a.Due(rich(159_999, 100*time.Hour), few) > 0 || a.Due(rich(160_000, 100*time.Hour), few) == 0 {
		t.Error("after one at 85,000 records the next is not due at 160,000")
	}
	if NewAuto(0, nil).Due(Progress{Records: 50_000, Now: day0}, few) > 0 {
		t.Error("due before anything was learned in this life")
	}
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
		if n < autoLeast || n > int(records) {
			t.Fatalf("over %d of %d events", n, records)
		}
		a.Begun(p)
		a.Take(report(records, n, cost, after))
		spent, last = spent+time.Duration(n)*cost, n
		fraction := spent.Seconds() / p.CPU.Seconds()
		most := autoFraction
		if made == 1 {
			most *= 1.2 // this validation cost more than the previous one predicted
		}
		if fraction > most {
			t.Errorf("at %d records validations have taken %.3f of the time", records, fraction)
		}
		dearest = max(dearest, fraction)
		made++
	}
	if last < 100_000 || made < 8 || dearest < autoFraction/2 {
		t.Errorf("%d validations, the last over %d events, took a share of %v at most", made, last, dearest)
	}
	// The budget counts processor time beyond learning. Reports on events that are not from a sample do not use the
	// budget.
	p := at(20_000, each, 0)
	if a := NewAuto(0, nil); a.Due(p, few) > 0 {
		t.Error("over more events than a twentieth of the time pays for")
	}
	p.CPU *= 2
	a = NewAuto(0, nil)
	a.Take(&batch.Validation{Source: "log", Read: 10, Seconds: 1e9})
	if p.Records = 40_000; a.Due(p, few) == 0 {
		t.Error("what else the program does is not counted")
	}
	// A validation needs enough events for each feature.
	asked := 0
	p = at(1_000_000, each, 0)
	features := func() int { asked++; return 5_000 }
	a = NewAuto(0, nil)
	first, again := a.Due(p, features), a.Due(p, features)
	if first > 0 || again > 0 || asked != 1 {
		t.Errorf("over too few events for its features; asked %d times", asked)
	}
	p.Sampled = autoLeast - 1
	if NewAuto(0, nil).Due(p, few) > 0 {
		t.Error("over fewer events than tell anything")
	}
}

// TestAutoAfterRestart checks that the schedule after a restart continues from this learner's reports. It must use the
// time and number of records of the last report, and the total cost.
func TestAutoAfterRestart(t *testing.T) {
	const each = 10 * time.Microsecond
	reports := []*batch.Validation{report(90_000, 4000, each, 3*time.Hour), {Source: "log", Records: 60_000, Seconds: 1000, Time: day0},
		report(41_000, 3000, 2*each, 0), report(70_000, 9000, time.Second, -time.Hour)}
	a := NewAuto(100_000, reports)
	if want := 4000*each + 3000*2*each; a.spent != want || a.each != each || !a.last.Equal(day0.Add(3*time.Hour)) || a.at != 160_000 {
		t.Errorf("goes on from %+v, want %v spent", a, want)
	}
	// This process has learned only the last 1,000 of a million records, but the budget counts all records of the
	// learner.
	p := Progress{Records: 1_000_000, Own: 1000, Learning: 1000 * each, CPU: 2000 * each, Sampled: 1e6, Now: day0.Add(27 * time.Hour)}
	all := (999_000 + 2000) * each
	if n := a.Due(p, few); n != int((autoFraction*all.Seconds()-a.spent.Seconds())/each.Seconds()) || n < 2000 {
		t.Errorf("due over %d events", n)
	}
	if b := NewAuto(30_000, reports); *b != (Auto{at: autoFirst}) {
		t.Errorf("reports of a learner before it count: %+v", b)
	}
}
