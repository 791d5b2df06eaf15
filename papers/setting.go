package papers

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"blankout/batch"
	"blankout/batch/estimators"
	"blankout/internal/event"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
)

// samples has a folder for each data set. Each file in the folder has the name of a file of the full data set, and
// contains a few of that file's examples.

//go:embed samples
var samples embed.FS

// Options configure how Run runs an experiment.
type Options struct {
	Size Size
	// Data is the folder with a subfolder for each data set. If it is "", or if Size is quick, the embedded samples are
	// used.
	Data string
	// Out is the folder for the results.
	Out     string
	Seed    uint64
	Threads int // 0 means one for each processor; no result depends on the number
	// VW is the program Vowpal Wabbit, for experiments that compare with it. "" omits it.
	VW string
	// Progress is called after each cell and every second. The calls come from several goroutines, but are never
	// concurrent. Progress may be nil.
	Progress func(Status)
}

// Status is the progress of an experiment.
type Status struct {
	Experiment  string
	Done, Known int // numbers of cells; Known grows while the experiment runs
	Reused      int // number of Done cells that come from an earlier run
	Doing       string
}

// Setting provides an experiment with its data, threads and store of cells, and collects its results. Its methods are
// safe for concurrent use, except for the methods that report results.
type Setting struct {
	Size    Size
	Seed    uint64
	Threads int
	VW      string // see Options

	experiment Experiment
	samples    bool   // whether the data are the embedded samples
	dir        string // folder of the data
	data       string // fingerprint of the folders that the experiment needs
	cells      *cells
	result     Result
	figures    []figure

	mu     sync.Mutex
	status Status
	report func(Status)
}

// Run runs an experiment and writes its results to o.Out: results.json, results.md, the figures and cells.jsonl. A
// later run of the same experiment continues from cells.jsonl. If ctx ends, Run returns ctx's error and keeps the
// cells.
func Run(ctx context.Context, e Experiment, o Options) (_ *Result, err error) {
	s := &Setting{Size: o.Size, Seed: o.Seed, Threads: o.Threads, VW: o.VW, experiment: e, dir: o.Data, report: o.Progress}
	if s.Threads < 1 {
		s.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Out == "" {
		return nil, errors.New("name a folder for the results")
	}
	if s.samples = len(e.Needs) > 0 && (o.Data == "" || o.Size == Quick); s.samples {
		if s.dir, err = os.MkdirTemp("", "blankout-samples"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
		if err := s.unpack(e.Needs); err != nil {
			return nil, err
		}
	}
	if s.data, err = s.fingerprint(e.Needs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o777); err != nil {
		return nil, err
	}
	if s.cells, err = openCells(filepath.Join(o.Out, "cells.jsonl")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cells.close()) }()
	s.status.Experiment = e.Name
	s.result = Result{Experiment: e.Name, Paper: e.Paper + ", " + e.Part, Size: s.Size, Samples: s.samples, Seed: s.Seed, Protocol: protocol}
	s.result.Command = "go run ./cmd/papers " + e.Name
	if !s.samples && len(e.Needs) > 0 {
		s.result.Command += " --data DIR"
	}
	if s.Size != Default {
		s.result.Command += " --" + string(s.Size)
	}
	if o.VW != "" {
		s.result.Command += " --vw VW"
	}
	s.result.Command += fmt.Sprintf(" --seed %d -o OUT", s.Seed)
	if err := s.watched(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	s.result.Seconds = math.Round(1000*s.cells.seconds) / 1000 // rounding removes the effect of the order of additions
	if err := s.write(o.Out); err != nil {
		return nil, err
	}
	return &s.result, nil
}

// watched runs the experiment and reports its progress every second.
func (s *Setting) watched(ctx context.Context) error {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.update(func(*Status) {})
			}
		}
	})
	defer watch.Wait()
	defer close(done)
	return s.experiment.Run(ctx, s)
}

