package readings

// This file finds placeholders: values such as -999 that a sender writes where it has no reading.

import (
	"math"
	"math/bits"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Placeholders finds, for each numeric field, one value that repeats far away from all other readings. It looks at
// the first readings of a field, and again from time to time. Once found, a placeholder stays one.
//
// The zero value is for a new stream.
type Placeholders struct {
	fields []placed // by field id
}

// placed has the latest readings of a field while they are examined.
type placed struct {
	numeric, found bool
	value          float64 // the placeholder, if found
	readings       uint64
	window         []float64
}

// Placeholder is a value that a numeric field has in place of a reading.
type Placeholder struct {
	Field     uint16
	Column    uint32
	Value     float64
	Fraction  float64   // fraction of the examined readings
	Low, High float64   // range of the other readings
	Others    []float64 // the other examined readings
}

const (
	// windowSize readings are examined, of each field the first ones, and those from every power of windowsGrow on. They
	// are also examined whenever their number has doubled from windowFirst on.
	windowSize, windowFirst, windowsGrow = 128, 32, 4
	// A placeholder has at least placeholderLeast of the examined readings, and the fraction placeholderFraction. The other
	// readings have at least variedLeast values, so that flags have no placeholder.
	placeholderLeast, placeholderFraction, variedLeast = 4, 0.03, 8
	// placeholderFar is how many times the range of all other readings a placeholder is away from them.
	placeholderFar = 2
	// mostPlaced is the largest number of fields that are examined.
	mostPlaced = 1024
)

// Take examines the numbers of an event in its raw form, and returns the placeholders that it has found.
func (p *Placeholders) Take(e *event.Example, fields []event.Field) (found []Placeholder) {
	for id := len(p.fields); id < min(len(fields), mostPlaced); id++ {
		p.fields = append(p.fields, placed{numeric: id > 0 && fields[id].Kind == event.Numeric})
	}
	for i, id := range e.Field {
		if int(id) >= len(p.fields) || !p.fields[id].numeric || p.fields[id].found {
			continue
		}
		f := &p.fields[id]
		if f.readings++; !f.examines() {
			continue
		}
		f.window = append(f.window, e.Features.Value[i])
		if n := len(f.window); n >= windowFirst && n&(n-1) == 0 {
			if x, ok := f.placeholder(); ok {
				x.Field, x.Column = id, e.Features.Index[i]
				f.found, f.value, f.window = true, x.Value, nil
				found = append(found, x)
			} else if n == windowSize {
				f.window = nil
			}
		}
	}
	return found
}

// examines reports whether the current reading is one of those that are examined. The powers of windowsGrow, 4, are the
// even powers of 2.
func (f *placed) examines() bool {
	n := f.readings
	return len(f.window) > 0 || n == 1 || n&(n-1) == 0 && n >= windowSize*windowsGrow && bits.TrailingZeros64(n/windowSize)%2 == 0
}

// placeholder returns the smallest or the largest reading if it is a placeholder.
func (f *placed) placeholder() (x Placeholder, ok bool) {
	sorted := slices.Sorted(slices.Values(f.window))
	n := len(sorted)
	for _, value := range [2]float64{sorted[0], sorted[n-1]} {
		x.Others = slices.DeleteFunc(slices.Clone(sorted), func(y float64) bool { return y == value })
		same := n - len(x.Others)
		if same < placeholderLeast || float64(same) < placeholderFraction*float64(n) || len(slices.Compact(slices.Clone(x.Others))) < variedLeast {
			continue
		}
		x.Value, x.Fraction, x.Low, x.High = value, float64(same)/float64(n), x.Others[0], x.Others[len(x.Others)-1]
		gap := max(x.Low-value, value-x.High)
		if gap > placeholderFar*(x.High-x.Low) || x.Low >= 0 && isNines(value) {
			return x, true
		}
	}
	return x, false
}

// isNines reports whether a value is -1, -9, -99, -999, …, which stand for no reading where all readings are at least 0.
func isNines(value float64) bool {
	digits := 1 - value
	return value == -1 || digits >= 10 && math.Abs(math.Log10(digits)-math.Round(math.Log10(digits))) < 1e-12
}

// Each calls f with each placeholder, in the order of the fields.
func (p *Placeholders) Each(f func(model.StuckField)) {
	for id := range p.fields {
		if p.fields[id].found {
			f(model.StuckField{Field: uint16(id), Value: p.fields[id].value})
		}
	}
}

// State encodes or decodes the Placeholders.
func (p *Placeholders) State(c *coder.Coder) {
	if c.Decode {
		*p = Placeholders{}
	}
	coder.Length(c, &p.fields, mostPlaced)
	for id := range p.fields {
		f := &p.fields[id]
		if c.Bool(&f.numeric); !f.numeric {
			continue
		}
		c.Bool(&f.found)
		c.Float(&f.value)
		c.Uint(&f.readings)
		c.Floats(&f.window)
		c.Failed = c.Failed || len(f.window) > windowSize
	}
}
