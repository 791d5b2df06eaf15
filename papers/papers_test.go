package papers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestAll runs every experiment twice on the embedded samples. The second run must compute no cell and write the same
// files.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	for _, e := range All() {
		t.Run(e.Name, func(t *testing.T) {
			if slices.Contains([]string{"label-noise", "mnist-nightmare", "online"}, e.Name) {
				longtest.NotRaced(t) // these take longest; other experiments also run cells concurrently
			}
			out := filepath.Join(dir, e.Name)
			begin := time.Now()
			r := must.Get(Run(t.Context(), e, Options{Size: Quick, Out: out, Seed: 1}))(t)
			t.Logf("%.1f s", time.Since(begin).Seconds())
			if len(r.Claims) == 0 || len(r.Tables) == 0 || len(r.Figures) == 0 || r.Configuration == nil {
				t.Errorf("%d claims, %d tables, %d figures, configuration %v", len(r.Claims), len(r.Tables), len(r.Figures), r.Configuration)
			}
			for _, c := range r.Claims {
				if c.Verdict != NotDecided || c.Why == "" || c.Claim == "" {
					t.Errorf("the size quick decides a claim: %+v", c)
				}
			}
			for _, table := range r.Tables {
				for _, row := range table.Rows {
					if len(row) != len(table.Columns) {
						t.Fatalf("table %q: a row of %d in %d columns: %v", table.Title, len(row), len(table.Columns), row)
					}
				}
			}
			before := files(t, out)
			again := Options{Size: Quick, Out: out, Seed: 1, Threads: 1, Progress: func(p Status) {
				if p.Done != p.Reused {
					t.Errorf("cell %d of %d has been computed again", p.Done, p.Known)
				}
			}}
			must.Get(Run(t.Context(), e, again))(t)
			for name, data := range files(t, out) {
				if !bytes.Equal(data, before[name]) {
					t.Errorf("%s is another one after the second run", name)
				}
			}
		})
	}
	if longtest.Race {
		return // some experiments were skipped
	}
	must.Do(t, Index(dir))
	index := must.Get(os.ReadFile(filepath.Join(dir, "README.md")))(t)
	own := must.Get(os.ReadFile(filepath.Join(dir, ownClaims)))(t)
	for _, e := range All() {
		if !strings.Contains(string(index)+string(own), "("+e.Name+"/results.md)") {
			t.Errorf("the index does not know %s", e.Name)
		}
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	all := map[string][]byte{}
	for _, e := range entries {
		data := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		all[e.Name()] = data
	}
	return all
}

// counting returns an experiment of three cells. It fails at cell failAt.
func counting(computed *[]int, failAt int) Experiment {
	return Experiment{Name: "counting", Run: func(ctx context.Context, s *Setting) error {
		for i := range 3 {
			v, err := Cell(ctx, s, map[string]int{"n": i}, func() (int, error) {
				if i == failAt {
					return 0, errors.New("told to")
				}
				*computed = append(*computed, i)
				return 10 * i, nil
			})
			if err != nil {
				return err
			}
			if v != 10*i {
				return errors.New("another value")
			}
		}
		s.Configure(3)
		return nil
	}}
}

// TestResume checks that a run continues from the complete cells after a failure, and after it is killed in the middle
// of a line. A run with another seed must have other cells.
func TestResume(t *testing.T) {
	out := t.TempDir()
	var computed []int
	run := func(failAt int, seed uint64) error {
		computed = nil
		_, err := Run(t.Context(), counting(&computed, failAt), Options{Size: Default, Out: out, Seed: seed})
		return err
	}
	if err := run(2, 1); err == nil || !strings.Contains(err.Error(), "counting: told to") {
		t.Fatalf("error %v", err)
	}
	if err := run(-1, 1); err != nil || len(computed) != 1 || computed[0] != 2 {
		t.Fatalf("after a failure: computed %v, %v", computed, err)
	}
	name := filepath.Join(out, "cells.jsonl")
	data := must.Get(os.ReadFile(name))(t)
	must.Do(t, os.WriteFile(name, data[:len(data)-7], 0o666))
	if err := run(-1, 1); err != nil || len(computed) != 1 || computed[0] != 2 {
		t.Fatalf("after a kill: computed %v, %v", computed, err)
	}
	if err := run(-1, 2); err != nil || len(computed) != 3 {
		t.Fatalf("with another seed: computed %v, %v", computed, err)
	}
	must.Do(t, os.WriteFile(name, []byte("{}\nnonsense\n"), 0o666))
	if err := run(-1, 1); err == nil || !strings.Contains(err.Error(), "cells.jsonl:2:") {
		t.Fatalf("damaged cells: error %v", err)
	}
}

