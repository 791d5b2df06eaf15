package papers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/simulate"
)

// text classifies documents. A third of each set is labeled for training, a third is unlabeled and a third is for the
// test. It also computes accuracy as a function of the numbers of labeled and of unlabeled reviews.
var text = Experiment{
	Name:  "text",
	Help:  "dropout and unlabeled documents on six text sets; curves over their numbers",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "table 4a and figure 2",
	Needs: []string{"subj", "rt_polarity", "imdb_2k", "news_bbcrypt", "news_athr", "imdb"},
	Takes: []string{xGraph},
	Run:   runText,
}

// textSet is a set of documents, with the accuracies of table 4a for L2, dropout, and dropout with unlabeled documents.
// unigrams is the number of unigrams in the embedded samples.
type textSet struct {
	name, folder string
	files        []string
	unigrams     uint32
	paper        [3]any
	// singles is true if the columns omit exactly the pairs that occur in only one document.
	singles bool
}

var textSets = []textSet{
	{"Subj", "subj", []string{"all.svm.gz"}, 21789, [3]any{88.96, 90.85, 91.48}, true},
	{"RT", "rt_polarity", []string{"all.svm.gz"}, 19029, [3]any{73.49, 75.18, 76.56}, true},
	{"IMDB-2k", "imdb_2k", []string{"all.svm.gz"}, 42191, [3]any{80.63, 81.23, 80.33}, true},
	{"BbCrypt", "news_bbcrypt", []string{"train.svm.gz", "test.svm.gz"}, 21512, [3]any{97.28, 98.49, 99.24}, false},
	{"XGraph", xGraph, []string{"train.svm.gz", "test.svm.gz"}, 0, [3]any{83.10, 84.64, 85.41}, false}, // an optional set, in text.Takes
	{"AthR", "news_athr", []string{"train.svm.gz", "test.svm.gz"}, newsAthRUnigrams, [3]any{}, false},
}

// textConfig holds the grids of settings. The penalty is l2 |w|^2, and the loss of each document has weight 1.
type textConfig struct {
	Tol    float64     `json:"tol"`    // tolerance of fits with noise
	Splits int         `json:"splits"` // number of random divisions into three parts; the parts of IMDB are fixed
	Folds  int         `json:"folds"`  // number of the five folds that are held out in turn, to choose settings
	Plain  []textModel `json:"plain"`
	Noisy  []textModel `json:"noisy"`
	// Alphas are the candidate weights of the unlabeled documents. A method with unlabeled documents chooses among all
	// combinations of an entry of Noisy and a weight, because its best level and penalty differ from those without
	// unlabeled documents.
	Alphas []float64 `json:"alphas"`
}

// textModel is one setting of the exact solver.
type textModel struct {
	Bound string  `json:"bound"`
	Noise string  `json:"noise"`
	L2    float64 `json:"l2"`
	Alpha float64 `json:"alpha"` // 0 means without unlabeled documents
}

func (m textModel) String() string {
	text := fmt.Sprintf("l2 %g", m.L2)
	if m.Noise != "none" {
		text = m.Noise + ", " + text
	}
	if m.Alpha > 0 {
		text += fmt.Sprintf(", alpha %g", m.Alpha)
	}
	return text
}

// textTol is the tolerance of all fits of documents with noise. Accuracies with tolerance 1e-2 differ by up to 0.6
// points from accuracies with 1e-4, for small penalties on IMDB and for any penalty on BbCrypt.
const textTol = 1e-3

// fit trains on the labeled examples of d and, if Alpha is not 0, also on the unlabeled examples.
func (m textModel) fit(ctx context.Context, d *batch.Data, threads int) (*batch.Fit, error) {
	c := trainConfig()
	c.Bound, c.Noise, c.L2, c.Alpha = m.Bound, m.Noise, m.L2, m.Alpha
	c.Solver, c.Tol, c.MaxIterations, c.Threads = batch.LBFGS, textTol, 300, threads
	if m.Noise == "none" {
		c.Solver, c.Tol = "", 1e-4 // solved to a certified gap
	}
	return batch.Train(ctx, d, c)
}

