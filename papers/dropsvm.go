package papers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/measure"
	"blankout/simulate"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// dropSVM tests DropSVM on small sets by the protocol of the thesis. It compares the accuracy of DropSVM with the
// accuracy of the support vector machine. It also counts the support vectors, and tests whether their number depends on
// the fraction dropped.
var dropSVM = Experiment{
	Name:  "dropsvm",
	Help:  "DropSVM against the support vector machine on the sets of the thesis",
	Paper: "Tran 2016",
	Part:  "tables 2 and 3",
	Needs: []string{"uci", "usps", "cifar10_subset"},
	Run:   runDropSVM,
}

type dropConfig struct {
	Rows    int      `json:"rows"` // largest number of rows of a set
	Folds   int      `json:"folds"`
	Rounds  int      `json:"rounds"` // rounds of cross validation, each with other folds
	Costs   []string `json:"c"`
	Q       []string `json:"q"`
	Dropped []string `json:"p"` // fractions of the samples that an epoch drops: 1 - keep
	// Epochs are the candidate numbers of epochs for table 3. Table 3 uses at most EpochRows rows of a set. Table 2 has
	// infinitely many epochs, in closed form.
	Epochs    []string `json:"epochs"`
	EpochRows int      `json:"epoch_rows"`
	// Numbers of examples for the chi-squared kernel: of training histograms and of test histograms.
	Train int `json:"train"`
	Test  int `json:"test"`
	Words int `json:"words"` // number of visual words of the images
}

// dropSet is a set of table 1, with the name and results that the thesis prints. The pairs svm and drop have the
// accuracy and the fraction of support vectors of the support vector machine and of DropSVM, in %. p is the fraction
// dropped. epochs has the results of table 3.
type dropSet struct {
	name, file string
	classes    int
	svm, drop  [2]float64
	p          float64
	epochs     [3]float64 // fraction of support vectors (%), p (%), E
}

var dropSets = []dropSet{
	{"Australian", "australian", 2, [2]float64{86.64, 34}, [2]float64{86.99, 80}, 0.8, [3]float64{34, 80, 10}},
	{"Column2c", "vertebral_2c", 2, [2]float64{85.68, 16}, [2]float64{86.39, 60}, 0.7, [3]float64{16, 60, 10}},
	{"Column3c", "vertebral_3c", 3, [2]float64{85.74, 12}, [2]float64{86.39, 10}, 0.6, [3]float64{12, 10, 25}},
	{"German", "german", 2, [2]float64{76.48, 25}, [2]float64{76.78, 80}, 0.6, [3]float64{25, 80, 25}},
	{"Glass", "glass", 6, [2]float64{69.07, 12}, [2]float64{70.28, 30}, 0.2, [3]float64{12, 30, 50}},
	{"Heart", "heart", 2, [2]float64{84.67, 21}, [2]float64{85.19, 60}, 0.5, [3]float64{21, 60, 25}},
	{"Indians", "pima", 2, [2]float64{77.58, 28}, [2]float64{77.60, 50}, 0.9, [3]float64{28, 50, 50}},
	{"Ionosphere", "ionosphere", 2, [2]float64{94.53, 9}, [2]float64{94.87, 60}, 0.9, [3]float64{9, 60, 100}},
	{"Relax", "planning_relax", 2, [2]float64{71.43, 36}, [2]float64{71.76, 10}, 0.3, [3]float64{36, 10, 10}},
	{"Spect", "spect", 2, [2]float64{82.32, 19}, [2]float64{84.12, 40}, 0.5, [3]float64{19, 40, 100}},
	{"Spectf", "spectf", 2, [2]float64{79.93, 21}, [2]float64{81.12, 70}, 0.8, [3]float64{21, 70, 10}},
	{"Syn. Con.", "synthetic_control", 6, [2]float64{98.30, 4}, [2]float64{98.77, 90}, 0.9, [3]float64{4, 90, 100}},
}

