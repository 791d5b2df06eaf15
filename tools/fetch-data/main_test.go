package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"blankout/internal/must"
)

// archive returns a .tar.gz archive with the files in the given order.
func archive(t *testing.T, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		must.Do(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Typeflag: tar.TypeReg}))
		must.Do(t, must.Err(io.WriteString(w, f[1])))
	}
	must.Do(t, w.Close())
	must.Do(t, z.Close())
	return b.Bytes()
}

func content(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	must.Do(t, lines(file, func(line string) error { all = append(all, line); return nil }))
	return all
}

// TestConvert converts originals of a few lines in the publishers' layouts.
func TestConvert(t *testing.T) {
	picture := func(class byte) string { return string(append([]byte{class}, make([]byte, 3072)...)) }
	originals := map[string][]byte{
		"aclImdb_v1.tar.gz": archive(t, [2]string{"aclImdb/train/pos/0_9.txt", strings.Repeat("Good film!<br />", 3)}, [2]string{"aclImdb/train/neg/0_1.txt", "bad film"},
			[2]string{"aclImdb/test/pos/0_9.txt", "good"}, [2]string{"aclImdb/test/neg/0_1.txt", "bad"},
			[2]string{"aclImdb/train/unsup/0_0.txt", "good film"}, [2]string{"aclImdb/train/unsup/1_0.txt", "good film"}, [2]string{"aclImdb/train/unsup/2_0.txt", "good film"}, [2]string{"aclImdb/train/unsup/3_0.txt", "good film &amp; film"}),
		"rt-polaritydata.tar.gz": archive(t, [2]string{"rt-polaritydata/rt-polarity.neg", "it's bad , bad\nvery bad\n"}, [2]string{"rt-polaritydata/rt-polarity.pos", "caf\xe9 good\n"}),
		"20news-bydate.tar.gz": archive(t, [2]string{"20news-bydate-train/alt.atheism/1", "From: someone\nSubject: gods\n\nno gods"}, [2]string{"20news-bydate-train/talk.religion.misc/2", "From: x\n\na god\n"},
			[2]string{"20news-bydate-test/alt.atheism/3", "From: x\n\ngods\n\nfrom"}, [2]string{"20news-bydate-test/sci.crypt/4", "From: x\n\nkey"}),
		"cifar-10-binary.tar.gz": archive(t, [2]string{"c/test_batch.bin", picture(3)}, [2]string{"c/data_batch_2.bin", picture(1)}, [2]string{"c/data_batch_1.bin", picture(0) + picture(9)},
			[2]string{"c/data_batch_3.bin", picture(1)}, [2]string{"c/data_batch_4.bin", picture(1)}, [2]string{"c/data_batch_5.bin", picture(1)}),
		"mushrooms":                  []byte("1 3:1\n2 4:1 \n1 3:1\n2 4:1\n1 3:1\n2 4:1\n1 3:1\n2 4:1\n1 3:1\n2 4:1\n"),
		"elec2_data.dat":             []byte("0 2 0.5\n0.1 3 0\n"),
		"elec2_label.dat":            []byte("1\n0\n"),
		"train-images-idx3-ubyte.gz": []byte("as"), "train-labels-idx1-ubyte.gz": []byte("they"), "t10k-images-idx3-ubyte.gz": []byte("are"), "t10k-labels-idx1-ubyte.gz": []byte("!"),
	}
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, ".originals"), 0o777))
	for name, data := range originals {
		must.Do(t, os.WriteFile(filepath.Join(dir, ".originals", name), data, 0o666))
	}
	var said bytes.Buffer
	must.Do(t, run(t.Context(), []string{"-o", dir, "imdb", "rt_polarity", "news_athr", "cifar10_subset", "mushrooms", "elec2", "mnist"}, &said))
	for file, want := range map[string][]string{
		"imdb/vocab.txt.gz":        {"film", "good"}, // all pairs, and the word "bad", are too rare
		"imdb/test.svm.gz":         {"-1", "1 2:1"},
		"rt_polarity/vocab.txt.gz": {"bad", "caf", "good", "it's", "very"},
		"news_athr/vocab.txt.gz":   {"a", "god", "gods", "no"},
		"news_athr/test.svm.gz":    {"1 3:1"},
		"elec2/stream.svm.gz":      {"1 2:2 3:0.5", "-1 1:0.1 2:3"},
		"mushrooms/test.svm.gz":    {"-1 3:1", "1 4:1"},
	} {
		got := content(t, filepath.Join(dir, file))
		if strings.HasPrefix(file, "imdb/test") || strings.HasPrefix(file, "mushrooms") { // these files are shuffled
			for _, line := range want {
				must.True(t, strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+line+"\n"), "%s: %q lacks %q", file, got, line)
			}
			want = got
		}
		must.True(t, fmt.Sprint(got) == fmt.Sprint(want), "%s: %q, want %q", file, got, want)
	}
	must.Equal(t, len(content(t, filepath.Join(dir, "imdb/unlabeled.svm.gz"))), 4, "unlabeled reviews")
	z := must.Get(os.Open(filepath.Join(dir, "cifar10_subset/train.bin.gz")))(t)
	defer z.Close()
	r := must.Get(gzip.NewReader(z))(t)
	data, err := io.ReadAll(r)
	must.True(t, err == nil && len(data) == 6*3073 && data[0] == 0 && data[3073] == 9 && data[2*3073] == 1, "CIFAR: %d bytes, %v", len(data), err)
	if data, err := os.ReadFile(filepath.Join(dir, "mnist/t10k-images-idx3-ubyte.gz")); err != nil || string(data) != "are" {
		t.Errorf("MNIST: %q, %v", data, err)
	}
	must.True(t, strings.Contains(said.String(), "news_athr/train.svm.gz: ") && strings.Contains(said.String(), ", 2 examples"), "said %s", said.String())
	// A set that exists must not be changed. An archive with an unexpected layout must leave no files.
	said.Reset()
	if err := run(t.Context(), []string{"-o", dir, "elec2"}, &said); err != nil || said.String() != "elec2 is there\n" {
		t.Errorf("again: %q, %v", said.String(), err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, ".originals", "review_polarity.tar.gz"), archive(t, [2]string{"readme", "nothing"}), 0o666))
	must.ErrorContains(t, run(t.Context(), []string{"-o", dir, "imdb_2k"}, &said), "imdb_2k: no document for all", "error")
	must.Fails(t, must.Err(os.Stat(filepath.Join(dir, "imdb_2k"))), "a folder of nothing stays")
}

func TestDownload(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			io.WriteString(w, "content")
		case "/short":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "content")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "new", "file")
	for _, path := range []string{"/missing", "/short"} {
		must.Fails(t, download(t.Context(), server.URL+path, file), path, "no error")
		must.Fails(t, must.Err(os.Stat(file)), path, "there is a file")
	}
	must.Do(t, download(t.Context(), server.URL+"/file", file))
	data, err := os.ReadFile(file)
	must.True(t, err == nil && string(data) == "content", "%q, %v", data, err)
	must.Do(t, os.Remove(file))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fails(t, download(ctx, server.URL+"/file", file), "a stopped download succeeds")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-o", t.TempDir(), "nothing"}} {
		must.Fails(t, run(t.Context(), args, io.Discard), args, "no error")
	}
}