// textGrid returns models with the given bound for all combinations of levels and penalties.
func textGrid(bound string, levels, l2 []float64) []textModel {
	return crossed(levels, l2, func(q, l float64) textModel {
		return textModel{Bound: bound, Noise: loss.Dropout{Q: q}.String(), L2: l}
	})
}

// textGrids returns a configuration with the grids of dropout and of L2.
func textGrids(splits, folds int, levels, l2, alphas, plain []float64) textConfig {
	return textConfig{Tol: textTol, Splits: splits, Folds: folds, Alphas: alphas,
		Noisy: append(textGrid("quadratic-noising", levels, l2), textGrid("gaussian", levels, l2)...),
		Plain: mapped(plain, func(l float64) textModel { return textModel{Bound: "gaussian", Noise: "none", L2: l} })}
}

// textParts are the parts of a set. All have the same columns. The rows in free have no label.
type textParts struct {
	all               *batch.Data
	train, free, test []int
	// private has, for each row, the number of pairs that occur in no other row and are not in the columns of all. It
	// is nil if these numbers are unknown.
	private []int
}

// fit trains a model on the given training rows and, if its Alpha is not 0, also on the given unlabeled rows.
func (p textParts) fit(ctx context.Context, m textModel, train, free []int, threads int) (*batch.Fit, error) {
	if m.Alpha == 0 {
		free = nil
	}
	d := p.all.Subset(append(slices.Clone(train), free...))
	if len(free) > 0 { // these rows count as unlabeled, even if the data contain a label
		d = d.UnlabelFrom(len(train))
	}
	return m.fit(ctx, d, threads)
}

// mistakes returns the test rows that the weights w predict wrongly. If w has one more element than there are columns,
// the last element is an intercept.
func (p textParts) mistakes(w []float64) mistakes {
	bias := 0.0
	if len(w) > p.all.Columns() {
		bias = w[p.all.Columns()]
	}
	return mistakesOf(len(p.test), func(i int) bool {
		return (p.all.Row(p.test[i]).Dot(w)+bias > 0) != (p.all.Label(p.test[i]) == 1)
	})
}

// constant returns the accuracy, in %, of always predicting the same class.
func (p textParts) constant() float64 {
	return 100 - constantError(len(p.test), func(i int) int { return p.all.Label(p.test[i]) })
}

// choose returns the model of the grid with the fewest mistakes in cross validation on the training rows.
func (p textParts) choose(ctx context.Context, s *Setting, grid []textModel, folds int) (textModel, error) {
	return choose(ctx, s.Threads, grid, func(ctx context.Context, m textModel) (v Held, err error) {
		for fold := range folds {
			in, out := heldOutFold(p.train, 5, fold)
			f, err := p.fit(ctx, m, in, p.free, 1)
			if err != nil {
				return v, err
			}
			v.Loss += f.TrainError(p.all.Subset(out)) * float64(len(out))
		}
		return v, nil
	})
}

// textScore has the mistakes of a method and the settings that were chosen for it.
type textScore struct {
	Wrong mistakes  `json:"wrong"` // mistakes by test document
	Model textModel `json:"model"`
}

func (t textScore) accuracy() float64 { return 100 - t.Wrong.error() }

// The methods, which are the columns of the table.
const (
	textL2 = iota
	textDropout
	textFree
	textGaussian
	textGaussianFree
	textMNB
	textMNBFree
	textNBSVM
	textMethods
)

var textNames = [textMethods]string{"L2", "dropout", "dropout + unlabeled", "dropout, normal expectation", "the same + unlabeled", "MNB", "MNB + unlabeled", "NBSVM (bigrams)"}

