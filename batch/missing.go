package batch

// This file finds the rule for missing fields of a model that was trained exactly, as
// the online learner finds its own: by the log-loss of training events that lack fields
// by themselves, and where too few do by that of events of which masks strike fields.

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"blankout"
)

const (
	// Of more events so many are taken, evenly, for masks and of those that lack fields
	// by themselves.
	missingSample = 4000
	// A range of shares that so many training events lack by themselves is not
	// measured on masks.
	missingOwn = 100
)

// missingShares are the chances of a field to be struck, one for each range.
var missingShares = [blankout.MissingBins]float64{0.05, 0.2, 0.4, 0.6, 0.8}

// Presence notes which fields the events of Data hold, and which are null. The zero
// value is ready for use.
type Presence struct {
	rows    interned[string]
	present blankout.FieldSet
	key     []byte
}

// Add takes up the next example. Every row of the Data must have been added, or none.
func (p *Presence) Add(e *blankout.Example) {
	most := uint16(0)
	for _, id := range e.Field {
		most = max(most, id)
	}
	if int(most) >= 64*len(p.present) {
		p.present = blankout.NewFieldSet(int(most) + 1)
	}
	clear(p.present)
	p.present.Add(e.Field)
	p.key = p.key[:0]
	p.present.Each(func(id int) {
		if id != 0 {
			p.key = binary.LittleEndian.AppendUint16(p.key, uint16(id))
		}
	})
	p.key = append(p.key, 0, 0) // the anonymous field ends the list of those present
	for _, id := range e.Missing {
		p.key = binary.LittleEndian.AppendUint16(p.key, id)
	}
	if at, ok := p.rows.place[string(p.key)]; ok {
		p.rows.of = append(p.rows.of, at)
	} else {
		p.rows.add(string(p.key))
	}
}

// fieldsOf is what a key of Presence stands for.
type fieldsOf struct{ present, null []uint16 }

// kinds returns the different ones that rows have.
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

// Missing returns what m, which was trained on d, is to make of events that lack
// fields: the rule given, or for MissingAuto the better one for each range of the share
// missing. It is nil where the events have no fields whose absence can be known.
func (p *Presence) Missing(m blankout.Model, d *Data, rule blankout.MissingRule) *blankout.Missing {
	fields := d.Schema.Fields
	rules := blankout.DefaultMissingRules()
	missing := blankout.NewMissing(rules, rules, nil, nil, nil)
	switch {
	case slices.ContainsFunc(fields, func(f blankout.Field) bool { return f.Kind.Named() }):
		if len(p.rows.of) != d.Rows() {
			return nil
		}
		kinds := p.kinds()
		var use blankout.FieldUse
		set := blankout.NewFieldSet(len(fields))
		for _, at := range p.rows.of {
			clear(set)
			set.Add(kinds[at].present)
			use.Count(set, kinds[at].null)
		}
		missing = use.Review(missing, fields)
	case d.Schema.Known:
		missing.Known = true
		var use blankout.ColumnUse
		var e blankout.Example
		for i := range d.Rows() {
			e.Features = d.Vec(i, e.Features)
			use.Count(fields, &e)
		}
		missing = use.Review(missing)
	default:
		return nil
	}
	if rule != blankout.MissingAuto {
		return missing.Forced(rule)
	}
	t := newStriker(p, m, d, missing)
	// What is left out counts by the default while the rules for nulls are measured.
	null := t.better(rules, func(k blankout.Lack) float64 { return k.Null },
		func(r blankout.MissingRules) *blankout.Missing { return missing.WithRules(r, rules) }, true)
	// A field that is left out is lost as one that is null: its rule is the same unless
	// events that leave fields out show otherwise.
	absent := t.better(null, func(k blankout.Lack) float64 { return k.Absent },
		func(r blankout.MissingRules) *blankout.Missing { return missing.WithRules(null, r) }, false)
	return missing.WithRules(null, absent)
}

// striker scores the events of Data as a model answers them, whole or struck.
type striker struct {
	*Data
	m      blankout.Model
	head   blankout.Head // says what an event lacks
	of     []uint32      // by row, its place in kinds
	kinds  []fieldsOf
	first  []int              // by field the first one of its name, which an event names where it is null
	parts  [][2]int           // by compact column the fields that it is lost with
	absent map[uint32]float64 // what the Scaler makes of the dense columns that an event leaves out
	r      rand.PCG

	dead           []bool // by first field
	left           blankout.Example
	x, scaled      blankout.Vec
	scores, chance []float64
}

func newStriker(p *Presence, m blankout.Model, d *Data, missing *blankout.Missing) *striker {
	fields, h := d.Schema.Fields, m.About()
	t := &striker{Data: d, m: m, of: p.rows.of, kinds: p.kinds(), head: blankout.Head{Schema: d.Schema, Missing: missing},
		absent: map[uint32]float64{}, dead: make([]bool, len(fields)),
		scores: make([]float64, max(h.Outputs, len(d.Schema.Classes))), chance: make([]float64, max(2, len(d.Schema.Classes)))}
	first := map[string]int{}
	for id, f := range fields {
		if _, ok := first[f.Name]; !ok {
			first[f.Name] = id
		}
		t.first = append(t.first, first[f.Name])
	}
	factors := d.Schema.Factors()
	for c := range d.Columns() {
		id := int(d.fields.of(d.Column(c)))
		if id >= len(fields) {
			id = 0
		}
		t.parts = append(t.parts, [2]int{t.first[factors[id][0]], t.first[factors[id][1]]})
	}
	dense := m.Standardised(&blankout.Example{}, blankout.Vec{})
	for i, column := range dense.Index {
		t.absent[column] = dense.Value[i]
	}
	return t
}

