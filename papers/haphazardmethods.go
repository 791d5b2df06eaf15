package papers

// This file has the streams and the methods of the experiment haphazard.

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/stream/record"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// haphazardStream has events in stream order. A missing value is NaN.
type haphazardStream struct {
	labels []int // 0 or 1
	rows   [][]float64
}

// unzipped calls f with the content of a file compressed by gzip.
func unzipped(path string, f func(in io.Reader) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f(in)
}

// eachLine calls f for every line of a file compressed by gzip, with its number from 1.
func eachLine(path string, f func(n int, line string) error) error {
	return unzipped(path, func(in io.Reader) error {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			if err := f(n, lines.Text()); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// readHaphazard reads the labels and values of a set: a header, then a line for each event with its label (0 or 1) and
// its values.
func readHaphazard(path string) (*haphazardStream, error) {
	out, columns := &haphazardStream{}, 0
	err := eachLine(path, func(n int, line string) error {
		fields := strings.Split(line, ",")
		if n == 1 {
			columns = len(fields)
			return nil
		}
		if len(fields) != columns || fields[0] != "0" && fields[0] != "1" {
			return fmt.Errorf("want a label, 0 or 1, and %d values, separated by commas", columns-1)
		}
		row := make([]float64, columns-1)
		for j, text := range fields[1:] {
			row[j] = math.NaN()
			if text == "" {
				continue
			}
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsInf(x, 0) {
				return fmt.Errorf("value %d is %q: want a number or nothing", j+1, text)
			}
			row[j] = x
		}
		out.labels, out.rows = append(out.labels, int(fields[0][0]-'0')), append(out.rows, row)
		return nil
	})
	if err == nil && (!slices.Contains(out.labels, 0) || !slices.Contains(out.labels, 1)) {
		err = fmt.Errorf("%s: want events of both classes", path)
	}
	return out, err
}

// readMasks returns the events of set with the values that a file of masks marks as present.
func readMasks(path string, set *haphazardStream) (*haphazardStream, error) {
	out := &haphazardStream{labels: set.labels}
	err := eachLine(path, func(n int, line string) error {
		if n > len(set.rows) || len(line) != len(set.rows[n-1]) || strings.Trim(line, "01") != "" {
			return fmt.Errorf("want %d lines of %d zeros and ones", len(set.rows), len(set.rows[0]))
		}
		out.rows = append(out.rows, masked(set.rows[n-1], func(j int) bool { return line[j] == '1' }))
		return nil
	})
	if err == nil && len(out.rows) != len(set.rows) {
		err = fmt.Errorf("%s: %d lines for %d events", path, len(out.rows), len(set.rows))
	}
	return out, err
}

// masked returns a copy of row with NaN where present returns false. It calls present in the order of the columns.
func masked(row []float64, present func(j int) bool) []float64 {
	out := slices.Clone(row)
	for j := range out {
		if !present(j) {
			out[j] = math.NaN()
		}
	}
	return out
}

// haphazardMethod predicts the events of a stream in one pass.
type haphazardMethod struct {
	name     string
	constant bool // predicts from the labels alone, so its classes and ranks mean nothing
	// predict returns the probability of class 1 for each event, before the event is learned.
	predict func(ctx context.Context, x *haphazardStream) ([]float64, error)
}

const (
	twentyName = "twenty lines"
	vwName     = "VW"
)

// haphazardMethods returns the methods that are compared. The first is the default. vw is the program Vowpal Wabbit, or
// "".
func haphazardMethods(vw string) []haphazardMethod {
	methods := []haphazardMethod{
		{name: "default", predict: func(ctx context.Context, x *haphazardStream) ([]float64, error) {
			return learnHaphazard(ctx, online.DefaultConfig(), x)
		}},
		{name: "dropout descent", predict: func(ctx context.Context, x *haphazardStream) ([]float64, error) {
			c := online.DefaultConfig()
			c.Optimizer, c.Loss, c.Noise = "dropout-descent", "logistic:quadratic-noising", "dropout:0.5"
			return learnHaphazard(ctx, c, x)
		}},
		{name: twentyName, predict: func(_ context.Context, x *haphazardStream) ([]float64, error) { return twentyLines(x), nil }},
	}
	if vw != "" {
		methods = append(methods, haphazardMethod{name: vwName, predict: func(ctx context.Context, x *haphazardStream) ([]float64, error) {
			return vowpalWabbit(ctx, vw, x)
		}})
	}
	return append(methods, haphazardMethod{name: "constant", constant: true, predict: func(_ context.Context, x *haphazardStream) ([]float64, error) {
		return classRates(x.labels), nil
	}})
}

// learnHaphazard returns the progressive probabilities of a learner.
func learnHaphazard(ctx context.Context, c online.Config, x *haphazardStream) ([]float64, error) {
	r := record.DefaultConfig()
	r.Classes = []string{"0", "1"}
	schema := r.Schema()
	columns := make([]string, len(x.rows[0]))
	for j := range columns {
		columns[j] = fmt.Sprint("x", j)
	}
	rows, err := record.NewRows(r, schema, columns)
	if err != nil {
		return nil, err
	}
	l := newLearner(c, schema)
	out := make([]float64, len(x.rows))
	var e event.Example
	for i, row := range x.rows {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rows.Decode(record.Record{Offset: int64(i), Label: []byte(r.Classes[x.labels[i]])}, row, &e)
		p := l.Learn(&e, nil)
		if p.Refused {
			return nil, fmt.Errorf("event %d: %w", i+1, e.Refused)
		}
		out[i] = p.Decision.Probability(p.Scores[0])
	}
	return out, nil
}

// twentyLines returns the progressive probabilities of the simplest learner of such streams: values are standardized by
// the running mean and deviation of their feature and clipped at 5, a missing value is 0, and AdaGrad learns with the
// learning rate 0.3.
func twentyLines(x *haphazardStream) []float64 {
	columns := len(x.rows[0])
	mean, squares, count := make([]float64, columns), make([]float64, columns), make([]float64, columns)
	weights, sums := make([]float64, columns+1), make([]float64, columns+1) // the last is the intercept
	for j := range sums {
		sums[j] = 1e-8
	}
	z := make([]float64, columns+1)
	z[columns] = 1
	out := make([]float64, len(x.rows))
	for i, row := range x.rows {
		score := weights[columns]
		for j, v := range row {
			if z[j] = 0; math.IsNaN(v) {
				continue
			}
			count[j]++ // statistics first, as in a learner that standardizes the events that it predicts
			delta := v - mean[j]
			mean[j] += delta / count[j]
			squares[j] += delta * (v - mean[j])
			if deviation := math.Sqrt(squares[j] / count[j]); deviation > 1e-12 && count[j] > 1 {
				z[j] = max(-5, min(5, (v-mean[j])/deviation))
			}
			score += weights[j] * z[j]
		}
		out[i] = 1 / (1 + math.Exp(-score))
		g := out[i] - float64(x.labels[i])
		for j, v := range z {
			if v == 0 {
				continue
			}
			sums[j] += g * v * g * v
			weights[j] -= 0.3 * g * v / math.Sqrt(sums[j])
		}
	}
	return out
}

// vowpalWabbit returns the progressive probabilities of the program Vowpal Wabbit with the logistic loss, for raw
// values.
func vowpalWabbit(ctx context.Context, program string, x *haphazardStream) (_ []float64, err error) {
	dir, err := os.MkdirTemp("", "blankout-haphazard")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var text strings.Builder
	for i, row := range x.rows {
		fmt.Fprintf(&text, "%d |", 2*x.labels[i]-1)
		for j, v := range row {
			if !math.IsNaN(v) {
				fmt.Fprintf(&text, " x%d:%g", j, v)
			}
		}
		text.WriteString("\n")
	}
	data, predictions := filepath.Join(dir, "events.vw"), filepath.Join(dir, "predictions")
	if err := os.WriteFile(data, []byte(text.String()), 0o666); err != nil {
		return nil, err
	}
	if said, err := exec.CommandContext(ctx, program, "--loss_function", "logistic", "-d", data, "-p", predictions).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, said)
	}
	said, err := os.ReadFile(predictions)
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, text := range strings.Fields(string(said)) {
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("prediction %d of %s: %w", len(out)+1, program, err)
		}
		out = append(out, 1/(1+math.Exp(-score)))
	}
	if len(out) != len(x.rows) {
		return nil, fmt.Errorf("%s made %d predictions for %d events", program, len(out), len(x.rows))
	}
	return out, nil
}

