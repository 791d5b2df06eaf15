package newton

// This file implements noise that removes whole groups of columns.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/experts"
)

// groupNoise holds the terms that noise of groups adds to A and that are not applied yet.
//
// Let r = Settings.Groups, let B_g be the part of the base score from group g, and let m_g be the entries of z in the
// group. (If there is one output, the entry of the base is B_g.) The score of output k has the variance
//
//	v_k = r sum_g t_gk^2,  t_gk = B_gk + u_k'm_g,
//
// so that an event adds for each group
//
//	A += S_g,  S_g = 2 dv r m_g m_g',  u_k -= A^-1 c_gk,  c_gk = 2 dv_k r t_gk m_g,
//
// where dv_k is the derivative of the loss with respect to the variance, and dv is the largest dv_k. S_g and c_gk are
// summed by group over events. In turn, the sum of S_g of each group is factorized as L L', and one column l of L is
// applied per event:
//
//	A += l l',  u_k -= A^-1 l (l'u_k - w_k),
//
// where w_k is the value of l'u_k at the minimum of the quadratic (L^-1 c_gk is its slope there).
type groupNoise struct {
	blocks []block
	turn   int   // index of the block that is being applied
	column int   // next column of factor to apply; len(places) if all are applied
	places []int // indices in z of the factor's variables
	factor []float64
	wanted []float64 // w_k by output and column

	// For the current event:
	groups experts.Groups
	total  []float64 // t by group and output
	of     []int     // group of each variable in event.at, or -1
	held   []float64 // number of columns of each group
	m      []float64
	at     []int
	slope  []float64
}

// block holds the sums of a group. s is a full matrix.
type block struct {
	key    uint64
	places []int     // indices in z of the group's variables, ascending
	s      []float64 // S_g
	c      []float64 // c_gk by output and variable
}

// reset discards all sums and groups.
func (d *groupNoise) reset() {
	d.blocks, d.turn, d.column = nil, 0, 0
	d.places, d.factor, d.wanted = nil, nil, nil
}

// block returns the index of a group's block.
func (d *groupNoise) block(key uint64) int {
	i := slices.IndexFunc(d.blocks, func(b block) bool { return b.key == key })
	if i < 0 {
		i = len(d.blocks)
		d.blocks = append(d.blocks, block{key: key})
	}
	return i
}

// join adds a variable to a block.
func (b *block) join(variable, outputs int) {
	n, old := len(b.places), *b
	i, _ := slices.BinarySearch(b.places, variable)
	b.places = slices.Insert(slices.Clone(b.places), i, variable)
	b.s, b.c = make([]float64, (n+1)*(n+1)), make([]float64, outputs*(n+1))
	to := func(j int) int {
		if j >= i {
			return j + 1
		}
		return j
	}
	for j := range n {
		for h := range n {
			b.s[to(j)*(n+1)+to(h)] = old.s[j*n+h]
		}
		for k := range outputs {
			b.c[k*(n+1)+to(j)] = old.c[k*n+j]
		}
	}
}

// setGroups sets the groups of the event that is learned.
func (e *Expert) setGroups(g experts.Groups) {
	d, ev := &e.groupNoise, &e.event
	if d.groups = g; len(g.Keys) == 0 {
		d.of = d.of[:0]
		return
	}
	d.total = append(d.total[:0], g.Sums...)
	for k, u := range e.u {
		for j := range g.Keys {
			if e.first == 2 {
				d.total[j*e.outputs+k] += u[1] * g.Sums[j*e.outputs+k]
			}
		}
		for n, j := range d.of {
			if j >= 0 {
				d.total[j*e.outputs+k] += u[ev.at[n]] * ev.z[n]
			}
		}
	}
}

// variance returns the variance of the score of output k under the noise.
func (d *groupNoise) variance(k, outputs int, r float64) (v float64) {
	for j := range d.groups.Keys {
		t := d.total[j*outputs+k]
		v += t * t
	}
	return r * v
}

// sumGroups adds the noise of the current event to the sums.
func (e *Expert) sumGroups(importance float64, active int) {
	d, ev := &e.groupNoise, &e.event
	most := 0.0
	for _, dv := range ev.dv[:active] {
		most = max(most, dv)
	}
	d.held = zeros(d.held, len(d.groups.Keys))
	for _, of := range d.of {
		if of >= 0 {
			d.held[of]++
		}
	}
	for j, key := range d.groups.Keys {
		d.m, d.at = d.m[:0], d.at[:0]
		if b := d.groups.Sums[j*e.outputs]; e.first == 2 && b != 0 {
			d.m, d.at = append(d.m, b), append(d.at, 1)
		}
		if d.held[j] == 0 {
			key = others
		} else {
			for n, of := range d.of {
				if of == j {
					d.m, d.at = append(d.m, ev.z[n]), append(d.at, ev.at[n])
				}
			}
		}
		if len(d.m) == 0 {
			continue
		}
		i := d.block(key)
		d.find(i, e.outputs)
		b := &d.blocks[i]
		n, scale := len(b.places), 2*importance*e.set.Groups
		for x, p := range d.at {
			for y, q := range d.at {
				b.s[p*n+q] += scale * most * d.m[x] * d.m[y]
			}
			for k := range active {
				b.c[k*n+p] += scale * ev.dv[k] * d.total[j*e.outputs+k] * d.m[x]
			}
		}
	}
}

// others is the common key of all groups without a column of the expert.
const others = 0

