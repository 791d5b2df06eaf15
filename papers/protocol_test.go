package papers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestMcNemar checks that the interval contains the true difference as often as its confidence level requires, even if
// only few items distinguish two methods. For equal methods, the claim must be undecided.
func TestMcNemar(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		onlyA, onlyB float64 // fractions of the items that only method a or only method b predicts wrongly
		items        int
	}{{0.1, 0.05, 400}, {0.01, 0.01, 300}, {0.003, 0, 500}, {0.3, 0.02, 50}} {
		inside := 0
		const runs = 3000
		for range runs {
			a, b := make(mistakes, c.items), make(mistakes, c.items)
			for i := range a {
				switch u := r.Float64(); {
				case u < c.onlyA:
					a[i] = 1
				case u < c.onlyA+c.onlyB:
					b[i] = 1
				case u < 0.5:
					a[i], b[i] = 1, 1
				}
			}
			d := mcNemar(a, b)
			want := a.error() - b.error()
			must.Require(t, math.Abs(d.Mean-want) <= 1e-9, "%v of errors %g and %g", d, a.error(), b.error())
			if truth := 100 * (c.onlyA - c.onlyB); d.Low <= truth && truth <= d.High {
				inside++
			}
		}
		fraction := float64(inside) / runs
		must.True(t, fraction >= 0.935, "%+v: the interval holds the difference in %g of the runs", c, fraction)
	}
	d := mcNemar(make(mistakes, 100), make(mistakes, 100))
	must.True(t, d.Below(0) == Undecided && d.Above(0) == Undecided && d.Mean == 0 && d.High <= 3, "methods that are equal: %v", d)
}

// TestIntervals checks that Student's interval contains the mean as often as its confidence level requires. The
// interval must be wider if training sets overlap. Fisher's interval must equal a given value for the correlation in
// table 3 of the thesis.
func TestIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	inside := 0
	const runs = 4000
	for range runs {
		each := must.List(5, func(int) float64 { return 3 + 2*r.NormFloat64() })
		d := pairedT(each)
		if d.Low < 3 && 3 < d.High {
			inside++
		}
		// sqrt((1/5 + 1/4)/(1/5))
		wide := correctedT(each, 0.25)
		must.Require(t, wide.Mean == d.Mean && math.Abs((wide.High-wide.Low)/(d.High-d.Low)-1.5) <= 1e-9, "%v, with overlap %v", d, wide)
	}
	if fraction := float64(inside) / runs; math.Abs(fraction-0.95) > 0.015 {
		t.Errorf("the interval holds the mean in %g of the runs", fraction)
	}
	for name, draw := range map[string]func() float64{"normal": r.NormFloat64, "uniform": r.Float64, "exponential": r.ExpFloat64} {
		sd := map[string]float64{"normal": 1, "uniform": math.Sqrt(1. / 12), "exponential": 1}[name]
		inside := 0
		for range runs {
			each := must.List(50, func(int) float64 { return 7 + draw() })
			if d := standardDeviation(each); d.Low < sd && sd < d.High {
				inside++
			}
		}
		fraction := float64(inside) / runs
		must.True(t, fraction >= 0.88 && fraction <= 0.985, "%s: the interval holds the standard deviation in %g of the runs", name, fraction)
	}
	must.Equal(t, standardDeviation([]float64{2, 2, 2, 2, 2, 2}), (Difference{}), "of equal values")
	d := pairedT([]float64{1})
	must.True(t, d.Below(0) == Undecided && d.Above(0) == Undecided, "one run decides: %v", d)
	// The printed correlation of table 3 in the thesis is -0.613.
	var fraction, dropped []float64
	for _, set := range dropSets {
		fraction, dropped = append(fraction, set.epochs[0]), append(dropped, set.epochs[1]*set.epochs[2])
	}
	c := correlation(fraction, dropped)
	must.True(t, math.Abs(c.Mean+0.6126) <= 5e-5 && math.Abs(c.Low+0.8781) <= 1e-3 && math.Abs(c.High+0.0598) <= 1e-3, "correlation %v of the printed table", c)
}

