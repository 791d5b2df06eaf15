package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// copies copies the original files to dir without changes.
func copies(dir string, originals []string) error {
	for _, o := range originals {
		data, err := os.ReadFile(o)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(o)), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// svmlight packs a training file and a test file. If there is only one original file, a random fifth of each class
// becomes the test set.
func svmlight(dir string, originals []string) error {
	parts := make([][]string, len(originals))
	for i, o := range originals {
		if err := lines(o, func(line string) error {
			if line = strings.TrimSpace(line); line != "" {
				parts[i] = append(parts[i], line)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if len(parts) == 1 {
		r := rand.New(rand.NewPCG(1, 1))
		r.Shuffle(len(parts[0]), func(i, j int) { parts[0][i], parts[0][j] = parts[0][j], parts[0][i] })
		seen := map[string]int{}
		var train, test []string
		for _, line := range parts[0] {
			label, _, _ := strings.Cut(line, " ")
			if seen[label]++; seen[label]%5 == 0 {
				test = append(test, line)
			} else {
				train = append(train, line)
			}
		}
		parts = [][]string{train, test}
	}
	// The output has the labels -1 and 1 for any two labels of the original.
	var labels []string
	for _, line := range parts[0] {
		if label, _, _ := strings.Cut(line, " "); !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	slices.SortFunc(labels, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return int(x - y)
	})
	for i, name := range []string{"train.svm.gz", "test.svm.gz"} {
		err := write(filepath.Join(dir, name), func(w *bufio.Writer) error {
			for _, line := range parts[i] {
				label, rest, _ := strings.Cut(line, " ")
				if at := slices.Index(labels, label); len(labels) == 2 && at >= 0 {
					label = strconv.Itoa(2*at - 1)
				}
				fmt.Fprintln(w, label, rest)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// usps converts labels 1 to 10 to 0 to 9 and pixels from [-1, 1] to [0, 1].
func usps(dir string, originals []string) error {
	for i, name := range []string{"train.svm.gz", "test.svm.gz"} {
		err := rewrite(filepath.Join(dir, name), originals[i], "", func(w *bufio.Writer, fields []string) error {
			digit, err := strconv.Atoi(fields[0])
			if err != nil {
				return err
			}
			fmt.Fprint(w, digit-1)
			for _, f := range fields[1:] {
				column, value, _ := strings.Cut(f, ":")
				x, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return err
				}
				if x = (x + 1) / 2; x != 0 {
					fmt.Fprintf(w, " %s:%.4g", column, x)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes a file with a line for each line of the original that has fields. The fields are divided by the
// separators or by white space.
func rewrite(file, original, separators string, f func(w *bufio.Writer, fields []string) error) error {
	return write(file, func(w *bufio.Writer) error {
		return lines(original, func(line string) error {
			fields := strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(separators, r) })
			if len(fields) == 0 {
				return nil
			}
			return errors.Join(f(w, fields), w.WriteByte('\n'))
		})
	})
}

// columns combines a file of numbers and a file of labels 0 and 1 into a stream.
func columns(dir string, originals []string) error {
	var labels []string
	err := lines(originals[1], func(line string) error {
		if line = strings.TrimSpace(line); line == "" {
			return nil
		}
		x, err := strconv.ParseFloat(line, 64)
		if labels = append(labels, "-1"); x > 0 {
			labels[len(labels)-1] = "1"
		}
		return err
	})
	if err != nil {
		return err
	}
	n := 0
	err = rewrite(filepath.Join(dir, "stream.svm.gz"), originals[0], ",", func(w *bufio.Writer, numbers []string) error {
		if n == len(labels) {
			return fmt.Errorf("more than %d lines, as many as labels", n)
		}
		fmt.Fprint(w, labels[n])
		n++
		for i, text := range numbers {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			if x != 0 {
				fmt.Fprintf(w, " %d:%g", i+1, x)
			}
		}
		return nil
	})
	if err == nil && n != len(labels) {
		err = fmt.Errorf("%d lines for %d labels", n, len(labels))
	}
	return err
}

// cifar keeps the first 800 images of each class from the training batches, and the first 200 images of each class from
// the test batch. The output has the original binary format.
func cifar(dir string, originals []string) error {
	const record = 1 + 3*32*32
	parts := map[string][]byte{}
	count := map[string]*[10]int{"train": {}, "test": {}}
	want := map[string]int{"train": 800, "test": 200}
	// The batches in the archive are not in ascending order.
	batches := map[string][]byte{}
	err := each(originals[0], func(name string, r io.Reader) error {
		if filepath.Ext(name) != ".bin" {
			return nil
		}
		data, err := io.ReadAll(r)
		batches[filepath.Base(name)] = data
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"} {
		data, part := batches[name], "train"
		if name == "test_batch.bin" {
			part = "test"
		}
		if len(data) == 0 || len(data)%record != 0 {
			return fmt.Errorf("%s: %s has %d bytes, no multiple of %d", originals[0], name, len(data), record)
		}
		for ; len(data) > 0; data = data[record:] {
			class := data[0]
			if class > 9 {
				return fmt.Errorf("%s: %s: class %d", originals[0], name, class)
			}
			if count[part][class] < want[part] {
				count[part][class]++
				parts[part] = append(parts[part], data[:record]...)
			}
		}
	}
	for part, data := range parts {
		err := write(filepath.Join(dir, part+".bin.gz"), func(w *bufio.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
