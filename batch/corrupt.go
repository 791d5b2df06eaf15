package batch

// This file draws noisy copies of events. Training on copies replaces the exact expectation over the noise.

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Corrupter draws noisy copies of events. A draw depends only on the seed, the event's number, the copy's number and
// the order of the event's columns. So an event has the same mask in training, in prediction and in a file of copies.
type Corrupter struct {
	Noise loss.Noise
	Seed  uint64
	// Keep leaves the surviving values of dropout unscaled. Otherwise they are divided by 1-q.
	Keep bool
	// Grouping has the groups of a GroupDropout. The removal of a group depends on the group's name only, not on its
	// columns.
	Grouping *model.Grouping
	// Splines are the splines whose columns occur in the events. Noise that removes a number also removes its spline
	// columns.
	Splines *model.Splines

	pcg  rand.PCG
	rand *rand.Rand
	ones []float64 // buffer for Dead
}

// Vec replaces the values of x, the features of event n, by the values of a noisy copy. Entries may become zero; absent
// columns stay zero. The slice field has the field ids of the entries, as Example.Field does. Only a GroupDropout uses
// the field ids.
func (c *Corrupter) Vec(x event.Vec, field []uint16, n, copy int) {
	if c.Splines == nil {
		c.vec(x, field, n, copy)
		return
	}
	factor := event.Vec{Index: x.Index, Value: slices.Repeat([]float64{1}, x.Len())}
	c.vec(factor, field, n, copy)
	for i, column := range x.Index {
		if at, ok := slices.BinarySearch(x.Index, c.Splines.Source(column)); ok {
			x.Value[i] *= factor.Value[at]
		}
	}
}

func (c *Corrupter) vec(x event.Vec, field []uint16, n, copy int) {
	c.draw(x.Value, func(i int, noise loss.GroupDropout) (groups []groupChance) {
		id := uint16(0)
		if i < len(field) {
			id = field[i]
		}
		unit := c.Grouping.Of(id, c.Splines.Source(x.Index[i]))
		a, b, pair := c.Grouping.Pair(unit)
		if !pair {
			a, b = unit, -1
		}
		for _, g := range [2]int32{a, b} {
			if g >= 0 {
				groups = append(groups, groupChance{c.Grouping.Hash(g), noise.Rate(c.Grouping.Name(g))})
			}
		}
		return groups
	}, func(int) float64 { return 0 }, n, copy)
}

// draw replaces the values of the features of event n. The function groups returns the groups that remove feature i under
// a noise of groups. A feature that fails silently has the value dead(i).
func (c *Corrupter) draw(values []float64, groups func(i int, noise loss.GroupDropout) []groupChance, dead func(i int) float64, n, copy int) {
	r, mask := c.at(n, copy), groupMask{c.Seed, n, copy}
	noise, grouped := c.Noise.(loss.GroupDropout)
	silent, quiet := c.Noise.(loss.Silent)
	if quiet {
		noise, grouped = deaths(silent, r), silent.Groups
	}
	for i, v := range values {
		switch {
		case quiet && (grouped && mask.dead(groups(i, noise)) || !grouped && r.Float64() < noise.Groups):
			values[i] = dead(i)
		case quiet:
		case grouped:
			values[i] = c.grouped(noise, mask, groups(i, noise), v, r)
		default:
			values[i] = c.value(c.Noise, v, r)
		}
	}
}

// deaths draws the dropout rate of features or groups for one event under silent noise, as the rate of a GroupDropout.
func deaths(n loss.Silent, r *rand.Rand) loss.GroupDropout {
	rates := n.Rates()
	return loss.GroupDropout{Groups: rates[r.IntN(len(rates))]}
}

// Dead reports, for each entry of event n, whether Vec removes it. All values are assumed to be nonzero. The result
// uses the memory of out.
func (c *Corrupter) Dead(columns []uint32, field []uint16, n, copy int, out []bool) []bool {
	c.ones = c.ones[:0]
	for range columns {
		c.ones = append(c.ones, 1)
	}
	c.Vec(event.Vec{Index: columns, Value: c.ones}, field, n, copy)
	out = out[:0]
	for _, v := range c.ones {
		out = append(out, v == 0)
	}
	return out
}

