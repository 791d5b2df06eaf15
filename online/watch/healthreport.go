package watch

// This file tells people and programs about the health of fields.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"blankout"
)

// Health is the condition of the fields of a stream at one instant. It is immutable.
type Health struct {
	Events uint64 `json:"events"` // that the Learner had met
	// Error is the forecast of the error with nothing more missing, in percent; nil
	// before the first.
	Error  *float64 `json:"error"`
	Alarms int      `json:"alarms"` // that are on
	Raised uint64   `json:"raised"` // so far
	// Fields has those with an alarm first, the worst of them first.
	Fields []FieldHealth `json:"fields"`
	// Changes are the latest alarms raised and ended, oldest first.
	Changes []FieldAlarm `json:"changes,omitempty"`
}

// FieldHealth is about one field. What is not known yet is nil.
type FieldHealth struct {
	Field string        `json:"field"`
	Kind  blankout.Kind `json:"kind"`
	Group string        `json:"group,omitempty"`
	// Missing is about the share of the events in which the field is null or left out;
	// nil of one that is not usual.
	Missing *Condition `json:"missing,omitempty"`
	// NewValues is about the share of a categorical field's values that fewer than 100
	// events have had before.
	NewValues *Condition `json:"new_values,omitempty"`
	// Mean and Deviation are about those of a number, of which a reading that is more
	// than three deviations off counts as three.
	Mean      *Condition `json:"mean,omitempty"`
	Deviation *Condition `json:"deviation,omitempty"`
	// ErrorWithout is the forecast of the error, in percent, if no event had the field; nil
	// until enough events have told what its death would cost.
	ErrorWithout *float64     `json:"error_without,omitempty"`
	Alarms       []FieldAlarm `json:"alarms,omitempty"` // that are on

	// The strength of the largest change: a change that lasts raises an alarm at 1.
	strength float64
}

// Condition is what a measure is now and what it usually is: over some 1,000 events, or
// since its alarm began, and over some 100,000 events, without those of alarms.
type Condition struct {
	Now   float64 `json:"now"`
	Usual float64 `json:"usual"`
	// Change is Now less Usual; of a mean that in usual deviations; of a deviation
	// the present one divided by the usual one.
	Change float64 `json:"change"`
}

