package papers

import (
	"context"
	"fmt"
	"math"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/simulate"
)

// imdb uses the IMDB reviews, including all unlabeled reviews.
var imdb = Experiment{
	Name:  "imdb",
	Help:  "IMDB with 50,000 unlabeled reviews: dropout beside naive Bayes and NBSVM",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "table 4b",
	Needs: []string{"imdb"},
	Run:   runIMDB,
}

// imdbUnigrams is the number of unigrams in the embedded samples.
const imdbUnigrams = 47123

// loadReviews reads the reviews as presence of unigrams and, if pairs is set, of bigrams. free adds the unlabeled
// reviews.
func (s *Setting) loadReviews(ctx context.Context, pairs, free bool) (p textParts, err error) {
	columns, err := s.unigrams("imdb", imdbUnigrams)
	if err != nil {
		return p, err
	}
	if pairs {
		columns = math.MaxUint32
	}
	var b batch.Builder
	n, schema := 0, Binary()
	for _, f := range []struct {
		name string
		rows *[]int
	}{{"train.svm.gz", &p.train}, {"test.svm.gz", &p.test}, {"unlabeled.svm.gz", &p.free}} {
		unlabeled := f.rows == &p.free
		if unlabeled && !free {
			continue
		}
		if err := s.EachExample(ctx, schema, "imdb", f.name, unlabeled, func(e *event.Example) {
			presence(e, columns)
			*f.rows = append(*f.rows, n)
			n++
			add(&b, e)
		}); err != nil {
			return p, err
		}
	}
	p.all = b.Data(schema)
	return p, nil
}

// imdbGrid returns the grids for large sets, of which a fifth is held out.
func imdbGrid(s *Setting) textConfig {
	return textGrids(1, Pick(s, 2, 1, 3), Pick(s, []float64{0.5}, []float64{0.5, 0.7}, []float64{0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9}), Pick(s, []float64{1}, []float64{0.1, 0.5, 2, 5}, []float64{0.1, 0.3, 1, 2, 3, 5, 8}),
		Pick(s, []float64{0.4}, []float64{0.4}, []float64{0.1, 0.2, 0.4, 0.7, 1}), Pick(s, []float64{1}, []float64{0.3, 1, 3, 10}, []float64{0.3, 1, 2, 3, 5, 7, 10, 15, 20}))
}

