// Package next is the learner, written anew: values in, values out. It will take the place of package online.
//
// An event goes one way: encode.Encoder makes an Input of it, the expert (adagrad) scores that, the Mixture weighs the
// scores of its levels to a Prediction, the measures and the mixture take up what that has lost, and the expert learns.
package next

import (
	"fmt"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/next/adagrad"
	"blankout/online/next/encode"
	"blankout/online/next/mixture"
	"blankout/online/pace"
	"blankout/online/watch"
)

// Prediction is what a reader of the model is given for an event, as numbers.
type Prediction struct {
	Learned uint64    // events learned before it
	Scores  []float64 // by output, borrowed until the next call
	Refused bool      // the event can not be used; there are no scores then
}

// Learner learns a linear model of two classes event by event. It is not safe for concurrent use.
type Learner struct {
	config   online.Config
	set      settings
	encoder  *encode.Encoder
	levels   *adagrad.Expert
	mixture  *mixture.Mixture
	watch    *watch.Watch
	classes  []float64 // weight of a class, NaN until one has come
	events   uint64    // met with a weight above 0
	weights  pace.Importance
	snapshot *model.Table // the latest, to share its blocks
	room     room
}

// room is memory for one event, and holds nothing from one to the next.
type room struct {
	in        encode.Input
	scores    adagrad.Scores
	published []float64 // by level and output
	target    [1]float64
	out       []float64
}

// New returns a Learner for events of the Schema, which stays the decoder's: it may grow before the Learn of an event
// that needs the growth.
func New(c online.Config, s *event.Schema) (*Learner, error) {
	if want := loss.LabelsOf(c.Loss); s.Target != want {
		return nil, fmt.Errorf("learner: loss %s is for %v labels, the schema has %v", c.Loss, want, s.Target)
	}
	if s.Outputs() != 1 || s.MaxClasses > 2 {
		return nil, fmt.Errorf("learner: max_classes = %d: more than two classes: %w", s.MaxClasses, errNotYet)
	}
	set, err := parse(c, 1)
	if err != nil {
		return nil, fmt.Errorf("learner: %w", err)
	}
	n := len(set.levels.Noises)
	l := &Learner{
		config: c, set: set, encoder: encode.New(set.standardize, s, adagrad.Width(n, 1), set.transform),
		levels: adagrad.New(set.levels), mixture: mixture.New(n, set.expected, set.scales, 1), watch: watch.New(),
	}
	l.watch.Measures.Binary = &measure.Binary{}
	l.room = room{scores: l.levels.NewScores(), published: make([]float64, n), out: make([]float64, 1)}
	return l, nil
}

// Predict returns what the model answers to an event. It learns nothing and observes nothing.
func (l *Learner) Predict(e *event.Example) Prediction {
	if !e.Usable() {
		return Prediction{Learned: l.events, Refused: true}
	}
	l.encoder.Read(e, l.events+1, &l.room.in)
	return l.predict()
}

// predict scores the Input at hand.
func (l *Learner) predict() Prediction {
	r := &l.room
	l.levels.Score(&r.in, &r.scores)
	l.levels.Published(&r.scores, r.published)
	l.mixture.Score(r.published, r.out)
	return Prediction{Learned: l.events, Scores: r.out}
}

// Learn scores an event, learns from it, and returns what Predict would have. Prior is what a reader was given where
// the label comes later than the event: that is what is measured, and nil where the event comes with its label.
//
// An importance weight of 0 leaves everything as it was. A whole weight up to 16 is learned that often in a row. An
// event without label moves no weight. One that is refused is counted and not learned.
func (l *Learner) Learn(e *event.Example, prior *Prediction) Prediction {
	if !e.Usable() {
		l.watch.Refused.Take(e, l.events)
		return Prediction{Learned: l.events, Refused: true}
	}
	if e.Weight == 0 {
		return l.Predict(e)
	}
	l.events++
	p := Prediction{}
	if e.Label == event.Unlabeled {
		p = l.unlabeled(e)
	} else {
		p = l.labeled(e, prior)
	}
	if p.Learned--; l.events%applyEvery == 0 {
		l.mixture.Apply()
	}
	return p
}

// labeled learns an event with a label.
func (l *Learner) labeled(e *event.Example, prior *Prediction) Prediction {
	weight := l.weights.Observe(e.Weight) * l.weightOf(e.Label)
	r := &l.room
	l.encoder.Observe(e, l.events, &r.in)
	l.move(r.in.Moves)
	p := l.predict()
	shown := p
	shown.Learned--
	if prior != nil && len(prior.Scores) == len(p.Scores) {
		shown = *prior
	}
	l.measure(e, shown)
	every := decides(l.events)
	if every > 0 {
		l.mixture.Observe(r.published, e.Label)
	}
	l.update(e.Label, weight, every)
	l.move(l.encoder.Review())
	return p
}

// unlabeled answers an event without label, and lets it count as its expected curvature.
func (l *Learner) unlabeled(e *event.Example) Prediction {
	l.watch.Measures.Unlabeled++
	l.encoder.Read(e, l.events, &l.room.in)
	p := l.predict()
	if w := l.config.UnlabeledWeight; w > 0 {
		l.levels.Accumulate(&l.room.in, &l.room.scores, w*l.weights.Bound(e.Weight), l.encoder.Table)
	}
	return p
}

// update makes the steps of the event at hand, as often as its weight says. It is one of every many that decide, 0 if
// it decides nothing.
func (l *Learner) update(label int, weight float64, every uint64) {
	r := &l.room
	r.target[0] = float64(2*label - 1)
	first := true
	pace.Parts(weight, true, func(part float64) {
		if !first {
			l.levels.Score(&r.in, &r.scores)
		}
		first = false
		l.levels.Update(&r.in, &r.scores, r.target[:], part, every, l.encoder.Table)
	})
}

// move makes weights fit scales that have moved.
func (l *Learner) move(moves []encode.Move) {
	for _, m := range moves {
		l.levels.Move(m, l.encoder.Intercepts)
	}
}

// weightOf returns the weight of a class.
func (l *Learner) weightOf(class int) float64 {
	for class >= len(l.classes) {
		l.classes = append(l.classes, l.config.WeightOf(l.encoder.Schema().Classes[len(l.classes)]))
	}
	return l.classes[class]
}

// decision says what scores mean.
func (l *Learner) decision() model.Decision { return model.Decision{Threshold: l.config.Threshold} }

// measure takes up what was answered to a labeled event.
func (l *Learner) measure(e *event.Example, shown Prediction) {
	j := l.decision().Judge(shown.Scores, e.Label)
	l.watch.Told(watch.Told{
		Number: l.events, After: shown.Learned, Time: e.Time, Label: e.Label, Weight: e.Weight, Learned: e.Weight * l.classes[e.Label],
		Loss: j.LogLoss, Predicted: j.Class, Score: shown.Scores[0], Probability: j.Probability, Likelihood: true,
	})
}

// Follow gives the Learner a later state of its Schema, for a caller that decodes on another goroutine.
func (l *Learner) Follow(s *event.Schema) { l.encoder.Follow(s) }

// Prefetch says that an event is about to be learned. It changes nothing.
func (l *Learner) Prefetch(e *event.Example) { l.encoder.Table.Prefetch(e.Features) }
