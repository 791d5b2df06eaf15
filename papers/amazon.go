package papers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/simulate"

	"gonum.org/v1/gonum/stat"
)

// amazon uses product reviews. It measures the error as a function of the dropout level in training. It also compares
// explicitly corrupted copies with the expectation to which they converge.
var amazon = Experiment{
	Name:  "amazon",
	Help:  "reviews of books: the error against the dropout level, and corrupted copies against their limit",
	Paper: "Chen, Zhu, Chen & Zhang 2014",
	Part:  "figures 1 and 2",
	Needs: []string{"amazon_books"},
	Takes: []string{"amazon_kitchen", "amazon_dvd", "amazon_electronics"},
	Run:   runAmazon,
}

// amazonSets are the sets of figure 1 and the two other sets of their collection. Figure 2 uses books, which must
// exist. The other sets are used if --data has them.
var amazonSets = []struct {
	name, folder string
	paper        bool
}{
	{"books", "amazon_books", true},
	{"kitchen", "amazon_kitchen", true},
	{"DVDs", "amazon_dvd", false},
	{"electronics", "amazon_electronics", false},
}

// amazonReviews are the reviews of one set.
type amazonReviews struct {
	name        string
	paper       bool
	data        string // fingerprint of the set's folder; "" if the folder is required in every run
	train, test []event.Example
	order       []int // random order of the training reviews, for the folds
}

type amazonConfig struct {
	Train  int                 `json:"train"`
	Test   int                 `json:"test"`
	Levels []float64           `json:"levels"` // dropout levels in training
	Costs  map[string][]string `json:"costs"`  // candidate values of c, by method
	Folds  int                 `json:"folds"`
	Tol    float64             `json:"tol"`
	// Settings for explicit copies: the numbers of copies per review, the number of draws for each number of copies,
	// and the candidate dropout levels and costs.
	Copies       []int     `json:"copies"`
	Draws        int       `json:"draws"`
	CopiesLevels []float64 `json:"copies_levels"`
	CopiesCosts  []string  `json:"copies_costs"`
}

type amazonMethod struct{ name, loss, bound string }

// amazonMethods are the methods of figure 1.
var amazonMethods = []amazonMethod{
	{dropoutSVM, "hinge", "chen"},
	{dropoutLogistic, "logistic", "chen"},
	{"MCF-logistic", "logistic", "mcf"},
	{"MCF-quadratic", "quadratic", ""},
}

// amazonCell is the result of one setting. It has the cross-validation error in percent on the training reviews. It
// also has the mistakes on the test reviews after training on all training reviews.
type amazonCell struct {
	Validation float64  `json:"validation"`
	Wrong      mistakes `json:"wrong"`
}

