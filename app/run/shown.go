package run

// This file keeps single records for the web page: samples of refused records and of mislabeled events, and the
// confusion matrix.

import (
	"bytes"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online"
)

// Sample is one of the newest refused records or mislabeled events.
type Sample struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Why       string `json:"why"`
	Text      string `json:"text"` // start of the record, if records are kept
}

const (
	shownSamples = 20  // largest number of samples
	shownText    = 400 // largest length of Text in bytes
	// shownClasses is the largest number of classes of a confusion matrix.
	shownClasses = 50
)

// sample returns the Sample of an event, whose record begins with value.
func sample(b *event.Batch, e *event.Example, why string, value []byte) Sample {
	text := value[:min(len(value), shownText)]
	return Sample{b.Topic, b.Partition, e.Offset, why, string(bytes.ToValidUTF8(text, []byte("\uFFFD")))}
}

// withSample adds a Sample in front, and keeps the newest ones. It returns a new list, because a Status has the old
// list.
func withSample(list []Sample, s Sample) []Sample {
	return slices.Insert(slices.Clone(list[:min(len(list), shownSamples-1)]), 0, s)
}

// confuse counts an event by its class and by the class that was predicted before the event was learned.
func (in *Intake) confuse(e *event.Example, p *online.Prediction) {
	classes := min(max(len(p.Scores), 2), shownClasses)
	if e.Label < 0 || e.Label >= classes || in.Learner.Schema().Target != loss.Sign || p.Refused {
		return
	}
	for len(in.confusion) < classes {
		in.confusion = append(in.confusion, nil)
	}
	for k, row := range in.confusion {
		if len(row) < classes {
			in.confusion[k] = append(row, make([]float64, classes-len(row))...)
		}
	}
	if predicted := p.Decision.Predict(p.Scores); predicted < classes {
		in.confusion[e.Label][predicted] += e.Weight
	}
}
