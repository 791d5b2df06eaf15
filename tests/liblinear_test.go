package tests

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/kernel"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream"
	"blankout/stream/record"
)

// TestLIBLINEARFindsTheSameOptimum compares solutions without noise with LIBLINEAR (Fan et al. 2008, package
// liblinear-tools) and LIBSVM. The objective at the other solver's weights must be within 1e-4 of our minimum, and
// never below our certified lower bound. LIBLINEAR penalizes the intercept (-B 1), LIBSVM does not. LIBLINEAR's
// objective |w|^2/2 + C sum loss is half of our objective, for c = C (hinge) and c = 2C (squared hinge, logistic).
//
// The data set a9a is included. make oracle DATA=DIR adds w8a and the unigrams of imdb, from DIR/NAME/train.svm.gz.
func TestLIBLINEARFindsTheSameOptimum(t *testing.T) {
	longtest.NotRaced(t)
	tool, err := exec.LookPath("liblinear-train")
	if err != nil {
		t.Skip("liblinear-train is not installed (Debian: liblinear-tools): LIBLINEAR is not compared")
	}
	for _, set := range oracleSets(t) {
		for _, c := range []struct {
			name, args string
			loss       loss.Loss
			cost       float64
		}{
			{"hinge", "-s 3 -c 0.1 -e 0.001", loss.HingeGaussian{Ell: 1}, 0.1},
			{"squared hinge", "-s 2 -c 0.1 -e 0.00001", loss.SquaredHinge{Ell: 1}, 0.2},
			{"logistic", "-s 0 -c 0.1 -e 0.00001", loss.LogisticGaussian{}, 0.2},
			{"logistic", "-s 0 -c 1 -e 0.00001", loss.LogisticGaussian{}, 2},
		} {
			model := filepath.Join(t.TempDir(), "model")
			args := append(strings.Fields(c.args), "-q", "-B", "1", set.plain, model)
			runProgram(t, "", tool, args...)
			d := set.data
			theirs := liblinearWeights(t, model, d)
			compareOptimum(t, set.name+" "+c.name+" "+c.args, d, c.loss, c.cost, batch.PenalizedIntercept, theirs)
		}
	}
}

func TestLIBSVMFindsTheSameHyperplane(t *testing.T) {
	longtest.NotRaced(t)
	tool, err := exec.LookPath("svm-train")
	if err != nil {
		t.Skip("svm-train is not installed (Debian: libsvm-tools): LIBSVM is not compared")
	}
	set := oracleSets(t)[0]
	// Only the first 2,000 rows are used, because LIBSVM's time is quadratic in the number of rows.
	rows := must.List(2000, func(i int) int { return i })
	d := set.data.Subset(rows)
	for _, cost := range []float64{0.01, 1} {
		dir := t.TempDir()
		text := must.Get(os.ReadFile(set.plain))(t)
		lines := strings.SplitAfterN(string(text), "\n", len(rows)+1)
		file, model := filepath.Join(dir, "train"), filepath.Join(dir, "model")
		must.Do(t, os.WriteFile(file, []byte(strings.Join(lines[:len(rows)], "")), 0o600))
		args := []string{"-s", "0", "-t", "0", "-c", fmt.Sprint(cost), "-e", "1e-5", file, model}
		runProgram(t, "", tool, args...)
		compareOptimum(t, fmt.Sprint("libsvm c=", cost), d, loss.HingeGaussian{Ell: 1}, cost, batch.FreeIntercept, libsvmWeights(t, model, d))
	}
}

// compareOptimum compares the weights of another solver with our solution.
func compareOptimum(t *testing.T, name string, d *batch.Data, l loss.Loss, cost float64, it batch.Intercept, theirs []float64) {
	t.Helper()
	y := must.List(d.Rows(), func(i int) float64 { return float64(2*d.Label(i) - 1) })
	o, err := batch.NewExpected(batch.Problem{Data: d, Y: y, Loss: l, Kappa: loss.Cost(l, cost), Intercept: it,
		Penalty: batch.Ridge(d.Columns(), 1, it), Threads: 2})
	must.Do(t, err)
	r := must.Get(batch.Solve(context.Background(), o, batch.Options{Tol: 1e-6}))(t)
	value := o.ValueGrad(theirs, nil)
	t.Logf("%s: ours %.10g (gap %.2g), theirs %.10g", name, r.Objective, r.Gap, value)
	must.True(t, r.Converged && value >= r.Objective-r.Gap && math.Abs(value-r.Objective) <= 1e-4*r.Objective, "%s: their weights reach %.10g, ours %.10g with a gap of %.2g", name, value, r.Objective, r.Gap)
}

