// Package watch counts and measures what a Learner meets and what it answers. Nothing here
// changes a weight or an answer.
//
// An event is shown twice. It is met as it came, before anything has been learned from it
// ([Met]): the health of fields. It is told with what it was answered, before the step
// ([Told]): measures, drift, mislabeled events.
//
// [Fields] is the health of fields. It has four measures of each field: its presence as its usual kind of value, new values,
// and the mean and deviation of a number. Each raises an alarm where it is out of the usual, unless it has been so at that
// hour of another day.
package watch
