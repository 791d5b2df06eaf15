// Package online learns a linear model event by event under feature noise that is
// integrated out: each event is scored first (progressive validation), then learned from.
//
// A [Learner] is single-threaded and does no I/O. Learn takes an event through these stages.
// A stage sees what it is handed and those before it, never those after it:
//
//  0. rows (package rows): how the row of a feature is laid out, and the arithmetic over
//     rows: sums of scores, steps, groups of features. It owns nothing.
//  1. bank: the levels of noise, each with its weights, average and rate, and what they
//     share: the statistics that scale numbers, the half-life, the refreshes. It scores the
//     event with the rows as they are (gather) and, last of all, learns from it (step, collect).
//     The update rules (package rules) see a step and nothing of the bank.
//  2. answering: what a reader of the model is told: which level and rule answer an event
//     that lacks fields (lack, publish), the forecasts by which these are chosen, the
//     covariance that fills in numbers, the calibration, the residual of numbers. It moves
//     no weight of a level. Beside the levels it has a second-order expert of the numbers
//     (package newton, second.go), whose base are the mixed levels and which nothing in the bank
//     depends on: each level learns to the bit as it would without.
//  3. watch (package watch): what is counted and measured of the event as it was met and of
//     the answer to it: measures, drift, health of fields, suspects, warnings. Backwards goes
//     one bit, that the stream has drifted, and the Learner may make the bank forget.
//     Beside it frozen models answer some of the events (package aged, aged.go).
//
// Several Learners may learn one model: a [Delta] is what one has learned in an interval
// (share.go), and is added to their fold (delta.go). What is saved and restored is in state.go.
package online