// grouped returns the noisy copy of the value of a feature that is removed together with these groups.
func (c *Corrupter) grouped(n loss.GroupDropout, mask groupMask, groups []groupChance, x float64, r *rand.Rand) float64 {
	x = c.value(loss.Dropout{Q: n.Q}, x, r)
	if mask.dead(groups) {
		return 0
	}
	if !c.Keep {
		for _, g := range groups {
			x /= 1 - g.q
		}
	}
	return x
}

func (c *Corrupter) at(n, copy int) *rand.Rand {
	if c.rand == nil {
		c.rand = rand.New(&c.pcg)
	}
	c.pcg.Seed(c.Seed, uint64(n)<<16^uint64(copy))
	return c.rand
}

func (c *Corrupter) value(noise loss.Noise, x float64, r *rand.Rand) float64 {
	y := noise.Corrupt(x, r)
	if _, ok := noise.(loss.Dropout); ok && c.Keep && y != 0 {
		return x
	}
	return y
}

// corruption makes the rows of a Data noisy copies of the rows of another Data.
type corruption struct {
	noise  loss.Noise
	copies int
	seed   uint64
	dense  bool   // whether the noise also acts on absent features
	units  *units // units that noise removes as a whole; nil if features are removed alone
}

// Corrupted returns Data with several noisy copies of every event, each with 1/copies of the original's weight (Chen et
// al. 2014, eq. 2). Row i*copies+j is copy j of row i. A copy is drawn again, with the same result, whenever its row is
// read. So memory does not grow with the entries of the copies.
func (d *Data) Corrupted(noise loss.Noise, copies int, seed uint64) (*Data, error) {
	if copies < 1 || copies > 1<<16 {
		return nil, fmt.Errorf("%d corrupted copies: want 1 to %d", copies, 1<<16)
	}
	if d.splines != nil {
		return nil, fmt.Errorf("corrupted copies: %w; use a --scaler without them, or no copies", ErrSplines)
	}
	if d.corruption != nil {
		return nil, fmt.Errorf("the examples are corrupted copies already")
	}
	var u *units
	silent, _ := noise.(loss.Silent)
	if _, ok := noise.(loss.GroupDropout); ok || silent.Groups {
		var err error
		if u, err = d.units(); err != nil {
			return nil, fmt.Errorf("noise %v: %w", noise, err)
		}
	}
	c0, c1, _ := noise.Coefficients()
	if c1 != 0 {
		if i := d.FirstNegative(); i >= 0 {
			return nil, fmt.Errorf("noise %v: example %d has a negative feature", noise, i)
		}
	}
	of := make([]int, d.Rows()*copies)
	for i := range of {
		of[i] = i / copies
	}
	s := d.Subset(of)
	s.clean, s.corruption = d, &corruption{noise, copies, seed, c0 != 0, u}
	s.weights = make([]float64, len(of))
	for i, row := range of {
		s.weights[i] = d.Weight(row) / float64(copies)
		if c0 != 0 {
			s.rows[i].n = uint32(d.Columns())
		}
	}
	if c0 != 0 {
		s.entries = len(of) * d.Columns()
	}
	return s, nil
}

// row draws row i of the corrupted Data.
func (c *corruption) row(d *Data, i int) Row {
	x := d.clean.Row(i / c.copies)
	row := Row{Index: x.Index, f64: make([]float64, x.Len())}
	if c.dense {
		row = Row{Index: make([]uint32, d.Columns()), f64: make([]float64, d.Columns())}
		for j := range row.Index {
			row.Index[j] = uint32(j)
		}
	}
	for j, at := range x.Index {
		if c.dense {
			row.f64[at] = x.At(j)
		} else {
			row.f64[j] = x.At(j)
		}
	}
	by := Corrupter{Noise: c.noise, Seed: c.seed}
	by.draw(row.f64, func(j int, n loss.GroupDropout) []groupChance { return c.units.chances(n, c.units.of[row.Index[j]]) }, func(j int) float64 {
		if d.dead == nil {
			return 0
		}
		return d.dead[row.Index[j]]
	}, i/c.copies, i%c.copies)
	return row
}
