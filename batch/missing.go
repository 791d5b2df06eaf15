package batch

// This file chooses the missing policy of a batch model. It compares the log-loss under each policy on training events
// with missing fields, as the online learner does. If too few training events have missing fields, it deletes fields at
// random.

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

const (
	// missingSample is the largest number of events in each of two samples. One sample has events with deleted fields,
	// the other has events whose fields were already missing. Larger samples are thinned evenly.
	missingSample = 4000
	// missingOwn is the number of training events with missing fields that are required for each range of missing
	// fractions. If there are fewer, fields are deleted at random.
	missingOwn = 100
)

// missingFractions holds the probability of deleting a field, one for each range of missing fractions.
var missingFractions = [model.MissingBins]float64{0.05, 0.2, 0.4, 0.6, 0.78, 0.93}

// Presence records which fields each event of a Data has, and which are null. The zero value is ready for use.
type Presence struct {
	rows    interned[string]
	present model.FieldSet
	key     []byte
}

// Add records the next example. Call it for every row of the Data or for none.
func (p *Presence) Add(e *event.Example) {
	most := uint16(0)
	for _, id := range e.Field {
		most = max(most, id)
	}
	if int(most) >= 64*len(p.present) {
		p.present = model.NewFieldSet(int(most) + 1)
	}
	clear(p.present)
	p.present.Add(e.Field)
	p.key = p.key[:0]
	p.present.Each(func(id int) {
		if id != 0 {
			p.key = binary.LittleEndian.AppendUint16(p.key, uint16(id))
		}
	})
	p.key = append(p.key, 0, 0) // the id 0 of the anonymous field ends the list of present fields
	for _, id := range e.Missing {
		p.key = binary.LittleEndian.AppendUint16(p.key, id)
	}
	if at, ok := p.rows.place[string(p.key)]; ok {
		p.rows.of = append(p.rows.of, at)
	} else {
		p.rows.add(string(p.key))
	}
}

// fieldsOf is the decoded form of a key of Presence.
type fieldsOf struct{ present, null []uint16 }

// kinds returns the distinct sets of fields of the rows.
func (p *Presence) kinds() (out []fieldsOf) {
	for _, key := range p.rows.kinds {
		out = append(out, parseFields(key))
	}
	return out
}

func parseFields(key string) (f fieldsOf) {
	to := &f.present
	for ; len(key) > 0; key = key[2:] {
		id := uint16(key[0]) | uint16(key[1])<<8
		if id == 0 && to == &f.present {
			to = &f.null
			continue
		}
		*to = append(*to, id)
	}
	return f
}

// Missing returns the policies with which m, trained on d, predicts events with missing fields. These are the given
// policy or, for MissingAuto, the best policy for each range of the missing fraction. It returns nil if no event can
// miss a field and m has no Covariance whose columns a caller may declare missing.
//
// The best policy has the lowest log-loss or, for regression, the lowest loss without noise. Regression models are
// never rescaled.
func (p *Presence) Missing(m model.Model, d *Data, policy model.MissingPolicy) *model.Missing {
	fields := d.Schema.Fields
	policies := model.DefaultMissingPolicies()
	if m.About().Target() != loss.Sign {
		policies = model.EveryRange(model.MissingNone)
	}
	missing := model.NewMissing(policies, nil, nil, nil)
	switch {
	case slices.ContainsFunc(fields, func(f event.Field) bool { return f.Kind.Named() }):
		if len(p.rows.of) != d.Rows() {
			return nil
		}
		use := p.use(fields)
		use.AbsentIsZero = d.Schema.Absent == event.AbsentZero
		missing = use.Review(missing, fields)
	case d.Schema.ColumnsGoMissing():
		missing.ColumnsCanBeMissing = true
		var use model.ColumnUse
		var e event.Example
		for i := range d.Rows() {
			e.Features = d.Vec(i, e.Features)
			use.Count(fields, &e)
		}
		missing = use.Review(missing)
	case m.About().Covariance == nil:
		return nil
	}
	if policy != model.MissingAuto {
		return missing.Forced(policy)
	}
	t := newMasker(p, m, d, missing)
	return missing.WithPolicies(t.better(policies))
}

// use counts, for each field, the examples in which it is present and the examples in which it is null.
func (p *Presence) use(fields []event.Field) (use model.FieldUse) {
	kinds := p.kinds()
	set := model.NewFieldSet(len(fields))
	for _, at := range p.rows.of {
		clear(set)
		set.Add(kinds[at].present)
		use.Count(set, kinds[at].null, -1)
	}
	return use
}

