package main

// This file writes the table that compares exact solvers with LIBLINEAR.

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
)

// matched is the relative gap to the minimum that both solvers must reach.
const matched = 1e-3

// probeSeconds limits the time of LIBLINEAR for one tolerance. No round of runs starts after roundSeconds. So the whole
// section takes about two minutes.
const (
	probeSeconds = 15
	roundSeconds = 15
)

// solvers measures blankout train --tol 1e-3 and LIBLINEAR on the same file to the same gap. It measures whole
// processes, including the loading of the file. LIBLINEAR's tolerance is not a gap. So solvers first finds the largest
// tolerance whose weights reach the gap, which is the fastest setting for LIBLINEAR. All LIBLINEAR solvers of the
// objective are measured.
func (c *comparison) solvers() error {
	if c.liblinear == "" {
		return fmt.Errorf("solvers: name LIBLINEAR's train command with -liblinear")
	}
	if err := c.build(); err != nil {
		return err
	}
	fmt.Fprintf(c.w, "## To a gap of %g, loading included\n\nThe least of up to %d runs in turn. C = %g; blankout's gap is the certified one.\n\n| data | loss | program | gap | wall, s | processor, s | wall / LIBLINEAR |\n|---|---|---|---|---|---|---|\n", matched, c.rounds, c.cost)
	for _, name := range []string{"a9a", "w8a", "imdb"} {
		columns, title := uint32(math.MaxUint32), name
		if name == "imdb" {
			columns, title = imdbUnigrams, "imdb unigrams"
		}
		s, err := load(c.path(name, "train.svm.gz"), 2)
		if err != nil {
			return err
		}
		file := filepath.Join(c.work, name+".svm")
		if err := writeText(file, s, false, func(_ int, x event.Vec) event.Vec {
			n, _ := slices.BinarySearch(x.Index, columns)
			return event.Vec{Index: x.Index[:n], Value: x.Value[:n]}
		}); err != nil {
			return err
		}
		if s, err = load(file, 2); err != nil { // labels are 0 and 1, as in the file
			return err
		}
		for _, loss := range []struct {
			name    string
			solvers []string
		}{{"hinge", []string{"3"}}, {"logistic", []string{"0", "7"}}} {
			if err := c.matchedGap(file, title, s, loss.name, loss.solvers); err != nil {
				return fmt.Errorf("%s, %s: %w", title, loss.name, err)
			}
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

func (c *comparison) matchedGap(file, title string, s *set, loss string, solvers []string) error {
	o, err := plainObjective(s, loss, c.cost)
	if err != nil {
		return err
	}
	// The reference minimum has an uncertainty. The gap of LIBLINEAR is reduced by this uncertainty.
	exact, err := batch.Solve(context.Background(), o.Expected, batch.Options{Tol: matched / 5})
	if err != nil {
		return err
	}
	cost := c.cost
	if loss == "logistic" {
		cost *= 2 // |w|^2 + c sum loss is twice |w|^2/2 + C sum loss, so c = 2 C
	}
	ours := []string{c.binary, "train", "-d", file, "--loss", loss, "-c", fmt.Sprint(cost), "--tol", fmt.Sprint(matched), "--quiet", "-o", filepath.Join(c.work, "ours")}
	all := []*contestant{
		{name: "blankout, --intercept penalized", args: append(slices.Clone(ours), "--intercept", "penalized")},
		{name: "blankout, free intercept", args: ours},
	}
	for _, solver := range solvers {
		tolerances := []string{"10", "3", "1", "0.3", "0.1", "0.03", "0.01", "0.003", "0.001", "0.0001"}
		args := func(e string) []string {
			return []string{c.liblinear, "-s", solver, "-c", fmt.Sprint(c.cost), "-B", "1", "-e", e, "-q", file, filepath.Join(c.work, "model")}
		}
		x := &contestant{name: fmt.Sprintf("LIBLINEAR -s %s: no tolerance found in %d s each", solver, probeSeconds)}
		sort.Search(len(tolerances), func(i int) bool { // the first that is small enough, if it does not take too long
			gap := math.NaN()
			if err == nil {
				gap, err = c.liblinearGap(args(tolerances[i]), exact, o)
			}
			if gap <= matched {
				x.name, x.gap, x.args = "LIBLINEAR -s "+solver+" -e "+tolerances[i], fmt.Sprintf("%.1e", gap), args(tolerances[i])
			}
			return gap <= matched || math.IsInf(gap, 1)
		})
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	begin := time.Now()
	for range c.rounds {
		if err := runOnce(slices.DeleteFunc(slices.Clone(all), func(x *contestant) bool { return x.args == nil })); err != nil {
			return err
		}
		if time.Since(begin).Seconds() > roundSeconds {
			break
		}
	}
	best := math.Inf(1)
	for _, x := range all[2:] {
		wall, _ := least(x.runs)
		best = min(best, wall)
	}
	for _, x := range all {
		if x.gap == "" {
			x.gap = "≤ 1e-3"
		}
		if x.args == nil {
			fmt.Fprintf(c.w, "| %s | %s | %s | | | | |\n", title, loss, x.name)
			continue
		}
		wall, cpu := least(x.runs)
		ratio := ""
		if !math.IsInf(best, 1) {
			ratio = fmt.Sprintf("%.2f", wall/best)
		}
		fmt.Fprintf(c.w, "| %s | %s | %s | %s | %.2f | %.2f | %s |\n", title, loss, x.name, x.gap, wall, cpu, ratio)
	}
	return nil
}

// liblinearGap returns the relative gap of LIBLINEAR's weights to the minimum. It returns +Inf if LIBLINEAR takes
// longer than probeSeconds.
func (c *comparison) liblinearGap(args []string, exact *batch.Result, o *indexed) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeSeconds*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); ctx.Err() != nil {
		return math.Inf(1), nil
	} else if err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	w, err := liblinearWeights(args[len(args)-1], len(exact.W)-1, o)
	if err != nil {
		return 0, err
	}
	return (o.ValueGrad(w, nil) - exact.Objective) / exact.Objective, nil
}

// plainObjective returns twice LIBLINEAR's objective, for a set with labels 0 and 1.
func plainObjective(s *set, name string, cost float64) (*indexed, error) {
	d := dataOf(s.schema, s.examples).SortClasses()
	y := make([]float64, d.Rows())
	for i := range y {
		y[i] = float64(2*d.Label(i) - 1)
	}
	l := loss.Loss(loss.HingeGaussian{Ell: 1})
	if name == "logistic" {
		l = loss.LogisticGaussian{}
	}
	it := batch.PenalizedIntercept
	o, err := batch.NewExpected(batch.Problem{Data: d, Y: y, Loss: l, Kappa: 2 * cost, Intercept: it,
		Penalty: batch.Ridge(d.Columns(), 1, it), Threads: runtime.GOMAXPROCS(0)})
	return &indexed{o, d}, err
}

type indexed struct {
	*batch.Expected
	data *batch.Data
}

// liblinearWeights reads a LIBLINEAR model of two classes, trained with -B 1. It returns the weights in the order of o.
func liblinearWeights(name string, columns int, o *indexed) ([]float64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	head, body, _ := strings.Cut(string(text), "\nw\n")
	sign := 1.0
	if strings.Contains(head, "label 0 1") {
		sign = -1
	}
	var all []float64
	for _, field := range strings.Fields(body) {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, sign*v)
	}
	w := make([]float64, columns+1)
	for d := range columns {
		w[d] = all[o.data.Column(d)]
	}
	w[columns] = all[len(all)-1]
	return w, nil
}

// least returns the shortest wall time and the shortest processor time of the runs, in seconds.
func least(runs []run) (wall, cpu float64) {
	wall, cpu = math.Inf(1), math.Inf(1)
	for _, r := range runs {
		wall, cpu = min(wall, r.wall.Seconds()), min(cpu, r.cpu.Seconds())
	}
	return wall, cpu
}
