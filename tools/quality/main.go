// Command quality compares the online learner with Vowpal Wabbit, River, LIBLINEAR and the exact solvers on the
// reference data sets. It writes the tables of docs/quality.md:
//
//	go run ./tools/quality -data DIR -vw vw -python python -liblinear liblinear-train
//
// DIR has a folder for each data set, with gzipped svmlight files (stream, or train and test) or MNIST's idx files. If
// the program of a peer is not given, the peer is left out. The flag -only selects sections: streams, deletion, speed,
// slower, solvers, sets, observed, stuck, learners, silent, forecasts. The sections silent and forecasts accept any data
// sets:
//
//	go run ./tools/quality -only silent -data DIR -sets gas_drift,mine -also "noise=dropout:0.3;expected_missing=0.7"
//
// Here DIR/mine has, for example, the file stream.csv. The section forecasts compares the errors that a learner forecasts
// with those on such events. The section learners compares two learners on the same events and masks:
//
//	go run ./tools/quality -only learners -data DIR -learners default,adagrad -sets elec2,usps -also noise=none
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
)

// comparison holds the settings that all sections share.
type comparison struct {
	data, vw, python, liblinear string
	brokers                     string  // addresses of the brokers for section speed
	scripts                     string  // directory of river_stream.py
	work                        string  // directory for files of the peers
	binary                      string  // path of blankout, set by build
	cost                        float64 // C for section solvers
	rounds                      int     // number of runs in section solvers
	silent                      silentOptions
	learnersOf                  string // names of the two learners of section learners
	w                           io.Writer
}