// Observed returns loss.ObservedNoise: the groups with the fraction of examples in which each is missing. It returns
// event.ErrNoRates if no field can be missing.
func (p *Presence) Observed(s *event.Schema) (loss.Noise, error) {
	if err := s.CheckRates(); err != nil {
		return nil, fmt.Errorf("noise %s: %w", loss.ObservedNoise, err)
	}
	use := p.use(s.Fields)
	return loss.GroupDropout{Rates: use.Rates(s.Fields)}, nil
}

// masker scores events of a Data with the model's own prediction path, complete or with deleted fields.
type masker struct {
	*Data
	m      model.Model
	head   model.Head // determines the missing fields of an event
	of     []uint32   // index in kinds, by row
	kinds  []fieldsOf
	named  bool               // whether fields can be missing
	first  []int              // first field with the same name, by field; a null field is listed under it
	unit   []uint64           // number of the group, by first field
	parts  [][2]int           // fields whose deletion deletes the column, by compact column
	own    []uint64           // group of a column in a sparse text format, by compact column
	all    []uint32           // compact columns of a sparse text format that the Covariance has
	absent map[uint32]float64 // scaled zero by omitted dense column

	dead           []bool // deleted fields, by first field
	left           event.Example
	x, scaled      event.Vec
	scores, chance []float64
	ofNumbers      loss.Loss // loss for regression; nil for classification
}

func newMasker(p *Presence, m model.Model, d *Data, missing *model.Missing) *masker {
	fields, h := d.Schema.Fields, m.About()
	t := &masker{Data: d, m: m, of: p.rows.of, kinds: p.kinds(), head: model.Head{Schema: d.Schema, Missing: missing},
		first: firstFields(fields), unit: make([]uint64, len(fields)), own: make([]uint64, d.Columns()),
		absent: map[uint32]float64{}, dead: make([]bool, len(fields)),
		scores: make([]float64, max(h.Outputs, len(d.Schema.Classes))), chance: make([]float64, max(2, len(d.Schema.Classes)))}
	if h.Target() != loss.Sign {
		t.ofNumbers, _ = loss.Parse(h.Loss) // no error: Target has parsed this name
	}
	groups := model.NewGrouping(d.Schema)
	for id, f := range fields {
		if id > 0 && f.Kind.Named() {
			t.named = true
			t.unit[t.first[id]] = groups.Hash(groups.Of(uint16(id), 0))
		}
	}
	covered := map[uint32]bool{}
	if c := h.Covariance; c != nil {
		for i, id := range c.Fields {
			covered[c.Columns[i]] = id == 0
		}
	}
	factors := d.Schema.Factors()
	for c := range d.Columns() {
		column := d.splines.Source(d.Column(c))
		id := int(d.fields.of(column))
		if id >= len(fields) {
			id = 0
		}
		t.parts = append(t.parts, [2]int{t.first[factors[id][0]], t.first[factors[id][1]]})
		if covered[column] && column == d.Column(c) {
			t.all = append(t.all, uint32(c))
		}
		if t.own[c] = uint64(column) + 1; d.Schema.ColumnGroups != nil {
			t.own[c] = groups.Hash(groups.Of(0, column))
		}
	}
	dense := m.Standardized(&event.Example{}, event.Vec{})
	for i, column := range dense.Index {
		t.absent[column] = dense.Value[i]
	}
	return t
}

// mask deletes groups at random, each with the given probability. The zero mask deletes no group.
type mask struct {
	chance float64
	number int
}

func (m mask) kills(unit uint64) bool {
	if m.chance == 0 {
		return false
	}
	var r rand.PCG
	r.Seed(unit^0x626c616e6b6f7574, uint64(m.number))
	return float64(r.Uint64()>>11)/(1<<53) < m.chance
}

