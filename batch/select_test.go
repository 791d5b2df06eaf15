package batch

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

func TestSelectFindsTheBetterSettings(t *testing.T) {
	d := classData(t, 300, 2, "-1", "1")
	c := DefaultConfig()
	c.Loss = "hinge"
	s := Selection{Folds: 5, Grid: []Axis{{"c", []string{"1e-7", "1"}}, {"q", []string{"0", "0.5"}}}, Deletions: []float64{0, 0.5}, Seed: 3}
	var want string
	for threads := 1; threads <= 3; threads += 2 {
		s.Threads = threads
		table, _ := must.Get2(Select(context.Background(), d, c, s))(t)
		if len(table.Candidates) != 4 {
			t.Fatalf("%d candidates", len(table.Candidates))
		}
		for j, best := range table.Best {
			if got := table.Candidates[best].Values[0]; got != "1" {
				t.Errorf("deletion %v: the best c is %s: %+v", s.Deletions[j], got, table.Candidates)
			}
		}
		if table.Candidates[2].Error[1] <= table.Candidates[2].Error[0] {
			t.Errorf("deleting half of the features costs nothing: %v", table.Candidates[2].Error)
		}
		got := fmt.Sprint(table)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d threads give another table", threads)
		}
	}
}

// TestSelectStartsWhereTheLastOneEnded checks that a chain of candidates gives the same ranking as separate training of
// each candidate, within the tolerance.
func TestSelectStartsWhereTheLastOneEnded(t *testing.T) {
	longtest.NotRaced(t)
	d := classData(t, 120, 3, "a", "b", "c")
	for _, loss := range []string{"logistic", "hinge", "t-logistic:1.5"} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Tol = loss, "dropout:0.3", 1e-8
		costs := []string{"0.01", "1", "100"}
		s := Selection{Folds: 3, Grid: []Axis{{"c", costs}, {"intercept", []string{"free", "none"}}}, Deletions: []float64{0, 0.5}}
		all, _ := must.Get2(Select(t.Context(), d, c, s))(t)
		for i, n := range all.Candidates {
			s.Grid = []Axis{{"c", n.Values[:1]}, {"intercept", n.Values[1:]}}
			alone, _ := must.Get2(Select(t.Context(), d, c, s))(t)
			for j, want := range alone.Candidates[0].LogLoss {
				if got := n.LogLoss[j]; math.Abs(got-want) > 1e-4*want {
					t.Errorf("%s, %s: log-loss %v in a chain, %v alone", loss, all.Name(i), got, want)
				}
			}
		}
	}
}

// TestLeast checks that Least returns the setting with the lowest loss. Equal losses are decided by the lower tie, then
// by the order. NaN must never win against a number.
func TestLeast(t *testing.T) {
	settings := []Held{{math.NaN(), 0}, {3, 1}, {2, 5}, {2, 4}, {2, 4}, {9, 0}}
	of := func(i int) Held { return settings[i] }
	if got := Least(len(settings), nil, of); got != 3 {
		t.Errorf("%d is the least", got)
	}
	if got := Least(len(settings), func(i int) bool { return i == 5 }, of); got != 5 {
		t.Errorf("%d is the least of those wanted", got)
	}
	if got := Least(len(settings), func(i int) bool { return false }, of); got != -1 {
		t.Errorf("%d of none", got)
	}
}

// TestGrid checks the names, settings and order of the points of a grid. The last axis must vary fastest.
func TestGrid(t *testing.T) {
	points, err := Grid(DefaultConfig(), []Axis{{"c", []string{"1", "10"}}, {"q", []string{"0.3", "0.5"}}})
	if err != nil || len(points) != 4 {
		t.Fatal(len(points), err)
	}
	for i, want := range []string{"c = 1, q = 0.3", "c = 1, q = 0.5", "c = 10, q = 0.3", "c = 10, q = 0.5"} {
		p := points[i]
		if p.Name != want || len(p.Values) != 2 || fmt.Sprintf("c = %g, q = %s", p.Settings.Cost, strings.TrimPrefix(p.Settings.Noise, "dropout:")) != want {
			t.Errorf("%+v, want %s", p, want)
		}
	}
	if points, err := Grid(DefaultConfig(), nil); err != nil || len(points) != 1 || points[0].Name != "" {
		t.Errorf("without axes: %+v, %v", points, err)
	}
	for _, axis := range []Axis{{"c", []string{"-1"}}, {"c", []string{"x"}}, {"colour", []string{"1"}}} {
		if _, err := Grid(DefaultConfig(), []Axis{axis}); err == nil {
			t.Errorf("%+v is taken", axis)
		}
	}
}

func TestFoldsAreStratified(t *testing.T) {
	d := classData(t, 200, 3, "a", "b", "c")
	train, test := must.Get2(d.folds(4, 1))(t)
	count := func(d *Data) (n [3]int) {
		for i := range d.Rows() {
			n[d.Label(i)]++
		}
		return n
	}
	all := count(d)
	for f := range test {
		in, out := count(train[f]), count(test[f])
		for k := range all {
			if in[k]+out[k] != all[k] || out[k] < all[k]/4-1 || out[k] > all[k]/4+1 {
				t.Errorf("fold %d holds %v of %v", f, out, all)
			}
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	d := classData(t, 20, 2, "-1", "1")
	for want, s := range map[string]Selection{
		"at least 2":      {Folds: 1},
		"no setting":      {Folds: 2, Grid: []Axis{{"x", []string{"1"}}}},
		"not a number":    {Folds: 2, Grid: []Axis{{"c", []string{"one"}}}},
		"too few":         {Folds: 15},
		"want a fraction": {Folds: 2, Deletions: []float64{1}},
	} {
		if _, _, err := Select(context.Background(), d, DefaultConfig(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
