package newton

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/experts"
)

// groups returns the groups of the current event: columns 3 and 8 form a group, 20 and 31 another, and column 9 is
// alone. Each group, and a fourth group without columns, has a fraction of the base score.
func (s *stream) groups() experts.Groups {
	g := experts.Groups{Keys: []uint64{11, 12, 13, 14}, Sums: make([]float64, 4*len(s.y))}
	for _, column := range s.at {
		g.Of = append(g.Of, map[uint32]int{3: 0, 8: 0, 9: 1, 20: 2, 31: 2}[column])
	}
	for k, b := range s.base {
		for j, part := range []float64{0.5, -0.2, 0.4, 0.3} {
			g.Sums[j*len(s.y)+k] = part * b
		}
	}
	return g
}

// TestGroupVariance compares the result of the method variance with the variance of the scores over all masks of
// groups.
func TestGroupVariance(t *testing.T) {
	const q = 0.3
	for _, outputs := range []int{1, 3} {
		e, s := of(loss.LogisticGaussian{}, outputs)
		e.set.Strength, e.set.Groups = 0, q/(1-q)
		scores := make([]float64, outputs)
		for range 300 {
			s.next()
			e.Score(s.at, s.x, s.base, scores)
			g := s.groups()
			e.Die(g)
			for k := range outputs {
				w, mean, square := e.Weights(k), 0.0, 0.0
				for mask := range 16 {
					f, p := w.Intercept, 1.0
					for j := range 4 {
						if mask>>j&1 == 0 {
							p *= q
							continue
						}
						p *= 1 - q
						f += w.Base * g.Sums[j*outputs+k] / (1 - q)
						for n, column := range s.at {
							if g.Of[n] == j {
								f += w.Columns[slices.Index(s.columns, column)] * s.x[n] / (1 - q)
							}
						}
					}
					mean += p * f
					square += p * f * f
				}
				want := square - mean*mean
				must.Require(t, math.Abs(e.variance(k)-want) <= 1e-9*(1+want), "output %d of %d: %v, want %v", k, outputs, e.variance(k), want)
			}
			e.Learn(s.y, outputs, 1)
		}
	}
}

// TestGroupNoiseAgainstSlowVersion checks that applying the sums of a group gives the same result as solving with full
// matrices.
func TestGroupNoiseAgainstSlowVersion(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		e, s := of(loss.LogisticGaussian{}, outputs)
		e.set.Groups = 0.6
		scores := make([]float64, outputs)
		learn := func() {
			s.next()
			e.Score(s.at, s.x, s.base, scores)
			e.Die(s.groups())
		}
		for range 100 {
			learn()
			e.Learn(s.y, outputs, 1)
		}
		e.groupNoise.reset()
		n := e.p.n
		type sums struct {
			s *mat.SymDense
			c []*mat.VecDense
		}
		slow := map[uint64]*sums{}
		for event := range 40 {
			learn()
			g := s.groups()
			for k := range outputs {
				e.event.dv[k] = 0.1 + s.r.Float64()
			}
			most := slices.Max(e.event.dv)
			for j, key := range g.Keys {
				if outputs > 1 && !slices.Contains(g.Of, j) {
					continue
				}
				if !slices.Contains(g.Of, j) {
					key = others
				}
				if slow[key] == nil {
					slow[key] = &sums{s: mat.NewSymDense(n, nil)}
					for range outputs {
						slow[key].c = append(slow[key].c, mat.NewVecDense(n, nil))
					}
				}
				m := mat.NewVecDense(n, nil)
				if outputs == 1 {
					m.SetVec(1, g.Sums[j])
				}
				for i, column := range s.at {
					if g.Of[i] == j {
						m.SetVec(e.first+slices.Index(s.columns, column), s.x[i])
					}
				}
				at := slow[key]
				at.s.SymRankOne(at.s, 2*most*0.6*2, m)
				for k, u := range e.u {
					total := mat.Dot(m, mat.NewVecDense(n, u)) + g.Sums[j*outputs+k]
					at.c[k].AddScaledVec(at.c[k], 2*e.event.dv[k]*0.6*2*total, m)
				}
			}
			if e.sumGroups(2, outputs); event == 20 {
				e = e.clone(t)
			}
		}
		a, u := inverse(t, &e.p), slices.Clone(e.u)
		for k := range u {
			u[k] = slices.Clone(u[k])
		}
		want := 3 + 2 - min(outputs, 2)
		must.Require(t, len(e.groupNoise.blocks) == want, "%d outputs: %d blocks, want %d", outputs, len(e.groupNoise.blocks), want)
		for range e.groupNoise.blocks {
			for e.takeGroup(); e.groupNoise.column < len(e.groupNoise.places); {
				e.takeGroup()
			}
			at := slow[e.groupNoise.blocks[e.groupNoise.turn].key]
			a.AddSym(a, at.s)
			var c mat.Cholesky
			must.Require(t, c.Factorize(a), "the matrix is indefinite")
			for k := range u {
				var step mat.VecDense
				must.Do(t, c.SolveVecTo(&step, at.c[k]))
				for i := range n {
					u[k][i] -= step.AtVec(i)
					must.Require(t, math.Abs(u[k][i]-e.u[k][i]) <= 1e-8*(1+math.Abs(u[k][i])), "%d outputs, weight %d: %v, want %v", outputs, i, e.u[k][i], u[k][i])
				}
			}
		}
		got := inverse(t, &e.p)
		for i := range n {
			for j := range n {
				must.Require(t, math.Abs(got.At(i, j)-a.At(i, j)) <= 1e-7*math.Sqrt(a.At(i, i)*a.At(j, j)), "%d outputs: A is %v at %d, %d, want %v", outputs, got.At(i, j), i, j, a.At(i, j))
			}
		}
	}
}

