package simulate

// This file simulates delayed labels.

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
)

// Delay is a distribution of the delay of a label, in events.
type Delay struct {
	Name string // text from which it was parsed
	draw func(*rand.Rand) float64
	mean float64
}

// delayUsage lists the distributions.
const delayUsage = "0, fixed:N, exponential:MEAN or lognormal:MEDIAN:SIGMA (of the logarithm)"

// ParseDelay parses the distribution of a delay in events: 0 (the label arrives with the event), fixed:N,
// exponential:MEAN or lognormal:MEDIAN:SIGMA.
func ParseDelay(s string) (Delay, error) {
	d := Delay{Name: s}
	name, rest, _ := strings.Cut(s, ":")
	var x []float64
	for _, text := range strings.Split(rest, ":") {
		if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v <= 1e15 {
			x = append(x, v)
		}
	}
	n := len(strings.Split(rest, ":"))
	switch {
	case s == "0":
		d.draw = func(*rand.Rand) float64 { return 0 }
	case name == "fixed" && n == 1 && len(x) == 1:
		d.draw, d.mean = func(*rand.Rand) float64 { return x[0] }, x[0]
	case name == "exponential" && n == 1 && len(x) == 1:
		d.draw, d.mean = func(r *rand.Rand) float64 { return x[0] * r.ExpFloat64() }, x[0]
	case name == "lognormal" && n == 2 && len(x) == 2 && x[1] <= 10:
		d.draw, d.mean = func(r *rand.Rand) float64 { return x[0] * math.Exp(x[1]*r.NormFloat64()) }, x[0]*math.Exp(x[1]*x[1]/2)
	default:
		return d, fmt.Errorf("%q: want %s", s, delayUsage)
	}
	return d, nil
}

// DelayUsage returns the syntax of a Delay.
func DelayUsage() string { return delayUsage }

// Delayed is the result of a learner with delayed labels.
type Delayed struct {
	Delay string  `json:"delay"`
	Mean  float64 `json:"mean"` // mean of the distribution, in events
	// Events is the number of labeled events. AtEnd is the number of events whose label arrived after the last event,
	// and therefore affected no prediction.
	Events          uint64 `json:"events"`
	AtEnd           uint64 `json:"at_end"`
	*DelayedClasses        // nil for regression
	*DelayedNumbers        // nil for classification
	// Over holds the error in each stretch of the stream, in order: Error or, for regression, MAE.
	Over numbers `json:"over"`
}

// DelayedClasses holds errors in percent and log-losses in nats. Error and LogLoss measure predictions made when the
// event arrived. LearningError and LearningLogLoss measure predictions made when the label arrived.
type DelayedClasses struct {
	Error           float64 `json:"progressive_error"`
	LogLoss         float64 `json:"progressive_log_loss"`
	LearningError   float64 `json:"learning_error"`
	LearningLogLoss float64 `json:"learning_log_loss"`
}

// DelayedNumbers holds mean absolute errors and a root mean squared error, in the unit of the labels. MAE and RMSE
// measure predictions made when the event arrived. LearningMAE measures predictions made when the label arrived.
type DelayedNumbers struct {
	MAE         float64 `json:"progressive_mae"`
	RMSE        float64 `json:"progressive_rmse"`
	LearningMAE float64 `json:"learning_mae"`
}

// due is an event whose label arrives after the event with index at has been scored.
type due struct {
	at    float64
	event int
	prior []float64 // stored prediction, see online.Prediction.Append
}

type dues []due

