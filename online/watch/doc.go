// Package watch counts and measures the events of a Learner and its predictions. It changes no weights and no
// predictions.
//
// It observes an event twice: as it arrived, before anything is learned from it ([Met], for the health of fields), and
// with its prediction ([LabeledEvent], for measures, drift and mislabeled events).
//
// [Fields] is the health of fields. It measures four things of each field: its presence as its usual kind of value, new
// values, and the mean and the deviation of a number. A measure raises an alarm if it becomes unusual, unless it has
// been the same at that hour of another day.
package watch
