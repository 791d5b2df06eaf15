package simulate

// This file writes the files of a Result.

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"blankout/internal/event"
)

// Save writes a Result to a directory, which it creates: results.json, results.csv, results.md and the figures. It
// returns the names of the files.
func (r *Result) Save(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	write := func(name string, f func(io.Writer) error) {
		if err == nil {
			err = writeFile(filepath.Join(dir, name), f)
			names = append(names, name)
		}
	}
	write("results.json", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	})
	write("results.csv", r.WriteCSV)
	figures := r.Figures()
	write("results.md", func(w io.Writer) error { return r.writeMarkdown(w, figures) })
	for _, f := range figures {
		if err != nil {
			return names, err
		}
		err = f.Figure.Save(filepath.Join(dir, f.Name))
		names = append(names, f.Name+".png", f.Name+".svg")
	}
	return names, err
}

func writeFile(path string, f func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriter(file)
	if err := f(w); err != nil {
		return err
	}
	return w.Flush()
}

// WriteCSV writes one line per Point.
func (r *Result) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	optional := func(x *float64) string {
		if x == nil {
			return ""
		}
		return number(*x)
	}
	first, second := "error", "log_loss"
	if r.Numbers {
		first, second = "rmse", "mae"
	}
	rows := [][]string{{"model", "nightmare", "severity", "loss", "rescale", "repeats", first, "low", "high", second, "deleted"}}
	for _, spline := range r.Curves {
		for _, p := range spline.Points {
			first, second := p.errors()
			rows = append(rows, []string{event.Printable(spline.Subject), event.Printable(p.Nightmare), optional(p.Level), string(spline.Loss), fmt.Sprint(spline.Rescale), fmt.Sprint(p.Repeats),
				number(first), optional(p.Low), optional(p.High), number(second), number(p.Deleted)})
		}
	}
	return c.WriteAll(rows)
}

// Markdown writes one table of errors for each family, with a row for each model and treatment, and a column for each
// nightmare. For regression, each table of root mean squared errors is followed by a table of mean absolute errors.
func (r *Result) Markdown(w io.Writer) error { return r.writeMarkdown(w, nil) }

