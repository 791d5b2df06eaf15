package svm

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that outlives a call fails the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
