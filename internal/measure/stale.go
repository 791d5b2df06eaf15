package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// StaleLoss is the loss of predictions with weights that were Age events old. For Age > 0, the Fresh fields are the
// losses of the current weights on the same events. Errors are fractions of the events or, for regression, mean
// absolute errors. Undefined values are nil: the log-loss of regression, the deviance of classification.
type StaleLoss struct {
	Age           uint64   `json:"age"` // age of the weights in events, rounded to a tenth
	Events        float64  `json:"events"`
	Error         *float64 `json:"error"`
	LogLoss       *float64 `json:"log_loss,omitempty"` // mean log-loss in nats
	Deviance      *float64 `json:"deviance,omitempty"`
	FreshError    *float64 `json:"fresh_error,omitempty"`
	FreshLogLoss  *float64 `json:"fresh_log_loss,omitempty"`
	FreshDeviance *float64 `json:"fresh_deviance,omitempty"`
	// The Constant fields are the losses of a constant prediction on the same events: the class frequencies of the
	// events before each event. They are nil for regression.
	ConstantError   *float64 `json:"constant_error,omitempty"`
	ConstantLogLoss *float64 `json:"constant_log_loss,omitempty"`
}

// staleAfter is the number of events that an age must have before Stale judges it. staleSpread is the assumed standard
// deviation of the loss of one event, in nats. The fewer events an age has, the larger the difference must be.
const staleAfter, staleSpread = 20, 2

// Stale returns a warning that lists the ages at which the weights predict worse than the class frequencies up to each
// event. It returns "" if there is no such age. Errors are in percent. If nats is set, scores are log-odds and
// log-losses are compared; otherwise errors are compared.
func Stale(reports []StaleLoss, nats bool) string {
	var parts []string
	for _, r := range reports {
		if r.Events < staleAfter || r.ConstantLogLoss == nil || r.LogLoss == nil {
			continue
		}
		switch margin := 1 / math.Sqrt(r.Events); {
		case nats && *r.LogLoss > *r.ConstantLogLoss+staleSpread*margin:
			parts = append(parts, fmt.Sprintf("%d events old they lose %.3g nats, the class frequencies %.3g", r.Age, *r.LogLoss, *r.ConstantLogLoss))
		case !nats && *r.Error > *r.ConstantError+100*margin:
			parts = append(parts, fmt.Sprintf("%d events old they err %.3g %%, the most frequent class %.3g %%", r.Age, *r.Error, *r.ConstantError))
		}
	}
	if parts == nil {
		return ""
	}
	return "older weights of this stream predict worse than the class frequencies: " + strings.Join(parts, "; ") +
		". Do not use an export or snapshot of that age: publish more often"
}

// StaleLossPercent returns the reports with errors in percent.
func StaleLossPercent(reports []StaleLoss) []StaleLoss {
	out := slices.Clone(reports)
	for i := range out {
		for _, p := range []**float64{&out[i].Error, &out[i].FreshError, &out[i].ConstantError} {
			if *p != nil {
				x := 100 * **p
				*p = &x
			}
		}
	}
	return out
}
