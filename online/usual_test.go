package online_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/stream/record"
)

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

// told returns all alarms so far. Each alarm is returned as its state and text.
func (p *payments) told() (out []string) {
	changes := p.learners[0].Alarms(0).Latest
	for _, c := range changes {
		out = append(out, c.State+": "+c.Text)
	}
	return out
}

// one fails the test unless exactly one alarm was raised and is active. It returns the alarm.
func (p *payments) one(field, kind string) health.FieldAlarm {
	p.t.Helper()
	h := p.learners[0].Report().Health
	if h.Alarms != 1 || len(h.Changes) != 1 || len(h.Fields) == 0 || len(h.Fields[0].Alarms) != 1 {
		p.t.Fatalf("%d alarms: %q", h.Alarms, p.told())
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
	longtest.NotRaced(t)
	t.Parallel()
	for i, c := range []struct{ name, value, comes, says string }{
		{"text", `"%.2f EUR"`, "categorical", "amount arrives as text and is missing as a number in 100 % of the events since 2026-01-01T"},
		{"array", `["%.0f"]`, "words", "amount arrives as an array of words and is missing as a number in 100 % of the events since "},
		{"truth value", "true", "boolean", "amount arrives as true or false and is missing as a number in 100 % of the events since "},
		{"null", "null", "null", "; it is null"},
		{"left out", "", "left out", "; it is left out"},
	} {
		if !longtest.Some(i, 2) {
			continue
		}
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
			if a.Comes != c.comes || !strings.Contains(a.Text, c.says) || a.Now != 1 || a.Usual != 0 ||
				int64(a.SinceEvent) < since-256 || int64(a.SinceEvent) > since+256 || a.ErrorAfter == nil || *a.ErrorAfter < *a.ErrorBefore+10 {
				t.Errorf("%+v", a)
			}
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
			if a := p.one("amount", "missing"); a.Comes != c.comes && c.comes != "null" && c.comes != "left out" {
				t.Errorf("comes as %q", a.Comes)
			}
			p.amount = number
			p.feed(3000)
			if told := p.told(); len(told) != 2 || !strings.HasPrefix(told[1], "ended: back to normal: ") {
				t.Errorf("%q", told)
			}
		})
	}
}