// TestVerdicts checks that a claim is decided if its limit is outside the interval, and undecided if its limit is
// inside.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		d            Difference
		below, above Verdict
	}{
		{Difference{-2, -3, -1}, Reproduced, NotReproduced},
		{Difference{2, 1, 3}, NotReproduced, Reproduced},
		{Difference{-1, -3, 1}, Undecided, Undecided},
		{Difference{math.NaN(), math.NaN(), math.NaN()}, Undecided, Undecided},
	} {
		below, above := c.d.Below(0), c.d.Above(0)
		must.True(t, below == c.below && above == c.above, "%v: below 0 %s, above 0 %s", c.d, below, above)
	}
	for _, c := range []struct {
		parts []Verdict
		want  Verdict
	}{
		{[]Verdict{Reproduced, Reproduced}, Reproduced},
		{[]Verdict{Reproduced, Undecided}, Undecided},
		{[]Verdict{Undecided, NotReproduced, Reproduced}, NotReproduced},
	} {
		must.Equal(t, Every(c.parts...), c.want, c.parts)
	}
}

// TestChoose checks that every setting is tried, and that the setting with the smallest loss is chosen.
func TestChoose(t *testing.T) {
	losses := []float64{3, 2, 1, 9}
	tried := make([]bool, len(losses))
	for _, threads := range []int{1, 3} {
		got, err := choose(t.Context(), threads, []int{0, 1, 2, 3}, func(_ context.Context, i int) (Held, error) {
			tried[i] = true
			return Held{Loss: losses[i]}, nil
		})
		must.True(t, err == nil && got == 2, "%d threads: chose %d, %v", threads, got, err)
	}
	for i := range tried {
		must.True(t, tried[i], "setting %d was not tried", i)
	}
}

// TestChosenOnTheOthers checks that the accuracy reported for a fold belongs to the setting that is best on the other
// folds.
func TestChosenOnTheOthers(t *testing.T) {
	// Setting 1 has the best mean only because of fold 0.
	folds := []dropFold{{Plain: []float64{50, 99}}, {Plain: []float64{60, 58}}, {Plain: []float64{70, 69}}}
	best, atBest, each := bestOfFolds(folds, 3, func(f *dropFold) []float64 { return f.Plain })
	must.True(t, best == 1 && math.Abs(atBest-(99+58+69)/3.0) <= 1e-9 && slices.Equal(each, []float64{50, 58, 69}), "setting %d at %v; by fold %v", best, atBest, each)
}

// TestRepeats checks that no result depends on the number of threads. Two runs may differ only in their time. A long
// test checks every experiment.
func TestRepeats(t *testing.T) {
	all := must.Either(longtest.Asked(), All(), []Experiment{haphazard})
	for _, e := range all {
		var results [2][]byte
		for i, threads := range []int{1, 4} {
			out := t.TempDir()
			must.Get(Run(t.Context(), e, Options{Size: Quick, Out: out, Seed: 3, Threads: threads}))(t)
			data := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
			var r Result
			must.Do(t, json.Unmarshal(data, &r))
			r.Seconds = 0
			results[i] = must.Get(json.Marshal(r))(t)
		}
		must.True(t, bytes.Equal(results[0], results[1]), "%s on one thread and on four:\n%s\n%s", e.Name, results[0], results[1])
	}
}

// TestSmaller compares the number of pairs with a count of all pairs.
func TestSmaller(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 20 {
		draw := func(int) float64 { return float64(r.IntN(8)) }
		a, b := must.List(1+r.IntN(20), draw), must.List(1+r.IntN(20), draw)
		want := 0.0
		for _, x := range a {
			for _, y := range b {
				if x < y {
					want++
				} else if x == y {
					want += 0.5
				}
			}
		}
		must.Equal(t, smaller(a, b), want, a, "below", b)
	}
}

// TestConstantError checks the error of predicting the most frequent label, for two classes and for more.
func TestConstantError(t *testing.T) {
	for _, c := range []struct {
		labels []int
		want   float64
	}{{[]int{1, 1, 1, 0}, 25}, {[]int{0, 0, 1, 0, 0}, 20}, {[]int{2, 0, 1, 2, 1, 2, 0, 2, 1, 0}, 60}} {
		got := constantError(len(c.labels), func(i int) int { return c.labels[i] })
		must.True(t, math.Abs(got-c.want) <= 1e-12, "%v: %g, want %g", c.labels, got, c.want)
	}
}

