package main

// This file measures how quickly fields that repeat one value are recognized as stuck, in events.

import (
	"fmt"
	"slices"

	"blankout/online/readings"
)

// stuckStreams are streams whose fields become stuck from a given event on.
var stuckStreams = []struct {
	name, file       string
	classes, columns int
	from             int
}{
	{"elec2", "stream.svm.gz", 2, 8, 2000},
	{"gas_drift", "stream.svm.gz", 6, 128, 2000},
	{"covtype_10k", "train.svm.gz", 7, 54, 2000},
	{"spambase", "train.svm.gz", 2, 57, 1600},
}

// stuckWithin is the number of events within which a stuck field must be found.
const stuckWithin = 3000

// stuckAt are the values at which fields become stuck. The first does not change the fields.
var stuckAt = []string{"as it is", "its mean", "its last value", "0"}

// stuckFields counts the stuck fields that are found, and the events until each is found. All fields become stuck
// together, because a Detector judges each field independently.
func (c *comparison) stuckFields() error {
	fmt.Fprint(c.w, "## Fields that are stuck: how many are found, and the median of the events until then\n\n| stuck at |")
	rows := make([]string, len(stuckAt))
	for _, d := range stuckStreams {
		s, err := load(c.path(d.name, d.file), d.classes)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.w, " %s, %d fields |", d.name, d.columns)
		for i, at := range stuckAt {
			found := whenStuck(s, d.columns, d.from, at)
			rows[i] += fmt.Sprintf(" %d", len(found))
			if len(found) > 0 {
				rows[i] += fmt.Sprintf(", %d", found[len(found)/2])
			}
			rows[i] += " |"
		}
	}
	fmt.Fprintf(c.w, "\n|---|---|---|---|---|\n")
	for i, at := range stuckAt {
		fmt.Fprintf(c.w, "| %s |%s\n", at, rows[i])
	}
	fmt.Fprintln(c.w)
	return nil
}

// whenStuck returns, in ascending order, the number of events after which each stuck field was found. The fields become
// stuck after the given number of events, first. If at is "as it is", all events of the set are counted.
func whenStuck(s *set, columns, first int, at string) (found []int) {
	var detector readings.Detector
	schema, whole := fieldSchema(s, columns, 1), make([]bool, columns)
	sum, reads := make([]float64, columns), make([]float64, columns)
	for i := range s.examples {
		e := without(&s.examples[i], columns, 1, whole)
		for column, x := range e.Features.Value {
			switch {
			case at == stuckAt[0]:
			case i < first:
				sum[column] += x
				reads[column] = map[string]float64{"its mean": sum[column] / float64(i+1), "its last value": x}[at]
			default:
				e.Features.Value[column] = reads[column]
			}
		}
		if at != stuckAt[0] && i >= first+stuckWithin {
			break
		}
		for _, change := range detector.Take(&e, schema.Fields, readings.Moment{}) {
			if !change.Moves && (i >= first || at == stuckAt[0]) {
				found = append(found, max(0, i-first)+1)
			}
		}
	}
	slices.Sort(found)
	return found
}
