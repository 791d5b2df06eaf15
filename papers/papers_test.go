package papers

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

func TestMain(m *testing.M) {
	longtest.CollectRarely()
	m.Run()
}

// TestAll runs every experiment on the embedded samples, and a third of them twice. The second run must compute no cell
// and write the same files.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	for i, e := range All() {
		t.Run(e.Name, func(t *testing.T) {
			if slices.Contains([]string{"label-noise", "mnist-nightmare", "online"}, e.Name) {
				longtest.NotRaced(t) // these take longest; other experiments also run cells concurrently
			}
			out := filepath.Join(dir, e.Name)
			begin := time.Now()
			r := must.Get(Run(t.Context(), e, Options{Size: Quick, Out: out, Seed: 1}))(t)
			t.Logf("%.1f s", time.Since(begin).Seconds())
			must.True(t, len(r.Claims) != 0 && len(r.Tables) != 0 && len(r.Figures) != 0 && r.Configuration != nil,
				"%d claims, %d tables, %d figures, configuration %v", len(r.Claims), len(r.Tables), len(r.Figures), r.Configuration)
			for _, c := range r.Claims {
				must.True(t, c.Verdict == NotDecided && c.Why != "" && c.Claim != "", "the size quick decides a claim: %+v", c)
			}
			for _, table := range r.Tables {
				for _, row := range table.Rows {
					must.Require(t, len(row) == len(table.Columns), "table %q: a row of %d in %d columns: %v", table.Title, len(row), len(table.Columns), row)
				}
			}
			if !longtest.Some(i, 3) {
				return
			}
			before := files(t, out)
			again := Options{Size: Quick, Out: out, Seed: 1, Threads: 1, Progress: func(p Status) {
				must.True(t, p.Done == p.Reused, "cell %d of %d has been computed again", p.Done, p.Known)
			}}
			must.Get(Run(t.Context(), e, again))(t)
			for name, data := range files(t, out) {
				must.True(t, bytes.Equal(data, before[name]), "%s is another one after the second run", name)
			}
		})
	}
	if longtest.Race {
		return // some experiments were skipped
	}
	must.Do(t, Index(dir))
	index := must.Get(os.ReadFile(filepath.Join(dir, "README.md")))(t)
	own := must.Get(os.ReadFile(filepath.Join(dir, ownClaims)))(t)
	for _, e := range All() {
		must.True(t, strings.Contains(string(index)+string(own), "("+e.Name+"/results.md)"), "the index does not know %s", e.Name)
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	all := map[string][]byte{}
	for _, e := range entries {
		data := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		all[e.Name()] = data
	}
	return all
}

// counting returns an experiment of three cells. It fails at cell failAt.
func counting(computed *[]int, failAt int) Experiment {
	return Experiment{Name: "counting", Run: func(ctx context.Context, s *Setting) error {
		for i := range 3 {
			v, err := Cell(ctx, s, map[string]int{"n": i}, func() (int, error) {
				if i == failAt {
					return 0, errors.New("told to")
				}
				*computed = append(*computed, i)
				return 10 * i, nil
			})
			if err != nil {
				return err
			}
			if v != 10*i {
				return errors.New("another value")
			}
		}
		s.Configure(3)
		return nil
	}}
}

// TestResume checks that a run continues from the complete cells after a failure, and after it is killed in the middle
// of a line. A run with another seed must have other cells.
func TestResume(t *testing.T) {
	out := t.TempDir()
	var computed []int
	run := func(failAt int, seed uint64) error {
		computed = nil
		_, err := Run(t.Context(), counting(&computed, failAt), Options{Size: Default, Out: out, Seed: seed})
		return err
	}
	err := run(2, 1)
	must.Require(t, err != nil && strings.Contains(err.Error(), "counting: told to"), "error %v", err)
	err = run(-1, 1)
	must.Require(t, err == nil && len(computed) == 1 && computed[0] == 2, "after a failure: computed %v, %v", computed, err)
	name := filepath.Join(out, "cells.jsonl")
	data := must.Get(os.ReadFile(name))(t)
	must.Do(t, os.WriteFile(name, data[:len(data)-7], 0o666))
	err = run(-1, 1)
	must.Require(t, err == nil && len(computed) == 1 && computed[0] == 2, "after a kill: computed %v, %v", computed, err)
	err = run(-1, 2)
	must.Require(t, err == nil && len(computed) == 3, "with another seed: computed %v, %v", computed, err)
	must.Do(t, os.WriteFile(name, []byte("{}\nnonsense\n"), 0o666))
	err = run(-1, 1)
	must.Require(t, err != nil && strings.Contains(err.Error(), "cells.jsonl:2:"), "damaged cells: error %v", err)
}

