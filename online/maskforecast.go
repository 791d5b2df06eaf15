package online

// This file holds the forecasts of two classes where a score is not close to normal when
// features die: where events are filled in, and where numbers have curves.

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"blankout/model"
)

// alike is a mask that many events in a row have in common: by column, the last point of a
// forecast that it survives. What is worked out for one event then serves for the others.
//
// Eight masks in a row take each column to each eighth of the rates once, so that their
// mean says more than that of eight masks that know nothing of each other.
type alike struct {
	// The event that the mask begins with, and the Covariance that fills are of.
	start      uint64
	covariance *model.Covariance
	// By point, for events that hold every column of the Covariance: the places of those
	// that are filled in and of the others, and what model.Fill.From says; nil until needed.
	filled, observed [ForecastPoints][]int
	from             [ForecastPoints][]float64

	// The event at hand.
	left  [][ForecastPoints]float64 // by level: what survives of the score
	wrong [][ForecastPoints]float64 // by level
	base  []float64                 // by level: the published intercept
	w     []float64                 // by level and place: the published weight
	off   []float64                 // by place: the deviation from the mean
	seen  []float64                 // off of the columns that are left
	fill  []float64                 // what is expected of the columns that are filled in
}

const (
	// A mask serves for alikeFirst of the first events and for alikeLater of the later ones,
	// and for longer where there are many columns.
	alikeFirst, alikeLater = 64, 64
	alikeFirstEvents       = 4096
	// An event that lacks some columns of the Covariance has a pattern of its own: one in
	// forecastFilled such events takes one point.
	forecastFilled = 8
)

// maskAlike returns for each row of the event at hand the last point that it survives.
func (l *answering) maskAlike() []int8 {
	m, n := &l.masked.alike, uint64(len(l.filling.columns))
	length := max(alikeFirst, 2*n)
	if l.events > alikeFirstEvents {
		length = max(alikeLater, 8*n)
	}
	number := l.events / length
	if start := number * length; start != m.start || m.covariance != l.filling.covariance {
		m.start, m.covariance = start, l.filling.covariance
		clear(m.filled[:])
		clear(m.observed[:])
		clear(m.from[:])
	}
	rows := len(l.features())
	last := l.masked.last[:0]
	for len(last) < rows {
		last = append(last, 0)
	}
	var r rand.PCG
	for i, column := range l.now.columns[:rows] {
		r.Seed(uint64(column)^0x626c616e6b6f7574, length<<32^number/8)
		last[l.rowOf(i)] = pointOf(r.Uint64() ^ bits.Reverse64(number%8))
	}
	if l.groups != nil {
		l.groups.Together(last)
	}
	l.masked.last = last
	return last
}

// rowOf returns the row of a feature of the event at hand.
func (l *bank) rowOf(feature int) int {
	if l.groups != nil {
		return l.groups.Row(feature)
	}
	return feature
}

// forecastMasked finds out, for each level and those of the points that are asked for,
// whether the event at hand is answered wrongly under a mask: 1 or 0, NaN where it is not
// the point's turn. An event that lacks something by itself is not filled in here.
func (l *answering) forecastMasked(points uint, label int) [][ForecastPoints]float64 {
	m := &l.masked.alike
	m.wrong = zeros(m.wrong, len(l.levels))
	last, lack, decision, complete := l.maskAlike(), l.fields(), l.decision(), false
	var places []int
	if l.filling.covariance != nil && !lack.Some() {
		places = l.fillPlaces()
		complete = bytes.IndexByte(l.filling.has, model.Apart) < 0
		m.off = append(m.off[:0], l.filling.x...)
		for at, mean := range l.filling.covariance.Mean {
			m.off[at] -= mean
		}
	}
	l.sumLeft(last, places)
	number, stride := l.events/forecastEvery, uint64(1+len(l.filling.columns)/64)
	for point := 1; point < ForecastPoints; point++ {
		if points&(1<<point) == 0 {
			continue
		}
		alive, of := l.survivors(last, point)
		deleted := lack.Deleted((of - alive) / of)
		scale, filled := l.missing.model.Scale(deleted), l.fillsLack(deleted)
		turn := (number+uint64(point))%stride == 0
		if filled && !complete {
			turn = !lack.Some() && l.events%forecastFilled == 0 && l.events/forecastFilled%(ForecastPoints-1) == uint64(point-1)
		}
		if !turn {
			for v := range m.wrong {
				m.wrong[v][point] = math.NaN()
			}
			continue
		}
		var which []int
		if filled {
			which = l.fillPoint(places, last, point, complete)
		}
		for v := range m.wrong {
			f, w := m.left[v][point], m.w[v*len(m.off):]
			for a, x := range m.fill[:len(which)] {
				f += x * w[which[a]]
			}
			l.missing.event.out[0] = m.base[v] + scale*f
			if decision.Predict(l.missing.event.out[:1]) != label {
				m.wrong[v][point] = 1
			}
		}
	}
	return m.wrong
}

