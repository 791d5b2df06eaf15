package health

// This file reports the health of fields.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online/readings"
)

// Health is the health of all fields at one instant. It is immutable.
type Health struct {
	Events uint64 `json:"events"` // number of events so far
	// Error is the expected error of complete events, in percent; nil before the first estimate.
	Error *float64 `json:"error"`
	// Alarms is the number of current alarms, and Raised is the number of alarms that were ever raised.
	Alarms int    `json:"alarms"`
	Raised uint64 `json:"raised"`
	// Fields has first the fields with an alarm. All fields are sorted by the severity of their change.
	Fields []FieldHealth `json:"fields"`
	// Changes has the latest alarms that were raised or ended, oldest first.
	Changes []FieldAlarm `json:"changes,omitempty"`
}

// FieldHealth is the health of one field. Values that are not known are nil.
type FieldHealth struct {
	Field string     `json:"field"`
	Kind  event.Kind `json:"kind"`
	Group string     `json:"group,omitempty"`
	// Missing is the fraction of events in which the field is null, absent, or of an unusual kind. It is
	// nil for a field that fewer than half of the events have.
	Missing *Condition `json:"missing,omitempty"`
	// Mean is the mean of a number. A reading more than three standard deviations from the mean is measured as three
	// standard deviations.
	Mean *Condition `json:"mean,omitempty"`
	// Doubted is the fraction of the examined readings of a number that contradict the other numbers of their event or
	// repeat one value, so that they are probably no measurements.
	Doubted *Condition `json:"doubted,omitempty"`
	// ErrorWithout is the expected error, in percent, if the field were missing from all events. It is nil until there
	// are enough samples.
	ErrorWithout *float64 `json:"error_without,omitempty"`
	// Repeats is the fraction of a number's readings that equal the previous reading. NeverStuck reports that the
	// number repeats so often, or has so few values, that it is never detected as stuck.
	Repeats    *float64     `json:"repeats,omitempty"`
	NeverStuck bool         `json:"never_stuck,omitempty"`
	Alarms     []FieldAlarm `json:"alarms,omitempty"` // current alarms

	// strength is the size of the largest change of a measure. A lasting change of strength 1 raises an alarm.
	strength float64
}

// Condition is the current value (Now) and the usual value (Usual) of a measure. Now covers about 1,000 events or,
// during an alarm, the events since it began. Usual covers about 100,000 events without alarms.
type Condition struct {
	Now   float64 `json:"now"`
	Usual float64 `json:"usual"`
	// Change is Now minus Usual. The change of a mean is in usual standard deviations.
	Change float64 `json:"change"`
}

