package online

// This file has the types of a Learner's reports: all measures and counts, their summary for users, and the alarms.

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
)

// Report holds all measures and counts of a Learner.
type Report struct {
	health.Report
	// RefreshFailures is the number of IRLS steps that had no solution. Such a step changes nothing.
	RefreshFailures uint64
	Features        int // number of features that have weights
	Rows            int // number of rows of weights: those of the features and of the knots of splines

	Noise   loss.Noise     // the noise level with the largest mixture weight for complete events
	Level   string         // short name of Noise
	Experts []model.Expert // experts with their mixture weights, see model.Head
	// Forecast is the expected error by missing fraction. LevelsByMissing has the noise level with the largest mixture
	// weight for each range of the missing fraction (see model.MissingBin). It is nil if all ranges use the weights for
	// complete events.
	Forecast        Forecast
	LevelsByMissing []string
}

// Alarms holds the alarms of all monitors. It is cheap to compute, so it can be requested after each batch of events.
type Alarms struct {
	health.Alarms
	Events uint64 // as in Report
}

// Summary is a short form of Report, for users and scripts. Undefined numbers are null. Errors are in percent.
type Summary struct {
	Error         *float64 `json:"progressive_error"`
	LogLoss       *float64 `json:"progressive_log_loss"` // in nats
	RecentError   *float64 `json:"recent_error"`
	RecentLogLoss *float64 `json:"recent_log_loss"`
	// AUC and AveragePrecision are measures of the positive class. They are null unless there are two classes.
	AUC              *float64 `json:"auc"`
	AveragePrecision *float64 `json:"average_precision"`
	Precision        *float64 `json:"precision"`
	Recall           *float64 `json:"recall"`
	CalibrationError *float64 `json:"calibration_error"`
	// Reliability is the reliability diagram of the positive class.
	Reliability []SummaryBin   `json:"reliability,omitempty"`
	Level       string         `json:"noise_level"`
	Experts     []model.Expert `json:"experts,omitempty"`
	// Forecast is the result of Report.Forecasts. LevelsByMissing is the same as in Report.
	Forecast        *Forecast           `json:"forecast,omitempty"`
	LevelsByMissing []string            `json:"noise_levels_by_missing,omitempty"`
	Sets            []measure.Coverage  `json:"sets,omitempty"`
	ByAge           []measure.StaleLoss `json:"by_staleness,omitempty"`
	// CoverageByClass is the same as in Report.
	CoverageByClass []measure.ClassCoverage `json:"coverage_by_class,omitempty"`
	Drift           health.Drift            `json:"drift"`
	Mislabeled      uint64                  `json:"mislabeled"` // number of events whose label is probably wrong
	// NumbersSummary is only for regression. Its errors are in the unit of the targets. For regression, Forecast has
	// root mean squared errors.
	*NumbersSummary
	health.BaselineReport
}

// NumbersSummary is a short form of the measures of a regression.
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
	Probability float64 `json:"probability"` // mean predicted probability
	Right       float64 `json:"positive"`    // fraction of the positive class
	Weight      float64 `json:"weight"`      // total weight of the events
}

// Summary returns the short form of a Report.
func (m *Report) Summary() Summary {
	number := measure.Defined
	s := Summary{
		Error: number(100 * m.Total.Error()), LogLoss: number(m.Total.MeanLogLoss()),
		RecentError: number(100 * m.Window.Error()), RecentLogLoss: number(m.Window.MeanLogLoss()),
		BaselineReport: m.Baselines.Report(m.Numbers != nil),
		Level:          m.Level, Experts: m.Experts, LevelsByMissing: m.LevelsByMissing, Sets: m.Sets, CoverageByClass: m.CoverageByClass, ByAge: m.ByAge, Drift: m.Drift, Mislabeled: m.Mislabeled,
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
		s.ByAge = measure.StaleLossPercent(m.ByAge)
	}
	s.Forecast = m.Forecasts()
	return s
}

// Forecasts returns the Forecast with errors in percent for classification, and with root mean squared errors for
// regression. It returns nil until each point has a sample. It omits groups until each of their points has a sample.
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
			(*points)[i].Deviation *= 100
		}
	}
	return &f
}

// wasSampled reports whether all points have samples, and finite losses.
func wasSampled(points []ForecastPoint) bool {
	return !slices.ContainsFunc(points, func(p ForecastPoint) bool { return p.Error-p.Error != 0 || p.Deviation-p.Deviation != 0 })
}

// ReadSummary decodes the Summary in the blocks of a checkpoint.
func ReadSummary(blocks []event.Block) (*Summary, error) {
	s := &Summary{}
	return s, event.ReadJSON(blocks, "summary", s)
}
