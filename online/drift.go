package online

// This file makes the metric forget: by a half-life, and when the drift detector raises an alarm, which also starts a
// fresh expert.

// drifted acts on an alarm of the drift detector as the configuration says. After the first pass over a finite set
// nothing follows: every pass is the same.
func (l *Learner) drifted() {
	if l.config.OnDrift == "log" || l.period > 0 {
		return
	}
	keep := expertKeep
	if l.config.OnDrift == "forget" {
		keep = driftKeep
	}
	l.forget(keep)
	l.filling.Forget(keep)
	if l.config.OnDrift == "forget" {
		l.forgetSecond(keep)
		return
	}
	l.startFresh()
	l.hurriedUntil = l.events + hurried
}

const (
	// driftKeep is the fraction of the metric that an alarm leaves, expertKeep where on_drift is expert.
	driftKeep, expertKeep = 0.1, 0.3
	// After an alarm mixture weights come into force at every hurriedEvery-th of so many events.
	hurried, hurriedEvery = 1024, 16
)

// forget leaves the given share of every metric, as if only that much of the
// past had been seen: the weights stay and move faster from here.
func (l *bank) forget(keep float64) {
	forget := func(row []float64, intercepts bool) {
		l.rule.Forget(row, intercepts, keep)
		l.refresh.Forget(row, keep)
	}
	forget(l.bias, true)
	l.wrote()
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		forget(l.table.Touch(column), false)
	}
}

// age lets the time of an event go by. Between several learners of one model the fold's
// events are the clock, and each lets them go by between its intervals.
func (l *bank) age(time int64) {
	if !l.shared() {
		l.halve(l.fade.Halves(time))
	}
}

// halve makes the metric forget by half so many times.
func (l *bank) halve(times float64) {
	if l.fade.Halve(times) {
		l.forget(1 / l.fade.Growth)
		l.fade.Growth = 1
	}
}
