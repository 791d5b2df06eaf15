package encode

// This file finds fields that count.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// countFinder finds numeric fields that count something and are left out where they count 0: words as fields, or flags
// that are sent only when they are set. Most events do not have such a field, and its readings are whole numbers, most of
// them at most 1. It is 0 where it is absent, like the words of a text, so it is divided by its largest value and not
// centered. A field that is sometimes null, present in most events, or usually larger, such as a rating, is a measurement.
type countFinder struct {
	fields []counted // by field id
	open   int       // number of fields that are not decided
	turned []uint16  // fields whose treatment must change, see turnCounts
}

// counted describes a field until it is decided.
type counted struct {
	open, counts bool
	column       uint32
	first        uint64  // number of the first event with the field
	n, small     float64 // number of readings, and of those that are at most 1
	mean         float64
	m2           float64 // sum of squared deviations from mean
}

const (
	// After undecided events with a field's first reading, and manyReadings readings, its treatment does not change.
	undecided, manyReadings = 64, 8
)

// watchCounts examines the numbers of an event with fields, before the event is counted. due reports whether turnCounts
// has something to do.
func (s *Scaling) watchCounts(e *event.Example) (due bool) {
	d := &s.counts
	for id := len(d.fields); id < len(s.Kinds); id++ {
		d.fields = append(d.fields, counted{open: s.Kinds[id] == event.Numeric && s.Scaler.Mode == model.StandardizeAuto})
		if d.fields[id].open {
			d.open++
		}
	}
	if d.open == 0 {
		return false
	}
	for _, id := range e.Missing {
		if int(id) < len(d.fields) && d.fields[id].open {
			d.decide(id, false)
		}
	}
	for i, id := range e.Field {
		if c := &d.fields[id]; c.open {
			d.read(id, e.Features.Index[i], e.Features.Value[i], s.events+1)
		}
	}
	return len(d.turned) > 0
}

// read adds a reading of a field that is not decided, in the event with the given number.
func (d *countFinder) read(id uint16, column uint32, x float64, number uint64) {
	c := &d.fields[id]
	if c.n == 0 {
		c.column, c.first = column, number
	}
	if x <= 1 {
		c.small++
	}
	c.n++
	delta := x - c.mean
	c.mean += delta / c.n
	c.m2 += delta * (x - c.mean)
	events := float64(number - c.first + 1)
	rare := 2*c.n <= events+1
	if c.counts { // so that a field in half of the events does not turn again and again
		rare = 3*c.n <= 2*events
	}
	switch counts := rare && 2*c.small >= c.n; {
	case x < 0 || x != math.Floor(x), events >= undecided && !rare:
		d.decide(id, false)
	case events >= undecided && c.n >= manyReadings:
		d.decide(id, counts)
	case events > 2 && counts != c.counts:
		d.turn(id, counts)
	}
}

// decide ends the examination of a field.
func (d *countFinder) decide(id uint16, counts bool) {
	d.fields[id].open = false
	d.open--
	if d.fields[id].counts != counts {
		d.turn(id, counts)
	}
}

func (d *countFinder) turn(id uint16, counts bool) {
	d.fields[id].counts = counts
	if !slices.Contains(d.turned, id) {
		d.turned = append(d.turned, id)
	}
}

// turnCounts changes the treatment of fields that turned out to count, or not to. row returns the row of a column, and
// move converts its weights. turnCounts returns the columns that are no longer measurements.
func (s *Scaling) turnCounts(row func(column uint32) []float64, move func(row []float64, ratio, shift float64)) (gone []uint32) {
	for _, id := range s.counts.turned {
		c := &s.counts.fields[id]
		if counts := s.Kinds[id] == countKind; counts == c.counts {
			continue
		}
		stats := row(c.column)
		was := s.Scaler.Standardization(stats)
		stats[model.StatCount], stats[model.StatMean], stats[model.StatSquares] = c.n, c.mean, c.m2
		stats[model.StatCenter], stats[model.StatInverse] = 0, 1/max(1, c.mean+3*math.Sqrt(c.m2/c.n))
		if s.Kinds[id] = countKind; !c.counts {
			s.Kinds[id] = event.Numeric
			model.Renew(stats)
		} else {
			model.Unwatch(stats)
			gone = append(gone, c.column)
		}
		if is := s.Scaler.Standardization(stats); was.Scale > 0 && is.Scale > 0 && was.Unit == 0 && is.Unit == 0 {
			move(stats, is.Scale/was.Scale, (is.Center-was.Center)/was.Scale)
		}
	}
	s.counts.turned = nil
	return gone
}

// restartWith makes the given readings, of which there is at least one, those of a numeric column. It returns how the
// column's weight must change, as factors do.
func (s *Scaling) restartWith(stats, readings []float64) (ratio, shift float64) {
	n, mean, squares := float64(len(readings)), 0.0, 0.0
	for _, x := range readings {
		mean += x / n
	}
	for _, x := range readings {
		squares += (x - mean) * (x - mean)
	}
	stats[model.StatCount], stats[model.StatMean], stats[model.StatSquares] = n, mean, squares
	stats[model.StatInverse] = max(0, stats[model.StatInverse]) // a unit of the former readings has no meaning
	return model.Renew(stats)
}

// countKind is the kind of fields that count: like products of fields, they are 0 where they are absent.
const countKind = event.Cross

// isCount reports whether a column is that of a field that counts.
func (d *countFinder) isCount(column uint32) bool {
	return slices.ContainsFunc(d.fields, func(c counted) bool { return c.counts && c.column == column && c.n > 0 })
}

func (s *Scaling) countsState(c *coder.Coder) {
	d := &s.counts
	if c.Decode {
		*d = countFinder{}
	}
	coder.Length(c, &d.fields, 1<<16)
	for id := range d.fields {
		f := &d.fields[id]
		c.Bool(&f.open)
		if c.Bool(&f.counts); !f.open && !f.counts {
			continue
		}
		column := uint64(f.column)
		c.Uint(&column)
		f.column = uint32(column)
		c.Uint(&f.first)
		if c.Each(&f.n, &f.small, &f.mean, &f.m2); c.Decode && f.open {
			d.open++
		}
	}
}
