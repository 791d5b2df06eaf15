package main

// This file prints the health of fields: whether they are missing, or stuck at one value, more often than usual.

import (
	"bufio"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"blankout/internal/event"
	"blankout/online/health"
)

// printAlarms prints the fields that differ from their usual state.
func printAlarms(out *bufio.Writer, h *health.Health) {
	const most = 10
	n := 0
	for _, f := range h.Fields {
		for _, a := range f.Alarms {
			if n++; n <= most {
				fmt.Fprintf(out, "%-13s %s\n", "alarm", a.Text)
			}
		}
	}
	if n > most {
		fmt.Fprintf(out, "              and %s more: --features\n", plural(n-most, "alarm"))
	}
}

// printFeatures prints the health of every monitored field.
func printFeatures(out *bufio.Writer, h *health.Health) {
	printAlarms(out, h)
	if h.Alarms > 0 {
		fmt.Fprintln(out)
	}
	if len(h.Fields) == 0 {
		fmt.Fprintf(out, "no field is monitored: %s events are too few, or the events have no named fields\n", humanize.Comma(int64(h.Events)))
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "field\tkind\tmissing %\tusually\tdoubted %\tusually\tmean\tusually\terror % without\t")
	two := func(c *health.Condition, factor float64) string {
		if c == nil {
			return "\t"
		}
		return fmt.Sprintf("%.3g\t%.3g", math.Round(1e6*factor*c.Now)/1e6, math.Round(1e6*factor*c.Usual)/1e6)
	}
	for _, f := range h.Fields {
		without := ""
		if f.ErrorWithout != nil {
			without = fmt.Sprintf("%.1f", *f.ErrorWithout)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", event.Printable(f.Field), f.Kind, two(f.Missing, 100), two(f.Doubted, 100), two(f.Mean, 1), without)
	}
	t.Flush()
	var never []string
	for _, f := range h.Fields {
		if f.NeverStuck {
			never = append(never, fmt.Sprintf("%s (%.4g %%)", event.Printable(f.Field), 100**f.Repeats))
		}
	}
	if len(never) > 0 {
		fmt.Fprintf(out, "\nnot monitored for being stuck, because they usually repeat a value or have only two values: %s\n", strings.Join(never, ", "))
	}
	if len(h.Changes) > 0 {
		fmt.Fprintln(out, "\nthe latest alarms raised and ended")
		for _, a := range h.Changes {
			fmt.Fprintf(out, "  event %s: %s\n", humanize.Comma(int64(a.Event)), a.Text)
		}
	}
}
