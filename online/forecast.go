package online

import (
	"math"
	"math/rand/v2"

	"blankout"
)

// forecast is a level's live forecast of the error that its published weights
// would make if a share d of the features died and survivors were scaled by
// 1/(1-d), for d = 0, 0.1, … 0.9.
//
// With two classes the score is then close to normal with mean f and variance
// d/(1-d) sum w^2 x^2, and the forecast is Phi(-y f/sd). With more, one mask is
// drawn for each d. Either is taken of a sample of the events, before they are
// learned; older ones fade. Where masks are drawn, more of them go to the rates
// beside the one that the user expects, by which the level is chosen.
type forecast struct {
	samples, weight, wrong [ForecastPoints]float64
	latest                 [ForecastPoints]float64 // of wrong, the last term
	// Decayed sum of the squared differences from the natural level's terms, at the
	// rate that the user expects.
	squares float64
}

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = 10

// ForecastMissing returns the i-th deletion rate of a Forecast.
func ForecastMissing(i int) float64 { return float64(i) / ForecastPoints }

// Forecast is the expected error of a noise level's weights at each deletion
// rate of ForecastMissing; NaN before the first sample.
type Forecast struct {
	Level string                  `json:"level"`
	Error [ForecastPoints]float64 `json:"error"`
}

const (
	// The events sampled: all of the first ones, then every n-th.
	forecastFirst, forecastEvery   = 1000, 4
	forecastFirstK, forecastEveryK = 200, 32 // for more than two classes
	forecastMemory                 = 10_000  // samples
	// Older samples than a part of them all fade.
	forecastShare = 2
	// Deviations by which another level's forecast must be below the natural one's
	// for it to be published, and to stay so.
	takesOver, stays = 0.7, 0.5
	// Levels are compared after so many samples.
	forecastReview = 16
)

func (l *Learner) forecasts() []Forecast {
	out := make([]Forecast, len(l.levels))
	for v := range l.levels {
		lv := &l.levels[v]
		out[v].Level = lv.noise.String()
		for i, w := range lv.forecast.wrong {
			out[v].Error[i] = w / lv.forecast.weight[i]
		}
	}
	return out
}

// foretell adds the event at hand to the forecasts, and chooses the level that
// is published if there are several.
func (l *Learner) foretell(label int) {
	first, every := uint64(forecastFirst), uint64(forecastEvery)
	if l.k > 1 {
		first, every = forecastFirstK, forecastEveryK
	}
	if l.events > first && l.events%every != 0 {
		if l.k > 1 && len(l.levels) > 1 && l.events%forecastEvery == 0 {
			i, t := l.expected()
			if t > 0 {
				l.foretellSampled(label, i, i+2)
			} else {
				l.foretellSampled(label, i, i+1)
			}
			l.compare()
		}
		return
	}
	if l.k == 1 {
		l.foretellBinary(target(label, 0, 1))
	} else {
		l.foretellSampled(label, 0, ForecastPoints)
	}
	if len(l.levels) > 1 {
		l.compare()
		if (l.events/every)%forecastReview == 0 {
			l.choose()
		}
	}
}

