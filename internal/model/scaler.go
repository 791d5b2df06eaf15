package model

// This file standardizes features.

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Scaler standardizes features. Dropout noise on a feature whose mean is far from zero destroys its signal
// (docs/mathematics.md). So numeric columns are centered and scaled by their running mean and deviation, after a
// transform if they have heavy tails (Begin). One-hot and word columns are not changed. A standardized value is bounded, see
// Clip, so that one outlier cannot ruin the weights.
//
// The running statistics of a column are ScalerWidth values of its row, from Layout.Stats on, so they are part of the
// model. The indices of these values are StatCount to StatInverse. The current center and scale follow the mean and
// deviation with a delay: they are updated when the count has grown by a sixteenth.
type Scaler struct {
	Mode Standardize `json:"mode,omitempty"`
	// Dense lists, in ascending order, the columns of sparse text formats that are treated as numeric. A column in
	// Dense that an event does not have is 0, or missing if Unfilled is set.
	Dense    []uint32 `json:"dense,omitempty"`
	Unfilled bool     `json:"unfilled,omitempty"`
	// Splines has the splines of numeric columns; nil for none.
	Splines *Splines `json:"curves,omitempty"`
}

// The indices of a column's statistics.
const (
	StatCount   = iota // number of observations
	StatMean           // mean of the observations
	StatSquares        // sum of squared deviations from the mean
	StatCenter         // current center, which is subtracted from a value
	StatInverse        // current 1/scale, negative with a transform; 0 while there is no scale
	ScalerWidth        // number of statistics per column
)

// ScalerClip is the largest absolute value of a standardized value.
const ScalerClip = 10

// Standardize selects the columns that a Scaler changes.
type Standardize string

// The modes of a Scaler.
const (
	// StandardizeNone leaves features unchanged.
	StandardizeNone Standardize = "none"
	// StandardizeAuto centers and scales numeric fields and, in sparse text formats, the columns that nine of ten
	// events have. Other columns of sparse text formats are divided by the largest |x| if that exceeds 1. One-hot and
	// word columns are not changed.
	StandardizeAuto Standardize = "auto"
	// StandardizeScale divides every column by the largest |x|.
	StandardizeScale Standardize = "scale"
	// StandardizeAll standardizes every column. It treats numeric fields, and columns that nine of ten events have, as
	// StandardizeAuto does. Any other column is 0 in events without it, so it is divided by its standard deviation over
	// all events. Such a column is not centered, because centering would add a constant to scores, which the intercept
	// learns.
	StandardizeAll Standardize = "all"
)

// ParseStandardize parses auto, all, scale or none; "" means none.
func ParseStandardize(s string) (Standardize, error) {
	switch m := Standardize(s); m {
	case StandardizeNone, StandardizeAuto, StandardizeScale, StandardizeAll:
		return m, nil
	case "":
		return StandardizeNone, nil
	}
	return "", fmt.Errorf("standardize %q: want one of auto, all, scale, none", s)
}

// Each yields the columns and values of x, 0 for absent dense columns, and the nonzero spline columns of these numbers.
// Columns ascend.
func (s *Scaler) Each(x event.Vec) iter.Seq2[uint32, float64] {
	if s.Splines != nil {
		x = s.Columns(x, &event.Vec{})
	}
	return s.numbers(x)
}

// Columns returns the sequence of Each as slices, in the memory of room. It returns x itself if nothing is added.
func (s *Scaler) Columns(x event.Vec, room *event.Vec) event.Vec {
	if x = s.AddDense(WithoutBasisColumns(x), room); s.Splines == nil {
		return x
	}
	if len(room.Index) == 0 {
		if n := x.Len() + 2*len(s.Splines.Columns); cap(room.Index) < n {
			room.Index, room.Value = make([]uint32, 0, n), make([]float64, 0, n)
		}
		room.Index, room.Value = append(room.Index, x.Index...), append(room.Value, x.Value...)
	}
	*room = s.Splines.Append(*room, x)
	return *room
}

