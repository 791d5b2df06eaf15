package watch

import "blankout/internal/coder"

// Watcher is one who watches a stream: a file that holds what it counts and these methods, and a
// line in New. It takes from Idle the methods that it does not need.
type Watcher interface {
	// Name names its part of the block "watch", and its figures.
	Name() string
	// Take takes up an event as it came. None comes to one of several learners of one model.
	Take(m *Met)
	// Tell takes up a labeled event and what it was answered.
	Tell(t *Told)
	// Copy takes over from another of its kind what Merge needs, and shares nothing with it.
	Copy(from Watcher)
	// Merge adds what another has counted between two states.
	Merge(base, now Watcher)
	// Sums codes what Merge needs, State the part of the block "watch".
	Sums(c *coder.Coder)
	State(c *coder.Coder)
	// Figures returns what there is to tell: to JSON, the metrics and the page.
	Figures() []Figure
}

// Figure is a number that a Watcher tells, of something: an hour, a class. It is finite.
type Figure struct {
	Of    string  `json:"of"`
	Value float64 `json:"value"`
}

// Idle has the methods of a Watcher that does nothing.
type Idle struct{}

func (Idle) Take(*Met)          {}
func (Idle) Tell(*Told)         {}
func (Idle) Copy(Watcher)       {}
func (Idle) Merge(_, _ Watcher) {}
func (Idle) Sums(*coder.Coder)  {}
func (Idle) State(*coder.Coder) {}
func (Idle) Figures() []Figure  { return nil }

// part is a state under a name.
type part struct {
	name  string
	state func(*coder.Coder)
}

// codeParts codes states under their names. It leaves out what it reads of names that parts does
// not have, and leaves as they are the parts whose names it does not read.
func codeParts(c *coder.Coder, parts []part) {
	n := uint64(len(parts))
	c.Uint(&n)
	for i := range n {
		var name, data []byte
		if !c.Decode {
			own := &coder.Coder{}
			parts[i].state(own)
			name, data = []byte(parts[i].name), own.Out
		}
		c.Bytes(&name)
		if c.Bytes(&data); c.Failed {
			return
		}
		if !c.Decode {
			continue
		}
		for _, p := range parts {
			if p.name == string(name) {
				own := coder.Read(data)
				p.state(own)
				c.Failed = c.Failed || !own.Done()
			}
		}
	}
}
