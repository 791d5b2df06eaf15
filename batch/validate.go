package batch

// This file compares a live model with the exact solution of its problem.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Validation reports the distance of a live model from the exact solution of its problem, and the robustness of both.
// Both use the same events and the same Scaler. Errors are in percent and log-losses in nats. Undefined numbers are
// nil, never NaN.
//
// For regression, objectives are in the unit in which the targets are learned (ValidateConfig.Unit) and weights in the
// unit of the targets. The error of a forecast or failure is the root mean squared error, in the unit of the targets.
type Validation struct {
	// The caller reads the events and stores the report. The caller sets ID and the fields up to Pause, except for
	// Time, Events and Seconds.
	ID       string    `json:"id,omitempty"`
	Time     time.Time `json:"time"`
	Events   int       `json:"events"`       // number of labeled events in the exact problem
	Records  uint64    `json:"records"`      // number of records that the live model has processed
	Read     uint64    `json:"records_read"` // number of Records that were read again
	Coverage float64   `json:"coverage"`     // Read / Records
	// Source is the origin of the events: log, reservoir or sample. A reservoir is a uniform sample of the stream, used
	// if the log has been deleted. A sample is kept in the learner's memory, see ValidateConfig.HalfSample.
	Source string `json:"source"`
	// Window is true if the configuration limits the exact problem to the last events. Verified is true if the problem
	// has exactly the learned events: counts and sums of fingerprints agree.
	Window   bool          `json:"window"`
	Verified bool          `json:"verified"`
	Offsets  event.Offsets `json:"offsets,omitempty"`
	Seconds  float64       `json:"seconds"`       // seconds spent solving and measuring
	Reading  float64       `json:"read_seconds"`  // seconds spent reading the events again
	Pause    float64       `json:"pause_seconds"` // seconds spent waiting, to leave the processor to others

	// ByAge holds the losses of predictions by the staleness of the weights, over the whole stream: errors in percent,
	// or mean absolute errors. The caller sets it.
	ByAge []measure.StaleLoss `json:"by_staleness,omitempty"`

	// Summary states in a sentence how far the live weights are from the exact weights, and how much better or worse the
	// exact weights predict the newest events.
	Summary string `json:"summary"`
	// Alarm states in a sentence why the live weights are far worse than the exact weights. It is "" if they are not.
	// It does not depend on the policy.
	Alarm string `json:"alarm,omitempty"`

	Loss     string  `json:"loss"`
	Noise    string  `json:"noise"`
	Cost     float64 `json:"c"` // cost c; null means 0: no penalty
	Features int     `json:"features"`
	Classes  int     `json:"classes"`

	Live  ModelMeasures `json:"live"`
	Exact ModelMeasures `json:"exact"`
	// Certificate is an upper bound on Exact.Objective - minimum, nil if no bound is known.
	Certificate *float64 `json:"certificate"`
	Converged   bool     `json:"converged"`
	// Gap is Live.Objective - Exact.Objective. RelativeGap is Gap / Exact.Objective.
	Gap         float64  `json:"gap"`
	RelativeGap *float64 `json:"relative_gap"`
	// GapError is the standard error of RelativeGap. It is given for classification if the gap is measured on the
	// halves of a sample. It is 0 if the gap is over all events.
	GapError float64 `json:"relative_gap_error,omitempty"`
	// Distance is |w_live - w_exact|. Cosine is the cosine of the angle between them. Both ignore the intercepts.
	Distance    float64      `json:"distance"`
	Cosine      *float64     `json:"cosine"`
	Differences []Difference `json:"differences"`

	// MeasuredOn is holdout, learned or sample: the events on which ModelMeasures, robustness and failures are
	// measured. It is "learned" if no event was held out.
	MeasuredOn string `json:"measured_on"`
	Holdout    int    `json:"holdout"` // number of held-out events
	// Newest compares the models on the newest of the held-out or learned events. In a drifting stream the best model
	// over all events is not always the best model on the newest events. Newest is nil for fewer than two events.
	Newest *Newest `json:"newest"`
	// Deletions are the fractions of features that are deleted at random, for ModelMeasures.Robustness. The survivors are
	// scaled by the model's missing policy, as in predictions.
	Deletions []float64 `json:"deletions"`
	// Failures are the features, fields and groups whose loss increases the error most, the worst of each kind first.
	Failures []Failure `json:"failures"`
}

// summary returns the text of Summary.
func (v *Validation) summary() string {
	gap, side := "", "above"
	if v.RelativeGap != nil {
		gap = percent(*v.RelativeGap) + " % "
	}
	if v.GapError > 0 {
		gap += "(± " + percent(v.GapError) + ") "
	}
	if v.Gap < 0 {
		side = "below"
	}
	text := fmt.Sprintf("the current objective is %s%s the exact one", gap, side)
	if v.RelativeGap != nil && math.Abs(*v.RelativeGap) < v.GapError {
		text += ", no more than chance"
	}
	n := v.Newest
	if n == nil {
		return text
	}
	measures := [2]string{"log-loss", "error in %"}
	from, to := [2]float64{n.Live.LogLoss, n.Live.Error}, [2]float64{n.Exact.LogLoss, n.Exact.Error}
	if l, e := n.Live.Numbers, n.Exact.Numbers; l != nil && e != nil {
		measures = [2]string{"deviance", "RMSE"}
		from, to = [2]float64{l.Deviance, l.RMSE}, [2]float64{e.Deviance, e.RMSE}
	}
	return text + fmt.Sprintf("; with the exact weights, on the newest %d events %s, the %s would go from %s to %s (± %s) and the %s from %s to %s",
		n.Events, map[string]string{"holdout": "held out", "learned": "learned"}[n.MeasuredOn], measures[0], digits(from[0], 4), digits(to[0], 4), digits(n.StandardError, 2), measures[1], digits(from[1], 4), digits(to[1], 4))
}