// AddDense returns x with a 0 for each absent dense column, in the memory of room. It returns x itself if no dense column
// is absent.
func (s *Scaler) AddDense(x event.Vec, room *event.Vec) event.Vec {
	out, zeros := event.Vec{Index: room.Index[:0], Value: room.Value[:0]}, s.zeros()
	if slices.Equal(x.Index, zeros) { // usual in a table
		zeros = nil
	}
	from, i := 0, 0
	for _, d := range zeros {
		for i < len(x.Index) && x.Index[i] < d {
			i++
		}
		if i == len(x.Index) || x.Index[i] > d {
			out.Index, out.Value = append(append(out.Index, x.Index[from:i]...), d), append(append(out.Value, x.Value[from:i]...), 0)
			from = i
		}
	}
	if *room = out; len(out.Index) == 0 {
		return x
	}
	room.Index, room.Value = append(out.Index, x.Index[from:]...), append(out.Value, x.Value[from:]...)
	return *room
}

// zeros returns the dense columns that are 0 if they are absent.
func (s *Scaler) zeros() []uint32 {
	if s.Unfilled {
		return nil
	}
	return s.Dense
}

// FieldsOf is Example.FieldsOf, except that a spline column has the field of its source column.
func (s *Scaler) FieldsOf(e *event.Example, columns []uint32, out []uint16) []uint16 {
	out = e.FieldsOf(columns, out)
	for i := len(out) - 1; i >= 0 && columns[i] >= FirstBasisColumn; i-- {
		if at, ok := slices.BinarySearch(columns, s.Splines.Source(columns[i])); ok {
			out[i] = out[at]
		}
	}
	return out
}

// numbers is Each for an x that already contains its spline columns.
func (s *Scaler) numbers(x event.Vec) iter.Seq2[uint32, float64] {
	return func(yield func(uint32, float64) bool) {
		// The loop body contains only one yield, so that the compiler can inline it.
		dense := s.zeros()
		for i := 0; i < len(x.Index) || len(dense) > 0; {
			column, value := uint32(0), 0.0
			if len(dense) == 0 || i < len(x.Index) && x.Index[i] <= dense[0] {
				column, value = x.Index[i], x.Value[i]
				i++
			} else {
				column = dense[0]
			}
			if len(dense) > 0 && dense[0] == column {
				dense = dense[1:]
			}
			if !yield(column, value) {
				return
			}
		}
	}
}

// Apply returns the standardized value of x. stats are the column's statistics: the first ScalerWidth values of its
// row.
func (s *Scaler) Apply(stats []float64, x float64) float64 {
	return s.Clip(stats, s.Deviations(stats, x))
}

// Deviations returns the result of Apply without bounding it by Clip.
func (s *Scaler) Deviations(stats []float64, x float64) float64 {
	if stats[StatInverse] >= 0 {
		return (x - stats[StatCenter]) * stats[StatInverse]
	}
	return transformedDeviations(stats, x)
}

func transformedDeviations(stats []float64, x float64) float64 {
	return (math.Asinh(x/unitOf(stats[StatInverse])) - stats[StatCenter]) * -stats[StatInverse]
}

// Clip bounds the result of Deviations. A value beyond +-ScalerClip is an outlier. In a centered column an outlier
// counts as +-OutlierAt, both for scores and for statistics. In a column that is divided but not centered, an outlier
// counts as the largest allowed value.
func (s *Scaler) Clip(stats []float64, z float64) float64 {
	if z >= -ScalerClip && z <= ScalerClip {
		return z
	}
	return math.Copysign(s.beyond(stats), z)
}

// IsOutlier reports whether a standardized value is the value to which Clip moves the outliers of a centered column.
func IsOutlier(value float64) bool { return math.Abs(value) == OutlierAt }

func (s *Scaler) beyond(stats []float64) float64 {
	switch {
	case stats[StatCenter] != 0:
		return OutlierAt
	case s.Mode == StandardizeAll:
		return ScalerClip // a rare column usually has this value
	}
	return 1
}

