package online

// This file doubts the numbers of events: it lets package doubt examine labeled events before they are learned, and
// predicts events with doubted numbers.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/doubt"
	"blankout/online/health"
)

// doubts reports whether numbers are doubted at all.
func (l *Learner) doubts() bool { return l.config.Doubt != "off" }

// reader returns a model with everything that is needed to examine the numbers of events. It is valid until the next
// call.
func (l *Learner) reader(d *model.Doubt) *model.Linear {
	m := &l.room.reader
	m.Rows, m.Schema, m.Scaler, m.Missing, m.Faults = l.encoder.Table, l.encoder.Schema(), l.encoder.Scaling.Scaler, l.encoder.Fields.Missing, l.encoder.Faults()
	m.Covariance, m.Doubt = l.predictor.imputer.Covariance(), d
	m.Layout.Width = l.encoder.Table.Width() // rows begin with the statistics of their column
	return m
}

// doubt examines a labeled event whose class is known, and tells the health of fields what it finds. It must be called
// before the event is encoded.
func (l *Learner) doubt(e *event.Example, to *health.Met) {
	covariance := l.predictor.imputer.Covariance()
	if to.Examined, to.Doubted = false, nil; covariance == nil || !l.doubts() {
		return
	}
	if whole, masks := doubts(l.events, len(covariance.Columns)); whole {
		m := l.reader(nil)
		to.Doubted, to.Examined = l.doubter.Examine(&doubt.Event{Example: m.Declare(e, &l.room.declared), Number: l.events, Model: m, Loss: l.lossOf, Squared: l.targets != nil}, masks)
	}
	l.doubter.Note(e, covariance)
}

// lossOf returns the log-loss of a labeled event whose numbers are taken as they are, or the squared error for
// regression.
func (l *Learner) lossOf(e *event.Example) float64 {
	p := l.predictAsIs(e)
	if l.targets == nil {
		return p.Decision.Judge(p.Scores, e.Label).LogLoss
	}
	if p.Value != p.Value {
		return 0
	}
	return (p.Value - e.Target) * (p.Value - e.Target)
}

// readLack compares, at some labeled events that lack a field, the losses if the lack is read as a value and as a loss.
// It must be called before the event is encoded.
func (l *Learner) readLack(e *event.Example) {
	n := &l.encoder.Fields
	id, asks := n.Ask(e, l.encoder.Schema().Fields, l.events)
	if !asks {
		return
	}
	missing, loss := n.Missing, l.lossOf(e)
	n.Missing = missing.Otherwise(id)
	other := l.lossOf(e)
	n.Missing = missing
	n.Answer(id, loss, other)
}

// renewDoubt makes what has been learned about doubtful numbers take effect in predictions.
func (l *Learner) renewDoubt() {
	if l.doubts() {
		l.doubted = l.doubter.Published(l.config.Doubt == "log")
	}
}

// doubtedIn returns what predictions doubt in an event; nil if it is predicted as it is.
func (l *Learner) doubtedIn(e *event.Example) *model.Doubted {
	c := l.predictor.imputer.Covariance()
	if c == nil || !l.doubts() || !l.doubted.Corrects() {
		return nil
	}
	if l.doubtedBy != c {
		l.doubtedBy, l.doubted = c, l.doubted.With(l.doubted.Columns)
	}
	m := l.reader(l.doubted)
	return m.Doubted(m.Declare(e, &l.room.declared))
}
