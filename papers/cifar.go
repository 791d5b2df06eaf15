package papers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/simulate"
)

// cifar represents small color images as counts of visual words that are learned from patches. It compares training
// without corruption, with Poisson noise and with dropout.
var cifar = Experiment{
	Name:  "cifar",
	Help:  "visual words of small images: training without corruption, with Poisson noise, with dropout",
	Paper: "Chen, Zhu, Chen & Zhang 2014",
	Part:  "table 2",
	Needs: []string{"cifar10_subset"},
	Run:   runCIFAR,
}

type cifarConfig struct {
	Train      int `json:"train"`
	Validation int `json:"validation"`
	Test       int `json:"test"`
	// An image is cut into patches of Side x Side pixels, which are Stride pixels apart. Each patch is counted as its
	// visual word: the nearest of Words centers. Words are counted in each quarter of the image and in the whole image.
	Side       int                 `json:"side"`
	Stride     int                 `json:"stride"`
	Words      int                 `json:"words"`
	Patches    int                 `json:"patches"` // number of patches from which the words are learned
	Rounds     int                 `json:"rounds"`  // rounds of k-means
	Levels     []string            `json:"levels"`  // candidate dropout levels
	Costs      map[string][]string `json:"costs"`
	Tol        float64             `json:"tol"`
	Iterations int                 `json:"iterations"` // largest number of iterations
}

type cifarCell struct {
	Validation float64 `json:"validation"`
	LogLoss    float64 `json:"log_loss"`
	Converged  bool    `json:"converged"`
}

var cifarNoises = []string{"none", "poisson", "dropout"}

// cifarPaper is table 2 of the paper. It has the errors by method, in the order of amazonMethods, and by noise.
var cifarPaper = [][3]float64{{0.322, 0.309, 0.294}, {0.312, 0.302, 0.293}, {0.325, 0.300, 0.294}, {0.326, 0.291, 0.323}}