// TestHeldOutFold checks that the parts contain each row once. The other rows must be all rows outside the part.
func TestHeldOutFold(t *testing.T) {
	for part, want := range [][2][]int{{{4, 0, 1, 3}, {2, 5, 6}}, {{2, 0, 5, 3, 6}, {4, 1}}, {{2, 4, 5, 1, 6}, {0, 3}}} {
		others, held := heldOutFold([]int{2, 4, 0, 5, 1, 3, 6}, 3, part)
		must.EqualSlices(t, others, want[0], "without part", part)
		must.EqualSlices(t, held, want[1], "part", part)
	}
	examples := []event.Example{{Label: 5}, {Label: 6}, {Label: 7}}
	got := pick(examples, []int{2, 0})
	must.True(t, len(got) == 2 && got[0].Label == 7 && got[1].Label == 5, "picked %v", got)
}

// TestUnigrams checks that the unigrams end at the first pair of a vocabulary. If there is no vocabulary, the number of
// unigrams in the embedded samples must be used. A set without samples must give an error.
func TestUnigrams(t *testing.T) {
	dir := t.TempDir()
	s := &Setting{dir: dir}
	must.Do(t, os.Mkdir(filepath.Join(dir, "news"), 0o777))
	n, err := s.unigrams("news", 7)
	must.True(t, n == 7 && err == nil, "without a vocabulary: %d, %v", n, err)
	n, err = s.unigrams("news", 0)
	must.True(t, err != nil && strings.Contains(err.Error(), "vocab.txt.gz"), "without a vocabulary and samples: %d, %v", n, err)
	writeVocabulary(t, s.Path("news", "vocab.txt.gz"), "the\nof\ngraph\nof_the\nthe_graph\n")
	n, err = s.unigrams("news", 7)
	must.True(t, n == 3 && err == nil, "%d unigrams, %v", n, err)
}

func writeVocabulary(t *testing.T, path, words string) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	z := gzip.NewWriter(f)
	must.Get(z.Write([]byte(words)))(t)
	must.Do(t, errors.Join(z.Close(), f.Close()))
}

// beside runs an experiment on the embedded samples and on additional data that more writes.
func beside(t *testing.T, e Experiment, more func(s *Setting)) *Setting {
	t.Helper()
	s := &Setting{Size: Quick, Seed: 1, Threads: 2, experiment: e, dir: t.TempDir()}
	must.Do(t, s.unpack(e.Needs))
	more(s)
	s.cells = must.Get(openCells(filepath.Join(t.TempDir(), "cells.jsonl")))(t)
	must.Do(t, e.Run(t.Context(), s))
	must.Do(t, s.cells.close())
	return s
}

// cellsOf returns the lines of a setting's cells.
func cellsOf(t *testing.T, s *Setting) []byte {
	t.Helper()
	return must.Get(os.ReadFile(s.cells.file.Name()))(t)
}

// TestXGraph checks that an optional set appears in the table once its folder exists, with the paper's numbers.
func TestXGraph(t *testing.T) {
	longtest.NotRaced(t)
	s := beside(t, text, func(s *Setting) {
		must.Do(t, os.CopyFS(s.Path("news_xgraph", ""), os.DirFS(s.Path("news_bbcrypt", ""))))
		if _, err := s.taken(xGraph, "train.svm.gz", vocabulary); err == nil || !strings.Contains(err.Error(), "folder news_xgraph has no vocab.txt.gz: experiment text takes the set if it has train.svm.gz, vocab.txt.gz") {
			t.Errorf("a set without its vocabulary: %v", err)
		}
		writeVocabulary(t, s.Path("news_xgraph", "vocab.txt.gz"), strings.Repeat("word\n", 21512)+"a_pair\n")
	})
	rows := s.result.Tables[0].Rows
	at := slices.IndexFunc(rows, func(row []any) bool { return row[0] == "XGraph" })
	must.True(t, at >= 0 && slices.Contains(rows[at], any(83.10)), "the table has no XGraph, or not the paper's: %v", rows)
	must.True(t, !strings.Contains(strings.Join(s.result.Notes, "\n"), "XGraph"), "a set that is there is called unavailable")
	// A different copy of the set must have different cells.
	before := must.Get(s.taken(xGraph))(t)
	writeVocabulary(t, s.Path(xGraph, vocabulary), strings.Repeat("word\n", 21511)+"a_pair\n")
	after, err := s.taken(xGraph)
	must.True(t, err == nil && after != before, "fingerprints %q and %q, %v", before, after, err)
	must.True(t, strings.Contains(string(cellsOf(t, s)), `"Set":"XGraph","Split":0,"Method":"L2","Data":"`+before), "the cells of the set do not depend on its data")
}