// textKey identifies a cell: a method on one division of a set.
type textKey struct {
	Set    string
	Split  int
	Method string
	Data   string `json:",omitempty"` // fingerprint of the set's folder, if it is one of Takes
	textConfig
}

// scores computes every method on one division into parts, one cell per method. words has the unigrams. pairs returns
// the same rows with unigrams and bigrams.
func (c textConfig) scores(ctx context.Context, s *Setting, set, data string, split int, words textParts, pairs func() (textParts, error)) ([]textScore, error) {
	c.Splits = 0 // a division does not depend on the number of divisions
	tuned := func(grid []textModel) (textScore, error) {
		m, err := words.choose(ctx, s, grid, c.Folds)
		if err != nil {
			return textScore{}, err
		}
		f, err := words.fit(ctx, m, words.train, words.free, s.Threads)
		if err != nil {
			return textScore{}, err
		}
		return textScore{words.mistakes(f.Problems[0].W), m}, nil
	}
	noisy := func(bound string, alphas ...float64) func() (textScore, error) {
		var grid []textModel
		for _, m := range c.Noisy {
			for _, m.Alpha = range alphas {
				if m.Bound == bound {
					grid = append(grid, m)
				}
			}
		}
		return func() (textScore, error) { return tuned(grid) }
	}
	compute := [textMethods]func() (textScore, error){
		textL2:           func() (textScore, error) { return tuned(c.Plain) },
		textDropout:      noisy("quadratic-noising", 0),
		textFree:         noisy("quadratic-noising", c.Alphas...),
		textGaussian:     noisy("gaussian", 0),
		textGaussianFree: noisy("gaussian", c.Alphas...),
		textMNB:          func() (textScore, error) { return textScore{Wrong: words.bayes(nil)}, nil },
		textMNBFree:      func() (textScore, error) { return textScore{Wrong: words.bayes(words.free)}, nil },
		textNBSVM: func() (textScore, error) {
			p, err := pairs()
			if err != nil {
				return textScore{}, err
			}
			w, err := p.nbsvm(ctx, s.Threads, 1e-3)
			if err != nil {
				return textScore{}, err
			}
			return textScore{Wrong: p.mistakes(w)}, nil
		},
	}
	out := make([]textScore, textMethods)
	for method, name := range textNames {
		s.Say("%s, division %d: %s", set, split+1, name)
		var err error
		if out[method], err = Cell(ctx, s, textKey{set, split, name, data, c}, compute[method]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// thirds divides the rows into three parts of equal size, stratified by class.
func thirds(d *batch.Data, r *rand.Rand) textParts {
	p := textParts{all: d}
	parts := [3]*[]int{&p.train, &p.free, &p.test}
	for next, row := range slices.Concat(byClass(d, r)...) {
		*parts[next%3] = append(*parts[next%3], row)
	}
	for _, part := range parts {
		r.Shuffle(len(*part), func(i, j int) { (*part)[i], (*part)[j] = (*part)[j], (*part)[i] })
	}
	return p
}

func runText(ctx context.Context, s *Setting) error {
	levels, l2 := Pick(s, []float64{0.5}, []float64{0.5, 0.7, 0.9}, []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9}), Pick(s, []float64{1}, []float64{0.1, 0.5, 2}, []float64{0.01, 0.03, 0.1, 0.3, 1, 3})
	c := textGrids(Pick(s, 2, 10, 10), Pick(s, 1, 5, 5), levels, l2, Pick(s, []float64{0.4}, []float64{0.4}, []float64{0.05, 0.1, 0.2, 0.4, 0.7, 1}),
		Pick(s, []float64{1}, []float64{0.3, 1, 3, 10}, []float64{0.03, 0.1, 0.3, 1, 2, 3, 5, 10}))
	reviews := c
	if s.Size != Quick {
		reviews = imdbGrid(s)
	}
	splines := curveConfig{Labeled: Pick(s, []int{20, 40}, []int{3000, 6000, 9000, 12000, 15000}, []int{3000, 5000, 7000, 9000, 11000, 13000, 15000}), Beside: Pick(s, 40, 25000, 25000),
		Fixed: Pick(s, 40, 10000, 10000), Unlabeled: Pick(s, []int{20, 40}, []int{2500, 5000, 10000, 20000, 40000}, []int{1000, 2500, 5000, 10000, 15000, 20000, 30000, 40000})}
	s.Configure(map[string]any{"sets": c, "imdb": reviews, "curves": splines})

	s.Expect((len(textSets)*c.Splits+1)*textMethods + len(splines.Labeled) + len(splines.Unlabeled))
	all := map[string][][]textScore{} // scores by set and division
	tested := map[string][][]int{}    // test documents by set and division
	constant := map[string]float64{}  // accuracy, in %, of always predicting the same class, by set
	graph, err := s.taken(xGraph, "train.svm.gz", "test.svm.gz", vocabulary)
	if err != nil {
		return err
	}
	var names []string
	for _, set := range textSets {
		data := ""
		if set.folder == xGraph {
			if data = graph; data == "" {
				continue
			}
		}
		words, pairs, private, err := s.loadTexts(ctx, set)
		if err != nil {
			return err
		}
		names = append(names, set.name)
		for split := range c.Splits {
			p := thirds(words, rand.New(rand.NewPCG(s.Seed, uint64(split))))
			score, err := c.scores(ctx, s, set.name, data, split, p, func() (textParts, error) {
				p.all, p.private = pairs, private
				return p, nil
			})
			if err != nil {
				return err
			}
			all[set.name], tested[set.name] = append(all[set.name], score), append(tested[set.name], p.test)
			constant[set.name] += p.constant() / float64(c.Splits)
		}
	}
	// IMDB is divided into fixed parts. As many unlabeled as labeled reviews are used.
	whole, err := s.loadReviews(ctx, false, true)
	if err != nil {
		return err
	}
	p := whole
	p.free = p.free[:min(len(p.free), len(p.train))]
	score, err := reviews.scores(ctx, s, "IMDB", "", 0, p, func() (textParts, error) { return s.loadReviews(ctx, true, false) })
	if err != nil {
		return err
	}
	all["IMDB"], tested["IMDB"], constant["IMDB"] = [][]textScore{score}, [][]int{p.test}, p.constant()
	names = append(names, "IMDB")
	s.reportTexts(names, all, tested, constant)
	s.Note("Features are the presence of unigrams. The first five sets are divided at random into three equal parts (%d divisions); IMDB has its own parts. AthR is not in the paper's table and does not enter its claims.", c.Splits)
	if graph == "" {
		s.Note("The paper's XGraph was not available. A run uses it if DIR of --data has a folder %s with train.svm.gz, test.svm.gz and %s.", xGraph, vocabulary)
	}
	s.Note("Brackets in the tables are standard errors over the divisions. Verdicts are Student's test of the differences by document.")
	s.Note("Settings are chosen by accuracy on %[2]d of five held-out fifths of the training part, of IMDB on %[3]d, alpha from %[1]v. Dropout is the quadratic penalty, as in the paper; \"normal\" is the expectation for normal scores. MNB uses unlabeled documents by the frequency estimate of Su et al.; NBSVM has its published settings (squared hinge, C = 1, beta = 1/4).", c.Alphas, c.Folds, reviews.Folds)
	return splines.run(ctx, s, whole, [3]textModel{score[textL2].Model, score[textDropout].Model, score[textFree].Model})
}

// vocabulary is the file with a set's words and pairs, in the order of columns.
const vocabulary = "vocab.txt.gz"

// xGraph is the folder of the set of table 4a that is optional.
const xGraph = "news_xgraph"

// unigrams returns the number of unigrams of a set, whose columns come first. It is the number of entries in the set's
// vocabulary before the first pair, which has the form a_b. If the vocabulary does not exist, the result is otherwise,
// or an error if otherwise is 0.
func (s *Setting) unigrams(folder string, otherwise uint32) (n uint32, err error) {
	pairs := false
	err = eachLine(s.Path(folder, vocabulary), func(_ int, line string) error {
		if pairs = pairs || strings.Contains(line, "_"); !pairs {
			n++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && otherwise > 0 {
		return otherwise, nil
	}
	return n, err
}

// loadTexts returns a set in two forms: the presence of its unigrams (words), and the presence of its unigrams and
// bigrams (pairs). private is textParts.private for pairs.
func (s *Setting) loadTexts(ctx context.Context, set textSet) (words, pairs *batch.Data, private []int, err error) {
	var a, b batch.Builder
	schema := Binary()
	unigrams, err := s.unigrams(set.folder, set.unigrams)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, file := range set.files {
		err := s.EachExample(ctx, schema, set.folder, file, false, func(e *event.Example) {
			if set.singles {
				private = append(private, privatePairs(e.Features, unigrams))
			}
			presence(e, math.MaxUint32)
			add(&b, e)
			presence(e, unigrams)
			add(&a, e)
		})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return a.Data(schema), b.Data(schema), private, nil
}

// privatePairs returns the number of pairs of adjacent words of a document that have no column. It relies on two facts:
// every word has a column, and a document of n words has n-1 pairs.
func privatePairs(counts event.Vec, unigrams uint32) int {
	left := -1.0
	for i, column := range counts.Index {
		if column < unigrams {
			left += counts.Value[i]
		} else {
			left -= counts.Value[i]
		}
	}
	return int(max(left, 0))
}

func (s *Setting) reportTexts(names []string, all map[string][][]textScore, tested map[string][][]int, constant map[string]float64) {
	t := ResultTable{Title: "Test accuracy, %", Columns: []string{"set", "constant answer"}, Digits: 2}
	for i, name := range textNames {
		t.Columns = append(t.Columns, name)
		if i < 3 {
			t.Columns = append(t.Columns, "paper")
		}
	}
	chosen := ResultTable{Detail: true, Title: "What was chosen, first division", Columns: append([]string{"set"}, textNames[:textGaussianFree+1]...)}
	paper := map[string][3]any{"IMDB": {87.14, 88.70, 89.21}}
	for _, set := range textSets {
		paper[set.name] = set.paper
	}
	bars := make([]simulate.Series, 3)
	for _, name := range names {
		row, choice := []any{name, constant[name]}, []any{name}
		for m := range textMethods {
			x := mapped(all[name], func(score []textScore) float64 { return score[m].accuracy() })
			if row = append(row, withError("%.2f", x)); m < 3 {
				row = append(row, paper[name][m])
				slices.Concat(mapped(all[name], func(score []textScore) mistakes { return score[m].Wrong })...).show(&bars[m])
			}
			if m <= textGaussianFree {
				choice = append(choice, all[name][0][m].Model.String())
			}
		}
		t.Rows, chosen.Rows = append(t.Rows, row), append(chosen.Rows, choice)
	}
	s.Table(t)
	s.Table(gains(names, all))
	s.Table(chosen)
	for m := range bars {
		bars[m].Form, bars[m].Name = simulate.Bars, textNames[m]
	}
	s.Figure("sets", &simulate.Figure{Title: "Test error with a third of the labels", Y: "error, %", Categories: names, Series: bars})
	for _, c := range []struct {
		claim, all string // the paper's claim about its sets; "" for none
		from, to   int
	}{
		{"dropout is more accurate than L2", "table 4a: on all of its six sets", textL2, textDropout},
		{"unlabeled documents help dropout", "table 4a: on five of its six sets", textDropout, textFree},
		{"unlabeled documents help dropout by the normal expectation", "", textGaussian, textGaussianFree},
	} {
		var parts []Part
		var each []Difference
		printed := 0.0 // sum of the paper's sizes over the available sets
		for _, name := range names {
			d := byDocument(all[name], tested[name], c.from, c.to)
			if paper[name][0] == nil { // the set is not in the paper
				s.Claim(Claim{Own: true, Claim: c.claim + " on " + name, Parts: []Part{above("", d, 0)}, Unit: "points", Why: "the difference has the other sign"})
				continue
			}
			each = append(each, d)
			part := above(name, d, 0)
			if c.all != "" {
				size := paper[name][c.to].(float64) - paper[name][c.from].(float64)
				printed += size
				part = part.against(size, 0.01)
			}
			if name != "IMDB-2k" || c.to != textFree { // leave out the combination for which the paper makes no such claim
				parts = append(parts, part)
			}
		}
		mean := above("", averageOf(each), 0)
		if c.all != "" {
			mean = mean.against(printed/float64(len(each)), 0.01)
		}
		where := "on every set here"
		if c.to == textFree {
			where += " but IMDB-2k"
		}
		s.Claim(Claim{Claim: c.claim + " " + where, Own: c.all == "", Paper: c.all, Parts: parts, Unit: "points", Why: "on one of them the difference has the other sign"})
		own := Claim{Claim: c.claim + " in the mean over those sets", Own: c.all == "", Parts: []Part{mean}, Unit: "points", Why: "the difference has the other sign"}
		if !own.Own {
			own.Paper = "table 4a"
		}
		s.Claim(own)
	}
}

// gains returns a table of two gains on each set: from dropout and from unlabeled documents.
func gains(names []string, all map[string][][]textScore) ResultTable {
	t := ResultTable{Detail: true, Title: "Gains in accuracy, points: mean over the divisions (paired standard error)",
		Columns: []string{"set", "divisions", "dropout less L2", "unlabeled documents with dropout", "with dropout, normal expectation", "with MNB"}}
	for _, name := range names {
		row := []any{name, len(all[name])}
		for _, c := range [][2]int{{textL2, textDropout}, {textDropout, textFree}, {textGaussian, textGaussianFree}, {textMNB, textMNBFree}} {
			row = append(row, byDivision(all[name], c[0], c[1]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byDivision returns the accuracy of the method to minus the accuracy of the method from, as the mean over divisions
// with its standard error. The difference is paired, because both methods use the same divisions.
func byDivision(scores [][]textScore, from, to int) string {
	return withError("%+.2f", mapped(scores, func(score []textScore) float64 { return score[to].accuracy() - score[from].accuracy() }))
}

// withError returns the mean of x and, if there are several, its standard error.
func withError(format string, x []float64) string {
	mean, e := meanError(x)
	if len(x) > 1 {
		return fmt.Sprintf(format+" (%.2f)", mean, e)
	}
	return fmt.Sprintf(format, mean)
}

// byDocument returns the accuracy of the method to minus the accuracy of the method from. Each document counts once,
// with its mean over the divisions that test it.
func byDocument(scores [][]textScore, tested [][]int, from, to int) Difference {
	better, n := map[int]float64{}, map[int]float64{}
	for split, rows := range tested {
		for i, row := range rows {
			better[row] += float64(scores[split][from].Wrong[i]) - float64(scores[split][to].Wrong[i])
			n[row]++
		}
	}
	return pairedT(mapped(slices.Sorted(maps.Keys(n)), func(row int) float64 { return 100 * better[row] / n[row] }))
}

// averageOf returns the mean of independent differences.
func averageOf(each []Difference) Difference {
	mean, square := 0.0, 0.0
	n := float64(len(each))
	for _, d := range each {
		mean += d.Mean / n
		square += (d.High - d.Low) * (d.High - d.Low) / 4 / (n * n)
	}
	return Difference{mean, mean - math.Sqrt(square), mean + math.Sqrt(square)}
}

// curveConfig is for figure 2. The figure has two curves of accuracy on IMDB: over the number of unlabeled reviews,
// with Fixed labeled reviews, and over the number of labeled reviews, with Beside unlabeled reviews.
type curveConfig struct {
	Fixed     int   `json:"fixed"`
	Unlabeled []int `json:"unlabeled"`
	Labeled   []int `json:"labeled"`
	Beside    int   `json:"beside"`
}

// curvePoint holds the mistakes of L2, dropout, and dropout with unlabeled reviews.
type curvePoint [3]mistakes

func (c curveConfig) run(ctx context.Context, s *Setting, p textParts, models [3]textModel) error {
	point := func(labeled, unlabeled int) (curvePoint, error) {
		labeled, unlabeled = min(labeled, len(p.train)), min(unlabeled, len(p.free))
		key := struct {
			Labeled, Unlabeled int
			Tol                float64
			Models             [3]textModel
		}{labeled, unlabeled, textTol, models}
		return Cell(ctx, s, key, func() (curvePoint, error) {
			s.Say("figure 2, %d labeled and %d unlabeled reviews", labeled, unlabeled)
			var out curvePoint
			for i, m := range models {
				f, err := p.fit(ctx, m, p.train[:labeled], p.free[:unlabeled], s.Threads)
				if err != nil {
					return out, err
				}
				out[i] = p.mistakes(f.Problems[0].W)
			}
			return out, nil
		})
	}
	// spline reports one of the curves and returns its points.
	spline := func(title, name, x string, at []int, point func(n int) (curvePoint, error)) ([]curvePoint, error) {
		var points []curvePoint
		lines := make([]simulate.Series, 3)
		for _, n := range at {
			y, err := point(n)
			if err != nil {
				return nil, err
			}
			points = append(points, y)
			for m := range lines {
				l := &lines[m]
				l.Name, l.Color, l.X = textNames[m], m+1, append(l.X, float64(n))
				y[m].show(l)
			}
		}
		s.Table(matrix(ResultTable{Detail: true, Title: title + ": test accuracy, %", Digits: 2}, x, textNames[:3], mapped(at, strconv.Itoa), func(n, m int) any { return 100 - points[n][m].error() }))
		s.Figure(name, &simulate.Figure{Title: title, X: x, Y: "test error, %", Series: lines})
		return points, nil
	}
	left, err := spline(fmt.Sprintf("IMDB, %d labeled reviews", c.Fixed), "unlabeled", "unlabeled reviews", c.Unlabeled, func(n int) (curvePoint, error) { return point(c.Fixed, n) })
	if err != nil {
		return err
	}
	right, err := spline(fmt.Sprintf("IMDB, %d unlabeled reviews", c.Beside), "labeled", "labeled reviews", c.Labeled, func(n int) (curvePoint, error) { return point(n, c.Beside) })
	if err != nil {
		return err
	}
	first, last := left[0], left[len(left)-1]
	most := c.Unlabeled[len(c.Unlabeled)-1]
	s.Claim(Claim{Claim: "more unlabeled reviews help more", Paper: "figure 2, left", Why: "the difference has the other sign", Unit: "points of accuracy",
		Parts: []Part{above(fmt.Sprintf("%d less %d unlabeled reviews", most, c.Unlabeled[0]), mcNemar(first[2], last[2]), 0), above(fmt.Sprintf("%d less none", most), mcNemar(last[1], last[2]), 0)}})
	var parts []Part
	for i, y := range right {
		parts = append(parts, above(fmt.Sprintf("%d: the former", c.Labeled[i]), mcNemar(y[1], y[2]), 0), above("the latter", mcNemar(y[0], y[1]), 0))
	}
	s.Claim(Claim{Claim: "with any number of labeled reviews dropout + unlabeled > dropout > L2", Paper: "figure 2, right: at all points", Parts: parts, Unit: "points of accuracy",
		Why: "at one of them the difference has the other sign; the settings are those chosen with 25,000 labels, at every point"})
	s.Note("Figure 2 takes the first reviews in the shuffled order of the set, with the settings of table 4a.")
	return nil
}