// TestCancel checks that a canceled run reports the cancellation, and that its cells are stored.
func TestCancel(t *testing.T) {
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	e := Experiment{Name: "stopped", Run: func(ctx context.Context, s *Setting) error {
		return s.Parallel(ctx, 100, func(ctx context.Context, i int) error {
			_, err := Cell(ctx, s, i, func() (int, error) {
				if i == 5 {
					cancel()
				}
				if i > 5 { // so that the other thread computes no further cells
					<-ctx.Done()
				}
				return i, nil
			})
			return err
		})
	}}
	_, err := Run(ctx, e, Options{Size: Default, Out: out, Threads: 2})
	must.Require(t, errors.Is(err, context.Canceled), "error %v", err)
	data, err := os.ReadFile(filepath.Join(out, "cells.jsonl"))
	n := bytes.Count(data, []byte("\n"))
	must.True(t, err == nil && n >= 5 && n <= 8, "%d cells, %v", n, err)
	must.Fails(t, must.Err(os.Stat(filepath.Join(out, "results.json"))), "there are results")
}

// TestDecisive checks that claims are decided only by complete data sets.
func TestDecisive(t *testing.T) {
	out := t.TempDir()
	e := Experiment{Name: "claiming", Run: func(_ context.Context, s *Setting) error {
		s.Claim(Claim{Claim: "one and one are two", Verdict: Holds(true), Why: "never"})
		s.Claim(Claim{Claim: "one and one are three", Verdict: Holds(false), Why: "they are two"})
		s.Claim(Claim{Claim: "it rains more", Parts: []Part{above("here", Difference{1, 0.5, 1.5}, 0).against(2, 0.1)}})
		s.Claim(Claim{Claim: "it snows less", Verdict: NotComparable, Why: "another place", Parts: []Part{above("here", Difference{1, 0.5, 1.5}, 0).against(2, 0.1)}})
		s.Table(ResultTable{Title: "sums", Columns: []string{"of", "is"}, Rows: [][]any{{"1+1", 2.0}, {"0/0", nil}}, Digits: 1})
		s.Table(ResultTable{Title: "hidden", Columns: []string{"n"}, Rows: [][]any{{1}}, Detail: true})
		return nil
	}}
	for size, want := range map[Size]Verdict{Quick: NotDecided, Default: Reproduced, Full: Reproduced} {
		r, err := Run(t.Context(), e, Options{Size: size, Out: out})
		must.True(t, err == nil && r.Claims[0].Verdict == want, "%s: %+v, %v", size, r, err)
		if c := r.Claims[3]; size != Quick && (c.Verdict != NotComparable || c.Why != "another place" || c.Printed != Printed{}) || size == Quick && c.Verdict != NotDecided {
			t.Errorf("%s: %+v, of an experiment that is not the paper's", size, c)
		}
		why := [2]string{r.Claims[0].Why, r.Claims[1].Why}
		must.True(t, size == Quick || why == [2]string{"", "they are two"}, "%s: why %q", size, why)
		data, err := os.ReadFile(filepath.Join(out, "results.json"))
		var back Result
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		must.True(t, err == nil && reflect.DeepEqual(back.Claims, r.Claims), "results.json: %+v, %v", back, err)
		text := r.Markdown()
		must.True(t, strings.Contains(text, "| 1+1 | 2.0 |\n| 0/0 | |\n") && !strings.Contains(text, "hidden"), "results.md:\n%s", text)
		text = r.Lines()
		must.True(t, strings.HasPrefix(text, string(want)+": "+r.Claims[0].Claim) && strings.Count(text, "\n") == len(r.Claims), "lines:\n%s", text)
	}
}

func TestMissingFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(t.Context(), quadraticPenalty, Options{Size: Default, Data: dir, Out: t.TempDir()})
	must.True(t, err != nil && strings.Contains(err.Error(), dir+": there is no folder news_athr, which experiment quadratic-penalty needs"), "error %v", err)
}

// TestLeast checks that Least returns the setting with the lowest loss. Equal losses are decided by the lower tie, then
// by the order. NaN must never win against a number.
func TestLeast(t *testing.T) {
	settings := []Held{{math.NaN(), 0}, {3, 1}, {2, 5}, {2, 4}, {2, 4}, {9, 0}}
	of := func(i int) Held { return settings[i] }
	must.Equal(t, Least(len(settings), nil, of), 3, "is the least")
	must.Equal(t, Least(len(settings), func(i int) bool { return i == 5 }, of), 5, "is the least of those wanted")
	must.Equal(t, Least(len(settings), func(i int) bool { return false }, of), -1, "of none")
}

