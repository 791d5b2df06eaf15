package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
	"blankout/stream/record"
)

// readings generates events of three classes with correlated numeric fields. The fields are either sensors that depend
// on a few causes, or the pixels of an image, which are mostly 0. The image has 8 by 8 pixels, and its groups are
// patches of 2 by 2 pixels.
type readings struct {
	r       *rand.Rand
	picture bool
}

const readingClasses = 3

func (s *readings) numbers() int { return must.Either(s.picture, 64, 16) }

// group returns the group of a numeric field: a patch of the image, or four sensors.
func (s *readings) group(i int) int { return must.Either(s.picture, i/16*4+i%8/2, i/4) }

func (s *readings) next() (class int, x []float64) {
	class = s.r.IntN(readingClasses)
	if !s.picture {
		causes := [3]float64{s.r.NormFloat64(), s.r.NormFloat64(), s.r.NormFloat64()}
		causes[class] += 2.5
		for i := range s.numbers() {
			x = append(x, 20+causes[i%3]+0.6*causes[(i/4)%3]+0.5*s.r.NormFloat64())
		}
		return class, x
	}
	// The image is a line at a random position, with a slope that depends on the class.
	slope, at := []float64{0, 0.6, -0.6}[class]+0.12*s.r.NormFloat64(), 3.5+1.2*s.r.NormFloat64()
	width := 0.7 + 0.5*s.r.Float64()
	for row := range 8 {
		for column := range 8 {
			away := float64(column) - at - slope*(float64(row)-3.5)
			ink := math.Round(255 * (1.3*math.Exp(-away*away/(2*width*width)) - 0.15 + 0.1*s.r.NormFloat64()))
			x = append(x, max(0, min(255, ink)))
		}
	}
	return class, x
}

// line formats an event.
func line(format string, class int, x []float64) []byte {
	var b strings.Builder
	if format == "svmlight" {
		fmt.Fprint(&b, class)
		for i, x := range x {
			if x != 0 {
				fmt.Fprintf(&b, " %d:%.3f", i+1, x)
			}
		}
		return []byte(b.String())
	}
	if format == "csv" {
		fmt.Fprint(&b, class)
		for _, x := range x {
			fmt.Fprintf(&b, ",%.3f", x)
		}
		return []byte(b.String())
	}
	fmt.Fprintf(&b, `{"label":"%d"`, class)
	for i, x := range x {
		fmt.Fprintf(&b, `,"n%d":%.3f`, i+1, x)
	}
	return []byte(b.String() + "}")
}

// lost holds the errors by missing fraction, for silently missing fields (silent) and for fields that are declared
// missing (declared).
type lost struct{ silent, declared [3]float64 }

var deadShares = [3]float64{0.3, 0.5, 0.7}

// declaredErrors learns events of a format. It returns the errors of predictions with missing fields or groups. At most
// filled columns are imputed.
func declaredErrors(t *testing.T, format string, picture, groups bool, filled int) (out lost) {
	c := record.DefaultConfig()
	c.Format, c.Label, c.Classes = format, "label", []string{"0", "1", "2"}
	s := &readings{rand.New(rand.NewPCG(3, 9)), picture}
	if groups {
		c.Groups = map[string][]string{}
		for i := range s.numbers() {
			name := must.Either(format == "svmlight", fmt.Sprint(i+1), fmt.Sprintf("n%d", i+1))
			g := fmt.Sprintf("g%d", s.group(i))
			c.Groups[g] = append(c.Groups[g], name)
		}
	}
	switch format {
	case "svmlight":
		c.Absent = event.AbsentMissing
	case "csv":
		c.Columns = []string{c.Label}
		for i := range s.numbers() {
			c.Columns = append(c.Columns, fmt.Sprintf("n%d", i+1))
		}
	}
	schema := c.Schema()
	d := must.Get(record.NewDecoder(c, schema))(t)
	config := online.DefaultConfig()
	config.CovarianceMaxFields = filled
	l := must.Get(online.New(config, schema))(t)
	var e event.Example
	read := func() {
		class, x := s.next()
		err := d.Decode(t.Context(), record.Record{Value: line(format, class, x)}, &e)
		must.Require(t, err == nil && e.Refused == nil, "%v %+v", err, e.Refused)
	}
	for range 2000 {
		read()
		l.Learn(&e, nil)
	}
	m := l.Snapshot().Model()
	wrong := func(of *event.Example) float64 {
		return must.Either(m.Predict(m.Score(of, make([]float64, readingClasses))) != e.Label, 1.0/deadEvents, 0)
	}
	dead := make([]bool, s.numbers())
	for range deadEvents {
		read()
		for at, fraction := range deadShares {
			gone := map[int]bool{}
			for i := range dead {
				unit := i
				if groups {
					unit = s.group(i)
				}
				if _, drawn := gone[unit]; !drawn {
					gone[unit] = s.r.Float64() < fraction
				}
				dead[i] = gone[unit]
			}
			silent, declared := kill(m, &e, dead)
			out.silent[at] += wrong(silent)
			out.declared[at] += wrong(declared)
		}
	}
	return out
}

