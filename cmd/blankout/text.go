package main

// This file prints the results of commands as text. The text has the content and the names of --json.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"blankout/internal/event"
)

// textRows is the usual limit of the rows of a table in text.
const textRows = 12

// printText prints the JSON form of v: first its values, one in a line, then its lists of objects as tables of at most
// the given number of rows. Two neighboring objects with the same names are the columns of one table. Null, empty texts
// and empty lists are left out, as are the lists with a name in hidden.
func printText(out io.Writer, v any, rows int, hidden ...string) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r := textReader{json: json.NewDecoder(bytes.NewReader(data))}
	r.json.UseNumber()
	values := r.value("")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var classes []string
	for _, c := range values {
		if c.text != "" {
			unit := textUnits[c.path[strings.LastIndexByte(c.path, '.')+1:]]
			if c.path == "error" { // of the whole, which only classes have
				unit = " %"
			}
			fmt.Fprintf(w, "%s\t%s%s\n", c.path, c.text, unit)
		}
		if c.path == "classes" {
			classes = c.list
		}
	}
	for _, t := range r.tables {
		if t.path == "confusion" && len(classes) == len(t.rows) {
			t.nameClasses(classes)
		}
		if !slices.Contains(hidden, t.path[strings.LastIndexByte(t.path, '.')+1:]) {
			t.print(w, rows)
		}
	}
	return w.Flush()
}

// textUnits are the units of values, by name. An error of a regression has no such name.
var textUnits = map[string]string{
	"progressive_error": " %", "recent_error": " %", "train_error": " %", "baseline_majority_error": " %", "baseline_last_error": " %", "model_error": " %",
	"log_loss": " nats", "progressive_log_loss": " nats", "recent_log_loss": " nats", "baseline_prior_log_loss": " nats",
}

// textCell is a value of a JSON document. Its path consists of names, as in live.error. It is "" or, as in [0], an index
// for an element of a list.
type textCell struct {
	path, text string
	list       []string // the elements, if the value is a list
}

// textTable is a table with a row for each element of a list. The paths of the cells are the columns.
type textTable struct {
	path string
	rows [][]textCell
	pair bool // whether the rows are the names of a pair of objects, of which all are printed
}

// nameClasses names the rows of a confusion matrix, which are the labels, and its columns, which are the predictions.
func (t *textTable) nameClasses(classes []string) {
	for i, row := range t.rows {
		for j := range row {
			row[j].path = "as " + classes[j]
		}
		t.rows[i] = slices.Insert(row, 0, textCell{path: "label", text: classes[i]})
	}
}

func (t *textTable) print(w *tabwriter.Writer, most int) {
	var columns []string
	for _, row := range t.rows {
		for _, c := range row {
			if c.text != "" && !slices.Contains(columns, c.path) {
				columns = append(columns, c.path)
			}
		}
	}
	if len(columns) == 0 {
		return
	}
	w.Flush() // the columns of other tables have other widths
	fmt.Fprintln(w)
	if t.path != "" {
		fmt.Fprintln(w, t.path)
	}
	if !strings.HasPrefix(columns[0], "[") {
		fmt.Fprintf(w, "  %s\n", strings.Join(columns, "\t"))
	}
	if t.pair {
		most = len(t.rows)
	}
	for _, row := range t.rows[:min(len(t.rows), most)] {
		line := make([]string, len(columns))
		for i := range line {
			line[i] = "-"
		}
		for _, c := range row {
			if c.text != "" {
				line[slices.Index(columns, c.path)] = c.text
			}
		}
		fmt.Fprintf(w, "  %s\n", strings.Join(line, "\t"))
	}
	if n := len(t.rows) - most; n > 0 {
		fmt.Fprintf(w, "  … and %s more, see --json\n", humanize.Comma(int64(n)))
	}
}

// textReader reads a JSON document into cells and tables. The document is from json.Marshal, so its reading cannot fail.
type textReader struct {
	json   *json.Decoder
	tables []textTable
	lists  int // number of lists around the current value
}