// TestPoints checks the names, settings and order of the points of a grid. The last axis must vary fastest.
func TestPoints(t *testing.T) {
	m := Method{Name: "x", Config: batch.DefaultConfig(), Grid: []Axis{{"c", []string{"1", "10"}}, {"q", []string{"0.3", "0.5"}}}}
	points := m.Points()
	must.Require(t, len(points) == 4, "%d points", len(points))
	for i, want := range []string{"c = 1, q = 0.3", "c = 1, q = 0.5", "c = 10, q = 0.3", "c = 10, q = 0.5"} {
		p := points[i]
		must.True(t, p.Name == want && fmt.Sprintf("c = %g, q = %s", p.Settings.Cost, strings.TrimPrefix(p.Settings.Noise, "dropout:")) == want, "%+v, want %s", p, want)
	}
	for _, axis := range []Axis{{"c", []string{"-1"}}, {"c", []string{"x"}}, {"colour", []string{"1"}}} {
		m.Grid = []Axis{axis}
		func() {
			defer func() { must.True(t, recover() != nil, "%v is accepted", axis) }()
			m.Points()
		}()
	}
}

// TestSelectMachine checks that the best kernel machine separates two rings, that a chain gives the results of separate
// training, and that the number of threads does not matter.
func TestSelectMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var b batch.Builder
	for i := range 120 { // two concentric rings
		angle, radius := 2*math.Pi*r.Float64(), float64(1+i%2)+0.2*r.NormFloat64()
		e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{radius * math.Cos(angle), radius * math.Sin(angle)}}}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"-1", "1"}, 2))
	axes := []Axis{{"keep", []string{"0.5", "0.9"}}, {"drop-q", []string{"0", "auto", "0.3"}}, {"epochs", []string{"2", "inf"}}, {"c", []string{"0.1", "10"}}}
	m := machine{Config: batch.DefaultConfig(), Kernel: svm.DefaultConfig()}
	m.Kernel.Kernel = "rbf:0.5"
	m.Kernel.Kept = &svm.Matrices{}
	all := must.Get(selectMachine(t.Context(), d, d, m, axes, 1))(t)
	again := must.Get(selectMachine(t.Context(), d, d, m, axes, 3))(t)
	must.Require(t, len(all) == 24 && all[1].name == "keep = 0.5, drop-q = 0, epochs = 2, c = 10", "%d machines, the second %s", len(all), all[1].name)
	for i, x := range all {
		alone := x.Kernel
		alone.Kept = nil
		fit := must.Get(svm.Train(t.Context(), d, x.Config, alone))(t)
		want := 100 * fit.TrainError(d)
		must.True(t, math.Abs(x.Loss-want) <= 1e-9 && again[i].Held == x.Held, "%s: error %v, alone %v; with three threads %v", x.name, x.Held, want, again[i].Held)
	}
	best := all[Least(len(all), nil, func(i int) Held { return all[i].Held })]
	must.True(t, best.Loss <= 5, "the best, %s, has an error of %v %%", best.name, best.Loss)
}

// TestTwentyLines compares the comparator and all measures with the numbers that a NumPy program of twenty lines prints
// for the embedded samples.
func TestTwentyLines(t *testing.T) {
	method := haphazardMethods("")[2]
	must.Require(t, method.name == twentyName, "method %q", method.name)
	for _, c := range []struct {
		set     string
		percent int
		want    string
	}{
		{"german", 25, "BA 58.73 62.38  errors 48  AUC 59.41  nats 0.6399"},
		{"german", 50, "BA 60.32 59.68  errors 50  AUC 67.62  nats 0.6065"},
		{"german", 75, "BA 58.57 63.33  errors 55  AUC 66.29  nats 0.6395"},
		{"wdbc", 25, "BA 80.76 79.00  errors 23  AUC 87.75  nats 0.4270"},
		{"wdbc", 50, "BA 91.60 89.84  errors 10  AUC 97.24  nats 0.2203"},
		{"wdbc", 75, "BA 94.04 88.75  errors 7  AUC 98.35  nats 0.1707"},
	} {
		set := must.Get(readHaphazard("samples/haphazard/" + c.set + ".csv.gz"))(t)
		x := must.Get(readMasks(fmt.Sprintf("samples/haphazard/%s.p%d.gz", c.set, c.percent), set))(t)
		r := must.Get(method.result(t.Context(), x))(t)
		got := fmt.Sprintf("BA %.2f %.2f  errors %d  AUC %.2f  nats %.4f", r.Accuracy, r.AtRate, r.Wrong, r.AUC, r.LogLoss)
		must.True(t, got == c.want && r.All.Mean == 0, "%s .%d: %s, want %s; %v", c.set, c.percent, got, c.want, r.All)
	}
}

