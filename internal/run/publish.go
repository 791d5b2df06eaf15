package run

// This file publishes models for readers.

import (
	"time"
)

// publisher says when readers get a new model. Copying never takes more than a twentieth
// of the time.
type publisher struct {
	config *Config
	count  uint64 // models published
	news   bool   // something was counted in since the latest
	next   uint64 // records at which the next is due
	last   time.Time
	cost   time.Duration
}

func (p *publisher) due(records uint64, now time.Time) bool {
	c := p.config
	due := c.PublishEvents > 0 && records >= p.next || c.PublishInterval > 0 && now.Sub(p.last) >= c.PublishInterval
	return due && p.news && now.Sub(p.last) >= 20*p.cost
}

// publish hands a new model to readers.
func (l *loop) publish() {
	if l.unread {
		return
	}
	p, began := &l.publisher, time.Now()
	state := l.freeze()
	published := &Published{Linear: state.Model(), Version: l.FirstVersion + p.count, Offsets: state.offsets, At: began}
	l.Contest.publish(published)
	l.published.Store(published)
	p.count++
	p.last, p.cost, p.next, p.news = began, time.Since(began), l.records+p.config.PublishEvents, false
}
