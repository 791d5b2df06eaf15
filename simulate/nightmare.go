// Package simulate measures what the error would have been if features had failed. A [Nightmare] (Globerson & Roweis
// 2006) removes features from events or changes them. A [Replay] runs models and learners on recorded events in
// nightmares and measures their errors. [Report] writes tables and figures of the results.
package simulate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Nightmare is a way in which features fail. Its effect on an event depends only on the event, its number, and the
// Stage's Seed and Repeat. So the effect is the same for every model.
//
// It processes an event twice. Distort receives the original features and changes their values. Kill receives the
// features after standardization by the model's Scaler, and marks the removed ones in Dead. For a learner, which has
// its own Scaler, Kill receives the original features.
type Nightmare interface {
	Distort(e *Event)
	Kill(e *Event)
	// String returns the text from which Parse creates the nightmare.
	String() string
}

// Event is an example to which a Nightmare is applied.
type Event struct {
	*Stage
	Number int           // index in the stream, from 0
	Class  int           // true class, negative if unknown
	Target float64       // regression target; Class is then 0, or negative if unknown
	Model  *model.Linear // model that will score the event; nil if it is not linear
	X      event.Vec
	Field  []uint16 // field ids of the entries of X; nil means all anonymous
	Dead   []bool   // whether each entry of X is removed, set by Kill
	// Left is the fraction of features that remain, for rescaling. If it is 0, the fraction is computed from the event.
	Left float64
}

// Stage holds the data that all events of a replay share.
type Stage struct {
	Schema  *event.Schema
	Events  int // number of events
	Columns int // highest column number plus one
	Seed    uint64
	Repeat  int
	// Groups are named groups of columns. They are valid names in addition to the fields and groups of the Schema.
	Groups map[string][]event.Span

	members   map[string]*members
	pcg       rand.PCG
	grouping  *model.Grouping
	corrupter batch.Corrupter // used by Random and Groups
}

// losses returns a seed for model.Losses. In repetition 0 it is that of blankout predict --delete.
func (s *Stage) losses() uint64 { return s.Seed ^ uint64(s.Repeat)<<32 }

// random returns a generator that depends on the seed, the repetition, the event and the salt. Different salts give
// different sequences for the same event. The generator is valid until the next call for any event of the Stage,
// because all events share its memory.
func (e *Event) random(salt uint64) *rand.Rand {
	e.pcg.Seed(e.Seed^salt, uint64(e.Number)<<16^uint64(e.Repeat))
	return rand.New(&e.pcg)
}

// deletion is embedded in nightmares that only remove features. distortion is embedded in nightmares that only change
// values.
type deletion struct{}

func (deletion) Distort(*Event) {}

type distortion struct{}

func (distortion) Kill(*Event) {}

// None does not change events.
type None struct{}

func (None) Distort(*Event) {}
func (None) Kill(*Event)    {}
func (None) String() string { return "none" }

// During limits a Nightmare to the events with From <= n < To. If Percent is true, From and To are percentages of the
// stream.
type During struct {
	Nightmare
	From, To float64
	Percent  bool
}

// Bounds returns the index of the first damaged event, and the index of the first event after the damaged ones.
func (d During) Bounds(events int) (from, to int) {
	if d.Percent {
		return int(d.From * float64(events) / 100), int(d.To * float64(events) / 100)
	}
	return int(d.From), int(d.To)
}

func (d During) on(e *Event) bool {
	from, to := d.Bounds(e.Events)
	return from <= e.Number && e.Number < to
}

func (d During) Distort(e *Event) {
	if d.on(e) {
		d.Nightmare.Distort(e)
	}
}

func (d During) Kill(e *Event) {
	if d.on(e) {
		d.Nightmare.Kill(e)
	}
}

