package health

// This file measures how the loss of predictions depends on the age of the weights.
//
// Progressive measures use current weights, but readers of exports and snapshots have older ones. So a learner freezes
// its model from time to time. The frozen model predicts labeled events that arrive about 100, 1,000 and 10,000 events
// later. The losses of the current weights at the same events are summed too, so that both can be compared event by
// event. Sums are over the whole stream, without decay.
//
// All decisions depend only on the numbers of events and of their features, and are part of the state. So threads,
// clocks and restarts change nothing. The file stores frozen models but does not create them.

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/rows"
)

// StaleAges are the ages of the weights, in events. An actual age may differ by a tenth.
var StaleAges = [...]uint64{100, 1000, 10000}

// predictEvery is, by age, the number of suitable events per predicted event. predictEveryWide is the same for models with rows
// of at least wideRows values. Such models are frozen so rarely that more predictions cost little.
var predictEvery, predictEveryWide = [len(StaleAges)]uint64{2, 5, 15}, [len(StaleAges)]uint64{1, 3, 12}

const (
	wideRows = 1 << 13
	// A model is frozen at a multiple of freezeEvery events if the budget is at least freezeHead plus the number of
	// the model's rows. The budget is freezeStart plus freezeFraction times the number of learned features.
	freezeEvery    = 1000
	freezeFraction = 0.01
	freezeStart    = 1 << 13
	freezeHead     = 150
	// freezeMost is the size in bytes of the largest model that is frozen.
	freezeMost = 64 << 20
)

// losses has the losses of a prediction. For classification these are the error (0 or 1) and the log-loss, and for
// regression the absolute error and the deviance.
type losses struct{ Error, Loss float64 }

// staleness holds the frozen models and the sums. The zero value is ready for use. A copy is a valid snapshot, because
// models are immutable.
type staleness struct {
	seen   uint64   // number of the last learned event
	credit float64  // number of features in the budget
	now    lossSums // sums for the current weights, at events that are predicted for any age
	ages   [len(StaleAges)]olderModel
}

// olderModel holds the frozen model for one of the StaleAges, and sums of losses at the events that this model predicted.
type olderModel struct {
	model      *model.Linear // nil if there is none
	born       uint64        // number of the last event that the model has learned
	old, fresh lossSums      // for the frozen model, and for the current weights at the same events
	constant   lossSums      // sums for predicting the class frequencies, for classification
}

// mostLoss bounds each loss that is added, so that sums are finite.
const mostLoss = 1e100

type lossSums struct{ events, weight, wrong, loss float64 }

func (s *lossSums) add(weight float64, x losses) {
	s.events++
	s.weight += weight
	s.wrong += weight * boundedLoss(x.Error)
	s.loss += weight * boundedLoss(x.Loss)
}

// boundedLoss returns a loss, or mostLoss in place of a larger one and of NaN.
func boundedLoss(loss float64) float64 {
	if loss < mostLoss {
		return loss
	}
	return mostLoss
}

// inReach reports whether the model for StaleAges[i] has an age close to it at the event with number n.
func (a *staleness) inReach(i int, n uint64) bool {
	x := &a.ages[i]
	return x.model != nil && n-1-x.born >= ageReaches[i][0] && n-1-x.born <= ageReaches[i][1]
}

// ageReaches has, for each of StaleAges, the smallest and the largest actual age.
var ageReaches = func() (out [len(StaleAges)][2]uint64) {
	for i, age := range StaleAges {
		out[i] = [2]uint64{age - age/10, age + age/10}
	}
	return out
}()

// due returns the model that must predict the event with number n for the age StaleAges[i], or nil.
func (a *staleness) due(i int, n uint64) *model.Linear {
	if !a.inReach(i, n) {
		return nil
	}
	x, one := &a.ages[i], predictEvery[i]
	if x.model.Rows.Len() >= wideRows {
		one = predictEveryWide[i]
	}
	if !drawnForAge(n, one) {
		return nil
	}
	return x.model
}

// drawnForAge reports whether an event is in a random sample of one in n. A random sample does not follow a period of the
// stream.
func drawnForAge(number, n uint64) bool {
	var r rand.PCG
	r.Seed(number, 0x61676564)
	return r.Uint64()%n == 0
}

// addFresh adds the loss of the current weights at an event. It must be called if due returns a model for some age.
func (a *staleness) addFresh(weight float64, fresh losses) { a.now.add(weight, fresh) }

// add adds the losses at an event for the age StaleAges[i]: the loss of the old model, of the current weights (fresh), and
// of predicting the class frequencies (constant).
func (a *staleness) add(i int, weight float64, old, fresh, constant losses) {
	a.ages[i].old.add(weight, old)
	a.ages[i].fresh.add(weight, fresh)
	a.ages[i].constant.add(weight, constant)
}

