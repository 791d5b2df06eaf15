package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestRegressionTable checks the table of numeric targets in docs/quality.md. The table must show the program's current
// results on the streams in their original order. The errors of every peer must be larger.
func TestRegressionTable(t *testing.T) {
	longtest.NotRaced(t)
	program := buildProgram(t)
	text := must.Get(os.ReadFile("../docs/quality.md"))(t)
	_, table, ok := strings.Cut(string(text), "\n| regressor | ChickWeights (River)")
	must.Require(t, ok, "docs/quality.md has no table of regressors")
	table, _, _ = strings.Cut(table, "\n\n")
	streams := []string{"chick_weights", "trump_approval", "diabetes"}
	ours, peers := make([]float64, len(streams)), 0
	for i, name := range streams {
		out := must.Get(exec.Command(program, "train", "--solver", "online", "--loss", "squared", "-d", "testdata/numbers/"+name+".jsonl.gz", "-q", "--json").Output())(t)
		var told struct {
			MAE float64 `json:"progressive_mae"`
		}
		must.Do(t, json.Unmarshal(out, &told))
		ours[i] = told.MAE
	}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			continue
		}
		name := strings.TrimSpace(cells[1])
		for i, stream := range streams {
			cell, _, _ := strings.Cut(strings.TrimSpace(cells[2+i]), " / ")
			told, err := strconv.ParseFloat(cell, 64)
			switch {
			case err != nil:
				continue // rows above the table of numeric targets
			case name == "blankout squared" && cell != fmt.Sprintf("%.4g", ours[i]):
				t.Errorf("%s: %v in the table, %.4g today", stream, cell, ours[i])
			case strings.HasPrefix(name, "vw ") || strings.HasPrefix(name, "river "):
				peers++
				must.True(t, told > ours[i], "%s: %s %v is no worse than ours %.4g", stream, name, told, ours[i])
			}
		}
	}
	must.True(t, peers >= 3*len(streams), "%d numbers of peers found", peers)
}
