package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/kernel"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestLIBSVMFindsTheSameOptimum compares our solver with LIBSVM's (Chang & Lin 2011, package libsvm-tools) on the same
// dual problems. Both must find the same optimum for the RBF kernel and for DropSVM's kernel matrix Kbar, which LIBSVM
// reads as a precomputed kernel (-t 4).
func TestLIBSVMFindsTheSameOptimum(t *testing.T) {
	longtest.NotRaced(t)
	tool, err := exec.LookPath("svm-train")
	if err != nil {
		t.Skip("svm-train is not installed (Debian: libsvm-tools): LIBSVM is not compared")
	}
	for _, name := range []string{"dense", "sparse", "counts"} {
		x, y, data := goldenProblem(t, name)
		k := must.Get(svm.Resolve(kernel.RBF{}, data))(t)
		gram := must.Get(svm.NewGram(k, data, 2))(t)
		for _, cost := range []float64{0.1, 1, 10} {
			sigma := k.(kernel.RBF).Sigma
			gamma := strconv.FormatFloat(1/(2*sigma*sigma), 'g', 17, 64)
			rows := func(i int, write func(index int, value float64)) {
				for d, v := range x[i] {
					if v != 0 {
						write(d+1, v)
					}
				}
			}
			compare(t, fmt.Sprintf("%s rbf c=%v", name, cost), tool, gram, y, cost, rows, "-t", "2", "-g", gamma)
			for _, drop := range []svm.DropSVM{{Q: 0.1, Keep: 0.7}, {Q: 10, Keep: 0.3}, {Q: 1, Keep: 0.5, Epochs: 5, Seed: 1}} {
				dk := must.Get(drop.Kernel(gram))(t)
				rows := func(i int, write func(index int, value float64)) {
					write(0, float64(i+1))
					for j, v := range dk.Kbar.Row(i) {
						write(j+1, v)
					}
				}
				compare(t, fmt.Sprintf("%s dropsvm %+v c=%v", name, drop, cost), tool, dk.Kbar, y, cost, rows, "-t", "4")
			}
		}
	}
}

var libsvmObjective = regexp.MustCompile(`obj = (-?[0-9.e+-]+), rho = (-?[0-9.e+-]+)`)

func compare(t *testing.T, what, tool string, k batch.GramRows, y []float64, cost float64, row func(i int, write func(int, float64)), args ...string) {
	t.Helper()
	dir := t.TempDir()
	f := must.Get(os.Create(filepath.Join(dir, "train")))(t)
	w := bufio.NewWriter(f)
	for i := range y {
		fmt.Fprintf(w, "%+g", y[i])
		row(i, func(index int, v float64) { fmt.Fprintf(w, " %d:%.17g", index, v) })
		fmt.Fprintln(w)
	}
	must.Do(t, w.Flush())
	must.Do(t, f.Close())
	args = append([]string{"-s", "0", "-e", "1e-6", "-c", fmt.Sprint(cost)}, append(args, f.Name(), filepath.Join(dir, "model"))...)
	out, err := exec.Command(tool, args...).CombinedOutput()
	must.Require(t, err == nil, "%s: %v: %s", what, err, out)
	m := libsvmObjective.FindSubmatch(out)
	must.Require(t, m != nil, "%s: no objective in %s", what, out)
	theirs := must.Get(strconv.ParseFloat(string(m[1]), 64))(t)
	c := eventtest.List(len(y), func(int) float64 { return cost })
	ours := must.Get(batch.HingeDual(k, y, c).Solve(context.Background()))(t)
	// LIBSVM prints the value of the dual as a minimization problem (with the opposite sign), with six decimals.
	off := math.Abs(ours.Dual + theirs)
	must.True(t, off <= 1e-4*math.Abs(theirs)+1e-6 && ours.Converged, "%s: LIBSVM %v, ours %v, off by %v", what, -theirs, ours.Dual, off)
}

// goldenProblem reads a problem from the golden files of package batch.
func goldenProblem(t *testing.T, name string) (x [][]float64, y []float64, d *batch.Data) {
	t.Helper()
	raw := must.Get(os.ReadFile("../batch/testdata/golden/" + name + ".json"))(t)
	var g struct {
		X [][]float64
		Y []float64
	}
	must.Do(t, json.Unmarshal(raw, &g))
	var b batch.Builder
	for i, row := range g.X {
		e := event.Example{Weight: 1}
		if g.Y[i] > 0 {
			e.Label = 1
		}
		for c, v := range row {
			if v != 0 {
				e.Features.Index = append(e.Features.Index, uint32(c))
				e.Features.Value = append(e.Features.Value, v)
			}
		}
		must.Do(t, b.Add(&e))
	}
	return g.X, g.Y, b.Data(event.NewSchema(10, []string{"-1", "1"}, 2))
}
