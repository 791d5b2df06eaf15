package loss

// This file defines the kinds of noise and parses their names.

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Noise is unbiased noise on every feature: E[x~] = x. The noise is independent between features (Chen et al. 2014,
// section 2; van der Maaten et al. 2013, table 1). There are two exceptions: GroupDropout makes the features of a group
// dependent, and Silent is biased. The intercept has no noise.
//
// The variance of a feature is a quadratic in x for every noise here:
//
//	Var[x~ | x] = c0 + c1 x + c2 x^2.
//
// c0 also applies to absent features. In the variance of the score it is the L2 term c0 |w|^2, so absent features need
// not be stored.
type Noise interface {
	// Coefficients returns c0, c1 and c2.
	Coefficients() (c0, c1, c2 float64)
	// Corrupt draws a noisy value x~ given x.
	Corrupt(x float64, r *rand.Rand) float64
	// String returns the name that ParseNoise parses.
	String() string
}

// NoNoise leaves features unchanged.
type NoNoise struct{}

func (NoNoise) Coefficients() (c0, c1, c2 float64)      { return 0, 0, 0 }
func (NoNoise) Corrupt(x float64, _ *rand.Rand) float64 { return x }
func (NoNoise) String() string                          { return "none" }

// Dropout sets a feature to zero with probability Q in [0, 1) and scales the
// survivors by 1/(1-Q): Var = Q/(1-Q) x^2.
type Dropout struct{ Q float64 }

func (n Dropout) Coefficients() (c0, c1, c2 float64) { return 0, 0, n.Q / (1 - n.Q) }
func (n Dropout) Corrupt(x float64, r *rand.Rand) float64 {
	if r.Float64() < n.Q {
		return 0
	}
	return x / (1 - n.Q)
}
func (n Dropout) String() string { return "dropout:" + format(n.Q) }

// GroupDropout sets features to zero in two independent ways. It sets all features of a group to zero with probability
// Groups in [0, 1), or with the group's probability in Rates. It sets a single feature to zero with probability Q in
// [0, 1). The survivors are scaled by 1/((1-Q)(1-Groups)). See Grouping for the groups of features. The product of
// features of two groups is zero if either group is, and is scaled for both groups.
//
// Let r = Q/(1-Q), r_g = Groups/(1-Groups), and let s_g be the sum of w_d x_d over the features d of group g. A score
// has the variance
//
//	v = sum_g [ r_g s_g^2 + (1 + r_g) r sum_{d in g} w_d^2 x_d^2 ]
//
// if there are no products of two groups. Otherwise let s_c be the sum of w_d x_d over the products of the two groups c
// = {a, b}. Then
//
//	v = sum_g r_g (s_g + sum_{c with g} s_c)^2 + sum_c r_a r_b s_c^2
//	  + r sum_d w_d^2 x_d^2 prod_{g of d} (1 + r_g).
//
// Coefficients returns only the variance of a single feature, but the features of a group vary together. So code that
// sums variances by feature must check for a GroupDropout, and handle it or reject it.
type GroupDropout struct {
	Q, Groups float64
	// Rates, if not nil, holds the dropout probability of each group by name, and replaces Groups. A group that is not
	// in Rates is never dropped.
	Rates map[string]float64
}

// Rate returns the probability that a group is dropped.
func (n GroupDropout) Rate(group string) float64 {
	if n.Rates != nil {
		return n.Rates[group]
	}
	return n.Groups
}

// Coefficients returns the coefficients of a feature in one group, with the highest rate of any group.
func (n GroupDropout) Coefficients() (c0, c1, c2 float64) {
	r, rg := odds(n.Q), odds(LevelOf(n))
	return 0, 0, r + rg + r*rg
}

// Odds returns the dropout odds of a single feature, Q/(1-Q), and of a group.
func (n GroupDropout) Odds(group string) (r, rg float64) { return odds(n.Q), odds(n.Rate(group)) }

func odds(q float64) float64 { return q / (1 - q) }

// Corrupt draws one feature independently of its group. It cannot use the Rates of groups, because it does not have the
// name of the group.
func (n GroupDropout) Corrupt(x float64, r *rand.Rand) float64 {
	if r.Float64() < n.Groups {
		return 0
	}
	return Dropout{n.Q}.Corrupt(x/(1-n.Groups), r)
}

func (n GroupDropout) String() string {
	level := format(n.Groups)
	switch {
	case n.Rates == nil:
	case len(n.Rates) > 0:
		level = formatRates(n.Rates)
	case n.Q > 0:
		return Dropout{n.Q}.String()
	default:
		return NoNoise{}.String()
	}
	if n.Q == 0 {
		return "group:" + level
	}
	return Dropout{n.Q}.String() + "+group:" + level
}

// formatRates formats the rates of groups for parseRates, sorted by name.
func formatRates(rates map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		quoted := name
		if name == "" || strings.ContainsAny(name, ",=\"") || !utf8.ValidString(name) {
			quoted = strconv.Quote(name)
		}
		parts = append(parts, quoted+"="+format(rates[name]))
	}
	return strings.Join(parts, ",")
}

