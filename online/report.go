package online

// This file holds what a Learner reports: its measures and counts, their summary for people, and its alarms.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/cover"
	"blankout/online/watch"
)

// Report is what a Learner has measured and counted. The progressive measures are of predictions made before their event
// was learned, by the published weights. Sums are weighted by importance.
type Report struct {
	watch.Measures
	Events     uint64 // met with a weight above 0, unlabeled ones included
	Refused    uint64
	RefusedBy  map[event.Reason]watch.Refusals
	Mislabeled uint64 // of very small influence, see Config.MislabeledBelow
	Drift      watch.Drift
	Prior      watch.Prior
	Baselines  watch.Baselines
	Figures    map[string][]watch.Figure // of other Watchers, by their names
	// RefreshFailures counts refreshes that found no solution and changed nothing.
	RefreshFailures uint64
	Features        int // columns seen

	Noise   loss.Noise     // the noise level with the largest mixture weight of whole events
	Level   string         // its short name
	Experts []model.Expert // the levels, see model.Head
	// Forecast is that of the predictions. LevelsByShare lists the levels with the largest
	// shares by range of what is missing (see model.MissingBin); nil where all ranges are answered
	// as whole events are.
	Forecast      Forecast
	LevelsByShare []string
	// Sets says how sets, or intervals, have done by range of what is missing, CoverageByClass how the sets of each
	// class's events have.
	Sets            []cover.Report
	CoverageByClass []cover.ClassReport
	Health          *watch.Health // of the fields
	// ByAge has the error and loss by the age of the weights that answer.
	ByAge []measure.Aged

	// Positive names the class that Binary calls positive, "" before it is known.
	Positive string
}

// Report returns what the Learner has measured and counted so far.
func (l *Learner) Report() Report {
	w := l.watch.Clone()
	m := Report{
		Measures: w.Measures, Refused: w.Refused.Count, RefusedBy: w.Refused.By, Mislabeled: w.Mislabeled.Count,
		Drift: w.Drift.Report(), Prior: w.Prior, Baselines: l.watch.Baselines, Figures: l.watch.Figures(), RefreshFailures: l.refresh.Failures,
	}
	if m.Binary != nil {
		at := l.schema.PositiveClass(l.positiveName())
		if at == 0 {
			m.Binary = m.Binary.Flipped()
		}
		if at < len(l.schema.Classes) {
			m.Positive = l.schema.Classes[at]
		}
	}
	if m.Numbers != nil {
		m.Numbers.Loss = l.targetLoss()
	}
	m.Events, m.Features = l.events, l.table.Len()
	m.Noise, m.Health = l.levels[l.chosen].noise, l.health()
	m.Level = loss.ShortNoise(m.Noise.String())
	m.Forecast = l.served()
	m.Experts = l.experts()
	m.Sets, m.CoverageByClass = l.sets.Report(), l.sets.ByClass(l.schema.Classes)
	m.ByAge = l.aged.Report(l.set.numbers)
	if weights, ranges := l.byRange(); weights != nil {
		for _, i := range weights {
			name := m.Level
			if i > 0 {
				name = l.levels[l.shares.InForce[ranges[i-1]].Largest()].noise.String()
			}
			m.LevelsByShare = append(m.LevelsByShare, name)
		}
	}
	return m
}

// Alarms is what the monitors have raised so far. It is cheap to ask for after each batch of events.
type Alarms struct {
	Events     uint64 // as Report.Events
	Mislabeled uint64 // events
	Drift      watch.Drift
	Fields     uint64             // alarms about fields that were raised
	Changes    uint64             // that were raised or ended
	Latest     []watch.FieldAlarm // of these, the latest, oldest first
}

// Alarms returns the Alarms. Latest has no more than those after the first n changes.
func (l *Learner) Alarms(n uint64) Alarms {
	a := Alarms{Events: l.events, Mislabeled: l.watch.Mislabeled.Count, Drift: l.watch.Drift.Report(), Fields: l.watch.Health.Raised()}
	a.Latest, a.Changes = l.watch.Health.Changes(n, l.schema.Fields)
	return a
}

// health returns the condition of the fields.
func (l *Learner) health() *watch.Health {
	return l.watch.Health.Report(l.events, l.schema.Fields, l.errorForecast(), l.faults.detector.Repeats)
}

