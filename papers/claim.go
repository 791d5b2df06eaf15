package papers

// This file holds claims and what decides them: the numbers that are printed, ours and the
// paper's.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// protocol is the Protocol of results whose claims hold the numbers that decide them.
const protocol = 3

// Claim is a statement of a paper, or of ours, and its outcome here: that each of some
// differences has a side, or, without Parts, what the experiment finds where no chance enters.
type Claim struct {
	Claim string `json:"claim"`
	// Where is what the claim is measured on, if the experiment makes the same claim of several data sets or treatments.
	Where string `json:"where,omitempty"`
	Own   bool   `json:"own,omitempty"`   // no paper says so: we do
	Paper string `json:"paper,omitempty"` // where the paper says so, or what
	Parts []Part `json:"parts,omitempty"`
	Unit  string `json:"unit,omitempty"` // of the parts
	// Most says that the claim is of most parts, as "in most cases" is, and not of all.
	Most bool   `json:"most,omitempty"`
	Ours string `json:"ours,omitempty"` // what else there is to say
	// Verdict is that of the direction. The experiment sets it if there are no Parts, or if
	// its set-up is too far from the paper's: NotComparable, for the reason in Why.
	Verdict Verdict `json:"verdict"`
	// Printed is the verdict of the size.
	Printed Printed `json:"printed,omitzero"`
	Why     string  `json:"why,omitempty"` // why it is not reproduced or not comparable
}

// Part is a difference that a claim is about, and what it says of it.
type Part struct {
	Name  string   `json:"name,omitempty"`
	Here  Shown    `json:"here"`
	Above *float64 `json:"above,omitempty"`
	Below *float64 `json:"below,omitempty"`
	// Paper is the size that the paper prints, right to Rounding.
	Paper    *float64 `json:"paper,omitempty"`
	Rounding float64  `json:"rounding,omitempty"`
}

// above is the part of a claim that a difference is above a limit.
func above(name string, d Difference, limit float64) Part {
	return Part{Name: name, Here: shown(d), Above: &limit}
}

// below is the part of a claim that a difference is below a limit.
func below(name string, d Difference, limit float64) Part {
	return Part{Name: name, Here: shown(d), Below: &limit}
}

// within is the part of a claim that a difference is less than a limit, of either sign.
func within(name string, d Difference, limit float64) Part {
	least := -limit
	return Part{Name: name, Here: shown(d), Above: &least, Below: &limit}
}

// against adds the size that the paper prints.
func (p Part) against(size, rounding float64) Part {
	size = math.Round(1e6*size) / 1e6 // of a difference of printed numbers
	p.Paper, p.Rounding = &size, rounding
	return p
}

// holds decides whether a difference is where the claim has it.
func (p *Part) holds(d Difference) Verdict {
	v := Reproduced
	if p.Above != nil {
		v = Every(v, d.Above(*p.Above))
	}
	if p.Below != nil {
		v = Every(v, d.Below(*p.Below))
	}
	return v
}

// inside says whether our interval holds the printed size.
func (p *Part) inside() bool {
	return p.Here.Low <= *p.Paper+p.Rounding && *p.Paper-p.Rounding <= p.Here.High
}

// verdict decides a part. Where our interval shows no difference but excludes the paper's,
// that is not reproduced.
func (p *Part) verdict() Verdict {
	v := p.holds(p.Here.Difference)
	if v == Undecided && p.Paper != nil && !p.inside() {
		return NotReproduced
	}
	return v
}

// Verdict is the outcome of a claim's direction. An interval of a paired difference decides it,
// see [Difference], except where the claim does not depend on chance.
type Verdict string

// The verdicts.
const (
	Reproduced    Verdict = "reproduced"
	NotReproduced Verdict = "not reproduced"
	Undecided     Verdict = "undecided"           // the interval holds both, and the printed size
	NotComparable Verdict = "not comparable"      // the set-up is not the paper's
	NotDecided    Verdict = "not decided (quick)" // by too few data, as of --quick
)

// Holds returns Reproduced or NotReproduced, for a statement that no chance enters.
func Holds(ok bool) Verdict {
	if ok {
		return Reproduced
	}
	return NotReproduced
}

