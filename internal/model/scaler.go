package model

// This file holds the standardization of features.

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
)

// Scaler standardizes features before they meet the weights. Dropout noise on a
// feature whose mean is far from zero destroys the signal (docs/mathematics.md),
// so numeric columns are centered and scaled by their running mean and deviation,
// those with heavy tails after a Transform; one-hot and word columns are left
// alone. A standardized value is bounded, see Clip, so that one wild reading cannot
// throw the weights.
//
// The running statistics of a column are ScalerWidth values of its row, from
// Layout.Stats on, so they travel with the model. Their places are StatCount to
// StatInverse. The center and scale in force trail the mean and deviation: they
// are renewed when the count has grown by a sixteenth.
type Scaler struct {
	Mode Standardize `json:"mode,omitempty"`
	// Dense lists in ascending order the columns of sparse text formats that
	// count as numeric. An event without one of them has the number 0 there, unless
	// Unfilled says that it is missing then.
	Dense    []uint32 `json:"dense,omitempty"`
	Unfilled bool     `json:"unfilled,omitempty"`
	// Curves are those of numeric columns; nil is none.
	Curves *Curves `json:"curves,omitempty"`
}

// The places of a column's statistics.
const (
	StatCount   = iota // the number of observations
	StatMean           // their mean
	StatSquares        // the sum of their squared deviations from the mean
	StatCenter         // what is in force: it is subtracted from a value
	StatInverse        // 1/scale in force, negative with a Transform; 0 while there is no scale
	ScalerWidth        // how many there are
)

// ScalerClip bounds a standardized value.
const ScalerClip = 10

// Standardize says which columns a Scaler changes.
type Standardize string

// The modes of a Scaler.
const (
	// StandardizeNone leaves every feature as it is.
	StandardizeNone Standardize = "none"
	// StandardizeAuto centers and scales Numeric fields, and of sparse text
	// formats the columns that are present in nine events of ten; other columns
	// of such formats are divided by the largest |x| seen where that exceeds 1.
	// One-hot and word columns are left alone.
	StandardizeAuto Standardize = "auto"
	// StandardizeScale only divides, by the largest |x| seen, every column.
	StandardizeScale Standardize = "scale"
	// StandardizeAll does so with every column. Numeric fields and columns present
	// in nine events of ten are as in auto. Another one is the number 0 in the
	// events that leave it out: it is divided by its deviation over all events, and
	// what centering it would add to a score, a constant, is left to the intercept.
	// No event is ever filled up.
	StandardizeAll Standardize = "all"
)

// ParseStandardize reads auto, all, scale or none; "" is none.
func ParseStandardize(s string) (Standardize, error) {
	switch m := Standardize(s); m {
	case StandardizeNone, StandardizeAuto, StandardizeScale, StandardizeAll:
		return m, nil
	case "":
		return StandardizeNone, nil
	}
	return "", fmt.Errorf("standardize %q: want one of auto, all, scale, none", s)
}

// Each yields the columns and values of x, 0 for the dense columns that x leaves
// out, and the hats of both that are not 0, all in ascending order.
func (s *Scaler) Each(x event.Vec) iter.Seq2[uint32, float64] {
	if s.Curves != nil {
		x = s.Columns(x, &event.Vec{})
	}
	return s.numbers(x)
}

// Columns returns what Each yields as lists, in the memory of room unless x itself holds it all.
func (s *Scaler) Columns(x event.Vec, room *event.Vec) event.Vec {
	if x = s.Fill(withoutHats(x), room); s.Curves == nil {
		return x
	}
	if len(room.Index) == 0 {
		if n := x.Len() + 2*len(s.Curves.Columns); cap(room.Index) < n {
			room.Index, room.Value = make([]uint32, 0, n), make([]float64, 0, n)
		}
		room.Index, room.Value = append(room.Index, x.Index...), append(room.Value, x.Value...)
	}
	*room = s.Curves.Append(*room, x, nil)
	return *room
}

