package papers

// This file writes the index of all experiments' claims, by paper, and the page of our own.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownClaims is the file that Index writes the claims into that no paper makes.
const ownClaims = "own-claims.md"

// Index writes dir/README.md, a table of the claims of each paper with both verdicts, and
// dir/own-claims.md, from the results in the folders of dir that have the name of an
// experiment. It concludes the claims anew from the numbers that results.json holds.
func Index(dir string) error {
	type table struct {
		rows   strings.Builder
		count  map[Verdict]int
		claims int
		sizes  Printed
	}
	tables := map[string]*table{} // by paper; "" has our own claims
	var papers []string           // in the order of the experiments
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
		linked := map[string]bool{}
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
				if tables[paper] = t; !c.Own {
					papers = append(papers, paper)
				}
			}
			link := ""
			if !linked[paper] {
				link = fmt.Sprintf("[%s](%s/results.md)", e.Name, e.Name)
			}
			linked[paper] = true
			if t.claims++; c.Own {
				fmt.Fprintf(&t.rows, "| %s | %s | %s | **%s** | %s |\n", link, c.Claim, c.here(false), c.Verdict, c.Why)
			} else {
				fmt.Fprintf(&t.rows, "| %s | %s | %s | %s | **%s** | %s |\n", link, c.Claim, c.paper(), c.here(true), c.Verdict, c.size())
			}
			t.count[c.Verdict]++
			if c.Printed.Of > 0 && c.Printed.Inside == c.Printed.Of {
				t.sizes.Inside++
			}
			t.sizes.Of += min(c.Printed.Of, 1)
		}
	}
	if !found {
		return fmt.Errorf("%s: there is no results.json in a folder named after an experiment", dir)
	}
	own := tables[""]
	if own == nil {
		own = &table{count: map[Verdict]int{}}
	}
	var b strings.Builder
	b.WriteString("# Results\n\nWhat the papers claim and what came of it here, written by `go run ./cmd/papers index -o docs/results` from the results of each\nexperiment, whose page names its command, notes and tables. Brackets hold intervals of 95 % of our own chance.\n\n" +
		"Direction: *reproduced* where the intervals of all parts lie on the claimed side; *not reproduced* where one lies on the other, or\nshows no difference and excludes the size that the paper prints; *not comparable* if the experiment here is too far from the\npaper's to decide the claim. \"In most cases\" counts sets. Printed size: whether our interval holds it, and else how much of it\nours is; – where the paper prints none. " +
		fmt.Sprintf("Claims that no paper makes are [on a page of their own](%s): %d of %d hold.\n\n", ownClaims, own.count[Reproduced], own.claims))
	b.WriteString("| paper | claims | reproduced | not | undecided | not comparable | quick | sizes printed | inside |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, paper := range papers {
		t := tables[paper]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", paper, t.claims, t.count[Reproduced], t.count[NotReproduced], t.count[Undecided], t.count[NotComparable], t.count[NotDecided], t.sizes.Of, t.sizes.Inside)
	}
	b.WriteString(old)
	for _, paper := range papers {
		fmt.Fprintf(&b, "\n## %s\n\n| | claim | paper | here | direction | printed size |\n|---|---|---|---|---|---|\n%s", paper, tables[paper].rows.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(b.String()), 0o666); err != nil {
		return err
	}
	text := "# Claims that no paper makes\n\nWritten by `go run ./cmd/papers index -o docs/results`, as [the claims of the papers](README.md) are.\n\n| | claim | here | verdict | why |\n|---|---|---|---|---|\n" + own.rows.String()
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
