package papers

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestConclude checks that direction and printed size have separate verdicts. If the interval excludes the size that
// the paper prints, the claim must not be undecided.
func TestConclude(t *testing.T) {
	up := func(mean, low, high float64) Part { return above("", Difference{mean, low, high}, 0) }
	for _, c := range []struct {
		name    string
		parts   []Part
		most    bool
		verdict Verdict
		size    string
	}{
		{"holds, of the printed size", []Part{up(1.5, 1, 2).against(1.7, 0)}, false, Reproduced, "inside"},
		{"a fifth of the printed size", []Part{up(0.34, 0.15, 0.52).against(1.74, 0.01)}, false, Reproduced, "outside: 0.2 times it"},
		{"the other side", []Part{up(-1, -2, -0.5).against(1, 0)}, false, NotReproduced, "outside: other sign"},
		{"open, and so is the size", []Part{up(0.1, -0.4, 0.6).against(0.5, 0)}, false, Undecided, "inside"},
		{"open, without a size", []Part{up(0.1, -0.4, 0.6)}, false, Undecided, "–"},
		{"open, but it excludes the paper's", []Part{up(0.11, -0.36, 0.57).against(0.66, 0.01)}, false, NotReproduced, "outside: 0.17 times it"},
		{"the paper's, within its rounding", []Part{up(1.43, 1.16, 1.71).against(2, 1)}, false, Reproduced, "inside"},
		{"the paper's, within its rounding from below", []Part{up(2.5, 2.2, 2.8).against(2, 0.3)}, false, Reproduced, "inside"},
		{"a correlation", []Part{below("", Difference{0.16, -0.46, 0.67}, 0).against(-0.613, 0)}, false, NotReproduced, "outside: other sign"},
		{"within a point", []Part{within("", Difference{0.2, -0.5, 0.9}, 1)}, false, Reproduced, "–"},
		{"within a point or not", []Part{within("", Difference{-0.2, -1.5, 0.9}, 1)}, false, Undecided, "–"},
		{"one part is against it", []Part{up(1, 0.5, 2), up(-1, -2, -0.5), up(0, -1, 1)}, false, NotReproduced, "–"},
		{"one part is excluded", []Part{up(1, 0.5, 2).against(1, 0), up(0, -1, 1).against(3, 0)}, false, NotReproduced, "1 of 2 inside; at least 0 times it"},
		{"one part is open", []Part{up(1, 0.5, 2), up(0, -1, 1)}, false, Undecided, "–"},
		{"most, whatever the intervals", []Part{up(1, -5, 5).against(1, 0), up(2, -5, 5).against(1, 0), up(-1, -5, 5).against(-1, 0)}, true, Reproduced, "inside"},
		{"half are not most", []Part{up(1, 0, 2), up(-1, -2, 0)}, true, NotReproduced, "–"},
	} {
		claim := Claim{Parts: c.parts, Most: c.most}
		claim.conclude()
		must.True(t, claim.Verdict == c.verdict && claim.size() == c.size, "%s: %s, %s; want %s, %s", c.name, claim.Verdict, claim.size(), c.verdict, c.size)
	}
	var most Claim // the claim holds for 2 of 12 sets here, for 10 in the paper
	most.Most = true
	for i := range 12 {
		here, paper := -1.0, 1.0
		if i < 2 {
			here, paper = 1, -1
		}
		most.Parts = append(most.Parts, up(here, here, here).against(paper, 0))
	}
	most.conclude()
	must.True(t, most.Verdict == NotReproduced && most.size() == "outside" && strings.HasPrefix(most.here(true), "2 of 12 [0.6, 5.4]; the paper 10"),
		"2 of 12: %s, %s, %s", most.Verdict, most.size(), most.here(true))
}

// TestShown checks that a rounded difference decides a claim, and that its text form can be parsed.
func TestShown(t *testing.T) {
	for _, d := range []Difference{{0.344, 0.151, 0.523}, {-1.5, -1.5, -1.5}, {2, math.Inf(-1), math.Inf(1)}} {
		var back Shown
		data, err := json.Marshal(shown(d))
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		must.True(t, err == nil && back == shown(d) && back.String() == d.String(), "%v is %s, and back %v, %v", d, data, back, err)
	}
	if d := shown(Difference{0.344, 0.151, 0.523}); d.Difference != (Difference{0.34, 0.15, 0.52}) {
		t.Errorf("shown: %v", d)
	}
	var d Shown
	for _, text := range []string{"", "1 2", "+1 [x, 2]", "1 2 3 4"} {
		must.True(t, d.UnmarshalText([]byte(text)) != nil, "%q is a difference", text)
	}
	p := above("", Difference{0.01, 0.004, 0.02}, 0)
	must.True(t, p.verdict() == Undecided, "an interval that begins at a printed zero: %s", p.verdict())
}