// FieldAlarm is an alarm about a field, raised or ended.
type FieldAlarm struct {
	Field string `json:"field"`
	Kind  string `json:"kind"`  // one of FieldAlarmKinds
	State string `json:"state"` // raised; of a change also ended, accepted
	// Event is the number of the event at which the state was found out. SinceEvent
	// and UntilEvent are those from which on the field was out of the usual and as
	// usual again, Since and Until their times, if they had one.
	Event      uint64     `json:"event"`
	SinceEvent uint64     `json:"since_event"`
	Since      *time.Time `json:"since,omitempty"`
	UntilEvent uint64     `json:"until_event,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	Condition
	// ErrorBefore and ErrorAfter are the forecast of the error, in percent, as it was
	// and as it is with so much missing. nil where no forecast tells.
	ErrorBefore *float64 `json:"error_before,omitempty"`
	ErrorAfter  *float64 `json:"error_after,omitempty"`
	Text        string   `json:"text"` // a sentence with all of this
}

// FieldAlarmKinds lists the kinds of a FieldAlarm.
var FieldAlarmKinds = [fieldMeasures]string{"missing", "new-values", "mean", "deviation"}

var alarmStates = map[changeKind]string{alarmRaised: "raised", alarmEnded: "ended", alarmAccepted: "accepted"}

// alarmValue is what is remembered of an alarm.
type alarmValue struct {
	Condition
	before, after float64 // errors in percent, -1 for none
}

// Changes returns the alarms raised and ended after the first n of them, oldest
// first, and how many there have been. Only the latest are kept.
func (h *Fields) Changes(n uint64, fields []blankout.Field) (changes []FieldAlarm, all uint64) {
	if n >= h.changed {
		return nil, h.changed
	}
	latest := h.changes[len(h.changes)-int(min(h.changed-n, uint64(len(h.changes)))):]
	for i := range latest {
		changes = append(changes, alarmOf(fields, &latest[i]))
	}
	return changes, h.changed
}

// Report returns the condition of the fields after so many events; forecast is that of the
// error for whole events, a share, -1 before there is one.
func (h *Fields) Report(events uint64, fields []blankout.Field, forecast float64) *Health {
	out := &Health{Events: events, Raised: h.raised, Error: percent(forecast)}
	for id := range h.fields {
		f := &h.fields[id]
		if len(measuresOf(f.kind)) == 0 || id >= len(fields) {
			continue
		}
		of := fields[id]
		field := FieldHealth{Field: of.Name, Kind: of.Kind, Group: of.Group}
		known := false
		for _, kind := range measuresOf(f.kind) {
			m := &f.measures[kind]
			if m.n < healthLeast || m.recentN == 0 {
				continue
			}
			known = true
			if kind == measureDeviation && m.alarm == 0 && f.measures[measureMean].alarm != 0 {
				continue // of values about another mean
			}
			c := f.condition(kind)
			*field.place(kind) = &c
			field.strength = max(field.strength, f.strength(kind, c))
			if m.alarm != 0 {
				x := fieldChange{id, kind, alarmRaised, events, m.since, m.until, f.value(kind)}
				field.Alarms = append(field.Alarms, alarmOf(fields, &x))
			}
		}
		if !known {
			continue
		}
		if now := forecast; now >= 0 && f.cost.known() && field.Missing != nil {
			if m := &f.measures[measureMissing]; m.alarm != 0 && m.before >= 0 {
				now = m.before // when events still had it
			}
			field.ErrorWithout = percent(max(0, now+f.cost.rise(1-field.Missing.Usual)))
		}
		out.Alarms += len(field.Alarms)
		out.Fields = append(out.Fields, field)
	}
	slices.SortStableFunc(out.Fields, func(a, b FieldHealth) int {
		return cmp.Or(cmp.Compare(min(len(b.Alarms), 1), min(len(a.Alarms), 1)), cmp.Compare(b.rise(), a.rise()), cmp.Compare(b.strength, a.strength))
	})
	out.Changes, _ = h.Changes(0, fields)
	return out
}

// percent returns a share in percent, nil for a negative one.
func percent(share float64) *float64 {
	if share < 0 {
		return nil
	}
	share = 100 * min(share, 1)
	return &share
}

func (f *FieldHealth) place(kind int) **Condition {
	return [fieldMeasures]**Condition{&f.Missing, &f.NewValues, &f.Mean, &f.Deviation}[kind]
}

// rise is what the alarms of a field cost, in percentage points.
func (f *FieldHealth) rise() float64 {
	for _, a := range f.Alarms {
		if a.ErrorAfter != nil {
			return *a.ErrorAfter - *a.ErrorBefore
		}
	}
	return 0
}

// condition returns that of a measure of which something is known.
func (f *fieldHealth) condition(kind int) Condition {
	m := &f.measures[kind]
	now, usual := m.recentSum/m.recentN, m.sum/m.n
	if kind == measureMissing || kind == measureNew {
		return Condition{now, usual, now - usual}
	}
	// A number is reported in its own units.
	mean, square := &f.measures[measureMean], &f.measures[measureDeviation]
	u, v := mean.sum/mean.n, mean.square/mean.n
	deviation := math.Sqrt(max(v-u*u, 0))
	if kind == measureMean {
		return Condition{f.centre + now/f.inverse, f.centre + u/f.inverse, (now - u) / max(deviation, 0.1)}
	}
	center := mean.recentSum / max(mean.recentN, 1)
	recent := math.Sqrt(max(square.recentSum/square.recentN-center*center, 0))
	return Condition{recent / f.inverse, deviation / f.inverse, recent / max(deviation, 0.1)}
}

// strength returns how large a change is beside the least that is worth an alarm.
func (f *fieldHealth) strength(kind int, c Condition) float64 {
	switch kind {
	case measureMean:
		c.Change = math.Abs(c.Change)
	case measureDeviation:
		if c.Change = c.Change*c.Change - 1; c.Change < 0 {
			_, below := allowances[kind](1, 0)
			return -c.Change / below
		}
	}
	above, _ := allowances[kind](1, 1)
	return c.Change / above
}

// value returns what there is to say of an alarm.
func (f *fieldHealth) value(kind int) alarmValue {
	m := &f.measures[kind]
	v := alarmValue{Condition: f.condition(kind), before: -1, after: -1}
	if kind == measureMissing && m.before >= 0 && f.cost.known() {
		v.before = 100 * m.before
		v.after = 100 * max(0, min(1, m.before+f.cost.rise(v.Change)))
	}
	return v
}

func alarmOf(fields []blankout.Field, x *fieldChange) FieldAlarm {
	a := FieldAlarm{
		Field: fields[x.field].Name, Kind: FieldAlarmKinds[x.measure], State: alarmStates[x.what], Event: x.event,
		SinceEvent: x.since.Event, Since: x.since.when(), Condition: x.value.Condition,
	}
	if x.what == alarmEnded {
		a.UntilEvent, a.Until = x.until.Event, x.until.when()
	}
	if x.value.before >= 0 {
		a.ErrorBefore, a.ErrorAfter = &x.value.before, &x.value.after
	}
	a.Text = x.text(blankout.Printable(a.Field))
	return a
}

// when returns the time of a moment, nil if it is unknown.
func (m Moment) when() *time.Time {
	if m.Time == 0 {
		return nil
	}
	t := time.UnixMilli(m.Time).UTC()
	return &t
}

func (m Moment) String() string {
	if t := m.when(); t != nil {
		return t.Format(time.RFC3339)
	}
	return "event " + strconv.FormatUint(m.Event, 10)
}

// text is a sentence about an alarm.
func (x *fieldChange) text(field string) string {
	v, since := x.value, x.since.String()
	if x.what == alarmEnded {
		since = x.until.String()
	}
	text := ""
	switch x.measure {
	case measureMissing:
		text = fmt.Sprintf("%s missing in %s since %s (usually %s)", field, share(v.Now), since, share(v.Usual))
	case measureNew:
		text = fmt.Sprintf("%s has values never or hardly seen before in %s of its events since %s (usually %s)", field, share(v.Now), since, share(v.Usual))
	case measureMean:
		text = fmt.Sprintf("mean of %s is %.4g since %s (usually %.4g): %+.2g of its deviations", field, v.Now, since, v.Usual, v.Change)
	case measureDeviation:
		text = fmt.Sprintf("deviation of %s is %.3g since %s (usually %.3g): %.2g times that", field, v.Now, since, v.Usual, v.Change)
	}
	switch {
	case x.what == alarmEnded:
		text = fmt.Sprintf("as usual again: %s; there was an alarm since %v", text, x.since)
	case x.what == alarmAccepted:
		text += fmt.Sprintf("; after %d events that counts as usual, and the alarm has ended", alarmEvents)
	case v.before >= 0:
		text += fmt.Sprintf("; error forecast %.1f -> %.1f %%", v.before, v.after)
	}
	return text
}

// share writes a share in percent.
func share(x float64) string {
	p := 100 * x
	digits := 3
	if p < 1 {
		digits = 2
	}
	if p > 99.95 {
		p = 100
	}
	return strconv.FormatFloat(math.Round(p*1e4)/1e4, 'g', digits, 64) + " %"
}

// BlockHealth is the block of a checkpoint that holds its Health.
const BlockHealth = "health" // JSON

// ReadHealth returns the Health that a checkpoint holds, nil if it holds none.
func ReadHealth(blocks []blankout.Block) (*Health, error) {
	data, err := blankout.FindBlock(blocks, BlockHealth)
	if err != nil {
		return nil, nil
	}
	h := &Health{}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fmt.Errorf("block %s: %w", BlockHealth, err)
	}
	return h, nil
}