// TestHaphazardPublished checks the published numbers: 13 sets at three probabilities, nine methods.
func TestHaphazardPublished(t *testing.T) {
	methods, cells := must.Get2(readPublished())(t)
	must.Require(t, len(methods) == 9 && len(cells) == 39, "%d methods, %d cells", len(methods), len(cells))
	for _, c := range cells {
		must.True(t, c.Set != "german" || c.Percent != 50 || methods[c.best()] == "OVFM" && c.Accuracy[c.best()] == 57.09,
			"german .50: best %s with %v", methods[c.best()], c.Accuracy[c.best()])
	}
}

// TestAuxDropMasks checks the protocols of Aux-Drop: the values that are present, and that a value keeps its label.
func TestAuxDropMasks(t *testing.T) {
	const n, columns = 4000, 10
	set := &haphazardStream{}
	for i := range n {
		row := must.List(columns, func(int) float64 { return float64(i % 2) })
		set.labels, set.rows = append(set.labels, i%2), append(set.rows, row)
	}
	for _, task := range []auxDropTask{{Present: 0.73}, {Present: 0.27}, {}} {
		x := task.mask(set, 1)
		seen := make([]int, columns)
		for i, row := range x.rows {
			for j, v := range row {
				if math.IsNaN(v) {
					continue
				}
				seen[j]++
				must.Require(t, v == float64(x.labels[i]), "event %d has the value %v and the label %d", i, v, x.labels[i])
				must.Require(t, task.Present != 0 || j <= 10*i/n, "feature %d is present in event %d of %d", j+1, i+1, n)
			}
		}
		for j, count := range seen {
			want := task.Present
			switch {
			case task.Present == 0:
				want = 1 - float64(j)/columns
			case j < 2:
				want = 1
			}
			must.True(t, math.Abs(float64(count)/n-want) <= 0.03, "%s: feature %d is present in %d of %d events", task.protocol(), j+1, count, n)
		}
	}
}

// TestBadStreams checks that damaged files are refused with their line.
func TestBadStreams(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		f := must.Get(os.Create(path))(t)
		w := gzip.NewWriter(f)
		_ = must.Get(w.Write([]byte(text)))(t)
		must.Do(t, w.Close())
		must.Do(t, f.Close())
		return path
	}
	const good = "label,x0,x1\n0,1,\n1,2,3\n"
	set := must.Get(readHaphazard(write("good.csv.gz", good)))(t)
	for text, want := range map[string]string{
		good + "2,1,1\n":   ":4: want a label, 0 or 1, and 2 values",
		good + "1,1\n":     ":4: want a label",
		good + "1,1,inf\n": `:4: value 2 is "inf"`,
		"label,x0\n1,2\n":  "want events of both classes",
	} {
		must.ErrorContains(t, must.Err(readHaphazard(write("bad.csv.gz", text))), want, text)
	}
	for text, want := range map[string]string{
		"11\n1\n":      ":2: want 2 lines of 2 zeros and ones",
		"11\n01\n11\n": ":3: want 2 lines",
		"11\n":         "1 lines for 2 events",
		"11\n12\n":     ":2: want 2 lines",
	} {
		must.ErrorContains(t, must.Err(readMasks(write("bad.p50.gz", text), set)), want, text)
	}
}