// Summary is a Report in a few numbers, for people and scripts. What is not a
// number yet is null. Errors are in percent.
type Summary struct {
	Error         *float64 `json:"progressive_error"`
	LogLoss       *float64 `json:"progressive_log_loss"` // nats
	RecentError   *float64 `json:"recent_error"`
	RecentLogLoss *float64 `json:"recent_log_loss"`
	// These are measured where there are two classes, and are about the positive one.
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
	Precision        *float64 `json:"precision"`
	Recall           *float64 `json:"recall"`
	CalibrationError *float64 `json:"calibration_error"`
	// Reliability is the diagram of the probabilities given to the positive class.
	Reliability []SummaryBin   `json:"reliability,omitempty"`
	Level       string         `json:"noise_level"`
	Experts     []model.Expert `json:"experts,omitempty"`
	// Forecast, LevelsByShare, Sets and ByAge are those of Report, see Report.Forecasts.
	Forecast      *Forecast      `json:"forecast,omitempty"`
	LevelsByShare []string       `json:"noise_levels_by_missing,omitempty"`
	Sets          []cover.Report `json:"sets,omitempty"`
	ByAge         []measure.Aged `json:"by_staleness,omitempty"`
	// CoverageByClass is that of Report.
	CoverageByClass []cover.ClassReport `json:"coverage_by_class,omitempty"`
	Drift           watch.Drift         `json:"drift"`
	Mislabeled      uint64              `json:"mislabeled"` // events whose label is probably wrong
	// Figures are those of Report.
	Figures map[string][]watch.Figure `json:"figures,omitempty"`
	// Where labels are numbers; errors are then in the targets' own unit, and Forecast
	// holds root mean squared errors.
	*NumbersSummary
	watch.BaselineReport
}

// NumbersSummary is Numbers in a few numbers.
type NumbersSummary struct {
	MAE        *float64 `json:"progressive_mae"`
	RMSE       *float64 `json:"progressive_rmse"`
	R2         *float64 `json:"r2"`
	Deviance   *float64 `json:"deviance"`
	Coverage   *float64 `json:"coverage"`
	RecentMAE  *float64 `json:"recent_mae"`
	RecentRMSE *float64 `json:"recent_rmse"`
}

// SummaryBin is a measure.Bin of the positive class.
type SummaryBin struct {
	Probability float64 `json:"probability"` // mean of what was given
	Right       float64 `json:"positive"`    // share of the positive class
	Weight      float64 `json:"weight"`      // of the events
}

// Summary sums m up.
func (m *Report) Summary() Summary {
	number := measure.Defined
	s := Summary{
		Error: number(100 * m.Total.Error()), LogLoss: number(m.Total.MeanLogLoss()),
		RecentError: number(100 * m.Window.Error()), RecentLogLoss: number(m.Window.MeanLogLoss()),
		BaselineReport: m.Baselines.Report(m.Numbers != nil),
		Level:          m.Level, Experts: m.Experts, LevelsByShare: m.LevelsByShare, Sets: m.Sets, CoverageByClass: m.CoverageByClass, ByAge: m.ByAge, Drift: m.Drift, Mislabeled: m.Mislabeled, Figures: m.Figures,
	}
	if m.Binary != nil {
		b := m.Binary
		s.AUC, s.AveragePrecision = number(b.AUC()), number(b.AveragePrecision())
		s.Precision, s.Recall, s.CalibrationError = number(b.Precision()), number(b.Recall()), number(b.CalibrationError())
		for _, bin := range b.Diagram() {
			s.Reliability = append(s.Reliability, SummaryBin(bin))
		}
	}
	if n := m.Numbers; n != nil {
		all, recent := n.Total.Report(n.Loss), n.Window.Report(n.Loss)
		s.NumbersSummary = &NumbersSummary{all.MAE, all.RMSE, all.R2, all.Deviance, all.Coverage, recent.MAE, recent.RMSE}
	}
	if m.Numbers == nil {
		s.ByAge = measure.AgedPercent(m.ByAge)
	}
	s.Forecast = m.Forecasts()
	return s
}

