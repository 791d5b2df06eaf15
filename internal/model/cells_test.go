package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/must"
)

// randomCells returns cells for n correlated columns, and readings with some noise.
func randomCells(t *testing.T, n int, r *rand.Rand) (*cells, *cellEvent) {
	t.Helper()
	matrix := make([]float64, n*n)
	for range 3 * n {
		x := make([]float64, n)
		common := r.NormFloat64()
		for i := range x {
			x[i] = common + r.NormFloat64()
		}
		for i := range n {
			for j := range n {
				matrix[i*n+j] += x[i] * x[j] / float64(3*n)
			}
		}
	}
	columns, known := make([]uint32, n), make([]CellColumn, n)
	for i := range columns {
		columns[i], known[i] = uint32(3*i), CellColumn{Column: uint32(3 * i)}
	}
	c := must.Get(NewCovariance(columns, make([]uint16, n), make([]float64, n), matrix))(t)
	e := newCellEvent(n)
	common := r.NormFloat64()
	for i := range n {
		e.y[i] = (common + r.NormFloat64()) / math.Sqrt2
	}
	return newCells(c, known), e
}

// TestCellsSolve checks that both forms of solve give A y and the diagonal of A = (S + N)^-1, by the definition.
func TestCellsSolve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		n := 3 + r.IntN(12)
		x, e := randomCells(t, n, r)
		for i := range n {
			switch r.IntN(4) {
			case 0:
				e.r[i] = 1
			case 1:
				e.r[i] = 0.1 + 0.8*r.Float64()
			default:
				e.r[i] = 0
			}
		}
		x.solve(e)
		var active []int
		for i := range n {
			if e.r[i] < 1 {
				active = append(active, i)
			}
		}
		k := len(active)
		matrix, want := make([]float64, k*k), make([]float64, k)
		for a, i := range active {
			for b, j := range active {
				matrix[a*k+b] = x.s[i*n+j]
			}
			matrix[a*k+a] += e.noise[i]
			want[a] = e.y[i]
		}
		u, ok := factorize(k, matrix)
		must.Require(t, ok, "not positive")
		u.solve(want)
		inverse := u.inverse()
		for _, form := range []func(*cellEvent) bool{x.solveActive, x.solveNoisy} {
			must.Require(t, form(e), "no solution")
			for a, i := range active {
				must.Require(t, math.Abs(e.a[i]-want[a]) <= 1e-9 && math.Abs(e.d[i]-inverse[a*k+a]) <= 1e-9, "n %d, reading %d: a %v, want %v; d %v, want %v", n, i, e.a[i], want[a], e.d[i], inverse[a*k+a])
			}
		}
	}
}

// TestCellsAlone checks that the others' prediction of a reading is that of a regression on the other readings.
func TestCellsAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		n := 3 + r.IntN(6)
		x, e := randomCells(t, n, r)
		x.solve(e)
		for i := range n {
			matrix, right := []float64{}, []float64{}
			for j := range n {
				if j == i {
					continue
				}
				for l := range n {
					if l != i {
						matrix = append(matrix, x.s[j*n+l])
					}
				}
				right = append(right, x.s[i*n+j])
			}
			u, _ := factorize(n-1, matrix)
			solved := append([]float64(nil), right...)
			u.solve(solved)
			mean, variance, at := 0.0, x.s[i*n+i], 0
			for j := range n {
				if j != i {
					mean, variance = mean+solved[at]*e.y[j], variance-solved[at]*right[at]
					at++
				}
			}
			got := e.y[i] - e.a[i]/e.d[i]
			must.Require(t, math.Abs(got-mean) <= 1e-9 && math.Abs(1/e.d[i]-variance) <= 1e-9, "reading %d: mean %v, want %v; variance %v, want %v", i, got, mean, 1/e.d[i], variance)
		}
	}
}

// TestEvidence compares the evidence of many readings, of which some are nearly impossible, with the sum of logarithms.
func TestEvidence(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, scale := range []float64{1, 1e13} {
		x, e := randomCells(t, 40, r)
		e.atoms, e.others = 0.3, 0.1
		e.active = e.active[:0]
		for i := range x.n {
			e.y[i] = 6 * r.NormFloat64()
			if e.active = append(e.active, i); i%3 > 0 {
				e.atom[i] = fillAtom
			}
		}
		x.solve(e)
		x.judge(e, 0)
		want := 0.0
		for i := range x.n {
			if e.dead[i] *= scale; i%2 == 0 {
				e.dead[i] /= scale * scale
			}
		}
		e.active = e.active[:0] // judge the evidence of these likelihoods alone
		atoms, others := e.atoms, e.others
		x.judge(e, 0)
		must.Require(t, math.Abs(e.atoms-atoms)+math.Abs(e.others-others) <= 1e-9, "the fractions of dead readings have changed")
		for i := range x.n {
			want += math.Log(1 - e.atoms - e.others + e.dead[i])
		}
		must.True(t, math.Abs(e.g-want) <= 1e-9*math.Abs(want), "factor %v: evidence %v, want %v", scale, e.g, want)
	}
}

// TestUnrelated checks that numbers of which none predicts another are doubted only if one has a fill value.
func TestUnrelated(t *testing.T) {
	for _, c := range []struct {
		correlation  float64
		fill         bool
		related      bool
		first, least float64 // evidence of the first round, least evidence at the end
	}{{0, false, false, 0, math.Inf(-1)}, {0, true, false, math.Inf(1), -1}, {0.9, false, true, math.NaN(), -30}} {
		const n = 4
		matrix, known := make([]float64, n*n), make([]CellColumn, n)
		for i := range n {
			for j := range n {
				if matrix[i*n+j] = c.correlation; i == j {
					matrix[i*n+j] = 1
				}
			}
			known[i].Column = uint32(i)
		}
		of := must.Get(NewCovariance([]uint32{0, 1, 2, 3}, make([]uint16, n), make([]float64, n), matrix))(t)
		x, e := newCells(of, known), newCellEvent(n)
		if e.y[1] = 3; c.fill {
			e.atom[1] = fillAtom
		}
		x.infer(e, math.Inf(-1))
		must.True(t, of.Related() == c.related && (math.IsNaN(c.first) || e.first == c.first) && math.IsInf(e.g, -1) == math.IsInf(c.least, -1) && e.g >= c.least,
			"%+v: related %v, evidence %v and %v", c, of.Related(), e.first, e.g)
	}
}

// TestSettles checks that the probabilities after the few rounds of infer are near those after many more rounds. After seven
// rounds in which half of each stays they are .113 away.
func TestSettles(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	distance, readings := 0.0, 0.0
	for range 200 {
		n := 8 + r.IntN(12)
		x, e := randomCells(t, n, r)
		for i := range n {
			if r.IntN(3) == 0 {
				e.y[i] += 3 * r.NormFloat64()
			}
		}
		x.infer(e, math.Inf(-1))
		soon := slices.Clone(e.r)
		for range 60 {
			x.solve(e)
			x.judge(e, 0.5)
		}
		for i, p := range soon {
			distance, readings = distance+math.Abs(p-e.r[i]), readings+1
		}
	}
	must.True(t, distance < 0.09*readings, "probabilities differ by %.4f on the average", distance/readings)
}