func (d During) String() string {
	s, unit := d.Nightmare.String(), ""
	if rest, ok := strings.CutPrefix(s, "group:"); ok {
		s = "burst:" + rest
	}
	if d.Percent {
		unit = "%"
	}
	return s + "@" + number(d.From) + unit + "-" + number(d.To) + unit
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// kind is a kind of nightmare.
type kind struct {
	name, usage string
	many        bool   // the last argument is a number that may be replaced by a list of numbers
	amount      bool   // without effect if that number is 0
	axis        string // label of an axis with these numbers
	make        func(argument string) (Nightmare, error)
}

// nightmares lists the nightmares. To add a nightmare, add a type and a line here.
var nightmares = []kind{
	{"none", "", false, false, severity, func(string) (Nightmare, error) { return None{}, nil }},
	{"random", "SHARE", true, true, "features deleted (%)", share(func(d float64) Nightmare { return Random{Fraction: d} })},
	{"groups", "SHARE", true, true, severity, share(func(d float64) Nightmare { return Groups{Fraction: d} })},
	{"worst", "K", true, true, "features deleted, the worst ones", func(a string) (Nightmare, error) {
		k, err := strconv.Atoi(a)
		if err != nil || k < 0 {
			return nil, fmt.Errorf("%q is not a number of features", a)
		}
		return Worst{K: k}, nil
	}},
	{"group", "NAME", false, false, severity, parseGroup},
	{"burst", "NAME@FROM-TO", false, false, severity, parseGroup},
	{"block", "SIZE or ROW,COLUMN,HEIGHT,WIDTH", false, false, "side of the block (pixels)", parseBlock},
	{"drift", "NAME:A,B", false, false, severity, parseDrift},
	{"stuck", "NAME:VALUE", true, false, "value at which it is stuck", parseStuck},
	{"noise", "SD or NAME:SD", true, true, "standard deviation of the noise", parseAdditive},
}

const severity = "severity"

// kindOf returns the kind of a nightmare or a family by the start of its text. It returns a kind without a name if there
// is none.
func kindOf(text string) kind {
	name, _, _ := strings.Cut(text, ":")
	for _, k := range nightmares {
		if k.name == name {
			return k
		}
	}
	return kind{axis: severity}
}

// share returns a kind's make for nightmares with a fraction.
func share(of func(float64) Nightmare) func(string) (Nightmare, error) {
	return func(a string) (Nightmare, error) {
		d, err := strconv.ParseFloat(a, 64)
		if err != nil || !(d >= 0 && d < 1) {
			return nil, fmt.Errorf("the fraction %q must be a number in [0, 1)", a)
		}
		return of(d), nil
	}
}

// Usage returns the syntax that Parse accepts.
func Usage() string {
	var forms []string
	for _, n := range nightmares {
		forms = append(forms, strings.TrimSuffix(n.name+":"+n.usage, ":"))
	}
	return strings.Join(forms, ", ")
}

// Parse parses one nightmare, such as random:0.5 or group:sensor3@1000-2000. It is the inverse of String. The text does
// not contain the seed, which is in the Stage.
func Parse(s string) (Nightmare, error) {
	body, window, windowed := strings.Cut(s, "@")
	k := kindOf(body)
	if k.name == "" {
		return nil, fmt.Errorf("nightmare %q: want one of %s", s, Usage())
	}
	_, argument, _ := strings.Cut(body, ":")
	nightmare, err := k.make(argument)
	if err == nil && (argument == "") != (k.usage == "") {
		err = fmt.Errorf("want %s", strings.TrimSuffix(k.name+":"+k.usage, ":"))
	}
	if err == nil && windowed {
		nightmare, err = parseDuring(nightmare, window)
	} else if err == nil && k.name == "burst" {
		err = fmt.Errorf("want %s:%s, the events between which the group is dead", k.name, k.usage)
	}
	if err != nil {
		return nil, fmt.Errorf("nightmare %q: %w", s, err)
	}
	return nightmare, nil
}

func parseDuring(n Nightmare, window string) (Nightmare, error) {
	from, to, ok := strings.Cut(window, "-")
	d := During{Nightmare: n}
	var percent [2]bool
	for i, at := range []struct {
		text string
		to   *float64
	}{{from, &d.From}, {to, &d.To}} {
		var err error
		var text string
		text, percent[i] = strings.CutSuffix(at.text, "%")
		if *at.to, err = strconv.ParseFloat(text, 64); err != nil || !(*at.to >= 0 && *at.to < 1<<53) {
			ok = false
		}
	}
	d.Percent = percent[0]
	if !ok || percent[0] != percent[1] || d.From >= d.To || d.Percent && d.To > 100 {
		return nil, fmt.Errorf("want @FROM-TO, two ascending numbers of events or percentages of the stream, not %q", window)
	}
	return d, nil
}

// Family is a nightmare at one or more levels (severities). Its results are shown as a point or a curve.
type Family struct {
	Name   string // text that ParseFamily parsed
	Levels []Level
}

// Level is a nightmare with its severity in a Family.
type Level struct {
	Nightmare Nightmare
	X         float64 // severity; NaN for a Family of one nightmare without a number
}

var (
	rangePattern  = regexp.MustCompile(`(-?[0-9.]*[0-9])\.\.(-?[0-9.]*[0-9])(?:/([0-9.]*[0-9]))?`)
	numberPattern = regexp.MustCompile(`-?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?$`)
)

// maxLevels is the largest number of levels in a range.
const maxLevels = 1000

// WithNothing returns the Family with an additional first level that has no effect, for comparison. It does so only if
// the level is an amount that is removed or added, and if there is no such level yet.
func (f Family) WithNothing() Family {
	if len(f.Levels) == 0 || slices.ContainsFunc(f.Levels, func(l Level) bool { return l.X == 0 }) {
		return f
	}
	body, window, windowed := strings.Cut(f.Levels[0].Nightmare.String(), "@")
	if !kindOf(body).amount {
		return f
	}
	text := body[:strings.LastIndexByte(body, ':')+1] + "0"
	if windowed {
		text += "@" + window
	}
	if nothing, err := Parse(text); err == nil {
		f.Levels = append([]Level{{nothing, 0}}, f.Levels...)
	}
	return f
}

// ParseFamily parses a Family. The syntax is that of Parse, but a number may be replaced by a range FROM..TO/STEP, or
// the last number by a list: random:0..0.9/0.1, worst:0,5,10, stuck:3:-2..2/0.5@100-200.
func ParseFamily(s string) (Family, error) {
	f := Family{Name: s}
	var texts []string
	var levels []float64
	if at := rangePattern.FindStringSubmatchIndex(s); at != nil {
		part := func(i int) string { return s[at[2*i]:at[2*i+1]] }
		step := 1.0
		from, err1 := strconv.ParseFloat(part(1), 64)
		to, err2 := strconv.ParseFloat(part(2), 64)
		var err3 error
		if at[6] >= 0 {
			step, err3 = strconv.ParseFloat(part(3), 64)
		}
		if err1 != nil || err2 != nil || err3 != nil || !(step > 0) || to < from || (to-from)/step > maxLevels {
			return f, fmt.Errorf("nightmare %q: want FROM..TO/STEP with FROM <= TO and at most %d steps, not %q", s, maxLevels, part(0))
		}
		for i := 0; from+float64(i)*step <= to+1e-9*step; i++ {
			x, _ := strconv.ParseFloat(strconv.FormatFloat(from+float64(i)*step, 'g', 12, 64), 64) // gives 0.3, not 0.30000000000000004
			texts, levels = append(texts, s[:at[0]]+number(x)+s[at[1]:]), append(levels, x)
		}
	} else if head, list, tail := cutList(s); list != nil {
		for _, text := range list {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return f, fmt.Errorf("nightmare %q: %q is not a number", s, text)
			}
			texts, levels = append(texts, head+text+tail), append(levels, x)
		}
	} else {
		texts = []string{s}
		body, _, _ := strings.Cut(s, "@")
		x := nan
		if text := numberPattern.FindString(body); text != "" && kindOf(body).many {
			x, _ = strconv.ParseFloat(text, 64)
		}
		levels = []float64{x}
	}
	for i, text := range texts {
		n, err := Parse(text)
		if err != nil {
			return f, err
		}
		f.Levels = append(f.Levels, Level{n, levels[i]})
	}
	return f, nil
}

// cutList splits the text of a nightmare into the text before a list of numbers at its end, the list, and the window of
// events after the list.
func cutList(s string) (head string, list []string, tail string) {
	body, _, windowed := strings.Cut(s, "@")
	if windowed {
		tail = s[len(body):]
	}
	if at := strings.LastIndexByte(body, ':') + 1; kindOf(s).many && strings.Contains(body[at:], ",") {
		return body[:at], strings.Split(body[at:], ","), tail
	}
	return s, nil, ""
}