// Forecasts returns the Forecast with errors in percent, of regression root mean squared errors. It is nil before each point
// has been sampled; curves of groups are left out until then.
func (m *Report) Forecasts() *Forecast {
	f := m.Forecast
	if f.Level == "" || !wasSampled(f.Declared) || !wasSampled(f.Silent) {
		return nil
	}
	if !wasSampled(f.DeclaredGroups) || !wasSampled(f.SilentGroups) {
		f.DeclaredGroups, f.SilentGroups = nil, nil
	}
	if m.Numbers != nil {
		return &f
	}
	for _, points := range []*[]ForecastPoint{&f.Declared, &f.Silent, &f.DeclaredGroups, &f.SilentGroups} {
		*points = slices.Clone(*points)
		for i := range *points {
			(*points)[i].Error *= 100
		}
	}
	return &f
}

// wasSampled says whether no point is undefined.
func wasSampled(points []ForecastPoint) bool {
	return !slices.ContainsFunc(points, func(p ForecastPoint) bool { return p.Error-p.Error != 0 })
}

// ReadSummary returns the Summary that a checkpoint holds.
func ReadSummary(blocks []event.Block) (*Summary, error) {
	data, err := event.FindBlock(blocks, "summary")
	if err != nil {
		return nil, err
	}
	s := &Summary{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("block summary: %w", err)
	}
	return s, nil
}

// likelihood says that scores are meant as log-odds. Those of other losses give
// no probabilities that the class shares could be compared with.
func (c *Config) likelihood(set settings) bool {
	return strings.HasPrefix(set.loss.String(), "logistic") && c.Optimizer != "arow" || c.Calibrate == "on"
}

// measure counts in the scores that were predicted for an event before it is learned.
func (l *Learner) measure(scores []float64, d model.Decision, e *event.Example) {
	label, weight := e.Label, e.Weight
	j := d.Judge(scores, label)
	l.takeTold(scores, label, d, j)
	t := watch.Told{
		Number: l.events, After: l.earlier.learned, Time: e.Time, Label: label, Weight: weight, Learned: weight * l.classes[label], Loss: j.LogLoss,
		Predicted: j.Class, Part: l.shared(), Likelihood: l.likelihood,
	}
	if t.Score = scores[min(label, l.k-1)]; l.k == 1 {
		t.Probability = j.Probability
	}
	l.learnLink(scores, e)
	alarm := l.watch.Told(t)
	if l.k == 1 && l.labeled() == positiveAfter {
		l.positive = l.positiveName()
	}
	if alarm {
		l.drifted()
	}
}

// positiveAfter labeled events say which of two classes is the rarer.
const positiveAfter = 1000

func (l *answering) labeled() uint64 { return l.measured.Labeled() }

// positiveName returns the name of the positive one of two classes, "" for the second.
func (l *answering) positiveName() string {
	classes, events := l.schema.Classes, l.measured.Classes
	if l.positive == "" && !l.shared() && l.labeled() <= positiveAfter && len(classes) == 2 && len(events) == 2 && events[0] < events[1] && !event.UsualPair(classes[0], classes[1]) {
		return classes[0]
	}
	return l.positive
}

// threshold is the probability of the second of two classes above which an event counts as of
// it now, 0 where that is a half: the configured one is that of the positive class so far.
func (l *answering) threshold() float64 {
	switch {
	case l.config.Threshold == 0.5:
		return 0
	case l.schema.PositiveClass(l.positiveName()) == 0:
		return 1 - l.config.Threshold
	}
	return l.config.Threshold
}

// decision says what the present scores of classes mean.
func (l *answering) decision() model.Decision {
	return model.Decision{Link: l.linked(), Threshold: l.threshold()}
}

// calibrates says whether a Link is learned. Under auto it is not where class weights bend the scores on purpose.
func (l *answering) calibrates() bool {
	return !l.set.numbers && (l.config.Calibrate == "on" || l.config.Calibrate == "auto" && len(l.config.ClassWeight) == 0)
}

// linked returns the Link in force, nil where scores are taken as log-odds. With a horizon it is a cautious one.
func (l *answering) linked() *model.Link {
	if !l.calibrates() {
		return nil
	}
	link := l.link.Latest()
	if l.config.Calibrate == "auto" && !l.link.Helps() {
		link = nil
	}
	if l.config.ServingStaleness > 0 {
		return l.cautious(link)
	}
	return link
}
