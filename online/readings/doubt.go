package readings

// This file learns, from a labeled stream, which readings to doubt: what the readings of each column are like, how
// much evidence ordinary events have, and whether predictions improve if doubted readings are replaced. Package model
// then doubts the readings of events with the published model.Doubt.
//
// The weight of a corrected prediction is learned by kind and by range of the evidence: from the stream's own events with
// doubted readings, and from masked copies of events, which count for little as soon as there are own events.

import (
	"cmp"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Doubter learns a model.Doubt. Its zero value is for a new stream.
type Doubter struct {
	Readings    model.Readings
	square      float64 // mean squared error of recent examined events, for regression
	first, last [2]ring // evidence of ordinary events with few zeros and of those with many
	real, mask  table
}

// table has gains by kind and by range of the evidence: those of the corrected prediction and, in its last row, those of
// the prediction without fill values.
type table [restRow + 1][model.DoubtRanges]gains

const restRow = model.DoubtKinds

// candidates are the weights of the corrected prediction that compete.
var candidates = [...]float64{0, 0.25, 0.5, 0.75, model.DoubtMost}

// gains has, for each of the candidates, by how much the mixture with this weight lowers the log-loss, with recent
// events weighted more. A mixture of probabilities loses at most the logarithm of 1 - weight, so that few events cannot
// decide everything.
type gains struct {
	sums  [len(candidates)]float64
	count float64
}

const (
	gainsMemory = 256 // number of events over which sums extend
	// Masked copies count like at most maskWorth of the stream's own events, and for nothing from realEnough own events on:
	// where a contradiction is the sign of a class, masked copies look like that class. Until there are gainsLeast gains,
	// readings of kinds other than fill values are reported but not corrected. Masked copies in all ranges of the evidence
	// together count like at most pooledWorth more.
	maskWorth, realEnough, gainsLeast, pooledWorth = 16, 8, 8, 16
	// A fill value has been found by a test: it begins as if fillEvents events had gained fillGain nats each.
	fillEvents, fillGain = 10, 0.5
)

// add adds the gain of the corrected prediction over the prediction of the event as it is. It ignores NaN, the gain where
// both losses are infinite.
func (g *gains) add(gain float64) {
	if math.IsNaN(gain) {
		return
	}
	ratio := loss.Exp(min(gain, 30))
	for i, w := range candidates {
		g.sums[i] = (1-1.0/gainsMemory)*g.sums[i] + math.Log(1-w+w*ratio)
	}
	g.count = (1-1.0/gainsMemory)*g.count + 1
}

// plus returns the gains of both, where others count like at most worth events.
func (g gains) plus(others gains, worth float64) gains {
	part := min(1, worth/max(others.count, 1))
	for i := range g.sums {
		g.sums[i] += part * others.sums[i]
	}
	g.count += others.count
	return g
}

// weight returns the weight of the predictions of a row of the tables in a range of the evidence: the mean of the
// candidates by their posterior probabilities.
func (d *Doubter) weight(kind, bin int) float64 {
	real, all := d.real[kind][bin], gains{}
	for _, g := range d.mask[kind] {
		all = all.plus(g, g.count)
	}
	part := max(0, 1-real.count/realEnough)
	real = real.plus(d.mask[kind][bin], maskWorth*part).plus(all, pooledWorth*part)
	switch {
	case kind == model.DoubtsFill:
		for i, w := range candidates {
			real.sums[i] += fillEvents * math.Log(1-w+w*loss.Exp(fillGain))
		}
	case real.count < gainsLeast:
		return 0
	}
	most, sum, mean := slices.Max(real.sums[:]), 0.0, 0.0
	for i, w := range candidates {
		p := loss.Exp(real.sums[i] - most)
		sum, mean = sum+p, mean+p*w
	}
	return min(mean/sum, model.DoubtMost)
}

const (
	ringSize  = 256 // number of events of which evidence is kept
	ringLeast = 16  // number of events from which on a quantile is known
)

// ring has the latest values of a quantity.
type ring struct {
	values, sorted []float64
	next           int
}

// unbounded stands for an infinite evidence, which JSON cannot have.
const unbounded = 1e300

// push adds a value, in place of the oldest of too many.
func (r *ring) push(x float64) {
	if x = min(max(x, -unbounded), unbounded); len(r.values) < ringSize {
		r.values = append(r.values, x)
		r.next = len(r.values) % ringSize
	} else {
		at, _ := slices.BinarySearch(r.sorted, r.values[r.next])
		r.sorted = slices.Delete(r.sorted, at, at+1)
		r.values[r.next] = x
		r.next = (r.next + 1) % ringSize
	}
	at, _ := slices.BinarySearch(r.sorted, x)
	r.sorted = slices.Insert(r.sorted, at, x)
}

// quantile returns the quantile q, or another number while there are too few values.
func (r *ring) quantile(q, other float64) float64 {
	if len(r.values) < ringLeast {
		return other
	}
	return r.sorted[int(q*float64(len(r.sorted)))]
}

// The quantiles of the evidence of ordinary events above which rounds follow, and readings are doubted.
const screenQuantile, gateQuantile = 0.8, 0.9

// Note keeps the readings of an event. covariance may be nil.
func (d *Doubter) Note(e *event.Example, covariance *model.Covariance) {
	if covariance == nil {
		return
	}
	d.Readings.Follow(covariance.Columns)
	if d.Readings.Note(e); d.Readings.Due() {
		d.Readings.Learn()
	}
}

// doubt returns a Doubt without weights. It shares memory with d and is valid until the next call of a method of d.
func (d *Doubter) doubt() *model.Doubt {
	out := &model.Doubt{Columns: d.Readings.Columns()}
	for i := range out.Gate {
		other := &d.last[1-i] // for too few such events
		out.Screen[i], out.Gate[i] = d.first[i].quantile(screenQuantile, -unbounded), max(0, d.last[i].quantile(gateQuantile, other.quantile(gateQuantile, unbounded)))
	}
	return out
}

// Published returns the Doubt in effect, for models; nil before there is one. If logs is true, readings are doubted and
// no prediction changes.
func (d *Doubter) Published(logs bool) *model.Doubt {
	if len(d.Readings.Columns()) == 0 {
		return nil
	}
	out := d.doubt()
	if out.Columns = slices.Clone(out.Columns); logs {
		return out
	}
	for kind := range out.Weights {
		for bin := range out.Weights[kind] {
			out.Weights[kind][bin] = d.weight(kind, bin)
		}
	}
	for bin := range out.Rest {
		out.Rest[bin] = d.weight(restRow, bin)
	}
	return out
}

// earnsLeast is the gain, in nats over recent examined events and copies, from which on it is worthwhile to doubt numbers
// that are not fill values.
const earnsLeast = 3

// Earns reports whether it has been worthwhile to doubt numbers because they contradict others.
func (d *Doubter) Earns() bool {
	sum := 0.0
	for kind := model.DoubtsZero; kind < restRow; kind++ {
		for bin := range d.real[kind] {
			sum += slices.Max(d.real[kind][bin].sums[:]) + slices.Max(d.mask[kind][bin].sums[:])
		}
	}
	return sum >= earnsLeast
}

// Event is a labeled event to examine.
type Event struct {
	*event.Example
	Number uint64        // its number in the stream
	Model  *model.Linear // with the Scaler, the statistics of columns and the Covariance in effect; Examine sets its Doubt
	// Died is a copy in which numbers have died, and read the values of Dead. It may be nil.
	Died *event.Example
	Dead *model.Dead
	// Predict returns the scores of an event whose numbers are taken as they are, valid until the next call. Loss returns the
	// loss of scores of an event with the same label. Squared reports that it is a squared error. Mix mixes scores, in which
	// other gets the given weight.
	Predict func(*event.Example) []float64
	Loss    func(scores []float64) float64
	Mix     func(weight float64, scores, other []float64) []float64
	Squared bool
}

// Examine learns from a labeled event: its evidence, and whether corrected predictions are better. If masks is true, it
// also masks a copy of the event, or examines Died. It returns the readings of the event that others contradict, see
// model.Examined; ok is false if none can be examined. died has the scores of the copy Died with its doubted readings, nil
// without Died.
func (d *Doubter) Examine(e *Event, masks bool) (contradicted []model.DoubtedReading, died []float64, ok bool) {
	found, _ := d.compare(e, e.Example, nil, &d.real)
	switch {
	case e.Died != nil:
		_, died = d.compare(e, e.Died, e.Dead.Knowing(d.Readings.Columns()), &d.mask)
	case masks:
		if copied := d.stale(e); copied != nil {
			d.compare(e, copied, d.Readings.Columns(), &d.mask)
		}
	}
	return found.Contradicted, died, found.First == found.First
}

// compare adds the gains of corrected predictions of an event to a table, and returns what it finds in the event. columns
// is nil for an event of the stream, which is ordinary evidence unless it has fill values; for a masked copy it has the
// fill values that the copy has. For such a copy compare also returns the scores with the doubted readings in effect.
func (d *Doubter) compare(e *Event, of *event.Example, columns []model.CellColumn, to *table) (found model.Examined, scores []float64) {
	m, predict := *e.Model, func(of *event.Example) []float64 { return slices.Clone(e.Predict(of)) }
	if m.Doubt = d.doubt(); columns != nil {
		m.Doubt = m.Doubt.With(columns)
	}
	found = m.Examine(of)
	x := found.Doubted
	if columns == nil && found.First == found.First && (x == nil || x.Kind != model.DoubtsFill) {
		if d.last[found.Zeros].push(found.Last); !math.IsInf(found.First, 1) {
			d.first[found.Zeros].push(found.First)
		}
	}
	switch {
	case x == nil && columns == nil:
		return found, nil
	case x == nil:
		return found, predict(of)
	}
	scores = predict(of)
	after := predict(x.Event)
	w, was, is := d.weight(x.Kind, x.Range), d.loss(e, of, scores), d.loss(e, x.Event, after)
	if x.Rest != nil {
		rest, of := predict(x.Rest), d.weight(restRow, x.Range)
		to[restRow][x.Range].add(mixed(w, was, is) - mixed(w, d.loss(e, x.Rest, rest), is))
		scores = e.Mix(of, scores, rest)
	}
	to[x.Kind][x.Range].add(was - is)
	return found, e.Mix(w, scores, after)
}

// mixed returns the loss in nats of a mixture of two predictions with the given losses. weight is that of the second.
func mixed(weight, first, second float64) float64 {
	least := min(first, second)
	return least - math.Log((1-weight)*loss.Exp(least-first)+weight*loss.Exp(least-second))
}

// mostSquare bounds squared errors, so that their mean is finite.
const mostSquare = 1e100

// loss returns the loss of scores in nats; a squared error is divided by twice the mean squared error.
func (d *Doubter) loss(e *Event, of *event.Example, scores []float64) float64 {
	loss := e.Loss(scores)
	if !e.Squared {
		return loss
	}
	loss = min(loss, mostSquare)
	if of == e.Example {
		d.square = cmp.Or(d.square, loss)
		d.square += (loss - d.square) / gainsMemory
	}
	return loss / max(2*d.square, 1e-300)
}

// staleFractions are the fractions of the readings that are stale in a masked copy.
var staleFractions = [4]float64{0.15, 0.3, 0.5, 0.7}

// stale returns a copy of an event in which some readings are those of earlier events, each of another one as in
// model.LossStale. It returns nil if the event has lost fields or the copy would not differ.
func (d *Doubter) stale(e *Event) *event.Example {
	if len(e.Missing)+len(e.MissingColumns) > 0 {
		return nil
	}
	random := event.Mix(e.Number + 0x9e3779b97f4a7c15)
	fraction := staleFractions[random&3]
	out := *e.Example
	out.Features = event.Vec{Index: slices.Clone(e.Features.Index), Value: slices.Clone(e.Features.Value)}
	at := 0
	for i, c := range d.Readings.Columns() {
		for at < len(out.Features.Index) && out.Features.Index[at] < c.Column {
			at++
		}
		if random = event.Mix(random + 1); at == len(out.Features.Index) || out.Features.Index[at] != c.Column || float64(random>>11)/(1<<53) >= fraction || c.Flag {
			continue
		}
		if value, ok := d.Readings.Stale(i, event.Mix(random)); ok {
			out.Features.Value[at] = value
		}
	}
	if slices.Equal(out.Features.Value, e.Features.Value) {
		return nil
	}
	return &out
}

// State encodes or decodes a Doubter.
func (d *Doubter) State(c *coder.Coder) {
	d.Readings.State(c)
	c.Float(&d.square)
	for i := range d.first {
		d.first[i].state(c)
		d.last[i].state(c)
	}
	for _, all := range []*table{&d.real, &d.mask} {
		for kind := range all {
			for bin := range all[kind] {
				for i := range all[kind][bin].sums {
					c.Float(&all[kind][bin].sums[i])
				}
				c.Float(&all[kind][bin].count)
			}
		}
	}
}

func (r *ring) state(c *coder.Coder) {
	c.Floats(&r.values)
	c.Int(&r.next)
	c.Failed = c.Failed || len(r.values) > ringSize || r.next < 0 || r.next >= ringSize
	r.sorted = slices.Sorted(slices.Values(r.values))
}
