package batch

// This file measures how much worse predictions become without a feature, a field or a group.

import (
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Ablation reports a model's errors on the same events with and without one part: a group, a field or a feature. To
// remove the part, it is declared missing in all events. Errors are in percent; for regression they are root mean
// squared errors.
type Ablation struct {
	Kind     string `json:"kind"` // kind of the part: group, field or feature, as in Failure
	Name     string `json:"name"`
	Events   int    `json:"events"`
	WithPart int    `json:"held"`  // number of events that have the part
	Since    int64  `json:"since"` // time of the oldest event in milliseconds since 1970; 0 if unknown
	// The field With is the error on all events with the part. The field Without is the error on the same events
	// without the part.
	With    float64 `json:"with"`
	Without float64 `json:"without"`
	// Recent has With and Without for consecutive spans of the events, oldest first.
	Recent []AblationSpan `json:"recent"`
	// Deletions are fractions of the other features that are missing at random. ForecastWith and ForecastWithout are
	// the expected errors at these fractions, as in ModelMeasures.Robustness.
	Deletions       []float64  `json:"deletions"`
	ForecastWith    []*float64 `json:"forecast_with"`
	ForecastWithout []*float64 `json:"forecast_without"`
}

// AblationSpan has the errors of an Ablation for one span of consecutive events.
type AblationSpan struct {
	Events  int     `json:"events"`
	Until   int64   `json:"until"` // time of the last event in milliseconds since 1970; 0 if unknown
	With    float64 `json:"with"`
	Without float64 `json:"without"`
}

// ablationSpans is the largest length of Ablation.Recent.
const ablationSpans = 16

// UnknownPartError reports that no event has a part with this name.
type UnknownPartError struct {
	Kind, Name string
	Events     int
}

func (e *UnknownPartError) Error() string {
	return fmt.Sprintf("none of %d recent events holds a %s %q", e.Events, e.Kind, e.Name)
}

// WithoutPart measures m's error on events with and without a part: a group, a field or a feature. The events have
// labels and are in the order of the stream. The error is an *UnknownPartError if no event has the part.
func WithoutPart(m *model.Linear, events []event.Example, kind, name string, deletions []float64) (*Ablation, error) {
	dies, err := diesWith(&m.Head, kind, name)
	if err != nil {
		return nil, err
	}
	g := &Ablation{Kind: kind, Name: name, Events: len(events), Deletions: deletions}
	left, declared := make([]event.Example, len(events)), model.Losses{Fields: m.Schema.Fields}
	var dead []bool
	var room event.Example
	for i := range events {
		e := m.Declare(&events[i], &room)
		dead = dead[:0]
		for j, column := range e.Features.Index {
			id := uint16(0)
			if e.Field != nil {
				id = e.Field[j]
			}
			dead = append(dead, dies(id, column))
		}
		if slices.Contains(dead, true) {
			g.WithPart++
		}
		declared.Lose(model.LossDeclared, e, 0, e.Features.Index, dead, &left[i])
	}
	if g.WithPart == 0 {
		return nil, &UnknownPartError{kind, name, len(events)}
	}
	g.Since = events[0].Time
	g.With, g.Without = servedError(m, events), servedError(m, left)
	spans := min(ablationSpans, len(events))
	for i := range spans {
		from, to := i*len(events)/spans, (i+1)*len(events)/spans
		g.Recent = append(g.Recent, AblationSpan{to - from, events[to-1].Time, servedError(m, events[from:to]), servedError(m, left[from:to])})
	}
	for _, side := range []struct {
		events []event.Example
		to     *[]*float64
	}{{events, &g.ForecastWith}, {left, &g.ForecastWithout}} {
		v := NewEvidence(m)
		for i := range side.events {
			if err := v.HeldOut(&side.events[i]); err != nil {
				return nil, err
			}
		}
		d := v.measured(v.heldOut)
		w := v.weights(v.all(), m, DefaultConfig()).decided(v.all(), m)
		*side.to = allDefined(w.robustness(d, deletions, func(int) {}))
	}
	return g, nil
}

// diesWith returns a function that reports whether a feature becomes missing if the part is missing. A product of two
// fields becomes missing if either field does.
func diesWith(h *model.Head, kind, name string) (func(field uint16, column uint32) bool, error) {
	if kind == "feature" {
		called := h.Namer()
		known := map[uint32]bool{}
		return func(_ uint16, column uint32) bool {
			dies, ok := known[column]
			if !ok {
				dies = called(column) == name
				known[column] = dies
			}
			return dies
		}, nil
	}
	if kind != "group" && kind != "field" {
		return nil, fmt.Errorf("kind %q: want one of group, field, feature", kind)
	}
	fields, factors := h.Schema.Fields, h.Schema.Factors()
	of := func(id int) string {
		if id == 0 || id >= len(fields) {
			return ""
		}
		if kind == "group" {
			return fields[id].Group
		}
		return fields[id].Name
	}
	return func(field uint16, _ uint32) bool {
		if int(field) >= len(factors) {
			return false
		}
		f := factors[field]
		return name != "" && (of(int(field)) == name || of(f[0]) == name || of(f[1]) == name)
	}, nil
}

// servedError returns the error of m's predictions for events.
func servedError(m *model.Linear, events []event.Example) float64 {
	d := measured{target: m.Target()}
	scores, cost, weight := make([]float64, max(2, m.Outputs, len(m.Schema.Classes))), 0.0, 0.0
	for i := range events {
		e := &events[i]
		s := m.Score(e, scores)
		weight += e.Weight
		if d.target != loss.Sign {
			off := e.Target - m.Value(s[0])
			cost += e.Weight * off * off
		} else if m.Predict(s) != e.Label {
			cost += e.Weight
		}
	}
	if weight == 0 {
		return 0
	}
	return d.error(cost, weight)
}
