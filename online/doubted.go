package online

// This file doubts the numbers of events: it lets package readings examine labeled events before they are learned, and
// predicts events with doubted numbers.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/online/readings"
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

// doubt examines a labeled event whose class is known, and tells the health of fields what it finds. At some events it
// also predicts a copy that has lost features. It must be called before the event is encoded.
func (l *Learner) doubt(e *event.Example, to *health.Met) {
	covariance, columns, d := l.predictor.imputer.Covariance(), 0, &l.room.died
	if covariance != nil {
		columns = len(covariance.Columns)
	}
	whole, masks := doubts(l.events, columns, true)
	if whole && covariance != nil && !covariance.Related() && !l.doubter.Earns() {
		whole, masks = doubts(l.events, columns, false)
	}
	if d.curve = nil; masks && dies(l.events) {
		l.die(e)
	}
	if to.Examined, to.Doubted = false, nil; covariance != nil && l.doubts() {
		if whole {
			l.examine(e, masks, to)
		}
		l.doubter.Note(e, covariance)
	}
	if d.curve != nil && (covariance == nil || l.config.Doubt != "auto") {
		d.losses = l.losses(e, l.predictAsIs(&d.Example).Scores)
	}
}

// examine is the part of doubt with the numbers of the event.
func (l *Learner) examine(e *event.Example, masks bool, to *health.Met) {
	m, d := l.reader(nil), &l.room.died
	x := readings.Event{
		Example: m.Declare(e, &l.room.declared), Number: l.events, Model: m, Squared: l.targets != nil,
		Predict: func(e *event.Example) []float64 { return l.predictAsIs(e).Scores },
		Loss:    func(scores []float64) float64 { return l.compared(e, scores) },
		Mix: func(weight float64, scores, other []float64) []float64 {
			return model.MixScores(l.monitors.Decision(), l.targets != nil, weight, scores, other)
		},
	}
	if d.curve != nil {
		x.Died, x.Dead = m.Declare(&d.Example, &event.Example{}), d.dead
	}
	var scores []float64
	if to.Doubted, scores, to.Examined = l.doubter.Examine(&x, masks); scores != nil {
		d.losses = l.losses(e, scores)
	}
}

// lossOf returns the log-loss of a labeled event whose numbers are taken as they are, or the squared error for
// regression.
func (l *Learner) lossOf(e *event.Example) float64 { return l.compared(e, l.predictAsIs(e).Scores) }

// compared returns the log-loss of the scores of a labeled event, or the squared error for regression, 0 if it is not known.
func (l *Learner) compared(e *event.Example, scores []float64) float64 {
	losses := l.losses(e, scores)
	switch {
	case l.targets == nil:
		return losses[1]
	case losses[0] != losses[0]:
		return 0
	}
	return losses[0]
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
