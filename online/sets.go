package online

// This file finds how much answers must leave open to hold the truth as often as Config.Coverage
// says: it makes scores of answers for package cover.

import (
	"fmt"
	"math"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
	"blankout/online/cover"
	"blankout/online/watch"
)

// sets is the answering's part of them.
type sets struct {
	*cover.Cover // nil where Config.Coverage is 0
	chances      []float64
}

// of returns s, or new sets of a coverage, for so many outputs.
func (s sets) of(coverage float64, outputs int) sets {
	if s.Cover == nil && coverage > 0 {
		s.Cover = cover.New(coverage)
	}
	s.chances = make([]float64, max(2, outputs))
	return s
}

// sizeEvery is how often the size of sets of more than two classes is found.
const sizeEvery = 16

// takeTold takes up what the event at hand was told: scores, of classes.
func (l *answering) takeTold(scores []float64, label int) {
	if l.sets.Cover == nil || l.period > 0 {
		return
	}
	l.takeScores(l.fields.Range, scores, label, l.k == 1 || l.events%sizeEvery == 0)
}

// takeMasked takes up how the event at hand is answered with a mask. The range is r, and filled says that
// what fillPattern found is part of it.
func (l *answering) takeMasked(r int, scores []float64, label int, filled bool) {
	if l.sets.Cover == nil || l.period > 0 || r == 0 || !l.shares.Heeds(r) {
		return
	}
	if !l.set.numbers {
		for k := l.active; k < l.k; k++ {
			scores[k] = unseenIntercept
		}
		l.takeScores(r, scores, label, true)
		return
	}
	l.takeNumber(l.now.raw, l.unit.Value(scores[0]), l.maskedLacked(r, filled))
}

// maskedLacked returns what a mask opens of the interval of a number.
func (l *answering) maskedLacked(r int, filled bool) model.Lacked {
	by := model.Lacked{Range: r}
	if filled {
		off := (1 - l.shares.InForce[r].Rules[2]) * l.probing.sums[2][0]
		by.Variance = l.unit.Variance(l.probing.variance[0] + off*off)
	}
	return by
}

// takeScores takes up scores of classes.
func (l *answering) takeScores(r int, scores []float64, label int, sized bool) {
	d, limit := l.decision(), l.sets.Limit(r)
	class := d.Predict(scores)
	x := cover.Score{Value: min(d.LogLoss(scores, label), model.MostLimit), First: class == label, Size: math.NaN()}
	if sized && limit >= 0 {
		x.Size = 1
		l.sets.chances = d.Probabilities(scores, l.sets.chances)
		least := math.Exp(-limit)
		for k, p := range l.sets.chances[:max(2, l.active)] {
			if k != class && (p >= least || limit == model.MostLimit) {
				x.Size++
			}
		}
	}
	l.sets.take(r, x, l.shared())
}

// takeNumber takes up a value that was told for the target y.
func (l *answering) takeNumber(y, value float64, by model.Lacked) {
	residual := l.residual.Published()
	if l.sets.Cover == nil || l.period > 0 || residual == nil {
		return
	}
	low, high := residual.Interval(l.unit.Target, value, by.Variance, l.sets.Limit(by.Range))
	l.sets.take(by.Range, cover.Score{Value: residual.Score(l.unit.Target, y, value, by.Variance), Size: high - low}, false)
}

// take takes up a score, for an interval of several learners if shared is set.
func (s *sets) take(r int, x cover.Score, shared bool) {
	if shared {
		s.Add(r, x)
	} else {
		s.Take(r, x)
	}
}

// report returns how the sets have done.
func (s *sets) report() []cover.Report {
	if s.Cover == nil {
		return nil
	}
	return s.Report()
}

// low warns of ranges in which sets hold the truth too seldom.
func (s *sets) low() (out []watch.Warning) {
	if s.Cover == nil {
		return nil
	}
	for _, x := range s.Low() {
		out = append(out, watch.Warning{Kind: watch.WarnCoverage, Text: fmt.Sprintf("of the latest events that lack a share %s of their fields, the sets or intervals that were answered hold the label of %.1f %% and should of %.4g %% (learner.coverage): "+
			"the stream changes faster than they can follow", x.Range, 100*x.Recent, 100*s.Sets().Coverage)})
	}
	return out
}

// sums returns a copy of what an interval adds to.
func (s *sets) sums() *cover.Cover {
	if s.Cover == nil {
		return nil
	}
	return s.Sums()
}

// published returns the limits for readers, nil where there are none.
func (s *sets) published() *model.Sets {
	if s.Cover == nil {
		return nil
	}
	return s.Cover.Sets()
}

// interval returns the interval of a value, NaN where none is known.
func (l *answering) interval(value float64, by model.Lacked) (low, high float64) {
	residual, limit := l.residual.Published(), -1.0
	if residual == nil {
		return math.NaN(), math.NaN()
	}
	if told := l.sets.published(); told != nil {
		limit = told.Limits[by.Range]
	}
	return residual.Interval(l.unit.Target, value, by.Variance, limit)
}

// blockSets is the block of a checkpoint that holds the scores. Older ones have none.
const blockSets = "sets"

// restore takes up the block.
func (s *sets) restore(blocks []blankout.Block) error {
	data, err := blankout.FindBlock(blocks, blockSets)
	if err != nil || s.Cover == nil {
		return nil // it is optional
	}
	return s.decode(data)
}

func (s *sets) decode(data []byte) error {
	c := coder.Read(data)
	if s.State(c); !c.Done() {
		return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", blockSets, len(data))
	}
	return nil
}

// encode returns the block, nil where there is none.
func (s *sets) encode() []byte {
	if s.Cover == nil {
		return nil
	}
	c := &coder.Coder{}
	s.State(c)
	return c.Out
}