// classRates returns the estimated rate of class 1 before each event: Laplace's rule for the earlier events.
func classRates(labels []int) []float64 {
	out, ones := make([]float64, len(labels)), 0
	for i, y := range labels {
		out[i] = float64(ones+1) / float64(i+2)
		ones += y
	}
	return out
}

// haphazardResult has the measures of a method on a stream.
type haphazardResult struct {
	Accuracy, AtRate float64 // balanced accuracy in %, at threshold .5 and at the class rate before the event
	Wrong            int     // errors at threshold .5
	AUC              float64 // in %
	LogLoss          float64 // in nats
	// All and LastThird are the log-loss less that of the twenty lines, over the stream and over its last third.
	All, LastThird excess
}

// excess is a mean difference of two log-losses of the same events in nats, with its standard error.
type excess struct{ Mean, Error float64 }

// String returns the mean difference and its standard error.
func (x excess) String() string { return fmt.Sprintf("%+.4f ± %.4f", x.Mean, x.Error) }

func excessOf(each []float64) excess {
	mean, deviation := stat.MeanStdDev(each, nil)
	return excess{mean, deviation / math.Sqrt(float64(len(each)))}
}

// result measures a method on a stream.
func (m haphazardMethod) result(ctx context.Context, x *haphazardStream) (r haphazardResult, err error) {
	p, err := m.predict(ctx, x)
	if err != nil {
		return r, err
	}
	losses := logLosses(p, x.labels)
	less := floats.SubTo(make([]float64, len(losses)), losses, logLosses(twentyLines(x), x.labels))
	rates := classRates(x.labels)
	return haphazardResult{
		Accuracy: balanced(p, x.labels, func(int) float64 { return 0.5 }), AtRate: balanced(p, x.labels, func(i int) float64 { return rates[i] }),
		Wrong: wrongOf(p, x.labels), AUC: rankAUC(p, x.labels), LogLoss: stat.Mean(losses, nil), All: excessOf(less), LastThird: excessOf(less[len(less)*2/3:]),
	}, nil
}