const deadEvents = 1000

// kill returns two copies of an event in which the same fields are missing. In silent these fields have their neutral
// value, and in declared they are declared missing.
func kill(m *model.Linear, e *event.Example, dead []bool) (silent, declared *event.Example) {
	silent, declared = &event.Example{Weight: 1}, &event.Example{Weight: 1, Declared: true}
	for i, column := range e.Features.Index {
		number, x := int(column), e.Features.Value[i] // svmlight columns
		if len(e.Field) > 0 {
			number, _ = strconv.Atoi(m.Schema.Fields[e.Field[i]].Name[1:])
			number--
			silent.Field = append(silent.Field, e.Field[i])
		}
		silent.Features.Index = append(silent.Features.Index, column)
		if !dead[number] {
			silent.Features.Value = append(silent.Features.Value, x)
			eventtest.Put(declared, column, x)
			if len(e.Field) > 0 {
				declared.Field = append(declared.Field, e.Field[i])
			}
			continue
		}
		reads, _ := m.Dead.Of(column)
		silent.Features.Value = append(silent.Features.Value, reads)
		if len(e.Field) > 0 {
			declared.Missing = append(declared.Missing, e.Field[i])
		} else {
			declared.MissingColumns = append(declared.MissingColumns, column)
		}
	}
	if len(e.Field) > 0 {
		slices.Sort(declared.Missing)
		return silent, declared
	}
	for column, dead := range dead { // fields that are 0 are absent but also missing
		if dead && m.Missing.ReadsZero(uint32(column)) {
			declared.MissingColumns = append(declared.MissingColumns, uint32(column))
		}
	}
	slices.Sort(declared.MissingColumns)
	declared.MissingColumns = slices.Compact(declared.MissingColumns)
	return silent, declared
}

// TestDeclared compares declared missing fields with silently missing fields. For every missing fraction, for fields
// and groups, and in every format, the error must not be larger with declared fields. A text format of a table must
// have the same errors as a format with field names, up to chance.
func TestDeclared(t *testing.T) {
	longtest.Numeric(t)
	for i, picture := range []bool{false, true} {
		for _, groups := range longtest.Few([]bool{false, true}, i, 2) {
			of := map[string]lost{}
			for _, c := range []struct {
				format string
				filled int
				long   bool
			}{{"json", 256, picture}, {"svmlight", 256, picture}, {"csv", 256, true}, {"svmlight", 24, !picture}} {
				if c.long && !longtest.Asked() {
					continue
				}
				e := declaredErrors(t, c.format, picture, groups, c.filled)
				if c.filled == 256 {
					of[c.format] = e
				}
				t.Logf("picture %v, groups %v, %+v: silent %.3f, declared %.3f", picture, groups, c, e.silent, e.declared)
				for at, fraction := range deadShares {
					must.True(t, e.declared[at] <= e.silent[at]+2*deviation(e.silent[at]),
						"picture %v, groups %v, %+v, %v dead: errors %.3f where it is declared, %.3f where not", picture, groups, c, fraction, e.declared[at], e.silent[at])
				}
			}
			if picture { // its named numbers have cosines, its sparse columns have none
				continue
			}
			for at, fraction := range deadShares {
				named, text := of["json"].declared[at], of["svmlight"].declared[at]
				must.True(t, text <= named+2*deviation(named), "picture %v, groups %v, %v dead: errors %.3f with svmlight, %.3f with names", picture, groups, fraction, text, named)
			}
		}
	}
}

// TestDeclaredOneHot checks that declaring columns of one-hot categories missing is not worse than omitting them, with
// the default record.absent. The log-losses are paired by event. The categories tell little, so a score that is
// rescaled too much is overconfident.
func TestDeclaredOneHot(t *testing.T) {
	longtest.NotRaced(t)
	const fields, values = 6, 40
	r := rand.New(rand.NewPCG(5, 8))
	effect := must.List(fields*values, func(int) float64 { return 0.3 * r.NormFloat64() })
	l := newLearner(t, online.DefaultConfig(), event.NewSchema(8, []string{"no", "yes"}, 2))
	next := func() *event.Example {
		e, score := &event.Example{Weight: 1}, 0.0
		for f := range fields {
			column := f*values + r.IntN(values)
			score += effect[column]
			eventtest.Put(e, uint32(column), 1)
		}
		e.Label = must.Either(r.Float64() < 1/(1+math.Exp(-score)), 1, 0)
		return e
	}
	learnNext(l, 12_000, next)
	m, scores := l.Snapshot().Model(), make([]float64, 1)
	loss := func(e *event.Example) float64 { return m.Decision().LogLoss(m.Score(e, scores), e.Label) }
	for _, rate := range []float64{0.3, 0.6, 0.9} {
		var differences []float64
		for range 4000 {
			e, hidden := next(), &event.Example{Weight: 1}
			declared := &event.Example{Weight: 1, Label: e.Label}
			hidden.Label = e.Label
			for i, column := range e.Features.Index {
				if r.Float64() < rate {
					declared.MissingColumns = append(declared.MissingColumns, column)
					continue
				}
				eventtest.Put(hidden, column, e.Features.Value[i])
				eventtest.Put(declared, column, e.Features.Value[i])
			}
			differences = append(differences, loss(declared)-loss(hidden))
		}
		mean, sd := stat.MeanStdDev(differences, nil)
		if error := stat.StdErr(sd, float64(len(differences))); mean > 2*error {
			t.Errorf("%v of the columns missing: declared costs %+.4f ± %.4f nats", rate, mean, error)
		}
	}
}