// dropFold holds the accuracies, in %, of all settings on one fold. Plain has the accuracies of the support vector
// machine by c. Drop has the accuracies of DropSVM by p, q and c, where c varies fastest. Constant is the accuracy of
// predicting the largest class.
type dropFold struct {
	Plain, Drop []float64
	Constant    float64
}

// dropVectors are the fractions of support vectors in %, at the best settings.
type dropVectors struct{ Plain, Drop, AtBest float64 }

func runDropSVM(ctx context.Context, s *Setting) error {
	powers := func(step int) (all []string) {
		for e := -3; e <= 3; e += step {
			all = append(all, strconv.FormatFloat(math.Pow10(e), 'g', -1, 64))
		}
		return all
	}
	c := dropConfig{Rows: Pick(s, 60, 1000, 1000), Folds: Pick(s, 3, 5, 5), Rounds: Pick(s, 1, 1, 5), Costs: powers(Pick(s, 3, 1, 1)), Q: powers(Pick(s, 3, 1, 1)),
		Dropped: Pick(s, []string{"0.5"}, []string{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"}, []string{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"}),
		Epochs:  Pick(s, []string{"10"}, []string{"10", "25", "50", "100"}, []string{"10", "25", "50", "100"}), EpochRows: Pick(s, 40, 200, 1000),
		Train: Pick(s, 40, 500, 1000), Test: Pick(s, 30, 2000, 2000), Words: Pick(s, 10, 100, 300)}
	s.Configure(c)
	// outcome is a set with its data and its result. best has the accuracy of the setting with the best mean over all folds, as in the
	// thesis. each has the accuracy of each fold with the setting that is chosen on the other folds.
	type outcome struct {
		dropSet
		data        *batch.Data
		plain, drop int // indexes of the best settings
		best        [2]float64
		each        [2][]float64 // by fold, with the setting chosen on the other folds
		constant    float64
	}
	var sets []*outcome
	for _, set := range dropSets {
		d, err := s.loadSmall(ctx, set.file, set.classes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the embedded samples include only few of the sets
		} else if err != nil {
			return err
		}
		sets = append(sets, &outcome{dropSet: set, data: d})
	}
	if len(sets) == 0 {
		return fmt.Errorf("none of the sets is there: no %s", s.Path("uci", dropSets[0].file+".svm.gz"))
	}
	splits := c.Rounds * c.Folds
	folds, err := Cells(ctx, s, len(sets)*splits, func(ctx context.Context, i int) (any, func() (dropFold, error)) {
		set, round, fold := sets[i/splits], i%splits/c.Folds, i%c.Folds
		return []any{"fold", set.name, round, fold, c.Rows, c.Folds, c.Costs, c.Q, c.Dropped}, func() (dropFold, error) {
			s.Say("fold %d of %s", fold+1, set.name)
			train, test := outerFold(cut(set.data, c.Rows, s.Seed), c.Folds, fold, s.Seed+uint64(round))
			return c.fold(ctx, train, test)
		}
	})
	if err != nil {
		return err
	}
	for i, o := range sets {
		of := folds[i*splits : (i+1)*splits]
		o.plain, o.best[0], o.each[0] = bestOfFolds(of, c.Folds, func(f *dropFold) []float64 { return f.Plain })
		o.drop, o.best[1], o.each[1] = bestOfFolds(of, c.Folds, func(f *dropFold) []float64 { return f.Drop })
		for _, f := range of {
			o.constant += f.Constant / float64(splits)
		}
	}
	vectors, err := Cells(ctx, s, len(sets), func(ctx context.Context, i int) (any, func() (dropVectors, error)) {
		o := sets[i]
		cost, q, p := c.setting(o.drop)
		return []any{"vectors", o.name, c.Costs[o.plain], cost, q, p, c.Rows, c.Folds}, func() (dropVectors, error) {
			s.Say("support vectors of %s", o.name)
			train, _ := outerFold(cut(o.data, c.Rows, s.Seed), c.Folds, 0, s.Seed)
			return c.vectors(ctx, train, c.Costs[o.plain], cost, q, p)
		}
	})
	if err != nil {
		return err
	}
	epochs, err := Cells(ctx, s, len(sets), func(ctx context.Context, i int) (any, func() (dropEpochs, error)) {
		o := sets[i]
		cost, q, _ := c.setting(o.drop)
		return []any{"epochs", o.name, cost, q, c.Epochs, c.Dropped, c.EpochRows, c.Folds}, func() (dropEpochs, error) {
			s.Say("epochs of %s", o.name)
			return c.tryEpochs(ctx, cut(o.data, c.EpochRows, s.Seed), cost, q, s.Seed)
		}
	})
	if err != nil {
		return err
	}

	t2 := ResultTable{Title: "Table 2: accuracy and support vectors, %, at the best settings of the grid; in brackets the thesis's", Digits: 2,
		Columns: []string{"set", "constant answer", "SVM", "DropSVM", "chosen on the other folds: SVM", "DropSVM", "difference", "support vectors of SVM", "of DropSVM", "c of SVM", "c, q, p of DropSVM"}}
	t3 := ResultTable{Title: "Table 3: support vectors of the plain machine at c_best, and the best p and E there; in brackets the thesis's", Digits: 0,
		Columns: []string{"set", "c_best", "support vectors, %", "p", "E"}}
	beside := func(digits int, ours, printed float64) string {
		return fmt.Sprintf("%.*f (%.*f)", digits, ours, digits, printed)
	}
	var each, more, fraction, dropped, kept, printedShare, printedDropped, printedGain, printedMore, printedTwice, ratio, sampled []float64
	var flattered []float64 // gains with settings chosen on the folds that measure, as in table 2
	var parts, grown []Part
	wins := 0
	figure := &simulate.Figure{Title: "DropSVM less SVM, settings chosen on the other folds", X: "set", Y: "accuracy (points), interval of 95 %"}
	points := simulate.Series{Name: "here", Form: simulate.Points}
	thesis := simulate.Series{Name: "thesis, best of the grid", Form: simulate.Points}
	for i, set := range sets {
		v, e := vectors[i], epochs[i]
		diff := correctedT(floats.SubTo(make([]float64, splits), set.each[1], set.each[0]), 1/float64(c.Folds-1))
		cost, q, p := c.setting(set.drop)
		gain, grow := set.dropSet.drop[0]-set.svm[0], math.Round(v.Drop)-math.Round(v.Plain)
		t2.Rows = append(t2.Rows, []any{set.name, set.constant, beside(2, set.best[0], set.svm[0]), beside(2, set.best[1], set.dropSet.drop[0]), stat.Mean(set.each[0], nil), stat.Mean(set.each[1], nil), diff.String(),
			beside(0, v.Plain, set.svm[1]), beside(0, v.Drop, set.dropSet.drop[1]), c.Costs[set.plain], fmt.Sprintf("%s, %s, %s (p = %g)", cost, q, p, set.p)})
		t3.Rows = append(t3.Rows, []any{set.name, cost, beside(0, v.AtBest, set.epochs[0]), beside(0, 100*e.P, set.epochs[1]), beside(0, e.Epochs, set.epochs[2])})
		parts = append(parts, above(set.name, diff, 0).against(gain, 0.01))
		flattered = append(flattered, (math.Round(100*set.best[1])-math.Round(100*set.best[0]))/100)
		if set.best[1] > set.best[0] {
			wins++
		}
		// These whole percentages are as printed. They are for one fold and have no interval.
		grown = append(grown, above(set.name, Difference{grow, grow, grow}, 0).against(set.dropSet.drop[1]-set.svm[1], 0.5))
		each, more, fraction = append(each, diff.Mean), append(more, v.Drop-v.Plain), append(fraction, v.AtBest)
		dropped, kept = append(dropped, e.P*e.Epochs), append(kept, (1-e.P)*e.Epochs)
		printedShare, printedDropped = append(printedShare, set.epochs[0]), append(printedDropped, set.epochs[1]*set.epochs[2])
		printedGain, printedMore = append(printedGain, gain), append(printedMore, set.dropSet.drop[1]-set.svm[1])
		printedTwice, ratio = append(printedTwice, set.dropSet.drop[1]-2*set.svm[1]), append(ratio, set.epochs[0]/v.AtBest)
		sampled = append(sampled, e.Sampled-e.Closed)
		figure.Categories = append(figure.Categories, set.name)
		points.X = append(points.X, float64(i))
		plot(&points, diff)
		thesis.X, thesis.Y = append(thesis.X, float64(i)+0.2), append(thesis.Y, gain)
	}
	s.Table(t2)
	s.Table(t3)
	figure.Series = []simulate.Series{points, thesis}
	s.Figure("difference", figure)
	s.Figure("vectors", &simulate.Figure{Title: "What the correlation of table 3 is made of", X: "p E of DropSVM", Y: "support vectors of the plain machine (%)", LogX: true,
		Series: []simulate.Series{{Name: "here", Form: simulate.Points, X: dropped, Y: fraction}, {Name: "thesis", Form: simulate.Points, X: scaled(printedDropped, 0.01), Y: printedShare}}})
	s.Claim(Claim{Claim: "the best DropSVM is better than the best SVM in the mean over the sets, both chosen on the folds that measure", Paper: "table 2: on all twelve", Parts: []Part{above("", pairedT(flattered), 0).against(stat.Mean(printedGain, nil), 0.01)}, Unit: "points of accuracy",
		Ours: fmt.Sprintf("on %d of %d sets; DropSVM chooses among %d settings and the SVM among %d", wins, len(sets), len(c.Costs)*len(c.Q)*len(c.Dropped), len(c.Costs)), Why: "it is worse"})
	s.Claim(Claim{Claim: "DropSVM is better on every set, settings chosen on the other folds", Paper: "table 2", Parts: parts, Unit: "points of accuracy", Why: "it is worse on one of them"})
	s.Claim(Claim{Claim: "DropSVM is better in the mean over the sets, settings chosen on the other folds", Paper: "the mean of table 2, chosen on the folds that measure",
		Parts: []Part{above("", pairedT(each), 0).against(stat.Mean(printedGain, nil), 0.01)}, Unit: "points of accuracy", Why: "it is worse"})
	s.Claim(Claim{Claim: "DropSVM has more support vectors in most cases", Paper: "table 2: on 10 of 12 sets", Most: true, Parts: grown, Unit: "points of the examples", Why: "it has fewer on most"})
	s.Claim(Claim{Claim: "DropSVM has more support vectors in the mean over the sets", Paper: "the mean of table 2", Parts: []Part{above("", pairedT(more), 0).against(stat.Mean(printedMore, nil), 0.5)}, Unit: "points of the examples", Why: "it has fewer"})
	s.Claim(Claim{Claim: "the fraction of support vectors of the plain machine at c_best falls with p E over the sets", Paper: fmt.Sprintf("correlation -0.613 (of the printed table: %s)", correlation(printedShare, printedDropped)),
		Parts: []Part{below("correlation", correlation(fraction, dropped), 0).against(-0.613, 0)}, Ours: fmt.Sprintf("with p the share that is kept, as equation 49 has it, %s", correlation(fraction, kept)), Why: "it rises"})
	s.Claim(Claim{Own: true, Claim: fmt.Sprintf("infinitely many epochs in closed form are as accurate as %s sampled ones, within half a point", c.Epochs[len(c.Epochs)-1]), Unit: "points of accuracy, sampled less closed form, over the sets",
		Parts: []Part{within("", pairedT(sampled), 0.5)}, Why: "the difference is larger"})
	train, test, err := c.uspsHistograms(ctx, s)
	if err != nil {
		return err
	}
	key := []any{"chi2", c.Train, c.Test, c.Costs, c.Q, c.Dropped}
	if err := c.histograms(ctx, s, key, "usps", "the pixels of usps as histograms, 9 against the other digits", train, test); err != nil {
		return err
	}
	if train, test, err = c.cifarHistograms(ctx, s); err != nil {
		return err
	}
	if err := c.histograms(ctx, s, append(key, "CIFAR-10", c.Words), "CIFAR-10", "counts of visual words of CIFAR-10 images, vehicles against animals", train, test); err != nil {
		return err
	}
	s.Note("Settings: the thesis's grid (c and q in 10^-3 … 10^3, p in 0.1 … 0.9), RBF kernel as wide as the mean distance of two examples, stratified folds drawn %d times, one class against the rest. Features are standardized over the whole set.", c.Rounds)
	s.Note("The thesis seems to choose its settings on the folds that it measures on, which favors the method with more settings. We also choose them on the other folds; that difference decides, by Student's test with the variance of overlapping training sets (Nadeau & Bengio 2003).")
	slices.Sort(ratio)
	s.Note("The thesis's fractions of support vectors are %.2f of ours in the median (%.2f to %.2f), at equal accuracy. It may have averaged the two classes instead of adding them; then its table 2 has DropSVM gain %+.1f points and not %+.1f.",
		stat.Quantile(0.5, stat.LinInterp, ratio, nil), ratio[0], ratio[len(ratio)-1], stat.Mean(printedTwice, nil), stat.Mean(printedMore, nil))
	s.Note("Table 2 is the closed form for infinitely many epochs. E in table 3 is sampled on at most %d examples of a set.", c.EpochRows)
	if s.Size == Default {
		s.Note("--full draws the folds five times, as the thesis does, and not %d times.", c.Rounds)
	}
	s.Note("The thesis's videos were not available. Its chi-squared kernel is run on the pixels of usps as histograms and on visual words of CIFAR-10 images.")
	return nil
}

