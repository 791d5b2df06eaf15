package papers

// This file has claims. A claim contains the numbers that decide it: our numbers, and the numbers that the paper
// prints.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// protocol is the Protocol of results whose claims include the numbers that decide them.
const protocol = 3

// Claim is a statement of a paper, or our own statement, with its outcome here. A Claim with Parts states that each of
// several differences is above or below a limit. A Claim without Parts states a result that does not depend on chance.
type Claim struct {
	Claim string `json:"claim"`
	// Where names the data set or treatment, if the experiment makes the same claim about several data sets or
	// treatments.
	Where string `json:"where,omitempty"`
	Own   bool   `json:"own,omitempty"`   // true if no paper makes the claim
	Paper string `json:"paper,omitempty"` // position of the claim in the paper, or the paper's statement
	Parts []Part `json:"parts,omitempty"`
	Unit  string `json:"unit,omitempty"` // unit of the parts
	// Most is true if the claim is about most parts ("in most cases"). It is false if the claim is about all parts.
	Most bool   `json:"most,omitempty"`
	Ours string `json:"ours,omitempty"` // further results to report
	// Verdict is the verdict on the direction of the differences. The experiment sets it in two cases: if there are no
	// Parts, or, to NotComparable with the reason in Why, if the set-up of the experiment is too different from the
	// paper's.
	Verdict Verdict `json:"verdict"`
	// Printed is the verdict on the size of the differences.
	Printed Printed `json:"printed,omitzero"`
	Why     string  `json:"why,omitempty"` // reason why the claim is not reproduced or not comparable
}

// Part is one of the differences that a claim is about, with the limit that the claim states for the difference.
type Part struct {
	Name  string   `json:"name,omitempty"`
	Here  Shown    `json:"here"`
	Above *float64 `json:"above,omitempty"`
	Below *float64 `json:"below,omitempty"`
	// Paper is the size of the difference that the paper prints, correct to Rounding.
	Paper    *float64 `json:"paper,omitempty"`
	Rounding float64  `json:"rounding,omitempty"`
}

// above returns a Part stating that a difference is above a limit.
func above(name string, d Difference, limit float64) Part {
	return Part{Name: name, Here: shown(d), Above: &limit}
}

// below returns a Part stating that a difference is below a limit.
func below(name string, d Difference, limit float64) Part {
	return Part{Name: name, Here: shown(d), Below: &limit}
}

// within returns a Part stating that the absolute difference is below a limit.
func within(name string, d Difference, limit float64) Part {
	least := -limit
	return Part{Name: name, Here: shown(d), Above: &least, Below: &limit}
}

// against returns p with the size of the difference that the paper prints, correct to rounding.
func (p Part) against(size, rounding float64) Part {
	size = math.Round(1e6*size) / 1e6 // removes the rounding of a difference of two printed numbers
	p.Paper, p.Rounding = &size, rounding
	return p
}

// holds returns the verdict on whether a difference satisfies the limits of the Part.
func (p Part) holds(d Difference) Verdict {
	v := Reproduced
	if p.Above != nil {
		v = Every(v, d.Above(*p.Above))
	}
	if p.Below != nil {
		v = Every(v, d.Below(*p.Below))
	}
	return v
}

// inside reports whether our interval contains the size that the paper prints.
func (p Part) inside() bool {
	return p.Here.Low <= *p.Paper+p.Rounding && *p.Paper-p.Rounding <= p.Here.High
}

// verdict returns the verdict on a part. If our interval allows both outcomes but excludes the paper's size, the
// verdict is NotReproduced.
func (p Part) verdict() Verdict {
	v := p.holds(p.Here.Difference)
	if v == Undecided && p.Paper != nil && !p.inside() {
		return NotReproduced
	}
	return v
}

// Verdict is the outcome of a claim about a direction. If the claim depends on chance, the interval of a paired
// difference decides it, see [Difference].
type Verdict string

// The verdicts.
const (
	Reproduced    Verdict = "reproduced"
	NotReproduced Verdict = "not reproduced"
	Undecided     Verdict = "undecided"           // the interval allows both outcomes and contains the printed size
	NotComparable Verdict = "not comparable"      // the set-up differs from the paper's
	NotDecided    Verdict = "not decided (quick)" // too few data, because of --quick
)

