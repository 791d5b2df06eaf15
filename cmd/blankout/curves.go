package main

// This file draws the curves of a model, for inspect.

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"blankout"
	"blankout/simulate"
)

// curvePoints is how many places of a curve are drawn between two knots.
const curvePoints = 8

// drawCurves writes for every number that has a curve the picture COLUMN-NAME.svg into a
// directory: what the number adds to the score, by its value from the first knot to the
// last, its own weight included. It returns how many there are.
func drawCurves(m *blankout.Linear, dir string) (int, error) {
	curves := m.Scaler.Curves
	if curves == nil || len(curves.Columns) == 0 {
		return 0, errors.New("the model has no curves; learn some with train --curves 8 (learner.curves)")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	name, outputs := m.Namer(), outputNames(&m.Head)
	for i, column := range curves.Columns {
		title := blankout.Printable(name(column))
		f := simulate.Figure{Title: title, X: title, Y: "added to the score"}
		var xs []float64
		for j, at := range curves.Knots[i][:len(curves.Knots[i])-1] {
			for n := range curvePoints {
				xs = append(xs, at+float64(n)/curvePoints*(curves.Knots[i][j+1]-at))
			}
		}
		xs = append(xs, curves.Knots[i][len(curves.Knots[i])-1])
		for k := range m.Outputs {
			side := make([]float64, m.Outputs)
			side[k] = 1
			s := simulate.Series{Form: simulate.BareLine, X: xs}
			if len(outputs) > 0 {
				if s.Name = outputs[k]; s.Name == "" {
					continue // a class that has not appeared
				}
			}
			for _, x := range xs {
				s.Y = append(s.Y, m.Number(side, column, x))
			}
			f.Series = append(f.Series, s)
		}
		file := url.PathEscape(name(column))
		if err := f.SaveAs(filepath.Join(dir, fmt.Sprintf("%d-%s.svg", column, file[:min(len(file), 100)]))); err != nil {
			return i, err
		}
	}
	return len(curves.Columns), nil
}
