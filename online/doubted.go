package online

// This file lets package doubt examine labeled events, before they are learned.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/doubt"
)

// doubt examines a labeled event whose class is known. It must be called before the event is encoded.
func (l *Learner) doubt(e *event.Example) {
	covariance := l.predictor.imputer.Covariance()
	if l.config.Doubt == "off" || covariance == nil || l.member.inGroup() {
		return
	}
	if whole, masks := doubts(l.events, len(covariance.Columns)); whole {
		h := model.Head{Schema: l.encoder.Schema(), Scaler: l.encoder.Scaling.Scaler, Missing: l.encoder.Fields.Missing, Faults: l.encoder.Faults(), Covariance: covariance}
		h.Layout = model.Layout{Width: l.encoder.Table.Width()} // rows begin with the statistics of their column
		m := &model.Linear{Head: h, Rows: l.encoder.Table}
		known := h.Declare(e, &event.Example{})
		l.doubter.Examine(&doubt.Event{Example: known, Number: l.events, Model: m, Loss: l.lossOf, Squared: l.targets != nil}, masks)
	}
	l.doubter.Note(e, covariance)
}

// lossOf returns the log-loss of the prediction for a labeled event, or the squared error for regression.
func (l *Learner) lossOf(e *event.Example) float64 {
	p := l.Predict(e)
	if l.targets == nil {
		return p.Decision.Judge(p.Scores, e.Label).LogLoss
	}
	if p.Value != p.Value {
		return 0
	}
	return (p.Value - e.Target) * (p.Value - e.Target)
}