func runIMDB(ctx context.Context, s *Setting) error {
	c := imdbGrid(s)
	s.Configure(c)
	s.Expect(2*textMethods + 1)
	var scores [2][]textScore // scores with unigrams and with bigrams
	var penalties []penaltyGain
	constant := 0.0 // accuracy, in %, of always predicting the same class
	for i, features := range []string{"unigrams", "bigrams"} {
		p, err := s.loadReviews(ctx, i == 1, true)
		if err != nil {
			return err
		}
		if scores[i], err = c.scores(ctx, s, features, "", 0, p, func() (textParts, error) { return p, nil }); err != nil {
			return err
		}
		constant = p.constant()
		if i == 0 {
			if penalties, err = s.penaltyGains(ctx, p, c.Noisy, scores[i][textFree].Model); err != nil {
				return err
			}
		}
	}
	// The paper's accuracies with labeled reviews only, and with labeled and unlabeled reviews.
	rows := []struct {
		name          string
		features      int
		labeled, free int // indexes of methods; -1 is none
		paper         [2]any
	}{
		{"MNB, unigrams", 0, textMNB, textMNBFree, [2]any{83.62, 84.13}},
		{"MNB, bigrams", 1, textMNB, textMNBFree, [2]any{86.63, 86.98}},
		{"Vect.Sent, word vectors of the paper's reference 12: not run", 0, -1, -1, [2]any{88.33, 88.89}},
		{"NBSVM, unigrams", 0, textNBSVM, -1, [2]any{}},
		{"NBSVM, bigrams", 1, textNBSVM, -1, [2]any{91.22, nil}},
		{"L2, unigrams", 0, textL2, -1, [2]any{}},
		{"L2, bigrams", 1, textL2, -1, [2]any{}},
		{"dropout, unigrams", 0, textDropout, textFree, [2]any{87.78, 89.52}},
		{"dropout, bigrams", 1, textDropout, textFree, [2]any{91.31, 91.98}},
		{"dropout by the normal expectation, unigrams", 0, textGaussian, textGaussianFree, [2]any{}},
		{"dropout by the normal expectation, bigrams", 1, textGaussian, textGaussianFree, [2]any{}},
	}
	t := ResultTable{Title: "Test accuracy on IMDB, %", Digits: 2, Columns: []string{"method", "labeled", "paper", "+ unlabeled", "paper", "chosen"}}
	bars := []simulate.Series{{Name: "labeled only", Form: simulate.Bars}, {Name: "and unlabeled", Form: simulate.Bars}}
	var names []string
	t.Rows = append(t.Rows, []any{"constant answer", constant, nil, nil, nil, ""})
	for _, row := range rows {
		if row.labeled < 0 {
			t.Rows = append(t.Rows, []any{row.name, nil, row.paper[0], nil, row.paper[1], ""})
			continue
		}
		score := scores[row.features]
		line := []any{row.name, score[row.labeled].accuracy(), row.paper[0], nil, row.paper[1], ""}
		model := score[row.labeled].Model
		if row.free >= 0 {
			line[3] = score[row.free].accuracy()
			model = score[row.free].Model
		}
		if model.Bound != "" {
			line[5] = model.String()
		}
		t.Rows = append(t.Rows, line)
		if row.features == 1 {
			names = append(names, []string{"MNB", "NBSVM", "L2", "dropout", "dropout, normal"}[len(names)])
			score[row.labeled].Wrong.show(&bars[0])
			if row.free >= 0 {
				score[row.free].Wrong.show(&bars[1])
			} else {
				plot(&bars[1], Difference{math.NaN(), math.NaN(), math.NaN()})
			}
		}
	}
	s.Table(t)
	same := Claim{Own: true, Claim: "unlabeled reviews help dropout at the same level and penalty, unigrams, at every penalty", Unit: "points", Why: "at one of them the difference has the other sign"}
	each := ResultTable{Title: fmt.Sprintf("Test accuracy of dropout on unigrams, %%, at the same level (%s) and penalty, alpha %g", scores[0][textFree].Model.Noise, scores[0][textFree].Model.Alpha),
		Columns: []string{"l2", "labeled", "+ unlabeled", "gain"}, Digits: 2}
	for _, g := range penalties {
		d := mcNemar(g.Labeled, g.Free)
		each.Rows = append(each.Rows, []any{fmt.Sprint(g.L2), 100 - g.Labeled.error(), 100 - g.Free.error(), d.String()})
		same.Parts = append(same.Parts, above(fmt.Sprintf("l2 %g", g.L2), d, 0))
	}
	s.Table(each)
	s.Figure("bigrams", &simulate.Figure{Title: "Test error on IMDB with bigrams", Y: "error, %", Categories: names, Series: bars})
	claim := func(name string, paper [2]float64, features, from, to int) {
		a, b := scores[features][from], scores[features][to]
		part := above("", mcNemar(a.Wrong, b.Wrong), 0)
		c := Claim{Claim: name, Own: paper[0] == 0, Ours: fmt.Sprintf("%.2f %% -> %.2f %%", a.accuracy(), b.accuracy()), Unit: "points", Why: "the difference has the other sign"}
		if !c.Own {
			c.Paper, part = fmt.Sprintf("%.2f %% -> %.2f %%", paper[0], paper[1]), part.against(paper[1]-paper[0], 0.01)
		}
		c.Parts = []Part{part}
		s.Claim(c)
	}
	claim("unlabeled reviews help dropout, unigrams", [2]float64{87.78, 89.52}, 0, textDropout, textFree)
	claim("unlabeled reviews help dropout, bigrams", [2]float64{91.31, 91.98}, 1, textDropout, textFree)
	claim("unlabeled reviews help dropout by the normal expectation, unigrams", [2]float64{}, 0, textGaussian, textGaussianFree)
	claim("unlabeled reviews help dropout by the normal expectation, bigrams", [2]float64{}, 1, textGaussian, textGaussianFree)
	claim("dropout with unlabeled reviews is more accurate than NBSVM, bigrams", [2]float64{91.22, 91.98}, 1, textNBSVM, textFree)
	claim("dropout is more accurate than L2, bigrams", [2]float64{}, 1, textL2, textDropout)
	claim("unlabeled reviews help naive Bayes, unigrams", [2]float64{83.62, 84.13}, 0, textMNB, textMNBFree)
	claim("unlabeled reviews help naive Bayes, bigrams", [2]float64{86.63, 86.98}, 1, textMNB, textMNBFree)
	s.Claim(same)
	s.Note("Verdicts are McNemar's test on the test reviews. Vect.Sent (Maas et al. 2011) is no linear classifier of words: its row has the paper's numbers only. NBSVM has its published loss and settings, but another vocabulary.")
	s.Note("Features are the presence of unigrams in 5 or more training and unlabeled reviews, and of bigrams in 20 or more. Settings are chosen on %d of five held-out fifths of the training part, alpha from %v. The test part is used once, except for the table of penalties.", c.Folds, c.Alphas)
	s.Note("The table of penalties separates what unlabeled reviews bring from the choice of another penalty. The larger the penalty, the less is left to gain, because both keep weights of rare words small. The gain at the chosen penalty is small but real: its interval does not contain 0.")
	return nil
}

// penaltyGain holds the mistakes of dropout at one penalty, without and with unlabeled reviews.
type penaltyGain struct {
	L2            float64
	Labeled, Free mistakes
}

// penaltyGains compares dropout with and without unlabeled reviews at each penalty of the grid. The level and alpha are
// those of m. This separates the effect of unlabeled reviews from the effect of choosing another penalty.
func (s *Setting) penaltyGains(ctx context.Context, p textParts, grid []textModel, m textModel) ([]penaltyGain, error) {
	var l2 []float64
	for _, x := range grid {
		if x.Bound == m.Bound && x.Noise == m.Noise {
			l2 = append(l2, x.L2)
		}
	}
	return Cell(ctx, s, []any{"penalties", textTol, m.Bound, m.Noise, m.Alpha, l2}, func() ([]penaltyGain, error) {
		gains := make([]penaltyGain, len(l2))
		err := s.Parallel(ctx, 2*len(l2), func(ctx context.Context, i int) error {
			x, to := m, &gains[i/2].Free
			x.L2 = l2[i/2]
			if i%2 == 0 {
				x.Alpha, to = 0, &gains[i/2].Labeled
				gains[i/2].L2 = x.L2
			}
			s.Say("dropout on unigrams, %s", x)
			f, err := p.fit(ctx, x, p.train, p.free, 1)
			if err != nil {
				return err
			}
			*to = p.mistakes(f.Problems[0].W)
			return nil
		})
		return gains, err
	})
}
