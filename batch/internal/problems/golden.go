package problems

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"blankout/internal/loss"
)

// Golden is a problem with the solutions of several algorithms. The vectors of testdata/golden were made by an
// independent implementation of docs/mathematics.md in Python. A package skips the cases of algorithms that it does not
// have.
type Golden struct {
	Problem   string
	X         [][]float64
	Y         []float64
	Unlabeled [][]float64
	Cases     []Case
}

// Case is the expected result of an algorithm on the problem of a Golden.
type Case struct {
	Algo   string
	Params struct {
		Noise       string
		Level       float64
		C, Ell, Lam float64
		Alpha       float64
		Unlabeled   bool
		T           float64
		Q, Keep     float64
		Sigma       float64
		Kernel      string
		Loss        string
		FromRow     int `json:"from_row"`
	}
	Weights      []float64
	Intercept    float64
	Objective    float64
	Tolerance    float64
	StartWeights []float64 `json:"start_weights"`
	Metric       []float64
	Raw          json.RawMessage
}

// UnmarshalJSON parses the case and keeps its JSON text.
func (c *Case) UnmarshalJSON(b []byte) error {
	type plain Case
	c.Raw = append(json.RawMessage(nil), b...)
	return json.Unmarshal(b, (*plain)(c))
}

// Noise returns the noise of the case.
func (c *Case) Noise(t testing.TB) loss.Noise {
	name := c.Params.Noise
	if name == "" {
		name = "none"
	}
	if name != "none" && name != "poisson" {
		name = fmt.Sprintf("%s:%v", name, c.Params.Level)
	}
	n, err := loss.ParseNoise(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ReadGolden reads all problems of batch/testdata/golden. The argument dir is the path of batch/testdata.
func ReadGolden(t testing.TB, dir string) []Golden {
	files, _ := filepath.Glob(dir + "/golden/*.json")
	if len(files) != 3 {
		t.Fatalf("%d files of golden vectors", len(files))
	}
	var out []Golden
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var p Golden
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// Cases calls f for every golden case of the algorithm algo. It fails the test if the number of cases is not want.
func Cases(t *testing.T, dir, algo string, want int, f func(t *testing.T, g *Golden, c *Case)) {
	t.Helper()
	have := 0
	for _, g := range ReadGolden(t, dir) {
		for i := range g.Cases {
			if c := &g.Cases[i]; c.Algo == algo {
				have++
				t.Run(fmt.Sprintf("%s %s %+v", g.Problem, algo, c.Params), func(t *testing.T) { f(t, &g, c) })
			}
		}
	}
	if have != want {
		t.Errorf("%d golden cases of %s, want %d", have, algo, want)
	}
}
