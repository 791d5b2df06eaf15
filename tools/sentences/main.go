// Command sentences lists the sentences of comments and Markdown that are hard to read.
//
//	go run ./tools/sentences              list every sentence with a habit
//	go run ./tools/sentences online docs  list the sentences in two folders
//	go run ./tools/sentences -count       count the sentences by folder and habit
//
// A line of the list is FILE:LINE: HABIT: SENTENCE. The habits are:
//
//	noun       a phrase in place of a noun, such as "what is" and "those that"
//	verb       a verb that has a person as its subject, such as "tell" and "know"; in comments only
//	pronoun    a pronoun at the start of a paragraph, or "one" and "so many" without their noun
//	condition  a condition before the subject, other than "If …, …"
//	odd        an old or odd word, such as "anew" and "beside"
//	long       more than 25 words
//
// The patterns match words and ignore grammar, so a listed sentence may be good. Read a sentence before you change it.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// longest is the largest number of words of a sentence. A sentence with more words is listed as long.
const longest = 25

// habit is a pattern of sentences that are hard to read.
type habit struct {
	name         string
	pattern      *regexp.Regexp
	commentsOnly bool
	opens        bool // match only the first sentence of a paragraph
}

// habits are all habits that are found by a pattern. The habit long is found by the number of words.
var habits = []habit{
	{name: "noun", pattern: words(`what (is|are|was|were|has|have|it|they)|(that|those) of|those (that|who|which)|whoever|whatever|there (is|are) none|none is|and so (is|are|do|does)`)},
	{name: "verb", commentsOnly: true, pattern: words(`(tell|tells|told|telling|say|says|said|saying|(take|takes|taken|took) up|meet|meets|met|know|knows|known|knew|heed|heeds|heeded|come|comes|came|stand|stands|stood)`)},
	{name: "pronoun", opens: true, pattern: regexp.MustCompile(`^(It|They|He|She|Its|Their|These|Those|This|That|One|Both|Neither|None|Such)\b(?:\s+(?:is|are|was|were|has|have|had|can|may|must|will|would|do|does|takes?|makes?|holds?|needs?|of|in|for|with)\b|[.,;:])`)},
	{name: "pronoun", pattern: words(`ones? (that|which|who|whose|without|is|has)|(by|in|of|to|for|as) so many|somebody|nobody|someone|anyone|anybody`)},
	{name: "condition", pattern: regexp.MustCompile(`^(Where|When|Once|As long as|While|Unless|Until|Without|Of|With|Among|Whether|After|Before)\b`)},
	{name: "odd", pattern: words(`anew|beside|dear|dearer|dearest|sound|lest|wild|odd|at hand|by itself|hence|thereof|therein|whence|thrice|ere|forgo|of late|afresh`)},
}

// words returns a pattern that matches any of the alternatives as whole words.
func words(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + alternatives + `)\b`)
}

// sentence is one sentence of a comment or of a Markdown file.
type sentence struct {
	file    string
	line    int
	text    string
	comment bool
	first   bool // whether it is the first sentence of its paragraph
}

// found returns the names of the habits that s has.
func (s sentence) found() (names []string) {
	for _, h := range habits {
		if (s.comment || !h.commentsOnly) && (s.first || !h.opens) && h.pattern.MatchString(s.text) && !slices.Contains(names, h.name) {
			names = append(names, h.name)
		}
	}
	if len(strings.Fields(s.text)) > longest {
		names = append(names, "long")
	}
	return names
}

