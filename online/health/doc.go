// Package health counts and measures the events of a Learner and its predictions. It changes no weights and no
// predictions.
//
// It observes an event twice. First it observes the raw event before it is learned ([Met]), to monitor the health of
// fields. Then it observes the event with its prediction ([LabeledEvent]), to compute measures and to detect drift and
// mislabeled events.
//
// [Fields] monitors the health of fields. It measures four things of each field: how often the field is present with
// its usual kind of value, how often its value is new, and for numbers the mean and the standard deviation. A measure
// raises an alarm if it becomes unusual, unless it had the same unusual value at that hour of another day.
package health