func runAmazon(ctx context.Context, s *Setting) error {
	costs := Pick(s, []string{"0.01", "0.1"}, []string{"0.01", "0.1", "1"}, []string{"0.001", "0.01", "0.1", "1", "10"})
	c := amazonConfig{
		Levels: Pick(s, []float64{0, 0.5, 0.9}, []float64{0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95}),
		Costs:  map[string][]string{}, Folds: Pick(s, 2, 2, 5), Tol: Pick(s, 1e-2, 1e-3, 1e-4),
		Copies: Pick(s, []int{1, 4}, []int{1, 2, 4, 8, 16, 32, 64, 128, 256}, []int{1, 2, 4, 8, 16, 32, 64, 128, 256}), Draws: Pick(s, 2, 3, 10),
		CopiesLevels: Pick(s, []float64{0.5, 0.9}, []float64{0.3, 0.6, 0.9}, []float64{0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9}), CopiesCosts: Pick(s, []string{"0.1"}, []string{"0.01", "0.1", "1"}, costs),
	}
	for _, m := range amazonMethods {
		c.Costs[m.name] = costs
	}
	if s.Size == Default {
		c.Costs["MCF-logistic"] = []string{"0.1", "1"} // the slowest method
	}
	var all []*amazonReviews
	var left []string // sets of the paper that are not in --data
	for _, set := range amazonSets {
		r := &amazonReviews{name: set.name, paper: set.paper}
		var err error
		if slices.Contains(s.experiment.Takes, set.folder) {
			if r.data, err = s.taken(set.folder, reviewFiles...); err != nil {
				return err
			}
			if r.data == "" {
				if set.paper {
					left = append(left, set.folder)
				}
				continue
			}
		}
		for i, to := range []*[]event.Example{&r.train, &r.test} {
			if *to, err = s.examples(ctx, Binary(), set.folder, func(e *event.Example) { presence(e, math.MaxUint32) }, reviewFiles[i]); err != nil {
				return err
			}
		}
		r.order = rand.New(rand.NewPCG(s.Seed, 0xf01d)).Perm(len(r.train))
		all = append(all, r)
	}
	books := all[0]
	c.Train, c.Test = len(books.train), len(books.test)
	s.Configure(c)
	for _, r := range all {
		if err := s.amazonLevels(ctx, c, r); err != nil {
			return err
		}
	}
	if err := s.amazonCopies(ctx, c, books); err != nil {
		return err
	}
	s.Note("%d training and %d test reviews of books, as words and pairs of words by presence. The paper's list of 20,000 features is not public; ours are the most frequent. A constant answer errs on %.2f %%.", c.Train, c.Test, constantError(len(books.test), func(i int) int { return books.test[i].Label }))
	if len(left) > 0 {
		s.Note("The paper's other set was not available. A run uses it if DIR of --data has a folder %s with %s.", strings.Join(left, ", "), strings.Join(reviewFiles, " and "))
	}
	s.Note("Cross validation with %d folds of the training reviews chooses c for each level, and level and c for each number of copies.", c.Folds)
	s.Note("The paper prints no numbers for its curves.")
	if s.Size == Default {
		s.Note("MCF-logistic takes ten times as long as the others and chooses among two values of c, the others among three.")
	}
	return nil
}

// reviewFiles are the files of a set of reviews.
var reviewFiles = []string{"train.svm.gz", "test.svm.gz"}

// validate returns the error in percent of cross validation. The function fit trains on some of the training reviews.
func (r *amazonReviews) validate(folds int, fit func(rows []int) (*model.Linear, error)) (v float64, err error) {
	for f := range folds {
		others, held := heldOutFold(r.order, folds, f)
		slices.Sort(others)
		slices.Sort(held)
		m, err := fit(others)
		if err != nil {
			return 0, err
		}
		v += linearMistakes(m, pick(r.train, held)).error() * float64(len(held)) / float64(len(r.train))
	}
	return v, nil
}

// trained returns the model that batch.Train finds.
func trained(ctx context.Context, d *batch.Data, c batch.Config) (*model.Linear, error) {
	fit, err := batch.Train(ctx, d, c)
	if err != nil {
		return nil, err
	}
	return fit.Model, nil
}

// pick returns the examples at the given rows.
func pick(examples []event.Example, rows []int) []event.Example {
	return mapped(rows, func(row int) event.Example { return examples[row] })
}

// amazonLevels computes figure 1 for one set.
func (s *Setting) amazonLevels(ctx context.Context, c amazonConfig, set *amazonReviews) error {
	var points []amazonPoint
	for m := range amazonMethods {
		for level := range c.Levels {
			for _, cost := range c.Costs[amazonMethods[m].name] {
				points = append(points, amazonPoint{m, level, cost})
			}
		}
	}
	all := dataOf(Binary(), set.train)
	cells, err := Cells(ctx, s, len(points), func(ctx context.Context, i int) (any, func() (amazonCell, error)) {
		p := points[i]
		m, noise := amazonMethods[p.method], loss.Dropout{Q: c.Levels[p.level]}.String()
		key := []any{"level", m.name, noise, p.cost, c.Folds, c.Tol}
		if set.data != "" {
			key = append(key, set.name, set.data)
		}
		return key, func() (cell amazonCell, err error) {
			s.Say("%s, %s, %s, c = %s", set.name, m.name, noise, p.cost)
			config := trainConfig()
			config.Loss, config.Bound, config.Tol, config.Noise = m.loss, m.bound, c.Tol, noise
			setKey(&config, "c", p.cost)
			if cell.Validation, err = set.validate(c.Folds, func(rows []int) (*model.Linear, error) { return trained(ctx, all.Subset(rows), config) }); err != nil {
				return cell, err
			}
			m, err := trained(ctx, all, config)
			if err == nil {
				cell.Wrong = linearMistakes(m, set.test)
			}
			return cell, err
		}
	})
	if err != nil {
		return err
	}
	s.reportLevels(c, set, points, cells)
	return nil
}