// Fill returns x with the dense columns that it leaves out as the number 0, in the memory of room, which holds
// nothing else then; or x itself where it leaves out none.
func (s *Scaler) Fill(x event.Vec, room *event.Vec) event.Vec {
	out := event.Vec{Index: room.Index[:0], Value: room.Value[:0]}
	from, i := 0, 0
	for _, d := range s.zeros() {
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

// zeros returns the dense columns, which are 0 in an event that leaves them out.
func (s *Scaler) zeros() []uint32 {
	if s.Unfilled {
		return nil
	}
	return s.Dense
}

// FieldsOf is Example.FieldsOf, where a hat is of the field that its number is of.
func (s *Scaler) FieldsOf(e *event.Example, columns []uint32, out []uint16) []uint16 {
	out = e.FieldsOf(columns, out)
	for i := len(out) - 1; i >= 0 && columns[i] >= FirstHat; i-- {
		if at, ok := slices.BinarySearch(columns, s.Curves.Source(columns[i])); ok {
			out[i] = out[at]
		}
	}
	return out
}

// numbers is Each for an x that has its hats.
func (s *Scaler) numbers(x event.Vec) iter.Seq2[uint32, float64] {
	return func(yield func(uint32, float64) bool) {
		// The body of the loop stands once, so that the compiler takes it in.
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

// Apply returns the standardized value of x given its column's statistics, the
// first ScalerWidth values of the row.
func (s *Scaler) Apply(stats []float64, x float64) float64 {
	return s.Clip(stats, s.Deviations(stats, x))
}

// Deviations is Apply without the clip.
func (s *Scaler) Deviations(stats []float64, x float64) float64 {
	if stats[StatInverse] >= 0 {
		return (x - stats[StatCenter]) * stats[StatInverse]
	}
	return transformedDeviations(stats, x)
}

func transformedDeviations(stats []float64, x float64) float64 {
	return (math.Asinh(x/unitOf(stats[StatInverse])) - stats[StatCenter]) * -stats[StatInverse]
}

// Clip bounds Deviations. What lies beyond +-ScalerClip is a wild reading of a
// centered column, and counts as one at +-WildAt for a score as for the statistics;
// of a column that is only divided it counts as the largest one.
func (s *Scaler) Clip(stats []float64, z float64) float64 {
	if z >= -ScalerClip && z <= ScalerClip {
		return z
	}
	return math.Copysign(s.beyond(stats), z)
}

// IsWild says whether a standardized value lies where Clip puts the wild readings of a
// centered column.
func IsWild(value float64) bool { return math.Abs(value) == WildAt }

func (s *Scaler) beyond(stats []float64) float64 {
	switch {
	case stats[StatCenter] != 0:
		return WildAt
	case s.Mode == StandardizeAll:
		return ScalerClip // where it is rare its usual value lies there
	}
	return 1
}

// Standardization says in numbers what Apply does: with t = x, or asinh(x/Unit) if Unit is not
// 0, it returns z = (t - Center)/Scale, or where that lies beyond +-ScalerClip
// +-Beyond. Scale is 0 for a column that has no scale yet, of which Apply makes 0.
type Standardization struct {
	Transform Transform `json:"transform,omitempty"` // asinh where Unit is not 0
	Unit      float64   `json:"unit,omitempty"`
	Center    float64   `json:"center"`
	Scale     float64   `json:"scale"`
	Beyond    float64   `json:"beyond,omitempty"`
}

// Standardization returns that of a column with such statistics.
func (s *Scaler) Standardization(stats []float64) Standardization {
	f := Standardization{Center: stats[StatCenter], Unit: unitOf(stats[StatInverse]), Beyond: s.beyond(stats)}
	if stats[StatInverse] != 0 {
		f.Scale = 1 / math.Abs(stats[StatInverse])
	}
	if f.Unit != 0 {
		f.Transform = TransformAsinh
	}
	return f
}

// Observe counts x, which is z Deviations from the center, into the statistics of a
// column that is centered and scaled.
// When that renews the center mu and scale s in force it returns the ratio s'/s
// and the shift (mu'-mu)/s. The score w (x-mu)/s + b stays what it was if then
//
//	b += w shift  and  w *= ratio;
//
// nothing moved when ratio is 1 and shift 0. A wild reading is counted as Clip has
// it, and the weights then stay as they are.
func (s *Scaler) Observe(stats []float64, x, z float64) (ratio, shift float64) {
	wild := s.Gather(stats, x, z)
	if !Renews(stats[StatCount]) {
		return 1, 0
	}
	return renew(stats, wild)
}

// Renews says whether the n-th reading of a column renews what is in force: one of the first, and those
// at sixteenths of the power of two below n, where all but four bits of the mantissa are 0.
func Renews(n float64) bool { return n <= FirstReadings || math.Float64bits(n)&(1<<48-1) == 0 }

// Gather is Observe without renewing what is in force: for a learner that leaves that to
// others. It says whether x is a wild reading.
func (s *Scaler) Gather(stats []float64, x, z float64) (wild bool) {
	_ = stats[ScalerWidth-1]
	n, inverse := stats[StatCount]+1, stats[StatInverse]
	wild = z > ScalerClip || z < -ScalerClip
	switch {
	case wild && inverse != 0:
		x = stats[StatCenter] + math.Copysign(WildAt, z)/math.Abs(inverse)
	case inverse < 0:
		x = stats[StatCenter] - z/inverse
	}
	AddReading((*[ScalerWidth]float64)(stats), n, x)
	return wild
}

// AddReading counts x, the n-th reading of a column, into its moments.
func AddReading(stats *[ScalerWidth]float64, n, x float64) {
	d := x - stats[StatMean]
	mean := stats[StatMean] + d/n
	stats[StatCount], stats[StatMean], stats[StatSquares] = n, mean, stats[StatSquares]+d*(x-mean)
}

// RenewsBetween says whether Observe would renew what is in force when the count grows
// from one number to another.
func RenewsBetween(from, to float64) bool {
	if from < FirstReadings {
		return to > from
	}
	return math.Float64bits(from)>>48 != math.Float64bits(to)>>48
}

// Renew puts the mean and deviation of a column's statistics in force, and returns what
// Observe does.
func Renew(stats []float64) (ratio, shift float64) { return renew(stats, false) }

// renew puts the mean and deviation in force.
func renew(stats []float64, wild bool) (ratio, shift float64) {
	n, mean, center, inverse := stats[StatCount], stats[StatMean], stats[StatCenter], stats[StatInverse]
	renewed := packUnit(inverseScale(mean, stats[StatSquares]/n), unitOf(inverse))
	if inverse < 0 && renewed == 0 {
		return 1, 0 // the unit would be lost
	}
	stats[StatCenter], stats[StatInverse] = mean, renewed
	if wild || inverse == 0 || renewed == 0 {
		// Either w is 0 still, or its slope means nothing where x has gone.
		return 1, 0
	}
	return inverse / renewed, (mean - center) * math.Abs(inverse)
}

// Two of the statistics mean something else for a column that is only divided. It is watched
// from a certain reading on, for watchScale readings. While it is, the other one is
// the largest |x| within the scale, or minus the number of wild readings that have
// come since there was one within it.
const (
	statLargest = StatMean
	statWatched = StatSquares
	watchScale  = 32
	unwatched   = math.MaxFloat64
	// A column whose scale could turn out to be too large is watched again after as many
	// readings as it has had, at most watchEvery.
	watchEvery = 1024
	// lastingWild wild readings in a row are a change that lasts.
	lastingWild = 8
)

// CountWithin is ObserveScale for the n-th reading of a column, one of size a within its scale. It does nothing and returns
// false if the reading may change the scale.
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

// ObserveScale counts x into the statistics of a column that is divided by the
// largest |x| seen, or left alone while that is at most 1. It returns the ratio
// s'/s as Observe does.
//
// The scale at most doubles at a time, and not for a wild reading, which lies beyond
// ScalerClip times the scale, unless such readings last. Where later ones show that
// the scale is more than ScalerClip times too large it becomes the largest of them,
// and the weights must stay as they are: shrunk is true.
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
		wild := 1.0
		if watched {
			wild += max(0, -stats[statLargest])
		}
		stats[statLargest], stats[statWatched] = -wild, n+1
		if wild < lastingWild {
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

// watch has a column watched from a reading on, unless its scale is so small that it
// cannot be ScalerClip times too large.
func watch(stats []float64, from float64) {
	if stats[statLargest] = 0; stats[StatInverse]*ScalerClip >= 1 {
		from = unwatched
	}
	stats[statWatched] = from
}

// Unwatch sets the statistics of a column from now on only divided, which are those
// of another kind.
func Unwatch(stats []float64) { stats[statLargest], stats[statWatched] = 0, unwatched }

// ObserveSpread counts x into the statistics of a column that is the number 0 in
// all other of total events, this one included, and is divided by its deviation
// over all of them; by more if its usual value would lie beyond the clip else.
// The mean and the sum of squares are those of the events that hold it. It
// returns the ratio s'/s as Observe does.
func (s *Scaler) ObserveSpread(stats []float64, x, total float64) (ratio float64) {
	_ = stats[ScalerWidth-1]
	n, inverse := stats[StatCount]+1, stats[StatInverse]
	wild := false
	bound := float64(ScalerClip)
	if n <= 8 {
		bound *= ScalerClip // the deviation of so few is not known
	}
	if z := x * inverse; z > bound || z < -bound {
		x, wild = math.Copysign(ScalerClip, z)/inverse, true
	}
	d := x - stats[StatMean]
	stats[StatCount] = n
	stats[StatMean] += d / n
	stats[StatSquares] += d * (x - stats[StatMean])
	if !Renews(n) {
		return 1 // as in Observe
	}
	stats[StatInverse] = SpreadInverse(stats, total)
	if wild || n <= FirstReadings || inverse == 0 || stats[StatInverse] == 0 {
		return 1
	}
	return inverse / stats[StatInverse]
}

// SpreadInverse returns what ObserveSpread's statistics say a column is to be
// multiplied by, 0 if it was never anything but 0.
func SpreadInverse(stats []float64, total float64) float64 {
	n, mean, m2 := stats[StatCount], stats[StatMean], stats[StatSquares]
	deviation := math.Sqrt((m2 + mean*mean*n*(total-n)/total) / total)
	usual := math.Sqrt(mean*mean + m2/n)
	if scale := max(deviation, usual/ScalerClip); scale > 1e-200 {
		return 1 / scale
	}
	return 0
}

// Standardized appends to out the features of an event as the weights see them:
// every column that has a row, through the Scaler, and the dense columns that
// the event leaves out as the number 0.
func (m *Linear) Standardized(e *event.Example, out event.Vec) event.Vec {
	e = m.declared(e)
	standardizes := m.standardizes()
	for column, x := range m.Scaler.Each(e.Features) {
		if e.LacksColumn(m.Scaler.Curves.Source(column)) {
			continue
		}
		if standardizes {
			row := m.Rows.Row(column)
			if row == nil {
				continue
			}
			x = m.Scaler.Apply(m.Stats(row), x)
		}
		out.Index = append(out.Index, column)
		out.Value = append(out.Value, x)
	}
	return out
}

func (h *Head) standardizes() bool {
	return h.Layout.Stats >= 0 && h.Scaler.Mode != StandardizeNone && h.Scaler.Mode != ""
}

// Stats returns the column's statistics that a row holds, for the Scaler's Apply;
// nil where nothing is standardized.
func (h *Head) Stats(row []float64) []float64 {
	if !h.standardizes() {
		return nil
	}
	return row[h.Layout.Stats:][:ScalerWidth]
}

// WithScaler returns m with the Scaler of another model and its statistics: m was
// trained on what that made of the features.
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

// CopyStats copies the statistics of every column into its row of another Table,
// where they begin at the given place. Without statistics it does nothing.
func (m *Linear) CopyStats(to *Table, at int) {
	if m.Layout.Stats < 0 {
		return
	}
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		copy(to.Touch(column)[at:], row[m.Layout.Stats:][:ScalerWidth])
	}
}