// TestKitchen checks that the kitchen and DVD reviews are used once their folders exist. Claims about kitchen, which is
// in figure 1, must be claims of the paper. Claims about DVDs must be our own.
func TestKitchen(t *testing.T) {
	longtest.NotRaced(t)
	s := beside(t, amazon, func(s *Setting) {
		for _, folder := range []string{"amazon_kitchen", "amazon_dvd"} {
			must.Do(t, os.CopyFS(s.Path(folder, ""), os.DirFS(s.Path("amazon_books", ""))))
		}
	})
	own := map[string][]bool{}
	for _, c := range s.result.Claims {
		if _, set, ok := strings.Cut(c.Claim, "; reviews of "); ok {
			own[set] = append(own[set], c.Own)
		}
	}
	must.True(t, len(own["kitchen"]) == 4 && !slices.Contains(own["kitchen"], true) && len(own["DVDs"]) == 4 && !slices.Contains(own["DVDs"], false) && len(own) == 2,
		"claims of the other sets, and whether they are ours: %v", own)
	levels := s.result.Tables[2]
	must.True(t, levels.Title == "Test error (%) by dropout level, kitchen" && reflect.DeepEqual(levels.Rows, s.result.Tables[0].Rows), "equal reviews have other errors: %q %v", levels.Title, levels.Rows)
	notes := strings.Join(s.result.Notes, "\n")
	must.True(t, !strings.Contains(notes, "not available"), "a set that is there is called unavailable: %s", notes)
	must.Do(t, os.Remove(s.Path("amazon_kitchen", "test.svm.gz")))
	must.ErrorContains(t, amazon.Run(t.Context(), s), "folder amazon_kitchen has no test.svm.gz: experiment amazon takes the set if it has train.svm.gz, test.svm.gz", "half a set")
}

// TestBoosting checks that the results of tools/quality/sensors.py appear in the tables.
func TestBoosting(t *testing.T) {
	longtest.NotRaced(t)
	s := beside(t, sensors, func(s *Setting) {
		must.Do(t, os.Mkdir(s.Path("gradient_boosting", ""), 0o777))
		rows := `[{"set": "elec2, in order", "dead": "features", "told": true, "shares": [0, 0.3, 0.5], "errors": [[10, 10], [9, 9], [20, 22]]},
			{"set": "elec2, in order", "dead": "groups", "told": true, "shares": [0], "errors": [[1, 1]]}]`
		must.Do(t, os.WriteFile(s.Path("gradient_boosting", "sensors.json"), []byte(rows), 0o666))
	})
	var got []any
	for _, table := range s.result.Tables {
		for _, row := range table.Rows {
			if row[0] == "gradient boosting" {
				got = append(got, table.Title, row)
			}
		}
	}
	want := []any{"elec2, in order, features dead: test error, %", []any{"gradient boosting", "missing values as they are", "", nil, "10.0 (0.0)", "21.0 (1.0)"},
		"Test error, %, mean over 30, 50 and 70 % dead", []any{"gradient boosting", "missing values as they are", 15.0, nil, nil}}
	must.True(t, reflect.DeepEqual(got, want), "rows %v, want %v", got, want)
}