func scaled(x []float64, by float64) []float64 {
	out := slices.Clone(x)
	floats.Scale(by, out)
	return out
}

// setting returns the c, q and p at index i of dropFold.Drop.
func (c dropConfig) setting(i int) (cost, q, p string) {
	return c.Costs[i%len(c.Costs)], c.Q[i/len(c.Costs)%len(c.Q)], c.Dropped[i/len(c.Costs)/len(c.Q)]
}

// bestOfFolds returns the setting with the highest mean accuracy (best), and that accuracy (atBest). each has, for
// every fold, the accuracy of the setting that is best on the other folds of the same round.
func bestOfFolds(all []dropFold, folds int, of func(f *dropFold) []float64) (best int, atBest float64, each []float64) {
	mean := func(folds []dropFold, setting, but int) float64 {
		sum, n := 0.0, 0.0
		for i := range folds {
			if i != but {
				sum, n = sum+of(&folds[i])[setting], n+1
			}
		}
		return sum / n
	}
	settings := len(of(&all[0]))
	chosen := func(folds []dropFold, but int) int {
		return Least(settings, nil, func(i int) Held { return Held{Loss: -mean(folds, i, but)} })
	}
	for i := range all {
		each = append(each, of(&all[i])[chosen(all[i/folds*folds:(i/folds+1)*folds], i%folds)])
	}
	best = chosen(all, -1)
	return best, mean(all, best, -1), each
}

