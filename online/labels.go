package online

// This file refuses labels that are numbers to predict.

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online/watch"
)

// NumbersError says that labels are numbers to predict, under a loss whose labels are
// classes.
type NumbersError struct {
	Loss   string
	Labels string // what they look like
}

func (e *NumbersError) Error() string {
	return fmt.Sprintf("loss %s: the labels are numbers (%s), and it is for classes: for regression use loss squared, absolute, quantile:T, huber:D or poisson; "+
		"if they are classes, name them (record.classes), or set the loss to logistic where they are whole numbers", e.Loss, e.Labels)
}

// ofNumbers says whether a loss of classes is often meant as one of numbers.
func ofNumbers(l loss.Loss) bool { return l == loss.Loss(loss.Quadratic{}) }

// CheckNumbers returns a *NumbersError if one of the first n events of b, which follow so many others, has a number
// for a label that is none of the numbers taken for classes, which nobody has named. Later events do not decide what the
// labels of a stream are.
func CheckNumbers(lossName string, b *event.Batch, n int, events uint64) error {
	if events >= watch.WarnAfter {
		return nil
	}
	classes := b.Schema.Classes
	if l, err := loss.Parse(lossName); err == nil && ofNumbers(l) && AreNumbers(classes) {
		for i := range b.Examples[:n] {
			if r := b.Examples[i].Refused; r != nil && r.Reason == event.ReasonLabel {
				return &NumbersError{lossName, watch.FirstBytes(r.Detail, watch.MaxFirst)}
			}
		}
	}
	return CheckLabels(lossName, classes)
}

// maxNumberClasses is how many whole numbers, such as digits, are taken for classes under a loss
// that is also one of numbers, although nobody named them.
const maxNumberClasses = 20

// CheckLabels returns a *NumbersError if labels that nobody has named as classes look
// like numbers to predict: some of more than two are no whole numbers or, under a loss that is
// also one of numbers, there are many.
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

// AreNumbers says whether all labels are finite decimal numbers.
func AreNumbers(labels []string) bool {
	return !slices.ContainsFunc(labels, func(s string) bool { return event.PlainNumber([]byte(s)) == nil })
}