// Printed is the outcome of a claim's size: Inside of the Of sizes that the paper prints lie
// in our intervals. The intervals hold our chance and not the paper's.
type Printed struct {
	Inside int `json:"inside"`
	Of     int `json:"of"`
}

// conclude decides a claim by the numbers of its parts.
func (c *Claim) conclude() {
	if len(c.Parts) == 0 || c.Verdict == NotComparable {
		return
	}
	c.Printed = Printed{}
	var parts []Verdict
	here, paper := 0, 0 // parts in which the claim holds
	for i := range c.Parts {
		p := &c.Parts[i]
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
	share := shareOf(here, len(parts))
	c.Verdict = Holds(2*here > len(parts))
	c.Ours = fmt.Sprintf("%d of %d [%.1f, %.1f]", here, len(parts), share.Low*float64(len(parts)), share.High*float64(len(parts)))
	if c.Printed.Of == len(parts) {
		c.Ours += fmt.Sprintf("; the paper %d of them", paper)
		c.Printed = Printed{Of: 1}
		if at := float64(paper) / float64(len(parts)); share.Low <= at && at <= share.High {
			c.Printed.Inside = 1
		}
	}
}

// Claim reports a claim; Why counts only if it is not reproduced. Results that are not
// Decisive decide nothing.
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

// shown counts the parts whose difference alone has a verdict.
func (c *Claim) shown(v Verdict) (n int) {
	for i := range c.Parts {
		if p := &c.Parts[i]; p.holds(p.Here.Difference) == v {
			n++
		}
	}
	return n
}

// text is the claim and where it is measured.
func (c *Claim) text() string {
	if c.Where == "" {
		return c.Claim
	}
	return c.Claim + "; " + c.Where
}

// here shows the numbers of the claim. Of several parts it shows the weakest, with its name if named.
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

// weakest returns the part that decides: of those with the worst verdict the one farthest on the other side.
func (c *Claim) weakest() *Part {
	weakness := func(p *Part) (rank int, margin float64) {
		margin = math.Inf(1)
		if p.Above != nil {
			margin = min(margin, p.Here.Low-*p.Above)
		}
		if p.Below != nil {
			margin = min(margin, *p.Below-p.Here.High)
		}
		return slices.Index([]Verdict{NotReproduced, Undecided, Reproduced}, p.verdict()), margin
	}
	return slices.MinFunc(pointers(c.Parts), func(a, b *Part) int {
		i, x := weakness(a)
		j, y := weakness(b)
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(x, y))
	})
}

func pointers(parts []Part) []*Part {
	out := make([]*Part, len(parts))
	for i := range parts {
		out[i] = &parts[i]
	}
	return out
}

// paper shows what the paper says, by its sizes if it prints any.
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

// size shows the verdict of the size. Where one is printed and our interval excludes it, it
// says how much of it ours is.
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

// Lines shows the claims, one a line: verdict, text and numbers.
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

// claimTable writes the claims as a table. Claims with a Where have a row for each text and a column for each Where.
func claimTable(claims []Claim) string {
	var b strings.Builder
	if claims[0].Where == "" {
		b.WriteString("| claim | verdict | number |\n|---|---|---|\n")
		for i := range claims {
			fmt.Fprintf(&b, "| %s | **%s** | %s |\n", claims[i].Claim, claims[i].Verdict, claims[i].here(true))
		}
		return b.String()
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
	fmt.Fprintf(&b, "| claim | %s |\n|%s\n", strings.Join(places, " | "), strings.Repeat("---|", 1+len(places)))
	for _, text := range texts {
		fmt.Fprintf(&b, "| %s |", text)
		for _, place := range places {
			fmt.Fprintf(&b, " %s |", cmp.Or(at[[2]string{text, place}], "–"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// short is the verdict in a table of many.
func (v Verdict) short() string {
	switch v {
	case Reproduced:
		return "**yes**"
	case NotReproduced:
		return "**no**"
	case Undecided:
		return "open"
	}
	return string(v)
}

// Shown is a difference with the digits that String shows, which are what results.json holds:
// what is read decides.
type Shown struct{ Difference }

func shown(d Difference) (s Shown) {
	if err := s.UnmarshalText([]byte(d.String())); err != nil {
		panic(err) // String and UnmarshalText are one another's inverse
	}
	return s
}

// MarshalText is String.
func (s Shown) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String shows.
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