// machine returns the support vector machine if q is "". Otherwise it returns DropSVM.
func (c dropConfig) machine(cost, q, p string) machine {
	m := machine{Config: trainConfig(), Kernel: svm.DefaultConfig()}
	m.Config.Tol, m.Kernel.Kernel, m.Kernel.Drop.Q = 1e-4, "rbf", 0
	if m.set("c", cost); q != "" {
		m.Kernel.Drop.Q, m.Kernel.Drop.Keep = number(q), 1-number(p)
	}
	return m
}

// grid returns the accuracies on test of all settings of a grid.
func (c dropConfig) grid(ctx context.Context, train, test *batch.Data, first machine, grid []Axis) ([]float64, error) {
	all, err := selectMachine(ctx, train, test, first, grid, 1)
	if err != nil {
		return nil, err
	}
	return mapped(all, func(x tried) float64 { return 100 - x.Loss }), nil
}

// keep returns the candidate values of p as an axis of settings keep, which is 1 - p.
func (c dropConfig) keep() Axis {
	return Axis{"keep", mapped(c.Dropped, func(p string) string { return strconv.FormatFloat(1-number(p), 'g', 6, 64) })}
}

func (c dropConfig) fold(ctx context.Context, train, test *batch.Data) (f dropFold, err error) {
	count := make([]int, len(train.Schema.Classes))
	for i := range train.Rows() {
		count[train.Label(i)]++
	}
	most := slices.Index(count, slices.Max(count))
	for i := range test.Rows() {
		if test.Label(i) == most {
			f.Constant += 100 / float64(test.Rows())
		}
	}
	costs := Axis{Key: "c", Values: c.Costs}
	first := c.machine("1", "", "")
	width, err := svm.Resolve(kernel.RBF{}, train) // the same width for all settings
	if err != nil {
		return f, err
	}
	first.Kernel.Kernel, first.Kernel.Kept = width.String(), &svm.Matrices{}
	if f.Plain, err = c.grid(ctx, train, test, first, []Axis{costs}); err != nil {
		return f, err
	}
	f.Drop, err = c.grid(ctx, train, test, first, []Axis{c.keep(), {Key: "drop-q", Values: c.Q}, costs})
	return f, err
}