// update applies a change to the progress and reports the progress.
func (s *Setting) update(change func(p *Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
	if s.report != nil {
		s.report(s.status)
	}
}

// unpack writes the embedded samples in the given folders to files.
func (s *Setting) unpack(folders []string) error {
	for _, folder := range folders {
		files, err := fs.Sub(samples, "samples/"+folder)
		if err == nil {
			err = os.CopyFS(filepath.Join(s.dir, folder), files)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no embedded sample of %s: name the folder of the data sets with --data", folder)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// taken returns the fingerprint of an optional folder (see Experiment.Takes), which must contain the given files. If
// the folder does not exist, it returns "".
func (s *Setting) taken(folder string, files ...string) (string, error) {
	if _, err := os.Stat(s.Path(folder, "")); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, file := range files {
		if _, err := os.Stat(s.Path(folder, file)); err != nil {
			return "", fmt.Errorf("%s: folder %s has no %s: experiment %s takes the set if it has %s", s.dir, folder, file, s.experiment.Name, strings.Join(files, ", "))
		}
	}
	return s.fingerprint([]string{folder})
}

// fingerprint returns a hash of the names and sizes of the files in folders of data sets.
// It returns an error if a folder is missing.
func (s *Setting) fingerprint(folders []string) (string, error) {
	h := fnv.New64a()
	for _, folder := range folders {
		files, err := os.ReadDir(filepath.Join(s.dir, folder))
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: there is no folder %s, which experiment %s needs (go run ./tools/fetch-data gets the public sets)", s.dir, folder, s.experiment.Name)
		} else if err != nil {
			return "", err
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, folder, f.Name(), info.Size())
		}
	}
	return fmt.Sprintf("%016x", h.Sum64()), nil
}

// Decisive reports whether the results can decide a claim. Results on the embedded samples or of the size quick cannot
// decide a claim.
func (s *Setting) Decisive() bool { return !s.samples && s.Size != Quick }

// Pick returns the argument for the size of the Setting.
func Pick[T any](s *Setting, quick, standard, full T) T {
	switch s.Size {
	case Quick:
		return quick
	case Full:
		return full
	}
	return standard
}

// Path returns the path of a file of a data set.
func (s *Setting) Path(folder, file string) string { return filepath.Join(s.dir, folder, file) }

// Binary returns the Schema of sets with the labels -1 and 1.
func Binary() *event.Schema { return Classes("-1", "1") }

// digits returns the Schema of sets with the labels 0 to 9.
func digits() *event.Schema { return Classes(strings.Fields("0 1 2 3 4 5 6 7 8 9")...) }

// isNine returns the class of a digit, 1 for the digit 9, else 0.
func isNine(digit int) int { return max(digit-8, 0) }

// Classes returns a Schema with the given classes.
func Classes(names ...string) *event.Schema {
	c := record.DefaultConfig()
	c.Classes, c.MaxNames = names, 0
	return c.Schema()
}

// EachExample calls f for every example of a file. The example is valid during the call only. A label that is not a class
// of the Schema is an error. If unlabeled is set, labels are ignored.
func (s *Setting) EachExample(ctx context.Context, schema *event.Schema, folder, file string, unlabeled bool, f func(e *event.Example)) (err error) {
	c := record.DefaultConfig()
	c.Classes, c.MaxClasses, c.Unlabeled = schema.Classes, schema.MaxClasses, unlabeled
	path := s.Path(folder, file)
	src, err := stream.OpenFile(path, c, schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	s.Say("reading %s/%s", folder, file)
	var b event.Batch
	for {
		if err := src.Next(ctx, &b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for j := range b.Examples {
			e := &b.Examples[j]
			if e.Refused != nil {
				return fmt.Errorf("%s:%d: %w", path, e.Offset+1, e.Refused)
			}
			f(e)
		}
	}
}

// trainConfig returns the default settings of batch.Train with all available losses.
func trainConfig() batch.Config {
	c := batch.DefaultConfig()
	c.Estimators = estimators.All()
	return c
}

// examples returns copies of the examples of files of a folder. The function change, which may be nil, changes each
// example before it is copied.
func (s *Setting) examples(ctx context.Context, schema *event.Schema, folder string, change func(e *event.Example), files ...string) (all []event.Example, err error) {
	for _, file := range files {
		if err := s.EachExample(ctx, schema, folder, file, false, func(e *event.Example) {
			if change != nil {
				change(e)
			}
			all = append(all, event.Example{Features: e.Features.Clone(), Field: slices.Clone(e.Field), Label: e.Label, Weight: e.Weight})
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dataOf returns Data of examples that a decoder or a generator has made.
func dataOf(schema *event.Schema, examples []event.Example) *batch.Data {
	var b batch.Builder
	for i := range examples {
		add(&b, &examples[i])
	}
	return b.Data(schema)
}

// add adds an example that a decoder or a generator has made, so that values are finite and columns ascend.
func add(b *batch.Builder, e *event.Example) { impossible(b.Add(e)) }

// impossible panics if there is an error, which can only be a mistake in the program, such as a wrong constant.
func impossible(err error) {
	if err != nil {
		panic(err)
	}
}

// newLearner returns a learner with a configuration of an experiment.
func newLearner(c online.Config, schema *event.Schema) *online.Learner {
	l, err := online.New(c, schema)
	impossible(err)
	return l
}

// firstExamples returns copies of the first n examples of a file.
func (s *Setting) firstExamples(ctx context.Context, schema *event.Schema, folder, file string, n int) ([]event.Example, error) {
	all, err := s.examples(ctx, schema, folder, nil, file)
	if err == nil && len(all) < n {
		err = fmt.Errorf("%s/%s has %d examples, want %d", folder, file, len(all), n)
	}
	return all[:min(n, len(all))], err
}

// Say reports the current activity.
func (s *Setting) Say(format string, args ...any) {
	s.update(func(p *Status) { p.Doing = fmt.Sprintf(format, args...) })
}

// Expect announces n more cells, for the progress report.
func (s *Setting) Expect(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Known += n
}

// Cell returns the value of a cell, either from an earlier run or by calling compute and storing the result. The key
// must include everything that determines the value. The data and the seed are added automatically. The value must not
// depend on the name of the size. Key and value are stored as JSON, so they must not contain infinities or NaN.
func Cell[T any](ctx context.Context, s *Setting, key any, compute func() (T, error)) (T, error) {
	var value T
	if err := ctx.Err(); err != nil {
		return value, err
	}
	full, err := s.fullKey(key)
	if err != nil {
		return value, err
	}
	found, err := s.cells.find(full, &value)
	if err == nil && !found {
		err = s.cells.compute(full, func() (_ any, err error) {
			value, err = compute()
			return value, err
		})
	}
	if err == nil {
		s.update(func(p *Status) {
			p.Done++
			p.Known = max(p.Known, p.Done)
			if found {
				p.Reused++
			}
		})
	}
	return value, err
}

// Cells returns the values of n cells, which it computes in parallel. The function cell returns the key of the i-th cell
// and the function that computes its value, see Cell.
func Cells[T any](ctx context.Context, s *Setting, n int, cell func(ctx context.Context, i int) (key any, compute func() (T, error))) ([]T, error) {
	s.Expect(n)
	values := make([]T, n)
	return values, s.Parallel(ctx, n, func(ctx context.Context, i int) (err error) {
		key, compute := cell(ctx, i)
		values[i], err = Cell(ctx, s, key, compute)
		return err
	})
}

// fullKey returns the key under which a cell is stored, as JSON.
func (s *Setting) fullKey(key any) (json.RawMessage, error) {
	full, err := json.Marshal(cellKey{s.experiment.Name, s.data, s.Seed, key})
	if err != nil {
		return nil, fmt.Errorf("key of a cell: %w", err)
	}
	return full, nil
}

// Parallel calls f(0), …, f(n-1) on the threads of the Setting. After an error it starts no more calls. It returns the
// error of the call with the lowest index.
func (s *Setting) Parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	return batch.Each(ctx, s.Threads, n, func(ctx context.Context, i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return f(ctx, i)
	})
}
