package model

// This file defines Link, which converts scores to log-odds.

import (
	"fmt"
	"math"
	"sort"
)

// Link maps a score to log-odds. It is a monotone function that is linear between knots, and constant beyond the first
// and the last knot. It can represent what a linear score cannot, such as a 10 % rate of wrong labels at any score. A
// nil Link is the identity.
type Link struct {
	Scores  []float64 `json:"scores"`   // scores at the knots, ascending
	LogOdds []float64 `json:"log_odds"` // log-odds at the knots, not decreasing
}

// logOdds returns the log-odds of a score.
func (l *Link) logOdds(f float64) float64 {
	if l == nil {
		return f
	}
	last := len(l.Scores) - 1
	switch {
	case !(f > l.Scores[0]):
		return l.LogOdds[0]
	case f >= l.Scores[last]:
		return l.LogOdds[last]
	}
	i, high := 0, last // i becomes the first knot at or above the score
	for i < high {
		if middle := (i + high) / 2; l.Scores[middle] < f {
			i = middle + 1
		} else {
			high = middle
		}
	}
	if l.Scores[i] == f {
		return l.LogOdds[i]
	}
	part := (f - l.Scores[i-1]) / (l.Scores[i] - l.Scores[i-1])
	return l.LogOdds[i-1] + part*(l.LogOdds[i]-l.LogOdds[i-1])
}

// mostCut is the result of cut if every score (-mostCut) or no score (mostCut) has larger log-odds.
const mostCut = 1e9

// cut returns the score above which the log-odds exceed u.
func (l *Link) cut(u float64) float64 {
	if l == nil {
		return u
	}
	i := sort.Search(len(l.Scores), func(i int) bool { return l.LogOdds[i] > u })
	switch i {
	case 0:
		return -mostCut
	case len(l.Scores):
		return mostCut
	}
	part := (u - l.LogOdds[i-1]) / (l.LogOdds[i] - l.LogOdds[i-1])
	return l.Scores[i-1] + part*(l.Scores[i]-l.Scores[i-1])
}

// Check returns an error if a decoded Link is invalid.
func (l *Link) Check() error {
	wrong := len(l.Scores) < 2 || len(l.Scores) != len(l.LogOdds)
	for i := 0; i < len(l.Scores) && !wrong; i++ {
		x, u := l.Scores[i], l.LogOdds[i]
		wrong = x-x != 0 || u-u != 0 || i > 0 && (x <= l.Scores[i-1] || u < l.LogOdds[i-1]) || math.Abs(x) > mostCut
	}
	if wrong {
		return fmt.Errorf("a link of the scores %v and log-odds %v", l.Scores, l.LogOdds)
	}
	return nil
}
