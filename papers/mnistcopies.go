package papers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"blankout/internal/loss"
	"blankout/online"
)

// Corrupted copies of digits, made in several ways, against the expectation and against passes of the
// learner: the nightmares of mnist-nightmare with fewer images.
var mnistCopies = Experiment{
	Name:  "mnist-copies",
	Help:  "digits with pixels deleted at test time: the closed forms against corrupted copies, and one pass of each",
	Paper: "Our own",
	Part:  "not from a paper",
	Needs: []string{"mnist"},
	Run:   runMNISTCopies,
}

// Methods that this experiment alone has.
const (
	closedSilent  = "closed form of silent noise"
	closedDropout = "closed form of dropout"
	dropoutPass   = "one pass, dropout"
	untouchedPass = "one pass, untouched default"
	copiesPass    = "one pass, untouched default on the images and copies, shuffled"
	cleanPass     = "one pass, clean gradient"
	expectedPass  = "one pass, expected_missing"
	silentPass    = "one pass, silent_missing"
	plainLogistic = "logistic regression, no noise"
)

func mnistCopiesContenders(s *Setting, c *nightmareConfig) []contender {
	costs := Pick(s, []float64{0.1}, []float64{0.01, 0.1, 1}, []float64{0.001, 0.01, 0.1, 1, 10})
	levels := Pick(s, []float64{0.5}, []float64{0.3, 0.5, 0.7, 0.9}, []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9})
	copies := Pick(s, 2, 3, 10)
	var all []contender
	exact := func(method string, noise func(q float64) loss.Noise, copied func(level float64) *corruption) {
		for _, cost := range costs {
			tried := levels
			if noise == nil {
				tried = []float64{0}
			}
			for _, level := range tried {
				b := trainConfig()
				b.Tol, b.MaxIterations, b.Threads, b.Cost = c.Tol, c.Iterations, 1, cost
				x := contender{method: method, setting: fmt.Sprintf("c = %g", cost), batch: &b}
				if level > 0 {
					x.setting += fmt.Sprintf(", q = %g", level)
				}
				if copied != nil {
					x.copies = copied(level)
				} else if level > 0 {
					b.Noise = noise(level).String()
				}
				all = append(all, x)
			}
		}
	}
	oneRate := func(keep bool) func(level float64) *corruption {
		return func(level float64) *corruption {
			return &corruption{noise: dropout, rates: []float64{level}, copies: copies, keep: keep, seed: s.Seed}
		}
	}
	mixed := func(keep bool) func(level float64) *corruption {
		return func(float64) *corruption {
			return &corruption{noise: dropout, rates: mixedRates, copies: copies, whole: true, keep: keep, seed: s.Seed}
		}
	}
	exact(plainLogistic, nil, nil)
	exact(closedDropout, dropout, nil)
	exact(closedSilent, silent, nil)
	exact(dividedCopies, dropout, oneRate(false))
	exact(keptCopies, dropout, oneRate(true))
	exact(mixedDividedCopies, nil, mixed(false))
	exact(mixedKeptCopies, nil, mixed(true))
	pass := func(method, setting string, copied *corruption, change func(o *online.Config)) {
		o := online.DefaultConfig()
		o.Standardize = "none" // a dead pixel is 0 before it, as in the copies
		if change != nil {
			change(&o)
		}
		all = append(all, contender{method: method, setting: setting, online: &o, copies: copied})
	}
	pass(untouchedPass, "", nil, nil)
	for _, x := range []struct {
		method string
		change func(o *online.Config, level float64)
	}{
		{expectedPass, func(o *online.Config, level float64) { o.ExpectedMissing = level }},
		{dropoutPass, func(o *online.Config, level float64) { o.Noise = dropout(level).String() }},
		{silentPass, func(o *online.Config, level float64) { o.SilentMissing = level }},
		{cleanPass, func(o *online.Config, level float64) {
			o.Noise, o.Optimizer, o.NoisyGradient = dropout(level).String(), "dropout-descent", "false"
		}},
	} {
		for _, level := range levels {
			pass(x.method, fmt.Sprintf("q = %g", level), nil, func(o *online.Config) { x.change(o, level) })
		}
	}
	pass(copiesPass, "", mixed(true)(0), nil)
	c.note(all)
	return all
}

