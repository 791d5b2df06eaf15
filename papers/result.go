package papers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"blankout/simulate"
)

// Result is the outcome of an experiment: the content of results.json.
type Result struct {
	Experiment string `json:"experiment"`
	Paper      string `json:"paper"`
	Size       Size   `json:"size"`
	Samples    bool   `json:"samples"`  // on the embedded samples
	Protocol   int    `json:"protocol"` // version of the rules that decide verdicts
	Command    string `json:"command"`  // that makes it again
	Seed       uint64 `json:"seed"`
	// Seconds is the sum of the wall clock times of the cells, of this run and earlier ones;
	// several may have run at a time.
	Seconds       float64       `json:"seconds"`
	Configuration any           `json:"configuration"`
	Notes         []string      `json:"notes"` // how the set-up differs from the paper's
	Claims        []Claim       `json:"claims"`
	Tables        []ResultTable `json:"tables"`
	Figures       []string      `json:"figures"`
}

// protocol is the Protocol of results whose verdicts come from paired intervals.
const protocol = 2

// Claim is a statement of a paper, or of ours, and its outcome here.
type Claim struct {
	Claim   string  `json:"claim"`
	Own     bool    `json:"own,omitempty"`   // no paper says so: we do
	Paper   string  `json:"paper,omitempty"` // the paper's number
	Ours    string  `json:"ours"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"` // needed where it is not reproduced
}

// Verdict is the outcome of a claim. An interval of a paired difference decides it,
// see [Difference], except where the claim does not depend on chance.
type Verdict string

// The verdicts.
const (
	Reproduced    Verdict = "reproduced"
	NotReproduced Verdict = "not reproduced"
	Undecided     Verdict = "undecided"           // the interval holds both
	NotDecided    Verdict = "not decided (quick)" // by too few data, as of --quick
)

// Holds returns Reproduced or NotReproduced, for a statement that no chance enters.
func Holds(ok bool) Verdict {
	if ok {
		return Reproduced
	}
	return NotReproduced
}

// ResultTable is a table of results: in a cell is a number, a string or nil.
type ResultTable struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Digits is the number of digits after the point in results.md.
	Digits int `json:"-"`
}

// Configure reports the configuration: a value that goes through JSON.
func (s *Setting) Configure(c any) { s.result.Configuration = c }

// Note reports a difference to the paper, or something else worth knowing, in a
// sentence.
func (s *Setting) Note(format string, args ...any) {
	s.result.Notes = append(s.result.Notes, fmt.Sprintf(format, args...))
}

// Table reports a table.
func (s *Setting) Table(t ResultTable) { s.result.Tables = append(s.result.Tables, t) }

// Claim reports a claim; Why counts only if it is not reproduced. Results that are
// not Decisive decide nothing.
func (s *Setting) Claim(c Claim) {
	switch {
	case !s.Decisive():
		c.Verdict, c.Why = NotDecided, "too few data to decide: run it with --data and without --quick"
	case c.Verdict == Reproduced:
		c.Why = ""
	case c.Verdict == Undecided:
		c.Why = "the interval of 95 % holds values on both sides"
	}
	s.result.Claims = append(s.result.Claims, c)
}

// Figure reports a figure; name is that of its files.
func (s *Setting) Figure(name string, f *simulate.Figure) {
	s.figures = append(s.figures, figure{name, f})
}

type figure struct {
	name string
	*simulate.Figure
}

// write writes all files of the results but the cells.
func (s *Setting) write(dir string) error {
	s.Say("writing the results")
	for _, f := range s.figures {
		if err := f.Save(filepath.Join(dir, f.name)); err != nil {
			return err
		}
		s.result.Figures = append(s.result.Figures, f.name)
	}
	data, err := json.MarshalIndent(s.result, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.md"), []byte(s.result.Markdown()), 0o666)
}

// Markdown is the content of results.md.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s. Made by `%s` in %.0f seconds of wall clock, summed over cells of which several run at a time.\n\n", r.Experiment, r.Paper, r.Command, r.Seconds)
	if r.Samples {
		b.WriteString("These are the embedded samples of the data: they show that the experiment runs and decide nothing.\n\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(claimTables(r.Claims, "## "))
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "## %s\n\n%s\n", t.Title, t.markdown())
	}
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "![%s](%s.png)\n\n", f, f)
	}
	if c, err := json.MarshalIndent(r.Configuration, "", "  "); err == nil && r.Configuration != nil {
		fmt.Fprintf(&b, "## Configuration\n\n```json\n%s\n```\n", c)
	}
	return b.String()
}

