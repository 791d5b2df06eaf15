package batch

// This file finds outliers, such as 1e30 in one example of a hundred, so that they do not determine the scale of a
// column.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// unknownReach is a multiple of the geometric mean of a column. Beyond it a reading is an outlier if the column has too
// few readings to tell. It is large because a word may well occur a dozen times in an event.
const unknownReach = model.ScalerClip * model.ScalerClip

// mostWild is the largest share of outliers. If more readings lie beyond a gap, the gap belongs to the distribution.
const mostWild = 0.05

// reaches holds, by compact column, the center of the transformed readings and the distance beyond which a reading is
// an outlier. far is 0 while unknown.
type reaches struct{ center, far []float64 }

// grow extends far to the farthest reading within model.ScalerClip times far, until no reading remains there. A long
// tail has no gap of that size. Readings beyond such a gap are outliers, unless they are more than mostWild of all. far
// becomes +Inf if there are no outliers. For a column with unknown far, grow begins with unknownReach times the
// geometric mean of the nonzero distances.
func (r reaches) grow(d *Data, units []float64) {
	each := func(f func(c int, distance float64)) {
		d.eachReading(units, func(c int, x float64) { f(c, math.Abs(x-r.center[c])) })
	}
	columns := len(r.far)
	logs, off, farthest := make([]float64, columns), make([]float64, columns), make([]float64, columns)
	each(func(c int, distance float64) {
		farthest[c] = max(farthest[c], distance)
		if r.far[c] == 0 && distance > 0 {
			off[c]++
			if distance != 1 {
				logs[c] += math.Log(distance)
			}
		}
	})
	for c := range r.far {
		if r.far[c] == 0 {
			r.far[c] = unknownReach * loss.Exp(logs[c]/max(off[c], 1))
		}
	}
	for open := true; open; {
		open = false
		for c, far := range r.far {
			if farthest[c] <= far {
				r.far[c] = math.Inf(1)
			}
			open = open || farthest[c] > far
		}
		if !open {
			return
		}
		within, nearest := make([]float64, columns), make([]float64, columns)
		met, beyond := make([]float64, columns), make([]float64, columns)
		each(func(c int, distance float64) {
			if met[c]++; distance <= r.far[c] {
				within[c] = max(within[c], distance)
			} else if beyond[c]++; beyond[c] == 1 || distance < nearest[c] {
				nearest[c] = distance
			}
		})
		open = false
		for c, far := range r.far {
			if next := model.ScalerClip * within[c]; next > far {
				r.far[c], open = next, true
			} else if beyond[c] > mostWild*met[c] {
				r.far[c], open = model.ScalerClip*nearest[c], true
			}
		}
	}
}

// eachReading calls f with the compact column and the transformed value of each reading. units are those of begin.
func (d *Data) eachReading(units []float64, f func(c int, x float64)) {
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			x := row.At(j)
			if units[c] != 0 {
				x = math.Asinh(x / units[c])
			}
			f(int(c), x)
		}
	}
}

// wildest is the multiple of its usual size at which Wildest reports a reading.
const wildest = 1e4

// Wildest returns the column whose largest |x| is the largest multiple of its usual size, the geometric mean of its
// nonzero |x|. ok is true if that multiple is above ten thousand. Such readings dominate a model of data that is not
// standardized.
func (d *Data) Wildest() (column uint32, largest, usual float64, ok bool) {
	most, least := make([]float64, d.Columns()), make([]float64, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if a := math.Abs(row.At(j)); a > 0 {
				if most[c] = max(most[c], a); least[c] == 0 || a < least[c] {
					least[c] = a
				}
			}
		}
	}
	logs, n := make(map[uint32]float64), make(map[uint32]float64)
	for c := range most {
		if most[c] > wildest*least[c] {
			logs[uint32(c)] = 0
		}
	}
	if len(logs) == 0 {
		return 0, 0, 0, false
	}
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if a := math.Abs(row.At(j)); a > 0 && most[c] > wildest*least[c] {
				logs[c] += math.Log(a)
				n[c]++
			}
		}
	}
	ratio := float64(wildest)
	for c := range uint32(len(most)) {
		if n[c] == 0 {
			continue
		}
		if mean := loss.Exp(logs[c] / n[c]); most[c] > ratio*mean {
			column, largest, usual, ok, ratio = d.Column(int(c)), most[c], mean, true, most[c]/mean
		}
	}
	return column, largest, usual, ok
}
