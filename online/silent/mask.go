package silent

import (
	"math/rand/v2"
	"slices"

	"blankout/internal/loss"
)

// Mask draws which features of an event are silently missing.
type Mask struct {
	Dead []bool // by feature, valid until the next call of Draw
	Some bool   // whether any feature is missing
	dies []int8 // by unit: 1 for present, 2 for missing, 0 if not drawn yet
}

// Draw draws a rate of the noise, and the features that are missing at that rate. Features are drawn by unit, or
// independently if units is nil. The result depends only on the numbers event and copy.
func (m *Mask) Draw(n loss.Silent, features int, units []int32, event, copy uint64) {
	var r rand.PCG
	r.Seed(event, 0x73696c656e74+copy)
	rates := n.Rates()
	rate := rates[r.Uint64()>>62]
	below := uint64(rate * (1 << 53))
	m.Dead, m.Some = slices.Grow(m.Dead[:0], features)[:features], false
	clear(m.dies)
	for i := range m.Dead {
		dies := rate > 0
		switch {
		case !dies:
		case units == nil:
			dies = r.Uint64()>>11 < below
		default:
			for int(units[i]) >= len(m.dies) {
				m.dies = append(m.dies, 0)
			}
			unit := &m.dies[units[i]]
			if *unit == 0 {
				*unit = 1
				if r.Uint64()>>11 < below {
					*unit = 2
				}
			}
			dies = *unit == 2
		}
		m.Dead[i], m.Some = dies, m.Some || dies
	}
}
