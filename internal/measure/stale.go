package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// StaleLoss is what the answers of weights of an age have lost, and, but for age 0, what the weights of
// the moment have lost at the same events. Errors are shares of the events or, of numbers, mean absolute
// errors. What is undefined is nil: the log-loss of numbers, the deviance of classes.
type StaleLoss struct {
	Age           uint64   `json:"age"` // in events, to a tenth
	Events        float64  `json:"events"`
	Error         *float64 `json:"error"`
	LogLoss       *float64 `json:"log_loss,omitempty"` // nats
	Deviance      *float64 `json:"deviance,omitempty"`
	FreshError    *float64 `json:"fresh_error,omitempty"`
	FreshLogLoss  *float64 `json:"fresh_log_loss,omitempty"`
	FreshDeviance *float64 `json:"fresh_deviance,omitempty"`
	// Of classes, what their fractions up to each event have lost at the same events.
	ConstantError   *float64 `json:"constant_error,omitempty"`
	ConstantLogLoss *float64 `json:"constant_log_loss,omitempty"`
}

// staleAfter is of how many events an age says something; for few of them by much: losses of single events are some two
// nats apart.
const staleAfter, staleSpread = 20, 2

// Stale says in a sentence at which ages the weights answer worse than the class fractions up to each event would, "" for
// none. Errors are in percent. nats says that scores are log-odds: else errors are compared, and not log-losses.
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
		". Do not use an export or snapshot of that age: publish more often, or set learner.serving_staleness to that age"
}

// StaleLossPercent returns reports whose errors are in percent.
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
