package online

import (
	"blankout/internal/event"
	"blankout/online/health"
)

// This file determines which work is done at which event. The choice depends only on the event's number, so a restart
// of the program does not change it.

// Later in a stream, most events update only scores, measures and weights of features. Mixture weights are updated at
// each event up to event decidesAll, then at one event in four. After event decidesSome they are updated at one event
// in sixteen.
const (
	decidesAll, decidesSome = 8192, 65_536
	// Updated mixture weights take effect every applyEvery events. After a request for a fresh expert, they take effect
	// every freshEvery events during the next fresh events.
	applyEvery, freshEvery, fresh = 256, 16, 1024
)

// applies reports whether updated mixture weights take effect after the event with this number. Up to the event until
// they take effect more often.
func applies(number, until uint64) bool {
	return number%applyEvery == 0 || number < until && number%freshEvery == 0
}

// sampled reports whether an event is in a sample of one in 2^bits. Multiplication by the golden ratio spreads the
// sample evenly, so that the sample does not follow a period of the stream.
func sampled(number uint64, bits uint) bool { return number*0x9e3779b97f4a7c15>>(64-bits) == 0 }

// decides reports whether mixture weights are updated at the event with this number. Up to the event until they are
// updated at every event.
func decides(number, until uint64) bool {
	switch {
	case number <= decidesAll || number < until:
		return true
	case number <= decidesSome:
		return sampled(number, 2)
	}
	return sampled(number, 4)
}

// learnsIdle reports whether experts with negligible mixture weight take part in an event: they learn from the event, and
// their losses are compared.
func learnsIdle(number uint64) bool {
	if number <= decidesSome {
		return sampled(number, 4)
	}
	return sampled(number, 5)
}

// seeks reports whether the weight of a last label that has none is updated at an event.
func seeks(number uint64) bool { return sampled(number, 2) }

// A mask removes features of an event, to measure predictions with missing fields. The points of a mask are increasing
// fractions of removed features. Masks are expensive: each of the first masksAll events draws a mask, then one event in
// eight, after event decidesAll one in 32, and after event masksFew one in 128. From event decidesAll on they are half
// as frequent where imputation is expensive, because there are more than imputeAll numeric columns, and a quarter as
// frequent with more than imputeSome. Mixture weights learn from all points of the first masksWhole masks, and from a
// third of the points of later masks; after event masksFew only these points are predicted at all.
const masksAll, masksWhole, masksFew = 256, 850, 32_768

// masks reports whether a mask is drawn for an event. numbers is the number of numeric columns that can be imputed.
func masks(number uint64, numbers int) bool {
	rarer := uint(0)
	switch {
	case numbers > imputeSome:
		rarer = 2
	case numbers > imputeAll:
		rarer = 1
	}
	switch {
	case number <= masksAll:
		return true
	case number <= decidesAll:
		return sampled(number, 3)
	case number <= masksFew:
		return sampled(number, 5+rarer)
	}
	return sampled(number, 7+rarer)
}

// keepsOf returns by how much the work per event is divided for the models with stale weights, see health.Monitors.Older.
func keepsOf(number uint64) int {
	if number <= masksFew {
		return 1
	}
	return 4
}

// ablates reports whether the ablation costs of the fields are measured at the event with this number.
func ablates(number uint64) bool {
	if number <= decidesAll {
		return sampled(number, 5)
	}
	return sampled(number, 8)
}

// due returns which monitors observe an event. At first all monitors do. Later the expensive monitors observe only a
// sample of the events.
func due(number uint64) health.Due {
	return health.Due{Gain: number <= decidesSome || sampled(number, 3), Scores: number <= decidesAll || sampled(number, 4)}
}

// The numbers of an event are examined for contradictions, and so are those of a masked copy of the event. Up to event
// doubtsFirst that happens at one event in four, later at one in 32 and in 128, and after event masksFew half as
// often. With more than doubtsFew columns it happens at a quarter of these events, with more than doubtsWide at an
// eighth. After event doubtsFirst it happens at a quarter of them where no number predicts another and doubting numbers
// has earned nothing.
const doubtsFirst, doubtsFew, doubtsWide = 4096, 64, 128

// doubts reports whether the numbers of the event with this number are examined. columns is the number of numeric
// columns, and earns whether it has been worthwhile. masks reports whether a masked copy is predicted too, in which features
// are dead or stale.
func doubts(number uint64, columns int, earns bool) (whole, masks bool) {
	more := uint(0)
	switch {
	case columns > doubtsWide:
		more = 3
	case columns > doubtsFew:
		more = 2
	}
	if number > masksFew {
		more++
	}
	if number <= doubtsFirst {
		whole = sampled(number, 2+more)
		return whole, whole
	}
	if !earns {
		more += 2
	}
	return sampled(number, 5+more), sampled(number, 7+more)
}

// dies reports whether the features of the masked copy of an event are dead, and not stale.
func dies(number uint64) bool { return event.Mix(number)&1 == 0 }

// turns reports whether mixture weights learn from a point of a mask. mask is the number of the mask.
func turns(mask uint64, point int) bool { return mask <= masksWhole || (mask+uint64(point))%3 == 0 }

// predicts reports whether the masked copy at a point of a mask is predicted at all, at the event with this number.
func predicts(number, mask uint64, point int) bool {
	return number <= masksFew || turns(mask, point)
}

// Imputation is expensive with many numeric columns. If there are more than imputeAll of these, a third of the points of
// each mask is imputed; if there are more than imputeSome, fewer, and fewer still of the first masksAll masks, which are
// frequent. After masksWhole masks half as many are imputed.
const imputeAll, imputeSome = 32, 128

// imputes reports whether a point of a mask is imputed. mask is the number of the mask, and numbers is the number of
// numeric columns that can be imputed.
func imputes(mask uint64, point, numbers int) bool {
	every := 1
	switch {
	case numbers > imputeSome && mask <= masksAll:
		every = 9 * (1 + numbers/256)
	case numbers > imputeSome:
		every = 3 * (1 + numbers/256)
	case numbers > imputeAll:
		every = 3
	}
	if mask > masksWhole && every > 1 {
		every *= 2
	}
	return (mask+uint64(point))%uint64(every) == 0
}

// gathers reports whether the event with this number may update the covariance for imputation. Only a sample of these
// events does.
func gathers(number uint64) bool { return number <= decidesAll || sampled(number, 2) }
