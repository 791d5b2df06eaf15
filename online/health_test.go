package online_test

// This file tests the monitors of the health of fields, and their alarms.

import (
	"bytes"
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
	"blankout/online/health"
	"blankout/online/synthetic"
	"blankout/stream/record"
)

// These values must equal the constants of package health.
const healthBlock, healthFields, healthChanges = 256, health.MostFields, 64

// changesOf returns how many times an alarm was raised or ended.
func changesOf(l *learner) uint64 {
	return l.Alarms(0).Changes
}

// newSensors returns a learner for events of synthetic.Sensors.
func newSensors(t testing.TB, c online.Config) *learner {
	t.Helper()
	return start(t, c, sensorSchema())
}

func sensorSchema() *event.Schema {
	s := event.NewSchema(12, []string{"no", "yes"}, 2)
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric}, {Name: "b", Kind: event.Numeric}, {Name: "c", Kind: event.Numeric}, {Name: "word", Kind: event.Categorical}, {Name: "flag", Kind: event.Boolean}} {
		s.AddField(f)
	}
	return s
}

func alarmTexts(l interface{ Alarms(uint64) online.Alarms }) []string {
	return must.Map(l.Alarms(0).Latest, func(c health.FieldAlarm) string { return c.State + ": " + c.Text })
}

// servedError returns the model's error rate on the next events.
func servedError(l *learner, s *synthetic.Sensors) float64 {
	m, wrong := l.model(), 0.0
	for range 5000 {
		e := s.Next()
		if model.Predict(m.Score(e, make([]float64, 1))) != e.Label {
			wrong++
		}
	}
	return wrong / 5000
}

// TestHealthDeadField checks that a field that becomes null or absent raises an alarm within three blocks. The alarm
// must have the exact first event and the usual missing fraction, and must predict the increase of the error. It must
// last until the field returns, after any time.
func TestHealthDeadField(t *testing.T) {
	t.Parallel()
	for _, absent := range []bool{false, true} {
		t.Run(fmt.Sprint("absent ", absent), func(t *testing.T) {
			l, s := newSensors(t, online.DefaultConfig()), synthetic.NewSensors(1)
			s.Lost = 0.002
			learnNext(l, 20_000, s.Next)
			h := l.Report().Health
			must.Require(t, h.Alarms == 0 && len(h.Fields) == 5, "%+v", h)
			s.Lost, s.Absent = 1, absent
			died := s.N
			e := 100 * servedError(l, s)
			s.N = died
			for l.Report().Health.Raised == 0 && s.N < died+3*healthBlock+1 {
				learnNext(l, 1, s.Next)
			}
			h = l.Report().Health
			must.Require(t, h.Alarms == 1 && len(h.Fields[0].Alarms) == 1, "%+v", h)
			a := h.Fields[0].Alarms[0]
			must.True(t, a.Field == "b" && a.Kind == "missing" && a.SinceEvent == uint64(died)+1 && a.Since.UnixMilli() == synthetic.SensorStart+1000*died && a.Now == 1 && math.Abs(a.Usual-0.002) <= 0.001,
				"%+v", a)
			t.Log(a.Text)
			for range map[bool]int{false: 1, true: 6}[longtest.Asked()] {
				learnNext(l, 10_000, s.Next) // long after predictions treat the absence as normal
			}
			h = l.Report().Health
			must.Require(t, h.Alarms == 1 && changesOf(l) == 1 && h.Fields[0].Alarms[0].Since.UnixMilli() == synthetic.SensorStart+1000*died, "long after: %+v", h)
			before, after := *a.ErrorBefore, *a.ErrorAfter
			must.True(t, math.Abs(before-12) <= 1 && math.Abs(after-e) <= 2.5, "the forecast was %.1f -> %.1f %%, and %.1f %% were wrong", before, after, e)
			s.Lost = 0.002
			back := s.N
			learnNext(l, 6*healthBlock, s.Next)
			changes := l.Alarms(0).Latest
			must.Require(t, l.Report().Health.Alarms == 0 && len(changes) == 2, "%q", alarmTexts(l))
			c := changes[1]
			must.True(t, c.State == "ended" && c.Since.UnixMilli() == synthetic.SensorStart+1000*died && c.UntilEvent >= uint64(back)-healthBlock && c.UntilEvent <= uint64(back)+healthBlock, "%+v", c)
			t.Log(changes[1].Text)
		})
	}
}

