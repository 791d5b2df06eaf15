package batch

// This file fits a Scaler to a whole training set.

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Standardizer fits a model.Scaler to a whole training set. The Scaler does not change afterwards. The zero value is
// ready for use.
type Standardizer struct {
	// Transform is the transform of numeric fields. "" means auto. FieldTransform overrides it by field name.
	Transform      model.Transform
	FieldTransform map[string]model.Transform
	// Presence adds a presence hat (model.Present) to each numeric column that more than one in ten examples omit. The
	// hat is 1 where the number is present. null does not count as omitted.
	Presence bool

	fields map[uint32]uint16 // of columns that are not Sparse
	nulls  []uint64          // by field, the number of examples in which it is null
}

// Observe records the fields of an example's columns, and those that are null in it. Examples without fields need not
// be observed.
func (s *Standardizer) Observe(e *event.Example, schema *event.Schema) {
	for _, field := range e.Missing {
		for int(field) >= len(s.nulls) {
			s.nulls = append(s.nulls, 0)
		}
		s.nulls[field]++
	}
	for i, field := range e.Field {
		if schema.Fields[field].Kind == event.Sparse {
			continue
		}
		if s.fields == nil {
			s.fields = map[uint32]uint16{}
		}
		s.fields[e.Features.Index[i]] = field
	}
}

// transformOf returns the Transform of a field.
func (s *Standardizer) transformOf(f event.Field) model.Transform {
	if t, ok := s.FieldTransform[f.Name]; ok {
		return t
	}
	return cmp.Or(s.Transform, model.TransformAuto)
}

// transformSample is the largest number of readings of a column, evenly sampled, that choose its transform.
const transformSample = 4096

// begin returns two numbers for each compact column. units is the divisor inside the transform of a numeric field, 0
// without a transform. reach is the distance beyond which a reading is an outlier, for columns that may be centered. n
// holds the counts of readings.
func (s *Standardizer) begin(d *Data, scaler *model.Scaler, n []float64) (units []float64, reach reaches) {
	units, reach = make([]float64, len(n)), reaches{make([]float64, len(n)), make([]float64, len(n))}
	transforms, samples, met := make([]model.Transform, len(n)), make([][]float64, len(n)), make([]int, len(n))
	for c := range n {
		field, named := s.fields[d.Column(c)]
		switch {
		case named && d.Schema.Fields[field].Kind == event.Numeric:
			transforms[c] = s.transformOf(d.Schema.Fields[field])
		case scaler.Mode == model.StandardizeAll || !named && 10*n[c] >= 9*float64(d.Rows()):
			transforms[c] = model.TransformNone
		}
	}
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			if transforms[c] == "" {
				continue
			}
			if every := 1 + int(n[c])/transformSample; met[c]%every == 0 {
				samples[c] = append(samples[c], row.At(j))
			}
			met[c]++
		}
	}
	for c, readings := range samples {
		if len(readings) > 0 {
			slices.Sort(readings)
			if transforms[c] != model.TransformNone {
				units[c] = scaler.Unit(readings, transforms[c])
			}
			if units[c] != 0 {
				for i, x := range readings {
					readings[i] = math.Asinh(x / units[c])
				}
			}
			if len(readings) >= model.FirstReadings {
				reach.center[c], reach.far[c] = model.Fence(readings)
			}
		}
	}
	return units, reach
}

// maxFilled is the largest number of entries of a set whose zeros are stored.
const maxFilled = 1 << 28

