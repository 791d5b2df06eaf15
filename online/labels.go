package online

// This file detects numeric labels (regression targets) under a loss for classification.

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online/health"
)

// NumbersError reports that the labels look like regression targets, but the loss is for classification.
type NumbersError struct {
	Loss   string
	Labels string // examples of the labels
}

func (e *NumbersError) Error() string {
	return fmt.Sprintf("loss %s is for classes, but the labels are numbers (%s): for regression use loss squared, absolute, quantile:T, huber:D or poisson; "+
		"if they are classes, name them in record.classes, or use loss logistic for whole numbers", e.Loss, e.Labels)
}

// ofNumbers reports whether a loss for classification has a name that users also expect for regression.
func ofNumbers(l loss.Loss) bool { return l == loss.Loss(loss.Quadratic{}) }

// CheckNumbers returns a *NumbersError if one of the first n events of b has a numeric label that is not a class.
// events is the number of events before b. After health.WarnAfter events the result is always nil, because only the
// first events of a stream are checked.
func CheckNumbers(lossName string, b *event.Batch, n int, events uint64) error {
	if events >= health.WarnAfter {
		return nil
	}
	classes := b.Schema.Classes
	if l, err := loss.Parse(lossName); err == nil && ofNumbers(l) && AreNumbers(classes) {
		for i := range b.Examples[:n] {
			if r := b.Examples[i].Refused; r != nil && r.Reason == event.ReasonLabel {
				return &NumbersError{lossName, health.FirstBytes(r.Detail, health.MaxFirst)}
			}
		}
	}
	return CheckLabels(lossName, classes)
}

// maxNumberClasses is the largest number of different integers that are accepted as unnamed classes under a loss for
// which ofNumbers is true.
const maxNumberClasses = 20

// CheckLabels returns a *NumbersError if more than two unnamed labels look like regression targets. They do if some are
// not integers. Under a loss for which ofNumbers is true, they also do if there are too many integers.
func CheckLabels(lossName string, labels []string) error {
	l, err := loss.Parse(lossName)
	if err != nil || loss.LabelsOf(lossName) != loss.Sign || len(labels) <= 2 || !AreNumbers(labels) {
		return nil
	}
	whole := !slices.ContainsFunc(labels, func(s string) bool { x, _ := strconv.ParseFloat(s, 64); return x != math.Trunc(x) })
	if whole && (len(labels) <= maxNumberClasses || !ofNumbers(l)) {
		return nil
	}
	return &NumbersError{lossName, fmt.Sprintf("%d different ones among the first examples, such as %s and %s", len(labels), labels[0], labels[1])}
}

// AreNumbers reports whether all labels are finite decimal numbers.
func AreNumbers(labels []string) bool {
	return !slices.ContainsFunc(labels, func(s string) bool { return event.PlainNumber([]byte(s)) == nil })
}
