package simulate

// This file computes how much larger the error is with silently missing features than with declared missing features.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
)

// SilentLoss has the nightmare and subject with the largest cost of silently missing features. The cost is the
// difference from the error with declared missing features. Errors are those of a Point.
type SilentLoss struct {
	Subject   string  `json:"model"`
	Nightmare string  `json:"nightmare"`
	Missing   float64 `json:"missing"` // fraction of missing features during the nightmare
	Declared  float64 `json:"declared"`
	Silent    float64 `json:"silent"`
	// Expects reports whether the subject has learned for silently missing features.
	Expects bool `json:"expects_silent_loss"`
	// Other is the subject with the smallest error in this nightmare, among the subjects trained for silently missing
	// features. It is "" if no subject is trained for them, or if this subject is.
	Other       string  `json:"other,omitempty"`
	OtherSilent float64 `json:"other_silent,omitempty"`

	regression string // name of the regression loss, "" for classification
}

// A cost is reported if it is larger than leastSilentLoss times the error with declared missing features. For
// classification it must also be larger than leastSilentPoints percentage points.
const leastSilentLoss, leastSilentPoints = 0.05, 1

// SilentLoss returns the nightmare and subject for which silently missing features cost most. If subjects that have not
// learned for silently missing features have a large enough cost, it returns one of these. It returns nil if no cost is
// large enough, or if no cost was measured.
func (r *Result) SilentLoss() (most *SilentLoss) {
	r.eachPair(func(declared, silent *Curve) {
		for i := range silent.Points {
			p := &silent.Points[i]
			s := &SilentLoss{Subject: silent.Subject, Nightmare: p.Nightmare, Missing: r.missing(p), Expects: silent.expects}
			if r.Numbers {
				s.regression = silent.loss
			}
			s.Declared, _ = declared.Points[i].errors()
			s.Silent, _ = p.errors()
			more := s.Silent - s.Declared
			switch {
			case p.Deleted == 0 || !(more >= leastSilentLoss*s.Declared && more > 0) || !r.Numbers && more < leastSilentPoints:
			case most == nil || most.Expects && !s.Expects, most.Expects == s.Expects && more > most.Silent-most.Declared:
				most = s
			}
		}
	})
	if most == nil || most.Expects {
		return most
	}
	r.eachPair(func(_, silent *Curve) {
		at := slices.IndexFunc(silent.Points, func(p Point) bool { return p.Nightmare == most.Nightmare })
		if !silent.expects || at < 0 {
			return
		}
		if x, _ := silent.Points[at].errors(); most.Other == "" || x < most.OtherSilent {
			most.Other, most.OtherSilent = silent.Subject, x
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

// eachPair calls f with the curves for Declared and Silent of each subject in each family.
func (r *Result) eachPair(f func(declared, silent *Curve)) {
	for i := range r.Curves {
		for j := range r.Curves {
			a, b := &r.Curves[i], &r.Curves[j]
			if a.Treatment == (Treatment{Dead: Declared}) && b.Treatment == (Treatment{Dead: Silent}) && a.Subject == b.Subject && a.Nightmare == b.Nightmare {
				f(a, b)
			}
		}
	}
}

// String returns one line of text, which names the key for learning with silently missing features. It returns "" for a
// nil SilentLoss.
func (s *SilentLoss) String() string {
	if s == nil {
		return ""
	}
	form, learn := "%.1f %% error", "--learn --learn=silent_missing=%g"
	if s.regression != "" {
		form, learn = "an RMSE of %.4g", "--learn=loss="+s.regression+" --learn=\"loss="+s.regression+" silent_missing=%g\""
	}
	text := fmt.Sprintf("%s at %s: "+form+" if the loss is silent, "+form+" if it is declared", event.Printable(s.Subject), event.Printable(s.Nightmare), s.Silent, s.Declared)
	switch d := min(max(math.Round(10*s.Missing)/10, 0.1), 0.9); {
	case s.Expects:
		return text
	case s.Other != "":
		return text + fmt.Sprintf("; %s, which expects silent loss: "+form, event.Printable(s.Other), s.OtherSilent)
	default:
		return text + fmt.Sprintf("; learner.silent_missing = %g learns for silent loss ("+learn+" measures it)", d, d)
	}
}
