// Command fetch-data downloads public data sets and writes them in the layout that go run ./cmd/papers NAME --data
// reads, with a folder for each set:
//
//	go run ./tools/fetch-data -o data            # every set
//	go run ./tools/fetch-data -o data imdb subj  # these
//
// A set that already exists is not changed. Downloads are kept in data/.originals, so that a second run continues where
// the first run was stopped. You can also put a downloaded file there yourself, under its name in the list.
//
// The publishers provide no checksums, so compare the printed counts with the published counts. This program makes its
// own vocabularies and random splits, so results differ slightly from the results in docs/results.
package main

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// set is a data set: its downloads, and the function that converts them to the files of its folder.
type set struct {
	name, what string
	urls       []string
	// make writes the files into dir. The slice originals has the downloaded files, in the order of urls.
	make func(dir string, originals []string) error
}

// sets is the table of data sets. To add a data set, add a line here.
var sets = []set{
	{"mnist", "handwritten digits", []string{
		"https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz", "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
		"https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz", "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz"}, copies},
	{"cifar10_subset", "CIFAR-10, of each class 800 images and 200 for the test", []string{"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"}, cifar},
	{"imdb", "Large Movie Review Dataset v1.0", []string{"https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"}, imdb},
	{"imdb_2k", "movie review polarity v2.0", []string{pang + "review_polarity.tar.gz"}, imdb2k},
	{"subj", "subjectivity v1.0", []string{pang + "rotten_imdb.tar.gz"}, sentences("plot.tok.gt9.5000", "quote.tok.gt9.5000")},
	{"rt_polarity", "sentence polarity v1.0", []string{pang + "rt-polaritydata.tar.gz"}, sentences("rt-polarity.neg", "rt-polarity.pos")},
	{"news_athr", "20 newsgroups by date: atheism, religion", []string{news}, newsgroups("talk.religion.misc", "alt.atheism")},
	{"news_bbcrypt", "20 newsgroups by date: cryptography, baseball", []string{news}, newsgroups("sci.crypt", "rec.sport.baseball")},
	{"news_xgraph", "20 newsgroups by date: computer graphics, the X window system", []string{news}, newsgroups("comp.graphics", "comp.windows.x")},
	{"amazon_books", "Amazon reviews of books", []string{amazon}, reviews("books")},
	{"amazon_kitchen", "of kitchen and housewares", []string{amazon}, reviews("kitchen_&_housewares")},
	{"amazon_dvd", "of DVDs", []string{amazon}, reviews("dvd")},
	{"amazon_electronics", "of electronics", []string{amazon}, reviews("electronics")},
	{"a9a", "Adult", []string{libsvm + "binary/a9a", libsvm + "binary/a9a.t"}, svmlight},
	{"w8a", "web pages", []string{libsvm + "binary/w8a", libsvm + "binary/w8a.t"}, svmlight},
	{"mushrooms", "edible or poisonous", []string{libsvm + "binary/mushrooms"}, svmlight},
	{"usps", "zip-code digits", []string{libsvm + "multiclass/usps.bz2", libsvm + "multiclass/usps.t.bz2"}, usps},
	{"elec2", "electricity prices", []string{drift + "realWorld/Elec2/elec2_data.dat", drift + "realWorld/Elec2/elec2_label.dat"}, columns},
	{"sea", "SEA concepts", []string{drift + "artificial/sea/SEA_training_data.csv", drift + "artificial/sea/SEA_training_class.csv"}, columns},
}

const (
	pang   = "https://www.cs.cornell.edu/people/pabo/movie-review-data/"
	amazon = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment/domain_sentiment_data.tar.gz"
	news   = "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz"
	libsvm = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
	drift  = "https://raw.githubusercontent.com/vlosing/driftDatasets/master/"
)

// byHand lists the sets that a program cannot download in one step.
const byHand = `Not fetched; put gzipped svmlight files there yourself:
  airlines_50k/stream.svm.gz  flights in time order (Data Expo 2009), one-hot; late is 1, else -1
  spam_stream/stream.svm.gz   e-mails in time order (Katakis et al.), presence of words; spam is 1, else -1
  gas_drift/stream.svm.gz     UCI Gas Sensor Array Drift, batches in order; labels 0 to 5
  uci/NAME.svm.gz             UCI: heart, pima, ionosphere, german, australian, glass, ...`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fetch-data:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("fetch-data", flag.ContinueOnError)
	out := flags.String("o", "", "the folder for the data sets")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run ./tools/fetch-data -o DIR [SET...]")
		for _, s := range sets {
			fmt.Fprintf(flags.Output(), "  %-15s %s\n                  %s\n", s.name, s.what, strings.Join(s.urls, "\n                  "))
		}
		fmt.Fprintln(flags.Output(), byHand)
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *out == "" {
		return errors.New("name the folder for the data sets with -o (-h lists them)")
	}
	for _, name := range flags.Args() {
		if !slices.ContainsFunc(sets, func(s set) bool { return s.name == name }) {
			return fmt.Errorf("unknown set %q (-h lists them)", name)
		}
	}
	var failed []error
	for _, s := range sets {
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), s.name) {
			continue
		}
		if err := s.fetch(ctx, *out, w); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(w, byHand)
	}
	return errors.Join(failed...)
}

// fetch creates the folder of a set. If it fails, it leaves no partial folder.
func (s set) fetch(ctx context.Context, out string, w io.Writer) error {
	dir := filepath.Join(out, s.name)
	if _, err := os.Stat(dir); err == nil {
		fmt.Fprintf(w, "%s is there\n", s.name)
		return nil
	}
	var originals []string
	for _, url := range s.urls {
		file := filepath.Join(out, ".originals", path.Base(url))
		if err := download(ctx, url, file); err != nil {
			return err
		}
		originals = append(originals, file)
	}
	unfinished := dir + ".unfinished"
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o777)); err != nil {
		return err
	}
	if err := s.make(unfinished, originals); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s/%s: %d bytes", s.name, f.Name(), info.Size())
		if strings.HasSuffix(f.Name(), ".svm.gz") {
			n, err := countLines(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(w, ", %d examples", n)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// download downloads a file unless it already exists.
func download(ctx context.Context, url, file string) (err error) {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(file + ".unfinished")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, answer.Body)
	if err == nil && answer.ContentLength >= 0 && n != answer.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return os.Rename(f.Name(), file)
}

// lines calls f for every line of a file. It decompresses the file if its name ends in an extension for compressed
// files.
func lines(file string, f func(line string) error) error {
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	var in io.Reader = r
	switch {
	case strings.HasSuffix(file, ".bz2"):
		in = bzip2.NewReader(r)
	case strings.HasSuffix(file, ".gz"):
		if in, err = gzip.NewReader(r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		if err := f(scan.Text()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func countLines(file string) (n int, err error) {
	err = lines(file, func(string) error { n++; return nil })
	return n, err
}

// each calls f for every file in a .tar.gz archive, in the archive's order.
func each(archive string, f func(name string, r io.Reader) error) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := f(h.Name, t); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, h.Name, err)
		}
	}
}

// write writes a gzipped file.
func write(file string, f func(w *bufio.Writer) error) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	w := bufio.NewWriter(z)
	return errors.Join(f(w), w.Flush(), z.Close(), out.Close())
}
