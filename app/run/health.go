package run

// This file logs changes of the health of fields.

import (
	"blankout/internal/event"
	"blankout/online"
)

// loggedAlarms is the largest number of field alarms that are logged per part of a batch.
const loggedAlarms = 10

// reportHealth logs the field alarms that a part of a batch has raised and ended. Only new alarms are logged at WARN,
// because an earlier run has logged earlier alarms.
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
		l.log.Warn("more alarms about fields at the same time: see GET /v1/features or the page", "more", n-loggedAlarms)
	}
}
