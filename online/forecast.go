package online

// This file holds the forecast of the error at each share of missing features, by
// level.

import (
	"math"
	"math/rand/v2"

	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
	"blankout/online/rows"
)

// forecast is a level's live forecast of the error that its published weights
// would make if a share d of the features died, for d = 0, 0.1, … 0.9, and the
// event were then answered as the model answers: named fields that die are known
// to be missing, and model.Missing.Scale gives the factor s of the survivors;
// words and the features of the sparse text formats die without a word, s = 1.
//
// With two classes the score g of the features is then close to normal with mean s (1-d) g
// and variance s^2 d (1-d) sum w^2 x^2, and the forecast is the chance that it and the
// intercept b are on the wrong side. Where s depends on how many have died, a feature's
// death also takes a share a, see Missing.Growth, of the intercept's weight b/s against
// what is left: of b/s + sum w x the variance is then d (1-d) sum (w x + a b/s)^2. With
// more, one mask is drawn for each d. Both are measured on a sample of the events, before
// these are learned; older ones fade. More masks are drawn at the two rates next to the one
// that the user expects, because that one chooses the level.
type forecast struct {
	samples, weight, wrong [ForecastPoints]float64
	latest                 [ForecastPoints]float64 // of wrong, the last term
	// Decayed sum of the squared differences from the natural level's terms, at the
	// rate that the user expects.
	squares float64
}

// masked is the scratch memory of scoring the event at hand with some of its features
// deleted.
type masked struct {
	last      []int8 // by feature, see mask
	alike     alike
	rows      [][]float64 // of the survivors
	x         []float64   // and their values
	f, lag, q []float64   // sums over them, see rows.Sum
}

func newMasked(n int) masked {
	return masked{f: make([]float64, n), lag: make([]float64, n), q: make([]float64, n)}
}

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = 10

// ForecastMissing returns the i-th deletion rate of a Forecast.
func ForecastMissing(i int) float64 { return float64(i) / ForecastPoints }

// Forecast is the expected error of a noise level's weights at each deletion rate of
// ForecastMissing, of targets that are numbers its root mean square; NaN before the first
// sample.
type Forecast struct {
	Level string                  `json:"level"`
	Error [ForecastPoints]float64 `json:"error"`
	// Groups is the same by the share of groups that die, where the noise is of groups.
	Groups []float64 `json:"groups,omitempty"`
}

const (
	// The events sampled: all of the first ones, then every n-th.
	forecastFirst, forecastEvery   = 1000, 4
	forecastFirstK, forecastEveryK = 200, 32 // for more than two classes
	forecastMemory                 = 10_000  // samples
	// When another rule for what is missing comes into force, all samples made under the one
	// before count as forecastOther at most.
	forecastOther = 4000
	// A forecast remembers one in forecastShare of all its samples; older ones fade.
	forecastShare = 2
	// Deviations by which another level's forecast must be below the natural one's
	// for it to be published.
	takesOver = 0.7
	// Levels are compared every forecastReview samples.
	forecastReview = 16
)

func (l *answering) forecasts() []Forecast {
	out := make([]Forecast, len(l.levels))
	for v := range l.levels {
		lv := &l.levels[v]
		out[v].Level = loss.ShortNoise(lv.noise.String())
		for i, w := range lv.forecast.wrong {
			if out[v].Error[i] = w / lv.forecast.weight[i]; l.set.numbers {
				out[v].Error[i] = math.Sqrt(out[v].Error[i])
			}
		}
		if !l.grouped() {
			continue
		}
		for i, w := range lv.groups.wrong {
			out[v].Groups = append(out[v].Groups, w/lv.groups.weight[i])
		}
	}
	return out
}

// forecast adds the event at hand to the forecasts, and chooses the level that
// is published if there are several.
func (l *answering) forecast(label int) {
	byGroups := l.byGroups()
	if l.grouped() {
		l.forecastGroups(label)
	}
	first, every := uint64(forecastFirst), uint64(forecastEvery)
	if l.k > 1 {
		first, every = forecastFirstK, forecastEveryK
	}
	if l.events > first && l.events%every != 0 {
		if l.k > 1 && len(l.levels) > 1 && !byGroups && l.events%forecastEvery == 0 {
			l.forecastExpected(label)
		}
		return
	}
	known := true
	if l.k == 1 {
		known = l.forecastBinary(label)
	} else {
		l.forecastSampled(label, 0, ForecastPoints, false)
	}
	if len(l.levels) > 1 && !byGroups {
		if known {
			l.compare()
		}
		if (l.events/every)%forecastReview == 0 {
			l.choose()
		}
	}
}

