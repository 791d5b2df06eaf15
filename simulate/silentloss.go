package simulate

// This file computes the cost of silent loss.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
)

// SilentLoss is where silent death costs a subject most, compared with declared loss. Errors are those of a Point.
type SilentLoss struct {
	Subject   string  `json:"model"`
	Nightmare string  `json:"nightmare"`
	Missing   float64 `json:"missing"` // the fraction of dead features during the nightmare
	Declared  float64 `json:"declared"`
	Silent    float64 `json:"silent"`
	// Expects says that the subject has learned for silent loss.
	Expects bool `json:"expects_silent_loss"`
	// Other is the subject with the smallest error there among those that have learned for silent loss, if this one has
	// not. "" if there is none.
	Other       string  `json:"other,omitempty"`
	OtherSilent float64 `json:"other_silent,omitempty"`

	regression string // the subject's loss for numbers, "" for classes
}

// Silent loss is reported if its cost exceeds this part of the declared error and, for classes, this number of
// percentage points.
const leastSilentLoss, leastSilentPoints = 0.05, 1

// SilentLoss returns where silent loss costs most. It considers subjects that have not learned for it, if it costs one
// of these enough. It returns nil if it costs no subject enough, or was not measured.
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

// missing returns the fraction of dead features during the nightmare.
func (r *Result) missing(p *Point) float64 {
	missing := p.Deleted / 100
	if p.Window != nil {
		missing *= float64(r.Events) / float64(max(1, min(p.Window[1], r.Events)-p.Window[0]))
	}
	return missing
}

// eachPair calls f with the declared and the silent curve of each subject in each family.
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

// String returns one line, with the key for learning silent loss. It returns "" for nil.
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
