package simulate

// This file implements nightmares that delete features.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Random removes every feature independently with probability Fraction, in [0, 1). With the same seed it removes the
// same features as blankout predict --delete. In repetition r it removes the same features as copy r of the command
// corrupt.
type Random struct {
	deletion
	Fraction float64
}

func (r Random) Kill(e *Event) { e.drop(loss.Dropout{Q: r.Fraction}, r.Fraction) }

func (r Random) random() bool { return r.Fraction > 0 }

func (r Random) String() string { return "random:" + number(r.Fraction) }

// drop marks the features of e that a dropout noise with the given rate removes.
func (e *Event) drop(noise loss.Noise, fraction float64) {
	e.corrupter.Noise, e.corrupter.Seed, e.corrupter.Grouping, e.corrupter.Splines = noise, e.Seed, e.grouped(), nil
	if e.Model != nil {
		e.corrupter.Splines = e.Model.Scaler.Splines
	}
	e.Dead = e.corrupter.Dead(e.X.Index, e.Field, e.Number, e.Repeat, e.Dead)
	e.Left = 1 - fraction
}

// grouped returns which features of the events are removed together.
func (s *Stage) grouped() *model.Grouping {
	if s.grouping == nil {
		s.grouping = model.NewGrouping(s.Schema)
	}
	return s.grouping
}

// Groups removes every group of features independently with probability Fraction, in [0, 1). A group is a group of
// fields, a field without a group, or a group of columns (see model.Grouping). With the same seed it removes the same
// groups as blankout predict --delete-groups. In repetition r it removes the same groups as copy r of the command
// corrupt.
type Groups struct {
	deletion
	Fraction float64
}

func (g Groups) Kill(e *Event) { e.drop(loss.GroupDropout{Groups: g.Fraction}, g.Fraction) }

func (g Groups) random() bool { return g.Fraction > 0 }

func (g Groups) String() string { return "groups:" + number(g.Fraction) }

// Worst removes the K features of an event that the model needs most for the true class y (Globerson & Roweis 2006,
// section 2). These are the largest positive contributions to the margin between y and another class. If there are more
// than two classes, the other class is the class with the lowest margin after the deletion. If the model separates
// pairs of classes, a margin is the difference of the classes' sums over pairs. For regression, Worst removes the K
// features without which the prediction is farthest from the target. These are the largest positive or the largest
// negative contributions to the score.
type Worst struct {
	deletion
	K int
}

func (w Worst) Kill(e *Event) {
	if e.Class < 0 || e.Model == nil {
		return
	}
	// part[i*outputs+k] is the contribution of the i-th feature of the event to output k.
	outputs := e.Model.Outputs
	part := make([]float64, e.X.Len()*outputs)
	for i, column := range e.X.Index {
		for k := range outputs {
			part[i*outputs+k] = e.X.Value[i] * e.Model.Weight(column, k)
		}
		if source := e.Model.Scaler.Splines.Source(column); source != column { // the spline columns of a number are removed with it
			if at, ok := slices.BinarySearch(e.X.Index, source); ok {
				for k := range outputs {
					part[at*outputs+k] += part[i*outputs+k]
					part[i*outputs+k] = 0
				}
			}
		}
	}
	// options has the margins that a deletion may reduce. worse returns how bad a reduced margin is.
	var options [][]side
	worse := func(_ []side, margin float64) float64 { return -margin }
	if e.Model.Target() != loss.Sign {
		options = [][]side{{{0, 1}}, {{0, -1}}}
		worse = func(s []side, margin float64) float64 { return math.Abs(e.Target - e.Model.Value(s[0].by*margin)) }
	} else {
		classes := max(outputs, 2)
		if e.Model.Pairs {
			classes = len(e.Model.Schema.Classes)
		}
		for rival := range classes {
			if rival != e.Class {
				options = append(options, sides(e.Model, e.Class, rival))
			}
		}
	}
	var victims []holder
	worst := 0.0
	for i, option := range options {
		candidates, margin := w.against(part, e.Model.Intercept, option)
		if by := worse(option, margin); i == 0 || by > worst {
			victims, worst = candidates, by
		}
	}
	for _, v := range victims {
		e.Dead[v.entry] = true
	}
}

// holder is a feature, with its contribution to the margin between the true class and another class.
type holder struct {
	entry int
	part  float64
}

// against returns the K features with the largest contributions to the margin between the true class and another class,
// and the margin without these features. sides has the outputs from which the margin is computed.
func (w Worst) against(part, intercept []float64, sides []side) (victims []holder, margin float64) {
	outputs := len(intercept)
	margin = speaks(intercept, sides)
	for i := range len(part) / outputs {
		held := speaks(part[i*outputs:(i+1)*outputs], sides)
		margin += held
		if held > 0 {
			victims = append(victims, holder{i, held})
		}
	}
	slices.SortFunc(victims, func(a, b holder) int { return cmp.Or(cmp.Compare(b.part, a.part), a.entry-b.entry) })
	victims = victims[:min(w.K, len(victims))]
	for _, v := range victims {
		margin -= v.part
	}
	return victims, margin
}

// side is an output, with its factor in a margin.
type side struct {
	output int
	by     float64
}

// sides returns the outputs whose scores form the margin between a class and a rival.
func sides(m *model.Linear, class, rival int) (out []side) {
	against := m.ClassSigns(rival)
	for k, by := range m.ClassSigns(class) {
		if by -= against[k]; by != 0 {
			out = append(out, side{k, by})
		}
	}
	return out
}

