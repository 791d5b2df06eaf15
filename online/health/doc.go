// Package health counts and measures the events of a Learner and its predictions. It changes no weights and no
// predictions.
//
// It observes an event twice. First it observes the raw event before it is learned ([Met]), to monitor the health of
// fields. Then it observes the event with its prediction ([LabeledEvent]), to compute measures and to detect drift and
// mislabeled events.
//
// [Monitors] passes each event to all monitors. Each monitor is a type with the methods Observe, State and Report, and an
// entry of the table in [New]: the measures ([Counts]), drift, calibration, prediction sets, the positive class, labels
// that are probably wrong, older weights (staleness.go), and the health of fields.
//
// [Fields] monitors the health of fields. It measures how often a field is missing or has another kind of value
// and, for numbers, the mean. A measure raises an alarm if it becomes unusual, and so does a number that is stuck.
package health