func (c dropConfig) vectors(ctx context.Context, train *batch.Data, plain, cost, q, p string) (v dropVectors, err error) {
	for _, x := range []struct {
		to         *float64
		cost, q, p string
	}{{&v.Plain, plain, "", ""}, {&v.Drop, cost, q, p}, {&v.AtBest, cost, "", ""}} {
		m := c.machine(x.cost, x.q, x.p)
		fit, err := svm.Train(ctx, train, m.Config, m.Kernel)
		if err != nil {
			return v, err
		}
		*x.to = 100 * float64(fit.Vectors) / float64(fit.Model.Outputs*train.Rows())
	}
	return v, nil
}

// dropEpochs has the best p and number of epochs at a given c and q. Sampled is the accuracy, in %, of this p with the
// largest number of epochs, and Closed is its accuracy with infinitely many epochs.
type dropEpochs struct{ P, Epochs, Sampled, Closed float64 }

func (c dropConfig) tryEpochs(ctx context.Context, d *batch.Data, cost, q string, seed uint64) (out dropEpochs, err error) {
	first := c.machine(cost, q, "0.5")
	first.Kernel.Drop.Seed = seed
	// Results are ordered by p, and then by the number of epochs. The last number of epochs is infinite.
	axes := []Axis{c.keep(), {Key: "epochs", Values: append(slices.Clone(c.Epochs), "inf")}}
	n := len(axes[1].Values)
	mean := make([]float64, len(c.Dropped)*n)
	for fold := range c.Folds {
		train, test := outerFold(d, c.Folds, fold, seed)
		accuracy, err := c.grid(ctx, train, test, first, axes)
		if err != nil {
			return out, err
		}
		floats.AddScaled(mean, 1/float64(c.Folds), accuracy)
	}
	best := Least(len(mean), func(i int) bool { return i%n < n-1 }, func(i int) Held { return Held{Loss: -mean[i]} })
	out.Sampled, out.Closed = mean[best/n*n+n-2], mean[best/n*n+n-1]
	out.P, out.Epochs = number(c.Dropped[best/n]), number(c.Epochs[best%n])
	return out, nil
}