// TestPenalties checks that the closed form equals the sampled penalty within the sampling error if scores are sums of
// many terms. The quadratic penalty must be close to both values for weak noise, and far from both for strong noise.
func TestPenalties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	numberSchema := event.NewSchema(8, nil, 2)
	numberSchema.Target = loss.Real
	var b, n batch.Builder
	for i := range 200 {
		e := event.Example{Label: i % 2, Weight: 1}
		for d := range uint32(100) {
			if r.Float64() < 0.1+0.1*float64(int(d)%2*(i%2)) {
				eventtest.Put(&e, d, 1)
			}
		}
		must.Do(t, b.Add(&e))
		e.Label, e.Target = 0, float64(2*e.Label-1)
		must.Do(t, n.Add(&e))
	}
	classes, numbers := b.Data(event.NewSchema(8, []string{"-1", "1"}, 2)), n.Data(numberSchema)
	for _, c := range []struct {
		loss, noise string
		l2          float64
		off         bool
	}{
		{"logistic", "dropout:0.05", 1, false},
		{"logistic", "gaussian:0.1", 1, false},
		{"logistic", "dropout:0.9", 0.001, true},
		{"linear", "dropout:0.5", 1, false},
	} {
		d, config := classes, batch.DefaultConfig()
		if config.Loss, config.L2 = c.loss, c.l2; loss.IsRegression(c.loss) {
			d = numbers
		}
		fit := must.Get(batch.Train(t.Context(), d, config))(t)
		noise := must.Get(loss.ParseNoise(c.noise))(t)
		p := must.Get(penaltiesOf(d, fit.Problems[0].W, fit.Model.Loss, noise, 400, 1))(t)
		t.Logf("%s %s: %+v", c.loss, c.noise, p)
		must.True(t, math.Abs(p.Sampled-p.Exact) <= 4*p.SampledError+0.05*p.Exact, "%s %s: sampled %v +- %v, closed form %v", c.loss, c.noise, p.Sampled, p.SampledError, p.Exact)
		if off := math.Abs(p.Quadratic-p.Exact) > 0.2*p.Exact; off != c.off {
			t.Errorf("%s %s: quadratic %v, exact %v", c.loss, c.noise, p.Quadratic, p.Exact)
		}
	}
}

// TestPenaltiesOfPoissonRegression checks that E A(f~) - A(f) = exp(f) (exp(v/2) - 1) for normal noise. Under dropout
// with one feature the expectation is a sum of two terms, and the sampled penalty must equal that sum.
func TestPenaltiesOfPoissonRegression(t *testing.T) {
	schema := event.NewSchema(8, nil, 8)
	schema.Target = loss.Count
	var b batch.Builder
	for i := range 60 {
		must.Do(t, b.Add(&event.Example{Target: float64(i % 7), Weight: 1 + float64(i%2), Features: event.Vec{Index: []uint32{3}, Value: []float64{float64(i%7) / 2}}}))
	}
	d := b.Data(schema).SortClasses()
	config := batch.DefaultConfig()
	config.Loss, config.L2 = "poisson", 0.1
	fit := must.Get(batch.Train(t.Context(), d, config))(t)
	w, bias := fit.Problems[0].W[0], fit.Problems[0].W[1]
	must.Require(t, math.Abs(w) >= 0.01, "a weight of %v: nothing to see", w)
	expect := func(of func(x, f float64) float64) (sum float64) {
		for i := range d.Rows() {
			x := 0.0
			if row := d.Row(i); row.Len() > 0 {
				x = row.At(0)
			}
			sum += d.Weight(i) * of(x, w*x+bias)
		}
		return sum
	}
	const q, sd = 0.3, 0.8
	for _, c := range []struct {
		noise                     loss.Noise
		quadratic, exact, sampled func(x, f float64) float64
	}{
		{loss.Gaussian{SD: sd},
			func(_, f float64) float64 { return math.Exp(f) * w * w * sd * sd / 2 },
			func(_, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*sd*sd/2) },
			func(_, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*sd*sd/2) }},
		{loss.Dropout{Q: q},
			func(x, f float64) float64 { return math.Exp(f) * w * w * x * x * q / (1 - q) / 2 },
			func(x, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*x*x*q/(1-q)/2) },
			func(x, f float64) float64 { return q*math.Exp(bias) + (1-q)*math.Exp(bias+w*x/(1-q)) - math.Exp(f) }},
	} {
		p := must.Get(penaltiesOf(d, fit.Problems[0].W, "poisson", c.noise, 4000, 1))(t)
		t.Logf("%v: %+v", c.noise, p)
		for _, x := range []struct {
			what           string
			got, want, tol float64
		}{
			{"quadratic", p.Quadratic, expect(c.quadratic), 1e-12},
			{"exact", p.Exact, expect(c.exact), 1e-12},
			{"sampled", p.Sampled, expect(c.sampled), 4 * p.SampledError / math.Abs(p.Sampled)},
		} {
			must.True(t, math.Abs(x.got-x.want) <= x.tol*math.Abs(x.want), "%v: %s %v, want %v", c.noise, x.what, x.got, x.want)
		}
		must.True(t, p.SampledError <= 0.05*math.Abs(p.Sampled), "%v: 4000 copies leave an error of %v of %v", c.noise, p.SampledError, p.Sampled)
	}
}
