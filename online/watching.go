package online

// This file hands on what is met and what is told to those who watch.

import (
	"blankout"
	"blankout/online/watch"
)

// meet hands on an event that has come.
func (l *Learner) meet(e *blankout.Example) {
	m := watch.Met{
		Event: e, Number: l.events, Named: l.missing.event.named, Present: l.missing.event.present,
		Kinds: l.scaling.kinds, Rows: l.table, Error: l.errorForecast(),
	}
	if l.events >= usualFirst {
		m.Usual = l.missing.model
	}
	l.watch.Health.Take(&m)
}