func (r *Result) writeMarkdown(w io.Writer, figures []Named) error {
	var b strings.Builder
	what, digits := "Error in percent", "%.2f"
	if r.Numbers {
		what, digits = "Root mean squared error (RMSE)", "%.4g"
	}
	fmt.Fprintf(&b, "# Nightmares\n\n%s over %d events, seed %d, %d %s; ± is the 95 %% confidence of the mean over them.\n",
		what, r.Events, r.Seed, r.Repeat, map[bool]string{true: "repetition", false: "repetitions"}[r.Repeat == 1])
	table := func(splines []*Curve, cell func(*Point) string) {
		row := func(first, second string, cell func(*Point) string, points []Point) {
			fmt.Fprintf(&b, "| %s | %s |", inTable(first), second)
			for i := range points {
				fmt.Fprintf(&b, " %s |", inTable(cell(&points[i])))
			}
			b.WriteByte('\n')
		}
		points := splines[0].Points
		row("model", "loss", func(p *Point) string { return p.Nightmare }, points)
		b.WriteString("|---|---|" + strings.Repeat("---|", len(points)) + "\n")
		for _, c := range splines {
			row(c.name(), c.Treatment.String(), cell, c.Points)
		}
	}
	for _, family := range r.families() {
		splines := r.of(family)
		fmt.Fprintf(&b, "\n## %s\n\n", event.Printable(family))
		table(splines, func(p *Point) string {
			first, _ := p.errors()
			if p.High == nil {
				return fmt.Sprintf(digits, first)
			}
			return fmt.Sprintf(digits+" ± "+digits, first, *p.High-first)
		})
		if r.Numbers {
			b.WriteString("\nMean absolute error (MAE):\n\n")
			table(splines, func(p *Point) string { return fmt.Sprintf(digits, p.MAE) })
		}
		for _, f := range figures {
			if f.family == family {
				fmt.Fprintf(&b, "\n![%s](%s.png)\n", event.Printable(f.Figure.Title), f.Name)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inTable escapes a name for a table cell.
func inTable(name string) string {
	return strings.ReplaceAll(event.Printable(name), "|", `\|`)
}

// families returns the names of the families in order.
func (r *Result) families() (names []string) {
	for _, c := range r.Curves {
		if !slices.Contains(names, c.Nightmare) {
			names = append(names, c.Nightmare)
		}
	}
	return names
}

func (r *Result) of(family string) (splines []*Curve) {
	for i := range r.Curves {
		if r.Curves[i].Nightmare == family {
			splines = append(splines, &r.Curves[i])
		}
	}
	return splines
}

func (c *Curve) name() string {
	if c.Learns {
		return c.Subject + " (learns)"
	}
	return c.Subject
}

// Named is a Figure with the name of its files, without an extension.
type Named struct {
	Name   string
	Figure *Figure
	family string
}

// Figures returns the figures: for every family the error by level, or bars if it has no numbers. A nightmare that is
// limited to a part of the stream, or that has a learner, also has a figure of the error over time.
func (r *Result) Figures() []Named {
	var out []Named
	used := map[string]bool{}
	name := func(kind, of string) string {
		base := kind + "-" + fileName(of)
		for i := 2; used[base]; i++ {
			base = fmt.Sprintf("%s-%s-%d", kind, fileName(of), i)
		}
		used[base] = true
		return base
	}
	for _, family := range r.families() {
		splines := r.of(family)
		points := splines[0].Points
		// The legend contains the treatments only if there are several.
		several := slices.ContainsFunc(splines, func(c *Curve) bool { return c.Treatment != splines[0].Treatment })
		legend := func(c *Curve) string {
			if several {
				return c.name() + "; " + c.Treatment.String()
			}
			return c.name()
		}
		f := &Figure{Title: family, Y: "error (%)"}
		if r.Numbers {
			f.Y = "RMSE"
		}
		scale := 1.0
		if f.X = axis(family); strings.HasPrefix(family, "random:") {
			scale = 100
		}
		for _, c := range splines {
			s := r.style(c, splines[0], Line)
			s.Name = legend(c)
			bounded := false
			for _, p := range c.Points {
				first, _ := p.errors()
				low, high := first, first // for a nightmare without randomness
				if p.Low != nil {
					low, high, bounded = *p.Low, *p.High, true
				}
				s.Y, s.Low, s.High = append(s.Y, first), append(s.Low, low), append(s.High, high)
				if p.Level != nil {
					s.X = append(s.X, scale**p.Level)
				}
			}
			if !bounded {
				s.Low, s.High = nil, nil
			}
			if len(s.X) < len(s.Y) || len(points) == 1 {
				s.X, s.Form, s.Color = nil, Bars, 0
				f.Categories, f.X = nil, "nightmare"
				for _, p := range points {
					name := p.Nightmare
					if strings.HasPrefix(family, "group:*") {
						name = strings.TrimPrefix(name, "group:")
					}
					f.Categories = append(f.Categories, name)
				}
			}
			f.Series = append(f.Series, s)
		}
		out = append(out, Named{name("error", family), f, family})
		for at := range points {
			learns := slices.ContainsFunc(splines, func(c *Curve) bool { return c.Learns })
			if points[at].Window == nil && !learns {
				continue
			}
			out = append(out, Named{name("time", points[at].Nightmare), r.overTime(splines, at, legend), family})
		}
	}
	return out
}

// style returns a Series with the color and line of the curve c. All curves of a subject have the same color. A curve
// is dashed if its treatment differs from the treatment of first.
func (r *Result) style(c, first *Curve, form Form) Series {
	s := Series{Form: form, Color: 1 + slices.Index(r.subjects(), c.Subject), Dashed: c.Treatment != first.Treatment}
	if len(r.treatments()) > 2 {
		s.Color, s.Dashed = 0, false
	}
	return s
}

func (r *Result) treatments() (all []Treatment) {
	for _, c := range r.Curves {
		if !slices.Contains(all, c.Treatment) {
			all = append(all, c.Treatment)
		}
	}
	return all
}

// subjects returns the names of the subjects in order.
func (r *Result) subjects() (names []string) {
	for _, c := range r.Curves {
		if !slices.Contains(names, c.Subject) {
			names = append(names, c.Subject)
		}
	}
	return names
}

func (r *Result) overTime(splines []*Curve, at int, legend func(*Curve) string) *Figure {
	p := splines[0].Points[at]
	f := &Figure{Title: p.Nightmare, X: "event", Y: fmt.Sprintf("error (%%) of %d events", r.BinEvents)}
	if r.Numbers {
		f.Y = fmt.Sprintf("RMSE of %d events", r.BinEvents)
	}
	for _, c := range splines {
		q := c.Points[at]
		s := r.style(c, splines[0], BareLine)
		s.Name, s.Y, s.Low, s.High = legend(c), q.Time, q.TimeLow, q.TimeHigh
		for i := range q.Time {
			s.X = append(s.X, (float64(i)+0.5)*float64(r.BinEvents))
		}
		f.Series = append(f.Series, s)
	}
	if p.Window != nil {
		f.Marks = []Mark{{float64(p.Window[0]), "begins"}, {math.Min(float64(p.Window[1]), float64(r.Events)), "ends"}}
	}
	return f
}

// axis returns the label of the axis for a family's levels.
func axis(family string) string {
	name, _, _ := strings.Cut(family, ":")
	switch name {
	case "random":
		return "features deleted (%)"
	case "worst":
		return "features deleted, the worst ones"
	case "noise":
		return "standard deviation of the noise"
	case "stuck":
		return "value at which it is stuck"
	case "block":
		return "side of the block (pixels)"
	}
	return "severity"
}

// fileName converts a name to letters, digits and hyphens.
func fileName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.' || r == '_':
			b.WriteRune(r)
		case r == '%':
			b.WriteString("pc")
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(strings.ReplaceAll(b.String(), "..", "-"), "-.")
	return name[:min(len(name), 60)]
}