// TestPrivatePairs compares NBSVM on two inputs. One has all pairs. The other omits the pairs that occur in a single
// document, and instead has the number of such pairs in each document. The results must be equal.
func TestPrivatePairs(t *testing.T) {
	const words, documents = 25, 60
	r := rand.New(rand.NewPCG(3, 3))
	counts := make([]map[uint32]float64, documents) // columns of words, then of pairs
	in := map[uint32]int{}                          // number of documents that contain each pair
	for i := range counts {
		counts[i] = map[uint32]float64{}
		before, used := uint32(words), map[uint32]bool{}
		for range 4 + r.IntN(12) {
			word := uint32(r.IntN(words)*r.IntN(words)) / words
			if pair := words + before*words + word; before < words {
				if used[pair] { // a private pair counts once per document
					continue
				}
				used[pair] = true
				counts[i][pair]++
				in[pair]++
			}
			counts[i][word]++
			before = word
		}
	}
	build := func(all bool) (textParts, []float64) {
		var b batch.Builder
		var p textParts
		for i, document := range counts {
			e := event.Example{Label: i % 2, Weight: 1}
			for _, column := range slices.Sorted(maps.Keys(document)) {
				if all || column < words || in[column] > 1 {
					eventtest.Put(&e, column, document[column])
				}
			}
			if !all {
				p.private = append(p.private, privatePairs(e.Features, words))
			}
			presence(&e, math.MaxUint32)
			must.Do(t, b.Add(&e))
			if i < documents/2 {
				p.train = append(p.train, i)
			} else {
				p.test = append(p.test, i)
			}
		}
		p.all = b.Data(Binary())
		w := must.Get(p.nbsvm(t.Context(), 1, 1e-10))(t)
		return p, w
	}
	whole, want := build(true)
	told, got := build(false)
	left := 0
	for i := range documents {
		must.Require(t, told.private[i] == whole.all.Row(i).Len()-told.all.Row(i).Len(), "document %d: %d private pairs, %d are left out", i, told.private[i], whole.all.Row(i).Len()-told.all.Row(i).Len())
		left += told.private[i]
		a, b := whole.all.Row(i).Dot(want), told.all.Row(i).Dot(got)
		must.True(t, i < documents/2 || math.Abs(a-b) <= 1e-4, "document %d: score %g with the pairs counted, %g with all", i, b, a)
	}
	must.True(t, left >= documents, "%d private pairs try nothing", left)
}

// TestNoisyData checks that the order of examples is the same with right and with wrong labels, and that the true
// labels are stored. Every cross-validation row must be tested once.
func TestNoisyData(t *testing.T) {
	c := labelNoiseConfig{Validation: 0.3}
	draw := func(fraction float64) *noisyData {
		r := rand.New(rand.NewPCG(3, 3))
		examples := must.List(500, func(int) event.Example { return longServedio(r) })
		return newNoisyData(examples, c, fraction, rand.New(rand.NewPCG(4, 4)))
	}
	right, wrong := draw(0), draw(0.1)
	flipped := 0
	for i := range right.truth {
		must.Require(t, right.truth[i] == wrong.truth[i] && right.examples[i].Label == right.truth[i], "row %d: another order", i)
		if wrong.all.Label(i) != wrong.truth[i] {
			flipped++
		}
	}
	must.True(t, flipped >= 30 && flipped <= 70 && right.held == 150, "%d of 500 labels are wrong, %d rows choose", flipped, right.held)
	tested := make([]int, 500)
	for k := range 10 {
		in, out := heldOutFold(rowsFrom(right.held, 500), 10, k)
		must.True(t, len(in)+len(out) == 350, "fold %d: %d and %d rows", k, len(in), len(out))
		for _, row := range out {
			tested[row]++
		}
	}
	for i, n := range tested {
		must.True(t, (i < 150) == (n == 0) && n <= 1, "row %d is tested %d times", i, n)
	}
}