// add takes up what is expected at the points from the given one on.
func (f *forecast) add(from int, wrong []float64) {
	for i, w := range wrong {
		i += from
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

// forecastRatio is sqrt((1-d)/(2d)) at each deletion rate d but the first, 0.
var forecastRatio = func() (r [ForecastPoints]float64) {
	for i := 1; i < len(r); i++ {
		d := ForecastMissing(i)
		r[i] = math.Sqrt((1 - d) / (2 * d))
	}
	return r
}()

func (l *Learner) foretellBinary(y float64) {
	now := &l.now
	for v := range l.levels {
		lv := &l.levels[v]
		c := l.coefficient * lv.blend
		q := 0.0
		at, n := blankout.ScalerWidth+v, 2*l.n
		for i, row := range l.features() {
			p := row[at : at+n+1]
			w := now.x[i] * (p[0] + c*p[n])
			q += w * w
		}
		margin := y * (now.f[v] + c*now.lag[v] - l.logit)
		var wrong [ForecastPoints]float64
		step := 0.0
		if margin < 0 || margin == 0 && y > 0 {
			step = 1
		}
		wrong[0] = step
		sd := math.Sqrt(q)
		for i := 1; i < len(wrong); i++ {
			if wrong[i] = step; sd > 0 {
				wrong[i] = 0.5 * math.Erfc(margin/sd*forecastRatio[i])
			}
		}
		lv.forecast.add(0, wrong[:])
	}
}

// foretellSampled draws the masks for the points from one to another. Nothing is
// missing at point 0, whose scores are those at hand.
func (l *Learner) foretellSampled(label, from, to int) {
	now := &l.now
	features := len(l.features())
	last := now.last[:0]
	if to > 1 {
		var r rand.PCG
		r.Seed(l.events, 0x626c616e6b6f7574)
		for range features {
			// The last point that the feature survives: it survives every one before.
			last = append(last, uint8(r.Uint64()>>32*ForecastPoints>>32))
		}
	}
	now.last = last
	for point := from; point < to; point++ {
		f, lag := now.f, now.lag
		if point > 0 {
			f, lag = now.sampledF, now.sampledLag
			clear(f)
			clear(lag)
			rows, x := now.left[:0], now.leftX[:0]
			for i, last := range last {
				if int(last) >= point {
					rows, x = append(rows, now.rows[i]), append(x, now.x[i]/(1-ForecastMissing(point)))
				}
			}
			for i := features; i < len(now.rows); i++ { // the intercept
				rows, x = append(rows, now.rows[i]), append(x, now.x[i])
			}
			now.left, now.leftX = rows, x
			// The third sum comes for nothing and is not used.
			sumRows(rows, blankout.ScalerWidth, l.n, x, x, f, lag, now.averageQ)
		}
		for v := range l.levels {
			c := l.coefficient * l.levels[v].blend
			p := now.published[:l.active]
			for k := range p {
				p[k] = f[v*l.k+k] + c*lag[v*l.k+k]
			}
			wrong := [1]float64{}
			if l.predict(p) != label {
				wrong[0] = 1
			}
			l.levels[v].forecast.add(point, wrong[:])
		}
	}
}

// expected returns the place of the deletion rate that the user expects: the
// share t of the way from point i to the next.
func (l *Learner) expected() (i int, t float64) {
	d := l.config.ExpectedMissing * ForecastPoints
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
func (l *Learner) natural() int {
	best, least := 0, math.Inf(1)
	for v := range l.levels {
		q, _ := l.levels[v].noise.(blankout.Dropout)
		if d := math.Abs(q.Q - l.config.ExpectedMissing); d < least {
			best, least = v, d
		}
	}
	return best
}

// compare takes up how the forecasts of the event at hand differ from the natural
// level's.
func (l *Learner) compare() {
	i, t := l.expected()
	natural := &l.levels[l.natural()].forecast
	for v := range l.levels {
		f := &l.levels[v].forecast
		d := f.latest[i] - natural.latest[i]
		if t > 0 {
			d = (1-t)*d + t*(f.latest[i+1]-natural.latest[i+1])
		}
		f.squares = f.keep(i)*f.squares + d*d
	}
}

// choose publishes the level with the lowest forecast at the deletion rate that
// the user expects, of those that are below the natural one's by more than chance
// explains. With few events a strong noise is the better choice, as a strong ridge
// is; an evidence that fades as more come leads back to the natural level.
func (l *Learner) choose() {
	i, t := l.expected()
	best := l.natural()
	least := l.levels[best].forecast.at(i, t)
	bar := least
	for v := range l.levels {
		f := &l.levels[v].forecast
		deviations := float64(takesOver)
		if v == l.chosen {
			deviations = stays
		}
		if e := f.at(i, t); e < least && e < bar-deviations*math.Sqrt(f.squares)/f.weight[i] {
			best, least = v, e
		}
	}
	l.chosen = best
}
