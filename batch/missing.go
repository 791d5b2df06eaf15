package batch

// This file chooses the missing policy of a batch model. It compares the log-loss under each policy on training examples
// with missing fields, as the online learner does. If too few have missing fields, it deletes fields at random.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/mixture"
)

const (
	// presenceSample is the least number of examples that Presence keeps of a large training set.
	presenceSample = 4000
	// maskedSample is the largest number of examples from which fields are deleted.
	maskedSample = 2000
	// missingOwn is the number of kept examples with missing fields that are required for each range of missing
	// fractions. If there are fewer, fields are deleted at random.
	missingOwn = 100
)

// maskPoints are the points of masks (mixture.Mask) at which policies are compared: one for each range of missing
// fractions.
var maskPoints = [model.MissingBins]int8{1, 2, 4, 6, 8, 9}

// Presence counts in how many examples of a training set each field is present or null. It keeps copies of some of the
// examples, evenly spread. The zero value is ready for use.
type Presence struct {
	// Sparse means that examples without fields are also kept, because their columns can be missing.
	Sparse bool

	rows    int
	use     model.FieldUse
	present model.FieldSet
	kept    []keptExample
	every   int // number of rows for each kept example
}

// keptExample is an example as it arrived, and its row in the Data.
type keptExample struct {
	event.Example
	row int
}

// Add records the next example. Call it for every row of the Data or for none.
func (p *Presence) Add(e *event.Example) {
	row := p.rows
	p.rows++
	if len(e.Field) > 0 {
		p.present = p.present.Room(int(slices.Max(e.Field)) + 1)
	}
	clear(p.present)
	p.present.Add(e.Field)
	p.use.Count(p.present, e.Missing, -1)
	if len(e.Field)+len(e.Missing) == 0 && !p.Sparse || p.every > 0 && row%p.every != 0 {
		return
	}
	if len(p.kept) == 2*presenceSample {
		p.every *= 2
		p.kept = slices.DeleteFunc(p.kept, func(k keptExample) bool { return k.row%p.every != 0 })
	}
	p.every = max(p.every, 1)
	p.kept = append(p.kept, keptExample{event.Example{
		Features: e.Features.Clone(), Field: slices.Clone(e.Field), Missing: slices.Clone(e.Missing), MissingColumns: slices.Clone(e.MissingColumns),
	}, row})
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
		if p.rows != d.Rows() {
			return nil
		}
		p.use.AbsentIsZero = d.Schema.Absent == event.AbsentZero
		missing = p.use.Review(missing, fields)
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
	t := newMasker(m, d, missing)
	return missing.WithPolicies(t.better(p.kept))
}

// Observed returns loss.ObservedNoise: the groups with the fraction of examples in which each is missing. It returns
// event.ErrNoRates if no field can be missing.
func (p *Presence) Observed(s *event.Schema) (loss.Noise, error) {
	if err := s.CheckRates(); err != nil {
		return nil, fmt.Errorf("noise %s: %w", loss.ObservedNoise, err)
	}
	return loss.GroupDropout{Rates: p.use.Rates(s.Fields)}, nil
}

// Residual returns the residual distribution (model.Residual) of m. The model m is a regression model that was trained
// on d and has missing policies. The variance of the distribution is the squared error on kept examples of d, minus the
// variance that missing fields explain. Residual returns nil if no event can miss a field.
func (p *Presence) Residual(m *model.Linear, d *Data) *model.Residual {
	if m.Missing == nil {
		return nil
	}
	var r residuals
	scores := make([]float64, 1)
	for i := range p.kept {
		if e, row := &p.kept[i].Example, p.kept[i].row; d.Label(row) >= 0 {
			r.add(m.Target(), d.Target(row), m.Value(m.Score(e, scores)[0]), model.ScoreVariance(m, e).Variance, d.Weight(row))
		}
	}
	return r.all()
}

// masker predicts examples of a Data with deleted fields.
type masker struct {
	*Data
	m              model.Model
	missing        *model.Missing
	mask           mixture.Mask
	declared       model.Losses
	dead           []bool        // deleted features
	left           event.Example // the rest of the example
	x              event.Vec
	scores, chance []float64
	ofNumbers      loss.Loss // loss for regression; nil for classification
}

func newMasker(m model.Model, d *Data, missing *model.Missing) *masker {
	h := m.About()
	t := &masker{Data: d, m: m, missing: missing, declared: model.Losses{Fields: d.Schema.Fields},
		scores: make([]float64, max(h.Outputs, len(d.Schema.Classes))), chance: make([]float64, max(2, len(d.Schema.Classes)))}
	if h.Target() != loss.Sign {
		t.ofNumbers, _ = loss.Parse(h.Loss) // no error: Target has parsed this name
	}
	return t
}

