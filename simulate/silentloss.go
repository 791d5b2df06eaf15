package simulate

// This file computes how much larger the error is with dead features than with features that are declared missing.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// SilentLoss has the nightmare and subject with the largest cost of dead features. The cost is the difference from the
// error with features that are declared missing. Errors are those of a Point.
type SilentLoss struct {
	Subject   string  `json:"model"`
	Nightmare string  `json:"nightmare"`
	Missing   float64 `json:"missing"` // fraction of missing features during the nightmare
	Declared  float64 `json:"declared"`
	Dead      float64 `json:"dead"`
	// Expects reports whether the subject has learned for dead features.
	Expects bool `json:"expects_silent_loss"`
	// Other is the subject with the smallest error in this nightmare, among the subjects trained for dead features. It is
	// "" if no subject is trained for them, or if this subject is.
	Other     string  `json:"other,omitempty"`
	OtherDead float64 `json:"other_dead,omitempty"`

	numbers bool // whether the errors are those of regression
}

// A cost is reported if it is larger than leastSilentLoss times the error with features that are declared missing. For
// classification it must also be larger than leastSilentPoints percentage points.
const leastSilentLoss, leastSilentPoints = 0.05, 1

// SilentLoss returns the nightmare and subject for which dead features cost most. If subjects that have not
// learned for dead features have a large enough cost, it returns one of these. It returns nil if no cost is
// large enough, or if no cost was measured.
func (r *Result) SilentLoss() (most *SilentLoss) {
	r.eachPair(func(declared, dead *Curve) {
		for i := range dead.Points {
			p := &dead.Points[i]
			s := &SilentLoss{Subject: dead.Subject, Nightmare: p.Nightmare, Missing: r.missing(p), Expects: dead.expects, numbers: r.Numbers}
			s.Declared, _ = declared.Points[i].errors()
			s.Dead, _ = p.errors()
			more := s.Dead - s.Declared
			switch {
			case p.Deleted == 0 || !(more >= leastSilentLoss*s.Declared && more > 0) || !r.Numbers && more < leastSilentPoints:
			case most == nil || most.Expects && !s.Expects, most.Expects == s.Expects && more > most.Dead-most.Declared:
				most = s
			}
		}
	})
	if most == nil || most.Expects {
		return most
	}
	r.eachPair(func(_, dead *Curve) {
		at := slices.IndexFunc(dead.Points, func(p Point) bool { return p.Nightmare == most.Nightmare })
		if !dead.expects || at < 0 {
			return
		}
		if x, _ := dead.Points[at].errors(); most.Other == "" || x < most.OtherDead {
			most.Other, most.OtherDead = dead.Subject, x
		}
	})
	return most
}

// missing returns the fraction of missing features during the nightmare.
func (r *Result) missing(p *Point) float64 {
	missing := p.Deleted / 100
	if p.Window != nil {
		missing *= float64(r.Events) / float64(max(1, min(p.Window[1], r.Events)-p.Window[0]))
	}
	return missing
}

// eachPair calls f with the curves for declared and dead features of each subject in each family.
func (r *Result) eachPair(f func(declared, dead *Curve)) {
	for i := range r.Curves {
		for j := range r.Curves {
			a, b := &r.Curves[i], &r.Curves[j]
			if a.Treatment == (Treatment{Loss: model.LossDeclared}) && b.Treatment == (Treatment{Loss: model.LossDead}) && a.Subject == b.Subject && a.Nightmare == b.Nightmare {
				f(a, b)
			}
		}
	}
}

// String returns one line of text, which names the key for learning with dead features. It returns "" for a
// nil SilentLoss.
func (s *SilentLoss) String() string {
	if s == nil {
		return ""
	}
	form := "%.1f %% error"
	if s.numbers {
		form = "an RMSE of %.4g"
	}
	text := fmt.Sprintf("%s at %s: "+form+" if features are dead, "+form+" if they are declared missing", event.Printable(s.Subject), event.Printable(s.Nightmare), s.Dead, s.Declared)
	switch d := min(max(math.Round(10*s.Missing)/10, 0.1), 0.9); {
	case s.Expects:
		return text
	case s.Other != "":
		return text + fmt.Sprintf("; %s, which expects dead features: "+form, event.Printable(s.Other), s.OtherDead)
	default:
		return text + fmt.Sprintf("; learner.silent_missing = %g learns for dead features", d)
	}
}
