package papers

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/simulate"
)

// mnistNightmare deletes pixels of MNIST images at test time. Every method is tuned for each deleted fraction, on
// images with that fraction deleted.
var mnistNightmare = Experiment{
	Name:  "mnist-nightmare",
	Help:  "robustness of eleven ways to train on digits with pixels deleted at test time",
	Paper: "Chen, Zhu, Chen & Zhang 2014",
	Part:  "figure 3",
	Needs: []string{"mnist"},
	Run:   runMNISTNightmare,
}

const mnistPixels = 28 * 28

type nightmareConfig struct {
	Train      int                 `json:"train"`
	Validation int                 `json:"validation"`
	Test       int                 `json:"test"`
	Levels     []float64           `json:"levels"`
	Tol        float64             `json:"tol"`
	Iterations int                 `json:"iterations"` // largest number of iterations; 0 iterates until the tolerance is reached
	Grids      map[string][]string `json:"grids"`      // candidate settings by method
}

// The ways to present an image with dead pixels to a model.
const (
	divided = iota // dead pixels are 0, the others are divided by the remaining fraction, as in training
	asIs           // dead pixels are 0, the others unchanged
	atMeans        // dead pixels, known to be dead, have their mean over the training images
	ways
)

var shownAs = [ways]string{"survivors divided by the share left", "survivors as they are", "dead pixels at their means"}

// nightmareCell is the result of one setting for every kind of deletion. By way of presentation and level, it has the
// error on the validation images in percent, and the mistakes on the test images.
type nightmareCell struct {
	Validation [ways][]float64
	Wrong      [ways][]mistakes
	Converged  bool
}

// contender is one setting of a method, batch or online. If follows is set, its dropout level is the one after the
// previous contender's level, and its solver starts from the previous contender's weights.
type contender struct {
	method, setting string
	batch           *batch.Config
	online          *online.Config
	follows         bool
	copies          *corruption // copies that are learned instead of the images
}

// The paper's methods, followed by ours.
const (
	dropoutSVM      = "Dropout-SVM"
	dropoutLogistic = "Dropout-Logistic"
	hingeL2         = "Hinge-L2"
	hingeFDROP      = "FDROP"
	mcfLogistic     = "MCF-logistic"
	mcfQuadratic    = "MCF-quadratic"
	logisticL2      = "Logistic-L2"
	hingeNormal     = "hinge, normal scores"
	blankoutPass    = "blankout, one pass"
	adaGradPass     = "AdaGrad, one pass"
)

