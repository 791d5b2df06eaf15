package readings

import (
	"blankout/internal/coder"
)

// This file encodes and decodes the state of a Detector.

// State encodes or decodes the Detector.
func (d *Detector) State(c *coder.Coder) {
	if c.Decode {
		*d = Detector{}
	}
	if coder.Length(c, &d.fields, mostStuck); c.Decode {
		d.runs = make([]runs, len(d.fields))
	}
	for id := range d.fields {
		f := &d.fields[id]
		if c.Bool(&f.numeric); !f.numeric {
			continue
		}
		f.state(c)
		d.runs[id].state(c)
		if !c.Decode {
			continue
		}
		if d.numeric++; f.found > 0 {
			d.stuck = append(d.stuck, d.run(uint16(id)))
		}
	}
}

func (f *field) state(c *coder.Coder) {
	c.Bool(&f.began)
	c.Float(&f.last)
	c.Uint(&f.repeats)
	f.since.State(c)
	c.Uint(&f.found)
	for k := range f.kinds {
		c.Uint(&f.kinds[k].readings)
		c.Uint(&f.kinds[k].repeats)
	}
	c.Int(&f.pairs)
	c.Each(&f.pair[0], &f.pair[1])
	c.Bool(&f.many)
	c.Failed = c.Failed || f.pairs < 0 || f.pairs > 2 || f.found > f.repeats || !f.began && f.repeats > 0
}

// state encodes or decodes the longest runs. It omits empty entries.
func (r *runs) state(c *coder.Coder) {
	c.Uint(&r.ofKind[0])
	c.Uint(&r.ofKind[1])
	known := uint64(0) // bit i is set if run i is not empty
	for i, of := range r.byValue {
		if of.repeats > 0 {
			known |= 1 << i
		}
	}
	c.Uint(&known)
	for i := range r.byValue {
		if known>>i&1 != 0 {
			of := &r.byValue[i]
			c.Float(&of.value)
			c.Uint(&of.repeats)
			c.Failed = c.Failed || of.repeats == 0 || placeOf(of.value) != i
		}
	}
	c.Failed = c.Failed || known>>runSlots != 0
}