// TestHealthCostNeedsEvents checks that the cost of a missing field is not reported after only a few events.
func TestHealthCostNeedsEvents(t *testing.T) {
	l, s := newSensors(t, online.DefaultConfig()), synthetic.NewSensors(1)
	learnNext(l, 1664, s.Next)
	h := l.Report().Health
	must.Require(t, len(h.Fields) != 0, "no field is known")
	for _, f := range h.Fields {
		must.True(t, f.ErrorWithout == nil, "after 1,664 events, of which some 52 were looked at: %+v", f)
	}
	learnNext(l, 2432, s.Next)
	for _, f := range l.Report().Health.Fields {
		must.True(t, f.Missing == nil || f.ErrorWithout != nil, "after 4,096 events nothing is said of %s", f.Field)
	}
}

// TestHealthUsuallyMissing checks that an increase of the missing fraction raises an alarm. A field that is often
// missing must raise no alarm, and neither must a short burst.
func TestHealthUsuallyMissing(t *testing.T) {
	l, s := newSensors(t, online.DefaultConfig()), synthetic.NewSensors(2)
	s.Usual = 0.3
	learnNext(l, 20_000, s.Next)
	for range 20 {
		s.Lost = 1
		learnNext(l, 40, s.Next) // a short burst of missing b
		s.Lost = 0
		learnNext(l, 2000, s.Next)
	}
	must.Require(t, l.Report().Health.Raised <= 0, "%q", alarmTexts(l))
	s.Usual = 0.5
	learnNext(l, 6*healthBlock, s.Next)
	h := l.Report().Health
	must.Require(t, h.Alarms == 1 && h.Raised == 1 && h.Fields[0].Field == "a", "%+v %q", h, alarmTexts(l))
	a := h.Fields[0].Alarms[0]
	must.True(t, math.Abs(a.Now-0.5) <= 0.07 && math.Abs(a.Usual-0.3) <= 0.02 && a.SinceEvent >= 60_800-2*healthBlock && a.SinceEvent <= 60_800+2*healthBlock, "%+v", a)
}

// TestHealthDrift checks the alarms for two faults: the mean of a number shifts, and a number is stuck.
func TestHealthDrift(t *testing.T) {
	t.Parallel()
	calm := rand.NewPCG(3, 7)
	steady, usual := newSensors(t, online.DefaultConfig()), &synthetic.Sensors{R: rand.New(calm), Scale: 1}
	learnNext(steady, 80_000, usual.Next)
	must.Require(t, steady.Report().Health.Raised <= 0, "%q", alarmTexts(steady))
	for _, c := range []struct {
		name     string
		change   func(*synthetic.Sensors)
		within   int
		kind     string
		now      float64
		off      float64
		contains string
	}{
		{"mean", func(s *synthetic.Sensors) { s.Shift = 2 }, 1500, "mean", 54, 1, "mean of c is 5"},
		{"mean jumps", func(s *synthetic.Sensors) { s.Shift = 4 }, 768, "mean", 55.5, 1.5, "mean of c is 5"},
		{"mean falls", func(s *synthetic.Sensors) { s.Shift = -1.5 }, 2500, "mean", 47, 1, " of its deviations"},
		{"stuck", func(s *synthetic.Sensors) { s.Scale = 0 }, 51, "stuck", 50, 0, "c reads 50 since 2023-11-15T20:26:40Z: stuck, and this value counts as missing (after 50 repeats; usually 0 % of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := steady.restored()
			source, s := *calm, synthetic.NewSensors(3)
			s.R, s.N = rand.New(&source), usual.N
			c.change(s)
			since := s.N
			for l.Report().Health.Raised == 0 && s.N < since+int64(c.within) {
				learnNext(l, 1, s.Next)
			}
			h := l.Report().Health
			alarms := slices.DeleteFunc(slices.Clone(h.Fields[0].Alarms), func(a health.FieldAlarm) bool { return a.Kind == "doubted" }) // such a mean contradicts the other fields
			must.Require(t, len(alarms) == 1 && h.Alarms == len(h.Fields[0].Alarms), "%d alarms %q", h.Alarms, alarmTexts(l))
			a := alarms[0]
			must.True(t, a.Kind == c.kind && math.Abs(a.Now-c.now) <= c.off && int64(a.SinceEvent) >= since-2*healthBlock && int64(a.SinceEvent) <= since+2*healthBlock && strings.Contains(a.Text, c.contains) && a.ErrorAfter == nil,
				"%+v", a)
			t.Log(s.N-since, a.Text)
			*s = synthetic.Sensors{R: s.R, N: s.N, Scale: 1}
			learnNext(l, 8000, s.Next)
			got := slices.DeleteFunc(alarmTexts(l), func(text string) bool { return strings.Contains(text, " doubted in ") })
			if l.Report().Health.Alarms != 0 || len(got) != 2 || !strings.HasPrefix(got[1], "ended: ") {
				t.Errorf("%q", got)
			} else {
				t.Log(got[1])
			}
		})
	}
}