// strike lets each named field of event i die with the given chance and returns what
// the event then lacks. It sets t.left to the fields that are left and t.x to what is
// scored of them.
func (t *striker) strike(i int, chance float64) blankout.Lack {
	if t.head.Missing.Known {
		return t.strikeColumns(i, chance)
	}
	fields, kind, left := t.Schema.Fields, t.kinds[t.of[i]], &t.left
	clear(t.dead)
	left.Field, left.Missing = left.Field[:0], append(left.Missing[:0], kind.null...)
	for _, id := range kind.present {
		if int(id) >= len(fields) {
			continue
		}
		if chance > 0 && fields[id].Kind.Named() && float64(t.r.Uint64()>>11)/(1<<53) < chance {
			t.dead[t.first[id]] = true
			left.Missing = append(left.Missing, uint16(t.first[id]))
		} else {
			left.Field = append(left.Field, id)
		}
	}
	slices.Sort(left.Missing)
	left.Missing = slices.Compact(left.Missing)
	row := t.Row(i)
	t.x.Index, t.x.Value = t.x.Index[:0], t.x.Value[:0]
	for j, c := range row.Index {
		x, column := row.At(j), t.Column(int(c))
		if part := t.parts[c]; t.dead[part[0]] || t.dead[part[1]] {
			if x = t.absent[column]; x == 0 {
				continue
			}
		}
		t.x.Index, t.x.Value = append(t.x.Index, column), append(t.x.Value, x)
	}
	return t.head.Lack(left)
}

// strikeColumns is strike for an event of a sparse text format, of which each feature
// dies with the given chance.
func (t *striker) strikeColumns(i int, chance float64) blankout.Lack {
	row := t.Row(i)
	t.x.Index, t.x.Value = t.x.Index[:0], t.x.Value[:0]
	t.left.Features = t.Vec(i, t.left.Features)
	k := t.head.Lack(&t.left)
	for j, c := range row.Index {
		if chance > 0 && float64(t.r.Uint64()>>11)/(1<<53) < chance {
			k.Null++
			continue
		}
		t.x.Index, t.x.Value = append(t.x.Index, t.Column(int(c))), append(t.x.Value, row.At(j))
	}
	k.Named -= k.Null
	return k
}

// loss is the log-loss of what strike has left of event i, every feature multiplied by
// scale.
func (t *striker) loss(i int, scale float64) float64 {
	x := t.x
	if scale != 1 {
		t.scaled.Value = t.scaled.Value[:0]
		for _, v := range x.Value {
			t.scaled.Value = append(t.scaled.Value, scale*v)
		}
		x.Value = t.scaled.Value
	}
	t.chance = t.m.About().Probabilities(t.m.ScoreVec(x, t.scores), t.chance)
	return -math.Log(max(t.chance[t.Label(i)], 1e-15))
}

// better returns the better rule for each range of the share that missing gives, and the
// rule of now where the events do not tell. with makes a Missing of rules for that share.
// With masks, these are drawn for the ranges that too few events are in by themselves.
func (t *striker) better(now blankout.MissingRules, missing func(blankout.Lack) float64, with func(blankout.MissingRules) *blankout.Missing, masks bool) blankout.MissingRules {
	bin := func(k blankout.Lack) (bin int, ok bool) {
		n, present := missing(k), k.Named+k.Silent
		if !(n > 0) || present == 0 {
			return 0, false // nothing that a rule is for
		}
		return blankout.MissingBin(n / (n + present)), true
	}
	lacks := make([]blankout.Lack, len(t.kinds))
	for at, kind := range t.kinds {
		lacks[at] = t.head.Lack(&blankout.Example{Field: kind.present, Missing: kind.null})
	}
	lack := func(i int) blankout.Lack {
		if t.head.Missing.Known {
			return t.strike(i, 0)
		}
		return lacks[t.of[i]]
	}
	var labelled, lacking []int
	var own [blankout.MissingBins]int
	for i := range t.Rows() {
		if t.Label(i) < 0 || t.Weight(i) == 0 {
			continue
		}
		labelled = append(labelled, i)
		if b, ok := bin(lack(i)); ok {
			lacking = append(lacking, i)
			own[b]++
		}
	}
	rescaled, asIs := with(everyRange(blankout.MissingRescale)), with(everyRange(blankout.MissingAsIs))
	var sum, squares [blankout.MissingBins]float64
	compare := func(i, b int, k blankout.Lack) {
		d := t.Weight(i) * (t.loss(i, rescaled.Scale(k)) - t.loss(i, asIs.Scale(k)))
		sum[b] += d
		squares[b] += d * d
	}
	for _, i := range evenly(lacking, missingSample) {
		k := t.strike(i, 0)
		if b, ok := bin(k); ok {
			compare(i, b, k)
		}
	}
	if !masks {
		labelled = nil
	}
	for _, i := range evenly(labelled, missingSample) {
		t.r.Seed(uint64(i), 0x626c616e6b6f7574)
		for _, chance := range missingShares {
			k := t.strike(i, chance)
			if b, ok := bin(k); ok && own[b] < missingOwn {
				compare(i, b, k)
			}
		}
	}
	for b := range now {
		now[b] = now[b].Better(sum[b], squares[b])
	}
	return now
}

// everyRange returns one rule for every share.
func everyRange(r blankout.MissingRule) blankout.MissingRules {
	return blankout.MissingRules{r, r, r, r, r}
}
