package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is a text with its label: -1, 1, or 0 for unlabeled.
type document struct {
	label  int
	tokens []string
}

// token matches a word in lower case, which may have an inner apostrophe, or ! or ?.
var token = regexp.MustCompile(`[a-z0-9]+(?:'[a-z0-9]+)?|[!?]`)

var lineBreak = regexp.MustCompile(`(?i)<br\s*/?>`)

func tokens(text string) []string {
	text = html.UnescapeString(lineBreak.ReplaceAllString(text, " "))
	return token.FindAllString(strings.ToLower(text), -1)
}

// terms calls f for every word of a document and for every pair of adjacent words, written a_b.
func (d document) terms(f func(term string, pair bool)) {
	for i, t := range d.tokens {
		f(t, false)
		if i > 0 {
			f(d.tokens[i-1]+"_"+t, true)
		}
	}
}

// bag writes documents in svmlight format with counts of words and of pairs. The vocabulary has the words that occur in
// at least minWord of the given documents. The vocabulary then has the pairs that occur in at least minPair of the
// documents. Words and pairs are each sorted by decreasing number of documents. The field limit is the largest number
// of columns; 0 means no limit.
type bag struct {
	from             [][]document
	minWord, minPair int
	limit            int
}

func (b bag) write(dir string, parts map[string][]document) error {
	inDocuments := map[string]int{}
	for _, part := range b.from {
		for _, d := range part {
			seen := map[string]bool{}
			d.terms(func(term string, _ bool) { seen[term] = true })
			for term := range seen {
				inDocuments[term]++
			}
		}
	}
	var vocabulary []string
	for term, n := range inDocuments {
		if pair := strings.Contains(term, "_"); !pair && n >= b.minWord || pair && n >= b.minPair {
			vocabulary = append(vocabulary, term)
		}
	}
	byDocuments := func(x, y string) int {
		return cmp.Or(cmp.Compare(inDocuments[y], inDocuments[x]), strings.Compare(x, y))
	}
	slices.SortFunc(vocabulary, byDocuments)
	if b.limit > 0 && len(vocabulary) > b.limit {
		vocabulary = vocabulary[:b.limit]
	}
	slices.SortStableFunc(vocabulary, func(x, y string) int { // words before pairs
		return strings.Count(x, "_") - strings.Count(y, "_")
	})
	column := map[string]int{}
	for i, term := range vocabulary {
		column[term] = i + 1
	}
	err := write(filepath.Join(dir, "vocab.txt.gz"), func(w *bufio.Writer) error {
		for _, term := range vocabulary {
			fmt.Fprintln(w, term)
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err != nil {
			return err
		}
		documents := slices.Clone(parts[name])
		if len(documents) == 0 {
			return fmt.Errorf("no document for %s: the archive has another layout than expected", name)
		}
		// The originals are sorted by class. Shuffled files can be read as a stream.
		r := rand.New(rand.NewPCG(1, uint64(len(name))))
		r.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		err = write(filepath.Join(dir, name+".svm.gz"), func(w *bufio.Writer) error {
			for _, d := range documents {
				count := map[int]int{}
				d.terms(func(term string, _ bool) {
					if c := column[term]; c > 0 {
						count[c]++
					}
				})
				w.WriteString(strconv.Itoa(d.label))
				for _, c := range slices.Sorted(maps.Keys(count)) {
					fmt.Fprintf(w, " %d:%d", c, count[c])
				}
				w.WriteByte('\n')
			}
			return nil
		})
	}
	return err
}

// latin1 decodes as Latin-1 each byte that is not valid UTF-8.
func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// corpus returns a converter of the documents of an archive. The function documents returns the part to which a file
// belongs and its documents, or "" if the file has none. The parts in from determine the vocabulary of out.
func corpus(out bag, from []string, documents func(name string, text []byte) (part string, all []document)) func(string, []string) error {
	return func(dir string, originals []string) error {
		parts := map[string][]document{}
		err := each(originals[0], func(name string, r io.Reader) error {
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if part, all := documents(filepath.ToSlash(name), text); part != "" {
				parts[part] = append(parts[part], all...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		out := out
		for _, part := range from {
			out.from = append(out.from, parts[part])
			parts[part] = append(parts[part], []document{}...) // a part without documents is an error
		}
		return out.write(dir, parts)
	}
}

// small is the vocabulary of the small sets.
var small = bag{minWord: 1, minPair: 2}

var imdb = corpus(bag{minWord: 5, minPair: 20}, []string{"train", "unlabeled"}, func(name string, text []byte) (string, []document) {
	for suffix, label := range map[string]int{"/train/pos/": 1, "/train/neg/": -1, "/train/unsup/": 0, "/test/pos/": 1, "/test/neg/": -1} {
		if folder, _ := path.Split(name); strings.HasSuffix(folder, suffix) {
			part := strings.Split(suffix, "/")[1]
			if label == 0 {
				part = "unlabeled"
			}
			return part, []document{{label, tokens(string(text))}}
		}
	}
	return "", nil
})

var imdb2k = corpus(small, []string{"all"}, func(name string, text []byte) (string, []document) {
	label, ok := map[string]int{"pos": 1, "neg": -1}[path.Base(path.Dir(name))]
	if !ok {
		return "", nil
	}
	return "all", []document{{label, tokens(latin1(text))}}
})

// sentences returns a converter of two files, negative and positive, with one document per line.
func sentences(negative, positive string) func(string, []string) error {
	return corpus(small, []string{"all"}, func(name string, text []byte) (part string, all []document) {
		label, ok := map[string]int{negative: -1, positive: 1}[path.Base(name)]
		if !ok {
			return "", nil
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				all = append(all, document{label, tokens(latin1(line))})
			}
		}
		return "all", all
	})
}

// newsgroups returns a converter of the messages of two newsgroups, without their headers.
func newsgroups(negative, positive string) func(string, []string) error {
	return corpus(small, []string{"train"}, func(name string, text []byte) (string, []document) {
		label, ok := map[string]int{negative: -1, positive: 1}[path.Base(path.Dir(name))]
		if !ok {
			return "", nil
		}
		if _, body, ok := bytes.Cut(text, []byte("\n\n")); ok {
			text = body
		}
		return partOf(strings.Contains(name, "train")), []document{{label, tokens(latin1(text))}}
	})
}

func partOf(train bool) string {
	if train {
		return "train"
	}
	return "test"
}

// reviews returns a converter of the reviews of a domain. The reviews that the publisher has sorted by class are for
// training. All other reviews are for the test; their stars determine the class.
func reviews(domain string) func(dir string, originals []string) error {
	field := func(review, name string) string {
		_, after, _ := strings.Cut(review, "<"+name+">")
		text, _, _ := strings.Cut(after, "</"+name+">")
		return strings.TrimSpace(text)
	}
	return corpus(bag{minWord: 1, minPair: 2, limit: 20000}, []string{"train"}, func(name string, text []byte) (string, []document) {
		label, ok := map[string]int{"positive.review": 1, "negative.review": -1, "unlabeled.review": 0}[path.Base(name)]
		if !ok || path.Base(path.Dir(name)) != domain {
			return "", nil
		}
		var all []document
		for _, review := range strings.Split(latin1(text), "</review>") {
			d := document{label, tokens(field(review, "title") + ". " + field(review, "review_text"))}
			if label == 0 {
				stars, err := strconv.ParseFloat(field(review, "rating"), 64)
				if err != nil {
					continue
				}
				d.label = cmp.Compare(stars, 3)
			}
			if len(d.tokens) > 0 && d.label != 0 {
				all = append(all, d)
			}
		}
		return partOf(label != 0), all
	})
}
