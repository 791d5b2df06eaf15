package papers

import (
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"blankout/internal/eventtest"
	"blankout/internal/must"
)

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
		row := eventtest.List(columns, func(int) float64 { return float64(i % 2) })
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
