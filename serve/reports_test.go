package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"blankout/batch"
	"blankout/internal/must"
	"blankout/serve"
)

// TestReports checks that the newest reports survive a restart. A file in the directory that is not a report must not
// be changed.
func TestReports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	reports, _ := must.Get2(serve.OpenReports(dir, 2))(t)
	for i := range 3 {
		gap := float64(i)
		r := &batch.Validation{ID: fmt.Sprintf("r%d", i), Records: uint64(i), RelativeGap: &gap}
		r.Live.Objective = 10 + gap
		must.Do(t, reports.Add(r))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "notes.json"), []byte("{}"), 0o644))
	// a partial file, as a crash leaves
	must.Do(t, os.WriteFile(filepath.Join(dir, "r9.json.tmp"), []byte(`{"id":"r9"`), 0o644))
	if runtime.GOOS != "windows" { // the files contain events, so only the owner may read them
		for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "r1.json"): 0o600} {
			info, err := os.Stat(name)
			must.True(t, err == nil && info.Mode().Perm() == want, "%s: %v, %v", name, info.Mode(), err)
		}
	}
	again, foreign, err := serve.OpenReports(dir, 2)
	must.Require(t, err == nil && len(foreign) == 1 && filepath.Base(foreign[0]) == "notes.json", "%v %v", foreign, err)
	files, _ := filepath.Glob(filepath.Join(dir, "r*.json"))
	must.Equal(t, len(files), 2, "kept files", files)

	_, service := learned(t)
	service.Reports = again
	asked := 0
	service.Validate = func() error {
		if asked++; asked > 1 {
			return fmt.Errorf("cannot")
		}
		return nil
	}
	url := start(t, serve.DefaultConfig(), service)
	status, text, _ := call(t, "GET", url+"/v1/reports", "")
	var list struct {
		Reports []struct {
			ID    string   `json:"id"`
			Gap   *float64 `json:"relative_gap"`
			Error *float64 `json:"error_live"`
		} `json:"reports"`
	}
	err = json.Unmarshal([]byte(text), &list)
	must.True(t, err == nil && status == http.StatusOK && len(list.Reports) == 2 &&
		list.Reports[0].ID == "r2" && *list.Reports[0].Gap == 2 && list.Reports[1].ID == "r1" && list.Reports[0].Error == nil, "%d %s %v", status, text, err)
	for path, want := range map[string]string{
		"r1": "200 1", "latest": "200 2", "r0": "404 0", "..%2Fr1": "404 0", "notes": "404 0", "": "404 0",
	} {
		status, text, _ := call(t, "GET", url+"/v1/reports/"+path, "")
		var r batch.Validation
		_ = json.Unmarshal([]byte(text), &r)
		must.Equal(t, fmt.Sprint(status, r.Records), want, path, text)
	}
	var answers []int
	for range 2 {
		status, _, _ := call(t, "POST", url+"/v1/validate", "")
		answers = append(answers, status)
	}
	must.EqualSlices(t, answers, []int{http.StatusAccepted, http.StatusConflict}, "asked for validations")
}
