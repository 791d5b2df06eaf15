package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// numberStream returns regression examples with different importance weights, and the model from which their targets
// were computed. The targets also have noise.
func numberStream(lossName string, n int, seed uint64) (*model.Linear, []event.Example) {
	r := rand.New(rand.NewPCG(seed, 2))
	weights := []float64{1, -2, 0.5, 0, 1.5, -0.3, 0.2, 0.1}
	s := event.NewSchema(10, nil, 0)
	s.Target = loss.LabelsOf(lossName)
	m := model.NewLinear(s, lossName, "none", [][]float64{weights}, []float64{1})
	examples := make([]event.Example, n)
	for i := range examples {
		e := &examples[i]
		e.Weight = float64(1 + i%3)
		for d := range uint32(len(weights)) {
			if r.IntN(4) > 0 {
				eventtest.Put(e, d, 0.5+r.NormFloat64())
			}
		}
		e.Target = m.Score(e, make([]float64, 1))[0] + 0.7*r.NormFloat64()
		if s.Target == loss.Count {
			e.Target = math.Round(math.Exp(e.Target))
		}
	}
	return m, examples
}

// TestRegressionClosedForm compares the errors under random deletion with their expectation. If every feature is
// removed with probability d and the others are multiplied by s, a score has two moments. The mean is f = b + s (1-d)
// sum w x, and the variance is v = s^2 d (1-d) sum w^2 x^2. The expected squared error is (y - f)^2 + v for any
// distribution of the score.
func TestRegressionClosedForm(t *testing.T) {
	const d, repeat = 0.4, 60
	m, examples := numberStream("squared", 500, 1)
	r := &Replay{Families: []Family{family(t, "random:0.4")}, Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDeclared, Rescale: true}}, Repeat: repeat, Seed: 3}
	result, err := r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: m.Schema, Model: m}})
	must.Require(t, err == nil && result.Numbers, "%v %v", result, err)
	for i, scale := range []float64{1, 1 / (1 - d)} {
		weight, want := 0.0, 0.0
		for n := range examples {
			e := &examples[n]
			f, v := m.Intercept[0], 0.0
			for j, column := range e.Features.Index {
				part := m.Weight(column, 0) * e.Features.Value[j]
				f += scale * (1 - d) * part
				v += scale * scale * d * (1 - d) * part * part
			}
			weight += e.Weight
			want += e.Weight * ((e.Target-f)*(e.Target-f) + v)
		}
		want /= weight
		p := result.Curves[i].Points[0]
		squares := make([]float64, len(p.Errors))
		for k, rmse := range p.Errors {
			squares[k] = rmse * rmse
		}
		mean, deviation := stat.MeanStdDev(squares, nil)
		se := stat.StdErr(deviation, repeat)
		must.True(t, len(squares) == repeat && math.Abs(mean-want) <= 3*se && se <= 0.02*want, "%s: mean squared error %g with a standard error of %g, expected %g", p.Nightmare, mean, se, want)
		got, _, _ := meanAndBounds(p.Errors)
		must.True(t, float64(p.RMSE) == got && p.ClassErrors == nil, "RMSE %g, the mean of the repetitions is %g", p.RMSE, got)
	}
}

