package online_test

// This file implements the slow, obvious version of the plain learner: one noise level, AdaGrad, two classes.

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// reference learns as in docs/mathematics.md, weight by weight.
type reference struct {
	q        float64 // of the dropout
	eta      float64
	average  float64 // fraction of the stream in the published average; 0 for none
	proximal bool
	gaussian bool    // the Gaussian bound; otherwise quadratic noising
	fade     float64 // factor of the sums of squares at each event

	w, sums, published []float64 // by column; the intercept is last
	steps              float64
}

func newReference(columns int) *reference {
	r := &reference{fade: 1}
	for _, p := range []*[]float64{&r.w, &r.sums, &r.published} {
		*p = make([]float64, columns+1)
	}
	return r
}

// score returns the score of the published weights.
func (r *reference) score(x []float64) (f float64) {
	for d, w := range r.published {
		f += w * x[d]
	}
	return f
}

// slopes returns the derivatives, by the score and the variance, of the expected log-loss under a normal distribution
// or, for quadratic noising, of its second-order expansion.
func (r *reference) slopes(y, f, v float64) (df, dv float64) {
	if !r.gaussian {
		p := 1 / (1 + math.Exp(-f))
		if y > 0 {
			df = p - 1
		} else {
			df = p
		}
		return df + v*p*(1-p)*(1-2*p)/2, p * (1 - p) / 2
	}
	// For a normal distribution the derivative by the variance is half the second derivative by the mean.
	const points = 4000
	second, total := 0.0, 0.0
	for i := range points + 1 {
		z := 20 * (float64(i)/points - 0.5)
		density := math.Exp(-z * z / 2)
		p := 1 / (1 + math.Exp(y*(f+z*math.Sqrt(v))))
		df -= density * y * p
		second += density * p * (1 - p)
		total += density
	}
	return df / total, second / total / 2
}

// learn makes a step.
func (r *reference) learn(x []float64, y float64) {
	f, v, last := 0.0, 0.0, len(r.w)-1
	for d, w := range r.w {
		f += w * x[d]
		if d < last { // the intercept has no noise
			v += w * w * x[d] * x[d] * r.q / (1 - r.q)
		}
	}
	df, dv := r.slopes(y, f, v)
	gradient := make([]float64, len(r.w))
	kappa := 0.0
	for d, w := range r.w {
		if gradient[d] = df * x[d]; d < last {
			gradient[d] += dv * 2 * w * x[d] * x[d] * r.q / (1 - r.q)
		}
		r.sums[d] = r.fade*r.sums[d] + gradient[d]*gradient[d]
		kappa += r.eta * x[d] * x[d] / (math.Sqrt(1+r.sums[d]) + 1e-8)
	}
	rate := r.eta
	if r.proximal { // a shorter step, by the curvature at its start
		rate /= 1 + 2*dv*kappa
	}
	r.steps++
	beta := 1.0
	if r.average > 0 {
		p := 1/r.average - 1
		beta = (1 + p) / (r.steps + 1 + p)
	}
	for d := range r.w {
		if x[d] != 0 {
			r.w[d] -= rate * gradient[d] / (math.Sqrt(1+r.sums[d]) + 1e-8)
		}
		r.published[d] += beta * (r.w[d] - r.published[d])
	}
}

// TestReference compares a learner with one level with the slow version.
func TestReference(t *testing.T) {
	const columns = 30
	for _, c := range []struct {
		name           string
		noise          float64
		loss           string
		average        float64
		proximal       bool
		halfLife, rate float64
		tolerance      float64
	}{
		{"plain", 0, "logistic:quadratic-noising", 0, false, 0, 0.1, 1e-9},
		{"average", 0, "logistic:quadratic-noising", 0.15, false, 0, 0.1, 1e-9},
		{"proximal", 0, "logistic:quadratic-noising", 0, true, 0, 0.002, 1e-9},
		{"dropout, quadratic noising", 0.3, "logistic:quadratic-noising", 0, false, 0, 0.1, 1e-9},
		{"dropout, quadratic noising, average", 0.5, "logistic:quadratic-noising", 0.15, false, 0, 0.1, 1e-9},
		{"dropout, quadratic noising, proximal", 0.5, "logistic:quadratic-noising", 0, true, 0, 0.002, 1e-9},
		{"no noise", 0, "logistic", 0.15, false, 0, 0.1, 1e-7}, // the integrals have errors of about 1e-9
		{"dropout", 0.3, "logistic", 0.15, false, 0, 0.1, 1e-7},
		{"half-life", 0.3, "logistic:quadratic-noising", 0.15, false, 50, 0.1, 1e-9},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := online.DefaultConfig()
			config.Optimizer, config.Noise, config.Loss = "adagrad", "none", c.loss
			if c.noise > 0 {
				config.Noise = "dropout:" + number(c.noise)
			}
			config.Average, config.Adapt, config.HalfLife, config.LearningRate = c.average, c.proximal, c.halfLife, c.rate
			config.Standardize, config.Presence, config.Calibrate, config.OnDrift, config.Stuck = "none", "none", "off", "log", "off"
			schema := event.NewSchema(10, []string{"no", "yes"}, 2)
			schema.NumericIndices = true
			l := start(t, config, schema)
			r := newReference(columns)
			r.q, r.eta, r.average, r.proximal, r.gaussian = c.noise, c.rate, c.average, c.proximal, c.loss == "logistic"
			if c.halfLife > 0 {
				r.fade = math.Exp2(-1 / c.halfLife)
			}
			f := newFeed(89, 2)
			logLoss := 0.0
			const events = 400
			for i := range events {
				e := &event.Example{Weight: 1, Label: f.r.IntN(2)}
				x, y := make([]float64, columns+1), float64(2*e.Label-1)
				for d := range columns {
					if f.r.IntN(3) > 0 {
						x[d] = f.r.NormFloat64() + y*float64(d%3)/4
						e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(d)), append(e.Features.Value, x[d])
					}
				}
				x[columns] = 1
				want := r.score(x)
				if got := l.scores(e)[0]; math.Abs(got-want) > c.tolerance {
					t.Fatalf("event %d: predicted %v, want %v", i, got, want)
				}
				if got := l.learn(e)[0]; math.Abs(got-want) > c.tolerance {
					t.Fatalf("event %d: score %v, want %v", i, got, want)
				}
				r.learn(x, y)
				logLoss += math.Log1p(math.Exp(-y * want))
			}
			if got := l.Report().Total; math.Abs(got.LogLoss-logLoss) > 1e-6 {
				t.Errorf("log-loss %v, want %v", got.LogLoss, logLoss)
			}
			snapshot := l.model()
			for d := range uint32(columns) {
				if got := snapshot.Weight(d, 0); math.Abs(got-r.published[d]) > c.tolerance {
					t.Errorf("weight %d is %v, want %v", d, got, r.published[d])
				}
			}
		})
	}
}
