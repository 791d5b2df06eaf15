package batch

// This file finds outliers, such as a single 1e30 in a hundred examples, so that they do not determine the scale of a
// column.

import (
	"math"

	"blankout/internal/loss"
)

// farthest is the smallest ratio to the usual size at which FarthestOutlier reports a reading.
const farthest = 1e4

// FarthestOutlier returns the column with the largest ratio of its largest |x| to its usual size. The usual size is the
// geometric mean of the nonzero |x|. The result ok is true if the ratio is above ten thousand. Such readings dominate a
// model if the data are not standardized.
func (d *Data) FarthestOutlier() (column uint32, largest, usual float64, ok bool) {
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
		if most[c] > farthest*least[c] {
			logs[uint32(c)] = 0
		}
	}
	if len(logs) == 0 {
		return 0, 0, 0, false
	}
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if a := math.Abs(row.At(j)); a > 0 && most[c] > farthest*least[c] {
				logs[c] += math.Log(a)
				n[c]++
			}
		}
	}
	ratio := float64(farthest)
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
