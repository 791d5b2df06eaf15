package main

// This file writes the influences of the examples, for train --influences.

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"blankout/app/served/export"
	"blankout/batch"
	"blankout/internal/event"
)

// place is the origin of an example. The field at is file and line, or topic, partition and offset. The field key is
// the key of the record.
type place struct{ at, key string }

// writeInfluences writes a line of tab-separated values for each example: origin, key, class, and the influence in each
// binary problem. It returns the origins of the examples with the smallest influence.
func (o *trainFlags) writeInfluences(fit *batch.Fit, d *batch.Data) (suspects []string, err error) {
	xi, err := fit.Influences(d, o.config)
	if err != nil {
		return nil, err
	}
	file, err := createFile(o.influences)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriter(file)
	fmt.Fprint(w, "place\tkey\tclass")
	classes := d.Schema.Classes
	if len(xi) == 1 {
		fmt.Fprint(w, "\tinfluence")
	}
	for _, name := range export.OutputNames(&fit.Model.Head) {
		fmt.Fprintf(w, "\tinfluence:%s", event.Printable(name))
	}
	fmt.Fprintln(w)
	type suspect struct {
		row   int
		least float64
	}
	var all []suspect
	for i, at := range o.places {
		key, class := "", ""
		if at.key != "" {
			key = strconv.QuoteToGraphic(at.key) // the key may contain tabs
		}
		if k := d.Label(i); k >= 0 {
			class = event.Printable(classes[k])
		}
		fmt.Fprintf(w, "%s\t%s\t%s", at.at, key, class)
		least := math.Inf(1)
		for _, x := range xi {
			fmt.Fprint(w, "\t")
			if !math.IsNaN(x[i]) {
				least = min(least, x[i])
				fmt.Fprintf(w, "%.6g", x[i])
			}
		}
		fmt.Fprintln(w)
		if !math.IsInf(least, 1) {
			all = append(all, suspect{i, least})
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b suspect) int { return cmp.Compare(a.least, b.least) })
	for _, s := range all[:min(len(all), 5)] {
		suspects = append(suspects, fmt.Sprintf("%s (class %s) %.2g", o.places[s.row].at, event.Printable(classes[max(d.Label(s.row), 0)]), s.least))
	}
	return suspects, nil
}