// Standardization describes the function Apply of a column. Apply computes t = x, or t = asinh(x/Unit) if Unit is not
// 0. It returns z = (t - Center)/Scale, or +-Beyond if z is beyond +-ScalerClip. Scale is 0 for a column without a
// scale, for which Apply returns 0.
type Standardization struct {
	Transform string  `json:"transform,omitempty"` // asinh if Unit is not 0
	Unit      float64 `json:"unit,omitempty"`
	Center    float64 `json:"center"`
	Scale     float64 `json:"scale"`
	Beyond    float64 `json:"beyond,omitempty"`
}

// Raw returns the value that is standardized to z.
func (f Standardization) Raw(z float64) float64 {
	t := f.Center + f.Scale*z
	if f.Unit != 0 {
		return f.Unit * loss.Sinh(t)
	}
	return t
}

// Standardization returns the Standardization of a column with the given statistics.
func (s *Scaler) Standardization(stats []float64) Standardization {
	f := Standardization{Center: stats[StatCenter], Unit: unitOf(stats[StatInverse]), Beyond: s.beyond(stats)}
	if stats[StatInverse] != 0 {
		f.Scale = 1 / math.Abs(stats[StatInverse])
	}
	if f.Unit != 0 {
		f.Transform = "asinh"
	}
	return f
}

// Observe adds x to the statistics of a column that is centered and scaled; z is the result of Deviations for x. If
// that updates the current center mu and scale s, it returns the ratio s'/s and the shift (mu'-mu)/s. The score w
// (x-mu)/s + b stays the same if the caller updates
//
//	b += w shift  and  w *= ratio.
//
// A ratio of 1 and a shift of 0 mean no change. An outlier is counted at the value to which Clip moves it, and the
// weights must then stay the same.
func (s *Scaler) Observe(stats []float64, x, z float64) (ratio, shift float64) {
	outlier := s.gather(stats, x, z)
	if !Renews(stats[StatCount]) {
		return 1, 0
	}
	return renew(stats, outlier)
}

// Renews reports whether the n-th reading of a column updates the current scale. It returns true for the first
// readings. For larger n, it returns true if n is a multiple of 1/16 of the largest power of two up to n. In such an n,
// all bits of the mantissa after the first four are 0.
func Renews(n float64) bool { return n <= FirstReadings || math.Float64bits(n)&(1<<48-1) == 0 }

// gather is Observe without an update of the current scale. It reports whether x is an outlier.
func (s *Scaler) gather(stats []float64, x, z float64) (outlier bool) {
	_ = stats[ScalerWidth-1]
	n, inverse := stats[StatCount]+1, stats[StatInverse]
	outlier = z > ScalerClip || z < -ScalerClip
	switch {
	case outlier && inverse != 0:
		x = stats[StatCenter] + math.Copysign(OutlierAt, z)/math.Abs(inverse)
	case inverse < 0:
		x = stats[StatCenter] - z/inverse
	}
	AddReading((*[ScalerWidth]float64)(stats), n, x)
	return outlier
}

// AddReading adds x, the n-th reading of a column, to its moments.
func AddReading(stats *[ScalerWidth]float64, n, x float64) {
	d := x - stats[StatMean]
	mean := stats[StatMean] + d/n
	stats[StatCount], stats[StatMean], stats[StatSquares] = n, mean, stats[StatSquares]+d*(x-mean)
}

// Renew makes the mean and deviation of a column its current center and scale, and returns the ratio and shift as
// Observe does.
func Renew(stats []float64) (ratio, shift float64) { return renew(stats, false) }

// renew implements Renew; outlier is true if the latest reading was an outlier.
func renew(stats []float64, outlier bool) (ratio, shift float64) {
	n, mean, center, inverse := stats[StatCount], stats[StatMean], stats[StatCenter], stats[StatInverse]
	renewed := packUnit(inverseScale(mean, stats[StatSquares]/n), unitOf(inverse))
	if inverse < 0 && renewed == 0 {
		return 1, 0 // keeps the stored unit
	}
	stats[StatCenter], stats[StatInverse] = mean, renewed
	if outlier || inverse == 0 || renewed == 0 {
		// Do not rescale the weight: it is still 0, or its slope has no meaning after the change.
		return 1, 0
	}
	return inverse / renewed, (mean - center) * math.Abs(inverse)
}