// forecastExpected draws the masks beside what the user expects, and compares the levels.
func (l *answering) forecastExpected(label int) {
	i, t := l.expected()
	to := i + 1
	if t > 0 {
		to++
	}
	l.forecastSampled(label, i, to, l.byGroups())
	l.compare()
}

// add takes up what is expected at the points from the given one on.
func (f *forecast) add(from int, wrong []float64) {
	for i, w := range wrong {
		if i += from; math.IsNaN(w) {
			continue // it is not known
		}
		f.samples[i]++
		keep := f.keep(i)
		f.weight[i] = f.weight[i]*keep + 1
		f.wrong[i] = f.wrong[i]*keep + w
		f.latest[i] = w
	}
}

// keep returns what a sample at point i leaves of those before it.
func (f *forecast) keep(i int) float64 {
	return 1 - 1/min(forecastMemory, 8+f.samples[i]/forecastShare)
}

// fields returns what the event at hand lacks, all of its fields counted.
func (l *answering) fields() model.Lack {
	k := l.missing.event.lack
	if l.missing.event.named && !k.Some() {
		k.Named, k.Silent = l.missing.event.present.Count(l.schema.Fields)
	}
	return k
}

// margin/sd/sqrt(2) at a deletion rate d but 0 is (mean g + rest b/s)/sqrt(q), for
// the score g of the features and the intercept b.
var forecastMean, forecastRest = func() (mean, rest [ForecastPoints]float64) {
	for i := 1; i < ForecastPoints; i++ {
		d := ForecastMissing(i)
		root := math.Sqrt(2 * d * (1 - d))
		mean[i], rest[i] = (1-d)/root, 1/root
	}
	return mean, rest
}()

// forecastBinary adds the event at hand, of two classes, to the forecasts, and says whether
// that is known beside what the user expects.
func (l *answering) forecastBinary(label int) (known bool) {
	now, y := &l.now, target(label, 0, 1)
	rest := forecastRest
	var growth [ForecastPoints]float64 // a/s
	n := float64(len(l.features()))
	if l.groups != nil {
		for from, to := range l.groups.Curves {
			n -= float64(to - from - 1)
		}
	}
	lack := l.fields()
	if lack.Named > 0 || l.missing.event.scale != 1 {
		for i := 1; i < ForecastPoints; i++ {
			deleted := lack.Deleted(ForecastMissing(i))
			s := l.missing.model.Scale(deleted)
			rest[i] /= s
			if lack.Silent == 0 {
				growth[i] = l.missing.model.Growth(deleted) / s
			}
		}
	}
	masked := l.maskedPoints()
	var drawn [][ForecastPoints]float64
	if masked != 0 {
		drawn = l.forecastMasked(masked, label)
	}
	slope, shift := l.decision().Line()
	shift /= slope // a score above -shift says the second class
	for v := range l.levels {
		lv := &l.levels[v]
		c := lv.lagShare()
		q := 0.0
		at, lag := model.ScalerWidth+v, 2*l.n
		for i, row := range l.features() {
			p := row[at : at+lag+1]
			w := now.step.X[i] * (p[0] + c*p[lag])
			q += w * w
		}
		if l.groups != nil {
			q += l.groups.CurvedSquares(&now.step.Event, at, lag, c)
		}
		var intercept [1]float64
		l.interceptsOf(v, intercept[:])
		g := now.step.F[v] + c*now.lag[v] - intercept[0]
		b := y * (intercept[0] + shift)
		var wrong [ForecastPoints]float64
		step := func(margin float64) float64 {
			if margin < 0 || margin == 0 && y > 0 {
				return 1
			}
			return 0
		}
		if wrong[0] = step(y*l.missing.event.scale*g + b); l.missing.event.filled {
			wrong[0] = step(y * (l.filling.levels[v] + shift))
		}
		all := math.Sqrt(q)
		for i := 1; i < len(wrong); i++ {
			sd := all
			if growth[i] != 0 {
				ab := growth[i] * y * b
				sd = math.Sqrt(max(0, q+ab*(2*g+n*ab)))
			}
			if masked&(1<<i) != 0 {
				if wrong[i] = math.NaN(); drawn != nil {
					wrong[i] = drawn[v][i]
				}
				continue
			}
			if margin := y*forecastMean[i]*g + b*rest[i]; sd > 0 {
				wrong[i] = 0.5 * math.Erfc(margin/sd)
			} else {
				wrong[i] = step(margin)
			}
		}
		lv.forecast.add(0, wrong[:])
	}
	if n := l.events; lack.Named > 0 && n%forecastEveryK == 0 && !l.missing.event.filled {
		l.forecastRule(lack, 1+int(n/forecastEveryK%(ForecastPoints-1)), y > 0)
	}
	i, t := l.expected()
	known = l.knows(masked, drawn, i)
	return known && (t == 0 || l.knows(masked, drawn, i+1))
}