// inverse returns A, the inverse of p.
func inverse(t *testing.T, p *covariance) *mat.SymDense {
	t.Helper()
	full := mat.NewSymDense(p.n, nil)
	for i := range p.n {
		for j := range i + 1 {
			full.SetSym(i, j, p.at(i, j))
		}
	}
	var c mat.Cholesky
	out := mat.NewSymDense(p.n, nil)
	must.Require(t, c.Factorize(full), "the covariance is indefinite")
	must.Do(t, c.InverseTo(out))
	return out
}

// TestGroupNoiseIsMinimized checks that an expert without forgetting approaches the minimum of the expected loss under
// group noise. Only a small part of the initial gradient may remain.
func TestGroupNoiseIsMinimized(t *testing.T) {
	for _, l := range []loss.Loss{loss.LogisticGaussian{}, squared(t)} {
		for _, outputs := range []int{1, 3} {
			if outputs > 1 && l.Facts().Target != loss.Sign {
				continue
			}
			s := newStream(3, l, outputs)
			e := newTested(Settings{Loss: l, Ridge: 1, Groups: 1}, outputs)
			e.follow(s.columns)
			scores := make([]float64, outputs)
			for range learnAll {
				s.next()
				e.Score(s.at, s.x, s.base, scores)
				e.Die(s.groups())
				e.Learn(s.y, outputs, 1)
			}
			slope := func(e *tested) (square float64) {
				s := newStream(3, l, outputs)
				sums := make([][]float64, outputs)
				for k, u := range e.u {
					sums[k] = slices.Clone(u) // gradient of the ridge
				}
				for range learnAll {
					s.next()
					e.Score(s.at, s.x, s.base, scores)
					e.Die(s.groups())
					for k := range outputs {
						_, df, dv := l.At(s.y[k], scores[k], e.variance(k))
						for n, i := range e.event.at {
							sums[k][i] += df * e.event.z[n]
							if of := e.groupNoise.of[n]; of >= 0 {
								sums[k][i] += 2 * dv * e.set.Groups * e.groupNoise.total[of*outputs+k] * e.event.z[n]
							}
						}
						if outputs == 1 {
							for j, b := range e.groupNoise.groups.Sums {
								sums[k][1] += 2 * dv * e.set.Groups * e.groupNoise.total[j] * b
							}
						}
					}
				}
				for _, list := range sums {
					square += model.Product(list, list)
				}
				return math.Sqrt(square)
			}
			fresh := newTested(e.set, outputs)
			fresh.follow(s.columns)
			left := slope(e) / slope(fresh)
			must.True(t, left <= 0.05, "%v, %d outputs: %.4f of the slope is left", l, outputs, left)
		}
	}
}

// TestGroupNoiseFollowsScales checks that the sums are converted if column scales or the target unit change, so that
// the result is the same.
func TestGroupNoiseFollowsScales(t *testing.T) {
	run := func(when int) (last []float64) {
		s := newStream(5, squared(t), 1)
		e := newTested(Settings{Loss: squared(t), Ridge: 1, Groups: 0.5}, 1)
		e.follow(s.columns)
		scores, column, unit := make([]float64, 1), 1.0, 1.0
		for n := range 300 {
			if n == when {
				column, unit = 1.05, 3
				e.Move(&encode.Move{Column: 8, Ratio: column})
				e.Rescale(unit, 0, 1)
			}
			s.next()
			if i := slices.Index(s.at, 8); i >= 0 {
				s.x[i] /= column
			}
			s.base[0], s.y[0] = s.base[0]*unit, s.y[0]*unit
			if e.Score(s.at, s.x, s.base, scores); n > 203 {
				last = append(last, scores[0])
			}
			e.Die(s.groups())
			e.Learn(s.y, 1, 1)
		}
		return last
	}
	a := run(150)
	for when := range 10 { // after each column of a factor
		b := run(194 + when)
		must.Near(t, b, a, 1e-9, "scores, and those changed earlier")
	}
}

func squared(t *testing.T) loss.Loss {
	t.Helper()
	return must.Get(loss.Parse("squared"))(t)
}