func logLosses(p []float64, labels []int) []float64 {
	out := make([]float64, len(p))
	for i, x := range p {
		if labels[i] == 0 {
			x = 1 - x
		}
		out[i] = measure.LogLoss(x)
	}
	return out
}

// wrongOf returns the number of events whose class at threshold .5 is wrong.
func wrongOf(p []float64, labels []int) int {
	return count(rowsFrom(0, len(p)), func(i int) bool { return (p[i] > 0.5) != (labels[i] == 1) })
}

// balanced returns the mean of both classes' recall in %. An event is of class 1 if its probability exceeds its
// threshold.
func balanced(p []float64, labels []int, threshold func(i int) float64) float64 {
	var right, of [2]float64
	for i, x := range p {
		y := labels[i]
		of[y]++
		if (x > threshold(i)) == (y == 1) {
			right[y]++
		}
	}
	return 50 * (right[0]/of[0] + right[1]/of[1])
}

// rankAUC returns the area under the ROC curve in %. Equal probabilities have their mean rank.
func rankAUC(p []float64, labels []int) float64 {
	var of [2][]float64
	for i, x := range p {
		of[labels[i]] = append(of[labels[i]], x)
	}
	return 100 * smaller(of[0], of[1]) / float64(len(of[0])*len(of[1]))
}