// knows says whether the event at hand tells something of a point, given the points of
// maskedPoints and what forecastMasked has found.
func (l *answering) knows(masked uint, drawn [][ForecastPoints]float64, point int) bool {
	return masked&(1<<point) == 0 || drawn != nil && !math.IsNaN(drawn[0][point])
}

// survive sums what survives a point into masked.f and lag, and where the event is then
// filled in also what is expected of the numbers that do not survive. It returns what the
// event then lacks, the factor of what is left, and whether it is filled in.
func (l *answering) survive(last []int8, point int) (deleted model.Lack, scale float64, filled bool) {
	now := &l.now
	deleted, scale = l.fields(), l.missing.event.scale
	if len(last) > 0 {
		alive, of := l.survivors(last, point)
		deleted = deleted.Deleted((of - alive) / of)
		scale = l.missing.model.Scale(deleted)
		filled = l.fillsLack(deleted)
	}
	f, lag := l.masked.f, l.masked.lag
	clear(f)
	clear(lag)
	alive, x := l.masked.rows[:0], l.masked.x[:0]
	var places []int
	if filled = filled && l.samplesFill(point); filled {
		places = l.fillPlaces()
		l.fillDeleted(places, last, point)
	}
	for i, last := range last {
		if int(last) >= point {
			alive, x = append(alive, now.step.Rows[i]), append(x, now.step.X[i])
		} else if filled && places[i] >= 0 {
			alive, x = append(alive, now.step.Rows[i]), append(x, l.filling.x[places[i]])
		}
	}
	l.masked.rows, l.masked.x = alive, x
	// The third sum comes for nothing and is not used.
	rows.Sum(alive, model.ScalerWidth, l.n, x, x, f, lag, l.masked.q)
	return deleted, scale, filled
}

// forecastRule compares the rules for missing fields on the event at hand, of two
// classes, with a mask drawn for a point.
func (l *answering) forecastRule(lack model.Lack, point int, positive bool) {
	now := &l.now
	last := l.mask()
	alive, of := l.survivors(last, point)
	lack = lack.Deleted((of - alive) / of)
	level := l.levelFor(lack)
	c, at, n := l.levels[level].lagShare(), model.ScalerWidth+level, 2*l.n
	l.interceptsOf(level, l.missing.event.base)
	l.missing.event.part[0] = 0
	for i, row := range l.features() {
		if int(last[i]) < point {
			continue
		}
		l.missing.event.part[0] += now.step.X[i] * (row[at] + c*row[at+n])
	}
	label := 0
	if positive {
		label = 1
	}
	l.compareDeleted(lack, label)
}

// mask draws for each feature of the event at hand the last point that it
// survives: it survives every one before.
func (l *answering) mask() []int8 {
	last := l.masked.last[:0]
	var r rand.PCG
	r.Seed(l.events, 0x626c616e6b6f7574)
	for range l.features() {
		last = append(last, drawPoint(&r))
	}
	if l.groups != nil {
		l.groups.Together(last)
	}
	l.masked.last = last
	return last
}

// drawPoint draws the last point that something survives.
func drawPoint(r *rand.PCG) int8 { return pointOf(r.Uint64()) }

// pointOf returns the point that a fraction of 1<<64 is behind.
func pointOf(u uint64) int8 { return int8(u >> 32 * ForecastPoints >> 32) }