// Two of the statistics have another meaning for a column that is divided, but not centered. The column is watched for
// watchScale readings, starting with reading number statWatched. statLargest is the largest |x| within the scale during
// that time. If it is negative, -statLargest is the number of consecutive outliers.
const (
	statLargest = StatMean
	statWatched = StatSquares
	watchScale  = 32
	unwatched   = math.MaxFloat64
	// watchEvery is the largest number of readings between two periods in which a column is watched, because its scale
	// may be too large. After n readings, with n below watchEvery, the next period starts within n readings.
	watchEvery = 1024
	// lastingOutliers is the number of consecutive outliers that count as a lasting change.
	lastingOutliers = 8
)

// CountWithin is ObserveScale for the n-th reading of a column, whose absolute value a is within the column's scale. If
// the reading may change the scale, CountWithin does nothing and returns false.
func CountWithin(stats *[ScalerWidth]float64, n, a float64) bool {
	if n >= stats[statWatched] {
		if n >= stats[statWatched]+watchScale-1 {
			return false
		}
		if a > stats[statLargest] {
			stats[statLargest] = a
		}
	}
	stats[StatCount] = n
	return true
}

// ObserveScale adds x to the statistics of a column that is divided by the largest |x|. A column whose largest |x| is
// at most 1 is not divided. ObserveScale returns the ratio s'/s as Observe does.
//
// The scale at most doubles at a time. An outlier beyond ScalerClip times the scale does not change the scale, unless
// lastingOutliers outliers follow each other. If later readings show that the scale is more than ScalerClip times too
// large, the scale becomes the largest of these readings. Then shrunk is true, and the weights must stay the same.
func (s *Scaler) ObserveScale(stats []float64, x float64) (ratio float64, shrunk bool) {
	_ = stats[ScalerWidth-1]
	n := stats[StatCount] + 1
	stats[StatCount] = n
	a, inverse := math.Abs(x), stats[StatInverse]
	if inverse == 0 {
		stats[StatInverse] = 1 / max(a, 1)
		watch(stats, n+1)
		return 1, false
	}
	watched := n >= stats[statWatched]
	switch z := a * inverse; {
	case z > ScalerClip:
		outlier := 1.0
		if watched {
			outlier += max(0, -stats[statLargest])
		}
		stats[statLargest], stats[statWatched] = -outlier, n+1
		if outlier < lastingOutliers {
			return 1, false
		}
		stats[StatInverse] = max(1/a, inverse/2)
		return inverse / stats[StatInverse], false
	case z > 1:
		stats[StatInverse] = max(1/a, inverse/2)
		watch(stats, n+1)
		return inverse / stats[StatInverse], false
	case !watched:
		return 1, false
	}
	largest := max(stats[statLargest], a)
	if stats[statLargest] = largest; n < stats[statWatched]+watchScale-1 {
		return 1, false
	}
	if fit := 1 / max(largest, 1); inverse*ScalerClip < fit {
		stats[StatInverse], shrunk = fit, true
	}
	watch(stats, n+min(max(n, watchScale), watchEvery)-watchScale+1)
	return 1, shrunk
}

// watch marks a column as watched from reading number from on. A column whose scale is too small to be ScalerClip times
// too large is not watched.
func watch(stats []float64, from float64) {
	if stats[statLargest] = 0; stats[StatInverse]*ScalerClip >= 1 {
		from = unwatched
	}
	stats[statWatched] = from
}

// Unwatch initializes statLargest and statWatched of a column that is not centered from now on: the column is not
// watched.
func Unwatch(stats []float64) { stats[statLargest], stats[statWatched] = 0, unwatched }

