package papers

import (
	"encoding/json"
	"fmt"
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
	Samples    bool   `json:"samples"`  // computed on the embedded samples
	Protocol   int    `json:"protocol"` // version of the rules that decide verdicts
	Command    string `json:"command"`  // command that reproduces the result
	Seed       uint64 `json:"seed"`
	// Seconds is the total wall clock time of the cells, in this run and in earlier runs. Cells may have been computed
	// concurrently.
	Seconds       float64       `json:"seconds"`
	Configuration any           `json:"configuration"`
	Notes         []string      `json:"notes"` // differences of the set-up from the paper's
	Claims        []Claim       `json:"claims"`
	Tables        []ResultTable `json:"tables"`
	Figures       []string      `json:"figures"`
}

// ResultTable is a table of results. Each cell is a float64, a string (used for counts) or nil.
type ResultTable struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Digits is the number of decimals in results.md.
	Digits int `json:"digits,omitempty"`
	// Detail is true for a table that no verdict needs. Such a table is not in results.md.
	Detail bool `json:"detail,omitempty"`
}

// Configure stores the configuration in the results. c must be convertible to JSON.
func (s *Setting) Configure(c any) { s.result.Configuration = c }

// Note adds a sentence to the results, usually about a difference from the paper.
func (s *Setting) Note(format string, args ...any) {
	s.result.Notes = append(s.result.Notes, fmt.Sprintf(format, args...))
}

// Table adds a table to the results. Counts become strings, so that they are the same after reading results.json.
func (s *Setting) Table(t ResultTable) {
	for _, row := range t.Rows {
		for i, x := range row {
			if n, ok := x.(int); ok {
				row[i] = strconv.Itoa(n)
			}
		}
	}
	s.result.Tables = append(s.result.Tables, t)
}

// Figure adds a figure to the results. name is the name of its files without extension.
func (s *Setting) Figure(name string, f *simulate.Figure) {
	s.figures = append(s.figures, figure{name, f})
}

type figure struct {
	name string
	*simulate.Figure
}

// write writes all result files except the cells.
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

// Markdown returns the content of results.md: the notes, and the tables that verdicts need. The claims are in the
// index, see [Index]. Everything else is only in results.json.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s. Made by `%s` in %.0f seconds.\n\n", r.Experiment, r.Paper, r.Command, r.Seconds)
	if r.Samples {
		b.WriteString("These are the embedded samples of the data: they show that the experiment runs and decide nothing.\n\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, t := range r.Tables {
		if !t.Detail {
			fmt.Fprintf(&b, "## %s\n\n%s\n", t.Title, t.markdown())
		}
	}
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "![%s](%s.png)\n", f, f)
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

// matrix returns t with a row for each name in rows. The first column has these names and the title corner. The function
// at returns the cells of the other columns.
func matrix(t ResultTable, corner string, columns, rows []string, at func(row, column int) any) ResultTable {
	t.Columns = append([]string{corner}, columns...)
	for i, name := range rows {
		line := []any{name}
		for j := range columns {
			line = append(line, at(i, j))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// count returns the number of elements of a list for which yes returns true.
func count[S ~[]A, A any](list S, yes func(A) bool) (n int) {
	for _, x := range list {
		if yes(x) {
			n++
		}
	}
	return n
}

// crossed returns f of each pair of an element of a and one of b, in which b varies fastest.
func crossed[A, B, C any](a []A, b []B, f func(A, B) C) (out []C) {
	for _, x := range a {
		for _, y := range b {
			out = append(out, f(x, y))
		}
	}
	return out
}

// mapped returns f of each element of a list.
func mapped[S ~[]A, A, B any](list S, f func(A) B) []B {
	out := make([]B, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}