// TestRareDraws checks both readings of the paper's appendix. The second moment of the useful features must be 1, like
// the second moment of all features. Under one reading the features of a group must be equal.
func TestRareDraws(t *testing.T) {
	c := rareConfig{Kinds: 25, Groups: 5, Group: 10, Nuisance: 1, Beta: 0.057}
	for _, shared := range []bool{true, false} {
		d, active := c.draw(rand.New(rand.NewPCG(2, 2)), 20000, shared)
		square, signals := 0.0, 0
		for i := range d.Rows() {
			if !active[i] {
				continue
			}
			signals++
			row := d.Row(i)
			for j := range c.Group {
				square += row.At(j) * row.At(j)
			}
			same := row.At(0) == row.At(9)
			must.Require(t, same == shared, "one draw %t, features %g and %g", shared, row.At(0), row.At(9))
		}
		moment := square / float64(50*d.Rows())
		must.True(t, math.Abs(moment-1) <= 0.05 && signals == 4000, "one draw %t: second moment %g, %d signals", shared, moment, signals)
	}
}

func TestSpikes(t *testing.T) {
	xi := slices.Concat(slices.Repeat([]float64{0.1}, 10), slices.Repeat([]float64{0.12}, 10), slices.Repeat([]float64{0.8}, 10))
	for i := range 30 {
		xi = append(xi, 0.3+0.01*float64(i))
	}
	must.EqualSlices(t, spikes(xi), []float64{0.1, 0.8}, "spikes")
}

// TestChosenWithUnlabeled checks that level and penalty are chosen again, from the whole grid, if unlabeled documents
// are used.
func TestChosenWithUnlabeled(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	var documents []event.Example
	for i := range 240 {
		e := event.Example{Label: i % 2, Weight: 1}
		for word := range uint32(40) {
			p := must.Either(word < 16 && int(word)%2 == e.Label, 0.3, 0.15)
			if r.Float64() < p {
				eventtest.Put(&e, word, 1)
			}
		}
		documents = append(documents, e)
	}
	d := dataOf(Binary(), documents)
	s := &Setting{Size: Default, Seed: 1, Threads: 2}
	s.cells = must.Get(openCells(filepath.Join(t.TempDir(), "cells.jsonl")))(t)
	defer s.cells.close()
	c := textConfig{Folds: 5, Alphas: []float64{0.4, 1}, Plain: []textModel{{Bound: "gaussian", Noise: "none", L2: 1}},
		Noisy: append(textGrid("quadratic-noising", []float64{0.3, 0.9}, []float64{0.01, 1}), textGrid("gaussian", []float64{0.5}, []float64{0.1})...)}
	other := 0 // number of divisions for which the choice differs
	for split := range 6 {
		p := thirds(d, rand.New(rand.NewPCG(1, uint64(split))))
		got := must.Get(c.scores(t.Context(), s, "made", "", split, p, func() (textParts, error) { return p, nil }))(t)
		without, with := got[textDropout].Model, got[textFree].Model
		must.Require(t, without.Alpha == 0 && slices.Contains(c.Alphas, with.Alpha) && with.Bound == without.Bound, "division %d: %v without unlabeled documents, %v with them", split, without, with)
		if with.Noise != without.Noise || with.L2 != without.L2 {
			other++
		}
	}
	must.True(t, other != 0, "level and penalty with unlabeled documents are always those without")
}

// TestDivisions checks that the standard error of a gain is computed from its differences by division. A document must
// count once in a verdict, even if several divisions test it.
func TestDivisions(t *testing.T) {
	score := func(from, to mistakes) []textScore {
		s := make([]textScore, textMethods)
		s[textDropout].Wrong, s[textFree].Wrong = from, to
		return s
	}
	// The gains are 50, 0 and 50 points. The accuracies vary more than their difference does.
	scores := [][]textScore{score(mistakes{1, 1}, mistakes{1, 0}), score(mistakes{0, 0}, mistakes{0, 0}), score(mistakes{1, 0}, mistakes{0, 0})}
	must.Equal(t, byDivision(scores, textDropout, textFree), "+33.33 (16.67)", "gain")
	must.Equal(t, byDivision(scores[:1], textDropout, textFree), "+50.00", "gain of one division")
	// Document 7 is tested in all three divisions, and has a better prediction in two of them.
	d := byDocument(scores, [][]int{{3, 7}, {7, 4}, {7, 5}}, textDropout, textFree)
	want := 100 * (0 + 2./3 + 0 + 0) / 4
	must.True(t, math.Abs(d.Mean-want) <= 1e-9 && d.Low < d.Mean, "difference by document %v, want %g", d, want)
	table := gains([]string{"made"}, map[string][][]textScore{"made": scores})
	row := table.Rows[0]
	must.True(t, len(row) == len(table.Columns) && row[1] == 3 && row[3] == "+33.33 (16.67)", "row %v", row)
}