// amazonPoint is a setting of figure 1. Its method and level are indexes into their lists.
type amazonPoint struct {
	method, level int
	cost          string
}

// reportLevels reports figure 1 for one set.
func (s *Setting) reportLevels(c amazonConfig, set *amazonReviews, points []amazonPoint, cells []amazonCell) {
	// best has the point with the best c, by method and level.
	best := make([][]int, len(amazonMethods))
	chosen := make([]int, len(amazonMethods)) // level that cross validation chooses, by method
	for m := range amazonMethods {
		for level := range c.Levels {
			best[m] = append(best[m], Least(len(points), func(i int) bool { return points[i].method == m && points[i].level == level }, func(i int) Held { return Held{Loss: cells[i].Validation} }))
		}
		chosen[m] = Least(len(c.Levels), nil, func(level int) Held { return Held{Loss: cells[best[m][level]].Validation} })
	}
	at := func(m int) mistakes { return cells[best[m][chosen[m]]].Wrong }
	names := mapped(amazonMethods, func(m amazonMethod) string { return m.name })
	columns := mapped(c.Levels, func(q float64) string { return fmt.Sprintf("q = %g", q) })
	table := matrix(ResultTable{Detail: true, Title: "Test error (%) by dropout level, " + set.name, Digits: 2}, "method", columns, names,
		func(m, level int) any { return cells[best[m][level]].Wrong.error() })
	table.Columns = append(table.Columns, "at the level that cross validation takes")
	figure := &simulate.Figure{Title: "Reviews of " + set.name, X: "dropout level in training", Y: "test error (%)"}
	for m, name := range names {
		table.Rows[m] = append(table.Rows[m], fmt.Sprintf("%.2f (q = %g)", at(m).error(), c.Levels[chosen[m]]))
		line := simulate.Series{Name: name, X: c.Levels}
		for _, i := range best[m] {
			cells[i].Wrong.show(&line)
		}
		figure.Series = append(figure.Series, line)
	}
	s.Table(table)
	s.Table(matrix(ResultTable{Title: "Chosen c, " + set.name}, "method", columns, names, func(m, level int) any { return points[best[m][level]].cost }))
	name, of := "levels", "" // books have no suffix
	if set.name != amazonSets[0].name {
		name, of = name+"-"+set.name, "; reviews of "+set.name
	}
	s.Figure(name, figure)
	claim := func(c Claim) {
		if c.Claim += of; !set.paper {
			c.Own, c.Paper = true, ""
		}
		s.Claim(c)
	}
	for m := range 2 {
		d := mcNemar(at(m), cells[best[m][0]].Wrong)
		claim(Claim{Claim: amazonMethods[m].name + " beats its own q = 0", Paper: "figure 1", Parts: []Part{below("", d, 0)}, Unit: "points of error", Why: "it does not on these reviews",
			Ours: fmt.Sprintf("%.2f %% at q = %g, which cross validation takes, against %.2f %% at q = 0", at(m).error(), c.Levels[chosen[m]], cells[best[m][0]].Wrong.error())})
	}
	d := mcNemar(at(0), at(2))
	claim(Claim{Claim: "Dropout-SVM is within a point of MCF-logistic, each at the level that cross validation takes", Paper: "figure 1", Ours: fmt.Sprintf("%.2f against %.2f %%", at(0).error(), at(2).error()),
		Parts: []Part{within("", d, 1)}, Unit: "points", Why: "the difference is larger"})
	levels := func(m int) []mistakes { return mapped(best[m], func(i int) mistakes { return cells[i].Wrong }) }
	d = meanLess(levels(0), levels(3))
	claim(Claim{Claim: "Dropout-SVM outperforms MCF-quadratic in the mean over levels up to 0.9", Paper: "figure 1", Parts: []Part{below("", d, 0)}, Unit: "points", Why: "it does worse"})
}

