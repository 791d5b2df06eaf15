// Package health counts and measures the events of a Learner and its predictions. It changes no weights and no
// predictions.
//
// It observes an event twice. First it observes the raw event before it is learned ([Met], for the health of fields).
// Then it observes the event with its prediction ([LabeledEvent], for measures, drift and mislabeled events).
//
// [Fields] monitors the health of fields. It measures four things of each field: its presence with its usual kind of
// value, new values, and the mean and the standard deviation of a number. A measure raises an alarm if it becomes
// unusual, unless it was the same at that hour of another day.
package health
