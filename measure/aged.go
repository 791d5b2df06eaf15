package measure

import "slices"

// Aged is what the answers of weights of an age have lost, and, but for age 0, what the weights of
// the moment have lost at the same events. Errors are shares of the events or, of numbers, mean absolute
// errors. What is undefined is nil: the log-loss of numbers, the deviance of classes.
type Aged struct {
	Age           uint64   `json:"age"` // in events, to a tenth
	Events        float64  `json:"events"`
	Error         *float64 `json:"error"`
	LogLoss       *float64 `json:"log_loss,omitempty"` // nats
	Deviance      *float64 `json:"deviance,omitempty"`
	FreshError    *float64 `json:"fresh_error,omitempty"`
	FreshLogLoss  *float64 `json:"fresh_log_loss,omitempty"`
	FreshDeviance *float64 `json:"fresh_deviance,omitempty"`
}

// AgedPercent returns reports whose errors are in percent.
func AgedPercent(reports []Aged) []Aged {
	out := slices.Clone(reports)
	for i := range out {
		for _, p := range []**float64{&out[i].Error, &out[i].FreshError} {
			if *p != nil {
				x := 100 * **p
				*p = &x
			}
		}
	}
	return out
}
