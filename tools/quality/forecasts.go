package main

// This file compares the errors that a learner forecasts with those that it then has.

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/model"
	"blankout/online"
)

// forecasts writes a table of the errors in % that the default learner forecasts and has, for dead and declared features.
func (c *comparison) forecasts() error {
	gaps := map[model.LossKind][]float64{}
	fmt.Fprint(c.w, "### Errors in %, forecast and then measured, with 30, 50 and 70 % of the features lost\n\n| | declared | dead |\n|---|---|---|\n")
	for _, name := range strings.Split(cmp.Or(c.silent.sets, silentSets), ",") {
		d, err := c.loadDeath(name)
		if err != nil {
			return err
		}
		told, served := map[model.LossKind][]float64{}, map[model.LossKind][]float64{}
		for i := range c.silent.splits {
			s := d.split(&c.silent, 500+uint64(i))
			l, err := s.learner(s.train, nil)
			if err != nil {
				return err
			}
			f, answer := l.Report().Forecast, modelProbabilities(l.Snapshot().Model().Compact())
			for kind, points := range map[model.LossKind][]online.ForecastPoint{model.LossDeclared: f.Declared, model.LossDead: f.Silent} {
				wrong, _, err := s.measured(answer, kind)
				if err != nil {
					return err
				}
				for i, fraction := range deathFractions[1:] {
					point := 100 * points[int(math.Round(fraction*online.ForecastPoints))].Error
					told[kind], served[kind] = append(told[kind], point), append(served[kind], wrong[1+i])
					gaps[kind] = append(gaps[kind], math.Abs(point-wrong[1+i]))
				}
			}
		}
		fmt.Fprintf(c.w, "| %s | %s | %s |\n", name, toldCell(told[model.LossDeclared], served[model.LossDeclared]), toldCell(told[model.LossDead], served[model.LossDead]))
	}
	cell := func(gaps []float64) string {
		most := 0.0
		for _, gap := range gaps {
			most = max(most, gap)
		}
		return fmt.Sprintf("%.1f, at most %.1f", stat.Mean(gaps, nil), most)
	}
	fmt.Fprintf(c.w, "| mean difference | %s | %s |\n\n", cell(gaps[model.LossDeclared]), cell(gaps[model.LossDead]))
	return nil
}

// toldCell returns the means over the splits of errors that were forecast, and of errors that were measured. Both lists
// are by split and fraction.
func toldCell(told, served []float64) string {
	n := len(deathFractions) - 1
	mean := func(all []float64) string {
		text := ""
		for i := range n {
			sum := 0.0
			for at := i; at < len(all); at += n {
				sum += all[at]
			}
			text += fmt.Sprintf(" %.1f", sum*float64(n)/float64(len(all)))
		}
		return text[1:]
	}
	return mean(told) + " / " + mean(served)
}
