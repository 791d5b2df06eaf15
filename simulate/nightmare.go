// Package simulate answers what a model would have done had features died:
// nightmares at test time, after Globerson & Roweis 2006. A [Nightmare] takes
// features away from an example that a model is about to score; [Error] measures
// the model in it.
package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"blankout"
	"blankout/batch"
)

// Nightmare is a way to lose features. Strike changes the values of x, the
// features of example number n as they are after the model's Scaler; a feature
// that dies becomes 0 there. The draw depends on n and the Nightmare's own seed
// alone, so that every model meets the same one. class is the example's true one.
type Nightmare interface {
	Strike(m *blankout.Model, x blankout.Vec, class, n int)
	// String returns the form that Parse reads.
	String() string
}

// Random lets every feature die with probability Share in [0, 1), independently.
// Survivors are scaled by 1/(1-Share) unless Keep: then they stay as they are.
// The masks are those of blankout predict --delete.
type Random struct {
	Share float64
	Keep  bool
	Seed  uint64
}

func (r Random) Strike(_ *blankout.Model, x blankout.Vec, _, n int) {
	c := batch.Corrupter{Noise: blankout.Dropout{Q: r.Share}, Seed: r.Seed, Keep: r.Keep}
	c.Vec(x, n, 0)
}

func (r Random) String() string { return "random:" + strconv.FormatFloat(r.Share, 'g', -1, 64) }

// Worst lets those K features of an example die that the model needs most for
// its true class y (Globerson & Roweis 2006, section 2): the largest positive
// contributions to the margin between y and another class. With more than two
// classes the rival is the one whose margin falls lowest.
type Worst struct{ K int }

func (w Worst) Strike(m *blankout.Model, x blankout.Vec, class, _ int) {
	var victims []int
	lowest, found := 0.0, false
	for rival := range max(m.Outputs, 2) {
		if rival == class {
			continue
		}
		candidates, margin := w.against(m, x, class, rival)
		if !found || margin < lowest {
			victims, lowest, found = candidates, margin, true
		}
	}
	for _, i := range victims {
		x.Value[i] = 0
	}
}

// against returns the K entries of x that hold the class up most against a rival,
// and the margin that is left without them.
func (w Worst) against(m *blankout.Model, x blankout.Vec, class, rival int) (victims []int, margin float64) {
	held := make([]float64, x.Len())
	for i, d := range x.Index {
		held[i] = x.Value[i] * speaks(m.Outputs, class, rival, func(k int) float64 { return m.Weight(d, k) })
		margin += held[i]
		if held[i] > 0 {
			victims = append(victims, i)
		}
	}
	slices.SortStableFunc(victims, func(a, b int) int { return cmp.Compare(held[b], held[a]) })
	victims = victims[:min(w.K, len(victims))]
	for _, i := range victims {
		margin -= held[i]
	}
	return victims, margin + speaks(m.Outputs, class, rival, func(k int) float64 { return m.Intercept[k] })
}

// speaks is by how much a value of each output speaks for a class and against
// a rival. One output speaks for class 1.
func speaks(outputs, class, rival int, value func(k int) float64) float64 {
	switch {
	case outputs > 1:
		return value(class) - value(rival)
	case class == 1:
		return value(0)
	}
	return -value(0)
}

func (w Worst) String() string { return "worst:" + strconv.Itoa(w.K) }

// nightmares is the table of nightmares: a new one is a type and a line here.
var nightmares = []struct {
	name string
	make func(level string) (Nightmare, error)
}{
	{"random", func(level string) (Nightmare, error) {
		d, err := strconv.ParseFloat(level, 64)
		if err != nil || !(d >= 0 && d < 1) {
			return nil, fmt.Errorf("the share %q must be a number in [0, 1)", level)
		}
		return Random{Share: d}, nil
	}},
	{"worst", func(level string) (Nightmare, error) {
		k, err := strconv.Atoi(level)
		if err != nil || k < 0 {
			return nil, fmt.Errorf("%q is not a number of features", level)
		}
		return Worst{k}, nil
	}},
}

// Parse reads random:SHARE or worst:K. It is the inverse of String; the seed of
// a random one is 0.
func Parse(s string) (Nightmare, error) {
	name, level, _ := strings.Cut(s, ":")
	var known []string
	for _, n := range nightmares {
		if n.name == name {
			nightmare, err := n.make(level)
			if err != nil {
				return nil, fmt.Errorf("nightmare %q: %w", s, err)
			}
			return nightmare, nil
		}
		known = append(known, n.name)
	}
	return nil, fmt.Errorf("nightmare %q: want one of %s", s, strings.Join(known, ", "))
}

// Error returns the share of the labelled examples, by importance, that a model
// with one output for each class (or one for two) gets wrong in a nightmare. It
// is NaN without a labelled example.
func Error(m *blankout.Model, examples []blankout.Example, nightmare Nightmare) float64 {
	var x blankout.Vec
	var wrong, all float64
	scores := make([]float64, m.Outputs)
	for n := range examples {
		e := &examples[n]
		if e.Label < 0 || e.Refused != nil {
			continue
		}
		x = m.Standardised(e, blankout.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		nightmare.Strike(m, x, e.Label, n)
		all += e.Weight
		if m.Predict(m.ScoreVec(x, scores)) != e.Label {
			wrong += e.Weight
		}
	}
	return wrong / all
}