// Learned records that event n, with the given number of features, has been learned. At multiples of freezeEvery events it
// discards models that are too old. The result is true if the caller must freeze the current model. It depends on the
// number of the model's rows and their size in bytes.
func (a *staleness) Learned(n uint64, features, rows, bytes int) bool {
	if n == a.seen {
		return false // no new event has been learned
	}
	if a.seen == 0 {
		a.credit = freezeStart
	}
	a.seen = n
	a.credit += freezeFraction * float64(features)
	if n%freezeEvery != 0 {
		return false
	}
	for i := range a.ages {
		if x := &a.ages[i]; x.model != nil && n-x.born > ageReaches[i][1] {
			x.model = nil
		}
	}
	cost := float64(freezeHead + rows)
	if rows*bytes > freezeMost || a.credit < cost {
		return false
	}
	a.credit = min(a.credit, max(freezeStart, cost)) - cost
	return true
}

// Freeze stores a model that has learned n events. The model is used for each age that has no model.
func (a *staleness) Freeze(n uint64, m *model.Linear) {
	for i := range a.ages {
		if x := &a.ages[i]; x.model == nil {
			x.model, x.born = m, n
		}
	}
}

// Stop discards all models and ends the measurements.
func (a *staleness) Stop() {
	for i := range a.ages {
		a.ages[i].model = nil
	}
}

// The part below saves, restores and reports staleness.

// report returns the losses for each age that has predictions, in ascending order from age 0. numbers is true for
// regression.
func (a *staleness) report(numbers bool) (out []measure.StaleLoss) {
	means := func(s lossSums) (err, logLoss, deviance *float64) {
		if err = measure.Defined(s.wrong / s.weight); numbers {
			return err, nil, measure.Defined(s.loss / s.weight)
		}
		return err, measure.Defined(s.loss / s.weight), nil
	}
	if a.now.events > 0 {
		r := measure.StaleLoss{Events: a.now.events}
		r.Error, r.LogLoss, r.Deviance = means(a.now)
		out = append(out, r)
	}
	for i := range a.ages {
		x := &a.ages[i]
		if x.old.events == 0 {
			continue
		}
		r := measure.StaleLoss{Age: StaleAges[i], Events: x.old.events}
		r.Error, r.LogLoss, r.Deviance = means(x.old)
		r.FreshError, r.FreshLogLoss, r.FreshDeviance = means(x.fresh)
		if !numbers {
			r.ConstantError, r.ConstantLogLoss, _ = means(x.constant)
		}
		out = append(out, r)
	}
	return out
}

// BlockStale is the name of the checkpoint block with the sums. The block also lists which frozen model is used for which
// age. The names of the blocks with the models start with BlockStale.
const BlockStale = "aged"

// stalePrefix returns the prefix of a frozen model's block names.
func stalePrefix(i int) string { return fmt.Sprintf("%s/%d/", BlockStale, i) }

// state encodes or decodes the state except the models. models lists each model once.
func (a *staleness) state(c *coder.Coder, models []*model.Linear) {
	c.Uint(&a.seen)
	c.Float(&a.credit)
	a.now.state(c)
	for i := range a.ages {
		x := &a.ages[i]
		x.old.state(c)
		x.fresh.state(c)
		x.constant.state(c)
		at := 1 + slices.Index(models, x.model) // 0 for none
		c.Int(&at)
		c.Uint(&x.born)
		if !c.Decode {
			continue
		}
		if x.model = nil; at < 0 || at > len(models) || x.born > a.seen {
			c.Failed = true
		} else if at > 0 {
			x.model = models[at-1]
		}
	}
}

func (s *lossSums) state(c *coder.Coder) {
	for _, p := range []*float64{&s.events, &s.weight, &s.wrong, &s.loss} {
		c.Float(p)
		c.Failed = c.Failed || !(*p >= 0)
	}
}

// EachBlock yields the encoded blocks. There are no blocks before the first event.
func (a *staleness) EachBlock() (iter.Seq[event.Block], error) {
	var models []*model.Linear
	var each []iter.Seq[event.Block]
	for i := range a.ages {
		m := a.ages[i].model
		if m == nil || slices.Contains(models, m) {
			continue
		}
		blocks, err := m.EachBlock()
		if err != nil {
			return nil, err
		}
		models, each = append(models, m), append(each, blocks)
	}
	own := *a
	data := coder.Encode(func(c *coder.Coder) { own.state(c, models) })
	return func(yield func(event.Block) bool) {
		if own.seen == 0 || !yield(event.Block{Name: BlockStale, Data: data}) {
			return
		}
		for i, blocks := range each {
			for b := range blocks {
				if b.Name = stalePrefix(i) + b.Name; !yield(b) {
					return
				}
			}
		}
	}, nil
}

