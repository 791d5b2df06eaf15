// Package watch counts and measures what a Learner meets and what it answers. Nothing here
// changes a weight or an answer.
//
// An event is shown twice. It is met as it came, before anything has been learned from it
// ([Met]): the health of fields. It is told with what it was answered, before the step
// ([Told]): measures, drift, suspects.
//
// A [Watcher] is a file and a line in [New]: it owns what it counts, takes up events, merges,
// codes its state and tells figures. The health of fields is one ([Fields]). It has four
// measures of each field, and watchers of its own, a file each with take, review, report and
// State: [Kinds] sees a field come as another kind of value, [Rare] a rare one come no more.
// All show what they find to [Alarms] at the end of each block of events, which knows from
// [Spells] what comes every night, and what costs too little for a warning.
package watch
