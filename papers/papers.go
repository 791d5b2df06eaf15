// Package papers reproduces, on real data, the tables and figures of the papers that blankout builds on. It reports for
// each claim of a paper whether the claim holds.
//
// An [Experiment] is a value in the table below, in its own file. Its Run method computes cells, which are units of
// results that a rerun does not compute again. It passes tables, figures and claims to its [Setting]. [Run] does the
// rest: data folders, stored cells, results.json and results.md.
package papers

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Experiment reproduces a part of a paper.
type Experiment struct {
	Name  string
	Help  string // description in one line
	Paper string // authors and year of the paper
	Part  string // tables, figures or sections of the paper
	// Needs lists the folders of the required data sets. It is empty if the data are generated.
	Needs []string
	// Takes lists the folders of optional data sets. They are used if --data has them.
	Takes []string
	Run   func(ctx context.Context, s *Setting) error
}

// experiments is the table of experiments. A new experiment needs its own file and a line here.
var experiments = []Experiment{
	mnistNightmare,
	mnistCopies,
	amazon,
	cifar,
	quadraticPenalty,
	glmPenalty,
	rareFeatures,
	text,
	imdb,
	onlineOptimizers,
	labelNoise,
	dropSVM,
	sensors,
	haphazard,
}

// All returns the experiments in the order of the table.
func All() []Experiment { return slices.Clone(experiments) }

// Find returns the experiment with the given name.
func Find(name string) (Experiment, error) {
	names := mapped(experiments, func(e Experiment) string { return e.Name })
	if i := slices.Index(names, name); i >= 0 {
		return experiments[i], nil
	}
	return Experiment{}, fmt.Errorf("unknown experiment %q: want one of %s", name, strings.Join(names, ", "))
}

// Size selects how much an experiment computes.
type Size string

// The sizes. The results list what the size default leaves out.
const (
	Quick   Size = "quick"   // seconds, on the embedded samples: shows that the code runs, but decides no claim
	Default Size = "default" // takes minutes
	Full    Size = "full"    // takes unlimited time
)
