package run

// This file logs what becomes of the health of fields.

import (
	"blankout/internal/event"
	"blankout/online"
)

// loggedAlarms is how many alarms about fields one part of a batch may put into the log.
const loggedAlarms = 10

// reportHealth logs the alarms about fields that a part of a batch has raised and
// ended, at WARN those alone that have just been raised. Those of before the
// run were logged then.
func (l *loop) reportHealth(b *event.Batch, alarms *online.Alarms) {
	n := alarms.Changes - l.logged.Changes
	for _, a := range alarms.Latest[:min(len(alarms.Latest), loggedAlarms)] {
		log := l.log.Info
		if a.State == "raised" {
			log = l.log.Warn
		}
		log(a.Text, "alarm", a.Kind, "field", a.Field, "state", a.State, "event", a.Event, "topic", b.Topic, "partition", b.Partition, "before_offset", b.Next)
	}
	if n > loggedAlarms {
		l.log.Warn("more alarms about fields, at the same time: GET /v1/features and the page tell which", "more", n-loggedAlarms)
	}
}