func nightmareContenders(s *Setting, c *nightmareConfig) []contender {
	base := trainConfig()
	base.Tol, base.MaxIterations = c.Tol, c.Iterations
	method := func(name, loss, bound string, grid ...Axis) Method {
		m := Method{Name: name, Config: base, Grid: grid}
		m.Config.Loss, m.Config.Bound = loss, bound
		return m
	}
	// In a trial with costs from 0.001 to 1, each level chose one of these. The default costs extend beyond all chosen
	// costs.
	costs := func(byDefault ...string) Axis {
		return Axis{Key: "c", Values: Pick(s, []string{"0.1"}, byDefault, []string{"0.0001", "0.001", "0.01", "0.1", "1", "10", "100"})}
	}
	tenths := []string{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"}
	q := Pick(s, []string{"0.5", "0.7"}, tenths, tenths)
	levels := Axis{Key: "q", Values: q}
	deletions := Axis{Key: "k", Values: Pick(s, []string{"10"}, []string{"1", "2", "5"}, []string{"1", "2", "5", "10", "25", "50", "75"})}
	var all []contender
	for _, m := range []Method{
		method(dropoutSVM, "hinge", "chen", costs("0.01", "0.1", "1", "10", "100"), levels),
		method(dropoutLogistic, "logistic", "chen", costs("0.01", "0.1", "1", "10", "100"), levels),
		method(hingeL2, "hinge", "", costs("0.0001", "0.001", "0.01", "0.1", "1")),
		method(hingeFDROP, "fdrop:1", "", costs("0.001", "0.003", "0.01", "0.03", "0.1"), deletions),
		method(mcfLogistic, "logistic", "mcf", costs("0.1", "1"), levels),
		method(mcfQuadratic, "quadratic", "", costs("0.001", "0.01", "0.1", "1"), levels),
		method(logisticL2, "logistic", "", costs("0.0001", "0.001", "0.01", "0.1", "1", "10")),
		method(hingeNormal, "hinge", "gaussian", costs("0.01", "0.1", "1"), levels),
	} {
		points := m.Points()
		last := m.Grid[len(m.Grid)-1] // the setting that varies from contender to contender
		for i, p := range points {
			p.Settings.Threads = 1
			all = append(all, contender{method: m.Name, setting: p.Name, batch: &p.Settings, follows: last.Key == "q" && i%len(last.Values) > 0})
		}
	}
	for _, level := range append([]string{"0"}, q...) {
		all = append(all, onePass(blankoutPass, "q = "+level, func(o *online.Config) { o.Noise = "dropout:" + level }))
	}
	for _, level := range q {
		all = append(all, onePass("dropout descent, one pass", "q = "+level, func(o *online.Config) {
			o.Noise, o.Optimizer, o.NoisyGradient = "dropout:"+level, "dropout-descent", "false"
		}))
	}
	all = append(all, onePass(adaGradPass, "", func(o *online.Config) { o.Noise = "none" }))
	c.note(all)
	return all
}

// onePass returns a contender that learns online. It does not standardize, because a dead pixel would no longer be 0.
func onePass(method, setting string, change func(o *online.Config)) contender {
	o := online.DefaultConfig()
	o.Standardize = "none"
	change(&o)
	return contender{method: method, setting: setting, online: &o}
}

// note stores the settings of the contenders in c.
func (c *nightmareConfig) note(contenders []contender) {
	c.Grids = map[string][]string{}
	for _, x := range contenders {
		c.Grids[x.method] = append(c.Grids[x.method], x.setting)
	}
}

// train returns the contender's model of the examples. On entry w has the weights of the previous contender. train
// replaces them by the weights of this contender.
func (x *contender) train(ctx context.Context, schema *event.Schema, d *batch.Data, examples []event.Example, w *[][]float64) (m *model.Linear, converged bool, err error) {
	if x.batch != nil {
		if !x.follows {
			*w = nil
		}
		if x.copies != nil {
			d = x.copies.data(schema, nil, examples)
		}
		fit, err := batch.TrainFrom(ctx, d, *x.batch, *w)
		if err != nil {
			return nil, false, err
		}
		*w = nil
		for _, p := range fit.Problems {
			*w = append(*w, p.W)
		}
		return fit.Model, fit.Converged, nil
	}
	return learned(newLearner(*x.online, schema.Clone()), x.copies, examples), true, nil
}

func runMNISTNightmare(ctx context.Context, s *Setting) error {
	c := nightmareConfig{
		Train: Pick(s, 120, 50_000, 50_000), Validation: Pick(s, 100, 10_000, 10_000), Test: Pick(s, 100, 10_000, 10_000),
		Levels: Pick(s, []float64{0, 0.5, 0.8}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}),
		Tol:    Pick(s, 1e-1, 1e-2, 1e-3), Iterations: Pick(s, 10, 60, 0),
	}
	contenders := nightmareContenders(s, &c)
	cells, err := s.nightmareCells(ctx, c, contenders)
	if err != nil {
		return err
	}
	for as := range shownAs {
		methods := tune(c, as, contenders, cells)
		s.reportNightmare(c, as, methods)
		s.nightmareClaims(c, as, methods)
	}
	s.noteNightmare(c, contenders, cells)
	return nil
}