// Holds returns Reproduced if ok is true, else NotReproduced. It is for statements that do not depend on chance.
func Holds(ok bool) Verdict {
	if ok {
		return Reproduced
	}
	return NotReproduced
}

// Printed is the outcome of a claim about sizes. The paper prints Of sizes, and Inside of these are in our intervals.
// The intervals include our random error but not the paper's.
type Printed struct {
	Inside int `json:"inside"`
	Of     int `json:"of"`
}

// conclude sets the verdicts of a claim from the numbers of its parts.
func (c *Claim) conclude() {
	if len(c.Parts) == 0 || c.Verdict == NotComparable {
		return
	}
	c.Printed = Printed{}
	var parts []Verdict
	here, paper := 0, 0 // number of parts in which the claim holds, here and in the paper
	for _, p := range c.Parts {
		parts = append(parts, p.verdict())
		if p.holds(Difference{p.Here.Mean, p.Here.Mean, p.Here.Mean}) == Reproduced {
			here++
		}
		if p.Paper == nil {
			continue
		}
		if c.Printed.Of++; p.inside() {
			c.Printed.Inside++
		}
		if p.holds(Difference{*p.Paper, *p.Paper, *p.Paper}) == Reproduced {
			paper++
		}
	}
	if !c.Most {
		c.Verdict = Every(parts...)
		return
	}
	fraction := wilson(here, len(parts))
	c.Verdict = Holds(2*here > len(parts))
	c.Ours = fmt.Sprintf("%d of %d [%.1f, %.1f]", here, len(parts), fraction.Low*float64(len(parts)), fraction.High*float64(len(parts)))
	if c.Printed.Of == len(parts) {
		c.Ours += fmt.Sprintf("; the paper %d of them", paper)
		c.Printed = Printed{Of: 1}
		if at := float64(paper) / float64(len(parts)); fraction.Low <= at && at <= fraction.High {
			c.Printed.Inside = 1
		}
	}
}

// Claim adds a claim of a paper, with what was measured, to the results. Why is used only if the claim is not
// reproduced. If the results are not Decisive, the verdict is NotDecided.
func (s *Setting) Claim(c Claim) {
	c.conclude()
	switch {
	case !s.Decisive():
		c.Verdict, c.Printed, c.Why = NotDecided, Printed{}, "too few data to decide: run it with --data and without --quick"
	case c.Verdict == NotComparable:
	case c.Verdict == Reproduced:
		c.Why = ""
	case c.Verdict == Undecided:
		c.Why = "an interval holds values on both sides"
	case c.shown(NotReproduced) == 0 && !c.Most && len(c.Parts) > 0:
		c.Why = "no difference is seen, and the interval excludes the printed one"
	}
	s.result.Claims = append(s.result.Claims, c)
}

// shown returns the number of parts whose own verdict is v.
func (c *Claim) shown(v Verdict) int {
	return count(c.Parts, func(p Part) bool { return p.holds(p.Here.Difference) == v })
}

// text returns the claim and the data on which it is measured.
func (c *Claim) text() string {
	if c.Where == "" {
		return c.Claim
	}
	return c.Claim + "; " + c.Where
}

// here returns our numbers for the claim as text. For several parts it shows the weakest part, with its name if named
// is set.
func (c *Claim) here(named bool) string {
	switch n := len(c.Parts); {
	case n == 0 || c.Most:
		return c.Ours
	case n == 1:
		return c.Parts[0].Here.String()
	case named:
		p := c.weakest()
		return fmt.Sprintf("%d of %d hold; weakest: %s", c.shown(Reproduced), n, strings.TrimSpace(p.Name+" "+p.Here.String()))
	}
	return c.weakest().Here.String()
}

// weakest returns the part that determines the verdict. It has the worst verdict, and its difference contradicts the
// claim most.
func (c *Claim) weakest() Part {
	weakness := func(p Part) (rank int, margin float64) {
		margin = math.Inf(1)
		if p.Above != nil {
			margin = min(margin, p.Here.Low-*p.Above)
		}
		if p.Below != nil {
			margin = min(margin, *p.Below-p.Here.High)
		}
		return slices.Index([]Verdict{NotReproduced, Undecided, Reproduced}, p.verdict()), margin
	}
	return slices.MinFunc(c.Parts, func(a, b Part) int {
		i, x := weakness(a)
		j, y := weakness(b)
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(x, y))
	})
}

