package run

// This file publishes models to readers.

import (
	"time"
)

// publisher determines when readers get a new model. Copying models may take at most a twentieth of the time.
type publisher struct {
	config *Config
	count  uint64 // number of published models
	news   bool   // records were counted since the latest publication
	next   uint64 // number of records at which the next publication is due
	last   time.Time
	cost   time.Duration
}

func (p *publisher) due(records uint64, now time.Time) bool {
	c := p.config
	due := c.PublishEvents > 0 && records >= p.next || c.PublishInterval > 0 && now.Sub(p.last) >= c.PublishInterval
	return due && p.news && now.Sub(p.last) >= 20*p.cost
}

// publish publishes a new model.
func (l *loop) publish() {
	if l.unread {
		return
	}
	p, began := &l.publisher, time.Now()
	state := l.freeze()
	published := &Published{Linear: state.Model(), Version: l.FirstVersion + p.count, Offsets: state.offsets, At: began}
	l.Challengers.publish(published)
	l.published.Store(published)
	p.count++
	p.last, p.cost, p.next, p.news = began, time.Since(began), l.records+p.config.PublishEvents, false
}
