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

func imdb(dir string, originals []string) error {
	parts := map[string][]document{}
	err := each(originals[0], func(name string, r io.Reader) error {
		folder, _ := filepath.Split(filepath.ToSlash(name))
		for suffix, to := range map[string]document{"/train/pos/": {label: 1}, "/train/neg/": {label: -1}, "/train/unsup/": {}, "/test/pos/": {label: 1}, "/test/neg/": {label: -1}} {
			if !strings.HasSuffix(folder, suffix) {
				continue
			}
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			part := strings.Split(suffix, "/")[1]
			if to.label == 0 {
				part = "unlabeled"
			}
			to.tokens = tokens(string(text))
			parts[part] = append(parts[part], to)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return bag{from: [][]document{parts["train"], parts["unlabeled"]}, minWord: 5, minPair: 20}.write(dir, parts)
}

func imdb2k(dir string, originals []string) error {
	var all []document
	err := each(originals[0], func(name string, r io.Reader) error {
		label := 0
		switch filepath.Base(filepath.Dir(name)) {
		case "pos":
			label = 1
		case "neg":
			label = -1
		default:
			return nil
		}
		text, err := io.ReadAll(r)
		all = append(all, document{label, tokens(latin1(text))})
		return err
	})
	if err != nil {
		return err
	}
	return bag{from: [][]document{all}, minWord: 1, minPair: 2}.write(dir, map[string][]document{"all": all})
}

// sentences returns a converter of two files, negative and positive, with one document per line.
func sentences(negative, positive string) func(string, []string) error {
	return func(dir string, originals []string) error {
		var all []document
		err := each(originals[0], func(name string, r io.Reader) error {
			label := 0
			switch filepath.Base(name) {
			case negative:
				label = -1
			case positive:
				label = 1
			default:
				return nil
			}
			text, err := io.ReadAll(r)
			for line := range bytes.Lines(text) {
				if line = bytes.TrimSpace(line); len(line) > 0 {
					all = append(all, document{label, tokens(latin1(line))})
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		return bag{from: [][]document{all}, minWord: 1, minPair: 2}.write(dir, map[string][]document{"all": all})
	}
}

// newsgroups returns a converter of the messages of two newsgroups, without their headers.
func newsgroups(negative, positive string) func(string, []string) error {
	return func(dir string, originals []string) error {
		parts := map[string][]document{}
		err := each(originals[0], func(name string, r io.Reader) error {
			group := filepath.Base(filepath.Dir(name))
			if group != negative && group != positive {
				return nil
			}
			text, err := io.ReadAll(r)
			if _, body, ok := bytes.Cut(text, []byte("\n\n")); ok {
				text = body
			}
			d := document{-1, tokens(latin1(text))}
			if group == positive {
				d.label = 1
			}
			part := "test"
			if strings.Contains(name, "train") {
				part = "train"
			}
			parts[part] = append(parts[part], d)
			return err
		})
		if err != nil {
			return err
		}
		return bag{from: [][]document{parts["train"]}, minWord: 1, minPair: 2}.write(dir, parts)
	}
}

// reviews returns a converter of the reviews of a domain. The reviews that the publisher has sorted by class are for
// training. All other reviews are for the test; their stars determine the class.
func reviews(domain string) func(dir string, originals []string) error {
	return func(dir string, originals []string) error {
		parts := map[string][]document{}
		field := func(review, name string) string {
			_, after, _ := strings.Cut(review, "<"+name+">")
			text, _, _ := strings.Cut(after, "</"+name+">")
			return strings.TrimSpace(text)
		}
		err := each(originals[0], func(name string, r io.Reader) error {
			if filepath.Base(filepath.Dir(name)) != domain {
				return nil
			}
			base := filepath.Base(name)
			label, part := 0, "train"
			switch base {
			case "positive.review":
				label = 1
			case "negative.review":
				label = -1
			case "unlabeled.review":
				part = "test"
			default:
				return nil
			}
			text, err := io.ReadAll(r)
			for _, review := range strings.Split(latin1(text), "</review>") {
				words := tokens(field(review, "title") + ". " + field(review, "review_text"))
				if len(words) == 0 {
					continue
				}
				d := document{label, words}
				if part == "test" {
					stars, err := strconv.ParseFloat(field(review, "rating"), 64)
					if err != nil || stars == 3 {
						continue
					}
					d.label = -1
					if stars > 3 {
						d.label = 1
					}
				}
				parts[part] = append(parts[part], d)
			}
			return err
		})
		if err != nil {
			return err
		}
		return bag{from: [][]document{parts["train"]}, minWord: 1, minPair: 2, limit: 20000}.write(dir, parts)
	}
}