func runCIFAR(ctx context.Context, s *Setting) error {
	costs := Pick(s, []string{"0.01"}, []string{"0.0001", "0.001", "0.01"}, []string{"0.0001", "0.001", "0.01", "0.1", "1"})
	c := cifarConfig{
		Train: Pick(s, 40, 7000, 7000), Validation: Pick(s, 20, 1000, 1000), Test: Pick(s, 30, 2000, 2000),
		Side: 6, Stride: Pick(s, 5, 2, 1), Words: Pick(s, 10, 300, 800), Patches: Pick(s, 500, 20_000, 100_000), Rounds: Pick(s, 3, 10, 20),
		Levels: Pick(s, []string{"0.5"}, []string{"0.3", "0.6"}, []string{"0.1", "0.3", "0.5", "0.7", "0.9"}),
		Costs:  map[string][]string{}, Tol: Pick(s, 1e-1, 1e-2, 1e-3), Iterations: Pick(s, 10, 60, 0),
	}
	for _, m := range amazonMethods {
		c.Costs[m.name] = costs
	}
	if s.Size == Default {
		c.Costs["MCF-logistic"] = []string{"0.01"}
	}
	s.Configure(c)
	// Learning the words is slow, so they are learned only if a cell must be computed.
	type parts struct{ train, validation, test []event.Example }
	features := sync.OnceValues(func() (parts, error) {
		train, err := s.images(c.Train+c.Validation, "train.bin.gz")
		if err != nil {
			return parts{}, err
		}
		test, err := s.images(c.Test, "test.bin.gz")
		if err != nil {
			return parts{}, err
		}
		s.Say("learning %d visual words", c.Words)
		w, err := learnWords(ctx, s, c, train[:c.Train])
		if err != nil {
			return parts{}, err
		}
		known, err := w.countAll(ctx, s, train)
		if err != nil {
			return parts{}, err
		}
		measured, err := w.countAll(ctx, s, test)
		return parts{known[:c.Train], known[c.Train:], measured}, err
	})
	type point struct {
		method, noise int
		setting       Point
	}
	var points []point
	for m, method := range amazonMethods {
		for n, noise := range cifarNoises {
			base := trainConfig()
			base.Loss, base.Bound, base.Tol, base.MaxIterations = method.loss, method.bound, c.Tol, c.Iterations
			grid := []Axis{{Key: "c", Values: c.Costs[method.name]}}
			if noise == "dropout" {
				grid = append(grid, Axis{Key: "q", Values: c.Levels})
			} else {
				base.Noise = noise
			}
			for _, x := range (Method{Name: method.name, Config: base, Grid: grid}).Points() {
				points = append(points, point{m, n, x})
			}
		}
	}
	var once sync.Mutex // so that all goroutines share one set of features and rows
	var d *batch.Data
	data := func() (*batch.Data, parts, error) {
		once.Lock()
		defer once.Unlock()
		p, err := features()
		if err == nil && d == nil {
			d = dataOf(digits(), p.train)
		}
		return d, p, err
	}
	cells, err := Cells(ctx, s, len(points), func(ctx context.Context, i int) (any, func() (cifarCell, error)) {
		p := points[i]
		key := []any{amazonMethods[p.method].name, p.setting.Settings.Noise, p.setting.Name, c.Train, c.Validation, c.Side, c.Stride, c.Words, c.Patches, c.Rounds, c.Tol, c.Iterations}
		return key, func() (cifarCell, error) {
			d, examples, err := data()
			if err != nil {
				return cifarCell{}, err
			}
			s.Say("%s, %s, %s", amazonMethods[p.method].name, cifarNoises[p.noise], p.setting.Name)
			fit, err := batch.Train(ctx, d, p.setting.Settings)
			if err != nil {
				return cifarCell{}, err
			}
			replay := simulate.Replay{Families: []simulate.Family{{Name: "none", Levels: []simulate.Level{{Nightmare: simulate.None{}, X: math.NaN()}}}},
				Treatments: []simulate.Treatment{{Loss: model.LossDeclared}}, Repeat: 1, Threads: 1}
			result, err := replay.Run(ctx, []*simulate.Subject{{Examples: examples.validation, Schema: d.Schema, Model: fit.Model}})
			if err != nil {
				return cifarCell{}, err
			}
			v := result.Curves[0].Points[0]
			return cifarCell{v.Error, v.LogLoss, fit.Converged}, nil
		}
	})
	if err != nil {
		return err
	}
	// The best setting by method and noise, and the test images that the model with this setting misclassifies.
	chosen := make([]Point, len(amazonMethods)*len(cifarNoises))
	for at := range chosen {
		best := Least(len(points), func(i int) bool { return points[i].method*len(cifarNoises)+points[i].noise == at }, func(i int) Held {
			return Held{Loss: cells[i].Validation, Tie: cells[i].LogLoss}
		})
		chosen[at] = points[best].setting
	}
	bad, err := Cells(ctx, s, len(chosen), func(ctx context.Context, at int) (any, func() (mistakes, error)) {
		method, x := amazonMethods[at/len(cifarNoises)].name, chosen[at]
		return []any{"measure", method, x.Settings.Noise, x.Name, c.Train, c.Test, c.Side, c.Stride, c.Words, c.Patches, c.Rounds, c.Tol, c.Iterations}, func() (mistakes, error) {
			d, examples, err := data()
			if err != nil {
				return nil, err
			}
			s.Say("%s, %s, %s, again", method, cifarNoises[at%len(cifarNoises)], x.Name)
			m, err := trained(ctx, d, x.Settings)
			if err != nil {
				return nil, err
			}
			return linearMistakes(m, examples.test), nil
		}
	})
	if err != nil {
		return err
	}
	names := mapped(amazonMethods, func(m amazonMethod) string { return m.name })
	titles := []string{"no corruption", "Poisson", "dropout"}
	wrong := func(method, noise int) mistakes { return bad[method*len(cifarNoises)+noise] }
	figure := &simulate.Figure{Title: "Visual words of CIFAR-10 images", Y: "test error (%)", Categories: names}
	for noise, title := range titles {
		bars := simulate.Series{Name: title, Form: simulate.Bars}
		for m := range names {
			wrong(m, noise).show(&bars)
		}
		figure.Series = append(figure.Series, bars)
	}
	stopped := count(cells, func(c cifarCell) bool { return !c.Converged })
	// of returns the mistakes of methods with a noise.
	of := func(methods []int, noise int) []mistakes {
		return mapped(methods, func(m int) mistakes { return wrong(m, noise) })
	}
	for _, x := range []struct {
		who     string
		methods []int
	}{{"the four methods on average", []int{0, 1, 2, 3}}, {dropoutSVM, []int{0}}} {
		for noise, name := range []string{1: "Poisson noise", 2: "dropout"} {
			if noise == 0 {
				continue
			}
			printed := 0.0
			for _, m := range x.methods {
				printed += 100 * (cifarPaper[m][noise] - cifarPaper[m][0]) / float64(len(x.methods))
			}
			s.Claim(Claim{Claim: x.who + ": training with " + name + " beats training without corruption", Paper: "table 2, on all 50,000 images and other words",
				Parts: []Part{below("", meanLess(of(x.methods, noise), of(x.methods, 0)), 0).against(printed, 0.1)}, Unit: fmt.Sprintf("points of test error on %d images", c.Test),
				Verdict: NotComparable, Why: fmt.Sprintf("the models learn from %d of the paper's 50,000 images", c.Train)})
		}
	}
	s.Table(matrix(ResultTable{Title: "Test error (%)", Digits: 1}, "method", titles, names, func(m, noise int) any { return wrong(m, noise).error() }))
	s.Table(matrix(ResultTable{Detail: true, Title: "Chosen settings"}, "method", titles, names, func(m, noise int) any { return chosen[m*len(cifarNoises)+noise].Name }))
	s.Figure("noise", figure)
	s.Note("%d images train, %d choose the settings, %d test. The paper uses all 60,000 with a larger set of words, so its numbers are not comparable.", c.Train, c.Validation, c.Test)
	s.Note("Words are the %[3]d k-means centers of whitened patches of %[1]d by %[2]d pixels, counted in each quarter of an image and in the whole: %[4]d features.", c.Side, c.Side, c.Words, 5*c.Words)
	if stopped > 0 {
		s.Note("%d of %d solutions stopped after %d iterations, before a gap or gradient of %g.", stopped, len(cells), c.Iterations, c.Tol)
	}
	if s.Size == Default {
		s.Note("MCF-logistic is the slowest by far and has c = %s only.", c.Costs["MCF-logistic"][0])
	}
	return nil
}