// parseRates parses the rates of groups, for example engine=0.1,wheels=0.3. A name with a comma, an equals sign or a
// quotation mark is quoted as in Go.
func parseRates(s string) (map[string]float64, error) {
	rates := map[string]float64{}
	for more := true; more; {
		name, rest, ok := strings.Cut(s, "=")
		if quoted, err := strconv.QuotedPrefix(s); err == nil && strings.HasPrefix(s, `"`) {
			if name, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			rest, ok = strings.CutPrefix(s[len(quoted):], "=")
		}
		if !ok {
			return nil, fmt.Errorf("group %q has no rate: write NAME=RATE", s)
		}
		var rate string
		rate, s, more = strings.Cut(rest, ",")
		q, err := strconv.ParseFloat(rate, 64)
		if err != nil {
			return nil, fmt.Errorf("the rate %q of group %q is not a number", rate, name)
		}
		if err := checkProbability(q); err != nil {
			return nil, fmt.Errorf("group %q: %w", name, err)
		}
		if _, twice := rates[name]; twice {
			return nil, fmt.Errorf("group %q has two rates", name)
		}
		rates[name] = q
	}
	return rates, nil
}

// Gaussian adds a normal variable with standard deviation SD to every feature, including absent ones: Var = SD^2.
type Gaussian struct{ SD float64 }

func (n Gaussian) Coefficients() (c0, c1, c2 float64)      { return n.SD * n.SD, 0, 0 }
func (n Gaussian) Corrupt(x float64, r *rand.Rand) float64 { return x + n.SD*r.NormFloat64() }
func (n Gaussian) String() string                          { return "gaussian:" + format(n.SD) }

// Laplace adds a Laplace variable with scale B to every feature, including absent ones: Var = 2 B^2.
type Laplace struct{ B float64 }

func (n Laplace) Coefficients() (c0, c1, c2 float64) { return 2 * n.B * n.B, 0, 0 }
func (n Laplace) Corrupt(x float64, r *rand.Rand) float64 {
	// Use the difference of two exponential variables with scale B.
	return x + n.B*(r.ExpFloat64()-r.ExpFloat64())
}
func (n Laplace) String() string { return "laplace:" + format(n.B) }

// Poisson replaces a feature x >= 0 by a Poisson variable with mean x: Var = x. It is undefined for negative features,
// which callers must reject, see OfCounts.
type Poisson struct{}

func (Poisson) Coefficients() (c0, c1, c2 float64) { return 0, 1, 0 }
func (Poisson) Corrupt(x float64, r *rand.Rand) float64 {
	if x > 1e6 {
		// Knuth's product would take too many steps. The normal distribution is accurate to a thousandth for such a
		// large mean.
		return max(0, math.Round(x+math.Sqrt(x)*r.NormFloat64()))
	}
	if x > 500 {
		// Knuth's product needs x steps and underflows at 745. The sum of two Poisson variables with mean x/2 is a
		// Poisson variable with mean x.
		return Poisson{}.Corrupt(x/2, r) + Poisson{}.Corrupt(x-x/2, r)
	}
	n, p, limit := 0.0, r.Float64(), Exp(-x)
	for p > limit {
		n++
		p *= r.Float64()
	}
	return n
}
func (Poisson) String() string { return "poisson" }

// noises lists the kinds of noise. To add a noise, write a type above and a line here.
var noises = []struct {
	name  string
	usage string // usage text of the noise level, "" if there is none
	make  func(level float64) (Noise, error)
}{
	{"none", "", func(float64) (Noise, error) { return NoNoise{}, nil }},
	{"dropout", "probability in [0, 1)", func(q float64) (Noise, error) { return Dropout{q}, checkProbability(q) }},
	{"group", "probability in [0, 1)", func(q float64) (Noise, error) { return GroupDropout{Groups: q}, checkProbability(q) }},
	{"gaussian", "standard deviation", func(sd float64) (Noise, error) { return Gaussian{sd}, checkScale(sd) }},
	{"laplace", "scale", func(b float64) (Noise, error) { return Laplace{b}, checkScale(b) }},
	{"poisson", "", func(float64) (Noise, error) { return Poisson{}, nil }},
	{"silent", "fraction of features in [0, 0.9]", func(d float64) (Noise, error) { return Silent{D: d}, checkSilent(d) }},
	{"silent-group", "fraction of groups in [0, 0.9]", func(d float64) (Noise, error) { return Silent{D: d, Groups: true}, checkSilent(d) }},
}

