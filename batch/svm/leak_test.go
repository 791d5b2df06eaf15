package svm

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the tests if a goroutine outlives a call.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