// uspsHistograms returns pixels of digits, with the classes 9 and all other digits.
func (c dropConfig) uspsHistograms(ctx context.Context, s *Setting) (train, test *batch.Data, err error) {
	load := func(file string, most int) (*batch.Data, error) {
		examples, err := s.firstExamples(ctx, digits(), "usps", file, most)
		for i := range examples {
			examples[i].Label = isNine(examples[i].Label)
		}
		if err != nil {
			return nil, err
		}
		return dataOf(Binary(), examples), nil
	}
	if train, err = load("train.svm.gz", c.Train); err != nil {
		return nil, nil, err
	}
	test, err = load("test.svm.gz", c.Test)
	return train, test, err
}

// cifarHistograms returns counts of visual words of images, with the classes vehicles and animals.
func (c dropConfig) cifarHistograms(ctx context.Context, s *Setting) (train, test *batch.Data, err error) {
	var all [2][][]byte
	for i, file := range []string{"train.bin.gz", "test.bin.gz"} {
		if all[i], err = s.images([]int{c.Train, c.Test}[i], file); err != nil {
			return nil, nil, err
		}
	}
	w, err := learnWords(ctx, s, cifarConfig{Side: 6, Stride: 2, Words: c.Words, Patches: 50 * c.Words, Rounds: 10}, all[0])
	if err != nil {
		return nil, nil, err
	}
	var of [2]*batch.Data
	for i, images := range all {
		examples, err := w.countAll(ctx, s, images)
		if err != nil {
			return nil, nil, err
		}
		for k := range examples {
			class := examples[k].Label
			if examples[k].Label = 0; class < 2 || class > 7 { // airplane, automobile, ship, truck
				examples[k].Label = 1
			}
		}
		of[i] = dataOf(Binary(), examples)
	}
	return of[0], of[1], nil
}

