package watch

import "testing"

// A spell of the night is expected at about the same hour of the next days until it should be over,
// a longer one at that hour of the week, and neither where the alarm is another or stronger.
func TestSpells(t *testing.T) {
	const start = 1_767_225_600_000 // midnight
	at := func(since int64, change float64) *alarm {
		x := fieldChange{field: 3, kind: measureMissing, since: Moment{1, start + since}, value: alarmValue{Condition: Condition{Change: change}}}
		return newAlarm(x)
	}
	for _, c := range []struct {
		name   string
		length int64
		on     *alarm
		now    int64 // after start
		want   bool
	}{
		{"the next night", 6 * hour, at(day, 0.5), day + 6*hour, true},
		{"a little earlier", 6 * hour, at(day-80*minute, 0.5), day, true},
		{"a little later", 6 * hour, at(day+80*minute, 0.5), day + 7*hour, true},
		{"too early", 6 * hour, at(day-100*minute, 0.5), day, false},
		{"too late", 6 * hour, at(day+100*minute, 0.5), day + 2*hour, false},
		{"too long", 6 * hour, at(day, 0.5), day + 8*hour, false},
		{"long, but not too long", 6 * hour, at(day, 0.5), day + 7*hour, true},
		{"at noon", 6 * hour, at(day+12*hour, 0.5), day + 13*hour, false},
		{"the same night", 6 * hour, at(hour, 0.5), 2 * hour, false},
		{"ten days later", 6 * hour, at(10*day, 0.5), 10*day + hour, true},
		{"forgotten", 6 * hour, at(16*day, 0.5), 16*day + hour, false},
		{"a little more", 6 * hour, at(day, 0.6), day + hour, true},
		{"much more", 6 * hour, at(day, 0.9), day + hour, false},
		{"less", 6 * hour, at(day, 0.2), day + hour, true},
		{"the other way", 6 * hour, at(day, -0.5), day + hour, false},
		{"of a moment", minute, at(day+9*minute, 0.5), day + 10*minute, true},
		{"of a moment, late", minute, at(day+12*minute, 0.5), day + 13*minute, false},
		{"of a moment, long", minute, at(day, 0.5), day + 15*minute, false},
		{"of thirty hours, the next day", 30 * hour, at(day, 0.5), day + hour, false},
		{"of thirty hours, the next week", 30 * hour, at(7*day, 0.5), 7*day + 31*hour, true},
		{"of thirty hours, half a week later", 30 * hour, at(4*day, 0.5), 4*day + hour, false},
		{"of six days", 7 * day, at(7*day, 0.5), 7*day + hour, false},
	} {
		var p Spells
		first := at(0, 0.5)
		first.until, first.worst = Moment{2, start + c.length}, strength(measureMissing, first.value.Condition)
		p.learn(first)
		if got := p.expects(c.on, start+c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		other := *c.on
		if other.field = 4; p.expects(&other, start+c.now) {
			t.Errorf("%s: of another field", c.name)
		}
		if other.field, other.kind = 3, measureNew; p.expects(&other, start+c.now) {
			t.Errorf("%s: of another kind", c.name)
		}
		if c.on.since.Time = 0; p.expects(c.on, start+c.now) || p.expects(c.on, 0) {
			t.Errorf("%s: without a time", c.name)
		}
	}
	for change, down := range map[float64]bool{0.5: true, 2: false} { // a quotient
		if on := newAlarm(fieldChange{kind: measureDeviation, value: alarmValue{Condition: Condition{Change: change}}}); on.down != down {
			t.Errorf("a deviation of %v times the usual one: down %v", change, on.down)
		}
	}
	// What comes again is one spell, a night beside a weekend two.
	var p Spells
	for _, s := range [][2]int64{{0, 6 * hour}, {day, 7 * hour}, {2 * day, 50 * hour}, {7 * day, 6 * hour}, {9 * day, 49 * hour}} {
		on := at(s[0], 0.5)
		on.until = Moment{2, start + s[0] + s[1]}
		p.learn(on)
	}
	if len(p.list) != 2 || p.list[0].length != 6*hour || p.list[1].length != 49*hour {
		t.Errorf("%+v", p.list)
	}
}

// An alarm that is expected is told once the field is late, for which one odd time is not enough;
// one that is calm is on its way back. What was told when is in the changes.
func TestExpectedAlarms(t *testing.T) {
	const start = 1_767_225_600_000
	var a Alarms
	show := func(what changeKind, since, now int64, calm bool) {
		x := fieldChange{field: 3, kind: measureMissing, what: what, since: Moment{1, start + since}, until: Moment{2, start + now}, value: alarmValue{Condition: Condition{Change: 1}}, comes: comesNull}
		if calm {
			x.comes = comesNot
		}
		a.take(x, calm, start+now)
	}
	show(alarmRaised, 0, hour, false)
	show(alarmEnded, 0, 6*hour, true)
	for _, c := range []struct {
		now  int64
		calm bool
		told uint64
	}{{day + hour, false, 2}, {day + 3*hour, false, 2}, {50 * day, false, 2}, {day + 4*hour, false, 2}, {day + 9*hour, true, 2}, {day + 10*hour, true, 2}, {day + 9*hour, false, 2}, {day + 9*hour, false, 3}} {
		show(alarmOn, day, c.now, c.calm)
		if a.changed != c.told || a.raised != (c.told+1)/2 {
			t.Fatalf("at %d: %d told and %d raised, want %d", c.now/hour, a.changed, a.raised, c.told)
		}
	}
	show(alarmOn, day, day+10*hour, true)
	show(alarmEnded, day, day+11*hour, true)
	if last := a.changes[len(a.changes)-1]; a.changed != 4 || last.comes != comesNull || len(a.spells.list) != 1 || a.spells.list[0].length != 11*hour {
		t.Errorf("%+v %+v", last, a.spells)
	}
}
