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
	"text/tabwriter"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Save writes a Result to a directory, which it creates: results.json, results.csv and the figures. It returns
// the names of the files.
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
	for _, f := range r.Figures() {
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
func (r *Result) WriteCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(r.rows(number)) }

// WriteTable writes the lines of WriteCSV as aligned text, with four digits of each number.
func (r *Result) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range r.rows(func(x float64) string { return fmt.Sprintf("%.4g", x) }) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// rows returns a header and a row for each Point. Errors of classification are in percent. low and high are the 95 %
// confidence bounds of the mean error over the repeats.
func (r *Result) rows(format func(float64) string) [][]string {
	optional := func(x *float64) string {
		if x == nil {
			return ""
		}
		return format(*x)
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
				format(first), optional(p.Low), optional(p.High), format(second), format(p.Deleted)})
		}
	}
	return rows
}

// distinct returns the different values of a property of the curves, in order.
func distinct[T comparable](r *Result, of func(*Curve) T) (all []T) {
	for i := range r.Curves {
		if x := of(&r.Curves[i]); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// Named is a Figure with the name of its files, without an extension.
type Named struct {
	Name   string
	Figure *Figure
}

// Figures returns the figures: for every family the error by level, or bars if it has no numbers. A nightmare that is
// limited to a part of the stream also has a figure of the error over time.
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
	for _, family := range distinct(r, func(c *Curve) string { return c.Nightmare }) {
		var splines []*Curve
		for i := range r.Curves {
			if r.Curves[i].Nightmare == family {
				splines = append(splines, &r.Curves[i])
			}
		}
		points := splines[0].Points
		// The legend contains the treatments only if there are several.
		several := slices.ContainsFunc(splines, func(c *Curve) bool { return c.Treatment != splines[0].Treatment })
		legend := func(c *Curve) string {
			if several {
				return c.Subject + "; " + c.Treatment.String()
			}
			return c.Subject
		}
		f := &Figure{Title: family, Y: "error (%)"}
		if r.Numbers {
			f.Y = "RMSE"
		}
		scale := 1.0
		if f.X = kindOf(family).axis; strings.HasPrefix(family, "random:") {
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
		out = append(out, Named{name("error", family), f})
		for at := range points {
			if points[at].Window == nil {
				continue
			}
			out = append(out, Named{name("time", points[at].Nightmare), r.overTime(splines, at, legend)})
		}
	}
	return out
}

// style returns a Series with the color and line of the curve c. All curves of a subject have the same color. A curve
// is dashed if its treatment differs from the treatment of first.
func (r *Result) style(c, first *Curve, form Form) Series {
	subjects := distinct(r, func(c *Curve) string { return c.Subject })
	s := Series{Form: form, Color: 1 + slices.Index(subjects, c.Subject), Dashed: c.Treatment != first.Treatment}
	if len(distinct(r, func(c *Curve) Treatment { return c.Treatment })) > 2 {
		s.Color, s.Dashed = 0, false
	}
	return s
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

// SilentLoss has the nightmare and subject with the largest cost of dead features. The cost is the difference from the
// error with features that are declared missing. Errors are those of a Point.
type SilentLoss struct {
	Subject   string  `json:"model"`
	Nightmare string  `json:"nightmare"`
	Missing   float64 `json:"missing"` // fraction of missing features during the nightmare
	Declared  float64 `json:"declared"`
	Dead      float64 `json:"dead"`
	// Expects reports whether the subject has learned for dead features.
	Expects bool `json:"expects_silent_loss"`
	// Other is the subject with the smallest error in this nightmare, among the subjects trained for dead features. It is
	// "" if no subject is trained for them, or if this subject is.
	Other     string  `json:"other,omitempty"`
	OtherDead float64 `json:"other_dead,omitempty"`

	numbers bool // whether the errors are those of regression
}

// A cost is reported if it is larger than leastSilentLoss times the error with features that are declared missing. For
// classification it must also be larger than leastSilentPoints percentage points.
const leastSilentLoss, leastSilentPoints = 0.05, 1

// SilentLoss returns the nightmare and subject for which dead features cost most. If subjects that have not
// learned for dead features have a large enough cost, it returns one of these. It returns nil if no cost is
// large enough, or if no cost was measured.
func (r *Result) SilentLoss() (most *SilentLoss) {
	r.eachPair(func(declared, dead *Curve) {
		for i := range dead.Points {
			p := &dead.Points[i]
			s := &SilentLoss{Subject: dead.Subject, Nightmare: p.Nightmare, Missing: r.missing(p), Expects: dead.expects, numbers: r.Numbers}
			s.Declared, _ = declared.Points[i].errors()
			s.Dead, _ = p.errors()
			more := s.Dead - s.Declared
			switch {
			case p.Deleted == 0 || !(more >= leastSilentLoss*s.Declared && more > 0) || !r.Numbers && more < leastSilentPoints:
			case most == nil || most.Expects && !s.Expects, most.Expects == s.Expects && more > most.Dead-most.Declared:
				most = s
			}
		}
	})
	if most == nil || most.Expects {
		return most
	}
	r.eachPair(func(_, dead *Curve) {
		at := slices.IndexFunc(dead.Points, func(p Point) bool { return p.Nightmare == most.Nightmare })
		if !dead.expects || at < 0 {
			return
		}
		if x, _ := dead.Points[at].errors(); most.Other == "" || x < most.OtherDead {
			most.Other, most.OtherDead = dead.Subject, x
		}
	})
	return most
}

// missing returns the fraction of missing features during the nightmare.
func (r *Result) missing(p *Point) float64 {
	missing := p.Deleted / 100
	if p.Window != nil {
		missing *= float64(r.Events) / float64(max(1, min(p.Window[1], r.Events)-p.Window[0]))
	}
	return missing
}

// eachPair calls f with the curves for declared and dead features of each subject in each family.
func (r *Result) eachPair(f func(declared, dead *Curve)) {
	for i := range r.Curves {
		for j := range r.Curves {
			a, b := &r.Curves[i], &r.Curves[j]
			if a.Treatment == (Treatment{Loss: model.LossDeclared}) && b.Treatment == (Treatment{Loss: model.LossDead}) && a.Subject == b.Subject && a.Nightmare == b.Nightmare {
				f(a, b)
			}
		}
	}
}

// String returns one line of text, which names the key for learning with dead features. It returns "" for a
// nil SilentLoss.
func (s *SilentLoss) String() string {
	if s == nil {
		return ""
	}
	form := "%.1f %% error"
	if s.numbers {
		form = "an RMSE of %.4g"
	}
	text := fmt.Sprintf("%s at %s: "+form+" if features are dead, "+form+" if they are declared missing", event.Printable(s.Subject), event.Printable(s.Nightmare), s.Dead, s.Declared)
	switch d := min(max(math.Round(10*s.Missing)/10, 0.1), 0.9); {
	case s.Expects:
		return text
	case s.Other != "":
		return text + fmt.Sprintf("; %s, which expects dead features: "+form, event.Printable(s.Other), s.OtherDead)
	default:
		return text + fmt.Sprintf("; learner.silent_missing = %g learns for dead features", d)
	}
}