// chiFit has the results of the support vector machine and of DropSVM, in this order, on one set.
type chiFit struct {
	Wrong   [2]mistakes
	MAP     [2]float64
	Setting [2]string
	Vectors [2]float64
}

// histograms runs the experiment with the RBF chi-squared kernel on one set.
func (c dropConfig) histograms(ctx context.Context, s *Setting, key []any, name, title string, train, test *batch.Data) error {
	f, err := Cell(ctx, s, key, func() (chiFit, error) { return c.fitHistograms(ctx, s, train, test) })
	if err != nil {
		return err
	}
	t := ResultTable{Detail: true, Title: fmt.Sprintf("RBF chi-squared kernel on %s, %d to train and %d to test, %%", title, train.Rows(), test.Rows()), Digits: 2,
		Columns: []string{"machine", "error", "mean average precision of both classes", "support vectors", "settings, chosen on a quarter of the former"}}
	for k, machine := range []string{"SVM", "DropSVM"} {
		t.Rows = append(t.Rows, []any{machine, f.Wrong[k].error(), f.MAP[k], f.Vectors[k], f.Setting[k]})
	}
	t.Rows = append(t.Rows, []any{"constant answer", constantError(test.Rows(), test.Label), nil, nil, nil})
	s.Table(t)
	s.Claim(Claim{Own: true, Claim: fmt.Sprintf("DropSVM is better than the SVM with the chi-squared kernel on %s (the thesis says so of videos)", name), Parts: []Part{below("", mcNemar(f.Wrong[1], f.Wrong[0]), 0)}, Unit: "points of error", Why: "it is worse"})
	return nil
}