// copiesFit is the result for one number of explicit copies, with the settings chosen for it.
type copiesFit struct {
	Level float64
	Cost  string
	// Wrong has, by draw, the mistakes after training on copies of all reviews. Virtual has the mistakes after training
	// on the reviews and on copies of the support vectors only.
	Wrong, Virtual []mistakes
}

// amazonCopies computes figure 2.
func (s *Setting) amazonCopies(ctx context.Context, c amazonConfig, books *amazonReviews) error {
	type setting struct {
		level float64
		cost  string
	}
	train, test := books.train, books.test
	settings := crossed(c.CopiesLevels, c.CopiesCosts, func(level float64, cost string) setting { return setting{level, cost} })
	// solve trains the hinge loss.
	solve := func(ctx context.Context, d *batch.Data, x setting, noise, bound string) (*model.Linear, error) {
		b := trainConfig()
		b.Loss, b.Tol, b.Noise, b.Bound = "hinge", c.Tol, noise, bound
		setKey(&b, "c", x.cost)
		return trained(ctx, d, b)
	}
	// fit trains on copies of the examples in copied, and on the examples in plain without copying them.
	fit := func(ctx context.Context, plain, copied []event.Example, copies int, x setting, seed uint64) (*model.Linear, error) {
		c := &corruption{noise: dropout, rates: []float64{x.level}, copies: copies, seed: seed}
		return solve(ctx, c.data(Binary(), plain, copied), x, "none", "")
	}
	// crossValidated chooses the settings for fit by cross validation.
	crossValidated := func(ctx context.Context, threads int, fit func(ctx context.Context, examples []event.Example, x setting) (*model.Linear, error)) (setting, error) {
		return choose(ctx, threads, settings, func(ctx context.Context, x setting) (v Held, err error) {
			v.Loss, err = books.validate(c.Folds, func(rows []int) (*model.Linear, error) { return fit(ctx, pick(train, rows), x) })
			return v, err
		})
	}
	fits, err := Cells(ctx, s, len(c.Copies), func(ctx context.Context, i int) (any, func() (copiesFit, error)) {
		copies := c.Copies[len(c.Copies)-1-i] // the longest computation first
		return []any{"copies", copies, c.Draws, c.CopiesLevels, c.CopiesCosts, c.Folds, c.Tol}, func() (f copiesFit, err error) {
			s.Say("%d corrupted copies", copies)
			x, err := crossValidated(ctx, 1, func(ctx context.Context, examples []event.Example, x setting) (*model.Linear, error) {
				return fit(ctx, nil, examples, copies, x, s.Seed)
			})
			if err != nil {
				return f, err
			}
			f.Level, f.Cost = x.level, x.cost
			clean, err := fit(ctx, train, nil, 1, x, s.Seed)
			if err != nil {
				return f, err
			}
			var vectors []event.Example // support vectors of the machine without noise
			score := make([]float64, clean.Outputs)
			for k := range train {
				if y := float64(2*train[k].Label - 1); y*clean.Score(&train[k], score)[0] < 1+1e-2 {
					vectors = append(vectors, train[k])
				}
			}
			for draw := range c.Draws {
				seed := s.Seed + uint64(draw+1)<<32
				m, err := fit(ctx, nil, train, copies, x, seed)
				if err != nil {
					return f, err
				}
				v, err := fit(ctx, train, vectors, copies, x, seed)
				if err != nil {
					return f, err
				}
				f.Wrong, f.Virtual = append(f.Wrong, linearMistakes(m, test)), append(f.Virtual, linearMistakes(v, test))
			}
			return f, nil
		}
	})
	if err != nil {
		return err
	}
	slices.Reverse(fits)
	// Copies converge to two limits: the expected hinge loss for normal scores (sums of many words are nearly normal),
	// and the paper's bound on that loss. The settings for the limits are chosen in the same way as the settings for
	// copies.
	type limit struct {
		Names  []string
		Wrong  []mistakes
		Choice []string
	}
	s.Expect(1)
	limits, err := Cell(ctx, s, []any{"limits", c.CopiesLevels, c.CopiesCosts, c.Folds, c.Tol}, func() (l limit, err error) {
		for _, bound := range []string{"gaussian", "chen"} {
			s.Say("the limit %s", bound)
			limitOf := func(ctx context.Context, examples []event.Example, x setting) (*model.Linear, error) {
				return solve(ctx, dataOf(Binary(), examples), x, loss.Dropout{Q: x.level}.String(), bound)
			}
			x, err := crossValidated(ctx, s.Threads, limitOf)
			if err != nil {
				return l, err
			}
			m, err := limitOf(ctx, train, x)
			if err != nil {
				return l, err
			}
			l.Wrong, l.Choice = append(l.Wrong, linearMistakes(m, test)), append(l.Choice, fmt.Sprintf("q = %g, c = %s", x.level, x.cost))
		}
		return l, nil
	})
	if err != nil {
		return err
	}
	table := ResultTable{Title: "Test error (%) of the hinge loss on M corrupted copies, mean of the draws, settings chosen for each M", Columns: []string{"M", "explicit copies", "least", "largest", "virtual SVM", "settings"}, Digits: 2}
	all, virtual := simulate.Series{Name: "M explicit copies"}, simulate.Series{Name: "virtual SVM"}
	for i, copies := range c.Copies {
		e, v := mapped(fits[i].Wrong, mistakes.error), mapped(fits[i].Virtual, mistakes.error)
		table.Rows = append(table.Rows, []any{copies, stat.Mean(e, nil), slices.Min(e), slices.Max(e), stat.Mean(v, nil), fmt.Sprintf("q = %g, c = %s", fits[i].Level, fits[i].Cost)})
		all.X, virtual.X = append(all.X, float64(copies)), append(virtual.X, float64(copies))
		plot(&all, Difference{stat.Mean(e, nil), slices.Min(e), slices.Max(e)})
		plot(&virtual, Difference{stat.Mean(v, nil), slices.Min(v), slices.Max(v)})
	}
	ends := []float64{all.X[0], all.X[len(all.X)-1]}
	figure := &simulate.Figure{Title: "Reviews of books", X: "corrupted copies of each review", Y: "test error (%)", LogX: true, Series: []simulate.Series{all, virtual}}
	for k, name := range []string{"expectation, normal scores", "Dropout-SVM (bound)"} {
		e := limits.Wrong[k].error()
		table.Rows = append(table.Rows, []any{"infinite: " + name, e, nil, nil, nil, limits.Choice[k]})
		figure.Series = append(figure.Series, simulate.Series{Name: name, Form: simulate.BareLine, X: ends, Y: []float64{e, e}, Dashed: true})
	}
	s.Table(table)
	s.Figure("copies", figure)
	most := fits[len(fits)-1].Wrong
	falls := meanLess(most, fits[0].Wrong)
	s.Claim(Claim{Claim: "the error of explicit corruption falls with the number of copies M", Paper: "figure 2",
		Parts: []Part{below(fmt.Sprintf("M = %d less M = %d", c.Copies[len(c.Copies)-1], c.Copies[0]), falls, 0)}, Unit: "points", Why: "it rises"})
	best := meanLess(limits.Wrong[1:], most)
	s.Claim(Claim{Claim: fmt.Sprintf("Dropout-SVM, M infinite, is better than M = %d", c.Copies[len(c.Copies)-1]), Paper: "figure 2", Parts: []Part{below("", best, 0)}, Unit: "points", Why: "it does worse"})
	sv := meanLess(fits[len(fits)-1].Virtual, most)
	s.Claim(Claim{Own: true, Claim: "copies of the support vectors alone are within a point of copies of all reviews, at the largest M", Parts: []Part{within("", sv, 1)}, Unit: "points", Why: "the difference is larger"})
	return nil
}
