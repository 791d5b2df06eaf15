package batch

// This file estimates the covariance of the numeric columns of a training set. An exactly trained model imputes missing
// numbers with it.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/impute"
)

const (
	// covarianceRows is the largest number of rows that are used; a larger set is sampled evenly.
	covarianceRows = 50_000
	// covarianceRounds is the number of EM rounds. covarianceWork limits the cost of a round, in columns cubed. If all
	// rows with missing values would cost more, a sample of at least covarianceLeast rows represents them.
	covarianceRounds, covarianceWork, covarianceLeast = 5, 1 << 28, 200
)

// Covariance returns the covariance of at most columns numeric columns of d, or nil if d has fewer than two numeric
// columns. Numeric columns are the columns of numeric fields, and the columns of the anonymous field that at least 90 %
// of the rows have.
//
// For a row with missing values, Covariance uses the expectation and covariance of these values given the row's other
// values. Both are computed from the covariance itself, by the EM algorithm. An outlier counts as missing.
func (p *Presence) Covariance(m model.Model, d *Data, columns int) *model.Covariance {
	v := newNumericRows(p, m, d, min(columns, model.MaxCovariance))
	n := len(v.columns)
	if n < 2 {
		return nil
	}
	v.findOutliers()
	whole := impute.NewSums(n) // sums of the complete rows, equal in every round
	var missing []int
	for _, i := range v.rows {
		if v.read(i) {
			whole.Add(d.Weight(i), v.x)
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return v.covariance(whole)
	}
	sample := evenly(missing, max(covarianceLeast, covarianceWork/(n*n*n)))
	stand := float64(len(missing)) / float64(len(sample))
	c := v.covariance(v.apart())
	for range covarianceRounds {
		if c == nil {
			break
		}
		type pattern struct {
			fill   *model.Imputation
			weight float64
		}
		var met []*pattern // missing patterns in the order of the rows, which fixes the order of sums
		place := map[string]*pattern{}
		all := whole.Clone()
		for _, i := range sample {
			v.read(i)
			q := place[string(v.parts)]
			if q == nil {
				q = &pattern{fill: c.Imputation(v.parts)}
				place[string(v.parts)] = q
				met = append(met, q)
			}
			q.fill.Expect(v.x)
			w := stand * d.Weight(i)
			all.Add(w, v.x)
			q.weight += w
		}
		for _, q := range met {
			q.fill.AddResidual(q.weight, all.Squares)
		}
		c = v.covariance(all)
	}
	return c
}

// numericRows reads the values of the numeric columns of Data.
type numericRows struct {
	*Data
	p            *Presence
	kinds        []fieldsOf
	rows         []int
	columns      []uint32
	fields       []uint16 // fields by index, see model.Covariance
	own          []uint16 // the numeric field itself, by index
	place        []int    // index by compact column; -1 for columns that are not numeric
	standardized bool
	mean, reach  []float64 // by index: values farther than reach from mean are outliers

	x     []float64
	parts model.ColumnRoles
	has   model.FieldSet
}

func newNumericRows(p *Presence, m model.Model, d *Data, most int) *numericRows {
	v := &numericRows{Data: d, p: p, kinds: p.kinds(), place: make([]int, d.Columns())}
	mode := m.About().Scaler.Mode
	v.standardized = mode != "" && mode != model.StandardizeNone
	var all []int
	for i := range d.Rows() {
		if d.Weight(i) > 0 {
			all = append(all, i)
		}
	}
	v.rows = evenly(all, covarianceRows)
	held := make([]int, d.Columns())
	ones := make([]int, d.Columns())
	for _, i := range v.rows {
		row := d.Row(i)
		for j, c := range row.Index {
			held[c]++
			if row.At(j) == 1 {
				ones[c]++
			}
		}
	}
	first := firstFields(d.Schema.Fields)
	for c := range v.place {
		v.place[c] = -1
		column := d.Column(c)
		id := d.fields.of(column)
		numeric := id == 0 && 10*held[c] >= 9*len(v.rows) && ones[c] < held[c]
		if id != 0 {
			numeric = d.Schema.Fields[id].Kind == event.Numeric
		}
		if numeric && len(v.columns) < most {
			v.place[c] = len(v.columns)
			v.columns = append(v.columns, column)
			v.own = append(v.own, id)
			if id != 0 {
				id = uint16(first[id])
			}
			v.fields = append(v.fields, id)
		}
	}
	v.x, v.parts = make([]float64, len(v.columns)), make(model.ColumnRoles, len(v.columns))
	v.has = model.NewFieldSet(len(d.Schema.Fields))
	return v
}

// firstFields returns, by field, the first field with its name.
func firstFields(fields []event.Field) (out []int) {
	first := map[string]int{}
	for id, f := range fields {
		if _, ok := first[f.Name]; !ok {
			first[f.Name] = id
		}
		out = append(out, first[f.Name])
	}
	return out
}

// read sets x to the values of row i, by index of the column. It sets parts to the role of each column in that row:
// observed or to impute. The result whole reports whether no value must be imputed.
func (v *numericRows) read(i int) (whole bool) {
	clear(v.has)
	if len(v.p.rows.of) == v.Rows() {
		v.has.Add(v.kinds[v.p.rows.of[i]].present)
	}
	clear(v.x)
	for at, id := range v.own {
		v.parts[at] = model.Observed
		if id != 0 && !v.has.Has(id) || id == 0 && v.Schema.ColumnsGoMissing() {
			v.parts[at] = model.Imputed
		}
	}
	row := v.Row(i)
	for j, c := range row.Index {
		at := v.place[c]
		if at < 0 {
			continue
		}
		x := row.At(j)
		v.x[at], v.parts[at] = x, model.Observed
		if v.isOutlier(at, x) {
			v.parts[at] = model.Imputed
		}
	}
	return !slices.Contains(v.parts, model.Imputed)
}

func (v *numericRows) isOutlier(at int, x float64) bool {
	return v.reach != nil && !(math.Abs(x-v.mean[at]) <= v.reach[at]) || v.standardized && model.IsOutlier(x)
}

// findOutliers sets reach, by index of the column. A value farther than reach from the mean is an outlier. The limit is
// computed from the standard deviation of the values that are not yet classified as outliers.
func (v *numericRows) findOutliers() {
	for range 3 {
		m := v.apart()
		reach := make([]float64, len(v.columns))
		for at := range reach {
			reach[at] = model.ScalerClip * math.Sqrt(m.Squares[at*(len(reach)+1)])
		}
		v.mean, v.reach = m.Mean, reach
	}
}

// apart returns the moments of the columns as if the columns were independent. The moments of a column are over the
// rows that have a value in it.
func (v *numericRows) apart() impute.Sums {
	n := len(v.columns)
	weight, mean, squares := make([]float64, n), make([]float64, n), make([]float64, n)
	for _, i := range v.rows {
		v.read(i)
		w := v.Weight(i)
		for at, part := range v.parts {
			if part == model.Observed {
				weight[at] += w
				off := v.x[at] - mean[at]
				mean[at] += off * w / weight[at]
				squares[at] += w * off * (v.x[at] - mean[at])
			}
		}
	}
	m := impute.NewSums(n)
	m.Weight, m.Mean = 1, mean
	for at := range n {
		if weight[at] > 0 {
			m.Squares[at*(n+1)] = squares[at] / weight[at]
		}
	}
	return m
}

// covariance returns the covariance of the columns from sums over rows, or nil if the rows have no weight.
func (v *numericRows) covariance(s impute.Sums) *model.Covariance {
	return s.Covariance(v.columns, v.fields, 1)
}
