package health_test

import (
	"math"
	"testing"

	"blankout/online/health"
)

// TestDriftReportsBeforeAndAfter checks that an alarm has the mean loss before the change, over the events before it
// only, and the mean loss after the change, over the events since.
func TestDriftReportsBeforeAndAfter(t *testing.T) {
	var d health.Detector
	event := uint64(0)
	for event < 2000 {
		event++
		d.Take(0.25, 1, event)
	}
	for alarm := false; !alarm && event < 3000; {
		event++
		alarm = d.Take(1.25, 1, event)
	}
	// The mean loss rises slowly after the change, so the loss of each event exceeds the mean by a little less than 1.
	r := d.Report()
	if r.Alarms != 1 || r.Event < 2000+health.DriftAlarm || r.Event > 2000+health.DriftAlarm*5/4 {
		t.Fatalf("no alarm, or not in time: %+v", r)
	}
	if math.Abs(r.Before-0.25) > 1e-9 || math.Abs(r.After-1.25) > 1e-9 {
		t.Errorf("mean loss %v before and %v after the change, want 0.25 and 1.25", r.Before, r.After)
	}
	if r.Excess != 0 {
		t.Errorf("the excess is %v after an alarm", r.Excess)
	}
}