// TestHealthIsBounded checks that memory is bounded: at most healthFields fields and healthChanges changes are stored.
func TestHealthIsBounded(t *testing.T) {
	t.Parallel()
	s := event.NewSchema(14, []string{"no", "yes"}, 2)
	for i := range 5000 {
		s.AddField(event.Field{Name: fmt.Sprint("f", i), Kind: event.Boolean})
	}
	c := online.DefaultConfig()
	c.Noise, c.Standardize = "none", "none"
	l := start(t, c, s)
	full, empty := &event.Example{Weight: 1}, &event.Example{Weight: 1, Label: 1}
	for id := uint16(1); id <= 5000; id++ {
		eventtest.Put(full, uint32(id), float64(id), id)
	}
	for range 1025 + 4*healthBlock {
		l.Learn(full, nil)
	}
	for range 4 * healthBlock {
		l.Learn(empty, nil)
	}
	h := l.Report().Health
	must.True(t, len(h.Fields) == healthFields-1 && h.Alarms == healthFields-1 && h.Raised == healthFields-1 && len(h.Changes) == healthChanges,
		"%d fields, %d alarms, %d raised, %d changes", len(h.Fields), h.Alarms, h.Raised, len(h.Changes))
	a := l.Alarms(100)
	must.True(t, a.Changes == healthFields-1 && len(a.Latest) == healthChanges, "%d of %d", len(a.Latest), a.Changes)
}

// TestConstantFieldIsNotTheWorst checks a number that is always constant. It must have no drift, must not be listed
// before other healthy fields, and must never be detected as stuck.
func TestConstantFieldIsNotTheWorst(t *testing.T) {
	l := start(t, online.DefaultConfig(), eventtest.Schema(3, "", "a", "b"))
	r := rand.New(rand.NewPCG(1, 2))
	for range 6000 {
		x, y := r.NormFloat64(), r.NormFloat64()
		e := eventtest.Event(0, x, 0.1, y) // the second field, b, stays at 0.1
		e.Label = must.Either(x+0.5*y > 0, 1, 0)
		l.Learn(e, nil)
	}
	fields := l.Report().Health.Fields
	must.Require(t, len(fields) == 3 && fields[0].Field != "b", "the first of %d fields is %s", len(fields), fields[0].Field)
	for _, f := range fields {
		must.True(t, f.Mean != nil && math.Abs(f.Mean.Change) <= 0.2, "%s: the mean has changed by %+v", f.Field, f.Mean)
		constant := f.Field == "b"
		must.True(t, f.NeverStuck == constant && f.Repeats != nil && (*f.Repeats > 0.99) == constant, "%s repeats %v, never found: %v", f.Field, f.Repeats, f.NeverStuck)
	}
}

// payments generates decoded JSON events of two classes, one a second. The fields are an informative number, a
// weakly informative number, a string and a boolean.
type payments struct {
	t        testing.TB
	learners []*online.Learner
	decoder  record.Decoder
	schema   *event.Schema
	r        *rand.Rand
	n        int64 // number of events, one a second
	line     bytes.Buffer
	e        event.Example
	// amount formats the value of a field. If the result is "", the field is omitted.
	amount func(x float64) string
}

const paymentsStart = 1_767_225_600_000 // midnight

func newPayments(t testing.TB, seed uint64, change func(*online.Config)) *payments {
	t.Helper()
	c := record.DefaultConfig()
	c.Format, c.Label, c.Time, c.Classes = "json", "label", "at", []string{"fraud", "ok"}
	s := c.Schema()
	d := must.Get(record.NewDecoder(c, s))(t)
	config := online.DefaultConfig()
	if change != nil {
		change(&config)
	}
	l := must.Get(online.New(config, s))(t)
	number := func(x float64) string { return fmt.Sprintf("%.3f", x) }
	return &payments{t: t, learners: []*online.Learner{l}, decoder: d, schema: s, r: rand.New(rand.NewPCG(seed, 11)), amount: number}
}

// now returns the time of the next event.
func (p *payments) now() int64 { return paymentsStart + 1000*p.n }