// forecastSampled draws the masks for the points from one to another, of features or
// of groups. Nothing more is missing at point 0, whose scores are those at hand, but for
// the features that are expected to be missing beside groups.
func (l *answering) forecastSampled(label, from, to int, groups bool) {
	now := &l.now
	last := l.masked.last[:0]
	if groups {
		last = l.groupMask()
	} else if to > 1 {
		last = l.mask()
	}
	lack, decision := l.fields(), l.decision()
	for point := from; point < to; point++ {
		f, lag := l.masked.f, l.masked.lag
		deleted, scale := lack, l.missing.event.scale
		fills, unknown := false, false
		complete := point == 0 && !(groups && l.config.ExpectedMissing > 0)
		if complete {
			f, lag = now.step.F, now.lag
		} else {
			deleted, scale, fills = l.survive(last, point)
			unknown = !fills && l.fillsLack(deleted)
		}
		for v := range l.levels {
			c := l.levels[v].lagShare()
			l.interceptsOf(v, l.missing.event.base)
			p := l.missing.event.out[:l.active]
			for k, b := range l.missing.event.base[:l.active] {
				g := f[v*l.k+k] + c*lag[v*l.k+k]
				if complete {
					g -= b
				}
				p[k] = b + scale*g
			}
			wrong := [1]float64{}
			if complete && l.missing.event.filled {
				p = l.filling.levels[v*l.k:][:l.active]
			}
			if unknown {
				wrong[0] = math.NaN()
			} else if decision.Predict(p) != label {
				wrong[0] = 1
			}
			l.levels[v].forecastOf(groups).add(point, wrong[:])
		}
		if point > 0 && !groups && !fills && !unknown {
			level := l.levelFor(deleted)
			c, at := l.levels[level].lagShare(), level*l.k
			l.interceptsOf(level, l.missing.event.base)
			for k := range l.active {
				l.missing.event.part[k] = f[at+k] + c*lag[at+k]
			}
			l.compareDeleted(deleted, label)
		}
	}
}

// expected returns the place of the deletion rate that the user expects, of groups or
// else of features: the share t of the way from point i to the next.
func (l *answering) expected() (i int, t float64) {
	d := l.config.ExpectedMissing * ForecastPoints
	if l.byGroups() {
		d = l.config.ExpectedMissingGroups * ForecastPoints
	}
	if i = int(d); i >= ForecastPoints-1 {
		return ForecastPoints - 1, 0
	}
	return i, d - float64(i)
}

// at returns the forecast error at a place between two points.
func (f *forecast) at(i int, t float64) float64 {
	e := f.wrong[i] / f.weight[i]
	if t > 0 {
		e = (1-t)*e + t*f.wrong[i+1]/f.weight[i+1]
	}
	return e
}

// natural returns the level whose noise is what the user expects to be missing,
// or the nearest to that: the one that is published unless another is better.
func (l *answering) natural() int {
	best, least := 0, math.Inf(1)
	for v := range l.levels {
		q := loss.AsGroups(l.levels[v].noise)
		if d := math.Abs(q.Q-l.config.ExpectedMissing) + math.Abs(q.Groups-l.config.ExpectedMissingGroups); d < least {
			best, least = v, d
		}
	}
	return best
}

// compare takes up how the forecasts of the event at hand differ from the natural
// level's.
func (l *answering) compare() {
	i, t := l.expected()
	byGroups := l.byGroups()
	natural := l.levels[l.natural()].forecastOf(byGroups)
	for v := range l.levels {
		f := l.levels[v].forecastOf(byGroups)
		d := f.latest[i] - natural.latest[i]
		if t > 0 {
			d = (1-t)*d + t*(f.latest[i+1]-natural.latest[i+1])
		}
		f.squares = f.keep(i)*f.squares + d*d
	}
}

// choose publishes the level with the lowest forecast at the deletion rate that the user
// expects, of those that are below the natural one's by more than chance explains. With few
// events a strong noise is the better choice, as a strong ridge is. As more come the
// evidence for it fades, which leads back to the natural level.
func (l *answering) choose() {
	if l.shared() {
		return
	}
	i, t := l.expected()
	best, byGroups := l.natural(), l.byGroups()
	least := l.levels[best].forecastOf(byGroups).at(i, t)
	bar := least
	for v := range l.levels {
		f := l.levels[v].forecastOf(byGroups)
		if e := f.at(i, t); e < least && e < bar-takesOver*math.Sqrt(f.squares)/f.weight[i] {
			best, least = v, e
		}
	}
	l.chosen = best
}

func (f *forecast) state(c *coder.Coder) {
	for _, p := range []*[ForecastPoints]float64{&f.samples, &f.weight, &f.wrong} {
		for i := range p {
			c.Float(&p[i])
		}
	}
	c.Float(&f.squares)
}
