package run_test

import (
	"testing"
	"testing/synctest"
	"time"

	"blankout/batch"
	"blankout/internal/must"
)

// TestAdoptWhileReporting checks a solution that is ready when the time limit ends, but whose report is still being
// sent. The solution must be adopted, so that report and decision agree.
func TestAdoptWhileReporting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startOne(t, t.TempDir(), 500, 1)
		reports := s.adopting(400, at0)
		s.Validator.Config.AdoptWait = time.Minute
		report := s.Report
		s.Report = func(r *batch.Validation) error {
			time.Sleep(2 * time.Minute)
			return report(r)
		}
		must.Do(t, s.Run(t.Context()))
		if v := s.Status().Validation; len(*reports) != 1 || !(*reports)[0].Adopted || v.Adopted != 1 || v.TimedOut != 0 {
			t.Errorf("%d reports, %+v", len(*reports), v)
		}
	})
}