// TestCancel checks that a canceled run reports the cancellation, and that its cells are stored.
func TestCancel(t *testing.T) {
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	e := Experiment{Name: "stopped", Run: func(ctx context.Context, s *Setting) error {
		return s.Parallel(ctx, 100, func(ctx context.Context, i int) error {
			_, err := Cell(ctx, s, i, func() (int, error) {
				if i == 5 {
					cancel()
				}
				if i > 5 { // so that the other thread computes no further cells
					<-ctx.Done()
				}
				return i, nil
			})
			return err
		})
	}}
	if _, err := Run(ctx, e, Options{Size: Default, Out: out, Threads: 2}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	data, err := os.ReadFile(filepath.Join(out, "cells.jsonl"))
	if n := bytes.Count(data, []byte("\n")); err != nil || n < 5 || n > 8 {
		t.Errorf("%d cells, %v", n, err)
	}
	if _, err := os.Stat(filepath.Join(out, "results.json")); err == nil {
		t.Error("there are results")
	}
}

// TestDecisive checks that claims are decided only by complete data sets.
func TestDecisive(t *testing.T) {
	out := t.TempDir()
	e := Experiment{Name: "claiming", Run: func(_ context.Context, s *Setting) error {
		s.Claim(Claim{Claim: "one and one are two", Verdict: Holds(true), Why: "never"})
		s.Claim(Claim{Claim: "one and one are three", Verdict: Holds(false), Why: "they are two"})
		s.Claim(Claim{Claim: "it rains more", Parts: []Part{above("here", Difference{1, 0.5, 1.5}, 0).against(2, 0.1)}})
		s.Claim(Claim{Claim: "it snows less", Verdict: NotComparable, Why: "another place", Parts: []Part{above("here", Difference{1, 0.5, 1.5}, 0).against(2, 0.1)}})
		s.Table(ResultTable{Title: "sums", Columns: []string{"of", "is"}, Rows: [][]any{{"1+1", 2.0}, {"0/0", nil}}, Digits: 1})
		s.Table(ResultTable{Title: "hidden", Columns: []string{"n"}, Rows: [][]any{{1}}, Detail: true})
		return nil
	}}
	for size, want := range map[Size]Verdict{Quick: NotDecided, Default: Reproduced, Full: Reproduced} {
		r, err := Run(t.Context(), e, Options{Size: size, Out: out})
		if err != nil || r.Claims[0].Verdict != want {
			t.Errorf("%s: %+v, %v", size, r, err)
		}
		if c := r.Claims[3]; size != Quick && (c.Verdict != NotComparable || c.Why != "another place" || c.Printed != Printed{}) || size == Quick && c.Verdict != NotDecided {
			t.Errorf("%s: %+v, of an experiment that is not the paper's", size, c)
		}
		if why := [2]string{r.Claims[0].Why, r.Claims[1].Why}; size != Quick && why != [2]string{"", "they are two"} {
			t.Errorf("%s: why %q", size, why)
		}
		data, err := os.ReadFile(filepath.Join(out, "results.json"))
		var back Result
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || !reflect.DeepEqual(back.Claims, r.Claims) {
			t.Errorf("results.json: %+v, %v", back, err)
		}
		if text := r.Markdown(); !strings.Contains(text, "| 1+1 | 2.0 |\n| 0/0 | |\n") || strings.Contains(text, "hidden") {
			t.Errorf("results.md:\n%s", text)
		}
		if text := r.Lines(); !strings.HasPrefix(text, string(want)+": "+r.Claims[0].Claim) || strings.Count(text, "\n") != len(r.Claims) {
			t.Errorf("lines:\n%s", text)
		}
	}
}

func TestMissingFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(t.Context(), quadraticPenalty, Options{Size: Default, Data: dir, Out: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), dir+": there is no folder news_athr, which experiment quadratic-penalty needs") {
		t.Errorf("error %v", err)
	}
}
