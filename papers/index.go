package papers

// This file writes the index of all experiments' claims by paper, and the page of our own claims.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownClaims is the file for claims that no paper makes.
const ownClaims = "own-claims.md"

// Index writes dir/README.md, dir/own-claims.md and the results.md of each experiment. The table in README.md has the
// claims of each paper with both verdicts. Index reads results.json from each folder of dir that has the name of an
// experiment. It decides every claim again from the numbers in results.json.
func Index(dir string) error {
	type table struct {
		rows  strings.Builder
		count map[Verdict]int
		all   int // number of claims
		sizes Printed
	}
	tables := map[string]*table{"": {count: map[Verdict]int{}}} // tables by paper; "" has our own claims
	var papers []string                                         // papers in the order of the experiments
	old := ""
	found := false
	for _, e := range experiments {
		r, err := readResult(filepath.Join(dir, e.Name, "results.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		found = true
		if r.Protocol != protocol {
			old += fmt.Sprintf("\n[%s](%s/results.md) was made by an earlier version of the program: its claims are not here.\n", e.Name, e.Name)
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name, "results.md"), []byte(r.Markdown()), 0o666); err != nil {
			return err
		}
		linked := false
		var ours []Claim
		for i := range r.Claims {
			c, paper := &r.Claims[i], e.Paper
			if c.Verdict != NotDecided {
				c.conclude()
			}
			if c.Own {
				paper = ""
			}
			t := tables[paper]
			if t == nil {
				t = &table{count: map[Verdict]int{}}
				tables[paper], papers = t, append(papers, paper)
			}
			if t.all++; c.Own {
				ours = append(ours, *c)
			} else {
				link := ""
				if !linked {
					link = fmt.Sprintf("[%s](%s/results.md)", e.Name, e.Name)
				}
				linked = true
				fmt.Fprintf(&t.rows, "| %s | %s | %s | %s | **%s** | %s |\n", link, c.text(), c.paper(), c.here(true), c.Verdict, c.size())
			}
			t.count[c.Verdict]++
			if c.Printed.Of > 0 && c.Printed.Inside == c.Printed.Of {
				t.sizes.Inside++
			}
			t.sizes.Of += min(c.Printed.Of, 1)
		}
		if len(ours) > 0 {
			fmt.Fprintf(&tables[""].rows, "\n## %s\n\n[Tables](%s/results.md), made by `%s`.\n\n%s", e.Name, e.Name, r.Command, claimTable(ours))
		}
	}
	if !found {
		return fmt.Errorf("%s: there is no results.json in a folder named after an experiment", dir)
	}
	own := tables[""]
	var b strings.Builder
	b.WriteString("# Results\n\nThe claims of the papers, and what this program measures. `go run ./cmd/papers index -o docs/results` writes these pages from\nthe results.json of each experiment, which also holds the settings and further tables.\n\n" +
		"- Numbers are differences in points of error or accuracy unless the claim names a unit. Brackets hold 95 % intervals.\n" +
		"- **Direction**: *reproduced* if every interval lies on the claimed side. *Not reproduced* if one lies on the other side, or shows no\n  difference and excludes the printed size. *Not comparable* if the experiment is too far from the paper's.\n" +
		"- **Printed size**: whether our interval contains the paper's number, and otherwise our fraction of it. – if the paper prints none.\n" +
		fmt.Sprintf("- Claims that no paper makes are [on a page of their own](%s): %d of %d hold.\n\n", ownClaims, own.count[Reproduced], own.all))
	summary := ResultTable{Columns: []string{"paper", "claims", "reproduced", "not", "undecided", "not comparable", "quick", "sizes printed", "inside"}}
	for _, paper := range papers {
		t := tables[paper]
		summary.Rows = append(summary.Rows, []any{paper, t.all, t.count[Reproduced], t.count[NotReproduced], t.count[Undecided], t.count[NotComparable], t.count[NotDecided], t.sizes.Of, t.sizes.Inside})
	}
	b.WriteString(summary.markdown())
	b.WriteString(old)
	for _, paper := range papers {
		fmt.Fprintf(&b, "\n## %s\n\n| | claim | paper | here | direction | printed size |\n|---|---|---|---|---|---|\n%s", paper, tables[paper].rows.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(b.String()), 0o666); err != nil {
		return err
	}
	text := "# Claims that no paper makes\n\nThe verdicts follow the rules of [the claims of the papers](README.md): yes is reproduced, no is not reproduced, open is undecided.\n" +
		"A claim about several methods shows its weakest part. Negative differences in error favor the claim.\n" + own.rows.String()
	return os.WriteFile(filepath.Join(dir, ownClaims), []byte(text), 0o666)
}

func readResult(path string) (*Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