// The live weights are far worse than the exact weights if they exceed all of these limits. alarmGap is for the gap
// relative to the objective. alarmTimes is for the ratio of the log-losses, and alarmNats for the difference of the
// log-losses in nats.
const alarmGap, alarmTimes, alarmNats = 1, 1.5, 0.1

// alarm returns the text of Alarm. If the live weights are better on the newest events, it returns "", because the
// stream has drifted.
func (v *Validation) alarm() string {
	if v.Newest != nil && v.Newest.Better == "live" {
		return ""
	}
	var parts []string
	if v.RelativeGap != nil && *v.RelativeGap-v.GapError > alarmGap {
		parts = append(parts, fmt.Sprintf("their objective is %s %% above the exact one", percent(*v.RelativeGap)))
	}
	if l, e := v.Live.LogLoss, v.Exact.LogLoss; l != nil && e != nil && *l > *e*alarmTimes && *l-*e > alarmNats {
		parts = append(parts, fmt.Sprintf("their log-loss is %s, that of the exact solution %s", digits(*l, 3), digits(*e, 3)))
	}
	if parts == nil {
		return ""
	}
	return "the current weights are far from the exact solution on the same events: " + strings.Join(parts, "; ")
}

// digits formats x with n significant digits. It uses an exponent only for absolute values of at least 1e15 or below
// 1e-6.
func digits(x float64, n int) string {
	text := strconv.FormatFloat(x, 'g', n, 64)
	if size := math.Abs(x); size >= 1e15 || size < 1e-6 || math.IsNaN(size) {
		return text
	}
	rounded, _ := strconv.ParseFloat(text, 64) // FormatFloat's output is a valid number
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// percent formats the absolute value of a fraction in percent, with two significant digits, at most four decimals and
// no exponent.
func percent(fraction float64) string {
	x, decimals := 100*math.Abs(fraction), 4
	for least := 1e-2; decimals > 0 && x >= least; least *= 10 {
		decimals--
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// Newest compares the models on the newest events: a fifth of the events that a Validation measures on, at least 100
// and at most 2,000.
type Newest struct {
	Events     int    `json:"events"`
	MeasuredOn string `json:"measured_on"` // holdout or learned
	Since      int64  `json:"since"`       // time of the oldest of these events, in milliseconds since 1970
	Live       Loss   `json:"live"`
	Exact      Loss   `json:"exact"`
	// Gain is the mean log-loss of the live model minus the mean log-loss of the exact solution. For regression it uses
	// measure.Deviance: the squared error for squared, twice the absolute error for absolute. StandardError is the
	// standard error of Gain, from the differences by event.
	Gain          float64 `json:"gain"`
	StandardError float64 `json:"standard_error"`
	// Better is exact or live if |Gain| exceeds StandardError, otherwise neither.
	Better string `json:"better"`
}

// Loss measures the predictions of a model for some events. Error and LogLoss are for classification, and 0 for
// regression.
type Loss struct {
	Error   float64             `json:"error"`
	LogLoss float64             `json:"log_loss"`
	Numbers *RegressionMeasures `json:"numbers,omitempty"`
}

// RegressionMeasures measures regression predictions, in the unit of the targets.
type RegressionMeasures struct {
	MAE      float64 `json:"mae"`
	RMSE     float64 `json:"rmse"`
	Deviance float64 `json:"deviance"` // mean of measure.Deviance
}

// ModelMeasures has the measures of one of the two models of a Validation: the live or the exact model.
type ModelMeasures struct {
	// Objective is the objective of one noise level (ValidateConfig.Level), on that level's own problem. All other
	// measures are of the whole live model, or of an exact solution with all columns.
	Objective        float64   `json:"objective"`
	Norm             float64   `json:"norm"` // |w|
	Intercept        []float64 `json:"intercept"`
	Error            *float64  `json:"error"`
	LogLoss          *float64  `json:"log_loss"`
	CalibrationError *float64  `json:"calibration_error"`
	AUC              *float64  `json:"auc"` // area under the ROC curve, for two classes
	AveragePrecision *float64  `json:"average_precision"`
	// Reliability is the reliability diagram of the probabilities of the predicted classes.
	Reliability []measure.Bin `json:"reliability"`
	// NumbersReport has the measures of a regression model. For regression, the classification measures are nil.
	*measure.NumbersReport
	Robustness []*float64 `json:"robustness"` // forecast error, by element of Deletions
	// GroupRobustness is the forecast error when fractions of the feature groups are missing, by element of Deletions.
	// It is left out if no groups are named and the noise has no groups.
	GroupRobustness []*float64 `json:"group_robustness,omitempty"`
	// SilentRobustness is the forecast of Robustness for silent failures, and SilentGroupRobustness the forecast of
	// GroupRobustness. Dead numbers read the dead values of the live model, and the model predicts as if the events
	// were complete.
	SilentRobustness      []*float64 `json:"silent_robustness"`
	SilentGroupRobustness []*float64 `json:"silent_group_robustness,omitempty"`
}

// Difference is a feature whose live and exact weights differ.
type Difference struct {
	Feature string  `json:"feature"`
	Class   string  `json:"class"` // class of the weight
	Live    float64 `json:"live"`
	Exact   float64 `json:"exact"`
}

// Failure is the error of the models when a feature, field or group is permanently missing. Its contribution to the
// score is then zero in every event.
type Failure struct {
	Kind     string  `json:"kind"` // feature, field or group
	Name     string  `json:"name"`
	Fraction float64 `json:"fraction"` // fraction of the events that have it
	Live     float64 `json:"live"`     // error of the live model without it
	Rise     float64 `json:"rise"`     // Live minus the current error, in percentage points
	Exact    float64 `json:"exact"`
}

// ValidateConfig holds the settings of Validate.
type ValidateConfig struct {
	// Config is the exact problem: the loss, noise and penalty of the live model. Multiclass and Copies are ignored.
	Config
	Deletions []float64 // deleted fractions, in [0, 1)
	Top       int       // number of reported differences, and of reported failures per kind
	// Sample is the largest number of events on which robustness and failures are measured. More events are sampled
	// evenly.
	Sample int
	// HalfSample means that the learned and the held-out events are two halves of one sample. The live model has
	// learned both halves. An exact solution overfits its half and is worse on the other half by the same amount. So
	// the reported objectives are the means over both halves.
	HalfSample bool
	// Level has the weights whose objective is compared with the minimum, if the live model mixes several noise levels.
	// Nil means the live model itself. Foreign reports whether only other noise levels have a column; the exact problem
	// leaves such columns out. Foreign may be nil.
	Level   *model.Linear
	Foreign func(column uint32) bool
	// Start is an earlier exact solution of the same learner. The solver starts from Start if it has a lower objective
	// than the live weights. Start may be nil.
	Start *model.Linear
	// Unit is the unit in which the live learner learns regression targets.
	Unit Unit
}

// Unit is the unit in which regression targets are learned. Real targets are learned as (y - Center)/Scale, and counts
// as y/Scale. Targets outside Low … High, in the original unit, are clipped. The zero value changes nothing.
type Unit struct {
	Center, Scale float64
	Low, High     float64
}

// DefaultValidateConfig returns the default settings of a report.
func DefaultValidateConfig() ValidateConfig {
	c := ValidateConfig{Config: DefaultConfig(), Top: 20, Sample: 10_000}
	for i := range 10 {
		c.Deletions = append(c.Deletions, float64(i)/10)
	}
	return c
}

// Evidence collects the events that a live model has learned, and held-out events. It stores them as the model's Scaler
// transforms them.
type Evidence struct {
	live    *model.Linear
	builder Builder
	data    *Data // all events; nil while events can be added
	rows    int
	learned []int
	heldOut []int   // rows of the held-out events
	times   []int64 // time of each row, in milliseconds
	x       event.Vec
	missing []unique.Handle[model.MissingCount]
	parts   []unique.Handle[string] // by row: model.ColumnRoles if columns are imputed, else ""
	levels  []int                   // noise level that predicts each row, see model.MissingHandling
}

// NewEvidence returns empty Evidence for a live model.
func NewEvidence(live *model.Linear) *Evidence {
	return &Evidence{live: live, builder: Builder{Splines: live.Scaler.Splines}}
}

// Learned copies an event that the live model has learned. The argument importance is the event's weight times the
// weight of its class. Do not pass unlabeled or rejected events.
func (v *Evidence) Learned(e *event.Example, importance float64) error {
	v.learned = append(v.learned, v.rows)
	return v.add(e, importance)
}

// HeldOut copies a held-out event, which the live model has not learned.
func (v *Evidence) HeldOut(e *event.Example) error {
	v.heldOut = append(v.heldOut, v.rows)
	return v.add(e, e.Weight)
}

func (v *Evidence) add(e *event.Example, importance float64) error {
	v.x = v.live.Standardized(e, event.Vec{Index: v.x.Index[:0], Value: v.x.Value[:0]})
	v.builder.Fields(e)
	v.missing = append(v.missing, unique.Make(v.live.CountMissing(e)))
	answer := v.live.Handling(e)
	if answer.Roles != nil {
		v.live.MarkOutliers(v.x, answer.Roles)
	}
	v.parts = append(v.parts, unique.Make(string(answer.Roles)))
	v.levels = append(v.levels, answer.Level)
	v.rows++
	v.times = append(v.times, e.Time)
	return v.builder.Add(&event.Example{Features: v.x, Label: e.Label, Target: e.Target, Weight: importance, Offset: e.Offset})
}

// linear is a linear scorer of Data. It holds, by output, the weights of the compact columns followed by the intercept.
type linear [][]float64

// ErrOneClass means that nothing can be learned: the events have fewer than two classes, or all targets are equal.
var (
	ErrOneClass = errors.New("only one class has been learned")
	errOneValue = fmt.Errorf("every learned target is the same (%w)", ErrOneClass)
)

// Outputs returns the number of outputs of the live model.
func (v *Evidence) Outputs() int { return v.live.Outputs }

// LearnedData returns the events that the live model has learned. No events can be added afterwards.
func (v *Evidence) LearnedData() *Data { return v.all().Subset(v.learned) }

// all returns all collected events. No events can be added afterwards.
func (v *Evidence) all() *Data {
	if v.data == nil {
		v.data = v.builder.Data(v.live.Schema)
	}
	return v.data
}

// alone returns Evidence for the problem of one noise level of the live model. It has the same events without the
// columns that foreign reports. It returns v if foreign reports no column.
func (v *Evidence) alone(level *model.Linear, foreign func(column uint32) bool) *Evidence {
	all := v.all()
	if foreign == nil || !slices.ContainsFunc(all.columns, foreign) {
		return v
	}
	return &Evidence{live: level, data: all.without(foreign), rows: v.rows, learned: v.learned, heldOut: v.heldOut,
		times: v.times, missing: v.missing, parts: v.parts, levels: v.levels}
}

// Exact is the exact solution of the problem of a live model.
type Exact struct {
	*model.Linear
	Live, Objective float64 // objectives of the live and of the exact weights
	Gap             float64 // upper bound on Objective - minimum, +Inf if unknown
	Converged       bool
	Iterations      int
	live, weights   linear // live and exact weights by output
	loss            string
}

// Exact solves the exact problem on the learned events. The model live may differ from the model of NewEvidence if it
// has the same Schema, Scaler and statistics. No events can be added afterwards. The error is ErrOneClass, an error in
// the configuration, or the error of ctx.
func (v *Evidence) Exact(ctx context.Context, live *model.Linear, c ValidateConfig) (*Exact, error) {
	noise, err := loss.ParseNoise(c.Noise)
	if err != nil {
		return nil, err
	}
	all := v.all()
	if loss.IsSilent(noise) {
		all.SetDead(live.DeadStandardized)
	}
	learned := v.LearnedData()
	u := v.unit(c)
	if u != nil {
		c.Loss = u.standardLoss()
	}
	build, name, err := c.objective(noise)
	if err = cmp.Or(err, all.checkSilent(noise)); err != nil {
		return nil, err
	}
	if u != nil {
		name = u.loss.String()
	}
	own := v.weights(all, live, c.Config)
	now, earlier := u.standardWeights(all, own, c.Config), linear(nil)
	if c.Start != nil {
		earlier = u.standardWeights(all, v.weights(all, c.Start, c.Config), c.Config)
	}
	objective := func(d *Data, k int) (Objective, error) {
		problem, ok := d.againstTheRest(k, len(now))
		if u != nil {
			problem, ok = u.problem(d)
		}
		if !ok {
			return nil, nil
		}
		return build(d, problem, c.Config)
	}
	e, err := solveOutputs(ctx, all, now, earlier, c, func(k int) (Objective, error) { return objective(learned, k) })
	if err == nil && c.HalfSample {
		err = e.onHalves([2]*Data{learned, all.Subset(v.heldOut)}, now, objective)
	}
	if u != nil && errors.Is(err, ErrOneClass) {
		err = errOneValue
	}
	if err != nil {
		return nil, err
	}
	e.live, e.loss = own, name
	outside := v.outside(all, live, c.Config)
	if u != nil {
		outside /= u.slope() * u.slope()
		e.weights = u.own(all, e.weights)
	}
	e.Live += outside
	e.Linear = v.model(all, live, e.weights, c.Noise, name)
	if u != nil {
		e.Residual = e.residual(u, v.measured(v.learned))
	}
	return e, nil
}

// solveOutputs solves the problem of every output. It starts from the current weights of the output or from earlier
// weights (which may be nil), whichever have the lower objective.
func solveOutputs(ctx context.Context, d *Data, now, earlier linear, c ValidateConfig, objective func(k int) (Objective, error)) (*Exact, error) {
	e := &Exact{Converged: true, weights: make(linear, len(now))}
	solved := 0
	for k := range now {
		o, err := objective(k)
		if err != nil {
			return nil, err
		}
		if o == nil {
			// Output k has examples on one side only, so nothing can be learned.
			e.weights[k] = make([]float64, len(now[k]))
			copy(e.weights[k][d.Columns():], now[k][d.Columns():])
			continue
		}
		solved++
		value := o.ValueGrad(now[k], nil)
		opt := Options{Solver: c.Solver, Tol: c.Tol, MaxIterations: c.MaxIterations, Start: now[k], Progress: c.Progress}
		if earlier != nil && k < len(earlier) && o.ValueGrad(earlier[k], nil) < value {
			opt.Start = earlier[k]
		}
		solution, err := Solve(ctx, o, opt)
		if err != nil {
			return nil, fmt.Errorf("solving the exact problem: %w", err)
		}
		e.weights[k] = solution.W
		e.Live += value
		e.Objective += solution.Objective
		e.Gap += solution.Gap
		e.Converged = e.Converged && solution.Converged
		e.Iterations += solution.Iterations
	}
	if solved == 0 {
		return nil, ErrOneClass
	}
	return e, nil
}

// onHalves replaces the objectives by their means over two halves of the events. It uses the outputs that both halves
// can learn.
func (e *Exact) onHalves(halves [2]*Data, now linear, objective func(d *Data, k int) (Objective, error)) error {
	e.Live, e.Objective = 0, 0
	told := false
	for k := range now {
		a, err := objective(halves[0], k)
		if err != nil {
			return err
		}
		b, err := objective(halves[1], k)
		if err != nil {
			return err
		}
		if a == nil || b == nil {
			continue
		}
		told = true
		e.Live += (a.ValueGrad(now[k], nil) + b.ValueGrad(now[k], nil)) / 2
		e.Objective += (a.ValueGrad(e.weights[k], nil) + b.ValueGrad(e.weights[k], nil)) / 2
	}
	if !told {
		return ErrOneClass
	}
	return nil
}

// Validate solves the exact problem on the learned events and compares the live model with the solution. It also
// returns the exact solution, as a model with the live Scaler. No events can be added afterwards. Errors are as for
// Exact.
func (v *Evidence) Validate(ctx context.Context, c ValidateConfig) (*Validation, *Exact, error) {
	begin := time.Now()
	rest := func(i int) {
		if c.Pause != nil && i%256 == 0 {
			c.Pause()
		}
	}
	level := cmp.Or(c.Level, v.live)
	solution, err := v.Exact(ctx, level, c)
	if err != nil {
		return nil, nil, err
	}
	all, alone, least := v.all(), v.alone(level, c.Foreign), solution
	if alone != v {
		if least, err = alone.Exact(ctx, level, c); err != nil {
			return nil, nil, err
		}
	}
	live, exact := solution.live, solution.weights
	if c.Level != nil {
		live = v.weights(all, v.live, c.Config)
	}
	r := &Validation{Time: begin.UTC(), Loss: solution.loss, Noise: c.Noise, Cost: c.Cost, Features: all.Features(),
		Events: len(v.learned), Holdout: len(v.heldOut), Deletions: c.Deletions, Converged: solution.Converged && least.Converged}
	if c.L2 == 0 {
		r.Cost = 0
	}
	for _, class := range all.Schema.Classes {
		if class != "" {
			r.Classes++
		}
	}
	r.Live.Objective, r.Exact.Objective = least.Live, least.Objective
	r.Certificate, r.Gap = measure.Defined(least.Gap), r.Live.Objective-r.Exact.Objective
	r.RelativeGap = measure.Defined(r.Gap / math.Abs(r.Exact.Objective))
	v.compare(r, all, live, exact, c)

	v.all().SetDead(v.live.DeadStandardized)
	rows := v.heldOut
	r.MeasuredOn = "holdout"
	if len(rows) == 0 {
		rows, r.MeasuredOn = v.learned, "learned"
	} else if c.HalfSample {
		r.MeasuredOn = "sample"
	}
	measured, sample := v.measured(rows), v.measured(evenly(rows, c.Sample))
	u := v.unit(c)
	groups, err := v.groups(sample.Data, c.Noise)
	if err != nil {
		return nil, nil, err
	}
	var liveDecides, exactDecides linear
	for _, side := range []struct {
		to      *ModelMeasures
		w       linear
		m       *model.Linear
		decides *linear
	}{{&r.Live, live, v.live, &liveDecides}, {&r.Exact, exact, solution.Linear, &exactDecides}} {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		side.to.Intercept = side.m.Intercept
		if u != nil {
			side.to.NumbersReport = side.w.measureNumbers(measured, side.m, u, rest)
		} else {
			side.w.measure(measured, side.m, side.to, rest)
		}
		*side.decides = side.w.decided(all, side.m)
		if len(c.Deletions) == 0 {
			continue
		}
		side.to.Robustness = v.byLevel(*side.decides, side.m, c, func(w linear) []float64 { return w.robustness(sample, c.Deletions, rest) })
		if groups != nil {
			side.to.GroupRobustness = v.byLevel(*side.decides, side.m, c, func(w linear) []float64 { return w.groupRobustness(sample, groups, c.Deletions, rest) })
			side.to.SilentGroupRobustness = allDefined(side.decides.silentRobustness(sample, groups, c.Deletions, rest))
		}
		side.to.SilentRobustness = allDefined(side.decides.silentRobustness(sample, nil, c.Deletions, rest))
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	r.Newest = v.newest(all, live, exact, solution.Linear, u)
	if r.Newest != nil && c.HalfSample {
		r.Newest.MeasuredOn = "learned"
		if both := alone.compareOn(slices.Concat(v.learned, v.heldOut), alone.all(), least.live, least.weights, least.Linear, u); both != nil && u == nil {
			r.GapError = both.StandardError * float64(v.live.Events) / math.Abs(r.Exact.Objective)
		}
	}
	r.Failures = v.failures(sample, liveDecides, exactDecides, c.Top, rest)
	r.Summary, r.Alarm = r.summary(), r.alarm()
	r.Seconds = time.Since(begin).Seconds()
	return r, solution, nil
}

// byLevel returns a forecast error for each deleted fraction of c. The function of computes the errors for given
// weights; w are the weights of m. If m predicts with another noise level at a fraction of missing features, byLevel
// uses the weights of that level for this fraction.
func (v *Evidence) byLevel(w linear, m *model.Linear, c ValidateConfig, of func(w linear) []float64) (out []*float64) {
	d := v.all()
	known := m.Missing != nil && (m.Missing.ColumnsCanBeMissing || slices.ContainsFunc(m.Schema.Fields, func(f event.Field) bool { return f.Kind.Named() }))
	made := [][]float64{of(w)}
	for i := range m.Levels {
		made = append(made, nil)
		if known && m.Missing.Levels != nil {
			level := m.At(model.MissingHandling{Level: i + 1})
			made[i+1] = of(v.weights(d, level, c.Config).decided(d, level))
		}
	}
	for k, fraction := range c.Deletions {
		e := made[0][k]
		if known && m.Missing.Levels != nil && fraction > 0 {
			e = made[m.Missing.Levels[model.MissingBin(fraction)]][k]
		}
		out = append(out, measure.Defined(e))
	}
	return out
}

func allDefined(values []float64) (out []*float64) {
	for _, x := range values {
		out = append(out, measure.Defined(x))
	}
	return out
}

// groups returns the groups whose loss is forecast, or nil if there are no groups.
func (v *Evidence) groups(d *Data, noise string) (*units, error) {
	n, err := loss.ParseNoise(noise)
	if err != nil {
		return nil, err
	}
	silent, _ := n.(loss.Silent)
	if !loss.IsGrouped(n) && !silent.Groups && !model.NewGrouping(d.Schema).Declared() {
		return nil, nil
	}
	return d.units()
}

// weights returns the weights of a model for the columns of d.
func (v *Evidence) weights(d *Data, m *model.Linear, c Config) linear {
	w := make(linear, m.Outputs)
	n := d.Columns()
	if c.Intercept != NoIntercept || m.Target() != loss.Sign { // regression needs an intercept, because the unit of the targets has a center
		n++
	}
	for k := range w {
		w[k] = make([]float64, n)
		for j := range d.Columns() {
			w[k][j] = m.Weight(d.Column(j), k)
		}
		if n > d.Columns() {
			w[k][d.Columns()] = m.Intercept[k]
		}
	}
	return w
}

// outside returns the penalty of the live weights whose columns occur in no event of d. The exact weights of these
// columns are zero.
func (v *Evidence) outside(d *Data, live *model.Linear, c Config) float64 {
	_, l2 := c.Penalization(1)
	sum := 0.0
	eachOutside(live, d, func(w float64) { sum += w * w })
	return l2 * sum
}

func eachOutside(live *model.Linear, d *Data, f func(w float64)) {
	for i := range live.Rows.Len() {
		column, _ := live.Rows.Column(i)
		if _, ok := slices.BinarySearch(d.columns, column); ok {
			continue
		}
		for k := range live.Outputs {
			f(live.Weight(column, k))
		}
	}
}

// againstTheRest returns the problem of output k of a model with the given number of outputs. It returns false if all
// labels are on one side.
func (d *Data) againstTheRest(k, outputs int) (p Subproblem, ok bool) {
	positive := k
	if outputs == 1 {
		positive = 1
	}
	p = Subproblem{Positive: positive, Negative: -1, Y: d.signs(positive)}
	least, most := 1.0, -1.0
	for i, y := range p.Y {
		if d.Weight(i) > 0 && !math.IsNaN(y) {
			least, most = min(least, y), max(most, y)
		}
	}
	return p, least < most
}

// compare sets the fields of r that compare the weights.
func (v *Evidence) compare(r *Validation, d *Data, live, exact linear, c ValidateConfig) {
	var ll, ee, le, distance float64
	var order []Difference
	name := v.live.Namer()
	type at struct{ k, j int }
	var apart []at
	for k := range live {
		for j := range d.Columns() {
			a, b := live[k][j], exact[k][j]
			ll, ee, le, distance = ll+a*a, ee+b*b, le+a*b, distance+(a-b)*(a-b)
			if a != b {
				apart = append(apart, at{k, j})
			}
		}
	}
	eachOutside(v.live, d, func(w float64) { ll, distance = ll+w*w, distance+w*w })
	by := func(p at) float64 { return math.Abs(live[p.k][p.j] - exact[p.k][p.j]) }
	slices.SortStableFunc(apart, func(a, b at) int { return cmp.Compare(by(b), by(a)) })
	for _, p := range apart[:min(len(apart), c.Top)] {
		positive := p.k
		if len(live) == 1 {
			positive = 1
		}
		order = append(order, Difference{name(d.Column(p.j)), v.class(positive), live[p.k][p.j], exact[p.k][p.j]})
	}
	r.Live.Norm, r.Exact.Norm, r.Distance = math.Sqrt(ll), math.Sqrt(ee), math.Sqrt(distance)
	r.Cosine, r.Differences = measure.Defined(le/math.Sqrt(ll*ee)), order
}

func (v *Evidence) class(k int) string {
	if k < len(v.live.Schema.Classes) {
		return v.live.Schema.Classes[k]
	}
	return ""
}

// model returns the weights w as a model with the live Scaler and its statistics.
func (v *Evidence) model(d *Data, live *model.Linear, w linear, noise, loss string) *model.Linear {
	head := live.Alone().Head
	k := len(w)
	head.Loss, head.Noise, head.Trained, head.Link, head.Stale = loss, noise, "validate", nil, ""
	head.Events = uint64(len(v.learned))
	head.Intercept = make([]float64, k)
	head.Layout = model.Layout{Width: k, Stats: -1}
	if live.Layout.Stats >= 0 {
		head.Layout = model.Layout{Width: k + model.ScalerWidth, Stats: k}
	}
	m := (&model.Linear{Head: head, Rows: model.NewTable(head.Layout.Width)}).WithCovariance(head.Covariance)
	live.CopyStats(m.Rows, k)
	for i := range w {
		for j := range d.Columns() {
			if x := w[i][j]; x != 0 {
				m.Rows.Touch(d.Column(j))[i] = x
			}
		}
		m.Intercept[i] = w.intercept(d, i)
	}
	return m
}

// decided returns a scorer whose score is positive if m predicts the positive class, for a model with one output. The
// scorer includes the threshold of m, because the effect of deletions depends on the threshold.
func (w linear) decided(d *Data, m *model.Linear) linear {
	cut := m.Decision().Cut()
	if len(w) != 1 || cut == 0 {
		return w
	}
	out := make([]float64, d.Columns()+1)
	copy(out, w[0])
	out[d.Columns()] -= cut
	return linear{out}
}

// scores writes the scores of the weights for event i to out. The scores are computed with the model's missing
// policies.
func (w linear) scores(d measured, i int, out []float64) []float64 {
	row, scale := d.Row(i), d.scale(i)
	for k := range w {
		out[k] = scale*row.Dot(w[k]) + w.intercept(d.Data, k)
	}
	return out
}

// answers writes the scores of m, which has these weights, for event i to out. It imputes the numbers that m imputes.
func (w linear) answers(d measured, i int, m *model.Linear, out []float64) []float64 {
	if d.parts[i] == "" && (d.level[i] == 0 || m.Levels == nil) {
		return w.scores(d, i, out)
	}
	row := d.Row(i)
	var x event.Vec
	for j, c := range row.Index {
		x.Index, x.Value = append(x.Index, d.Column(int(c))), append(x.Value, row.At(j))
	}
	return m.AnswerOutputs(x, d.answer(i), out)
}

func (w linear) intercept(d *Data, k int) float64 {
	if len(w[k]) > d.Columns() {
		return w[k][d.Columns()]
	}
	return 0
}

func (w linear) measure(d measured, m *model.Linear, to *ModelMeasures, rest func(row int)) {
	measures := measure.NewEvaluation(len(d.Schema.Classes))
	scores, chances := make([]float64, len(w)), make([]float64, max(2, len(w)))
	for i := range d.Rows() {
		rest(i)
		s := w.answers(d, i, m, scores)
		chances = m.Probabilities(s, chances)
		measures.Add(d.Label(i), d.Weight(i), s, m.Predict(s), chances)
	}
	r := measures.Report()
	to.Error, to.LogLoss, to.CalibrationError = r.Error, r.LogLoss, r.CalibrationError
	to.AUC, to.AveragePrecision, to.Reliability = r.AUC, r.AveragePrecision, r.Reliability
}

// newest compares the models on the newest events.
func (v *Evidence) newest(all *Data, live, exact linear, solution *model.Linear, u *unit) *Newest {
	rows, on := slices.Clone(v.heldOut), "holdout"
	if len(rows) == 0 {
		rows, on = slices.Clone(v.learned), "learned"
	}
	if len(rows) < 2 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(v.times[a], v.times[b]) })
	rows = rows[max(0, len(rows)-max(100, min(len(rows)/5, 2000))):]
	r := v.compareOn(rows, all, live, exact, solution, u)
	if r != nil {
		r.MeasuredOn, r.Since = on, v.times[rows[0]]
	}
	return r
}

// compareOn compares the models on the given rows. It returns nil if the rows have no weight.
func (v *Evidence) compareOn(rows []int, all *Data, live, exact linear, solution *model.Linear, u *unit) *Newest {
	d := v.measured(rows)
	r := &Newest{Events: len(rows), Better: "neither"}
	// Both models have the live calibration of probabilities.
	calibrated := *solution
	calibrated.Link = v.live.Link
	scores, chances := make([]float64, len(live)), make([]float64, max(2, len(live)))
	total, differences, numbers := 0.0, make([]float64, len(rows)), [2]measure.Numbers{}
	for i, row := range rows {
		label, weight := all.Label(row), all.Weight(row)
		total += weight
		for _, side := range []struct {
			w       linear
			m       *model.Linear
			to      *Loss
			numbers *measure.Numbers
			sign    float64
		}{{live, v.live, &r.Live, &numbers[0], 1}, {exact, &calibrated, &r.Exact, &numbers[1], -1}} {
			s := side.w.answers(d, i, side.m, scores)
			if u != nil {
				y, value := all.Target(row), side.m.Value(s[0])
				side.numbers.Add(u.loss, y, weight, value, math.NaN(), math.NaN(), 1)
				differences[i] += side.sign * measure.Deviance(u.loss, y, value)
				continue
			}
			chances = side.m.Probabilities(s, chances)
			l := 0.0
			if label < len(chances) {
				l = measure.LogLoss(chances[label])
			}
			side.to.LogLoss += weight * l
			differences[i] += side.sign * l
			if side.m.Predict(s) != label {
				side.to.Error += 100 * weight
			}
		}
	}
	if total == 0 {
		return nil
	}
	for i, side := range []*Loss{&r.Live, &r.Exact} {
		side.Error /= total
		side.LogLoss /= total
		if n := &numbers[i]; u != nil {
			side.Numbers = &RegressionMeasures{n.MAE(), n.RMSE(), n.Deviance / total}
		}
	}
	if r.Gain = r.Live.LogLoss - r.Exact.LogLoss; u != nil {
		r.Gain = r.Live.Numbers.Deviance - r.Exact.Numbers.Deviance
	}
	for i, row := range rows {
		r.StandardError += math.Pow(all.Weight(row)*(differences[i]-r.Gain), 2)
	}
	n := float64(len(rows))
	r.StandardError = math.Sqrt(r.StandardError*n/(n-1)) / total
	switch {
	case r.Gain > r.StandardError:
		r.Better = "exact"
	case -r.Gain > r.StandardError:
		r.Better = "live"
	}
	return r
}

// evenly returns n of the rows, sampled evenly. It returns all rows if there are at most n rows or if n is 0.
func evenly(rows []int, n int) []int {
	if n <= 0 || len(rows) <= n {
		return rows
	}
	out := make([]int, n)
	for i := range out {
		out[i] = rows[int64(i)*int64(len(rows))/int64(n)]
	}
	return out
}

// failures returns how much the error increases when a feature, named field or group is missing. The failures with the
// largest increase are first.
func (v *Evidence) failures(d measured, live, exact linear, top int, rest func(row int)) []Failure {
	name := v.live.Namer()
	fields := v.live.Schema.Fields
	part := make([]int, d.Columns()) // field of each column, 0 for a column without a field name
	for j := range part {
		if id := int(d.fields.of(d.splines.Source(d.Column(j)))); id < len(fields) {
			part[j] = id
		}
	}
	factors := v.live.Schema.Factors()
	var groups []string
	groupOf := make([]int, len(fields)) // 1 + index of the group, by field
	for id, f := range fields {
		if f.Group == "" {
			continue
		}
		if i := slices.Index(groups, f.Group); i >= 0 {
			groupOf[id] = i + 1
		} else {
			groups = append(groups, f.Group)
			groupOf[id] = len(groups)
		}
	}
	var out []Failure
	kind := func(kind string, parts int, of func(column int) [2]int, name func(int) string) {
		a, b := live.ablate(d, parts, of, rest), exact.ablate(d, parts, of, rest)
		var list []Failure
		for i := range parts {
			if a.held[i] > 0 {
				list = append(list, Failure{kind, name(i), a.held[i] / a.total, a.error(d, i), a.error(d, i) - a.error(d, -1), b.error(d, i)})
			}
		}
		slices.SortStableFunc(list, func(x, y Failure) int { return cmp.Compare(y.Live, x.Live) })
		out = append(out, list[:min(len(list), top)]...)
	}
	if len(groups) > 0 {
		kind("group", len(groups), func(c int) [2]int {
			f := factors[part[c]]
			return [2]int{groupOf[f[0]] - 1, groupOf[f[1]] - 1}
		}, func(i int) string { return groups[i] })
	}
	if slices.ContainsFunc(part, func(id int) bool { return id != 0 }) {
		kind("field", len(fields), func(c int) [2]int {
			f := factors[part[c]]
			return [2]int{cmp.Or(f[0], -1), cmp.Or(f[1], -1)}
		}, func(i int) string { return fields[i].Name })
	}
	numbers := map[uint32]int{} // compact column of each number, by column
	kind("feature", d.Columns(), func(c int) [2]int {
		column := d.Column(c)
		if column < model.FirstBasisColumn {
			numbers[column] = c
		} else if of, ok := numbers[d.splines.Source(column)]; ok {
			c = of // the number comes before its spline columns
		}
		return [2]int{c, c}
	}, func(i int) string { return name(d.Column(i)) })
	return out
}

// losses holds the total weight of the events and their total cost (see measured.cost). For each part of the columns,
// held is the weight of the events that have the part. For each part, increase is the increase of the cost when the
// part is missing.
type losses struct {
	total, cost    float64
	held, increase []float64
}

// error returns the error without part i, or with all parts if i < 0.
func (l *losses) error(d measured, i int) float64 {
	if i < 0 {
		return d.error(l.cost, l.total)
	}
	return d.error(l.cost+l.increase[i], l.total)
}

// ablate measures, for each of the given number of parts, the error when the part is missing. The function of returns
// the two parts to which a column belongs. A negative number means no part. If both parts are equal, the column counts
// once.
func (w linear) ablate(d measured, parts int, of func(column int) [2]int, rest func(row int)) losses {
	l := losses{held: make([]float64, parts), increase: make([]float64, parts)}
	k := len(w)
	scores, less := make([]float64, k), make([]float64, k)
	lost := make([]float64, parts*k) // all zero between rows
	var seen []int
	for i := range d.Rows() {
		rest(i)
		weight := d.Weight(i)
		row, scale := d.Row(i), d.scale(i)
		was := d.cost(i, w.scores(d, i, scores))
		l.total += weight
		l.cost += weight * was
		seen = seen[:0]
		for j, c := range row.Index {
			x, belongs := row.At(j), of(int(c))
			for side, p := range belongs {
				if p < 0 || side == 1 && p == belongs[0] {
					continue
				}
				if !slices.Contains(seen[max(0, len(seen)-1):], p) { // equal parts are mostly adjacent
					seen = append(seen, p)
				}
				for o := range w {
					lost[p*k+o] += scale * x * w[o][c]
				}
			}
		}
		slices.Sort(seen)
		seen = slices.Compact(seen)
		for _, p := range seen {
			for o := range less {
				less[o] = scores[o] - lost[p*k+o]
				lost[p*k+o] = 0
			}
			l.held[p] += weight
			l.increase[p] += weight * (d.cost(i, less) - was)
		}
	}
	return l
}
