// Package coder encodes and decodes the binary state in checkpoints. One code path does both, so that they always
// match.
package coder

import (
	"encoding/binary"
	"math"
)

// Coder appends little-endian values to Out, or reads them from In if Decode is set. The length of a slice precedes it
// as a uint32. A read beyond the end sets Failed and returns zeros.
type Coder struct {
	In, Out []byte
	Version uint32 // version of the coded state; only the caller uses it
	Decode  bool
	Failed  bool
}

// Read returns a Coder that decodes.
func Read(data []byte) *Coder { return &Coder{In: data, Decode: true} }

// Done reports whether the whole input was read without an error.
func (c *Coder) Done() bool { return !c.Failed && len(c.In) == 0 }

func (c *Coder) take(n int) []byte {
	if n < 0 || n > len(c.In) {
		c.Failed, c.In = true, nil
		return nil
	}
	b := c.In[:n]
	c.In = c.In[n:]
	return b
}

// Uint32 reads a number.
func (c *Coder) Uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint encodes or decodes a number.
func (c *Coder) Uint(p *uint64) {
	if !c.Decode {
		c.Out = binary.LittleEndian.AppendUint64(c.Out, *p)
	} else if b := c.take(8); b != nil {
		*p = binary.LittleEndian.Uint64(b)
	}
}

// Int encodes or decodes a number in the format of Uint.
func (c *Coder) Int(p *int) {
	v := uint64(*p)
	if c.Uint(&v); c.Decode {
		*p = int(v)
	}
}

// Int64 encodes or decodes a number in the format of Uint.
func (c *Coder) Int64(p *int64) {
	v := uint64(*p)
	if c.Uint(&v); c.Decode {
		*p = int64(v)
	}
}

// Bool encodes or decodes a bool in the format of Uint.
func (c *Coder) Bool(p *bool) {
	v := uint64(0)
	if *p {
		v = 1
	}
	if c.Uint(&v); c.Decode {
		*p = v == 1
	}
	c.Failed = c.Failed || v > 1
}

// Float encodes or decodes a finite number.
func (c *Coder) Float(p *float64) {
	v := math.Float64bits(*p)
	if c.Uint(&v); c.Decode { // write only while decoding: others may read values that are being encoded
		*p = math.Float64frombits(v)
	}
	x := math.Float64frombits(v)
	c.Failed = c.Failed || x-x != 0 // NaN and infinities are invalid
}

// Each encodes or decodes finite numbers, in order.
func (c *Coder) Each(p ...*float64) {
	for _, p := range p {
		c.Float(p)
	}
}

// word encodes v, or decodes a number in the same format. It returns the number.
func (c *Coder) word(v uint32) uint32 {
	if c.Decode {
		return c.Uint32()
	}
	c.Out = binary.LittleEndian.AppendUint32(c.Out, v)
	return v
}

// length encodes or decodes the length of a slice whose elements have the given size.
func (c *Coder) length(n, size int) int {
	n = int(c.word(uint32(n)))
	if c.Decode && n*size > len(c.In) {
		c.Failed, c.In = true, nil
		return 0
	}
	return n
}

// Bytes encodes or decodes a slice.
func (c *Coder) Bytes(p *[]byte) {
	n := c.length(len(*p), 1)
	if !c.Decode {
		c.Out = append(c.Out, *p...)
		return
	}
	*p = append([]byte(nil), c.take(n)...)
}

// Floats encodes or decodes slices, in order.
func (c *Coder) Floats(p ...*[]float64) {
	for _, p := range p {
		slice(c, p, 8, c.Float)
	}
}

// Float32s encodes or decodes a slice. NaN and infinities are valid.
func (c *Coder) Float32s(p *[]float32) {
	slice(c, p, 4, func(v *float32) {
		if bits := c.word(math.Float32bits(*v)); c.Decode {
			*v = math.Float32frombits(bits)
		}
	})
}

// Uints encodes or decodes a slice.
func (c *Coder) Uints(p *[]uint64) { slice(c, p, 8, c.Uint) }

// Uint32s encodes or decodes a slice.
func (c *Coder) Uint32s(p *[]uint32) {
	slice(c, p, 4, func(v *uint32) {
		if n := c.word(*v); c.Decode {
			*v = n
		}
	})
}

// Uint16s encodes or decodes a slice.
func (c *Coder) Uint16s(p *[]uint16) {
	slice(c, p, 2, func(v *uint16) {
		if !c.Decode {
			c.Out = binary.LittleEndian.AppendUint16(c.Out, *v)
		} else if b := c.take(2); b != nil {
			*v = binary.LittleEndian.Uint16(b)
		}
	})
}

// WideUint16s encodes or decodes a slice in the format of Uint32s. Larger numbers are decoded as the largest uint16.
func (c *Coder) WideUint16s(p *[]uint16) {
	slice(c, p, 4, func(v *uint16) {
		if n := c.word(uint32(*v)); c.Decode {
			*v = uint16(min(n, math.MaxUint16))
		}
	})
}

// Encode returns what state encodes.
func Encode(state func(*Coder)) []byte {
	c := &Coder{}
	state(c)
	return c.Out
}

// Length encodes or decodes the length of a list in the format of Uint, for lists whose elements the caller encodes or
// decodes one after the other. Decoding makes a list of zeros, which is empty if it would have more than most elements.
func Length[T any](c *Coder, list *[]T, most int) {
	n := len(*list)
	if c.Int(&n); !c.Decode {
		return
	}
	if n < 0 || n > most {
		c.Failed, c.In, n = true, nil, 0
	}
	*list = make([]T, n)
}

func slice[T any](c *Coder, p *[]T, size int, one func(*T)) {
	n := c.length(len(*p), size)
	if c.Decode {
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		one(&(*p)[i])
	}
}
