package simulate

// This file runs subjects (models) in nightmares and sums their errors.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Subject is a model that is measured in nightmares.
type Subject struct {
	Name string
	// Examples are the recorded events, decoded with Schema. Subjects with the same Schema may share the same slice.
	// The events must not be changed.
	Examples []event.Example
	Schema   *event.Schema
	Model    model.Model
}

// loss returns the name of the subject's loss, which determines whether labels are classes or targets.
func (s *Subject) loss() string {
	return s.Model.About().Loss
}

// Found and NotFound are for nightmares that hold fields at a value. With Found, the fields are known to be stuck, and
// they count as missing. With NotFound, it has not detected it.
const (
	Found    model.LossKind = "found"
	NotFound model.LossKind = "not found"
)

// Treatment describes what happens to removed features and to the remaining ones.
type Treatment struct {
	Loss model.LossKind `json:"loss"` // how the model loses features
	// Rescale removes declared features and divides the remaining features by the fraction that remains. The mean of
	// the score then does not change. The missing policy is not used.
	Rescale bool `json:"rescale"`
}

func (t Treatment) String() string {
	if t.Rescale {
		return string(t.Loss) + ", rescaled"
	}
	return string(t.Loss)
}

// Replay runs subjects through families of nightmares. Its Result depends only on the fields of the Replay, bit by bit.
type Replay struct {
	Families []Family
	// Treatments are those of most nightmares. Nightmares that hold fields at a value are run with NotFound and Found.
	Treatments []Treatment
	Repeat     int // number of random draws, at least 1
	Seed       uint64
	Groups     map[string][]event.Span
	// Bins is the number of stretches of the stream, of equal length, in each of which the error is measured. 0 means
	// 50.
	Bins    int
	Threads int
	// Progress is called with the number of finished runs. The calls are never concurrent.
	Progress func(done, all int)
}

// Result is the result of a Replay: a Curve for every subject, family and treatment.
type Result struct {
	Seed   uint64 `json:"seed"`
	Repeat int    `json:"repeat"`
	Events int    `json:"events"`
	// Numbers is true for regression. Points then have NumberErrors, and otherwise ClassErrors.
	Numbers bool `json:"numbers,omitempty"`
	// BinEvents is the number of events in each stretch of a Point's Time.
	BinEvents int     `json:"bin_events"`
	Curves    []Curve `json:"curves"`
}

// Curve is the result of one subject in one family of nightmares under one treatment.
type Curve struct {
	Subject   string `json:"model"`
	Nightmare string `json:"nightmare"`
	Treatment
	Points  []Point `json:"points"`
	expects bool    // whether the subject has learned for silently missing features
}

// Point is the result of one nightmare of a family. For classification, its error is the percentage of wrong
// predictions (ClassErrors.Error). For regression, its error is the root mean squared error (NumberErrors.RMSE).
// Deleted is in percent. All values are means over the repetitions.
type Point struct {
	Nightmare     string   `json:"nightmare"`
	Level         *float64 `json:"severity"` // null for a nightmare without a number
	Repeats       int      `json:"repeats"`
	*ClassErrors           // nil for regression
	*NumberErrors          // nil for classification
	// Low and High are the 95 % confidence bounds of the mean error over the random draws (Student's t). They are null
	// if there are fewer than two repetitions. They do not include the uncertainty from the choice of events.
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
	Deleted float64  `json:"deleted"` // percentage of the features of all events
	Errors  numbers  `json:"errors"`  // errors by repetition
	// Time is the error in each stretch of the stream. TimeLow and TimeHigh are the bounds of Time. They are absent if
	// there are fewer than two repetitions.
	Time     numbers     `json:"time"`
	TimeLow  numbers     `json:"time_low,omitempty"`
	TimeHigh numbers     `json:"time_high,omitempty"`
	Window   *[2]int     `json:"window"` // range of the damaged events, null for all events
	times    [][]float64 // errors by repetition and stretch
	seconds  []float64   // second measure by repetition, see errors
}

// ClassErrors are the errors of a classifier.
type ClassErrors struct {
	Error   float64 `json:"error"`    // in percent
	LogLoss float64 `json:"log_loss"` // in nats
}