// delete deletes the fields and columns of event i that the mask selects, whole groups at a time. It deletes only
// features whose absence the model can detect. It returns the number of missing features. Then t.left holds the
// remaining fields and t.x their scaled features.
func (t *masker) delete(i int, by mask) model.MissingCount {
	fields, row, left := t.Schema.Fields, t.Row(i), &t.left
	clear(t.dead)
	left.Field, left.Missing, left.MissingColumns = left.Field[:0], left.Missing[:0], left.MissingColumns[:0]
	if t.named {
		kind := t.kinds[t.of[i]]
		if left.Field == nil {
			left.Field = []uint16{} // not nil, because nil means a sparse text format
		}
		left.Missing = append(left.Missing, kind.null...)
		for _, id := range kind.present {
			if int(id) >= len(fields) {
				continue
			}
			if fields[id].Kind.Named() && by.kills(t.unit[t.first[id]]) {
				t.dead[t.first[id]] = true
				left.Missing = append(left.Missing, uint16(t.first[id]))
			} else {
				left.Field = append(left.Field, id)
			}
		}
		slices.Sort(left.Missing)
		left.Missing = slices.Compact(left.Missing)
	}
	// An omitted column is 0. It can be declared missing, unless it is already missing.
	candidates := t.all
	if t.head.Missing.ColumnsCanBeMissing {
		candidates = row.Index
	}
	for _, c := range candidates {
		if t.Column(int(c)) >= model.FirstBasisColumn {
			break // spline columns are deleted with their number
		}
		if by.kills(t.own[c]) {
			left.MissingColumns = append(left.MissingColumns, t.Column(int(c)))
		}
	}
	gone := left.MissingColumns
	t.x.Index, t.x.Value = t.x.Index[:0], t.x.Value[:0]
	for j, c := range row.Index {
		x, column := row.At(j), t.Column(int(c))
		if column >= model.FirstBasisColumn {
			if _, dead := slices.BinarySearch(left.MissingColumns, t.splines.Source(column)); dead {
				continue
			}
		}
		for len(gone) > 0 && gone[0] < column {
			gone = gone[1:]
		}
		if len(gone) > 0 && gone[0] == column {
			continue
		}
		if part := t.parts[c]; t.dead[part[0]] || t.dead[part[1]] {
			if x = t.absent[column]; x == 0 {
				continue
			}
		}
		t.x.Index, t.x.Value = append(t.x.Index, column), append(t.x.Value, x)
	}
	left.Features = t.x
	return t.head.CountMissing(left)
}

// loss returns the loss of event i after a call of the method delete, with every feature multiplied by scale.
func (t *masker) loss(i int, scale float64) float64 {
	x := t.x
	if scale != 1 {
		t.scaled.Value = t.scaled.Value[:0]
		for _, v := range x.Value {
			t.scaled.Value = append(t.scaled.Value, scale*v)
		}
		x.Value = t.scaled.Value
	}
	return t.lossOf(i, t.m.ScoreVec(x, t.scores))
}

// lossOf returns the loss of event i at these scores: the log-loss or, for regression, the loss of the model.
func (t *masker) lossOf(i int, scores []float64) float64 {
	if t.ofNumbers != nil {
		v, _, _ := t.ofNumbers.At(t.Target(i), scores[0], 0)
		return v
	}
	t.chance = t.m.About().Probabilities(scores, t.chance)
	return measure.LogLoss(t.chance[t.Label(i)])
}

// masks is the number of different masks per range of missing fractions. Events share a few masks because each new
// pattern of missing columns is slow to impute.
const masks = 64