// TestWholeSets checks that a set is used whole once the store has all its cells of that size. It checks figures 3 and
// 4, and figure 5. The report must list the size. A set without one of the cells must be cut.
func TestWholeSets(t *testing.T) {
	longtest.Only(t)
	longtest.NotRaced(t)
	out := t.TempDir()
	run := func() (used, trained []any, notes string) {
		t.Helper()
		must.Get(Run(t.Context(), labelNoise, Options{Size: Quick, Out: out, Seed: 1}))(t)
		r := must.Get(readResult(filepath.Join(out, "results.json")))(t)
		at := slices.IndexFunc(r.Tables, func(t ResultTable) bool { return t.Title == "Examples used" })
		return r.Tables[at].Rows[1][2:], r.Tables[at].Rows[2][2:], strings.Join(r.Notes, "\n")
	}
	// rename changes cells of USPS-N for 60 examples to cells for all 80 examples. It skips the last skip cells.
	rename := func(kind, from, to string, skip int) {
		t.Helper()
		name := filepath.Join(out, "cells.jsonl")
		data := must.Get(os.ReadFile(name))(t)
		lines := strings.SplitAfter(string(data), "\n")
		var at []int
		for i, line := range lines {
			if strings.Contains(line, `"cell":["`+kind+`",`) && strings.Contains(line, `"USPS-N"`) && strings.Contains(line, from) {
				at = append(at, i)
			}
		}
		must.Require(t, len(at) > skip, "%d cells of kind %s with %s", len(at), kind, from)
		for _, i := range at[:len(at)-skip] {
			lines[i] = strings.Replace(lines[i], from, to, 1)
		}
		must.Do(t, os.WriteFile(name, []byte(strings.Join(lines, "")), 0o666))
	}
	cut, cutRows := []any{60., 60., 60., 60., 60., 60.}, []any{40., 40., 40., 40., 40., 40.}
	whole, wholeRows := slices.Clone(cut), slices.Clone(cutRows)
	whole[3], wholeRows[3] = 80., 56. // 24 of the 80 choose lambda
	for _, c := range []struct {
		kind, from, to string
		skip           int
		used, trained  []any
		says           string
	}{
		{used: cut, trained: cutRows, says: "Long-Servedio, Mease-Wyner, Mushrooms, USPS-N, Adult, Web to the first 60"},
		{"fit", `"examples":60`, `"examples":80`, 1, cut, cutRows, "USPS-N"},
		{"fit", `"examples":60`, `"examples":80`, 0, whole, cutRows, "Mushrooms, Adult, Web to the first 60 examples. Figure 5 trains on 40"},
		{"starts", `["starts",5,40,"USPS-N"`, `["starts",5,56,"USPS-N"`, 0, whole, wholeRows, "Mushrooms, Adult, Web to"},
	} {
		if c.kind != "" {
			rename(c.kind, c.from, c.to, c.skip)
		}
		used, trained, notes := run()
		must.True(t, fmt.Sprint(used) == fmt.Sprint(c.used) && fmt.Sprint(trained) == fmt.Sprint(c.trained) && strings.Contains(notes, c.says),
			"all but %d cells of kind %q are whole: %v used, want %v; figure 5 trains on %v, want %v; notes %s", c.skip, c.kind, used, c.used, trained, c.trained, notes)
	}
}

// TestMistakesText checks that the text of mistakes can be parsed, and that truncated text is rejected.
func TestMistakesText(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for n := range 40 {
		m := make(mistakes, n)
		for i := range m {
			m[i] = byte(r.IntN(2))
		}
		var back mistakes
		data, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		must.Require(t, err == nil && slices.Equal(back, m), "%v is %s, and back %v, %v", m, data, back, err)
	}
	var m mistakes
	for _, text := range []string{"", "8:", "9:AA", "x:AA", "-1:", "8:A?"} {
		must.Fails(t, m.UnmarshalText([]byte(text)), text, "is read as", m)
	}
}