// fillPoint returns the places of the columns that are filled in at a point, and sets fill to
// what is expected of them.
func (l *answering) fillPoint(places []int, last []int8, point int, complete bool) []int {
	m, f := &l.masked.alike, &l.filling
	if !complete {
		l.fillDeleted(places, last, point)
		which := f.parts.Places(model.Filled) // of one point of the event: f.x does not hold it any more
		m.fill = m.fill[:0]
		for _, at := range which {
			m.fill = append(m.fill, f.x[at])
		}
		return which
	}
	if m.from[point] == nil {
		l.partsLeft(places, last, point)
		if fill := f.covariance.Fill(f.parts); fill != nil {
			m.filled[point], m.observed[point] = f.parts.Places(model.Filled), f.parts.Places(model.Observed)
			m.from[point] = fill.From()
		}
	}
	which, observed := m.filled[point], m.observed[point]
	m.fill, m.seen = m.fill[:0], m.seen[:0]
	for _, at := range which {
		m.fill = append(m.fill, f.covariance.Mean[at])
	}
	for _, at := range observed {
		m.seen = append(m.seen, m.off[at])
	}
	if rows, columns := len(which), len(observed); rows > 0 && columns > 0 {
		blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: rows, Cols: columns, Data: m.from[point], Stride: columns},
			blas64.Vector{N: columns, Data: m.seen, Inc: 1}, 1, blas64.Vector{N: rows, Data: m.fill, Inc: 1})
	}
	return which
}

// sumLeft sets base and w, and left to the published scores of the features that survive.
// places are those of fillPlaces, nil where nothing is filled in.
func (l *answering) sumLeft(last []int8, places []int) {
	m, x := &l.masked.alike, l.now.step.X
	n := len(m.off)
	m.base, m.left = m.base[:0], zeros(m.left, len(l.levels))
	m.w = zeros(m.w, len(l.levels)*n)
	for v := range l.levels {
		l.interceptsOf(v, l.missing.event.base)
		m.base = append(m.base, l.missing.event.base[0])
		c, at, lag, left := l.levels[v].lagShare(), model.ScalerWidth+v, 2*l.n, &m.left[v]
		for i, row := range l.features() {
			w := row[at] + c*row[at+lag]
			left[last[i]] += x[i] * w
			if places != nil && places[i] >= 0 {
				m.w[v*n+places[i]] = w
			}
		}
		for point := ForecastPoints - 2; point >= 0; point-- {
			left[point] += left[point+1]
		}
	}
}

// maskedPoints returns the points of a forecast of two classes that masks are drawn for,
// as bits: those where events are filled in, their neighbours, as the share that dies of
// an event may be in either's range, and all of them where there are curves.
func (l *answering) maskedPoints() (points uint) {
	if c := l.scaling.scaler.Curves; l.set.curves && c != nil && len(c.Columns) > 0 {
		return 1<<ForecastPoints - 2
	}
	filled := l.filledPoints()
	return (filled<<1 | filled | filled>>1) & (1<<ForecastPoints - 2)
}

// zeros returns n zero values, in the memory of list where that is large enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}