// better returns the best policy for each range of the missing fraction. A range without a significantly better policy
// keeps its policy in now. If too few events have missing fields, masks delete fields at random.
func (t *masker) better(now model.MissingPolicies) model.MissingPolicies {
	bin := func(k model.MissingCount) (bin int, ok bool) {
		if !k.Some() || k.Named+k.AlwaysPresent == 0 {
			return 0, false // the event misses no feature, or every feature
		}
		return model.MissingBin(k.Fraction()), true
	}
	lacks := make([]model.MissingCount, len(t.kinds))
	for at, kind := range t.kinds {
		if len(kind.present)+len(kind.null) > 0 {
			lacks[at] = t.head.CountMissing(&event.Example{Field: kind.present, Missing: kind.null})
		}
	}
	lack := func(i int) model.MissingCount {
		if t.head.Missing.ColumnsCanBeMissing {
			return t.delete(i, mask{})
		}
		return lacks[t.of[i]]
	}
	var labeled, lacking []int
	var own [model.MissingBins]int
	for i := range t.Rows() {
		if t.Label(i) < 0 || t.Weight(i) == 0 {
			continue
		}
		labeled = append(labeled, i)
		if b, ok := bin(lack(i)); ok {
			lacking = append(lacking, i)
			own[b]++
		}
	}
	missing := t.head.Missing
	rescaled, asIs := missing.Forced(model.MissingRescale), missing.Forced(model.MissingNone)
	var filled *model.Linear
	if linear, ok := t.m.(*model.Linear); ok && linear.Covariance != nil {
		filled = linear.WithMissing(missing.Forced(model.MissingImpute))
	}
	var sums [model.MissingBins]policyComparison
	compare := func(i, b int, k model.MissingCount) {
		losses := policyLosses{t.loss(i, asIs.Scale(k)), 0, math.Inf(1)}
		if losses[1] = losses[0]; t.ofNumbers == nil {
			losses[1] = t.loss(i, rescaled.Scale(k))
		}
		if filled != nil {
			losses[2] = t.lossOf(i, filled.ScoreMissing(t.x, &t.left, t.scores))
		}
		sums[b].add(t.Weight(i), losses)
	}
	for _, i := range evenly(lacking, missingSample) {
		k := t.delete(i, mask{})
		if b, ok := bin(k); ok {
			compare(i, b, k)
		}
	}
	sample := evenly(labeled, missingSample)
	for first := range min(masks, len(sample)) { // process all events of one mask, then the next mask
		for n := first; n < len(sample); n += masks {
			for at, chance := range missingFractions {
				k := t.delete(sample[n], mask{chance, at*masks + first})
				if b, ok := bin(k); ok && own[b] < missingOwn {
					compare(sample[n], b, k)
				}
			}
		}
	}
	for b := range now {
		now[b] = model.OnePolicy(sums[b].better(now[b].Largest()))
	}
	return now
}

// Residual returns the residual distribution (model.Residual) of m. The model m is a regression model that was trained
// on d and has missing policies. The variance of the distribution is the squared error on d, minus the variance that
// missing fields explain. Residual returns nil if no event can miss a field.
func (p *Presence) Residual(m *model.Linear, d *Data) *model.Residual {
	if m.Missing == nil || len(p.rows.of) != d.Rows() {
		return nil
	}
	t := newMasker(p, m, d, m.Missing)
	var labeled []int
	for i := range d.Rows() {
		if d.Label(i) >= 0 && d.Weight(i) > 0 {
			labeled = append(labeled, i)
		}
	}
	var r residuals
	target := m.Target()
	for _, i := range evenly(labeled, covarianceRows) {
		t.delete(i, mask{})
		value := m.Value(m.ScoreMissing(t.x, &t.left, t.scores)[0])
		v := 0.0
		if m.Covariance != nil {
			v = m.VarianceMissing(t.x, &t.left).Variance
		}
		r.add(target, d.Target(i), value, v, d.Weight(i))
	}
	return r.all()
}

// missingPolicies lists the policies that an exact model, which has no splines, chooses from.
var missingPolicies = [3]model.MissingPolicy{model.MissingNone, model.MissingRescale, model.MissingImpute}

// missingSure is the number of standard errors by which a policy must be better than the policy none to replace it.
const missingSure = 2

// policyLosses holds the loss of an event under each policy, in the order none, rescale, impute.
type policyLosses [3]float64

// policyComparison sums the differences in loss from the policy none, and the squares of the differences between any
// two policies.
type policyComparison struct {
	sum     policyLosses
	squares policyLosses // sums for (rescale, none), (impute, none) and (impute, rescale)
}

// add adds the policy losses of an event, multiplied by weight.
func (c *policyComparison) add(weight float64, loss policyLosses) {
	asIs, rescale, fill := weight*loss[0], weight*loss[1], weight*loss[2]
	for i, d := range [3]float64{rescale - asIs, fill - asIs, fill - rescale} {
		c.squares[i] = c.squares[i] + d*d
		if i < 2 {
			c.sum[i+1] = c.sum[i+1] + d
		}
	}
}

// better returns the best of the policies that are significantly better than now, or now if no policy is.
func (c *policyComparison) better(now model.MissingPolicy) model.MissingPolicy {
	at := slices.Index(missingPolicies[:], now)
	best := at
	for i := range missingPolicies {
		// The pairs of policies (0,1), (0,2), (1,2) have the indexes 0, 1, 2 in squares.
		if d := c.sum[i] - c.sum[at]; i != at && d < -missingSure*math.Sqrt(c.squares[i+at-1]) && c.sum[i] < c.sum[best] {
			best = i
		}
	}
	return missingPolicies[best]
}