func checkProbability(q float64) error {
	return unless(q >= 0 && q < 1, "the probability must lie in [0, 1)")
}

func checkSilent(d float64) error {
	return unless(d >= 0 && d <= MaxSilent, "the share must lie in [0, %v]", MaxSilent)
}

func checkScale(s float64) error {
	return unless(s >= 0 && s <= 1e15, "the level must lie in [0, 1e15]")
}

// NoiseNames returns the valid prefixes for ParseNoise. A prefix that ends in a colon needs a level.
func NoiseNames() []string {
	var names []string
	for _, n := range noises {
		name := n.name
		if n.usage != "" {
			name += ":"
		}
		names = append(names, name)
	}
	return names
}

// ObservedNoise is a setting, not a noise. ObservedNoise selects group dropout with the rates at which groups were
// missing from the events, see FieldUse.Rates. A model trained with ObservedNoise stores these rates instead, in the
// syntax of ParseNoise.
const ObservedNoise = "observed"

// ShortNoise returns the name of a noise without the rates of single groups, because there may be many.
func ShortNoise(noise string) string {
	if n, err := ParseNoise(noise); err == nil {
		if g, ok := n.(GroupDropout); ok && g.Rates != nil {
			short, _, _ := strings.Cut(noise, "group:")
			return short + "group:…"
		}
	}
	return noise
}

// LevelOf returns the level (strength) of a noise. The level is Q of Dropout, D of Silent, SD of Gaussian, and B of
// Laplace. For GroupDropout it is Groups or the largest of the Rates. It returns 0 for a noise without a level.
func LevelOf(noise Noise) float64 {
	switch n := noise.(type) {
	case Dropout:
		return n.Q
	case Silent:
		return n.D
	case GroupDropout:
		level := n.Groups
		for _, q := range n.Rates {
			level = max(level, q)
		}
		return level
	case Gaussian:
		return n.SD
	case Laplace:
		return n.B
	}
	return 0
}

// OfCounts reports whether the noise with this name requires non-negative features.
func OfCounts(noise string) bool { return noise == Poisson{}.String() }

// ParseNoise parses none, dropout:Q, group:Q, gaussian:SD, laplace:B, poisson, silent:D or silent-group:D. It also
// parses rates of single groups, as in group:engine=0.1,wheels=0.3, and single features and groups together, as in
// dropout:0.1+group:0.3. It is the inverse of Noise.String.
func ParseNoise(s string) (Noise, error) {
	first, second, both := strings.Cut(s, "+group") // a number may contain a plus too, as in 1e+3
	if !both || strings.HasPrefix(s, "group:") {
		return parseNoise(s)
	}
	a, err := parseNoise(first)
	if err != nil {
		return nil, err
	}
	b, err := parseNoise("group" + second)
	if err != nil {
		return nil, err
	}
	features, ok := a.(Dropout)
	groups, grouped := b.(GroupDropout)
	if !ok || !grouped {
		return nil, fmt.Errorf("noise %q: only dropout goes together with group, as in dropout:0.1+group:0.3", s)
	}
	groups.Q = features.Q
	return groups, nil
}

func parseNoise(s string) (Noise, error) {
	name, level, hasLevel := strings.Cut(s, ":")
	var known []string
	for _, n := range noises {
		if n.name != name {
			known = append(known, n.name)
			continue
		}
		if hasLevel != (n.usage != "") {
			if hasLevel {
				return nil, fmt.Errorf("noise %q: %s takes no level", s, name)
			}
			return nil, fmt.Errorf("noise %q: needs a level (%s), as in %s:0.5", s, n.usage, name)
		}
		if name == "group" && strings.Contains(level, "=") {
			rates, err := parseRates(level)
			if err != nil {
				return nil, fmt.Errorf("noise %q: %w", s, err)
			}
			return GroupDropout{Rates: rates}, nil
		}
		var x float64
		if hasLevel {
			var err error
			if x, err = strconv.ParseFloat(level, 64); err != nil {
				return nil, fmt.Errorf("noise %q: level %q is not a number", s, level)
			}
		}
		noise, err := n.make(x)
		if err != nil {
			return nil, fmt.Errorf("noise %q: %w", s, err)
		}
		return noise, nil
	}
	return nil, fmt.Errorf("noise %q: want one of %s", s, strings.Join(known, ", "))
}

// AsGroups converts a dropout noise of features, groups or both to a GroupDropout.
func AsGroups(n Noise) GroupDropout {
	switch n := n.(type) {
	case GroupDropout:
		return n
	case Dropout:
		return GroupDropout{Q: n.Q}
	}
	return GroupDropout{}
}

// IsGrouped reports whether a noise drops groups.
func IsGrouped(n Noise) bool {
	_, ok := n.(GroupDropout)
	return ok
}