// find sets at to the indices, in the event, of the variables of block i. The base's variable belongs to every block.
func (d *groupNoise) find(i, outputs int) {
	b := &d.blocks[i]
	for x, variable := range d.at {
		at, there := slices.BinarySearch(b.places, variable)
		if !there {
			b.join(variable, outputs)
			for y := range x { // insertion has moved the following ones
				if d.at[y] >= at {
					d.at[y]++
				}
			}
		}
		d.at[x] = at
	}
}

// takeGroup applies one column of the factor of a group.
func (e *Expert) takeGroup() {
	d, ev := &e.groupNoise, &e.event
	if d.column >= len(d.places) {
		if len(d.blocks) == 0 {
			return
		}
		d.turn = (d.turn + 1) % len(d.blocks)
		e.factorize(&d.blocks[d.turn])
	}
	j, n := d.column, len(d.places)
	d.column++
	if n == 0 || d.factor[j*n+j] == 0 {
		return
	}
	ev.room(e.p.n)
	for i := j; i < n; i++ {
		ev.full[d.places[i]] = d.factor[i*n+j]
	}
	e.p.leverage(ev.full, d.places[j])
	alpha := e.p.update(1, ev.gain)
	for k, u := range e.u {
		e.step(k, -(model.Product(u, ev.full)-d.wanted[k*n+j])/alpha)
	}
}

// factorize computes the factor L of the next block, and the target w_k of each column of L.
func (e *Expert) factorize(b *block) {
	d := &e.groupNoise
	n := len(b.places)
	d.column, d.places = 0, append(d.places[:0], b.places...)
	d.factor, d.wanted = zeros(d.factor, n*n), zeros(d.wanted, e.outputs*n)
	for j := range n {
		pivot := b.s[j*n+j]
		for h := range j {
			pivot -= d.factor[j*n+h] * d.factor[j*n+h]
		}
		if !(pivot > leastPivot*b.s[j*n+j]) {
			continue
		}
		root := math.Sqrt(pivot)
		d.factor[j*n+j] = root
		for i := j + 1; i < n; i++ {
			x := b.s[i*n+j]
			for h := range j {
				x -= d.factor[i*n+h] * d.factor[j*n+h]
			}
			d.factor[i*n+j] = x / root
		}
	}
	for k, u := range e.u {
		slope := zeros(d.slope, n)
		for j := range n {
			root := d.factor[j*n+j]
			if root == 0 {
				continue
			}
			x, y := b.c[k*n+j], 0.0
			for h := range j {
				x -= d.factor[j*n+h] * slope[h]
			}
			slope[j] = x / root
			for i := j; i < n; i++ {
				y += d.factor[i*n+j] * u[b.places[i]]
			}
			d.wanted[k*n+j] = y - slope[j]
		}
		d.slope = slope
	}
	clear(b.s)
	clear(b.c)
}

// leastPivot is the smallest pivot, as a fraction of the diagonal entry of the variable. Smaller pivots count as 0.
const leastPivot = 1e-9

// zeros returns n zeros, in the memory of x if possible.
func zeros(x []float64, n int) []float64 {
	x = slices.Grow(x[:0], n)[:n]
	clear(x)
	return x
}

// scale adapts the sums to a new scale. It divides the values of a variable by ratio, and multiplies the weights of the
// variable by ratio.
func (d *groupNoise) scale(variable int, ratio float64) {
	for i := range d.blocks {
		b := &d.blocks[i]
		n := len(b.places)
		if at, there := slices.BinarySearch(b.places, variable); there {
			for j := range n {
				b.s[at*n+j] /= ratio
				b.s[j*n+at] /= ratio
			}
			for j := at; j < len(b.c); j += n {
				b.c[j] /= ratio
			}
		}
	}
	if at, there := slices.BinarySearch(d.places, variable); there {
		n := len(d.places)
		for j := range n {
			d.factor[at*n+j] /= ratio
		}
	}
}

// rescale multiplies all scores by factor. It is only for one output.
func (d *groupNoise) rescale(factor float64) {
	d.scale(1, 1/factor)
	for i := range d.blocks {
		for j := range d.blocks[i].c {
			d.blocks[i].c[j] *= factor
		}
	}
	for j := range d.wanted {
		d.wanted[j] *= factor
	}
}

// state encodes or decodes the state.
func (d *groupNoise) state(c *coder.Coder, variables, outputs int) {
	if c.Decode {
		d.reset()
	}
	coder.Length(c, &d.blocks, variables)
	places := func(p *[]int) {
		list := make([]uint32, len(*p))
		for i, x := range *p {
			list[i] = uint32(x)
		}
		if c.Uint32s(&list); !c.Decode {
			return
		}
		*p = make([]int, len(list))
		for i, x := range list {
			(*p)[i] = int(x)
			c.Failed = c.Failed || int(x) >= variables || i > 0 && list[i-1] >= x
		}
	}
	for i := range d.blocks {
		b := &d.blocks[i]
		c.Uint(&b.key)
		places(&b.places)
		c.Floats(&b.s, &b.c)
		n := len(b.places)
		c.Failed = c.Failed || len(b.s) != n*n || len(b.c) != outputs*n
	}
	c.Int(&d.turn)
	c.Int(&d.column)
	places(&d.places)
	c.Floats(&d.factor, &d.wanted)
	n := len(d.places)
	if c.Decode {
		c.Failed = c.Failed || uint(d.turn) > uint(len(d.blocks)) || uint(d.column) > uint(n) || len(d.factor) != n*n || len(d.wanted) != outputs*n
	}
}
