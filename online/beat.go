package online

import "blankout/online/monitor"

// This file says which events who listens to. It depends on the number of the event alone, so that a restart changes
// nothing.

// Most events of a long stream are scored, measured and learned, and no more than that. Those up to the decidesAll-th
// all decide besides, by what they have lost, how levels are mixed, then one in four, and after the decidesSome-th one in
// sixteen.
const (
	decidesAll, decidesSome = 8192, 65_536
	// applyEvery is at every how many events mixture weights come into force, hurriedEvery that for so many after a request
	// for a fresh expert.
	applyEvery, hurriedEvery, hurried = 256, 16, 1024
)

// applies says whether mixture weights come into force after an event; until says up to which one they do so more often.
func applies(number, until uint64) bool {
	return number%applyEvery == 0 || number < until && number%hurriedEvery == 0
}

// sampled says whether the event of this number is one of a sample of one in 2^bits: numbers that the golden section
// spreads evenly, so that no period of a stream is met by one of theirs.
func sampled(number uint64, bits uint) bool { return number*0x9e3779b97f4a7c15>>(64-bits) == 0 }

// decides says whether an event is one of those that decide. Up to the event until all decide.
func decides(number, until uint64) bool {
	switch {
	case number <= decidesAll || number < until:
		return true
	case number <= decidesSome:
		return sampled(number, 2)
	}
	return sampled(number, 4)
}

// wakes says whether experts that rest learn from an event, and are compared at it.
func wakes(number uint64) bool { return sampled(number, 4) }

// Masks are expensive: they are drawn for each of the first masksAll events, then for one in eight, after the
// decidesAll-th one in 32, and after the decidesSome-th one in 128. Of the first masksWhole masks all shares of missing
// features move mixture weights, then a third of them.
const masksAll, masksWhole = 256, 850

// masks says whether a mask is drawn for an event.
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

// forecasts says whether an event tells how predictions of whole events do, which costs little: each of the first events, then one in
// four.
func forecasts(number uint64) bool { return number <= forecastsAll || sampled(number, 2) }

const forecastsAll = 1024

// keepsOf is of how many features of an event one pays for models that are kept to predict later events, see package staleness.
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

// due says which parts of the monitors look at an event: at first all do, and later those that cost much at some.
func due(number uint64) monitor.Due {
	return monitor.Due{Gain: number <= decidesSome || sampled(number, 3), Scores: number <= decidesAll || sampled(number, 4)}
}

// turns says whether a point of the mask of this number moves mixture weights.
func turns(mask uint64, point int) bool { return mask <= masksWhole || (mask+uint64(point))%3 == 0 }

// Imputing is expensive where there are many numbers: of more than imputeAll only some points of a mask are imputed, of more
// than imputeSome fewer still. Masks that are drawn for some events alone are imputed at more of their points.
const imputeAll, imputeSome = 32, 128

// imputes says whether a point of the mask of this number is imputed, where so many numbers may be.
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

// gathers says whether the numbers of an event may be gathered for imputing: one in so many of those at which it says so is.
// After the decidesSome-th event it says so of one in four.
func gathers(number uint64) bool { return number <= decidesSome || sampled(number, 2) }
