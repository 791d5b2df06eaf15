// Package watch counts and measures what a Learner meets and what it answers. Nothing here
// changes a weight or an answer.
//
// An event is shown twice. It is met as it came, before anything has been learned from it
// ([Met]): the health of fields. It is told with what it was answered, before the step
// ([Told]): measures, drift, suspects. Each watcher owns what it counts: it takes an
// event, codes its state, and reports.
package watch
