package measure

// This file compares the losses of two learners on the same events.

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// BlockRecords is the number of records in a block of Paired.
const BlockRecords = 1000

// Paired compares two learners on the events that both predicted before they learned them. Consecutive losses are
// dependent, for example under drift. So the differences are averaged over blocks of BlockRecords records, and the
// standard error is computed from the block means. Blocks and windows start at fixed record numbers, whatever the
// batches and restarts. So equal streams give equal values.
type Paired struct {
	From  uint64     `json:"from"`  // number of records before the first block
	Total Difference `json:"total"` // difference over all blocks
	// Window is the difference over the latest complete window, and Before is the difference over the window before it.
	Window Difference `json:"window"`
	Before Difference `json:"before"`

	// Open is the difference in the current, incomplete window. Sum and Weight are the sums of the current block.
	Open   Difference `json:"open"`
	Sum    float64    `json:"sum"`
	Weight float64    `json:"weight"`
	Seen   uint64     `json:"seen"` // number of records so far
}

// Difference is the mean over blocks of one learner's loss minus another learner's loss.
type Difference struct {
	Blocks  uint64  `json:"blocks"`
	Mean    float64 `json:"mean"`
	Scatter float64 `json:"scatter"` // sum of squared deviations from Mean
}

func (d *Difference) add(x float64) {
	d.Blocks++
	off := x - d.Mean
	d.Mean += off / float64(d.Blocks)
	d.Scatter += off * (x - d.Mean)
}

// StandardError returns the standard error of the mean, or NaN for fewer than two blocks.
func (d Difference) StandardError() float64 {
	if d.Blocks < 2 {
		return math.NaN()
	}
	n := float64(d.Blocks)
	return math.Sqrt(d.Scatter / (n - 1) / n)
}

// leastBlocks is the smallest number of blocks for which Better can be true.
const leastBlocks = 8

// Better reports whether the first learner's loss is smaller, as surely as a normal mean that is three standard errors
// below 0. For few blocks, Student's distribution requires more standard errors.
func (d Difference) Better() bool {
	if d.Blocks < leastBlocks {
		return false
	}
	errors := distuv.StudentsT{Sigma: 1, Nu: float64(d.Blocks - 1)}.Quantile(distuv.UnitNormal.CDF(3))
	return d.Mean+errors*d.StandardError() < 0
}

// NewPaired returns a comparison that starts with the first complete block after the given number of records.
func NewPaired(records uint64) Paired {
	return Paired{From: (records + BlockRecords - 1) / BlockRecords * BlockRecords, Seen: records}
}

// Add adds one record: the difference of the losses, and the importance of the event. record is the record's number,
// counted from 1; numbers must ascend. Add ignores a difference that is not finite. window is the number of records in
// a window, a multiple of BlockRecords.
func (p *Paired) Add(record uint64, difference, weight float64, window uint64) {
	p.Advance(record-1, window)
	if p.Seen = record; record > p.From && difference-difference == 0 {
		p.Sum += weight * difference
		p.Weight += weight
	}
	p.close(window)
}

// Advance skips all records up to and including the given record number: they count as seen, but have no difference. It
// closes each block and each window that ends on the way.
func (p *Paired) Advance(record, window uint64) {
	for p.Seen < record {
		p.Seen = min(record, p.Seen/BlockRecords*BlockRecords+BlockRecords)
		p.close(window)
	}
}

// close ends the block and the window that end at Seen.
func (p *Paired) close(window uint64) {
	if p.Seen%BlockRecords > 0 || p.Seen <= p.From {
		return
	}
	if p.Weight > 0 {
		mean := p.Sum / p.Weight
		p.Total.add(mean)
		p.Open.add(mean)
	}
	p.Sum, p.Weight = 0, 0
	if p.Seen%window > 0 {
		return
	}
	if p.From <= p.Seen-window {
		p.Before, p.Window = p.Window, p.Open
	}
	p.Open = Difference{}
}

// Better reports whether the learner was better in each of the latest two windows, see Difference.Better. It returns
// false unless a window ended with the latest record.
func (p *Paired) Better(window uint64) bool {
	return p.Seen%window == 0 && p.Before.Better() && p.Window.Better()
}

// DifferenceReport is a Difference with stable JSON names for scripts. Undefined values are nil.
type DifferenceReport struct {
	Blocks        uint64   `json:"blocks"`
	Difference    *float64 `json:"difference"`
	StandardError *float64 `json:"standard_error"`
}

// Report returns the Difference as a DifferenceReport.
func (d Difference) Report() DifferenceReport {
	r := DifferenceReport{Blocks: d.Blocks, StandardError: Defined(d.StandardError())}
	if d.Blocks > 0 {
		r.Difference = Defined(d.Mean)
	}
	return r
}
