// Package papers regenerates the tables and figures of the papers that
// blankout builds on, on real data, and says claim by claim whether they hold.
//
// An [Experiment] is a value in the table below and a file of its own. Its Run
// computes cells, the units that a rerun does not compute again, and hands
// tables, figures and claims to its [Setting]; [Run] does the rest: the folders
// of data, what was computed before, results.json and results.md.
package papers

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Experiment regenerates a part of a paper.
type Experiment struct {
	Name  string
	Help  string // one line
	Paper string // authors and year
	Part  string // tables, figures or sections of the paper
	// Needs lists the folders of the data sets. None means that the data are made.
	Needs []string
	// Takes lists the folders of more data sets, which it uses if --data has them.
	Takes []string
	Run   func(ctx context.Context, s *Setting) error
}

// experiments is the table of experiments; a new one is a file and a line here.
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
	onlineRules,
	labelNoise,
	dropSVM,
	sensors,
}

// All returns the experiments in the order of the list.
func All() []Experiment { return slices.Clone(experiments) }

// Find returns the experiment of a name.
func Find(name string) (Experiment, error) {
	var names []string
	for _, e := range experiments {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Experiment{}, fmt.Errorf("unknown experiment %q: want one of %s", name, strings.Join(names, ", "))
}

// Size says how much an experiment computes.
type Size string

// The sizes. The results say what the default leaves out of the full one.
const (
	Quick   Size = "quick"   // seconds, on the embedded samples: shows that it runs, decides nothing
	Default Size = "default" // minutes
	Full    Size = "full"    // no limit
)