// value reads a value and returns its cells, whose paths begin with path.
func (r *textReader) value(path string) []textCell {
	text := ""
	switch x := r.token().(type) {
	case json.Delim:
		if x == '{' {
			return r.object(path)
		}
		return r.list(path)
	case json.Number:
		text = numberText(x)
	case string:
		text = event.Printable(x)
	case bool:
		text = strconv.FormatBool(x)
	}
	return []textCell{{path: path, text: text}}
}

func (r *textReader) token() json.Token {
	token, _ := r.json.Token()
	return token
}

func (r *textReader) object(path string) []textCell {
	var all, before []textCell
	nameBefore := "" // name of the value before, whose cells are the last of all
	for r.json.More() {
		name := strings.Trim(path+"."+event.Printable(r.token().(string)), ".")
		cells := r.value(name)
		if t := pair(nameBefore, before, name, cells); t != nil && r.lists == 0 {
			t.path = path
			r.tables = append(r.tables, *t)
			all, cells = all[:len(all)-len(before)], nil
		}
		all, before, nameBefore = append(all, cells...), cells, name
	}
	r.token()
	return all
}

// pair returns the table of two objects if they have the same names, otherwise nil.
func pair(left string, a []textCell, right string, b []textCell) *textTable {
	if len(a) < 2 || len(a) != len(b) {
		return nil
	}
	t := textTable{pair: true}
	for i := range a {
		name, ok := strings.CutPrefix(a[i].path, left+".")
		if !ok || right+"."+name != b[i].path {
			return nil
		}
		row := func(name, x, y string) {
			if x != "" || y != "" {
				t.rows = append(t.rows, []textCell{{text: name}, {path: left, text: x}, {path: right, text: y}})
			}
		}
		if len(a[i].list) < 2 || len(a[i].list) != len(b[i].list) {
			row(name, a[i].text, b[i].text)
			continue
		}
		for j, x := range a[i].list {
			row(fmt.Sprintf("%s[%d]", name, j), x, b[i].list[j])
		}
	}
	return &t
}

// list reads a list. A list of values is one cell. Any other list is a table, and a list in one of its rows is another
// table, whose rows begin with the first cell of that row.
func (r *textReader) list(path string) []textCell {
	at := len(r.tables)
	r.tables = append(r.tables, textTable{path: path})
	r.lists++
	var rows [][]textCell
	for r.json.More() {
		inner := len(r.tables)
		row := r.value("")
		for i := range r.tables[inner:] {
			t := &r.tables[inner+i]
			for j := range t.rows {
				if len(row) > 0 && !slices.ContainsFunc(t.rows[j], func(c textCell) bool { return c.path == row[0].path }) {
					t.rows[j] = slices.Insert(t.rows[j], 0, row[0])
				}
			}
			t.path = strings.Trim(path+"."+t.path, ".")
			if same := slices.IndexFunc(r.tables[at+1:inner], func(o textTable) bool { return o.path == t.path }); same >= 0 {
				r.tables[at+1+same].rows = append(r.tables[at+1+same].rows, t.rows...)
				t.rows = nil
			}
		}
		rows = append(rows, row)
	}
	r.lists--
	r.token()
	if !slices.ContainsFunc(rows, func(row []textCell) bool { return len(row) != 1 || row[0].path != "" }) {
		var cells []textCell
		var texts []string
		for i, row := range rows {
			texts = append(texts, cmp.Or(row[0].text, "-"))
			cells = append(cells, textCell{path: fmt.Sprintf("[%d]", i), text: texts[i]})
		}
		if path == "" { // a list in a list
			return cells
		}
		return []textCell{{path, strings.Join(texts, ", "), texts}}
	}
	r.tables[at].rows = rows
	return nil
}

// numberText formats a number with six significant digits. A whole number has all its digits, in groups of three; larger
// ones than any count are identifiers, such as fingerprints.
func numberText(x json.Number) string {
	if n, err := x.Int64(); err == nil && n < 1<<53 {
		return humanize.Comma(n)
	}
	f, err := x.Float64()
	if err != nil || !strings.ContainsAny(string(x), ".eE") {
		return string(x)
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}
