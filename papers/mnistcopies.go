package papers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"blankout/internal/loss"
	"blankout/online"
)

// mnistCopies compares corrupted copies of digits, made in several ways, with the exact expectation and with passes of
// the online learner. It deletes pixels in the same ways as mnist-nightmare, but uses fewer images.
var mnistCopies = Experiment{
	Name:  "mnist-copies",
	Help:  "digits with pixels deleted at test time: the closed forms against corrupted copies, and one pass of each",
	Paper: "Our own",
	Part:  "not from a paper",
	Needs: []string{"mnist"},
	Run:   runMNISTCopies,
}

// The methods that only this experiment has.
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
	pass := func(method string, change func(o *online.Config, level float64)) {
		for _, level := range levels {
			all = append(all, onePass(method, fmt.Sprintf("q = %g", level), func(o *online.Config) { change(o, level) }))
		}
	}
	untouched := func(*online.Config) {}
	all = append(all, onePass(untouchedPass, "", untouched))
	pass(expectedPass, func(o *online.Config, level float64) { o.ExpectedMissing = level })
	pass(dropoutPass, func(o *online.Config, level float64) { o.Noise = dropout(level).String() })
	pass(silentPass, func(o *online.Config, level float64) { o.SilentMissing = level })
	pass(cleanPass, func(o *online.Config, level float64) {
		o.Noise, o.Optimizer, o.NoisyGradient = dropout(level).String(), "dropout-descent", "false"
	})
	onCopies := onePass(copiesPass, "", untouched)
	onCopies.copies = mixed(true)(0)
	all = append(all, onCopies)
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
	s.Note("%d training images, the next %d choose the settings of each fraction deleted, %d test images. Every method sees the same dead pixels. Verdicts are Student's test of the differences by image, in the mean over the fractions above 10 %%.", c.Train, c.Validation, c.Test)
	s.Note("Survivors stay as they are if nobody declares what died. Dividing them requires the number of dead pixels, means require to know which.")
	s.Note("%d copies of each image. Divided: survivors divided by the fraction left; as it happens: survivors as they are. One rate is chosen for each fraction deleted; mixed rates (%s) include the image itself. The pass on images and copies takes copies as it happens at mixed rates, in random order, at every default: %d times the work.",
		contenders[slices.IndexFunc(contenders, func(x contender) bool { return x.copies != nil })].copies.copies, strings.Trim(fmt.Sprint(mixedRates), "[]"), 1+contenders[len(contenders)-1].copies.copies)
	return nil
}

// copiesClaims reports which method is better, averaged over the deleted fractions above 10 %.
func (s *Setting) copiesClaims(c nightmareConfig, as int, methods []tuned) {
	claim := func(text, method string, others ...string) {
		s.Claim(c.claim(Claim{Own: true, Claim: text, Where: shownAs[as]}, methods, method, others, 0.1))
	}
	claim("the closed form of dropout beats corrupted copies of every kind", closedDropout, allCopies...)
	claim("the closed form of silent noise beats corrupted copies of every kind", closedSilent, allCopies...)
	claim("the closed form of silent noise beats the default on images and copies", closedSilent, copiesPass)
	claim("one pass of dropout beats the default, also on images and copies", dropoutPass, untouchedPass, copiesPass)
	claim("one pass of dropout beats corrupted copies of every kind in batch", dropoutPass, allCopies...)
	claim("one pass with `expected_missing` beats the default, also on images and copies", expectedPass, untouchedPass, copiesPass)
	claim("one pass with `silent_missing` beats the default, also on images and copies", silentPass, untouchedPass, copiesPass)
	claim("the clean gradient beats the default", cleanPass, untouchedPass)
}
