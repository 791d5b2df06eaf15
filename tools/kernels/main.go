// Command kernels writes the assembly files of the product, which are the loops that most time goes to, for amd64. Each
// function does what a Go function of the same package does, which is its test and which other processors use. It sums
// in the same order, so all processors get equal bits.
//
// It is a module of its own, so that nothing else needs avo. Run it in its folder:
//
//	go run .          writes the files
//	go run . -check   fails if a file is not as it would be written
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files lists the files and what emits them.
var files = []struct {
	name string
	emit func(*assembly)
}{
	{"batch/rows_amd64.s", gathers},
	{"internal/loss/mixture_amd64.s", exponentials},
	{"internal/model/kernel_amd64.s", products},
	{"online/experts/additive/block_amd64.s", splines},
	{"online/experts/newton/covariance_amd64.s", covariances},
	{"online/rows/kernel_amd64.s", rows},
	{"stream/record/entries_amd64.s", entries},
}

func main() {
	check := flag.Bool("check", false, "write nothing, fail if a file is not as it would be written")
	flag.Parse()
	for _, f := range files {
		if err := write(filepath.Join("../..", filepath.FromSlash(f.name)), f.emit, *check); err != nil {
			fmt.Fprintf(os.Stderr, "kernels: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// beyond matches registers that processors without AVX-512 lack.
var beyond = regexp.MustCompile(`\b[XY](1[6-9]|[23]\d)\b`)

func write(name string, emit func(*assembly), check bool) error {
	a := &assembly{Context: build.NewContext()}
	emit(a)
	file, err := a.Result()
	if err != nil {
		build.LogError(log.Default(), err, 0)
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	text, err := printer.NewGoAsm(printer.Config{Argv: []string{"go", "run", "./tools/kernels"}}).Print(file)
	if err != nil {
		return err
	}
	if m := beyond.Find(text); m != nil {
		return fmt.Errorf("register %s is for AVX-512 only", m)
	}
	if !check {
		return os.WriteFile(name, text, 0o644)
	}
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, text) {
		return fmt.Errorf("not as go run . writes it (%v)", err)
	}
	return nil
}