// feed makes all learners learn the next n events.
func (p *payments) feed(n int) {
	p.t.Helper()
	for range n {
		at, label, y := p.now(), "ok", 1.0
		if p.n++; p.r.IntN(2) == 0 {
			label, y = "fraud", -1
		}
		p.line.Reset()
		fmt.Fprintf(&p.line, `{"label":%q,"at":%d,"country":"c%d","known":%v`, label, at, p.r.IntN(6), p.r.IntN(3) > 0)
		for _, f := range []struct{ name, value string }{
			{"amount", p.amount(math.Exp(p.r.NormFloat64()) + 2 + 1.2*y)}, {"temper", fmt.Sprintf("%.3f", 20+3*p.r.NormFloat64()+0.1*y)},
		} {
			if f.value != "" {
				fmt.Fprintf(&p.line, `,%q:%s`, f.name, f.value)
			}
		}
		p.line.WriteString("}")
		if err := p.decoder.Decode(p.t.Context(), record.Record{Value: p.line.Bytes()}, &p.e); err != nil || p.e.Refused != nil {
			p.t.Fatalf("%v %+v: %s", err, p.e.Refused, p.line.String())
		}
		for _, l := range p.learners {
			l.Learn(&p.e, nil)
		}
	}
}

// one fails the test unless exactly one alarm was raised and is active. It returns the alarm.
func (p *payments) one(field, kind string) health.FieldAlarm {
	p.t.Helper()
	h := p.learners[0].Report().Health
	if h.Alarms != 1 || len(h.Changes) != 1 || len(h.Fields) == 0 || len(h.Fields[0].Alarms) != 1 {
		p.t.Fatalf("%d alarms: %q", h.Alarms, alarmTexts(p.learners[0]))
	}
	a := h.Fields[0].Alarms[0]
	if a.Field != field || a.Kind != kind {
		p.t.Fatalf("%+v", a)
	}
	return a
}

// TestUsualKinds checks a number that changes to text, array, boolean or null. It must raise one alarm with its cost.
// The alarm must end when the field is a number again.
func TestUsualKinds(t *testing.T) {
	longtest.Numeric(t)
	for _, c := range longtest.Few([]struct{ name, value, comes, says string }{
		{"text", `"%.2f EUR"`, "categorical", "amount arrives as text and is missing as a number in 100 % of the events since 2026-01-01T"},
		{"array", `["%.0f"]`, "words", "amount arrives as an array of words and is missing as a number in 100 % of the events since "},
		{"truth value", "true", "boolean", "amount arrives as true or false and is missing as a number in 100 % of the events since "},
		{"null", "null", "null", "; it is null"},
		{"left out", "", "left out", "; it is left out"},
	}, 0, 3) {
		t.Run(c.name, func(t *testing.T) {
			p := newPayments(t, 1, nil)
			p.feed(12_000)
			number := p.amount
			p.amount = func(x float64) string {
				if strings.Contains(c.value, "%") {
					return fmt.Sprintf(c.value, x)
				}
				return c.value
			}
			since := p.n
			p.feed(1024)
			a := p.one("amount", "missing")
			t.Log(a.Text)
			must.True(t, a.Comes == c.comes && strings.Contains(a.Text, c.says) && a.Now == 1 && a.Usual == 0 &&
				int64(a.SinceEvent) >= since-256 && int64(a.SinceEvent) <= since+256 && a.ErrorAfter != nil && *a.ErrorAfter >= *a.ErrorBefore+10, "%+v", a)
			p.feed(10_000)
			p.one("amount", "missing") // the alarm continues, and there is no other alarm
			changed := p.amount
			p.amount = func(x float64) string { // a part of the values is still changed
				if p.r.Float64() < 0.3 {
					return changed(x)
				}
				return number(x)
			}
			p.feed(3000)
			mixed := slices.ContainsFunc(p.learners[0].Warnings(nil, false), func(w health.Warning) bool {
				return w.Kind == health.WarnKinds && strings.Contains(w.Text, `"amount" (`)
			})
			must.True(t, c.name != "text" || mixed, "no warning of several kinds")
			a = p.one("amount", "missing")
			must.True(t, a.Comes == c.comes || c.comes == "null" || c.comes == "left out", "comes as %q", a.Comes)
			p.amount = number
			p.feed(3000)
			told := alarmTexts(p.learners[0])
			must.True(t, len(told) == 2 && strings.HasPrefix(told[1], "ended: back to normal: "), "%q", told)
		})
	}
}