func (t *ResultTable) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, x := range row {
			switch x := x.(type) {
			case nil:
				b.WriteString(" |")
			case float64:
				fmt.Fprintf(&b, " %s |", strconv.FormatFloat(x, 'f', t.Digits, 64))
			default:
				fmt.Fprintf(&b, " %v |", x)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// claimTables shows the claims of the paper, and under a heading of their own those that
// no paper makes.
func claimTables(claims []Claim, heading string) string {
	var papers, own strings.Builder
	for _, c := range claims {
		if c.Own {
			fmt.Fprintf(&own, "| %s | %s | **%s** | %s |\n", c.Claim, c.Ours, c.Verdict, c.Why)
		} else {
			fmt.Fprintf(&papers, "| %s | %s | %s | **%s** | %s |\n", c.Claim, c.Paper, c.Ours, c.Verdict, c.Why)
		}
	}
	text := ""
	if papers.Len() > 0 {
		text += heading + "Claims\n\n| claim | paper | here | verdict | why |\n|---|---|---|---|---|\n" + papers.String() + "\n"
	}
	if own.Len() > 0 {
		text += heading + "Claims that no paper makes\n\n| claim | here | verdict | why |\n|---|---|---|---|\n" + own.String() + "\n"
	}
	return text
}

// Index writes dir/README.md: the claims of the results in the folders of dir
// that have the name of an experiment, and how many of each paper's are reproduced.
func Index(dir string) error {
	var parts strings.Builder
	verdicts := []Verdict{Reproduced, NotReproduced, Undecided, NotDecided}
	count := map[string]map[Verdict]int{}
	var papers []string // in the order of the experiments
	const own = "none: our own claims"
	for _, e := range experiments {
		data, err := os.ReadFile(filepath.Join(dir, e.Name, "results.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		var r Result
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, e.Name, "results.json"), err)
		}
		remark := ""
		if r.Protocol != protocol {
			remark = " These were made by an earlier version of the program: their verdicts are no paired tests, and are not counted above."
		}
		for _, c := range r.Claims {
			if r.Protocol != protocol {
				break
			}
			paper := e.Paper
			if c.Own {
				paper = own
			}
			if count[paper] == nil {
				count[paper] = map[Verdict]int{}
				if !c.Own {
					papers = append(papers, paper)
				}
			}
			count[paper][c.Verdict]++
		}
		fmt.Fprintf(&parts, "## [%s](%s/results.md)\n\n%s: %s. Size %s, %.0f seconds of cells.%s\n\n%s", e.Name, e.Name, r.Paper, e.Help, r.Size, r.Seconds, remark, claimTables(r.Claims, "### "))
	}
	if parts.Len() == 0 {
		return fmt.Errorf("%s: there is no results.json in a folder named after an experiment", dir)
	}
	var b strings.Builder
	b.WriteString("# Results\n\nWhat the papers claim and what came of it here, as `cmd/papers` wrote it. Brackets hold intervals of 95 %.\nA seed gives the same bits at any number of threads (`BLANKOUT_LONG=1 go test ./papers -run Repeats`, at the size quick).\n\n| paper | claims |")
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %s |", v)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(verdicts)) + "\n")
	if count[own] != nil {
		papers = append(papers, own)
	}
	for _, paper := range papers {
		all, row := 0, ""
		for _, v := range verdicts {
			all += count[paper][v]
			row += fmt.Sprintf(" %d |", count[paper][v])
		}
		fmt.Fprintf(&b, "| %s | %d |%s\n", paper, all, row)
	}
	b.WriteString("\n" + strings.TrimSuffix(parts.String(), "\n"))
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(b.String()), 0o666)
}