func speaks(outputs []float64, sides []side) (sum float64) {
	for _, s := range sides {
		sum += s.by * outputs[s.output]
	}
	return sum
}

func (w Worst) String() string { return "worst:" + strconv.Itoa(w.K) }

// Group removes a group of features, for example a sensor. The group is a field or a group of fields of the Schema, or
// a group of columns of the Stage. In a sparse text format it is columns by number, such as 3 or 1-8.
type Group struct {
	deletion
	Name string
}

func (g Group) Kill(e *Event) {
	m := e.group(g.Name)
	for i, column := range e.X.Index {
		if m.holds(e, i, column) {
			e.Dead[i] = true
		}
	}
}

func (g Group) String() string { return "group:" + g.Name }

func parseGroup(name string) (Nightmare, error) {
	if name == "" {
		return nil, fmt.Errorf("want the name of a field or group, or numbers of columns as in 1-8")
	}
	return Group{Name: name}, nil
}

// members describes the features that belong to a named group in a Schema.
type members struct {
	field   []bool // by field id, for the fields processed so far
	spans   []event.Span
	touched bool // whether any event had one of the features
}

// group returns the features of a named group.
func (s *Stage) group(name string) *members {
	m := s.members[name]
	if m == nil {
		m = new(members)
		if s.members == nil {
			s.members = map[string]*members{}
		}
		s.members[name] = m
		named := slices.ContainsFunc(s.Schema.Fields, func(f event.Field) bool { return f.Name == name || f.Group == name })
		if spans, ok := s.Groups[name]; ok {
			m.spans = spans
		} else if spans, ok := s.Schema.ColumnGroups.Find(name); ok {
			m.spans = spans
		} else if spans, ok := event.ParseSpans(name, s.Schema.ZeroBased); ok && !named && s.Schema.NumericIndices {
			m.spans = spans
		}
	}
	for id := len(m.field); id < len(s.Schema.Fields); id++ { // the Schema may grow
		f := s.Schema.Fields[id]
		m.field = append(m.field, f.Name == name || f.Group == name)
	}
	return m
}

// holds reports whether feature i of an event, whose column is the argument, is in the group.
func (m *members) holds(e *Event, i int, column uint32) bool {
	field := uint16(0)
	if e.Field != nil {
		field = e.Field[i]
	}
	in := field != 0 && m.field[field]
	if field == 0 {
		for _, s := range m.spans {
			in = in || s.From <= column && column < s.To
		}
	}
	m.touched = m.touched || in
	return in
}

// Block removes a rectangle of an image. If Size is not 0, it removes Size by Size pixels at a random position in every
// event. Otherwise it removes Height by Width pixels from Row and Column on. Pixels are columns, row by row. An image
// with several colors is one plane after another.
type Block struct {
	deletion
	Size                       int
	Row, Column, Height, Width int
	// Across is the width of the image. 0 means the square root of the number of columns.
	Across int
}

func (b Block) Kill(e *Event) {
	across := cmp.Or(b.Across, int(math.Ceil(math.Sqrt(float64(e.Columns)))))
	if b.Size > 0 {
		r := e.random(0xb10c)
		b.Height, b.Width = min(b.Size, across), min(b.Size, across)
		b.Row, b.Column = r.IntN(across-b.Height+1), r.IntN(across-b.Width+1)
	}
	for i, column := range e.X.Index {
		at := int(column) % (across * across)
		row, col := at/across, at%across
		if b.Row <= row && row < b.Row+b.Height && b.Column <= col && col < b.Column+b.Width {
			e.Dead[i] = true
		}
	}
	// The deleted fraction includes pixels that were already 0.
	height, width := max(0, min(b.Height, across-b.Row)), max(0, min(b.Width, across-b.Column))
	e.Left = 1 - float64(height*width)/float64(across*across)
}

func (b Block) random() bool { return b.Size > 0 }

func (b Block) String() string {
	s := fmt.Sprintf("block:%d,%d,%d,%d", b.Row, b.Column, b.Height, b.Width)
	if b.Height == 0 {
		s = fmt.Sprintf("block:%d", b.Size)
	}
	if b.Across > 0 {
		s += fmt.Sprintf("/%d", b.Across)
	}
	return s
}

func parseBlock(argument string) (Nightmare, error) {
	wrong := fmt.Errorf("want SIZE or ROW,COLUMN,HEIGHT,WIDTH, and /WIDTH of the image where it is not square, not %q", argument)
	place, across, has := strings.Cut(argument, "/")
	var b Block
	var err error
	if has {
		if b.Across, err = strconv.Atoi(across); err != nil || b.Across < 1 || b.Across > 1<<15 {
			return nil, wrong
		}
	}
	to := []*int{&b.Row, &b.Column, &b.Height, &b.Width}
	parts := strings.Split(place, ",")
	if len(parts) == 1 {
		to = []*int{&b.Size}
	}
	if len(parts) != len(to) {
		return nil, wrong
	}
	for i, p := range parts {
		if *to[i], err = strconv.Atoi(p); err != nil || *to[i] < 0 || *to[i] > 1<<15 {
			return nil, wrong
		}
	}
	if len(parts) == 4 && (b.Height < 1 || b.Width < 1) {
		return nil, wrong
	}
	return b, nil
}