// paper returns the paper's statement, with its sizes if it prints any.
func (c *Claim) paper() string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range c.Parts {
		if p.Paper != nil {
			least, most = min(least, *p.Paper), max(most, *p.Paper)
		}
	}
	switch {
	case least > most || c.Most:
		return c.Paper
	case least == most:
		return fmt.Sprintf("%+.2f", least)
	}
	return fmt.Sprintf("%+.2f to %+.2f", least, most)
}

// size returns the verdict on the size as text. If a size is printed and our interval excludes it, the text includes
// the ratio of our size to the printed size.
func (c *Claim) size() string {
	switch p := c.Printed; {
	case p.Of == 0:
		return "–"
	case p.Of > 1:
		least := math.Inf(1)
		for _, p := range c.Parts {
			if p.Paper != nil {
				least = min(least, p.Here.Mean / *p.Paper)
			}
		}
		if p.Inside == p.Of {
			return fmt.Sprintf("%d of %d inside", p.Inside, p.Of)
		}
		return fmt.Sprintf("%d of %d inside; at least %.2g times it", p.Inside, p.Of, least)
	case p.Inside == 1:
		return "inside"
	}
	for _, p := range c.Parts {
		if p.Paper != nil && !c.Most && p.Here.Mean**p.Paper > 0 {
			return fmt.Sprintf("outside: %.2g times it", p.Here.Mean / *p.Paper)
		} else if p.Paper != nil && !c.Most {
			return "outside: other sign"
		}
	}
	return "outside"
}

// Lines returns the claims as text, one per line: verdict, text and numbers.
func (r *Result) Lines() string {
	var b strings.Builder
	for i := range r.Claims {
		c := &r.Claims[i]
		fmt.Fprintf(&b, "%s: %s", c.Verdict, c.text())
		if here := c.here(true); here != "" {
			fmt.Fprintf(&b, ": %s", here)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// claimTable returns the claims as a table. Claims with the same text and different Where share a row, and there is a
// column for each Where.
func claimTable(claims []Claim) string {
	if claims[0].Where == "" {
		t := ResultTable{Columns: []string{"claim", "verdict", "number"}}
		for i := range claims {
			t.Rows = append(t.Rows, []any{claims[i].Claim, "**" + claims[i].Verdict + "**", claims[i].here(true)})
		}
		return t.markdown()
	}
	var texts, places []string
	at := map[[2]string]string{}
	for i := range claims {
		c := &claims[i]
		if !slices.Contains(texts, c.Claim) {
			texts = append(texts, c.Claim)
		}
		if !slices.Contains(places, c.Where) {
			places = append(places, c.Where)
		}
		at[[2]string{c.Claim, c.Where}] = fmt.Sprintf("%s %s", c.Verdict.short(), c.here(false))
	}
	t := matrix(ResultTable{}, "claim", places, texts, func(i, j int) any { return cmp.Or(at[[2]string{texts[i], places[j]}], "–") })
	return t.markdown()
}

// short returns the verdict in the short form for large tables.
func (v Verdict) short() string {
	return cmp.Or(map[Verdict]string{Reproduced: "**yes**", NotReproduced: "**no**", Undecided: "open"}[v], string(v))
}

// Shown is a difference that is rounded to the digits that String prints, as in results.json. Verdicts computed from
// the file therefore equal the original verdicts.
type Shown struct{ Difference }

func shown(d Difference) (s Shown) {
	if err := s.UnmarshalText([]byte(d.String())); err != nil {
		panic(err) // cannot happen: UnmarshalText is the inverse of String
	}
	return s
}

// MarshalText returns the result of String.
func (s Shown) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the result of String.
func (s *Shown) UnmarshalText(text []byte) error {
	fields := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" [],", r) })
	to := []*float64{&s.Mean, &s.Low, &s.High}
	if len(fields) != 1 && len(fields) != len(to) {
		return fmt.Errorf("%q is no difference with its interval", text)
	}
	for i := range to {
		var err error
		if *to[i], err = strconv.ParseFloat(strings.TrimPrefix(fields[min(i, len(fields)-1)], "+"), 64); err != nil {
			return err
		}
	}
	return nil
}
