package online

// This file holds what a Learner reports: its measures and counts, their summary for people, and its alarms.

import (
	"encoding/json"
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/monitor"
	"blankout/online/watch"
)

// Report is what a Learner has measured and counted.
type Report struct {
	monitor.Report
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
}

// Alarms is what the monitors have raised so far. It is cheap to ask for after each batch of events.
type Alarms struct {
	monitor.Alarms
	Events uint64 // as Report.Events
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
	Forecast      *Forecast          `json:"forecast,omitempty"`
	LevelsByShare []string           `json:"noise_levels_by_missing,omitempty"`
	Sets          []conformal.Report `json:"sets,omitempty"`
	ByAge         []measure.Aged     `json:"by_staleness,omitempty"`
	// CoverageByClass is that of Report.
	CoverageByClass []conformal.ClassReport `json:"coverage_by_class,omitempty"`
	Drift           watch.Drift             `json:"drift"`
	Mislabeled      uint64                  `json:"mislabeled"` // events whose label is probably wrong
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
		Level:          m.Level, Experts: m.Experts, LevelsByShare: m.LevelsByShare, Sets: m.Sets, CoverageByClass: m.CoverageByClass, ByAge: m.ByAge, Drift: m.Drift, Mislabeled: m.Mislabeled,
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