func runMNISTCopies(ctx context.Context, s *Setting) error {
	c := nightmareConfig{
		Train: Pick(s, 120, 8_000, 50_000), Validation: Pick(s, 100, 2_000, 10_000), Test: Pick(s, 100, 5_000, 10_000),
		Levels: Pick(s, []float64{0, 0.5, 0.8}, []float64{0, 0.3, 0.5, 0.7, 0.8, 0.9}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}),
		Tol:    Pick(s, 1e-1, 1e-2, 1e-3), Iterations: Pick(s, 10, 60, 0),
	}
	contenders := mnistCopiesContenders(s, &c)
	cells, err := s.nightmareCells(ctx, c, contenders)
	if err != nil {
		return err
	}
	for as := range shownAs {
		methods := tune(c, as, contenders, cells)
		s.reportNightmare(c, as, methods)
		s.copiesClaims(c, as, methods)
	}
	s.Note("The first %d training images are learned from, the next %d choose the setting of each share, %d test images measure. Which pixels die is drawn once for each test image and share, the same for every method; verdicts are of Student's test of the differences by image, over the shares above 10 %%.", c.Train, c.Validation, c.Test)
	s.Note("Survivors as they are is what happens if nobody says which pixels died. Dividing the survivors needs to know how many died, putting dead pixels at their means which.")
	s.Note("Copies are %d of each image: divided, the survivors divided by the share left, or as it happens, the survivors as they are; at one rate, chosen for each share as the level of the noise is, or at mixed rates (%s) beside the image itself, with no rate to choose. The pass on the images and copies learns the images and their copies as it happens at mixed rates, in random order, with every key at its default: %d times the work. No method standardizes the pixels, whose values are 0 to 1.",
		contenders[slices.IndexFunc(contenders, func(x contender) bool { return x.copies != nil })].copies.copies, strings.Trim(fmt.Sprint(mixedRates), "[]"), 1+contenders[len(contenders)-1].copies.copies)
	return nil
}

// copiesClaims concludes who does better where, in the mean over the shares above 10 %.
func (s *Setting) copiesClaims(c nightmareConfig, as int, methods []tuned) {
	by := func(method string) tuned {
		return methods[slices.IndexFunc(methods, func(m tuned) bool { return m.method == method })]
	}
	claim := func(text, method string, others ...string) {
		var parts []Part
		for _, name := range others {
			parts = append(parts, below("less "+name, c.less(by(method), by(name), 0.1), 0))
		}
		s.Claim(Claim{Own: true, Claim: text + "; " + shownAs[as], Parts: parts, Unit: "points", Why: "at least one of these does better"})
	}
	claim("the closed form of dropout does better than corrupted copies, however they are made", closedDropout, allCopies...)
	claim("the closed form of silent noise does better than corrupted copies, however they are made", closedSilent, allCopies...)
	claim("the closed form of silent noise does better than one untouched pass on four times the data", closedSilent, copiesPass)
	claim("one pass of dropout does better than one untouched pass, also on four times the data", dropoutPass, untouchedPass, copiesPass)
	claim("one pass of dropout does better than corrupted copies in batch, however they are made", dropoutPass, allCopies...)
	claim("one pass with expected_missing does better than one untouched pass, also on four times the data", expectedPass, untouchedPass, copiesPass)
	claim("one pass with silent_missing does better than one untouched pass, also on four times the data", silentPass, untouchedPass, copiesPass)
	claim("the clean gradient does better than one untouched pass", cleanPass, untouchedPass)
}
