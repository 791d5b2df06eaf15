package monitor

// This file determines which of two classes is positive. No weight depends on it.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online/health"
)

// positive chooses the positive class: the configured class, if any. If no class is configured and the two labels are
// no known pair, it is the rarer class of the first positiveAfter labeled events. Otherwise it is the second class.
type positive struct {
	schema     *event.Schema
	measures   *health.Measures
	configured float64 // configured threshold on the probability of the positive class
	given      bool    // the name is configured
	found      bool    // the choice is final
	name       string  // rarer class so far; "" for the second class
}

// positiveAfter is the number of labeled events after which the choice is final.
const positiveAfter = 1000

// Observe updates the positive class. It must be called after Measures has observed the event.
func (p *positive) Observe(e *Event) *Request {
	if p.found || !e.Labeled || e.Regression || len(e.Scores) != 1 {
		return nil
	}
	if n := p.measures.Labeled(); n == positiveAfter && p.name == "" {
		p.name = p.now()
	} else if n > positiveAfter {
		p.found = true
	}
	return nil
}

// now returns the name of the positive class, or "" for the second class.
func (p *positive) now() string {
	classes, events := p.schema.Classes, p.measures.Classes
	if p.name == "" && len(classes) == 2 && len(events) == 2 && events[0] < events[1] && p.measures.Labeled() <= positiveAfter && !event.UsualPair(classes[0], classes[1]) {
		return classes[0]
	}
	return p.name
}

// threshold returns the probability of the second class above which it is predicted, or 0 for one half.
func (p *positive) threshold() float64 {
	switch {
	case p.configured == 0.5:
		return 0
	case p.schema.PositiveClass(p.now()) == 0:
		return 1 - p.configured
	}
	return p.configured
}

// published returns the name of the positive class in a published model, or "" for the second class.
func (p *positive) published() string {
	if name := p.now(); p.schema.PositiveClass(name) == 0 {
		return name
	}
	return ""
}

// State encodes or decodes the name of the positive class. A configured name takes precedence over a decoded name.
func (p *positive) State(c *coder.Coder) {
	name := []byte(p.name)
	if c.Bytes(&name); c.Decode && !p.given && p.measures.Labeled() >= positiveAfter {
		p.name = string(name)
	}
}

func (p *positive) Report(r *Report) {
	if r.Binary == nil {
		return
	}
	at := p.schema.PositiveClass(p.now())
	if at == 0 {
		r.Binary = r.Binary.Flipped()
	}
	if at < len(p.schema.Classes) {
		r.Positive = p.schema.Classes[at]
	}
}