func main() {
	count := flag.Bool("count", false, "count the sentences by folder and habit")
	flag.Parse()
	roots := flag.Args()
	if len(roots) == 0 {
		roots = []string{"."}
	}
	if err := run(os.Stdout, roots, *count); err != nil {
		fmt.Fprintln(os.Stderr, "sentences:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, roots []string, count bool) error {
	var all []sentence
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			more, err := read(path)
			all = append(all, more...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if count {
		return table(out, all)
	}
	for _, s := range all {
		for _, name := range s.found() {
			if _, err := fmt.Fprintf(out, "%s:%d: %s: %s\n", s.file, s.line, name, s.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// table prints, for each folder, the number of sentences and the number of sentences with each habit.
func table(out io.Writer, all []sentence) error {
	type row struct {
		sentences, hard int
		habits          map[string]int
	}
	rows := map[string]*row{}
	for _, s := range all {
		for _, folder := range []string{filepath.Dir(s.file), "total"} {
			r := rows[folder]
			if r == nil {
				r = &row{habits: map[string]int{}}
				rows[folder] = r
			}
			r.sentences++
			names := s.found()
			if len(names) > 0 {
				r.hard++
			}
			for _, name := range names {
				r.habits[name]++
			}
		}
	}
	names := []string{"noun", "verb", "pronoun", "condition", "odd", "long"}
	fmt.Fprintf(out, "%-28s %9s %6s", "folder", "sentences", "hard")
	for _, name := range names {
		fmt.Fprintf(out, " %9s", name)
	}
	fmt.Fprintln(out)
	folders := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[b].hard, rows[a].hard), cmp.Compare(a, b))
	})
	for _, folder := range folders {
		r := rows[folder]
		fmt.Fprintf(out, "%-28s %9d %6d", folder, r.sentences, r.hard)
		for _, name := range names {
			fmt.Fprintf(out, " %9d", r.habits[name])
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return nil
}

// read returns the sentences of a Go or Markdown file. For other files it returns none.
func read(path string) ([]sentence, error) {
	switch filepath.Ext(path) {
	case ".go":
		return readGo(path)
	case ".md":
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return split(path, 1, strings.Split(string(text), "\n"), false), nil
	}
	return nil, nil
}

// directive matches comment lines that are directives for tools.
var directive = regexp.MustCompile(`^(go|lint|nolint)[:\w]`)

// readGo returns the sentences of the comments of a Go file.
func readGo(path string) (all []sentence, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	for _, group := range file.Comments {
		var lines []string
		for _, c := range group.List {
			if text, ok := strings.CutPrefix(c.Text, "//"); ok {
				if directive.MatchString(text) && strings.Contains(text, ":") {
					text = ""
				}
				lines = append(lines, text)
				continue
			}
			lines = append(lines, strings.Split(strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/"), "\n")...)
		}
		all = append(all, split(path, files.Position(group.Pos()).Line, lines, true)...)
	}
	return all, nil
}

var (
	bullet  = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
	link    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	quoted  = regexp.MustCompile("`[^`]*`")
	rule    = regexp.MustCompile(`^[\s|:-]*$`)
	ending  = regexp.MustCompile(`[.!?][)"'”*_]*(\s+|$)`)
	starts  = regexp.MustCompile(`^["'“(*_]*[\p{Lu}X\d]`)
	abbrevs = regexp.MustCompile(`(?:\b(?:e\.g|i\.e|cf|vs|etc|Fig|Eq|Sec|No|p|pp|al|Dr|St)\.)$`)
)

// split returns the sentences of lines, which begin at a line of file. Code blocks, tables' rules and
// headings are no sentences; a cell of a table is one.
func split(file string, line int, lines []string, comment bool) (all []sentence) {
	var text strings.Builder
	var starting []int // the offset in text at which each line of the paragraph begins
	begin := 0
	flush := func() {
		all = append(all, sentences(file, begin, text.String(), starting, comment)...)
		text.Reset()
		starting = nil
	}
	fenced, front := false, false
	for i, l := range lines {
		trimmed := strings.TrimSpace(l)
		switch {
		case !comment && trimmed == "---" && (line+i == 1 || front):
			front = !front
			flush()
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			flush()
		case fenced || front || rule.MatchString(l) || strings.HasPrefix(trimmed, "<"):
			flush()
		case !comment && (strings.HasPrefix(l, "#") || strings.HasPrefix(l, "    ") && text.Len() == 0 && !bullet.MatchString(l)):
			flush()
		case comment && (strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "  \t")):
			flush()
		case !comment && strings.HasPrefix(trimmed, "|"):
			flush()
			for _, cell := range strings.Split(quoted.ReplaceAllString(strings.Trim(trimmed, "|"), "X"), "|") {
				all = append(all, sentences(file, line+i, plain(cell), []int{0}, comment)...)
			}
		default:
			if bullet.MatchString(l) {
				flush()
				trimmed = bullet.ReplaceAllString(l, "")
			}
			if text.Len() == 0 {
				begin = line + i
			} else {
				text.WriteByte(' ')
			}
			starting = append(starting, text.Len())
			text.WriteString(plain(trimmed))
		}
	}
	flush()
	return all
}

// plain returns text without Markdown markup. Code is replaced by X.
func plain(text string) string {
	text = quoted.ReplaceAllString(text, "X")
	text = link.ReplaceAllString(text, "$1")
	return strings.TrimSpace(strings.ReplaceAll(text, "**", ""))
}

// sentences splits a paragraph into sentences. The slice starting has the offset of each line in the paragraph. The
// first line has the number line in the file.
func sentences(file string, line int, text string, starting []int, comment bool) (all []sentence) {
	add := func(from, to int) {
		s := strings.TrimSpace(text[from:to])
		if len(strings.Fields(s)) < 3 {
			return
		}
		for from < to && text[from] == ' ' {
			from++
		}
		nth, _ := slices.BinarySearch(starting, from+1)
		all = append(all, sentence{file: file, line: line + max(nth-1, 0), text: s, comment: comment, first: len(all) == 0})
	}
	from := 0
	for _, at := range ending.FindAllStringIndex(text, -1) {
		if at[1] < len(text) && (!starts.MatchString(text[at[1]:]) || abbrevs.MatchString(text[from:at[0]+1])) {
			continue
		}
		add(from, at[1])
		from = at[1]
	}
	add(from, len(text))
	return all
}