// NumberErrors are the errors of regression predictions, in the unit of the labels. An error that is not finite is null
// in JSON.
type NumberErrors struct {
	RMSE measured `json:"rmse"` // root mean squared error
	MAE  measured `json:"mae"`  // mean absolute error
}

// errors returns the error and the second measure: the log-loss or the MAE.
func (p *Point) errors() (first, second float64) {
	if p.NumberErrors != nil {
		return float64(p.RMSE), float64(p.MAE)
	}
	return p.Error, p.LogLoss
}

// measured is a number that is null in JSON if it is not finite.
type measured float64

func (m measured) MarshalJSON() ([]byte, error) {
	if !finite(float64(m)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// numbers is a list whose values are null in JSON if they are not finite. A value is not finite if there was no labeled
// event, or if a prediction is infinite.
type numbers []float64

func (n numbers) MarshalJSON() ([]byte, error) {
	out := make([]*float64, len(n))
	for i := range n {
		if finite(n[i]) {
			out[i] = &n[i]
		}
	}
	return json.Marshal(out)
}

// RequestError reports that a Replay cannot fulfill the request with its subjects or events.
type RequestError struct{ error }

func (e *RequestError) Unwrap() error { return e.error }

// run is a run of one subject in one nightmare, with one treatment and one random draw.
type run struct {
	curve, point, repeat int
	subject              *Subject
	nightmare            Nightmare
	treatment            Treatment
	wrong                []byte // by event: 1 for a wrong prediction; may be nil
}

type outcome struct {
	sums
	bins           []sums // sums by stretch of the stream
	features, dead float64
	untouched      string // name of a group that no event had
}

// sums holds sums over labeled events, weighted by importance, for classification or for regression.
type sums struct {
	weight, wrong, logLoss float64
	numbers                measure.Numbers
}

// errors returns the two values that Point.errors returns. They are NaN if there are no events.
func (s *sums) errors() (first, second float64) {
	if s.numbers.Weight > 0 {
		return s.numbers.RMSE(), s.numbers.MAE()
	}
	return 100 * s.wrong / s.weight, s.logLoss / s.weight
}

// Run replays the events of every subject in every nightmare under every treatment.
func (r *Replay) Run(ctx context.Context, subjects []*Subject) (*Result, error) {
	if r.Repeat < 1 || len(r.Families) == 0 || len(r.Treatments) == 0 || len(subjects) == 0 {
		return nil, errors.New("a replay wants a subject, a nightmare, a treatment and a repetition at least")
	}
	result := &Result{Seed: r.Seed, Repeat: r.Repeat, Events: len(subjects[0].Examples), Numbers: loss.IsRegression(subjects[0].loss())}
	bins := cmp.Or(r.Bins, 50)
	result.BinEvents = max(1, (result.Events+bins-1)/bins)
	columns := make([]int, len(subjects))
	for i, s := range subjects {
		if len(s.Examples) != result.Events {
			return nil, fmt.Errorf("%s has %d events, %s %d", s.Name, len(s.Examples), subjects[0].Name, result.Events)
		}
		if loss.IsRegression(s.loss()) != result.Numbers {
			ofNumbers, ofClasses := subjects[0].Name, s.Name
			if !result.Numbers {
				ofNumbers, ofClasses = ofClasses, ofNumbers
			}
			return nil, &RequestError{fmt.Errorf("%s predicts numbers and %s classes: their errors do not compare, replay them apart", ofNumbers, ofClasses)}
		}
		columns[i] = columnsOf(s.Examples)
	}
	var runs []run
	for _, family := range r.Families {
		for _, s := range subjects {
			treatments := r.Treatments
			if len(stuckFields(family, s.Schema)) > 0 {
				treatments = []Treatment{{Loss: NotFound}, {Loss: Found}}
			}
			for _, t := range treatments {
				c := Curve{Subject: s.Name, Nightmare: family.Name, Treatment: t, expects: s.expectsSilence()}
				for _, l := range family.Levels {
					if w, ok := base(l.Nightmare).(Worst); ok && linearOf(s.Model) == nil {
						return nil, &RequestError{fmt.Errorf("%s: %v looks for the largest weights, which a kernel model has not", s.Name, w)}
					}
					p := Point{Nightmare: l.Nightmare.String(), Repeats: 1}
					if finite(l.X) {
						p.Level = &l.X
					}
					if isRandom(l.Nightmare) {
						p.Repeats = r.Repeat
					}
					if d, ok := l.Nightmare.(During); ok {
						from, to := d.Bounds(result.Events)
						p.Window = &[2]int{from, to}
					}
					for repeat := range p.Repeats {
						runs = append(runs, run{curve: len(result.Curves), point: len(c.Points), repeat: repeat, subject: s, nightmare: l.Nightmare, treatment: t})
					}
					c.Points = append(c.Points, p)
				}
				result.Curves = append(result.Curves, c)
			}
		}
	}
	outcomes, done := make([]outcome, len(runs)), 0
	var mu sync.Mutex // for done and Progress
	err := batch.Each(ctx, cmp.Or(max(r.Threads, 0), runtime.GOMAXPROCS(0)), len(runs), func(ctx context.Context, i int) (err error) {
		u := runs[i]
		stage := Stage{Schema: u.subject.Schema, Events: result.Events, Columns: columns[slices.Index(subjects, u.subject)],
			Seed: r.Seed, Repeat: u.repeat, Groups: r.Groups}
		if outcomes[i], err = u.do(ctx, &stage, result.BinEvents); err != nil {
			return fmt.Errorf("%s in %s: %w", u.subject.Name, u.nightmare, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if done++; r.Progress != nil {
			r.Progress(done, len(runs))
		}
		return nil
	})
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	for i, u := range runs {
		if err := outcomes[i].addTo(&result.Curves[u.curve].Points[u.point], u.nightmare, u.subject); err != nil {
			return nil, err
		}
	}
	for i := range result.Curves {
		for j := range result.Curves[i].Points {
			result.Curves[i].Points[j].finish(result.Numbers)
		}
	}
	return result, nil
}

// expectsSilence reports whether the subject has learned for silently missing features.
func (s *Subject) expectsSilence() bool {
	h := s.Model.About()
	return strings.Contains(h.Noise, "silent") || slices.ContainsFunc(h.Experts, func(x model.Expert) bool { return strings.Contains(x.Name, "silent") })
}

// columnsOf returns the highest column number plus one.
func columnsOf(examples []event.Example) (columns int) {
	for i := range examples {
		if x := examples[i].Features.Index; len(x) > 0 {
			columns = max(columns, int(x[len(x)-1])+1)
		}
	}
	return columns
}

// isRandom reports whether the repetitions of a nightmare can differ.
func isRandom(n Nightmare) bool {
	r, ok := base(n).(interface{ random() bool })
	return ok && r.random()
}

// addTo adds the outcome of one repetition to the Point p.
func (o *outcome) addTo(p *Point, n Nightmare, s *Subject) error {
	if o.untouched != "" {
		return &RequestError{fmt.Errorf("%s: no event has anything of %q: want %s", n, o.untouched, knownGroups(s.Schema))}
	}
	first, second := o.errors()
	p.Errors, p.seconds = append(p.Errors, first), append(p.seconds, second)
	if o.features > 0 {
		p.Deleted += 100 * o.dead / o.features
	}
	time := make([]float64, len(o.bins))
	for i := range o.bins {
		time[i], _ = o.bins[i].errors()
	}
	p.times = append(p.times, time)
	return nil
}

// knownGroups returns the valid names of groups, for an error message.
func knownGroups(s *event.Schema) string {
	var names []string
	for _, f := range s.Fields[1:] {
		for _, name := range []string{f.Group, f.Name} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return "numbers of columns, as in 1-8"
	}
	if more := len(names) - 20; more > 0 {
		names = append(names[:20], fmt.Sprintf("… (%d more)", more))
	}
	return "one of " + strings.Join(names, ", ")
}

func (p *Point) finish(ofNumbers bool) {
	n := float64(len(p.Errors))
	p.Deleted /= n
	mean, low, high := meanAndBounds(p.Errors)
	if second := stat.Mean(p.seconds, nil); ofNumbers {
		p.NumberErrors = &NumberErrors{measured(mean), measured(second)}
	} else {
		p.ClassErrors = &ClassErrors{mean, second}
	}
	if n < 2 {
		p.Time = p.times[0]
		return
	}
	if finite(low) && finite(high) {
		p.Low, p.High = &low, &high
	}
	at := make([]float64, len(p.times))
	for bin := range p.times[0] {
		for i, t := range p.times {
			at[i] = t[bin]
		}
		mean, low, high := meanAndBounds(at)
		p.Time, p.TimeLow, p.TimeHigh = append(p.Time, mean), append(p.TimeLow, low), append(p.TimeHigh, high)
	}
}

// meanAndBounds returns the mean of x and the 95 % confidence bounds of the mean.
func meanAndBounds(x []float64) (mean, low, high float64) {
	n := float64(len(x))
	if n < 2 {
		mean = stat.Mean(x, nil)
		return mean, mean, mean
	}
	mean, deviation := stat.MeanStdDev(x, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	half := t * stat.StdErr(deviation, n)
	return mean, mean - half, mean + half
}

// do runs the subject on its events once.
func (u *run) do(ctx context.Context, stage *Stage, binEvents int) (outcome, error) {
	var o outcome
	o.bins = make([]sums, (stage.Events+binEvents-1)/binEvents)
	var ofNumbers loss.Loss // nil for classification
	target := loss.LabelsOf(u.subject.loss())
	if target != loss.Sign {
		var err error
		if ofNumbers, err = loss.Parse(u.subject.loss()); err != nil {
			return o, err
		}
	}
	m := u.modelOf()
	scorer := &fixed{model: m, linear: linearOf(m), losses: model.LossesOf(m, stage.losses()), scores: make([]float64, max(m.About().Outputs, 2))}
	if _, ok := base(u.nightmare).(Groups); ok {
		if err := stage.grouped().Check(); err != nil {
			return o, &RequestError{err}
		}
	}
	event, all := Event{Stage: stage}, make([]float64, 2)
	for n := range u.subject.Examples {
		if n%256 == 0 && ctx.Err() != nil {
			return o, ctx.Err()
		}
		e := &u.subject.Examples[n]
		if e.Refused != nil {
			continue
		}
		event.Number, event.Class, event.Target, event.Left = n, e.Label, e.Target, 0
		decision, scores := scorer.predict(u, &event, e)
		o.features += float64(len(event.Dead))
		for _, dead := range event.Dead {
			if dead {
				o.dead++
			}
		}
		if e.Label < 0 {
			continue
		}
		bin := &o.bins[n/binEvents]
		if ofNumbers != nil {
			for _, s := range []*sums{&o.sums, bin} {
				s.numbers.Add(ofNumbers, e.Target, e.Weight, model.ValueOf(target, scores[0]), math.NaN(), math.NaN(), 1)
			}
			continue
		}
		all = slices.Grow(all[:0], len(scores))[:max(2, len(scores))]
		p := decision.Probabilities(scores, all)
		o.weight += e.Weight
		o.logLoss += e.Weight * measure.LogLoss(p[e.Label])
		bin.weight += e.Weight
		if decision.Predict(scores) != e.Label {
			if u.wrong != nil {
				u.wrong[n] = 1
			}
			o.wrong += e.Weight
			bin.wrong += e.Weight
		}
	}
	if o.weight+o.numbers.Weight == 0 {
		return o, errors.New("no event that can be scored has a label")
	}
	for name, m := range stage.members {
		if !m.touched {
			o.untouched = name
		}
	}
	return o, nil
}

// fixed scores events with a model.
type fixed struct {
	model  model.Model
	linear *model.Linear // the model if it is linear, otherwise nil
	losses *model.Losses

	raw    event.Example // the event after Distort
	x      event.Vec
	room   event.Vec // memory for X with more columns
	field  []uint16
	scores []float64
	left   event.Example // the event with lost features
}

// linearOf returns m if it is a linear model, otherwise nil.
func linearOf(m model.Model) *model.Linear {
	linear, _ := m.(*model.Linear)
	return linear
}

// predict returns the scores of an event in a nightmare, and the rule by which scores become a class. The scores are
// valid until the next call.
func (f *fixed) predict(u *run, ev *Event, e *event.Example) (model.Decision, []float64) {
	f.raw.Features, f.raw.Field = clone(e, f.raw.Features, f.raw.Field)
	ev.Model, ev.X, ev.Field = f.linear, f.raw.Features, f.raw.Field
	u.nightmare.Distort(ev)
	f.raw.Features, f.raw.Field, f.raw.Missing = ev.X, ev.Field, e.Missing
	f.x = f.model.Standardized(&f.raw, event.Vec{Index: f.x.Index[:0], Value: f.x.Value[:0]})
	if x := f.model.About().AppendZeros(&f.raw, f.x, f.room); x.Len() > f.x.Len() {
		f.x, f.room = x, f.x
	}
	scaler := &f.model.About().Scaler
	f.field = scaler.FieldsOf(&f.raw, f.x.Index, f.field) // columns that the Scaler adds have no field
	ev.X, ev.Field = f.x, f.field
	ev.Dead = slices.Grow(ev.Dead[:0], ev.X.Len())[:ev.X.Len()]
	clear(ev.Dead)
	u.nightmare.Kill(ev)
	left := ev.Left
	if left == 0 {
		left = 1 - deadFraction(ev.Dead, ev.X.Index)
	}
	scaler.Splines.Follow(ev.X.Index, ev.Dead)
	head := f.model.About()
	switch u.treatment {
	case Treatment{Loss: Found}, Treatment{Loss: NotFound}:
		return head.Decision(), f.model.Score(&f.raw, f.scores)
	case Treatment{Loss: u.treatment.Loss}:
		f.losses.Lose(u.treatment.Loss, &f.raw, uint64(ev.Number), f.x.Index, ev.Dead, &f.left)
		switch u.treatment.Loss {
		case model.LossStale:
			f.losses.Note(&f.raw)
		case model.LossDeclared:
			return head.Decision(), f.model.ScoreMissing(f.model.Standardized(&f.left, event.Vec{}), &f.left, f.scores)
		}
		return head.Decision(), f.model.Score(&f.left, f.scores)
	}
	for i, dead := range ev.Dead {
		if dead {
			f.x.Value[i] = 0
		} else if left > 0 {
			f.x.Value[i] /= left
		}
	}
	return head.Decision(), f.model.ScoreVec(f.x, f.scores)
}

// base returns the nightmare that a During limits, or n if n is not a During.
func base(n Nightmare) Nightmare {
	if d, ok := n.(During); ok {
		return d.Nightmare
	}
	return n
}

func deadFraction(dead []bool, columns []uint32) float64 {
	n, of := 0, 0
	for i, d := range dead {
		if columns[i] >= model.FirstBasisColumn {
			break // spline columns belong to numbers that are already counted
		}
		if of++; d {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// Error returns the fraction of labeled examples, weighted by importance, that a model classifies wrongly in a
// nightmare. Removed features are declared missing if that is possible. Error uses the first random draw with seed 0.
// It returns NaN if there is no labeled example, and for a regression model.
func Error(m *model.Linear, examples []event.Example, nightmare Nightmare) float64 {
	o, err := once(context.Background(), &run{nightmare: nightmare, treatment: Treatment{Loss: model.LossDeclared}}, m, examples, 0)
	if err != nil {
		return math.NaN()
	}
	return o.wrong / o.weight
}

// Mistakes returns a value for each example: 1 if a model classifies it wrongly in a nightmare, else 0. seed and repeat
// determine the random draw. Mistakes returns the same errors as a Replay, and an error for a regression model.
func Mistakes(ctx context.Context, m model.Model, examples []event.Example, nightmare Nightmare, t Treatment, seed uint64, repeat int) ([]byte, error) {
	if loss.IsRegression(m.About().Loss) {
		return nil, &RequestError{errors.New("mistakes are those of classes, and the model predicts numbers")}
	}
	u := run{nightmare: nightmare, treatment: t, repeat: repeat, wrong: make([]byte, len(examples))}
	_, err := once(ctx, &u, m, examples, seed)
	return u.wrong, err
}

// once runs one model on the events once.
func once(ctx context.Context, u *run, m model.Model, examples []event.Example, seed uint64) (outcome, error) {
	schema := m.About().Schema
	u.subject = &Subject{Examples: examples, Schema: schema, Model: m}
	stage := Stage{Schema: schema, Events: len(examples), Columns: columnsOf(examples), Seed: seed, Repeat: u.repeat}
	return u.do(ctx, &stage, max(1, len(examples)))
}