// TestRegressionMeasures compares RMSE and MAE, over the whole stream and over parts of it, with sums that the test
// computes. It also compares the features that Worst removes with all possible choices.
func TestRegressionMeasures(t *testing.T) {
	for _, lossName := range []string{"squared", "poisson"} {
		m, examples := numberStream(lossName, 90, 2)
		r := &Replay{Families: []Family{family(t, "worst:0..3/1")}, Treatments: []Treatment{{Loss: model.LossDeclared}}, Repeat: 2, Bins: 3}
		result := must.Get(r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: m.Schema, Model: m}}))(t)
		for k, p := range result.Curves[0].Points {
			var weight, squared, absolute [4]float64
			for n := range examples {
				e := &examples[n]
				worst := 0.0
				for set := range 1 << e.Features.Len() { // every set with at most k features
					score, dead := m.Intercept[0], 0
					for j, column := range e.Features.Index {
						if set>>j&1 == 1 {
							dead++
						} else {
							score += m.Weight(column, 0) * e.Features.Value[j]
						}
					}
					if lossName == "poisson" {
						score = math.Exp(score)
					}
					if dead <= k {
						worst = max(worst, math.Abs(e.Target-score))
					}
				}
				for _, part := range []int{n / 30, 3} {
					weight[part] += e.Weight
					squared[part] += e.Weight * worst * worst
					absolute[part] += e.Weight * worst
				}
			}
			near := func(what string, got, want float64) {
				must.True(t, math.Abs(got-want) <= 1e-9*want, "%s, %s: %s %g, want %g", lossName, p.Nightmare, what, got, want)
			}
			near("RMSE", float64(p.RMSE), math.Sqrt(squared[3]/weight[3]))
			near("MAE", float64(p.MAE), absolute[3]/weight[3])
			for bin, got := range p.Time {
				near("RMSE of a stretch", got, math.Sqrt(squared[bin]/weight[bin]))
			}
		}
	}
}

// TestNumbersFiles checks the names of the measures in the files, and the form in which infinite values are written.
func TestNumbersFiles(t *testing.T) {
	m, examples := numberStream("poisson", 60, 4)
	subject := &Subject{Name: "m", Examples: examples, Schema: m.Schema, Model: m}
	r := &Replay{Families: []Family{family(t, "drift:all:1,1e4"), family(t, "random:0,0.5@30-60")}, Treatments: []Treatment{{Loss: model.LossDeclared}}, Repeat: 2, Bins: 2,
		Groups: map[string][]event.Span{"all": {{From: 0, To: 100}}}}
	var first *Result
	for _, threads := range []int{1, 2} {
		r.Threads = threads
		result := must.Get(r.Run(context.Background(), []*Subject{subject}))(t)
		if first == nil {
			first = result
		} else if !reflect.DeepEqual(first, result) {
			t.Error("another result on two threads")
		}
	}
	var table, text bytes.Buffer
	must.Do(t, first.WriteCSV(&table))
	header, _, _ := strings.Cut(table.String(), "\n")
	must.True(t, header == "model,nightmare,severity,loss,rescale,repeats,rmse,low,high,mae,deleted", "%v", header)
	must.Do(t, first.WriteTable(&text))
	for _, want := range []string{"rmse", "mae", "+Inf"} {
		must.True(t, strings.Contains(text.String(), want), "no %q in %s", want, &text)
	}
	encoded := must.Get(json.Marshal(first))(t)
	for _, want := range []string{`"numbers":true`, `"repeats":1,"rmse":null,"mae":null,"low":null,"high":null,"deleted":0,"errors":[null],`, `"repeats":2,"rmse":`} {
		must.True(t, bytes.Contains(encoded, []byte(want)), "no %s in %s", want, encoded)
	}
	figures := first.Figures()
	must.True(t, len(figures) == 4 && figures[1].Figure.Y == "RMSE" && figures[2].Figure.Y == "RMSE of 30 events", "%d figures, %q", len(figures), figures[1].Figure.Y)
	_, err := first.Save(t.TempDir())
	must.True(t, err == nil, "%v", err)
	classes, more := stream(2, 60, 1)
	_, err = r.Run(context.Background(), []*Subject{{Name: "c", Examples: more, Schema: classes.Schema, Model: classes}, subject})
	must.True(t, err != nil && strings.Contains(err.Error(), "m predicts numbers and c classes"), "%v", err)
	must.Fails(t, must.Err(Mistakes(context.Background(), m, examples, None{}, Treatment{Loss: model.LossDeclared}, 0, 0)), "mistakes of numbers")
}