func main() {
	c := &comparison{w: os.Stdout}
	only := flag.String("only", "streams,deletion", "the `SECTIONS` to make")
	flag.StringVar(&c.data, "data", "", "`DIR` of the data sets")
	flag.StringVar(&c.vw, "vw", "", "Vowpal Wabbit's `COMMAND`")
	flag.StringVar(&c.python, "python", "", "a `PYTHON` that has River")
	flag.StringVar(&c.liblinear, "liblinear", "", "LIBLINEAR's train `COMMAND`; its predict must be beside it")
	flag.StringVar(&c.brokers, "brokers", "", "a Kafka broker's `HOST:PORT` for the section speed, which makes a topic there")
	flag.StringVar(&c.scripts, "scripts", "tools/quality", "`DIR` of river_stream.py")
	flag.Float64Var(&c.cost, "cost", 0.1, "`C` of the section solvers")
	flag.IntVar(&c.rounds, "rounds", 5, "`N` runs of each program in the section solvers")
	c.silent.add(flag.CommandLine)
	flag.StringVar(&c.learnersOf, "learners", "default,adagrad", "section learners: `TWO` of "+strings.Join(slices.Sorted(maps.Keys(contenders)), ", "))
	flag.Parse()
	if err := c.run(strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

func (c *comparison) run(only []string) (err error) {
	if c.data == "" && !slices.Equal(only, []string{"slower"}) { // this section generates its events
		return errors.New("name the folder of the data sets with -data")
	}
	if c.work, err = os.MkdirTemp("", "quality"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.work)) }()
	sections := []struct {
		name string
		make func() error
	}{{"streams", c.streams}, {"deletion", c.deletion}, {"speed", c.speed}, {"slower", c.slower}, {"solvers", c.solvers}, {"sets", c.sets}, {"observed", c.observed}, {"stuck", c.stuckFields}, {"silent", c.silentTables}, {"forecasts", c.forecasts}, {"learners", c.learners}}
	for _, s := range sections {
		if slices.Contains(only, s.name) {
			if err := s.make(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// build compiles blankout, the program to measure, at most once.
func (c *comparison) build() error {
	if c.binary != "" {
		return nil
	}
	c.binary = filepath.Join(c.work, "blankout")
	_, err := command("go", "build", "-o", c.binary, "./cmd/blankout")
	return err
}

// set is a data set in memory.
type set struct {
	name     string
	schema   *event.Schema
	examples []event.Example
}

// load reads a file. Classes are in ascending order.
func load(path string, maxClasses int) (*set, error) {
	c := record.DefaultConfig()
	c.MaxClasses = maxClasses
	if maxClasses > 2 {
		// Find the classes first, so that the class numbers do not depend on the order of the events.
		first, err := read(path, c)
		if err != nil {
			return nil, err
		}
		c.Classes = slices.Clone(first.schema.Classes)
		slices.Sort(c.Classes) // string order suffices: classes have one digit
	}
	return read(path, c)
}

// loadJSON reads events whose label is in the field that vw --json expects.
func loadJSON(path string) (*set, error) {
	c := record.DefaultConfig()
	c.Label, c.Classes = "_label", []string{"-1", "1"}
	return read(path, c)
}

func read(path string, c record.Config) (*set, error) {
	s := &set{name: filepath.Base(filepath.Dir(path)), schema: c.Schema()}
	f, err := stream.OpenFile(path, c, s.schema)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		var b event.Batch // a new Batch each time, because its examples are kept
		if err := f.Next(context.Background(), &b); err == io.EOF {
			return s, nil
		} else if err != nil {
			return nil, err
		}
		for _, e := range b.Examples {
			if e.Refused != nil {
				return nil, e.Refused
			}
		}
		s.examples = append(s.examples, b.Examples...)
	}
}

func (c *comparison) path(name ...string) string {
	return filepath.Join(append([]string{c.data}, name...)...)
}

// scored is the score of an event, and whether the event belongs to the positive class.
type scored struct {
	score    float64
	positive bool
}

// measures returns the fraction of errors, the mean log-loss (a score is the log-odds), and the area under the ROC
// curve.
func measures(events []scored) (p progressive) {
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	scores, positive, n := make([]float64, len(events)), make([]bool, len(events)), float64(len(events))
	for i, e := range events {
		scores[i], positive[i] = e.score, e.positive
		if (e.score > 0) != e.positive {
			p.wrong += 1 / n
		}
		y := -1.0
		if e.positive {
			y = 1
		}
		value, _, _ := loss.LogisticGaussian{}.At(y, e.score, 0)
		p.logLoss += value / n
	}
	right, wrong, _ := stat.ROC(nil, scores, positive, nil)
	p.auc = integrate.Trapezoidal(wrong, right)
	return p
}

// header writes the first two lines of a table.
func (c *comparison) header(columns ...string) {
	fmt.Fprintf(c.w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// testError returns the error of a model on a test set as a fraction. Features are deleted with probability d and the
// remaining features are rescaled. The command blankout predict --delete d --rescale uses the same masks.
func testError(m *model.Linear, s *set, d float64) float64 {
	scores := make([]float64, m.Outputs)
	corrupt := batch.Corrupter{Noise: loss.Dropout{Q: d}}
	return s.errorOf(func(i int, e *event.Example) int {
		x := m.Standardized(e, event.Vec{})
		if d > 0 {
			corrupt.Vec(x, nil, i, 0)
		}
		return model.Predict(m.ScoreVec(x, scores))
	})
}

// knownError returns the error of a model's predictions if the deleted features are declared missing.
func knownError(m *model.Linear, s *set, d float64) float64 {
	scores := make([]float64, m.Outputs)
	var left event.Example
	var dead []bool
	corrupt := batch.Corrupter{Noise: loss.Dropout{Q: d}}
	return s.errorOf(func(i int, e *event.Example) int {
		x := m.AppendZeros(e, m.Standardized(e, event.Vec{}), event.Vec{})
		dead = corrupt.Dead(x.Index, nil, i, 0, dead)
		model.LossesOf(m, 0).Lose(model.LossDeclared, e, 0, x.Index, dead, &left)
		return m.Head.Predict(m.Score(&left, scores))
	})
}

// errorOf returns the fraction of the events whose class is not the predicted one.
func (s *set) errorOf(predict func(i int, e *event.Example) int) float64 {
	wrong := 0
	for i := range s.examples {
		if predict(i, &s.examples[i]) != s.examples[i].Label {
			wrong++
		}
	}
	return float64(wrong) / float64(len(s.examples))
}

// exactModel solves the batch problem of a learner's configuration on features that the model from has standardized.
func exactModel(s *set, from *model.Linear, c batch.Config) (*batch.Fit, error) {
	examples := slices.Clone(s.examples)
	for i := range examples {
		examples[i].Features = from.Standardized(&examples[i], event.Vec{})
	}
	c.Threads = runtime.GOMAXPROCS(0)
	return batch.Train(context.Background(), dataOf(s.schema, examples), c)
}

// dataOf returns Data of events that a decoder has made.
func dataOf(schema *event.Schema, examples []event.Example) *batch.Data {
	var b batch.Builder
	for i := range examples {
		impossible(b.Add(&examples[i]))
	}
	return b.Data(schema)
}

// impossible panics if there is an error, which can only be a mistake in the program.
func impossible(err error) {
	if err != nil {
		panic(err)
	}
}

// newOnline returns a learner with a configuration of a section.
func newOnline(c online.Config, schema *event.Schema) *online.Learner {
	l, err := online.New(c, schema)
	impossible(err)
	return l
}