// cifarSide is the width and height of an image in pixels. An image has three color planes.
const cifarSide = 32

// images returns the first n records of a file in the binary format of CIFAR-10. A record has a byte for the class,
// then the red, green and blue planes, each row by row.
func (s *Setting) images(n int, file string) ([][]byte, error) {
	path := s.Path("cifar10_subset", file)
	s.Say("reading %s", file)
	all := make([][]byte, n)
	return all, unzipped(path, func(in io.Reader) error {
		for i := range all {
			all[i] = make([]byte, 1+3*cifarSide*cifarSide)
			if _, err := io.ReadFull(in, all[i]); err != nil {
				return fmt.Errorf("%s: image %d of %d: %w", path, i+1, n, err)
			}
			if all[i][0] > 9 {
				return fmt.Errorf("%s: image %d: class %d", path, i+1, all[i][0])
			}
		}
		return nil
	})
}

// words finds the visual word of a patch (Coates, Lee & Ng 2011, section 3): the center nearest to the whitened patch.
// For a normalized patch x, that is the word k with the largest filter[k].x - half[k].
type words struct {
	c      cifarConfig
	filter [][]float64
	half   []float64
}

// patch writes the normalized pixels of a patch to out.
func (c *cifarConfig) patch(image []byte, row, column int, out []float64) {
	at, sum := 0, 0.0
	for plane := range 3 {
		for i := range c.Side {
			from := 1 + plane*cifarSide*cifarSide + (row+i)*cifarSide + column
			for _, b := range image[from : from+c.Side] {
				out[at] = float64(b)
				sum += out[at]
				at++
			}
		}
	}
	mean, square := sum/float64(at), 0.0
	for i := range out {
		out[i] -= mean
		square += out[i] * out[i]
	}
	floats.Scale(1/math.Sqrt(square/float64(at)+10), out) // 10 limits the noise of patches with little contrast
}