// nightmareCells trains the contenders on the digits and measures them for every kind of deletion.
func (s *Setting) nightmareCells(ctx context.Context, c nightmareConfig, contenders []contender) ([]nightmareCell, error) {
	s.Configure(c)
	schema := digits()
	train, err := s.firstExamples(ctx, schema, "mnist", "train-images-idx3-ubyte.gz", c.Train+c.Validation)
	if err != nil {
		return nil, err
	}
	test, err := s.firstExamples(ctx, schema, "mnist", "t10k-images-idx3-ubyte.gz", c.Test)
	if err != nil {
		return nil, err
	}
	validation := train[c.Train:]
	train = train[:c.Train]
	d := dataOf(schema, train)
	means := columnMeans(train, mnistPixels)
	var chains [][]contender // each chain starts with a contender that follows no other
	for _, x := range contenders {
		if !x.follows {
			chains = append(chains, nil)
		}
		chains[len(chains)-1] = append(chains[len(chains)-1], x)
	}
	values, err := Cells(ctx, s, len(chains), func(ctx context.Context, i int) (any, func() ([]nightmareCell, error)) {
		key := []any{chains[i][0].method, c.Train, c.Validation, c.Test, c.Levels, c.Tol, c.Iterations, shownAs}
		for _, x := range chains[i] {
			key = append(key, x.setting)
		}
		return key, func() (chain []nightmareCell, err error) {
			var w [][]float64
			for _, x := range chains[i] {
				s.Say("training %s, %s", x.method, x.setting)
				m, converged, err := x.train(ctx, schema, d, train, &w)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", x.method, x.setting, err)
				}
				cell := nightmareCell{Converged: converged, Wrong: c.corruptedMistakes(m, means, test, s.Seed+1)}
				for as, levels := range c.corruptedMistakes(m, means, validation, s.Seed) {
					cell.Validation[as] = mapped(levels, mistakes.error)
				}
				chain = append(chain, cell)
			}
			return chain, nil
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(values...), nil
}

// corruptedMistakes returns the mistakes of the model on images with dead pixels, by way of presentation and level.
// means has the mean of each pixel over the training images.
func (c nightmareConfig) corruptedMistakes(m *model.Linear, means []float64, images []event.Example, seed uint64) (wrong [ways][]mistakes) {
	scores := make([]float64, m.Outputs)
	var x event.Vec
	all := event.Vec{Index: allColumns(len(means)), Value: make([]float64, len(means))}
	var dead []bool
	for _, fraction := range c.Levels {
		corrupter := batch.Corrupter{Noise: loss.Dropout{Q: fraction}, Seed: seed}
		for as := range wrong {
			wrong[as] = append(wrong[as], make(mistakes, len(images)))
		}
		level := len(wrong[0]) - 1
		for n := range images {
			ask := func(as int, x event.Vec) {
				if m.Predict(m.ScoreVec(x, scores)) != images[n].Label {
					wrong[as][level][n] = 1
				}
			}
			x = m.Standardized(&images[n], event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
			copy(all.Value, means)
			dead = corrupter.Dead(all.Index, nil, n, 1, dead)
			for pixel, dead := range dead {
				if !dead {
					all.Value[pixel] = 0
				}
			}
			for i, pixel := range x.Index {
				if !dead[pixel] {
					all.Value[pixel] = x.Value[i]
				}
			}
			ask(atMeans, all)
			corrupter.Vec(x, nil, n, 0)
			ask(divided, x)
			for i := range x.Value {
				x.Value[i] *= 1 - fraction
			}
			ask(asIs, x)
		}
	}
	return wrong
}

// less returns, by test image, the error of method a minus the error of method b. The errors are averaged over the
// levels above the given one.
func (c nightmareConfig) less(a, b tuned, above float64) Difference {
	from := slices.IndexFunc(c.Levels, func(level float64) bool { return level > above })
	return meanLess(a.wrong[from:], b.wrong[from:])
}

// tuned is the result of a method that chooses a setting for each level.
type tuned struct {
	method   string
	settings []string // chosen settings by level
	wrong    []mistakes
}

func tune(c nightmareConfig, as int, contenders []contender, cells []nightmareCell) []tuned {
	var all []tuned
	for i, x := range contenders {
		if i == 0 || contenders[i-1].method != x.method {
			all = append(all, tuned{method: x.method})
		}
	}
	for t := range all {
		for level := range c.Levels {
			best := Least(len(contenders), func(i int) bool { return contenders[i].method == all[t].method }, func(i int) Held {
				return Held{Loss: cells[i].Validation[as][level]}
			})
			all[t].settings, all[t].wrong = append(all[t].settings, contenders[best].setting), append(all[t].wrong, cells[best].Wrong[as][level])
		}
	}
	return all
}

// nightmarePaper lists the methods of figure 3.
var nightmarePaper = []string{dropoutSVM, dropoutLogistic, hingeL2, hingeFDROP, mcfLogistic, mcfQuadratic}

func (s *Setting) reportNightmare(c nightmareConfig, as int, methods []tuned) {
	columns := mapped(c.Levels, func(level float64) string { return strconv.FormatFloat(100*level, 'g', 4, 64) + " %" })
	names := mapped(methods, func(m tuned) string { return m.method })
	s.Table(matrix(ResultTable{Detail: as == atMeans || as == divided && slices.Contains(names, dropoutSVM), Title: "Test error (%) by share of the pixels deleted, " + shownAs[as] + ", settings chosen for each share", Digits: 1},
		"method", columns, names, func(m, level int) any { return methods[m].wrong[level].error() }))
	s.Table(matrix(ResultTable{Detail: true, Title: "Chosen settings, " + shownAs[as]}, "method", columns, names, func(m, level int) any { return methods[m].settings[level] }))
	paper := &simulate.Figure{Title: "MNIST, pixels deleted at test time, " + shownAs[as], X: "pixels deleted (%)", Y: "test error (%)"}
	ours := &simulate.Figure{Title: paper.Title, X: paper.X, Y: paper.Y}
	for _, m := range methods {
		line := simulate.Series{Name: m.method, X: scaled(c.Levels, 100)}
		for _, wrong := range m.wrong {
			wrong.show(&line)
		}
		if slices.Contains(nightmarePaper, m.method) {
			paper.Series = append(paper.Series, line)
		}
		if m.method == dropoutSVM || !slices.Contains(nightmarePaper, m.method) {
			ours.Series = append(ours.Series, line)
		}
	}
	name := [ways]string{divided: "divided", asIs: "none", atMeans: "means"}[as]
	if as != atMeans && len(paper.Series) > 0 { // the paper does not present means
		s.Figure(name, paper)
	}
	s.Figure(name+"-ours", ours)
}

// noteNightmare adds notes about the procedure to the report.
func (s *Setting) noteNightmare(c nightmareConfig, contenders []contender, cells []nightmareCell) {
	work := ResultTable{Detail: true, Title: "Training", Columns: []string{"method", "settings", "reached the tolerance"}}
	solutions, reached := 0, 0
	for i, x := range contenders {
		if x.batch == nil {
			continue
		}
		if i == 0 || contenders[i-1].method != x.method {
			work.Rows = append(work.Rows, []any{x.method, 0, 0})
		}
		row := work.Rows[len(work.Rows)-1]
		row[1] = row[1].(int) + 1
		solutions++
		if cells[i].Converged {
			row[2] = row[2].(int) + 1
			reached++
		}
	}
	s.Table(work)
	s.Note("%d training images (the paper: 60,000), the next %d choose the settings of each fraction deleted, %d test images. Every method sees the same dead pixels. Figures show binomial intervals of 95 %%; verdicts are Student's test of the differences by image.", c.Train, c.Validation, c.Test)
	s.Note("The paper sets deleted pixels to zero and does not mention the others, so its claims are decided with the survivors as they are. Survivors divided by the fraction left are our variant.")
	if stopped := solutions - reached; stopped > 0 {
		s.Note("%d of %d solutions stopped after %d iterations, before a gap or gradient of %g.", stopped, solutions, c.Iterations, c.Tol)
	}
	if s.Size == Default {
		s.Note("MCF-logistic takes ten times as long as the others and chooses among two values of c, the others among three to six. That may be why it loses.")
	}
	s.Note("The paper prints no numbers for its curves. Not in the paper: \"hinge, normal scores\" (the expectation that Dropout-SVM bounds), the methods learned online in one pass, and dead pixels at their means.")
}

// claim returns the claim that a method has a smaller error than each of the others. Errors are means over the levels
// above the given level.
func (c nightmareConfig) claim(claim Claim, methods []tuned, method string, others []string, above float64) Claim {
	by := func(method string) tuned {
		return methods[slices.IndexFunc(methods, func(m tuned) bool { return m.method == method })]
	}
	for _, name := range others {
		claim.Parts = append(claim.Parts, below("less "+name, c.less(by(method), by(name), above), 0))
	}
	claim.Unit, claim.Why = "points", "at least one of these does better"
	return claim
}

// nightmareClaims compares means over levels. At a single level, the choice of the images has more effect than most
// differences between methods. The paper's claims are about asIs, because the paper sets deleted pixels to zero and
// mentions no other change. The same comparisons for other presentations are our own claims.
func (s *Setting) nightmareClaims(c nightmareConfig, as int, methods []tuned) {
	claim := func(text, paper, method string, others []string, above float64) {
		if as != asIs {
			paper = ""
		}
		s.Claim(c.claim(Claim{Own: paper == "", Claim: text, Where: shownAs[as], Paper: paper}, methods, method, others, above))
	}
	if as != atMeans {
		claim("Dropout-SVM is more robust than all competitors beyond 50 % deleted", "figure 3", dropoutSVM, nightmarePaper[1:], 0.5)
		claim("Dropout-SVM beats Hinge-L2 and FDROP beyond 10 % deleted", "figure 3", dropoutSVM, []string{hingeL2, hingeFDROP}, 0.1)
		claim("Dropout-SVM beats MCF-quadratic", "figure 3: significantly", dropoutSVM, []string{mcfQuadratic}, -1)
		claim("Dropout-Logistic slightly beats MCF-logistic beyond 50 % deleted", "figure 3", dropoutLogistic, []string{mcfLogistic}, 0.5)
		claim("the hinge's expectation for normal scores beats its bound, Dropout-SVM, beyond 50 % deleted", "", hingeNormal, []string{dropoutSVM}, 0.5)
	}
	claim("Dropout-Logistic beats logistic regression without noise beyond 10 % deleted", "", dropoutLogistic, []string{logisticL2}, 0.1)
	claim("blankout's one pass beats AdaGrad's beyond 10 % deleted", "", blankoutPass, []string{adaGradPass}, 0.1)
}
