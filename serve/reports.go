package serve

// This file stores the reports of validations.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"blankout/batch"
)

// Reports stores the newest validation reports in memory and as JSON files ID.json in a directory. It is safe for
// concurrent use.
type Reports struct {
	directory string // "" keeps reports in memory only
	keep      int

	mu   sync.Mutex
	list []*batch.Validation // reports, newest first
}

// OpenReports reads the reports of a directory, which need not exist. The result foreign has the names of files that
// are not reports; these files are ignored.
func OpenReports(directory string, keep int) (_ *Reports, foreign []string, err error) {
	r := &Reports{directory: directory, keep: keep}
	if directory == "" {
		return r, nil, nil
	}
	names, err := filepath.Glob(filepath.Join(directory, "*"+reportSuffix))
	if err != nil {
		return nil, nil, fmt.Errorf("reading reports: %w", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading reports: %w", err)
		}
		v := &batch.Validation{}
		if err := json.Unmarshal(data, v); err != nil || v.ID+reportSuffix != filepath.Base(name) {
			foreign = append(foreign, name)
			continue
		}
		r.list = append(r.list, v)
	}
	slices.SortFunc(r.list, func(a, b *batch.Validation) int { return cmp.Compare(b.ID, a.ID) })
	return r, foreign, nil
}

const reportSuffix = ".json"

// Add stores a report under its ID, and removes the oldest reports beyond the limit.
func (r *Reports) Add(v *batch.Validation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Insert(r.list, 0, v)
	var old []*batch.Validation
	if len(r.list) > r.keep {
		old = r.list[r.keep:]
		r.list = r.list[:r.keep:r.keep]
	}
	if r.directory == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("encoding a report: %w", err)
	}
	if err := os.MkdirAll(r.directory, 0o700); err != nil {
		return fmt.Errorf("keeping a report: %w", err)
	}
	if err := replaceFile(filepath.Join(r.directory, v.ID+reportSuffix), data); err != nil {
		return fmt.Errorf("keeping a report: %w", err)
	}
	for _, v := range old {
		if e := os.Remove(filepath.Join(r.directory, v.ID+reportSuffix)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing an old report: %w", e))
		}
	}
	return err
}

// List returns the reports, newest first. The caller must not change them.
func (r *Reports) List() []*batch.Validation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// Get returns the report with the given ID, the newest report for "latest", or nil.
func (r *Reports) Get(id string) *batch.Validation {
	for _, v := range r.List() {
		if v.ID == id || id == "latest" {
			return v
		}
	}
	return nil
}

// reportSummary is an entry in the response to GET /v1/reports.
type reportSummary struct {
	ID          string   `json:"id"`
	Time        string   `json:"time"`
	Records     uint64   `json:"records"`
	Coverage    float64  `json:"coverage"`
	Source      string   `json:"source"`
	Live        float64  `json:"objective_live"`
	Exact       float64  `json:"objective_exact"`
	RelativeGap *float64 `json:"relative_gap"`
	Certificate *float64 `json:"certificate"`
	LiveError   *float64 `json:"error_live"`
	ExactError  *float64 `json:"error_exact"`
	// LiveRMSE and ExactRMSE replace LiveError and ExactError for regression.
	LiveRMSE  *float64 `json:"rmse_live,omitempty"`
	ExactRMSE *float64 `json:"rmse_exact,omitempty"`
}

// answerList handles GET /v1/reports. answer handles GET /v1/reports/ID.
func (r *Reports) answerList(w http.ResponseWriter, _ *http.Request) bool {
	out := []reportSummary{}
	for _, v := range r.List() {
		s := reportSummary{v.ID, v.Time.Format("2006-01-02T15:04:05.000Z07:00"), v.Records, v.Coverage, v.Source,
			v.Live.Objective, v.Exact.Objective, v.RelativeGap, v.Certificate, v.Live.Error, v.Exact.Error, nil, nil}
		if live, exact := v.Live.NumbersReport, v.Exact.NumbersReport; live != nil && exact != nil {
			s.LiveRMSE, s.ExactRMSE = live.RMSE, exact.RMSE
		}
		out = append(out, s)
	}
	return reply(w, http.StatusOK, map[string]any{"reports": out})
}

func (r *Reports) answer(w http.ResponseWriter, req *http.Request) bool {
	v := r.Get(req.PathValue("id"))
	if v == nil {
		return fail(w, http.StatusNotFound, "no such report", req.URL.Path)
	}
	return reply(w, http.StatusOK, v)
}
