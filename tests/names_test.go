package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"blankout/internal/must"
)

// former lists the public names that were renamed, by the kind of text in which they must not occur.
var former = struct {
	keys, flags, jsonFields, metrics, python []string
}{
	keys: []string{
		"group.base_every", "http.unknown", "kafka.duplicates", "kafka.unlabelled_topics", "labels.default", "labels.idle", "labels.late", "labels.wait",
		"learner.alpha", "learner.covariance_fields", "learner.eta", "learner.horizon", "learner.missing", "learner.refresh", "learner.refresh_window",
		"learner.rule", "learner.standardise", "learner.suspect", "record.known", "suspect.file", "suspect.topic",
	},
	flags: []string{
		"alpha", "covariance-fields", "eta", "known", "missing", "refresh", "refresh-window", "rule", "standardise", "unknown", "unlabelled",
	},
	jsonFields: []string{
		"base_at", "base_hash", "base_offset", "baseline_mae", "by_age", "centre", "events_again", "labelled", "ledger_lag", "ledger_offset", "level",
		"levels_by_share", "odd_times", "rebase_seconds", "rule", "rules", "share", "shares", "suspects", "unknown", "unlabelled",
	},
	metrics: []string{
		"blankout_aged_", "blankout_expert_share", "blankout_figure", "blankout_group_base_", "blankout_group_events_again", "blankout_group_ledger_",
		"blankout_group_rebase_", "blankout_group_replica_mismatch", "blankout_labels_odd_times", "blankout_suspect",
	},
	python: []string{"Unsayable", "last_trouble", "standardise", ".trouble", "answer.rule", "answer.level", "answer.shares", "answer.unknown", "model.unknown"},
}

// published returns the files that users read or that their programs depend on.
func published(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("no git checkout: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		switch {
		case name == "config/fixed.go" || name == "tests/names_test.go" || strings.HasPrefix(name, "docs/results/") || strings.HasPrefix(name, "deploy/testdata/"):
			continue
		}
		switch filepath.Ext(name) {
		case ".go", ".md", ".toml", ".yaml", ".yml", ".json", ".js", ".html", ".py", ".ipynb", ".txtar", ".sh", ".tpl":
			names = append(names, name)
		}
	}
	must.Require(t, len(names) >= 500, "only %d files", len(names))
	return names
}

// TestFormerNames checks that no former public name is left in code, documents or help. Former keys, flags and metrics
// must occur nowhere. Former JSON fields must not occur in Go tags or in code font. Former Python names must not occur
// in the package or on its page. Only config/fixed.go may contain former names, because the error for a former key or
// flag gives the new name.
func TestFormerNames(t *testing.T) {
	quoted := func(names []string) string {
		var out []string
		for _, name := range names {
			out = append(out, regexp.QuoteMeta(name))
		}
		return strings.Join(out, "|")
	}
	keys := regexp.MustCompile(`(?:^|[^\w.-])(?:` + quoted(former.keys) + `)(?:$|[^\w.(-])`)
	flags := regexp.MustCompile(`(?:^|[^\w-])--(?:` + quoted(former.flags) + `)(?:$|[^\w-])`)
	metrics := regexp.MustCompile(`\b(?:` + quoted(former.metrics) + `)`)
	tags := regexp.MustCompile(`json:"(?:` + quoted(former.jsonFields) + `)[",]`)
	code := regexp.MustCompile("`(?:" + quoted(former.jsonFields) + "|as-is)`")
	python := regexp.MustCompile(`(?:^|[^\w])(?:` + quoted(former.python) + `)\b`)
	variables := make([]string, len(former.keys))
	for i, key := range former.keys {
		variables[i] = "BLANKOUT_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	}
	environment := regexp.MustCompile(`\b(?:` + quoted(variables) + `)\b`)
	// A test script for the rejection of a former name contains "code 2" and the new name. Such lines are exempt.
	explains := regexp.MustCompile(`renamed to|^code 2 `)
	for _, name := range published(t) {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			continue // deleted, but not committed yet
		}
		ext, papers := filepath.Ext(name), strings.HasPrefix(name, "papers/")
		line := 0
		for row := range strings.Lines(string(text)) {
			line++
			for what, found := range map[string]bool{
				"key":      keys.MatchString(row),
				"variable": environment.MatchString(row),
				"flag":     flags.MatchString(row),
				"metric":   metrics.MatchString(row),
				"field":    ext == ".go" && !papers && tags.MatchString(row) || ext == ".md" && code.MatchString(row),
				"name":     (strings.HasPrefix(name, "python/") || name == "docs/python.md") && python.MatchString(row),
			} {
				if found && !explains.MatchString(row) {
					t.Errorf("%s:%d: an old %s: %.200s", name, line, what, strings.TrimSpace(row))
				}
			}
		}
	}
}