// lose sets left to the rest of an example without the features that the mask has removed up to a point. It returns the
// range of the missing fraction. The result ok is false if nothing is missing, or everything.
func (t *masker) lose(e *event.Example, point int8) (bin int, ok bool) {
	t.dead = t.dead[:0]
	for i := range e.Features.Index {
		t.dead = append(t.dead, point > 0 && t.mask.Last[i] < point)
	}
	t.declared.Lose(model.LossDeclared, e, 0, e.Features.Index, t.dead, &t.left)
	h := t.m.About()
	h.Missing = t.missing
	k := h.CountMissing(&t.left)
	if !k.Some() || k.Named+k.AlwaysPresent == 0 {
		return 0, false
	}
	return model.MissingBin(k.Fraction()), true
}

// losses returns the losses of the example in left, which is in the given row, under each of the missingPolicies: the
// log-loss or, for regression, the loss of the model.
func (t *masker) losses(row int) (losses [len(missingPolicies)]float64) {
	h := t.m.About()
	t.x = t.m.Standardized(&t.left, event.Vec{Index: t.x.Index[:0], Value: t.x.Value[:0]})
	for i, policy := range missingPolicies {
		if policy == model.MissingImpute && h.Covariance == nil || policy == model.MissingRescale && t.ofNumbers != nil {
			losses[i] = math.Inf(1)
			continue
		}
		h.Missing = t.missing.Forced(policy)
		scores := t.m.ScoreMissing(t.x, &t.left, t.scores)
		if t.ofNumbers != nil {
			losses[i], _, _ = t.ofNumbers.At(t.Target(row), scores[0], 0)
			continue
		}
		t.chance = h.Probabilities(scores, t.chance)
		losses[i] = measure.LogLoss(t.chance[t.Label(row)])
	}
	return losses
}

// masks is the number of different masks. Examples share a few masks because each new
// pattern of missing columns is slow to impute.
const masks = 64

// better returns the best policy for each range of the missing fraction. A range without a significantly better policy
// keeps its policy. If too few examples have missing fields, masks delete fields at random.
func (t *masker) better(kept []keptExample) model.MissingPolicies {
	was := t.m.About().Missing
	defer func() { t.m.About().Missing = was }()
	policies := t.missing.Policies
	var sums [model.MissingBins]policyComparison
	for b := range sums {
		sums[b].now = slices.Index(missingPolicies[:], policies[b].Largest())
	}
	var labeled []int
	var own [model.MissingBins]int
	for i := range kept {
		k := &kept[i]
		if t.Label(k.row) < 0 || t.Weight(k.row) == 0 {
			continue
		}
		labeled = append(labeled, i)
		if b, ok := t.lose(&k.Example, 0); ok {
			sums[b].add(t.Weight(k.row), t.losses(k.row))
			own[b]++
		}
	}
	labeled = evenly(labeled, maskedSample)
	groups, factors := model.NewGrouping(t.Schema), t.Schema.Factors()
	if !groups.Declared() {
		groups = nil
	}
	for n, i := range labeled {
		k := &kept[i]
		x := mixture.Features{Columns: k.Features.Index, Field: k.Field, Schema: t.Schema, Factors: factors, Sparse: k.IsSparse(t.Schema.Fields)}
		t.mask.Draw(x, uint64(n%masks), groups)
		for _, point := range maskPoints {
			if b, ok := t.lose(&k.Example, point); ok && own[b] < missingOwn {
				sums[b].add(t.Weight(k.row), t.losses(k.row))
			}
		}
	}
	for b := range policies {
		policies[b] = model.OnePolicy(missingPolicies[sums[b].better()])
	}
	return policies
}

// missingPolicies lists the policies that an exact model, which has no splines, chooses from.
var missingPolicies = [...]model.MissingPolicy{model.MissingNone, model.MissingRescale, model.MissingImpute}

// missingSure is the number of standard errors by which a policy must be better than another to replace it.
const missingSure = 2

// policyComparison sums, for each of the missingPolicies, the differences in loss from the policy now, and their squares.
type policyComparison struct {
	now          int
	sum, squares [len(missingPolicies)]float64
}

// add adds the losses of an example, multiplied by weight.
func (c *policyComparison) add(weight float64, losses [len(missingPolicies)]float64) {
	for i, l := range losses {
		d := weight * (l - losses[c.now])
		c.sum[i] += d
		c.squares[i] += d * d
	}
}

// better returns the best of the policies that are significantly better than now, or now if no policy is.
func (c *policyComparison) better() int {
	best := c.now
	for i, sum := range c.sum {
		if sum < -missingSure*math.Sqrt(c.squares[i]) && sum < c.sum[best] {
			best = i
		}
	}
	return best
}
