package svm

import (
	"strings"
	"testing"
)

func TestSetRefuses(t *testing.T) {
	for want, set := range map[string][2]string{
		"of a kernel":  {"noise", "none"},
		"not negative": {"drop-q", "-1"},
		"not a number": {"keep", "half"},
		"positive":     {"epochs", "0"},
		"want dropsvm": {"loss", "hinge"},
	} {
		c := DefaultConfig()
		if err := c.Set(set[0], set[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