// Fit returns d as transformed by the Scaler, and the Scaler with its statistics as a model without outputs. Columns
// are treated as the online learner treats them in the end (see model.StandardizeAuto and the other modes), with the
// statistics of all of d. For numeric columns these are over the examples that have them, of the transformed readings
// without outliers (see reaches). For dense columns of sparse formats absent values count as 0. StandardizeAll treats
// every column that is not numeric as dense.
func (s *Standardizer) Fit(d *Data, mode model.Standardize) (*Data, *model.Linear, error) {
	n := make([]float64, d.Columns())
	for i := range d.Rows() {
		for _, c := range d.Row(i).Index {
			n[c]++
		}
	}
	m := &model.Linear{Head: model.Head{Schema: d.Schema, Scaler: model.Scaler{Mode: mode},
		Layout: model.Layout{Width: model.ScalerWidth}}, Rows: model.NewTable(model.ScalerWidth)}
	units, reach := make([]float64, len(n)), reaches{make([]float64, len(n)), make([]float64, len(n))}
	if mode != model.StandardizeScale {
		units, reach = s.begin(d, &m.Scaler, n)
	}
	reach.grow(d, units)
	r := readingsOf(d, units, reach)
	numeric, err := s.treat(d, m, r, units)
	if err != nil {
		return nil, nil, err
	}
	if s.Presence {
		s.findPresence(d, m, r.n, numeric)
	}
	b := Builder{Curves: m.Scaler.Curves}
	var raw, x event.Vec
	for i := range d.Rows() {
		raw = d.Vec(i, raw)
		x = m.Standardized(&event.Example{Features: raw}, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		if err := b.Add(&event.Example{Features: x, Label: d.Label(i), Target: d.Target(i), Weight: d.Weight(i)}); err != nil {
			return nil, nil, err
		}
	}
	b.d.fields = d.fields
	return b.Data(d.Schema), m, nil
}

// readings holds the statistics of columns: the number of readings, their mean, the sum of their squared deviations,
// the largest size, and whether all are 1.
type readings struct {
	n, mean, m2, largest []float64
	ones                 []bool
}

// add adds a reading of a column.
func (r *readings) add(c int, x float64) {
	r.n[c]++
	delta := x - r.mean[c]
	r.mean[c] += delta / r.n[c]
	r.m2[c] += delta * (x - r.mean[c])
}

// readingsOf returns the statistics of the transformed readings. As in the online learner, an outlier counts as a
// reading at the bound that the other readings set.
func readingsOf(d *Data, units []float64, reach reaches) *readings {
	size := d.Columns()
	r := &readings{make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, size), slices.Repeat([]bool{true}, size)}
	wild := make([][2]int, size) // readings below and above the others
	d.eachReading(units, func(c int, x float64) {
		switch z := x - reach.center[c]; {
		case z < -reach.far[c]:
			wild[c][0]++
		case z > reach.far[c]:
			wild[c][1]++
		default:
			r.add(c, x)
			r.largest[c] = max(r.largest[c], math.Abs(x))
			r.ones[c] = r.ones[c] && x == 1
		}
	})
	for c, w := range wild {
		center, far := r.mean[c], model.WildAt*math.Sqrt(r.m2[c]/r.n[c])
		for side, x := range [2]float64{center - far, center + far} {
			for range w[side] {
				r.add(c, x)
				r.ones[c] = false
			}
		}
	}
	return r
}

// treat decides how each column is treated and writes its statistics to m. It returns which columns are numeric.
func (s *Standardizer) treat(d *Data, m *model.Linear, r *readings, units []float64) (numeric []bool, err error) {
	mode := m.Scaler.Mode
	total := float64(d.Rows())
	m.Scaler.Unfilled = d.Schema.ColumnsGoMissing()
	numeric = make([]bool, len(r.n))
	for c := range r.n {
		column := d.Column(c)
		kind := d.Schema.Fields[s.fields[column]].Kind
		dense := mode == model.StandardizeAll && kind != event.Numeric ||
			mode == model.StandardizeAuto && kind == event.Sparse && 10*r.n[c] >= 9*total && !r.ones[c]
		stats := m.Rows.Touch(column)
		switch {
		case dense || kind == event.Numeric && mode != model.StandardizeScale:
			numeric[c] = true
			if dense && !m.Scaler.Unfilled {
				m.Scaler.Dense = append(m.Scaler.Dense, column)
				// Add the zeros that are not stored.
				r.m2[c] += r.mean[c] * r.mean[c] * r.n[c] * (total - r.n[c]) / total
				r.mean[c] *= r.n[c] / total
				r.n[c] = total
			}
			m.Scaler.Set(stats, r.n[c], r.mean[c], r.m2[c], units[c])
		case kind == event.Sparse || kind == event.Cross || mode == model.StandardizeScale:
			stats[model.StatCount], stats[model.StatInverse] = r.n[c], 1/max(1, r.largest[c])
		default:
			stats[model.StatCount], stats[model.StatInverse] = r.n[c], 1
		}
	}
	if len(m.Scaler.Dense)*d.Rows() > maxFilled {
		return nil, fmt.Errorf("standardizing %d columns of %d examples would fill in every zero, %d numbers: take auto or scale", len(m.Scaler.Dense), d.Rows(), len(m.Scaler.Dense)*d.Rows())
	}
	slices.Sort(m.Scaler.Dense)
	return numeric, nil
}

// seldom reports whether many examples omit the numeric column c, which n examples hold.
func (s *Standardizer) seldom(d *Data, c int, n float64) bool {
	there := uint64(n)
	if field := int(s.fields[d.Column(c)]); field < len(s.nulls) {
		there += s.nulls[field]
	}
	return model.Seldom(there, uint64(d.Rows()))
}

// findPresence adds a presence hat (model.Present) to the Scaler of m for each numeric column that many examples omit.
// n holds the counts of readings.
func (s *Standardizer) findPresence(d *Data, m *model.Linear, n []float64, numeric []bool) {
	curves := &model.Curves{}
	for c := range n {
		if numeric[c] && s.seldom(d, c, n[c]) && len(curves.Columns) < model.MaxCurves {
			curves.Columns, curves.Knots = append(curves.Columns, d.Column(c)), append(curves.Knots, model.Present())
		}
	}
	if len(curves.Columns) == 0 {
		return
	}
	m.Scaler.Curves = curves
	for i := range curves.Columns {
		m.Rows.Touch(curves.Hat(i, 0))[model.StatInverse] = 1
	}
}
