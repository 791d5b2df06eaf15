package online

import (
	"strings"
	"testing"

	"blankout/internal/event"
)

// A member of a group does not calibrate.
func TestCalibrateShared(t *testing.T) {
	c := DefaultConfig()
	if c = c.Shared(); c.CheckShared() != nil || c.Calibrate != "off" {
		t.Errorf("in a group calibrate is %q, %v", c.Calibrate, c.CheckShared())
	}
	c.Calibrate = "sometimes"
	if _, err := New(c, event.NewSchema(8, nil, 2)); err == nil || !strings.Contains(err.Error(), "auto, on or off") {
		t.Errorf("a calibrate that is none: %v", err)
	}
}
