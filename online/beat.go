package online

import "blankout/online/monitor"

// This file determines which work is done at which event. The choice depends only on the number of the event, so that a
// restart does not change it.

// Most events of a long stream are only scored, measured and learned. Mixture weights are updated at each event up to
// decidesAll, then at one in four, and after decidesSome at one in sixteen.
const (
	decidesAll, decidesSome = 8192, 65_536
	// Updated mixture weights take effect every applyEvery events. After a request for a fresh expert, they take effect
	// every hurriedEvery events for the next hurried events.
	applyEvery, hurriedEvery, hurried = 256, 16, 1024
)

// applies reports whether updated mixture weights take effect after an event. They take effect more often before the
// event number until.
func applies(number, until uint64) bool {
	return number%applyEvery == 0 || number < until && number%hurriedEvery == 0
}

// sampled reports whether an event is in a sample of one in 2^bits. Multiplication by the golden ratio spreads the
// sample evenly, so that the sample does not follow a period of the stream.
func sampled(number uint64, bits uint) bool { return number*0x9e3779b97f4a7c15>>(64-bits) == 0 }

// decides reports whether mixture weights are updated at an event. They are updated at every event before the event
// number until.
func decides(number, until uint64) bool {
	switch {
	case number <= decidesAll || number < until:
		return true
	case number <= decidesSome:
		return sampled(number, 2)
	}
	return sampled(number, 4)
}

// wakes reports whether experts with negligible weight learn from an event and are compared with the others.
func wakes(number uint64) bool { return sampled(number, 4) }

// A mask removes features of an event to measure predictions with missing fields, at several points: fractions of
// removed features. Masks are expensive. The first masksAll events draw one each, then one event in eight. After
// decidesAll events it is one in 32, and after decidesSome one in 128. Mixture weights learn from all points of the
// first masksWhole masks, and then from a third of the points.
const masksAll, masksWhole = 256, 850

// masks reports whether a mask is drawn for an event.
func masks(number uint64) bool {
	switch {
	case number <= masksAll:
		return true
	case number <= decidesAll:
		return sampled(number, 3)
	case number <= decidesSome:
		return sampled(number, 5)
	}
	return sampled(number, 7)
}

// forecasts reports whether the prediction of a complete event is used to forecast the error with missing fields. This
// is cheap, so the first events and then one in four are used.
func forecasts(number uint64) bool { return number <= forecastsAll || sampled(number, 2) }

const forecastsAll = 1024

// keepsOf returns the divisor of the work per event for models of stale weights, see package staleness.
func keepsOf(number uint64) int {
	if number <= decidesSome {
		return 1
	}
	return 4
}

// ablates reports whether the ablation costs of the fields are measured at an event.
func ablates(number uint64) bool {
	if number <= decidesSome {
		return sampled(number, 5)
	}
	return sampled(number, 8)
}

// due returns which monitors observe an event. At first all monitors do; later the expensive ones observe a sample.
func due(number uint64) monitor.Due {
	return monitor.Due{Gain: number <= decidesSome || sampled(number, 3), Scores: number <= decidesAll || sampled(number, 4)}
}

// turns reports whether mixture weights learn from the given point of the mask with this number.
func turns(mask uint64, point int) bool { return mask <= masksWhole || (mask+uint64(point))%3 == 0 }

// Imputation is expensive with many numeric columns. With more than imputeAll of them only some points of a mask are
// imputed, and with more than imputeSome even fewer. After masksAll events, when masks are rare, more points of each
// mask are imputed.
const imputeAll, imputeSome = 32, 128

// imputes reports whether the given point of the mask with this number is imputed. numbers is how many numeric columns
// can be imputed.
func imputes(mask uint64, point, numbers int) bool {
	every := 1
	if numbers > imputeSome {
		every = 3 * (1 + numbers/256)
	}
	if numbers > imputeAll && mask <= masksAll {
		every *= 3
	}
	return (mask+uint64(point))%uint64(every) == 0
}

// gathers reports whether the covariance for imputation may use an event. It uses only one in several of these events.
func gathers(number uint64) bool { return number <= decidesSome || sampled(number, 2) }
