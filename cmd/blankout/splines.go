package main

// This file draws the splines of a model as figures, for the command inspect.

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/simulate"
)

// drawSplines writes a figure COLUMN-NAME.svg to a directory for every number with a spline. The figure shows the
// number's contribution to the score, including its linear weight, from the first knot to the last. The result n is the
// number of figures.
func drawSplines(m *model.Linear, dir string) (n int, err error) {
	for c := range m.DrawnSplines() {
		if n == 0 {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return 0, err
			}
		}
		title := event.Printable(c.Feature)
		f := simulate.Figure{Title: title, X: title, Y: "added to the score"}
		for _, of := range c.Added {
			if of.Class == "" && len(c.Added) > 1 {
				continue // the class has not appeared
			}
			f.Series = append(f.Series, simulate.Series{Form: simulate.BareLine, Name: event.Printable(of.Class), X: c.X, Y: of.Score})
		}
		file := url.PathEscape(c.Feature)
		if err := f.SaveAs(filepath.Join(dir, fmt.Sprintf("%d-%s.svg", c.Column, file[:min(len(file), 100)]))); err != nil {
			return n, err
		}
		n++
	}
	if n == 0 {
		return 0, errors.New("the model has no splines; run and train --solver online learn them for numeric fields by default")
	}
	return n, nil
}
