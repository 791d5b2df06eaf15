package watch

// This file learns when alarms come again and again: every night, every weekend.

import (
	"cmp"
	"slices"

	"blankout/internal/coder"
)

// Spells holds the alarms that have come and gone, by the times of their events. An alarm of the
// same kind about the same field that begins at the same hour of the day, and after more than
// daySpell at the same hour of the week, is expected: until about the time of day at which that
// one ended, and while it is no stronger. One spell is enough to expect the next.
type Spells struct {
	list []spell // by field and kind, the oldest first
}

// spell is an alarm that has come and gone. Times are in milliseconds.
type spell struct {
	field, kind   int
	down          bool // the measure fell
	start, length int64
	worst         float64 // the largest strength
}

const (
	minute, hour, day = 60_000, 60 * minute, 24 * hour
	// Spells of up to daySpell come by the day, those of up to weekSpell by the week.
	daySpell, weekSpell = 18 * hour, 6 * day
	// A spell is forgotten after so many days or weeks without it.
	spellMemory = 15
	// It may begin and end earlier or later by half its length, but by no less and no more than
	// this: clocks are changed by an hour twice a year.
	leastSlack, mostSlack = 10 * minute, 90 * minute
	// mostSpells bounds the list, mostOfField those of one kind of alarm about one field: the
	// oldest are left out.
	mostSpells, mostOfField = 4096, 8
)

// period returns the time after which a spell comes again, 0 if it does not.
func (s *spell) period() int64 {
	switch {
	case s.length <= daySpell:
		return day
	case s.length <= weekSpell:
		return 7 * day
	}
	return 0
}

// again returns when the spell that began at the time given, if it is this one again, ends.
func (s *spell) again(since int64) (until int64, ok bool) {
	p, slack := s.period(), max(leastSlack, min(s.length/2, mostSlack))
	if p == 0 || since-s.start < p/2 || since-s.start > spellMemory*p {
		return 0, false
	}
	times := (since - s.start + p/2) / p
	begins := s.start + times*p
	return begins + s.length + slack, max(since-begins, begins-since) <= slack
}

// of compares a spell with a field and a kind of alarm.
func (s *spell) of(key alarmKey) int {
	return cmp.Or(cmp.Compare(s.field, key.field), cmp.Compare(s.kind, key.kind))
}

// at returns the place of the spells of a key in the list, and how many there are.
func (p *Spells) at(key alarmKey) (at, n int) {
	at, _ = slices.BinarySearchFunc(p.list, key, func(s spell, key alarmKey) int { return s.of(key) })
	for at+n < len(p.list) && p.list[at+n].of(key) == 0 {
		n++
	}
	return at, n
}

// until returns the time up to which an alarm is one of a spell, 0 if it is not.
func (p *Spells) until(on *alarm) (latest int64) {
	if on.since.Time == 0 {
		return 0
	}
	strong := strength(on.kind, on.value.Condition)
	at, n := p.at(alarmKey{on.field, on.kind})
	for _, s := range p.list[at : at+n] {
		if until, again := s.again(on.since.Time); again && s.down == on.down && strong <= 1.25*s.worst+1 {
			latest = max(latest, until)
		}
	}
	return latest
}

// expects says whether an alarm, which is on at this time, is one of a spell.
func (p *Spells) expects(on *alarm, now int64) bool { return now != 0 && now <= p.until(on) }

// learn takes up an alarm that has ended. It takes the place of the spell that it was.
func (p *Spells) learn(on *alarm) {
	start, until := on.since.Time, on.until.Time
	if start == 0 || until <= start {
		return
	}
	key := alarmKey{on.field, on.kind}
	now := spell{on.field, on.kind, on.down, start, until - start, on.worst}
	p.list = slices.DeleteFunc(p.list, func(s spell) bool {
		_, again := s.again(start)
		return s.of(key) == 0 && s.down == on.down && again && s.period() == now.period()
	})
	if at, n := p.at(key); n == mostOfField {
		p.list = slices.Delete(p.list, at, at+1)
	} else if len(p.list) == mostSpells {
		oldest := 0
		for i := range p.list {
			if p.list[i].start < p.list[oldest].start {
				oldest = i
			}
		}
		p.list = slices.Delete(p.list, oldest, oldest+1)
	}
	at, n := p.at(key)
	p.list = slices.Insert(p.list, at+n, now)
}

func (p *Spells) state(c *coder.Coder, fields int) {
	n := uint64(len(p.list))
	c.Uint(&n)
	if c.Decode {
		if n > mostSpells {
			c.Failed = true
			return
		}
		p.list = make([]spell, n)
	}
	for i := range p.list {
		s := &p.list[i]
		c.Int(&s.field)
		c.Int(&s.kind)
		c.Bool(&s.down)
		c.Int64(&s.start)
		c.Int64(&s.length)
		c.Float(&s.worst)
		if s.field < 0 || s.field >= fields || s.kind < 0 || s.kind >= alarmKinds || i > 0 && p.list[i-1].of(alarmKey{s.field, s.kind}) > 0 {
			c.Failed = true
		}
	}
}