// TestIndex checks that Index decides claims again from their numbers. Claims that no paper makes must be on a separate
// page.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	r := Result{Experiment: "text", Paper: text.Paper + ", table 4", Protocol: protocol, Claims: []Claim{
		{Claim: "ours", Own: true, Verdict: NotReproduced, Ours: "3 of 7"}, {Claim: "a", Paper: "table 1", Verdict: Reproduced},
		{Claim: "b", Verdict: Undecided, Parts: []Part{above("", Difference{0.1, -0.1, 0.3}, 0).against(0.9, 0)}},
		{Claim: "c", Verdict: Reproduced, Parts: []Part{above("x", Difference{1, 0.5, 1.5}, 0).against(1, 0), above("y", Difference{2, 1, 3}, 0).against(2, 0)}},
		{Claim: "d", Verdict: NotComparable, Why: "too few images", Parts: []Part{above("", Difference{1, 0.5, 1.5}, 0).against(2, 0)}}}}
	data := must.Get(json.Marshal(r))(t)
	must.Do(t, os.Mkdir(filepath.Join(dir, "text"), 0o777))
	index := func(data []byte) (papers, own string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, "text", "results.json"), data, 0o666))
		must.Do(t, Index(dir))
		for name, to := range map[string]*string{"README.md": &papers, ownClaims: &own} {
			text := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
			*to = string(text)
		}
		return papers, own
	}
	papers, own := index(data)
	for _, want := range []string{
		"| Wager, Wang & Liang 2013 | 4 | 2 | 1 | 0 | 1 | 0 | 2 | 1 |\n", "0 of 1 hold",
		"| [text](text/results.md) | a | table 1 |  | **reproduced** | – |\n",
		"|  | b | +0.90 | +0.10 [-0.10, +0.30] | **not reproduced** | outside: 0.11 times it |\n",
		"|  | c | +1.00 to +2.00 | 2 of 2 hold; weakest: x +1.00 [+0.50, +1.50] | **reproduced** | 2 of 2 inside |\n",
		"|  | d | +2.00 | +1.00 [+0.50, +1.50] | **not comparable** | – |\n",
	} {
		must.True(t, strings.Contains(papers, want), "the index lacks %q:\n%s", want, papers)
	}
	must.True(t, !strings.Contains(papers, "earlier version") && !strings.Contains(papers, "| ours |") && strings.Contains(own, "| ours | **not reproduced** | 3 of 7 |\n") && !strings.Contains(own, "| a |"),
		"new results are called old, or a claim is on the wrong page:\n%s\n%s", papers, own)
	page, err := os.ReadFile(filepath.Join(dir, "text", "results.md"))
	must.True(t, err == nil && string(page) == r.Markdown(), "results.md: %v\n%s", err, page)
	// Verdicts of an earlier protocol must not be shown.
	now, old := []byte(`"protocol":3`), []byte(`"protocol":2`)
	papers, _ = index(bytes.Replace(data, now, old, 1))
	must.True(t, strings.Contains(papers, "earlier version") && !strings.Contains(papers, "Wager"), "the index of old results:\n%s", papers)
	var back Result
	err = json.Unmarshal(data, &back)
	must.True(t, err == nil && reflect.DeepEqual(back.Claims, r.Claims), "claims come back as %+v, %v", back.Claims, err)
}

// TestClaimTable checks that equal claims about several data sets share a row. If a claim has several parts, the table
// must show the weakest part.
func TestClaimTable(t *testing.T) {
	part := func(name string, mean, low, high float64) Part { return below(name, Difference{mean, low, high}, 0) }
	claims := []Claim{
		{Claim: "a", Where: "here", Parts: []Part{part("x", -1, -2, -0.5), part("y", -3, -5, -0.2)}},
		{Claim: "b", Where: "here", Parts: []Part{part("x", -1, -2, -0.5), part("y", 1, -1, 9), part("z", 2, 1, 3)}},
		{Claim: "a", Where: "there", Parts: []Part{part("x", 0, -1, 1), part("y", -1, -2, 2)}},
	}
	for i := range claims {
		claims[i].conclude()
	}
	want := "| claim | here | there |\n|---|---|---|\n| a | **yes** -3.00 [-5.00, -0.20] | open -1.00 [-2.00, +2.00] |\n| b | **no** +2.00 [+1.00, +3.00] | – |\n"
	must.Equal(t, claimTable(claims), want)
	must.Equal(t, claims[1].here(true), "1 of 3 hold; weakest: z +2.00 [+1.00, +3.00]")
}

// TestPublished checks that the files in docs/results follow from the numbers stored next to them. If the interval of a
// claim excludes the printed size, the claim must not be undecided. Index must write the same tables.
func TestPublished(t *testing.T) {
	const published = "../docs/results"
	dir := t.TempDir()
	for _, e := range experiments {
		r := must.Get(readResult(filepath.Join(published, e.Name, "results.json")))(t)
		page := must.Get(os.ReadFile(filepath.Join(published, e.Name, "results.md")))(t)
		must.True(t, string(page) == r.Markdown() && r.Protocol == protocol, "%s: results.md is not what index writes from results.json, of protocol %d", e.Name, r.Protocol)
		for _, c := range r.Claims {
			again := c
			again.conclude()
			must.True(t, reflect.DeepEqual(again, c), "%s: %q is %s, %+v; its numbers say %s, %+v", e.Name, c.Claim, c.Verdict, c.Printed, again.Verdict, again.Printed)
			for _, p := range c.Parts {
				must.True(t, c.Verdict != Undecided || p.Paper == nil || p.inside() || p.holds(p.Here.Difference) != Undecided, "%s: %q is undecided, and its interval excludes the paper", e.Name, c.Claim)
			}
		}
		must.Do(t, os.Mkdir(filepath.Join(dir, e.Name), 0o777))
		data, err := os.ReadFile(filepath.Join(published, e.Name, "results.json"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name, "results.json"), data, 0o666)
		}
		must.Do(t, err)
	}
	must.Do(t, Index(dir))
	for _, name := range []string{"README.md", ownClaims} {
		want := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		got, err := os.ReadFile(filepath.Join(published, name))
		must.True(t, err == nil && bytes.Equal(got, want), "%s is not what index writes: %v", name, err)
	}
}