func (d dues) Len() int      { return len(d) }
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d dues) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].event < d[j].event
}
func (d *dues) Push(x any) { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// Learn runs a learner that scores every event at arrival, and learns it when its label arrives. If the delay is n
// events, the label arrives after the n-th later event has been scored. If several labels arrive at once, the earlier
// event is learned first, as in package labels. Labels that arrive after the last event are learned at the end. The
// stream is divided into bins for Delayed.Over.
func (d Delay) Learn(ctx context.Context, c online.Config, s *event.Schema, events []event.Example, seed uint64, bins int) (*Delayed, error) {
	s = s.Clone()
	l, err := online.New(c, s)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0xde1a7))
	result := &Delayed{Delay: d.Name, Mean: d.mean, Over: make([]float64, bins)}
	weight := make([]float64, bins)
	ofNumbers := loss.IsRegression(c.Loss)
	var fresh measure.Classes
	var waiting dues
	learn := func(w due) error {
		prior, err := online.ReadPrediction(w.prior)
		if err != nil {
			return err
		}
		p := l.Learn(&events[w.event], &prior)
		p.Measure(&events[w.event], &fresh)
		return nil
	}
	for i := range events {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := &events[i]
		if e.Label == event.Unlabeled || e.Weight == 0 {
			l.Learn(e, nil)
			continue
		}
		p := l.Predict(e)
		bin := i * bins / len(events)
		switch {
		case p.Refused:
		case ofNumbers && math.IsNaN(p.Value): // no label has arrived yet
		case ofNumbers:
			weight[bin] += e.Weight
			result.Over[bin] += e.Weight * math.Abs(e.Target-p.Value)
		default:
			weight[bin] += e.Weight
			if p.Decision.Predict(p.Scores) != e.Label {
				result.Over[bin] += 100 * e.Weight
			}
		}
		result.Events++
		heap.Push(&waiting, due{float64(i) + d.draw(r), i, p.Append(nil)})
		for len(waiting) > 0 && waiting[0].at <= float64(i) {
			if err := learn(heap.Pop(&waiting).(due)); err != nil {
				return nil, err
			}
		}
	}
	result.AtEnd = uint64(len(waiting))
	for len(waiting) > 0 {
		if err := learn(heap.Pop(&waiting).(due)); err != nil {
			return nil, err
		}
	}
	for i := range result.Over {
		result.Over[i] /= weight[i] // NaN without events
	}
	m := l.Report()
	if ofNumbers {
		all := &m.Numbers.Total
		result.DelayedNumbers = &DelayedNumbers{MAE: all.MAE(), RMSE: all.RMSE(), LearningMAE: fresh.Error()}
	} else {
		result.DelayedClasses = &DelayedClasses{100 * m.Total.Error(), m.Total.MeanLogLoss(), 100 * fresh.Error(), fresh.MeanLogLoss()}
	}
	return result, nil
}

// DelayTable writes a table of the results of several Delays on one stream.
func DelayTable(w io.Writer, results []*Delayed) error {
	columns, form := "error % | log-loss | error % when learned", "%.2f | %.4f | %.2f"
	if ofNumbers(results) {
		columns, form = "MAE | RMSE | MAE when learned", "%.4g | %.4g | %.4g"
	}
	if _, err := fmt.Fprintf(w, "| label delay (events) | mean | %s | labels after the end |\n|---|---|---|---|---|---|\n", columns); err != nil {
		return err
	}
	for _, r := range results {
		three := []any{}
		if n, c := r.DelayedNumbers, r.DelayedClasses; n != nil {
			three = append(three, n.MAE, n.RMSE, n.LearningMAE)
		} else {
			three = append(three, c.Error, c.LogLoss, c.LearningError)
		}
		if _, err := fmt.Fprintf(w, "| %s | %.6g | %s | %d of %d |\n", r.Delay, r.Mean, fmt.Sprintf(form, three...), r.AtEnd, r.Events); err != nil {
			return err
		}
	}
	return nil
}

func ofNumbers(results []*Delayed) bool { return len(results) > 0 && results[0].DelayedNumbers != nil }

// DelayFigure returns a figure of the error over the stream, with a line for each Delay.
func DelayFigure(results []*Delayed) *Figure {
	f := &Figure{Title: "Delayed labels", X: "fraction of the stream (%)", Y: "error of the scores as events came (%)"}
	if ofNumbers(results) {
		f.Y = "mean absolute error as events came"
	}
	for _, r := range results {
		s := Series{Name: "delay " + r.Delay, Form: BareLine, Y: r.Over}
		for i := range r.Over {
			s.X = append(s.X, 100*(float64(i)+0.5)/float64(len(r.Over)))
		}
		f.Series = append(f.Series, s)
	}
	return f
}
