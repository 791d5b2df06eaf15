// Package online learns a linear model event by event under feature noise that is
// integrated out: each event is scored first (progressive validation), then learned from.
//
// A [Learner] is single-threaded and does no I/O. Its Predict returns the [Prediction] for an event and changes nothing. Its
// Learn returns the same Prediction and then learns the event. If the label of an event is delayed, the Prediction made when
// the event came is stored ([Prediction.Append]) and given to Learn as the prior: it is measured, and moves the mixture
// weights. A [Report] is what was measured and counted, [Alarms] are what the monitors have raised, and a [Snapshot] is the
// state at one instant, with its models.
//
// Learn takes an event through these stages.
// A stage sees what it is handed and those before it, never those after it:
//
//  0. rows (package rows): how the row of a feature is laid out, and the arithmetic over
//     rows: sums of scores, steps, groups of features. It owns nothing.
//  1. fields (package fields): what the event lacks of the fields that are usual, which it counts.
//  2. bank: the levels of noise, each with its weights, average and rate, and what they
//     share: the statistics that scale numbers, the half-life, the refreshes. It scores the
//     event with the rows as they are (gather) and, last of all, learns from it (step, collect).
//     The update rules (package rules) see a step and nothing of the bank; what a level publishes
//     of its iterates, how far its steps go and the half-life are package pace's, the unit of
//     targets that are numbers is package numbers's; package scaling observes columns, and package
//     refresh solves windows of events.
//  3. answering: what a reader of the model is told: which level and rule answer an event
//     that lacks fields (lack, publish), the forecasts by which these are chosen, the
//     covariance that fills in numbers (gathered by package fill), the residual of numbers.
//     Packages probe, cover and answer count, bound and judge its answers. It moves no weight of a
//     level. Beside the levels it has a panel of experts of the numbers (package panel, second.go),
//     whose base are the mixed levels and which nothing in the bank
//     depends on: each level learns to the bit as it would without.
//  4. watch (package watch): what is counted and measured of the event as it was met and of
//     the answer to it: measures, drift, health of fields, mislabeled events, warnings. Backwards goes
//     one bit, that the stream has drifted, and the Learner may make the bank forget.
//     Beside it frozen models answer some of the events (package aged, aged.go).
//
// Several Learners may learn one model: a [share.Delta] is what one has learned in an interval
// (package share, share.go), and is added to their fold (fold.go). What is saved and restored is in state.go.
package online
