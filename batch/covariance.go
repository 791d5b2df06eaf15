package batch

// This file estimates the covariance of the numeric columns of a training set. An exactly trained model imputes missing
// numbers with it.

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/impute"
)

const (
	// outlierRounds is the number of rounds that find outliers. The first round takes no value for an outlier.
	outlierRounds = 3
	// covarianceRounds is the number of EM rounds. covarianceWork limits the cost of a round, in columns cubed. If all
	// rows with missing values would cost more, a sample of at least covarianceLeast rows represents them.
	covarianceRounds, covarianceWork, covarianceLeast = 5, 1 << 28, 200
)

// Covariance returns the covariance of at most columns numeric columns of d, or nil if d has fewer than two numeric
// columns. Numeric columns are the columns of numeric fields, and the columns of the anonymous field that at least 90 %
// of the rows have. The model m has the Scaler of d. Covariance uses the kept examples.
//
// For a row with missing values, Covariance uses the expectation and covariance of these values given the row's other
// values. Both are computed from the covariance itself, by the EM algorithm. An outlier counts as missing.
func (p *Presence) Covariance(m *model.Linear, d *Data, columns int) *model.Covariance {
	v := p.newNumericRows(m, d, min(columns, model.MaxCovariance))
	n := len(v.columns)
	if n < 2 {
		return nil
	}
	for range outlierRounds {
		if v.m.Covariance = v.independent(); v.m.Covariance == nil {
			return nil
		}
	}
	whole := impute.NewSums(n) // sums of the complete rows, equal in every round
	var missing []int
	for i := range v.kept {
		if v.read(i) {
			whole.Add(v.weight(i), v.x)
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return v.covariance(whole)
	}
	sample := evenly(missing, max(covarianceLeast, covarianceWork/(n*n*n)))
	stand := float64(len(missing)) / float64(len(sample))
	c := v.m.Covariance
	for round := 0; round < covarianceRounds && c != nil; round++ {
		type pattern struct {
			fill   *model.Imputation
			weight float64
		}
		var met []*pattern // missing patterns in the order of the rows, which fixes the order of sums
		place := map[string]*pattern{}
		all := whole.Clone()
		for _, i := range sample {
			v.read(i)
			q := place[string(v.roles)]
			if q == nil {
				q = &pattern{fill: c.Imputation(v.roles)}
				place[string(v.roles)] = q
				met = append(met, q)
			}
			q.fill.Expect(v.x)
			w := stand * v.weight(i)
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

// numericRows reads the values of the numeric columns of kept examples.
type numericRows struct {
	*Data
	m       *model.Linear // its Covariance determines which values are outliers
	kept    []keptExample
	columns []uint32
	fields  []uint16 // fields by index, see model.Covariance
	present model.FieldSet
	row     event.Vec

	x     []float64 // values of the last row that was read, by index
	roles model.ColumnRoles
}

func (p *Presence) newNumericRows(m *model.Linear, d *Data, most int) *numericRows {
	v := &numericRows{Data: d, present: model.NewFieldSet(len(d.Schema.Fields))}
	held, ones := make([]int, d.Columns()), make([]int, d.Columns())
	for _, k := range p.kept {
		if d.Weight(k.row) == 0 {
			continue
		}
		v.kept = append(v.kept, k)
		row := d.Row(k.row)
		for j, c := range row.Index {
			if held[c]++; row.At(j) == 1 {
				ones[c]++
			}
		}
	}
	for c, column := range d.columns {
		id := d.fields.of(column)
		numeric := id == 0 && 10*held[c] >= 9*len(v.kept) && ones[c] < held[c]
		if id != 0 {
			numeric = d.Schema.Fields[id].Kind == event.Numeric
			id = uint16(slices.IndexFunc(d.Schema.Fields, func(f event.Field) bool { return f.Name == d.Schema.Fields[id].Name }))
		}
		if numeric && len(v.columns) < most {
			v.columns, v.fields = append(v.columns, column), append(v.fields, id)
		}
	}
	missing := p.use.Review(&model.Missing{ColumnsCanBeMissing: d.Schema.ColumnsGoMissing()}, d.Schema.Fields)
	v.m = m.WithMissing(missing)
	n := len(v.columns)
	first := impute.NewSums(n)
	first.Weight = 1
	for at := range n {
		first.Squares[at*(n+1)] = 1e60 // no value is an outlier
	}
	v.m.Covariance = v.covariance(first)
	return v
}

func (v *numericRows) weight(i int) float64 { return v.Weight(v.kept[i].row) }

// read sets x to the values of kept example i, and roles to the role of each column: observed or to impute. The result
// whole reports whether no value must be imputed.
func (v *numericRows) read(i int) (whole bool) {
	e := &v.kept[i].Example
	v.m.Missing.CountMissing(v.Schema.Fields, e, v.present)
	v.roles, _ = v.m.AllRoles(e, v.present, v.roles)
	v.row = v.Vec(v.kept[i].row, v.row)
	v.m.MarkOutliers(v.row, v.roles)
	v.x = v.m.Covariance.Values(v.row, v.x)
	whole = true
	for at, role := range v.roles {
		if role == model.Ignored {
			v.roles[at] = model.Imputed
		}
		whole = whole && v.roles[at] == model.Observed
	}
	return whole
}

// independent returns the covariance of the columns as if they were independent. The moments of a column are over the
// rows that have a value in it that is no outlier.
func (v *numericRows) independent() *model.Covariance {
	n := len(v.columns)
	of := make([]impute.Sums, n)
	all := impute.NewSums(n)
	all.Weight = 1
	for at := range of {
		of[at] = impute.NewSums(1)
	}
	for i := range v.kept {
		v.read(i)
		for at, role := range v.roles {
			if role == model.Observed {
				of[at].Add(v.weight(i), v.x[at:at+1])
			}
		}
	}
	for at, s := range of {
		if all.Mean[at] = s.Mean[0]; s.Weight > 0 {
			all.Squares[at*(n+1)] = s.Squares[0] / s.Weight
		}
	}
	return v.covariance(all)
}

// covariance returns the covariance of the columns from sums over rows, or nil if the rows have no weight.
func (v *numericRows) covariance(s impute.Sums) *model.Covariance {
	return s.Covariance(v.columns, v.fields, 1)
}
