// Command mutation changes the code in small ways, one at a time, and looks whether
// the tests of the package notice: an operator or a number is another one, a
// condition always or never holds, a statement is missing. It tests a sample of
// such mutants of the packages that hold state and numbers, the same one for the
// same seed, and tells the share that is caught. The work tree is not touched.
//
//	go run ./tools/mutation [-seed N] [-packages NAME,…] [-scale SHARE] [-again FILE]
//
// A mutant that does not compile is passed over, and the next one is drawn. One that
// no test can notice because the program does the same is listed in equivalent.txt
// with the reason, and does not count.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is a package, those of its files that are changed, and how many mutants
// are drawn.
type target struct {
	name  string // its folder; "." is the module's root
	files string // patterns of names; tests and what depends on the machine never count
	count int
}

var targets = []target{
	{".", "*", 30},
	{"loss", "*", 20},
	{"online", "*", 45},
	{"run", "*", 20},
	{"validate", "*", 15},
	{"checkpoint", "*", 25},
	{"record", "*", 40},
	{"stream", "recordbatch repeated", 10},
	{"batch", "certificate objective expected penalty ramp mcf tlogistic sum standardise", 30},
	{"predict", "*", 20},
}

// slowTest is how long a test may take to be run before the others.
const slowTest = 300 * time.Millisecond

//go:embed equivalent.txt
var equivalentText string