// Restore decodes the blocks. blocks may also contain blocks of other packages. A model may have at most the given
// number of outputs.
func (a *staleness) Restore(blocks []event.Block, outputs int) error {
	data, err := event.FindBlock(blocks, BlockStale)
	if err != nil {
		return nil // the block is optional
	}
	var models []*model.Linear
	for i := range StaleAges {
		own := event.BlocksUnder(blocks, stalePrefix(i))
		if own == nil {
			break
		}
		m, err := model.ReadLinear(own)
		if err == nil && m.Outputs > outputs {
			err = fmt.Errorf("%d outputs, of %d", m.Outputs, outputs)
		}
		if err != nil {
			return fmt.Errorf("restoring the learner: a model in the blocks %s: %w", stalePrefix(i), err)
		}
		models = append(models, m)
	}
	c := coder.Read(data)
	if a.state(c, models); !c.Done() {
		return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", BlockStale, len(data))
	}
	return nil
}

// The part below has the monitor.

// olderWeights measures the loss of predictions with older weights.
type olderWeights struct {
	staleness
	schema   *event.Schema
	measures *Measures
	old      model.Linear // reusable memory for an older model
	scores   []float64
}

// Observe must be called before Counts observes the event. The baseline's loss uses the class frequencies, which must
// not include the event.
func (s *olderWeights) Observe(e *Event) *Request {
	if !e.Labeled || e.Again {
		return nil
	}
	some, fresh := false, losses{}
	for i := range StaleAges {
		due := s.due(i, e.Number)
		if due == nil {
			continue
		}
		if !some {
			some, fresh = true, s.lost(e, e.Now, e.Decision, e.Fresh)
			s.addFresh(e.Weight, fresh)
		}
		s.add(i, e.Weight, s.older(e, due), fresh, s.constant(e))
	}
	return nil
}

// older returns the loss of the older model due at an event.
func (s *olderWeights) older(e *Event, due *model.Linear) losses {
	s.old = *due
	m := &s.old
	m.Schema = s.schema // the stream's Schema, which only grows
	s.scores = slices.Grow(s.scores[:0], max(m.Outputs, len(e.Now)))[:m.Outputs]
	scores, d := m.Score(e.Met.Came, s.scores), m.Decision()
	if m.Outputs == 1 && len(e.Now) > 1 {
		d = model.Decision{Threshold: d.Threshold} // its link is only for one output
	}
	value := math.NaN()
	if e.Regression {
		value = m.Value(scores[0])
	}
	return s.lost(e, Widened(scores, len(e.Now), &s.scores), d, value)
}

// Widened appends scores for the classes that were added after an event was scored. The result uses the memory of room.
func Widened(scores []float64, classes int, room *[]float64) []float64 {
	if len(scores) == classes {
		return scores
	}
	out := append((*room)[:0], scores...)
	if len(out) == 1 {
		out = append(out[:0], -scores[0], scores[0])
	}
	for len(out) < classes {
		out = append(out, rows.NoClass)
	}
	*room = out
	return out
}

// lost returns the losses at an event of predicted scores or, for regression, of a predicted value.
func (s *olderWeights) lost(e *Event, scores []float64, d model.Decision, value float64) (x losses) {
	if e.Regression {
		return losses{Error: math.Abs(e.Target - value), Loss: measure.Deviance(s.measures.Numbers.Loss, e.Target, value)}
	}
	j := d.Judge(scores, e.Label)
	if x.Loss = j.LogLoss; j.Class != e.Label {
		x.Error = 1
	}
	return x
}

// constant returns the losses at an event of predicting the class frequencies of the earlier events. It returns zero
// for regression.
func (s *olderWeights) constant(e *Event) (x losses) {
	if e.Regression {
		return x
	}
	all, own, most := 0.0, 0.0, 0.0
	for class, n := range s.measures.Classes {
		all += float64(n)
		if most = max(most, float64(n)); class == e.Label {
			own = float64(n)
		}
	}
	if own < most {
		x.Error = 1
	}
	x.Loss = -math.Log((own + 1) / (all + float64(max(2, e.Active))))
	return x
}

// State does nothing, because the older models have their own checkpoint blocks.
func (s *olderWeights) State(*coder.Coder) {}

func (s *olderWeights) Report(r *Report) { r.ByAge = s.staleness.report(s.measures.Numbers != nil) }

// warning describes the ages at which weights predict worse than the class frequencies. It returns "" if there are
// none.
func (s *olderWeights) warning(of loss.Loss) string {
	byAge := s.staleness.report(s.measures.Numbers != nil)
	return measure.Stale(measure.StaleLossPercent(byAge), strings.HasPrefix(of.String(), "logistic"))
}