// fitHistograms chooses the settings of both machines on a quarter of the training examples. It then trains both
// machines on all training examples and measures them on the test examples.
func (c dropConfig) fitHistograms(ctx context.Context, s *Setting, train, test *batch.Data) (f chiFit, err error) {
	in, held := split(train, 0.75, s.Seed)
	first := c.machine("1", "", "")
	first.Kernel.Kernel = "chi2"
	every := func(all []string) (some []string) {
		for i := 0; i < len(all); i += 2 {
			some = append(some, all[i])
		}
		return some
	}
	costs, keep := Axis{Key: "c", Values: every(c.Costs)}, c.keep()
	keep.Values = every(every(keep.Values))
	for k, grid := range [][]Axis{{costs}, {keep, {Key: "drop-q", Values: every(c.Q)}, costs}} {
		s.Say("chi-squared kernel, %d of 2", k+1)
		all, err := selectMachine(ctx, in, held, first, grid, s.Threads)
		if err != nil {
			return f, err
		}
		m := all[Least(len(all), nil, func(i int) Held { return all[i].Held })]
		trained, err := svm.Train(ctx, train, m.Config, m.Kernel)
		if err != nil {
			return f, err
		}
		measures := measure.NewEvaluation(2)
		scores, chances := make([]float64, 2), make([]float64, 2)
		var x event.Vec
		f.Wrong[k] = mistakesOf(test.Rows(), func(i int) bool {
			x = test.Vec(i, x)
			out := trained.Model.ScoreVec(x, scores)
			predicted := trained.Model.Predict(out)
			measures.Add(test.Label(i), 1, out, predicted, trained.Model.Probabilities(out, chances))
			return predicted != test.Label(i)
		})
		if r := measures.Report(); r.MAP != nil {
			f.MAP[k] = 100 * *r.MAP
		}
		f.Setting[k], f.Vectors[k] = m.name, 100*float64(trained.Vectors)/float64(trained.Model.Outputs*train.Rows())
	}
	return f, nil
}

// loadSmall reads a set and standardizes it.
func (s *Setting) loadSmall(ctx context.Context, name string, classes int) (*batch.Data, error) {
	file := name + ".svm.gz"
	if _, err := os.Stat(s.Path("uci", file)); err != nil {
		return nil, err
	}
	schema := Binary()
	if classes > 2 {
		schema = Classes(mapped(rowsFrom(0, classes), strconv.Itoa)...)
	}
	examples, err := s.examples(ctx, schema, "uci", nil, file)
	if err != nil {
		return nil, err
	}
	d, _ := zScores(dataOf(schema, examples))
	return d, nil
}

// cut returns at most n rows of d, stratified by class.
func cut(d *batch.Data, n int, seed uint64) *batch.Data {
	if d.Rows() <= n {
		return d
	}
	d, _ = split(d, float64(n)/float64(d.Rows()), seed)
	return d
}

// outerFold splits d into n folds, stratified by class. It returns all other folds as train and the given fold as test.
func outerFold(d *batch.Data, n, fold int, seed uint64) (train, test *batch.Data) {
	order := rand.New(rand.NewPCG(seed, 1)).Perm(d.Rows())
	slices.SortStableFunc(order, func(i, j int) int { return d.Label(i) - d.Label(j) })
	in, out := heldOutFold(order, n, fold)
	return d.Subset(in), d.Subset(out)
}

// split splits d into two parts, stratified by class. The first part has the given fraction of the rows of every class.
// The split depends only on the seed.
func split(d *batch.Data, fraction float64, seed uint64) (first, second *batch.Data) {
	var a, b []int
	for _, rows := range byClass(d, rand.New(rand.NewPCG(seed, 0))) {
		n := int(fraction*float64(len(rows)) + 0.5)
		a, b = append(a, rows[:n]...), append(b, rows[n:]...)
	}
	slices.Sort(a)
	slices.Sort(b)
	return d.Subset(a), d.Subset(b)
}

// byClass returns the rows of every class in a random order. The last element of the result has the unlabeled rows.
func byClass(d *batch.Data, r *rand.Rand) [][]int {
	out := make([][]int, len(d.Schema.Classes)+1)
	for i := range d.Rows() {
		k := d.Label(i)
		if k < 0 {
			k = len(out) - 1
		}
		out[k] = append(out[k], i)
	}
	for _, rows := range out {
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return out
}