func main() {
	seed := flag.Uint64("seed", 1, "of the sample")
	packages := flag.String("packages", "", "only these, as \"online,stream\"")
	scale := flag.Float64("scale", 1, "times the number of mutants of each package")
	again := flag.String("again", "", "test only the mutants that survive in this output of another run")
	wrap := flag.String("wrap", "nice", "command that every build and test is run by")
	list := flag.Bool("list", false, "print the sample and test nothing")
	flag.Parse()
	r := runner{wrap: strings.Fields(*wrap)}
	err := r.run(*seed, *scale, *packages, *again, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

type runner struct {
	wrap       []string
	root, temp string
}

// outcome says what became of a mutant.
type outcome string

const (
	caught     outcome = "caught"
	survived   outcome = "SURVIVED"
	uncovered  outcome = "UNCOVERED" // survived, and no test runs the line
	equivalent outcome = "equivalent"
	invalid    outcome = "" // does not compile
)

func (r *runner) run(seed uint64, scale float64, packages, again string, list bool) error {
	same, err := readEquivalent(equivalentText)
	if err != nil {
		return err
	}
	var only []string
	if again != "" {
		if only, err = survivors(again); err != nil {
			return err
		}
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return err
	}
	r.root = strings.TrimSpace(string(root))
	if r.temp, err = os.MkdirTemp("", "mutation"); err != nil {
		return err
	}
	defer os.RemoveAll(r.temp)
	counts := map[string]map[outcome]int{}
	for _, t := range targets {
		if packages != "" && !slices.Contains(strings.Split(packages, ","), t.name) {
			continue
		}
		all, err := t.mutants(r.root)
		if err != nil {
			return err
		}
		drawn, want := sample(all, seed), int(math.Ceil(scale*float64(t.count)))
		fmt.Printf("package %s: %d of %d mutants, seed %d\n", t.name, min(want, len(all)), len(all), seed)
		if list {
			for _, m := range drawn[:min(want, len(drawn))] {
				fmt.Println(m.key())
			}
			continue
		}
		if only != nil {
			drawn = slices.DeleteFunc(drawn, func(m mutant) bool { return !slices.Contains(only, m.key()) })
			if len(drawn) == 0 {
				continue
			}
		}
		base, err := r.baseline(t)
		if err != nil {
			return err
		}
		c := map[outcome]int{}
		counts[t.name] = c
		for _, m := range drawn {
			if c[caught]+c[survived]+c[uncovered]+c[equivalent] == want {
				break
			}
			is, by, err := r.test(t, base, m)
			if err != nil {
				return err
			}
			reason, known := same[m.key()]
			switch {
			case is == invalid:
				continue
			case is == caught && known:
				return fmt.Errorf("%s is caught by %s: take it off equivalent.txt", m.key(), by)
			case known:
				is, by = equivalent, reason
			}
			c[is]++
			fmt.Printf("%-10s %s", is, m)
			if by != "" {
				fmt.Printf(" [%s]", by)
			}
			fmt.Println()
			if is == survived || is == uncovered {
				fmt.Println("key:", m.key())
			}
		}
	}
	if !list {
		report(counts)
	}
	return nil
}

// report prints the table of docs/reliability.md.
func report(counts map[string]map[outcome]int) {
	fmt.Print("\n| package | mutants | equivalent | caught | survived | share caught |\n|---|---|---|---|---|---|\n")
	row := func(name string, c map[outcome]int) {
		missed := c[survived] + c[uncovered]
		fmt.Printf("| %s | %d | %d | %d | %d | %.0f %% |\n", name, c[caught]+missed+c[equivalent], c[equivalent], c[caught], missed, 100*float64(c[caught])/float64(max(1, c[caught]+missed)))
	}
	sum := map[outcome]int{}
	for _, t := range targets {
		c, ok := counts[t.name]
		if !ok {
			continue
		}
		name := "`" + t.name + "`"
		if t.name == "." {
			name = "`blankout`"
		}
		row(name, c)
		for o, n := range c {
			sum[o] += n
		}
	}
	row("all", sum)
}

func (t target) mutants(root string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(root, t.name, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".go")
		if strings.HasSuffix(name, "_test") || regexp.MustCompile(`_(amd64|other|linux|unix|windows)$`).MatchString(name) {
			continue
		}
		if t.files != "*" && !slices.Contains(strings.Fields(t.files), name) {
			continue
		}
		m, err := mutantsOf(root, filepath.Join(t.name, name+".go"))
		if err != nil {
			return nil, err
		}
		all = append(all, m...)
	}
	return all, nil
}

// baseline is what the tests of a package do to the code as it is.
type baseline struct {
	slow    string        // a pattern of the tests that take long, "" for none
	skip    string        // and of those that fail
	took    time.Duration // all of them
	covered map[string][]block
}

type block struct {
	fromLine, fromColumn, toLine, toColumn int
	hit                                    bool
}

func (r *runner) baseline(t target) (b baseline, err error) {
	profile := filepath.Join(r.temp, "cover")
	began := time.Now()
	out, err := r.command(r.root, "go", "test", "-count=1", "-json", "-coverprofile="+profile, "./"+t.name).Output()
	b.took = time.Since(began)
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return b, err
	}
	var slow, broken []string
	for line := range bytes.Lines(out) {
		var e struct {
			Action, Test string
			Elapsed      float64
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return b, err
		}
		if e.Action == "fail" && e.Test != "" && !strings.Contains(e.Test, "/") {
			broken = append(broken, e.Test)
		}
		if e.Action == "pass" && e.Test != "" && !strings.Contains(e.Test, "/") && e.Elapsed > slowTest.Seconds() {
			slow = append(slow, e.Test)
		}
	}
	if err != nil && len(broken) == 0 {
		return b, fmt.Errorf("the tests of %s do not run: %w", t.name, err)
	}
	if len(broken) > 0 { // what fails anyway catches nothing
		fmt.Printf("left out, for they fail without a mutant: %s\n", strings.Join(broken, ", "))
		b.skip = "^(" + strings.Join(broken, "|") + ")$"
	}
	if len(slow) > 0 {
		b.slow = "^(" + strings.Join(slow, "|") + ")$"
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return b, err
	}
	b.covered = map[string][]block{}
	for _, fields := range regexp.MustCompile(`(?m)^\S+/(\S+\.go):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		var n [5]int
		for i := range n {
			n[i], _ = strconv.Atoi(fields[i+2])
		}
		b.covered[fields[1]] = append(b.covered[fields[1]], block{n[0], n[1], n[2], n[3], n[4] > 0})
	}
	return b, nil
}

// runs says whether some test runs the code that a mutant changes.
func (b baseline) runs(m mutant) bool {
	for _, k := range b.covered[filepath.Base(m.file)] {
		after := m.line > k.fromLine || m.line == k.fromLine && m.column >= k.fromColumn
		before := m.line < k.toLine || m.line == k.toLine && m.column < k.toColumn
		if after && before && !k.hit {
			return false
		}
	}
	return true
}

// test builds the package's tests with a mutant in it and runs them, the short ones
// first. It returns which one has failed.
func (r *runner) test(t target, b baseline, m mutant) (is outcome, by string, err error) {
	path := filepath.Join(r.root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	changed, overlay, binary := filepath.Join(r.temp, "mutant.go"), filepath.Join(r.temp, "overlay.json"), filepath.Join(r.temp, "tests")
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", "", err
	}
	build := r.command(r.root, "go", "test", "-c", "-overlay="+overlay, "-o", binary, "./"+t.name)
	if err := build.Run(); err != nil {
		if errors.As(err, new(*exec.ExitError)) {
			return invalid, "", nil
		}
		return "", "", err
	}
	if !b.runs(m) {
		return uncovered, "", nil
	}
	skip := func(patterns ...string) string {
		return "-test.skip=" + strings.Join(slices.DeleteFunc(patterns, func(p string) bool { return p == "" }), "|")
	}
	rounds := [][]string{{skip(b.skip, b.slow)}}
	if b.slow != "" {
		rounds = append(rounds, []string{"-test.run=" + b.slow})
	}
	for _, round := range rounds {
		// Far longer than they took: a mutant that does not end is caught, a busy
		// machine catches none. What eats up the memory is stopped too.
		limit := strconv.Itoa(int((5*b.took + time.Minute).Seconds()))
		args := append([]string{"-c", `ulimit -v 16000000; exec timeout -k 10 "$@"`, "sh", limit, binary, "-test.failfast"}, round...)
		out, err := r.command(filepath.Join(r.root, t.name), "sh", args...).CombinedOutput()
		exit := (*exec.ExitError)(nil)
		switch {
		case errors.As(err, &exit):
			if code := exit.ExitCode(); code == 124 || code == 137 {
				return caught, "does not end", nil
			}
			if f := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindSubmatch(out); f != nil {
				return caught, string(f[1]), nil
			}
			return caught, "panic", nil
		case err != nil:
			return "", "", err
		}
	}
	return survived, "", nil
}

func (r *runner) command(dir, name string, args ...string) *exec.Cmd {
	all := slices.Concat(r.wrap, []string{name}, args)
	c := exec.Command(all[0], all[1:]...)
	c.Dir = dir
	return c
}

// readEquivalent reads lines of a mutant's key, a tab, and the reason.
func readEquivalent(text string) (map[string]string, error) {
	same := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, reason, ok := strings.Cut(line, "\t")
		if !ok || reason == "" {
			return nil, fmt.Errorf("equivalent.txt: want a mutant, a tab and the reason: %s", line)
		}
		same[key] = reason
	}
	return same, nil
}

// survivors returns the keys of the mutants that survive in the output of a run.
func survivors(path string) (keys []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, ok := strings.CutPrefix(lines.Text(), "key: "); ok {
			keys = append(keys, key)
		}
	}
	return keys, lines.Err()
}