// FieldAlarm is the start or end of an alarm about a field.
type FieldAlarm struct {
	Field string `json:"field"`
	Kind  string `json:"kind"`  // one of FieldAlarmKinds
	State string `json:"state"` // raised, ended or accepted
	// Comes is the form in which a missing field arrives: null, absent, or another kind of field. It is "" for alarms that are not about missing fields.
	Comes string `json:"comes,omitempty"`
	// Event is the number of the event at which the alarm was raised or ended. SinceEvent is the first unusual event,
	// and UntilEvent is the first usual event after it. Since and Until are the times of these events, if events have
	// times.
	Event      uint64     `json:"event"`
	SinceEvent uint64     `json:"since_event"`
	Since      *time.Time `json:"since,omitempty"`
	UntilEvent uint64     `json:"until_event,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	Condition
	// Value is the value of a stuck field or the latest doubted reading, or nil for other alarms. In an alarm about a
	// stuck field, Now is the number of equal readings at detection, and Usual is the usual fraction of readings that
	// equal the previous reading. Expected is what the other numbers predict in place of a doubted reading.
	Value    *float64 `json:"value,omitempty"`
	Expected *float64 `json:"expected,omitempty"`
	// ErrorBefore is the expected error before the alarm, and ErrorAfter is the expected error with the currently
	// missing fields. Both are in percent, and nil if unknown.
	ErrorBefore *float64 `json:"error_before,omitempty"`
	ErrorAfter  *float64 `json:"error_after,omitempty"`
	Text        string   `json:"text"` // describes all of this in one sentence
}

// FieldAlarmKinds lists the kinds of a FieldAlarm.
var FieldAlarmKinds = [alarmStuck + 1]string{"missing", "mean", "doubted", AlarmStuck}

// AlarmStuck is the kind of alarm about a stuck field.
const AlarmStuck = "stuck"

var alarmStates = map[changeKind]string{alarmRaised: "raised", alarmEnded: "ended", alarmAccepted: "accepted"}

// alarmValue holds the values of an alarm.
type alarmValue struct {
	Condition
	before, after float64 // errors in percent, -1 if unknown
	at            float64 // value of a stuck field, or the latest doubted reading
	expected      float64 // what the other numbers predict in place of a doubted reading
	logged        bool    // the field is not declared missing
}

// changes returns the alarms that were raised or ended, oldest first, and their total number. It omits the first n.
// Only the latest changes are stored.
func (h *Fields) changes(n uint64, fields []event.Field) (changes []FieldAlarm, all uint64) {
	a := &h.alarms
	if n >= a.changed {
		return nil, a.changed
	}
	latest := a.changes[len(a.changes)-int(min(a.changed-n, uint64(len(a.changes)))):]
	for i := range latest {
		if latest[i].field < len(fields) {
			changes = append(changes, alarmOf(fields, &latest[i]))
		}
	}
	return changes, a.changed
}

// Report returns the health of fields after the given number of events. forecast is the expected error rate of complete
// events, or -1 if it is unknown. repeats may be nil. If not, it returns the fraction of a field's readings that equal
// the previous reading, and whether the field can never be detected as stuck.
func (h *Fields) Report(events uint64, fields []event.Field, forecast float64, repeats func(id int) (fraction float64, never, ok bool)) *Health {
	out := &Health{Events: events, Raised: h.alarms.raised, Error: percent(forecast)}
	for id := range min(len(h.fields), len(fields)) {
		field, known := h.report(fields, id, forecast)
		if !known {
			continue
		}
		if repeats != nil {
			if x, never, ok := repeats(id); ok {
				field.Repeats, field.NeverStuck = &x, never
			}
		}
		out.Alarms += len(field.Alarms)
		out.Fields = append(out.Fields, field)
	}
	slices.SortStableFunc(out.Fields, func(a, b FieldHealth) int {
		return cmp.Or(cmp.Compare(min(len(b.Alarms), 1), min(len(a.Alarms), 1)), cmp.Compare(b.rise(), a.rise()), cmp.Compare(b.strength, a.strength))
	})
	out.Changes, _ = h.changes(0, fields)
	return out
}

// report returns the report of a field. known is false if there is no information about the field.
func (h *Fields) report(fields []event.Field, id int, forecast float64) (field FieldHealth, known bool) {
	f := &h.fields[id]
	field = FieldHealth{Field: fields[id].Name, Kind: fields[id].Kind, Group: fields[id].Group}
	if known = f.stuck.Repeats > 0; known {
		field.Alarms = append(field.Alarms, alarmOf(fields, f.stuck.change(alarmRaised, f.stuck.found, readings.Moment{})))
	}
	for _, kind := range measuresOf(f.kind) {
		if !f.measures[kind].known() {
			continue
		}
		if known = true; f.measures[kind].alarm != 0 {
			x := h.alarm(id, kind)
			if f.measures[kind].calm == 0 {
				x.until = readings.Moment{}
			}
			field.Alarms = append(field.Alarms, alarmOf(fields, &x))
		}
		c := f.condition(kind)
		*field.place(kind) = &c
		field.strength = max(field.strength, strength(kind, c))
		if now := forecast; kind == measureMissing && now >= 0 && f.cost.known() {
			if m := &f.measures[measureMissing]; m.alarm != 0 && m.before >= 0 {
				now = m.before // error before the field was missing
			}
			field.ErrorWithout = percent(max(0, now+(1-c.Usual)*f.cost.rise()))
		}
	}
	return field, known
}

// percent returns a fraction in percent, or nil if it is negative.
func percent(fraction float64) *float64 {
	if fraction < 0 {
		return nil
	}
	fraction = 100 * min(fraction, 1)
	return &fraction
}

func (f *FieldHealth) place(kind int) **Condition {
	return [...]**Condition{&f.Missing, &f.Mean, &f.Doubted}[kind]
}

// rise returns the increase of the error by the field's current alarms, in percentage points.
func (f *FieldHealth) rise() float64 {
	for _, a := range f.Alarms {
		if a.ErrorAfter != nil {
			return *a.ErrorAfter - *a.ErrorBefore
		}
	}
	return 0
}

// known reports whether a measure has enough observations to report.
func (m *fieldMeasure) known() bool { return m.n >= healthLeast && m.recentN > 0 }

// condition returns the Condition of a measure.
func (f *fieldHealth) condition(kind int) Condition {
	m := &f.measures[kind]
	now, usual := m.recentSum/m.recentN, m.sum/m.n
	if kind != measureMean {
		return Condition{now, usual, now - usual}
	}
	// The mean of a number is reported in the unit of the field.
	deviation := math.Sqrt(max(m.square/m.n-usual*usual, 0))
	return Condition{f.center + now/f.inverse, f.center + usual/f.inverse, (now - usual) / max(deviation, 0.1)}
}

// strength returns the size of a change divided by the smallest change that raises an alarm.
func strength(kind int, c Condition) float64 {
	if kind == measureMean {
		c.Change = math.Abs(c.Change)
	}
	above, _ := allowances[kind](1)
	return c.Change / above
}

// value returns the values of a measure's alarm. They include the cost of the change, if it is known.
func (h *Fields) value(id, kind int) alarmValue {
	f := &h.fields[id]
	v := alarmValue{Condition: f.condition(kind), before: -1, after: -1}
	if kind == measureDoubted {
		v.at, v.expected = f.reading, f.expected
	}
	if m := &f.measures[kind]; kind == measureMissing && m.before >= 0 && f.cost.known() {
		v.before, v.after = 100*m.before, 100*max(0, min(1, m.before+v.Change*f.cost.rise()))
	}
	return v
}

func alarmOf(fields []event.Field, x *fieldChange) FieldAlarm {
	a := FieldAlarm{
		Field: fields[x.field].Name, Kind: FieldAlarmKinds[x.kind], State: alarmStates[x.what], Comes: x.comes.String(), Event: x.event,
		SinceEvent: x.since.Event, Since: x.since.When(), Condition: x.value.Condition,
	}
	if x.what == alarmEnded {
		a.UntilEvent, a.Until = x.until.Event, x.until.When()
	}
	if x.value.before >= 0 {
		a.ErrorBefore, a.ErrorAfter = &x.value.before, &x.value.after
	}
	switch x.kind {
	case measureDoubted:
		a.Value, a.Expected = &x.value.at, &x.value.expected
	case alarmStuck:
		a.Value = &x.value.at
	}
	a.Text = x.text(event.Printable(a.Field), fields[x.field].Kind)
	return a
}

// text describes an alarm in a sentence.
func (x *fieldChange) text(field string, kind event.Kind) string {
	v, since := x.value, x.since.String()
	calming := x.what == alarmRaised && x.until != readings.Moment{} // it will end if its current state lasts
	if x.what == alarmEnded || calming {
		since = x.until.String()
	}
	text, nowPercent, usualPercent := "", percentText(v.Now), percentText(v.Usual)
	if nowPercent == usualPercent {
		now, usual := measure.Apart(100*v.Now, 100*v.Usual, 3)
		nowPercent, usualPercent = now+" %", usual+" %"
	}
	switch x.kind {
	case measureMissing:
		switch {
		case x.comes >= comesAs && x.what != alarmEnded:
			text = fmt.Sprintf("%s arrives as %s and is missing as %s in %s of the events since %s (usually %s)", field, plain(event.Kind(x.comes-comesAs)), plain(kind), nowPercent, since, usualPercent)
		default:
			text = fmt.Sprintf("%s missing in %s since %s (usually %s)", field, nowPercent, since, usualPercent)
		}
	case measureMean:
		now, usual := measure.Apart(v.Now, v.Usual, 4)
		text = fmt.Sprintf("mean of %s is %s since %s (usually %s): %+.2g of its deviations", field, now, since, usual, v.Change)
	case measureDoubted:
		text = fmt.Sprintf("%s doubted in %s of its examined readings since %s (usually %s)", field, nowPercent, since, usualPercent)
		if reads, others := measure.Apart(v.at, v.expected, 4); x.what == alarmRaised && !calming {
			text += fmt.Sprintf(": reads %s, the other fields say about %s; check its sensor", reads, others)
		}
	case alarmStuck:
		if text = fmt.Sprintf("%s reads %v since %s: stuck", field, v.at, x.since); x.what == alarmEnded {
			text = fmt.Sprintf("%s varies again since %s", field, since)
		} else if !v.logged {
			text += ", and this value counts as missing"
		}
		if x.what == alarmRaised {
			text += fmt.Sprintf(" (after %.0f repeats; usually %s of its values repeat the one before)", v.Now, usualPercent)
		}
	}
	switch {
	case x.what == alarmEnded:
		text = fmt.Sprintf("back to normal: %s; the alarm began at %v", text, x.since)
	case x.what == alarmAccepted:
		text += fmt.Sprintf("; after %d events this is the new normal, and the alarm has ended", alarmEvents)
	case calming:
		text += fmt.Sprintf("; the alarm began at %v, and ends if this lasts", x.since)
	default:
		if v.before >= 0 {
			text += fmt.Sprintf("; error forecast %.1f -> %.1f %%", v.before, v.after)
		}
		if x.comes == comesNull || x.comes == comesNot {
			text += "; it is " + x.comes.String()
		}
	}
	return text
}

// plain returns the name of an event.Kind for users.
func plain(k event.Kind) string {
	return map[event.Kind]string{event.Numeric: "a number", event.Categorical: "text", event.Words: "an array of words", event.Boolean: "true or false"}[k]
}

// percentText formats a fraction in percent.
func percentText(x float64) string {
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

// BlockHealth is the name of the checkpoint block with the Health.
const BlockHealth = "health" // JSON

// ReadHealth decodes the Health in a checkpoint. It returns nil if the blocks contain no Health.
func ReadHealth(blocks []event.Block) (*Health, error) {
	if _, err := event.FindBlock(blocks, BlockHealth); err != nil {
		return nil, nil
	}
	h := &Health{}
	return h, event.ReadJSON(blocks, BlockHealth, h)
}