// learnWords learns the words from patches at random positions in the images.
func learnWords(ctx context.Context, s *Setting, c cifarConfig, images [][]byte) (*words, error) {
	r := rand.New(rand.NewPCG(s.Seed, 0xc1fa))
	size := 3 * c.Side * c.Side
	x := mat.NewDense(c.Patches, size, nil)
	for i := range c.Patches {
		last := cifarSide - c.Side
		c.patch(images[r.IntN(len(images))], r.IntN(last+1), r.IntN(last+1), x.RawRowView(i))
	}
	// The whitening is the one that changes the patches least (ZCA): W = V (L + 0.1)^-1/2 V'.
	mean := make([]float64, size)
	for i := range c.Patches {
		floats.Add(mean, x.RawRowView(i))
	}
	floats.Scale(1/float64(c.Patches), mean)
	for i := range c.Patches {
		floats.Sub(x.RawRowView(i), mean)
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(c.Patches), x.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&covariance, true) {
		return nil, errors.New("the covariance of the patches has no eigenvalues")
	}
	var v, scaled, whiten, white mat.Dense
	eigen.VectorsTo(&v)
	values := eigen.Values(nil)
	scaled.Apply(func(_, j int, a float64) float64 { return a / math.Sqrt(max(values[j], 0)+0.1) }, &v)
	whiten.Mul(&scaled, v.T())
	white.Mul(x, &whiten)
	centers, err := kMeans(ctx, s, &white, c.Words, c.Rounds, r)
	if err != nil {
		return nil, err
	}
	// |W (p - mean) - center|^2 = const - 2 ((W center).p - (W center).mean - |center|^2/2)
	w := &words{c: c, half: make([]float64, c.Words)}
	for k, center := range centers {
		var f mat.VecDense
		f.MulVec(&whiten, mat.NewVecDense(size, center))
		w.filter = append(w.filter, f.RawVector().Data)
		w.half[k] = floats.Dot(w.filter[k], mean) + floats.Dot(center, center)/2
	}
	return w, nil
}

// kMeans returns k centers of the rows of x. It runs Lloyd's method from random rows. A center that loses all rows is
// replaced by a random row.
func kMeans(ctx context.Context, s *Setting, x *mat.Dense, k, rounds int, r *rand.Rand) ([][]float64, error) {
	n, size := x.Dims()
	centers := make([][]float64, k)
	for i, at := range r.Perm(n)[:k] {
		centers[i] = slices.Clone(x.RawRowView(at))
	}
	nearest := make([]int, n)
	for range rounds {
		half := make([]float64, k)
		for i, c := range centers {
			half[i] = floats.Dot(c, c) / 2
		}
		if err := s.Parallel(ctx, n, func(_ context.Context, i int) error {
			nearest[i] = closest(centers, half, x.RawRowView(i))
			return nil
		}); err != nil {
			return nil, err
		}
		count := make([]float64, k)
		for i := range centers {
			centers[i] = make([]float64, size)
		}
		for i, at := range nearest {
			floats.Add(centers[at], x.RawRowView(i))
			count[at]++
		}
		for i, m := range count {
			if m == 0 {
				copy(centers[i], x.RawRowView(r.IntN(n)))
				continue
			}
			floats.Scale(1/m, centers[i])
		}
	}
	return centers, nil
}

func closest(filters [][]float64, half, x []float64) int {
	best, most := 0, math.Inf(-1)
	for k, f := range filters {
		if at := floats.Dot(f, x) - half[k]; at > most {
			best, most = k, at
		}
	}
	return best
}

// countAll returns the images as examples whose features are word counts.
func (w *words) countAll(ctx context.Context, s *Setting, images [][]byte) ([]event.Example, error) {
	out := make([]event.Example, len(images))
	err := s.Parallel(ctx, len(images), func(_ context.Context, i int) error {
		s.Say("looking for visual words in image %d of %d", i, len(images))
		out[i] = event.Example{Features: w.count(images[i]), Label: int(images[i][0]), Weight: 1}
		return nil
	})
	return out, err
}

// count returns how often each word occurs in each quarter of an image, and then in the whole image.
func (w *words) count(image []byte) event.Vec {
	k := w.c.Words
	counts := make([]float64, 5*k)
	x := make([]float64, 3*w.c.Side*w.c.Side)
	last := cifarSide - w.c.Side
	for row := 0; row <= last; row += w.c.Stride {
		for column := 0; column <= last; column += w.c.Stride {
			w.c.patch(image, row, column, x)
			word := closest(w.filter, w.half, x)
			quarter := 0
			if 2*row > last {
				quarter += 2
			}
			if 2*column > last {
				quarter++
			}
			counts[quarter*k+word]++
			counts[4*k+word]++
		}
	}
	var v event.Vec
	for i, n := range counts {
		if n > 0 {
			v.Index, v.Value = append(v.Index, uint32(i)), append(v.Value, n)
		}
	}
	return v
}