// ObserveSpread adds x to the statistics of a column that is 0 in most events. The column is divided by its standard
// deviation over all of total events, including the current event. The divisor is larger if a usual value would
// otherwise be clipped. Mean and sum of squares count only events with the column. It returns the ratio s'/s as Observe
// does.
func (s *Scaler) ObserveSpread(stats []float64, x, total float64) (ratio float64) {
	_ = stats[ScalerWidth-1]
	n, inverse := stats[StatCount]+1, stats[StatInverse]
	outlier := false
	bound := float64(ScalerClip)
	if n <= 8 {
		bound *= ScalerClip // few readings do not determine the deviation
	}
	if z := x * inverse; z > bound || z < -bound {
		x, outlier = math.Copysign(ScalerClip, z)/inverse, true
	}
	AddMoments((*[3]float64)(stats), x)
	if !Renews(n) {
		return 1 // the current scale does not change, as in Observe
	}
	stats[StatInverse] = SpreadInverse(stats, total)
	if outlier || n <= FirstReadings || inverse == 0 || stats[StatInverse] == 0 {
		return 1
	}
	return inverse / stats[StatInverse]
}

// SpreadInverse returns the factor of a column from the statistics of ObserveSpread. It returns 0 if the column was
// always 0.
func SpreadInverse(stats []float64, total float64) float64 {
	n, mean, m2 := stats[StatCount], stats[StatMean], stats[StatSquares]
	deviation := math.Sqrt((m2 + mean*mean*n*(total-n)/total) / total)
	usual := math.Sqrt(mean*mean + m2/n)
	if scale := max(deviation, usual/ScalerClip); scale > 1e-200 {
		return 1 / scale
	}
	return 0
}

// Standardized returns the standardized features of an event: all columns that have a row, and a 0 for each absent dense
// column. The result is in the memory of room.
func (m *Linear) Standardized(e *event.Example, room event.Vec) event.Vec {
	e = m.declared(e)
	standardizes, missing := m.standardizes(), len(e.MissingColumns) > 0
	all := m.Scaler.Columns(e.Features, &room)
	out := event.Vec{Index: room.Index[:0], Value: room.Value[:0]} // all may be in the same memory, and is read first
	for i, column := range all.Index {
		x := all.Value[i]
		if missing && e.MissesColumn(m.Scaler.Splines.Source(column)) {
			continue
		}
		if standardizes {
			row := m.Rows.Row(column)
			if row == nil {
				continue
			}
			x = m.Scaler.Apply(row[m.Layout.Stats:][:ScalerWidth], x)
		}
		out.Index = append(out.Index, column)
		out.Value = append(out.Value, x)
	}
	return out
}

func (h *Head) standardizes() bool {
	return h.Layout.Stats >= 0 && h.Scaler.Mode != StandardizeNone && h.Scaler.Mode != ""
}

// Stats returns the part of a column's row that holds its statistics, for Scaler.Apply. It returns nil if nothing is
// standardized.
func (h *Head) Stats(row []float64) []float64 {
	if !h.standardizes() {
		return nil
	}
	return row[h.Layout.Stats:][:ScalerWidth]
}

// standardize returns the standardized value of a column, given its row.
func (m *Linear) standardize(row []float64, x float64) float64 {
	if stats := m.Stats(row); stats != nil {
		return m.Scaler.Apply(stats, x)
	}
	return x
}

// WithScaler returns m with the Scaler and statistics of another model, whose standardized features m was trained on.
func (m *Linear) WithScaler(of *Linear) *Linear {
	if of.Layout.Stats < 0 {
		return m
	}
	k := m.Outputs
	out := &Linear{Head: m.Head, Rows: NewTable(k + ScalerWidth)}
	out.Scaler = of.Scaler
	out.Layout = Layout{Width: k + ScalerWidth, Stats: k}
	of.CopyStats(out.Rows, k)
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		copy(out.Rows.Touch(column)[:k], row[:k])
	}
	return out
}

// CopyStats copies the statistics of all columns to their rows of another Table, at index at. It does nothing if the
// model has no statistics.
func (m *Linear) CopyStats(to *Table, at int) {
	if m.Layout.Stats < 0 {
		return
	}
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		copy(to.Touch(column)[at:], row[m.Layout.Stats:][:ScalerWidth])
	}
}