// deviation returns the standard error of a difference of two error rates near p.
func deviation(p float64) float64 { return math.Sqrt(2 * p * (1 - p) / deadEvents) }

// readingsOf returns a Schema of correlated numbers, and a function that returns the next event.
func readingsOf(seed uint64, classes int) (s *event.Schema, next func() *event.Example) {
	s, r := synthetic.NewReadings(seed, 16, classes)
	if classes == 0 {
		s.Target, s.Classes = loss.Real, nil
	}
	return s, func() *event.Example { return r.Next(s, classes) }
}

// killed returns a copy of an event in which half of the numbers, or of the groups, are silently missing.
func killed(r *rand.Rand, e *event.Example, dead *model.Dead, groups bool) *event.Example {
	died := false
	for i, column := range e.Features.Index {
		if !groups || i%4 == 0 {
			died = r.IntN(2) == 0
		}
		if died {
			e.Features.Value[i], _ = dead.Of(column)
		}
	}
	return e
}

// silentLoss learns events. It returns the model's loss on events in which half of the numbers, or of the groups, are
// silently missing. The loss is the log-loss or, for regression, the squared error.
func silentLoss(t *testing.T, c online.Config, classes int, groups bool) float64 {
	t.Helper()
	schema, draw := readingsOf(3, classes)
	if classes == 0 {
		c.Loss = "squared"
	}
	l := newLearner(t, c, schema)
	learnNext(l, 4000, draw)
	m, r, lost := l.Snapshot().Model(), rand.New(rand.NewPCG(9, 9)), 0.0
	const tests = 2000
	for range tests {
		e := killed(r, draw(), m.Dead, groups)
		scores := m.Score(e, make([]float64, m.Outputs))
		if classes > 0 {
			lost += m.Decision().LogLoss(scores, e.Label) / tests
			continue
		}
		d := m.Value(scores[0]) - e.Target
		lost += d * d / tests
	}
	return lost
}

// TestSilentMissingKeepsItsPromise checks events in which half of the fields, or of the groups, are silently missing.
// The loss on these events must be lower if the learner uses silent_missing.
func TestSilentMissingKeepsItsPromise(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 0} {
		for _, groups := range []bool{false, true} {
			if groups == (classes == 0) && (groups || !longtest.Asked()) {
				continue
			}
			c := plain()
			without := silentLoss(t, c, classes, groups)
			c.SilentMissing, c.SilentGroups = 0.5, groups
			with := silentLoss(t, c, classes, groups)
			must.True(t, with < 0.97*without, "%d classes, groups %v: it loses %.4f with silent_missing = 0.5, %.4f without", classes, groups, with, without)
			c.Optimizer = "auto" // correcting experts also learn from silently masked copies
			most := must.Either(classes == 0, 1.01*with, 0.995*with)
			corrected := silentLoss(t, c, classes, groups)
			must.True(t, corrected < most, "%d classes, groups %v: corrected it loses %.4f, else %.4f", classes, groups, corrected, with)
		}
	}
}

// TestDeadValues checks that outliers and unlabeled events do not change the values for silently missing columns.
func TestDeadValues(t *testing.T) {
	c := plain()
	c.SilentMissing = 0.3
	schema, draw := readingsOf(1, 2)
	l := newLearner(t, c, schema)
	for i := range 1000 {
		e := draw()
		switch {
		case i > 100 && i%50 == 0:
			e.Features.Value[1] = 1e20
		case i%50 == 1:
			e.Label, e.Features.Value[1] = event.Unlabeled, -3e5
		}
		l.Learn(e, nil)
	}
	dead := l.Snapshot().Model().Dead
	x, known := dead.Of(2)
	must.True(t, known && x >= 40 && x <= 80, "a dead number reads %v, known %v", x, known)
}