type oracleSet struct {
	name, plain string // plain is the path of the uncompressed file
	data        *batch.Data
}

func oracleSets(t *testing.T) []oracleSet {
	sets := []oracleSet{readOracleSet(t, "a9a", "testdata/a9a/train.svm.gz", math.MaxUint32)}
	if dir := os.Getenv("BLANKOUT_ORACLE_DATA"); dir != "" {
		sets = append(sets, readOracleSet(t, "w8a", filepath.Join(dir, "w8a/train.svm.gz"), math.MaxUint32),
			readOracleSet(t, "imdb unigrams", filepath.Join(dir, "imdb/train.svm.gz"), 47123))
	}
	return sets
}

// readOracleSet decompresses a data set and reads it, without the columns above the given number.
func readOracleSet(t *testing.T, name, path string, columns uint32) oracleSet {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	set := oracleSet{name: name, plain: filepath.Join(t.TempDir(), "train.svm")}
	out := must.Get(os.Create(set.plain))(t)
	w, lines := bufio.NewWriter(out), bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		for i, word := range strings.Fields(lines.Text()) {
			if i == 0 {
				w.WriteString(word)
				continue
			}
			index, _, _ := strings.Cut(word, ":")
			if n, err := strconv.ParseUint(index, 10, 32); err == nil && uint32(n) <= columns {
				w.WriteString(" " + word)
			}
		}
		w.WriteString("\n")
	}
	must.Do(t, errors.Join(lines.Err(), w.Flush(), out.Close()))
	c := record.DefaultConfig()
	schema := c.Schema()
	src := must.Get(stream.OpenFile(set.plain, c, schema))(t)
	defer src.Close()
	var b batch.Builder
	for e := range eventtest.Examples(t, src.Next) {
		must.Do(t, b.Add(e))
	}
	set.data = b.Data(schema).SortClasses()
	return set
}

// liblinearWeights reads a LIBLINEAR model of two classes with an intercept.
func liblinearWeights(t *testing.T, path string, d *batch.Data) []float64 {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	head, body, _ := strings.Cut(string(text), "\nw\n")
	sign := must.Either(strings.Contains(head, "label -1 1"), -1.0, 1)
	var all []float64
	for _, field := range strings.Fields(body) {
		v := must.Get(strconv.ParseFloat(field, 64))(t)
		all = append(all, sign*v)
	}
	w := make([]float64, d.Columns()+1)
	for c := range d.Columns() {
		w[c] = all[d.Column(c)]
	}
	w[d.Columns()] = all[len(all)-1]
	return w
}

// libsvmWeights returns the weights of a linear LIBSVM model. They are the sum of its support vectors, weighted by
// their coefficients.
func libsvmWeights(t *testing.T, path string, d *batch.Data) []float64 {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	head, body, _ := strings.Cut(string(text), "\nSV\n")
	column := map[int]int{}
	for c := range d.Columns() {
		column[int(d.Column(c))+1] = c
	}
	w := make([]float64, d.Columns()+1)
	for line := range strings.Lines(body) {
		fields := strings.Fields(line)
		coef := must.Get(strconv.ParseFloat(fields[0], 64))(t)
		for _, f := range fields[1:] {
			var index int
			var v float64
			must.Get(fmt.Sscanf(f, "%d:%g", &index, &v))(t)
			w[column[index]] += coef * v
		}
	}
	sign := 1.0
	for line := range strings.Lines(head) {
		if rho, ok := strings.CutPrefix(line, "rho "); ok {
			v := must.Get(strconv.ParseFloat(strings.TrimSpace(rho), 64))(t)
			w[d.Columns()] = -v
		}
		if strings.HasPrefix(line, "label -1 1") {
			sign = -1
		}
	}
	for i := range w {
		w[i] *= sign
	}
	return w
}

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
	c := must.List(len(y), func(int) float64 { return cost })
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
